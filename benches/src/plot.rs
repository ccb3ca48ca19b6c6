//! The plot of the speed, `docs/speed.svg`: how many times as fast table_service is as hand-written SQL, and the gateway as azurite.
//!
//! It is drawn from the figures of a run: the `results` that `make bench` writes to `target/bench.json`, and the `http` that it
//! prints. `benches/figures.json` has all published figures: those of that run, the counted ones, and later ones of a single kind of work.
//! Unit tests compare the plot and the documents with them; with `ACCEPT=1` the plot is drawn again.

use std::fmt::Write as _;

use serde_json::Value;

const WIDTH: f64 = 900.0;
/// Where bars begin, and the longest one.
const LEFT: f64 = 280.0;
const LONGEST: f64 = 330.0;
const ROW: f64 = 26.0;

/// A bar: the work, how many times as fast, the two throughputs, and a ratio that was measured later.
struct Bar {
    work: String,
    ratio: f64,
    ours: f64,
    other: f64,
    later: String,
}

fn number(value: &Value, member: &str) -> f64 {
    value.get(member).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(figures: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    figures.get(member).and_then(Value::as_array).into_iter().flatten()
}

/// The work of one client through SQL, without the bytes on disk.
fn sql(figures: &Value) -> Vec<Bar> {
    list(figures, "results")
        .filter(|result| number(result, "clients") == 1.0 && !text(result, "work").starts_with("bytes"))
        .map(|result| Bar {
            work: text(result, "work")
                .replace("the same", "page of 1000")
                .replace("page of 1000 through", "batch through"),
            ratio: number(result.get("ratio").unwrap_or(&Value::Null), "median"),
            ours: number(result, "ours"),
            other: number(result, "hand_written"),
            later: list(figures, "later")
                .find(|later| text(later, "work") == text(result, "work"))
                .map(|later| format!("; {:.2}× on {}", number(later, "ratio"), text(later, "date")))
                .unwrap_or_default(),
        })
        .collect()
}

/// The work of 64 connections over HTTP, with durable commits.
fn http(figures: &Value) -> Vec<Bar> {
    let of = |server: &str| -> Vec<&Value> {
        list(figures, "http")
            .filter(|result| text(result, "server") == server && number(result, "connections") == 64.0)
            .collect()
    };
    let others = of("azurite");
    let other = |work: &str| {
        others
            .iter()
            .find(|other| text(other, "work") == work)
            .map(|other| number(other, "rate"))
    };
    of("ours")
        .into_iter()
        .filter_map(|result| {
            let (work, ours) = (text(result, "work"), number(result, "rate"));
            let other = other(work)?;
            Some(Bar {
                work: work.to_owned(),
                ratio: ours / other,
                ours,
                other,
                later: String::new(),
            })
        })
        .collect()
}

/// 13,237 or 1.4.
fn readable(number: f64) -> String {
    if number < 10.0 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// One part of the plot, from `top` down: a title, and a bar for each kind of work. The line is where both are equally fast.
fn part(svg: &mut String, top: f64, title: &str, bars: &[Bar]) -> Result<f64, std::fmt::Error> {
    let largest = bars.iter().map(|bar| bar.ratio).fold(1.0, f64::max);
    let scale = LONGEST / largest;
    writeln!(svg, r#"  <text class="title" x="12" y="{top}">{title}</text>"#)?;
    let first = top + 14.0;
    let mut y = first;
    for bar in bars {
        let (length, base) = (bar.ratio * scale, y + 16.0);
        let Bar { work, ratio, later, .. } = bar;
        let (ours, other) = (readable(bar.ours), readable(bar.other));
        let times = if *ratio < 10.0 {
            format!("{ratio:.2}")
        } else {
            format!("{ratio:.0}")
        };
        writeln!(
            svg,
            r#"  <text class="label" x="{}" y="{base}">{work}</text>"#,
            LEFT - 10.0
        )?;
        writeln!(
            svg,
            r#"  <rect class="bar" x="{LEFT}" y="{}" width="{length:.1}" height="16" rx="2"/>"#,
            y + 4.0
        )?;
        writeln!(
            svg,
            r#"  <text class="value" x="{:.1}" y="{base}">{times}× <tspan class="small">{ours} and {other} a second{later}</tspan></text>"#,
            LEFT + length.max(scale) + 8.0
        )?;
        y += ROW;
    }
    let x = LEFT + scale;
    writeln!(
        svg,
        r#"  <line class="equal" x1="{x:.1}" y1="{first}" x2="{x:.1}" y2="{y}"/>"#
    )?;
    Ok(y)
}

/// The plot, as SVG.
///
/// # Errors
///
/// Never: writing into a text does not fail.
pub fn plot(figures: &Value) -> Result<String, std::fmt::Error> {
    let (sql, http) = (sql(figures), http(figures));
    let mut parts = String::new();
    let title = "SQL: beside hand-written SQL on a table with jsonb, 1 client";
    let end = part(&mut parts, 24.0, title, &sql)?;
    let title = "HTTP: the gateway with durable commits beside azurite, 64 connections";
    let end = part(&mut parts, end + 34.0, title, &http)?;
    let (machine, date) = (text(figures, "machine"), text(figures, "date"));
    let http_date = text(figures, "http_date");
    let base = end + 22.0;
    writeln!(
        parts,
        r#"  <text class="small" x="12" y="{base}">{machine}; SQL {date}, HTTP {http_date}. The broken line is equally fast.</text>"#
    )?;
    let height = base + 12.0;
    let mut svg = String::new();
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-labelledby="t">"#
    )?;
    writeln!(
        svg,
        r#"  <title id="t">How many times as fast; the vertical line is equally fast</title>"#
    )?;
    svg.push_str(STYLE);
    svg.push_str(&parts);
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// Without a background, so that it can be read in light and in dark.
const STYLE: &str = "  <style>
    text { font: 13px system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif; fill: #1f2328; }
    .title { font-weight: 600; }
    .label { text-anchor: end; }
    .small { fill: #656d76; font-size: 12px; }
    .bar { fill: #2f81f7; }
    .equal { stroke: #d1242f; stroke-width: 1.5; stroke-dasharray: 4 3; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .small { fill: #9198a1; }
      .equal { stroke: #ff7b72; }
    }
  </style>
";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_plot_is_that_of_the_recorded_figures() -> Result<(), Box<dyn std::error::Error>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let figures = std::fs::read_to_string(root.join("figures.json"))?;
        let drawn = plot(&serde_json::from_str(&figures)?)?;
        let path = root.join("../docs/speed.svg");
        if std::env::var("ACCEPT").is_ok_and(|accept| accept == "1") {
            std::fs::write(&path, &drawn)?;
        }
        assert!(
            std::fs::read_to_string(path).is_ok_and(|there| there == drawn),
            "docs/speed.svg is not the plot of benches/figures.json; ACCEPT=1 draws it again"
        );
        Ok(())
    }

    /// The lines and sentences of documents that have figures, as `benches/figures.json` has them.
    fn published(figures: &Value) -> Vec<(&'static str, String)> {
        let (notebook, performance) = ("benches/README.md", "docs/performance.md");
        let mut published = Vec::new();
        let mut both = Vec::new();
        for result in list(figures, "results") {
            let ratio = |member| number(result.get("ratio").unwrap_or(&Value::Null), member);
            both.push(format!(
                "| {} | {} | {} | {} | {:.2} / {:.2} / {:.2} | {:.2}, met |",
                text(result, "work"),
                number(result, "clients"),
                readable(number(result, "ours")),
                readable(number(result, "hand_written")),
                ratio("min"),
                ratio("median"),
                ratio("max"),
                number(result, "target"),
            ));
        }
        let thousands = |counted, member| match number(counted, member) {
            few if few < 1000.0 => format!("{few:.1}"),
            many => readable(many),
        };
        let ratio_of = |counted| number(counted, "hand_written") / number(counted, "ours");
        for counted in list(figures, "counted") {
            let (ours, other) = (thousands(counted, "ours"), thousands(counted, "hand_written"));
            both.push(format!(
                "| {} | {ours} | {other} | {:.2} |",
                text(counted, "work"),
                ratio_of(counted)
            ));
        }
        published.extend(both.into_iter().map(|line| (notebook, line)));

        let (sql, http) = (sql(figures), http(figures));
        let of = |bars: &[Bar], work: &str| {
            let bar = bars.iter().find(|bar| bar.work == work).unwrap();
            (bar.ratio, readable(bar.ours))
        };
        let sentence = format!(
            "from {:.2} for an OR of 50 points to {:.2} for a page as JSON. Throughput of the gateway beside the emulator azurite: from {:.0} for point gets to \
             {:.0} for a search by email",
            of(&sql, "OR of 50 points / 50 look-ups").0,
            of(&sql, "page of 1000 as JSON").0,
            of(&http, "point get").0,
            of(&http, "email of 1 in 10,000").0,
        );
        published.extend(["README.md", performance].map(|page| (page, sentence.clone())));
        for (work, name) in [
            ("insert one entity", "insert one entity"),
            ("batch of 100 inserts / multi-row INSERT", "batch of 100 inserts"),
            ("page of 1000 by key range", "page of 1000 entities"),
            (
                "filter scan, two comparisons, 2 % match",
                "filter that reads 1 million entities",
            ),
        ] {
            let (ratio, ours) = of(&sql, work);
            published.push((performance, format!("| {name} | {ours} | {ratio:.2} |")));
        }
        let (get, later) = (of(&sql, "get one entity"), list(figures, "later").next().unwrap());
        let (date, again) = (text(later, "date"), number(later, "ratio"));
        published.push((
            performance,
            format!("| get one entity | {} | {:.2}; {again:.2} on {date} |", get.1, get.0),
        ));
        let counted = list(figures, "counted").next().unwrap();
        published.push((
            notebook,
            format!(
                "A point read has {:.2} in instructions, and about {again:.2} by the clock",
                ratio_of(counted)
            ),
        ));
        let point = of(&http, "point get");
        published.push((
            performance,
            format!(
                "64 connections get {} entities a second: {:.0} times as many as from azurite",
                point.1, point.0
            ),
        ));
        published
    }

    #[test]
    fn documents_have_the_recorded_figures() -> Result<(), Box<dyn std::error::Error>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let figures = serde_json::from_str(&std::fs::read_to_string(root.join("figures.json"))?)?;
        for (page, words) in published(&figures) {
            let text = std::fs::read_to_string(root.join("..").join(page))?;
            let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                one_line.contains(&words),
                "{page} does not have what benches/figures.json says: {words}"
            );
        }
        Ok(())
    }

    #[test]
    fn numbers_can_be_read() {
        assert_eq!(
            [1.44, 941.0, 13_237.2, 1_000_000.0].map(readable),
            ["1.4", "941", "13,237", "1,000,000"]
        );
    }
}
