//! Finding the worker binary, or building it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use epochcost_servers::find;
use epochcost_spec::hash::sha256_of;
use epochcost_systems::Device;
use serde::Deserialize;
use tokio::time::timeout;

use super::checkout::{Artifact, Checkout};
use super::program::Program;
use crate::PlatformError;

/// Environment variable of another worker binary; nothing is built then.
pub const WORKER_VARIABLE: &str = epochcost_environment::user::WORKER;
/// The binary's name, which AWS prescribes for custom runtimes.
pub(super) const NAME: &str = "bootstrap";
/// Time limit of a worker's description; one with CUDA starts its driver first.
const DESCRIPTION_LIMIT: Duration = Duration::from_secs(20);
/// Built as the whole workspace builds it, so that nothing is compiled twice.
const BINARY: Artifact = Artifact {
    selection: &["--bin", NAME],
    file: NAME,
};

/// A worker binary.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Path of the binary.
    pub path: PathBuf,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    program: Arc<Program>,
}

/// Description of a worker binary, which it reports.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Devices that it can compute on.
    pub devices: Vec<Device>,
    /// Reason why CUDA is not among them, in the worker's words.
    pub no_cuda: Option<String>,
    /// Whether it was built with CUDA, whether or not this machine has a GPU.
    pub built_with_cuda: bool,
    /// GPUs that workers are dealt out over.
    pub gpus: Vec<Gpu>,
}

/// A GPU that workers compute on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Name of the GPU.
    pub name: String,
    /// Its memory, MB of 1,048,576 bytes; none of a device in software.
    pub memory_mb: Option<f64>,
}

impl Description {
    /// Refuses a device that the worker cannot compute on; `instead` is what would do
    /// without.
    ///
    /// # Errors
    /// [`PlatformError::Lacks`], with the worker's reason and the remedy.
    pub fn offers(
        &self,
        device: Device,
        asked_by: &str,
        instead: &str,
    ) -> Result<(), PlatformError> {
        if self.devices.contains(&device) {
            return Ok(());
        }
        let reason = self.no_cuda.as_ref();
        let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
        Err(PlatformError::Lacks {
            what: format!("the device {device} that {asked_by} asks for{reason}"),
            remedy: format!("{instead}, or {CUDA_WORKER}"),
        })
    }
}

/// Instructions to get a worker that computes on a GPU.
pub const CUDA_WORKER: &str = "on a machine with an NVIDIA GPU, build a worker with CUDA \
    (cargo build --release -p epochcost-worker --features cuda --target-dir target/cuda) and set \
    EPOCHCOST_WORKER=target/cuda/release/bootstrap";

/// Finds the worker: the one that `EPOCHCOST_WORKER` names; in a checkout, the
/// one that cargo builds from it; else the one beside this program, or in
/// `../libexec/epochcost` from there.
///
/// # Errors
/// [`PlatformError::Worker`] with what was tried and what to do.
pub fn find_or_build() -> Result<Worker, PlatformError> {
    if let Some(path) = named(WORKER_VARIABLE) {
        return Worker::at(path);
    }
    let program = env::current_exe().map_err(PlatformError::io("find this program's own path"))?;
    match (Checkout::of(&program), find::beside_program(&program, NAME)) {
        (Some(checkout), _) => Worker::at(checkout.build(&BINARY).map_err(|reason| {
            PlatformError::Worker(format!(
                "{reason}; install cargo, or name a built worker in {WORKER_VARIABLE}"
            ))
        })?),
        (None, Some(installed)) => Worker::at(installed),
        (None, None) => Err(missing(&program)),
    }
}

