//! The rights of roles, over connections of their own.

use system_tests::{Database, Expect, Session};

/// Every function that reads or writes a table.
const READS: [&str; 6] = [
    "SELECT table_service.get_entity('Guarded', 'p', 'r')",
    "SELECT table_service.get_entities('Guarded', 'p', '{r}')",
    "SELECT table_service.query_entities('Guarded', $$PartitionKey eq 'p' and A eq 1$$)",
    "SELECT table_service.query_page('Guarded', $$PartitionKey eq 'p' and RowKey eq 'r'$$)",
    "SELECT j FROM table_service.query_page_json('Guarded', $$PartitionKey eq 'p'$$) AS j WHERE j::text LIKE '%\"A\"%'",
    "SELECT s FROM table_service.partition_statistics('Guarded') AS s WHERE partition_key = 'p'",
];
const INSERT: &str = "SELECT table_service.insert_entity('Guarded', 'p', 'new', '{}')";
const BATCHES: [&str; 2] = [
    "SELECT table_service.execute_batch('Guarded', 'p', table_service.batch_merge('r', '{}', '*'))",
    "SELECT table_service.execute_batch_json('Guarded', 'p', '[{\"delete\": {\"RowKey\": \"r\"}}]')",
];
const OTHER_WRITES: [&str; 5] = [
    "SELECT table_service.replace_entity('Guarded', 'p', 'r', '{}', '*')",
    "SELECT table_service.merge_entity('Guarded', 'p', 'r', '{}', '*')",
    "SELECT table_service.insert_or_replace_entity('Guarded', 'p', 'r', '{}')",
    "SELECT table_service.insert_or_merge_entity('Guarded', 'p', 'r', '{}')",
    "SELECT table_service.delete_entity('Guarded', 'p', 'r')",
];

struct Guarded {
    db: Database,
    owner: Session,
    role: String,
    user: Session,
}

/// A table with the entity p/r, and a role without rights on it.
fn guarded() -> Guarded {
    let db = Database::new();
    let owner = db.session("owner");
    owner.run("SELECT table_service.create_table('Guarded')");
    owner.run("SELECT table_service.insert_entity('Guarded', 'p', 'r', '{\"A\": 1}')");
    let role = db.role("user");
    let user = db.session_as(&role, "user");
    Guarded { db, owner, role, user }
}

impl Guarded {
    fn grant(&self, rights: &str) {
        self.owner.run(&format!(
            "GRANT {rights} ON table_service_data.\"Guarded\" TO {}",
            self.role
        ));
    }
}

#[test]
fn a_role_without_privileges_may_do_nothing() {
    let guarded = guarded();
    for statement in READS.iter().chain([&INSERT]).chain(&OTHER_WRITES).chain(&BATCHES) {
        guarded.user.sql(statement).fails_in_postgres("42501");
    }
    // No error tells it whether an entity exists.
    for statement in [
        "SELECT table_service.get_entity('Guarded', 'p', 'absent')",
        "SELECT table_service.insert_entity('Guarded', 'p', 'r', '{}')",
        "SELECT table_service.delete_entity('Guarded', 'p', 'absent')",
        "SELECT table_service.delete_entity('Guarded', 'p', 'absent', if_exists => true)",
        "SELECT table_service.replace_entity('Guarded', 'p', 'absent', '{}', 'W/\"no such tag\"')",
        "SELECT table_service.replace_entity('Guarded', 'p', 'r', '{}', 'W/\"no such tag\"')",
        "SELECT table_service.delete_entity('Guarded', 'p', 'r', 'W/\"no such tag\"')",
    ] {
        guarded.user.sql(statement).fails_in_postgres("42501");
    }
    guarded
        .user
        .sql("SELECT table_service.create_table('Another')")
        .fails_in_postgres("42501");
    guarded
        .user
        .sql("SELECT table_service.delete_table('Guarded')")
        .fails_in_postgres("42501");
    // It may use the rest of the API: types, operators, and the list of tables, as with any catalog.
    for statement in [
        "SELECT '{\"A\": 1}'::table_service.properties",
        "SELECT '{\"A\": 1}'::table_service.properties OPERATOR(table_service.->>) 'A'",
        "SELECT table_service.etag(now())",
        "SELECT table_service.inverted_ticks()",
        "SELECT table_service.query_tables()",
    ] {
        assert_eq!(guarded.user.run(statement).len(), 1);
    }
}

