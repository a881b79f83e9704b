//! Effects of a claim's causes: how far each moves the observed figure towards
//! the published one.

use serde::{Deserialize, Serialize};

use epochcost_spec::claims::{Cause, Estimate};

/// What one cause does to the claim's figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// What the row does otherwise, in a few words.
    pub cause: String,
    /// The row's id; null if the claim's selection finds none.
    pub row: Option<String>,
    /// The claim's figure of that row.
    pub observed: Option<f64>,
    /// 95 % interval of the observed value.
    pub observed_ci95: Option<[f64; 2]>,
    /// Observed less what the claim's own row has, in the claim's unit.
    pub change: Option<f64>,
    /// The change as a share of published less observed: 1 closes the gap.
    /// Null where there is no gap. Causes act together, so that shares need not add up.
    pub share: Option<f64>,
}

impl Effect {
    /// Returns the effect of `cause`, where the claim's own row has `base` and
    /// the cause's row `observed`, beside a printed figure.
    pub(super) fn new(published: f64, cause: &Cause, base: Estimate, observed: Estimate) -> Self {
        let both = observed.mean.zip(base.mean);
        let change = both.map(|(with, without)| with - without);
        let gap = base.mean.map(|observed| published - observed);
        let share = change.zip(gap).map(|(change, gap)| change / gap);
        Self {
            cause: cause.cause.clone(),
            row: observed.mean.map(|_| cause.row.clone()),
            observed: observed.mean,
            observed_ci95: observed.ci95,
            change,
            share: share.filter(|share| share.is_finite()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn effect(published: f64, base: f64, with: f64) -> Effect {
        let cause = Cause {
            cause: "JSON".into(),
            row: "row".into(),
        };
        let of = |mean| Estimate::of(&[mean]);
        Effect::new(published, &cause, of(base), of(with))
    }

    #[test]
    fn a_cause_that_gives_the_published_figure_closes_the_gap() {
        let whole = effect(69.4, 2.0, 69.4);
        assert_eq!((whole.change, whole.share), (Some(69.4 - 2.0), Some(1.0)));
        assert_eq!(effect(69.4, 2.0, 2.0).share, Some(0.0));
        assert!(effect(69.4, 2.0, 1.0).share.unwrap() < 0.0);
    }

    #[test]
    fn there_is_no_share_of_no_gap() {
        assert_eq!(effect(2.0, 2.0, 5.0).share, None);
        assert_eq!(effect(2.0, 2.0, 5.0).change, Some(3.0));
    }

    proptest! {
        #[test]
        fn the_share_of_the_gap_is_the_change(
            published in 1.0..1e3_f64, base in 1.2e3..2e3_f64, with in 1.0..1e4_f64,
        ) {
            let effect = effect(published, base, with);
            let change = effect.share.unwrap() * (published - base);
            prop_assert!((change - effect.change.unwrap()).abs() < 1e-6 * with.max(base));
        }
    }
}
