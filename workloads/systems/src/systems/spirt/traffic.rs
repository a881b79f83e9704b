use std::collections::{BTreeMap, BTreeSet};

use epochcost_channels::Traffic;

use super::{
    Averaging, BarrierBy, GradientFormat, RobustAt, Settings, TOKEN_BYTES, Update, sgd_of,
};
use crate::mechanics::traffic::{gets, in_store, messages, puts, sum};
use crate::{Job, Result, Sizes, StepRecord};

/// Bytes of a parameter as JSON text where nothing but its size exists:
/// published gradients took 21 to 24 bytes, averages 17 to 20.
pub const TEXT_BYTES_PER_PARAMETER: u64 = 22;

/// Bytes of the JSON texts of one trial: they depend on the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// All gradients, W·E·B texts.
    pub gradients: u64,
    /// All averages that stores returned, W·E·R texts.
    pub averages: u64,
}

impl Texts {
    /// Counts texts at [`TEXT_BYTES_PER_PARAMETER`]: exact where tensors are
    /// phantoms, and an estimate where they are not.
    pub fn nominal(job: &Job, settings: &Settings, sizes: Sizes) -> Self {
        let text = TEXT_BYTES_PER_PARAMETER * sizes.parameters as u64;
        let phases = settings.phases(job).into_iter();
        let epochs = phases.map(|(peers, epochs)| peers * epochs).sum::<usize>() as u64 * text;
        Self {
            gradients: epochs * job.batches_per_worker as u64,
            averages: epochs * settings.rounds(job) as u64,
        }
    }
}

/// Traffic of one trial, exactly: P bytes per tensor, W peers, B mini-batches, E
/// epochs, [`TOKEN_BYTES`] (T) a barrier message.
///
/// | | puts | gets | in store | up | down |
/// | --- | --- | --- | --- | --- | --- |
/// | `init_peer`, once | W | | | WP | |
/// | `compute_gradients` | WB | WB | | WBP | WBP |
/// | `average_gradients` | | | W | WT | |
/// | `aggregate_gradients` | W | W² | | WP | W²P |
/// | `update_model` | | | W | | |
/// | `check_convergence` | | W | | | WP |
///
/// All but the first line times E, and W·E messages. Under `paper`:
///
/// - puts W + EW(B + 1), gets EW(B + W + 1), in store 2EW, messages EW
/// - up WP + EW((B + 1)P + T), down EW(B + W + 1)P
///
/// of which EW(W − 1)P crosses from peer to peer. Settings change it so:
///
/// - R rounds per epoch: all lines but the first two times R as well, so that EWB puts
///   and gets remain, and every other E is E·R.
/// - JSON: a gradient's put moves its text instead of P; the store's average
///   comes down as text and goes back up as W more puts of P.
/// - averaging by fetch: no in-store command, WB more gets of a gradient, W
///   more puts of P.
/// - averaging on arrival: no in-store command; peers fetch sums, which are as
///   long as averages.
/// - a barrier by push: EW(W − 1) messages and as many deliveries, up and down
///   T each.
/// - worker momentum: W·E·R more puts twice, and as many gets less W.
/// - a robust rule in the store: one more in-store command and W − 1 puts of P (W on
///   arrival) in place of the put of the aggregate. In the function: nothing, but for
///   centred clipping a get of P in every round but the first. An average that is refused
///   is not put.
/// - membership: no messages; heartbeats, votes and decisions count as state, and so does the
///   model that a peer takes that comes back or joins.
/// - peers that join: every line but the first for the epochs and peers before, and for those after.
/// - update by fetch: no in-store command, 2W more gets and W more puts of P;
///   with momentum another W puts, and W gets in every round but the first.
///
/// # Errors
/// When the job's optimizer is not one that a store can apply.
pub fn traffic(job: &Job, settings: &Settings, sizes: Sizes, texts: Texts) -> Result<Traffic> {
    let has_momentum = sgd_of(job)?.momentum != 0.0;
    let p = sizes.gradient_bytes();
    let (batches, rounds) = (job.batches_per_worker as u64, settings.rounds(job) as u64);
    let mut total = puts(job.workers as u64, p);
    // Peers of the first round, which find no state of an earlier one.
    let first = settings.first_peers(job.workers) as u64;
    let mut functions = 0;
    for (peers, epochs) in settings.phases(job) {
        let (w, now) = (peers as u64, (peers * epochs) as u64 * rounds);
        total += gets(now * w, p);
        let opening = if functions == 0 { first } else { 0 };
        total += aggregation(settings, now, opening, w, p);
        if !settings.membership {
            total += barrier(settings.barrier_by, now, w);
        }
        functions += now;
    }
    let batches = functions / rounds * batches;
    total += gets(batches, p);
    total += stored_gradients(settings, batches, p, texts);
    total += averaging(settings, functions, batches, p, texts);
    total += momentum(settings, functions, job.workers as u64, p);
    total += match settings.update {
        Update::InStore => in_store(functions),
        Update::Fetch => update_by_fetch(functions, first, p, has_momentum),
    };
    total += gets(functions, p);
    Ok(total)
}

