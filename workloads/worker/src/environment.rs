//! The environment variables that the platform sets for a worker.

use std::collections::BTreeMap;
use std::env;
use std::str::FromStr;

use epochcost_channels::{Allowance, ChannelError, Endpoint, NetworkShape, Scope};
use epochcost_environment::worker as variable;
use epochcost_models::Precision;
use epochcost_systems::Fault;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::host::WorkerError;

/// The platform of which a worker requests invocations and executions.
#[derive(Clone, Debug, PartialEq)]
pub enum Platform {
    /// The local platform: the endpoint of its control API.
    Local(String),
    /// AWS: Lambda and Step Functions.
    Aws(Deployment),
}

/// The names under which a system is deployed on AWS.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// AWS region.
    pub region: String,
    /// Name on Lambda of each of the system's functions.
    pub functions: BTreeMap<String, String>,
    /// ARN of the system's state machine, if it has one.
    pub state_machine: Option<String>,
}

/// Addresses of the services, and the worker's options.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// Endpoint of the object store.
    pub objects: Endpoint,
    /// Endpoint of each peer's tensor store, by rank; empty where the system uses
    /// none.
    pub tensors: Vec<Endpoint>,
    /// Endpoint of the queue; none where the system uses none.
    pub queue: Option<Endpoint>,
    /// Prefix of every name on these services.
    pub scope: Scope,
    /// Platform that invokes functions and starts workflows.
    pub platform: Platform,
    /// Whether to compute on the CPU where the job's GPU is missing.
    pub cpu_fallback: bool,
    /// Numeric precision of matrix products on the GPU.
    pub precision: Precision,
    /// Faults to inject.
    pub faults: Vec<Fault>,
    /// Most requests of an invocation to the object store; none for any number.
    pub allowance: Option<Allowance>,
    /// Shape of the network to the services; none leaves it as it is.
    pub network: Option<NetworkShape>,
}

impl Environment {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// [`WorkerError`] names a variable that is missing or malformed.
    pub fn read() -> Result<Self, WorkerError> {
        Self::from(|name| env::var(name).ok())
    }

    fn from(value: impl Fn(&str) -> Option<String>) -> Result<Self, WorkerError> {
        let needed = |name| value(name).ok_or(WorkerError::Variable { name });
        // JSON values first: a malformed one is reported before a missing service.
        let faults = json(&value, variable::FAULTS)?.unwrap_or_default();
        let allowance = json(&value, variable::ALLOWANCE)?;
        let network = json(&value, variable::NETWORK)?;
        let tensors = value(variable::TENSORS).unwrap_or_default();
        let queue = value(variable::QUEUE).map(|queue| parsed(variable::QUEUE, &queue));
        let platform = match json(&value, variable::DEPLOYMENT)? {
            Some(deployment) => Platform::Aws(deployment),
            None => Platform::Local(needed(variable::CONTROL)?),
        };
        let scope = value(variable::SCOPE).unwrap_or_default();
        Ok(Self {
            objects: parsed(variable::OBJECTS, &needed(variable::OBJECTS)?)?,
            tensors: tensors
                .split(',')
                .filter(|endpoint| !endpoint.is_empty())
                .map(|endpoint| parsed(variable::TENSORS, endpoint))
                .collect::<Result<_, _>>()?,
            queue: queue.transpose()?,
            scope: parsed(variable::SCOPE, &scope)?,
            platform,
            cpu_fallback: value(variable::CPU_FALLBACK).as_deref() == Some("1"),
            precision: named(&value, variable::PRECISION)?.unwrap_or_default(),
            faults,
            allowance,
            network,
        })
    }
}

/// Parses the value of a variable that names services or their scope.
fn parsed<T: FromStr<Err = ChannelError>>(
    name: &'static str,
    text: &str,
) -> Result<T, WorkerError> {
    text.parse()
        .map_err(|error: ChannelError| WorkerError::Service {
            name,
            reason: error.to_string(),
        })
}

