//! Paths of the servers' programs, and how to install missing ones.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, process};

use crate::ServerError;

/// Commands that install programs, on Debian and Ubuntu.
const REDIS_REMEDY: &str = "apt-get install redis-server";
pub(crate) const RABBITMQ_REMEDY: &str = "apt-get install rabbitmq-server";
const S3_REMEDY: &str = "cargo build --release -p epochcost-s3-server, in a checkout, \
     or name its program in EPOCHCOST_S3_SERVER";

/// Variable with the path of another S3-compatible server, which must take the
/// arguments of `epochcost-s3`.
pub const S3_VARIABLE: &str = epochcost_environment::user::S3_SERVER;
/// Name of the S3-compatible server's program.
pub const S3_PROGRAM: &str = "epochcost-s3";

/// Variable with the path of the tensor store's Redis module.
pub const MODULE_VARIABLE: &str = epochcost_environment::user::TENSORDB;
/// File name of the module.
pub const MODULE: &str = "libepochcost_tensordb.so";
const MODULE_REMEDY: &str = "apt-get install libclang-dev and, in a checkout, \
     cargo build --release -p epochcost-tensordb, or name it in EPOCHCOST_TENSORDB";

/// Directory of RabbitMQ's own scripts; those on the path are wrappers that change the
/// user and the directory.
const RABBITMQ_SCRIPTS: &str = "/usr/lib/rabbitmq/bin";

/// Finds the program `redis-server`.
///
/// # Errors
/// [`ServerError::Missing`].
pub fn redis() -> Result<PathBuf, ServerError> {
    const NAME: &str = "redis-server";
    on_path(NAME).ok_or(ServerError::missing(NAME, REDIS_REMEDY))
}

/// Finds the script `rabbitmq-server`.
///
/// # Errors
/// [`ServerError::Missing`].
pub fn rabbitmq() -> Result<PathBuf, ServerError> {
    const NAME: &str = "rabbitmq-server";
    let script = Path::new(RABBITMQ_SCRIPTS).join(NAME);
    let script = script.is_file().then_some(script);
    script
        .or_else(|| on_path(NAME))
        .ok_or(ServerError::missing(NAME, RABBITMQ_REMEDY))
}

/// Finds the S3-compatible server: the one that [`S3_VARIABLE`] names, else the one
/// that cargo built beside this program, else one on the path.
///
/// # Errors
/// [`ServerError::Missing`].
pub fn s3() -> Result<PathBuf, ServerError> {
    let named = env::var_os(S3_VARIABLE).map(PathBuf::from);
    named
        .or_else(|| beside(S3_PROGRAM))
        .or_else(|| on_path(S3_PROGRAM))
        .filter(|program| program.is_file())
        .ok_or(ServerError::missing(S3_PROGRAM, S3_REMEDY))
}

/// Finds the tensor store's Redis module: the one that [`MODULE_VARIABLE`] names, else
/// the one that cargo built beside this program.
///
/// # Errors
/// [`ServerError::Missing`].
pub fn module() -> Result<PathBuf, ServerError> {
    let named = env::var_os(MODULE_VARIABLE).map(PathBuf::from);
    named
        .or_else(|| beside(MODULE))
        .filter(|file| file.is_file())
        .ok_or(ServerError::missing(MODULE, MODULE_REMEDY))
}

/// Directory of an installation's private programs, from the parent of the directory of
/// `epochcost`.
pub const PRIVATE: &str = "libexec/epochcost";

/// Finds a file beside this program, or beside the directory of a test, where cargo
/// puts it; else among the private programs of an installation.
#[must_use]
pub fn beside(name: &str) -> Option<PathBuf> {
    beside_program(&env::current_exe().ok()?, name)
}

/// Finds a file as [`beside`] does, for the program at a path.
#[must_use]
pub fn beside_program(program: &Path, name: &str) -> Option<PathBuf> {
    let directories = || program.ancestors().skip(1);
    let beside = directories().take(2).map(|directory| directory.join(name));
    let private = directories()
        .nth(1)
        .map(|prefix| prefix.join(PRIVATE).join(name));
    beside.chain(private).find(|file| file.is_file())
}

/// Returns Redis' version, such as `7.0.15`.
#[must_use]
pub fn redis_version(program: &Path) -> Option<String> {
    let printed = output(process::Command::new(program).arg("--version"))?;
    let after = printed.split_once("v=")?.1;
    after.split_whitespace().next().map(str::to_owned)
}

/// Returns RabbitMQ's version, such as `3.10.8`, from the directory of its installation:
/// asking the program would start Erlang and a port mapper that stays.
#[must_use]
pub fn rabbitmq_version(script: &Path) -> Option<String> {
    let script = script.canonicalize().ok()?;
    script.iter().find_map(|part| {
        let version = part.to_str()?.strip_prefix("rabbitmq_server-")?;
        Some(version.to_owned())
    })
}

/// Returns the name and version that the S3-compatible server prints.
#[must_use]
pub fn s3_version(program: &Path) -> Option<String> {
    let printed = output(process::Command::new(program).arg("--version"))?;
    printed.lines().next().map(str::to_owned)
}

/// Runs a command and returns its standard output.
fn output(command: &mut process::Command) -> Option<String> {
    let output = command.stdin(process::Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()
}

/// Finds a program on the path.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|program| is_program(program))
}

/// Returns whether a path is an executable file.
fn is_program(path: &Path) -> bool {
    let metadata = path.metadata();
    metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
