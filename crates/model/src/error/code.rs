//! The codes that clients compare. Each has its HTTP status and a client's next step (semantics 10).

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// The next step that a client may take after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Nothing: the same request fails again.
    No,
    /// Read the entity again, then decide: another client has changed it.
    AfterReading,
    /// Send the same request again, after a pause.
    WithBackOff,
}

macro_rules! codes {
    ($($code:ident => $status:literal, $retry:ident;)*) => {
        /// An error code of the Table service.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray)]
        #[non_exhaustive]
        pub enum Code {
            $($code,)*
        }

        impl Code {
            /// Every code, for tables and tests.
            pub const ALL: &[Code] = Code::VARIANTS;

            /// Returns the code as clients compare it, e.g. `EntityAlreadyExists`.
            pub fn as_str(self) -> &'static str {
                self.into()
            }

            /// Returns the HTTP status that the service answers with.
            pub const fn http_status(self) -> u16 {
                match self {
                    $(Code::$code => $status,)*
                }
            }

            /// Whether, and how, a client may try again.
            pub const fn retry(self) -> Retry {
                match self {
                    $(Code::$code => Retry::$retry,)*
                }
            }
        }
    };
}

codes! {
    AmbiguousTableName => 409, No;
    AtomFormatNotSupported => 415, No;
    AuthenticationFailed => 403, No;
    AuthorizationFailure => 403, No;
    AuthorizationPermissionMismatch => 403, No;
    AuthorizationProtocolMismatch => 403, No;
    AuthorizationResourceTypeMismatch => 403, No;
    AuthorizationServiceMismatch => 403, No;
    AuthorizationSourceIPMismatch => 403, No;
    CommandsInBatchActOnDifferentPartitions => 400, No;
    Conflict => 409, No;
    CorsPreflightFailure => 403, No;
    DuplicatePropertiesSpecified => 400, No;
    EntityAlreadyExists => 409, No;
    EntityTooLarge => 400, No;
    HostInformationNotPresent => 400, No;
    InsufficientAccountPermissions => 403, No;
    InternalError => 500, No;
    InvalidAuthenticationInfo => 400, No;
    InvalidDuplicateRow => 400, No;
    InvalidHeaderValue => 400, No;
    InvalidInput => 400, No;
    InvalidQueryParameterValue => 400, No;
    InvalidResourceName => 400, No;
    InvalidUri => 400, No;
    InvalidXmlDocument => 400, No;
    JsonVerboseFormatNotSupported => 415, No;
    MediaTypeNotSupported => 415, No;
    MissingRequiredHeader => 400, No;
    NoAuthenticationInformation => 401, No;
    NotImplemented => 501, No;
    OperationTimedOut => 500, WithBackOff;
    OutOfRangeInput => 400, No;
    PropertiesNeedValue => 400, No;
    PropertyNameInvalid => 400, No;
    PropertyNameTooLong => 400, No;
    PropertyValueTooLarge => 400, No;
    RequestBodyTooLarge => 413, No;
    ResourceAlreadyExists => 409, No;
    ResourceNotFound => 404, No;
    ServerBusy => 503, WithBackOff;
    TableAlreadyExists => 409, No;
    TableNotFound => 404, No;
    TooManyProperties => 400, No;
    UnsupportedHttpVerb => 405, No;
    UpdateConditionNotSatisfied => 412, AfterReading;
    XMethodIncorrectCount => 400, No;
    XMethodIncorrectValue => 400, No;
    XMethodNotUsingPost => 400, No;
}

impl Code {
    /// Returns the code of an error that PostgreSQL raised itself, by its SQLSTATE (five characters).
    ///
    /// Errors of the catalog carry their code in the message and do not need this.
    pub fn of_sqlstate(sqlstate: &str) -> Code {
        match sqlstate {
            "42501" => Code::AuthorizationFailure,
            "57014" => Code::OperationTimedOut,
            // 25006: the server became a standby, or was set to read only.
            "25006" | "40001" | "40P01" | "55P03" | "55006" | "57P01" | "57P02" | "57P03" => Code::ServerBusy,
            // Direct SQL meets these: NOT NULL of a key column, the primary key, a table that does not exist.
            "23502" => Code::PropertiesNeedValue,
            "23505" => Code::EntityAlreadyExists,
            "42P01" => Code::TableNotFound,
            "42P07" => Code::TableAlreadyExists,
            // A view or a foreign key depends on a table, a row on an entity. PostgreSQL 18 has 23001 for some of them.
            "2BP01" | "23503" | "23001" => Code::Conflict,
            // Faults of users' definitions: a policy that calls itself, an unclear collation, a generated column.
            "42P17" | "42P21" | "42P22" | "428C9" => Code::InvalidInput,
            state if state.starts_with("53") || state.starts_with("08") => Code::ServerBusy,
            state if is_of_user(state) => Code::InvalidInput,
            _ => Code::InternalError,
        }
    }

