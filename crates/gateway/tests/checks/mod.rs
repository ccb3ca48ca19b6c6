//! Properties of all inputs that a client can send. The fuzz targets, the replay of their corpora and the property tests
//! check them.

#![allow(clippy::unwrap_used, clippy::panic)]

use table_service_documents::{Unknown, read_policies, read_properties, write_policies};
use table_service_gateway::request::batch::{self, Batch, InnerRequest};
use table_service_gateway::request::resource::{EntityAddress, Resource};
use table_service_gateway::request::target::Target;
use table_service_gateway::request::{Host, token};
use table_service_gateway::response::odata::Base;

/// The first line is the Content-Type, the rest the body of a batch. It is read or refused. If it is read, its parts lie
/// in the body, and written again it is read as the same batch.
pub fn batch(bytes: &[u8]) {
    let end = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
    let content_type = String::from_utf8_lossy(&bytes[..end]);
    let body = bytes.get(end + 1..).unwrap_or_default();
    let Ok(read) = batch::read(Some(content_type.trim()), body) else {
        return;
    };
    let requests = match &read {
        Batch::Changes { requests, .. } => requests.as_slice(),
        Batch::Read(request) => std::slice::from_ref(request),
    };
    for request in requests {
        assert!(request.body.is_empty() || body.as_ptr_range().contains(&request.body.as_ptr()));
        let _ = request.resource("account");
        let _ = request.query().get("$format");
    }
    // A body that contains our own boundaries cannot be written between them.
    let holds = |needle: &[u8]| body.windows(needle.len()).any(|window| window == needle);
    if holds(b"--outer") || holds(b"--inner") {
        return;
    }
    let again = write(&read);
    assert_eq!(batch::read(Some("multipart/mixed; boundary=outer"), &again), Ok(read));
}

fn write(batch: &Batch<'_>) -> Vec<u8> {
    let mut body = b"--outer\r\n".to_vec();
    match batch {
        Batch::Changes { requests, further } => {
            body.extend_from_slice(b"Content-Type: multipart/mixed; boundary=inner\r\n\r\n");
            for request in requests {
                body.extend_from_slice(b"--inner\r\n");
                write_request(&mut body, request);
            }
            body.extend_from_slice(b"--inner--\r\n");
            for _ in 0..*further {
                body.extend_from_slice(
                    b"--outer\r\nContent-Type: multipart/mixed; boundary=other\r\n\r\n--other--\r\n",
                );
            }
        }
        Batch::Read(request) => write_request(&mut body, request),
    }
    body.extend_from_slice(b"--outer--\r\n");
    body
}

fn write_request(out: &mut Vec<u8>, request: &InnerRequest<'_>) {
    // X-HTTP-Method was read as the method; it is written as it was.
    let method = if request.headers.contains_key("x-http-method") {
        "POST"
    } else {
        request.method.as_str()
    };
    out.extend_from_slice(b"Content-Type: application/http\r\n\r\n");
    out.extend_from_slice(format!("{method} {} HTTP/1.1\r\n", request.url).as_bytes());
    for (name, value) in &request.headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(request.body);
    out.extend_from_slice(b"\r\n");
}

/// Any path is read or refused. Keys from a path are read back from the link that is made of them.
pub fn url(path: &str) {
    for host in ["127.0.0.1:10002", "account.table.localhost"] {
        let host = Host::parse(host).unwrap();
        let Some(target) = Target::parse(&host, path) else {
            continue;
        };
        let Ok(Resource::Entity(address)) = Resource::parse(target.path) else {
            continue;
        };
        let _ = (address.check_for_read(), address.check_for_write());
        round_trip(&address);
    }
}

fn round_trip(address: &EntityAddress) {
    let EntityAddress {
        table,
        partition_key,
        row_key,
    } = address;
    if !table.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return;
    }
    let base = Base {
        url: "http://h".to_owned(),
        account: "a".to_owned(),
    };
    let link = base.entity_url(table, partition_key, row_key);
    assert!(link.bytes().all(|b| (b'!'..=b'~').contains(&b)), "{link}");
    let path = link.strip_prefix("http://h/").unwrap();
    assert_eq!(Resource::parse(path), Ok(Resource::Entity(address.clone())));
}

/// Any key that PostgreSQL can hold is decoded from its token. Any text is a token or is refused.
pub fn token(text: &str) {
    assert_eq!(
        token::open(&token::seal(text)).ok().as_deref(),
        (text.len() < 2000 && !text.contains('\0')).then_some(text)
    );
    if let Ok(key) = token::open(text) {
        assert_eq!(token::open(&token::seal(&key)), Ok(key));
    }
}

/// Any text is read as a document or refused. A document that was read is written as one that reads the same.
pub fn xml(text: &str) {
    if let Ok(policies) = read_policies(text, Unknown::Refused) {
        let again = write_policies(&policies).unwrap();
        assert_eq!(read_policies(&again, Unknown::Refused), Ok(policies), "{again}");
    }
    let _ = read_properties(text, Unknown::Refused).map(|change| change.check());
}