/// Reads a variable that holds a name.
fn named<T: FromStr>(
    value: impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Option<T>, WorkerError> {
    let read = value(name).map(|text| text.parse());
    read.transpose().map_err(|_| WorkerError::Variable { name })
}

/// Reads a variable that holds JSON.
fn json<T: DeserializeOwned>(
    value: impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Option<T>, WorkerError> {
    let read = value(name).map(|text| serde_json::from_str(&text));
    read.transpose().map_err(|_| WorkerError::Variable { name })
}

#[cfg(test)]
mod tests {
    use epochcost_systems::FaultKind;

    use super::*;

    fn variable(name: &str) -> Option<String> {
        let value = match name {
            "EPOCHCOST_TENSORS" => "redis://a:1,redis+plain://:canary@b:2",
            "EPOCHCOST_QUEUE" => "amqp://user:canary@c:3/v",
            "EPOCHCOST_SCOPE" => "run-t1",
            "EPOCHCOST_FAULTS" => {
                r#"[{"rank":1,"epoch":0,"batch":2,"kind":"crash"},
                    {"rank":0,"epoch":1,"batch":0,"kind":{"straggler_ms":5}}]"#
            }
            "EPOCHCOST_NETWORK" => {
                r#"{"bandwidth_mbit_s":600,"latency_ms":{"objects":5,"tensors":0,"queue":0}}"#
            }
            "EPOCHCOST_ALLOWANCE" => r#"{"lists":7,"reads":8}"#,
            "EPOCHCOST_CPU_FALLBACK" | "EPOCHCOST_DEPLOYMENT" => return None,
            "EPOCHCOST_PRECISION" => "tf32",
            _ => "http://c:3",
        };
        Some(value.to_owned())
    }

    #[test]
    fn lists_are_read() {
        let environment = Environment::from(variable).unwrap();
        let tensors = environment.tensors.iter().map(Endpoint::to_string);
        let tensors: Vec<_> = tensors.collect();
        assert_eq!(tensors, ["redis://a:1", "redis+plain://b:2"]);
        assert_eq!(environment.scope.name("k"), "run-t1/k");
        assert!(!format!("{environment:?}").contains("canary"));
        let kinds: Vec<FaultKind> = environment.faults.iter().map(|fault| fault.kind).collect();
        assert_eq!(kinds, [FaultKind::Crash, FaultKind::StragglerMs(5)]);
        assert_eq!(environment.precision, Precision::Tf32);
        let allowance = Allowance { lists: 7, reads: 8 };
        assert_eq!(environment.allowance, Some(allowance));
        let network = environment.network.unwrap();
        assert_eq!(network.bandwidth_mbit_s, Some(600.0));
    }

    #[test]
    fn a_variable_that_is_missing_or_cannot_be_read_is_named_without_its_password() {
        for (changed, value) in [
            ("EPOCHCOST_OBJECTS", None),
            ("EPOCHCOST_CONTROL", None),
            ("EPOCHCOST_NETWORK", Some("{}")),
            ("EPOCHCOST_PRECISION", Some("fp64")),
            ("EPOCHCOST_QUEUE", Some("amqp://user:canary@")),
        ] {
            let error = Environment::from(|name| match name {
                name if name == changed => value.map(str::to_owned),
                _ => variable(name),
            });
            let message = error.unwrap_err().to_string();
            assert!(message.contains(changed), "{message}");
            assert!(!message.contains("canary"), "{message}");
        }
    }

    #[test]
    fn on_aws_functions_have_names_and_what_a_system_does_not_use_is_not_there() {
        let environment = Environment::from(|name| match name {
            "EPOCHCOST_OBJECTS" => Some("s3://eu-west-1/bucket".into()),
            "EPOCHCOST_DEPLOYMENT" => Some(
                r#"{"region":"eu-west-1","functions":{"worker":"w-2048"},"state_machine":null}"#
                    .into(),
            ),
            _ => None,
        })
        .unwrap();
        assert!(environment.tensors.is_empty() && environment.queue.is_none());
        let Platform::Aws(deployment) = environment.platform else {
            panic!("{environment:?}");
        };
        assert_eq!(deployment.functions["worker"], "w-2048");
    }
}
