//! One trial from its services to its outcome.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use epochcost_environment::worker as variable;
use epochcost_spec::metering::TrialOutcome;
use epochcost_spec::rows::{Precision, Row, TrialPlan};
use epochcost_systems::{
    ByHost, Device, Fidelity, FollowUps, Host as HostKind, Launch, Running, System, drive, find,
    requests,
};
use futures_util::future::try_join_all;
use tokio::time::{interval, sleep, timeout};

use super::account::{Admission, Caller};
use super::clock::TrialClock;
use super::collector::Collector;
use super::control::{self, ControlApi};
use super::gate::Gates;
use super::host::Host;
use super::instance::Instances;
use super::lambda::{FunctionSpec, Lambda};
use super::limits::vcpus;
use super::runtime_api::RuntimeApi;
use super::services::Services;
use super::{Local, PlatformError, Progress, TrialData, largest_function_mb, machine};

/// Runs one trial.
pub(super) async fn run(
    local: &Local,
    plan: &TrialPlan,
    data: &TrialData,
    progress: &dyn Progress,
) -> Result<TrialOutcome, PlatformError> {
    let row = &plan.row;
    let unusable = |reason| PlatformError::service("the trial", reason);
    let system = find(&row.job.system)
        .ok_or_else(|| unusable(format!("there is no system {:?}", row.job.system)))?;
    let bound = system.bind(&row.job);
    let bound = bound.map_err(|error| unusable(error.to_string()))?;
    let mut services = (local.services.start(row, bound.data_layout(), data)).await?;
    let clock = TrialClock::start();
    let (mut trainings, mut follow_ups) = (Vec::new(), Vec::new());
    for number in 0..row.jobs {
        let servers = services.environment(number);
        let (training, own) = Training::start(local, row, system, servers, clock).await?;
        trainings.push(training);
        follow_ups.push(own);
    }

    let started_s = clock.unix_s();
    let driving = drive_all(system, row, &trainings, follow_ups, progress);
    let driven = with_services(driving, &mut services).await;
    let wall_s = clock.unix_s() - started_s;
    // Idle sandboxes end with their pool, those that still ran ended with `drive`.
    let mut collectors = Vec::new();
    for training in trainings {
        drop(training.functions);
        training.host.all_gone().await;
        collectors.push(training.collector);
    }
    let left = services.end().await;

    let collector = collectors.remove(0);
    progress.steps(*collector.steps().borrow());
    let throttles = collector.throttles();
    let (records, invocations, unreadable) = collector.take();
    let (transitions, failure) = match driven {
        Ok(transitions) => (transitions + throttles.retried, unreadable),
        Err(reason) => (0, Some(reason + &throttled(throttles.refused))),
    };
    let runs_functions = system.deployment().runs_on(HostKind::Function);
    let mut warnings = warnings(local, row, system);
    warnings.extend(surroundings(row, throttles.refused));
    warnings.extend(clock.warning());
    warnings.extend(left.map(|why| format!("what the trial left on the servers is there: {why}")));
    Ok(TrialOutcome {
        started_s,
        wall_s,
        invocations,
        records,
        transitions,
        cloudwatch: Vec::new(),
        throttles: runs_functions.then_some(throttles.refused),
        failure,
        warnings,
    })
}

/// One of the trainings of a trial that run at once.
struct Training {
    host: Arc<Host>,
    collector: Arc<Collector>,
    functions: ByHost<Lambda, Instances>,
    /// Serves as long as it is there.
    _control: ControlApi,
}

impl Training {
    /// Makes its functions and instances, which find servers by `servers`.
    async fn start(
        local: &Local,
        row: &Row,
        system: &'static dyn System,
        mut servers: Vec<(String, String)>,
        clock: TrialClock,
    ) -> Result<(Self, FollowUps), PlatformError> {
        let (requests, follow_ups) = requests();
        let gates = Gates::before(&mut servers, &row.faults).await;
        let gates = gates.map_err(PlatformError::io("put gates before the servers"))?;
        let control = control::serve(requests, Arc::new(gates)).await;
        let control = control.map_err(PlatformError::io("serve the control API"))?;
        let collector = Arc::new(Collector::default());
        let host = Arc::new(Host {
            program: local.worker.program().to_owned(),
            root: local.worker.path.parent().map(Path::to_owned),
            environment: environment(row, servers, &control.endpoint())?,
            limits: local.limits.clone(),
            collector: collector.clone(),
            clock,
            logs: None,
            ends: Default::default(),
        });
        let training = Self {
            functions: functions(local, row, system, host.clone()).await?,
            host,
            collector,
            _control: control,
        };
        Ok((training, follow_ups))
    }
}

