//! Profiles of a user's own training, whatever it is written in.
//!
//! The program runs unchanged, once for each batch size on one thread and once on
//! all threads. Python programs find a module on their path that reports the steps of
//! PyTorch's optimizers; any program may report its steps itself, as lines on a pipe.

mod carry;
mod file;
mod launch;
mod lines;
mod observed;
mod points;
mod profile;
mod shown;
mod text;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use epochcost_record::{Machine, probe_file};
use epochcost_simulator::profile::ComputeProfile;
use epochcost_spec::format::{bytes, percent, seconds, slug};
use epochcost_spec::ui::Output;
use epochcost_systems::{Device, find_model};
use serde::Serialize;

use self::launch::{Bench, Failure, Launch};
use self::lines::Described;
use self::observed::Observed;
use self::points::{Fitted, Point};
use self::profile::profile;
use self::text::text;
use super::names;
use super::plan::sorted;
use super::summary::bad_fit;
use crate::error::{Error, Result};

/// Where the batch size stands in a command.
const BATCH: &str = "{batch}";
/// An interval of a median that is wider than so much of it was not measured on a quiet machine.
const WIDE: f64 = 0.2;
/// Ratio of the mean step to the median from which something is said to run between some steps only.
const UNEVEN: f64 = 1.25;
/// Share of a step from which evaluation beside most steps is said.
const ASIDE: f64 = 0.05;
/// Difference of steps to those whose operations were counted from which these are in doubt.
const UNCOUNTED: f64 = 0.05;
/// Epochs from which a whole number of them may be chance.
const MANY: f64 = 100.0;
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
    pub samples_per_step: Option<&'a SamplesPerStep>,
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

/// Samples of a step by the user's word.
#[derive(Clone, Debug, PartialEq)]
pub enum SamplesPerStep {
    /// A number for each batch size.
    Each(Vec<usize>),
    /// A factor of what is found.
    Factor(f64),
}

impl FromStr for SamplesPerStep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let factor = text.strip_prefix('x');
        let factor = factor.map(|factor| factor.parse::<f64>().ok());
        if let Some(factor) = factor {
            let factor = factor.filter(|factor| factor.is_finite() && *factor > 0.0);
            return factor
                .map(Self::Factor)
                .ok_or_else(|| "give a factor above 0, like x0.5".into());
        }
        let numbers = text.split(',');
        let numbers = numbers.map(|number| number.trim().parse().ok().filter(|n| *n > 0));
        let numbers = numbers.collect::<Option<Vec<usize>>>();
        let remedy = "give a number for each batch size, like 8 or 8,16, or a factor like x0.5";
        numbers.map(Self::Each).ok_or_else(|| remedy.into())
    }
}

/// What is profiled, and where to.
#[derive(Debug)]
pub struct ScriptPlan {
    command: Vec<String>,
    batches: Vec<usize>,
    threads: Vec<usize>,
    steps: usize,
    limit: Duration,
    /// Samples of a step at each batch size; empty where they are what is found.
    samples: Vec<usize>,
    /// Factor of what is found.
    samples_factor: f64,
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
    #[serde(flatten)]
    described: &'a Described,
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
    /// Seconds of a sample's evaluation, where the program evaluated.
    evaluate_s: Option<f64>,
    work: Work,
    /// Doubts about the measurements.
    warnings: Vec<String>,
    /// What the program and its runs reported beside figures.
    notes: Vec<String>,
}

/// The training as the program says it: what a plan begins with.
#[derive(Debug, Default)]
struct Work {
    /// Samples of an epoch, and who says so.
    samples: Option<f64>,
    samples_by: String,
    /// Epochs, and who says so.
    epochs: Option<f64>,
    epochs_by: String,
}

