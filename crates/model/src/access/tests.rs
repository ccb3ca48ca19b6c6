use std::net::IpAddr;

use percent_encoding::percent_decode_str;

use super::*;
use crate::error::{Code, Error};
use crate::ticks::Ticks;

/// The emulator's account, which every SDK knows.
const NAME: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const OTHER_KEY: &str = "b3RoZXI=";
const DATE: &str = "Sun, 11 Oct 2026 21:49:13 GMT";

fn account() -> Account {
    Account::new(NAME, vec![AccountKey::parse(KEY).unwrap()]).unwrap()
}

fn at(text: &str) -> Ticks {
    Ticks::parse(text).unwrap()
}

fn client(now: &str) -> Client {
    Client {
        now: at(now),
        address: IpAddr::from([127, 0, 0, 1]),
        https: false,
    }
}

fn parse(query: &str) -> Result<Option<Sas>, Error> {
    let decoded: Vec<(&str, String)> = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name, percent_decode_str(value).decode_utf8_lossy().into_owned()))
        .collect();
    Sas::parse(decoded.iter().map(|(name, value)| (*name, value.as_str())))
}

fn sas(query: &str) -> Sas {
    parse(query).unwrap().unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> Code {
    result.unwrap_err().code()
}

fn request<'a>(verb: &'a str, content_type: &'a str, path: &'a str, comp: Option<&'a str>) -> SignedRequest<'a> {
    SignedRequest {
        verb,
        content_md5: "",
        content_type,
        date: DATE,
        path,
        comp,
    }
}

/// A table SAS with the given parameters, signed here.
fn signed(parameters: &str) -> Sas {
    let unsigned = sas(&format!("{parameters}&sig=x"));
    let text = match &unsigned {
        Sas::Table(sas) => sas.string_to_sign(NAME),
        Sas::Account(sas) => sas.string_to_sign(NAME),
    };
    let signature = account().sign(&text).replace('+', "%2B");
    let sas = sas(&format!("{parameters}&sig={signature}"));
    sas.check_signature(&account()).unwrap();
    sas
}

// --- Shared key ---------------------------------------------------------------------------------------------------

#[test]
fn signatures_of_the_python_sdk_verify() {
    for (request, signature) in [
        (
            request("GET", "", "/devstoreaccount1/Tables", Some("x")),
            "sw8stYfa84cPwvjk+VNGA89DbDJJN6VjO734fkHfLkY=",
        ),
        (
            request("POST", "multipart/mixed; boundary=b", "/devstoreaccount1/$batch", None),
            "rPF8cQTR2GLow5+AyBeuDwwqi1/GyvZ7tQIfXtpzWcg=",
        ),
        (
            request("GET", "", "/t(PartitionKey='a%20b',RowKey='O%27%27B')", None),
            "d8TdK9JZktlKmgct5Ehyz5kxa6GmAMOku6osLxm5X3w=",
        ),
        (
            request("PUT", "application/xml", "/t", Some("acl")),
            "qQa9eTdPSNbZsYU5xVa25sCCsUYdXv6kc6DeZT6Y/ic=",
        ),
    ] {
        let header = format!("SharedKey {NAME}:{signature}");
        assert_eq!(request.authorization(&account(), false), header);
        let Authorization::SharedKey(credentials) = Authorization::parse(&header).unwrap() else {
            panic!("{header}")
        };
        assert_eq!(
            credentials.verify(&account(), &request, at("2026-10-11T21:49:13Z")),
            Ok(Grant::Owner)
        );
    }
}

#[test]
fn the_lite_form_signs_date_and_resource() {
    let request = request("GET", "ignored", "/devstoreaccount1/Tables", None);
    assert_eq!(
        request.string_to_sign_lite(NAME),
        format!("{DATE}\n/devstoreaccount1/devstoreaccount1/Tables")
    );
    assert_eq!(
        request.string_to_sign(NAME),
        format!("GET\n\nignored\n{DATE}\n/devstoreaccount1/devstoreaccount1/Tables")
    );
    let header = request.authorization(&account(), true);
    let Authorization::SharedKey(credentials) = Authorization::parse(&header).unwrap() else {
        panic!("{header}")
    };
    assert!(credentials.lite);
    let now = at("2026-10-11T21:49:13Z");
    assert_eq!(credentials.verify(&account(), &request, now), Ok(Grant::Owner));
    let full = SharedKey {
        lite: false,
        ..credentials
    };
    assert_eq!(code(full.verify(&account(), &request, now)), Code::AuthenticationFailed);
}

#[test]
fn both_keys_are_valid_and_a_third_is_not() {
    let second = AccountKey::parse(OTHER_KEY).unwrap();
    let both = Account::new(NAME, vec![second.clone(), AccountKey::parse(KEY).unwrap()]).unwrap();
    let request = request("GET", "", "/devstoreaccount1/Tables", None);
    let now = at("2026-10-11T21:49:13Z");
    let verify = |signer: &Account, verifier: &Account| {
        let header = request.authorization(signer, false);
        match Authorization::parse(&header).unwrap() {
            Authorization::SharedKey(credentials) => credentials.verify(verifier, &request, now),
            Authorization::Bearer(_) => panic!(),
        }
    };
    assert_eq!(verify(&both, &both), Ok(Grant::Owner));
    assert_eq!(verify(&account(), &both), Ok(Grant::Owner));
    assert_eq!(code(verify(&both, &account())), Code::AuthenticationFailed);
}

#[test]
fn the_clock_may_be_off_by_a_quarter_of_an_hour() {
    let request = request("GET", "", "/t", None);
    let header = request.authorization(&account(), false);
    let Authorization::SharedKey(credentials) = Authorization::parse(&header).unwrap() else {
        panic!()
    };
    for (now, valid) in [
        ("2026-10-11T21:34:13Z", true),
        ("2026-10-11T21:34:12Z", false),
        ("2026-10-11T22:04:13Z", true),
        ("2026-10-11T22:04:14Z", false),
    ] {
        assert_eq!(
            credentials.verify(&account(), &request, at(now)).is_ok(),
            valid,
            "{now}"
        );
    }
    for date in ["", "yesterday", "2026-10-11T21:49:13Z"] {
        let undated = SignedRequest { date, ..request };
        let result = credentials.verify(&account(), &undated, at("2026-10-11T21:49:13Z"));
        assert_eq!(code(result), Code::AuthenticationFailed, "{date}");
    }
}

#[test]
fn what_is_signed_cannot_be_changed() {
    let original = request("GET", "", "/devstoreaccount1/t", Some("acl"));
    let header = original.authorization(&account(), false);
    let now = at("2026-10-11T21:49:13Z");
    let Authorization::SharedKey(credentials) = Authorization::parse(&header).unwrap() else {
        panic!()
    };
    for changed in [
        SignedRequest {
            verb: "PUT",
            ..original
        },
        SignedRequest {
            content_md5: "x",
            ..original
        },
        SignedRequest {
            content_type: "x",
            ..original
        },
        SignedRequest {
            date: "Sun, 11 Oct 2026 21:49:14 GMT",
            ..original
        },
        SignedRequest {
            path: "/devstoreaccount1/u",
            ..original
        },
        SignedRequest { comp: None, ..original },
    ] {
        let result = credentials.verify(&account(), &changed, now);
        assert_eq!(code(result), Code::AuthenticationFailed, "{changed:?}");
    }
    let another = SharedKey {
        account: "another",
        ..credentials
    };
    assert_eq!(
        code(another.verify(&account(), &original, now)),
        Code::AuthenticationFailed
    );
}

#[test]
fn authorization_headers_are_read_or_refused() {
    assert_eq!(Authorization::parse("Bearer a.b.c"), Ok(Authorization::Bearer("a.b.c")));
    assert_eq!(
        Authorization::parse("sharedkeylite a:b=="),
        Ok(Authorization::SharedKey(SharedKey {
            lite: true,
            account: "a",
            signature: "b=="
        }))
    );
    for garbled in [
        "",
        "SharedKey",
        "SharedKey x",
        "SharedKey :x",
        "SharedKey x:",
        "Basic eDp5",
        "Bearer ",
    ] {
        assert_eq!(
            code(Authorization::parse(garbled)),
            Code::InvalidAuthenticationInfo,
            "{garbled}"
        );
    }
}

#[test]
fn accounts_have_a_name_and_one_or_two_keys() {
    let key = || AccountKey::parse(KEY).unwrap();
    assert_eq!(format!("{:?}", key()), "AccountKey");
    for text in ["", "no base64", "===="] {
        let error = AccountKey::parse(text).unwrap_err();
        assert_eq!(error.code(), Code::InvalidInput);
    }
    assert!(Account::new("abc", vec![key(), key()]).is_ok());
    for (name, keys) in [("ab", 1), ("Abc", 1), ("a-b", 1), ("abc", 0), ("abc", 3)] {
        assert_eq!(
            code(Account::new(name, vec![key(); keys])),
            Code::InvalidInput,
            "{name} {keys}"
        );
    }
}

// --- Shared access signatures ---------------------------------------------------------------------------------------

#[test]
fn signatures_of_the_sdks_verify() {
    for query in [
        // azure-data-tables 12.7.0
        "se=2030-01-02T03%3A04%3A05Z&sp=raud&sv=2019-02-02&tn=MyTable&sig=SCleWGfvRJ9rYpm2vF9OqIglNILUR5nEJUPLBKT/fZk%3D",
        "st=2020-01-02T03%3A04%3A05Z&se=2030-01-02T03%3A04%3A05Z&sp=r&sip=168.1.5.60-168.1.5.70&spr=https&sv=2019-02-02&tn=MyTable&spk=a%20b&srk=O%27B&epk=%C3%A9&erk=%2B%25&sig=elwJBjpvFfOIFf3N0VKEKjleEaVzhPe%2BRQl5RH0FLOY%3D",
        "sv=2019-02-02&si=pol&tn=MyTable&sig=HM2p/Un5gpFx/YjUamyjI%2BLH0EjwwU4ahjf2SyUAF5o%3D",
        "se=2030-01-02T03%3A04%3A05Z&sp=rla&sv=2019-02-02&ss=t&srt=so&sig=w3yF%2BvX/T%2BxQP/siLcNd9OgjPhUzQFKp3VeTJTnXWR4%3D",
        // @azure/data-tables 13.3.2
        "sv=2019-02-02&spr=https%2Chttp&se=2030-01-02T03%3A04%3A05Z&sip=1.2.3.4-1.2.3.9&sp=ra&sig=3O6YOd9ViI1a8yfbTMo5S0Sv31o5EWZFBve5CNKfHAg%3D&tn=MyTable&spk=a&epk=b&erk=c",
        "sv=2019-02-02&ss=t&srt=sco&se=2030-01-02T03%3A04%3A05Z&sp=rl&sig=qjhFXTks36lg%2BA2E44y1kbVWNOYOGd0eqw%2BHlon3jVM%3D",
    ] {
        let parsed = sas(query);
        assert_eq!(parsed.check_signature(&account()), Ok(()), "{query}");
        let other = Account::new(NAME, vec![AccountKey::parse(OTHER_KEY).unwrap()]).unwrap();
        assert_eq!(code(parsed.check_signature(&other)), Code::AuthenticationFailed);
        let other = Account::new("devstoreaccount2", vec![AccountKey::parse(KEY).unwrap()]).unwrap();
        assert_eq!(code(parsed.check_signature(&other)), Code::AuthenticationFailed);
        assert_eq!(sas(&parsed.to_query()), parsed, "{query}");
    }
}

#[test]
fn every_parameter_is_signed() {
    let query =
        "sv=2019-02-02&tn=t&sp=r&st=2020-01-01&se=2030-01-01&si=p&sip=1.1.1.1&spr=https&spk=a&srk=b&epk=c&erk=d";
    let original = signed(query).to_query();
    let names = [
        "sv", "tn", "sp", "st", "se", "si", "sip", "spr", "spk", "srk", "epk", "erk",
    ];
    for name in names {
        let changed: Vec<String> = original
            .split('&')
            .map(|pair| match (pair.split_once('='), name) {
                (Some(("sv", _)), "sv") => "sv=2019-02-03".to_owned(),
                (Some((n, value)), _) if n == name => format!("{n}={value}1"),
                _ => pair.to_owned(),
            })
            .collect();
        assert_eq!(
            code(sas(&changed.join("&")).check_signature(&account())),
            Code::AuthenticationFailed,
            "{name}"
        );
    }
}

#[test]
fn old_versions_sign_less() {
    let Sas::Table(sas_2015) = sas("sv=2015-02-21&tn=T&sp=r&se=2030-01-01&sip=1.1.1.1&sig=x") else {
        panic!()
    };
    assert_eq!(
        sas_2015.string_to_sign("acct"),
        "r\n\n2030-01-01\n/table/acct/t\n\n2015-02-21\n\n\n\n"
    );
    let Sas::Table(sas_2014) = sas("sv=2014-02-14&tn=T&sp=r&se=2030-01-01&spk=a&sig=x") else {
        panic!()
    };
    assert_eq!(
        sas_2014.string_to_sign("acct"),
        "r\n\n2030-01-01\n/acct/t\n\n2014-02-14\na\n\n\n"
    );
    let Sas::Table(sas_new) = sas("sv=2015-04-05&tn=T&sp=r&se=2030-01-01&spr=https&sig=x") else {
        panic!()
    };
    assert_eq!(
        sas_new.string_to_sign("acct"),
        "r\n\n2030-01-01\n/table/acct/t\n\n\nhttps\n2015-04-05\n\n\n\n"
    );
    let Sas::Account(account_old) = sas("sv=2019-02-02&ss=t&srt=o&sp=r&se=2030-01-01&sig=x") else {
        panic!()
    };
    assert_eq!(
        account_old.string_to_sign("acct"),
        "acct\nr\nt\no\n\n2030-01-01\n\n\n2019-02-02\n"
    );
    let Sas::Account(account_new) = sas("sv=2020-12-06&ss=t&srt=o&sp=r&se=2030-01-01&ses=e&sig=x") else {
        panic!()
    };
    assert_eq!(
        account_new.string_to_sign("acct"),
        "acct\nr\nt\no\n\n2030-01-01\n\n\n2020-12-06\ne\n"
    );
}

#[test]
fn incomplete_and_contradictory_signatures_are_refused() {
    assert_eq!(parse("sv=2019-02-02&tn=t&sp=r"), Ok(None), "no signature at all");
    assert_eq!(parse("$filter=a&timeout=3"), Ok(None));
    for query in [
        "sig=x",
        "sv=2019-02-02&sig=x",
        "sv=2019-02-02&sig=&tn=t",
        "sv=&tn=t&sig=x",
        "sv=latest&tn=t&sig=x",
        "sv=2019-02-02&tn=t&tn=u&sig=x",
        "sv=2019-02-02&tn=t&sig=x&sig=y",
        "sv=2019-02-02&tn=t&srk=a&sig=x",
        "sv=2019-02-02&tn=t&erk=a&sig=x",
        "sv=2019-02-02&ss=t&sig=x",
        "sv=2019-02-02&srt=o&sig=x",
    ] {
        assert_eq!(code(parse(query)), Code::AuthenticationFailed, "{query}");
    }
    let now = client("2026-01-01T00:00:00Z");
    for query in [
        "sv=2019-02-02&tn=t&se=2030-01-01",
        "sv=2019-02-02&tn=t&sp=r",
        "sv=2019-02-02&tn=t&sp=&se=2030-01-01",
        "sv=2019-02-02&tn=t&sp=x&se=2030-01-01",
        "sv=2019-02-02&tn=t&sp=r&se=tomorrow",
        "sv=2019-02-02&tn=t&sp=r&se=2030-01-01&st=x",
        "sv=2019-02-02&tn=t&sp=r&se=2030-01-01&sip=localhost",
        "sv=2019-02-02&tn=t&sp=r&se=2030-01-01&spr=http",
        "sv=2019-02-02&ss=t&srt=o&sp=r",
        "sv=2019-02-02&ss=t&srt=x&sp=r&se=2030-01-01",
        "sv=2019-02-02&ss=t&srt=o&se=2030-01-01",
    ] {
        assert_eq!(
            code(signed(query).grant(None, &now)),
            Code::AuthenticationFailed,
            "{query}"
        );
    }
}

#[test]
fn a_signature_is_valid_from_start_until_expiry() {
    let sas = signed("sv=2019-02-02&tn=t&sp=r&st=2026-01-01T10:00Z&se=2026-01-01T11:00:00Z");
    for (now, valid) in [
        ("2026-01-01T09:59:59.9999999Z", false),
        ("2026-01-01T10:00:00Z", true),
        ("2026-01-01T10:59:59.9999999Z", true),
        ("2026-01-01T11:00:00Z", false),
    ] {
        assert_eq!(sas.grant(None, &client(now)).is_ok(), valid, "{now}");
    }
}

#[test]
fn addresses_and_protocols_are_enforced() {
    let now = client("2026-01-01T00:00:00Z");
    let query = "sv=2019-02-02&tn=t&sp=r&se=2030-01-01";
    let range = signed(&format!("{query}&sip=10.0.0.5-10.0.0.7"));
    for (address, valid) in [
        ("10.0.0.4", false),
        ("10.0.0.5", true),
        ("::ffff:10.0.0.6", true),
        ("10.0.0.7", true),
        ("10.0.0.8", false),
        ("::1", false),
    ] {
        let client = Client {
            address: address.parse().unwrap(),
            ..now
        };
        match range.grant(None, &client) {
            Ok(_) => assert!(valid, "{address}"),
            Err(error) => {
                assert!(!valid, "{address}");
                assert_eq!(error.code(), Code::AuthorizationSourceIPMismatch);
                assert_eq!(
                    error.to_string(),
                    format!("This request is not authorized to perform this operation using this source IP {address}.")
                );
            }
        }
    }
    let https = signed(&format!("{query}&spr=https"));
    assert_eq!(code(https.grant(None, &now)), Code::AuthorizationProtocolMismatch);
    assert!(https.grant(None, &Client { https: true, ..now }).is_ok());
    assert!(signed(&format!("{query}&spr=https,http")).grant(None, &now).is_ok());
}

#[test]
fn a_stored_policy_completes_the_signature_and_never_repeats_it() {
    let policies = AccessPolicies::from_json(
        r#"[{"Id": "full", "Start": "2020-01-01", "Expiry": "2030-01-01", "Permission": "ra"},
            {"Id": "expiry", "Expiry": "2030-01-01T00:00Z"}, {"Id": "empty"}]"#,
    )
    .unwrap();
    let now = client("2026-01-01T00:00:00Z");
    let grant = |query: &str| signed(&format!("sv=2019-02-02&tn=T{query}")).grant(Some(&policies), &now);
    assert_eq!(
        grant("&si=full"),
        Ok(Grant::Table {
            table: "t".to_owned(),
            permissions: Permissions::parse("ra").unwrap(),
            range: KeyRange::default(),
        })
    );
    assert!(grant("&si=expiry&sp=r").is_ok());
    assert!(grant("&si=empty&sp=r&se=2030-01-01").is_ok());
    for query in [
        "&si=FULL",
        "&si=other",
        "&si=full&sp=r",
        "&si=full&se=2029-01-01",
        "&si=full&st=2020-01-01",
        "&si=expiry",
        "&si=empty&sp=r",
    ] {
        assert_eq!(code(grant(query)), Code::AuthenticationFailed, "{query}");
    }
    let full = signed("sv=2019-02-02&tn=T&si=full");
    assert_eq!(full.policy(), Some(("T", "full")));
    assert_eq!(code(full.grant(None, &now)), Code::AuthenticationFailed);
    for outside in ["2019-12-31T00:00:00Z", "2030-01-01T00:00:00Z"] {
        assert_eq!(
            code(full.grant(Some(&policies), &client(outside))),
            Code::AuthenticationFailed
        );
    }
}