#[test]
fn functions_run_with_the_rights_of_their_caller() {
    let db = Database::new();
    let definers = "SELECT count(*) FROM pg_catalog.pg_proc AS p
        JOIN pg_catalog.pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
        JOIN pg_catalog.pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
        WHERE e.extname = 'table_service'";
    let session = db.session("s");
    assert_eq!(session.text(&format!("{definers} AND p.prosecdef")), "0");
    assert_ne!(session.text(definers), "0");
}

#[test]
fn the_insert_privilege_alone_allows_inserts_only() {
    let guarded = guarded();
    guarded.grant("INSERT");
    guarded.user.run(INSERT);
    guarded.user.sql(INSERT).fails_with("23505", "EntityAlreadyExists");
    for statement in READS.iter().chain(&OTHER_WRITES).chain(&BATCHES) {
        guarded.user.sql(statement).fails_in_postgres("42501");
    }
}

#[test]
fn the_select_privilege_alone_allows_reads_only() {
    let guarded = guarded();
    guarded.grant("SELECT");
    for statement in READS {
        assert_eq!(guarded.user.run(statement).len(), 1);
    }
    for statement in [&INSERT].into_iter().chain(&OTHER_WRITES).chain(&BATCHES) {
        guarded.user.sql(statement).fails_in_postgres("42501");
    }
}

#[test]
fn each_privilege_allows_its_functions() {
    let guarded = guarded();
    // SELECT as well: a write looks at the keys and the Timestamp of the entity.
    for (right, statement) in [
        ("UPDATE", OTHER_WRITES[0]),
        ("UPDATE", OTHER_WRITES[1]),
        ("INSERT, UPDATE", OTHER_WRITES[2]),
        ("INSERT, UPDATE", OTHER_WRITES[3]),
        ("DELETE", OTHER_WRITES[4]),
    ] {
        guarded.user.sql(statement).fails_in_postgres("42501");
        guarded.grant(&format!("SELECT, {right}"));
        guarded.user.run(&format!("BEGIN; {statement}; ROLLBACK"));
        guarded.owner.run(&format!(
            "REVOKE ALL ON table_service_data.\"Guarded\" FROM {}",
            guarded.role
        ));
    }
}

#[test]
fn revoked_privileges_are_gone_at_once() {
    let guarded = guarded();
    guarded.grant("SELECT, INSERT");
    guarded.user.run(READS[0]);
    guarded.user.run(INSERT);
    guarded.owner.run(&format!(
        "REVOKE ALL ON table_service_data.\"Guarded\" FROM {}",
        guarded.role
    ));
    // The session has kept plans of both.
    guarded.user.sql(READS[0]).fails_in_postgres("42501");
    guarded.user.sql(INSERT).fails_in_postgres("42501");
    // And another role in the same session has its own rights.
    guarded.owner.run(READS[0]);
    guarded.owner.run(&format!("SET ROLE {}", guarded.role));
    guarded.owner.sql(READS[0]).fails_in_postgres("42501");
}

