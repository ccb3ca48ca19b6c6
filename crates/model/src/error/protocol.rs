//! Errors that only the REST protocol has: of URLs, headers, verbs and media types, and of the service behind it.

use super::{Code, Stage};

/// An error of a request, whatever it is about. `Display` gives the service's message without its code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Protocol {
    /// A path whose keys do not parse.
    #[error("Bad Request - Error in query syntax.")]
    UrlSyntax,
    /// A path with another number of keys than its resource has.
    #[error("The number of keys specified in the URI does not match number of key properties for the resource.")]
    UrlKeyCount,
    /// A key in a path with a character that no key may hold.
    #[error("One of the request inputs is out of range.")]
    UrlKeyOutOfRange,
    #[error("The requested URI does not represent any resource on the server.")]
    UriInvalid,
    #[error(
        "The required host information is not present in the request. You must send a non-empty Host header or include the absolute URI in the request line."
    )]
    HostMissing,
    #[error("Value for one of the query parameters specified in the request URI is invalid.")]
    QueryParameterInvalid { name: &'static str },
    #[error("The resource doesn't support the specified HTTP verb.")]
    VerbNotSupported,

    #[error("The value for one of the HTTP headers is not in the correct format.")]
    HeaderInvalid { name: &'static str },
    #[error("An HTTP header that's mandatory for this request is not specified.")]
    HeaderMissing { name: &'static str },
    #[error("If-None-Match HTTP header cannot be specified for {verb} operations.")]
    IfNoneMatch { verb: &'static str },
    #[error(
        "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please specify either one of the headers or none of them."
    )]
    BothConditions,
    #[error(
        "If-Match or If-None-Match headers cannot be specified if the target type does not have etag properties defined."
    )]
    ConditionWithoutEtag,
    #[error("The request uses X-HTTP-Method with an HTTP verb other than POST.")]
    MethodTunnelNotPost,
    #[error("The specified X-HTTP-Method is invalid.")]
    MethodTunnelValue,
    #[error("More than one X-HTTP-Method is specified.")]
    MethodTunnelCount,

    #[error("Atom format is not supported.")]
    AtomFormatNotSupported,
    #[error("JSON verbose format is not supported.")]
    JsonVerboseFormatNotSupported,
    #[error("None of the provided media types are supported")]
    MediaTypeNotSupported,
    /// A body that is no entity group transaction; `reason` says where it ends to be one.
    #[error("An error occurred while processing this request.")]
    MalformedBatch { reason: String },

    #[error("Write operations are not allowed.")]
    WriteOnSecondary,
    #[error("CORS not enabled or no matching rule found for this request.")]
    CorsPreflightFailure,

    /// `reason` says what is busy, for the log.
    #[error("The server is currently unable to receive requests. Please retry your request.")]
    ServerBusy { reason: String },
    #[error("The operation could not be completed within the permitted time.")]
    OperationTimedOut { reason: String },
    /// A fault, which is no error of the client.
    #[error("Server encountered an internal error. Please try again after some time.")]
    Internal { reason: String },
}

impl Protocol {
    pub const fn code(&self) -> Code {
        match self {
            Protocol::UrlSyntax | Protocol::UrlKeyCount | Protocol::MalformedBatch { .. } => Code::InvalidInput,
            Protocol::UrlKeyOutOfRange => Code::OutOfRangeInput,
            Protocol::UriInvalid => Code::InvalidUri,
            Protocol::HostMissing => Code::HostInformationNotPresent,
            Protocol::QueryParameterInvalid { .. } => Code::InvalidQueryParameterValue,
            Protocol::VerbNotSupported => Code::UnsupportedHttpVerb,
            Protocol::HeaderInvalid { .. } => Code::InvalidHeaderValue,
            Protocol::HeaderMissing { .. } => Code::MissingRequiredHeader,
            Protocol::IfNoneMatch { .. } | Protocol::BothConditions | Protocol::ConditionWithoutEtag => {
                Code::InvalidInput
            }
            Protocol::MethodTunnelNotPost => Code::XMethodNotUsingPost,
            Protocol::MethodTunnelValue => Code::XMethodIncorrectValue,
            Protocol::MethodTunnelCount => Code::XMethodIncorrectCount,
            Protocol::AtomFormatNotSupported => Code::AtomFormatNotSupported,
            Protocol::JsonVerboseFormatNotSupported => Code::JsonVerboseFormatNotSupported,
            Protocol::MediaTypeNotSupported => Code::MediaTypeNotSupported,
            Protocol::WriteOnSecondary => Code::InsufficientAccountPermissions,
            Protocol::CorsPreflightFailure => Code::CorsPreflightFailure,
            Protocol::ServerBusy { .. } => Code::ServerBusy,
            Protocol::OperationTimedOut { .. } => Code::OperationTimedOut,
            Protocol::Internal { .. } => Code::InternalError,
        }
    }

    /// Which layer of the service finds it (semantics 0.2).
    pub const fn stage(&self) -> Stage {
        match self {
            Protocol::ServerBusy { .. } | Protocol::OperationTimedOut { .. } | Protocol::Internal { .. } => {
                Stage::BackEnd
            }
            _ => Stage::FrontEnd,
        }
    }

    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Protocol::QueryParameterInvalid { name } => Some(format!("The parameter is {name}.")),
            Protocol::HeaderInvalid { name } | Protocol::HeaderMissing { name } => {
                Some(format!("The header is {name}."))
            }
            Protocol::MalformedBatch { reason }
            | Protocol::ServerBusy { reason }
            | Protocol::OperationTimedOut { reason }
            | Protocol::Internal { reason } => Some(format!("{reason}.")),
            _ => None,
        }
    }
}