impl Work {
    /// Reads the work off what the first run reported.
    fn of(observed: &Observed, model: &Described, samples: usize) -> Self {
        let ranks = model.ranks.unwrap_or(1.0);
        let per_step = samples as f64 * ranks;
        let by = model.planned_by.as_deref().unwrap_or("the program");
        let known = model.epoch_samples.filter(|samples| *samples >= 1.0);
        let mut work = Self {
            samples: known,
            samples_by: match model.full {
                Some(_) => "Samples of an epoch are those of each step".into(),
                None => "Samples of an epoch are those of the program's loader".into(),
            },
            epochs: model.epochs,
            epochs_by: by.to_owned(),
        };
        let ended = observed.ended_after.map(|steps| steps as f64);
        let (steps, by) = match (ended, model.planned_steps) {
            (Some(steps), _) => (steps, "the program, which ended by itself".to_owned()),
            (None, Some(steps)) => (steps, by.to_owned()),
            (None, None) => return work,
        };
        // The last step of an epoch may have what is left.
        let usual = epochcost_simulator::profile::median(&observed.samples);
        let sizes = [samples as f64, usual.unwrap_or(samples as f64)];
        let epochs = known.map(|known| {
            let mut whole = sizes
                .map(|size| steps / (known / (size * ranks)).ceil())
                .into_iter();
            let whole = whole.find(|epochs| epochs.fract() == 0.0 && *epochs < MANY);
            whole.unwrap_or(steps * per_step / known)
        });
        if let Some(epochs) =
            epochs.filter(|epochs| (epochs - epochs.round()).abs() < 0.05 && *epochs > 0.5)
        {
            work.epochs = Some(epochs.round());
        } else {
            work.samples = Some(steps * per_step);
            work.samples_by = format!("Samples are all of {steps} steps of {per_step}, by {by}");
            work.epochs = Some(1.0);
        }
        work.epochs_by = by;
        work
    }
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
    pub fn new(request: &ScriptRequest<'_>, machine: Machine) -> Result<Self> {
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
        let threads = sorted(match request.threads {
            [] => vec![1, cores],
            own => own.to_vec(),
        });
        if threads.first() != Some(&1) || threads.iter().any(|count| *count > cores) {
            return Err(usage(
                format!("{} threads cannot be profiled", names::listed(&threads)),
                format!("give --threads with 1 among them, and at most {cores}"),
            ));
        }
        let (each, samples_factor) = match request.samples_per_step {
            Some(SamplesPerStep::Each(each)) => (each.as_slice(), 1.0),
            Some(SamplesPerStep::Factor(factor)) => (&[][..], *factor),
            None => (&[][..], 1.0),
        };
        let needed = request.batches.len().max(1);
        if !each.is_empty() && each.len() != needed {
            let each = names::listed(each);
            return Err(usage(
                format!("--samples-per-step has {each} for {needed} batch sizes"),
                "give a number for each of --batch, or a factor of what is found, like x0.5",
            ));
        }
        // Sorted by the batch size, each with its samples.
        let given: BTreeMap<usize, Option<usize>> = (request.batches.iter().enumerate())
            .map(|(index, batch)| (*batch, each.get(index).copied()))
            .collect();
        let batches: Vec<usize> = given.keys().copied().collect();
        let samples: Vec<usize> = match batches.as_slice() {
            [] => each.to_vec(),
            _ => given.values().flatten().copied().collect(),
        };
        let here = std::env::current_dir().unwrap_or_default();
        let name = request
            .name
            .map_or_else(|| program(request.command, &here), str::to_owned);
        let out = request.out.map_or_else(
            || {
                let stem = format!("{}-{}", slug(&name), names::today());
                let file = |stem: &str| Path::new("results/profiles").join(format!("{stem}.yaml"));
                // The second of a day has a number.
                let mut numbered = (2..100).map(|number| file(&format!("{stem}-{number}")));
                Some(file(&stem))
                    .filter(|path| request.force || !path.exists())
                    .or_else(|| numbered.find(|path| !path.exists()))
                    .unwrap_or_else(|| file(&stem))
            },
            Path::to_owned,
        );
        let experiment = out.with_file_name(format!("{}-plan.yaml", names::stem(&out)));
        let experiment = find_model(&name).is_none().then_some(experiment);
        for file in [Some(&out), experiment.as_ref()].into_iter().flatten() {
            if file.exists() && !request.force {
                return Err(usage(
                    format!("{} is there already", file.display()),
                    "replace it with --force, or name another file with --out",
                ));
            }
        }
        probe_file(&out, "--out")?;
        Ok(Self {
            command: request.command.to_vec(),
            batches,
            threads,
            steps: request.steps,
            limit: request.limit,
            samples,
            samples_factor,
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

/// Returns the name of a command's program: of its first file of code or its module, with the
/// folder where many are called so; else its first word.
fn program(command: &[String], here: &Path) -> String {
    /// Names that say nothing without their folder.
    const COMMON: [&str; 4] = ["main", "__main__", "run", "train"];
    const CODE: [&str; 5] = ["py", "sh", "jl", "lua", "R"];
    let is_code = |word: &&String| {
        let end = Path::new(word).extension();
        end.is_some_and(|end| CODE.iter().any(|known| end == *known))
    };
    let module = (command.windows(2))
        .take_while(|pair| !is_code(&&pair[0]))
        .find(|pair| pair[0] == "-m")
        .map(|pair| PathBuf::from(pair[1].replace('.', "/")));
    let file = command.iter().find(is_code).or_else(|| command.first());
    let path = module
        .or_else(|| Some(here.join(file?)))
        .unwrap_or_default();
    let text = |part: Option<&OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let stem = text(path.file_stem()).unwrap_or_else(|| "program".into());
    let folder = text(path.parent().and_then(Path::file_name));
    let name = match folder.filter(|_| COMMON.contains(&stem.as_str())) {
        Some(folder) => slug(&format!("{folder}-{stem}")),
        None => slug(&stem),
    };
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
pub async fn measure(plan: &ScriptPlan, output: Output) -> Result<()> {
    let measured = observe(plan, output).await?;
    let fit = &measured.fitted.time.fit;
    if let Some(reason) = bad_fit(&plan.name, fit).filter(|_| !plan.allows_bad_fit) {
        return Err(reason);
    }
    let (profile, lacking) = profile(plan, &measured)?;
    let mut warnings = measured.warnings.clone();
    warnings.extend(lacking);
    warnings.extend(unplanned(plan, &measured));
    for warning in &warnings {
        output.message(format_args!("warning: {warning}"));
    }
    for note in &measured.notes {
        output.message(format_args!("note: {note}"));
    }
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
        model: ModelFigures {
            described: &measured.model,
            flops_per_sample: measured.flops_per_sample,
        },
        warnings: &warnings,
        notes: &measured.notes,
    });
    output.message(format_args!("profile: {}", plan.out.display()));
    if let Some(experiment) = experiment {
        let command = file::command(experiment, &measured);
        let work = said(&measured.work);
        output.message(format_args!("where to train: {command}{work}"));
    }
    Ok(())
}

/// Returns why no experiment that plans with the profile is written; none where one is, or the profile is
/// of a model that this program has.
fn unplanned(plan: &ScriptPlan, measured: &Measured) -> Option<String> {
    let path = plan.experiment.as_ref()?;
    if measured.model.trainable.is_some() {
        return None;
    }
    let older = if path.exists() {
        format!(
            "; {} is an older one, and uses this profile from now on",
            path.display()
        )
    } else {
        String::new()
    };
    Some(format!(
        "no experiment to plan with was written, since the program does not say what it trains (a line \
         `model trainable=N`){older}"
    ))
}

/// Returns what a plan begins with, and who says so.
fn said(work: &Work) -> String {
    let by = &work.epochs_by;
    match (work.epochs, work.samples) {
        (Some(epochs), Some(samples)) => format!(" ({samples} samples x {epochs} epochs, by {by})"),
        (Some(epochs), None) => format!(" (N is samples of an epoch x {epochs}, by {by})"),
        _ => " (N is yours to say)".into(),
    }
}

/// Runs the program at every batch size and number of threads.
async fn observe(plan: &ScriptPlan, output: Output) -> Result<Measured> {
    let failed = |source| Error::Io {
        doing: "prepare to read the program's steps".into(),
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
    let others = plan.threads.iter().skip(1);
    for threads in others.filter(|_| device == Device::Cpu) {
        let batch = batches.last().copied().flatten();
        all.push(one(plan, &mut bench, batch, *threads, output).await?);
    }
    let points: Vec<Point> = all.iter().map(|(_, point)| point.clone()).collect();
    let observed: Vec<&Observed> = all.iter().map(|(observed, _)| observed).collect();
    let model = observed.iter().find_map(|seen| seen.model.clone());
    let mut model = model.unwrap_or_default();
    model.device = Some(match device {
        Device::Cpu => "cpu".into(),
        Device::Cuda => "cuda".into(),
    });
    let fitted = Fitted::through(&points, model.fixed_mb).ok_or_else(|| Error::Lacks {
        what: format!("no line goes through the steps of {}", plan.name),
        remedy: "measure more --steps on an idle machine".into(),
    })?;
    let mut notes: Vec<String> = Vec::new();
    for note in observed.iter().flat_map(|observed| &observed.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    let of_all = |of: fn(&Observed) -> Option<f64>| observed.iter().find_map(|seen| of(seen));
    let first = &all[0];
    Ok(Measured {
        flops_per_sample: first.0.operations().map(|(flops, samples)| {
            // Of as many samples as the counted steps have.
            let both = first.0.typical_samples().zip(samples);
            let scale = both.map_or(1.0, |(found, counted)| found / counted);
            flops * scale / first.1.samples as f64
        }),
        rate: of_all(|seen| seen.rate),
        evaluate_s: (observed.iter().zip(&points))
            .filter(|(seen, point)| point.threads == 1 && seen.evaluation[1] > 0.0)
            .map(|(seen, _)| seen.evaluation[0] / seen.evaluation[1])
            .reduce(f64::min),
        work: Work::of(&first.0, &model, first.1.samples),
        warnings: doubts(plan, &points, &observed, &model),
        model,
        device,
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
) -> Result<(Observed, Point)> {
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
    let found = observed.typical_samples();
    let found = found.or(batch.map(|batch| batch as f64));
    let found = found.map(|samples| (samples * plan.samples_factor).round() as usize);
    let index = plan.batches.iter().position(|known| Some(*known) == batch);
    let samples = plan.samples.get(index.unwrap_or(0)).copied().or(found);
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
    let model = observed.model.as_ref();
    let named = model.and_then(|model| model.device.as_deref());
    match named {
        Some("cuda") => Device::Cuda,
        _ => Device::Cpu,
    }
}

/// Returns doubts about what was measured.
fn doubts(
    plan: &ScriptPlan,
    points: &[Point],
    observed: &[&Observed],
    model: &Described,
) -> Vec<String> {
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
    let uneven = points.iter().map(|point| point.mean_s / point.step_s);
    let uneven = uneven.fold(0.0, f64::max);
    if uneven > UNEVEN {
        doubts.push(format!(
            "the mean of steps is {uneven:.2} times what the profile has, which are medians: other \
             programs on this machine, or what the program does between some steps only, take the \
             rest, which plans leave out"
        ));
    }
    let apart = (observed.iter().zip(points)).find_map(|(seen, point)| {
        let apart = epochcost_simulator::profile::median(&seen.apart)?;
        (apart > ASIDE * point.whole_s).then_some((apart, point.whole_s))
    });
    if let Some((apart, whole)) = apart {
        doubts.push(format!(
            "{} before or in most steps, beside the {} of each, go with calls of the model in evaluation \
             mode without gradients: they are taken for evaluation. If they are training (rollouts, \
             generation), steps take so much longer, and need more operations",
            seconds(apart),
            seconds(whole)
        ));
    }
    let beyond = observed.first().and_then(|seen| seen.beyond_counted());
    if let Some(beyond) = beyond.filter(|ratio| (ratio - 1.0).abs() > UNCOUNTED) {
        doubts.push(format!(
            "steps are of several kinds, and take {beyond:.2} times as long as those whose operations \
             were counted: predictions for GPUs may be wrong by so much. More --steps count more"
        ));
    }
    let error = observed.first().and_then(|seen| seen.operations_error());
    if let Some(error) = error.filter(|error| *error > UNCOUNTED) {
        doubts.push(format!(
            "steps differ in their operations, and some were counted: their mean is known to ± {}, and so \
             are predictions for GPUs. More --steps count more",
            percent(error)
        ));
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
            "one batch size does not show a step's fixed part, which is written as 0, and of memory \
             only a bound: {}. {}",
            match model.fixed_mb {
                Some(fixed) => format!(
                    "{} before the first step and for gradients and the optimizer, all the rest by \
                     the samples",
                    bytes(fixed * f64::from(1 << 20))
                ),
                None => "all of it by the samples".into(),
            },
            match plan.batches.len() {
                0 | 1 => format!("Give two with --batch, and {BATCH} in the program's arguments"),
                _ => format!(
                    "Steps had {} samples at each --batch: have them take as many as {BATCH} says",
                    sizes[0]
                ),
            }
        ));
    }
    if sizes.len() == 2 {
        doubts.push(
            "a line goes through any two batch sizes: that it fits says nothing. Give three with --batch"
                .into(),
        );
    }
    if let Some(ranks) = model.ranks {
        doubts.push(format!(
            "these are steps of one of {ranks} processes that train together: a step of all has \
             {ranks} times as many samples, and passes include their exchange of gradients and the \
             waits for each other, to which simulations of several workers add their own"
        ));
    }
    for (point, seen) in points.iter().zip(observed) {
        if let Some((least, most)) = seen.varied().filter(|_| plan.samples.is_empty()) {
            doubts.push(format!(
                "steps have {least} to {most} samples: the profile has their mean, {}, and the mean \
                 time of steps",
                point.samples
            ));
        }
    }
    let asked = plan.batches.iter().zip(points);
    let asked = asked.filter(|_| plan.samples.is_empty());
    for (batch, point) in asked.filter(|(batch, point)| **batch != point.samples) {
        doubts.push(format!(
            "at --batch {batch} a step has {} samples: they are counted as its passes took them, and \
             --samples-per-step says otherwise",
            point.samples
        ));
    }
    doubts
}

#[cfg(test)]
mod tests;
