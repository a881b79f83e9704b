//! What real services are run with: found, built, or named as missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use epochcost_environment::user::{REAL_RABBITMQ, REAL_REDIS, REAL_S3};
use epochcost_servers::{ServerError, find};
use epochcost_spec::chain::chain;
use epochcost_spec::rows::Row;

use super::external::ExternalServers;
use crate::local::checkout::{Artifact, Checkout};
use crate::{Finding, PlatformError};

const MODULE: Artifact = Artifact {
    selection: &["-p", "epochcost-tensordb"],
    file: find::MODULE,
};
const OBJECT_SERVER: Artifact = Artifact {
    // As the whole workspace builds it.
    selection: &["--bin", find::S3_PROGRAM],
    file: find::S3_PROGRAM,
};
/// Name of the requirement that not every row has.
const REDIS_MODULE: &str = "Redis module";
const LIBCLANG_REMEDY: &str = "apt-get install libclang-dev";
/// Library directories of distributions; LLVM's own are below
/// `/usr/lib/llvm-*`.
const LIBRARIES: [&str; 4] = [
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
];

/// Finds the Redis module, or builds it, which takes minutes the first time.
///
/// # Errors
/// [`PlatformError::Lacks`] with what was tried and what to do.
pub fn redis_module() -> Result<PathBuf, PlatformError> {
    found_or_built(&MODULE, "the Redis module", find::MODULE_VARIABLE)
}

/// Finds the S3-compatible server, or builds it, which takes minutes the first time.
///
/// # Errors
/// [`PlatformError::Lacks`] with what was tried and what to do.
pub fn object_server() -> Result<PathBuf, PlatformError> {
    found_or_built(&OBJECT_SERVER, "the S3 server", find::S3_VARIABLE)
}

/// Description of what was found of a requirement, or of what is missing and the action that
/// supplies it, a command where there is one.
type State = Result<String, (String, String)>;

/// Returns every requirement of real services, met or not. Builds nothing, and asks
/// programs for their versions only.
pub fn requirements() -> Vec<Finding> {
    let external = ExternalServers::read().unwrap_or_default();
    let named = |variable| Ok(format!("external, named in {variable}"));
    let [redis, module] = match external.redis.len() {
        0 => [redis(), module_obtainable()],
        count => [
            Ok(format!("{count} external, named in {REAL_REDIS}")),
            Ok("that of the external servers".to_owned()),
        ],
    };
    let rabbitmq = (external.rabbitmq).map_or_else(rabbitmq, |_| named(REAL_RABBITMQ));
    let s3 = || obtainable(&OBJECT_SERVER, find::S3_VARIABLE);
    let s3 = (external.s3).map_or_else(s3, |_| named(REAL_S3));
    let states = [
        ("Redis", redis),
        (REDIS_MODULE, module),
        ("RabbitMQ", rabbitmq),
        ("S3 server", s3),
    ];
    let findings = states.map(|(what, state)| match state {
        Ok(found) => Finding::there(what, found),
        Err((missing, remedy)) => Finding::lacking(what, missing, remedy),
    });
    findings.into()
}

/// Checks that this machine has everything that the rows need; reports all that is
/// missing at once.
///
/// # Errors
/// [`PlatformError::Lacks`].
pub fn check(rows: &[Row]) -> Result<(), PlatformError> {
    ExternalServers::read()?;
    let needs_module = rows.iter().any(Row::needs_module);
    let (what, remedies): (Vec<String>, Vec<String>) = requirements()
        .into_iter()
        .filter(|requirement| needs_module || requirement.what != REDIS_MODULE)
        .filter_map(|requirement| Some((requirement.found, requirement.remedy?)))
        .unzip();
    if what.is_empty() {
        return Ok(());
    }
    Err(PlatformError::Lacks {
        what: format!("what `services: real` takes: {}", what.join("; ")),
        remedy: format!(
            "{}; or run it with --services embedded, which takes nothing",
            remedies.join("; ")
        ),
    })
}

/// Returns the file that a variable names; in a checkout, the one that cargo builds from
/// it; else the one beside this program.
fn found_or_built(
    artifact: &Artifact,
    name: &str,
    variable: &str,
) -> Result<PathBuf, PlatformError> {
    if let Some(path) = env::var_os(variable) {
        return Ok(PathBuf::from(path));
    }
    let found = match (Checkout::here(), find::beside(artifact.file)) {
        (Some(checkout), _) => checkout.build(artifact),
        (None, Some(path)) => Ok(path),
        (None, None) => Err(format!(
            "there is no {} beside this program, and no source to build it from",
            artifact.file
        )),
    };
    found.map_err(|reason| PlatformError::Lacks {
        what: format!("{name}: {reason}"),
        remedy: format!("name a built one in {variable}, or run it with --services embedded"),
    })
}

