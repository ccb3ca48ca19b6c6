-- Upgrades a database from version 0.2.0 to 0.3.0. Objects that are new or that change are here and in sql/install.sql: a test
-- compares an upgraded database with a new one, object by object.

\echo Use "ALTER EXTENSION table_service UPDATE TO '0.3.0'" to load this file. \quit
