//! Entity group transactions: requests in a multipart body (semantics 5.1).

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use table_service_model::{Error, RequestError};

use super::headers::{header, meant_method};
use super::media_type;
use super::multipart::Parts;
use super::resource::Resource;

/// A request within a batch.
#[derive(Debug, PartialEq, Eq)]
pub struct InnerRequest<'b> {
    pub method: Method,
    /// The URL as in the request line.
    pub url: &'b str,
    pub headers: HeaderMap,
    pub body: &'b [u8],
}

/// The content of a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum Batch<'b> {
    /// The operations of one change set, and the number of further change sets, which the service refuses.
    Changes {
        requests: Vec<InnerRequest<'b>>,
        further: usize,
    },
    /// A point query, which is alone in its batch.
    Read(InnerRequest<'b>),
}

const BLANK: [char; 2] = [' ', '\t'];
/// Most headers of a part, and of the request in it.
const MAX_HEADERS: usize = 64;
/// Most operations, and most change sets, that are read. The service already refuses fewer; the rest is only counted to
/// report the right error.
const MAX_CHANGES: usize = 1000;

/// Reads the body of a batch.
///
/// # Errors
/// `MediaTypeNotSupported` if the Content-Type is not multipart with a boundary; `InvalidInput` if the body does not match
/// it.
pub fn read<'b>(content_type: Option<&str>, body: &'b [u8]) -> Result<Batch<'b>, RequestError> {
    let boundary = content_type
        .and_then(media_type::boundary)
        .ok_or(RequestError::MediaTypeNotSupported)?;
    let mut parts = parts(body, &boundary)?;
    let Some(first) = next_part(&mut parts)? else {
        return Err(malformed("The batch is empty"));
    };
    let boundary = |part: &Part<'_>| header(&part.headers, "content-type").and_then(media_type::boundary);
    if let Some(of_changes) = boundary(&first) {
        let requests = read_changes(first.body, &of_changes)?;
        let mut further = 0;
        while let Some(part) = next_part(&mut parts)? {
            boundary(&part).ok_or_else(|| malformed("A query stands alone in its batch"))?;
            further += 1;
            if further > MAX_CHANGES {
                return Err(malformed("There are too many change sets"));
            }
        }
        return Ok(Batch::Changes { requests, further });
    }
    let request = read_request(&first)?;
    if request.method != Method::GET {
        return Err(malformed("A change stands in a change set"));
    }
    if next_part(&mut parts)?.is_some() {
        return Err(malformed("A query stands alone in its batch"));
    }
    Ok(Batch::Read(request))
}

fn read_changes<'b>(body: &'b [u8], boundary: &str) -> Result<Vec<InnerRequest<'b>>, RequestError> {
    let mut parts = parts(body, boundary)?;
    let mut requests = Vec::new();
    while let Some(part) = next_part(&mut parts)? {
        let request = read_request(&part)?;
        if request.method == Method::GET {
            return Err(malformed("A query stands alone in its batch"));
        }
        requests.push(request);
        if requests.len() > MAX_CHANGES {
            break;
        }
    }
    Ok(requests)
}

fn parts<'b>(body: &'b [u8], boundary: &str) -> Result<Parts<'b>, RequestError> {
    Parts::new(body, boundary).map_err(malformed)
}

/// A part: its headers and its content.
struct Part<'b> {
    headers: HeaderMap,
    body: &'b [u8],
}

fn next_part<'b>(parts: &mut Parts<'b>) -> Result<Option<Part<'b>>, RequestError> {
    let part = parts.next(length).map_err(malformed)?;
    let Some(part) = part else { return Ok(None) };
    let (headers, body) = read_headers(part).ok_or_else(|| malformed("The headers of a part do not parse"))?;
    Ok(Some(Part { headers, body }))
}

/// Returns the least length of the part at the beginning of these bytes, by the Content-Length of the request in it.
fn length(bytes: &[u8]) -> Option<usize> {
    let (_, request) = read_headers(bytes)?;
    let (_, line_end) = line(request)?;
    let (headers, body) = read_headers(request.get(line_end..)?)?;
    let length: usize = header(&headers, "content-length")?.parse().ok()?;
    (bytes.len() - body.len()).checked_add(length)
}

/// Splits bytes into headers and the part after the empty line.
fn read_headers(bytes: &[u8]) -> Option<(HeaderMap, &[u8])> {
    match parse_headers(bytes)? {
        Some((headers, end)) => Some((headers, bytes.get(end..)?)),
        // The empty line may be missing, because its line end counts as part of the boundary.
        None => {
            let mut closed = bytes.to_vec();
            closed.extend_from_slice(if bytes.is_empty() || bytes.ends_with(b"\n") {
                b"\r\n"
            } else {
                b"\r\n\r\n"
            });
            let (headers, _) = parse_headers(&closed)??;
            Some((headers, &[]))
        }
    }
}

