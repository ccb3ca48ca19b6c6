//! Errors that only the REST protocol has: of URLs, headers, verbs and media types, and of the service behind it.

use super::{Code, Stage};

/// An error of a request, whatever it is about. `Display` gives the service's message without its code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
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

impl RequestError {
    pub const fn code(&self) -> Code {
        match self {
            RequestError::UrlSyntax | RequestError::UrlKeyCount | RequestError::MalformedBatch { .. } => {
                Code::InvalidInput
            }
            RequestError::UrlKeyOutOfRange => Code::OutOfRangeInput,
            RequestError::UriInvalid => Code::InvalidUri,
            RequestError::HostMissing => Code::HostInformationNotPresent,
            RequestError::QueryParameterInvalid { .. } => Code::InvalidQueryParameterValue,
            RequestError::VerbNotSupported => Code::UnsupportedHttpVerb,
            RequestError::HeaderInvalid { .. } => Code::InvalidHeaderValue,
            RequestError::HeaderMissing { .. } => Code::MissingRequiredHeader,
            RequestError::IfNoneMatch { .. } | RequestError::BothConditions | RequestError::ConditionWithoutEtag => {
                Code::InvalidInput
            }
            RequestError::MethodTunnelNotPost => Code::XMethodNotUsingPost,
            RequestError::MethodTunnelValue => Code::XMethodIncorrectValue,
            RequestError::MethodTunnelCount => Code::XMethodIncorrectCount,
            RequestError::AtomFormatNotSupported => Code::AtomFormatNotSupported,
            RequestError::JsonVerboseFormatNotSupported => Code::JsonVerboseFormatNotSupported,
            RequestError::MediaTypeNotSupported => Code::MediaTypeNotSupported,
            RequestError::WriteOnSecondary => Code::InsufficientAccountPermissions,
            RequestError::CorsPreflightFailure => Code::CorsPreflightFailure,
            RequestError::ServerBusy { .. } => Code::ServerBusy,
            RequestError::OperationTimedOut { .. } => Code::OperationTimedOut,
            RequestError::Internal { .. } => Code::InternalError,
        }
    }

    /// Which layer of the service finds it (semantics 0.2).
    pub const fn stage(&self) -> Stage {
        match self {
            RequestError::ServerBusy { .. }
            | RequestError::OperationTimedOut { .. }
            | RequestError::Internal { .. } => Stage::BackEnd,
            _ => Stage::FrontEnd,
        }
    }

    pub(super) fn hint(&self) -> Option<String> {
        match self {
            RequestError::QueryParameterInvalid { name } => Some(format!("The parameter is {name}.")),
            RequestError::HeaderInvalid { name } | RequestError::HeaderMissing { name } => {
                Some(format!("The header is {name}."))
            }
            RequestError::MalformedBatch { reason }
            | RequestError::ServerBusy { reason }
            | RequestError::OperationTimedOut { reason }
            | RequestError::Internal { reason } => Some(format!("{reason}.")),
            _ => None,
        }
    }
}
