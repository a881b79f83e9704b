//! Listing of the resources that rows would need, for a plan.

use epochcost_aws_plan::{Role, SERVICE_INSTANCE, Training};
use epochcost_systems::SystemError;
use serde::Serialize;

use crate::Scope;
use crate::deployment::{RETENTION_DAYS, shared};
use crate::names::{TrialIndex, function_name, log_group_name, state_machine_name};
use crate::resource::{Address, Kind, Spec};

/// Planned resource, or several of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// Kind.
    pub kind: Kind,
    /// Name; the common prefix of several resources.
    pub name: String,
    /// Number of resources.
    pub count: u64,
    /// Property that decides the price.
    pub detail: String,
    /// Row of the resource; `None` for shared resources.
    pub row: Option<String>,
}

/// Returns everything that rows need, shared resources first.
///
/// # Errors
/// When a row's settings are invalid for its system.
pub fn planned(scope: &Scope, rows: &[Training]) -> Result<Vec<Planned>, SystemError> {
    let mut all: Vec<Planned> = (shared(scope, rows, Vec::new())?.iter())
        .map(|spec| {
            let Address { kind, name } = spec.address();
            Planned {
                kind,
                name,
                count: 1,
                detail: detail(spec),
                row: None,
            }
        })
        .collect();
    for (index, row) in rows.iter().enumerate() {
        add_row(scope, row, index, &mut all)?;
    }
    Ok(all)
}

/// Returns the property of a shared resource that decides its price.
fn detail(spec: &Spec) -> String {
    match spec {
        Spec::Endpoint(endpoint) if endpoint.service.is_interface() => "interface".to_owned(),
        Spec::Endpoint(_) => "gateway".to_owned(),
        _ => String::new(),
    }
}

/// Adds the resources of a row's trials.
fn add_row(
    scope: &Scope,
    row: &Training,
    index: usize,
    all: &mut Vec<Planned>,
) -> Result<(), SystemError> {
    // Each trial has its own resources; the first trial's names stand for all.
    let trial_index = TrialIndex {
        row: index,
        trial: 0,
    };
    let mut add = |kind, name, count: u64, detail| {
        if count > 0 {
            all.push(Planned {
                kind,
                name,
                count: count * row.trials,
                detail,
                row: Some(row.row.clone()),
            });
        }
    };
    // Functions with their log groups, and the state machine.
    let system = row.job.system.as_str();
    for called in row.calls()? {
        let name = function_name(scope, system, called.function, trial_index);
        let retention = format!("{RETENTION_DAYS} days");
        add(Kind::LogGroup, log_group_name(&name), 1, retention);
        add(Kind::Function, name, 1, format!("{} MB", row.memory_mb));
    }
    let machines = u64::from(row.transitions()? > 0);
    let name = state_machine_name(scope, system, trial_index);
    add(Kind::StateMachine, name, machines, "standard".to_owned());
    // Hosts of services, and instances of workers.
    let (roles, workers) = (row.roles()?, row.instances()?);
    let name = |what: &str| trial_index.name(scope, &format!("{system}-{what}"));
    let stores = roles.iter().filter(|role| **role != Role::Queue).count();
    let queues = roles.len() - stores;
    let on = || SERVICE_INSTANCE.to_owned();
    add(Kind::Instance, name("store"), stores as u64, on());
    add(Kind::Instance, name("queue"), queues as u64, on());
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
    use super::*;
    use crate::RunId;
    use crate::deployment::tests::{rows, scope};

    /// Names within the strictest limits: 63 characters of buckets, 64 of
    /// functions and roles, in lower case, digits and hyphens.
    #[test]
    fn every_name_is_one_that_every_service_takes_and_leads_back() {
        for planned in planned(&scope(), &rows()).unwrap() {
            let name = &planned.name;
            let name = name.strip_prefix("/aws/lambda/").unwrap_or(name);
            assert!(name.len() <= 63, "{name}");
            let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.chars().all(good), "{name}");
            assert_eq!(RunId::of_name(name), Some(RunId::new(1)), "{name}");
        }
    }

    /// One function for each function of each system on functions, one machine
    /// for the one workflow, and instances where systems ask for them.
    #[test]
    fn rows_need_what_their_systems_are_deployed_as() {
        use Kind::{Function, Instance, StateMachine};
        let planned = planned(&scope(), &rows()).unwrap();
        let count = |kind, row: &str| -> u64 {
            let is_it = |p: &&Planned| p.kind == kind && p.row.as_deref() == Some(row);
            planned.iter().filter(is_it).map(|p| p.count).sum()
        };
        for (kind, row, expected) in [
            (Function, "spirt", 9),
            (StateMachine, "spirt", 1),
            (Instance, "spirt", 5),
            (Function, "mlless", 2),
            (Function, "allreduce", 1),
            (Function, "gpu_baseline", 0),
            (Instance, "gpu_baseline", 4),
        ] {
            assert_eq!(count(kind, row), expected, "{kind} of {row}");
        }
        let groups = planned.iter().filter(|p| p.kind == Kind::LogGroup);
        let functions = planned.iter().filter(|p| p.kind == Function);
        let functions: u64 = functions.map(|p| p.count).sum();
        assert_eq!(groups.count() as u64, functions);
    }
}
