//! The calls of the page. Each is one statement, so each is one transaction.
//!
//! A statement takes texts and casts them itself. It returns one JSON value, which goes to the page as it is. It calls the SQL
//! API; what it reads of the catalog beside that are the estimated size and the number of rows of a table.

/// A call.
pub struct Call {
    /// Its path behind the account.
    pub name: &'static str,
    /// The names of `$1`, `$2` and so on in the body.
    pub parameters: &'static [&'static str],
    pub sql: &'static str,
}

/// What the grid shows of a value. All of it comes with `get_entity`.
macro_rules! shown {
    () => {
        "200"
    };
}

/// A moment as the service writes it.
macro_rules! moment {
    ($value:literal) => {
        concat!(
            "pg_catalog.to_char(",
            $value,
            " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
        )
    };
}

/// The properties of a bag: name, type, what is shown of the value, and how long the value is.
macro_rules! properties {
    ($bag:literal, $value:expr) => {
        concat!(
            "(SELECT coalesce(json_agg(json_build_array(v.name, v.type, ",
            $value,
            ", length(v.value))), '[]') FROM table_service.each_property(",
            $bag,
            ") AS v)"
        )
    };
}

/// The members of the entity `e`.
macro_rules! entity {
    ($value:expr) => {
        concat!(
            "'partitionKey', e.partition_key, 'rowKey', e.row_key, 'etag', table_service.etag(e.\"timestamp\"), 'timestamp', ",
            moment!("e.\"timestamp\""),
            ", 'properties', ",
            properties!("e.properties", $value)
        )
    };
}

