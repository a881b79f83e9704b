//! Profiles of a user's own training, whatever it is written in.
//!
//! The program runs unchanged, once for each batch size on one thread and once on
//! all threads. Python programs find a module on their path that reports the steps of
//! PyTorch's optimizers; any program may report its steps itself, as lines on a pipe.

mod carry;
mod file;
mod launch;
mod lines;
mod points;
mod profile;
mod text;

use std::path::{Path, PathBuf};
use std::time::Duration;

use epochcost_simulator::profile::ComputeProfile;
use epochcost_systems::{Device, find_model};
use serde::Serialize;

use self::launch::{Bench, Failure, Launch, Observed};
use self::lines::Described;
use self::points::{Fitted, Point};
use self::profile::profile;
use self::text::text;
use super::names;
use super::summary::bad_fit;
use crate::error::Error;
use crate::format::{percent, seconds};
use crate::results::{Machine, probe};
use crate::ui::Output;

/// Where the batch size stands in a command.
const BATCH: &str = "{batch}";
/// An interval of a median that is wider than so much of it was not measured on a quiet machine.
const WIDE: f64 = 0.2;
/// Share of waits for a core from which a machine counts as shared.
const SHARED: f64 = 0.05;

/// What is to be profiled.
#[derive(Clone, Copy, Debug)]
pub struct ScriptRequest<'a> {
    /// The program and its arguments.
    pub command: &'a [String],
    /// Batch sizes in the place of `{batch}`; none where it has no such argument.
    pub batches: &'a [usize],
    /// Numbers of threads, 1 among them; 1 and all cores, if there is none.
    pub threads: &'a [usize],
    /// Counted steps of each run.
    pub steps: usize,
    /// Longest time of counted steps of each run.
    pub limit: Duration,
    /// Samples of a step, where the program's report is wrong or missing.
    pub samples_per_step: Option<usize>,
    /// Name of the model; that of the program if left out.
    pub name: Option<&'a str>,
    /// The file to write; one under `results/profiles/` if left out.
    pub out: Option<&'a Path>,
    /// Whether files that are there are replaced.
    pub force: bool,
    /// Whether a bad fit is written.
    pub allows_bad_fit: bool,
    /// Whether times stay as measured, not carried to a vCPU or a T4.
    pub as_measured: bool,
}

/// What is profiled, and where to.
#[derive(Debug)]
pub struct ScriptPlan {
    command: Vec<String>,
    batches: Vec<usize>,
    threads: Vec<usize>,
    steps: usize,
    limit: Duration,
    samples_per_step: Option<usize>,
    name: String,
    out: PathBuf,
    /// Experiment that plans with the profile; none of a model of this program.
    experiment: Option<PathBuf>,
    allows_bad_fit: bool,
    as_measured: bool,
    machine: Machine,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Profiled<'a> {
    file: &'a Path,
    experiment: Option<&'a Path>,
    profile: &'a ComputeProfile,
    points: &'a [Point],
    model: ModelFigures<'a>,
    warnings: &'a [String],
    notes: &'a [String],
}

/// What the program says of its model.
#[derive(Serialize)]
struct ModelFigures<'a> {
    framework: Option<&'a str>,
    device: &'a str,
    /// Scalars that are exchanged.
    trainable: Option<f64>,
    dtype: Option<&'a str>,
    /// Samples of an epoch, where the program's loader knows them.
    epoch_samples: Option<f64>,
    trainable_bytes: Option<f64>,
    parameters: Option<f64>,
    statistics: Option<f64>,
    optimizer_bytes: Option<f64>,
    flops_per_sample: Option<f64>,
}

/// Everything that was measured.
struct Measured {
    points: Vec<Point>,
    fitted: Fitted,
    model: Described,
    device: Device,
    /// Operations of a sample, forward and backward.
    flops_per_sample: Option<f64>,
    rate: Option<f64>,
    /// Doubts about the measurements.
    warnings: Vec<String>,
    /// What the program and its runs reported beside figures.
    notes: Vec<String>,
}

