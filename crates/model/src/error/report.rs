//! Errors that arrive as text: as PostgreSQL passed them on to one of its clients.

use super::catalog::Error;
use super::code::Code;
use super::request::RequestError;
use super::row::{Row, Stage};

/// The parts of an error that arrived as its SQLSTATE and the text of [`Error::report`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report<'m> {
    pub code: Code,
    /// The service's message, in a batch with the index of its operation.
    pub message: &'m str,
    pub stage: Stage,
}

impl<'m> Report<'m> {
    /// Reads a text that [`Error::report`] wrote; `None` for any other text.
    ///
    /// The stage is that of the catalog's row with this code, this SQLSTATE and such a message. A text that has no row
    /// comes from another version of the extension; it has the stage [`Stage::BackEnd`].
    pub fn parse(sqlstate: &str, text: &'m str) -> Option<Report<'m>> {
        let (name, message) = text.split_once(": ")?;
        let code: Code = name.parse().ok()?;
        let stage = row(code, sqlstate, message)
            .or_else(|| row(code, sqlstate, without_index(message)?))
            .map_or(Stage::BackEnd, |row| row.stage);
        Some(Report { code, message, stage })
    }
}

fn row(code: Code, sqlstate: &str, message: &str) -> Option<&'static Row> {
    rows().find(|row| row.code == code && row.sqlstate == Some(sqlstate) && row.can_say(message))
}

fn rows() -> impl Iterator<Item = &'static Row> {
    Error::ROWS.iter().chain(RequestError::ROWS)
}

