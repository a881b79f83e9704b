//! One trial in virtual time, from its services to its outcome.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use epochcost_channels::{ObjectStore, Payload};
use epochcost_systems::{
    ByHost, DATASET_BUCKET, DriveError, Host, Job, Record, Sizes, System, Task, dataset_objects,
    drive, find, phantom_objects, requests,
};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, Stuck, locked};
use crate::functions::{Instances, Lambda, MakeCompute, Records, Totals, Trial};
use crate::profile::{ModelCost, Profile};
use crate::services::Services;
use crate::{Infeasible, SimulationError};

/// What to simulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// What is trained.
    pub job: Job,
    /// Sizes of its model.
    pub sizes: Sizes,
    /// Memory size of every function, MB.
    pub memory_mb: u32,
    /// When the platform ends an invocation, seconds.
    pub timeout_s: f64,
    /// The platform.
    pub profile: Profile<f64>,
    /// What a training step costs there.
    pub cost: ModelCost,
    /// Whether the platform's limits hold.
    pub has_limits: bool,
}

/// What a simulation needs beside its description.
#[derive(Default)]
pub struct Options {
    /// The records to train and test on; without them only sizes exist.
    pub data: Option<(Bytes, Bytes)>,
    /// Makes the real model of an invocation.
    pub compute: Option<MakeCompute>,
    /// Whether the record of every step is kept, or only their totals.
    pub keeps_steps: bool,
    /// Whether every look for something that is not there yet is gone
    /// through, instead of leaving out those that would find nothing: the same
    /// outcome, for the longer time that it takes.
    pub makes_every_look: bool,
    /// Told how many steps have ended.
    pub progress: Option<Box<dyn Fn(u64) + Send + Sync>>,
}

/// Which invocation this was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// The function.
    pub function: String,
    /// The worker.
    pub rank: usize,
    /// The epoch it started at.
    pub epoch: usize,
    /// The mini-batch, if it worked on one.
    pub batch: Option<usize>,
}

impl From<&Task> for Which {
    fn from(task: &Task) -> Self {
        Self {
            function: task.function.clone(),
            rank: task.rank,
            epoch: task.epoch,
            batch: task.batch,
        }
    }
}

/// A simulated invocation, or instance. Times are seconds of virtual time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// Its number.
    pub id: u64,
    /// What it did.
    pub task: Which,
    /// Function, or instance.
    pub host: Host,
    /// The sandbox that served it.
    pub sandbox: u64,
    /// When its code began.
    pub started_s: f64,
    /// How long it ran.
    pub duration_s: f64,
    /// Billed init of a cold sandbox, or the boot of an instance.
    pub init_s: Option<f64>,
    /// Memory size, MB; of an instance, null.
    pub memory_mb: Option<u32>,
    /// Peak memory of its sandbox so far, MB.
    pub peak_memory_mb: f64,
    /// Why it failed.
    pub error: Option<String>,
}

/// What a simulation gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulated {
    /// Evaluations, warnings, and steps if they were kept.
    pub records: Vec<Record>,
    /// What all steps together did.
    pub totals: Totals,
    /// Every invocation that ended, in the order in which they ended.
    pub invocations: Vec<Invocation>,
    /// State transitions of workflows.
    pub transitions: u64,
    /// Virtual seconds from the first start to the last end.
    pub wall_s: f64,
    /// Events that the simulation went through.
    pub events: u64,
    /// The limit that makes it impossible.
    pub infeasible: Option<Infeasible>,
    /// Why it failed, where no limit is to blame.
    pub failure: Option<String>,
}

/// Runs one trial in virtual time, on this thread.
///
/// # Errors
/// When the job is not one of a known system, or its data are too few. What
/// happens to the system under test is part of the outcome.
pub fn simulate(simulation: &Simulation, options: Options) -> Result<Simulated, SimulationError> {
    let job = &simulation.job;
    let system = find(&job.system).ok_or_else(|| SimulationError::UnknownSystem {
        system: job.system.clone(),
    })?;
    let engine = Engine::default();
    let services = Services::new(
        &engine,
        &simulation.profile,
        job.workers,
        options.makes_every_look,
    );
    store_data(system, job, options.data.as_ref(), &services)?;
    let (requests, follow_ups) = requests();
    let progress = options.progress.unwrap_or_else(|| Box::new(|_| {}));
    let records = Arc::new(Records::new(options.keeps_steps, progress));
    let trial = Arc::new(Trial {
        system,
        engine: engine.clone(),
        services,
        profile: simulation.profile.clone(),
        cost: Arc::new(simulation.cost.clone()),
        sizes: simulation.sizes,
        real: options.compute,
        requests,
        records: records.clone(),
        invocations: Mutex::default(),
        serial: AtomicU64::new(0),
    });
    let functions = ByHost {
        system,
        functions: Lambda::new(
            trial.clone(),
            simulation.memory_mb,
            simulation.timeout_s,
            simulation.has_limits,
            !system.bind(job)?.states().is_empty(),
        ),
        instances: Instances {
            trial: trial.clone(),
        },
    };
    // What arithmetic of this thread came before is nobody's.
    epochcost_systems::take_arithmetic_bytes();
    let driven = engine.run(drive(system, job, &functions, follow_ups));
    let wall_s = trial.seconds();
    drop(functions);
    let (transitions, failure) = match driven {
        Ok(Ok(driven)) => (driven.transitions, None),
        Ok(Err(DriveError::System(error))) => return Err(error.into()),
        Ok(Err(DriveError::Invoke(error))) => (0, Some(error.to_string())),
        Err(Stuck) => {
            let reason = "every worker waits for another: nobody can go on";
            (0, Some(reason.to_owned()))
        }
    };
    let infeasible = trial.services.infeasible();
    Ok(Simulated {
        records: std::mem::take(&mut locked(&records.kept)),
        totals: std::mem::take(&mut locked(&records.totals)),
        invocations: std::mem::take(&mut locked(&trial.invocations)),
        transitions,
        wall_s,
        events: engine.acted(),
        failure: failure.filter(|_| infeasible.is_none()),
        infeasible,
    })
}

/// Puts the dataset where the system looks for it: it lies there before a run.
fn store_data(
    system: &dyn System,
    job: &Job,
    data: Option<&(Bytes, Bytes)>,
    services: &Services,
) -> Result<(), SimulationError> {
    let layout = system.bind(job)?.data_layout();
    let objects: Vec<(String, Payload)> = match data {
        None => phantom_objects(job, layout),
        Some((train, test)) => dataset_objects(job, layout, train, test)?
            .into_iter()
            .map(|(key, object)| (key, object.into()))
            .collect(),
    };
    for (key, object) in objects {
        // Memory is never busy.
        let stored = services.objects.store.put(DATASET_BUCKET, &key, object);
        stored.now_or_never().transpose()?;
    }
    Ok(())
}
