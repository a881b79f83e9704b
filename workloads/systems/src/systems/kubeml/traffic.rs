use std::collections::BTreeMap;

use epochcost_channels::Traffic;

use super::message::{
    GO_ON_BYTES, HELD_OUT_BYTES, INITIALISED_BYTES, QUERY_BYTES, REPORT_BYTES, VALIDATION_BYTES,
};
use super::split::Split;
use super::{MergeBy, Settings, TRAIN};
use crate::contract::state_dict::{Kind, Sums, state_dict};
use crate::{Job, Result, Sizes, StepRecord};

/// Moves of one kind of tensors in a job: every term of [`traffic()`].
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    sets: u64,
    gets: u64,
    merges_in_store: u64,
}

/// Functions of each epoch: W, or as the steps of a trial record.
fn parallelism(job: &Job, settings: &Settings, steps: &[&StepRecord]) -> Vec<usize> {
    if settings.is_static {
        return vec![job.workers; job.epochs];
    }
    let mut ranks: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
    for step in steps.iter().filter(|step| step.function == TRAIN) {
        let of_epoch = ranks.entry(step.epoch).or_default();
        of_epoch.insert(step.rank, step.alike as usize);
    }
    if ranks.is_empty() {
        vec![job.workers; job.epochs]
    } else {
        ranks.values().map(|alike| alike.values().sum()).collect()
    }
}

/// Copies of the model that move in a trial.
fn copies(job: &Job, settings: &Settings, parallelism: &[usize]) -> Moved {
    let mut moved = Moved {
        sets: 1,
        gets: 1,
        merges_in_store: 0,
    };
    for (epoch, functions) in parallelism.iter().enumerate() {
        let split = Split::new(job, settings, *functions);
        let (intervals, merges) = (split.intervals() as u64, split.merges() as u64);
        moved.gets += intervals;
        moved.sets += intervals;
        match settings.merge_by {
            MergeBy::Job => {
                moved.gets += intervals;
                moved.sets += merges;
            }
            MergeBy::Store => moved.merges_in_store += merges,
        }
        if job.evaluates_after(epoch) {
            moved.gets += validators(job, settings, *functions) as u64;
        }
    }
    moved
}

/// Functions that have a document of the test split.
fn validators(job: &Job, settings: &Settings, functions: usize) -> usize {
    functions.min(Split::of(job.data.test_samples, settings, functions).documents())
}

fn tensors(moved: Moved, kind: Kind) -> Traffic {
    Traffic {
        puts: moved.sets * kind.entries,
        gets: moved.gets * kind.entries,
        in_store: moved.merges_in_store * kind.entries,
        bytes_up: moved.sets * kind.elements * 4,
        bytes_down: moved.gets * kind.elements * 4,
        ..Traffic::default()
    }
}

fn messages(job: &Job, settings: &Settings, parallelism: &[usize]) -> Traffic {
    let (mut messages, mut bytes) = (1, INITIALISED_BYTES);
    for (epoch, functions) in parallelism.iter().enumerate() {
        let split = Split::new(job, settings, *functions);
        let calls = *functions as u64;
        let intervals = split.intervals() as u64;
        messages += calls + 2 * intervals - calls;
        bytes += calls * QUERY_BYTES + intervals * REPORT_BYTES;
        bytes += (intervals - calls) * GO_ON_BYTES;
        if job.evaluates_after(epoch) {
            let validators = validators(job, settings, *functions) as u64;
            messages += 2 * validators;
            let held_out = match job.data.validation_samples {
                0 => 0,
                _ => HELD_OUT_BYTES,
            };
            bytes += validators * (QUERY_BYTES + VALIDATION_BYTES + held_out);
        }
    }
    Traffic {
        messages,
        deliveries: messages,
        bytes_up: bytes,
        bytes_down: bytes,
        ..Traffic::default()
    }
}

/// The exchange of one trial, exactly: what its parameters and its messages
/// take. Of the L tensors of the state dictionary with M bytes, L' tensors
/// with P bytes are parameters; an epoch has N functions, function f has J_f
/// intervals, J is the largest of those.
///
/// | | puts | gets | messages |
/// | --- | --- | --- | --- |
/// | init, once | L' | L' | 1 |
/// | intervals | L'ΣJ_f | L'ΣJ_f | N + ΣJ_f + (ΣJ_f − N) |
/// | merges by the job | L'J | L'ΣJ_f | |
/// | validation | | L'N | 2N |
///
/// Where all functions have J intervals, an epoch's intervals and merges are
/// J(3N + 1)P bytes; with [`state_traffic()`] J(3N + 1)M. Merged by the store,
/// the third line is L'J commands there instead. The message of the first has
/// [`INITIALISED_BYTES`]; those of the second are queries ([`QUERY_BYTES`]), reports ([`REPORT_BYTES`]) and answers to all
/// but the last report ([`GO_ON_BYTES`]); those of the last, queries and
/// [`VALIDATION_BYTES`], and [`HELD_OUT_BYTES`] more where the job has a validation split;
/// each is taken once.
///
/// With `static: false`, N is what `steps` record for each epoch.
///
/// # Errors
/// When `sizes` are not those of the job's model.
pub fn traffic(
    job: &Job,
    settings: &Settings,
    sizes: Sizes,
    steps: &[&StepRecord],
) -> Result<Traffic> {
    let parallelism = parallelism(job, settings, steps);
    let sums = Sums::of(&state_dict(&job.model, sizes)?);
    let mut total = tensors(copies(job, settings, &parallelism), sums.parameters);
    total += messages(job, settings, &parallelism);
    Ok(total)
}

/// Returns the traffic of the statistics and counters of batch norm: metered
/// apart, as state.
///
/// # Errors
/// When `sizes` are not those of the job's model.
pub fn state_traffic(
    job: &Job,
    settings: &Settings,
    sizes: Sizes,
    steps: &[&StepRecord],
) -> Result<Traffic> {
    let moved = copies(job, settings, &parallelism(job, settings, steps));
    let sums = Sums::of(&state_dict(&job.model, sizes)?);
    let mut total = tensors(moved, sums.statistics);
    total += tensors(moved, sums.counters);
    Ok(total)
}
