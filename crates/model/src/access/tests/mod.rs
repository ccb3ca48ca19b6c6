mod documents;
mod grants;
mod shared_key;
mod signatures;

use std::net::IpAddr;

use percent_encoding::percent_decode_str;

use super::*;
use crate::{Code, Error, Ticks};

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
