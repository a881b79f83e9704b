//! The rules by which an observed value becomes a verdict, whatever it was read
//! from.

use epochcost_simulator::profile::FittedTo;
use epochcost_spec::claims::{Claim, ClaimKind, Metric, VerdictKind, paper_of};

use super::agreement::Figure;

/// Reason for which one training decides no ranking by learning.
pub(super) const ONE_SEED: &str =
    "one seed: how far training differs from seed to seed is not known";

/// What decides a verdict beside the claim and the observed values.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// Whether servers that stand in for the platform's answered.
    pub rehearsed: bool,
    /// Dataset that was trained on, if it is a generated one.
    pub generated: Option<String>,
    /// The one machine that times belong to, if they are of no cloud.
    pub machine: Option<String>,
    /// Whether the figures are of a simulation.
    pub simulated: bool,
    /// What the figures of a simulation rest on.
    pub fits: Vec<Fit>,
    /// Whether one of the rows was trained with one seed only.
    pub is_one_seed: bool,
    /// A row that stands for a GPU and was computed on a CPU, if others were not.
    pub on_cpu: Option<String>,
}

/// A number of a simulation that was fitted to published figures.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The constant's path, or the compute profile.
    pub what: String,
    /// The figures; none if it is not recorded which.
    pub to: Option<FittedTo>,
    /// Figures that rest on it.
    pub rests: Rests,
}

/// Figures that rest on a number of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rests {
    /// Times, and what is computed from them.
    Times,
    /// Times of workers, which fetch data and keep state beside the exchange:
    /// all but those of functions that average or update alone.
    WorkerTimes,
    /// Times of workers that compute gradients, and peak memory.
    Computing,
}

/// What of its paper a claim's figure rests on.
struct Basis {
    /// The basis, in words.
    what: String,
    /// Whether it is the published figure itself, or one that it follows from; else, it is other
    /// figures of the same paper.
    is_itself: bool,
}

/// Returns the verdict on `claim` and its reason, where the observed values of `figures` tell so
/// much. `claims` are those of the run, among them those that a consequence follows from.
pub fn decide(
    claim: &Claim,
    claims: &[Claim],
    figures: &[Figure],
    (kind, reason): (VerdictKind, String),
    at: &Circumstances,
) -> (VerdictKind, String) {
    if let Some(why) = incomparable(claim, figures, at) {
        let there = match (claim.printed.is_some(), kind) {
            (true, _) => "",
            (_, kind) if kind.agrees() => "; there it is as published",
            (_, kind) if kind.differs() => "; there it is not as published",
            _ => "; there it is open",
        };
        let there = if claim.kind.is_of_paper() { there } else { "" };
        return (VerdictKind::Open, format!("{why}{there}"));
    }
    let kind = kind.for_kind(claim.kind);
    let cannot_fail = claim.cannot_fail.as_ref();
    if let Some(why) = cannot_fail.filter(|_| at.simulated && kind.agrees()) {
        let reason = format!("no simulation says otherwise: {why}; {reason}");
        return (VerdictKind::ByConstruction, reason);
    }
    match basis(claim, claims, figures, at) {
        Some(Basis { what, is_itself }) if is_itself || kind.agrees() => {
            (VerdictKind::ByConstruction, format!("{what}; {reason}"))
        }
        _ => (kind, reason),
    }
}

