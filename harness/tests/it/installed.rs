//! The program without its source: in an empty directory, with nothing on the path.

use std::fs;
use std::process::Command;

use epochcost_platform::local::worker::find_or_build;
use epochcost_spec::shipped;
use serde_json::json;

use crate::support::{self, Ended, Scene, holds, lacks};

/// An installation, and an empty directory to work in.
struct Installed {
    bin: Scene,
    work: Scene,
}

impl Installed {
    /// `bin/epochcost` alone.
    fn new() -> Self {
        epochcost_testing::watch();
        let (bin, work) = (Scene::empty(), Scene::empty());
        fs::create_dir(bin.file("bin")).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_epochcost"), bin.file("bin/epochcost")).unwrap();
        Self { bin, work }
    }

    /// With the worker where packages put it.
    fn with_worker() -> Self {
        let own = Self::new();
        let directory = own.bin.file("libexec/epochcost");
        fs::create_dir_all(&directory).unwrap();
        let worker = find_or_build().unwrap();
        fs::copy(worker.path, directory.join("bootstrap")).unwrap();
        own
    }

    fn run(&self, arguments: &str) -> Ended {
        let known = self.work.command(arguments);
        let mut command = Command::new(self.bin.file("bin/epochcost"));
        command.args(known.get_args()).current_dir(self.work.path());
        command.env_clear().env("PATH", self.work.path());
        self.work.end(&mut command)
    }

    /// Standard output of a command that ends well.
    #[track_caller]
    fn text(&self, arguments: &str) -> String {
        self.run(arguments).ends(0).text()
    }

    /// Of which file a run says that it is of.
    #[track_caller]
    fn file_of_run(&self, out: &str) -> String {
        self.text(&format!("run smoke --platform sim --out {out}"));
        let manifest = self.work.value(&format!("{out}/manifest.json"));
        manifest["experiment_file"].as_str().unwrap().to_owned()
    }
}

#[test]
fn shipped_experiments_are_found_by_their_names() {
    let installed = Installed::new();
    let listed = installed.text("list experiments");
    let table2 = "cost-performance/table2";
    for name in ["smoke", "own-model", table2, "p2p/table1"] {
        holds(&listed, &[&format!("\n{name} ")]);
    }
    lacks(&listed, &["not valid"]);
    for named in ["smoke", "smoke.yaml", "experiments/smoke.yaml", table2] {
        holds(installed.text(&format!("check {named}")), &["rows"]);
    }
    // What lies beside experiments is found as well.
    let dry = installed.text("reproduce --dry-run");
    holds(&dry, &["kubeml/figure3"]);
    // The simulator against public measurements: all of them are validated apart.
    installed.text("dev validate s3-put-clients");
}

#[test]
fn a_run_records_whether_its_experiment_is_a_shipped_one() {
    let installed = Installed::new();
    let shipped_file = "shipped:experiments/smoke.yaml";
    assert_eq!(installed.file_of_run("one"), shipped_file);
    // A file of that name counts more, and so does one in `experiments`.
    let mut files = shipped::files().iter();
    let smoke = files.find(|(name, _)| *name == "experiments/smoke.yaml");
    let (file, text) = smoke.unwrap();
    installed.work.write(file, text);
    assert_eq!(installed.file_of_run("two"), *file);
    installed.work.write("smoke", text);
    assert_eq!(installed.file_of_run("three"), "smoke");
}

#[test]
fn a_missing_worker_is_named_with_what_to_do() {
    let installed = Installed::new();
    let ended = installed.run("run smoke").ends(5);
    let ended = ended.says(&["bin", "libexec/epochcost", "EPOCHCOST_WORKER"]);
    lacks(ended.says(&["--platform sim"]).message(), &["cargo"]);
}

#[test]
fn the_worker_of_an_installation_trains() {
    let installed = Installed::with_worker();
    installed.text("run mobilenet --set 'systems=[allreduce, spirt]' --out one");
    assert!(installed.work.file("one/report.html").is_file());
    let found = installed.run("doctor").text();
    holds(&found, &["libexec/epochcost/bootstrap"]);
}

