//! Delete and count: the entities that a filter selects, in every end, while others delete and change entities.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use system_tests::Database;

use crate::entities::lines;
use crate::program::{
    End, command, connection_string, database_url, ends_with, file, output, quietly, start, succeeds, text,
};
use crate::proxy::Proxy;

const TABLE: &str = "Nasty";

fn deleting<'a>(from: &'a str, filter: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let begin = [
        "delete", "--quiet", "--from", from, "--table", TABLE, "--filter", filter,
    ];
    [&begin[..], more].concat()
}

/// How many entities pass a filter.
#[track_caller]
fn count(from: &str, filter: &str) -> u64 {
    let output = output(&["count", "--json", "--from", from, "--table", TABLE, "--filter", filter]);
    let said = String::from_utf8(output.stdout).unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{problem}");
    let value: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&value["event"], &value["table"]),
        (&"count".into(), &TABLE.into()),
        "{said}"
    );
    value["entities"].as_u64().unwrap()
}

/// The last line that it writes for machines, which is the report.
#[track_caller]
fn report(status: i32, arguments: &[&str]) -> serde_json::Value {
    let output = output(&[arguments, &["--json"]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}{problem}");
    let value: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(value["event"], "report", "{said}");
    value
}

const FILTERS: &[&str] = &[
    "true",
    "A ge 0",
    "not (Name eq 'x') and Timestamp gt datetime'2020-01-01T00:00:00Z'",
    "PartitionKey ge 'a' and PartitionKey lt 'b'",
    "PartitionKey eq 'O''Brien'",
    "PartitionKey eq 'none at all'",
    "A eq 1 or A eq 2 or A eq 3 or A eq 4 or A eq 5 or A eq 6 or A eq 7 or A eq 8 or A eq 9 or A eq 0 or A eq -1 or X1 eq true \
     or X2 eq true or X3 eq true",
];

fn database_of(end: &End) -> &Database {
    match end {
        End::Sql(database) => database,
        End::Gateway(service) => &service.database,
        End::Directory(..) => unreachable!(),
    }
}

/// Takes the functions that work by a filter from a database, as one of 0.2.0 has none.
fn without_bulk_functions(database: &Database) {
    database.session("owner").run(
        "DO $$ DECLARE f regprocedure; BEGIN \
           FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'table_service'::regnamespace \
             AND proname IN ('count_entities', 'delete_entities_step') LOOP \
             EXECUTE format('ALTER EXTENSION table_service DROP FUNCTION %s', f); \
             EXECUTE format('DROP FUNCTION %s', f); \
           END LOOP; END $$; \
         SET allow_system_table_mods = on; UPDATE pg_extension SET extversion = '0.2.0' WHERE extname = 'table_service'",
    );
}

/// A database, an older one, and a gateway.
fn ends() -> [End; 3] {
    let ends = [End::of("sql"), End::of("sql"), End::of("rest")];
    without_bulk_functions(database_of(&ends[1]));
    ends
}

#[test]
fn every_place_counts_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(61, 2000));
    let begin = text(&begin);
    let ends = ends();
    for end in &ends {
        succeeds(&quietly(begin, &end.argument(), &[]));
    }
    for filter in FILTERS {
        let selected = count(begin, filter);
        assert!(
            selected <= 2000 && (*filter != "true" || selected == 2000),
            "{filter}: {selected}"
        );
        for end in &ends {
            assert_eq!(count(&end.argument(), filter), selected, "{filter}");
        }
    }
    // All tables, all entities.
    let rest = &ends[2];
    let few = file(&directory, "Few.jsonl", "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n");
    succeeds(&quietly(text(&few), &rest.argument(), &[]));
    for from in [&rest.argument(), text(directory.path())] {
        // Another program may read it.
        let output = output(&["count", "--quiet", "--from", from]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, "Few: 1 entities\nNasty: 2000 entities\n");
    }
    let damaged = file(&directory, "Nasty2.jsonl", "{\"PartitionKey\":\"p\"}\n");
    let said = ends_with(1, &["count", "--from", text(&damaged)]);
    assert!(said.contains("line 1"), "{said}");
}

#[test]
fn what_a_filter_selects_is_deleted_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(62, 2000));
    for end in ends() {
        let name = end.argument();
        let from = name.as_str();
        succeeds(&quietly(text(&begin), from, &[]));
        let mut all = 2000;
        for filter in FILTERS.iter().rev() {
            let selected = count(from, filter);
            let said = succeeds(&deleting(from, filter, &["--dry-run"]));
            assert!(
                said.contains(&format!("{selected} entities would be deleted")),
                "{said}"
            );
            assert_eq!(count(from, "true"), all, "a dry run deletes nothing");
            let report = report(0, &deleting(from, filter, &["--yes"]));
            assert_eq!(report["deleted"], selected, "{filter}: {report}");
            all -= selected;
            assert_eq!((count(from, filter), count(from, "true")), (0, all), "{filter}");
        }
        assert_eq!(all, 0);
    }
}

