//! Rankings by test accuracy: a lead of a few images decides nothing.

use epochcost_spec::claims::{Estimate, VerdictKind};

use super::RowAnalysis;
use super::trial::{TrialAnalysis, stated};

/// Test images by which a system must lead, at least, to be called more accurate.
const LEAST_IMAGES: f64 = 10.0;

/// Returns the test images by which a row leads another, over the trials that both have.
pub(super) fn between(leader: &RowAnalysis, other: &RowAnalysis) -> Estimate {
    let leads = leader.succeeded().filter_map(|trial| {
        let mut others = other.succeeded();
        let same = others.find(|own| own.trial.id.trial == trial.trial.id.trial)?;
        Some(correct(trial)? - correct(same)?)
    });
    Estimate::of(&leads.collect::<Vec<_>>())
}

/// Returns the test images that the model of the last evaluation classifies correctly.
fn correct(trial: &TrialAnalysis) -> Option<f64> {
    let (_, last) = stated(&trial.trial.evaluations).pop_last()?;
    Some(last.evaluation.correct as f64)
}

/// Judges a lead: it is confirmed where it is more than [`LEAST_IMAGES`] images and the whole
/// interval is above zero, and refuted where the whole interval is at most [`LEAST_IMAGES`].
pub(super) fn decide(lead: Estimate) -> (VerdictKind, String) {
    let Some(mean) = lead.mean else {
        let reason = "the two have no trial in common".into();
        return (VerdictKind::NotRun, reason);
    };
    let Some([low, high]) = lead.ci95 else {
        let reason = format!("a lead of {mean:.0} images in one trial, without an interval");
        return (VerdictKind::Open, reason);
    };
    let interval = format!("95 % interval {low:.1} to {high:.1}");
    let found = format!(
        "a lead of {mean:.1} test images, {interval}, {} trials",
        lead.n
    );
    if mean > LEAST_IMAGES && low > 0.0 {
        return (VerdictKind::Agrees, found);
    }
    if high <= LEAST_IMAGES {
        return (VerdictKind::Differs, found);
    }
    let reason = format!("{found}: more than {LEAST_IMAGES} and an interval above 0 would decide");
    (VerdictKind::Open, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(leads: &[f64]) -> VerdictKind {
        decide(Estimate::of(leads)).0
    }

    #[test]
    fn a_lead_decides_above_ten_images_and_zero() {
        use VerdictKind::{Agrees, Differs, NotRun, Open};
        assert_eq!(verdict(&[20.0, 24.0, 22.0, 25.0, 19.0]), Agrees);
        // Ten images or fewer, however sure.
        assert_eq!(verdict(&[6.0, 7.0, 6.0, 7.0, 6.0]), Differs);
        // More than ten, and an interval that reaches below zero.
        assert_eq!(verdict(&[60.0, -40.0, 55.0, -30.0, 50.0]), Open);
        // The other leads; the two are the same bits.
        assert_eq!(verdict(&[-30.0, -33.0, -29.0, -31.0, -30.0]), Differs);
        assert_eq!(verdict(&[0.0; 5]), Differs);
        assert_eq!(verdict(&[500.0]), Open);
        assert_eq!(verdict(&[]), NotRun);
    }
}
