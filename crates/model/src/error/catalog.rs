//! The errors that the functions of the SQL API raise.

use super::code::Code;
use super::request::RequestError;
use super::row::catalog;
use crate::limits::PROPERTY_NAME_UTF16_UNITS;
use crate::text::abbreviate;

/// How many characters of a value a message or a hint quotes.
const QUOTED_VALUE: usize = 1024;
/// How many characters of a property's name a hint quotes.
const QUOTED_NAME: usize = 64;
/// How many characters of a key a DETAIL quotes.
const QUOTED_KEY: usize = 256;

catalog! {
    /// An error of the Table service. `Display` gives the service's message without its code.
    pub enum Error {
        EntityAlreadyExists: EntityAlreadyExists "23505" BackEnd
            "The specified entity already exists.";
        EntityNotFound: ResourceNotFound "P0002" BackEnd
            "The specified resource does not exist.";
        UpdateConditionNotSatisfied: UpdateConditionNotSatisfied "40002" BackEnd
            "The update condition specified in the request was not satisfied.";
        /// The condition of a patch fails because `entity` lacks a property.
        PropertyOfConditionMissing { entity: &'static str, property: String }:
            UpdateConditionNotSatisfied "40002" BackEnd
            "The update condition specified in the request was not satisfied."
            hint "{entity} no property \"{property}\". A comparison with a property that is missing does not hold, whatever its operator is; with not before it, it holds: where {property} lt ... fails, not ({property} ge ...) passes.";

        TableAlreadyExists: TableAlreadyExists "42P07" BackEnd
            "The table specified already exists.";
        /// An object that is not a table of the service has the name of a new table; `reason` has PostgreSQL's words.
        TableNameTaken { reason: String }: TableAlreadyExists "42P07" BackEnd
            "The table specified already exists."
            hint "Another object in the schema table_service_data has this name, in any case ({reason}). Take another name, or rename or drop that object.";
        /// Tables have the name in several cases. They were made where the event trigger did not run.
        TableNameAmbiguous { names: String }: AmbiguousTableName "42P09" FrontEnd
            "The specified table name is ambiguous: tables have it in several cases."
            hint "The schema table_service_data has the tables {names}. Rename or drop all but one, for example with ALTER TABLE table_service_data.\"...\" RENAME TO. Until then no function takes any of them.";
        /// An operation on entities names a table that does not exist.
        TableNotFound: TableNotFound "42P01" FrontEnd
            "The table specified does not exist.";
        /// A table that does not exist cannot be deleted.
        TableToDeleteNotFound: ResourceNotFound "42P01" BackEnd
            "The specified resource does not exist.";
        /// The message has the service's own spelling.
        TableNameInvalid: InvalidResourceName "42602" BackEnd
            "The specifed resource name contains invalid characters."
            hint "A table name is a letter followed by letters and digits (ASCII).";
        TableNameLength: OutOfRangeInput "42602" BackEnd
            "The specified resource name length is not within the permissible limits."
            hint "A table name has 3 to 63 characters.";
        TableNameReserved: InvalidInput "22023" BackEnd
            "One of the request inputs is not valid."
            hint "The table name \"tables\" is reserved.";

        /// A table has a property index that a new one would repeat.
        PropertyIndexExists { property: String }: ResourceAlreadyExists "42P07" BackEnd
            "The specified resource already exists."
            hint "The table has an index on the property \"{property}\".";
        PropertyIndexNotFound { property: String }: ResourceNotFound "42704" BackEnd
            "The specified resource does not exist."
            hint "The table has no index on the property \"{property}\".";

        /// A table has an expiry.
        ExpiryExists: ResourceAlreadyExists "42P07" BackEnd
            "The specified resource already exists."
            hint "The table has an expiry. To change it, call drop_expiry and set_expiry in one transaction.";
        ExpiryNotFound: ResourceNotFound "42704" BackEnd
            "The specified resource does not exist."
            hint "The table has no expiry.";
        ChangeFeedExists { feed: String }: ResourceAlreadyExists "42710" BackEnd
            "The specified resource already exists."
            hint "There is a change feed \"{feed}\".";
        /// A publication that only a feed of this name could have is there, without a slot.
        ChangeFeedPublicationExists { feed: String }: ResourceAlreadyExists "42710" BackEnd
            "The specified resource already exists."
            hint "There is a publication table_service_{feed} without a slot, as after a restore. With if_not_exists => true it becomes the change feed again, with the tables that \\dRp+ shows. Or call drop_change_feed('{feed}') first.";
        ChangeFeedNotFound { feed: String }: ResourceNotFound "42704" BackEnd
            "The specified resource does not exist."
            hint "There is no change feed \"{feed}\": create_change_feed makes it, and query_change_feeds lists those that there are.";
        /// A feed has its publication, but no slot.
        ChangeFeedSlotNotFound { feed: String }: ResourceNotFound "42704" BackEnd
            "The specified resource does not exist."
            hint "The replication slot of the change feed \"{feed}\" is gone, as after a restore, or after a promotion before PostgreSQL 17, and with it the changes since then. Call create_change_feed('{feed}', if_not_exists => true), which makes a new slot, then copy the tables again.";
        /// A feed has its publication on this standby, and its slot on the primary.
        ChangeFeedOfPrimary { feed: String }: ResourceNotFound "42704" BackEnd
            "The specified resource does not exist."
            hint "This server is a standby, and has no replication slot of the change feed \"{feed}\". Read the feed on the primary.";
        /// A feed has its slot, but no publication.
        ChangeFeedPublicationNotFound { feed: String }: ResourceNotFound "42704" BackEnd
            "The specified resource does not exist."
            hint "The publication of the change feed \"{feed}\" is gone. Call drop_change_feed('{feed}') and create_change_feed, then copy the tables again.";
        /// The name of a feed's slot belongs to a slot that is not for feeds.
        ChangeFeedSlotOfOthers { slot: String }: InvalidInput "22023" BackEnd
            "One of the request inputs is not valid."
            hint "The replication slot \"{slot}\", whose name is that of the change feed's, is none of pgoutput in this database. Drop it with pg_drop_replication_slot, or take another feed_name.";
        /// A feed's slot gives changes before their transaction commits.
        ChangeFeedSlotOfTwoPhases { feed: String }: InvalidInput "55000" BackEnd
            "One of the request inputs is not valid."
            hint "The replication slot of the change feed \"{feed}\" gives prepared transactions before they commit (two_phase): whoever made it, or a subscription that uses it, has asked for that. Call drop_change_feed('{feed}') and create_change_feed, then copy the tables again.";
        /// A role that could not have made the feed owns the publication with its name, and decides what it publishes.
        ChangeFeedPublicationOfOthers { publication: String, owner: String }: AuthorizationFailure "42501" FrontEnd
            "This request is not authorized to perform this operation."
            hint "The publication {publication} belongs to the role \"{owner}\", which has no REPLICATION, so it is no change feed's: its owner decides which changes it has. Drop it (DROP PUBLICATION), or give it to a role with REPLICATION if you trust what it has (ALTER PUBLICATION {publication} OWNER TO ...). drop_change_feed drops the slot of the change feed in any case.";
        /// The publication of a feed leaves changes of its tables out; `what` is the reason in the hint.
        ChangeFeedPublicationInPart { publication: String, what: String }: InvalidInput "55000" BackEnd
            "One of the request inputs is not valid."
            hint "The publication {publication} {what}, so the change feed has lost changes. Call ALTER PUBLICATION {publication} SET (publish = 'insert, update, delete, truncate', publish_via_partition_root), publish tables without WHERE, drop and create the change feed, then copy the tables again.";
        /// The publication of a feed is there and has not a table that the feed is asked for.
        ChangeFeedLacksTable { publication: String, table: String }: InvalidInput "55000" BackEnd
            "One of the request inputs is not valid."
            hint "The publication {publication} is there and has not the table \"{table}\". Add it with ALTER PUBLICATION {publication} ADD TABLE and copy it again, or drop the change feed and create it.";
        /// A feed is there and asked for old images, which a table of it does not have.
        ChangeFeedLacksImages { table: String }: InvalidInput "55000" BackEnd
            "One of the request inputs is not valid."
            hint "The change feed is there, and has no old images of {table}. Call ALTER TABLE {table} REPLICA IDENTITY FULL, or drop the change feed and create it with old_images.";
        /// The replica identity of a table lacks the keys, so that a feed could not tell its updates and deletes.
        ChangeFeedNeedsKeys { table: String }: InvalidInput "55000" BackEnd
            "One of the request inputs is not valid."
            hint "The replica identity of {table} has not the keys of its entities, so PostgreSQL would refuse updates and deletes, or publish them without keys. Call ALTER TABLE {table} REPLICA IDENTITY DEFAULT, which uses the primary key, or REPLICA IDENTITY FULL; or name the tables of the change feed without it.";
        /// A slot has given a message that cannot be read.
        ChangesUnreadable { reason: String }: InternalError "XX001" BackEnd
            "Server encountered an internal error. Please try again after some time."
            hint "{reason}. Another output plugin than pgoutput may have written it.";

        /// A key is NULL or missing.
        KeyMissing { key: &'static str }: PropertiesNeedValue "23502" FrontEnd
            "The values are not specified for all properties in the entity."
            hint "{key} needs a value.";
        /// A key has a forbidden character.
        KeyCharacter { key: &'static str, value: String, character: String }: OutOfRangeInput "22003" FrontEnd
            "The '{key}' parameter of value '{value}' is out of range."
            hint "A key must not contain {character}. Forbidden are / \\ # ? and control characters.";
        /// A DateTime is out of range.
        ParameterOutOfRange { parameter: String, value: String }: OutOfRangeInput "22003" FrontEnd
            "The '{parameter}' parameter of value '{value}' is out of range.";
        /// A key is longer than a key may be. The service has the same message as for a property.
        KeyTooLong: PropertyValueTooLarge "54000" BackEnd
            "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less."
            hint "PartitionKey and RowKey have at most 1024 UTF-16 units each, and 2680 bytes of UTF-8 together.";

        PropertyNameInvalid { name: String }: PropertyNameInvalid "22023" FrontEnd
            "The property name is invalid."
            hint "\"{name}\" is no property name: a letter or _ comes first, then letters, digits and _.";
        PropertyNameTooLong { name: String }: PropertyNameTooLong "54000" FrontEnd
            "The property name exceeds the maximum allowed length (255)."
            hint "The name begins with \"{name}\".";
        DuplicateProperty { name: String }: DuplicatePropertiesSpecified "22023" FrontEnd
            "A property is specified more than one time."
            hint "The property is \"{name}\".";
        PropertyValueTooLarge { name: String }: PropertyValueTooLarge "54000" BackEnd
            "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less."
            hint "The property is \"{name}\".";
        TooManyProperties: TooManyProperties "54000" BackEnd
            "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.";
        EntityTooLarge: EntityTooLarge "54000" BackEnd
            "The entity is larger than the maximum allowed size (1MB).";

        /// A well-formed payload has a value that the service cannot take; `reason` says which and why.
        UnreadableValue { reason: String }: InvalidInput "22023" FrontEnd
            "An error occurred while processing this request."
            hint "{reason}.";
        /// The text is not JSON, or not a JSON object.
        MalformedJson { reason: String }: InvalidInput "22P02" FrontEnd
            "An error occurred while processing this request."
            hint "{reason}.";
        /// The bytes are not a property bag, in the binary protocol.
        MalformedBinary { reason: &'static str }: InvalidInput "22P03" FrontEnd
            "An error occurred while processing this request."
            hint "{reason}.";
        EtagInvalid { value: String }: InvalidInput "22023" FrontEnd
            "The etag value '{value}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid."
            hint "An ETag looks like W/\"datetime'2026-01-31T12%3A00%3A00Z'\"; * means any version.";
        /// An argument of the SQL API is NULL or outside its values; `reason` says which.
        ArgumentInvalid { reason: String }: InvalidInput "22023" BackEnd
            "One of the request inputs is not valid."
            hint "{reason}.";

        /// A procedure that commits was called inside of a transaction block.
        CalledInTransaction { procedure: &'static str }: InvalidInput "2D000" BackEnd
            "One of the request inputs is not valid."
            hint "{procedure} commits after each step, so it cannot run in a transaction block or a function. Call it by itself, or call the function of the same name without in_steps.";

        /// A function was called in a transaction that keeps one snapshot.
        CalledWithOneSnapshot { function: &'static str }: InvalidInput "25001" BackEnd
            "One of the request inputs is not valid."
            hint "{function} needs a transaction at READ COMMITTED: with one snapshot, as at REPEATABLE READ and SERIALIZABLE, it does not see all that others have committed.";

        /// A filter does not parse; `position` is the end of the first unexpected token, in UTF-16 units. `expected`
        /// describes the syntax that could be there.
        FilterSyntax { position: usize, filter: String, expected: &'static str }: InvalidInput "22023" FrontEnd
            "Syntax error at position {position} in '{filter}'."
            hint "{expected}.";
        /// A String in a filter, or in the keys of a URL, has no end. The position is the end of the text, in UTF-16 units.
        StringUnterminated { position: usize, text: String }: InvalidInput "22023" FrontEnd
            "There is an unterminated string literal at position {position} in '{text}'."
            hint "A literal ends with a single quote, and a single quote within it is written twice.";
        /// Another literal, such as a DateTime, has no end.
        LiteralUnterminated { position: usize, text: String }: InvalidInput "22023" FrontEnd
            "There is an unterminated literal at position {position} in '{text}'."
            hint "A literal ends with a single quote.";
        /// A character is in a place where no character of its kind can be; `position` is its place, in UTF-16 units.
        CharacterInvalid { character: char, position: usize, text: String, reason: &'static str }:
            InvalidInput "22023" FrontEnd
            "Syntax error: character '{character}' is not valid at position {position} in '{text}'."
            hint "{reason}.";
        /// A number ends behind its point or its exponent.
        DigitExpected { position: usize, text: String }: InvalidInput "22023" FrontEnd
            "A digit was expected at position {position} in '{text}'."
            hint "A number is written as 30, 5L, 1.5 or 1e10.";
        /// A filter is a literal and no condition.
        FilterNotBoolean { reason: &'static str }: InvalidInput "22023" FrontEnd
            "The $filter expression must evaluate to a single boolean value."
            hint "{reason}.";
        /// A literal of a filter does not have the form of its type; `position` is its start, in UTF-16 units.
        FilterLiteral { edm: &'static str, literal: String, position: usize, filter: String, form: &'static str }:
            InvalidInput "22023" FrontEnd
            "Unrecognized '{edm}' literal '{literal}' at '{position}' in '{filter}'."
            hint "{form}.";
        /// The operator beside `null` is neither `eq` nor `ne`.
        FilterNullOperator { operator: &'static str }: InvalidInput "22023" FrontEnd
            "The operator '{operator}' is not supported for the 'null' literal; only equality checks are supported.";
        /// A filter is too long or nests too deep; `reason` says which.
        FilterBeyondLimit { reason: String }: InvalidInput "54000" FrontEnd
            "One of the request inputs is not valid."
            hint "{reason}.";

        /// The message has the index of the first operation that is too many.
        TooManyOperations: InvalidInput "54000" FrontEnd
            "99:The batch request operation exceeds the maximum 100 changes per change set.";
        BatchTooLarge: RequestBodyTooLarge "54000" FrontEnd
            "The request body is too large and exceeds the maximum permissible limit.";
        DuplicateRow: InvalidDuplicateRow "22023" FrontEnd
            "The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.";
        AnotherPartition: CommandsInBatchActOnDifferentPartitions "22023" FrontEnd
            "All commands in a batch must operate on same entity group.";

        /// A query of the tables names a property that tables do not have. The service answers with a fault.
        UnknownTableProperty { name: String }: InternalError "42703" BackEnd
            "Server encountered an internal error. Please try again after some time."
            hint "Tables have no property \"{name}\", only TableName.";
        /// A stored row has NULL in a column, or a bag whose bytes are invalid; `reason` names the row.
        ///
        /// No function of the service writes such a row, but the owner of the table can.
        StoredEntityInvalid { reason: String }: InternalError "XX001" BackEnd
            "Server encountered an internal error. Please try again after some time."
            hint "{reason}.";

        NotImplemented { reason: String }: NotImplemented "0A000" BackEnd
            "The requested operation is not implemented on the specified resource."
            hint "{reason}.";
        /// On a Citus cluster. PostgreSQL has this SQLSTATE for a lock that another session holds.
        ShardsMove: ServerBusy "55P03" BackEnd
            "The server is currently unable to receive requests. Please retry your request."
            hint "A shard of the cluster moves or is split, and meanwhile no table is made or distributed. Try again when that has ended: SELECT * FROM citus_rebalance_status().";
        NotAuthorized { reason: String }: AuthorizationFailure "42501" FrontEnd
            "This request is not authorized to perform this operation."
            hint "{reason}.";

        /// The credentials are wrong, expired or not yet valid; `reason` says which, for logs.
        AuthenticationFailed { reason: String }: AuthenticationFailed "28000" FrontEnd
            "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature."
            hint "{reason}.";
        /// The Authorization header cannot be read.
        AuthenticationUnreadable { reason: &'static str }: InvalidAuthenticationInfo "28000" FrontEnd
            "Authentication information is not given in the correct format. Check the value of Authorization header."
            hint "{reason}.";
        /// There are no credentials; the answer has a challenge.
        NotAuthenticated: NoAuthenticationInformation "28000" FrontEnd
            "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.";
        PermissionMismatch { needed: &'static str }: AuthorizationPermissionMismatch "42501" FrontEnd
            "This request is not authorized to perform this operation using this permission."
            hint "It needs {needed}.";
        ProtocolMismatch: AuthorizationProtocolMismatch "42501" FrontEnd
            "This request is not authorized to perform this operation using this protocol.";
        ResourceTypeMismatch { needed: &'static str }: AuthorizationResourceTypeMismatch "42501" FrontEnd
            "This request is not authorized to perform this operation using this resource type."
            hint "It needs the resource type {needed}.";
        ServiceMismatch: AuthorizationServiceMismatch "42501" FrontEnd
            "This request is not authorized to perform this operation using this service."
            hint "The signature is not for the Table service, whose letter is t.";
        SourceIpMismatch { address: std::net::IpAddr }: AuthorizationSourceIPMismatch "42501" FrontEnd
            "This request is not authorized to perform this operation using this source IP {address}.";
        /// A document of access policies or service properties has a value that it must not have.
        DocumentInvalid { reason: String }: InvalidXmlDocument "22023" FrontEnd
            "XML specified is not syntactically valid."
            hint "{reason}.";
    }
    containing {
        /// The error of one operation of an entity group transaction, by its index from zero.
        #[error("{index}:{error}")]
        InBatch { index: usize, error: Box<Error> },
        /// An error with a DETAIL in SQL. Over HTTP the answer has only the error itself.
        #[error("{error}")]
        About { error: Box<Error>, detail: String },
        /// An error that only requests have. No SQL function raises it.
        #[error("{0}")]
        Request(#[from] RequestError),
    }
    passing {
        Error::InBatch { error, .. } => error,
        Error::About { error, .. } => error,
        Error::Request(error) => error,
    }
}

impl Error {
    /// Returns an unreadable value. `reason` should be one sentence without a full stop; it becomes the hint.
    pub(crate) fn unreadable(reason: impl Into<String>) -> Self {
        Error::UnreadableValue { reason: reason.into() }
    }

    /// `OutOfRangeInput` for a key with a character that no key may have.
    pub(crate) fn key_character(key: &'static str, value: &str, character: char) -> Self {
        Error::KeyCharacter {
            key,
            value: abbreviate(value, QUOTED_VALUE),
            character: if character.is_control() {
                format!("U+{:04X}", u32::from(character))
            } else {
                character.to_string()
            },
        }
    }

    /// Returns `OutOfRangeInput` for a value of `parameter`. Of a long value the message quotes the start.
    pub fn out_of_range(parameter: &str, value: &str) -> Self {
        Error::ParameterOutOfRange {
            parameter: abbreviate(parameter, PROPERTY_NAME_UTF16_UNITS),
            value: abbreviate(value, QUOTED_VALUE),
        }
    }

    /// Returns a property's name, which may have any length, as hints quote it.
    pub(crate) fn quoted(name: &str) -> String {
        abbreviate(name, QUOTED_NAME)
    }

    /// Returns the error for a NULL in the argument `name` of the SQL API, which needs a value.
    pub fn null_argument(name: &str) -> Self {
        Error::argument(format!("{name} must not be NULL"))
    }

    /// Returns the error for an argument of the SQL API. The reason says which it is, and becomes the hint.
    pub fn argument(reason: impl Into<String>) -> Self {
        Error::ArgumentInvalid { reason: reason.into() }
    }

    /// Returns this error as that of the operation with this index, from zero, of an entity group transaction.
    pub fn at(self, index: usize) -> Error {
        Error::InBatch {
            index,
            error: Box::new(self),
        }
    }

    /// Returns this error with the keys of the entity that it is about.
    pub fn of_entity(self, partition_key: &str, row_key: &str) -> Error {
        let [partition_key, row_key] = [partition_key, row_key].map(|key| abbreviate(key, QUOTED_KEY));
        self.about(format!(
            "The PartitionKey is '{partition_key}', and the RowKey is '{row_key}'."
        ))
    }

    /// Returns this error with the keys of the entity that a write was for, if it says how that entity is stored.
    pub fn of_written(self, partition_key: &str, row_key: &str) -> Error {
        match self.code() {
            Code::EntityAlreadyExists | Code::ResourceNotFound | Code::UpdateConditionNotSatisfied => {
                self.of_entity(partition_key, row_key)
            }
            _ => self,
        }
    }

    /// Returns this error with the name of a table that there is.
    pub fn of_table(self, name: &str) -> Error {
        self.about(format!("There is a table \"{name}\"."))
    }

    /// Returns this error with the name of a table that there is not, and with the nearest name of one that there is.
    pub fn of_missing_table(self, name: &str, nearest: Option<&str>) -> Error {
        let nearest = nearest.map_or_else(String::new, |nearest| format!(" The nearest name is \"{nearest}\"."));
        self.about(format!("There is no table \"{name}\".{nearest}"))
    }

    fn about(self, detail: String) -> Error {
        Error::About {
            error: Box::new(self),
            detail,
        }
    }

    /// Returns the DETAIL of the error in SQL.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Error::About { detail, .. } => Some(detail),
            Error::InBatch { error, .. } => error.detail(),
            _ => None,
        }
    }

    /// Returns the SQLSTATE, five characters.
    pub fn sqlstate(&self) -> &'static str {
        // No function raises an error of a request; 08P01 (protocol_violation) would name it best.
        self.own_sqlstate().unwrap_or("08P01")
    }

    /// Returns the message as PostgreSQL raises it: `<Code>: <message>`. [`super::Report::parse`] reads it.
    pub fn report(&self) -> String {
        format!("{}: {self}", self.code())
    }
}
