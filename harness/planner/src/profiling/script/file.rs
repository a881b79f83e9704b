//! The files of a profiled program: its compute profile, and an experiment that plans with it.

use std::path::Path;

use epochcost_record::{Build, write_whole};
use epochcost_simulator::profile::ComputeProfile;
use epochcost_spec::profiles;
use epochcost_spec::yaml::named;

use super::shown::command_line;
use super::text::{largest, text};
use super::{Measured, ScriptPlan};
use crate::error::Result;
use crate::forecast::quoted;
use crate::profiling::{names, record};

/// Memory of an empty worker, and room beside what was measured.
const ROOM: f64 = 1.1;
/// Sizes of Lambda functions, MB: one vCPU at least, so that a step is not slowed down.
const MEMORY_MB: (f64, f64) = (1769.0, 10_240.0);

/// Writes the profile with a header that says how it came about.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write_profile(
    plan: &ScriptPlan,
    profile: &ComputeProfile,
    measured: &Measured,
    warnings: &[String],
) -> Result<()> {
    let mut lines = vec![
        "A compute profile, measured by `epochcost profile` with the program:".to_owned(),
        format!("  {}", command_line(&plan.command)),
        record::date(),
        format!("machine: {}", names::machine(&plan.machine)),
        record::load(&plan.machine, "run"),
        format!("epochcost: {}", Build::current().version),
        String::new(),
    ];
    lines.extend(text(plan, measured).lines().map(str::to_owned));
    lines.extend(warnings.iter().map(|warning| format!("warning: {warning}")));
    lines.extend(measured.notes.iter().map(|note| format!("note: {note}")));
    record::with_header(&plan.out, &lines, profile)
}

/// Writes an experiment whose model is the profiled one.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write_experiment(
    plan: &ScriptPlan,
    path: &Path,
    profile: &ComputeProfile,
    measured: &Measured,
) -> Result<()> {
    let text = experiment(plan, path, profile, measured);
    Ok(write_whole(path, text.as_bytes())?)
}

/// Returns the command that plans with the experiment; the program does not say how long it
/// would have trained.
pub(super) fn command(path: &Path, measured: &Measured) -> String {
    let work = match (measured.work.epochs, measured.work.samples) {
        (Some(_), Some(_)) => "",
        (None, Some(_)) => " --epochs N",
        _ => " --samples N",
    };
    format!("epochcost plan {} --deadline 2h{work}", path.display())
}

/// Returns the experiment.
fn experiment(
    plan: &ScriptPlan,
    path: &Path,
    profile: &ComputeProfile,
    measured: &Measured,
) -> String {
    let model = &measured.model;
    let cost = &profile.models[0];
    let largest = largest(measured);
    let peak_mb = cost.peak_mb(largest);
    let memory_mb = (ROOM * (64.0 + peak_mb))
        .clamp(MEMORY_MB.0, MEMORY_MB.1)
        .ceil();
    // A step takes three forward passes' operations, by the definition of the field.
    let flops = measured.flops_per_sample.map(|step| step / 3.0);
    let activations = (cost.sample_mb * f64::from(1 << 20)).max(1.0);
    let work = &measured.work;
    let samples = work.samples;
    let is_full = model.full.is_some();
    let ranks = model.ranks.unwrap_or(1.0);
    format!(
        "{schema}# Where should {name} be trained? Written by `epochcost profile`; its steps are those of\n\
         # {profile_file}.\n\
         #\n\
         #     {command}\n\
         schema: 1\n\
         name: {experiment_name}\n\
         description: {description}\n\
         platform: sim\n\
         simulation:\n\
         \x20 profile: {platform}\n\
         \x20 # What exchanges on functions: a Python program; `compiled` for one that is not.\n\
         \x20 client: interpreted\n\
         \x20 compute: [{compute}]\n\
         # {samples_note}; the bytes of each in\n\
         # storage are assumed: put yours here.\n\
         dataset: {{{samples}test: 0, bytes_per_sample: 3073}}\n\
         models:\n\
         \x20 - name: {model_name}\n\
         \x20   # Trainable scalars: what is exchanged.\n\
         \x20   parameters: {parameters}\n\
         \x20   statistics: {statistics}\n\
         {operations}\n\
         \x20   activation_bytes_per_sample: {activations:.3e}\n\
         model: {model_name}\n\
         # {workers_note}\n\
         workers: {ranks}\n\
         batch_size: {largest}\n\
         {epochs}\n\
         memory_mb: {memory_mb}\n\
         systems: [{systems}]\n",
        workers_note = match (model.full, ranks > 1.0) {
            (Some(full), _) if full > 1.0 => "A step takes one graph, which is not cut: one worker",
            (Some(_), _) => "A step takes all the data: one worker",
            (None, true) => "The program's processes, each with a batch of its own",
            (None, false) =>
                "One worker, as the program itself trained; more take fewer optimizer steps",
        },
        epochs = match work.epochs {
            Some(epochs) => format!("# By {}.\nepochs: {epochs}", work.epochs_by),
            None => "# The program does not say its epochs: --epochs N, or write `epochs: N` here."
                .into(),
        },
        systems = if is_full {
            "gpu_baseline"
        } else {
            "spirt, scatterreduce, allreduce, gpu_baseline, ring"
        },
        schema = named::line("experiment", path),
        name = plan.name,
        platform = profiles::DEFAULT,
        profile_file = plan.out.display(),
        command = command(path, measured),
        samples_note = match samples {
            Some(_) => work.samples_by.as_str(),
            None => "Samples of an epoch are not known: add `samples: N`, or give --samples N",
        },
        samples = samples.map_or_else(String::new, |samples| format!("samples: {samples}, ")),
        experiment_name = quoted(&format!("{}-plan", profile.name)),
        description = quoted(&format!("where {} is trained best", plan.name)),
        compute = quoted(&beside(&plan.out)),
        model_name = quoted(&plan.name),
        parameters = model.trainable.unwrap_or(1.0).max(1.0),
        statistics = model.statistics.unwrap_or(0.0),
        operations = match flops {
            Some(flops) => format!(
                "    # A third of the operations of a step, and what its memory grows by.\n\
                 \x20   flops_per_sample: {flops:.3e}"
            ),
            None => "    # No operations were counted: without `flops_per_sample` nothing is said of GPUs.\n\
                     \x20   # What its memory grows by."
                .to_owned(),
        },
    )
}

/// Returns the path of a profile from the experiment beside it: names without a directory are
/// those of shipped profiles.
fn beside(profile: &Path) -> String {
    let name = profile.file_name().unwrap_or_default();
    format!("./{}", name.to_string_lossy())
}
