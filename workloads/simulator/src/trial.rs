//! One trial in virtual time, from its services to its outcome.

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use epochcost_channels::Payload;
use epochcost_kernels::hash;
use epochcost_systems::{
    ArithmeticMeter, ByHost, DATASET_BUCKET, DataLayout, DriveError, Fault, FaultKind, Job, Record,
    Running, System, dataset_objects, drive, phantom_objects, requests,
};
use futures_util::FutureExt;
use futures_util::future::{Either, join_all, select};

use crate::engine::{Engine, Stopped, locked, nanoseconds};
use crate::error::{SimulationError, system_of};
use crate::functions::{Calls, Instances, Lambda, Pool, Records, Trial};
use crate::gpus::Gpus;
use crate::model::{Options, Simulated, Simulation};
use crate::population::Population;
use crate::services::Services;

/// Runs one trial in virtual time, on this thread.
///
/// # Errors
/// [`SimulationError`] when the system is unknown or does not take the job, or the
/// dataset is too small. A failure of the system under test is part of the outcome.
pub fn simulate(
    simulation: &Simulation,
    mut options: Options,
) -> Result<Simulated, SimulationError> {
    // A poll may find a broken server.
    let breaks = |fault: &Fault| matches!(fault.kind, FaultKind::Server(_));
    options.simulates_every_poll |= simulation.faults.iter().any(breaks);
    let population = admitted(simulation, &options)?;
    // Services, and the dataset in them.
    let job = &simulation.job;
    let system = system_of(job)?;
    let engine = Engine::default();
    let bound = system.bind(job)?;
    let services = Services::new(
        &engine,
        &simulation.profile,
        job.workers,
        bound.tensor_stores(),
        options.simulates_every_poll,
        population,
    );
    // Each training's functions and instances, on what all share.
    let jobs = simulation.jobs;
    let gpus = Gpus::new(&engine, simulation);
    let pool = Arc::new(Pool::new(&engine, simulation));
    let real = options.compute.map(Arc::new);
    let mut progress = options.progress;
    let mut trainings = Vec::new();
    for number in 0..jobs {
        let services = match number {
            0 => services.clone(),
            _ => services.beside(),
        };
        store_data(system, job, options.data.as_ref(), &services)?;
        let (requests, follow_ups) = requests();
        let mut simulation = simulation.clone();
        // Each draws events of its own.
        if number > 0 {
            let draws = &mut simulation.profile.draws;
            *draws = draws.map(|seed| hash::mix(seed, number));
        }
        let trial = Arc::new(Trial {
            system,
            engine: engine.clone(),
            gpus: Arc::new(gpus.of_job(number)),
            simulation,
            real: real.clone(),
            recorded: options.recorded.clone(),
            requests,
            arithmetic: ArithmeticMeter::default(),
            records: Arc::new(Records::new(
                options.keeps_steps && number == 0,
                services.population.clone(),
                progress.take().unwrap_or_else(|| Box::new(|_| {})),
            )),
            services,
            invocations: Mutex::new(Calls::new(options.merges_invocations || number > 0)),
            most_requests: Arc::default(),
            serial: AtomicU64::new(0),
        });
        let is_workflow = !bound.states().is_empty();
        let functions = ByHost {
            system,
            functions: Lambda::new(trial.clone(), pool.clone(), is_workflow),
            instances: Instances {
                trial: trial.clone(),
            },
            running: Running::default(),
        };
        trainings.push((trial, functions, follow_ups));
    }
    let mut trainings = trainings.into_iter();
    let Some((trial, functions, follow_ups)) = trainings.next() else {
        return Ok(Simulated::default());
    };
    // The run itself, in virtual time.
    let limit_s = deadline_s(simulation, system);
    let broken = Mutex::new(None);
    let (ended, waiting) = {
        let others = trainings
            .zip(2..)
            .map(|((_, functions, follow_ups), number)| {
                let broken = &broken;
                async move {
                    if let Err(error) = drive(system, job, &functions, follow_ups).await {
                        let failed = format!("training {number} of {jobs} at once failed: {error}");
                        locked(broken).get_or_insert(failed);
                    }
                }
            });
        // They run as long as the first does.
        let mut others = pin!(join_all(others).then(|_| pending()));
        let mut first = pin!(drive(system, job, &functions, follow_ups));
        let mut driving = select(first.as_mut(), others.as_mut()).map(|ended| match ended {
            Either::Left((driven, _)) => driven,
            Either::Right((never, _)) => never,
        });
        let ended = match limit_s {
            None => {
                let ended = engine.run_until(options.give_up_at, &mut driving);
                ended.map(Some)
            }
            Some(limit_s) => {
                let limit = engine.until(nanoseconds(limit_s));
                let ended = engine.run_until(options.give_up_at, select(&mut driving, limit));
                ended.map(|ended| match ended {
                    Either::Left((driven, _)) => Some(driven),
                    Either::Right(_) => None,
                })
            }
        };
        // Code that was left behind is dropped with what drove it.
        (ended, functions.running.named())
    };
    let wall_s = trial.seconds();
    drop(functions);
    let (transitions, failure) = match ended {
        Ok(Some(Ok(driven))) => (driven.transitions, None),
        Ok(None) => {
            let limit_s = limit_s.unwrap_or_default();
            let reason =
                format!("the trial did not end within {limit_s:.0} s ({waiting} did not end)");
            (0, Some(reason))
        }
        Ok(Some(Err(DriveError::System(error)))) => return Err(error.into()),
        Ok(Some(Err(DriveError::Invoke(error)))) => (0, Some(error.to_string())),
        Err(Stopped::GivenUp) => {
            let events = engine.acted();
            return Err(SimulationError::GivenUp { events });
        }
        Err(Stopped::Deadlock) => {
            let reason = format!("deadlock: every worker waits for another ({waiting})");
            (0, Some(reason))
        }
        Err(Stopped::Standstill) => {
            let reason = format!("virtual time stands still after {wall_s:.3} s ({waiting} wait)");
            (0, Some(reason))
        }
    };
    // The outcome. A limit that was hit explains the failure that follows from it.
    let infeasible = trial
        .services
        .infeasible()
        .or_else(|| trial.gpus.exceeded());
    let failure = failure.or_else(|| locked(&broken).take());
    let mut kept: Vec<Record> = std::mem::take(&mut *locked(&trial.records.kept));
    kept.extend(trial.gpus.usage());
    Ok(Simulated {
        records: kept,
        totals: std::mem::take(&mut locked(&trial.records.totals)),
        invocations: std::mem::take(&mut *locked(&trial.invocations)).into_list(),
        most_requests: std::mem::take(&mut *locked(&trial.most_requests)),
        transitions,
        wall_s,
        events: engine.acted(),
        failure: failure.filter(|_| infeasible.is_none()),
        infeasible,
    })
}

