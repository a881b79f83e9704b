//! Resources on AWS that rows of an experiment need.

use std::collections::BTreeMap;

use epochcost_systems::{Fidelity, SystemError, states};

use serde::Serialize;

use crate::names::{FUNCTIONS, INSTANCES, MACHINES, MEMBERS, SWITCH};
use crate::resource::{
    Address, Architecture, BucketSpec, Ends, FunctionSpec, InstanceProfileSpec, Kind, LogGroupSpec,
    ObjectSpec, RoleSpec, SecurityGroupSpec, Spec, StateMachineSpec, SwitchSpec,
};
use crate::{Scope, network, permissions};

pub use crate::names::{
    TrialIndex, code_bucket, function_name, log_group_name, objects_bucket, state_machine_name,
};
pub use crate::network::{ZONES, further_subnet, subnet};
pub use epochcost_aws_plan::{
    FunctionCalls, LEASE_S, RENEWED_S, Role, SERVICE_INSTANCE, Training, lasts_s, object_s,
};

/// Retention of log lines, days: one of CloudWatch's values.
pub(crate) const RETENTION_DAYS: i32 = 3;

/// Returns the resources that all rows share: buckets, with `code` in one of them, roles,
/// the instance profile, the security group, the dead man's switch, and after it the network of hosts
/// of services.
///
/// # Errors
/// When a row's settings are invalid for its system.
pub fn shared(
    scope: &Scope,
    rows: &[Training],
    code: Vec<ObjectSpec>,
) -> Result<Vec<Spec>, SystemError> {
    let name = |what: &str| scope.run.name(what);
    let role = |what: &str, service, policy| {
        Spec::Role(RoleSpec {
            name: name(what),
            service,
            policy,
        })
    };
    // Buckets.
    let mut specs = vec![
        Spec::Bucket(BucketSpec {
            name: code_bucket(scope),
            needed_s: None,
            objects: code,
        }),
        Spec::Bucket(BucketSpec {
            name: objects_bucket(scope),
            needed_s: Some(object_s(rows)?),
            objects: Vec::new(),
        }),
    ];
    // Kinds of members that the rows have.
    let (mut functions, mut machines, mut hosts, mut invoke) = (false, false, false, false);
    for row in rows {
        let calls = !row.calls()?.is_empty();
        functions |= calls;
        machines |= row.transitions()? > 0;
        hosts |= row.instances()? + row.service_hosts()? > 0;
        invoke |= row.instances()? > 0 && calls;
    }
    // Their roles; profile and group of instances.
    if functions {
        specs.push(role(
            FUNCTIONS,
            "lambda.amazonaws.com",
            permissions::functions(scope, network::has_functions(rows)?),
        ));
    }
    if machines {
        specs.push(role(
            MACHINES,
            "states.amazonaws.com",
            permissions::state_machines(scope),
        ));
    }
    if hosts {
        specs.push(role(
            INSTANCES,
            "ec2.amazonaws.com",
            permissions::instances(scope, invoke),
        ));
        specs.push(Spec::InstanceProfile(InstanceProfileSpec {
            name: name(INSTANCES),
            role: name(INSTANCES),
        }));
        specs.push(Spec::SecurityGroup(SecurityGroupSpec {
            name: name(MEMBERS),
            vpc: network::vpc(scope, rows)?,
        }));
    }
    specs.push(role(
        SWITCH,
        "states.amazonaws.com",
        permissions::switch(scope),
    ));
    specs.push(Spec::Switch(SwitchSpec {
        name: name(SWITCH),
        role: name(SWITCH),
    }));
    specs.extend(network::specs(scope, rows)?);
    Ok(specs)
}

/// Returns what the switch ends by name where the lease ends in a trial.
///
/// # Errors
/// When the row's settings are invalid for its system.
pub fn ends(scope: &Scope, row: &Training, trial_index: TrialIndex) -> Result<Ends, SystemError> {
    let system = row.job.system.as_str();
    let functions = row.calls()?;
    let has_machine = row.transitions()? > 0;
    let machine = state_machine_name(scope, system, trial_index);
    let machine = has_machine.then(|| scope.arn("states", &format!("stateMachine:{machine}")));
    Ok(Ends {
        functions: (functions.iter())
            .map(|called| function_name(scope, system, called.function, trial_index))
            .collect(),
        machines: machine.into_iter().collect(),
    })
}

