//! What the platform tells a worker by environment variables.

use std::env;

use crate::faults::Fault;
use crate::host::WorkerError;

/// Where the services are, and how to behave.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// Endpoint of the object store.
    pub objects: String,
    /// Endpoint of each peer's tensor store, by rank.
    pub tensors: Vec<String>,
    /// Endpoint of the queue.
    pub queue: String,
    /// Endpoint of the platform's control API.
    pub control: String,
    /// Whether to compute on the CPU where the job asks for a GPU that is not there.
    pub cpu_fallback: bool,
    /// Faults to inject.
    pub faults: Vec<Fault>,
}

impl Environment {
    /// Reads this process's environment.
    pub fn read() -> Result<Self, WorkerError> {
        Self::from(|name| env::var(name).ok())
    }

    fn from(variable: impl Fn(&str) -> Option<String>) -> Result<Self, WorkerError> {
        let needed = |name| variable(name).ok_or(WorkerError::Variable { name });
        let faults = match variable("EPOCHCOST_FAULTS") {
            None => Vec::new(),
            Some(faults) => serde_json::from_str(&faults).map_err(|_| WorkerError::Variable {
                name: "EPOCHCOST_FAULTS",
            })?,
        };
        Ok(Self {
            objects: needed("EPOCHCOST_OBJECTS")?,
            tensors: needed("EPOCHCOST_TENSORS")?
                .split(',')
                .map(str::to_owned)
                .collect(),
            queue: needed("EPOCHCOST_QUEUE")?,
            control: needed("EPOCHCOST_CONTROL")?,
            cpu_fallback: variable("EPOCHCOST_CPU_FALLBACK").as_deref() == Some("1"),
            faults,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::FaultKind;

    fn variable(name: &str) -> Option<String> {
        let value = match name {
            "EPOCHCOST_TENSORS" => "redis://a:1,redis://b:2",
            "EPOCHCOST_FAULTS" => {
                r#"[{"rank":1,"epoch":0,"batch":2,"kind":"crash"},
                    {"rank":0,"epoch":1,"batch":0,"kind":{"straggler_ms":5}}]"#
            }
            "EPOCHCOST_CPU_FALLBACK" => return None,
            _ => "http://c:3",
        };
        Some(value.to_owned())
    }

    #[test]
    fn lists_are_read() {
        let environment = Environment::from(variable).unwrap();
        assert_eq!(environment.tensors, ["redis://a:1", "redis://b:2"]);
        let kinds: Vec<FaultKind> = environment.faults.iter().map(|fault| fault.kind).collect();
        assert_eq!(kinds, [FaultKind::Crash, FaultKind::StragglerMs(5)]);
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = Environment::from(|name| variable(name).filter(|_| name != "EPOCHCOST_QUEUE"));
        assert!(error.unwrap_err().to_string().contains("EPOCHCOST_QUEUE"));
    }
}
