//! Memory is bounded before it is taken: attacks with entities that are small as they are stored and large in answers.

use raw_http::Connection;
use system_tests::{Database, wait_until};

use crate::gateway::{Gateway, Service, url};
use crate::shares::Two;

const MIB: f64 = 1024.0 * 1024.0;

/// Inserts entities with SQL. Each has as many texts of 32,000 control characters as fit: one byte each as it is stored, six in
/// JSON.
pub fn fill(session: &system_tests::Session, entities: usize) {
    session.run(&format!(
        r#"INSERT INTO table_service_data."Things" SELECT 'p', lpad(i::text, 4, '0'), clock_timestamp(), bag FROM generate_series(1, {entities}) AS i,
            (SELECT ('{{' || string_agg(format('"P%s": "%s"', n, repeat('\u0001', 32000)), ', ') || '}}')::table_service.properties AS bag FROM generate_series(1, 16) AS n) AS bag"#
    ));
}

/// The most memory that a process has had of its own, in bytes, since it was asked last.
fn peak(pid: u32, work: impl FnOnce()) -> (f64, f64) {
    let own = |name: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
    };
    let before = own("VmRSS:");
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
    work();
    (before, own("VmHWM:"))
}

#[test]
fn slow_readers_hold_no_more_than_the_memory_of_the_gateway() {
    let database = Database::new();
    let session = database.session("writer");
    session.run("SELECT table_service.create_table('Things')");
    fill(&session, 40);
    let url = url(database.cluster(), database.name(), "postgres");
    // The database prints the first answer, and the gateway the others.
    for (target, budget) in [
        ("Things()", 192.0),
        ("Things()?$select=P1,P2,P3,P4,P5,P6,P7,P8,P9", 64.0),
        ("Things()?$format=application/json;odata=fullmetadata", 64.0),
    ] {
        let gateway = Gateway::start(&[
            "--database-url",
            &url,
            "--max-memory",
            &budget.to_string(),
            "--pool-timeout",
            "1",
        ]);
        let budget = budget * MIB;
        let client = &gateway.client();
        client.get("Tables").expect(200);
        let base = gateway.memory();
        let request = client.request("GET", target, &[], b"");
        // Each page may have 16 MiB: 960 MiB in all.
        let deaf: Vec<Connection> = (0..60)
            .map(|_| {
                let mut connection = Connection::open(client.address);
                connection.write(&request);
                connection
            })
            .collect();
        wait_until("everybody has an answer", || {
            let metrics = gateway.admin("/metrics").expect(200);
            let answers = metrics
                .text()
                .lines()
                .filter(|line| line.starts_with("table_service_requests_total{operation=\"QueryEntities\""))
                .map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap());
            answers.sum::<usize>() == 60
        });
        let most = gateway.most_memory();
        assert!(most <= base + 1.25 * budget, "{target}: {base}, then {most}");
        assert!(gateway.metric("table_service_held_bytes ").unwrap() <= budget);
        drop(deaf);
        wait_until("it is given back", || {
            gateway.metric("table_service_held_bytes ") == Some(0.0)
        });
        // Within seconds it is the system's again, though no request comes.
        system_tests::wait_until("the memory is the system's again", || {
            gateway.memory() <= base + 64.0 * MIB
        });
        let after = gateway.memory();
        println!(
            "{target}: {:.0} MiB, at most {:.0}, then {:.0}",
            base / MIB,
            most / MIB,
            after / MIB
        );
        assert!(after <= base + 64.0 * MIB, "{target}: {base}, {most}, then {after}");
        // A page is shorter than it could be, or whole, but never refused, when there is memory.
        let answer = client.get(target).expect(200);
        assert!(answer.header("x-ms-continuation-NextRowKey").is_some());
        assert!(
            (4..=9).contains(&answer.json()["value"].as_array().unwrap().len()),
            "{target}"
        );
    }
}

