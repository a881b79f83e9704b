//! Rows of an experiment on AWS: functions and instances of a trial, how often it invokes
//! them, and how long it may take.

use std::collections::BTreeMap;
use std::fmt;

use epochcost_channels::Allowance;
use epochcost_systems::{Host, Job, Launch, State, System, SystemError, find};

/// Instance type of hosts of services: tensor stores (Barrak et al. 2023, §IV) and
/// the queue.
pub const SERVICE_INSTANCE: &str = "t2.medium";

/// Upper bound of the seconds around a trial's own time: its resources are created and
/// boot, its log and metrics arrive, and its resources are removed.
pub const AROUND_TRIAL_S: u64 = 1_200;

/// Upper bound of the seconds for which a worker's instance outlives its trial's own time: it boots,
/// and leaves its log. Services begin before it.
pub const AROUND_WORKER_S: u64 = 480;

/// What runs on the instance that has the local platform.
pub const MACHINE: &str = "machine";

/// Service of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Tensor store of the peer with this rank.
    TensorStore(usize),
    /// Queue.
    Queue,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TensorStore(rank) => write!(f, "store-{rank}"),
            Self::Queue => f.write_str("queue"),
        }
    }
}

/// Row of an experiment on AWS.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    /// Name of the row.
    pub row: String,
    /// Training job.
    pub job: Job,
    /// Memory size of every function, MB.
    pub memory_mb: u32,
    /// Limits of an invocation of a function that its forecast does not know.
    pub limits: Limits,
    /// Limits of an invocation that its forecast gives, by the function's name.
    pub by_function: BTreeMap<String, Limits>,
    /// Time limit of a trial that its forecast gives, seconds.
    pub trial_s: Option<u64>,
    /// Type of the workers' instances.
    pub instance_type: String,
    /// Whether one instance runs the local platform in place of functions, workers and services.
    pub one_machine: bool,
    /// GPUs that its workers share; all, if none.
    pub gpus: Option<u32>,
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

/// Limits of one invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time limit, seconds.
    pub timeout_s: u64,
    /// Most requests to the object store.
    pub allowance: Allowance,
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

    /// Returns the limits of an invocation of `function`.
    pub fn limits(&self, function: &str) -> Limits {
        self.by_function
            .get(function)
            .copied()
            .unwrap_or(self.limits)
    }

    /// Returns the Lambda functions that a trial invokes.
    ///
    /// A worker invokes itself again at most once per epoch. A state machine is executed
    /// once per peer and epoch. All other functions are called at most once per mini-batch.
    ///
    /// # Errors
    /// When the settings are invalid for the system.
    pub fn calls(&self) -> Result<Vec<FunctionCalls>, SystemError> {
        if self.one_machine {
            return Ok(Vec::new());
        }
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
        if self.one_machine {
            return Ok(0);
        }
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
                // States of a worker's workflow run one after another.
                let states = bound.states();
                let width = |state: &State| state.invocations(batches as usize);
                let widest = states.iter().map(width).max().unwrap_or_default();
                let is_called = |name: &&str| {
                    on_functions(name)
                        && !launched.iter().any(|(started, _)| started == name)
                        && !states.iter().any(|state| state.function() == *name)
                };
                // What workers call themselves: one per mini-batch of every worker.
                let per_batch = called.into_iter().filter(is_called).count() as u64;
                started.count() as u64 + workers * (per_batch * batches + widest)
            }
        })
    }

    /// Returns the maximum number of state transitions of a trial.
    ///
    /// # Errors
    /// When the settings are invalid for the system.
    pub fn transitions(&self) -> Result<u64, SystemError> {
        if self.one_machine {
            return Ok(0);
        }
        let bound = self.system()?.bind(&self.job)?;
        let rounds = bound.rounds().max(1);
        let batches = self.job.batches_per_worker.div_ceil(rounds);
        let states = bound.states();
        let once: u64 = states.iter().map(|state| state.transitions(batches)).sum();
        Ok(once * (self.job.workers * self.job.epochs * rounds) as u64)
    }

    /// Returns the states of the workflow of an epoch; none without one.
    ///
    /// # Errors
    /// When the settings are invalid for the system.
    pub fn states(&self) -> Result<Vec<State>, SystemError> {
        if self.one_machine {
            return Ok(Vec::new());
        }
        Ok(self.system()?.bind(&self.job)?.states())
    }

    /// Returns the number of workers' instances.
    ///
    /// # Errors
    /// When the settings are invalid for the system.
    pub fn instances(&self) -> Result<u64, SystemError> {
        Ok(self.on_instances()?.values().sum())
    }

    /// Returns what runs on workers' instances, by the system's name of it, with their number.
    ///
    /// # Errors
    /// When the settings are invalid for the system.
    pub fn on_instances(&self) -> Result<BTreeMap<&'static str, u64>, SystemError> {
        if self.one_machine {
            return Ok(BTreeMap::from([(MACHINE, 1)]));
        }
        let system = self.system()?;
        let on_instance = |function: &str| system.deployment().host_of(function) == Host::Instance;
        let mut count = BTreeMap::new();
        match system.bind(&self.job)?.launch() {
            Launch::Workers(workers) => {
                for (name, _) in workers.into_iter().filter(|(name, _)| on_instance(name)) {
                    *count.entry(name).or_default() += 1;
                }
            }
            Launch::Workflow { bootstrap } if on_instance(bootstrap) => {
                count.insert(bootstrap, self.job.workers as u64);
            }
            Launch::Workflow { .. } => {}
        }
        Ok(count)
    }

    /// Returns the types of a trial's instances, with how many of each there are.
    ///
    /// # Errors
    /// When the settings are invalid for the system.
    pub fn instances_by_type(&self) -> Result<Vec<(&str, u64)>, SystemError> {
        let (workers, hosts) = (self.instances()?, self.service_hosts()?);
        let own = self.instance_type.as_str();
        let all = if own == SERVICE_INSTANCE {
            vec![(own, workers + hosts)]
        } else {
            vec![(own, workers), (SERVICE_INSTANCE, hosts)]
        };
        Ok(all.into_iter().filter(|(_, count)| *count > 0).collect())
    }

    /// Returns the hosts of services that a trial needs.
    ///
    /// # Errors
    /// When there is no such system.
    pub fn roles(&self) -> Result<Vec<Role>, SystemError> {
        let mut roles = Vec::new();
        if self.one_machine {
            return Ok(roles);
        }
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

    /// Returns the time limit of a trial in seconds: that of its forecast; without one, in an epoch, a
    /// worker runs each of its system's functions at most once, one after another.
    ///
    /// # Errors
    /// When there is no such system.
    pub fn deadline_s(&self) -> Result<u64, SystemError> {
        let turns = self.job.epochs * self.system()?.deployment().functions.len().max(1) + 1;
        let longest_s = self.limits.timeout_s.saturating_mul(turns as u64);
        Ok(self.trial_s.unwrap_or(longest_s))
    }
}
