//! What rows of an experiment need on AWS: resources, and the most that they
//! can cost.

use std::collections::BTreeSet;

use epochcost_systems::{Host, Job, Launch, State, System, SystemError, find};

use serde::Serialize;

use crate::Scope;
use crate::policy;
use crate::resource::{
    Address, BucketSpec, InstanceProfileSpec, Kind, LogGroupSpec, RoleSpec, SecurityGroupSpec, Spec,
};

/// Type of the instances that hold tensor stores (Barrak et al. 2023, §IV) and
/// the queue.
pub const SERVICE_INSTANCE: &str = "t2.medium";
/// Days that log lines are kept: one of the retentions that CloudWatch knows.
const RETENTION_DAYS: i32 = 3;

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
            let staged = states.iter().filter(|state| function_of(state) == function);
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

    /// Hosts of services.
    ///
    /// # Errors
    /// When there is no such system.
    pub fn service_hosts(&self) -> Result<u64, SystemError> {
        let stores = match self.uses_tensor_store {
            true => self.system()?.tensor_store_hosts(self.job.workers) as u64,
            false => 0,
        };
        Ok(stores + u64::from(self.uses_queue))
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

/// The function that a state invokes.
fn function_of(state: &State) -> &'static str {
    match state {
        State::Task { function } | State::MapBatches { function } => function,
    }
}

/// A name's part: lower case, digits and hyphens, as the strictest service
/// (S3) takes it.
pub(crate) fn part(text: &str) -> String {
    let letter = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    };
    text.chars().map(letter).collect()
}

/// The name of a function at a memory size.
pub fn function_name(scope: &Scope, system: &str, function: &str, memory_mb: u32) -> String {
    scope
        .run
        .name(&part(&format!("{system}-{function}-{memory_mb}")))
}

/// What exists once for all rows: buckets, roles, the instance profile, the
/// security group, and a log group for each function.
///
/// # Errors
/// When a row's settings are not its system's.
pub fn shared(scope: &Scope, rows: &[Training]) -> Result<Vec<Spec>, SystemError> {
    let name = |what: &str| scope.run.name(what);
    let bucket = |what: &str| {
        Spec::Bucket(BucketSpec {
            name: name(what),
            objects: Vec::new(),
        })
    };
    let role = |what: &str, service, policy| {
        Spec::Role(RoleSpec {
            name: name(what),
            service,
            policy,
        })
    };
    let mut specs = vec![bucket("code"), bucket("objects")];
    let (mut functions, mut machines, mut hosts) = (BTreeSet::new(), false, false);
    for row in rows {
        for called in row.calls()? {
            functions.insert(function_name(
                scope,
                &row.job.system,
                called.function,
                row.memory_mb,
            ));
        }
        machines |= row.transitions()? > 0;
        hosts |= row.instances()? + row.service_hosts()? > 0;
    }
    if !functions.is_empty() {
        specs.push(role(
            "functions",
            "lambda.amazonaws.com",
            policy::of_functions(scope),
        ));
    }
    if machines {
        specs.push(role(
            "machines",
            "states.amazonaws.com",
            policy::of_state_machines(scope),
        ));
    }
    if hosts {
        specs.push(role(
            "instances",
            "ec2.amazonaws.com",
            policy::of_instances(scope),
        ));
        specs.push(Spec::InstanceProfile(InstanceProfileSpec {
            name: name("instances"),
            role: name("instances"),
        }));
        specs.push(Spec::SecurityGroup(SecurityGroupSpec {
            name: name("members"),
        }));
    }
    specs.extend(functions.into_iter().map(|function| {
        Spec::LogGroup(LogGroupSpec {
            name: format!("/aws/lambda/{function}"),
            retention_days: RETENTION_DAYS,
        })
    }));
    Ok(specs)
}

/// A resource of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// What it is.
    pub kind: Kind,
    /// Its name; of several of a kind, what their names begin with.
    pub name: String,
    /// How many.
    pub count: u64,
    /// What of it decides its price.
    pub detail: String,
    /// The row that it is for; of what all rows share, nothing.
    pub row: Option<String>,
}

/// Everything that rows need, what they share first.
///
/// # Errors
/// When a row's settings are not its system's.
pub fn planned(scope: &Scope, rows: &[Training]) -> Result<Vec<Planned>, SystemError> {
    let mut all: Vec<Planned> = (shared(scope, rows)?.iter())
        .map(|spec| {
            let Address { kind, name } = spec.address();
            Planned {
                kind,
                name,
                count: 1,
                detail: String::new(),
                row: None,
            }
        })
        .collect();
    for row in rows {
        of_row(scope, row, &mut all)?;
    }
    Ok(all)
}

