//! Rows of an experiment on AWS: functions and instances of a trial, how often it invokes
//! them, and how long it may take.

use epochcost_systems::{Host, Job, Launch, System, SystemError, find};
use jiff::Timestamp;

use crate::Scope;
use crate::names::Role;

/// Upper bound of the seconds around a trial's own time: its resources are created and
/// boot, its log and metrics arrive, and its resources are removed.
pub const AROUND_TRIAL_S: u64 = 1_200;

/// Row of an experiment on AWS.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    /// Name of the row.
    pub row: String,
    /// Training job.
    pub job: Job,
    /// Memory size of every function, MB.
    pub memory_mb: u32,
    /// Time limit of an invocation, seconds.
    pub timeout_s: u64,
    /// Type of the workers' instances.
    pub instance_type: String,
    /// Number of trials.
    pub trials: u64,
    /// Whether the exchange uses a tensor store.
    pub uses_tensor_store: bool,
    /// Whether the exchange uses a queue.
    pub uses_queue: bool,
    /// Number of objects that a trial writes.
    pub puts: u64,
    /// Bytes of these objects.
    pub bytes_up: u64,
    /// Number of objects that a trial reads, those of the dataset among them.
    pub gets: u64,
    /// Number of objects of the dataset that a trial reads.
    pub data_gets: u64,
}

/// Function with the maximum number of its invocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCalls {
    /// Name of the system's function.
    pub function: &'static str,
    /// Maximum number of invocations in one trial.
    pub at_most: u64,
}

