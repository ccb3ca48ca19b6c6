//! Entities that expire, over HTTP, and the gateway's sweeps.

use system_tests::{Database, wait_until};

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
    assert!(client.get("Sessions()").expect(200).text().contains(r#""value":[]"#));
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
    let gateways = [start(&database, "1"), start(&database, "1")];
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
    let metrics = gateways[0].admin("/metrics").expect(200);
    let metrics = metrics.text();
    assert!(
        metrics.contains("table_service_expiry_staleness_seconds{account=\"devstoreaccount1\"}"),
        "{metrics}"
    );
}