/// Returns why the observed figures are not ones that the published can be compared
/// with, whatever they are, if they are not.
pub fn incomparable(claim: &Claim, figures: &[Figure], at: &Circumstances) -> Option<String> {
    let has = |is_so: fn(Metric) -> bool| figures.iter().any(|(metric, _)| is_so(*metric));
    let is_of_paper = claim.kind.is_of_paper();
    if let Some(why) = &claim.not_comparable {
        return Some(why.clone());
    }
    if at.rehearsed && claim.kind != ClaimKind::Check {
        return Some("a rehearsal, which says nothing of the platform".to_owned());
    }
    if let Some(row) = at.on_cpu.as_ref().filter(|_| has(Metric::is_timed))
        && claim.kind != ClaimKind::Check
    {
        return Some(format!(
            "{row} was computed on a CPU in place of its GPU: its seconds and dollars are compared \
             with none"
        ));
    }
    if let Some(dataset) = at.generated.as_ref().filter(|_| is_of_paper)
        && has(Metric::is_learned)
    {
        return Some(format!(
            "trained on {dataset}, a generated set: not comparable with what is published for the \
             original data"
        ));
    }
    // Another processor's rounding can turn what one seed says.
    if figures.len() > 1 && has(|metric| metric == Metric::TimeToAccuracy) && at.is_one_seed {
        return Some(ONE_SEED.into());
    }
    let machine = at.machine.as_ref()?;
    if figures.len() > 1 && has(Metric::is_share_of_processor) {
        return Some(format!(
            "a use of the processor of {machine}, which depends on what else it computes"
        ));
    }
    let metrics = figures.iter().map(|(metric, _)| *metric);
    let mut memories = metrics.filter(|metric| metric.is_memory_of_stage());
    let first = memories.next();
    if is_of_paper && first.is_some() && memories.any(|metric| Some(metric) != first) {
        return Some(format!(
            "memory behind stages on {machine}, whose allocator keeps what earlier ones freed"
        ));
    }
    // A printed figure, or one that a statement names.
    let is_one = claim.printed.is_some() || (is_of_paper && figures.len() == 1);
    let metric = claim.metric.filter(|_| is_one)?;
    if !metric.is_of_machine() {
        return None;
    }
    let what = match metric.unit() {
        "USD" => "a cost computed from seconds",
        "MB" => "memory of the programs",
        "%" => "a use of the processor",
        _ => "a time",
    };
    let why = "not comparable with one published for AWS";
    Some(format!("{what} of {machine}: {why}"))
}

/// Returns what of their paper the claim's figures rest on, if they do; claims that no paper makes
/// are not counted as a paper's, and rest on what they say.
fn basis(claim: &Claim, claims: &[Claim], figures: &[Figure], at: &Circumstances) -> Option<Basis> {
    if !claim.kind.is_of_paper() {
        return None;
    }
    let itself = |what| {
        let is_itself = true;
        Some(Basis { what, is_itself })
    };
    let rests = |fit: &&Fit| {
        figures.iter().any(|(metric, _)| match fit.rests {
            Rests::Times => metric.is_timed(),
            Rests::WorkerTimes => metric.is_timed() && metric.stands_on_compute(),
            Rests::Computing => metric.stands_on_compute(),
        })
    };
    // The claim's own cell, and those that it follows from.
    let bases = (claims.iter()).filter(|other| claim.of.contains(&other.claim));
    let cells = std::iter::once(claim).chain(bases);
    let cells = cells.filter_map(|claim| Some(claim.printed.as_ref()?.cell.to_string()));
    let cells: Vec<String> = cells.collect();
    let mut same_paper = None;
    for Fit { what, to, .. } in at.fits.iter().filter(rests) {
        let Some(FittedTo { source, cells: own }) = to else {
            return itself(format!("computed from published durations ({what})"));
        };
        if cells.iter().any(|cell| own.contains(cell)) {
            return itself(format!("{what} is fitted to it ({source})"));
        }
        if claim.paper() == Some(paper_of(source)) {
            same_paper.get_or_insert_with(|| Basis {
                what: format!("{what} is fitted to other figures of the same paper ({source})"),
                is_itself: false,
            });
        }
    }
    same_paper
}

#[cfg(test)]
mod tests {
    use super::*;

    use ClaimKind::{Check, Own, Published};
    use VerdictKind::{Agrees, ByConstruction, Differs, Holds, Open, RatherAgrees, RatherDiffers};

    fn claim(kind: ClaimKind) -> Claim {
        Claim {
            claim: "c".into(),
            kind,
            metric: Some(Metric::TimeToAccuracy),
            source: Some("A et al. 2020, Table 1".into()),
            ..Claim::default()
        }
    }

    /// What is decided of a claim over one metric, where so much was told.
    fn decided(
        claim: &Claim,
        metric: Metric,
        told: VerdictKind,
        at: &Circumstances,
    ) -> VerdictKind {
        decide(claim, &[], &[(metric, None)], (told, String::new()), at).0
    }

    fn of_one_machine() -> Circumstances {
        Circumstances {
            machine: Some("this machine".into()),
            ..Circumstances::default()
        }
    }

