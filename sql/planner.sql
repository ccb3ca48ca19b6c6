-- Only PostgreSQL 19 and later ask a function in FROM for the query that it stands for. Before, the planner would load the support
-- function for nothing, and a session with an older library, which lacks it, could not call query_entities after an upgrade.
DO $support$
BEGIN
    IF pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.>=) 190000 THEN
        ALTER FUNCTION table_service.query_entities(text, text, text, bigint, table_service.properties) SUPPORT table_service.query_entities_support;
    END IF;
END
$support$;
