//! The settings of faults, on the command line and in `POST /faults`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A limit of entities a second; a larger one would not fit into the arithmetic.
const MOST_ENTITIES: u32 = 1_000_000_000;
const LONGEST_LATENCY: Duration = Duration::from_secs(60);

/// The faults. Without a throttle and an injection there are none.
#[derive(Debug, Clone, Default, PartialEq, clap::Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultSettings {
    /// Answer 503 ServerBusy beyond so many entities a second, such as partition=2000,account=20000
    #[arg(long, env = "TABLE_SERVICE_EMULATOR_THROTTLE", value_name = "LIMITS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Throttle>,

    /// Let requests fail as in the cloud, such as 503=1%,timeout=0.1%,reset=0.1%,latency=20ms..200ms
    #[arg(long, env = "TABLE_SERVICE_EMULATOR_INJECT", value_name = "FAULTS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inject: Option<Inject>,

    /// Which requests fail: with the same number it is the same ones
    #[arg(
        long,
        env = "TABLE_SERVICE_EMULATOR_SEED",
        value_name = "NUMBER",
        default_value_t = 0
    )]
    pub seed: u64,
}

impl FaultSettings {
    /// Reads the body of `POST /faults`: a JSON object, or nothing for no faults.
    pub fn read(body: &[u8]) -> Result<FaultSettings, String> {
        match body.trim_ascii().first() {
            None => Ok(FaultSettings::default()),
            Some(b'{') => serde_json::from_slice(body).map_err(|error| error.to_string()),
            // Serde would take a list for an object, and an empty one for no faults.
            Some(_) => Err("a JSON object is expected".to_owned()),
        }
    }
}

/// The limits, in entities a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Throttle {
    pub partition: Option<u32>,
    pub account: Option<u32>,
}

impl FromStr for Throttle {
    type Err = String;

    fn from_str(text: &str) -> Result<Throttle, String> {
        let mut throttle = Throttle::default();
        for pair in text.split(',') {
            let (name, value) = name_and_value(pair, "partition=2000")?;
            let limit = match name {
                "partition" => &mut throttle.partition,
                "account" => &mut throttle.account,
                _ => return Err(format!("there is no limit {name}: partition and account have one")),
            };
            let number = value.parse().ok().filter(|number| (1..=MOST_ENTITIES).contains(number));
            let number = number.ok_or_else(|| format!("{name}={value}: write the entities a second, such as 2000"))?;
            once(name, limit.replace(number))?;
        }
        Ok(throttle)
    }
}

impl fmt::Display for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = [("partition", self.partition), ("account", self.account)];
        let given = limits
            .iter()
            .filter_map(|(name, limit)| Some(format!("{name}={}", (*limit)?)));
        f.write_str(&given.collect::<Vec<_>>().join(","))
    }
}

/// The share of requests that meet each fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Inject {
    /// 503 ServerBusy, before the work.
    pub busy: Option<Percent>,
    /// 500 OperationTimedOut, before the work or after it.
    pub timeout: Option<Percent>,
    /// The connection is closed without an answer, before the work or after it.
    pub reset: Option<Percent>,
    /// The pause of every request before its work.
    pub latency: Option<Latency>,
}

/// A part of all requests, from 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percent(pub f64);

/// The shortest and the longest time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    pub least: Duration,
    pub most: Duration,
}

impl FromStr for Inject {
    type Err = String;

    fn from_str(text: &str) -> Result<Inject, String> {
        let mut inject = Inject::default();
        for pair in text.split(',') {
            let (name, value) = name_and_value(pair, "503=1%")?;
            let fault = match name {
                "503" => &mut inject.busy,
                "timeout" => &mut inject.timeout,
                "reset" => &mut inject.reset,
                "latency" => {
                    once(name, inject.latency.replace(latency(value)?))?;
                    continue;
                }
                _ => {
                    return Err(format!(
                        "there is no fault {name}: there are 503, timeout, reset and latency"
                    ));
                }
            };
            once(name, fault.replace(percent(name, value)?))?;
        }
        Ok(inject)
    }
}

