//! Bounds of a row's numbers, and faults that can happen.

use epochcost_spec::rows::{Fault, FaultKind};
use epochcost_spec::suggest::did_you_mean;
use epochcost_systems::{Host, Job, Server, Sizes, System};

use super::check::Checker;
use super::document::Node;
use super::error::ExperimentError;
use super::raw::Training;

/// Memory sizes of a Lambda function, MB (AWS Lambda quotas).
const LAMBDA_MEMORY_MB: std::ops::RangeInclusive<u64> = 128..=10_240;
/// Most letters of a row's id: file systems allow names of 255 bytes, encrypted ones 143.
pub(super) const LONGEST_ID: usize = 110;
/// Most trials of all rows of an experiment together.
pub(super) const MOST_TRIALS_OF_ALL: usize = 200_000;
/// Most bytes that a row may exchange: counts of traffic have 64 bits.
const MOST_BYTES: f64 = 1e18;

impl Checker<'_> {
    /// Refuses sizes that Lambda does not offer.
    pub(super) fn memory(&self, fields: &Node, row: &Training) -> Result<(), ExperimentError> {
        // A simulation reports such a row as infeasible.
        let is_lambda = self.simulation.is_none() && self.one_machine.is_none();
        if is_lambda && !LAMBDA_MEMORY_MB.contains(&row.memory_mb) {
            return Err(self.error(
                fields,
                "memory_mb",
                format!(
                    "{} MB is outside Lambda's range of memory sizes",
                    row.memory_mb
                ),
                "give 128 to 10240",
            ));
        }
        Ok(())
    }

    /// Refuses memory sizes of functions that the system does not have, or that run on
    /// instances; sizes that Lambda does not offer; and any on AWS, where all functions of a
    /// deployment get one.
    pub(super) fn function_sizes(
        &self,
        fields: &Node,
        system: &dyn System,
        row: &Training,
    ) -> Result<(), ExperimentError> {
        let functions = system.deployment().functions.iter();
        let functions = functions.filter(|function| function.host == Host::Function);
        let known: Vec<&str> = functions.map(|function| function.name).collect();
        for (function, memory_mb) in &row.function_memory_mb {
            let (problem, remedy) = if known.is_empty() {
                let problem = format!("{} has no functions", system.title());
                (problem, "leave `function_memory_mb` out".to_owned())
            } else if !known.contains(&function.as_str()) {
                let problem = format!("{} has no function `{function}`", system.title());
                (problem, did_you_mean(function, &known))
            } else if self.simulation.is_none()
                && !LAMBDA_MEMORY_MB.contains(&u64::from(*memory_mb))
            {
                let problem = format!(
                    "{memory_mb} MB of `{function}` is outside Lambda's range of memory sizes"
                );
                (problem, "give 128 to 10240".to_owned())
            } else if self.site.is_cloud() {
                let problem = "functions of a trial on AWS have one memory size".to_owned();
                let remedy =
                    "leave `function_memory_mb` out, or run it with --platform local or sim";
                (problem, remedy.to_owned())
            } else {
                continue;
            };
            return Err(self.error(fields, "function_memory_mb", problem, remedy));
        }
        Ok(())
    }

    /// Refuses trainings at once that would share no servers.
    pub(super) fn jobs(&self, fields: &Node, jobs: usize) -> Result<usize, ExperimentError> {
        if jobs == 1 || self.simulation.is_some() || self.has_servers {
            return Ok(jobs);
        }
        let problem = format!("{jobs} trainings at once share servers, and these serve one");
        let remedy = "run it with --platform sim, or --platform local --services real";
        Err(self.error(fields, "jobs", problem, remedy))
    }

    /// Refuses a row whose traffic could not be counted: in a step, every worker may send its
    /// gradient to every other.
    pub(super) fn exchange(
        &self,
        fields: &Node,
        job: &Job,
        sizes: Sizes,
    ) -> Result<(), ExperimentError> {
        let steps = job.epochs as f64 * job.batches_per_worker as f64;
        let workers = job.workers as f64;
        let bytes = steps * workers * workers * 4.0 * sizes.parameters as f64;
        if bytes <= MOST_BYTES {
            return Ok(());
        }
        let problem = format!(
            "{} workers in {steps} steps may exchange {bytes:.1e} bytes, more than can be counted",
            job.workers
        );
        Err(self.error(fields, "epochs", problem, "give fewer epochs or workers"))
    }

    /// Refuses faults that can never happen.
    pub(super) fn faults(
        &self,
        fields: &Node,
        row: &Training,
        system: &dyn System,
        job: &Job,
        sizes: Sizes,
    ) -> Result<(), ExperimentError> {
        let ranks = computing_ranks(job);
        let on_functions = system.deployment().runs_on(Host::Function);
        for (index, fault) in row.faults.iter().enumerate() {
            let refuse = |problem: String, remedy: String| {
                let problem = format!("fault {index} would never happen{problem}");
                Err(self.error(fields, "faults", problem, remedy))
            };
            if is_outside(fault, job) {
                let (workers, epochs, batches) = (job.workers, job.epochs, job.batches_per_worker);
                let remedy = format!(
                    "give rank below {workers}, epoch below {epochs} and batch below {batches}"
                );
                return refuse(String::new(), remedy);
            }
            if fault.rank >= ranks {
                let problem = format!(
                    ": one process of rank 0 computes all gradients of {}",
                    system.name()
                );
                return refuse(problem, "give rank 0".to_owned());
            }
            let at_stages = matches!(
                fault.kind,
                FaultKind::Crash | FaultKind::Hang | FaultKind::StragglerMs(_)
            ) || fault.kind.is_of_message();
            if fault.stage.is_some() && !at_stages {
                let remedy = "leave `stage` out, or give another kind: crash, hang, straggler_ms, \
                              loses_message or doubles_message";
                return refuse(
                    ": a stage begins without an answer, so that nothing can fail there".to_owned(),
                    remedy.to_owned(),
                );
            }
            if let Some(name) = unknown_function(fault, system) {
                let functions = system.deployment().functions.iter();
                let names: Vec<&str> = functions.map(|function| function.name).collect();
                let problem = format!(": {} has no function {name}", system.name());
                return refuse(problem, format!("give one of {}", names.join(", ")));
            }
            if matches!(fault.kind, FaultKind::Server(_)) && self.site.is_cloud() {
                let problem = ": nothing here breaks the servers of this platform".to_owned();
                return refuse(problem, "run it with --platform local or sim".to_owned());
            }
            if let FaultKind::Server(broken) = fault.kind
                && is_idle(broken.which, system, job, sizes)
            {
                let (name, which) = (system.name(), broken.which);
                let problem = format!(" to a worker: {name} uses no {which}");
                let remedy = "name a server that it uses, such as object_store";
                return refuse(problem, remedy.to_owned());
            }
            if fault.kind.is_of_message() && is_idle(Server::Queue, system, job, sizes) {
                let problem = format!(": {} sends no messages through a queue", system.name());
                return refuse(
                    problem,
                    "give another kind: crash or straggler_ms".to_owned(),
                );
            }
            if fault.kind == FaultKind::OutOfMemory && !on_functions {
                let problem = format!(
                    ": {} computes on instances, whose memory nothing limits here",
                    system.name()
                );
                return refuse(problem, "give another kind: crash or error".to_owned());
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

/// Returns the name of a fault's function, if the system has none of that name.
fn unknown_function<'a>(fault: &'a Fault, system: &dyn System) -> Option<&'a str> {
    let name = fault.function.as_deref()?;
    let is_known = (system.deployment().functions.iter()).any(|function| function.name == name);
    (!is_known).then_some(name)
}

fn is_outside(fault: &Fault, job: &Job) -> bool {
    fault.rank >= job.workers || fault.epoch >= job.epochs || fault.batch >= job.batches_per_worker
}

/// Number of ranks that compute gradients in processes of their own.
fn computing_ranks(job: &Job) -> usize {
    let is_single = job.settings["single_process"] == true;
    if is_single || job.system == "mirrored" {
        1
    } else {
        job.workers
    }
}
