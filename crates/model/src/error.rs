//! The error catalog: one place for the Azure code, HTTP status, SQLSTATE, message and retry advice of every error.
//!
//! The extension raises [`Error`]s as `<Code>: <message>` under their SQLSTATE; the gateway turns them, and errors
//! that PostgreSQL raises itself, back into Azure errors ([`Code::of_sqlstate`]).

mod request;

use std::borrow::Cow;
use std::fmt;

use crate::limits::PROPERTY_NAME_UTF16_UNITS;
use crate::text::abbreviate;

pub use request::RequestError;

/// An error code of the Table service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    AtomFormatNotSupported,
    AuthenticationFailed,
    AuthorizationFailure,
    AuthorizationPermissionMismatch,
    AuthorizationProtocolMismatch,
    AuthorizationResourceTypeMismatch,
    AuthorizationServiceMismatch,
    AuthorizationSourceIPMismatch,
    CommandsInBatchActOnDifferentPartitions,
    CorsPreflightFailure,
    DuplicatePropertiesSpecified,
    EntityAlreadyExists,
    EntityTooLarge,
    HostInformationNotPresent,
    InsufficientAccountPermissions,
    InternalError,
    InvalidAuthenticationInfo,
    InvalidDuplicateRow,
    InvalidHeaderValue,
    InvalidInput,
    InvalidQueryParameterValue,
    InvalidResourceName,
    InvalidUri,
    InvalidXmlDocument,
    JsonVerboseFormatNotSupported,
    MediaTypeNotSupported,
    MissingRequiredHeader,
    NoAuthenticationInformation,
    NotImplemented,
    OperationTimedOut,
    OutOfRangeInput,
    PropertiesNeedValue,
    PropertyNameInvalid,
    PropertyNameTooLong,
    PropertyValueTooLarge,
    RequestBodyTooLarge,
    ResourceNotFound,
    ServerBusy,
    TableAlreadyExists,
    TableNotFound,
    TooManyProperties,
    UnsupportedHttpVerb,
    UpdateConditionNotSatisfied,
    XMethodIncorrectCount,
    XMethodIncorrectValue,
    XMethodNotUsingPost,
}

/// What a client may do after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same request fails again.
    No,
    /// Read the entity again, then decide: somebody else changed it.
    AfterReading,
    /// The same request may succeed, after a pause.
    WithBackOff,
}

/// Which layer of the service finds an error (semantics 0.2). It decides the index prefix of a batch with one
/// operation, and some response headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    FrontEnd,
    BackEnd,
}

impl Code {
    /// Every code, for tables and tests.
    pub const ALL: [Code; 46] = [
        Code::AtomFormatNotSupported,
        Code::AuthenticationFailed,
        Code::AuthorizationFailure,
        Code::AuthorizationPermissionMismatch,
        Code::AuthorizationProtocolMismatch,
        Code::AuthorizationResourceTypeMismatch,
        Code::AuthorizationServiceMismatch,
        Code::AuthorizationSourceIPMismatch,
        Code::CommandsInBatchActOnDifferentPartitions,
        Code::CorsPreflightFailure,
        Code::DuplicatePropertiesSpecified,
        Code::EntityAlreadyExists,
        Code::EntityTooLarge,
        Code::HostInformationNotPresent,
        Code::InsufficientAccountPermissions,
        Code::InternalError,
        Code::InvalidAuthenticationInfo,
        Code::InvalidDuplicateRow,
        Code::InvalidHeaderValue,
        Code::InvalidInput,
        Code::InvalidQueryParameterValue,
        Code::InvalidResourceName,
        Code::InvalidUri,
        Code::InvalidXmlDocument,
        Code::JsonVerboseFormatNotSupported,
        Code::MediaTypeNotSupported,
        Code::MissingRequiredHeader,
        Code::NoAuthenticationInformation,
        Code::NotImplemented,
        Code::OperationTimedOut,
        Code::OutOfRangeInput,
        Code::PropertiesNeedValue,
        Code::PropertyNameInvalid,
        Code::PropertyNameTooLong,
        Code::PropertyValueTooLarge,
        Code::RequestBodyTooLarge,
        Code::ResourceNotFound,
        Code::ServerBusy,
        Code::TableAlreadyExists,
        Code::TableNotFound,
        Code::TooManyProperties,
        Code::UnsupportedHttpVerb,
        Code::UpdateConditionNotSatisfied,
        Code::XMethodIncorrectCount,
        Code::XMethodIncorrectValue,
        Code::XMethodNotUsingPost,
    ];

