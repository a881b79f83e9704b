//! Measured rows: from tables, from logs, and from runs on AWS.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use epochcost_platform::{Site, site_of};
use epochcost_record::RunDirectory;
use epochcost_simulator::profile::{Constant, Profile};
use epochcost_simulator::{Operation, Probe, ProbeClient};
use epochcost_spec::chain::chain;
use epochcost_spec::metering::report_line::Report;
use epochcost_spec::published::{PublishedError, Row as Line};
use epochcost_systems::{Host, StepRecord};
use jiff::civil::Date;

use super::super::cells::{self, Setting, Statistic};
use super::super::file::Repeat;
use super::super::rounds::{self, ARCHITECTURE};
use super::linear::{Row, What};
use crate::error::{Error, Result};

/// Start of Lambda's line on an invocation.
const REPORT: &str = "REPORT RequestId: ";
/// Most operations of a stream that are simulated; also of a row that does not say how many were measured.
const MOST_ROUNDS: usize = 20;
/// Length of a date.
const DATE: usize = 10;

/// Measurements that were read, each of which counts once.
#[derive(Default)]
pub(super) struct Seen {
    /// Lines of logs: a request that was repeated has other durations.
    reports: BTreeSet<String>,
    /// Tables and runs, by what they hold, with their places.
    wholes: BTreeMap<String, String>,
    /// Lines that were there before.
    pub(super) repeated: usize,
}

impl Seen {
    /// Refuses a table or a run that was read.
    fn whole(&mut self, held: String, place: &str) -> Result<()> {
        match self.wholes.insert(held, place.to_owned()) {
            None => Ok(()),
            Some(before) => Err(Error::Usage {
                problem: format!(
                    "{place} has the measurements of {before}, which would count twice"
                ),
                remedy: "give each once".to_owned(),
            }),
        }
    }
}

/// Reads measured rows; `client` is that of functions whose log a file is.
///
/// # Errors
/// When there is nothing at `path` that can be used, with the line where one is to blame.
pub(super) fn read(
    path: &Path,
    client: ProbeClient,
    profile: &Profile<Constant>,
    seen: &mut Seen,
) -> Result<Vec<Row>> {
    if path.is_dir() {
        return of_run(path, seen);
    }
    let text = std::fs::read_to_string(path).map_err(|source| Error::Io {
        doing: format!("read {}", path.display()),
        source,
    })?;
    let rows = if text.contains(REPORT) {
        of_log(path, &text, client, seen)?
    } else {
        let rows = of_table(path, &text)?;
        seen.whole(text, &path.display().to_string())?;
        rows
    };
    let is_interpreted = |row: &&Row| match &row.what {
        What::Operation(probe) => probe.client != ProbeClient::Compiled,
        What::Round(line) => line.is_interpreted(),
    };
    match rows.iter().find(is_interpreted) {
        Some(row) if profile.interpreted.is_none() => Err(Error::Usage {
            problem: format!(
                "{}: the client is interpreted, and the profile {} describes none",
                row.place, profile.name
            ),
            remedy: "name another profile with --profile".to_owned(),
        }),
        _ => Ok(rows),
    }
}

/// Reads a table in the format of validations: of cells, or of rounds of aggregation.
fn of_table(path: &Path, text: &str) -> Result<Vec<Row>> {
    let usage = |problem: String| Error::Usage {
        problem,
        remedy:
            "docs/PROFILES.md, Calibration, describes the columns; `epochcost profile calibrate \
                 --probe` prints them"
                .to_owned(),
    };
    let head = text.lines().next().unwrap_or_default();
    if head.split(',').any(|column| column.trim() == ARCHITECTURE) {
        return rounds::measured(path).map_err(|error| usage(chain(&error)));
    }
    let cells = cells::read(path, repeat).map_err(|error| usage(chain(&error)))?;
    if cells.is_empty() {
        return Err(usage(format!("{}: there is no row", path.display())));
    }
    let constants = Arc::default();
    let row = |cell: cells::Cell| match cell.setting {
        Setting::Operation(probe) => Ok(Row {
            series: cell.series,
            what: What::Operation(probe),
            statistic: cell.statistic,
            measured: cell.measured,
            place: cell.place,
            constants: Arc::clone(&constants),
        }),
        Setting::Row(id) => Err(usage(format!(
            "{}: `row:{id}` is of an experiment, and a calibration takes single operations",
            cell.place
        ))),
    };
    cells.into_iter().map(row).collect()
}

/// Returns how often a row is simulated: as often as it was measured, up to a limit.
fn repeat(row: Line<'_>) -> Result<Repeat, PublishedError> {
    let whole = |column: &str, text: &str, absent: usize| match text.parse::<usize>() {
        _ if text.is_empty() => Ok(absent),
        Ok(count) if count > 0 => Ok(count),
        _ => Err(cells::unknown(row, column, text)),
    };
    let count = |column: &str| whole(column, row.text(column)?, 1);
    let at_once = count("functions")?.saturating_mul(count("streams")?);
    let measured = row.optional("n").unwrap_or_default();
    let measured = whole("n", measured, at_once.saturating_mul(MOST_ROUNDS))?;
    Ok(Repeat {
        functions: None,
        rounds: (measured / at_once).clamp(1, MOST_ROUNDS),
    })
}

/// Figures of one setting: series, operation, memory in MB, functions at once, bytes.
type Key = (String, Operation, u32, usize, u64);

