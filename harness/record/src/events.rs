//! `events/<trial>.parquet`: one row per step, every nested field a column.

use std::path::Path;

use epochcost_channels::{Stored, Traffic};
use epochcost_spec::hash::sha256_hex;
use epochcost_systems::{
    ChannelTraffic, Polls, PurposeTraffic, Stage, StageSeconds, StageUsage, StageUsages,
    StepRecord, Waits,
};

use super::ResultsError;
use super::check::read_checked;
use super::parquet::{self, Column, Table, Values};
use super::rows::TrialId;
use super::whole::replace;

type Field<T, V> = (&'static str, fn(&mut T) -> &mut V);

const STAGES: [Field<StageSeconds, f64>; 9] = [
    ("fetch_dataset", |s| &mut s.fetch_dataset),
    ("compute_gradients", |s| &mut s.compute_gradients),
    ("serialise", |s| &mut s.serialise),
    ("put", |s| &mut s.put),
    ("wait", |s| &mut s.wait),
    ("get", |s| &mut s.get),
    ("aggregate", |s| &mut s.aggregate),
    ("update_model", |s| &mut s.update_model),
    ("detect_convergence", |s| &mut s.detect_convergence),
];

const PURPOSES: [Field<PurposeTraffic, ChannelTraffic>; 3] = [
    ("exchange", |t| &mut t.exchange),
    ("dataset", |t| &mut t.dataset),
    ("state", |t| &mut t.state),
];

const CHANNELS: [Field<ChannelTraffic, Traffic>; 3] = [
    ("objects", |t| &mut t.objects),
    ("tensors", |t| &mut t.tensors),
    ("queue", |t| &mut t.queue),
];

const COUNTS: [Field<Traffic, u64>; 11] = [
    ("puts", |t| &mut t.puts),
    ("gets", |t| &mut t.gets),
    ("missed_gets", |t| &mut t.missed_gets),
    ("lists", |t| &mut t.lists),
    ("deletes", |t| &mut t.deletes),
    ("messages", |t| &mut t.messages),
    ("deliveries", |t| &mut t.deliveries),
    ("polls", |t| &mut t.polls),
    ("in_store", |t| &mut t.in_store),
    ("bytes_up", |t| &mut t.bytes_up),
    ("bytes_down", |t| &mut t.bytes_down),
];

const WAITS: [Field<Waits, Polls>; 3] = [
    ("gets", |w| &mut w.gets),
    ("lists", |w| &mut w.lists),
    ("counts", |w| &mut w.counts),
];

const POLL_SECONDS: [Field<Polls, f64>; 2] =
    [("s", |p| &mut p.seconds), ("paused_s", |p| &mut p.paused_s)];

const USAGES: [Field<StageUsage, f64>; 2] = [
    ("cpu_s", |u| &mut u.cpu_s),
    ("resident_mb", |u| &mut u.resident_mb),
];

/// Storage of objects.
const REMOVED_BYTES: &str = "removed_bytes";
const STORED_BYTE_S: &str = "stored_byte_s";

/// Columns that every file has.
const IDENTIFYING: [&str; 5] = ["function", "rank", "epoch", "batch", "started_s"];

fn usage_column(stage: Stage, name: &str) -> String {
    format!("{}_{name}", stage.as_str())
}

/// Writes `steps` to a new file at `path`, whole or not at all. Returns its SHA-256.
///
/// The file is made in memory first: errors of the disk keep their own text.
pub(super) fn write(
    path: &Path,
    trial: &TrialId,
    steps: &[&StepRecord],
) -> Result<String, ResultsError> {
    let mut content = Vec::new();
    let encoded = parquet::write(&mut content, &columns(trial, steps));
    encoded.map_err(ResultsError::encode(path))?;
    replace(path, &content)?;
    Ok(sha256_hex(&content))
}

/// Reads the steps back, in the order in which they were written. A file with another hash
/// than `sha256` is refused before it is decoded.
pub(super) fn read(path: &Path, sha256: &str) -> Result<Vec<StepRecord>, ResultsError> {
    let content = read_checked(path, sha256)?;
    let table = Table::read(content).map_err(|error| ResultsError::damaged(path, error))?;
    steps(&table).map_err(|error| ResultsError::damaged(path, error))
}

/// Every field of the steps as a column, but for those that no step has or counted.
fn columns(trial: &TrialId, steps: &[&StepRecord]) -> Vec<Column> {
    let mut columns = identity_columns(trial, steps);
    if steps.iter().any(|step| step.alike > 1) {
        columns.push(column("alike", wholes(steps, |step| Some(step.alike))));
    }
    // What may be unknown.
    let mut known = |name: String, values: Values| {
        if values.any_known() {
            columns.push(column(name, values));
        }
    };
    known("loss".into(), reals(steps, |step| step.loss));
    known(
        "update_density".into(),
        reals(steps, |step| step.update_density),
    );
    known("staleness".into(), reals(steps, |step| step.staleness));
    let digests = texts(steps, |step| step.parameters_digest.clone());
    known("parameters_digest".into(), digests);
    for stage in Stage::ALL {
        for (name, value) in USAGES {
            let values = reals(steps, |step| {
                let usage = step.usage.get(&stage);
                usage.map(|usage| *value(&mut usage.clone()))
            });
            known(usage_column(stage, name), values);
        }
    }
    // Nested fields, a column each.
    let mut counted = |name: String, values: Values| {
        if values.any_counts() {
            columns.push(column(name, values));
        }
    };
    for (stage, seconds) in STAGES {
        let values = reals(steps, |step| Some(*seconds(&mut step.seconds.clone())));
        counted(format!("{stage}_s"), values);
    }
    for (kind, polls) in WAITS {
        let requests = wholes(steps, |step| Some(polls(&mut step.waits.clone()).requests));
        counted(format!("wait_{kind}_requests"), requests);
        for (name, value) in POLL_SECONDS {
            let values = reals(steps, |step| Some(*value(polls(&mut step.waits.clone()))));
            counted(format!("wait_{kind}_{name}"), values);
        }
    }
    for (purpose, channels) in PURPOSES {
        for (channel, traffic) in CHANNELS {
            // Copied out once: what a step sent for all purposes is 800 bytes.
            let own = |step: &&StepRecord| *traffic(channels(&mut step.traffic.clone()));
            let mut own: Vec<Traffic> = steps.iter().map(own).collect();
            if own.iter().all(|own| *own == Traffic::default()) {
                continue;
            }
            for (count, value) in COUNTS {
                let values = own.iter_mut().map(|own| Some(*value(own)));
                counted(
                    format!("{purpose}_{channel}_{count}"),
                    Values::Whole(values.collect()),
                );
            }
        }
    }
    let removed = wholes(steps, |step| Some(step.stored.removed_bytes));
    counted(REMOVED_BYTES.into(), removed);
    let stored = reals(steps, |step| Some(step.stored.byte_s));
    counted(STORED_BYTE_S.into(), stored);
    columns
}

/// The columns that identify a step; they are always there.
fn identity_columns(trial: &TrialId, steps: &[&StepRecord]) -> Vec<Column> {
    let batch = |step: &StepRecord| step.batch.map(|batch| batch as u64);
    vec![
        column("row", texts(steps, |_| Some(trial.row.clone()))),
        column("trial", wholes(steps, |_| Some(trial.trial as u64))),
        column("function", texts(steps, |step| Some(step.function.clone()))),
        column("rank", wholes(steps, |step| Some(step.rank as u64))),
        column("epoch", wholes(steps, |step| Some(step.epoch as u64))),
        column("batch", wholes(steps, batch)),
        column("started_s", reals(steps, |step| Some(step.started_s))),
    ]
}

fn column(name: impl Into<String>, values: Values) -> Column {
    let name = name.into();
    Column { name, values }
}

fn texts(steps: &[&StepRecord], value: impl Fn(&StepRecord) -> Option<String>) -> Values {
    Values::Text(steps.iter().map(|step| value(step)).collect())
}

fn wholes(steps: &[&StepRecord], value: impl Fn(&StepRecord) -> Option<u64>) -> Values {
    Values::Whole(steps.iter().map(|step| value(step)).collect())
}

fn reals(steps: &[&StepRecord], value: impl Fn(&StepRecord) -> Option<f64>) -> Values {
    Values::Real(steps.iter().map(|step| value(step)).collect())
}

/// Returns a row's value of a column, where there are both.
fn at<T>(column: Option<&Vec<Option<T>>>, row: usize) -> Option<&T> {
    column?.get(row)?.as_ref()
}

/// Sets what a column has values of, step by step.
fn set<T: Copy>(
    steps: &mut [StepRecord],
    column: Option<&Vec<Option<T>>>,
    field: impl Fn(&mut StepRecord, T),
) {
    for (step, value) in steps.iter_mut().zip(column.into_iter().flatten()) {
        if let Some(value) = *value {
            field(step, value);
        }
    }
}

/// The steps of a table; the error names a column that is missing or of another type. What no
/// step used has no column.
fn steps(table: &Table) -> Result<Vec<StepRecord>, String> {
    let text = |name: &str| match table.values(name) {
        None => Ok(None),
        Some(Values::Text(values)) => Ok(Some(values)),
        Some(_) => Err(format!("column `{name}` does not hold text")),
    };
    let whole = |name: &str| match table.values(name) {
        None => Ok(None),
        Some(Values::Whole(values)) => Ok(Some(values)),
        Some(_) => Err(format!("column `{name}` does not hold whole numbers")),
    };
    let real = |name: &str| match table.values(name) {
        None => Ok(None),
        Some(Values::Real(values)) => Ok(Some(values)),
        Some(_) => Err(format!("column `{name}` does not hold numbers")),
    };
    // Columns that identify a step.
    if let Some(name) = IDENTIFYING.iter().find(|name| table.values(name).is_none()) {
        return Err(format!("there is no column `{name}`"));
    }
    let (functions, digests) = (text("function")?, text("parameters_digest")?);
    let (ranks, epochs, batches) = (whole("rank")?, whole("epoch")?, whole("batch")?);
    let (starts, losses, densities) = (real("started_s")?, real("loss")?, real("update_density")?);
    let (stalenesses, alike) = (real("staleness")?, whole("alike")?);
    let mut steps: Vec<StepRecord> = (0..table.rows())
        .map(|i| StepRecord {
            function: at(functions, i).cloned().unwrap_or_default(),
            rank: at(ranks, i).copied().unwrap_or_default() as usize,
            alike: at(alike, i).copied().unwrap_or(1),
            epoch: at(epochs, i).copied().unwrap_or_default() as usize,
            batch: at(batches, i).map(|batch| *batch as usize),
            started_s: at(starts, i).copied().unwrap_or_default(),
            seconds: StageSeconds::default(),
            traffic: PurposeTraffic::default(),
            stored: Stored::default(),
            loss: at(losses, i).copied(),
            update_density: at(densities, i).copied(),
            staleness: at(stalenesses, i).copied(),
            waits: Waits::default(),
            usage: StageUsages::new(),
            parameters_digest: at(digests, i).cloned(),
        })
        .collect();
    // Nested fields, a column each; most are in no column of a trial.
    for (stage, seconds) in STAGES {
        set(&mut steps, real(&format!("{stage}_s"))?, |step, value| {
            *seconds(&mut step.seconds) = value;
        });
    }
    for (kind, polls) in WAITS {
        let requests = whole(&format!("wait_{kind}_requests"))?;
        set(&mut steps, requests, |step, value| {
            polls(&mut step.waits).requests = value;
        });
        for (name, seconds) in POLL_SECONDS {
            let values = real(&format!("wait_{kind}_{name}"))?;
            set(&mut steps, values, |step, value| {
                *seconds(polls(&mut step.waits)) = value;
            });
        }
    }
    for stage in Stage::ALL {
        for (name, used) in USAGES {
            let values = real(&usage_column(stage, name))?;
            set(&mut steps, values, |step, value| {
                *used(step.usage.entry(stage).or_default()) = value;
            });
        }
    }
    for (purpose, channels) in PURPOSES {
        for (channel, traffic) in CHANNELS {
            for (count, counted) in COUNTS {
                let values = whole(&format!("{purpose}_{channel}_{count}"))?;
                set(&mut steps, values, |step, value| {
                    *counted(traffic(channels(&mut step.traffic))) = value;
                });
            }
        }
    }
    set(&mut steps, whole(REMOVED_BYTES)?, |step, value| {
        step.stored.removed_bytes = value;
    });
    set(&mut steps, real(STORED_BYTE_S)?, |step, value| {
        step.stored.byte_s = value;
    });
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(batch: usize) -> StepRecord {
        StepRecord {
            function: "f".into(),
            rank: 1,
            alike: 1,
            batch: Some(batch),
            started_s: 0.5,
            ..StepRecord::default()
        }
    }

    /// Files of before format 1.4 have no columns of storage: what was written stays from the end of
    /// its step on.
    #[test]
    fn storage_is_read_back_and_may_be_missing() {
        let trial = TrialId {
            row: "allreduce-lenet5".into(),
            trial: 7,
        };
        let mut written = step(0);
        written.seconds.put = 1.5;
        written.traffic.exchange.objects.bytes_up = 100;
        written.stored = Stored {
            removed_bytes: 60,
            byte_s: -3.5,
        };
        for (has_storage, expected) in [(true, -3.5 + 40.0 * 8.0), (false, 100.0 * 8.0)] {
            let mut columns = columns(&trial, &[&written, &step(1)]);
            let is_storage =
                |column: &Column| [REMOVED_BYTES, STORED_BYTE_S].contains(&column.name.as_str());
            columns.retain(|column| has_storage || !is_storage(column));
            let mut content = Vec::new();
            parquet::write(&mut content, &columns).unwrap();
            let table = Table::read(content).unwrap();
            let read = steps(&table).unwrap();
            assert_eq!(read[0] == written, has_storage);
            assert_eq!(read[0].stored_byte_s(10.0), expected);
            // Files of many trials are read together elsewhere: every line names its own.
            let rows = vec![Some("allreduce-lenet5".to_owned()); 2];
            assert!(matches!(table.values("row"), Some(Values::Text(found)) if *found == rows));
            let trials = [Some(7); 2];
            assert!(
                matches!(table.values("trial"), Some(Values::Whole(found)) if *found == trials)
            );
        }
    }
}
