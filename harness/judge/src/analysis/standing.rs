//! Several observations of one printed figure or statement, as one word.

use epochcost_spec::claims::VerdictKind;

use super::items::How;
use super::summary::Verdict;

/// What an observation rests on, the better one last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Constants or steps that were fitted to the paper.
    Dependent,
    /// A simulation that nothing of the paper was fitted to.
    Independent,
    /// Processes that ran.
    Measured,
}

/// Returns what a verdict rests on.
pub fn of(verdict: &Verdict, how: How) -> Standing {
    match (verdict.verdict, how) {
        (VerdictKind::ByConstruction, _) => Standing::Dependent,
        (_, How::Measured) => Standing::Measured,
        _ => Standing::Independent,
    }
}

/// Returns whether a verdict leaves its printed figure open although it has a range with the figure
/// inside: then nothing that rests on less decides.
pub fn withholds(verdict: &Verdict) -> bool {
    let inside = |(figure, [low, high]): (f64, [f64; 2])| (low..=high).contains(&figure);
    let is_open = verdict.verdict == VerdictKind::Open && verdict.evidence.is_some();
    let range = verdict.published.zip(verdict.observed_ci95);
    is_open && range.is_some_and(inside)
}

/// Returns the word on several observations, each with whether it [`withholds`]: that of the best
/// standing at which one agrees or differs, open if these conflict, or if one of a better standing
/// withholds. Without one, it is open, by construction, or not run.
pub fn combined(observations: &[(Standing, VerdictKind, bool)]) -> VerdictKind {
    use Standing::{Dependent, Independent, Measured};
    for standing in [Measured, Independent, Dependent] {
        let own = observations.iter().filter(|(own, ..)| *own == standing);
        let words: Vec<VerdictKind> = own.clone().map(|(_, word, _)| *word).collect();
        let for_it = words.iter().copied().filter(|word| word.agrees());
        let against = words.iter().copied().filter(|word| word.differs());
        // The weaker of several words on one side.
        let for_it = for_it.min_by_key(|word| word.support());
        let against = against.max_by_key(|word| word.support());
        match (for_it, against) {
            (Some(_), Some(_)) => return VerdictKind::Open,
            (Some(word), None) | (None, Some(word)) => return word,
            (None, None) => {}
        }
        if own.clone().any(|(.., withholds)| *withholds) {
            return VerdictKind::Open;
        }
    }
    let has = |kind| observations.iter().any(|(_, word, _)| *word == kind);
    match (has(VerdictKind::Open), has(VerdictKind::ByConstruction)) {
        (true, _) => VerdictKind::Open,
        (_, true) => VerdictKind::ByConstruction,
        _ => VerdictKind::NotRun,
    }
}

/// Returns the word on a statement by those on its readings: the weakest of those that agree or
/// differ together.
pub fn together(readings: &[VerdictKind]) -> VerdictKind {
    let ran = readings.iter().copied();
    let ran: Vec<VerdictKind> = ran.filter(|word| *word != VerdictKind::NotRun).collect();
    let are = |is_so: fn(VerdictKind) -> bool| ran.iter().all(|word| is_so(*word));
    let open = VerdictKind::Open.support();
    if are(VerdictKind::agrees) || are(VerdictKind::differs) {
        let weakest = ran.iter().min_by_key(|word| word.support().abs_diff(open));
        weakest.copied().unwrap_or(VerdictKind::NotRun)
    } else if are(|word| word == VerdictKind::ByConstruction) {
        VerdictKind::ByConstruction
    } else {
        VerdictKind::Open
    }
}