#[test]
fn signatures_are_made_as_the_sdks_make_them() {
    let made = TableSas::new("2019-02-02", "MyTable")
        .permissions(Permissions::parse("duar").unwrap())
        .expiry(at("2030-01-02T03:04:05Z"))
        .sign(&account())
        .unwrap();
    assert_eq!(
        made.to_query(),
        "sv=2019-02-02&tn=MyTable&sp=raud&se=2030-01-02T03%3A04%3A05Z&sig=SCleWGfvRJ9rYpm2vF9OqIglNILUR5nEJUPLBKT%2FfZk%3D"
    );
    let made = TableSas::new("2019-02-02", "MyTable")
        .permissions(Permissions::parse("r").unwrap())
        .start(at("2020-01-02T03:04:05Z"))
        .expiry(at("2030-01-02T03:04:05Z"))
        .addresses(AddressRange::parse("168.1.5.60-168.1.5.70").unwrap())
        .https_only()
        .range(KeyRange {
            start_partition: Some("a b".to_owned()),
            start_row: Some("O'B".to_owned()),
            end_partition: Some("é".to_owned()),
            end_row: Some("+%".to_owned()),
        })
        .unwrap()
        .sign(&account())
        .unwrap();
    assert!(
        made.to_query()
            .ends_with("&sig=elwJBjpvFfOIFf3N0VKEKjleEaVzhPe%2BRQl5RH0FLOY%3D")
    );
    let with_policy = TableSas::new("2019-02-02", "MyTable")
        .policy("pol")
        .sign(&account())
        .unwrap();
    assert!(
        with_policy
            .to_query()
            .ends_with("&sig=HM2p%2FUn5gpFx%2FYjUamyjI%2BLH0EjwwU4ahjf2SyUAF5o%3D")
    );

    let useless = TableSas::new("2019-02-02", "t")
        .expiry(at("2030-01-01"))
        .sign(&account());
    assert_eq!(code(useless), Code::InvalidInput);
    let half = KeyRange {
        end_row: Some(String::new()),
        ..KeyRange::default()
    };
    assert_eq!(code(TableSas::new("2019-02-02", "t").range(half)), Code::InvalidInput);
}