#[test]
fn a_page_is_not_whole_in_a_process_of_postgresql() {
    let service = Service::with(&["--pool-size", "1"]);
    service.create_table("Things");
    let (session, client) = (service.database.session("writer"), &service.client);
    fill(&session, 40);
    client.get("Things()?$top=1").expect(200);
    let process = || -> i32 {
        session.value(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'table-service-gateway' AND query !~ 'extversion|service_properties'",
            &[],
        )
    };
    let pid = u32::try_from(process()).unwrap();
    for target in ["Things()", "Things()?$filter=P1%20ne%20'x'"] {
        let (before, most) = peak(pid, || {
            let answer = client.get(target).expect(200);
            assert!(answer.body.len() > 15_000_000, "{}", answer.body.len());
        });
        assert_eq!(
            u32::try_from(process()).unwrap(),
            pid,
            "the same connection: no message was large"
        );
        // The default of work_mem is 4 MiB.
        assert!(most <= before + (4.0 + 16.0) * MIB, "{target}: {before}, then {most}");
    }
}

#[test]
fn pages_walk_through_all_entities_whatever_fits() {
    let service = Service::with(&["--max-memory", "20"]);
    service.create_table("Things");
    fill(&service.database.session("writer"), 12);
    for (target, per_page) in [
        ("Things()?", 4..=4),
        ("Things()?$top=2&", 2..=2),
        ("Things()?$format=application/json;odata=fullmetadata&", 4..=4),
        ("Things()?$select=PartitionKey,RowKey,P1,P16&", 12..=12),
    ] {
        let (mut keys, mut next) = (Vec::new(), String::new());
        loop {
            let answer = service.client.get(&format!("{target}{next}")).expect(200);
            let json = answer.json();
            let page = json["value"].as_array().unwrap();
            assert!(per_page.contains(&page.len()), "{target}: {}", page.len());
            keys.extend(page.iter().map(|entity| entity["RowKey"].as_str().unwrap().to_owned()));
            let header = |name: &str| answer.header(name).map(str::to_owned);
            let Some(row_key) = header("x-ms-continuation-NextRowKey") else {
                break;
            };
            let partition_key = header("x-ms-continuation-NextPartitionKey").unwrap();
            next = format!("NextPartitionKey={partition_key}&NextRowKey={row_key}");
        }
        let expected: Vec<String> = (1..=12).map(|row| format!("{row:04}")).collect();
        assert_eq!(keys, expected, "{target}");
    }
}