fn redis() -> State {
    let program = find::redis().map_err(missing)?;
    Ok(find::redis_version(&program).unwrap_or_else(|| "of an unknown version".to_owned()))
}

fn rabbitmq() -> State {
    let script = find::rabbitmq().map_err(missing)?;
    Ok(find::rabbitmq_version(&script).unwrap_or_else(|| "of an unknown version".to_owned()))
}

fn missing(error: ServerError) -> (String, String) {
    match error {
        ServerError::Missing { program, remedy } => {
            (format!("{program} is not installed"), remedy.to_owned())
        }
        other => (chain(&other), "see what it says".to_owned()),
    }
}

fn module_obtainable() -> State {
    let state = obtainable(&MODULE, find::MODULE_VARIABLE)?;
    let is_built = |checkout: Checkout| checkout.path(&MODULE).is_file();
    if env::var_os(find::MODULE_VARIABLE).is_none()
        && Checkout::here().is_some_and(|checkout| !is_built(checkout))
        && !has_libclang()
    {
        let missing = "libclang, which the Redis module is built with, is not installed";
        return Err((missing.to_owned(), LIBCLANG_REMEDY.to_owned()));
    }
    Ok(state)
}

/// Returns the file that a variable names, else the one that cargo builds or has built, or the
/// one beside this program.
fn obtainable(artifact: &Artifact, variable: &str) -> State {
    let named = env::var_os(variable).map(PathBuf::from);
    match (named, Checkout::here(), find::beside(artifact.file)) {
        (Some(path), ..) if path.is_file() => Ok(path.display().to_string()),
        (Some(path), ..) => Err((
            format!("{variable} names {}, where no file is", path.display()),
            format!("correct {variable}, or leave it out"),
        )),
        (None, Some(checkout), _) => {
            let path = checkout.path(artifact);
            Ok(if path.is_file() {
                path.display().to_string()
            } else {
                "not built yet: a run builds it with cargo".to_owned()
            })
        }
        (None, None, Some(path)) => Ok(path.display().to_string()),
        (None, None, None) => Err((
            format!("there is no {} beside this program", artifact.file),
            format!("put it there, or name it in {variable}"),
        )),
    }
}

/// Returns whether libclang is where `clang-sys`, which builds the module's bindings, searches
/// for it: where `LIBCLANG_PATH` says, and nowhere else if that is set.
fn has_libclang() -> bool {
    if let Some(named) = env::var_os("LIBCLANG_PATH").map(PathBuf::from) {
        return is_libclang(&file_name(&named)) && named.is_file() || holds_libclang(&named);
    }
    let below_llvm = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let below_llvm = below_llvm.map(|entry| entry.path());
    let below_llvm = below_llvm.filter(|path| file_name(path).starts_with("llvm-"));
    let below_llvm = below_llvm.map(|path| path.join("lib"));
    let variable = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let directories = LIBRARIES.iter().map(PathBuf::from).chain(below_llvm);
    let asked = printed(Command::new("llvm-config").arg("--libdir")).map(PathBuf::from);
    let mut directories = directories.chain(asked).chain(env::split_paths(&variable));
    directories.any(|directory| holds_libclang(&directory))
}

fn holds_libclang(directory: &Path) -> bool {
    let mut entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.any(|entry| is_libclang(&file_name(&entry.path())) && entry.path().is_file())
}

/// Returns whether a file is libclang's: `libclang.so`, `libclang-14.so.1`. That of its C++
/// interface (`libclang-cpp.so.14`), which comes with every LLVM, is another library.
fn is_libclang(name: &str) -> bool {
    let version = name
        .strip_prefix("libclang")
        .and_then(|rest| rest.split_once(".so"));
    version.is_some_and(|(version, _)| {
        let mut digits = version.trim_start_matches('-').chars();
        digits.all(|digit| digit.is_ascii_digit() || digit == '.')
    })
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn printed(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_clang_are_told_from_others() {
        assert!(is_libclang("libclang.so"));
        assert!(is_libclang("libclang-14.so.1"));
        assert!(is_libclang("libclang.so.1"));
        assert!(!is_libclang("libclang-cpp.a"));
        assert!(!is_libclang("libclang-cpp.so.14"));
        assert!(!is_libclang("libcld.so"));
    }
}
