//! The policy on bands: how far an observed figure may be from a published one,
//! by the kind of metric and by how far a paper states its conditions. It was
//! written before the verdicts that it decides; METHODOLOGY gives its reasons.

use std::str::FromStr;

use super::metric::Metric;

/// How far a paper states the conditions under which it took a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conditions {
    /// Model, data, workers, batches and machines are stated.
    Stated,
    /// Some of them are not.
    Open,
}

impl FromStr for Conditions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "stated" => Ok(Self::Stated),
            "open" => Ok(Self::Open),
            _ => Err(format!("{text:?} is neither `stated` nor `open`")),
        }
    }
}

/// Returns the policy's tolerance for figures of `metric`, as a share of the
/// published value.
pub fn tolerance(metric: Metric, conditions: Conditions) -> f64 {
    let [stated, open] = match metric.unit() {
        // A time to an accuracy is a time: it has the unit s.
        "s" | "ms" | "USD" | "MB" | "%" => [0.10, 0.15],
        _ if metric.is_learned() => [0.03, 0.05],
        // Bytes and counts follow from the system.
        _ => [0.0, 0.0],
    };
    match conditions {
        Conditions::Stated => stated,
        Conditions::Open => open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_exact_and_what_is_timed_is_not() {
        for metric in [Metric::Puts, Metric::Bytes, Metric::Messages] {
            assert_eq!(tolerance(metric, Conditions::Open), 0.0);
        }
        for metric in [
            Metric::TotalSeconds,
            Metric::TotalCostUsd,
            Metric::TimeToAccuracy,
        ] {
            assert_eq!(tolerance(metric, Conditions::Stated), 0.10);
            assert_eq!(tolerance(metric, Conditions::Open), 0.15);
        }
        assert_eq!(tolerance(Metric::Accuracy, Conditions::Stated), 0.03);
    }
}