// --- Grants ---------------------------------------------------------------------------------------------------------

/// The operations that a grant permits on the table `t`, and the codes with which it refuses the others.
fn permitted(grant: &Grant) -> Vec<Operation> {
    Operation::ALL
        .into_iter()
        .filter(|operation| grant.permits(*operation, Some("T")).is_ok())
        .collect()
}

fn table_grant(letters: &str) -> Grant {
    Grant::Table {
        table: "t".to_owned(),
        permissions: Permissions::parse(letters).unwrap(),
        range: KeyRange::default(),
    }
}

#[test]
fn a_table_sas_permits_its_letters_on_its_table_only() {
    use Operation::*;
    for (letters, operations) in [
        ("r", vec![QueryEntities]),
        ("a", vec![InsertEntity]),
        ("u", vec![UpdateEntity]),
        ("au", vec![InsertEntity, UpdateEntity, UpsertEntity]),
        ("d", vec![DeleteEntity]),
        (
            "raud",
            vec![QueryEntities, InsertEntity, UpdateEntity, UpsertEntity, DeleteEntity],
        ),
    ] {
        let grant = table_grant(letters);
        assert_eq!(permitted(&grant), operations, "{letters}");
        for operation in Operation::ALL {
            for table in [Some("other"), None] {
                assert_eq!(code(grant.permits(operation, table)), Code::AuthorizationFailure);
            }
        }
    }
}