/// Parses headers, and returns them and where they end. `Some(None)` if their end is missing, `None` if they are not
/// headers.
fn parse_headers(bytes: &[u8]) -> Option<Option<(HeaderMap, usize)>> {
    let mut parsed = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let httparse::Status::Complete((end, parsed)) = httparse::parse_headers(bytes, &mut parsed).ok()? else {
        return Some(None);
    };
    let mut headers = HeaderMap::with_capacity(parsed.len());
    for header in parsed.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    Some(Some((headers, end)))
}

/// Returns the first line without its end, and where the next one begins.
fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', bytes)?;
    let line = bytes.get(..end)?;
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

fn read_request<'b>(part: &Part<'b>) -> Result<InnerRequest<'b>, RequestError> {
    let content_type = header(&part.headers, "content-type").and_then(media_type::parse);
    if !content_type.is_some_and(|given| media_type::is(&given, &media_type::HTTP)) {
        return Err(malformed("A part of a batch is application/http"));
    }
    let read = || {
        let (request_line, end) = line(part.body)?;
        // The target is everything between the first and the last blank, because keys in it may contain blanks.
        let (method, rest) = std::str::from_utf8(request_line).ok()?.trim().split_once(BLANK)?;
        let (url, version) = rest.rsplit_once(BLANK)?;
        let url = url.trim_matches(BLANK);
        if url.is_empty() || !version.starts_with("HTTP/") {
            return None;
        }
        let method = Method::from_bytes(method.as_bytes()).ok()?;
        let rest = part.body.get(end..)?;
        // A request without headers and body may end with its first line.
        let (headers, body) = read_headers(rest)?;
        let body = match header(&headers, "content-length") {
            // The length excludes an additional line end, which some clients send before the boundary.
            Some(length) => body.get(..length.parse().ok()?)?,
            None => body,
        };
        Some((method, url, headers, body))
    };
    let (method, url, headers, body) = read().ok_or_else(|| malformed("A request in the batch does not parse"))?;
    Ok(InnerRequest {
        method: meant_method(&method, &headers)?,
        url,
        headers,
        body,
    })
}

impl InnerRequest<'_> {
    /// Returns the value of one of its headers, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Returns the Content-ID among the headers of the request. One among those of its part does not count.
    pub fn content_id(&self) -> Option<&HeaderValue> {
        self.headers.get("content-id")
    }

    /// Returns the resource of the URL. The URL is absolute, or relative to the host or to the account. Its query is ignored.
    pub fn resource(&self, account: &str) -> Result<Resource, Error> {
        let path = self.url.split(['?', '#']).next().unwrap_or_default();
        let path = match path.split_once("://") {
            Some((_, rest)) => rest.split_once('/').ok_or(RequestError::UriInvalid)?.1,
            None => path,
        };
        let path = path.trim_start_matches('/');
        // In path style the account comes first.
        let path = match path.split_once('/') {
            Some((first, rest)) if first.strip_suffix("-secondary").unwrap_or(first) == account => rest,
            _ => path,
        };
        Resource::parse(path)
    }

    /// Returns the query of the URL.
    pub fn query(&self) -> super::query::Query {
        super::query::Query::parse(self.url.split_once('?').map_or("", |(_, query)| query))
    }
}

