//! Entities that expire, over HTTP, and the gateway's sweeps.

use system_tests::{Database, wait_until};
use table_service_model::Ticks;
use table_service_model::access::{Permissions, TableSas};

use crate::access::with_query;
use crate::gateway::{Gateway, url};

const PAST: &str = r#""E@odata.type": "Edm.DateTime", "E": "2020-01-01T00:00:00Z""#;

fn start(database: &Database, interval: &str) -> Gateway {
    let url = url(database.cluster(), database.name(), "postgres");
    Gateway::start(&["--database-url", &url, "--expiry-interval", interval])
}

#[test]
fn an_entity_that_has_expired_is_gone_for_every_operation() {
    let database = Database::new();
    let gateway = start(&database, "0");
    let client = gateway.client();
    client.post("Tables", r#"{"TableName":"Sessions"}"#).expect(201);
    let session = database.session("owner");
    session.run("SELECT table_service.set_expiry('Sessions', 'E')");
    let entity = |row: &str| format!(r#"{{"PartitionKey": "p", "RowKey": "{row}", "Old": 1, {PAST}}}"#);
    let created = client.post("Sessions", &entity("a")).expect(201);
    let tag = created.header("ETag").unwrap().to_owned();
    let path = "Sessions(PartitionKey='p',RowKey='a')";
    client.get(path).expect(404);
    for filter in [
        "",
        "?$filter=(PartitionKey%20eq%20'p'%20and%20RowKey%20eq%20'a')%20or%20RowKey%20eq%20'x'",
        "?$top=1",
    ] {
        let answer = client.get(&format!("Sessions(){filter}")).expect(200);
        assert!(answer.text().contains(r#""value":[]"#), "{filter}");
    }
    let sas = TableSas::new("2019-02-02", "Sessions")
        .permissions(Permissions::parse("raud").unwrap())
        .expiry(Ticks::parse("2099-01-01").unwrap());
    let signature = sas.sign(&client.account).unwrap().to_query();
    let with_signature = format!("{path}?{signature}");
    with_query(&client, "GET", &with_signature, &[], "").expect(404);
    with_query(&client, "DELETE", &with_signature, &[("If-Match", "*")], "").expect(404);
    for change in ["MERGE", "PUT", "DELETE"] {
        let body = format!(
            "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n\
             --c\r\nContent-Type: application/http\r\n\r\nPOST Sessions HTTP/1.1\r\n\r\n{{\"PartitionKey\":\"p\",\"RowKey\":\"new\"}}\r\n\
             --c\r\nContent-Type: application/http\r\n\r\n{change} {path} HTTP/1.1\r\nIf-Match: {tag}\r\n\r\n{{}}\r\n--c--\r\n--b--\r\n"
        );
        let answer = client.send(
            "POST",
            "$batch",
            &[("Content-Type", "multipart/mixed; boundary=b")],
            body.as_bytes(),
        );
        let answer = answer.expect(202);
        let text = answer.text();
        assert!(
            text.contains("HTTP/1.1 404") && text.contains("1:The specified resource does not exist."),
            "{text}"
        );
    }
    client.get("Sessions(PartitionKey='p',RowKey='new')").expect(404);
    for if_match in ["*", &tag] {
        let headers = [("If-Match", if_match)];
        client.send("PUT", path, &headers, br#"{"New": 1}"#).expect(404);
        client.send("MERGE", path, &headers, br#"{"New": 1}"#).expect(404);
        client.send("DELETE", path, &headers, b"").expect(404);
    }
    client.send("MERGE", path, &[], br#"{"New": 1}"#).expect(204);
    let merged = client.get(path).expect(200);
    let merged = merged.text();
    assert!(merged.contains(r#""New":1"#) && !merged.contains("Old"), "{merged}");
    client.post("Sessions", &entity("a")).expect(409);
    client.post("Sessions", &entity("b")).expect(201);
    client.post("Sessions", &entity("b")).expect(201);
}

#[test]
fn a_gateway_removes_what_has_expired_and_counts_it() {
    let database = Database::new();
    let session = database.session("owner");
    session.run(&format!(
        "SELECT table_service.create_table('Sessions'), table_service.set_expiry('Sessions', 'E');
        INSERT INTO table_service_data.\"Sessions\" SELECT 'p', i::text, now(), '{{{PAST}}}' FROM generate_series(1, 12000) AS i;
        INSERT INTO table_service_data.\"Sessions\" VALUES ('p', 'alive', now(), '{{}}')"
    ));
    let gateways = [(); 3].map(|()| start(&database, "1"));
    wait_until("the sweep", || {
        session.text("SELECT count(*)::text FROM table_service_data.\"Sessions\"") == "1"
    });
    let counted = || {
        let count = |gateway: &Gateway| {
            let metrics = gateway.admin("/metrics").expect(200);
            let line = metrics
                .text()
                .lines()
                .find(|line| line.starts_with("table_service_expired_entities_total{"));
            line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        };
        gateways.iter().map(count).sum::<u64>()
    };
    wait_until("the count", || counted() == 12_000);
    // The first one may have found nothing to do yet.
    wait_until("the staleness", || {
        let metrics = gateways[0].admin("/metrics").expect(200);
        metrics
            .text()
            .contains("table_service_expiry_staleness_seconds{account=\"devstoreaccount1\"}")
    });
}

#[test]
fn a_sweeper_that_is_killed_leaves_its_work_to_the_next_one() {
    const ENTITIES: u32 = 100_000;
    let database = Database::new();
    let session = database.session("owner");
    session.run("SELECT table_service.create_table('Sessions'), table_service.set_expiry('Sessions', 'E')");
    session.run(&format!(
        "INSERT INTO table_service_data.\"Sessions\" SELECT 'p' || i % 2, i::text, now(),
            CASE i % 2 WHEN 0 THEN '{{{PAST}}}'::table_service.properties ELSE '{{}}' END FROM generate_series(1, {ENTITIES}) AS i"
    ));
    let stored = || -> u32 {
        let count = session.text("SELECT count(*)::text FROM table_service_data.\"Sessions\"");
        count.parse().unwrap()
    };
    let killed = start(&database, "1");
    wait_until("a sweep", || stored() < ENTITIES);
    // This kills it.
    drop(killed);
    let _next = start(&database, "1");
    wait_until("the next sweep", || stored() == ENTITIES / 2);
    let alive = "SELECT count(*)::text FROM table_service_data.\"Sessions\" WHERE partition_key = 'p1'";
    assert_eq!(session.text(alive), (ENTITIES / 2).to_string());
}

#[test]
fn a_table_whose_trigger_sleeps_keeps_no_other_one_from_its_sweep() {
    let database = Database::new();
    let session = database.session("owner");
    session.run(
        "CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN OLD; END $$",
    );
    for table in ["Asleep", "Awake"] {
        session.run(&format!(
            "SELECT table_service.create_table('{table}'), table_service.set_expiry('{table}', 'E');
             INSERT INTO table_service_data.\"{table}\" VALUES ('p', 'r', now(), '{{{PAST}}}')"
        ));
    }
    session.run(
        "CREATE TRIGGER sleep BEFORE DELETE ON table_service_data.\"Asleep\" FOR EACH ROW EXECUTE FUNCTION sleep()",
    );
    let gateway = start(&database, "1");
    let stored = |table: &str| session.text(&format!("SELECT count(*)::text FROM table_service_data.\"{table}\""));
    wait_until("the sweep of the other table", || stored("Awake") == "0");
    // The remaining entities are late, and the log says once why.
    let late = || gateway.metric("table_service_expiry_staleness_seconds{");
    wait_until("the metric", || late().is_some_and(|seconds| seconds > 86_400.0));
    let told = r#"table="Asleep" reason="it takes longer than 5 seconds""#;
    gateway.waits_for_log(told);
    session.run("INSERT INTO table_service_data.\"Awake\" VALUES ('p', 'next', now(), '{\"E\": 1}')");
    wait_until("the next round", || stored("Awake") == "0");
    assert_eq!(gateway.log().matches(told).count(), 1);
    assert_eq!(stored("Asleep"), "1");
    // A table that can be swept again is.
    session.run("DROP TRIGGER sleep ON table_service_data.\"Asleep\"");
    wait_until("the sweep without the trigger", || stored("Asleep") == "0");
}
