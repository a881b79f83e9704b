//! What the platform tells a worker by environment variables.

use std::collections::BTreeMap;
use std::env;
use std::str::FromStr;

use epochcost_channels::{ChannelError, Endpoint, NetworkShape, Scope};
use epochcost_environment::worker as variable;
use epochcost_models::Precision;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::faults::Fault;
use crate::host::WorkerError;

/// What a worker asks for invocations and executions.
#[derive(Clone, Debug, PartialEq)]
pub enum Platform {
    /// The local platform's control API, at this endpoint.
    Local(String),
    /// Lambda and Step Functions.
    Aws(Deployment),
}

/// The names under which a system is deployed on AWS.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// The region.
    pub region: String,
    /// The name of each of the system's functions on Lambda.
    pub functions: BTreeMap<String, String>,
    /// The ARN of the system's state machine, where it has one.
    pub state_machine: Option<String>,
}

/// Where the services are, and how to behave.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// Endpoint of the object store.
    pub objects: Endpoint,
    /// Endpoint of each peer's tensor store, by rank; none where the system
    /// uses none.
    pub tensors: Vec<Endpoint>,
    /// Endpoint of the queue; none where the system uses none.
    pub queue: Option<Endpoint>,
    /// What stands before every name on these services.
    pub scope: Scope,
    /// Where functions are invoked and workflows started.
    pub platform: Platform,
    /// Whether to compute on the CPU where the job asks for a GPU that is not there.
    pub cpu_fallback: bool,
    /// Of a GPU's matrix products.
    pub precision: Precision,
    /// Faults to inject.
    pub faults: Vec<Fault>,
    /// What the network to the services is made to look like; none where it is
    /// left as it is.
    pub network: Option<NetworkShape>,
}

impl Environment {
    /// Reads this process's environment.
    pub fn read() -> Result<Self, WorkerError> {
        Self::from(|name| env::var(name).ok())
    }

    fn from(value: impl Fn(&str) -> Option<String>) -> Result<Self, WorkerError> {
        let needed = |name| value(name).ok_or(WorkerError::Variable { name });
        let faults = json(&value, variable::FAULTS)?.unwrap_or_default();
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
            network,
        })
    }
}

/// The value of a variable that says where services are, and under which names.
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

/// A variable that holds a name.
fn named<T: FromStr>(
    value: impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Option<T>, WorkerError> {
    let read = value(name).map(|text| text.parse());
    read.transpose().map_err(|_| WorkerError::Variable { name })
}

/// A variable that holds JSON.
fn json<T: DeserializeOwned>(
    value: impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Option<T>, WorkerError> {
    let read = value(name).map(|text| serde_json::from_str(&text));
    read.transpose().map_err(|_| WorkerError::Variable { name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::FaultKind;

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
            "EPOCHCOST_CPU_FALLBACK" | "EPOCHCOST_DEPLOYMENT" => return None,
            "EPOCHCOST_PRECISION" => "tf32",
            _ => "http://c:3",
        };
        Some(value.to_owned())
    }

    #[test]
    fn lists_are_read() {
        let environment = Environment::from(variable).unwrap();
        let tensors: Vec<_> = environment
            .tensors
            .iter()
            .map(Endpoint::to_string)
            .collect();
        assert_eq!(tensors, ["redis://a:1", "redis+plain://b:2"]);
        assert_eq!(environment.scope.name("k"), "run-t1/k");
        assert!(!format!("{environment:?}").contains("canary"));
        let kinds: Vec<FaultKind> = environment.faults.iter().map(|fault| fault.kind).collect();
        assert_eq!(kinds, [FaultKind::Crash, FaultKind::StragglerMs(5)]);
        assert_eq!(environment.precision, Precision::Tf32);
        let network = environment.network.unwrap();
        assert_eq!(network.bandwidth_mbit_s, Some(600.0));
    }

    #[test]
    fn a_malformed_variable_is_named() {
        let malformed = |name: &str| match name {
            "EPOCHCOST_NETWORK" => Some("{}".to_owned()),
            _ => variable(name),
        };
        let error = Environment::from(malformed).unwrap_err().to_string();
        assert!(error.contains("EPOCHCOST_NETWORK"), "{error}");
        let malformed = |name: &str| match name {
            "EPOCHCOST_PRECISION" => Some("fp64".to_owned()),
            _ => variable(name),
        };
        let error = Environment::from(malformed).unwrap_err().to_string();
        assert!(error.contains("EPOCHCOST_PRECISION"), "{error}");
    }

    #[test]
    fn a_missing_variable_is_named() {
        for missing in ["EPOCHCOST_OBJECTS", "EPOCHCOST_CONTROL"] {
            let error = Environment::from(|name| variable(name).filter(|_| name != missing));
            assert!(error.unwrap_err().to_string().contains(missing));
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

    #[test]
    fn an_endpoint_that_cannot_be_read_is_named_without_its_password() {
        let error = Environment::from(|name| match name {
            "EPOCHCOST_QUEUE" => Some("amqp://user:canary@".into()),
            _ => variable(name),
        });
        let said = error.unwrap_err().to_string();
        assert!(said.contains("EPOCHCOST_QUEUE"), "{said}");
        assert!(!said.contains("canary"), "{said}");
    }
}