#[test]
fn init_writes_everything_and_overwrites_nothing() {
    let installed = Installed::new();
    installed.text("list --write mine");
    let work = &installed.work;
    let mine = work.file("mine");
    for (name, text) in shipped::files() {
        let written = work.read(&format!("mine/{name}"));
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
    let listed = installed.run("list --write mine --json").ends(0).json();
    assert_eq!(listed["written"], json!(["mine/experiments/learn.yaml"]));
    // With a changed file.
    work.write("mine/experiments/smoke.yaml", "mine");
    fs::remove_file(mine.join("experiments/learn.yaml")).unwrap();
    let ended = installed.run("list --write mine").ends(2);
    ended.says(&["mine/experiments/smoke.yaml"]);
    assert_eq!(work.read("mine/experiments/smoke.yaml"), "mine");
    assert!(!work.has("mine/experiments/learn.yaml"));
    // Its lines can be copied, whatever the directory's name.
    let ended = installed.run("list --write 'a b;c'");
    ended.ends(0).says(&["cd 'a b;c' && "]);
    // In the way: a file that should be a directory.
    work.write("file", "");
    let ended = installed.run("list --write file");
    ended.ends(2).says(&["file/experiments"]);
}

const REGISTRY: &str = "workloads/systems/src/systems/registry.rs";
const MODULES: &str = "workloads/systems/src/systems/mod.rs";

/// A copy of the files that a new system changes.
fn checkout() -> Scene {
    let scene = Scene::empty();
    let [smoke, mobilenet] = ["experiments/smoke.yaml", "experiments/mobilenet.yaml"];
    for file in [smoke, mobilenet, REGISTRY, MODULES] {
        scene.write(file, &support::shipped(file));
    }
    scene
}

/// What the tests of the systems compile is the document's example; this is that example
/// under another name, in the places that the document names.
#[test]
fn a_new_system_is_the_documents_example() {
    let (installed, checkout) = (Installed::new(), checkout());
    let new = |name: &str| {
        let root = checkout.path().display();
        installed.run(&format!("dev new system {name} --checkout {root}"))
    };
    new("pair_mean").ends(0);

    let document = support::shipped("docs/adding-a-system.md");
    let own = checkout.read("workloads/systems/src/systems/pair_mean.rs");
    let own = own
        .replace("pair-mean", "gossip")
        .replace("PairMean", "Gossip");
    let own = own.replace("pair_mean", "gossip");
    let (file, _) = own.split_once("\n#[cfg(test)]").unwrap();
    let experiment = checkout.read("experiments/pair_mean.yaml");
    let experiment = experiment.replace("pair_mean", "gossip");
    holds(&document, &[file, &experiment]);

    let registry = checkout.read(REGISTRY);
    let line = "        &super::pair_mean::PairMean,\n";
    assert_eq!(registry.replace(line, ""), support::shipped(REGISTRY));
    holds(&registry, &[&format!("{line}    ]\n")]);
    let place = "pub mod p2p_lambda;\npub(crate) mod pair_mean;\npub(crate) mod registry;";
    holds(checkout.read(MODULES), &[place]);
    for (first, last) in [("smoke", "ring"), ("mobilenet", "lifl")] {
        let list = checkout.read(&format!("experiments/{first}.yaml"));
        holds(&list, &[&format!("\n  - {last}\n  - pair_mean\n")]);
    }

    // A second time, elsewhere, and under names that cannot be.
    let again = new("pair_mean").ends(2);
    again.says(&["pair_mean.rs is there already"]);
    let elsewhere = installed.run("dev new system other").ends(2);
    let error = elsewhere.says(&["--checkout"]).message();
    let is_named = error.contains("registry.rs") || error.contains("mod.rs");
    assert!(is_named, "{error}");
    new("spirt").ends(2).says(&["a system already"]);
}
