//! Real training in virtual time: the simulator runs in this program, which links the
//! models.

use std::path::PathBuf;

use bytes::Bytes;
use epochcost_models::Precision;
use epochcost_simulator::{MakeCompute, Options, Simulated, Simulation, simulate};
use epochcost_systems::Compute;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::compute::{JobModel, Model};
use crate::host::WorkerError;
use crate::lifeline;
use crate::output::Output;

/// The request: one line on standard input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    simulation: Simulation,
    dataset: String,
    directory: PathBuf,
}

/// An answer: one line on standard output.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Steps(u64),
    Simulated(Box<Simulated>),
}

impl Answer {
    fn send(&self) {
        match serde_json::to_string(self) {
            Ok(line) => Output.line(&line),
            Err(error) => eprintln!("failed to write an answer: {error}"),
        }
    }
}

/// Runs the simulation that standard input describes.
///
/// # Errors
/// [`WorkerError`] when the request is malformed or cannot be simulated.
pub async fn run() -> Result<(), WorkerError> {
    let request = lifeline::first_line()?;
    let request: Request =
        serde_json::from_str(&request).map_err(|error| WorkerError::Task(error.to_string()))?;
    let failed = |reason: String| WorkerError::Task(reason);
    let ended = spawn_blocking(move || simulated(request)).await;
    let simulated = ended.map_err(|error| failed(error.to_string()))??;
    Answer::Simulated(Box::new(simulated)).send();
    Ok(())
}

fn simulated(request: Request) -> Result<Simulated, WorkerError> {
    let failed = |reason: String| WorkerError::Task(reason);
    let data = epochcost_datasets::open(&request.dataset, &request.directory)
        .map_err(|error| failed(error.to_string()))?;
    let job = request.simulation.job.clone();
    // Times are the profile's, so that any device may compute the values.
    let model = Model::load(&job, true, Precision::default())?;
    let make: MakeCompute = Box::new(move || {
        let model: Box<dyn Compute> = Box::new(JobModel::new(model.clone(), &job)?);
        Ok(model)
    });
    let options = Options {
        data: Some((
            Bytes::copy_from_slice(data.train.records()),
            Bytes::copy_from_slice(data.test.records()),
        )),
        compute: Some(make),
        keeps_steps: true,
        progress: Some(Box::new(|steps| Answer::Steps(steps).send())),
        ..Options::default()
    };
    simulate(&request.simulation, options).map_err(|error| failed(error.to_string()))
}
