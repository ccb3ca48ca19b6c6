//! Results, printed and as JSON.

use serde_json::{Value, json};

/// The least, the middle and the greatest of some figures.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Spread {
    /// Of at least one figure; of none, all are not a number.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Spread {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
        Spread {
            min: at(0),
            median: at(figures.len() / 2),
            max: at(figures.len().saturating_sub(1)),
        }
    }
}

/// One line of the table that sets our side beside the hand-written.
#[derive(Debug)]
pub struct Comparison {
    pub work: String,
    pub clients: usize,
    /// In a second; for bytes, bytes.
    pub ours: f64,
    pub hand_written: f64,
    /// Ours to the hand-written, round by round; more is better.
    pub ratio: Spread,
    pub target: Option<f64>,
}

impl Comparison {
    pub fn is_met(&self) -> Option<bool> {
        self.target.map(|target| self.ratio.median >= target)
    }

    pub fn header() -> String {
        format!(
            "{:<44} {:>7} {:>12} {:>12}  {:>16}  {:>6}",
            "work", "clients", "ours", "hand-written", "ratio min/med/max", "target"
        )
    }

    pub fn line(&self) -> String {
        let Spread { min, median, max } = self.ratio;
        let verdict = match (self.target, self.is_met()) {
            (Some(target), Some(met)) => format!("{target:>6.2} {}", if met { "met" } else { "missed" }),
            _ => String::new(),
        };
        format!(
            "{:<44} {:>7} {:>12.1} {:>12.1}  {:>5.2}/{:>4.2}/{:>4.2}   {verdict}",
            self.work, self.clients, self.ours, self.hand_written, min, median, max
        )
        .trim_end()
        .to_owned()
    }

    pub fn json(&self) -> Value {
        json!({
            "work": self.work,
            "clients": self.clients,
            "ours": self.ours,
            "hand_written": self.hand_written,
            "ratio": { "min": self.ratio.min, "median": self.ratio.median, "max": self.ratio.max },
            "target": self.target,
            "met": self.is_met(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_least_the_middle_and_the_greatest() {
        let Spread { min, median, max } = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!((min, median, max), (1.0, 2.0, 3.0));
        assert!(Spread::of([]).median.is_nan());
    }

    #[test]
    fn a_target_is_met_by_the_median() {
        let mut comparison = Comparison {
            work: "w".to_owned(),
            clients: 1,
            ours: 9.0,
            hand_written: 10.0,
            ratio: Spread::of([0.8, 0.9, 1.0]),
            target: Some(0.9),
        };
        assert_eq!(comparison.is_met(), Some(true));
        comparison.target = Some(0.91);
        assert_eq!(comparison.is_met(), Some(false));
        comparison.target = None;
        assert_eq!(comparison.is_met(), None);
    }
}
