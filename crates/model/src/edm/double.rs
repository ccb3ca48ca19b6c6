//! The text of an Edm.Double, as .NET Framework's "R" format writes it (semantics 1.6).

/// The text of a double: `1.0`, `3.1`, `1.23456789012346E+24`, `NaN`, `Infinity`, `-Infinity`.
///
/// 15 significant digits if they read back to the same value, else 17; an exponent of at least two digits from
/// 1E+15 up and from 1E-05 down; always a `.` or an `E`.
pub fn format_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    short(value).unwrap_or_else(|| fifteen_or_seventeen(value))
}

/// The usual case, faster: if the shortest text that reads back has no more than 15 digits, it is the one with 15 without
/// its zeros.
fn short(value: f64) -> Option<String> {
    if !(1e-4..1e15).contains(&value.abs()) {
        return None;
    }
    let shortest = value.to_string();
    let digits = shortest.bytes().filter(u8::is_ascii_digit).count();
    let whole = !shortest.contains('.');
    (digits <= 15).then(|| if whole { shortest + ".0" } else { shortest })
}

fn fifteen_or_seventeen(value: f64) -> String {
    let fifteen = format!("{value:.14e}");
    let scientific = if fifteen.parse() == Ok(value) {
        fifteen
    } else {
        format!("{value:.16e}")
    };
    // `d.ddddde[-]x`, always with these parts.
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits = mantissa.replace('.', "");
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        significant => significant,
    };
    if exponent >= 15 || exponent <= -5 {
        let (first, rest) = digits.split_at_checked(1).unwrap_or((digits, ""));
        let point = if rest.is_empty() { "" } else { "." };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}{point}{rest}E{exponent_sign}{:02}", exponent.abs());
    }
    if exponent < 0 {
        let zeros = usize::try_from(-exponent - 1).unwrap_or_default();
        return format!("{sign}0.{}{digits}", "0".repeat(zeros));
    }
    let integral = usize::try_from(exponent).unwrap_or_default() + 1;
    match digits.split_at_checked(integral) {
        Some((whole, fraction)) if !fraction.is_empty() => format!("{sign}{whole}.{fraction}"),
        _ => format!("{sign}{digits:0<integral$}.0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn doubles_print_as_the_service_prints_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (3.1, "3.1"),
            (-3.25, "-3.25"),
            (100.0, "100.0"),
            (123456789012345.0, "123456789012345.0"),
            (1e14, "100000000000000.0"),
            (1e15, "1E+15"),
            (1.23456789012346e24, "1.23456789012346E+24"),
            (0.0001, "0.0001"),
            (0.00012, "0.00012"),
            (0.00001, "1E-05"),
            (1.5e-7, "1.5E-07"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.0 / 3.0, "0.33333333333333331"),
            (f64::MAX, "1.7976931348623157E+308"),
            (5e-324, "4.94065645841247E-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(format_double(value), text);
        }
    }

    #[test]
    fn the_fast_way_is_taken() {
        for value in [1.0, 3.1, 125.5, -0.25, 1e14, 0.0001, 123456789.012345] {
            assert!(short(value).is_some(), "{value}");
        }
    }

    proptest! {
        #[test]
        fn both_ways_give_the_same_text(
            value in prop_oneof![
                any::<f64>(),
                (-1_000_000_000i64..1_000_000_000, 0i32..9).prop_map(|(n, e)| n as f64 / 10f64.powi(e)),
            ]
        ) {
            if let Some(text) = short(value) {
                prop_assert_eq!(text, fifteen_or_seventeen(value));
            }
        }

        #[test]
        fn every_double_reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            let text = format_double(value);
            if value.is_finite() {
                prop_assert!(text.contains(['.', 'E']), "{}", text);
                prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
            }
        }
    }
}
