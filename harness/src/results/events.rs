//! `events/<trial>.parquet`: one row per step, every nested field a column.

use std::fs::File;
use std::path::Path;

use epochcost_channels::Traffic;
use epochcost_systems::{
    ChannelTraffic, PurposeTraffic, Stage, StageSeconds, StageUsage, StageUsages, StepRecord,
};
use polars::prelude::{
    Column, DataFrame, NamedFrom, ParquetReader, ParquetWriter, PolarsResult, SerReader, Series,
};

use super::ResultsError;
use super::jsonl::replace_with;

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

const USAGES: [Field<StageUsage, f64>; 2] = [
    ("cpu_s", |u| &mut u.cpu_s),
    ("resident_mb", |u| &mut u.resident_mb),
];

fn usage_column(stage: Stage, name: &str) -> String {
    format!("{}_{name}", stage.as_str())
}

/// Writes `steps` to a new file at `path`, whole or not at all.
pub(super) fn write(path: &Path, steps: &[&StepRecord]) -> Result<(), ResultsError> {
    let encode = |error: polars::error::PolarsError| ResultsError::Encode {
        path: path.to_path_buf(),
        reason: error.to_string(),
    };
    let mut frame = frame(steps).map_err(encode)?;
    replace_with(path, |file| {
        let written = ParquetWriter::new(file).finish(&mut frame);
        written.map(|_| ()).map_err(encode)
    })
}

/// Reads the steps back, in the order in which they were written.
pub(super) fn read(path: &Path) -> Result<Vec<StepRecord>, ResultsError> {
    let file = File::open(path).map_err(ResultsError::io("open", path))?;
    let damaged = |error: polars::error::PolarsError| ResultsError::Damaged {
        place: path.display().to_string(),
        reason: error.to_string(),
    };
    let frame = ParquetReader::new(file).finish().map_err(damaged)?;
    steps(&frame).map_err(damaged)
}

fn frame(steps: &[&StepRecord]) -> PolarsResult<DataFrame> {
    let mut columns = identity_columns(steps);
    // Nested fields, a column each.
    for (stage, seconds) in STAGES {
        let values: Vec<f64> = steps
            .iter()
            .map(|step| *seconds(&mut step.seconds.clone()))
            .collect();
        columns.push(column(format!("{stage}_s"), &values));
    }
    for stage in Stage::ALL {
        for (name, value) in USAGES {
            let of = |step: &&StepRecord| {
                let usage = step.usage.get(&stage);
                usage.map(|usage| *value(&mut usage.clone()))
            };
            let values: Vec<Option<f64>> = steps.iter().map(of).collect();
            columns.push(column(usage_column(stage, name), &values));
        }
    }
    for (purpose, channels) in PURPOSES {
        for (channel, traffic) in CHANNELS {
            for (count, value) in COUNTS {
                let values: Vec<u64> = steps
                    .iter()
                    .map(|step| *value(traffic(channels(&mut step.traffic.clone()))))
                    .collect();
                columns.push(column(format!("{purpose}_{channel}_{count}"), &values));
            }
        }
    }
    DataFrame::new(steps.len(), columns)
}

fn identity_columns(steps: &[&StepRecord]) -> Vec<Column> {
    let functions: Vec<&str> = steps.iter().map(|step| step.function.as_str()).collect();
    let ranks: Vec<u64> = steps.iter().map(|step| step.rank as u64).collect();
    let epochs: Vec<u64> = steps.iter().map(|step| step.epoch as u64).collect();
    let batches: Vec<Option<u64>> = steps
        .iter()
        .map(|step| step.batch.map(|batch| batch as u64))
        .collect();
    let starts: Vec<f64> = steps.iter().map(|step| step.started_s).collect();
    let losses: Vec<Option<f64>> = steps.iter().map(|step| step.loss).collect();
    let densities: Vec<Option<f64>> = steps.iter().map(|step| step.update_density).collect();
    let stalenesses: Vec<Option<f64>> = steps.iter().map(|step| step.staleness).collect();
    let digests: Vec<Option<&str>> = steps
        .iter()
        .map(|step| step.parameters_digest.as_deref())
        .collect();
    vec![
        column("function", &functions),
        column("rank", &ranks),
        column("epoch", &epochs),
        column("batch", &batches),
        column("started_s", &starts),
        column("loss", &losses),
        column("update_density", &densities),
        column("staleness", &stalenesses),
        column("parameters_digest", &digests),
    ]
}

fn column<T>(name: impl Into<String>, values: &[T]) -> Column
where
    Series: for<'a> NamedFrom<&'a [T], [T]>,
{
    let values: &[T] = values;
    Series::new(name.into().into(), values).into()
}

fn steps(frame: &DataFrame) -> PolarsResult<Vec<StepRecord>> {
    let text = |name: &str| -> PolarsResult<Vec<Option<String>>> {
        Ok(frame
            .column(name)?
            .str()?
            .iter()
            .map(|value| value.map(str::to_owned))
            .collect())
    };
    let whole = |name: &str| -> PolarsResult<Vec<Option<u64>>> {
        Ok(frame.column(name)?.u64()?.iter().collect())
    };
    let real = |name: &str| -> PolarsResult<Vec<Option<f64>>> {
        Ok(frame.column(name)?.f64()?.iter().collect())
    };
    // Columns that identify a step.
    let (functions, digests) = (text("function")?, text("parameters_digest")?);
    let (ranks, epochs, batches) = (whole("rank")?, whole("epoch")?, whole("batch")?);
    let (starts, losses, densities) = (real("started_s")?, real("loss")?, real("update_density")?);
    // Runs of earlier versions do not have these columns.
    let later = |name: &str| match frame.column(name) {
        Ok(_) => real(name),
        Err(_) => Ok(vec![None; frame.height()]),
    };
    let stalenesses = later("staleness")?;
    let mut steps: Vec<StepRecord> = (0..frame.height())
        .map(|i| StepRecord {
            function: functions[i].clone().unwrap_or_default(),
            rank: ranks[i].unwrap_or_default() as usize,
            epoch: epochs[i].unwrap_or_default() as usize,
            batch: batches[i].map(|batch| batch as usize),
            started_s: starts[i].unwrap_or_default(),
            seconds: StageSeconds::default(),
            traffic: PurposeTraffic::default(),
            loss: losses[i],
            usage: StageUsages::new(),
            update_density: densities[i],
            staleness: stalenesses[i],
            parameters_digest: digests[i].clone(),
        })
        .collect();
    // Nested fields, a column each.
    for (stage, seconds) in STAGES {
        for (step, value) in steps.iter_mut().zip(real(&format!("{stage}_s"))?) {
            *seconds(&mut step.seconds) = value.unwrap_or_default();
        }
    }
    for stage in Stage::ALL {
        for (name, value) in USAGES {
            let values = later(&usage_column(stage, name))?;
            for (step, used) in steps.iter_mut().zip(values) {
                if let Some(used) = used {
                    *value(step.usage.entry(stage).or_default()) = used;
                }
            }
        }
    }
    for (purpose, channels) in PURPOSES {
        for (channel, traffic) in CHANNELS {
            for (count, value) in COUNTS {
                let values = whole(&format!("{purpose}_{channel}_{count}"))?;
                for (step, counted) in steps.iter_mut().zip(values) {
                    *value(traffic(channels(&mut step.traffic))) = counted.unwrap_or_default();
                }
            }
        }
    }
    Ok(steps)
}