#[test]
fn nothing_is_deleted_by_mistake() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(63, 50));
    for end in ends() {
        let from = &end.argument();
        succeeds(&quietly(text(&begin), from, &[]));
        for (status, filter, more, says) in [
            (2, "A eq", &["--yes"][..], "InvalidInput"),
            (2, "A eq 1) or (true", &["--yes"], "InvalidInput"),
            (2, " ", &["--yes"], "--filter is empty"),
            (2, "true", &[], "--yes deletes without a question"),
            (2, "true", &["--yes", "--table", "Other"], "Name the one table"),
        ] {
            let said = ends_with(status, &deleting(from, filter, more));
            assert!(said.contains(says), "{filter}: {said}");
        }
        let said = ends_with(2, &["delete", "--from", from, "--filter", "true", "--yes"]);
        assert!(said.contains("Name the one table"), "{said}");
        let missing = [
            "delete", "--from", from, "--filter", "true", "--yes", "--table", "Missing",
        ];
        assert!(ends_with(1, &missing).contains("Missing"));
        assert_eq!(count(from, "true"), 50);
    }
    let said = ends_with(2, &deleting(text(&begin), "true", &["--yes"]));
    assert!(said.contains("this is a file"), "{said}");
    let said = ends_with(2, &["count", "--from", text(&begin), "--filter", "A eq"]);
    assert!(said.contains("InvalidInput"), "{said}");
}

/// Runs the program on a terminal where somebody types this.
fn on_a_terminal(arguments: &[&str], typed: &str) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_table-service-copy");
    let quoted = |word: &&str| format!("'{}'", word.replace('\'', "'\\''"));
    let words: Vec<String> = arguments.iter().map(quoted).collect();
    let child = Command::new("script")
        .args(["-qec", &format!("{program} {}", words.join(" ")), "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.as_ref().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[test]
fn a_terminal_is_asked_for_the_number() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(64, 40));
    let end = End::of("sql");
    let from = &end.argument();
    succeeds(&quietly(text(&begin), from, &[]));
    for typed in ["yes\n", "4\n", "\n"] {
        let (status, said) = on_a_terminal(&deleting(from, "true", &[]), typed);
        assert!(
            status == Some(1) && said.contains("selects 40 entities of Nasty") && said.contains("Nothing was deleted"),
            "{status:?} {said}"
        );
        assert_eq!(count(from, "true"), 40);
    }
    let (status, said) = on_a_terminal(&deleting(from, "true", &[]), "40\n");
    assert!(status == Some(0) && said.contains("40 deleted"), "{status:?} {said}");
    assert_eq!(count(from, "true"), 0);
}

/// An interrupted delete goes on behind the pages that it has done.
#[test]
fn a_killed_delete_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let entities: String = (0..10_000)
        .map(|n| {
            format!(
                "{{\"PartitionKey\":\"p{}\",\"RowKey\":\"{n:05}\",\"Even\":{}}}\n",
                n % 7,
                n % 2 == 0
            )
        })
        .collect();
    let begin = file(&directory, "Nasty.jsonl", &entities);
    for end in ends() {
        let from = &end.argument();
        succeeds(&quietly(text(&begin), from, &[]));
        let resume = directory.path().join("resume");
        let resume = ["--yes", "--concurrency", "1", "--resume", text(&resume)];
        let slowly = deleting(from, "Even", &[&resume[..], &["--rate", "700"]].concat());
        let mut child = start(&slowly);
        system_tests::wait_until("a page is deleted", || {
            std::fs::read_to_string(resume[4]).is_ok_and(|kept| kept.contains("\"position\":{"))
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let kept = std::fs::read_to_string(resume[4]).unwrap();
        assert!(!kept.contains(raw_http::KEY), "{kept}");
        let said = ends_with(1, &deleting(from, "not Even", &resume));
        assert!(said.contains("belongs to another copy or delete"), "{said}");
        let report = report(0, &deleting(from, "Even", &resume));
        let read = report["read"].as_u64().unwrap();
        assert!(read > 0 && read < 5000, "{report}");
        assert!(!std::path::Path::new(resume[4]).exists());
        assert_eq!((count(from, "Even"), count(from, "true")), (0, 5000));
    }
}

/// The first page is not deleted at once.
#[test]
fn a_rate_holds_from_the_beginning() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(67, 1000));
    for end in ends() {
        let from = &end.argument();
        succeeds(&quietly(text(&begin), from, &[]));
        let before = count(from, "true");
        let mut child = start(&deleting(from, "true", &["--yes", "--rate", "1"]));
        system_tests::wait_until("some are deleted", || count(from, "true") < before);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(count(from, "true") > 0);
        succeeds(&deleting(from, "true", &["--yes"]));
        assert_eq!(count(from, "true"), 0);
    }
}

