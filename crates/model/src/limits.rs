//! The limits of the Table service, in one place (semantics 1.3 to 1.5, 6).

/// Longest PartitionKey or RowKey, in UTF-16 code units.
pub const KEY_UTF16_UNITS: usize = 1024;

/// Longest PartitionKey and RowKey together, in UTF-8 bytes. A btree entry must fit a third of a page; the bound is
/// on the plain bytes, so that acceptance never depends on how well the keys compress.
pub const KEYS_BYTES: usize = 2680;

/// Most user properties of one entity; three system properties come on top.
pub const PROPERTIES: usize = 252;

/// Longest property name, in UTF-16 code units.
pub const PROPERTY_NAME_UTF16_UNITS: usize = 255;

/// Longest String value, in UTF-16 code units (64 KiB as UTF-16).
pub const STRING_UTF16_UNITS: usize = 32 * 1024;

/// Longest Binary value, in bytes.
pub const BINARY_BYTES: usize = 64 * 1024;

/// Largest entity, in bytes of the size formula (semantics 1.5).
pub const ENTITY_BYTES: usize = 1024 * 1024;

/// Most bytes of an entity as JSON. The formula counts two bytes for a UTF-16 unit of a text, and JSON has six for a control
/// character; keys, names, annotations and short values add the rest.
pub const ENTITY_JSON_BYTES: usize = 3 * ENTITY_BYTES + 64 * 1024;

/// Most bytes of an entity's keys and bag. The formula counts two bytes for a UTF-16 unit, which has up to three in UTF-8.
pub const ENTITY_ROW_BYTES: usize = 3 * ENTITY_BYTES / 2 + 64 * 1024;

/// Most bytes of a page: of its stored entities, or of its JSON.
pub const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// The bytes that the size formula counts for an entity before its keys and properties.
pub const ENTITY_BASE_BYTES: usize = 4;

/// Most members that one JSON object may have. Members whose value is `null` and annotations count here but not as
/// properties, so this is well above [`PROPERTIES`]. It bounds the memory that a hostile object takes.
pub const JSON_MEMBERS: usize = 4096;

/// Longest filter, in bytes of UTF-8. The service has no limit but that of its URLs; this one has room for an `or` of
/// 20,000 points.
pub const FILTER_BYTES: usize = 2 * 1024 * 1024;

/// Most parentheses of a filter that are open at the same place.
pub const FILTER_PARENTHESES: usize = 100_000;

/// How deep `and`, `or` and `not` may nest in each other. A list of `and`s, or of `or`s, is one level, however its
/// parentheses are set.
pub const FILTER_DEPTH: usize = 256;

/// Most key ranges of one query. A filter that would need more is read in fewer and coarser ranges.
pub const FILTER_RANGES: usize = 100_000;

/// Most bytes that the keys of a query's ranges have together. A filter such as `PartitionKey eq 'a long key' and
/// (RowKey eq '1' or RowKey eq '2' ...)` names the long key once, but each of its ranges has it; beyond this limit the
/// ranges are fewer and coarser.
pub const RANGE_BYTES: usize = 8 * FILTER_BYTES;

/// Most bytes of a filter's copies: the value of an `@name` counts for each use of the name, and the operand before an
/// `in` for each member of the list.
pub const FILTER_COPIED_BYTES: usize = 8 * FILTER_BYTES;

/// Most bytes that an entry of a property index has. An index tuple of PostgreSQL has 2704 bytes at most, 12 of them
/// headers. Two keys of 1 KiB fit behind the longest value. Permanent: indexes on disk hold entries of this length.
pub const INDEX_ENTRY_BYTES: usize = 2600;

/// Most bytes of a String that a property index holds, in UTF-8. Permanent.
pub const INDEXED_STRING_BYTES: usize = 512;

/// Most bytes of a Binary that a property index holds. Permanent.
pub const INDEXED_BINARY_BYTES: usize = 256;

/// Most spans of entries that a filter reads of property indexes. A filter that would need more reads fewer and longer
/// ones.
pub const INDEX_SPANS: usize = 256;

/// Most bytes of an argument of an SQL function: a text, an array or JSON. A larger one is refused.
pub const ARGUMENT_BYTES: usize = 64 * 1024 * 1024;

/// Most names in a projection.
pub const PROJECTION_NAMES: usize = 255;

/// Most bytes of a projection: its names have at most three bytes for each unit, and there is room for spaces.
pub const PROJECTION_BYTES: usize = 256 * 1024;

/// Most bytes of the JSON of access policies or of service properties.
pub const DOCUMENT_BYTES: usize = 64 * 1024;

/// Most operations of one entity group transaction (semantics 5.2).
pub const BATCH_OPERATIONS: usize = 100;

/// Largest payload of one entity group transaction, in bytes (semantics 5.2).
pub const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Fewest characters of a table's name.
pub const TABLE_NAME_MIN_CHARACTERS: usize = 3;

/// Most characters of a table's name.
pub const TABLE_NAME_MAX_CHARACTERS: usize = 63;

/// Most entities of a page, and how many it has if the caller does not say.
pub const PAGE_ENTITIES: u64 = 1000;

/// Most stored access policies of a table (semantics 4.9).
pub const POLICIES: usize = 5;

/// Longest identifier of a stored access policy, in characters.
pub const POLICY_ID_CHARACTERS: usize = 64;

/// Most CORS rules of an account (semantics 4.10).
pub const CORS_RULES: usize = 5;

/// Most origins, headers to expose and headers to allow of one CORS rule: of each list.
pub const CORS_ITEMS: usize = 64;

/// How many of a CORS rule's headers of one list may be prefixes, such as `x-ms-meta-*`.
pub const CORS_PREFIXES: usize = 2;

/// Most bytes of all CORS rules of an account.
pub const CORS_BYTES: usize = 2048;

/// How far the clock of a client that signs requests may be from ours, in minutes (semantics 7.1).
pub const CLOCK_WINDOW_MINUTES: i64 = 15;
