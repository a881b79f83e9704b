//! Rankings, and whether a recomputed figure changes them.

use crate::format;

/// Names with a figure each, the smallest first; equal figures keep their order.
pub(super) struct Ranking(Vec<(String, f64)>);

impl Ranking {
    pub(super) fn new(items: impl IntoIterator<Item = (String, f64)>) -> Self {
        let mut items: Vec<_> = items.into_iter().collect();
        items.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        Self(items)
    }

    /// Returns whether both name the same in the same order.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let names = |ranking: &Self| -> Vec<String> {
            let items = ranking.0.iter();
            items.map(|(name, _)| name.clone()).collect()
        };
        names(self) == names(other)
    }

    /// Returns it as text: `A 1.00 < B 2.00`.
    pub(super) fn text(&self) -> String {
        let items = self.0.iter();
        let items = items.map(|(name, value)| format!("{name} {}", format::number(*value)));
        items.collect::<Vec<_>>().join(" < ")
    }

    /// Returns the smallest, with its figure.
    pub(super) fn first(&self) -> Option<&(String, f64)> {
        self.0.first()
    }
}

/// Returns a change from `before` to `after` in percent, with its sign.
pub(super) fn percent(before: f64, after: f64) -> String {
    format!("{:+.1} %", (after / before - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_what_counts() {
        let rank = |a: f64, b: f64| Ranking::new([("a".to_owned(), a), ("b".to_owned(), b)]);
        assert!(rank(1.0, 2.0).agrees_with(&rank(3.0, 9.0)));
        assert!(!rank(1.0, 2.0).agrees_with(&rank(2.0, 1.0)));
        assert_eq!(rank(2.0, 1.0).text(), "b 1.00 < a 2.00");
        assert_eq!(percent(2.0, 1.8), "-10.0 %");
    }
}
