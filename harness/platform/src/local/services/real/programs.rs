//! What real services are run with: found, built, or named as missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use epochcost_servers::{ServerError, find};
use epochcost_spec::rows::Row;

use super::external::ExternalServers;
use crate::PlatformError;
use crate::local::checkout::{Artifact, Checkout};

const MODULE: Artifact = Artifact {
    selection: &["-p", "epochcost-tensordb"],
    file: find::MODULE,
};
const OBJECT_SERVER: Artifact = Artifact {
    // As the whole workspace builds it.
    selection: &["--bin", find::S3_PROGRAM],
    file: find::S3_PROGRAM,
};
const LIBCLANG_REMEDY: &str = "apt-get install libclang-dev";
/// Library directories of distributions; LLVM's own are below
/// `/usr/lib/llvm-*`.
const LIBRARIES: [&str; 4] = [
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
];

/// Programs and libraries that are started beside the servers' own programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// The Redis module.
    pub module: Option<PathBuf>,
    /// The S3-compatible server.
    pub object_server: Option<PathBuf>,
}

impl Programs {
    /// Finds those that are wanted, or builds them, which takes minutes the
    /// first time.
    ///
    /// # Errors
    /// [`PlatformError::Lacks`] with what was tried and what to do.
    pub fn find_or_build(module: bool, object_server: bool) -> Result<Self, PlatformError> {
        let wanted = |wanted: bool, artifact, name, variable| {
            if wanted {
                found_or_built(artifact, name, variable).map(Some)
            } else {
                Ok(None)
            }
        };
        Ok(Self {
            module: wanted(module, &MODULE, "the Redis module", find::MODULE_VARIABLE)?,
            object_server: wanted(
                object_server,
                &OBJECT_SERVER,
                "the S3 server",
                find::S3_VARIABLE,
            )?,
        })
    }
}

/// One requirement of real services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Name of the requirement.
    pub what: &'static str,
    /// Description of what was found, or of what is missing.
    pub state: Result<String, Missing>,
}

/// A requirement of real services that this machine lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The missing part, as a phrase.
    pub what: String,
    /// Action that supplies it; a command where there is one.
    pub remedy: String,
}

impl Missing {
    fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

/// Returns every requirement of real services, met or not. Builds nothing, and asks
/// programs for their versions only.
pub fn requirements() -> Vec<Requirement> {
    let external = ExternalServers::read().unwrap_or_default();
    vec![
        Requirement {
            what: "Redis",
            state: match external.redis.len() {
                0 => redis(),
                count => Ok(format!(
                    "{count} external, named in {}",
                    ExternalServers::REDIS
                )),
            },
        },
        Requirement {
            what: "Redis module",
            state: match external.redis.len() {
                0 => module_obtainable(),
                _ => Ok("that of the external servers".to_owned()),
            },
        },
        Requirement {
            what: "RabbitMQ",
            state: match external.rabbitmq {
                None => rabbitmq(),
                Some(_) => Ok(format!("external, named in {}", ExternalServers::RABBITMQ)),
            },
        },
        Requirement {
            what: "S3 server",
            state: match external.s3 {
                None => object_server_obtainable(),
                Some(_) => Ok(format!("external, named in {}", ExternalServers::S3)),
            },
        },
    ]
}

/// Checks that this machine has everything that the rows need; reports all that is
/// missing at once.
///
/// # Errors
/// [`PlatformError::Lacks`].
pub fn check(rows: &[Row]) -> Result<(), PlatformError> {
    ExternalServers::read()?;
    let needs_module = rows.iter().any(Row::needs_module);
    let lacking: Vec<Missing> = requirements()
        .into_iter()
        .filter(|requirement| needs_module || requirement.what != "Redis module")
        .filter_map(|requirement| requirement.state.err())
        .collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let (what, remedies): (Vec<String>, Vec<String>) = lacking
        .into_iter()
        .map(|missing| (missing.what, missing.remedy))
        .unzip();
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

fn redis() -> Result<String, Missing> {
    let program = find::redis().map_err(missing)?;
    Ok(find::redis_version(&program).unwrap_or_else(|| "of an unknown version".to_owned()))
}

fn rabbitmq() -> Result<String, Missing> {
    let script = find::rabbitmq().map_err(missing)?;
    Ok(find::rabbitmq_version(&script).unwrap_or_else(|| "of an unknown version".to_owned()))
}

fn missing(error: ServerError) -> Missing {
    match error {
        ServerError::Missing { program, remedy } => {
            Missing::new(format!("{program} is not installed"), remedy)
        }
        other => Missing::new(epochcost_spec::chain::chain(&other), "see what it says"),
    }
}

fn module_obtainable() -> Result<String, Missing> {
    if let Some(path) = env::var_os(find::MODULE_VARIABLE) {
        return named(find::MODULE_VARIABLE, Path::new(&path));
    }
    let state = obtainable(&MODULE, find::MODULE_VARIABLE)?;
    let is_built = |checkout: Checkout| checkout.path(&MODULE).is_file();
    if Checkout::here().is_some_and(|checkout| !is_built(checkout)) && !has_libclang() {
        return Err(Missing::new(
            "libclang, which the Redis module is built with, is not installed",
            LIBCLANG_REMEDY,
        ));
    }
    Ok(state)
}

fn object_server_obtainable() -> Result<String, Missing> {
    match env::var_os(find::S3_VARIABLE) {
        Some(path) => named(find::S3_VARIABLE, Path::new(&path)),
        None => obtainable(&OBJECT_SERVER, find::S3_VARIABLE),
    }
}

fn named(variable: &str, path: &Path) -> Result<String, Missing> {
    if path.is_file() {
        Ok(path.display().to_string())
    } else {
        Err(Missing::new(
            format!("{variable} names {}, where no file is", path.display()),
            format!("correct {variable}, or leave it out"),
        ))
    }
}

fn obtainable(artifact: &Artifact, variable: &str) -> Result<String, Missing> {
    match (Checkout::here(), find::beside(artifact.file)) {
        (Some(checkout), _) => {
            let path = checkout.path(artifact);
            Ok(if path.is_file() {
                path.display().to_string()
            } else {
                "not built yet: a run builds it with cargo".to_owned()
            })
        }
        (None, Some(path)) => Ok(path.display().to_string()),
        (None, None) => Err(Missing::new(
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
    let below_llvm = below_llvm
        .map(|entry| entry.path())
        .filter(|path| file_name(path).starts_with("llvm-"))
        .map(|path| path.join("lib"));
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
    let version = name.strip_prefix("libclang").and_then(|rest| {
        let (version, _) = rest.split_once(".so")?;
        Some(version)
    });
    version.is_some_and(|version| {
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
