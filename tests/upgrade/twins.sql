-- Two tables with names that differ in case only, and one with a reserved name. Versions before 0.5.0 let users make
-- them, and a later one has them after an upgrade. Its event trigger would refuse new ones.
DO $$
DECLARE
    has_names boolean := EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'table_service_definitions');
BEGIN
    IF has_names THEN
        ALTER EVENT TRIGGER table_service_definitions DISABLE;
    END IF;
    CREATE TABLE table_service_data."Twins" OF table_service.entity (PRIMARY KEY (partition_key, row_key));
    CREATE TABLE table_service_data.twins OF table_service.entity (PRIMARY KEY (partition_key, row_key));
    CREATE TABLE table_service_data."Tables" OF table_service.entity (PRIMARY KEY (partition_key, row_key));
    IF has_names THEN
        ALTER EVENT TRIGGER table_service_definitions ENABLE ALWAYS;
    END IF;
    INSERT INTO table_service_data."Twins" VALUES ('p', 'r', '2024-01-01Z', '{"A": 1}');
    INSERT INTO table_service_data.twins VALUES ('p', 'r', '2024-01-01Z', '{"A": 2}');
    INSERT INTO table_service_data."Tables" VALUES ('p', 'r', '2024-01-01Z', '{"A": 3}');
END $$;
