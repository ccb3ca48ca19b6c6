-- The property bag of one entity: Edm values by name, in a binary format of its own.
CREATE TYPE table_service.properties (
    INPUT = table_service.properties_in,
    OUTPUT = table_service.properties_out,
    RECEIVE = table_service.properties_recv,
    SEND = table_service.properties_send,
    SUBSCRIPT = table_service.properties_subscript,
    INTERNALLENGTH = VARIABLE,
    ALIGNMENT = int4,
    STORAGE = extended
);

-- One entity. Keys are ordered by code point, whatever the collation of the database is.
CREATE TYPE table_service.entity AS (
    partition_key text COLLATE pg_catalog."C",
    row_key text COLLATE pg_catalog."C",
    "timestamp" timestamptz,
    properties table_service.properties
);

-- One operation of an entity group transaction. The functions batch_… make it.
CREATE TYPE table_service.batch_operation AS (
    operation text,
    row_key text,
    properties table_service.properties,
    if_match text
);