/// Uploaded worker and the environment of its functions.
#[derive(Clone, Debug)]
pub struct Package {
    /// Processor architecture of the worker.
    pub architecture: Architecture,
    /// Key in the bucket of programs.
    pub key: String,
    /// Size of the functions' `/tmp`, MB.
    pub storage_mb: u32,
    /// Environment variables of functions; never secrets.
    pub environment: BTreeMap<String, String>,
}

/// Names under which a trial's system is deployed, in the workers' format.
#[derive(Serialize)]
struct Deployment<'a> {
    region: &'a str,
    functions: BTreeMap<&'a str, String>,
    state_machine: Option<String>,
}

/// Returns the value of the worker's variable `EPOCHCOST_DEPLOYMENT`: the names under which
/// a trial's system is deployed.
///
/// # Errors
/// When the row's settings are invalid for its system.
pub fn names(
    scope: &Scope,
    row: &Training,
    trial_index: TrialIndex,
) -> Result<String, SystemError> {
    let (calls, states) = (row.calls()?, row.states()?);
    let system = row.job.system.as_str();
    let name = |function: &'static str| {
        (
            function,
            function_name(scope, system, function, trial_index),
        )
    };
    let machine = state_machine_name(scope, system, trial_index);
    let deployment = Deployment {
        region: &scope.region,
        functions: calls.iter().map(|called| name(called.function)).collect(),
        state_machine: (!states.is_empty())
            .then(|| scope.arn("states", &format!("stateMachine:{machine}"))),
    };
    serde_json::to_string(&deployment).map_err(|error| SystemError::Malformed {
        what: "the deployment".to_owned(),
        reason: error.to_string(),
    })
}

/// Returns the variable that has the most requests of an invocation of `function`.
pub(crate) fn allowance(row: &Training, function: &str) -> Result<(String, String), SystemError> {
    let allowance = row.limits(function).allowance;
    let allowance = serde_json::to_string(&allowance).map_err(|error| SystemError::Malformed {
        what: "the allowance".to_owned(),
        reason: error.to_string(),
    })?;
    Ok((
        epochcost_environment::worker::ALLOWANCE.to_owned(),
        allowance,
    ))
}

/// Returns the resources of one trial's functions: each function with its log group, and
/// the state machine of a system that has one.
///
/// # Errors
/// When the row's settings are invalid for its system.
pub fn of_trial(
    scope: &Scope,
    row: &Training,
    trial_index: TrialIndex,
    package: &Package,
) -> Result<Vec<Spec>, SystemError> {
    let (calls, workflow) = (row.calls()?, row.states()?);
    let rounds = row.system()?.bind(&row.job)?.rounds();
    let network = network::of_functions(scope, row)?;
    let system = row.job.system.as_str();
    let name = |function: &str| function_name(scope, system, function, trial_index);
    let machine = state_machine_name(scope, system, trial_index);
    let deployment = names(scope, row, trial_index)?;
    let mut environment = package.environment.clone();
    environment.insert(
        epochcost_environment::worker::DEPLOYMENT.to_owned(),
        deployment,
    );
    // Functions, and the log group of each.
    let mut specs = Vec::new();
    for called in &calls {
        let allowance = allowance(row, called.function)?;
        let name = name(called.function);
        specs.push(Spec::LogGroup(LogGroupSpec {
            name: log_group_name(&name),
            retention_days: RETENTION_DAYS,
        }));
        specs.push(Spec::Function(FunctionSpec {
            name,
            role: scope.run.name(FUNCTIONS),
            memory_mb: row.memory_mb,
            timeout_s: u32::try_from(row.limits(called.function).timeout_s).unwrap_or(u32::MAX),
            storage_mb: package.storage_mb,
            architecture: package.architecture,
            code_bucket: code_bucket(scope),
            code_key: package.key.clone(),
            environment: environment.clone().into_iter().chain([allowance]).collect(),
            network: network.clone(),
        }));
    }
    // The state machine.
    if !workflow.is_empty() {
        let arn = |function: &str| scope.arn("lambda", &format!("function:{}", name(function)));
        let limits = (
            Some(states::DEFINITION_BYTES_LIMIT),
            Some(states::HISTORY_EVENTS_LIMIT),
        );
        let batches = row.job.batches_per_worker;
        if let Some((_, reason)) = states::exceeded(&workflow, batches, rounds, arn, limits) {
            return Err(SystemError::Invoke {
                function: format!("the state machine of {}", row.row),
                reason,
            });
        }
        specs.push(Spec::StateMachine(StateMachineSpec {
            name: machine,
            role: scope.run.name(MACHINES),
            // The published state machine has no `Retry` in any state.
            definition: states::definition(
                &workflow,
                batches,
                rounds,
                arn,
                row.job.fidelity != Fidelity::Code,
            ),
        }));
    }
    Ok(specs)
}

