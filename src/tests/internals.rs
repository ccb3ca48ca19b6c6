//! Tests of effects that only a server process shows: the state that a session keeps, the memory that calls leave behind,
//! and the answers of the binary input function to broken bytes. The results of the functions are tested in
//! `tests/pg_regress/`.

#[pgrx::pg_schema]
mod tests {
    use std::cell::Cell;
    use std::ffi::CStr;

    use pgrx::prelude::*;

    use crate::postgres::raised::message;
    use crate::postgres::spi::connect;
    use crate::postgres::subtransaction::in_subtransaction;
    use crate::tests::support::{insert, run, state, table, value};

    /// Where tests begin: there is one table with one entity.
    fn one() {
        table("Employees");
        insert("Employees", "r", "{\"a\": 1}");
    }

    #[pg_test]
    fn a_session_keeps_statements_for_128_tables() {
        one();
        run("SET table_service.enable_direct_access = off");
        for table in 0..140 {
            run(&format!("SELECT create_table('Many{table}')"));
            run(&format!("SELECT insert_entity('Many{table}', 'p', 'r', '{{}}')"));
        }
        for table in (0..140).rev() {
            run(&format!(
                "SELECT merge_entity('Many{table}', 'p', 'r', '{{\"a\": 1}}', '*')"
            ));
        }
        assert_eq!(crate::storage::plan::tables_kept(), 128);
    }