    /// The code as clients compare it, e.g. `EntityAlreadyExists`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::AtomFormatNotSupported => "AtomFormatNotSupported",
            Code::AuthenticationFailed => "AuthenticationFailed",
            Code::AuthorizationFailure => "AuthorizationFailure",
            Code::AuthorizationPermissionMismatch => "AuthorizationPermissionMismatch",
            Code::AuthorizationProtocolMismatch => "AuthorizationProtocolMismatch",
            Code::AuthorizationResourceTypeMismatch => "AuthorizationResourceTypeMismatch",
            Code::AuthorizationServiceMismatch => "AuthorizationServiceMismatch",
            Code::AuthorizationSourceIPMismatch => "AuthorizationSourceIPMismatch",
            Code::CommandsInBatchActOnDifferentPartitions => "CommandsInBatchActOnDifferentPartitions",
            Code::CorsPreflightFailure => "CorsPreflightFailure",
            Code::DuplicatePropertiesSpecified => "DuplicatePropertiesSpecified",
            Code::EntityAlreadyExists => "EntityAlreadyExists",
            Code::EntityTooLarge => "EntityTooLarge",
            Code::HostInformationNotPresent => "HostInformationNotPresent",
            Code::InsufficientAccountPermissions => "InsufficientAccountPermissions",
            Code::InternalError => "InternalError",
            Code::InvalidAuthenticationInfo => "InvalidAuthenticationInfo",
            Code::InvalidDuplicateRow => "InvalidDuplicateRow",
            Code::InvalidHeaderValue => "InvalidHeaderValue",
            Code::InvalidInput => "InvalidInput",
            Code::InvalidQueryParameterValue => "InvalidQueryParameterValue",
            Code::InvalidResourceName => "InvalidResourceName",
            Code::InvalidUri => "InvalidUri",
            Code::InvalidXmlDocument => "InvalidXmlDocument",
            Code::JsonVerboseFormatNotSupported => "JsonVerboseFormatNotSupported",
            Code::MediaTypeNotSupported => "MediaTypeNotSupported",
            Code::MissingRequiredHeader => "MissingRequiredHeader",
            Code::NoAuthenticationInformation => "NoAuthenticationInformation",
            Code::NotImplemented => "NotImplemented",
            Code::OperationTimedOut => "OperationTimedOut",
            Code::OutOfRangeInput => "OutOfRangeInput",
            Code::PropertiesNeedValue => "PropertiesNeedValue",
            Code::PropertyNameInvalid => "PropertyNameInvalid",
            Code::PropertyNameTooLong => "PropertyNameTooLong",
            Code::PropertyValueTooLarge => "PropertyValueTooLarge",
            Code::RequestBodyTooLarge => "RequestBodyTooLarge",
            Code::ResourceNotFound => "ResourceNotFound",
            Code::ServerBusy => "ServerBusy",
            Code::TableAlreadyExists => "TableAlreadyExists",
            Code::TableNotFound => "TableNotFound",
            Code::TooManyProperties => "TooManyProperties",
            Code::UnsupportedHttpVerb => "UnsupportedHttpVerb",
            Code::UpdateConditionNotSatisfied => "UpdateConditionNotSatisfied",
            Code::XMethodIncorrectCount => "XMethodIncorrectCount",
            Code::XMethodIncorrectValue => "XMethodIncorrectValue",
            Code::XMethodNotUsingPost => "XMethodNotUsingPost",
        }
    }

    /// The HTTP status that the service answers with.
    pub const fn http_status(self) -> u16 {
        match self {
            Code::CommandsInBatchActOnDifferentPartitions
            | Code::DuplicatePropertiesSpecified
            | Code::EntityTooLarge
            | Code::HostInformationNotPresent
            | Code::InvalidAuthenticationInfo
            | Code::InvalidDuplicateRow
            | Code::InvalidHeaderValue
            | Code::InvalidInput
            | Code::InvalidQueryParameterValue
            | Code::InvalidResourceName
            | Code::InvalidUri
            | Code::InvalidXmlDocument
            | Code::MissingRequiredHeader
            | Code::OutOfRangeInput
            | Code::PropertiesNeedValue
            | Code::PropertyNameInvalid
            | Code::PropertyNameTooLong
            | Code::PropertyValueTooLarge
            | Code::TooManyProperties
            | Code::XMethodIncorrectCount
            | Code::XMethodIncorrectValue
            | Code::XMethodNotUsingPost => 400,
            Code::NoAuthenticationInformation => 401,
            Code::AuthenticationFailed
            | Code::AuthorizationFailure
            | Code::AuthorizationPermissionMismatch
            | Code::AuthorizationProtocolMismatch
            | Code::AuthorizationResourceTypeMismatch
            | Code::AuthorizationServiceMismatch
            | Code::AuthorizationSourceIPMismatch
            | Code::CorsPreflightFailure
            | Code::InsufficientAccountPermissions => 403,
            Code::ResourceNotFound | Code::TableNotFound => 404,
            Code::UnsupportedHttpVerb => 405,
            Code::EntityAlreadyExists | Code::TableAlreadyExists => 409,
            Code::UpdateConditionNotSatisfied => 412,
            Code::RequestBodyTooLarge => 413,
            Code::AtomFormatNotSupported | Code::JsonVerboseFormatNotSupported | Code::MediaTypeNotSupported => 415,
            Code::InternalError | Code::OperationTimedOut => 500,
            Code::NotImplemented => 501,
            Code::ServerBusy => 503,
        }
    }

    /// Whether, and how, a client may try again.
    pub const fn retry(self) -> Retry {
        match self {
            Code::UpdateConditionNotSatisfied => Retry::AfterReading,
            Code::OperationTimedOut | Code::ServerBusy => Retry::WithBackOff,
            _ => Retry::No,
        }
    }

    /// The code for an error that PostgreSQL raised itself, by its SQLSTATE (five characters).
    ///
    /// Errors of this catalog carry their code in the message and do not need this.
    pub fn of_sqlstate(sqlstate: &str) -> Code {
        match sqlstate {
            "42501" => Code::AuthorizationFailure,
            "57014" => Code::OperationTimedOut,
            "40001" | "40P01" | "55P03" | "55006" | "57P01" | "57P02" | "57P03" => Code::ServerBusy,
            // NOT NULL on a key column, the primary key and a missing table, met by direct SQL.
            "23502" => Code::PropertiesNeedValue,
            "23505" => Code::EntityAlreadyExists,
            "42P01" => Code::TableNotFound,
            "42P07" => Code::TableAlreadyExists,
            state if state.starts_with("53") || state.starts_with("08") => Code::ServerBusy,
            _ => Code::InternalError,
        }
    }

    /// Which layer of the service finds an error with this code and message, for one that came as text.
    pub fn stage(self, message: &str) -> Stage {
        let means = |error: Error| message.ends_with(&error.to_string());
        match self {
            Code::InvalidInput if means(Error::TableNameReserved) => Stage::BackEnd,
            Code::OutOfRangeInput if means(Error::TableNameLength) => Stage::BackEnd,
            Code::EntityAlreadyExists
            | Code::EntityTooLarge
            | Code::InternalError
            | Code::InvalidResourceName
            | Code::NotImplemented
            | Code::OperationTimedOut
            | Code::PropertyValueTooLarge
            | Code::ResourceNotFound
            | Code::ServerBusy
            | Code::TableAlreadyExists
            | Code::TooManyProperties
            | Code::UpdateConditionNotSatisfied => Stage::BackEnd,
            _ => Stage::FrontEnd,
        }
    }

    /// Splits a message of the form `<Code>: <message>` as the extension raises it.
    pub fn split_message(message: &str) -> Option<(Code, &str)> {
        let (name, rest) = message.split_once(": ")?;
        let code = Code::ALL.into_iter().find(|code| code.as_str() == name)?;
        Some((code, rest))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error of the Table service. `Display` gives the service's message without its code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("The specified entity already exists.")]
    EntityAlreadyExists,
    #[error("The specified resource does not exist.")]
    EntityNotFound,
    #[error("The update condition specified in the request was not satisfied.")]
    UpdateConditionNotSatisfied,

    #[error("The table specified already exists.")]
    TableAlreadyExists,
    /// What is in the way of a new table is none of the service; `reason` is what PostgreSQL says of it.
    #[error("The table specified already exists.")]
    TableNameTaken { reason: String },
    /// An operation on entities names a table that does not exist.
    #[error("The table specified does not exist.")]
    TableNotFound,
    /// Deleting a table that does not exist.
    #[error("The specified resource does not exist.")]
    TableToDeleteNotFound,
    #[error("The specifed resource name contains invalid characters.")]
    TableNameInvalid,
    #[error("The specified resource name length is not within the permissible limits.")]
    TableNameLength,
    #[error("One of the request inputs is not valid.")]
    TableNameReserved,

    /// A NULL, or no member, where a key is needed.
    #[error("The values are not specified for all properties in the entity.")]
    KeyMissing { key: &'static str },
    /// A key with a forbidden character, a DateTime out of range.
    #[error("The '{parameter}' parameter of value '{value}' is out of range.")]
    ParameterOutOfRange { parameter: String, value: String },
    /// A key beyond its limits counts as a value too large.
    #[error("{VALUE_TOO_LARGE}")]
    KeyTooLong,

    #[error("The property name is invalid.")]
    PropertyNameInvalid { name: String },
    #[error("The property name exceeds the maximum allowed length (255).")]
    PropertyNameTooLong { name: String },
    #[error("A property is specified more than one time.")]
    DuplicateProperty { name: String },
    #[error("{VALUE_TOO_LARGE}")]
    PropertyValueTooLarge { name: String },
    #[error(
        "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties."
    )]
    TooManyProperties,
    #[error("The entity is larger than the maximum allowed size (1MB).")]
    EntityTooLarge,

    /// A well-formed payload with a value that the service cannot take; `reason` says which and why.
    #[error("An error occurred while processing this request.")]
    UnreadableValue { reason: String },
    /// Not JSON at all, or not a JSON object.
    #[error("An error occurred while processing this request.")]
    MalformedJson { reason: String },
    /// Bytes that are no property bag, in the binary protocol.
    #[error("An error occurred while processing this request.")]
    MalformedBinary { reason: &'static str },
    #[error(
        "The etag value '{value}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid."
    )]
    EtagInvalid { value: String },
    /// An argument of the SQL API that is NULL or outside its values; `reason` says which.
    #[error("One of the request inputs is not valid.")]
    ArgumentInvalid { reason: String },

    /// A filter that does not parse; `position` is where the first unexpected token ends, in UTF-16 units.
    #[error("Syntax error at position {position} in '{filter}'.")]
    FilterSyntax { position: usize, filter: String },
    /// A literal of a filter that does not have the form of its type; `position` is where it begins, in UTF-16 units.
    #[error("Unrecognized '{edm}' literal '{literal}' at '{position}' in '{filter}'.")]
    FilterLiteral {
        edm: &'static str,
        literal: String,
        position: usize,
        filter: String,
    },
    /// `null` with another operator than `eq` and `ne`.
    #[error("The operator '{operator}' is not supported for the 'null' literal; only equality checks are supported.")]
    FilterNullOperator { operator: &'static str },
    /// A filter that is too long or nests too deep; `reason` says which.
    #[error("One of the request inputs is not valid.")]
    FilterBeyondLimit { reason: String },

    #[error("99:The batch request operation exceeds the maximum 100 changes per change set.")]
    TooManyOperations,
    #[error("The request body is too large and exceeds the maximum permissible limit.")]
    BatchTooLarge,
    #[error(
        "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request."
    )]
    DuplicateRow,
    #[error("All commands in a batch must operate on same entity group.")]
    AnotherPartition,
    /// An error of one operation of an entity group transaction, by its index from zero.
    #[error("{index}:{error}")]
    InBatch { index: usize, error: Box<Error> },

    /// A query of the tables that names a property which tables do not have. The service fails on it.
    #[error("Server encountered an internal error. Please try again after some time.")]
    UnknownTableProperty { name: String },
    /// A stored row that no function of the service can have written: a NULL column, or a bag whose bytes are invalid.
    /// `reason` names the row.
    #[error("Server encountered an internal error. Please try again after some time.")]
    StoredEntityInvalid { reason: String },

    #[error("The requested operation is not implemented on the specified resource.")]
    NotImplemented { reason: String },
    #[error("This request is not authorized to perform this operation.")]
    NotAuthorized { reason: String },

    /// Credentials that are wrong, expired or not yet valid; `reason` says which, for logs.
    #[error(
        "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature."
    )]
    AuthenticationFailed { reason: String },
    /// An Authorization header that cannot be read.
    #[error("Authentication information is not given in the correct format. Check the value of Authorization header.")]
    AuthenticationUnreadable { reason: &'static str },
    /// No credentials, where a challenge is sent.
    #[error(
        "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."
    )]
    NotAuthenticated,
    #[error("This request is not authorized to perform this operation using this permission.")]
    PermissionMismatch { needed: &'static str },
    #[error("This request is not authorized to perform this operation using this protocol.")]
    ProtocolMismatch,
    #[error("This request is not authorized to perform this operation using this resource type.")]
    ResourceTypeMismatch { needed: &'static str },
    #[error("This request is not authorized to perform this operation using this service.")]
    ServiceMismatch,
    #[error("This request is not authorized to perform this operation using this source IP {address}.")]
    SourceIpMismatch { address: std::net::IpAddr },
    /// A document of access policies or service properties that does not say what one must.
    #[error("XML specified is not syntactically valid.")]
    DocumentInvalid { reason: String },

    /// An error of the REST protocol, which no SQL function raises.
    #[error(transparent)]
    Request(#[from] RequestError),
}

const VALUE_TOO_LARGE: &str = "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.";

/// What a message or a hint may quote of a value.
const QUOTED_CHARACTERS: usize = 1024;

impl Error {
    /// `reason` should be one sentence without a full stop; it becomes the hint.
    pub(crate) fn unreadable(reason: impl Into<String>) -> Self {
        Error::UnreadableValue { reason: reason.into() }
    }

    /// `OutOfRangeInput` for a value of `parameter`; a long value is quoted in part.
    pub fn out_of_range(parameter: &str, value: &str) -> Self {
        Error::ParameterOutOfRange {
            parameter: abbreviate(parameter, PROPERTY_NAME_UTF16_UNITS),
            value: abbreviate(value, QUOTED_CHARACTERS),
        }
    }

    /// The hint's name of a property that may be of any length.
    pub(crate) fn quoted(name: &str) -> String {
        abbreviate(name, 64)
    }

    /// A NULL for the argument `name` of the SQL API, which needs a value.
    pub fn null_argument(name: &str) -> Self {
        Error::ArgumentInvalid {
            reason: format!("{name} must not be NULL"),
        }
    }

    /// This error as that of the operation with this index, from zero, of an entity group transaction.
    pub fn at(self, index: usize) -> Error {
        Error::InBatch {
            index,
            error: Box::new(self),
        }
    }

    /// The Azure code.
    pub const fn code(&self) -> Code {
        match self {
            Error::EntityAlreadyExists => Code::EntityAlreadyExists,
            Error::EntityNotFound | Error::TableToDeleteNotFound => Code::ResourceNotFound,
            Error::UpdateConditionNotSatisfied => Code::UpdateConditionNotSatisfied,
            Error::TableAlreadyExists | Error::TableNameTaken { .. } => Code::TableAlreadyExists,
            Error::TableNotFound => Code::TableNotFound,
            Error::TableNameInvalid => Code::InvalidResourceName,
            Error::TableNameLength | Error::ParameterOutOfRange { .. } => Code::OutOfRangeInput,
            Error::KeyMissing { .. } => Code::PropertiesNeedValue,
            Error::PropertyNameInvalid { .. } => Code::PropertyNameInvalid,
            Error::PropertyNameTooLong { .. } => Code::PropertyNameTooLong,
            Error::DuplicateProperty { .. } => Code::DuplicatePropertiesSpecified,
            Error::KeyTooLong | Error::PropertyValueTooLarge { .. } => Code::PropertyValueTooLarge,
            Error::TooManyProperties => Code::TooManyProperties,
            Error::EntityTooLarge => Code::EntityTooLarge,
            Error::TableNameReserved
            | Error::UnreadableValue { .. }
            | Error::MalformedJson { .. }
            | Error::MalformedBinary { .. }
            | Error::EtagInvalid { .. }
            | Error::FilterSyntax { .. }
            | Error::FilterLiteral { .. }
            | Error::FilterNullOperator { .. }
            | Error::FilterBeyondLimit { .. }
            | Error::ArgumentInvalid { .. } => Code::InvalidInput,
            Error::TooManyOperations => Code::InvalidInput,
            Error::BatchTooLarge => Code::RequestBodyTooLarge,
            Error::DuplicateRow => Code::InvalidDuplicateRow,
            Error::AnotherPartition => Code::CommandsInBatchActOnDifferentPartitions,
            Error::InBatch { error, .. } => error.code(),
            Error::UnknownTableProperty { .. } | Error::StoredEntityInvalid { .. } => Code::InternalError,
            Error::NotImplemented { .. } => Code::NotImplemented,
            Error::NotAuthorized { .. } => Code::AuthorizationFailure,
            Error::AuthenticationFailed { .. } => Code::AuthenticationFailed,
            Error::AuthenticationUnreadable { .. } => Code::InvalidAuthenticationInfo,
            Error::NotAuthenticated => Code::NoAuthenticationInformation,
            Error::PermissionMismatch { .. } => Code::AuthorizationPermissionMismatch,
            Error::ProtocolMismatch => Code::AuthorizationProtocolMismatch,
            Error::ResourceTypeMismatch { .. } => Code::AuthorizationResourceTypeMismatch,
            Error::ServiceMismatch => Code::AuthorizationServiceMismatch,
            Error::SourceIpMismatch { .. } => Code::AuthorizationSourceIPMismatch,
            Error::DocumentInvalid { .. } => Code::InvalidXmlDocument,
            Error::Request(error) => error.code(),
        }
    }

    /// The SQLSTATE, five characters.
    pub const fn sqlstate(&self) -> &'static str {
        match self {
            Error::EntityAlreadyExists => "23505",
            Error::EntityNotFound => "P0002",
            Error::UpdateConditionNotSatisfied => "40002",
            Error::TableAlreadyExists | Error::TableNameTaken { .. } => "42P07",
            Error::TableNotFound | Error::TableToDeleteNotFound => "42P01",
            Error::TableNameInvalid | Error::TableNameLength => "42602",
            Error::ParameterOutOfRange { .. } => "22003",
            Error::KeyMissing { .. } => "23502",
            Error::KeyTooLong
            | Error::PropertyNameTooLong { .. }
            | Error::PropertyValueTooLarge { .. }
            | Error::TooManyProperties
            | Error::EntityTooLarge
            | Error::FilterBeyondLimit { .. } => "54000",
            Error::TableNameReserved
            | Error::PropertyNameInvalid { .. }
            | Error::DuplicateProperty { .. }
            | Error::UnreadableValue { .. }
            | Error::EtagInvalid { .. }
            | Error::FilterSyntax { .. }
            | Error::FilterLiteral { .. }
            | Error::FilterNullOperator { .. }
            | Error::ArgumentInvalid { .. } => "22023",
            Error::MalformedJson { .. } => "22P02",
            Error::MalformedBinary { .. } => "22P03",
            Error::TooManyOperations | Error::BatchTooLarge => "54000",
            Error::DuplicateRow | Error::AnotherPartition => "22023",
            Error::InBatch { error, .. } => error.sqlstate(),
            Error::UnknownTableProperty { .. } => "42703",
            Error::StoredEntityInvalid { .. } => "XX001",
            Error::NotImplemented { .. } => "0A000",
            Error::NotAuthorized { .. }
            | Error::PermissionMismatch { .. }
            | Error::ProtocolMismatch
            | Error::ResourceTypeMismatch { .. }
            | Error::ServiceMismatch
            | Error::SourceIpMismatch { .. } => "42501",
            Error::AuthenticationFailed { .. } | Error::AuthenticationUnreadable { .. } | Error::NotAuthenticated => {
                "28000"
            }
            Error::DocumentInvalid { .. } => "22023",
            Error::Request(_) => "08P01",
        }
    }

    /// Which layer of the service finds it (semantics 0.2).
    pub const fn stage(&self) -> Stage {
        match self {
            Error::EntityAlreadyExists
            | Error::EntityNotFound
            | Error::UpdateConditionNotSatisfied
            | Error::TableAlreadyExists
            | Error::TableNameTaken { .. }
            | Error::TableToDeleteNotFound
            | Error::TableNameInvalid
            | Error::TableNameLength
            | Error::TableNameReserved
            | Error::KeyTooLong
            | Error::PropertyValueTooLarge { .. }
            | Error::TooManyProperties
            | Error::EntityTooLarge
            | Error::ArgumentInvalid { .. }
            | Error::UnknownTableProperty { .. }
            | Error::StoredEntityInvalid { .. }
            | Error::NotImplemented { .. } => Stage::BackEnd,
            Error::InBatch { error, .. } => error.stage(),
            Error::TableNotFound
            | Error::TooManyOperations
            | Error::BatchTooLarge
            | Error::DuplicateRow
            | Error::AnotherPartition
            | Error::KeyMissing { .. }
            | Error::ParameterOutOfRange { .. }
            | Error::PropertyNameInvalid { .. }
            | Error::PropertyNameTooLong { .. }
            | Error::DuplicateProperty { .. }
            | Error::UnreadableValue { .. }
            | Error::MalformedJson { .. }
            | Error::MalformedBinary { .. }
            | Error::FilterSyntax { .. }
            | Error::FilterLiteral { .. }
            | Error::FilterNullOperator { .. }
            | Error::FilterBeyondLimit { .. }
            | Error::EtagInvalid { .. }
            | Error::AuthenticationFailed { .. }
            | Error::AuthenticationUnreadable { .. }
            | Error::NotAuthenticated
            | Error::NotAuthorized { .. }
            | Error::PermissionMismatch { .. }
            | Error::ProtocolMismatch
            | Error::ResourceTypeMismatch { .. }
            | Error::ServiceMismatch
            | Error::SourceIpMismatch { .. }
            | Error::DocumentInvalid { .. } => Stage::FrontEnd,
            Error::Request(error) => error.stage(),
        }
    }

    /// What to do about it, where the service's message does not say: the property, the reason, a way out.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Error::TableNameInvalid => Some("A table name is a letter followed by letters and digits (ASCII).".into()),
            Error::TableNameLength => Some("A table name has 3 to 63 characters.".into()),
            Error::TableNameReserved => Some("The table name \"tables\" is reserved.".into()),
            Error::TableNameTaken { reason } => Some(
                format!("What has the name in the schema table_service_data is no table of the service ({reason}): rename or drop it.")
                    .into(),
            ),
            Error::InBatch { error, .. } => error.hint(),
            Error::UnknownTableProperty { name } => {
                Some(format!("Tables have no property \"{name}\", only TableName.").into())
            }
            Error::KeyMissing { key } => Some(format!("{key} needs a value.").into()),
            Error::KeyTooLong => Some(
                "PartitionKey and RowKey have at most 1024 UTF-16 units each, and 2680 bytes of UTF-8 together.".into(),
            ),
            Error::PropertyNameInvalid { name } => Some(
                format!("\"{name}\" is no property name: a letter or _ comes first, then letters, digits and _.")
                    .into(),
            ),
            Error::PropertyNameTooLong { name } => Some(format!("The name begins with \"{name}\".").into()),
            Error::DuplicateProperty { name } | Error::PropertyValueTooLarge { name } => {
                Some(format!("The property is \"{name}\".").into())
            }
            Error::UnreadableValue { reason }
            | Error::MalformedJson { reason }
            | Error::ArgumentInvalid { reason }
            | Error::FilterBeyondLimit { reason }
            | Error::StoredEntityInvalid { reason }
            | Error::NotImplemented { reason }
            | Error::NotAuthorized { reason }
            | Error::AuthenticationFailed { reason }
            | Error::DocumentInvalid { reason } => Some(format!("{reason}.").into()),
            Error::MalformedBinary { reason } | Error::AuthenticationUnreadable { reason } => {
                Some(format!("{reason}.").into())
            }
            Error::PermissionMismatch { needed } => Some(format!("It needs {needed}.").into()),
            Error::ResourceTypeMismatch { needed } => Some(format!("It needs the resource type {needed}.").into()),
            Error::ServiceMismatch => Some("The signature is for other services than t, tables.".into()),
            Error::EtagInvalid { .. } => {
                Some("An ETag looks like W/\"datetime'2026-01-31T12%3A00%3A00Z'\"; * means any version.".into())
            }
            Error::Request(error) => error.hint().map(Into::into),
            _ => None,
        }
    }

    /// The message as PostgreSQL raises it: `<Code>: <message>`.
    pub fn report(&self) -> String {
        format!("{}: {self}", self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_listed_once_and_read_back() {
        for (i, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(Code::ALL.iter().position(|c| *c == code), Some(i));
            let message = format!("{code}: some: text");
            assert_eq!(Code::split_message(&message), Some((code, "some: text")));
            assert!((400..=503).contains(&code.http_status()));
        }
        assert_eq!(Code::split_message("duplicate key value: x"), None);
    }

    #[test]
    fn reports_carry_the_code_and_the_services_own_spelling() {
        assert_eq!(
            Error::TableNameInvalid.report(),
            "InvalidResourceName: The specifed resource name contains invalid characters."
        );
        assert_eq!(
            Error::out_of_range("PartitionKey", "a/b").report(),
            "OutOfRangeInput: The 'PartitionKey' parameter of value 'a/b' is out of range."
        );
    }

    #[test]
    fn the_layer_can_be_told_from_the_text() {
        for error in [
            Error::EntityAlreadyExists,
            Error::EntityNotFound,
            Error::UpdateConditionNotSatisfied,
            Error::TableAlreadyExists,
            Error::TableNotFound,
            Error::TableToDeleteNotFound,
            Error::TableNameInvalid,
            Error::TableNameLength,
            Error::TableNameReserved,
            Error::KeyMissing { key: "RowKey" },
            Error::out_of_range("RowKey", "a/b"),
            Error::KeyTooLong,
            Error::PropertyNameInvalid { name: "a b".into() },
            Error::DuplicateProperty { name: "a".into() },
            Error::TooManyProperties,
            Error::EntityTooLarge,
            Error::unreadable("x"),
            Error::EtagInvalid { value: "x".into() },
            Error::null_argument("x"),
            Error::FilterSyntax {
                position: 1,
                filter: "x".into(),
            },
            Error::TooManyOperations,
            Error::DuplicateRow,
            Error::AnotherPartition,
            Error::NotImplemented { reason: "x".into() },
            Error::NotAuthorized { reason: "x".into() },
            Error::EntityAlreadyExists.at(3),
            Error::TableNameReserved.at(3),
        ] {
            assert_eq!(error.code().stage(&error.to_string()), error.stage(), "{error:?}");
        }
    }

    #[test]
    fn postgresql_errors_have_an_azure_code() {
        for (sqlstate, code) in [
            ("42501", Code::AuthorizationFailure),
            ("57014", Code::OperationTimedOut),
            ("40001", Code::ServerBusy),
            ("40P01", Code::ServerBusy),
            ("53300", Code::ServerBusy),
            ("08006", Code::ServerBusy),
            ("55P03", Code::ServerBusy),
            ("57P01", Code::ServerBusy),
            ("22012", Code::InternalError),
        ] {
            assert_eq!(Code::of_sqlstate(sqlstate), code, "{sqlstate}");
        }
    }

    #[test]
    fn only_a_lost_race_and_a_busy_server_are_worth_a_retry() {
        for code in Code::ALL {
            let expected = match code {
                Code::UpdateConditionNotSatisfied => Retry::AfterReading,
                Code::ServerBusy | Code::OperationTimedOut => Retry::WithBackOff,
                _ => Retry::No,
            };
            assert_eq!(code.retry(), expected, "{code}");
        }
    }
}