/// Returns the addresses of everything that rows may create, for the user's consent.
///
/// # Errors
/// When a row's settings are invalid for its system.
pub fn addresses(scope: &Scope, rows: &[Training]) -> Result<Vec<Address>, SystemError> {
    let package = Package {
        architecture: Architecture::X86_64,
        key: String::new(),
        storage_mb: 0,
        environment: BTreeMap::new(),
    };
    let shared = shared(scope, rows, Vec::new())?;
    let mut all: Vec<Address> = shared.iter().map(Spec::address).collect();
    if network::is_needed(rows)? {
        // Only where the first zone has no capacity.
        for tried in 1..network::ZONES {
            for row in rows {
                let further = network::further_subnet(scope, row, tried)?;
                let address = further.map(|subnet| Spec::Subnet(subnet).address());
                if let Some(address) = address.filter(|address| !all.contains(address)) {
                    all.push(address);
                }
            }
        }
    }
    for (row, training) in rows.iter().enumerate() {
        for trial in 0..usize::try_from(training.trials).unwrap_or(usize::MAX) {
            let trial_index = TrialIndex { row, trial };
            let specs = of_trial(scope, training, trial_index, &package)?;
            all.extend(specs.iter().map(Spec::address));
            for role in training.roles()? {
                all.push(Address {
                    kind: Kind::Instance,
                    name: crate::services::instance_name(scope, training, trial_index, role),
                });
            }
            for rank in 0..training.instances()? as usize {
                all.push(Address {
                    kind: Kind::Instance,
                    name: crate::workers::instance_name(scope, training, trial_index, rank),
                });
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use epochcost_systems::{Job, System, systems, testing};
    use serde_json::Map;

    use super::*;
    use crate::RunId;
    use crate::permissions::too_wide;

    pub(crate) fn scope() -> Scope {
        Scope {
            run: RunId::new(1),
            partition: "aws".into(),
            account: "123456789012".into(),
            region: "us-east-1".into(),
            expires: "2099-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    fn job(system: &str) -> Job {
        let mut settings = Map::new();
        if system == "kubeml" {
            // There must be as many documents as functions.
            settings.insert("document_samples".to_owned(), 1.into());
        }
        testing::job(system, Fidelity::Paper, 4, &settings).unwrap()
    }

    pub(crate) fn rows() -> Vec<Training> {
        let training = |system: &&dyn System| Training {
            row: system.name().to_owned(),
            job: job(system.name()),
            memory_mb: 2048,
            limits: epochcost_aws_plan::Limits {
                timeout_s: 900,
                allowance: epochcost_aws_plan::Allowance { lists: 1, reads: 1 },
            },
            by_function: BTreeMap::new(),
            trial_s: None,
            instance_type: "g4dn.xlarge".into(),
            one_machine: false,
            gpus: None,
            trials: 1,
            uses_tensor_store: system.name() == "spirt",
            uses_queue: system.name() == "spirt",
            puts: 1,
            bytes_up: 1,
            gets: 1,
            data_gets: 1,
        };
        systems().iter().map(training).collect()
    }

    #[test]
    fn roles_reach_nothing_but_their_run() {
        let specs = shared(&scope(), &rows(), Vec::new()).unwrap();
        let roles = specs.iter().filter(|spec| matches!(spec, Spec::Role(_)));
        assert_eq!(roles.count(), 4);
        assert_eq!(too_wide(&specs, &scope()), [] as [String; 0]);
        let another = Scope {
            run: RunId::new(2),
            ..scope()
        };
        assert!(!too_wide(&specs, &another).is_empty());
    }

    /// Nothing is made for a workflow that Step Functions would refuse.
    #[test]
    fn a_definition_that_is_too_long_is_refused_before_anything_is_made() {
        let package = Package {
            architecture: Architecture::X86_64,
            key: String::new(),
            storage_mb: 512,
            environment: BTreeMap::new(),
        };
        let mut row = rows().swap_remove(0);
        row.job = job("spirt");
        let mut made = |batches| {
            row.job.batches_per_worker = batches;
            of_trial(&scope(), &row, TrialIndex { row: 0, trial: 0 }, &package)
        };
        assert!(made(1_000).is_ok());
        let refused = made(2_000).unwrap_err().to_string();
        for says in ["the state machine of ", "definition"] {
            assert!(refused.contains(says), "{refused}");
        }
    }
}