    /// Receives bytes as the binary protocol brings them.
    fn receive(bytes: &[u8]) -> String {
        let bytes = bytes.to_vec();
        let received = in_subtransaction(move || {
            // SAFETY: a receive function is called with a StringInfo, and its result printed with the output function.
            unsafe {
                let mut message = pg_sys::StringInfoData::default();
                pg_sys::initStringInfo(&mut message);
                pg_sys::appendBinaryStringInfo(
                    &mut message,
                    bytes.as_ptr().cast(),
                    i32::try_from(bytes.len()).unwrap(),
                );
                let (mut function, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
                pg_sys::getTypeBinaryInputInfo(
                    crate::postgres::catalog::properties_type(),
                    &mut function,
                    &mut parameter,
                );
                let bag = pg_sys::OidReceiveFunctionCall(function, &mut message, parameter, -1);
                pg_sys::getTypeOutputInfo(crate::postgres::catalog::properties_type(), &mut function, &mut false);
                let text = pg_sys::OidOutputFunctionCall(function, bag);
                Ok::<_, table_service_model::Error>(CStr::from_ptr(text).to_str().unwrap().to_owned())
            }
        });
        match received {
            Ok(text) => text.unwrap(),
            Err(error) => state(&error),
        }
    }

    /// A row of an older minor release has no mark that it is a value, and no version of its type. The column of its type is another one now.
    #[pg_test]
    fn a_row_that_is_older_than_its_type_is_not_taken_apart() {
        const MARK: u16 = (pg_sys::HEAP_XMAX_COMMITTED | pg_sys::HEAP_XMAX_INVALID) as u16;
        run("CREATE TYPE public.kept AS (a text)");
        let kept: u32 = value("SELECT 'public.kept'::regtype::oid").parse().unwrap();
        // SAFETY: the input function of rows takes a text, a type and its modifier. The datum is a row, which nothing else uses.
        let row = unsafe {
            let text = c"(a)".as_ptr().cast_mut();
            let row = pg_sys::OidInputFunctionCall(pg_sys::F_RECORD_IN.into(), text, kept.into(), -1);
            let header = row.cast_mut_ptr::<pg_sys::HeapTupleHeaderData>();
            if (*header).t_infomask & MARK != MARK {
                // This server knows no versions of types.
                return;
            }
            (*header).t_infomask &= !MARK;
            (*header).t_choice.t_datum.datum_typmod = -1;
            (*header).t_ctid.ip_posid = 0;
            row
        };
        run("ALTER TYPE public.kept ALTER ATTRIBUTE a TYPE bigint");
        let taken = in_subtransaction(|| {
            // SAFETY: the datum is a row that is not NULL.
            let row = unsafe { crate::postgres::types::RecordArg::from_datum(row, false) };
            Ok::<_, table_service_model::Error>(row.unwrap().columns().len())
        });
        let error = taken.unwrap_err();
        assert!(
            message(&error).contains("altered after the datum's creation"),
            "{}",
            message(&error)
        );
    }

    /// The names in a statement of the extension can lead to functions of others, also to some that have been added to the extension.
    #[pg_test]
    fn a_statement_of_the_extension_calls_no_function_of_others() {
        run("CREATE FUNCTION public.planted() RETURNS int LANGUAGE sql RETURN 1");
        let call = || {
            in_subtransaction(|| {
                Ok::<_, table_service_model::Error>(connect(|spi| {
                    spi.read("SELECT FROM (SELECT public.planted()) AS s", &[]).processed()
                }))
            })
        };
        assert_eq!(state(&call().unwrap_err()), "55000");
        run("ALTER EXTENSION table_service ADD FUNCTION public.planted()");
        assert_eq!(state(&call().unwrap_err()), "55000");
    }

    #[pg_test]
    fn hostile_bytes_are_refused() {
        one();
        let sent = value("SELECT encode(properties_send('{\"S\": \"text\", \"I\": 1, \"B\": true}'), 'hex')");
        let bytes: Vec<u8> = (0..sent.len() / 2)
            .map(|i| u8::from_str_radix(&sent[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        assert_eq!(receive(&bytes), r#"{"B":true,"I":1,"S":"text"}"#);
        for length in 0..bytes.len() {
            assert_eq!(receive(&bytes[..length]), "22P03", "cut to {length} bytes");
        }
        for (index, bit) in (0..bytes.len()).flat_map(|index| (0..8).map(move |bit| (index, bit))) {
            let mut bytes = bytes.clone();
            bytes[index] ^= 1 << bit;
            let received = receive(&bytes);
            assert!(
                received.starts_with('{') || ["22P03", "22023", "22003", "54000"].contains(&received.as_str()),
                "byte {index} bit {bit}: {received}"
            );
        }
        assert_eq!(receive(&vec![0xFF; 1_000_000]), "22P03");
    }

    #[pg_test]
    fn memory_does_not_grow_with_the_number_of_calls() {
        one();
        run(
            "CREATE FUNCTION fails(statement text) RETURNS boolean LANGUAGE plpgsql AS $$
             BEGIN EXECUTE statement; RETURN false; EXCEPTION WHEN OTHERS THEN RETURN true; END $$",
        );
        // This process's own memory in KiB, without the buffers that it shares with others.
        run("CREATE FUNCTION memory() RETURNS bigint VOLATILE LANGUAGE sql AS $$
             SELECT (regexp_match(pg_read_file('/proc/self/status'), 'RssAnon:\\s+(\\d+)'))[1]::bigint $$");
        let entity = "ROW('p', i::text, now(), jsonb_build_object('a', repeat('x', 1000), 'b', i))::entity";
        for call in [
            "insert_or_merge_entity('Employees', 'm', (i % 500)::text, jsonb_build_object('a', repeat('x', 1000), 'b', i))",
            "(SELECT e.properties FROM get_entity('Employees', 'p', 'r', 'a') AS e WHERE i > 0)",
            "(SELECT count(*) FROM get_entities('Employees', 'p', ARRAY['r', i::text]))",
            "(jsonb_build_object('a', repeat('x', 1000), 'b', i)::properties || '{\"c\": 1}'::properties - 'b') ->> 'a'",
            &format!("entity_from_json(entity_to_json({entity})::text)"),
            "(SELECT count(*) FROM each_property(jsonb_build_object('a', repeat('x', 1000), 'b', i)))",
            "fails('SELECT insert_entity(''Employees'', ''p'', ''r'', ''{}'')')",
        ] {
            // The memory that the last of this many calls leaves, while the statement still runs.
            let memory_after = |calls: u32| -> i64 {
                let memory = format!(
                    "SELECT max(CASE i WHEN {calls} THEN memory() END) FROM (SELECT i, {call} AS result FROM generate_series(1, {calls}) AS i OFFSET 0) AS c
                     WHERE result IS NOT DISTINCT FROM result"
                );
                value(&memory).parse().unwrap()
            };
            let warm = memory_after(1_000);
            let grown = memory_after(5_000) - warm;
            assert!(grown < 2 * 1024, "{grown} KiB more after {call}");
        }
    }

    thread_local! {
        static STARTED: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts the statements that PostgreSQL starts to execute: the test's own and those of the extension.
    unsafe extern "C-unwind" fn count_start(query: *mut pg_sys::QueryDesc, flags: std::ffi::c_int) {
        STARTED.set(STARTED.get() + 1);
        // SAFETY: PostgreSQL passes valid arguments to the hook. Without a hook it calls this function with them.
        unsafe { pg_sys::standard_ExecutorStart(query, flags) };
    }

    /// Returns how many statements a batch executes. `operations` is an expression over i that makes one operation; i
    /// is 1 to 100.
    fn statements(operations: &str) -> usize {
        let sql = format!(
            "SELECT execute_batch('Counted', 'p', VARIADIC array_agg({operations} ORDER BY random())) FROM generate_series(1, 100) AS i"
        );
        // SAFETY: nothing else in this backend sets the hook, and backends have one thread.
        unsafe { pg_sys::ExecutorStart_hook = Some(count_start) };
        STARTED.set(0);
        Spi::run(&sql).unwrap();
        // SAFETY: as above.
        unsafe { pg_sys::ExecutorStart_hook = None };
        // The test's own statement also counts.
        STARTED.get() - 1
    }

    #[pg_test]
    fn a_batch_is_few_statements() {
        table("Counted");
        let key = "lpad(i::text, 3, '0')";
        let inserts = statements(&format!("batch_insert({key}, '{{\"a\": 1}}')"));
        assert!(inserts <= 3, "100 inserts: {inserts}");
        let merges = statements(&format!("batch_merge({key}, '{{\"b\": 1}}', '*')"));
        assert!(merges <= 3, "100 merges: {merges}");
        let deletes = statements(&format!("batch_delete({key})"));
        assert!(deletes <= 3, "100 deletes: {deletes}");

        let half =
            format!("CASE WHEN i <= 60 THEN batch_insert({key}, '{{}}') ELSE batch_insert_or_merge({key}, '{{}}') END");
        let upserts = statements(&half);
        assert!(upserts <= 3, "two runs: {upserts}");
        // All six kinds, in runs. The entities 61 to 100 are deleted first, so that they can be inserted again.
        Spi::run("DELETE FROM table_service_data.\"Counted\" WHERE row_key > '060'").unwrap();
        let mixed = statements(&format!(
            "CASE WHEN i <= 15 THEN batch_replace({key}, '{{}}', '*') WHEN i <= 30 THEN batch_delete({key})
                WHEN i <= 45 THEN batch_merge({key}, '{{\"c\": 1}}', '*') WHEN i <= 65 THEN batch_insert_or_merge({key}, '{{\"d\": 1}}')
                WHEN i <= 85 THEN batch_insert({key}, '{{}}') ELSE batch_insert_or_replace({key}, '{{\"e\": 1}}') END"
        ));
        assert!(mixed <= 10, "100 operations of all kinds: {mixed}");
        // If the kinds alternate, there are as many statements as runs.
        let worst = statements(&format!(
            "CASE WHEN i % 2 = 0 THEN batch_insert_or_merge({key}, '{{}}') ELSE batch_insert_or_replace({key}, '{{}}') END"
        ));
        assert_eq!(worst, 100);
    }
}
