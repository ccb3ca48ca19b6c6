use super::*;

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
