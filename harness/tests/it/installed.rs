//! The program without its source: in an empty directory, with nothing on the path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use epochcost_platform::local::worker::find_or_build;
use epochcost_spec::shipped;
use serde_json::Value;
use tempfile::TempDir;

/// An installation, and an empty directory to work in.
struct Installed {
    directory: TempDir,
}

impl Installed {
    /// `bin/epochcost` alone.
    fn new() -> Self {
        epochcost_testing::watch();
        let directory = tempfile::tempdir().unwrap();
        let own = Self { directory };
        fs::create_dir(own.path("bin")).unwrap();
        fs::create_dir(own.path("work")).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_epochcost"), own.path("bin/epochcost")).unwrap();
        own
    }

    /// With the worker where packages put it.
    fn with_worker() -> Self {
        let own = Self::new();
        fs::create_dir_all(own.path("libexec/epochcost")).unwrap();
        let worker = find_or_build().unwrap();
        fs::copy(worker.path, own.path("libexec/epochcost/bootstrap")).unwrap();
        own
    }

    fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(self.path("bin/epochcost"))
            .args(arguments)
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", self.path("work"))
            .output()
            .unwrap()
    }

    /// Standard output of a command that ends well.
    #[track_caller]
    fn ends_well(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Standard error of a command that ends with this code.
    #[track_caller]
    fn ends_with(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        error
    }

    fn manifest(&self, run: &str) -> Value {
        let text = fs::read(self.path("work").join(run).join("manifest.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

#[test]
fn shipped_experiments_are_found_by_their_names() {
    let installed = Installed::new();
    let listed = installed.ends_well(&["list", "experiments"]);
    for name in [
        "smoke ",
        "own-model ",
        "cost-performance/table2 ",
        "p2p/table1 ",
    ] {
        assert!(listed.contains(&format!("\n{name}")), "{name}: {listed}");
    }
    assert!(!listed.contains("not valid"), "{listed}");
    for named in [
        "smoke",
        "smoke.yaml",
        "experiments/smoke.yaml",
        "cost-performance/table2",
    ] {
        assert!(
            installed.ends_well(&["check", named]).contains("rows"),
            "{named}"
        );
    }
    // What lies beside experiments is found as well.
    let dry = installed.ends_well(&["reproduce", "--dry-run"]);
    assert!(dry.contains("kubeml/figure3"), "{dry}");
    // The simulator against public measurements: all of them are validated apart.
    installed.ends_well(&["dev", "validate", "s3-put-clients"]);
}

#[test]
fn a_run_records_whether_its_experiment_is_a_shipped_one() {
    let installed = Installed::new();
    installed.ends_well(&["run", "smoke", "--platform", "sim", "--out", "one"]);
    let manifest = installed.manifest("one");
    assert_eq!(
        manifest["experiment_file"],
        "shipped:experiments/smoke.yaml"
    );

    // A file of that name counts more, and so does one in `experiments`.
    let (_, smoke) = shipped::files()
        .iter()
        .find(|(name, _)| *name == "experiments/smoke.yaml")
        .unwrap();
    let work = installed.path("work");
    fs::create_dir(work.join("experiments")).unwrap();
    fs::write(work.join("experiments/smoke.yaml"), smoke).unwrap();
    installed.ends_well(&["run", "smoke", "--platform", "sim", "--out", "two"]);
    assert_eq!(
        installed.manifest("two")["experiment_file"],
        "experiments/smoke.yaml"
    );
    fs::write(work.join("smoke"), smoke).unwrap();
    installed.ends_well(&["run", "smoke", "--platform", "sim", "--out", "three"]);
    assert_eq!(installed.manifest("three")["experiment_file"], "smoke");
}

#[test]
fn a_missing_worker_is_named_with_what_to_do() {
    let installed = Installed::new();
    let error = installed.ends_with(5, &["run", "smoke"]);
    for words in [
        "bin",
        "libexec/epochcost",
        "EPOCHCOST_WORKER",
        "--platform sim",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(!error.contains("cargo"), "{error}");
}

#[test]
fn the_worker_of_an_installation_trains() {
    let installed = Installed::with_worker();
    let run = [
        "run",
        "mobilenet",
        "--set",
        "systems=[allreduce, spirt]",
        "--out",
        "one",
    ];
    installed.ends_well(&run);
    assert!(installed.path("work/one/report.html").is_file());
    let found = installed.run(&["doctor"]);
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(found.contains("libexec/epochcost/bootstrap"), "{found}");
}

#[test]
fn init_writes_everything_and_overwrites_nothing() {
    let installed = Installed::new();
    installed.ends_well(&["list", "--write", "mine"]);
    let mine = installed.path("work/mine");
    for (name, text) in shipped::files() {
        let written = fs::read_to_string(mine.join(name)).unwrap();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let (mut written, mut text) = (lines(&written), lines(text));
        // Each names its schema from where it is.
        if let Some(schema) = written[0].strip_prefix("# yaml-language-server: $schema=") {
            let schema = mine.join(name).parent().unwrap().join(schema);
            assert!(schema.is_file(), "{name}");
            (written, text) = (written.split_off(1), text.split_off(1));
        }
        assert_eq!(written, text, "{name}");
    }
    // Again, and with a file that is missing.
    fs::remove_file(mine.join("experiments/learn.yaml")).unwrap();
    let json = installed.ends_well(&["list", "--write", "mine", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["written"],
        serde_json::json!(["mine/experiments/learn.yaml"])
    );
    // With a changed file.
    fs::write(mine.join("experiments/smoke.yaml"), "mine").unwrap();
    fs::remove_file(mine.join("experiments/learn.yaml")).unwrap();
    let error = installed.ends_with(2, &["list", "--write", "mine"]);
    assert!(error.contains("mine/experiments/smoke.yaml"), "{error}");
    assert_eq!(
        fs::read(mine.join("experiments/smoke.yaml")).unwrap(),
        b"mine"
    );
    assert!(!mine.join("experiments/learn.yaml").exists());
    // Its lines can be copied, whatever the directory's name.
    let message = installed.ends_with(0, &["list", "--write", "a b;c"]);
    assert!(message.contains("cd 'a b;c' && "), "{message}");
    // In the way: a file that should be a directory.
    fs::write(installed.path("work/file"), "").unwrap();
    let error = installed.ends_with(2, &["list", "--write", "file"]);
    assert!(error.contains("file/experiments"), "{error}");
}

/// A copy of the files that a new system changes.
fn checkout() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for file in [
        "workloads/systems/src/systems/mod.rs",
        "workloads/systems/src/systems/registry.rs",
        "experiments/smoke.yaml",
        "experiments/mobilenet.yaml",
    ] {
        let copy = directory.path().join(file);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(root.join(file), copy).unwrap();
    }
    directory
}

/// What the tests of the systems compile is the document's example; this is that example
/// under another name, in the places that the document names.
#[test]
fn a_new_system_is_the_documents_example() {
    let (installed, checkout) = (Installed::new(), checkout());
    let root = checkout.path().to_str().unwrap();
    let read = |file: &str| fs::read_to_string(checkout.path().join(file)).unwrap();
    let before = read("workloads/systems/src/systems/registry.rs");
    installed.ends_well(&["dev", "new", "system", "pair_mean", "--checkout", root]);

    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/adding-a-system.md");
    let document = fs::read_to_string(document).unwrap();
    let own = read("workloads/systems/src/systems/pair_mean.rs")
        .replace("pair-mean", "gossip")
        .replace("pair_mean", "gossip")
        .replace("PairMean", "Gossip");
    let (file, _) = own.split_once("\n#[cfg(test)]").unwrap();
    assert!(document.contains(file));
    let experiment = read("experiments/pair_mean.yaml").replace("pair_mean", "gossip");
    assert!(document.contains(&experiment));

    let registry = read("workloads/systems/src/systems/registry.rs");
    let line = "        &super::pair_mean::PairMean,\n";
    assert_eq!(registry.replace(line, ""), before);
    assert!(registry.contains(&format!("{line}    ]\n")), "{registry}");
    let modules = read("workloads/systems/src/systems/mod.rs");
    assert!(
        modules
            .contains("pub mod p2p_lambda;\npub(crate) mod pair_mean;\npub(crate) mod registry;")
    );
    for (first, last) in [("smoke", "ring"), ("mobilenet", "lifl")] {
        let list = read(&format!("experiments/{first}.yaml"));
        let end = format!("\n  - {last}\n  - pair_mean\n");
        assert!(list.contains(&end), "{first}");
    }

    // A second time, elsewhere, and under names that cannot be.
    let error = installed.ends_with(
        2,
        &["dev", "new", "system", "pair_mean", "--checkout", root],
    );
    assert!(error.contains("pair_mean.rs is there already"), "{error}");
    let error = installed.ends_with(2, &["dev", "new", "system", "other"]);
    assert!(
        error.contains("registry.rs") || error.contains("mod.rs"),
        "{error}"
    );
    assert!(error.contains("--checkout"), "{error}");
    let error = installed.ends_with(2, &["dev", "new", "system", "spirt", "--checkout", root]);
    assert!(error.contains("a system already"), "{error}");
}