pub const CALLS: &[Call] = &[
    Call {
        name: "query_tables",
        parameters: &["token"],
        sql: "SELECT json_build_object('tables', coalesce(json_agg(json_build_object(
                'name', t.table_name, 'estimate', s.estimate, 'bytes', s.bytes) ORDER BY lower(t.table_name) COLLATE \"C\"), '[]'),
                'token', max(t.continuation_token))
              FROM table_service.query_tables(top => 1000, continuation_token => $1) AS t,
                LATERAL (SELECT sum(c.reltuples) FILTER (WHERE c.reltuples >= 0)::bigint AS estimate,
                                sum(pg_catalog.pg_total_relation_size(c.oid))::bigint AS bytes
                         FROM (SELECT l.relid FROM pg_catalog.pg_partition_tree(t.relation) AS l UNION SELECT t.relation) AS r
                           JOIN pg_catalog.pg_class AS c ON c.oid = r.relid
                         WHERE c.relkind = 'r') AS s",
    },
    Call {
        name: "create_table",
        parameters: &["table"],
        sql: "SELECT json_build_object('relation', table_service.create_table($1))",
    },
    Call {
        name: "delete_table",
        parameters: &["table"],
        sql: "SELECT json_build_object('deleted', table_service.delete_table($1))",
    },
    Call {
        name: "clear_table",
        parameters: &["table"],
        sql: "SELECT json_build_object('cleared', table_service.clear_table($1)::text)",
    },
    Call {
        name: "count_entities",
        parameters: &["table", "filter"],
        sql: "SELECT json_build_object('count', table_service.count_entities($1, $2))",
    },
    Call {
        name: "explain_query",
        parameters: &["table", "filter"],
        sql: "SELECT row_to_json(e) FROM table_service.explain_query($1, $2) AS e",
    },
    Call {
        name: "query_page",
        parameters: &["table", "filter", "select", "top", "token"],
        sql: concat!(
            "SELECT json_build_object('entities', coalesce(json_agg(json_build_object(",
            entity!(concat!("left(v.value, ", shown!(), ")")),
            ") ORDER BY e.ordinality) FILTER (WHERE e.partition_key IS NOT NULL), '[]'), 'token', max(e.continuation_token))
             FROM table_service.query_page($1, $2, $3, $4::text::bigint, $5) WITH ORDINALITY AS e"
        ),
    },
    Call {
        name: "get_entity",
        parameters: &["table", "partitionKey", "rowKey"],
        sql: concat!(
            "SELECT json_build_object(",
            entity!("v.value"),
            ", 'json', e.properties::text) FROM table_service.get_entity($1, $2, $3) AS e"
        ),
    },
    Call {
        name: "read_properties",
        parameters: &["properties"],
        sql: concat!(
            "SELECT json_build_object('properties', ",
            properties!("e.properties", "v.value"),
            ", 'json', e.properties::text) FROM (SELECT $1::text::table_service.properties) AS e (properties)"
        ),
    },
    Call {
        name: "insert_entity",
        parameters: &["table", "partitionKey", "rowKey", "properties"],
        sql: "SELECT json_build_object('etag',
                table_service.insert_entity($1, $2, $3, $4::text::table_service.properties))",
    },
    Call {
        name: "replace_entity",
        parameters: &["table", "partitionKey", "rowKey", "properties", "etag"],
        sql: "SELECT json_build_object('etag',
                table_service.replace_entity($1, $2, $3, $4::text::table_service.properties, $5))",
    },
    // The delete tests the ETag under the lock, and an entity that has it has the properties that were read.
    Call {
        name: "rename_entity",
        parameters: &["table", "partitionKey", "rowKey", "etag", "newPartitionKey", "newRowKey"],
        sql: "SELECT json_build_object('etag', table_service.insert_entity($1, $5, $6, e.properties),
                                       'deleted', table_service.delete_entity($1, $2, $3, $4))
              FROM table_service.get_entity($1, $2, $3) AS e",
    },
    // In the order of the keys, as all writes of many entities, so that two of them cannot wait for each other.
    Call {
        name: "delete_entities_by_key",
        parameters: &["table", "keys"],
        sql: "SELECT json_build_object('deleted', count(table_service.delete_entity($1, k.key ->> 0, k.key ->> 1, k.key ->> 2)))
              FROM (SELECT j.key FROM json_array_elements($2::text::json) AS j (key)
                    ORDER BY (j.key ->> 0) COLLATE \"C\", (j.key ->> 1) COLLATE \"C\" OFFSET 0) AS k",
    },
    Call {
        name: "delete_entities_step",
        parameters: &["table", "filter", "top", "token"],
        sql: "SELECT json_build_object('deleted', d.deleted, 'token', d.continuation_token)
              FROM table_service.delete_entities_step($1, $2, $3::text::bigint, $4) AS d",
    },
    Call {
        name: "import_entities",
        parameters: &["table", "entities", "mode"],
        sql: "SELECT json_build_object('written', count(CASE $3
                WHEN 'insert' THEN table_service.insert_entity($1, e.partition_key, e.row_key, e.properties)
                WHEN 'replace' THEN table_service.insert_or_replace_entity($1, e.partition_key, e.row_key, e.properties)
                WHEN 'merge' THEN table_service.insert_or_merge_entity($1, e.partition_key, e.row_key, e.properties) END))
              FROM (SELECT i.* FROM json_array_elements($2::text::json) AS j (entity),
                      LATERAL table_service.entity_from_json(j.entity::text) AS i
                    ORDER BY i.partition_key COLLATE \"C\", i.row_key COLLATE \"C\" OFFSET 0) AS e",
    },
    Call {
        name: "query_property_indexes",
        parameters: &["table"],
        sql: "SELECT coalesce(json_agg(json_build_object('property', i.property, 'index', i.index, 'isValid', i.is_valid,
                'bytes', i.bytes, 'scans', i.scans) ORDER BY i.property COLLATE \"C\"), '[]')
              FROM table_service.query_property_indexes($1) AS i",
    },
    Call {
        name: "create_property_index",
        parameters: &["table", "property"],
        sql: "SELECT json_build_object('index', table_service.create_property_index($1, $2))",
    },
    Call {
        name: "property_index_sql",
        parameters: &["table", "property"],
        sql: "SELECT json_build_object('sql', table_service.property_index_sql($1, $2))",
    },
    Call {
        name: "drop_property_index",
        parameters: &["table", "property"],
        sql: "SELECT json_build_object('dropped', table_service.drop_property_index($1, $2))",
    },
    Call {
        name: "query_expiry",
        parameters: &["table"],
        sql: concat!(
            "SELECT coalesce(json_agg(json_build_object('property', x.property, 'timeToLive', x.time_to_live::text,
               'index', x.index, 'isValid', x.is_valid, 'oldest', ",
            moment!("x.oldest"),
            ")), '[]') FROM table_service.query_expiry($1) AS x"
        ),
    },
    Call {
        name: "set_expiry",
        parameters: &["table", "property", "timeToLive"],
        sql: "SELECT json_build_object('index', table_service.set_expiry($1, $2, $3::text::interval))",
    },
    Call {
        name: "drop_expiry",
        parameters: &["table"],
        sql: "SELECT json_build_object('dropped', table_service.drop_expiry($1))",
    },
    Call {
        name: "query_change_feeds",
        parameters: &[],
        sql: "SELECT coalesce(json_agg(json_build_object('name', f.feed_name, 'tables', f.table_names, 'isActive', f.is_active,
                'walStatus', f.wal_status, 'retainedBytes', f.retained_bytes) ORDER BY f.feed_name COLLATE \"C\"), '[]')
              FROM table_service.query_change_feeds() AS f",
    },
    // A feed is not confirmed here: that would take its changes away from the program that reads it.
    Call {
        name: "query_changes",
        parameters: &["feed", "top"],
        sql: concat!(
            "SELECT coalesce(json_agg(json_build_object('committed', ",
            moment!("c.committed"),
            ", 'table', c.table_name, 'kind', c.kind, 'partitionKey', c.partition_key, 'rowKey', c.row_key,
                'properties', left(c.properties::text, ",
            shown!(),
            ")) ORDER BY c.ordinality), '[]')
             FROM (SELECT q.* FROM table_service.query_changes($1, $2::text::bigint) WITH ORDINALITY AS q LIMIT 1000) AS c"
        ),
    },
    Call {
        name: "get_access_policies",
        parameters: &["table"],
        sql: "SELECT table_service.get_access_policies($1)",
    },
    Call {
        name: "set_access_policies",
        parameters: &["table", "policies"],
        sql: "SELECT json_build_object('set', table_service.set_access_policies($1, $2::text::json)::text)",
    },
];
