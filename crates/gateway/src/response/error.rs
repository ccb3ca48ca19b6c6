//! Error responses (semantics 3.5).

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::ext::ReasonPhrase;
use serde_json::json;
use table_service_model::Code;
use table_service_model::error::Stage;
use table_service_model::json::Metadata;
use uuid::Uuid;

use super::reply::{NOSNIFF, Reply};
use crate::clock::now;
use crate::failure::Failure;
use crate::request::negotiation::{Prefer, content_type};

/// The header with the code of an error in XML.
pub const ERROR_CODE: HeaderName = HeaderName::from_static("x-ms-error-code");
/// Details that the service's message does not have: the property, the reason, the remedy.
pub const HINT: HeaderName = HeaderName::from_static("x-table-service-hint");

/// The form of an error's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Json(Metadata),
    Xml,
}

impl Form {
    /// Returns the form for a request that is refused before its headers are read.
    pub fn of_query(query: &str) -> Form {
        let xml = query
            .split('&')
            .any(|pair| matches!(pair, "comp=acl" | "restype=service"));
        if xml { Form::Xml } else { Form::Json(Metadata::Minimal) }
    }
}

/// Returns the response to a request that failed.
pub fn reply(failure: &Failure, form: Form, prefer: Option<Prefer>, id: Uuid) -> Reply {
    let message = with_id_and_time(&failure.message, id);
    let reply = Reply::new(failure.status());
    let mut reply = match form {
        Form::Json(metadata) => {
            let mut reply = reply
                .with(CONTENT_TYPE, HeaderValue::from_static(content_type(metadata)))
                .with(NOSNIFF, HeaderValue::from_static("nosniff"))
                .with_body(json(failure.code, &message));
            if failure.stage == Stage::BackEnd {
                reply = reply
                    .with(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))
                    .with_preference(prefer.filter(|prefer| *prefer == Prefer::ReturnNoContent));
            }
            reply
        }
        Form::Xml => {
            let mut reply = reply
                .with(CONTENT_TYPE, HeaderValue::from_static("application/xml"))
                .with(ERROR_CODE, HeaderValue::from_static(failure.code.as_str()))
                .with_body(xml(failure.code, &message));
            reply.reason = Some(failure.message.as_str())
                .filter(|message| message.is_ascii())
                .and_then(|message| ReasonPhrase::try_from(message.as_bytes()).ok());
            reply
        }
    };
    if let Some(hint) = failure.hint.as_deref().filter(|_| is_for_the_client(failure.code)) {
        reply = reply.with_text(HINT, hint);
    }
    reply.error = Some((failure.code, failure.hint.clone()));
    reply
}

/// Returns whether the client gets the hint. The cause of a fault is for the operator. A client without valid
/// credentials does not learn the mistake in them.
fn is_for_the_client(code: Code) -> bool {
    !matches!(
        code,
        Code::AuthenticationFailed | Code::InternalError | Code::OperationTimedOut | Code::ServerBusy
    )
}

/// Returns the payload of an error in JSON. The message has its id and time already.
pub fn json(code: Code, message: &str) -> Vec<u8> {
    let document = json!({
        "odata.error": { "code": code.as_str(), "message": { "lang": "en-US", "value": message } }
    });
    serde_json::to_vec(&document).unwrap_or_default()
}

fn xml(code: Code, message: &str) -> String {
    let message = quick_xml::escape::escape(message).replace('\n', "&#10;");
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\
         <m:error xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\
         <m:code>{code}</m:code><m:message xml:lang=\"en-US\">{message}</m:message></m:error>"
    )
}

/// Adds the id of the request and the time to a message.
pub fn with_id_and_time(message: &str, id: Uuid) -> String {
    format!("{message}\nRequestId:{id}\nTime:{}", now().with_seven_digits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use table_service_model::Error;

    fn body(error: Error, form: Form) -> (String, Reply) {
        let reply = reply(&error.into(), form, Some(Prefer::ReturnNoContent), Uuid::nil());
        (String::from_utf8(reply.body.to_vec()).unwrap(), reply)
    }

    #[test]
    fn json_errors_have_the_services_form() {
        let (text, reply) = body(Error::EntityAlreadyExists, Form::Json(Metadata::Minimal));
        assert_eq!(reply.status, 409);
        let start = "{\"odata.error\":{\"code\":\"EntityAlreadyExists\",\"message\":{\"lang\":\"en-US\",\"value\":\"The specified entity already exists.\\nRequestId:00000000-0000-0000-0000-000000000000\\nTime:2";
        assert!(text.starts_with(start), "{text}");
        assert!(text.ends_with("Z\"}}}"), "{text}");
        assert!(!reply.headers.contains_key("x-ms-error-code"));
        assert_eq!(reply.headers.get("cache-control").unwrap(), "no-cache");
        assert_eq!(reply.headers.get("preference-applied").unwrap(), "return-no-content");
    }

    #[test]
    fn errors_of_the_front_end_may_be_cached() {
        let (_, reply) = body(Error::TableNotFound, Form::Json(Metadata::Minimal));
        assert!(!reply.headers.contains_key("cache-control"));
        assert!(!reply.headers.contains_key("preference-applied"));
    }

    #[test]
    fn xml_errors_name_their_code_in_a_header() {
        let (text, reply) = body(Error::TableNotFound, Form::Xml);
        assert_eq!(reply.headers.get("x-ms-error-code").unwrap(), "TableNotFound");
        let reason = reply.reason.as_ref().map(ReasonPhrase::as_bytes);
        assert_eq!(reason, Some(&b"The table specified does not exist."[..]));
        assert!(text.contains("<m:code>TableNotFound</m:code>"), "{text}");
        assert!(
            text.contains("The table specified does not exist.&#10;RequestId:"),
            "{text}"
        );
    }
}
