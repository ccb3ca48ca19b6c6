use super::*;

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