/// Drives the trainings of a trial until the first ends, and returns its state transitions; the others
/// then end, too.
async fn drive_all(
    system: &dyn System,
    row: &Row,
    trainings: &[Training],
    follow_ups: Vec<FollowUps>,
    progress: &dyn Progress,
) -> Result<u64, String> {
    let driving = trainings.iter().zip(follow_ups).enumerate();
    let mut driving = driving.map(|(number, (training, follow_ups))| {
        let progress = (number == 0).then_some(progress);
        drive_to_end(system, row, training, follow_ups, progress)
    });
    let Some(first) = driving.next() else {
        return Ok(0);
    };
    let others = try_join_all(driving);
    tokio::pin!(first, others);
    tokio::select! {
        biased;
        driven = &mut first => driven,
        ended = &mut others => match ended {
            Ok(_) => first.await,
            Err(reason) => Err(format!("another of {} trainings at once failed: {reason}", row.jobs)),
        }
    }
}

/// Time for which a trial continues after one of its services has ended: workers'
/// errors then are more informative than the fact that it ended.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Time within which the harness detects the end of a service.
const SEEN: Duration = Duration::from_millis(200);

/// Time between two looks at what this process may still open.
const LOOK: Duration = Duration::from_secs(1);

/// Drives a trial as long as its services are there.
async fn with_services<T>(
    driving: impl Future<Output = Result<T, String>>,
    services: &mut Services,
) -> Result<T, String> {
    tokio::pin!(driving);
    let driven = tokio::select! {
        driven = &mut driving => Ok(driven),
        broken = services.broken() => Err(broken),
    };
    let broken = match driven {
        Err(broken) => broken,
        Ok(Ok(done)) => return Ok(done),
        // Workers may have noticed the end first.
        Ok(Err(reason)) => {
            return Err(match timeout(SEEN, services.broken()).await {
                Ok(broken) => format!("{broken}: {reason}"),
                Err(_) => reason,
            });
        }
    };
    match timeout(LAST_WORDS, driving).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(reason)) => Err(format!("{broken}: {reason}")),
        Err(_) => Err(broken),
    }
}

/// Returns the note on a failure after refused invocations: workers that could not
/// start kept others waiting.
fn throttled(refused: u64) -> String {
    if refused == 0 {
        return String::new();
    }
    format!("; {refused} invocations were throttled by the account's limits")
}

async fn functions(
    local: &Local,
    row: &Row,
    system: &'static dyn System,
    host: Arc<Host>,
) -> Result<ByHost<Lambda, Instances>, PlatformError> {
    let api = RuntimeApi::start().await;
    let api = api.map_err(PlatformError::io("serve the Runtime API"))?;
    let spec = FunctionSpec {
        memory_mb: row.memory_mb,
        function_memory_mb: row.function_memory_mb.clone(),
        timeout: Duration::from_secs(row.timeout_s),
        storage_mb: row.sandbox.ephemeral_storage_mb,
        environment: row.sandbox.environment.clone().into_iter().collect(),
    };
    let account = Admission::new(row.sandbox.account);
    let caller = caller(row, system);
    Ok(ByHost {
        system,
        functions: Lambda::new(host.clone(), api, spec, account, caller),
        instances: Instances::new(host, row.job.workers, local.cores),
        running: Running::default(),
    })
}

/// Returns the caller of the system's functions. The published state machine of SPIRT has
/// no `Retry` in any state.
fn caller(row: &Row, system: &dyn System) -> Caller {
    let bound = system.bind(&row.job);
    let workflow = bound.is_ok_and(|bound| matches!(bound.launch(), Launch::Workflow { .. }));
    // Instances start executions for each of their steps.
    if !workflow && system.deployment().worker_host() == HostKind::Function {
        return Caller::Events;
    }
    match row.job.fidelity {
        Fidelity::Code => Caller::WorkflowWithoutRetry,
        _ => Caller::Workflow,
    }
}