/// Returns the word on a statement by those on its instances: it agrees if all do, and differs if
/// one does.
pub fn all(instances: &[VerdictKind]) -> VerdictKind {
    let differs = instances.iter().copied().filter(|word| word.differs());
    if let Some(word) = differs.min_by_key(|word| word.support()) {
        return word;
    }
    if !instances.is_empty() && instances.iter().all(|word| word.agrees()) {
        let weakest = instances.iter().copied().min_by_key(|word| word.support());
        return weakest.unwrap_or(VerdictKind::Open);
    }
    let mut told = instances
        .iter()
        .filter(|word| **word != VerdictKind::NotRun)
        .peekable();
    if told.peek().is_none() {
        VerdictKind::NotRun
    } else if told.all(|word| *word == VerdictKind::ByConstruction) {
        VerdictKind::ByConstruction
    } else {
        VerdictKind::Open
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    use Standing::{Dependent, Independent, Measured};
    use VerdictKind::{Agrees, ByConstruction, Differs, NotRun, Open, RatherAgrees, RatherDiffers};

    #[test]
    fn the_best_standing_that_decides_leads() {
        assert_eq!(combined(&[]), NotRun);
        for (one, other, word) in [
            ((Measured, Open), (Independent, Agrees), Agrees),
            ((Measured, Differs), (Independent, Agrees), Differs),
            ((Independent, Agrees), (Independent, Differs), Open),
            (
                (Independent, Agrees),
                (Independent, RatherAgrees),
                RatherAgrees,
            ),
            (
                (Independent, Differs),
                (Independent, RatherDiffers),
                RatherDiffers,
            ),
            ((Dependent, ByConstruction), (Independent, Open), Open),
            (
                (Dependent, ByConstruction),
                (Independent, NotRun),
                ByConstruction,
            ),
        ] {
            let observations = [one, other].map(|(standing, word)| (standing, word, false));
            assert_eq!(combined(&observations), word, "{observations:?}");
        }
    }

    #[test]
    fn nothing_decides_below_an_open_range_with_the_figure_inside() {
        let simulated = (Independent, Differs, false);
        for (measured, word) in [
            ((Measured, Open, true), Open),
            ((Measured, Open, false), Differs),
            ((Dependent, Open, true), Differs),
        ] {
            assert_eq!(combined(&[measured, simulated]), word, "{measured:?}");
        }
        // A verdict of the same standing that decides is not withheld.
        assert_eq!(combined(&[(Independent, Open, true), simulated]), Differs);
    }

    #[test]
    fn a_statement_holds_in_all_of_its_instances() {
        for (instances, word) in [
            (&[][..], NotRun),
            (&[Agrees, Agrees], Agrees),
            (&[Agrees, RatherAgrees], RatherAgrees),
            (&[Agrees, Open], Open),
            (&[Agrees, Differs, Open], Differs),
            (&[ByConstruction, ByConstruction], ByConstruction),
            (&[ByConstruction, Agrees], Open),
            (&[NotRun, NotRun], NotRun),
        ] {
            assert_eq!(all(instances), word, "{instances:?}");
        }
    }

    #[test]
    fn readings_agree_or_differ_together() {
        for (readings, word) in [
            (&[][..], NotRun),
            (&[Agrees, RatherAgrees, NotRun], RatherAgrees),
            (&[Differs, RatherDiffers], RatherDiffers),
            (&[Agrees, Differs], Open),
            (&[Agrees, Open], Open),
            (&[ByConstruction, ByConstruction], ByConstruction),
        ] {
            assert_eq!(together(readings), word, "{readings:?}");
        }
    }

    proptest! {
        /// Losing an observation that is open makes nothing agree that did not.
        #[test]
        fn an_open_observation_decides_nothing(
            words in proptest::collection::vec(0usize..5, 0..6), standing in 0usize..3, inside: bool,
        ) {
            let standings = [Dependent, Independent, Measured];
            let kinds = [Agrees, RatherAgrees, Open, RatherDiffers, Differs];
            let mut observations: Vec<_> = words.iter().enumerate()
                .map(|(index, word)| (standings[index % 3], kinds[*word], false)).collect();
            let before = combined(&observations);
            observations.push((standings[standing], Open, inside));
            let after = combined(&observations);
            let is_kept = before.agrees() == after.agrees() && before.differs() == after.differs();
            prop_assert!(is_kept || (inside && after == Open));
        }
    }
}
