//! The text of an Edm.Double, as .NET Framework's "R" format writes it (semantics 1.6).

/// Returns the text of a double: `1.0`, `3.1`, `1.23456789012346E+24`, `NaN`, `Infinity`, `-Infinity`.
///
/// 15 significant digits if they read back to the same value, else 17; an exponent of at least two digits from
/// 1E+15 up and from 1E-05 down; always a `.` or an `E`.
pub fn format_double(value: f64) -> String {
    let mut out = Vec::with_capacity(24);
    write_double(&mut out, value);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends the text of a double, as [`format_double`] makes it.
pub fn write_double(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
        return;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let value = value.abs();
    if value.is_infinite() {
        out.extend_from_slice(b"Infinity");
        return;
    }
    if value == 0.0 {
        out.extend_from_slice(b"0.0");
        return;
    }
    if value.is_normal() {
        let shortest = Decimal::read(zmij::Buffer::new().format_finite(value));
        // Up to 15 digits are the same decimal that 15 digits round to, and 17 the same that 17 do; 16 are neither.
        if shortest.digits().len() != 16 {
            shortest.write(out);
            return;
        }
    }
    let fifteen = format!("{value:.14e}");
    if fifteen.parse() == Ok(value) {
        Decimal::read(&fifteen).write(out);
    } else {
        Decimal::read(&format!("{value:.16e}")).write(out);
    }
}

/// `0.ddd… · 10^point`, not zero, the digits without zeros at either end.
struct Decimal {
    digits: [u8; 17],
    len: usize,
    point: i32,
}

impl Decimal {
    /// Reads the printed form of a number: digits with or without a point and an `e`, without a sign.
    fn read(text: &str) -> Decimal {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let mut decimal = Decimal {
            digits: [b'0'; 17],
            len: 0,
            point: exponent,
        };
        // Zeros are only kept once a digit follows.
        let (mut zeros, mut integral) = (0, true);
        for byte in mantissa.bytes() {
            if byte == b'.' {
                integral = false;
                continue;
            }
            if byte != b'0' {
                decimal.len += zeros;
                if let Some(digit) = decimal.digits.get_mut(decimal.len) {
                    *digit = byte;
                }
                decimal.len += 1;
                zeros = 0;
            } else if decimal.len > 0 {
                zeros += 1;
            }
            let is_leading_zero = decimal.len == 0;
            match (integral, is_leading_zero) {
                (true, false) => decimal.point += 1,
                (false, true) => decimal.point -= 1,
                _ => {}
            }
        }
        decimal
    }

    fn digits(&self) -> &[u8] {
        self.digits.get(..self.len).unwrap_or(&self.digits)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let digits = self.digits();
        let exponent = self.point - 1;
        if exponent >= 15 || exponent <= -5 {
            let (first, rest) = digits.split_at_checked(1).unwrap_or((digits, &[]));
            out.extend_from_slice(first);
            if !rest.is_empty() {
                out.push(b'.');
                out.extend_from_slice(rest);
            }
            out.extend_from_slice(if exponent < 0 { b"E-" } else { b"E+" });
            if exponent.abs() < 10 {
                out.push(b'0');
            }
            out.extend_from_slice(itoa::Buffer::new().format(exponent.abs()).as_bytes());
            return;
        }
        let zeros = |out: &mut Vec<u8>, count: i32| {
            out.resize(out.len() + usize::try_from(count).unwrap_or_default(), b'0');
        };
        if self.point <= 0 {
            out.extend_from_slice(b"0.");
            zeros(out, -self.point);
            out.extend_from_slice(digits);
            return;
        }
        match digits.split_at_checked(usize::try_from(self.point).unwrap_or_default()) {
            Some((whole, fraction)) if !fraction.is_empty() => {
                out.extend_from_slice(whole);
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
            _ => {
                out.extend_from_slice(digits);
                zeros(out, self.point - i32::try_from(self.len).unwrap_or_default());
                out.extend_from_slice(b".0");
            }
        }
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

    /// Returns the rule of the format, word by word.
    fn by_the_rule(value: f64) -> String {
        let fifteen = format!("{value:.14e}");
        let scientific = if fifteen.parse() == Ok(value) {
            fifteen
        } else {
            format!("{value:.16e}")
        };
        let (mantissa, exponent) = scientific.split_once('e').unwrap();
        let exponent: i32 = exponent.parse().unwrap();
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
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            let exponent_sign = if exponent < 0 { '-' } else { '+' };
            return format!("{sign}{first}{point}{rest}E{exponent_sign}{:02}", exponent.abs());
        }
        if exponent < 0 {
            return format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize));
        }
        let integral = exponent as usize + 1;
        match digits.split_at_checked(integral) {
            Some((whole, fraction)) if !fraction.is_empty() => format!("{sign}{whole}.{fraction}"),
            _ => format!("{sign}{digits:0<integral$}.0"),
        }
    }

    /// Any doubles, and doubles that are common in applications: with few digits, near one.
    fn doubles() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<u64>().prop_map(f64::from_bits),
            (any::<i64>(), -25..25).prop_map(|(n, e)| n as f64 * 10f64.powi(e)),
            (-1_000_000..1_000_000, -9..9).prop_map(|(n, e)| f64::from(n) * 10f64.powi(e)),
            (0..1u64 << 53).prop_map(f64::from_bits),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn every_double_prints_by_the_rule(value in doubles()) {
            if value.is_finite() {
                prop_assert_eq!(format_double(value), by_the_rule(value));
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