#[test]
fn ctrl_c_ends_a_delete_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(65, 3000));
    let end = End::of("rest");
    let from = &end.argument();
    succeeds(&quietly(text(&begin), from, &[]));
    let slowly = deleting(from, "true", &["--yes", "--rate", "50", "--concurrency", "1"]);
    let child = command(&slowly).stderr(Stdio::piped()).spawn().unwrap();
    system_tests::wait_until("some are deleted", || count(from, "true") < 3000);
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("The same command deletes what is left"), "{said}");
    succeeds(&deleting(from, "true", &["--yes"]));
    assert_eq!(count(from, "true"), 0);
}

/// Requests that are answered 503, or not at all, are sent again; work with a lost answer counts once.
#[test]
fn a_gateway_that_is_busy_is_asked_again() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(66, 1500));
    let End::Gateway(service) = End::of("rest") else {
        unreachable!()
    };
    let direct = connection_string(service.gateway.address);
    succeeds(&quietly(text(&begin), &direct, &[]));
    let proxy = Proxy::start(service.gateway.address, 66);
    let proxied = connection_string(proxy.address);
    let selected = count(&direct, "A ge 0");
    assert_eq!(count(&proxied, "A ge 0"), selected);
    let report = report(0, &deleting(&proxied, "A ge 0", &["--yes"]));
    assert!(proxy.faults.load(Ordering::Relaxed) > 0, "the proxy did nothing");
    assert_eq!(
        (&report["deleted"], &report["gone"]),
        (&selected.into(), &0.into()),
        "{report}"
    );
    assert_eq!((count(&direct, "A ge 0"), count(&direct, "true")), (0, 1500 - selected));
}

/// Others change entities all the time. One that no longer passes the filter is never deleted.
#[test]
fn what_others_have_saved_stays() {
    let directory = tempfile::tempdir().unwrap();
    let entities: String = (0..4000)
        .map(|n| {
            format!(
                "{{\"PartitionKey\":\"p{}\",\"RowKey\":\"{n:04}\",\"Old\":true}}\n",
                n % 3
            )
        })
        .collect();
    let begin = file(&directory, "Nasty.jsonl", &entities);
    for end in ends() {
        let from = &end.argument();
        succeeds(&quietly(text(&begin), from, &[]));
        let session = database_of(&end).session("rival");
        session.run("CREATE TABLE public.saved (row_key text)");
        let mut child = start(&deleting(from, "Old", &["--yes", "--rate", "4000"]));
        let mut number = 0;
        while child.try_wait().unwrap().is_none() {
            // From the end, where the delete comes last; those that are gone are no error.
            let n = 3999 - number % 4000;
            number += 7;
            let key = format!("'Nasty', 'p{}', '{n:04}'", n % 3);
            let merge = |properties: &str| format!("PERFORM table_service.merge_entity({key}, '{properties}', '*')");
            let change = match n % 5 {
                0 => format!("PERFORM table_service.delete_entity({key}, '*')"),
                1 | 2 => merge("{\"Seen\": 1}"),
                _ => format!(
                    "{}; INSERT INTO public.saved VALUES ('{n:04}')",
                    merge("{\"Old\": false}")
                ),
            };
            session.run(&format!(
                "DO $$ BEGIN {change}; EXCEPTION WHEN OTHERS THEN NULL; END $$"
            ));
        }
        assert!(child.wait().unwrap().success());
        assert_eq!(count(from, "Old"), 0);
        let lost = session.text(
            "SELECT count(DISTINCT row_key)::text FROM public.saved AS s WHERE NOT EXISTS \
             (SELECT FROM table_service_data.\"Nasty\" AS e WHERE e.row_key = s.row_key)",
        );
        assert_eq!(lost, "0", "the delete took what was saved");
        assert_ne!(session.text("SELECT count(*)::text FROM public.saved"), "0");
    }
}

/// A service in memory. Before the batch with this number, others do something.
struct Fake {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    entities: Arc<Mutex<BTreeMap<String, Stored>>>,
}

