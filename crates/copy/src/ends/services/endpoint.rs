//! Table endpoints and credentials, from connection strings and URLs in the forms that the SDKs take.

use std::collections::HashMap;

use http::Uri;
use percent_encoding::percent_decode_str;
use table_service_connect::is_host;
use table_service_model::access::{Account, AccountKey, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use table_service_model::{Secret, table_name};

use crate::failure::Failure;

/// The credentials of requests.
#[derive(Debug, Clone)]
pub enum Credential {
    Key(Account),
    /// A shared access signature: the query without the question mark.
    Sas(Secret),
}

/// A table endpoint of the service.
#[derive(Clone)]
pub struct Endpoint {
    /// `https://account.table.core.windows.net` or `http://127.0.0.1:10002`
    pub origin: String,
    /// The part of a path before the resource: empty, or `/account`.
    pub prefix: String,
    pub credential: Credential,
    /// The table that a URL names.
    pub table: Option<String>,
}

impl Endpoint {
    /// Its name in reports and in the resume file.
    pub fn name(&self) -> String {
        format!("{}{}", self.origin, self.prefix)
    }

    /// Returns whether a text is a connection string and not a path.
    pub fn is_connection_string(text: &str) -> bool {
        settings(text).is_some_and(|settings| {
            [
                "usedevelopmentstorage",
                "accountname",
                "tableendpoint",
                "sharedaccesssignature",
            ]
            .iter()
            .any(|name| settings.contains_key(*name))
        })
    }

    /// Reads a connection string.
    ///
    /// # Errors
    /// The missing or wrong part; no value is quoted.
    pub fn from_connection_string(text: &str) -> Result<Endpoint, Failure> {
        let settings =
            settings(text).ok_or_else(|| Failure::usage("A connection string has the form Name=Value;Name=Value."))?;
        let get = |name: &str| settings.get(name).map(String::as_str).filter(|value| !value.is_empty());
        if get("usedevelopmentstorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            let origin = get("developmentstorageproxyuri").unwrap_or("http://127.0.0.1");
            let (origin, ..) = split_url(origin)?;
            // The proxy may have a port of its own.
            let after_scheme = origin.split_once("://").map_or(origin.as_str(), |(_, rest)| rest);
            let port = if after_scheme.contains(':') { "" } else { ":10002" };
            return Ok(Endpoint {
                origin: format!("{origin}{port}"),
                prefix: format!("/{DEVELOPMENT_ACCOUNT}"),
                credential: key(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY)?,
                table: None,
            });
        }
        let sas = get("sharedaccesssignature").map(|sas| sas.trim_start_matches('?'));
        let name = get("accountname");
        let url = match (get("tableendpoint"), name) {
            (Some(url), _) => url.to_owned(),
            (None, Some(name)) => format!(
                "{}://{name}.table.{}",
                get("defaultendpointsprotocol").unwrap_or("https"),
                get("endpointsuffix").unwrap_or("core.windows.net")
            ),
            (None, None) => {
                return Err(Failure::usage(
                    "The connection string has neither TableEndpoint nor AccountName.",
                ));
            }
        };
        let (origin, prefix, query) = split_url(&url)?;
        let credential = match (sas, name, get("accountkey")) {
            (Some(sas), ..) => Credential::Sas(sas.into()),
            (None, Some(name), Some(value)) => key(name, value)?,
            _ if !query.is_empty() => Credential::Sas(query.into()),
            _ => {
                return Err(Failure::usage(
                    "The connection string has neither AccountName with AccountKey nor SharedAccessSignature.",
                ));
            }
        };
        let table = table_of(&credential)?;
        Ok(Endpoint {
            origin,
            prefix,
            credential,
            table,
        })
    }

    /// Reads a table endpoint with a shared access signature, with or without a table in its path.
    ///
    /// # Errors
    /// The missing or wrong part; the signature is not quoted.
    pub fn from_url(url: &str) -> Result<Endpoint, Failure> {
        let (origin, path, query) = split_url(url)?;
        if !query.split('&').any(|pair| pair.starts_with("sig=")) {
            return Err(Failure::usage(
                "A table endpoint needs a shared access signature (?sv=…&sig=…). With an account's key, give a connection string.",
            ));
        }
        let host = origin.split_once("://").map_or("", |(_, rest)| rest);
        let is_account_host = host.to_ascii_lowercase().contains(".table.");
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let prefix = if is_account_host {
            String::new()
        } else {
            segments.next().map(|account| format!("/{account}")).unwrap_or_default()
        };
        let table = segments.next().map(|table| table.trim_end_matches("()").to_owned());
        if segments.next().is_some()
            || table
                .as_ref()
                .is_some_and(|table| table_name::check_form(table).is_err())
        {
            return Err(Failure::usage(
                "The path of a table endpoint names an account and a table at most, before the question mark.",
            ));
        }
        let credential = Credential::Sas(query.into());
        let table = match table {
            Some(table) => Some(table),
            None => table_of(&credential)?,
        };
        Ok(Endpoint {
            origin,
            prefix,
            credential,
            table,
        })
    }
}

/// The table that a signature is for.
fn table_of(credential: &Credential) -> Result<Option<String>, Failure> {
    let Credential::Sas(sas) = credential else {
        return Ok(None);
    };
    let name = sas.expose().split('&').find_map(|pair| pair.strip_prefix("tn="));
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let name = percent_decode_str(name).decode_utf8_lossy();
    table_name::check_form(&name).map_err(|_| Failure::usage("The signature's tn is no table's name."))?;
    Ok(Some(name.into_owned()))
}

fn key(name: &str, value: &str) -> Result<Credential, Failure> {
    let key = AccountKey::parse(value).map_err(|_| Failure::usage("AccountKey is not Base64."))?;
    Account::new(name, vec![key])
        .map(Credential::Key)
        .map_err(|_| Failure::usage("AccountName has 3 to 24 lower-case letters and digits."))
}

/// The settings of a connection string by their lower-case names. Values may contain `=`.
fn settings(text: &str) -> Option<HashMap<String, String>> {
    let mut settings = HashMap::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=')?;
        let name = name.trim();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        settings.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    Some(settings)
}

/// Origin, path without a slash at its end, and query.
fn split_url(url: &str) -> Result<(String, String, String), Failure> {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let wrong = || Failure::usage("A table endpoint is a URL such as https://account.table.core.windows.net.");
    let uri: Uri = address.parse().map_err(|_| wrong())?;
    let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or_else(wrong)?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    if !matches!(scheme, "http" | "https") || authority.as_str().contains('@') || !is_host(host) {
        return Err(wrong());
    }
    // It is shown. A query that has lost its question mark is not.
    let path = uri.path().trim_end_matches('/');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '(' | ')');
    if !path.chars().all(is_plain) {
        return Err(wrong());
    }
    Ok((format!("{scheme}://{authority}"), path.to_owned(), query.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> (String, bool) {
        let endpoint = Endpoint::from_connection_string(text).unwrap();
        (endpoint.name(), matches!(endpoint.credential, Credential::Key(_)))
    }

    #[test]
    fn connection_strings_of_all_forms() {
        for (text, name, key) in [
            (
                "UseDevelopmentStorage=true",
                "http://127.0.0.1:10002/devstoreaccount1",
                true,
            ),
            (
                "usedevelopmentstorage=True;DevelopmentStorageProxyUri=http://10.0.0.1;",
                "http://10.0.0.1:10002/devstoreaccount1",
                true,
            ),
            (
                "DefaultEndpointsProtocol=https;AccountName=mycompany;AccountKey=a2V5;EndpointSuffix=core.windows.net",
                "https://mycompany.table.core.windows.net",
                true,
            ),
            (
                "AccountName=mycompany;AccountKey=a2V5",
                "https://mycompany.table.core.windows.net",
                true,
            ),
            (
                "DefaultEndpointsProtocol=http;AccountName=mycompany;AccountKey=a2V5==;TableEndpoint=http://h:10002/mycompany/;",
                "http://h:10002/mycompany",
                true,
            ),
            (
                "BlobEndpoint=https://x;TableEndpoint=https://mycompany.table.core.windows.net/;SharedAccessSignature=?sv=1&sig=x%3D",
                "https://mycompany.table.core.windows.net",
                false,
            ),
            (
                "AccountName=mycompany;SharedAccessSignature=sv=1&sig=x",
                "https://mycompany.table.core.windows.net",
                false,
            ),
            ("TableEndpoint=https://h/a?sv=1&sig=x", "https://h/a", false),
        ] {
            let text = text.replace("a2V5==", "a2V5");
            assert!(Endpoint::is_connection_string(&text), "{text}");
            assert_eq!(named(&text), (name.to_owned(), key), "{text}");
        }
    }

    #[test]
    fn wrong_connection_strings_are_refused_without_quoting_them() {
        for text in [
            "AccountName=mycompany",
            "AccountKey=a2V5",
            "AccountName=mycompany;AccountKey=***secret***",
            "AccountName=My_Company;AccountKey=a2V5",
            "TableEndpoint=ftp://h/;SharedAccessSignature=sig=secret",
        ] {
            let Err(error) = Endpoint::from_connection_string(text) else {
                panic!("{text}");
            };
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        for path in ["backup", "dir/a=b", "C:\\a;b", "./x=1;y"] {
            assert!(!Endpoint::is_connection_string(path), "{path}");
        }
    }

    #[test]
    fn urls_with_signatures() {
        for (url, name, table) in [
            (
                "https://a.table.core.windows.net/?sv=1&sig=x",
                "https://a.table.core.windows.net",
                None,
            ),
            (
                "https://a.table.core.windows.net/Orders?sv=1&sig=x",
                "https://a.table.core.windows.net",
                Some("Orders"),
            ),
            (
                "http://127.0.0.1:10002/acc?sv=1&sig=x",
                "http://127.0.0.1:10002/acc",
                None,
            ),
            (
                "http://127.0.0.1:10002/acc/Orders()?sv=1&sig=x",
                "http://127.0.0.1:10002/acc",
                Some("Orders"),
            ),
            (
                "https://a.table.core.windows.net/?sv=1&tn=orders&sig=x",
                "https://a.table.core.windows.net",
                Some("orders"),
            ),
        ] {
            let endpoint = Endpoint::from_url(url).unwrap();
            assert_eq!(
                (endpoint.name().as_str(), endpoint.table.as_deref()),
                (name, table),
                "{url}"
            );
        }
        for wrong in [
            "https://a.table.core.windows.net/",
            "https://a.table.core.windows.net/Orders&sig=secret?sig=x",
            "http://h/acc&sig=secret/Orders?sig=x",
            "http://h/acc/sig=secret?sig=x",
            "http://sig=secret/acc?sig=x",
        ] {
            let Err(error) = Endpoint::from_url(wrong) else {
                panic!("{wrong}");
            };
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