/// Returns a row for each setting.
fn rows(
    seconds: BTreeMap<Key, Vec<f64>>,
    client: ProbeClient,
    statistic: Statistic,
    place: &str,
) -> Vec<Row> {
    let row = |((series, operation, memory_mb, functions, bytes), seconds): (Key, Vec<f64>)| Row {
        series,
        what: What::Operation(Probe {
            operation,
            client,
            memory_mb,
            functions,
            streams: 1,
            bytes,
            rounds: (seconds.len() / functions).clamp(1, MOST_ROUNDS),
            is_new_connection: false,
        }),
        statistic,
        measured: statistic.of(&seconds),
        place: place.to_owned(),
        constants: Arc::default(),
    };
    seconds.into_iter().map(row).collect()
}

/// Reads Init Durations: their median by day, where lines begin with one, and memory size.
fn of_log(path: &Path, text: &str, client: ProbeClient, seen: &mut Seen) -> Result<Vec<Row>> {
    let name = path.display().to_string();
    let mut seconds: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    let before = seen.repeated;
    for (number, line) in text.lines().enumerate() {
        let Some(start) = line.find(REPORT) else {
            continue;
        };
        // Exports as JSON write a tab as two characters, and end the text with a quotation mark.
        let report = line[start..].replace("\\t", "\t").replace("\\n", "\n");
        let report = report.split('"').next().unwrap_or_default();
        if !seen.reports.insert(report.trim().to_owned()) {
            seen.repeated += 1;
            continue;
        }
        let report = Report::of_lambda(report).map_err(|error| Error::Usage {
            problem: format!("{name}:{}: {error}", number + 1),
            remedy: "give the log as CloudWatch Logs exports it, one event per line".to_owned(),
        })?;
        let Some(init_ms) = report.init_ms else {
            continue;
        };
        let day = line.get(..DATE).and_then(|day| day.parse::<Date>().ok());
        let series = day.map_or_else(|| name.clone(), |day| day.to_string());
        let key = (series, Operation::Init, report.memory_mb, 1, 0);
        seconds.entry(key).or_default().push(init_ms / 1e3);
    }
    if seconds.is_empty() && seen.repeated == before {
        return Err(Error::Usage {
            problem: format!("{name}: no REPORT line has an Init Duration"),
            remedy: "export the log of cold starts, too: that of a new version of the function"
                .to_owned(),
        });
    }
    Ok(rows(seconds, client, Statistic::Quantile(0.5), &name))
}

/// Reads the starts of a run on AWS, and its steps that wrote or read a single object: what they
/// sent and how long it took is recorded for stages, and not for requests.
fn of_run(path: &Path, seen: &mut Seen) -> Result<Vec<Row>> {
    let run = RunDirectory::open_whole(path)?;
    let place = path.display().to_string();
    let platform = &run.manifest().platform;
    if !site_of(platform).is_some_and(Site::is_cloud) {
        return Err(Error::Usage {
            problem: format!("{place} ran on the platform `{platform}`, which is no cloud"),
            remedy: "calibrate by it alone: a local run gives a compute profile".to_owned(),
        });
    }
    if run.manifest().rehearsed {
        return Err(Error::Usage {
            problem: format!(
                "{place} is a rehearsal: servers that stand in for {platform}'s answered"
            ),
            remedy: "calibrate by a run on the platform itself".to_owned(),
        });
    }
    let series = run.manifest().run_id.clone();
    seen.whole(series.clone(), &place)?;
    let mut inits: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    let mut functions = BTreeSet::new();
    for row in run.invocations()? {
        let call = row.invocation;
        if call.host == Host::Function {
            functions.insert(call.function.clone());
        }
        if let (Host::Function, Some(init_ms), Some(memory_mb), None) =
            (call.host, call.init_ms, call.memory_mb, call.error)
        {
            let key = (series.clone(), Operation::Init, memory_mb, 1, 0);
            inits.entry(key).or_default().push(init_ms / 1e3);
        }
    }
    let mut requests: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    for trial in run.trials()? {
        let planned = run.rows().iter().find(|row| row.row.id == trial.id.row);
        let Some(planned) = planned else { continue };
        let mut steps = run.steps(&trial)?;
        steps.retain(|step| functions.contains(&step.function));
        for step in steps {
            let own = planned.row.function_memory_mb.get(&step.function);
            let memory_mb = own.copied().unwrap_or(planned.row.memory_mb);
            let workers = planned.row.job.workers;
            for (operation, bytes, took_s) in single(&step) {
                let key = (series.clone(), operation, memory_mb, workers, bytes);
                requests.entry(key).or_default().push(took_s);
            }
        }
    }
    let client = ProbeClient::Compiled;
    let mut all = rows(inits, client, Statistic::Quantile(0.5), &place);
    all.extend(rows(requests, client, Statistic::Mean, &place));
    if all.is_empty() {
        return Err(Error::Usage {
            problem: format!(
                "{place}: no cold start of a function, and no step with a single request"
            ),
            remedy: "measure single operations: `epochcost profile calibrate --probe`".to_owned(),
        });
    }
    Ok(all)
}

/// Returns the single write and the single read of a step over the object store, with bytes and seconds.
fn single(step: &StepRecord) -> Vec<(Operation, u64, f64)> {
    let (exchange, state) = (step.traffic.exchange, step.traffic.state);
    let (own, others) = (exchange.objects, state.objects);
    let is_alone = exchange.tensors == Default::default() && exchange.queue == Default::default();
    let has_waited = step.waits != Default::default() || own.missed_gets > 0;
    let mut all = Vec::new();
    if is_alone && own.puts == 1 && others.puts == 0 && step.seconds.put > 0.0 {
        all.push((Operation::Put, own.bytes_up, step.seconds.put));
    }
    if is_alone && own.gets == 1 && others.gets == 0 && !has_waited && step.seconds.get > 0.0 {
        all.push((Operation::Get, own.bytes_down, step.seconds.get));
    }
    all
}