#[test]
fn create_on_the_schema_is_what_creating_a_table_needs() {
    let guarded = guarded();
    let create = "SELECT table_service.create_table('Another')";
    guarded.user.sql(create).fails_in_postgres("42501");
    guarded.owner.run(&format!(
        "GRANT CREATE ON SCHEMA table_service_data TO {}",
        guarded.role
    ));
    guarded.user.run(create);

    // The role that creates a table owns it, and others need rights from the owner.
    let other = guarded.db.role("other");
    let other_session = guarded.db.session_as(&other, "other");
    let insert = "SELECT table_service.insert_entity('Another', 'p', 'r', '{}')";
    guarded.user.run(insert);
    other_session.sql(insert).fails_in_postgres("42501");
    other_session
        .sql("SELECT table_service.delete_table('Another')")
        .fails_in_postgres("42501");
    guarded
        .user
        .run(&format!("GRANT ALL ON table_service_data.\"Another\" TO {other}"));
    other_session.run("SELECT table_service.insert_or_merge_entity('Another', 'p', 'r', '{}')");
    other_session
        .sql("SELECT table_service.delete_table('Another')")
        .fails_in_postgres("42501");
    // That a name exists is reported before a missing privilege.
    other_session
        .sql("SELECT table_service.create_table('another')")
        .fails_with("42P07", "TableAlreadyExists");
    guarded.user.run("SELECT table_service.delete_table('Another')");
}

#[test]
fn row_level_security_holds_for_reads_and_writes() {
    let guarded = guarded();
    guarded.grant("SELECT, INSERT, UPDATE, DELETE");
    guarded.owner.run(
        "SELECT table_service.insert_entity('Guarded', 'hidden', 'r', '{\"A\": 1}');
        SELECT table_service.insert_entity('Guarded', 'readonly', 'r', '{\"A\": 1}');
        ALTER TABLE table_service_data.\"Guarded\" ENABLE ROW LEVEL SECURITY;
        CREATE POLICY reads ON table_service_data.\"Guarded\" FOR SELECT USING (partition_key <> 'hidden');
        CREATE POLICY inserts ON table_service_data.\"Guarded\" FOR INSERT WITH CHECK (partition_key = 'p');
        CREATE POLICY updates ON table_service_data.\"Guarded\" FOR UPDATE USING (partition_key = 'p');
        CREATE POLICY deletes ON table_service_data.\"Guarded\" FOR DELETE USING (partition_key = 'p')",
    );
    let user = &guarded.user;
    let at = |statement: &str, partition: &str| user.sql(&statement.replace("'p'", &format!("'{partition}'")));

    // Entities that it may see and write.
    for statement in READS.iter().chain([&INSERT]).chain(&OTHER_WRITES) {
        user.run("BEGIN");
        assert_eq!(at(statement, "p").unwrap().len(), 1);
        user.run("ROLLBACK");
    }
    // Entities that it may not see do not exist for it.
    for statement in READS {
        assert_eq!(at(statement, "hidden").unwrap().len(), 0);
    }
    for statement in [OTHER_WRITES[0], OTHER_WRITES[1], OTHER_WRITES[4]] {
        at(statement, "hidden").fails_with("P0002", "ResourceNotFound");
    }
    // Writing an entity that it may see but not write fails, whatever the condition is.
    let tag = user.text("SELECT table_service.etag(e) FROM table_service.get_entity('Guarded', 'readonly', 'r') AS e");
    for statement in [OTHER_WRITES[0], OTHER_WRITES[1], OTHER_WRITES[4]] {
        at(statement, "readonly").fails_in_postgres("42501");
    }
    for statement in [
        "SELECT table_service.replace_entity('Guarded', 'readonly', 'r', '{}', $1)",
        "SELECT table_service.merge_entity('Guarded', 'readonly', 'r', '{}', $1)",
        "SELECT table_service.delete_entity('Guarded', 'readonly', 'r', $1)",
    ] {
        user.query(statement, &[&tag]).fails_in_postgres("42501");
        user.query(statement, &[&"W/\"another\""])
            .fails_with("40002", "UpdateConditionNotSatisfied");
    }
    // Inserts and upserts are refused where the policy does not let them in.
    for statement in [INSERT, OTHER_WRITES[2], OTHER_WRITES[3]] {
        for partition in ["hidden", "readonly", "elsewhere"] {
            at(statement, partition).fails_in_postgres("42501");
        }
    }
    assert_eq!(
        guarded
            .owner
            .text("SELECT count(*) FROM table_service_data.\"Guarded\" WHERE properties::jsonb = '{\"A\": 1}'"),
        "3"
    );
}