#[test]
fn connections_whose_buffers_have_grown_are_closed() {
    let service = Service::with(&["--pool-size", "1"]);
    service.create_table("Things");
    let client = &service.client;
    let text = "x".repeat(32_000);
    let properties: Vec<String> = (0..16).map(|n| format!("\"s{n}\":\"{text}\"")).collect();
    let large = format!(r#"{{"PartitionKey":"p","RowKey":"large",{}}}"#, properties.join(","));
    let watcher = service.database.session("watcher");
    // Without the connection of /ready, which also reads the rules for browsers.
    let pool = || -> Vec<i32> {
        let rows = watcher.query(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'table-service-gateway' AND query !~ 'extversion|service_properties'",
            &[],
        );
        rows.unwrap().iter().map(|row| row.get(0)).collect()
    };
    let small = "Things(PartitionKey='p',RowKey='small')";
    client
        .post("Things", r#"{"PartitionKey":"p","RowKey":"small"}"#)
        .expect(201);
    client.get(small).expect(200);
    let before = pool();
    assert_eq!(before.len(), 1);
    client.get("Things()").expect(200);
    assert_eq!(pool(), before, "it is used again");
    client.post("Things", &large).expect(201);
    wait_until("it is closed after a large message", || !pool().contains(&before[0]));
    client.get(small).expect(200);
    let before = pool();
    client.get("Things(PartitionKey='p',RowKey='large')").expect(200);
    wait_until("it is closed after a large row", || !pool().contains(&before[0]));
    client.get(small).expect(200);
    let before = pool();
    assert!(client.get("Things()").expect(200).body.len() > 500_000);
    assert_eq!(pool(), before, "a page comes in small messages");
}

#[test]
fn slow_readers_of_one_account_do_not_keep_another_from_its_answers() {
    let two = Two::start(&["--max-memory", "128", "--pool-timeout", "2"]);
    let (gateway, one, other) = (&two.gateway, &two.one, &two.other);
    for database in &two.databases {
        fill(&database.session("writer"), 12);
    }
    let request = one.request("GET", "Things()?$top=10", &[], b"");
    let slow: Vec<Connection> = (0..120)
        .map(|_| {
            let mut connection = Connection::open(one.address);
            connection.write(&request);
            connection
        })
        .collect();
    for row in 0..30 {
        let page = other.get("Things()?$top=10").expect(200);
        assert!(page.body.len() > 9_000_000, "{}", page.body.len());
        other.get("Things(PartitionKey='p',RowKey='0001')").expect(200);
        let body = format!(r#"{{"PartitionKey":"q","RowKey":"{row}"}}"#);
        other.post("Things", &body).expect(201);
        other.get("Tables").expect(200);
    }
    assert!(gateway.metric("table_service_held_bytes ").unwrap() > 16.0 * MIB);
    drop(slow);
}

#[test]
fn too_little_memory_for_the_accounts_is_refused_at_the_start() {
    let refusal = |arguments: &[&str]| {
        let mut all = vec![
            "--database-url",
            "postgresql://nobody@localhost:1/none",
            "--listen",
            "127.0.0.1:0",
        ];
        all.extend(arguments);
        let output = crate::gateway::program(&all).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let message = refusal(&["--max-memory", "19"]);
    assert!(
        message.contains("max_memory") && message.contains("must be at least 20"),
        "{message}"
    );
    let file = std::env::temp_dir().join(format!("gateway-memory-{}.toml", std::process::id()));
    let accounts: String = (0..30)
        .map(|n| {
            format!(
                "[[accounts]]\nname = \"acc{n}\"\nkeys = [\"a2V5\"]\ndatabase_url = \"postgresql://n@localhost:1/n\"\n"
            )
        })
        .collect();
    std::fs::write(&file, accounts).unwrap();
    let refusal_of_file = |arguments: &[&str]| {
        let mut all = vec!["--config", file.to_str().unwrap(), "--listen", "127.0.0.1:0"];
        all.extend(arguments);
        let output = crate::gateway::program(&all).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let message = refusal_of_file(&[]);
    assert!(
        message.contains("must be at least ") && message.contains("for 30 accounts"),
        "{message}"
    );
    let message = refusal_of_file(&["--max-memory", "2000", "--max-requests", "29"]);
    assert!(
        message.contains("max_requests") && message.contains("at least 30 for 30 accounts"),
        "{message}"
    );
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn connections_to_the_admin_port_keep_no_client_and_no_probe_out() {
    let service = Service::start();
    let files = || {
        std::fs::read_dir(format!("/proc/{}/fd", service.gateway.id()))
            .unwrap()
            .count()
    };
    service.client.get("Tables").expect(200);
    let before = files();
    let mut idle: Vec<Connection> = (0..500).map(|_| Connection::open(service.gateway.admin)).collect();
    // The oldest are closed, so that others are served, probes for example.
    for path in ["/live", "/ready", "/metrics"] {
        service.gateway.admin(path).expect(200);
    }
    assert!(idle[0].is_closed());
    system_tests::wait_until("the others are closed", || files() <= before + 64 + 8);
    service.client.get("Tables").expect(200);
    // The last of them was not closed by then, and is served.
    let mut last = idle.pop().unwrap();
    last.write(b"GET /live HTTP/1.1\r\n\r\n");
    assert_eq!(last.answer().map(|answer| answer.status), Some(200));
}