#[test]
fn an_account_sas_permits_by_resource_type_and_letter() {
    use Operation::*;
    let grant = |resource_types: &str, letters: &str| Grant::Account {
        permissions: AccountPermissions::parse(letters).unwrap(),
        resource_types: ResourceTypes::parse(resource_types).unwrap(),
    };
    for (types, letters, operations) in [
        ("s", "r", vec![GetServiceProperties, GetServiceStats]),
        ("s", "w", vec![SetServiceProperties]),
        ("c", "l", vec![QueryTables]),
        ("c", "c", vec![CreateTable]),
        ("c", "w", vec![CreateTable]),
        ("c", "d", vec![DeleteTable]),
        ("c", "r", vec![]),
        ("o", "r", vec![QueryEntities]),
        ("o", "a", vec![InsertEntity]),
        ("o", "u", vec![UpdateEntity]),
        ("o", "ua", vec![InsertEntity, UpdateEntity, UpsertEntity]),
        ("o", "d", vec![DeleteEntity]),
        ("o", "wlc", vec![]),
        (
            "sco",
            "rwdlacup",
            Operation::ALL
                .into_iter()
                .filter(|operation| !matches!(operation, GetTableAcl | SetTableAcl))
                .collect(),
        ),
    ] {
        assert_eq!(permitted(&grant(types, letters)), operations, "{types} {letters}");
    }
    let refused = |types, letters, operation| code(grant(types, letters).permits(operation, Some("t")));
    assert_eq!(
        refused("s", "r", QueryEntities),
        Code::AuthorizationResourceTypeMismatch
    );
    assert_eq!(refused("o", "r", InsertEntity), Code::AuthorizationPermissionMismatch);
    assert_eq!(refused("sco", "rwdlacup", SetTableAcl), Code::AuthorizationFailure);

    let now = client("2026-01-01T00:00:00Z");
    let blobs = signed("sv=2019-02-02&ss=bqf&srt=sco&sp=rw&se=2030-01-01");
    assert_eq!(code(blobs.grant(None, &now)), Code::AuthorizationServiceMismatch);
    let all = signed("sv=2019-02-02&ss=bqtf&srt=sco&sp=rw&se=2030-01-01");
    assert_eq!(all.grant(None, &now), Ok(grant("sco", "rw")));
    assert_eq!(all.policy(), None);
}

