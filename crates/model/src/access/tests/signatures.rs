use super::*;

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
        // There were none of accounts before 2015-04-05.
        "sv=2015-02-21&ss=t&srt=o&sig=x",
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
fn times_are_in_utc_and_say_so() {
    let noon = client("2026-01-01T12:00:00Z");
    for (time, is_time) in [
        ("2030-01-01", true),
        ("2030-01-01T10:00Z", true),
        ("2030-01-01T10:00:00Z", true),
        ("2030-01-01T10:00:00.0000000Z", true),
        ("2030-01-01T10:00:00-05:00", false),
        ("2030-01-01T10:00:00+00:00", false),
        ("2030-01-01T10:00-05:00", false),
        ("2030-01-01T10:00:00", false),
        ("2030-01-01T10:00", false),
        ("2030-01-01-05:00", false),
        ("2030-01-01Z", false),
    ] {
        let expiry = signed(&format!("sv=2019-02-02&tn=t&sp=r&se={time}"));
        let start = signed(&format!("sv=2019-02-02&tn=t&sp=r&st={time}&se=2031-01-01"));
        if is_time {
            assert!(expiry.grant(None, &noon).is_ok(), "{time}");
            assert!(start.grant(None, &client("2030-06-01T00:00:00Z")).is_ok(), "{time}");
        } else {
            for sas in [expiry, start] {
                let error = sas.grant(None, &noon).unwrap_err();
                assert_eq!(error.code(), Code::AuthenticationFailed);
                assert!(error.hint().unwrap().contains("with Z at its end"), "{error:?}");
            }
        }
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
            range: GrantedRange::default(),
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
        .range(GrantedRange {
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
    let half = GrantedRange {
        end_row: Some(String::new()),
        ..GrantedRange::default()
    };
    assert_eq!(code(TableSas::new("2019-02-02", "t").range(half)), Code::InvalidInput);
}

#[test]
fn a_line_end_in_a_field_does_not_make_it_several() {
    for field in [
        "spk", "srk", "epk", "erk", "si", "tn", "sp", "st", "se", "sip", "spr", "sv",
    ] {
        let others = [
            "sv=2019-02-02",
            "tn=t",
            "sp=r",
            "se=2030-01-01",
            "spk=a",
            "epk=b",
            "sig=x",
        ];
        let others: Vec<&str> = others
            .into_iter()
            .filter(|pair| !pair.starts_with(&format!("{field}=")))
            .collect();
        let query = format!("{}&{field}=a%0A%0Az", others.join("&"));
        assert_eq!(code(parse(&query)), Code::AuthenticationFailed, "{field}");
    }
    let range = GrantedRange {
        start_partition: Some("a\n\nz".to_owned()),
        end_partition: Some("a\n\nz".to_owned()),
        ..GrantedRange::default()
    };
    let sas = || TableSas::new("2019-02-02", "t").policy("p");
    let made = sas().range(range).and_then(|sas| sas.sign(&account()));
    assert_eq!(code(made), Code::InvalidInput);
    assert_eq!(
        code(TableSas::new("2019-02-02", "t").policy("p\n").sign(&account())),
        Code::InvalidInput
    );
}

#[test]
fn an_empty_last_key_is_refused_because_it_could_be_left_out() {
    let parse = |range: &str| parse(&format!("sv=2019-02-02&tn=t&sp=r&se=2030-01-01&sig=x{range}"));
    for range in ["&epk=", "&spk=a&epk=", "&epk=a&erk=", "&epk=&erk=a"] {
        assert_eq!(code(parse(range)), Code::AuthenticationFailed, "{range}");
    }
    for range in ["", "&epk=a", "&epk=a&erk=b", "&spk=&srk=&epk=a"] {
        assert!(parse(range).is_ok(), "{range}");
    }
}

#[test]
fn an_empty_bound_is_not_signed_because_it_could_be_left_out() {
    for (partition, row) in [("", None), ("a", Some(""))] {
        let range = GrantedRange {
            end_partition: Some(partition.to_owned()),
            end_row: row.map(str::to_owned),
            ..GrantedRange::default()
        };
        let error = TableSas::new("2019-02-02", "t").range(range).unwrap_err();
        assert_eq!(error.code(), Code::InvalidInput);
        assert!(error.hint().unwrap().contains("empty bound"), "{error:?}");
    }
}
