//! The laws of any query as that of a shared access signature. The fuzz target and the replay of its corpus check this.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::IpAddr;

use percent_encoding::percent_decode_str;
use table_service_model::access::{AccessPolicies, Account, AccountKey, Client, Grant, Sas, ServiceOperation};
use table_service_model::entity::Entity;
use table_service_model::filter::{Dialect, Filter};
use table_service_model::{Code, PropertiesBuf, Ticks};

const KEYS: [&str; 5] = ["", "a", "b'", "\u{ff21}", "\u{1f600}"];

/// Any query has no signature, is refused, or has a signature that prints as an equal one. No key has made that, and
/// its grant and its filter agree on every key.
pub fn sas(query: &str) {
    let parse = |query: &str| {
        let pairs: Vec<_> = query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (name, percent_decode_str(value).decode_utf8_lossy().into_owned()))
            .collect();
        Sas::parse(pairs.iter().map(|(name, value)| (*name, value.as_str())))
    };
    let sas = match parse(query) {
        Ok(Some(sas)) => sas,
        Ok(None) => return,
        Err(error) => {
            assert_eq!(error.code(), Code::AuthenticationFailed);
            return;
        }
    };
    assert_eq!(parse(&sas.to_query()).as_ref(), Ok(&Some(sas.clone())));
    let account = Account::new("account1", vec![AccountKey::parse("a2V5").unwrap()]).unwrap();
    let forged = sas.check_signature(&account);
    assert_eq!(forged.unwrap_err().code(), Code::AuthenticationFailed);

    let policies = AccessPolicies::from_json(r#"[{"Id": "p", "Expiry": "2030-01-01", "Permission": "raud"}]"#);
    let client = Client {
        now: Ticks::parse("2026-01-01").unwrap(),
        address: IpAddr::from([10, 0, 0, 1]),
        https: true,
    };
    let grant = match sas.grant(policies.as_ref().ok(), &client) {
        Ok(grant) => grant,
        Err(error) => {
            assert_eq!(error.code().http_status(), 403);
            return;
        }
    };
    for operation in ServiceOperation::ALL.iter().copied() {
        if let Err(error) = grant.permits(operation, Some("table")) {
            assert_eq!(error.code().http_status(), 403);
        }
    }
    assert!(grant.permits(ServiceOperation::SetTableAcl, Some("table")).is_err());
    let Grant::Table { range, .. } = &grant else {
        return;
    };
    let clipped = grant.clip(Some("RowKey ge ''"), Dialect::Service).unwrap().unwrap();
    let filter = Filter::parse(&clipped, None, Dialect::Service).unwrap();
    let mut keys = KEYS.to_vec();
    keys.extend(
        [
            &range.start_partition,
            &range.start_row,
            &range.end_partition,
            &range.end_row,
        ]
        .into_iter()
        .flatten()
        .map(String::as_str),
    );
    for &partition_key in &keys {
        for &row_key in &keys {
            let bag = PropertiesBuf::empty();
            let entity = Entity {
                partition_key: Some(partition_key),
                row_key: Some(row_key),
                timestamp: None,
                properties: bag.as_properties(),
            };
            let inside = range.contains(partition_key, row_key);
            assert_eq!(filter.matches(&entity), inside, "{clipped} for {entity:?}");
            assert_eq!(grant.permits_key(partition_key, row_key).is_ok(), inside);
        }
    }
}