    #[test]
    fn a_comparison_decides_by_the_circumstances_of_its_figures() {
        let usual = Circumstances::default();
        let rehearsal = Circumstances {
            rehearsed: true,
            ..Circumstances::default()
        };
        let one_seed = Circumstances {
            is_one_seed: true,
            ..Circumstances::default()
        };
        let on_cpu = Circumstances {
            on_cpu: Some("gpu".into()),
            ..Circumstances::default()
        };
        let here = of_one_machine();
        let seconds = ["seconds_per_epoch"; 2];
        let accuracy = ["time_to_accuracy"; 2];
        let cpu = ["compute_gradients_cpu_percent", "put_cpu_percent"];
        let memory = ["compute_gradients_memory_mb", "put_memory_mb"];
        for (names, kind, at, expected) in [
            // What servers say that stand in for a platform's is no observation of it. The program
            // is the same.
            (seconds, Own, &rehearsal, Open),
            (seconds, Own, &usual, Holds),
            (seconds, Check, &rehearsal, Holds),
            // One seed says nothing of the next, which another processor's rounding amounts to.
            (accuracy, Own, &one_seed, Open),
            (accuracy, Own, &usual, Holds),
            // Such a finding once held, whatever a GPU would have taken.
            (["cost_full_usd"; 2], Own, &on_cpu, Open),
            (["gets"; 2], Own, &on_cpu, Holds),
            (seconds, Check, &on_cpu, Holds),
            // What a stage gets of a processor is decided by whatever else it computes.
            (cpu, Published, &here, Open),
            (cpu, Published, &usual, Agrees),
            // The worker's allocator keeps what was freed, so that later stages have more behind
            // them, of whatever model.
            (memory, Published, &here, Open),
            (["put_memory_mb"; 2], Published, &here, Agrees),
            (memory, Published, &usual, Agrees),
            (memory, Own, &here, Holds),
        ] {
            let level = (names == accuracy).then_some(0.8);
            let figures = names.map(|name| (Metric::named(name).unwrap(), level));
            let told = (Agrees, "every draw agrees".to_owned());
            let (found, reason) = decide(&claim(kind), &[], &figures, told, at);
            assert_eq!(found, expected, "{names:?} {kind:?} {at:?}: {reason}");
            let says_there = reason.ends_with("there it is as published");
            assert_eq!(says_there, kind == Published && found == Open, "{reason}");
        }
    }

    /// A sentence that gives a figure is as little comparable as a table that prints it.
    #[test]
    fn a_figure_that_a_sentence_gives_is_not_compared_with_one_machine_s() {
        for (kind, expected) in [(Published, Open), (Own, Holds)] {
            let sentence = Claim {
                metric: Some(Metric::PeakMemoryMb),
                formula: Some("peak_memory_mb[a] = 4000".into()),
                ..claim(kind)
            };
            let found = decided(&sentence, Metric::PeakMemoryMb, Agrees, &of_one_machine());
            assert_eq!(found, expected);
        }
    }

    /// What follows from the model itself confirms nothing, and a run may still refute it.
    #[test]
    fn what_no_simulation_can_refute_is_by_construction_there_alone() {
        let claim = Claim {
            cannot_fail: Some("bytes are the protocol's".into()),
            ..claim(Published)
        };
        for (simulated, told, expected) in [
            (true, Agrees, ByConstruction),
            (false, Agrees, Agrees),
            (true, Differs, Differs),
        ] {
            let at = Circumstances {
                simulated,
                ..Circumstances::default()
            };
            let found = decided(&claim, Metric::SecondsPerEpoch, told, &at);
            assert_eq!(found, expected);
        }
    }

    /// Constants that are fitted to a paper confirm nothing of it, drawn or not; they may refute it.
    #[test]
    fn what_is_fitted_to_a_paper_never_agrees_with_it() {
        let of = |metric, source: &str, kind| {
            let fit = Fit {
                what: "constant".into(),
                to: Some(FittedTo {
                    source: source.into(),
                    cells: Vec::new(),
                }),
                rests: Rests::Times,
            };
            let at = Circumstances {
                fits: vec![fit],
                ..Circumstances::default()
            };
            decided(&claim(Published), metric, kind, &at)
        };
        let with = |source: &str, kind| of(Metric::SecondsPerEpoch, source, kind);
        for kind in [Agrees, RatherAgrees] {
            assert_eq!(with("A et al. 2020, §2", kind), ByConstruction);
            assert_eq!(with("B et al. 2021, §2", kind), kind);
        }
        for kind in [Open, RatherDiffers, Differs] {
            assert_eq!(with("A et al. 2020, §2", kind), kind);
        }
        // Counts rest on no time.
        assert_eq!(of(Metric::Puts, "A et al. 2020, §2", Agrees), Agrees);
    }

    #[test]
    fn figures_of_another_kind_are_open_whatever_they_are() {
        let mut other = claim(Published);
        other.not_comparable = Some("memory of another program".into());
        for kind in VerdictKind::ALL {
            let told = (kind, String::new());
            let (verdict, reason) = decide(&other, &[], &[], told, &Circumstances::default());
            assert_eq!(verdict, Open);
            assert!(reason.starts_with("memory of another program"), "{reason}");
        }
    }
}
