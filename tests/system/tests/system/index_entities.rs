//! The recipe of `docs/guide/index-entities.md`, word for word, from several sessions at once.

use system_tests::{Database, Session};

use system_tests::random::Random;

const GUIDE: &str = include_str!("../../../../docs/guide/index-entities.md");

const NAMES: [&str; 4] = ["Jones", "Smith", "Brown", "Davis"];

/// Index entities and employees that do not agree with each other.
const WRONG: &str = "
SELECT coalesce(i.last_name, e.last_name), i.ids, e.ids
FROM (SELECT row_key AS last_name, array_agg(id ORDER BY id) AS ids
      FROM table_service_data.\"Employees\", unnest(string_to_array(properties ->> 'EmployeeIDs', ',')) AS id
      WHERE properties ? 'EmployeeIDs' GROUP BY row_key) AS i
    FULL JOIN (SELECT properties ->> 'LastName' AS last_name, array_agg(row_key::text ORDER BY row_key::text) AS ids
      FROM table_service_data.\"Employees\" WHERE properties ? 'LastName' GROUP BY 1) AS e USING (last_name)
WHERE i.ids IS DISTINCT FROM e.ids";

fn blocks() -> impl Iterator<Item = &'static str> {
    GUIDE
        .split("```sql\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
}

/// The directory of the guide.
const SEARCH_PATH: &str = "SET search_path = \"$user\", public, table_service";

fn set_up(session: &Session) {
    session.run(SEARCH_PATH);
    for block in blocks() {
        session.run(block);
    }
}

#[test]
fn the_guide_runs() {
    let db = Database::new();
    let session = db.session("reader");
    set_up(&session);
    let called = |name: &str| session.run(&format!("SELECT row_key FROM employees_called('Sales', '{name}')"));
    assert_eq!(called("Jones"), Vec::<Vec<_>>::new());
    assert_eq!(
        called("Smith"),
        [[Some("000152".to_owned())], [Some("000201".to_owned())]]
    );
    assert_eq!(session.text("SELECT rename_employee('Sales', '000201', 'Smith')"), "f");
    assert_eq!(session.text("SELECT delete_employee('Sales', '000173')"), "f");
    // A conflict over something else than an index entity ends in the error.
    let failure = session
        .sql("SELECT add_employee('Sales', '000152', '{\"LastName\": \"Smith\"}')")
        .unwrap_err();
    assert_eq!(
        failure.message,
        "EntityAlreadyExists: 0:The specified entity already exists."
    );
    assert_eq!(session.run(WRONG), Vec::<Vec<_>>::new());
}

#[test]
fn eight_sessions_leave_a_complete_index() {
    let db = Database::new();
    let session = db.session("checks");
    set_up(&session);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let session = db.session(&format!("clerk {number}"));
            scope.spawn(move || {
                session.run(SEARCH_PATH);
                let mut random = Random::new(number);
                for step in 0..40 {
                    // Some employees are shared, so that sessions also conflict over employees.
                    let id = match random.below(3) {
                        0 => format!("{:06}", random.below(5)),
                        _ => format!("{:06}", 100 * (number + 1) + step),
                    };
                    let name = random.pick(&NAMES);
                    let outcome = match random.below(6) {
                        0 => session.sql(&format!("SELECT rename_employee('Sales', '{id}', '{name}')")),
                        1 => session.sql(&format!("SELECT delete_employee('Sales', '{id}')")),
                        2 => session.sql(&format!("SELECT count(*) FROM employees_called('Sales', '{name}')")),
                        _ => session.sql(&format!(
                            "SELECT add_employee('Sales', '{id}', '{{\"LastName\": \"{name}\"}}')"
                        )),
                    };
                    match outcome {
                        Ok(_) => {}
                        Err(failure) if failure.message.starts_with("EntityAlreadyExists: 0:") => {}
                        Err(failure) => panic!("clerk {number}: {failure:?}"),
                    }
                }
            });
        }
    });
    assert_eq!(session.run(WRONG), Vec::<Vec<_>>::new());
    let employees = session.text("SELECT count(*) FROM table_service_data.\"Employees\" WHERE properties ? 'LastName'");
    assert!(employees.parse::<usize>().unwrap() > 50, "{employees}");
    let found = session.text(&format!(
        "SELECT count(*) FROM unnest('{{{}}}'::text[]) AS name, employees_called('Sales', name)",
        NAMES.join(",")
    ));
    assert_eq!(found, employees);
}