fn malformed(reason: &str) -> RequestError {
    RequestError::MalformedBatch {
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: Option<&str> = Some("multipart/mixed; boundary=batch_1");

    fn changes(requests: &[&str]) -> String {
        let parts: String = requests
            .iter()
            .map(|request| {
                format!(
                    "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n{request}\r\n"
                )
            })
            .collect();
        format!("--batch_1\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--batch_1--\r\n")
    }

    fn read_changes_of(body: &str) -> Vec<(String, String, String)> {
        match read(TYPE, body.as_bytes()).unwrap() {
            Batch::Changes { requests, .. } => requests
                .iter()
                .map(|request| {
                    let body = String::from_utf8(request.body.to_vec()).unwrap();
                    (request.method.to_string(), request.url.to_owned(), body)
                })
                .collect(),
            Batch::Read(_) => panic!("a read"),
        }
    }

    fn of(method: &str, url: &str, body: &str) -> (String, String, String) {
        (method.to_owned(), url.to_owned(), body.to_owned())
    }

    #[test]
    fn requests_are_found_in_order_with_their_bodies() {
        let body = changes(&[
            "POST http://h/a/t HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{\"v\":\r\n1}",
            "DELETE /t(PartitionKey='p',RowKey='r') HTTP/1.1\r\nIf-Match: *\r\n\r\n",
            "PUT t(PartitionKey='p',RowKey='s') HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}\r\n",
            "POST t(PartitionKey='p',RowKey='u') HTTP/1.1\r\nX-HTTP-Method: MERGE\r\n\r\n{}",
            "DELETE t HTTP/1.1\r\n",
            "DELETE u HTTP/1.1\r\nIf-Match: *\r\n",
            "PUT  /t(PartitionKey='a b', RowKey='c') HTTP/1.1\r\n\r\n{}",
        ]);
        let expected = vec![
            of("POST", "http://h/a/t", "{\"v\":\r\n1}"),
            of("DELETE", "/t(PartitionKey='p',RowKey='r')", ""),
            of("PUT", "t(PartitionKey='p',RowKey='s')", "{}"),
            of("MERGE", "t(PartitionKey='p',RowKey='u')", "{}"),
            of("DELETE", "t", ""),
            of("DELETE", "u", ""),
            of("PUT", "/t(PartitionKey='a b', RowKey='c')", "{}"),
        ];
        assert_eq!(read_changes_of(&body), expected);
        assert_eq!(read_changes_of(&body.replace("\r\n", "\n")), {
            let mut expected = expected;
            expected[0].2 = "{\"v\":\n1}".to_owned();
            expected
        });
    }

    #[test]
    fn a_length_protects_a_body_that_holds_the_boundary() {
        let content = "{\"a\":\"\"}\r\n--c\r\n";
        let length = content.len();
        let request = format!("POST t HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{content}");
        assert_eq!(read_changes_of(&changes(&[&request])), [of("POST", "t", content)]);
    }

    #[test]
    fn a_read_stands_alone() {
        let part = "--batch_1\r\nContent-Type: application/http\r\n\r\nGET http://h/a/t(PartitionKey='p',RowKey='r') HTTP/1.1\r\nAccept: x\r\n\r\n\r\n";
        let body = format!("{part}--batch_1--");
        assert!(matches!(read(TYPE, body.as_bytes()), Ok(Batch::Read(request)) if request.method == Method::GET));
        let twice = format!("{part}{part}--batch_1--");
        assert!(matches!(
            read(TYPE, twice.as_bytes()),
            Err(RequestError::MalformedBatch { .. })
        ));
        let among_changes = changes(&["GET t HTTP/1.1\r\n\r\n"]);
        assert!(matches!(
            read(TYPE, among_changes.as_bytes()),
            Err(RequestError::MalformedBatch { .. })
        ));
    }

    #[test]
    fn an_empty_change_set_is_one() {
        let body = "--batch_1\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n--batch_1--\r\n";
        assert_eq!(
            read(TYPE, body.as_bytes()),
            Ok(Batch::Changes {
                requests: Vec::new(),
                further: 0
            })
        );
    }

    #[test]
    fn the_account_in_a_path_is_no_table() {
        for (url, table) in [
            ("https://a.table.core.windows.net/t", "t"),
            ("http://127.0.0.1:10002/a/t", "t"),
            ("http://127.0.0.1:10002/a-secondary/t?sv=x&sig=a/b", "t"),
            ("/t()", "t"),
            ("t", "t"),
            ("/a/t", "t"),
            ("a", "a"),
            ("http://127.0.0.1:10002//a//t/", "t"),
        ] {
            let request = InnerRequest {
                method: Method::POST,
                url,
                headers: HeaderMap::new(),
                body: b"",
            };
            assert_eq!(request.resource("a"), Ok(Resource::Entities(table.to_owned())), "{url}");
        }
    }

    #[test]
    fn what_is_no_batch_is_refused() {
        assert_eq!(
            read(Some("application/json"), b""),
            Err(RequestError::MediaTypeNotSupported)
        );
        assert_eq!(read(None, b""), Err(RequestError::MediaTypeNotSupported));
        let whole = changes(&["POST t HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"]);
        // Cut anywhere before the end of its last boundary, it is malformed, and nothing of it is executed.
        for end in 0..whole.len() - "--\r\n".len() {
            let cut = &whole.as_bytes()[..end];
            assert!(
                matches!(read(TYPE, cut), Err(RequestError::MalformedBatch { .. })),
                "{end}"
            );
        }
        for request in [
            "",
            "POST\r\n\r\n",
            "POST t\r\n\r\n",
            "POST t FTP/1\r\n\r\n",
            "POST t HTTP/1.1\r\nContent-Length: 9\r\n\r\n{}",
            "P(ST t HTTP/1.1\r\n\r\n",
            "POST t HTTP/1.1\r\nbad header\r\n\r\n",
        ] {
            assert!(
                matches!(
                    read(TYPE, changes(&[request]).as_bytes()),
                    Err(RequestError::MalformedBatch { .. })
                ),
                "{request}"
            );
        }
        let not_http = changes(&["POST t HTTP/1.1\r\n\r\n"]).replace("application/http", "text/plain");
        assert!(matches!(
            read(TYPE, not_http.as_bytes()),
            Err(RequestError::MalformedBatch { .. })
        ));
    }
}
