//! Step Functions' state machines and their executions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::api::{ACCOUNT, Refusal};
use crate::meter::Meter;
use crate::workflow::{self, Machine, Surroundings};

type Answer = Result<Value, Refusal>;

/// Deployed state machine.
struct Deployed {
    name: String,
    definition: String,
    machine: Arc<Machine>,
    tags: Value,
}

/// Execution of a state machine.
#[derive(Clone)]
struct Execution {
    input: String,
    /// `RUNNING`, `SUCCEEDED`, `FAILED` or `ABORTED`.
    status: &'static str,
    cause: Option<String>,
    /// Type of each state's event in the history, in the order of entry.
    entered: Vec<&'static str>,
    /// Ends the execution.
    abort: Option<AbortHandle>,
}

/// All executions, by their ARNs.
#[derive(Clone, Default)]
pub(crate) struct Executions(Arc<Mutex<BTreeMap<String, Execution>>>);

impl Executions {
    /// Returns the executions of a state machine that run.
    pub(crate) fn running_of(&self, machine: &str) -> Vec<String> {
        let prefix = machine.replacen(":stateMachine:", ":execution:", 1) + ":";
        let all = locked(&self.0);
        let running = all
            .iter()
            .filter(|(arn, one)| arn.starts_with(&prefix) && one.status == "RUNNING");
        running.map(|(arn, _)| arn.clone()).collect()
    }

    /// Ends an execution that runs.
    pub(crate) fn stop(&self, arn: &str) {
        if let Some(execution) = locked(&self.0).get_mut(arn)
            && execution.status == "RUNNING"
        {
            execution.status = "ABORTED";
            if let Some(abort) = &execution.abort {
                abort.abort();
            }
        }
    }
}

/// All state machines and their executions.
pub(crate) struct MachineStore {
    cloud: Arc<Surroundings>,
    meter: Arc<Meter>,
    machines: Mutex<BTreeMap<String, Deployed>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> f64 {
    #[expect(clippy::disallowed_methods, reason = "the time that the cloud states")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

/// Returns a request's field, which must be a string.
fn text<'a>(request: &'a Value, field: &str) -> Result<&'a str, Refusal> {
    request[field]
        .as_str()
        .ok_or_else(|| Refusal::new("ValidationException", format!("{field} must be a string")))
}

impl MachineStore {
    pub(crate) fn new(cloud: Arc<Surroundings>, meter: Arc<Meter>) -> Self {
        Self {
            cloud,
            meter,
            machines: Mutex::default(),
        }
    }

    pub(crate) fn create(&self, request: &Value, region: &str) -> Answer {
        let (name, definition) = (text(request, "name")?, text(request, "definition")?);
        let machine: Machine = serde_json::from_str(definition)
            .map_err(|error| Refusal::new("InvalidDefinition", error.to_string()))?;
        let arn = format!("arn:aws:states:{region}:{ACCOUNT}:stateMachine:{name}");
        let deployed = Deployed {
            name: name.to_owned(),
            definition: definition.to_owned(),
            machine: Arc::new(machine),
            tags: request["tags"].clone(),
        };
        locked(&self.machines).insert(arn.clone(), deployed);
        Ok(json!({ "stateMachineArn": arn, "creationDate": now() }))
    }

    fn absent(arn: &str) -> Refusal {
        Refusal::new(
            "StateMachineDoesNotExist",
            format!("State Machine Does Not Exist: '{arn}'"),
        )
    }

    pub(crate) fn describe(&self, request: &Value) -> Answer {
        let arn = text(request, "stateMachineArn")?;
        let machines = locked(&self.machines);
        let deployed = machines.get(arn).ok_or_else(|| Self::absent(arn))?;
        Ok(json!({
            "stateMachineArn": arn,
            "name": deployed.name,
            "definition": deployed.definition,
            "roleArn": "",
            "type": "STANDARD",
            "status": "ACTIVE",
            "creationDate": now(),
        }))
    }

    pub(crate) fn list(&self, region: &str) -> Value {
        let in_region = format!(":{region}:");
        let machines = locked(&self.machines);
        let listed: Vec<Value> = (machines.iter())
            .filter(|(arn, _)| arn.contains(&in_region))
            .map(|(arn, deployed)| {
                json!({
                    "stateMachineArn": arn,
                    "name": deployed.name,
                    "type": "STANDARD",
                    "creationDate": now(),
                })
            })
            .collect();
        json!({ "stateMachines": listed })
    }

    pub(crate) fn tags(&self, request: &Value) -> Answer {
        let arn = text(request, "resourceArn")?;
        let machines = locked(&self.machines);
        let deployed = machines.get(arn);
        let deployed = deployed.ok_or_else(|| Refusal::new("ResourceNotFound", arn))?;
        Ok(json!({ "tags": deployed.tags }))
    }

    pub(crate) fn remove(&self, request: &Value) -> Value {
        if let Ok(arn) = text(request, "stateMachineArn") {
            locked(&self.machines).remove(arn);
        }
        json!({})
    }