/// How a filter is read depends on how many entries it has in a property index. A role without all rows must not see that.
#[test]
fn row_level_security_hides_how_many_entities_there_are() {
    let guarded = guarded();
    guarded.grant("SELECT");
    guarded.owner.run(
        "SELECT table_service.create_property_index('Guarded', 'A');
        ALTER TABLE table_service_data.\"Guarded\" ENABLE ROW LEVEL SECURITY;
        CREATE POLICY reads ON table_service_data.\"Guarded\" FOR SELECT USING (partition_key <> 'hidden');
        CREATE FUNCTION public.fill(entities int) RETURNS void LANGUAGE sql AS $$
            INSERT INTO table_service_data.\"Guarded\" SELECT 'hidden', i::text, now(), jsonb_build_object('A', i) FROM generate_series(1, entities) AS i $$",
    );
    let explain = |session: &Session, filter: &str| {
        session.text(&format!(
            "SELECT access || sql FROM table_service.explain_query('Guarded', '{filter}')"
        ))
    };
    let filters = ["A gt 4 and A lt 6", "PartitionKey eq ''hidden'' and A gt 4 and A lt 6"];
    let [user, owner] = [&guarded.user, &guarded.owner].map(|session| filters.map(|filter| explain(session, filter)));
    guarded.owner.run("SELECT public.fill(5000)");
    assert_eq!(filters.map(|filter| explain(&guarded.user, filter)), user);
    // The owner sees all rows, and its queries are read in another way now.
    assert_ne!(filters.map(|filter| explain(&guarded.owner, filter)), owner);
}

#[test]
fn a_trigger_that_suppresses_a_write_is_an_error() {
    let guarded = guarded();
    guarded.owner.run(
        "CREATE FUNCTION public.never() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER never BEFORE INSERT OR UPDATE OR DELETE ON table_service_data.\"Guarded\"
            FOR EACH ROW EXECUTE FUNCTION public.never()",
    );
    for statement in OTHER_WRITES {
        guarded.owner.sql(statement).fails_in_postgres("42501");
    }
    guarded.owner.sql(INSERT).unwrap_err();
}

/// Several sessions that grant at a time change the same rows of PostgreSQL's catalogs.
#[test]
fn the_owner_of_the_database_grants_what_the_gateway_needs() {
    let db = Database::empty();
    let owner = db.role("owner");
    db.session("admin")
        .run(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name()));
    let session = db.session_as(&owner, "owner");
    session.run("CREATE EXTENSION table_service");
    let gateways = ["one", "two", "three"].map(|name| db.role(name));
    std::thread::scope(|scope| {
        for gateway in &gateways {
            let (db, owner) = (&db, &owner);
            scope.spawn(move || {
                let session = db.session_as(owner, gateway);
                for _ in 0..20 {
                    session.run(&format!("SELECT table_service.grant_gateway_access('{gateway}')"));
                }
            });
        }
    });
    for gateway in &gateways {
        let user = db.session_as(gateway, "gateway");
        for statement in [
            "SELECT table_service.create_table('Mine')",
            "SELECT table_service.insert_entity('Mine', 'p', 'r', '{}')",
            "SELECT table_service.set_access_policies('Mine', '[{\"Id\": \"readers\"}]')",
            "SELECT table_service.set_service_properties('{\"Cors\": []}')",
            "SELECT table_service.delete_table('Mine')",
        ] {
            user.run(statement);
        }
    }
    // A role without the right to grant grants nothing, not even partly.
    let stranger = db.role("stranger");
    db.session_as(&stranger, "stranger")
        .sql(&format!("SELECT table_service.grant_gateway_access('{stranger}')"))
        .fails_with("42501", "AuthorizationFailure");
    assert_eq!(
        session.text(&format!(
            "SELECT pg_catalog.has_schema_privilege('{stranger}', 'table_service_data', 'CREATE')"
        )),
        "f"
    );
}
