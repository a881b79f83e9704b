//! Virtual time with real training, in the worker binary.

use std::process::Stdio;

use epochcost_simulator::{Simulated, Simulation};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use super::RealCompute;
use crate::PlatformError;

/// Request to the worker: one line on its standard input.
#[derive(Serialize)]
struct Request<'a> {
    simulation: &'a Simulation,
    dataset: &'a str,
    directory: &'a std::path::Path,
}

/// Answers of the worker: one line each on its standard output.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// Number of steps that have ended.
    Steps(u64),
    /// The simulation ended.
    Simulated(Box<Simulated>),
}

/// Runs a trial in the worker. Dropping the future stops it.
pub(super) async fn run(
    real: &RealCompute,
    dataset: &str,
    simulation: &Simulation,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Simulated, PlatformError> {
    let mut worker = Command::new(real.worker.program())
        .arg("--simulate")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(PlatformError::io("start the worker"))?;
    let (Some(mut input), Some(output), Some(mut errors)) = (
        worker.stdin.take(),
        worker.stdout.take(),
        worker.stderr.take(),
    ) else {
        return Err(failed("it has no standard input or output"));
    };
    let request = Request {
        simulation,
        dataset,
        directory: &real.directory,
    };
    let mut request = serde_json::to_vec(&request).map_err(|error| failed(&error.to_string()))?;
    request.push(b'\n');
    // The worker ends with its input, which stays open until the last answer.
    let sent = input.write_all(&request).await;
    sent.map_err(PlatformError::io("send the simulation"))?;
    let printed = tokio::spawn(async move {
        let mut printed = String::new();
        // Output that cannot be read is not shown.
        let _ = errors.read_to_string(&mut printed).await;
        printed
    });
    let mut lines = BufReader::new(output).lines();
    let unreadable = PlatformError::io("read from the worker");
    while let Some(line) = lines.next_line().await.map_err(&unreadable)? {
        match serde_json::from_str(&line) {
            Ok(Answer::Steps(steps)) => progress(steps),
            Ok(Answer::Simulated(simulated)) => return Ok(*simulated),
            Err(error) => return Err(failed(&format!("it answers {line:.80}: {error}"))),
        }
    }
    let printed = printed.await.unwrap_or_default();
    let printed = printed.trim();
    Err(failed(&format!("it ended without an answer: {printed}")))
}

fn failed(reason: &str) -> PlatformError {
    PlatformError::Worker(format!("failed to simulate: {reason}"))
}