fn usage(problem: impl Into<String>, remedy: impl Into<String>) -> Error {
    Error::Usage {
        problem: problem.into(),
        remedy: remedy.into(),
    }
}

impl ScriptPlan {
    /// Makes the plan: everything that can be refused before any work starts.
    ///
    /// # Errors
    /// [`Error::Usage`] for what cannot be measured and for a file that is there.
    pub fn new(request: &ScriptRequest<'_>, machine: Machine) -> Result<Self, Error> {
        let has_place = request.command.iter().any(|word| word.contains(BATCH));
        if has_place && request.batches.is_empty() {
            return Err(usage(
                format!("nothing says what {BATCH} is"),
                "give batch sizes: --batch 8,32",
            ));
        }
        if !has_place && !request.batches.is_empty() {
            return Err(usage(
                "the program has no place for --batch",
                format!("write it where the batch size stands: -- python train.py --batch {BATCH}"),
            ));
        }
        let cores = machine.cores.max(1);
        let mut threads = match request.threads {
            [] => vec![1, cores],
            own => own.to_vec(),
        };
        threads.sort_unstable();
        threads.dedup();
        if threads.first() != Some(&1) || threads.iter().any(|count| *count > cores) {
            return Err(usage(
                format!("{} threads cannot be profiled", names::listed(&threads)),
                format!("give --threads with 1 among them, and at most {cores}"),
            ));
        }
        let mut batches = request.batches.to_vec();
        batches.sort_unstable();
        batches.dedup();
        let name = request
            .name
            .map_or_else(|| program(request.command), str::to_owned);
        let out = request.out.map_or_else(
            || {
                let file = format!("{}-{}.yaml", names::slug(&name), names::today());
                Path::new("results/profiles").join(file)
            },
            Path::to_owned,
        );
        let stem = out
            .file_stem()
            .map_or("profile".into(), |stem| stem.to_string_lossy());
        let experiment = out.with_file_name(format!("{stem}-plan.yaml"));
        let experiment = find_model(&name).is_none().then_some(experiment);
        for file in [Some(&out), experiment.as_ref()].into_iter().flatten() {
            if file.exists() && !request.force {
                return Err(usage(
                    format!("{} is there already", file.display()),
                    "replace it with --force, or name another file with --out",
                ));
            }
        }
        let parent = out.parent().filter(|path| *path != Path::new(""));
        probe(parent.unwrap_or(Path::new(".")))?;
        Ok(Self {
            command: request.command.to_vec(),
            batches,
            threads,
            steps: request.steps,
            limit: request.limit,
            samples_per_step: request.samples_per_step,
            name,
            out,
            experiment,
            allows_bad_fit: request.allows_bad_fit,
            as_measured: request.as_measured,
            machine,
        })
    }

    /// Returns the command with a batch size in its place.
    fn command(&self, batch: Option<usize>) -> Vec<String> {
        let batch = batch.map(|batch| batch.to_string());
        let word = |word: &String| match &batch {
            Some(batch) => word.replace(BATCH, batch),
            None => word.clone(),
        };
        self.command.iter().map(word).collect()
    }
}

/// Returns the name of a command's program: of its first file of code, or its first word.
fn program(command: &[String]) -> String {
    const CODE: [&str; 5] = ["py", "sh", "jl", "lua", "R"];
    let is_code = |word: &&String| {
        let end = Path::new(word).extension();
        end.is_some_and(|end| CODE.iter().any(|known| end == *known))
    };
    let named = command.iter().find(is_code).or_else(|| command.first());
    let stem = named.and_then(|word| Path::new(word).file_stem());
    let stem = stem.map_or("program".into(), |stem| stem.to_string_lossy());
    let name = names::slug(&stem);
    match find_model(&name) {
        Some(_) => format!("{name}-script"),
        None => name,
    }
}