/// Traffic of the steps that ended, where peers may be voted out: every line of
/// [`traffic()`] for its functions that ended, and W in a round the number of peers that
/// passed its barrier. A peer that fails within the barrier, after its heartbeat, is not
/// among those that ended it, but its average is fetched: a round of one get more.
///
/// # Errors
/// Those of [`traffic()`].
pub(super) fn of_members(
    job: &Job,
    settings: &Settings,
    sizes: Sizes,
    steps: &[&StepRecord],
) -> Result<Traffic> {
    let has_momentum = sgd_of(job)?.momentum != 0.0;
    let p = sizes.gradient_bytes();
    let of = |function: &'static str| steps.iter().filter(move |step| step.function == function);
    let count = |function: &'static str| of(function).count() as u64;
    // Peers that passed the barrier of each round; steps of a round bear its last mini-batch.
    let mut members: BTreeMap<(usize, Option<usize>), u64> = BTreeMap::new();
    for step in of("average_gradients") {
        *members.entry((step.epoch, step.batch)).or_default() += 1;
    }
    let opening = members.keys().next().copied();
    let passed_first = members.values().next().copied().unwrap_or(0);
    let ever: BTreeSet<usize> = of("average_gradients").map(|step| step.rank).collect();

    let computed = count("compute_gradients");
    let averaged = count("average_gradients");
    let batches = averaged * job.batches_per_worker as u64 / settings.rounds(job) as u64;
    let mut total = puts(job.workers as u64, p);
    total += gets(computed, p);
    let texts = Texts::nominal(job, settings, sizes);
    total += stored_gradients(settings, computed, p, texts);
    total += averaging(settings, averaged, batches, p, texts);
    total += momentum(settings, averaged, ever.len() as u64, p);
    for step in of("aggregate_gradients") {
        let at = (step.epoch, step.batch);
        let passed = members.get(&at).copied().unwrap_or(0);
        let first = u64::from(opening == Some(at));
        total += gets(passed, p);
        total += aggregation(settings, 1, first, passed, p);
    }
    let updated = count("update_model");
    total += match settings.update {
        Update::InStore => in_store(updated),
        Update::Fetch => update_by_fetch(updated, passed_first, p, has_momentum),
    };
    total += gets(count("check_convergence"), p);
    Ok(total)
}

fn stored_gradients(settings: &Settings, batches: u64, p: u64, texts: Texts) -> Traffic {
    match settings.gradient_format {
        GradientFormat::Binary => puts(batches, p),
        GradientFormat::Json => Traffic {
            puts: batches,
            bytes_up: texts.gradients,
            ..Traffic::default()
        },
    }
}

fn averaging(settings: &Settings, functions: u64, batches: u64, p: u64, texts: Texts) -> Traffic {
    match (settings.averaging, settings.gradient_format) {
        // They were added as they were put.
        (Averaging::OnArrival, _) => Traffic::default(),
        (Averaging::InStore, GradientFormat::Binary) => in_store(functions),
        (Averaging::InStore, GradientFormat::Json) => Traffic {
            bytes_down: texts.averages,
            ..sum([in_store(functions), puts(functions, p)])
        },
        (Averaging::Fetch, GradientFormat::Binary) => sum([gets(batches, p), puts(functions, p)]),
        (Averaging::Fetch, GradientFormat::Json) => Traffic {
            gets: batches,
            bytes_down: texts.gradients,
            ..puts(functions, p)
        },
    }
}

/// Traffic of worker momentum in so many functions, of which `first` find none before.
fn momentum(settings: &Settings, functions: u64, first: u64, p: u64) -> Traffic {
    if settings.worker_momentum == 0.0 {
        return Traffic::default();
    }
    let found = (2 * functions).saturating_sub(first);
    sum([gets(found, p), puts(2 * functions, p)])
}

/// Traffic of the aggregation of `w` averages beside these, in so many functions, of which
/// `first` find no centre. The store's own average is there already, unless it is a sum.
fn aggregation(settings: &Settings, functions: u64, first: u64, w: u64, p: u64) -> Traffic {
    if !settings.is_robust() {
        return puts(functions, p);
    }
    match settings.robust_at {
        RobustAt::Function if settings.has_centre() => {
            let found = functions.saturating_sub(first);
            sum([puts(functions, p), gets(found, p)])
        }
        RobustAt::Function => puts(functions, p),
        RobustAt::Store => {
            let own = u64::from(settings.averaging == Averaging::OnArrival);
            let moved = functions * (w + own).saturating_sub(1);
            sum([puts(moved, p), in_store(functions)])
        }
    }
}

fn barrier(by: BarrierBy, functions: u64, w: u64) -> Traffic {
    let others = functions * w.saturating_sub(1);
    match by {
        BarrierBy::Poll => messages(functions, 0, TOKEN_BYTES),
        BarrierBy::Push => messages(others, others, TOKEN_BYTES),
    }
}

fn update_by_fetch(functions: u64, w: u64, p: u64, has_momentum: bool) -> Traffic {
    let model = [gets(2 * functions, p), puts(functions, p)];
    if !has_momentum {
        return sum(model);
    }
    let found = functions.saturating_sub(w);
    sum(model
        .into_iter()
        .chain([puts(functions, p), gets(found, p)]))
}