/// Returns the worker that a variable names; empty, it names none.
fn named(variable: &str) -> Option<PathBuf> {
    let path = env::var_os(variable).filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

/// Returns the error for an installation without a worker.
fn missing(program: &Path) -> PlatformError {
    let directory = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
    let beside = directory(program);
    let private = directory(&beside).join(find::PRIVATE);
    PlatformError::Worker(format!(
        "there is no {NAME} in {} or {}, and no source to build it from: install epochcost \
         again with both of its programs, name a worker of version {} in {WORKER_VARIABLE}, or \
         simulate with `--platform sim`, which needs none",
        beside.display(),
        private.display(),
        env!("CARGO_PKG_VERSION")
    ))
}

/// Finds the worker that `EPOCHCOST_CUDA_WORKER` names for rented GPUs, and asks it what it is.
///
/// # Errors
/// [`PlatformError::Worker`] when it is unusable, or another version.
pub async fn for_rented_gpus() -> Result<Option<(Worker, Description)>, PlatformError> {
    let Some(path) = named(epochcost_environment::user::CUDA_WORKER) else {
        return Ok(None);
    };
    let worker = Worker::at(path)?;
    let description = worker.describe().await?;
    Ok(Some((worker, description)))
}

/// Finds or builds the worker on a thread that may block.
///
/// # Errors
/// [`PlatformError::Worker`] when there is none and none can be built.
pub async fn find() -> Result<Worker, PlatformError> {
    let found = tokio::task::spawn_blocking(find_or_build).await;
    found.map_err(|error| PlatformError::Worker(error.to_string()))?
}

/// Finds or builds the worker, and asks it what it is.
///
/// # Errors
/// [`PlatformError::Worker`] when there is none of this version and none can be built.
pub async fn find_and_describe() -> Result<(Worker, Description), PlatformError> {
    let worker = find().await?;
    let description = worker.describe().await?;
    Ok((worker, description))
}

impl Worker {
    /// Returns the worker at `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn at(path: PathBuf) -> Result<Self, PlatformError> {
        let opened = Program::open(&path).and_then(|program| {
            let sha256 = sha256_of(program.path())?;
            Ok((Arc::new(program), sha256))
        });
        let (program, sha256) = opened.map_err(|error| unusable(&path, &error))?;
        Ok(Self {
            path,
            sha256,
            program,
        })
    }

    /// Returns the path to start the binary by while this worker exists: whatever happens to
    /// its file, it is the one that was hashed.
    pub fn program(&self) -> &Path {
        self.program.path()
    }

    /// Refuses a binary that was written over since it was hashed.
    ///
    /// # Errors
    /// [`PlatformError::Worker`] with the remedy.
    pub fn check(&self) -> Result<(), PlatformError> {
        self.program.check().map_err(PlatformError::Worker)
    }

    /// Asks the binary what it is.
    ///
    /// # Errors
    /// [`PlatformError::Worker`] when it is no worker of this version.
    pub async fn describe(&self) -> Result<Description, PlatformError> {
        self.describe_within(DESCRIPTION_LIMIT).await
    }

    async fn describe_within(&self, limit: Duration) -> Result<Description, PlatformError> {
        let output = tokio::process::Command::new(self.program())
            .arg("--describe")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(limit, output).await.map_err(|_| {
            let limit_s = limit.as_secs();
            let reason = format!("it does not answer `--describe` within {limit_s} s");
            unusable(&self.path, &reason)
        })?;
        let output = output.map_err(|error| unusable(&self.path, &error))?;
        serde_json::from_slice(&output.stdout).map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().filter(|line| !line.is_empty()).take(2);
            let said = match said.collect::<Vec<_>>().join(" ") {
                said if said.is_empty() => error.to_string(),
                said => format!("it ended with {} and wrote: {said}", output.status),
            };
            let asked = "it does not describe itself, is it a worker of this version?";
            unusable(&self.path, &format!("{asked} {said}"))
        })
    }
}

/// Returns the error of a binary that is no worker, with the variable if that named it.
fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> PlatformError {
    let remedy = match named(WORKER_VARIABLE) {
        Some(named) if named == path => format!(
            "; {WORKER_VARIABLE} names it: set it to a worker of version {}, or unset it",
            env!("CARGO_PKG_VERSION")
        ),
        _ => String::new(),
    };
    PlatformError::Worker(format!("{}: {reason}{remedy}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use std::fs;

    #[test]
    fn a_worker_is_known_by_its_hash() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bootstrap");
        fs::write(&path, "abc").unwrap();
        let worker = Worker::at(path).unwrap();
        // FIPS 180-2's example.
        assert!(worker.sha256.starts_with("ba7816bf8f01cfea"));
        let error = Worker::at(dir.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("none"), "{error}");
    }

    #[tokio::test]
    async fn a_worker_that_does_not_answer_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bootstrap");
        fs::write(&path, "#!/bin/sh\nexec sleep 600\n").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        let worker = Worker::at(path).unwrap();
        let error = worker.describe_within(Duration::ZERO).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains("bootstrap: it does not answer"), "{error}");
    }
}