/// Profiles the program, writes the profile and an experiment that plans with it, and
/// prints both.
///
/// # Errors
/// Whatever kept the program from being measured, and a fit that is too bad to be used.
pub async fn measure(plan: &ScriptPlan, output: Output) -> Result<(), Error> {
    let measured = observe(plan, output).await?;
    let fit = &measured.fitted.time.fit;
    if let Some(reason) = bad_fit(&plan.name, fit).filter(|_| !plan.allows_bad_fit) {
        return Err(reason);
    }
    let (profile, lacking) = profile(plan, &measured)?;
    let mut warnings = measured.warnings.clone();
    warnings.extend(lacking);
    for warning in &warnings {
        output.message(format_args!("warning: {warning}"));
    }
    for note in &measured.notes {
        output.message(format_args!("note: {note}"));
    }
    let figures = figures(&measured);
    file::write_profile(plan, &profile, &measured, &warnings)?;
    let experiment = match (&plan.experiment, measured.model.trainable) {
        (Some(experiment), Some(_)) => {
            file::write_experiment(plan, experiment, &profile, &measured)?;
            Some(experiment.as_path())
        }
        _ => None,
    };
    output.text(text(plan, &measured));
    output.json(&Profiled {
        file: &plan.out,
        experiment,
        profile: &profile,
        points: &measured.points,
        model: figures,
        warnings: &warnings,
        notes: &measured.notes,
    });
    output.message(format_args!("profile: {}", plan.out.display()));
    if let Some(experiment) = experiment {
        output.message(format_args!(
            "where to train: {} (N is yours to say)",
            file::command(experiment, &measured)
        ));
    }
    Ok(())
}