impl Training {
    /// Returns the row's system.
    ///
    /// # Errors
    /// When there is no system of that name.
    pub fn system(&self) -> Result<&'static dyn System, SystemError> {
        find(&self.job.system).ok_or_else(|| SystemError::Malformed {
            what: format!("the row {}", self.row),
            reason: format!("there is no system {:?}", self.job.system),
        })
    }

    /// Returns the Lambda functions that a trial invokes.
    ///
    /// A worker invokes itself again at most once per epoch. A state machine is executed
    /// once per peer and epoch. All other functions are called at most once per mini-batch.
    ///
    /// # Errors
    /// When the settings are invalid for the system.
    pub fn calls(&self) -> Result<Vec<FunctionCalls>, SystemError> {
        let system = self.system()?;
        let batches = self.job.batches_per_worker;
        let peer_epochs = (self.job.workers * self.job.epochs) as u64;
        let (bound, launched) = (system.bind(&self.job)?, self.launched(system)?);
        let (states, rounds) = (bound.states(), bound.rounds().max(1));
        let executions = peer_epochs * rounds as u64;
        let functions = system.deployment().functions.iter();
        let on_lambda = functions.filter(|function| function.host == Host::Function);
        let called = on_lambda.map(|function| function.name).map(|function| {
            let starts = launched.iter().filter(|(name, _)| *name == function);
            let starts: u64 = starts.map(|(_, times)| times).sum();
            let staged = states.iter().filter(|state| state.function() == function);
            let of_round = batches.div_ceil(rounds);
            let staged: u64 = staged.map(|state| state.invocations(of_round)).sum();
            let at_most = match starts + staged * executions {
                0 => peer_epochs * batches.max(1) as u64,
                known => known,
            };
            FunctionCalls { function, at_most }
        });
        Ok(called.collect())
    }

    /// Returns the functions that the platform starts itself, and how often at most.
    fn launched(&self, system: &dyn System) -> Result<Vec<(&'static str, u64)>, SystemError> {
        let epochs = self.job.epochs as u64;
        Ok(match system.bind(&self.job)?.launch() {
            Launch::Workers(workers) => {
                let again = |(function, _): &(&'static str, usize)| (*function, epochs);
                workers.iter().map(again).collect()
            }
            Launch::Workflow { bootstrap } => vec![(bootstrap, self.job.workers as u64)],
        })
    }

    /// Returns the functions that run at once, at most: every worker's, and in a workflow one per
    /// mini-batch of every peer.
    ///
    /// # Errors
    /// When the settings are invalid for the system.
    pub fn functions_at_once(&self) -> Result<u64, SystemError> {
        let system = self.system()?;
        let bound = system.bind(&self.job)?;
        let workers = self.job.workers as u64;
        let batches = self.job.batches_per_worker.div_ceil(bound.rounds().max(1)) as u64;
        let deployment = system.deployment();
        let on_functions = |name: &str| deployment.host_of(name) == Host::Function;
        Ok(match bound.launch() {
            Launch::Workflow { .. } => workers * batches.max(1),
            Launch::Workers(launched) => {
                let started = launched.iter().filter(|(name, _)| on_functions(name));
                let called: Vec<&str> = deployment.functions.iter().map(|one| one.name).collect();
                let is_called = |name: &&str| {
                    on_functions(name) && !launched.iter().any(|(started, _)| started == name)
                };
                // What workers call themselves: one per mini-batch of every worker.
                let per_batch = called.into_iter().filter(is_called).count() as u64;
                started.count() as u64 + per_batch * workers * batches
            }
        })
    }

    /// Returns the maximum number of state transitions of a trial.
    ///
    /// # Errors
    /// When the settings are invalid for the system.
    pub fn transitions(&self) -> Result<u64, SystemError> {
        let bound = self.system()?.bind(&self.job)?;
        let rounds = bound.rounds().max(1);
        let batches = self.job.batches_per_worker.div_ceil(rounds);
        let states = bound.states();
        let once: u64 = states.iter().map(|state| state.transitions(batches)).sum();
        Ok(once * (self.job.workers * self.job.epochs * rounds) as u64)
    }

    /// Returns the number of workers' instances.
    ///
    /// # Errors
    /// When the settings are invalid for the system.
    pub fn instances(&self) -> Result<u64, SystemError> {
        let system = self.system()?;
        let on_instance = |function: &str| system.deployment().host_of(function) == Host::Instance;
        Ok(match system.bind(&self.job)?.launch() {
            Launch::Workers(workers) => {
                workers.iter().filter(|(name, _)| on_instance(name)).count() as u64
            }
            Launch::Workflow { bootstrap } if on_instance(bootstrap) => self.job.workers as u64,
            Launch::Workflow { .. } => 0,
        })
    }

    /// Returns the hosts of services that a trial needs.
    ///
    /// # Errors
    /// When there is no such system.
    pub fn roles(&self) -> Result<Vec<Role>, SystemError> {
        let mut roles = Vec::new();
        if self.uses_tensor_store {
            let deployment = self.system()?.deployment();
            let hosts = deployment.tensor_store_hosts(self.job.workers);
            roles.extend((0..hosts).map(Role::TensorStore));
        }
        if self.uses_queue {
            roles.push(Role::Queue);
        }
        Ok(roles)
    }

    /// Returns the number of hosts of services.
    ///
    /// # Errors
    /// When there is no such system.
    pub fn service_hosts(&self) -> Result<u64, SystemError> {
        Ok(self.roles()?.len() as u64)
    }

    /// Returns the time limit of a trial in seconds: in an epoch, a worker runs each of its
    /// system's functions at most once, one after another.
    ///
    /// # Errors
    /// When there is no such system.
    pub fn deadline_s(&self) -> Result<u64, SystemError> {
        let turns = self.job.epochs * self.system()?.deployment().functions.len().max(1) + 1;
        Ok(self.timeout_s.saturating_mul(turns as u64))
    }

    /// Returns the time by which every instance of a trial that begins at `now` has ended,
    /// whatever becomes of the program that started it: the trial's deadline, and what is
    /// around it; the run's expiry if that is earlier.
    ///
    /// # Errors
    /// When there is no such system.
    pub fn ends_by(&self, scope: &Scope, now: Timestamp) -> Result<Timestamp, SystemError> {
        let seconds = i64::try_from(self.deadline_s()? + AROUND_TRIAL_S).unwrap_or(i64::MAX);
        let end = Timestamp::from_second(now.as_second().saturating_add(seconds));
        Ok(end.map_or(scope.expires, |end| end.min(scope.expires)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::deployment::tests::{rows, scope};

    /// A laptop that dies leaves instances until their trial's end, not until the end of all
    /// trials of the run.
    #[test]
    fn instances_end_with_their_trial() {
        let (now, scope) = (Timestamp::now(), scope());
        for row in rows() {
            let end = row.ends_by(&scope, now).unwrap();
            let lived = u64::try_from(end.as_second() - now.as_second()).unwrap();
            assert_eq!(
                lived,
                row.deadline_s().unwrap() + AROUND_TRIAL_S,
                "{}",
                row.row
            );
            assert!(end < scope.expires);
        }
        let over = Scope {
            expires: now,
            ..scope
        };
        assert_eq!(rows()[0].ends_by(&over, now).unwrap(), now);
    }
}