fn of_row(scope: &Scope, row: &Training, all: &mut Vec<Planned>) -> Result<(), SystemError> {
    let mut add = |kind, name, count, detail| {
        if count > 0 {
            let row = Some(row.row.clone());
            all.push(Planned {
                kind,
                name,
                count,
                detail,
                row,
            });
        }
    };
    let (system, memory_mb) = (row.job.system.as_str(), row.memory_mb);
    for called in row.calls()? {
        let name = function_name(scope, system, called.function, memory_mb);
        add(Kind::Function, name, 1, format!("{memory_mb} MB"));
    }
    let machines = u64::from(row.transitions()? > 0);
    let name = scope.run.name(&part(system));
    add(Kind::StateMachine, name, machines, "standard".to_owned());
    let name = |what: &str| scope.run.name(&format!("{}-{what}", part(&row.row)));
    let hosts = row.service_hosts()?;
    let on = SERVICE_INSTANCE.to_owned();
    add(Kind::Instance, name("service"), hosts, on);
    let workers = row.instances()?;
    add(
        Kind::Instance,
        name("worker"),
        workers,
        row.instance_type.clone(),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use epochcost_systems::{Fidelity, systems, testing};
    use serde_json::Map;

    use super::*;
    use crate::RunId;
    use crate::policy::too_wide;

    fn scope() -> Scope {
        Scope {
            run: RunId::new(1),
            partition: "aws".into(),
            account: "123456789012".into(),
            region: "us-east-1".into(),
            expires: "2099-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    fn rows() -> Vec<Training> {
        let training = |system: &&dyn System| Training {
            row: system.name().to_owned(),
            job: testing::job(system.name(), Fidelity::Paper, 4, &Map::new()).unwrap(),
            memory_mb: 2048,
            timeout_s: 900,
            instance_type: "g4dn.xlarge".into(),
            trials: 1,
            uses_tensor_store: system.name() == "spirt",
            uses_queue: system.name() == "spirt",
            puts: 1,
            bytes_up: 1,
        };
        systems().iter().map(training).collect()
    }

    /// Names within the strictest limits: 63 characters of buckets, 64 of
    /// functions and roles, in lower case, digits and hyphens.
    #[test]
    fn every_name_is_one_that_every_service_takes_and_leads_back() {
        for planned in planned(&scope(), &rows()).unwrap() {
            let name = planned
                .name
                .strip_prefix("/aws/lambda/")
                .unwrap_or(&planned.name);
            assert!(name.len() <= 63, "{name}");
            let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.chars().all(good), "{name}");
            assert_eq!(RunId::of_name(name), Some(RunId::new(1)), "{name}");
        }
    }

    #[test]
    fn roles_reach_nothing_but_their_run() {
        let specs = shared(&scope(), &rows()).unwrap();
        assert!(
            specs
                .iter()
                .filter(|spec| matches!(spec, Spec::Role(_)))
                .count()
                == 3
        );
        assert_eq!(too_wide(&specs, &RunId::new(1)), [] as [String; 0]);
        assert!(!too_wide(&specs, &RunId::new(2)).is_empty());
    }

    /// One function for each function of each system on functions, one machine
    /// for the one workflow, and instances where systems ask for them.
    #[test]
    fn rows_need_what_their_systems_are_deployed_as() {
        let planned = planned(&scope(), &rows()).unwrap();
        let count = |kind, row: &str| -> u64 {
            let of = planned
                .iter()
                .filter(|p| p.kind == kind && p.row.as_deref() == Some(row));
            of.map(|p| p.count).sum()
        };
        assert_eq!(count(Kind::Function, "spirt"), 9);
        assert_eq!(count(Kind::StateMachine, "spirt"), 1);
        assert_eq!(count(Kind::Instance, "spirt"), 5);
        assert_eq!(count(Kind::Function, "mlless"), 2);
        assert_eq!(count(Kind::Function, "allreduce"), 1);
        assert_eq!(count(Kind::Function, "gpu_baseline"), 0);
        assert_eq!(count(Kind::Instance, "gpu_baseline"), 4);
        let groups = planned.iter().filter(|p| p.kind == Kind::LogGroup).count() as u64;
        let functions: u64 = planned
            .iter()
            .filter(|p| p.kind == Kind::Function)
            .map(|p| p.count)
            .sum();
        assert_eq!(groups, functions);
    }
}