impl fmt::Display for Inject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("503", self.busy), ("timeout", self.timeout), ("reset", self.reset)];
        let parts = parts
            .iter()
            .filter_map(|(name, part)| Some(format!("{name}={}%", (*part)?.0)));
        let latency = self.latency.map(|Latency { least, most }| match least == most {
            true => format!("latency={}ms", least.as_millis()),
            false => format!("latency={}ms..{}ms", least.as_millis(), most.as_millis()),
        });
        f.write_str(&parts.chain(latency).collect::<Vec<_>>().join(","))
    }
}

/// Texts stand for both in JSON.
macro_rules! as_text {
    ($type:ty) => {
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }
    };
}

as_text!(Throttle);
as_text!(Inject);

fn name_and_value<'a>(pair: &'a str, example: &str) -> Result<(&'a str, &'a str), String> {
    let (name, value) = pair
        .split_once('=')
        .ok_or_else(|| format!("{pair:?} is no name with a value, such as {example}"))?;
    Ok((name.trim(), value.trim()))
}

fn once<T>(name: &str, before: Option<T>) -> Result<(), String> {
    before.map_or(Ok(()), |_| Err(format!("{name} is there twice")))
}

fn percent(name: &str, value: &str) -> Result<Percent, String> {
    let number = value.strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let number = number.filter(|number| (0.0..=100.0).contains(number)).map(Percent);
    number.ok_or_else(|| format!("{name}={value}: write a part of all requests, such as 1% or 0.1%"))
}

fn latency(value: &str) -> Result<Latency, String> {
    let (least, most) = value.split_once("..").unwrap_or((value, value));
    let range = duration(least).zip(duration(most));
    let range = range.filter(|(least, most)| least <= most && *most <= LONGEST_LATENCY);
    let (least, most) =
        range.ok_or_else(|| format!("latency={value}: write a time of at most 60s, such as 50ms, or 20ms..200ms"))?;
    Ok(Latency { least, most })
}

fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    match text.strip_suffix("ms") {
        Some(number) => number.parse().ok().map(Duration::from_millis),
        None => text.strip_suffix('s')?.parse().ok().map(Duration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_printed() {
        for text in ["partition=2000,account=20000", "account=1"] {
            assert_eq!(text.parse::<Throttle>().unwrap().to_string(), text);
        }
        for text in [
            "503=1%,timeout=0.1%,reset=100%,latency=20ms..200ms",
            "latency=50ms",
            "timeout=0%",
        ] {
            assert_eq!(text.parse::<Inject>().unwrap().to_string(), text);
        }
        assert_eq!("latency=1s".parse::<Inject>().unwrap().to_string(), "latency=1000ms");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, problem) in [
            ("", "is no name with a value, such as partition=2000"),
            ("table=5", "there is no limit table"),
            ("partition=0", "write the entities a second"),
            ("partition=many", "write the entities a second"),
            ("partition=1,partition=2", "partition is there twice"),
        ] {
            let error = text.parse::<Throttle>().unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
        for (text, problem) in [
            ("", "is no name with a value, such as 503=1%"),
            ("500=1%", "there is no fault 500"),
            ("503=1", "write a part of all requests"),
            ("503=101%", "write a part of all requests"),
            ("503=-1%", "write a part of all requests"),
            ("503=NaN%", "write a part of all requests"),
            ("503=1%,503=2%", "503 is there twice"),
            ("latency=20", "write a time of at most 60s"),
            ("latency=2s..1s", "write a time of at most 60s"),
            ("latency=61s", "write a time of at most 60s"),
        ] {
            let error = text.parse::<Inject>().unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn json_has_the_same_texts() {
        let json = r#"{"throttle":"partition=5","inject":"503=1%","seed":7}"#;
        let settings = FaultSettings::read(json.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&settings).unwrap(), json);
        for none in ["", " \n", "{}", r#" {"inject":null} "#] {
            assert_eq!(FaultSettings::read(none.as_bytes()).unwrap(), FaultSettings::default());
        }
        assert!(FaultSettings::read(br#"{"injects":"503=1%"}"#).is_err());
        for wrong in ["[]", r#"["partition=5"]"#, "null", "7", r#""503=1%""#] {
            let error = FaultSettings::read(wrong.as_bytes()).unwrap_err();
            assert_eq!(error, "a JSON object is expected", "{wrong}");
        }
    }
}