#[derive(Clone)]
struct Stored {
    version: u64,
    passes: bool,
    /// Somebody changes it whenever it is looked at.
    restless: bool,
}

impl Fake {
    /// Keys `0000` and so on, of one partition.
    fn start(entities: usize) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stored = Stored {
            version: 0,
            passes: true,
            restless: false,
        };
        let all = (0..entities).map(|n| (format!("{n:04}"), stored.clone())).collect();
        let entities = Arc::new(Mutex::new(all));
        let ends = Arc::new(AtomicBool::new(false));
        let (shared, ended) = (entities.clone(), ends.clone());
        let state = Arc::new(Mutex::new((0, 0)));
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let (shared, state) = (shared.clone(), state.clone());
                std::thread::spawn(move || serve(client, &shared, &state));
            }
        });
        Fake {
            address,
            ends,
            entities,
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

type Entities = BTreeMap<String, Stored>;

fn serve(client: TcpStream, entities: &Mutex<Entities>, state: &Mutex<(usize, usize)>) -> Option<()> {
    let mut reader = BufReader::new(client.try_clone().ok()?);
    let mut writer = client;
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        for line in head.to_ascii_lowercase().lines() {
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let mut state = state.lock().unwrap();
        state.0 += 1;
        let (status, headers, answer) = if state.0 % 4 == 2 {
            (503, String::new(), error("ServerBusy", None))
        } else {
            let mut entities = entities.lock().unwrap();
            if head.starts_with("POST") {
                state.1 += 1;
                if state.1 == 1 {
                    others(&mut entities);
                }
            }
            answer(&head, &String::from_utf8_lossy(&body), &mut entities)
        };
        drop(state);
        let length = answer.len();
        let text = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n{answer}");
        writer.write_all(text.as_bytes()).ok()?;
    }
}

/// The changes of others between the reading and the first batch.
fn others(entities: &mut Entities) {
    entities.remove("0003");
    entities.remove("0150");
    entities.get_mut("0007").unwrap().version += 1;
    let saved = entities.get_mut("0009").unwrap();
    (saved.version, saved.passes) = (1, false);
    let restless = entities.get_mut("0011").unwrap();
    (restless.version, restless.restless) = (1, true);
    for n in 200..210 {
        entities.remove(&format!("{n:04}"));
    }
}

fn error(code: &str, index: Option<usize>) -> String {
    let index = index.map(|index| format!("{index}:")).unwrap_or_default();
    format!("{{\"odata.error\":{{\"code\":\"{code}\",\"message\":{{\"lang\":\"en-US\",\"value\":\"{index}no.\"}}}}}}")
}

fn etag(version: u64) -> String {
    format!("W/\"v{version}\"")
}

/// The answer to a delete with this head.
fn outcome(head: &str, entities: &Entities) -> (u16, &'static str, String) {
    let key = head
        .split("RowKey=%27")
        .nth(1)
        .and_then(|rest| rest.get(..4))
        .unwrap()
        .to_owned();
    let wanted = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("if-match").then_some(value.trim())
    });
    match entities.get(&key) {
        None => (404, "ResourceNotFound", key),
        Some(stored) if wanted != Some(&etag(stored.version)) => (412, "UpdateConditionNotSatisfied", key),
        Some(_) => (204, "", key),
    }
}

