//! Responses to entity group transactions: responses in a multipart body (semantics 5.3, 5.4).

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderName, StatusCode};
use uuid::Uuid;

use super::reply::Reply;

/// The headers of a part in the service's order and spelling. Some clients read parts with regular expressions, and old
/// ones compare names with case.
const SPELLED: [&str; 7] = [
    "X-Content-Type-Options",
    "Cache-Control",
    "Preference-Applied",
    "Content-Type",
    "Location",
    "DataServiceId",
    "ETag",
];
/// So many of them come before the DataServiceVersion.
const BEFORE_VERSION: usize = 3;

/// The response to one operation.
#[derive(Debug)]
pub struct Part {
    pub reply: Reply,
    /// The DataServiceVersion: `1.0;` without data, else `3.0;`.
    pub version: &'static str,
    /// The Content-ID of the operation. Some clients find its response by it.
    pub content_id: Option<HeaderValue>,
}

/// Returns the whole response: a part for every operation of the change set, and one for every further change set, which is
/// refused. Parts are dropped as they are written, so that the entities in them are not in memory twice.
pub fn changes(parts: Vec<Part>, refused: &[Part]) -> Reply {
    let boundary = boundary();
    let changes = format!("changesetresponse_{}", Uuid::new_v4());
    let mut body = Vec::with_capacity(512 + 512 * parts.len());
    open(&mut body, &boundary);
    let head = format!("Content-Type: multipart/mixed; boundary={changes}\r\n\r\n");
    write(&mut body, &[head.as_bytes()]);
    for part in parts {
        open(&mut body, &changes);
        write_part(&mut body, &part);
    }
    close(&mut body, &changes);
    for part in refused {
        open(&mut body, &boundary);
        write_part(&mut body, part);
    }
    whole(body, &boundary)
}

/// Returns the whole response to a point query.
pub fn read(part: Part) -> Reply {
    let boundary = boundary();
    let mut body = Vec::with_capacity(part.reply.body.len() + 1024);
    open(&mut body, &boundary);
    write_part(&mut body, &part);
    drop(part);
    whole(body, &boundary)
}

fn boundary() -> String {
    format!("batchresponse_{}", Uuid::new_v4())
}

fn open(body: &mut Vec<u8>, boundary: &str) {
    write(body, &[b"--", boundary.as_bytes(), b"\r\n"]);
}

fn close(body: &mut Vec<u8>, boundary: &str) {
    write(body, &[b"--", boundary.as_bytes(), b"--\r\n"]);
}

fn whole(mut body: Vec<u8>, boundary: &str) -> Reply {
    close(&mut body, boundary);
    Reply::new(StatusCode::ACCEPTED)
        .with_text(CONTENT_TYPE, &format!("multipart/mixed; boundary={boundary}"))
        .of_data()
        .with_body(body)
}

fn write_part(body: &mut Vec<u8>, part: &Part) {
    let Part {
        reply,
        version,
        content_id,
    } = part;
    let reason = reply.status.canonical_reason().unwrap_or_default();
    let status = format!("HTTP/1.1 {} {reason}\r\n", reply.status.as_u16());
    write(
        body,
        &[
            b"Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n",
            status.as_bytes(),
        ],
    );
    header(body, "Content-ID", content_id.as_ref());
    let (before, behind) = SPELLED.split_at(BEFORE_VERSION);
    let others = reply.headers.keys().map(HeaderName::as_str);
    let others = others.filter(|name| !SPELLED.iter().any(|spelled| spelled.eq_ignore_ascii_case(name)));
    for name in before {
        header(body, name, reply.headers.get(*name));
    }
    write(body, &[b"DataServiceVersion: ", version.as_bytes(), b"\r\n"]);
    for name in behind.iter().copied().chain(others) {
        header(body, name, reply.headers.get(name));
    }
    write(body, &[b"\r\n", &reply.body, b"\r\n"]);
}

/// Writes a header, if there is one of the name.
fn header(body: &mut Vec<u8>, name: &str, value: Option<&HeaderValue>) {
    if let Some(value) = value {
        write(body, &[name.as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
}

fn write(body: &mut Vec<u8>, pieces: &[&[u8]]) {
    for piece in pieces {
        body.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_services_framing() {
        let part = Part {
            reply: Reply::no_content().with_text(http::header::ETAG, "W/\"x\""),
            version: "1.0;",
            content_id: Some(HeaderValue::from_static("7")),
        };
        let reply = changes(vec![part], &[]);
        let outer = reply.headers.get("content-type").unwrap().to_str().unwrap();
        let outer = outer.strip_prefix("multipart/mixed; boundary=").unwrap();
        let text = String::from_utf8(reply.body.to_vec()).unwrap();
        let inner = text.split("boundary=").nth(1).unwrap().split("\r\n").next().unwrap();
        assert_eq!(
            text,
            format!(
                "--{outer}\r\nContent-Type: multipart/mixed; boundary={inner}\r\n\r\n--{inner}\r\n\
                 Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
                 HTTP/1.1 204 No Content\r\nContent-ID: 7\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\n\
                 DataServiceVersion: 1.0;\r\nETag: W/\"x\"\r\n\r\n\r\n--{inner}--\r\n--{outer}--\r\n"
            )
        );
        assert_eq!(reply.status, 202);
    }
}
