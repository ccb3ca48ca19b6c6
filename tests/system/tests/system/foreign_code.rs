//! Which code runs with which rights. A tenant plants code in every place where PostgreSQL can keep some: no function
//! that visits tables which its caller has not named may run any of it as the caller.

use std::collections::{BTreeMap, BTreeSet};

use system_tests::{Cluster, Database, Expect, Session, wait_until};

/// Every place of PostgreSQL's catalogs that holds an expression or refers to a function, and how a role without
/// privileges puts its code there. The statements are about the table {t}; `spy_…` are functions of the tenant that
/// note their callers. A place that is missing here fails the test: a new version of PostgreSQL may have one.
const PLACES: &[(&str, Planting)] = &[
    ("pg_attrdef.adbin", Planting::Sql("ALTER TABLE {t} ALTER properties SET DEFAULT spy_bag('{p}')")),
    (
        "pg_constraint.conbin",
        Planting::Sql(
            "ALTER TABLE {t} ADD CHECK (spy('{p}', row_key) IS NOT NULL);
            CREATE DOMAIN dom AS text CHECK (spy('{p}', VALUE) IS NOT NULL);
            CREATE INDEX ON {t} ((row_key::dom)); CREATE INDEX ON {t} ((row_key || 'x'::dom::text))",
        ),
    ),
    (
        "pg_index.indexprs",
        Planting::Sql(
            "CREATE INDEX ON {t} ((row_key || spy('{p}', 'x')));
            CREATE INDEX ON {t} (expires_at(\"timestamp\", properties, spy('{p}', 'E'), NULL))
              WHERE expires_at(\"timestamp\", properties, spy('{p}', 'E'), NULL) IS NOT NULL",
        ),
    ),
    ("pg_index.indpred", Planting::Sql("CREATE INDEX ON {t} (row_key) WHERE spy('{p}', 'x') = 'x'")),
    (
        "pg_policy.polqual",
        Planting::Sql("ALTER TABLE {t} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY p ON {t} USING (spy('{p}', row_key) IS NOT NULL)"),
    ),
    (
        "pg_policy.polwithcheck",
        Planting::Sql("ALTER TABLE {t} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY p ON {t} USING (true) WITH CHECK (spy('{p}', row_key) IS NOT NULL)"),
    ),
    (
        "pg_proc.prosqlbody",
        Planting::Sql(
            "CREATE FUNCTION body(text) RETURNS text LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT spy('{p}', $1); END;
            CREATE INDEX ON {t} ((row_key || body('x')))",
        ),
    ),
    (
        "pg_proc.proargdefaults",
        Planting::Sql(
            "CREATE FUNCTION defaulted(text, text DEFAULT spy('{p}', 'x')) RETURNS text LANGUAGE sql IMMUTABLE RETURN $1 || $2;
            CREATE INDEX ON {t} (defaulted(row_key))",
        ),
    ),
    (
        "pg_rewrite.ev_action",
        Planting::Sql("CREATE RULE r AS ON DELETE TO {t} DO ALSO SELECT spy('{p}', 'x')"),
    ),
    (
        "pg_rewrite.ev_qual",
        Planting::Sql("CREATE RULE r AS ON DELETE TO {t} WHERE spy('{p}', OLD.row_key) = 'none' DO INSTEAD NOTHING"),
    ),
    ("pg_statistic_ext.stxexprs", Planting::Sql("CREATE STATISTICS s ON (spy('{p}', row_key)), (row_key || spy('{p}', 'x')) FROM {t}")),
    (
        "pg_trigger.tgqual",
        Planting::Sql("CREATE TRIGGER t BEFORE DELETE ON {t} FOR EACH ROW WHEN (spy('{p}', OLD.row_key) IS NOT NULL) EXECUTE FUNCTION spy_trigger('{p}')"),
    ),
    (
        "pg_trigger.tgfoid",
        Planting::Sql(
            "CREATE TRIGGER s BEFORE DELETE ON {t} FOR EACH STATEMENT EXECUTE FUNCTION spy_trigger('{p}');
            CREATE TRIGGER r AFTER DELETE ON {t} FOR EACH ROW EXECUTE FUNCTION spy_trigger('{p}')",
        ),
    ),
    ("pg_type.typdefaultbin", Planting::Constant),
    (
        "pg_partitioned_table.partexprs",
        Planting::Sql(
            "DROP TABLE {t}; CREATE TABLE {t} OF table_service.entity PARTITION BY LIST (spy('{p}', partition_key));
            CREATE TABLE part PARTITION OF {t} DEFAULT",
        ),
    ),
    ("pg_class.relpartbound", Planting::Constant),
    ("pg_publication_rel.prqual", Planting::BuiltInOnly),
    // PostgreSQL 19: a property graph is read by queries of graphs alone.
    ("pg_propgraph_label_property.plpexpr", Planting::BuiltInOnly),
    (
        "pg_aggregate.aggtransfn",
        Planting::Sql(
            "CREATE AGGREGATE agg(text) (SFUNC = spy, STYPE = text, INITCOND = '{p}');
            CREATE RULE r AS ON DELETE TO {t} DO ALSO SELECT agg('x')",
        ),
    ),
    (
        "pg_aggregate.aggfinalfn",
        Planting::Sql(
            "CREATE FUNCTION final(text) RETURNS text LANGUAGE sql AS $$ SELECT {s}.spy('{p}', $1) $$;
            CREATE AGGREGATE agg(text) (SFUNC = textcat, STYPE = text, FINALFUNC = final);
            CREATE RULE r AS ON DELETE TO {t} DO ALSO SELECT agg('x')",
        ),
    ),
    ("pg_aggregate.aggcombinefn", Planting::AsAggregate),
    ("pg_aggregate.aggserialfn", Planting::AsAggregate),
    ("pg_aggregate.aggdeserialfn", Planting::AsAggregate),
    ("pg_aggregate.aggmtransfn", Planting::AsAggregate),
    ("pg_aggregate.aggminvtransfn", Planting::AsAggregate),
    ("pg_aggregate.aggmfinalfn", Planting::AsAggregate),
    ("pg_aggregate.aggfnoid", Planting::AsAggregate),
    ("pg_am.amhandler", Planting::SuperuserOnly),
    ("pg_amproc.amproc", Planting::SuperuserOnly),
    (
        "pg_cast.castfunc",
        Planting::Sql(
            "CREATE TYPE mood AS ENUM ('x'); CREATE FUNCTION as_text(mood) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN {s}.spy('{p}', 'x'); END $$;
            CREATE CAST (mood AS text) WITH FUNCTION as_text(mood) AS IMPLICIT; CREATE INDEX ON {t} ((row_key || ('x'::mood)::text))",
        ),
    ),
    // Conversions take functions in C.
    ("pg_conversion.conproc", Planting::SuperuserOnly),
    ("pg_event_trigger.evtfoid", Planting::SuperuserOnly),
    ("pg_foreign_data_wrapper.fdwhandler", Planting::SuperuserOnly),
    ("pg_foreign_data_wrapper.fdwvalidator", Planting::SuperuserOnly),
    // PostgreSQL 19.
    ("pg_foreign_data_wrapper.fdwconnection", Planting::SuperuserOnly),
    ("pg_language.lanplcallfoid", Planting::SuperuserOnly),
    ("pg_language.laninline", Planting::SuperuserOnly),
    ("pg_language.lanvalidator", Planting::SuperuserOnly),
    (
        "pg_operator.oprcode",
        Planting::Sql(
            "CREATE OPERATOR === (FUNCTION = spy, LEFTARG = text, RIGHTARG = text);
            CREATE INDEX ON {t} ((row_key || ('{p}'::text === 'x'::text)))",
        ),
    ),
    // Estimators take arguments of the type internal.
    ("pg_operator.oprrest", Planting::SuperuserOnly),
    ("pg_operator.oprjoin", Planting::SuperuserOnly),
    ("pg_proc.prosupport", Planting::SuperuserOnly),
    ("pg_range.rngcanonical", Planting::SuperuserOnly),
    (
        "pg_range.rngsubdiff",
        Planting::Sql(
            "CREATE FUNCTION diff(float8, float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM {s}.spy('{p}', 'x'); RETURN $1 - $2; END $$;
            CREATE TYPE span AS RANGE (SUBTYPE = float8, SUBTYPE_DIFF = diff);
            CREATE INDEX ON {t} USING gist ((span(length(row_key), 1 + length(row_key))))",
        ),
    ),
    // PostgreSQL 19: the functions that make ranges are called by expressions, which are other places.
    ("pg_range.rngconstruct2", Planting::BuiltInOnly),
    ("pg_range.rngconstruct3", Planting::BuiltInOnly),
    ("pg_range.rngmltconstruct0", Planting::BuiltInOnly),
    ("pg_range.rngmltconstruct1", Planting::BuiltInOnly),
    ("pg_range.rngmltconstruct2", Planting::BuiltInOnly),
    ("pg_transform.trffromsql", Planting::SuperuserOnly),
    ("pg_transform.trftosql", Planting::SuperuserOnly),
    ("pg_ts_parser.prsstart", Planting::SuperuserOnly),
    ("pg_ts_parser.prstoken", Planting::SuperuserOnly),
    ("pg_ts_parser.prsend", Planting::SuperuserOnly),
    ("pg_ts_parser.prsheadline", Planting::SuperuserOnly),
    ("pg_ts_parser.prslextype", Planting::SuperuserOnly),
    ("pg_ts_template.tmplinit", Planting::SuperuserOnly),
    ("pg_ts_template.tmpllexize", Planting::SuperuserOnly),
    ("pg_type.typinput", Planting::SuperuserOnly),
    ("pg_type.typoutput", Planting::SuperuserOnly),
    ("pg_type.typreceive", Planting::SuperuserOnly),
    ("pg_type.typsend", Planting::SuperuserOnly),
    ("pg_type.typmodin", Planting::SuperuserOnly),
    ("pg_type.typmodout", Planting::SuperuserOnly),
    ("pg_type.typanalyze", Planting::SuperuserOnly),
    ("pg_type.typsubscript", Planting::SuperuserOnly),
];

/// Places that are no columns of catalogs: code that a third role puts where the tenant, or the owner of another table, meets it.
const NEIGHBOURS: &[(&str, &str)] = &[
    (
        "a cascade into a table of another role",
        "CREATE TABLE child (p text COLLATE \"C\", r text COLLATE \"C\", FOREIGN KEY (p, r) REFERENCES {t} ON DELETE CASCADE);
        INSERT INTO child VALUES ('p', 'x'); CREATE TRIGGER t AFTER DELETE ON child FOR EACH ROW EXECUTE FUNCTION spy_trigger('{p}');
        CREATE TRIGGER d BEFORE DELETE ON child FOR EACH ROW EXECUTE FUNCTION spy_trigger('{p}')",
    ),
    (
        "a SET NULL in a table of another role",
        "CREATE TABLE child (p text COLLATE \"C\", r text COLLATE \"C\", FOREIGN KEY (p, r) REFERENCES {t} ON DELETE SET NULL, CHECK (spy('{p}', p) IS NULL OR true));
        INSERT INTO child VALUES ('p', 'x'); CREATE TRIGGER t AFTER UPDATE ON child FOR EACH ROW EXECUTE FUNCTION spy_trigger('{p}')",
    ),
    (
        "a SET DEFAULT in a table of another role",
        "CREATE TABLE child (p text COLLATE \"C\" DEFAULT spy('{p}', NULL), r text COLLATE \"C\", FOREIGN KEY (p, r) REFERENCES {t} ON DELETE SET DEFAULT);
        INSERT INTO child VALUES ('p', 'x')",
    ),
    (
        "a trigger of a role that may make triggers",
        "CREATE TRIGGER third BEFORE DELETE ON {t} FOR EACH ROW EXECUTE FUNCTION spy_trigger('{p}')",
    ),
];

#[derive(Clone, Copy)]
enum Planting {
    Sql(&'static str),
    /// PostgreSQL keeps the value that the expression had when it was defined.
    Constant,
    /// PostgreSQL refuses functions of users there, or reads it elsewhere.
    BuiltInOnly,
    /// Another part of the places of aggregates.
    AsAggregate,
    /// Only superusers and functions in C come there.
    SuperuserOnly,
}

/// The functions of every spy. Everybody may call them, and they note their callers.
const SPIES: &str = "
    CREATE FUNCTION spy(place text, value text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN RAISE LOG 'spy of % at % runs as %', current_database(), place, current_user; RETURN value; END $$;
    CREATE FUNCTION spy_bag(place text) RETURNS table_service.properties LANGUAGE plpgsql AS $$
    BEGIN RAISE LOG 'spy of % at % runs as %', current_database(), place, current_user; RETURN '{}'; END $$;
    CREATE FUNCTION spy_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE LOG 'spy of % at % runs as %', current_database(), TG_ARGV[0], current_user;
      SET search_path = nowhere;
      RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    END $$;";

const EXPIRED: &str = r#"'{"E@odata.type": "Edm.DateTime", "E": "2020-01-01T00:00:00Z"}'"#;

/// The roles that have run planted code, for each place.
fn runs(db: &Database) -> BTreeMap<String, BTreeSet<String>> {
    runs_in(&db.cluster().log(), db.name())
}

fn runs_in(log: &str, database: &str) -> BTreeMap<String, BTreeSet<String>> {
    let lead = format!("spy of {database} at ");
    let mut runs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in log.lines() {
        let Some((_, rest)) = line.split_once(&lead) else {
            continue;
        };
        // Statements that were logged say the same words before their values.
        let Some((place, role)) = rest.split_once(" runs as ") else {
            continue;
        };
        runs.entry(place.to_owned()).or_default().insert(role.trim().to_owned());
    }
    runs
}

/// Calls everything that visits tables which the caller has not named, and the tables of the extension. A call may be refused.
fn visit_all(session: &Session, own_table: &str) {
    let tables: Vec<String> = session
        .run("SELECT DISTINCT table_name FROM table_service.query_expiry() ORDER BY 1")
        .iter()
        .map(|row| row[0].clone().unwrap())
        .collect();
    let mut calls: Vec<String> = [
        "SELECT * FROM table_service.query_tables()",
        "SELECT * FROM table_service.query_property_indexes()",
        "SELECT * FROM table_service.query_change_feeds()",
        "SELECT * FROM table_service.expire_entities()",
        "SELECT * FROM table_service.expire_entities(top => 0)",
        "SELECT table_service.get_service_properties()",
        "SELECT table_service.set_service_properties('{\"Cors\": []}')",
        "SELECT table_service.create_change_feed('law'); SELECT table_service.drop_change_feed('law')",
        "SELECT table_service.create_change_feed('law', old_images => true); SELECT table_service.drop_change_feed('law')",
    ]
    .map(str::to_owned)
    .into();
    for table in &tables {
        calls.push(format!(
            "SELECT * FROM table_service.expire_entities('{table}', as_owner => true)"
        ));
    }
    calls.push(format!(
        "SELECT table_service.create_table('{own_table}'); SELECT table_service.set_access_policies('{own_table}', '[{{\"Id\": \"a\"}}]')"
    ));
    calls.push(format!("SELECT table_service.get_access_policies('{own_table}')"));
    calls.push(format!("SELECT table_service.set_access_policies('{own_table}', '[]')"));
    calls.push(format!("SELECT table_service.delete_table('{own_table}')"));
    for call in calls {
        let path = session.text("SHOW search_path");
        let _ = session.sql(&call);
        assert_eq!(session.text("SHOW search_path"), path, "{call}");
        assert_eq!(session.text("SELECT current_user = session_user"), "t", "{call}");
    }
}

#[test]
fn nobody_runs_what_others_have_planted() {
    let db = Database::empty();
    let (tenant, third, other, owner) = (db.role("tenant"), db.role("third"), db.role("other"), db.role("owner"));
    let superuser = db.session("superuser");
    superuser.run(&format!(
        "ALTER DATABASE {} OWNER TO {owner}; GRANT CREATE ON DATABASE {} TO {tenant}, {third}",
        db.name(),
        db.name()
    ));
    let database_owner = db.session_as(&owner, "owner of the database");
    database_owner.run(&format!(
        "CREATE EXTENSION table_service; GRANT CREATE, USAGE ON SCHEMA table_service_data TO {tenant}, {other}, {third};
        SELECT table_service.grant_gateway_access('{other}')"
    ));

    // Every place that there is has an entry.
    let known: BTreeSet<&str> = PLACES.iter().map(|(place, _)| *place).collect();
    let missing: Vec<String> = superuser
        .run(
            "SELECT c.relname || '.' || a.attname FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
            WHERE a.atttypid = 'pg_node_tree'::regtype AND c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind = 'r'
            UNION SELECT k.fktable || '.' || k.fkcols[1] FROM pg_get_catalog_foreign_keys() AS k WHERE k.pktable = 'pg_proc'::regclass ORDER BY 1",
        )
        .iter()
        .map(|row| row[0].clone().unwrap())
        .filter(|place| !known.contains(place.as_str()))
        .collect();
    assert!(missing.is_empty(), "places without an entry: {missing:?}");

    // A table for each place, with an entity that has expired before the code is there.
    let planted: Vec<(&str, &str)> = PLACES
        .iter()
        .filter_map(|(place, planting)| match planting {
            Planting::Sql(sql) => Some((*place, *sql)),
            _ => None,
        })
        .collect();
    let prepare = |session: &Session, number: usize, place: &str, sql: &str| {
        let schema = format!("schema{number}");
        session.run(&format!(
            "CREATE SCHEMA {schema}; SET search_path = {schema}, table_service, pg_catalog"
        ));
        session.run(SPIES);
        session.run(&format!("GRANT USAGE ON SCHEMA {schema} TO PUBLIC"));
        let table = format!("table_service_data.\"Place{number}\"");
        session.run(&sql.replace("{t}", &table).replace("{p}", place).replace("{s}", &schema));
    };
    let tenants = db.session_as(&tenant, "tenant");
    for (number, (place, sql)) in planted.iter().enumerate() {
        fill(&tenants, number);
        prepare(&tenants, number, place, sql);
        if *place == "pg_partitioned_table.partexprs" {
            fill_again(&tenants, number);
        }
    }
    // A third role has only REFERENCES and TRIGGER on these.
    let thirds = db.session_as(&third, "third");
    for (neighbour, (place, sql)) in NEIGHBOURS.iter().enumerate() {
        let number = planted.len() + neighbour;
        fill(&tenants, number);
        tenants.run(&format!(
            "GRANT REFERENCES, TRIGGER, SELECT ON table_service_data.\"Place{number}\" TO {third}"
        ));
        prepare(&thirds, number, place, sql);
    }
    superuser.run(&format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA table_service_data TO {other}"
    ));

    // The owner of the database owns the tables of the extension.
    database_owner
        .run("CREATE SCHEMA mine; SET search_path = mine, table_service; GRANT USAGE ON SCHEMA mine TO PUBLIC");
    database_owner.run(SPIES);
    for table in ["access_policies", "service_properties"] {
        let column = if table == "access_policies" {
            "policies"
        } else {
            "properties"
        };
        database_owner.run(&format!(
            "CREATE TRIGGER b BEFORE INSERT OR UPDATE OR DELETE ON table_service.{table} FOR EACH ROW EXECUTE FUNCTION spy_trigger('{table}');
            CREATE TRIGGER s AFTER INSERT OR UPDATE OR DELETE ON table_service.{table} FOR EACH STATEMENT EXECUTE FUNCTION spy_trigger('{table}');
            CREATE INDEX ON table_service.{table} ((({column}::text) || spy('{table}', 'x')));
            ALTER TABLE table_service.{table} ADD CHECK (spy('{table}', {column}::text) IS NOT NULL)"
        ));
    }
    database_owner
        .run("ALTER POLICY readable ON table_service.access_policies USING (mine.spy('access_policies', 'x') = 'x')");

    let others = db.session_as(&other, "another owner");
    let owner_again = db.session_as(&owner, "owner of the database again");
    for (session, own_table) in [
        (&superuser, "OfSuperuser"),
        (&others, "OfOther"),
        (&thirds, "OfThird"),
        (&owner_again, "OfOwner"),
    ] {
        visit_all(session, own_table);
    }
    // The same with triggers that would run at the end of the transaction.
    database_owner.run(
        "CREATE CONSTRAINT TRIGGER d AFTER INSERT OR UPDATE OR DELETE ON table_service.service_properties DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION spy_trigger('service_properties')",
    );
    superuser
        .sql("SELECT table_service.set_service_properties('{\"Cors\": []}')")
        .fails_in_postgres("42501");

    let expected: BTreeSet<String> = [tenant.clone(), owner.clone(), "pg_database_owner".to_owned()].into();
    for (place, roles) in runs(&db) {
        // A third role runs its own code when it plants it, and nobody else does.
        let is_planting = NEIGHBOURS.iter().any(|(known, _)| *known == place);
        let may_run = |role: &String| match is_planting {
            true => *role == third,
            false => expected.contains(role),
        };
        let strangers: Vec<&String> = roles.iter().filter(|role| !may_run(role)).collect();
        assert!(strangers.is_empty(), "the code at {place} ran as {strangers:?}");
    }

    // Everything that is planted does run when the tenant uses the table: a spy that sleeps proves nothing.
    for number in 0..planted.len() + NEIGHBOURS.len() {
        let table = format!("table_service_data.\"Place{number}\"");
        // Only one of them has a default.
        let _ = tenants.sql(&format!(
            "INSERT INTO {table} (partition_key, row_key, \"timestamp\") VALUES ('p', 'new', now())"
        ));
        tenants.run(&format!(
            "INSERT INTO {table} VALUES ('p', 'live', now(), '{{}}');
            SELECT count(*) FROM {table} WHERE row_key = 'live'; ANALYZE {table}; DELETE FROM {table}"
        ));
    }
    let runs = runs(&db);
    let asleep: Vec<&str> = planted
        .iter()
        .chain(NEIGHBOURS)
        .map(|(place, _)| *place)
        .chain(["access_policies", "service_properties"])
        .filter(|place| !runs.contains_key(*place))
        .collect();
    assert!(asleep.is_empty(), "code that never ran: {asleep:?}");
}

/// The owner of the database owns the schema of the tables, and can put another one in its place while a sweep is on its way. Then the name
/// of a superuser's table leads to a table of that owner.
#[test]
fn a_schema_that_is_exchanged_during_a_sweep_leads_to_no_other_table() {
    let db = Database::empty();
    let owner = db.role("owner");
    let superuser = db.session("superuser");
    superuser.run(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name()));
    let owners = db.session_as(&owner, "owner");
    owners.run("CREATE EXTENSION table_service; GRANT CREATE ON SCHEMA table_service_data TO PUBLIC");
    for (session, table) in [
        (&owners, "Aaa"),
        (&superuser, "Plain"),
        (&superuser, "Triggered"),
        (&superuser, "Typed"),
    ] {
        session.run(&format!(
            "SELECT table_service.create_table('{table}'); SELECT table_service.set_expiry('{table}', 'E');
            SELECT table_service.insert_entity('{table}', 'p', 'x', {EXPIRED})"
        ));
    }
    for table in ["Triggered", "Typed"] {
        superuser.run(&format!(
            "CREATE TRIGGER t BEFORE DELETE ON table_service_data.\"{table}\" FOR EACH ROW WHEN (OLD.row_key = '') EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        ));
    }
    owners.run(&format!(
        "CREATE SCHEMA mine; CREATE SCHEMA evil; GRANT USAGE ON SCHEMA mine, evil TO PUBLIC; SET search_path = mine, table_service;
        {SPIES}
        CREATE FUNCTION mine.exchange() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          ALTER SCHEMA table_service_data RENAME TO moved;
          ALTER SCHEMA evil RENAME TO table_service_data;
          RETURN OLD;
        END $$;
        CREATE TRIGGER t BEFORE DELETE ON table_service_data.\"Aaa\" FOR EACH ROW EXECUTE FUNCTION mine.exchange()"
    ));
    let like = "(LIKE table_service_data.\"Aaa\")";
    for (table, columns) in [
        ("Plain", like),
        ("Triggered", like),
        ("Typed", "OF table_service.entity"),
    ] {
        // The planner would evaluate the expression of an index.
        owners.run(&format!(
            "CREATE TABLE evil.\"{table}\" {columns}; GRANT ALL ON evil.\"{table}\" TO PUBLIC;
            INSERT INTO evil.\"{table}\" VALUES ('p', 'x', now(), {EXPIRED});
            CREATE TRIGGER t BEFORE DELETE ON evil.\"{table}\" FOR EACH ROW EXECUTE FUNCTION mine.spy_trigger('exchanged');
            CREATE INDEX ON evil.\"{table}\" (mine.spy('exchanged', 'x'))"
        ));
    }
    let before = runs(&db).get("exchanged").cloned();
    let sweeper = db.session("sweeper");
    let swept =
        sweeper.run("SELECT table_name, deleted, coalesce(reason, '') FROM table_service.expire_entities() ORDER BY 1");
    let said = |row: usize| {
        swept[row]
            .iter()
            .map(|text| text.clone().unwrap_or_default())
            .collect::<Vec<_>>()
    };
    assert_eq!(said(1), ["Plain", "1", ""]);
    assert_eq!(said(2)[..2], ["Triggered", "0"]);
    assert!(
        said(2)[2].contains("table_service_data.Triggered does not belong to the extension"),
        "{swept:?}"
    );
    assert_eq!(said(3)[..2], ["Typed", "0"]);
    assert!(said(3)[2].contains("exchanged"), "{swept:?}");
    assert_eq!(runs(&db).get("exchanged"), before.as_ref());
    assert_eq!(superuser.text("SELECT count(*) FROM moved.\"Plain\""), "0");
    assert_eq!(superuser.text("SELECT count(*) FROM table_service_data.\"Plain\""), "1");
}

/// The owner of the database also owns the schema of the extension, and can add objects to an extension of that role.
#[test]
fn a_schema_in_the_place_of_the_extensions_is_refused() {
    let db = Database::empty();
    let owner = db.role("owner");
    let superuser = db.session("superuser");
    superuser.run(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name()));
    let owners = db.session_as(&owner, "owner");
    owners.run("CREATE EXTENSION table_service; SELECT table_service.create_table('Real')");
    // The table comes first: while another schema has the name, nothing can be made in the schema of the tables.
    let planted = "
        CREATE SCHEMA evil;
        CREATE TYPE evil.properties AS ENUM ('x');
        CREATE TYPE evil.entity AS (partition_key text COLLATE \"C\", row_key text COLLATE \"C\", \"timestamp\" timestamptz, properties evil.properties);
        CREATE TYPE evil.batch_operation AS (operation text, row_key text, properties evil.properties, if_match text);
        CREATE FUNCTION evil.entity_is_valid(text, text, timestamptz, evil.properties) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN true;
        CREATE FUNCTION evil.rising_timestamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
        CREATE FUNCTION evil.property_index_key(text, text, evil.properties, text) RETURNS bytea LANGUAGE sql IMMUTABLE RETURN ''::bytea;
        CREATE FUNCTION evil.expires_at(timestamptz, evil.properties, text, bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN $1;
        CREATE TABLE table_service_data.\"Evil\" OF evil.entity (PRIMARY KEY (partition_key, row_key));
        CREATE INDEX ON table_service_data.\"Evil\" (evil.expires_at(\"timestamp\", properties, 'E', NULL))
            WHERE evil.expires_at(\"timestamp\", properties, 'E', NULL) IS NOT NULL;
        INSERT INTO table_service_data.\"Evil\" VALUES ('p', 'r', now(), 'x');
        ALTER SCHEMA table_service RENAME TO old; ALTER SCHEMA evil RENAME TO table_service";
    owners.run(planted);
    // Nor do functions run that look like those which the event triggers call.
    owners.run(
        "CREATE SEQUENCE table_service.ran; GRANT USAGE ON SEQUENCE table_service.ran TO PUBLIC; GRANT USAGE ON SCHEMA table_service TO PUBLIC;
        DO $do$ BEGIN FOR f IN 1..8 LOOP EXECUTE format('CREATE FUNCTION table_service.%s RETURNS void LANGUAGE plpgsql AS $f$
            BEGIN PERFORM pg_catalog.nextval(''table_service.ran''); END $f$', (ARRAY['note_definition(oid)', 'refuse_taken_names(oid, oid)',
            'note_definition(integer)', 'table_service_note_definition(oid)', 'table_service_refuse_taken_names(oid, oid)',
            'note_definition(anyelement)', 'refuse_taken_names(integer, integer)', 'refuse_taken_names(anyelement, anyelement)'])[f]); END LOOP; END $do$",
    );
    for session in [&superuser, &owners] {
        for definition in [
            "CREATE TABLE table_service_data.\"Mine\" (id int PRIMARY KEY)",
            "CREATE TABLE table_service_data.\"Mine\" OF old.entity (PRIMARY KEY (partition_key, row_key))",
            "ALTER TABLE table_service_data.\"Real\" RENAME TO \"Unreal\"",
            "DROP TABLE table_service_data.\"Real\"",
        ] {
            session.sql(definition).fails_in_postgres("55000");
        }
        session.run("CREATE TABLE public.mine (id int PRIMARY KEY); DROP TABLE public.mine");
    }
    assert_eq!(superuser.text("SELECT is_called FROM table_service.ran"), "f");
    let adopted = "ALTER EXTENSION table_service ADD TYPE table_service.properties;
        ALTER EXTENSION table_service ADD TYPE table_service.entity;
        ALTER EXTENSION table_service ADD TYPE table_service.batch_operation;
        ALTER EXTENSION table_service ADD FUNCTION table_service.entity_is_valid(text, text, timestamptz, table_service.properties);
        ALTER EXTENSION table_service ADD FUNCTION table_service.rising_timestamp();
        ALTER EXTENSION table_service ADD FUNCTION table_service.property_index_key(text, text, table_service.properties, text);
        ALTER EXTENSION table_service ADD FUNCTION table_service.expires_at(timestamptz, table_service.properties, text, bigint)";
    for adopt in ["", adopted] {
        owners.run(adopt);
        for call in [
            "SELECT * FROM old.query_expiry()",
            "SELECT * FROM old.expire_entities()",
            "SELECT * FROM old.query_tables()",
            "SELECT * FROM old.query_entities('Evil', '')",
            "SELECT old.get_entity('Evil', 'p', 'r')",
            "SELECT old.merge_entity('Evil', 'p', 'r', '{}'::old.properties, '*')",
            "SELECT old.get_access_policies('Real')",
        ] {
            for session in [&superuser, &owners] {
                session.sql(call).fails_in_postgres("55000");
            }
        }
        superuser
            .sql("SELECT old.get_service_properties()")
            .fails_in_postgres("42P01");
    }
    // Nor does a type of other schemas pass that looks the same.
    owners.run(
        "ALTER SCHEMA table_service RENAME TO adopted; CREATE SCHEMA table_service;
        CREATE TYPE table_service.entity AS (partition_key text, row_key text, \"timestamp\" timestamptz, properties old.properties)",
    );
    superuser
        .sql("SELECT * FROM old.query_tables()")
        .fails_in_postgres("55000");
    // Nor do a type and a function that have been added to the extension, beside which no type `properties` is.
    owners.run(
        "ALTER SCHEMA table_service RENAME TO looks_alike; CREATE SCHEMA table_service;
        CREATE TYPE table_service.entity AS (partition_key text, row_key text, \"timestamp\" timestamptz, properties text);
        CREATE FUNCTION table_service.entity_is_valid(text, text, timestamptz, text) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN true;
        CREATE TABLE table_service.access_policies (relation regclass PRIMARY KEY, policies jsonb);
        ALTER EXTENSION table_service ADD TYPE table_service.entity;
        ALTER EXTENSION table_service ADD FUNCTION table_service.entity_is_valid(text, text, timestamptz, text);
        ALTER EXTENSION table_service ADD TABLE table_service.access_policies",
    );
    for call in ["create_table('Planted')", "query_tables()", "delete_table('Real')"] {
        superuser.sql(&format!("SELECT old.{call}")).fails_in_postgres("55000");
    }
    // Whatever the owner has put there, the extension can be dropped.
    owners.run("DROP EXTENSION table_service CASCADE; CREATE SCHEMA table_service_data; CREATE TABLE table_service_data.\"New\" ()");
}

/// The owner of the database can exchange the schema of the extension at any moment, also while a statement is on its way.
#[test]
fn no_superuser_owns_a_table_of_the_extension_in_a_database_of_another_role() {
    let db = Database::new();
    let owner = db.role("owner");
    let superuser = db.session("superuser");
    superuser.run(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name()));
    superuser.run("ALTER TABLE table_service.service_properties OWNER TO CURRENT_USER");
    for call in ["get_service_properties()", "set_service_properties('{\"Cors\": []}')"] {
        let call = format!("SELECT table_service.{call}");
        superuser.sql(&call).fails_in_postgres("42501");
    }
    superuser.run(&format!(
        "ALTER TABLE table_service.service_properties OWNER TO {owner}"
    ));
    superuser.run(
        "SELECT table_service.set_service_properties('{\"Cors\": []}'); SELECT table_service.get_service_properties()",
    );
}

/// A role that may only write a table can prepare its session for the code of the table's owner.
#[test]
fn no_session_misleads_the_code_of_an_owner() {
    let db = Database::new();
    let (tenant, other) = (db.role("tenant"), db.role("other"));
    let superuser = db.session("superuser");
    superuser.run(&format!(
        "GRANT CREATE ON SCHEMA table_service_data TO {tenant}; GRANT CREATE ON DATABASE {} TO {tenant}, {other}",
        db.name()
    ));
    let tenants = db.session_as(&tenant, "tenant");
    fill(&tenants, 0);
    tenants.run(&format!(
        "CREATE SCHEMA of_tenant; GRANT USAGE ON SCHEMA of_tenant TO PUBLIC; CREATE TABLE of_tenant.log (who text); SET search_path = of_tenant;
        CREATE FUNCTION of_tenant.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (current_user); RETURN OLD; END $$;
        CREATE TRIGGER note BEFORE DELETE ON table_service_data.\"Place0\" FOR EACH ROW EXECUTE FUNCTION of_tenant.note();
        GRANT SELECT, UPDATE, DELETE ON table_service_data.\"Place0\" TO {other}"
    ));
    let others = db.session_as(&other, "other");
    others.run("CREATE SCHEMA of_other; SET search_path = of_other, pg_catalog");
    others.run(SPIES);
    others.run(
        "CREATE TEMPORARY TABLE log (who text); GRANT ALL ON pg_temp.log TO PUBLIC; GRANT USAGE ON SCHEMA of_other TO PUBLIC;
        CREATE TRIGGER spy BEFORE INSERT ON pg_temp.log FOR EACH ROW EXECUTE FUNCTION of_other.spy_trigger('misled')",
    );
    let sweep = "SELECT deleted, reason FROM table_service.expire_entities('Place0', as_owner => true)";
    let refused = |session: &Session, reason: &str| {
        let swept = session.run(sweep);
        assert_eq!(swept[0][0].as_deref(), Some("0"));
        let said = swept[0][1].as_deref().unwrap_or_default();
        assert!(said.contains(reason), "{said}");
    };
    refused(&others, "this role lacks the rights of the table's owner");
    assert_eq!(runs(&db).get("misled"), None);
    // Nor does the code read the cursors that a session with more rights has open.
    superuser.run("BEGIN; DECLARE secrets CURSOR FOR SELECT 1");
    refused(&superuser, "cursors");
    superuser.run("ROLLBACK");
    tenants.run("ALTER FUNCTION of_tenant.note() SET search_path = of_tenant");
    assert_eq!(
        superuser.text(&format!("SELECT deleted || coalesce(reason, '') FROM ({sweep}) AS s")),
        "1"
    );
    assert_eq!(tenants.text("SELECT who FROM of_tenant.log"), tenant);
}

/// The planner puts the negator of an operator in its place, and before PostgreSQL 17 every role could make one for the operators of others.
#[test]
fn the_negator_of_an_operator_counts_as_its_code() {
    let db = Database::new();
    let (tenant, third) = (db.role("tenant"), db.role("third"));
    let superuser = db.session("superuser");
    superuser.run(&format!(
        "GRANT CREATE ON SCHEMA table_service_data TO {tenant}; GRANT CREATE ON DATABASE {} TO {tenant}, {third}",
        db.name()
    ));
    let tenants = db.session_as(&tenant, "tenant");
    fill(&tenants, 0);
    tenants.run(
        "CREATE SCHEMA of_tenant; GRANT USAGE ON SCHEMA of_tenant TO PUBLIC;
        CREATE FUNCTION of_tenant.same(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN $1 = $2;
        CREATE OPERATOR of_tenant.=== (FUNCTION = of_tenant.same, LEFTARG = text, RIGHTARG = text);
        CREATE RULE r AS ON DELETE TO table_service_data.\"Place0\" DO ALSO SELECT 1 WHERE NOT ('x'::text OPERATOR(of_tenant.===) 'y'::text)",
    );
    let thirds = db.session_as(&third, "third");
    thirds.run(
        "CREATE SCHEMA of_third; GRANT USAGE ON SCHEMA of_third TO PUBLIC; SET search_path = of_third, pg_catalog",
    );
    thirds.run(SPIES);
    thirds.run("CREATE FUNCTION of_third.differs(text, text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN of_third.spy('negator', 'x') = 'x'; END $$");
    if thirds
        .sql("CREATE OPERATOR of_third.!== (FUNCTION = of_third.differs, LEFTARG = text, RIGHTARG = text, NEGATOR = OPERATOR(of_tenant.===))")
        .is_err()
    {
        return;
    }
    let reason = superuser.text("SELECT reason FROM table_service.expire_entities('Place0', as_owner => true)");
    assert!(reason.contains(&third), "{reason}");
    assert_eq!(runs(&db).get("negator"), None);
}

/// A role that has taken another one's rights for a moment does not give its own to the code of that role.
#[test]
fn code_of_an_owner_does_not_end_set_role() {
    let db = Database::new();
    let tenant = db.role("tenant");
    let superuser = db.session("superuser");
    superuser.run(&format!(
        "GRANT CREATE ON SCHEMA table_service_data TO {tenant}; GRANT CREATE ON DATABASE {} TO {tenant}",
        db.name()
    ));
    let tenants = db.session_as(&tenant, "tenant");
    fill(&tenants, 0);
    tenants.run(
        "CREATE SCHEMA of_tenant; CREATE FUNCTION of_tenant.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RESET ROLE; RETURN OLD; END $$;
        CREATE TRIGGER t BEFORE DELETE ON table_service_data.\"Place0\" FOR EACH ROW EXECUTE FUNCTION of_tenant.f()",
    );
    superuser.run(&format!("SET ROLE {tenant}"));
    let reason = superuser.text("SELECT reason FROM table_service.expire_entities() WHERE table_name = 'Place0'");
    assert!(reason.contains("security-restricted operation"), "{reason}");
    assert_eq!(superuser.text("SELECT current_user"), tenant);
}

/// Everybody may use the type of a table's rows, in a table or a type of their own, and has no part in the table by that.
#[test]
fn who_only_uses_the_type_of_a_table_keeps_nobody_from_sweeping_it() {
    let db = Database::new();
    let (tenant, other, nobody) = (db.role("tenant"), db.role("other"), db.role("nobody"));
    let superuser = db.session("superuser");
    superuser.run(&format!(
        "GRANT CREATE ON SCHEMA table_service_data TO {tenant}, {other}"
    ));
    let (tenants, others) = (db.session_as(&tenant, "tenant"), db.session_as(&other, "other"));
    fill(&tenants, 0);
    fill(&others, 1);
    for (session, number) in [(&tenants, 0), (&others, 1)] {
        session.run(&format!(
            "CREATE TRIGGER t BEFORE DELETE ON table_service_data.\"Place{number}\" FOR EACH ROW WHEN (OLD.row_key = '')
            EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        ));
    }
    let nobodys = db.session_as(&nobody, "nobody");
    nobodys
        .run("CREATE TEMPORARY TABLE w (x int, CHECK (((NULL::table_service_data.\"Place0\")).partition_key IS NULL))");
    // The other way round: the table's own CHECK uses the type of another table, and no lock comes of that.
    others.run("ALTER TABLE table_service_data.\"Place1\" ADD CHECK (((NULL::table_service_data.\"Place0\")).partition_key IS NULL)");
    others.run("BEGIN");
    others.run("SELECT * FROM table_service.expire_entities('Place1', as_owner => true)");
    assert_eq!(
        superuser.text("SELECT count(*) FROM pg_locks WHERE relation = 'table_service_data.\"Place0\"'::regclass AND mode = 'RowExclusiveLock'"),
        "0"
    );
    others.run("ROLLBACK");
    let sweep = "SELECT deleted || coalesce(reason, '') FROM table_service.expire_entities('Place0', as_owner => true)";
    assert_eq!(superuser.text(sweep), "1");
}

/// Waits until one session waits for another one.
fn wait_for(watch: &Session, waiting: &Session, holder: &Session) {
    let waits = format!("SELECT {} = ANY (pg_blocking_pids({}))", holder.pid(), waiting.pid());
    wait_until("one session waits for the other one", || watch.text(&waits) == "t");
}

/// The owner of the database keeps a call of a superuser waiting, and exchanges the schema of the extension meanwhile. The names in the next
/// statement of that call lead to functions of that owner, whether its plan has been kept or not.
#[test]
fn no_call_goes_on_with_the_functions_of_a_schema_that_is_exchanged_meanwhile() {
    let db = Database::empty();
    let owner = db.role("owner");
    let (superuser, watch) = (db.session("superuser"), db.session("watch"));
    superuser.run(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name()));
    let exchange = db.session_as(&owner, "exchange");
    exchange.run(&format!(
        "CREATE EXTENSION table_service; CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
        SET search_path = evil, table_service; {SPIES}
        CREATE FUNCTION next_timestamp(a timestamptz, b timestamptz) RETURNS timestamptz LANGUAGE plpgsql AS
          $$ BEGIN PERFORM table_service.spy('exchanged', 'x'); RETURN b; END $$;
        ALTER EXTENSION table_service ADD FUNCTION next_timestamp"
    ));
    superuser.run(&format!(
        "SELECT table_service.create_table('Orders'); SELECT table_service.insert_entity('Orders', 'p', 'x', '{{\"A\": 1}}');
        GRANT SELECT, UPDATE ON table_service_data.\"Orders\" TO {owner}"
    ));
    let update = "SELECT table_service.update_entities('Orders', 'A eq 1', '{\"B\": 2}')";
    let kept = db.session("kept");
    kept.run(update);
    for session in [&superuser, &kept] {
        exchange.run(
            "BEGIN; SELECT FROM table_service_data.\"Orders\" FOR UPDATE;
            ALTER SCHEMA table_service RENAME TO hidden; ALTER SCHEMA evil RENAME TO table_service",
        );
        let call = session.start(update);
        wait_for(&watch, session, &exchange);
        exchange.run("COMMIT");
        call.finish().fails_in_postgres("55000");
        exchange.run("ALTER SCHEMA table_service RENAME TO evil; ALTER SCHEMA hidden RENAME TO table_service");
        assert_eq!(session.text(update), "1");
    }
    assert_eq!(runs(&db).get("exchanged"), None);
}

/// A definition finds types and functions by their names, one after the other, and waits for others in between. The schemas stay where
/// they are meanwhile.
#[test]
fn no_table_gets_the_functions_of_a_schema_that_is_exchanged_meanwhile() {
    let db = Database::empty();
    let owner = db.role("owner");
    let (superuser, watch) = (db.session("superuser"), db.session("watch"));
    superuser.run(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name()));
    let (exchange, catalog) = (db.session_as(&owner, "exchange"), db.session("catalog"));
    exchange.run("CREATE EXTENSION table_service; CREATE SCHEMA evil; CREATE TYPE evil.entity AS (key text)");
    superuser
        .run("SELECT table_service.create_table('Loot'); SELECT table_service.insert_entity('Loot', 'p', 'x', '{}')");
    // A GRANT that is not committed has made a new row of the schema, which the call also has to lock.
    let grant = "GRANT USAGE ON SCHEMA table_service TO PUBLIC";
    for (number, (call, before)) in [
        ("SELECT table_service.create_table('Loot2')", ""),
        ("SELECT table_service.create_table('Loot3')", grant),
        ("SELECT table_service.create_property_index('Loot', 'A')", ""),
        ("SELECT table_service.set_expiry('Loot', 'E')", grant),
    ]
    .into_iter()
    .enumerate()
    {
        exchange.run(&format!("BEGIN; {before}"));
        // Nothing can be made meanwhile.
        catalog.run("BEGIN; LOCK TABLE pg_class IN SHARE MODE");
        let call = superuser.start(call);
        wait_for(&watch, &superuser, &catalog);
        let renamed = exchange.start("ALTER SCHEMA table_service RENAME TO hidden; COMMIT");
        wait_for(&watch, &exchange, &superuser);
        catalog.run("ROLLBACK");
        call.finish().unwrap();
        renamed.finish().unwrap();
        exchange.run("ALTER SCHEMA evil RENAME TO table_service");
        superuser
            .start(&format!("SELECT hidden.create_table('Table{number}')"))
            .finish()
            .fails_in_postgres("55000");
        exchange.run("ALTER SCHEMA table_service RENAME TO evil; ALTER SCHEMA hidden RENAME TO table_service");
    }
    assert_eq!(superuser.text("SELECT count(*) FROM table_service.query_tables()"), "3");
    assert_eq!(
        superuser.text("SELECT count(*) FROM table_service.query_property_indexes()"),
        "1"
    );
}

/// DROP EXTENSION locks a schema before it removes its row, and so does the creation of a table.
#[test]
fn the_creation_of_a_table_and_a_drop_of_the_extension_are_no_deadlock() {
    let db = Database::new();
    let (superuser, watch, reader, drop) = (
        db.session("superuser"),
        db.session("watch"),
        db.session("reader"),
        db.session("drop"),
    );
    superuser.run("SELECT table_service.create_table('Loot')");
    reader.run("BEGIN; SELECT FROM table_service_data.\"Loot\"");
    let dropped = drop.start("DROP EXTENSION table_service CASCADE");
    wait_for(&watch, &drop, &reader);
    let creation = superuser.start("SELECT table_service.create_table('Loot2')");
    wait_for(&watch, &superuser, &drop);
    reader.run("COMMIT");
    dropped.finish().unwrap();
    creation.finish().fails_in_postgres("42704");
}

/// A trigger that is being created is seen before the table is looked at, and not after it.
#[test]
fn a_trigger_that_is_created_meanwhile_reads_no_cursors() {
    let db = Database::new();
    let owner = db.role("owner");
    let (superuser, watch) = (db.session("superuser"), db.session("watch"));
    superuser.run(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name()));
    superuser.run("SELECT table_service.create_table('Orders')");
    let owners = db.session_as(&owner, "owner");
    owners.run("CREATE SCHEMA mine; SET search_path = mine; GRANT USAGE ON SCHEMA mine TO PUBLIC");
    owners.run(SPIES);
    owners.run(
        "BEGIN; CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON table_service.access_policies
        FOR EACH ROW EXECUTE FUNCTION mine.spy_trigger('late')",
    );
    superuser.run("BEGIN; DECLARE secret CURSOR FOR SELECT 1");
    let set = superuser.start("SELECT table_service.set_access_policies('Orders', '[{\"Id\": \"a\"}]')");
    wait_for(&watch, &superuser, &owners);
    owners.run("COMMIT");
    set.finish().fails_in_postgres("42501");
    assert_eq!(runs(&db).get("late"), None);
}

/// The state that one owner's code leaves in the session keeps no other owner's table from being swept, and looks keep no locks.
#[test]
fn no_owner_keeps_the_table_of_another_one_from_being_swept() {
    let db = Database::new();
    let (tenant, other, nobody) = (db.role("tenant"), db.role("other"), db.role("nobody"));
    let superuser = db.session("superuser");
    superuser.run(&format!(
        "GRANT CREATE ON SCHEMA table_service_data TO {tenant}, {other}; GRANT CREATE ON DATABASE {} TO {tenant}",
        db.name()
    ));
    let (tenants, others) = (db.session_as(&tenant, "tenant"), db.session_as(&other, "other"));
    fill(&tenants, 0);
    fill(&others, 1);
    tenants.run(
        "CREATE SCHEMA of_tenant; CREATE FUNCTION of_tenant.leave() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE c refcursor := 'mine'; BEGIN OPEN c FOR SELECT 1; RETURN OLD; END $$;
        CREATE TRIGGER t BEFORE DELETE ON table_service_data.\"Place0\" FOR EACH ROW EXECUTE FUNCTION of_tenant.leave()",
    );
    others.run(
        "CREATE TRIGGER t BEFORE DELETE ON table_service_data.\"Place1\" FOR EACH ROW WHEN (OLD.row_key = '')
        EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    );
    let nobodys = db.session_as(&nobody, "nobody");
    nobodys.run("BEGIN; SELECT * FROM table_service.query_expiry()");
    assert_eq!(
        superuser.text("SELECT count(*) FROM pg_locks WHERE relation = 'table_service_data.\"Place0\"'::regclass"),
        "0"
    );
    let swept = superuser.run("SELECT table_name, deleted, reason FROM table_service.expire_entities() ORDER BY 1");
    let reason = swept[0][2].as_deref().unwrap_or_default();
    assert!(reason.contains("left a cursor open"), "{swept:?}");
    assert_eq!(swept[1][1].as_deref(), Some("1"), "{swept:?}");
    assert_eq!(superuser.text("SELECT count(*) FROM pg_cursors"), "0");
}

/// Bags of repeated text are small in their table. A sweep has one of them in memory at a time.
#[test]
fn the_memory_of_a_sweep_does_not_grow_with_the_entities() {
    let db = Database::new();
    let session = db.session("session");
    session.run(
        "SELECT table_service.create_table('Big'); SELECT table_service.set_expiry('Big', 'E');
        SELECT table_service.insert_entity('Big', 'p', n::text, (jsonb_build_object('E@odata.type', 'Edm.DateTime', 'E', '2020-01-01T00:00:00Z')
            || (SELECT jsonb_object_agg('P' || k, repeat('a', 30000)) FROM generate_series(1, 13) AS k))::text::table_service.properties)
        FROM generate_series(1, 300) AS n",
    );
    let sweeper = db.session("sweeper");
    let most = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", sweeper.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    sweeper.run("SELECT * FROM table_service.query_expiry()");
    let before = most();
    assert_eq!(
        sweeper.text("SELECT deleted FROM table_service.expire_entities()"),
        "300"
    );
    let grown = most() - before;
    assert!(grown < 60 * 1024, "the session has grown by {grown} KiB");
}

/// A cluster of Citus. The coordinator comes first.
struct Servers(Vec<Cluster>);

impl Servers {
    const DATABASE: &str = "tables";

    fn running() -> Servers {
        let servers = std::env::var("CITUS_SERVERS").unwrap();
        Servers(servers.split(' ').map(Cluster::running_in).collect())
    }

    fn session(&self, server: usize, role: &str) -> Session {
        self.0[server].try_session(Servers::DATABASE, role, role).unwrap()
    }

    /// A session of a role on each server. Its definitions stay there.
    fn sessions(&self, role: &str) -> Vec<Session> {
        let session = |server| {
            let session = self.session(server, role);
            session.run("SET citus.enable_ddl_propagation = off; SET citus.enable_manual_changes_to_shards = on");
            session
        };
        (0..self.0.len()).map(session).collect()
    }

    /// A new role, which may log in, and create schemas and tables.
    fn role(&self, name: &str) -> String {
        let role = format!("law_{name}");
        self.session(0, "postgres").run(&format!("CREATE ROLE {role} LOGIN"));
        for session in self.sessions("postgres") {
            session.run(&format!(
                "GRANT CREATE ON DATABASE {} TO {role}; GRANT USAGE ON SCHEMA table_service TO {role};
                GRANT CREATE, USAGE ON SCHEMA table_service_data TO {role}",
                Servers::DATABASE
            ));
        }
        role
    }

    /// The roles that have run planted code, on any server.
    fn runs(&self) -> BTreeMap<String, BTreeSet<String>> {
        let logs: String = self.0.iter().map(Cluster::log).collect();
        runs_in(&logs, Servers::DATABASE)
    }
}

/// Makes a table of the service that has expired entities in many shards.
fn fill_shards(session: &Session, table: &str) {
    session.run(&format!(
        "SELECT table_service.create_table('{table}'); SELECT table_service.set_expiry('{table}', 'E');
        SELECT table_service.insert_entity('{table}', 'p' || n, 'x', {EXPIRED}) FROM generate_series(1, 20) AS n"
    ));
}

/// The shards of a table that a server has.
fn shards_on(session: &Session, table: &str) -> Vec<String> {
    let rows = session.run(&format!(
        "SELECT shard_name(s.logicalrelid, s.shardid) FROM pg_dist_shard AS s
        WHERE s.logicalrelid = 'table_service_data.\"{table}\"'::regclass AND to_regclass(shard_name(s.logicalrelid, s.shardid)) IS NOT NULL"
    ));
    rows.into_iter().map(|mut row| row.remove(0).unwrap()).collect()
}

/// The same on a cluster, with code that is planted through Citus, and with code in shards on their servers.
#[test]
#[ignore = "`cargo xtask citus` starts the servers, and says in CITUS_SERVERS where: the coordinator first"]
fn nobody_runs_what_others_have_planted_on_a_cluster() {
    let (servers, database_owner) = (Servers::running(), "owner".to_owned());
    let (tenant, third) = (servers.role("tenant"), servers.role("third"));
    let (tenants, thirds) = (servers.sessions(&tenant), servers.sessions(&third));
    let propagating = servers.session(0, &tenant);
    let mut places: Vec<(&str, &str, &Vec<Session>)> = Vec::new();
    for (place, planting) in PLACES {
        match planting {
            // A table that is distributed has no partitions, and a shard stays the table that it is.
            Planting::Sql(sql) if !sql.contains("DROP TABLE") => places.push((place, sql, &tenants)),
            _ => {}
        }
    }
    places.extend(NEIGHBOURS.iter().map(|(place, sql)| (*place, *sql, &thirds)));
    let (mut planted, mut owners) = (BTreeSet::new(), BTreeMap::new());
    for (number, (place, sql, sessions)) in places.iter().enumerate() {
        let is_third = std::ptr::eq(*sessions, &thirds);
        let role = if is_third { &third } else { &tenant };
        let place_of_shards = format!("a shard: {place}");
        owners.insert((*place).to_owned(), role);
        owners.insert(place_of_shards.clone(), role);
        let (whole, in_shards) = (format!("Whole{number}"), format!("Shards{number}"));
        for table in [&whole, &in_shards] {
            fill_shards(&propagating, table);
            if is_third {
                propagating.run(&format!(
                    "GRANT REFERENCES, TRIGGER, SELECT ON table_service_data.\"{table}\" TO {third}"
                ));
            }
        }
        let sql = |table: &str, place: &str, schema: &str| {
            sql.replace("{t}", table).replace("{p}", place).replace("{s}", schema)
        };
        for session in *sessions {
            for schema in [&whole, &in_shards] {
                session.run(&format!(
                    "CREATE SCHEMA {schema}; SET search_path = {schema}, table_service, pg_catalog; {SPIES}
                    GRANT USAGE ON SCHEMA {schema} TO PUBLIC"
                ));
            }
            for (part, shard) in shards_on(session, &in_shards).iter().enumerate() {
                let entity = format!("SELECT partition_key, row_key FROM {shard} LIMIT 1");
                let statements = sql(shard, &place_of_shards, &in_shards)
                    .replace("VALUES ('p', 'x')", &entity)
                    .replace("STATISTICS s ", &format!("STATISTICS s{part} "));
                match part {
                    0 => drop(session.run(&statements)),
                    // Objects that are no part of a shard are there already.
                    _ => drop(session.sql(statements.rsplit_once(';').map_or(&*statements, |(_, last)| last))),
                }
            }
            planted.insert(place_of_shards.clone());
        }
        // Citus refuses some.
        let session = servers.session(0, role);
        session.run(&format!(
            "SET search_path = {whole}, table_service, pg_catalog; SET citus.enable_unsafe_triggers = on"
        ));
        let table = format!("table_service_data.\"{whole}\"");
        if session.sql(&sql(&table, place, &whole)).is_ok() {
            planted.insert((*place).to_owned());
        }
    }

    // The owner of the database keeps a trigger in the copy of the coordinator, and the caller has a cursor open.
    for session in servers.sessions(&database_owner) {
        session.run(&format!("CREATE SCHEMA law_of_owner; SET search_path = law_of_owner; GRANT USAGE ON SCHEMA law_of_owner TO PUBLIC; {SPIES}"));
    }
    let owner = &servers.sessions(&database_owner)[0];
    let properties = owner.text("SELECT shard_name(logicalrelid, shardid) FROM pg_dist_shard WHERE logicalrelid = 'table_service.service_properties'::regclass");
    owner.run(&format!(
        "CREATE TRIGGER b BEFORE INSERT OR UPDATE ON {properties} FOR EACH ROW EXECUTE FUNCTION law_of_owner.spy_trigger('properties')"
    ));
    let superuser = servers.session(0, "postgres");
    superuser.run("BEGIN; DECLARE secret CURSOR FOR SELECT 1");
    superuser
        .sql("SELECT table_service.set_service_properties('{\"Cors\": []}')")
        .fails_in_postgres("42501");
    superuser.run("ROLLBACK; SELECT table_service.set_service_properties('{\"Cors\": []}')");
    owner.run(&format!("DROP TRIGGER b ON {properties}"));

    for server in [1, 0] {
        let session = servers.session(server, "postgres");
        visit_all(&session, "OfSuperuser");
    }
    let runs = servers.runs();
    owners.insert("properties".to_owned(), &database_owner);
    assert!(runs.contains_key("properties"));
    for (place, roles) in &runs {
        let strangers: Vec<&String> = roles.iter().filter(|role| *role != owners[place]).collect();
        assert!(strangers.is_empty(), "the code at {place} ran as {strangers:?}");
    }
    // It is no sleeping spy: the tenant's own statements run it.
    let use_all = |session: &Session, table: &str| {
        for statement in [
            "INSERT INTO {t} (partition_key, row_key, \"timestamp\") VALUES ('p', 'new', now())",
            "INSERT INTO {t} VALUES ('p', 'live', now(), '{}')",
            "SELECT count(*) FROM {t} WHERE row_key = 'live'",
            "ANALYZE {t}",
            "DELETE FROM {t}",
        ] {
            let _ = session.sql(&statement.replace("{t}", table));
        }
    };
    for number in 0..places.len() {
        use_all(&propagating, &format!("table_service_data.\"Whole{number}\""));
        for session in &tenants {
            for shard in shards_on(session, &format!("Shards{number}")) {
                use_all(session, &shard);
            }
        }
    }
    let runs = servers.runs();
    let asleep: Vec<&String> = planted.iter().filter(|place| !runs.contains_key(*place)).collect();
    assert!(asleep.is_empty(), "code that never ran: {asleep:?}");
    for number in 0..places.len() {
        for table in ["Whole", "Shards"] {
            propagating.run(&format!("DROP TABLE table_service_data.\"{table}{number}\" CASCADE"));
        }
    }
}

/// A role that may create triggers on a table does so on a shard, after a sweep has begun.
#[test]
#[ignore = "`cargo xtask citus` starts the servers, and says in CITUS_SERVERS where: the coordinator first"]
fn a_trigger_that_is_created_on_a_shard_during_a_sweep_does_not_run_on_a_cluster() {
    let servers = Servers::running();
    let (tenant, late) = (servers.role("swept"), servers.role("late"));
    let tenants = servers.session(0, &tenant);
    fill_shards(&tenants, "Late");
    tenants.run(&format!(
        "GRANT TRIGGER, SELECT ON table_service_data.\"Late\" TO {late}"
    ));
    let thief = &servers.sessions(&late)[1];
    thief.run(&format!(
        "CREATE SCHEMA late; SET search_path = late, table_service; GRANT USAGE ON SCHEMA late TO PUBLIC; {SPIES}"
    ));
    let has_entities = |shard: &&String| thief.text(&format!("SELECT count(*) FROM {shard}")) != "0";
    let shards = shards_on(thief, "Late");
    let shard = shards.iter().find(has_entities).unwrap();
    thief.run(&format!(
        "BEGIN; CREATE TRIGGER t BEFORE DELETE ON {shard} FOR EACH ROW EXECUTE FUNCTION spy_trigger('late')"
    ));
    let (sweeper, watch) = (servers.session(0, "postgres"), servers.session(1, "postgres"));
    let sweep = sweeper.start("SELECT deleted, reason FROM table_service.expire_entities('Late', as_owner => true)");
    wait_until("the sweep waits", || {
        watch.text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'") != "0"
    });
    thief.run("COMMIT");
    let swept = sweep.finish().unwrap();
    assert_eq!(swept[0][0].as_deref(), Some("0"), "{swept:?}");
    assert!(
        swept[0][1].as_deref().unwrap().contains("belongs to the role law_late"),
        "{swept:?}"
    );
    assert_eq!(servers.runs().get("late"), None);
    tenants.run("DROP TABLE table_service_data.\"Late\" CASCADE");
}

/// The owner of the database exchanges the schema of the tables while a sweep waits. Then the name of another table
/// leads to one of that owner: neither the search for expired entities nor their deletion goes there.
#[test]
#[ignore = "`cargo xtask citus` starts the servers, and says in CITUS_SERVERS where: the coordinator first"]
fn a_schema_that_is_exchanged_during_a_sweep_leads_to_no_other_table_on_a_cluster() {
    let servers = Servers::running();
    let tenant = servers.role("exchanged");
    let owner = &servers.sessions("owner")[0];
    let propagating = servers.session(0, "owner");
    let tenants = servers.session(0, &tenant);
    propagating.run(&format!(
        "SELECT table_service.create_table('Aaa'); SELECT table_service.set_expiry('Aaa', 'E');
        SELECT table_service.insert_entity('Aaa', 'p', 'x', {EXPIRED})"
    ));
    for table in ["Bbb", "Ccc"] {
        fill_shards(&tenants, table);
    }
    owner.run(&format!(
        "CREATE SCHEMA law_exchange; CREATE SCHEMA evil; GRANT USAGE ON SCHEMA law_exchange, evil TO PUBLIC;
        SET search_path = law_exchange, table_service; {SPIES}"
    ));
    for (table, columns) in [
        ("Bbb", "(LIKE table_service_data.\"Aaa\")"),
        ("Ccc", "OF table_service.entity"),
    ] {
        owner.run(&format!(
            "CREATE TABLE evil.\"{table}\" {columns}; GRANT ALL ON evil.\"{table}\" TO PUBLIC;
            INSERT INTO evil.\"{table}\" VALUES ('p', 'x', now(), {EXPIRED});
            ALTER TABLE evil.\"{table}\" ENABLE ROW LEVEL SECURITY;
            CREATE POLICY p ON evil.\"{table}\" USING (law_exchange.spy('exchanged', row_key) IS NOT NULL)"
        ));
    }
    let blocker = servers.session(0, "owner");
    blocker.run(
        "BEGIN; UPDATE table_service_data.\"Aaa\" SET properties = '{}' WHERE partition_key = 'p' AND row_key = 'x'",
    );
    let sweeper = servers.session(0, "postgres");
    let sweep = sweeper.start("SELECT table_name, deleted, coalesce(reason, '') FROM table_service.expire_entities() WHERE table_name IN ('Bbb', 'Ccc') ORDER BY 1");
    let watch: Vec<Session> = (0..3).map(|server| servers.session(server, "postgres")).collect();
    wait_until("the sweep waits", || {
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'";
        watch.iter().any(|session| session.text(waits) != "0")
    });
    owner.run("ALTER SCHEMA table_service_data RENAME TO moved; ALTER SCHEMA evil RENAME TO table_service_data");
    blocker.run("ROLLBACK");
    let swept = sweep.finish().unwrap();
    owner.run("ALTER SCHEMA table_service_data RENAME TO evil; ALTER SCHEMA moved RENAME TO table_service_data");
    for row in &swept {
        assert_eq!(row[1].as_deref(), Some("0"), "{swept:?}");
    }
    assert_eq!(swept.len(), 2);
    assert!(
        swept[0][2]
            .as_deref()
            .unwrap()
            .contains("table_service_data.Bbb does not belong to the extension"),
        "{swept:?}"
    );
    assert!(swept[1][2].as_deref().unwrap().contains("exchanged"), "{swept:?}");
    assert_eq!(servers.runs().get("exchanged"), None);
    for table in ["Aaa", "Bbb", "Ccc"] {
        tenants_or(&propagating, &tenants, table).run(&format!("SELECT table_service.delete_table('{table}')"));
    }
}

/// The session of the owner of one of these tables.
fn tenants_or<'s>(owner: &'s Session, tenants: &'s Session, table: &str) -> &'s Session {
    match table {
        "Aaa" => owner,
        _ => tenants,
    }
}

/// Makes a table of the service in which an entity has expired.
fn fill(session: &Session, number: usize) {
    session.run(&format!(
        "SELECT table_service.create_table('Place{number}'); SELECT table_service.set_expiry('Place{number}', 'E');
        SELECT table_service.insert_entity('Place{number}', 'p', 'x', {EXPIRED})"
    ));
}

/// Does the same for a table that is there already.
fn fill_again(session: &Session, number: usize) {
    session.run(&format!(
        "SELECT table_service.set_expiry('Place{number}', 'E');
        INSERT INTO table_service_data.\"Place{number}\" VALUES ('p', 'x', now(), {EXPIRED})"
    ));
}