/// Returns the message of an operation's error without the operation's index.
fn without_index(message: &str) -> Option<&str> {
    let (index, message) = message.split_once(':')?;
    index.bytes().all(|byte| byte.is_ascii_digit()).then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn parse(error: &Error) -> Option<(Code, String, Stage)> {
        Report::parse(error.sqlstate(), &error.report())
            .map(|report| (report.code, report.message.to_owned(), report.stage))
    }

    fn assert_is_read_back(error: &Error) {
        let expected = (error.code(), error.to_string(), error.stage());
        assert_eq!(parse(error), Some(expected), "{error:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_error_that_sql_raises_is_read_back(text in ".{0,30}|[0-9]{1,2}:.{0,5}", index in 0usize..100) {
            for error in Error::samples(&text) {
                assert_is_read_back(&error);
                assert_is_read_back(&error.clone().at(index));
                assert_is_read_back(&error.of_entity(&text, &text).at(index));
            }
        }
    }

    /// Fields may hold the words of another error.
    #[test]
    fn an_error_that_quotes_another_is_not_taken_for_it() {
        for quoted in Error::ROWS {
            for error in Error::samples(quoted.template) {
                assert_is_read_back(&error);
                assert_is_read_back(&error.at(7));
            }
        }
    }

    /// Two rows that one text could belong to have the same stage, whatever their fields hold.
    #[test]
    fn no_text_has_two_stages() {
        let start = |row: &Row| {
            row.template
                .split_once('{')
                .map_or(row.template, |(start, _)| start)
                .to_owned()
        };
        for (a, b) in rows().flat_map(|a| rows().map(move |b| (a, b))) {
            if (a.code, a.sqlstate) != (b.code, b.sqlstate) || a.stage == b.stage {
                continue;
            }
            let (x, y) = (start(a), start(b));
            assert!(
                !x.starts_with(&y) && !y.starts_with(&x),
                "{} and {} cannot be told apart: give one another SQLSTATE",
                a.name,
                b.name
            );
        }
    }

    #[test]
    fn errors_that_sql_raises_have_a_sqlstate_and_the_others_have_none() {
        for row in Error::ROWS {
            let sqlstate = row.sqlstate.unwrap_or_default();
            assert!(
                sqlstate.len() == 5 && sqlstate.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()),
                "{}",
                row.name
            );
            assert_ne!(sqlstate, "XX000", "{}: XX000 is a bug", row.name);
        }
        assert!(RequestError::ROWS.iter().all(|row| row.sqlstate.is_none()));
        assert_eq!(Error::from(RequestError::UrlSyntax).sqlstate(), "08P01");
    }

    #[test]
    fn every_code_is_that_of_an_error() {
        let used: BTreeSet<&str> = rows().map(|row| row.code.as_str()).collect();
        let all: BTreeSet<&str> = Code::ALL.iter().copied().map(Code::as_str).collect();
        assert_eq!(used, all);
    }

    #[test]
    fn messages_and_hints_show_their_fields_and_end_as_sentences() {
        let all = Error::samples("some reason");
        assert_eq!(all.len(), Error::ROWS.len());
        let requests = RequestError::samples("some reason").into_iter().map(Error::from);
        for error in all.into_iter().chain(requests) {
            let (message, hint) = (error.to_string(), error.hint());
            assert!(!message.contains(['{', '}']), "{error:?}: {message}");
            // A client's encoding may lack anything else, and PostgreSQL would tell it that instead.
            assert!(
                message.is_ascii() && hint.as_ref().is_none_or(|hint| hint.is_ascii()),
                "{error:?}"
            );
            let Some(hint) = hint else { continue };
            assert!(hint.ends_with('.') && !hint.contains(['{', '}']), "{error:?}: {hint}");
            assert_eq!(error.clone().at(3).hint(), Some(hint.clone()), "{error:?}");
            assert_eq!(error.clone().of_entity("p", "r").hint(), Some(hint), "{error:?}");
        }
    }

    #[test]
    fn an_error_tells_what_it_is_about() {
        let detail = |error: Error| error.detail().map(str::to_owned);
        assert_eq!(detail(Error::EntityNotFound), None);
        let keys = "The PartitionKey is 'p', and the RowKey is 'r'.";
        assert_eq!(
            detail(Error::EntityNotFound.of_entity("p", "r").at(3)),
            Some(keys.to_owned())
        );
        assert_eq!(detail(Error::KeyTooLong.of_written("p", "r")), None);
        let long = detail(Error::EntityNotFound.of_entity(&"é".repeat(1024), "r")).unwrap_or_default();
        assert!(long.contains(&format!("'{}...'", "é".repeat(256))), "{long}");
        let missing = |nearest| detail(Error::TableNotFound.of_missing_table("Employes", nearest));
        assert_eq!(missing(None).as_deref(), Some("There is no table \"Employes\"."));
        let nearest = "There is no table \"Employes\". The nearest name is \"Employees\".";
        assert_eq!(missing(Some("Employees")).as_deref(), Some(nearest));
    }

    #[test]
    fn texts_of_others_are_no_report_of_ours() {
        for text in [
            "",
            "duplicate key value: x",
            "EntityAlreadyExists",
            "EntityAlreadyExists:x",
        ] {
            assert_eq!(Report::parse("23505", text), None, "{text}");
        }
    }

    #[test]
    fn one_message_has_the_stage_of_its_sqlstate() {
        let text = "InvalidInput: One of the request inputs is not valid.";
        let stage = |sqlstate| Report::parse(sqlstate, text).map(|report| report.stage);
        assert_eq!(stage("22023"), Some(Stage::BackEnd), "a reserved name of a table");
        assert_eq!(stage("54000"), Some(Stage::FrontEnd), "a filter beyond its limits");
        assert_eq!(stage("99999"), Some(Stage::BackEnd), "no error of this version");
    }

    #[test]
    fn reports_carry_the_code_and_the_services_own_spelling() {
        assert_eq!(
            Error::TableNameInvalid.report(),
            "InvalidResourceName: The specifed resource name contains invalid characters."
        );
        assert_eq!(
            Error::out_of_range("PartitionKey", "a/b").at(3).report(),
            "OutOfRangeInput: 3:The 'PartitionKey' parameter of value 'a/b' is out of range."
        );
    }
}
