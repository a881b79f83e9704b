//! A row of an experiment as AWS runs it: what it starts, how often, and how long
//! it may take.

use epochcost_systems::{Host, Job, Launch, System, SystemError, find};

use crate::names::Role;

/// One row of an experiment, as it would be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    /// The row's name.
    pub row: String,
    /// What is trained.
    pub job: Job,
    /// Memory size of every function, MB.
    pub memory_mb: u32,
    /// When an invocation is ended, seconds.
    pub timeout_s: u64,
    /// Type of the instances of workers that run on instances.
    pub instance_type: String,
    /// Repetitions.
    pub trials: u64,
    /// Whether its exchange goes over a tensor store.
    pub uses_tensor_store: bool,
    /// Whether it goes over a queue.
    pub uses_queue: bool,
    /// Objects that a trial writes.
    pub puts: u64,
    /// Bytes of them.
    pub bytes_up: u64,
}

/// A function and how often at most a trial invokes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The system's function.
    pub function: &'static str,
    /// Invocations of one trial at most.
    pub at_most: u64,
}

impl Training {
    /// Its system.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn system(&self) -> Result<&'static dyn System, SystemError> {
        find(&self.job.system).ok_or_else(|| SystemError::Malformed {
            what: format!("the row {}", self.row),
            reason: format!("there is no system {:?}", self.job.system),
        })
    }

    /// The Lambda functions that a trial invokes.
    ///
    /// A worker invokes itself again at most once an epoch; a state machine is
    /// executed once a peer an epoch; what is called in another way is called
    /// at most once a mini-batch.
    ///
    /// # Errors
    /// When the settings are not the system's.
    pub fn calls(&self) -> Result<Vec<Called>, SystemError> {
        let system = self.system()?;
        let batches = self.job.batches_per_worker;
        let peer_epochs = (self.job.workers * self.job.epochs) as u64;
        let (states, launched) = (system.states(&self.job)?, self.launched(system)?);
        let functions = system.functions().iter().copied();
        let on_lambda = functions.filter(|function| system.host_of(function) == Host::Function);
        let called = on_lambda.map(|function| {
            let starts = launched.iter().filter(|(name, _)| *name == function);
            let starts: u64 = starts.map(|(_, times)| times).sum();
            let staged = states.iter().filter(|state| state.function() == function);
            let staged: u64 = staged.map(|state| state.invocations(batches)).sum();
            let at_most = match starts + staged * peer_epochs {
                0 => peer_epochs * batches.max(1) as u64,
                known => known,
            };
            Called { function, at_most }
        });
        Ok(called.collect())
    }

    /// What the platform starts itself, and how often at most.
    fn launched(&self, system: &dyn System) -> Result<Vec<(&'static str, u64)>, SystemError> {
        let epochs = self.job.epochs as u64;
        Ok(match system.launch(&self.job)? {
            Launch::Workers(workers) => {
                let again = |(function, _): &(&'static str, usize)| (*function, epochs);
                workers.iter().map(again).collect()
            }
            Launch::Workflow { bootstrap } => vec![(bootstrap, self.job.workers as u64)],
        })
    }

    /// State transitions of a trial at most.
    ///
    /// # Errors
    /// When the settings are not the system's.
    pub fn transitions(&self) -> Result<u64, SystemError> {
        let states = self.system()?.states(&self.job)?;
        let batches = self.job.batches_per_worker;
        let once: u64 = states.iter().map(|state| state.transitions(batches)).sum();
        Ok(once * (self.job.workers * self.job.epochs) as u64)
    }

    /// Instances of workers.
    ///
    /// # Errors
    /// When the settings are not the system's.
    pub fn instances(&self) -> Result<u64, SystemError> {
        let system = self.system()?;
        let on_instance = |function: &str| system.host_of(function) == Host::Instance;
        Ok(match system.launch(&self.job)? {
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
            let hosts = self.system()?.tensor_store_hosts(self.job.workers);
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

    /// Seconds that a trial may take at most: in an epoch, a worker goes
    /// through each of its system's functions at most once after the other.
    ///
    /// # Errors
    /// When there is no such system.
    pub fn deadline_s(&self) -> Result<u64, SystemError> {
        let turns = self.job.epochs * self.system()?.functions().len().max(1) + 1;
        Ok(self.timeout_s.saturating_mul(turns as u64))
    }
}
