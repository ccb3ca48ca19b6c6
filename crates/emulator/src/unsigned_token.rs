//! Bearer tokens as azurite takes them with `--oauth basic`: their claims are checked, and their signature is not.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use table_service_gateway::accounts::bearer::check_transport;
use table_service_model::Error;
use table_service_model::access::{Grant, Role};

/// The beginnings of the cloud's issuers.
const ISSUERS: [&str; 4] = [
    "https://sts.windows.net/",
    "https://sts.microsoftonline.de/",
    "https://sts.chinacloudapi.cn/",
    "https://sts.windows-ppe.net",
];
/// The Storage service as a whole.
const AUDIENCES: [&str; 2] = ["https://storage.azure.com", "e406a681-f3d4-42a8-90b6-c2b029497af1"];
/// The ends of the hosts of Table services.
const DOMAINS: [&str; 4] = [
    "table.core.windows.net",
    "table.core.chinacloudapi.cn",
    "table.core.usgovcloudapi.net",
    "table.core.cloudapi.de",
];

/// Returns the grant of a token: everything with tables and entities of the account.
///
/// # Errors
/// `AuthenticationFailed` if the request did not come over HTTPS, or for a token of another form, time, issuer or audience.
pub fn grant(token: &str, https: bool, account: &str) -> Result<Grant, Error> {
    check_transport(https)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    check(token, account, now.as_secs_f64()).map_err(|reason| {
        tracing::debug!(reason, "a bearer token is refused");
        Error::AuthenticationFailed {
            reason: reason.to_owned(),
        }
    })?;
    Ok(Grant::Role(Role::Contributor))
}

fn check(token: &str, account: &str, now: f64) -> Result<(), &'static str> {
    let claims = claims(token).ok_or("The token is no JSON Web Token")?;
    let time = |name: &str| claims.get(name).and_then(Value::as_f64);
    let (Some(not_before), Some(expires), Some(_)) = (time("nbf"), time("exp"), time("iat")) else {
        return Err("The token lacks nbf, exp or iat");
    };
    if now < not_before {
        return Err("The token is not valid yet");
    }
    if now > expires {
        return Err("The token has expired");
    }
    let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
    if !ISSUERS.iter().any(|issuer| text("iss").starts_with(issuer)) {
        return Err("The token's issuer is none of the cloud");
    }
    match is_for(text("aud"), account) {
        true => Ok(()),
        false => Err("The token is for another audience"),
    }
}

/// Returns the claims of a token, without a check of its signature.
fn claims(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (Some(header), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    let read = |part: &str| serde_json::from_slice::<Map<String, Value>>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
    read(header)?;
    read(payload)
}

fn is_for(audience: &str, account: &str) -> bool {
    let with_slash = audience.strip_suffix('/');
    let names = |wanted: &str| audience == wanted || with_slash == Some(wanted);
    let [service, id] = AUDIENCES;
    let is_of_account = |domain: &&str| names(&format!("https://{account}.{domain}"));
    names(service) || audience == id || DOMAINS.iter().any(is_of_account)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: f64 = 1_700_000_000.0;

    fn token(claims: &Value) -> String {
        let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
        format!("{}.{}.", part(&json!({"alg": "none", "typ": "JWT"})), part(claims))
    }

    fn good() -> Value {
        json!({"aud": "https://storage.azure.com", "iss": "https://sts.windows.net/ab1f708d/", "iat": NOW, "nbf": NOW, "exp": NOW})
    }

    #[test]
    fn tokens_need_the_right_times_and_names_and_no_signature() {
        assert_eq!(check(&token(&good()), "me", NOW), Ok(()));
        for (claim, value, problem) in [
            ("nbf", json!(NOW + 1.0), "The token is not valid yet"),
            ("exp", json!(NOW - 1.0), "The token has expired"),
            ("iat", Value::Null, "The token lacks nbf, exp or iat"),
            ("exp", json!("never"), "The token lacks nbf, exp or iat"),
            (
                "iss",
                json!("https://sts.example.com/"),
                "The token's issuer is none of the cloud",
            ),
            ("aud", json!("https://example.com"), "The token is for another audience"),
        ] {
            let mut claims = good();
            claims[claim] = value;
            assert_eq!(check(&token(&claims), "me", NOW), Err(problem), "{claims}");
        }
        let good = token(&good());
        let payload = good.split('.').nth(1).unwrap();
        for text in [
            "",
            "a.b",
            "a.b.c",
            payload,
            &format!("{good}.x"),
            &format!("a.{payload}."),
        ] {
            assert_eq!(check(text, "me", NOW), Err("The token is no JSON Web Token"), "{text}");
        }
    }

    #[test]
    fn audiences_are_the_service_and_the_account() {
        for audience in [
            "https://storage.azure.com",
            "https://storage.azure.com/",
            "e406a681-f3d4-42a8-90b6-c2b029497af1",
            "https://me.table.core.windows.net",
            "https://me.table.core.usgovcloudapi.net/",
        ] {
            assert!(is_for(audience, "me"), "{audience}");
        }
        for audience in [
            "",
            "/",
            "https://storage.azure.com//",
            "e406a681-f3d4-42a8-90b6-c2b029497af1/",
            "https://other.table.core.windows.net",
            "https://me.blob.core.windows.net",
        ] {
            assert!(!is_for(audience, "me"), "{audience}");
        }
    }
}
