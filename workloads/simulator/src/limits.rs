//! What a platform refuses, by name.

use std::fmt;

use epochcost_systems::{Host, Launch, find};
use serde::{Deserialize, Serialize};

use crate::{Simulation, SimulationError};

/// A limit of a platform that makes a setting impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Memory of a function.
    Memory,
    /// The longest invocation.
    Duration,
    /// Invocations of an account at the same time.
    Concurrency,
    /// Size of a message, or of a value in a store.
    MessageSize,
    /// Size of a function's package.
    PackageSize,
}

impl Limit {
    /// The word used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Duration => "15 minutes",
            Self::Concurrency => "concurrency",
            Self::MessageSize => "message size",
            Self::PackageSize => "package size",
        }
    }
}

/// Why a setting is impossible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Infeasible {
    /// The limit.
    pub limit: Limit,
    /// What hit it, and by how much.
    pub reason: String,
}

impl fmt::Display for Infeasible {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "infeasible ({}): {}",
            self.limit.as_str(),
            self.reason
        )
    }
}

impl Infeasible {
    fn new(limit: Limit, reason: String) -> Option<Self> {
        Some(Self { limit, reason })
    }
}

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
    if !simulation.has_limits || !system.deployment().runs_on(Host::Function) {
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
    let (waiting, who) = match system.bind(job)?.launch() {
        Launch::Workers(workers) => {
            let on_functions =
                |(name, _): &&(&str, usize)| system.deployment().host_of(name) == Host::Function;
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