/// Returns the time after which a trial with injected faults is given up: in an epoch, a
/// worker runs each of its system's functions at most once, one after the other.
fn deadline_s(simulation: &Simulation, system: &dyn System) -> Option<f64> {
    let functions = system.deployment().functions.len().max(1);
    let turns = simulation.job.epochs * functions + 1;
    let boot_s = simulation.profile.instance.boot_s;
    (!simulation.faults.is_empty()).then_some(boot_s + simulation.timeout_s * turns as f64)
}

/// Most years that a worker computes on a vCPU, of which a function may have a fourteenth: virtual
/// time is counted in nanoseconds, up to 584 years.
const MOST_YEARS: f64 = 20.0;

/// Seconds of a year.
const YEAR_S: f64 = 365.25 * 86_400.0;

/// Refuses a setting that is more than [`simulate`] takes with `options`, before anything runs.
///
/// # Errors
/// [`SimulationError`] as of [`simulate`].
pub fn admit(simulation: &Simulation, options: &Options) -> Result<(), SimulationError> {
    admitted(simulation, options).map(|_| ())
}

/// Returns the workers that are simulated of a setting that is not refused.
fn admitted(simulation: &Simulation, options: &Options) -> Result<Population, SimulationError> {
    refuse_long(simulation)?;
    let population = Population::of(simulation, options)?;
    refuse_many(&simulation.job, &population, options.keeps_steps)?;
    Ok(population)
}

/// Refuses a setting whose steps would take so long that virtual time ends first.
fn refuse_long(simulation: &Simulation) -> Result<(), SimulationError> {
    let job = &simulation.job;
    let steps = job.epochs as f64 * job.batches_per_worker as f64;
    let years = steps * simulation.cost.step_s(job.batch_size, 1.0) / YEAR_S;
    if years <= MOST_YEARS {
        return Ok(());
    }
    Err(SimulationError::TooLong {
        system: job.system.clone(),
        years,
        most: MOST_YEARS,
    })
}

/// Most steps of the workers that are simulated.
const MOST_STEPS: u64 = 4_000_000;

/// Most of them whose records are kept: with what is made of them, about two gigabytes.
const MOST_KEPT_STEPS: u64 = 500_000;

/// Refuses a setting of more steps than memory and patience are meant for.
fn refuse_many(
    job: &Job,
    population: &Population,
    keeps_steps: bool,
) -> Result<(), SimulationError> {
    let of_one = (job.epochs as u64).saturating_mul(job.batches_per_worker as u64);
    let steps = of_one.saturating_mul(population.simulated() as u64);
    let most = if keeps_steps {
        MOST_KEPT_STEPS
    } else {
        MOST_STEPS
    };
    if steps <= most {
        return Ok(());
    }
    Err(SimulationError::TooManySteps {
        system: job.system.clone(),
        steps,
        most,
    })
}

/// Most objects of a dataset: with their keys, about half a gigabyte.
const MOST_OBJECTS: usize = 4_000_000;

/// Stores the dataset where the system reads it, before the run.
fn store_data(
    system: &dyn System,
    job: &Job,
    data: Option<&(Bytes, Bytes)>,
    services: &Services,
) -> Result<(), SimulationError> {
    let layout = system.bind(job)?.data_layout();
    let count = job.data.train_samples / job.batch_size.max(1);
    if layout == DataLayout::Minibatches && count > MOST_OBJECTS {
        return Err(SimulationError::TooManyObjects {
            system: job.system.clone(),
            objects: count,
            most: MOST_OBJECTS,
        });
    }
    let objects: Vec<(String, Payload)> = match data {
        None => phantom_objects(job, layout),
        Some((train, test)) => dataset_objects(job, layout, train, test)?
            .into_iter()
            .map(|(key, object)| (key, object.into()))
            .collect(),
    };
    for (key, object) in objects {
        services.objects.store.store(DATASET_BUCKET, &key, object);
    }
    Ok(())
}
