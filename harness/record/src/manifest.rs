//! Origin of a run: `manifest.json`, `machine.json`, `plan.json`.

use std::fmt;
use std::path::Path;
use std::process::Command;

use epochcost_spec::capacity::Capacity;
use epochcost_spec::hash::{sha256_hex, sha256_of};
use epochcost_spec::metering::{Limit, Server};
use epochcost_spec::rows::Row;
use serde::{Deserialize, Serialize};

use super::simulation::{ComputeUsed, SimulationRecord};

/// The version of the run directory's format.
///
/// A reader accepts its own major version up to its own minor one: a minor
/// version adds files or optional fields, which an older program would leave
/// out of the reports that it writes into the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaVersion {
    /// Counts changes that older readers would misread.
    pub major: u32,
    /// Counts additions.
    pub minor: u32,
}

/// The version that this program writes.
pub const SCHEMA_VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 4 };

/// Returns the command line; what is not UTF-8 in it is replaced.
pub fn command_line() -> Vec<String> {
    let words = std::env::args_os();
    let words = words.map(|word| word.to_string_lossy().into_owned());
    words.collect()
}

/// `manifest.json`: what was run, with which binaries and data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of the run directory.
    pub schema_version: SchemaVersion,
    /// `<date>-<id>`.
    pub run_id: String,
    /// The experiment's id.
    pub experiment: String,
    /// Path of its file; one that begins with `shipped:` is inside the program.
    pub experiment_file: Option<String>,
    /// `local`, `sim` or `aws`.
    pub platform: String,
    /// `embedded` or `real`.
    pub services: String,
    /// Start of the run, RFC 3339 in UTC.
    pub created: String,
    /// The command line.
    pub command: Vec<String>,
    /// The harness.
    pub epochcost: Build,
    /// The source tree it was run in, if that is a git checkout.
    pub git: Option<Git>,
    /// SHA-256 of the worker that was started.
    pub worker_sha256: Option<String>,
    /// The data trained on.
    pub datasets: Vec<DatasetRecord>,
    /// The seed of every trial number, from trial 0.
    pub seeds: Vec<u64>,
    /// Whether servers that stand in for the platform's answered: its figures say nothing of the platform.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearsed: bool,
    /// Profiles and constants of a simulation; null of other runs.
    pub simulation: Option<SimulationRecord>,
    /// Hashes of the other files that are written before the first trial.
    pub files: Vec<FileHash>,
}

/// Build of the harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Build {
    /// Version.
    pub version: String,
    /// SHA-256 of the running binary.
    pub sha256: Option<String>,
    /// The compiler found on the machine; null where there is none.
    pub toolchain: Option<String>,
    /// `debug` or `release`.
    pub profile: String,
}

/// The state of the source tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Git {
    /// The commit; null before the first.
    pub commit: Option<String>,
    /// Whether tracked files differ from it, or untracked ones are there.
    pub dirty: bool,
}

/// A dataset as it was found on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetRecord {
    /// Name.
    pub name: String,
    /// Whether it was generated: accuracies on it compare with no published one.
    pub generated: bool,
    /// Files.
    pub files: Vec<FileHash>,
}

/// A file and its hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileHash {
    /// The file's name.
    pub name: String,
    /// SHA-256, lower-case hexadecimal.
    pub sha256: String,
}

/// `machine.json`: where it was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The CPU's model name.
    pub cpu: Option<String>,
    /// CPUs that this process may use.
    pub cores: usize,
    /// CPUs' worth of time that a control group around this process allows; null without such
    /// a limit.
    pub cpu_quota: Option<f64>,
    /// Memory that this process may use, bytes.
    pub memory_bytes: Option<u64>,
    /// The NVIDIA GPUs' names, by their driver.
    pub gpus: Vec<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// One-minute load average when the run was started.
    pub load_average: Option<f64>,
    /// Limits of functions, and how the platform enforces them.
    pub limits: Vec<Limit>,
    /// The real servers that trials ran on; none where services are embedded.
    pub servers: Vec<Server>,
}

/// `plan.json`: every row and how often it was to be repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedRow {
    /// The row.
    pub row: Row,
    /// Trials asked for.
    pub trials: usize,
    /// Trials at most, where a claim cannot be decided after `trials`.
    pub most_trials: usize,
    /// Why the platform cannot run it at all; it is then reported as infeasible.
    pub infeasible: Option<String>,
    /// Source of its compute time; null unless it is simulated.
    pub compute: Option<ComputeUsed>,
}

impl fmt::Display for SchemaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Build {
    /// Returns the build of this program.
    pub fn current() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            // The running file: that at the program's path may be another build by now.
            sha256: sha256_of(Path::new("/proc/self/exe")).ok(),
            toolchain: output_of(Command::new("rustc").arg("--version")),
            profile: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            }
            .into(),
        }
    }
}

impl Git {
    /// Returns the checkout that holds the current directory, if there is one.
    pub fn here() -> Option<Self> {
        let git = |arguments: &[&str]| output_of(Command::new("git").args(arguments));
        git(&["rev-parse", "--is-inside-work-tree"])?;
        Some(Self {
            commit: git(&["rev-parse", "--verify", "--quiet", "HEAD"]),
            dirty: git(&["status", "--porcelain"]).is_some(),
        })
    }
}

impl Machine {
    /// Returns the machine that this program runs on, without servers.
    pub fn here(limits: Vec<Limit>) -> Self {
        let capacity = Capacity::here();
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let model = |text: String| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        Self {
            cpu: read("/proc/cpuinfo").and_then(model),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_quota: capacity.cpu_quota,
            memory_bytes: capacity.memory_bytes,
            gpus: gpus(),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            load_average: read("/proc/loadavg")
                .and_then(|text| text.split(' ').next().and_then(|load| load.parse().ok())),
            limits,
            servers: Vec::new(),
        }
    }
}

/// Returns the names of this machine's NVIDIA GPUs, by their driver.
fn gpus() -> Vec<String> {
    let directories = std::fs::read_dir("/proc/driver/nvidia/gpus").into_iter();
    let mut directories: Vec<_> = directories.flatten().flatten().collect();
    directories.sort_by_key(std::fs::DirEntry::file_name);
    let named = directories.into_iter().filter_map(|directory| {
        let text = std::fs::read_to_string(directory.path().join("information")).ok()?;
        let model = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
        Some(model.trim().to_owned())
    });
    named.collect()
}

impl FileHash {
    /// Returns the hash of a file that is to have this content.
    pub(super) fn of_bytes(name: &str, bytes: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            sha256: sha256_hex(bytes),
        }
    }

    /// Hashes the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let name = path.file_name().unwrap_or(path.as_os_str());
        Ok(Self {
            name: name.display().to_string(),
            sha256: sha256_of(path)?,
        })
    }
}

/// Returns what a command printed, if it ended well and printed something.
fn output_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
