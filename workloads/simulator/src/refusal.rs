//! Settings that a platform refuses before anything runs.

use epochcost_systems::states::{self, MachineLimit};
use epochcost_systems::{Host, Launch};

use crate::error::{SimulationError, system_of};
use crate::limits::{Infeasible, Limit};
use crate::model::Simulation;
use crate::population::launched;

/// ARN of a function as deployments name it: a branch of a definition contains one.
const ARN: &str = "arn:aws:lambda:us-east-1:123456789012:function:epochcost-0123456789ab-r0t0-";

/// Returns the limit of the platform that a setting exceeds before anything runs, if
/// any: the function's size, its package, how many must run at once, and the size of its state
/// machine. Whether memory, time and sizes of values suffice shows during the simulation.
///
/// # Errors
/// [`SimulationError`] when the job's system is unknown or does not take the job.
pub fn refused(
    simulation: &Simulation,
    package_mb: f64,
) -> Result<Option<Infeasible>, SimulationError> {
    let refused = |limit, reason| Ok(Some(Infeasible { limit, reason }));
    let job = &simulation.job;
    let system = system_of(job)?;
    // Sizes of the function and of its package.
    if !simulation.has_limits || !system.deployment().runs_on(Host::Function) {
        return Ok(None);
    }
    let function = &simulation.profile.function;
    let own = simulation.function_memory_mb.values();
    let sizes = std::iter::once(&simulation.memory_mb).chain(own);
    let outside = |mb: &f64| *mb < function.memory_mb_minimum || *mb > function.memory_mb_limit;
    if let Some(memory_mb) = sizes.map(|mb| f64::from(*mb)).find(outside) {
        let reason = format!(
            "{memory_mb} MB is outside the sizes of a function, {} to {} MB",
            function.memory_mb_minimum, function.memory_mb_limit
        );
        return refused(Limit::Memory, reason);
    }
    if package_mb > function.package_mb_limit {
        let reason = format!(
            "a package of {package_mb:.0} MB, of {} MB at most",
            function.package_mb_limit
        );
        return refused(Limit::PackageSize, reason);
    }
    let bound = system.bind(job)?;
    // The state machine.
    let workflow = &simulation.profile.workflow;
    let limits = (
        workflow.definition_bytes_limit,
        workflow.history_events_limit,
    );
    let arn = |function: &str| format!("{ARN}{}-{function}", job.system);
    let (batches, rounds) = (job.batches_per_worker, bound.rounds());
    if let Some((limit, reason)) = states::exceeded(&bound.states(), batches, rounds, arn, limits) {
        let limit = match limit {
            MachineLimit::Definition => Limit::WorkflowDefinition,
            MachineLimit::History => Limit::WorkflowHistory,
        };
        return refused(limit, reason);
    }
    // Functions that wait for each other must run at once: workers, or one
    // function of each peer. Asynchronous workers do not wait for others, and
    // neither do functions that a worker on an instance calls.
    if !bound.waits() {
        return Ok(None);
    }
    let waiting = launched(job, system, &*bound);
    let who = match bound.launch() {
        Launch::Workers(_) => "functions",
        Launch::Workflow { .. } => "peers",
    };
    if waiting as f64 > function.concurrency_limit {
        let reason = format!(
            "{waiting} {who} wait for each other, and {} functions run at once",
            function.concurrency_limit
        );
        return refused(Limit::Concurrency, reason);
    }
    Ok(None)
}
