//! The worker: an AWS Lambda function, the process of an instance, or either
//! of them on the local platform.
//!
//! Without arguments it is a function and speaks the Lambda Runtime API. With
//! `--instance` it runs the one task that it reads from its standard input.
//! With `--describe` it prints what it can compute on, and with `--profile` it
//! measures how fast. With `--simulate` it trains in virtual time, and with `--probe`
//! it takes all of a resource that its sandbox allows. Environment variables name the
//! services.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::disallowed_methods))]

mod compute;
mod control;
mod environment;
mod faults;
mod host;
mod lifeline;
mod output;
mod probe;
mod process;
mod profile;
mod run;
mod simulate;

use std::process::ExitCode;

use epochcost_systems::Outcome;
use lambda_runtime::{LambdaEvent, service_fn};

use environment::Environment;
use host::WorkerError;
use output::Output;
use run::Worker;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    epochcost_models::keep_freed_memory();
    let ended = match words.first().map(String::as_str) {
        None => function().await,
        Some("--instance") => instance().await,
        Some("--describe") => describe(),
        Some("--simulate") => simulate::run().await,
        Some("--profile") => profile::run().await,
        Some("--probe") => probe::run(words.get(1).map(String::as_str)).await,
        Some(other) => Err(WorkerError::Usage(other.to_owned())),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bootstrap failed to run: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves invocations until the Runtime API is gone.
async fn function() -> Result<(), WorkerError> {
    lifeline::watch_if_piped();
    let worker = Worker::new(Environment::read()?)?;
    let handler = service_fn(|event: LambdaEvent<epochcost_systems::Task>| {
        let worker = &worker;
        async move {
            let request = event.context.request_id;
            let left = host::until(event.context.deadline);
            let _last = output::LastLine::new(request.clone());
            Output.task(&event.payload);
            let outcome = match worker.is_repeated(&event.payload, &request).await {
                Ok(false) => worker.run(event.payload, Some(left)).await,
                Ok(true) => Ok(Outcome::Repeated),
                Err(error) => Err(error),
            };
            Output.outcome(&outcome.as_ref().copied().map_err(ToString::to_string));
            outcome
        }
    });
    let service = lambda_runtime::Runtime::new(handler);
    service
        .run()
        .await
        .map_err(|error| WorkerError::Runtime(error.to_string()))
}

/// Runs one task and prints its outcome.
async fn instance() -> Result<(), WorkerError> {
    let task = lifeline::first_line()?;
    let task = serde_json::from_str(&task).map_err(|error| WorkerError::Task(error.to_string()))?;
    let outcome = Worker::new(Environment::read()?)?.run(task, None).await;
    Output.outcome(&outcome.map_err(|error| error.to_string()));
    Ok(())
}

/// Prints what this worker can compute on.
fn describe() -> Result<(), WorkerError> {
    let description = serde_json::to_string(&compute::Description::here());
    Output.line(&description.map_err(|error| WorkerError::Task(error.to_string()))?);
    Ok(())
}
