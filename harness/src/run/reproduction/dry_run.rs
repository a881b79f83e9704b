//! Plan of a reproduction: its actions, and the estimated training time.

use epochcost_experiment::Experiment;
use epochcost_planner::error::Error;
use epochcost_record::TrialId;
use epochcost_simulator::profile::ComputeProfile;
use epochcost_spec::exit::Exit;
use epochcost_spec::profiles;
use epochcost_spec::rows::TrialPlan;
use epochcost_spec::ui::{Output, table_of};
use epochcost_systems::{Device, Evaluate};
use serde::Serialize;

use super::Request;
use super::run_state::RunState;
use super::task::Task;

/// Compute profile from which training times are estimated.
const PROFILE: &str = "laptop";

/// Plan of one item.
#[derive(Serialize)]
struct Line {
    id: String,
    description: String,
    platform: Option<String>,
    rows: usize,
    /// Number of planned trials, over all rows.
    trials: usize,
    /// Number of trials that are recorded and can be kept.
    ended: usize,
    action: Action,
    /// Reason why it is not run, or why its directory cannot be kept.
    why: Option<String>,
    /// What its form changes.
    reduced: Vec<String>,
    /// Estimated CPU seconds of the remaining training; 0 where nothing is trained,
    /// null where the profile does not know a model.
    training_cpu_s: Option<f64>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Run,
    RunAnew,
    GoOn,
    DoneAlready,
    Nothing,
}

impl Action {
    fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::RunAnew => "set aside, run anew",
            Self::GoOn => "go on",
            Self::DoneAlready => "done already",
            Self::Nothing => "nothing",
        }
    }
}

/// Prints what would be done.
///
/// # Errors
/// When an item's directory is damaged.
pub(super) fn show(tasks: &[Task], request: &Request<'_>, output: Output) -> Result<Exit, Error> {
    let profile = profiles::compute(PROFILE)?;
    let lines = tasks.iter().map(|task| line(task, request.fresh, &profile));
    let lines = lines.collect::<Result<Vec<Line>, Error>>()?;
    let heading = [
        "item",
        "on",
        "trials",
        "recorded",
        "training CPU s",
        "would",
    ];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let total: f64 = lines.iter().filter_map(|line| line.training_cpu_s).sum();
    output.text(table_of(heading, &lines, cells));
    output.text(format_args!(
        "\ntraining left: about {total:.0} s of CPU, {:.0} s on the {cores} CPUs of this machine, \
         by the compute profile {PROFILE}; a simulation that trains nothing takes seconds",
        total / cores as f64
    ));
    output.json(&lines);
    Ok(Exit::Done)
}

fn line(task: &Task, is_fresh: bool, profile: &ComputeProfile) -> Result<Line, Error> {
    let experiment = task.experiment.as_ref();
    let item = task.item();
    let (action, why) = match (&task.obstacle, &task.run_state) {
        (Some((_, why)), _) => (Action::Nothing, Some(why.clone())),
        (None, RunState::Absent) => (Action::Run, None),
        (None, RunState::Stale { why, .. }) => (Action::RunAnew, Some(why.clone())),
        (None, RunState::Current { .. }) if is_fresh => (Action::RunAnew, None),
        (None, state) if state.is_finished() => (Action::DoneAlready, None),
        (None, RunState::Current { .. }) => (Action::GoOn, None),
    };
    let mut plans = experiment.map_or_else(Vec::new, Experiment::trial_plans);
    let trials = plans.len();
    let mut ended = 0;
    if !is_fresh
        && let RunState::Current {
            directory,
            ended: count,
            ..
        } = &task.run_state
    {
        let finished = directory.finished_trials()?;
        plans.retain(|plan| !finished.contains(&TrialId::of(plan)));
        ended = *count;
    }
    let is_run = matches!(action, Action::Run | Action::RunAnew | Action::GoOn);
    Ok(Line {
        id: item.id,
        description: item.description,
        platform: item.platform,
        rows: experiment.map_or(0, |experiment| experiment.rows.len()),
        trials,
        ended,
        action,
        why,
        reduced: item.reduced,
        training_cpu_s: match experiment {
            Some(experiment) if is_run && experiment.needs_data() => {
                plans.iter().map(|plan| training_s(plan, profile)).sum()
            }
            _ => Some(0.0),
        },
    })
}

/// Returns the CPU seconds of one trial's gradients and evaluations, on one thread.
fn training_s(plan: &TrialPlan, profile: &ComputeProfile) -> Option<f64> {
    let job = &plan.row.job;
    let cost = profile.find(&job.model, Device::Cpu)?;
    let steps = job.workers * job.epochs * job.batches_per_worker;
    let evaluations = match job.evaluate {
        Evaluate::EveryEpoch => job.epochs,
        Evaluate::Every(epochs) => job.epochs.div_ceil(epochs.get()),
        Evaluate::Last => 1,
        Evaluate::Never => 0,
    };
    let step_s = cost.step_s(job.batch_size, 1.0);
    let evaluate_s = cost.evaluate_s(job.data.test_samples + job.data.validation_samples, 1.0);
    Some(steps as f64 * step_s + evaluations as f64 * evaluate_s)
}

fn cells(line: &Line) -> [String; 6] {
    let mut action = line.action.as_str().to_owned();
    if let Some(why) = &line.why {
        action += &format!(": {why}");
    }
    if !line.reduced.is_empty() {
        action += &format!(", with {}", line.reduced.join(", "));
    }
    [
        line.id.clone(),
        line.platform.clone().unwrap_or_else(|| "-".into()),
        line.trials.to_string(),
        line.ended.to_string(),
        (line.training_cpu_s).map_or("-".into(), |seconds| format!("{seconds:.0}")),
        action,
    ]
}
