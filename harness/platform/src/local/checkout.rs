//! Builds, with cargo, of the programs that a run starts beside this one.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{env, io};

/// The source that this program was built from, and where it was built.
pub(super) struct Checkout {
    workspace: PathBuf,
    target: PathBuf,
}

/// Something that cargo builds.
pub(super) struct Artifact {
    /// Arguments of `cargo build --release` that select it.
    pub(super) selection: &'static [&'static str],
    /// Name of its file.
    pub(super) file: &'static str,
}

impl Checkout {
    /// Returns the checkout of this program; `None` where the source is gone, or the
    /// program was installed elsewhere.
    pub(super) fn here() -> Option<Self> {
        Self::of(&env::current_exe().ok()?)
    }

    /// Returns the checkout of the program at a path, as [`Checkout::here`] does.
    pub(super) fn of(program: &Path) -> Option<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
        if !workspace.join("workloads/worker/Cargo.toml").is_file() {
            return None;
        }
        let target = target_dir(program)?;
        Some(Self {
            workspace: workspace.to_owned(),
            target: target.to_owned(),
        })
    }

    /// Returns the path at which cargo puts an artifact.
    pub(super) fn path(&self, artifact: &Artifact) -> PathBuf {
        self.target.join("release").join(artifact.file)
    }

    /// Builds an artifact; takes a moment where it is built already.
    ///
    /// # Errors
    /// The reason of the failure, with the directory.
    pub(super) fn build(&self, artifact: &Artifact) -> Result<PathBuf, String> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(&cargo);
        command
            .args(["build", "--release"])
            .args(artifact.selection)
            .arg("--target-dir")
            .arg(&self.target)
            .current_dir(&self.workspace)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // What cargo sets for the program that it runs would make some build
        // scripts run again.
        for (name, _) in env::vars_os().filter(|(name, _)| is_cargos_own(name)) {
            command.env_remove(name);
        }
        let built = self.path(artifact);
        match command.spawn().and_then(|cargo| followed(cargo, artifact)) {
            Ok((status, _)) if status.success() => Ok(built),
            Ok((status, said)) => Err(format!(
                "`cargo build --release {}` in {} ended with {status}\n{said}",
                artifact.selection.join(" "),
                self.workspace.display()
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound && built.is_file() => Ok(built),
            Err(error) => Err(format!("{}: {error}", cargo.display())),
        }
    }
}

/// Waits for a build, and says so where it compiles anything; returns what cargo said, too.
fn followed(mut cargo: Child, artifact: &Artifact) -> io::Result<(ExitStatus, String)> {
    let mut said = String::new();
    let mut compiles = false;
    let output = cargo.stderr.take().into_iter();
    for line in output.flat_map(|pipe| BufReader::new(pipe).lines()) {
        let line = line?;
        if !compiles && line.trim_start().starts_with("Compiling ") {
            compiles = true;
            let file = artifact.file;
            writeln!(
                io::stderr(),
                "building {file} with cargo: the first time takes minutes"
            )?;
        }
        said.push_str(&line);
        said.push('\n');
    }
    Ok((cargo.wait()?, said))
}

/// Returns the target directory of a program that cargo built in release:
/// `TARGET/release/epochcost`, or a test in `TARGET/release/deps`.
fn target_dir(program: &Path) -> Option<&Path> {
    let mut directories = program.ancestors().skip(1).take(2);
    directories.find(|dir| dir.ends_with("release"))?.parent()
}

fn is_cargos_own(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let mut prefixes = ["PKG_", "MANIFEST_", "BIN_", "CRATE_", "PRIMARY_"].iter();
    let own = name.strip_prefix("CARGO_");
    // `OUT_DIR` is set for packages with a build script; ring's own runs again where it differs.
    name == "OUT_DIR" || own.is_some_and(|own| prefixes.any(|prefix| own.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_directory_is_seen_from_programs_and_tests() {
        let of = |path: &'static str| target_dir(Path::new(path));
        let target = Some(Path::new("/w/target"));
        assert_eq!(of("/w/target/release/epochcost"), target);
        assert_eq!(of("/w/target/release/deps/local-12"), target);
        assert_eq!(of("/usr/bin/epochcost"), None);
        assert_eq!(of("/release/a/b/epochcost"), None);
    }
}
