//! Finding the worker binary, or building it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::platform::PlatformError;

/// Names another worker binary; nothing is built then.
pub const WORKER_VARIABLE: &str = "EPOCHCOST_WORKER";
/// The binary's name, which AWS prescribes for custom runtimes.
const NAME: &str = "bootstrap";

/// A worker binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Where it lies.
    pub path: PathBuf,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// What a worker binary says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    /// What it can compute on.
    pub(super) devices: Vec<epochcost_systems::Device>,
}

/// Finds the worker: the one that `EPOCHCOST_WORKER` names; in a checkout, the
/// one that cargo builds from it; else the one beside this program.
///
/// # Errors
/// [`PlatformError::Worker`] says what was tried and what to do.
pub fn find_or_build() -> Result<Worker, PlatformError> {
    if let Some(path) = env::var_os(WORKER_VARIABLE) {
        return Worker::at(PathBuf::from(path));
    }
    let program = env::current_exe().map_err(|source| PlatformError::Io {
        doing: "find this program's own path".into(),
        source,
    })?;
    let beside = program.with_file_name(NAME);
    match Checkout::of(&program) {
        Some(checkout) => Worker::at(checkout.build()?),
        None if beside.is_file() => Worker::at(beside),
        None => Err(PlatformError::Worker(format!(
            "there is no {} and no source to build it from: put the worker there, \
             or name it in {WORKER_VARIABLE}",
            beside.display()
        ))),
    }
}

impl Worker {
    /// The worker at `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn at(path: PathBuf) -> Result<Self, PlatformError> {
        let hash = |path: &Path| -> io::Result<String> {
            let mut hash = Sha256::new();
            io::copy(&mut fs::File::open(path)?, &mut hash)?;
            Ok(hash
                .finalize()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect())
        };
        match hash(&path) {
            Ok(sha256) => Ok(Self { path, sha256 }),
            Err(error) => Err(PlatformError::Worker(format!(
                "{}: {error}",
                path.display()
            ))),
        }
    }

    /// Asks the binary what it is.
    pub(super) async fn describe(&self) -> Result<Description, PlatformError> {
        let failed =
            |reason: String| PlatformError::Worker(format!("{}: {reason}", self.path.display()));
        let output = tokio::process::Command::new(&self.path)
            .arg("--describe")
            .stdin(Stdio::null())
            .output()
            .await
            .map_err(|error| failed(error.to_string()))?;
        serde_json::from_slice(&output.stdout).map_err(|error| {
            failed(format!(
                "it does not describe itself, is it a worker of this version? {error}"
            ))
        })
    }
}

/// The source that this program was built from, and where it was built.
struct Checkout {
    workspace: PathBuf,
    target: PathBuf,
}

impl Checkout {
    /// `None` where the source is gone, or the program was installed elsewhere.
    fn of(program: &Path) -> Option<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
        if !workspace.join("workloads/worker/Cargo.toml").is_file() {
            return None;
        }
        let target = target_dir(program)?;
        Some(Self {
            workspace: workspace.to_owned(),
            target: target.to_owned(),
        })
    }

    /// Builds the worker as the whole workspace builds it, so that nothing is
    /// compiled twice; takes a moment where it is built already.
    fn build(&self) -> Result<PathBuf, PlatformError> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(&cargo);
        command
            .args(["build", "--release", "--bin", NAME, "--target-dir"])
            .arg(&self.target)
            .current_dir(&self.workspace)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        // What cargo sets for the program that it runs would make some build
        // scripts run again.
        for (name, _) in env::vars_os().filter(|(name, _)| is_cargos_own(name)) {
            command.env_remove(name);
        }
        let built = self.target.join("release").join(NAME);
        match command.status() {
            Ok(status) if status.success() => Ok(built),
            Ok(status) => Err(PlatformError::Worker(format!(
                "`cargo build --release --bin {NAME}` in {} ended with {status}",
                self.workspace.display()
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && built.is_file() => Ok(built),
            Err(error) => Err(PlatformError::Worker(format!(
                "{}: {error}; install cargo, or name a built worker in {WORKER_VARIABLE}",
                cargo.display()
            ))),
        }
    }
}

/// The target directory that a program built by cargo in release lies in:
/// `TARGET/release/epochcost`, or a test in `TARGET/release/deps`.
fn target_dir(program: &Path) -> Option<&Path> {
    let release = program
        .ancestors()
        .skip(1)
        .take(2)
        .find(|dir| dir.ends_with("release"))?;
    release.parent()
}

fn is_cargos_own(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
        "CARGO_PRIMARY_",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_target_directory_is_seen_from_programs_and_tests() {
        let of = |path: &'static str| target_dir(Path::new(path));
        assert_eq!(
            of("/w/target/release/epochcost"),
            Some(Path::new("/w/target"))
        );
        assert_eq!(
            of("/w/target/release/deps/local-12"),
            Some(Path::new("/w/target"))
        );
        assert_eq!(of("/usr/bin/epochcost"), None);
        assert_eq!(of("/release/a/b/epochcost"), None);
    }

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
}