/// Runs the program at every batch size and number of threads.
async fn observe(plan: &ScriptPlan, output: Output) -> Result<Measured, Error> {
    let failed = |source| Error::Io {
        doing: "make a pipe for the program's steps".into(),
        source,
    };
    let mut bench = Bench::new().await.map_err(failed)?;
    let batches: Vec<Option<usize>> = match plan.batches.as_slice() {
        [] => vec![None],
        batches => batches.iter().copied().map(Some).collect(),
    };
    let mut all: Vec<(Observed, Point)> = Vec::new();
    for batch in &batches {
        all.push(one(plan, &mut bench, *batch, 1, output).await?);
    }
    let device = device(&all[0].0);
    // What more threads gain, at the largest batch.
    for threads in plan
        .threads
        .iter()
        .skip(1)
        .filter(|_| device == Device::Cpu)
    {
        let batch = batches.last().copied().flatten();
        all.push(one(plan, &mut bench, batch, *threads, output).await?);
    }
    let points: Vec<Point> = all.iter().map(|(_, point)| point.clone()).collect();
    let fitted = Fitted::through(&points).ok_or_else(|| Error::Io {
        doing: "fit a line to the program's steps".into(),
        source: std::io::Error::other("a time is not positive"),
    })?;
    let observed: Vec<&Observed> = all.iter().map(|(observed, _)| observed).collect();
    let mut notes: Vec<String> = Vec::new();
    for note in observed.iter().flat_map(|observed| &observed.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    let of_all = |of: fn(&Observed) -> Option<f64>| observed.iter().find_map(|seen| of(seen));
    let first = &all[0];
    Ok(Measured {
        flops_per_sample: first.0.flops.map(|flops| flops / first.1.samples as f64),
        rate: of_all(|seen| seen.rate),
        model: observed
            .iter()
            .find_map(|seen| seen.model.clone())
            .unwrap_or_default(),
        device,
        warnings: doubts(plan, &points),
        points,
        fitted,
        notes,
    })
}

/// Runs the program once.
async fn one(
    plan: &ScriptPlan,
    bench: &mut Bench,
    batch: Option<usize>,
    threads: usize,
    output: Output,
) -> Result<(Observed, Point), Error> {
    let command = plan.command(batch);
    let noun = if threads == 1 { "thread" } else { "threads" };
    let what = match batch {
        Some(batch) => format!("{} at batch {batch} on {threads} {noun}", plan.name),
        None => format!("{} on {threads} {noun}", plan.name),
    };
    output.message(format_args!("measuring {what}"));
    let launch = Launch {
        command: &command,
        threads,
        steps: plan.steps,
        limit: plan.limit,
    };
    let observed = bench.run(&launch).await;
    let observed = observed.map_err(|Failure { problem, remedy }| Error::Lacks {
        what: format!("{what}: {problem}"),
        remedy,
    })?;
    let reported = epochcost_simulator::profile::median(&observed.samples);
    let reported = reported.map(|samples| samples.round() as usize);
    let samples = plan.samples_per_step.or(reported).or(batch);
    let Some(samples) = samples.filter(|samples| *samples > 0) else {
        return Err(Error::Lacks {
            what: format!("{what}: nothing says how many samples a step has"),
            remedy: "give --samples-per-step N, or have the program report them".into(),
        });
    };
    let point = Point::of(&observed, samples, threads).ok_or_else(|| Error::Lacks {
        what: format!("{what}: no step was counted"),
        remedy: "let it train for more steps".into(),
    })?;
    Ok((observed, point))
}

/// Returns what the program computes on.
fn device(observed: &Observed) -> Device {
    let named = observed
        .model
        .as_ref()
        .and_then(|model| model.device.as_deref());
    match named {
        Some("cuda") => Device::Cuda,
        _ => Device::Cpu,
    }
}

/// Returns doubts about what was measured.
fn doubts(plan: &ScriptPlan, points: &[Point]) -> Vec<String> {
    let mut doubts = Vec::new();
    for point in points {
        let width = (point.high_s - point.low_s) / point.step_s;
        if point.steps < 6 || width > WIDE {
            doubts.push(format!(
                "steps of {} samples on {} threads take {} ({} to {}, {} steps): measure on an idle \
                 machine, or more --steps",
                point.samples,
                point.threads,
                seconds(point.step_s),
                seconds(point.low_s),
                seconds(point.high_s),
                point.steps
            ));
        }
    }
    let waited = |point: &Point| point.queue_s / (point.step_s + point.queue_s);
    let most = points.iter().max_by(|a, b| waited(a).total_cmp(&waited(b)));
    if let Some(most) = most.filter(|most| waited(most) > SHARED) {
        doubts.push(format!(
            "the program waited for a core that others used, {} of its passes of {} samples on {} \
             threads: the waits are left out on one thread, and too long times remain on more",
            percent(waited(most)),
            most.samples,
            most.threads
        ));
    }
    let mut sizes: Vec<usize> = points.iter().map(|point| point.samples).collect();
    sizes.dedup();
    if sizes.len() == 1 {
        doubts.push(format!(
            "one batch size does not show a step's fixed part, which is written as 0: give two with \
             --batch, and {BATCH} in the program's arguments"
        ));
    }
    let asked = plan.batches.iter().zip(points);
    for (batch, point) in asked.filter(|(batch, point)| **batch != point.samples) {
        doubts.push(format!(
            "at --batch {batch} a step has {} samples: they are counted as its passes took them, and \
             --samples-per-step says otherwise",
            point.samples
        ));
    }
    doubts
}

fn figures(measured: &Measured) -> ModelFigures<'_> {
    let model = &measured.model;
    ModelFigures {
        framework: model.framework.as_deref(),
        device: match measured.device {
            Device::Cpu => "cpu",
            Device::Cuda => "cuda",
        },
        trainable: model.trainable,
        dtype: model.dtype.as_deref(),
        epoch_samples: model.epoch_samples,
        trainable_bytes: model.trainable_bytes,
        parameters: model.parameters,
        statistics: model.statistics,
        optimizer_bytes: model.optimizer_bytes,
        flops_per_sample: measured.flops_per_sample,
    }
}

#[cfg(test)]
mod tests;