#[test]
fn the_key_permits_everything_and_roles_permit_data() {
    use Operation::*;
    assert_eq!(permitted(&Grant::Owner), Operation::ALL);
    assert_eq!(permitted(&Grant::Role(Role::Reader)), [QueryTables, QueryEntities]);
    assert_eq!(
        permitted(&Grant::Role(Role::Contributor)),
        [
            QueryTables,
            CreateTable,
            DeleteTable,
            QueryEntities,
            InsertEntity,
            UpdateEntity,
            UpsertEntity,
            DeleteEntity
        ]
    );
    for role in [Role::Reader, Role::Contributor] {
        assert_eq!(
            code(Grant::Role(role).permits(SetTableAcl, Some("t"))),
            Code::AuthorizationPermissionMismatch
        );
    }
}

// --- Key ranges -------------------------------------------------------------------------------------------------------

fn range(spk: Option<&str>, srk: Option<&str>, epk: Option<&str>, erk: Option<&str>) -> KeyRange {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    KeyRange {
        start_partition: owned(spk),
        start_row: owned(srk),
        end_partition: owned(epk),
        end_row: owned(erk),
    }
}

/// Every range over a few keys, against every key: the pair comparison, and the filter that a query is cut down to.
#[test]
fn ranges_and_their_filters_agree_on_every_key() {
    let keys = ["", "a", "b'", "é😀"];
    let bounds: Vec<Option<&str>> = std::iter::once(None).chain(keys.map(Some)).collect();
    for &spk in &bounds {
        for &srk in &bounds {
            for &epk in &bounds {
                for &erk in &bounds {
                    let range = range(spk, srk, epk, erk);
                    if !range.is_complete() {
                        continue;
                    }
                    let filter = range.clip(None).unwrap();
                    assert_eq!(filter.is_none(), range.is_everything());
                    let filter = crate::filter::Filter::parse(&filter.unwrap_or_default(), None).unwrap();
                    for pk in keys {
                        for rk in keys {
                            let bag = crate::PropertiesBuf::empty();
                            let entity = crate::entity::Entity {
                                partition_key: Some(pk),
                                row_key: Some(rk),
                                timestamp: None,
                                properties: bag.as_properties(),
                            };
                            assert_eq!(filter.matches(&entity), range.contains(pk, rk), "{range:?} {pk} {rk}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn bounds_are_pairs_and_inclusive() {
    let both = range(Some("b"), Some("2"), Some("d"), Some("5"));
    for (pk, rk, inside) in [
        ("a", "9", false),
        ("b", "1", false),
        ("b", "2", true),
        ("c", "0", true),
        ("c", "9", true),
        ("d", "5", true),
        ("d", "50", false),
        ("d", "6", false),
        ("e", "", false),
    ] {
        assert_eq!(both.contains(pk, rk), inside, "{pk} {rk}");
    }
    let grant = Grant::Table {
        table: "t".to_owned(),
        permissions: Permissions::parse("r").unwrap(),
        range: both,
    };
    assert!(grant.permits_key("c", "").is_ok());
    assert_eq!(code(grant.permits_key("a", "")), Code::AuthorizationFailure);
}

#[test]
fn a_query_is_cut_down_to_the_range() {
    let range = range(Some("O'B"), None, Some("x"), Some("1"));
    assert_eq!(
        range.clip(Some("A eq 1 or B eq 2")).unwrap().unwrap(),
        "(A eq 1 or B eq 2) and PartitionKey ge 'O''B' and \
         (PartitionKey lt 'x' or (PartitionKey eq 'x' and RowKey le '1'))"
    );
    assert_eq!(range.clip(Some(" ")).unwrap(), range.clip(None).unwrap());
    // Text that would get out of its parentheses is no filter.
    let error = range.clip(Some("A eq 1) or (B eq 2")).unwrap_err();
    assert!(error.to_string().ends_with("in 'A eq 1) or (B eq 2'."), "{error}");
    let all = table_grant("r");
    assert_eq!(all.clip(Some("not parsed")).unwrap().as_deref(), Some("not parsed"));
    assert_eq!(Grant::Owner.clip(None), Ok(None));
}

// --- Documents --------------------------------------------------------------------------------------------------------

#[test]
fn policies_read_and_write_json() {
    let text = r#"[{"Id":"é","Start":"2026-01-02T03:04:05.1234567Z","Expiry":"2027-01-01T00:00:00.0000000Z","Permission":"raud"},{"Id":"b"}]"#;
    let policies = AccessPolicies::from_json(text).unwrap();
    assert_eq!(policies.to_json(), text);
    assert_eq!(policies.iter().len(), 2);
    assert_eq!(policies.find("b"), Some(&AccessPolicy::default()));
    let lenient =
        AccessPolicies::from_json(r#"[{"Id": "a", "Start": "2026-01-02", "Expiry": "", "Permission": "dar"}]"#);
    assert_eq!(
        lenient.unwrap().to_json(),
        r#"[{"Id":"a","Start":"2026-01-02T00:00:00.0000000Z","Permission":"rad"}]"#
    );
    assert_eq!(AccessPolicies::from_json("[]").unwrap(), AccessPolicies::default());
}

#[test]
fn bad_policies_are_refused() {
    let id = |length: usize| format!(r#"[{{"Id":"{}"}}]"#, "é".repeat(length));
    assert!(AccessPolicies::from_json(&id(64)).is_ok());
    for text in [
        id(65),
        id(0),
        r#"[{"Id":"a\u0000"}]"#.to_owned(),
        r#"[{"Id":"a"},{"Id":"a"}]"#.to_owned(),
        format!(
            "[{}]",
            (0..6)
                .map(|i| format!(r#"{{"Id":"{i}"}}"#))
                .collect::<Vec<_>>()
                .join(",")
        ),
    ] {
        assert_eq!(
            code(AccessPolicies::from_json(&text)),
            Code::InvalidXmlDocument,
            "{text}"
        );
    }
    for text in [
        "{}",
        "[{}]",
        "[1]",
        r#"[{"Id":"a","Permission":"x"}]"#,
        r#"[{"Id":"a","Start":"soon"}]"#,
        r#"[{"Id":"a","Expires":"2026-01-01"}]"#,
        "[",
        "",
    ] {
        assert_eq!(code(AccessPolicies::from_json(text)), Code::InvalidInput, "{text}");
    }
}

#[test]
fn service_properties_start_switched_off_and_change_by_element() {
    let properties = ServiceProperties::default();
    assert_eq!(
        properties.to_json(),
        r#"{"Logging":{"Version":"1.0","Read":false,"Write":false,"Delete":false,"RetentionPolicy":{"Enabled":false}},"HourMetrics":{"Version":"1.0","Enabled":false,"RetentionPolicy":{"Enabled":false}},"MinuteMetrics":{"Version":"1.0","Enabled":false,"RetentionPolicy":{"Enabled":false}},"Cors":[]}"#
    );
    assert_eq!(
        ServiceProperties::from_json(&properties.to_json()),
        Ok(properties.clone())
    );
    let change = ServicePropertiesChange::from_json(
        r#"{"HourMetrics": {"Version": "1.0", "Enabled": true, "IncludeAPIs": true, "RetentionPolicy": {"Enabled": true, "Days": 7}},
            "Cors": [{"AllowedOrigins": ["*"], "AllowedMethods": ["GET"], "MaxAgeInSeconds": 5}]}"#,
    )
    .unwrap();
    assert_eq!(change.logging, None);
    assert_eq!(
        change.hour_metrics.and_then(|metrics| metrics.retention_policy.days),
        Some(7)
    );
    let cleared = ServicePropertiesChange::from_json(r#"{"Cors": []}"#).unwrap();
    assert_eq!(cleared.to_json(), r#"{"Cors":[]}"#);
}

#[test]
fn the_first_cors_rule_that_fits_counts() {
    let properties = ServiceProperties::from_json(
        r#"{"Cors": [
            {"AllowedOrigins": ["http://a"], "AllowedMethods": ["GET", "PUT"], "MaxAgeInSeconds": 1, "AllowedHeaders": ["x-ms-meta-*", "Accept"]},
            {"AllowedOrigins": ["*"], "AllowedMethods": ["GET"], "MaxAgeInSeconds": 2, "AllowedHeaders": ["*"]}]}"#,
    )
    .unwrap();
    for (origin, method, headers, expected) in [
        ("http://a", "GET", &[][..], Some(1)),
        ("http://a", "PUT", &["ACCEPT", "X-MS-Meta-a"], Some(1)),
        ("http://a", "GET", &["other"], Some(2)),
        ("http://a", "PUT", &["other"], None),
        ("http://A", "GET", &[], Some(2)),
        ("http://b", "PUT", &[], None),
        ("http://b", "get", &[], None),
    ] {
        let rule = properties.cors_rule(origin, method, headers);
        assert_eq!(
            rule.map(|rule| rule.max_age_in_seconds),
            expected,
            "{origin} {method} {headers:?}"
        );
    }
}

#[test]
fn bad_service_properties_are_refused() {
    let rule = r#"{"AllowedOrigins":["a"],"AllowedMethods":["GET"],"MaxAgeInSeconds":1}"#;
    let rules = |n: usize| format!(r#"{{"Cors":[{}]}}"#, vec![rule; n].join(","));
    assert!(ServicePropertiesChange::from_json(&rules(5)).is_ok());
    let logging = |retention: &str| {
        format!(
            r#"{{"Logging":{{"Version":"1.0","Read":true,"Write":true,"Delete":true,"RetentionPolicy":{retention}}}}}"#
        )
    };
    assert!(ServicePropertiesChange::from_json(&logging(r#"{"Enabled":true,"Days":365}"#)).is_ok());
    let headers = |list: &str| rules(1).replace("}]", &format!(r#","AllowedHeaders":[{list}]}}]"#));
    assert!(ServicePropertiesChange::from_json(&headers(r#""*","x-*","y-*""#)).is_ok());
    for text in [
        "{}".to_owned(),
        rules(6),
        logging(r#"{"Enabled":true,"Days":366}"#),
        logging(r#"{"Enabled":true,"Days":0}"#),
        logging(r#"{"Enabled":true}"#),
        logging(r#"{"Enabled":false,"Days":1}"#),
        r#"{"HourMetrics":{"Version":"1.0","Enabled":true}}"#.to_owned(),
        rules(1).replace("GET", "FETCH"),
        rules(1).replace(r#""a""#, r#""a\u0000""#),
        logging(r#"{"Enabled":false}"#).replace("1.0", "one"),
        logging(r#"{"Enabled":false}"#).replace("1.0", ""),
        rules(1).replace(r#"["a"]"#, "[]"),
        rules(1).replace(r#""a""#, &vec![r#""a""#; 65].join(",")),
        rules(1).replace("\"a\"", &format!("\"{}\"", "a".repeat(2048))),
        headers(r#""x-*","y-*","z-*""#),
    ] {
        assert_eq!(
            code(ServicePropertiesChange::from_json(&text)),
            Code::InvalidXmlDocument,
            "{text}"
        );
    }
    for text in [
        "",
        "[]",
        r#"{"Log":{}}"#,
        r#"{"Logging":{}}"#,
        r#"{"Cors":[{}]}"#,
        r#"{"Cors":{}}"#,
    ] {
        assert_eq!(
            code(ServicePropertiesChange::from_json(text)),
            Code::InvalidInput,
            "{text}"
        );
    }
}
