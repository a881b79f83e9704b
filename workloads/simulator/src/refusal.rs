//! Settings that a platform refuses before anything runs.

use epochcost_systems::{Host, Launch, find};

use crate::error::SimulationError;
use crate::limits::{Infeasible, Limit};
use crate::model::Simulation;

/// The limit of the platform that a setting meets before anything runs, if it
/// meets one: the function's size, its package, and how many must run at once.
/// Memory, time and sizes of values are met on the way.
///
/// # Errors
/// When the job is not one of a known system.
pub fn refused(
    simulation: &Simulation,
    package_mb: f64,
) -> Result<Option<Infeasible>, SimulationError> {
    let job = &simulation.job;
    let system = find(&job.system).ok_or_else(|| SimulationError::UnknownSystem {
        system: job.system.clone(),
    })?;
    if !simulation.has_limits || !system.runs_on(Host::Function) {
        return Ok(None);
    }
    let function = &simulation.profile.function;
    let memory_mb = f64::from(simulation.memory_mb);
    if memory_mb < function.memory_mb_minimum || memory_mb > function.memory_mb_limit {
        let reason = format!(
            "{memory_mb} MB is outside the sizes of a function, {} to {} MB",
            function.memory_mb_minimum, function.memory_mb_limit
        );
        return Ok(Infeasible::new(Limit::Memory, reason));
    }
    if package_mb > function.package_mb_limit {
        let reason = format!(
            "a package of {package_mb:.0} MB, of {} MB at most",
            function.package_mb_limit
        );
        return Ok(Infeasible::new(Limit::PackageSize, reason));
    }
    // Those that wait for each other must run at once: workers, or one
    // function of each peer for those of all others. Functions that a worker
    // on an instance calls wait for nobody.
    let (waiting, who) = match system.launch(job)? {
        Launch::Workers(workers) => {
            let on_functions = |(name, _): &&(&str, usize)| system.host_of(name) == Host::Function;
            (workers.iter().filter(on_functions).count(), "functions")
        }
        Launch::Workflow { .. } => (job.workers, "peers"),
    };
    if waiting as f64 > function.concurrency_limit {
        let reason = format!(
            "{waiting} {who} wait for each other, and {} functions run at once",
            function.concurrency_limit
        );
        return Ok(Infeasible::new(Limit::Concurrency, reason));
    }
    Ok(None)
}
