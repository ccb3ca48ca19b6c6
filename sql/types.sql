-- The property bag of one entity: Edm values by name, in a binary format of its own.
CREATE TYPE table_service.properties (
    INPUT = table_service.properties_in,
    OUTPUT = table_service.properties_out,
    RECEIVE = table_service.properties_recv,
    SEND = table_service.properties_send,
    INTERNALLENGTH = VARIABLE,
    ALIGNMENT = int4,
    STORAGE = extended
);
COMMENT ON TYPE table_service.properties IS 'The typed properties of one entity';

-- One entity. Keys compare by code point, whatever the database's collation.
CREATE TYPE table_service.entity AS (
    partition_key text COLLATE pg_catalog."C",
    row_key text COLLATE pg_catalog."C",
    "timestamp" timestamptz,
    properties table_service.properties
);
COMMENT ON TYPE table_service.entity IS 'One entity of the Table service';
