//! The laws of any text as an Authorization header and as parts of a request that is signed. The fuzz target and the
//! replay of its corpus check this.

#![allow(clippy::unwrap_used, clippy::panic)]

use table_service_model::access::{Account, AccountKey, Authorization, Grant, SignedRequest};
use table_service_model::{Code, Ticks};

fn account(name: &str, key: &str) -> Account {
    Account::new(name, vec![AccountKey::parse(key).unwrap()]).unwrap()
}

/// Any header is read or refused. The signed text of a request can be taken apart again, so no two requests have one
/// signature; and a signature is good for its request and key alone.
pub fn shared_key(text: &str) {
    match Authorization::parse(text) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.code(), Code::InvalidAuthenticationInfo),
    }
    // Neither header nor request line has line breaks.
    let mut parts = text.split(['\n', '\r']);
    let mut part = || parts.next().unwrap_or_default();
    let request = SignedRequest {
        verb: part(),
        content_md5: part(),
        content_type: part(),
        date: "Sun, 11 Oct 2026 21:49:13 GMT",
        path: part(),
        comp: None,
    };
    let signed = request.string_to_sign("account1");
    let resource = format!("/account1{}", request.path);
    let expected = [
        request.verb,
        request.content_md5,
        request.content_type,
        request.date,
        &resource,
    ];
    assert!(signed.split('\n').eq(expected));
    let now = Ticks::parse("2026-10-11T21:49:13Z").unwrap();
    let (ours, other) = (account("account1", "a2V5"), account("account1", "b3RoZXI="));
    for lite in [false, true] {
        let header = request.authorization(&ours, lite);
        let Ok(Authorization::SharedKey(credentials)) = Authorization::parse(&header) else {
            panic!("{header}");
        };
        assert_eq!(credentials.verify(&ours, &request, now), Ok(Grant::Owner));
        let wrong_key = credentials.verify(&other, &request, now);
        assert_eq!(wrong_key.unwrap_err().code(), Code::AuthenticationFailed);
        let path = format!("{}x", request.path);
        let another = SignedRequest { path: &path, ..request };
        assert!(credentials.verify(&ours, &another, now).is_err());
    }
}