    /// Returns the code of an error that PostgreSQL raised in a function of a user, such as a trigger. Its tables and
    /// keys are not those of the request.
    pub fn of_function_of_user(sqlstate: &str) -> Code {
        match Code::of_sqlstate(sqlstate) {
            Code::InternalError if matches!(sqlstate.get(..2), Some("58" | "XX")) => Code::InternalError,
            Code::EntityAlreadyExists | Code::InternalError | Code::TableAlreadyExists | Code::TableNotFound => {
                Code::InvalidInput
            }
            code => code,
        }
    }
}

/// The classes of SQLSTATEs that PostgreSQL has for faults of a statement or of the server. A statement without a fault
/// meets the other classes only if constraints, triggers or functions of users raise them.
const FAULTS: [&str; 31] = [
    "00", "01", "02", "03", "08", "09", "0A", "0B", "0F", "0L", "0P", "0Z", "24", "25", "26", "27", "28", "2B", "34",
    "3B", "3D", "3F", "40", "42", "53", "57", "58", "72", "F0", "HV", "XX",
];

/// Returns whether an error comes from a constraint, a trigger, an index or a function of a user: a value that it refuses (classes
/// 22 and 23), one that is too long for an index (54), a publication that does not allow a delete (55), P0001 of RAISE, or a code that
/// PostgreSQL does not know.
fn is_of_user(sqlstate: &str) -> bool {
    let class = sqlstate.get(..2).unwrap_or_default();
    !FAULTS.contains(&class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_read_back_from_its_name() {
        for code in Code::ALL.iter().copied() {
            assert_eq!(code.as_str().parse(), Ok(code));
            assert!((400..=503).contains(&code.http_status()), "{code}");
        }
        assert!("duplicate key value".parse::<Code>().is_err());
    }

    #[test]
    fn only_a_changed_entity_and_a_busy_server_are_worth_a_retry() {
        for code in Code::ALL.iter().copied() {
            let expected = match code {
                Code::UpdateConditionNotSatisfied => Retry::AfterReading,
                Code::ServerBusy | Code::OperationTimedOut => Retry::WithBackOff,
                _ => Retry::No,
            };
            assert_eq!(code.retry(), expected, "{code}");
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
            ("25006", Code::ServerBusy),
            ("25P02", Code::InternalError),
            ("42703", Code::InternalError),
            ("XX000", Code::InternalError),
            ("23502", Code::PropertiesNeedValue),
            ("23505", Code::EntityAlreadyExists),
            ("22012", Code::InvalidInput),
            ("23503", Code::Conflict),
            ("23001", Code::Conflict),
            ("2BP01", Code::Conflict),
            ("2D000", Code::InvalidInput),
            ("42P17", Code::InvalidInput),
            ("54000", Code::InvalidInput),
            ("55000", Code::InvalidInput),
            ("23514", Code::InvalidInput),
            ("23P01", Code::InvalidInput),
            ("44000", Code::InvalidInput),
            ("P0001", Code::InvalidInput),
            ("P0004", Code::InvalidInput),
            ("45000", Code::InvalidInput),
            ("UX001", Code::InvalidInput),
        ] {
            assert_eq!(Code::of_sqlstate(sqlstate), code, "{sqlstate}");
        }
    }

    #[test]
    fn what_functions_of_users_raise_is_no_fault_of_the_server() {
        for class in [
            "0A", "21", "22", "23", "25", "26", "2B", "2D", "38", "39", "3F", "42", "44", "54", "55", "HV", "P0",
        ] {
            let code = Code::of_function_of_user(&format!("{class}001"));
            assert_eq!(
                code,
                match class {
                    "23" => Code::Conflict,
                    _ => Code::InvalidInput,
                }
            );
        }
        for (sqlstate, code) in [
            // These are about other tables.
            ("42P01", Code::InvalidInput),
            ("42P07", Code::InvalidInput),
            ("23505", Code::InvalidInput),
            ("23502", Code::PropertiesNeedValue),
            ("23503", Code::Conflict),
            ("42501", Code::AuthorizationFailure),
            ("57014", Code::OperationTimedOut),
            ("40001", Code::ServerBusy),
            ("25006", Code::ServerBusy),
            ("53200", Code::ServerBusy),
            ("08006", Code::ServerBusy),
            ("58030", Code::InternalError),
            ("XX000", Code::InternalError),
        ] {
            assert_eq!(Code::of_function_of_user(sqlstate), code, "{sqlstate}");
        }
    }
}