    pub(crate) fn start(&self, request: &Value) -> Answer {
        let (arn, name) = (text(request, "stateMachineArn")?, text(request, "name")?);
        let input = text(request, "input")?;
        let machine = locked(&self.machines)
            .get(arn)
            .map(|known| known.machine.clone());
        let machine = machine.ok_or_else(|| Self::absent(arn))?;
        let execution = arn.replacen(":stateMachine:", ":execution:", 1) + ":" + name;
        let value: Value = serde_json::from_str(input)
            .map_err(|error| Refusal::new("InvalidExecutionInput", error.to_string()))?;
        // A repeated start with the same input is the same execution.
        let mut executions = locked(&self.cloud.executions.0);
        match executions.get(&execution) {
            Some(known) if known.input == input && known.status == "RUNNING" => {}
            Some(_) => {
                return Err(Refusal::new(
                    "ExecutionAlreadyExists",
                    format!("Execution Already Exists: '{execution}'"),
                ));
            }
            // A new one runs in the background.
            None => {
                let begun = Execution {
                    input: input.to_owned(),
                    status: "RUNNING",
                    cause: None,
                    entered: Vec::new(),
                    abort: None,
                };
                executions.insert(execution.clone(), begun);
                let running = tokio::spawn(run(
                    (self.cloud.clone(), self.meter.clone()),
                    self.cloud.executions.clone(),
                    execution.clone(),
                    machine,
                    value,
                ));
                if let Some(begun) = executions.get_mut(&execution) {
                    begun.abort = Some(running.abort_handle());
                }
            }
        }
        Ok(json!({ "executionArn": execution, "startDate": now() }))
    }

    /// Ends an execution that runs.
    pub(crate) fn stop(&self, request: &Value) -> Answer {
        let (arn, _) = self.execution(request)?;
        self.cloud.executions.stop(&arn);
        Ok(json!({ "stopDate": now() }))
    }

    /// Lists the executions of a machine; of a status, if one is asked for.
    pub(crate) fn executions(&self, request: &Value) -> Answer {
        let machine = text(request, "stateMachineArn")?;
        if !locked(&self.machines).contains_key(machine) {
            return Err(Self::absent(machine));
        }
        let prefix = machine.replacen(":stateMachine:", ":execution:", 1) + ":";
        let status = request["statusFilter"].as_str();
        let executions = locked(&self.cloud.executions.0);
        let listed: Vec<Value> = (executions.iter())
            .filter(|(arn, _)| arn.starts_with(&prefix))
            .filter(|(_, execution)| status.is_none_or(|status| status == execution.status))
            .map(|(arn, execution)| {
                json!({
                    "executionArn": arn,
                    "stateMachineArn": machine,
                    "name": arn[prefix.len()..],
                    "status": execution.status,
                    "startDate": now(),
                })
            })
            .collect();
        Ok(json!({ "executions": listed }))
    }

    /// Returns the ARNs of all executions that run.
    pub(crate) fn running(&self) -> Vec<String> {
        let executions = locked(&self.cloud.executions.0);
        let running = executions.iter().filter(|(_, one)| one.status == "RUNNING");
        running.map(|(arn, _)| arn.clone()).collect()
    }

    /// Returns, for each execution that runs and waits, how many states it has entered.
    pub(crate) fn waiting(&self) -> BTreeMap<String, usize> {
        let executions = locked(&self.cloud.executions.0);
        let waiting = executions.iter().filter(|(_, one)| {
            one.status == "RUNNING" && one.entered.last() == Some(&"WaitStateEntered")
        });
        waiting
            .map(|(arn, one)| (arn.clone(), one.entered.len()))
            .collect()
    }

    fn execution(&self, request: &Value) -> Result<(String, Execution), Refusal> {
        let arn = text(request, "executionArn")?;
        let found = locked(&self.cloud.executions.0).get(arn).cloned();
        let found = found.ok_or_else(|| {
            Refusal::new(
                "ExecutionDoesNotExist",
                format!("Execution Does Not Exist: '{arn}'"),
            )
        })?;
        Ok((arn.to_owned(), found))
    }

    pub(crate) fn describe_execution(&self, request: &Value) -> Answer {
        let (arn, execution) = self.execution(request)?;
        Ok(json!({
            "executionArn": arn,
            "stateMachineArn": arn,
            "status": execution.status,
            "startDate": now(),
            "input": execution.input,
            "cause": execution.cause,
        }))
    }

    pub(crate) fn history(&self, request: &Value) -> Answer {
        let (_, execution) = self.execution(request)?;
        let events: Vec<Value> = (execution.entered.iter().enumerate())
            .map(|(index, kind)| json!({ "id": index + 1, "type": kind, "timestamp": now() }))
            .collect();
        Ok(json!({ "events": events }))
    }
}

/// Runs an execution to its end and notes its states.
async fn run(
    (cloud, meter): (Arc<Surroundings>, Arc<Meter>),
    executions: Executions,
    arn: String,
    machine: Arc<Machine>,
    input: Value,
) {
    let note = |kind: &'static str| {
        meter.charge("state_transition", 1.0);
        if let Some(execution) = locked(&executions.0).get_mut(&arn) {
            execution.entered.push(kind);
        }
    };
    let ended = workflow::run(&machine, &input, &cloud, &note).await;
    if let Some(execution) = locked(&executions.0).get_mut(&arn) {
        match ended {
            Ok(()) => execution.status = "SUCCEEDED",
            Err(cause) => {
                execution.status = "FAILED";
                execution.cause = Some(cause);
            }
        }
    }
}