fn answer(head: &str, body: &str, entities: &mut Entities) -> (u16, String, String) {
    if head.starts_with("DELETE") {
        let (status, code, key) = outcome(head, entities);
        if status == 204 {
            entities.remove(&key);
            return (204, String::new(), String::new());
        }
        return (status, String::new(), error(code, None));
    }
    if head.starts_with("POST") {
        let changes: Vec<&str> = body.split("\r\nDELETE ").skip(1).collect();
        let outcomes: Vec<_> = changes.iter().map(|change| outcome(change, entities)).collect();
        let failed = outcomes.iter().position(|outcome| outcome.0 != 204);
        let parts = match failed {
            Some(index) => {
                let (status, code, _) = &outcomes[index];
                format!(
                    "--c\r\n\r\nHTTP/1.1 {status} X\r\n\r\n{}\r\n--c--\r\n",
                    error(code, Some(index))
                )
            }
            None => {
                for (_, _, key) in &outcomes {
                    entities.remove(key);
                }
                "--c\r\n\r\nHTTP/1.1 204 X\r\n\r\n\r\n".repeat(outcomes.len())
            }
        };
        return (202, String::new(), format!("--b\r\n\r\n{parts}--b--"));
    }
    // A list, of one entity or behind a key.
    let value = |name: &str| head.split_once(name).map(|(_, rest)| rest.get(..4).unwrap().to_owned());
    let only = value("RowKey%20eq%20%27");
    let from = value("NextRowKey=").unwrap_or_default();
    let top = head
        .split_once("$top=")
        .unwrap()
        .1
        .split(['&', ' '])
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let chosen: Vec<String> = entities
        .iter()
        .filter(|(key, stored)| stored.passes && only.as_ref().is_none_or(|only| *key == only) && **key >= from)
        .map(|(key, _)| key.clone())
        .collect();
    let mut items = Vec::new();
    for key in chosen.iter().take(top) {
        let stored = entities.get_mut(key).unwrap();
        let tag = etag(stored.version).replace('"', "\\\"");
        items.push(format!(
            "{{\"odata.etag\":\"{tag}\",\"PartitionKey\":\"p\",\"RowKey\":\"{key}\"}}"
        ));
        stored.version += u64::from(stored.restless);
    }
    let next = chosen
        .get(top)
        .map(|key| format!("x-ms-continuation-NextPartitionKey: p\r\nx-ms-continuation-NextRowKey: {key}\r\n"));
    (
        200,
        next.unwrap_or_default(),
        format!("{{\"value\":[{}]}}", items.join(",")),
    )
}

#[test]
fn others_delete_and_change_entities_in_between() {
    let directory = tempfile::tempdir().unwrap();
    let rejects = directory.path().join("rejects");
    for more in [&["--yes", "--concurrency", "1"][..], &["--yes"]] {
        let fake = Fake::start(300);
        let from = &connection_string(fake.address);
        let more = [more, &["--rejects", text(&rejects)]].concat();
        let report = report(3, &deleting(from, "Old", &more));
        let found = |name: &str| report[name].as_u64().unwrap();
        assert_eq!(
            (
                found("read"),
                found("deleted"),
                found("gone"),
                found("changed"),
                found("rejected")
            ),
            (300, 286, 12, 1, 1),
            "{report}"
        );
        let left: Vec<String> = fake.entities.lock().unwrap().keys().cloned().collect();
        assert_eq!(left, ["0009", "0011"]);
        let said = std::fs::read_to_string(&rejects).unwrap();
        assert!(
            said.contains("\"RowKey\":\"0011\"") && said.contains("tried 20 times"),
            "{said}"
        );
        std::fs::remove_file(&rejects).unwrap();
    }
    // Without a file for them, the first that cannot be deleted ends it.
    let fake = Fake::start(300);
    let said = ends_with(1, &deleting(&connection_string(fake.address), "Old", &["--yes"]));
    assert!(
        said.contains("RowKey '0011'") && said.contains("tried 20 times"),
        "{said}"
    );
}

/// A service is not believed if its ETags would add headers to a request.
#[test]
fn an_etag_is_one_line() {
    for (entity, says) in [
        ("\"odata.etag\":\"*\\r\\nX: y\",", "neither an ETag nor a Timestamp"),
        ("", "neither an ETag nor a Timestamp"),
    ] {
        let body = format!("{{\"value\":[{{{entity}\"PartitionKey\":\"p\",\"RowKey\":\"r\"}}]}}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            while let Ok((mut client, _)) = listener.accept() {
                let _ = client.read(&mut [0; 8192]);
                let head = format!(
                    "HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                let _ = client.write_all(&[head.as_bytes(), body.as_bytes()].concat());
            }
        });
        let from = connection_string(address);
        let said = ends_with(1, &deleting(&from, "true", &["--yes", "--concurrency", "1"]));
        assert!(said.contains(says), "{said}");
    }
}

/// A database that goes away during a delete is waited for.
#[test]
fn a_database_that_breaks_connections_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(67, 5000));
    for end in &ends()[..2] {
        let from = &database_url(database_of(end));
        succeeds(&quietly(text(&begin), from, &[]));
        let mut child = start(&deleting(from, "true", &["--yes", "--rate", "2000"]));
        let session = database_of(end).session("rival");
        let mut broken = 0;
        // Some times only: a slow machine may need longer for a step than there is between two of them.
        while child.try_wait().unwrap().is_none() && broken < 6 {
            let ended = session.text(
                "SELECT count(pg_terminate_backend(pid))::text FROM pg_stat_activity \
                 WHERE application_name = 'table-service-copy' AND datname = current_database()",
            );
            broken += ended.parse::<u32>().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        assert!(child.wait().unwrap().success());
        assert!(broken > 0);
        assert_eq!(count(from, "true"), 0);
    }
}
