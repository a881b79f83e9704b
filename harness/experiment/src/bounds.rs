//! Bounds of a row's numbers, and faults that can happen.

use epochcost_spec::rows::FaultKind;
use epochcost_spec::suggest::did_you_mean;
use epochcost_systems::{Host, Job, Server, Sizes, System};

use super::check::RowChecker;
use super::error::ExperimentError;

/// Memory sizes of a Lambda function, MB (AWS Lambda quotas).
const LAMBDA_MEMORY_MB: std::ops::RangeInclusive<u64> = 128..=10_240;
/// Most letters of a row's id: file systems allow names of 255 bytes, encrypted ones 143.
pub(super) const LONGEST_ID: usize = 110;
/// Most trials of all rows of an experiment together.
pub(super) const MOST_TRIALS_OF_ALL: usize = 200_000;
/// Most bytes that a row may exchange: counts of traffic have 64 bits.
const MOST_BYTES: f64 = 1e18;

impl RowChecker<'_> {
    /// Refuses sizes that Lambda does not offer.
    pub(super) fn memory(&self) -> Result<(), ExperimentError> {
        // A simulation reports such a row as infeasible.
        let is_lambda = self.all.simulation.is_none() && self.all.one_machine.is_none();
        if is_lambda && !LAMBDA_MEMORY_MB.contains(&self.row.memory_mb) {
            let memory_mb = self.row.memory_mb;
            let problem = format!("{memory_mb} MB is outside Lambda's range of memory sizes");
            return Err(self.error("memory_mb", problem, "give 128 to 10240"));
        }
        Ok(())
    }

    /// Refuses memory sizes of functions that the system does not have, or that run on
    /// instances; sizes that Lambda does not offer; and any on AWS, where all functions of a
    /// deployment get one.
    pub(super) fn function_sizes(&self) -> Result<(), ExperimentError> {
        let functions = self.system.deployment().functions.iter();
        let functions = functions.filter(|function| function.host == Host::Function);
        let known: Vec<&str> = functions.map(|function| function.name).collect();
        for (function, memory_mb) in &self.row.function_memory_mb {
            let refused = |problem: String, remedy: &str| {
                Err(self.error("function_memory_mb", problem, remedy))
            };
            let is_lambdas = LAMBDA_MEMORY_MB.contains(&u64::from(*memory_mb));
            if known.is_empty() {
                let problem = format!("{} has no functions", self.system.title());
                return refused(problem, "leave `function_memory_mb` out");
            } else if !known.contains(&function.as_str()) {
                let problem = format!("{} has no function `{function}`", self.system.title());
                return refused(problem, &did_you_mean(function, &known));
            } else if self.all.simulation.is_none() && !is_lambdas {
                let problem = format!(
                    "{memory_mb} MB of `{function}` is outside Lambda's range of memory sizes"
                );
                return refused(problem, "give 128 to 10240");
            } else if self.all.site.is_cloud() {
                let problem = "functions of a trial on AWS have one memory size".to_owned();
                let remedy =
                    "leave `function_memory_mb` out, or run it with --platform local or sim";
                return refused(problem, remedy);
            }
        }
        Ok(())
    }

    /// Refuses trainings at once that would share no servers.
    pub(super) fn jobs(&self) -> Result<usize, ExperimentError> {
        let jobs = self.row.jobs;
        if jobs == 1 || self.all.simulation.is_some() || self.all.has_servers {
            return Ok(jobs);
        }
        let problem = format!("{jobs} trainings at once share servers, and these serve one");
        let remedy = "run it with --platform sim, or --platform local --services real";
        Err(self.error("jobs", problem, remedy))
    }

    /// Refuses a row whose traffic could not be counted: in a step, every worker may send its
    /// gradient to every other.
    pub(super) fn exchange(&self, job: &Job, sizes: Sizes) -> Result<(), ExperimentError> {
        let steps = job.epochs as f64 * job.batches_per_worker as f64;
        let workers = job.workers as f64;
        let bytes = steps * workers * workers * 4.0 * sizes.parameters as f64;
        if bytes <= MOST_BYTES {
            return Ok(());
        }
        let problem = format!(
            "{workers} workers in {steps} steps may exchange {bytes:.1e} bytes, more than can be counted"
        );
        Err(self.error(
            "epochs",
            problem,
            "give fewer epochs, workers or parameters",
        ))
    }

    /// Refuses faults that can never happen.
    pub(super) fn faults(&self, job: &Job, sizes: Sizes) -> Result<(), ExperimentError> {
        // Ranks that compute gradients in processes of their own.
        let is_single = job.settings["single_process"] == true || job.system == "mirrored";
        let ranks = if is_single { 1 } else { job.workers };
        let on_functions = self.system.deployment().runs_on(Host::Function);
        let name = self.system.name();
        let (workers, epochs, batches) = (job.workers, job.epochs, job.batches_per_worker);
        for (index, fault) in self.row.faults.iter().enumerate() {
            let refuse = |problem: &str, remedy: &str| {
                let problem = format!("fault {index} would never happen{problem}");
                Err(self.error("faults", problem, remedy))
            };
            if fault.rank >= workers || fault.epoch >= epochs || fault.batch >= batches {
                let remedy = format!(
                    "give rank below {workers}, epoch below {epochs} and batch below {batches}"
                );
                return refuse("", &remedy);
            }
            if fault.rank >= ranks {
                let problem = format!(": one process of rank 0 computes all gradients of {name}");
                return refuse(&problem, "give rank 0");
            }
            let at_stages = matches!(
                fault.kind,
                FaultKind::Crash | FaultKind::Hang | FaultKind::StragglerMs(_)
            ) || fault.kind.is_of_message();
            if fault.stage.is_some() && !at_stages {
                let problem = ": a stage begins without an answer, so that nothing can fail there";
                let remedy = "leave `stage` out, or give another kind: crash, hang, straggler_ms, \
                              loses_message or doubles_message";
                return refuse(problem, remedy);
            }
            let functions = self.system.deployment().functions.iter();
            let names: Vec<&str> = functions.map(|function| function.name).collect();
            let function = fault.function.as_deref();
            if let Some(function) = function.filter(|function| !names.contains(function)) {
                let problem = format!(": {name} has no function {function}");
                return refuse(&problem, &format!("give one of {}", names.join(", ")));
            }
            if matches!(fault.kind, FaultKind::Server(_)) && self.all.site.is_cloud() {
                let problem = ": nothing here breaks the servers of this platform";
                return refuse(problem, "run it with --platform local or sim");
            }
            if let FaultKind::Server(broken) = fault.kind
                && is_idle(broken.which, self.system, job, sizes)
            {
                let problem = format!(" to a worker: {name} uses no {}", broken.which);
                let remedy = "name a server that it uses, such as object_store";
                return refuse(&problem, remedy);
            }
            if fault.kind.is_of_message() && is_idle(Server::Queue, self.system, job, sizes) {
                let problem = format!(": {name} sends no messages through a queue");
                return refuse(&problem, "give another kind: crash or straggler_ms");
            }
            if fault.kind == FaultKind::OutOfMemory && !on_functions {
                let problem =
                    format!(": {name} computes on instances, whose memory nothing limits here");
                return refuse(&problem, "give another kind: crash or error");
            }
        }
        Ok(())
    }
}

/// Whether the workers of a row never speak to a server.
pub fn is_idle(server: Server, system: &dyn System, job: &Job, sizes: Sizes) -> bool {
    let bound = system.bind(job);
    match server {
        // The data lie there.
        Server::ObjectStore => false,
        Server::TensorStore => bound.is_ok_and(|bound| bound.tensor_stores() == 0),
        // Messages between workers pass through none.
        Server::Queue if system.deployment().has_links => true,
        Server::Queue => bound
            .and_then(|bound| bound.traffic(sizes))
            .is_ok_and(|traffic| traffic.messages == 0),
    }
}
