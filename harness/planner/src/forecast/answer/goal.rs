//! Goals, and which of several settings meets one best.

use std::cmp::Ordering;

use epochcost_spec::format::{duration, usd};
use serde::Serialize;

use crate::error::{Error, Result};

/// A deadline, a budget, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Goal {
    /// Most seconds from the first request to the last end.
    pub deadline_s: Option<f64>,
    /// Most US dollars.
    pub budget_usd: Option<f64>,
}

/// Seconds and dollars of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Price {
    pub(crate) seconds: f64,
    pub(crate) usd: f64,
}

impl Goal {
    /// Reads a deadline (`90min`, `2h`) and a budget (`5usd`, `$5`, `5`).
    ///
    /// # Errors
    /// When one is no positive quantity of a known unit.
    pub fn parse(deadline: Option<&str>, budget: Option<&str>) -> Result<Option<Self>> {
        let goal = Self {
            deadline_s: deadline
                .map(|text| read_seconds("--deadline", text))
                .transpose()?,
            budget_usd: budget.map(dollars).transpose()?,
        };
        Ok((goal != Self::default()).then_some(goal))
    }

    /// Returns whether a setting is within the deadline and the budget.
    pub(super) fn is_met_by(self, price: Price) -> bool {
        self.deadline_s.is_none_or(|limit| price.seconds <= limit)
            && self.budget_usd.is_none_or(|limit| price.usd <= limit)
    }

    /// Compares two settings that meet the goal, the better first: the cheaper where there
    /// is a deadline, the faster where there is only a budget.
    pub(super) fn order(self, a: Price, b: Price) -> Ordering {
        let by_usd = a.usd.total_cmp(&b.usd);
        let by_seconds = a.seconds.total_cmp(&b.seconds);
        match self.deadline_s {
            Some(_) => by_usd.then(by_seconds),
            None => by_seconds.then(by_usd),
        }
    }

    /// Returns the goals whose best settings are nearest to this one: the cheapest within the
    /// deadline, the fastest within the budget, the fastest, and the cheapest. A limit that is not
    /// stated is none.
    pub(super) fn relaxed(self) -> [Self; 4] {
        let none = f64::INFINITY;
        let cheapest = |deadline_s| Self {
            deadline_s: Some(deadline_s),
            budget_usd: None,
        };
        let fastest = |budget_usd| Self {
            deadline_s: None,
            budget_usd: Some(budget_usd),
        };
        [
            cheapest(self.deadline_s.unwrap_or(none)),
            fastest(self.budget_usd.unwrap_or(none)),
            fastest(none),
            cheapest(none),
        ]
    }

    /// Returns the place of the best of `prices` among those that `counts` takes and that
    /// meet the goal; the first of equals.
    pub(crate) fn best(
        self,
        prices: &[Option<Price>],
        counts: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let meeting = prices.iter().enumerate().filter_map(|(place, price)| {
            let price = (*price)?;
            (self.is_met_by(price) && counts(place)).then_some((place, price))
        });
        let best = meeting.min_by(|(i, a), (j, b)| self.order(*a, *b).then(i.cmp(j)));
        best.map(|(place, _)| place)
    }

    /// Returns the limits in words.
    pub(super) fn limits(self) -> String {
        let stated = |text: String| match text.split_once(".00") {
            Some((whole, unit)) if !unit.starts_with(char::is_numeric) => format!("{whole}{unit}"),
            _ => text,
        };
        let deadline = self.deadline_s.map(|s| stated(duration(s)));
        let budget = self.budget_usd.map(|d| stated(usd(d)));
        let limits: Vec<String> = [deadline, budget].into_iter().flatten().collect();
        limits.join(" and ")
    }

    /// Returns the goal in words.
    pub(crate) fn text(self) -> String {
        let limits = self.limits();
        if limits.is_empty() {
            "without a limit".to_owned()
        } else {
            format!("within {limits}")
        }
    }
}

/// Units of time and the seconds in each.
const UNITS: [(&str, f64); 12] = [
    ("seconds", 1.0),
    ("minutes", 60.0),
    ("hours", 3600.0),
    ("days", 86_400.0),
    ("min", 60.0),
    ("hour", 3600.0),
    ("day", 86_400.0),
    ("sec", 1.0),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];

/// Reads a time with its unit (`90min`, `2h`), the value of `option`.
///
/// # Errors
/// When it is no positive time.
pub fn read_seconds(option: &str, text: &str) -> Result<f64> {
    let text = text.trim();
    let found = UNITS.iter().find_map(|(unit, seconds)| {
        let count: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Some(count * seconds)
    });
    found
        .filter(|s| s.is_finite() && *s > 0.0)
        .ok_or_else(|| refused(option, text, "a time with its unit: 90min, 2h, 1.5d"))
}

fn dollars(text: &str) -> Result<f64> {
    let number = text.trim().trim_start_matches('$');
    let number = number.to_ascii_lowercase();
    let number = number.trim_end_matches("usd").trim();
    let found: Option<f64> = number.parse().ok();
    found
        .filter(|usd| usd.is_finite() && *usd > 0.0)
        .ok_or_else(|| refused("--budget", text, "US dollars: 5usd, 0.5usd"))
}

fn refused(option: &str, text: &str, wanted: &str) -> Error {
    Error::Usage {
        problem: format!("{option} {text:?} cannot be read"),
        remedy: format!("give {wanted}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn goals_are_read_with_their_units() {
        let read = |deadline, budget| Goal::parse(deadline, budget).unwrap();
        assert_eq!(read(None, None), None);
        for (text, expected) in [
            ("2h", 7200.0),
            ("90min", 5400.0),
            ("90 m", 5400.0),
            ("45s", 45.0),
            ("1.5d", 129_600.0),
            ("3 hours", 10_800.0),
        ] {
            assert_eq!(read(Some(text), None).unwrap().deadline_s, Some(expected));
        }
        for text in ["5usd", "$5", "5", "5 USD"] {
            assert_eq!(read(None, Some(text)).unwrap().budget_usd, Some(5.0));
        }
        for deadline in ["2", "-2h", "h"] {
            assert!(Goal::parse(Some(deadline), None).is_err(), "{deadline}");
        }
        for budget in ["five", "0", "inf"] {
            assert!(Goal::parse(None, Some(budget)).is_err(), "{budget}");
        }
    }

    fn prices() -> impl Strategy<Value = Vec<Option<Price>>> {
        let price = (1u16..50, 1u16..50).prop_map(|(seconds, usd)| Price {
            seconds: seconds.into(),
            usd: usd.into(),
        });
        prop::collection::vec(prop::option::weighted(0.8, price), 0..30)
    }

    fn limit() -> impl Strategy<Value = Option<f64>> {
        prop::option::of((1u16..60).prop_map(f64::from))
    }

    proptest! {
        /// The best meets the goal, and nothing that does is better.
        #[test]
        fn the_best_is_what_brute_force_finds(
            prices in prices(), deadline_s in limit(), budget_usd in limit()
        ) {
            let goal = Goal { deadline_s, budget_usd };
            let meeting: Vec<Price> =
                prices.iter().flatten().copied().filter(|p| goal.is_met_by(*p)).collect();
            match goal.best(&prices, |_| true) {
                None => prop_assert!(meeting.is_empty()),
                Some(place) => {
                    let best = prices[place].unwrap();
                    prop_assert!(goal.is_met_by(best));
                    prop_assert!(meeting.iter().all(|p| goal.order(best, *p).is_le()));
                }
            }
        }
    }
}