/// Drives the job; returns its state transitions, or the reason of its failure.
async fn drive_to_end(
    system: &dyn System,
    row: &Row,
    training: &Training,
    follow_ups: FollowUps,
    progress: Option<&dyn Progress>,
) -> Result<u64, String> {
    let mut steps = training.collector.steps();
    let limit = deadline(row, system);
    let functions = &training.functions;
    let driving = drive(system, &row.job, functions, follow_ups);
    let deadline = sleep(limit);
    tokio::pin!(driving, deadline);
    let (mut looks, mut few_files) = (interval(LOOK), false);
    loop {
        tokio::select! {
            driven = &mut driving => {
                let driven = driven.map_err(|error| error.to_string());
                let of_files = |reason| machine::of_files(reason, few_files);
                return driven.map(|driven| driven.transitions).map_err(of_files);
            }
            _ = looks.tick() => few_files |= machine::is_short_of_files(),
            () = &mut deadline => {
                let (limit, running) = (limit.as_secs(), functions.running.named());
                return Err(format!("the trial did not end within {limit} s ({running} did not end)"));
            }
            Ok(()) = steps.changed() => {
                let done = *steps.borrow_and_update();
                progress.inspect(|progress| progress.steps(done));
            }
        }
    }
}

/// Returns an upper bound of a trial's time: in an epoch, a worker runs each of its
/// system's functions at most once, one after the other.
fn deadline(row: &Row, system: &dyn System) -> Duration {
    let turns = row.job.epochs * system.deployment().functions.len().max(1) + 1;
    Duration::from_secs(row.timeout_s.saturating_mul(turns as u64))
}

/// Returns the workers' environment: the addresses of the servers, and what the row asks for.
fn environment(
    row: &Row,
    servers: Vec<(String, String)>,
    control: &str,
) -> Result<Vec<(String, String)>, PlatformError> {
    let mut environment = servers;
    environment.push((variable::CONTROL.into(), control.to_owned()));
    if row.cpu_fallback {
        environment.push((variable::CPU_FALLBACK.into(), "1".into()));
    }
    if row.precision != Precision::default() {
        environment.push((variable::PRECISION.into(), row.precision.name().into()));
    }
    if !row.faults.is_empty() {
        let faults =
            serde_json::to_string(&row.faults).map_err(PlatformError::unwritable("faults"))?;
        environment.push((variable::FAULTS.into(), faults));
    }
    if let Some(network) = &row.sandbox.network {
        let shape =
            serde_json::to_string(&network.shape).map_err(PlatformError::unwritable("network"))?;
        environment.push((variable::NETWORK.into(), shape));
    }
    Ok(environment)
}

/// Returns warnings about the account and the network.
fn surroundings(row: &Row, refused: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    if refused > 0 {
        let account = row.sandbox.account;
        warnings.push(format!(
            "{refused} invocations were throttled (the account runs {} at once, a function gains \
             {} sandboxes in 10 s): times include their retries",
            account.concurrency_limit, account.scaling_per_10_s
        ));
    }
    if let Some(network) = &row.sandbox.network {
        warnings.push(format!("the network was shaped: {network}"));
    }
    warnings
}

/// Returns warnings about this machine for readers of the results.
fn warnings(local: &Local, row: &Row, system: &dyn System) -> Vec<String> {
    let mut warnings = Vec::new();
    let workers = row.job.workers;
    let cores = local.cores;
    if system.deployment().runs_on(HostKind::Instance) {
        let text = "instances ran as processes of this machine; booting was not simulated";
        warnings.push(text.to_owned());
        if workers > cores {
            warnings.push(format!(
                "oversubscribed: {workers} instances shared a host of {cores} cores, times are \
                 longer than on instances of their own"
            ));
        }
    }
    if !system.deployment().runs_on(HostKind::Function) {
        return warnings;
    }
    if row.job.device == Device::Cuda {
        let text = "functions are billed as on Lambda, which has no GPU: what they computed on one costs more";
        warnings.push(text.to_owned());
    }
    let largest_mb = largest_function_mb(row).unwrap_or(row.memory_mb);
    warnings.extend(local.limits.too_large(largest_mb));
    let share = vcpus(row.memory_mb);
    if workers as f64 * share > cores as f64 {
        warnings.push(format!(
            "oversubscribed: functions of {workers} workers, {share:.2} vCPU each ({} MB), shared a \
             host of {cores} cores, times are longer than on Lambda",
            row.memory_mb
        ));
    }
    let [cpu, ..] = local.limits.enforcement(largest_mb);
    if !cpu.enforced {
        let (share, why) = (vcpus(largest_mb), cpu.how);
        warnings.push(format!(
            "the CPU share of {share:.2} vCPU was not enforced: {why}"
        ));
    }
    warnings
}
