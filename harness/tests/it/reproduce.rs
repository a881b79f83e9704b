//! `reproduce`: which items are run, skipped, resumed and set aside, and what
//! the page over all of them says.
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::fixture;
use crate::support::program;

use epochcost_judge::analysis;
use serde_json::Value;

/// Sizes only, and small: a trial takes milliseconds. AllReduce puts W + 1
/// values a step, ScatterReduce W²: 6 and 8 in two steps of two workers.
const TINY: &str = "\
schema: 1
name: NAME
description: the item NAME
platform: sim
dataset: {name: cifar10}
model: mine
workers: 2
batch_size: 8
batches_per_worker: 1
epochs: 2
trials: 2
evaluate: never
systems: [allreduce, scatterreduce]
models:
  - {name: mine, parameters: 1000, input: [3, 32, 32], flops_per_sample: 1e4, activation_bytes_per_sample: 1e3}
beside: [{table: t, keys: {system: system}}]
statements: [{of: more, formula: \"puts[scatterreduce] > puts[allreduce]\"}]
";

/// The paper of each folder.
const PAPER: [(&str, &str); 3] = [
    (
        "paper.yaml",
        "cite: a paper\ntables:\n  t:\n    place: Table 1\n    file: t.csv\n    keys: [system]\n    \
         columns: {puts: {unit: count, metric: puts}}\n",
    ),
    ("t.csv", "system,puts\nallreduce,6\n"),
    (
        "statements.csv",
        "id,place,kind,weight,reading_of,says,formula,why\nmore,§1,ranking,1,,more is put,,drawn\n",
    ),
];

/// How long anything here may take before it counts as stuck.
const BOUND: Duration = Duration::from_secs(120);

/// A directory with papers.
struct Scene(tempfile::TempDir);

impl Scene {
    /// Items, and a text to replace by another in each.
    fn new(items: &[(&str, &str, &str)]) -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        for (id, replaced, by) in items {
            scene.write(id, replaced, by);
        }
        scene
    }

    fn write(&self, id: &str, replaced: &str, by: &str) {
        assert!(TINY.contains(replaced), "{replaced}");
        let name = id.rsplit('/').next().unwrap();
        let text = TINY.replacen(replaced, by, 1).replace("NAME", name);
        let file = self.path(&format!("experiments/{id}.yaml"));
        let folder = file.parent().unwrap();
        fs::create_dir_all(folder).unwrap();
        let recorded = ["puts[allreduce]", "more is put"];
        let recorded = recorded.map(|claim| format!("{name},{claim},agrees,2026-11-01,\n"));
        let verdicts = folder.join("verdicts.csv");
        let before =
            fs::read_to_string(&verdicts).unwrap_or("experiment,claim,verdict,date,why\n".into());
        if !before.contains(&format!("\n{name},")) {
            fs::write(&verdicts, format!("{before}{}", recorded.concat())).unwrap();
        }
        for (part, text) in PAPER {
            fs::write(folder.join(part), text).unwrap();
        }
        fs::write(file, text).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command.args(arguments).current_dir(self.0.path());
        command
    }

    /// Runs the program, which ends with that exit code; what it said.
    #[track_caller]
    fn ends(&self, arguments: &[&str], code: i32) -> Output {
        let output = self.command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", printed(&output));
        output
    }

    #[track_caller]
    fn reproduce(&self, arguments: &[&str], code: i32) -> String {
        let arguments = [&["reproduce", "--out", "out"], arguments].concat();
        printed(&self.ends(&arguments, code))
    }

    fn summary(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("out/summary.json")).unwrap()).unwrap()
    }

    /// The states of all items on the page.
    fn states(&self) -> Vec<(String, String)> {
        let summary = self.summary();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let items = summary["items"].as_array().unwrap().iter();
        items
            .map(|item| (text(&item["id"]), text(&item["state"])))
            .collect()
    }

    fn trials(&self, item: &str) -> String {
        fs::read_to_string(self.path(&format!("out/{item}/trials.jsonl"))).unwrap_or_default()
    }

    fn page(&self, extension: &str) -> String {
        fs::read_to_string(self.path(&format!("out/report.{extension}"))).unwrap()
    }
}

fn printed(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr];
    texts.map(|text| String::from_utf8_lossy(text)).concat()
}

fn edit(file: &Path, replaced: &str, by: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(replaced), "{replaced} in {text}");
    fs::write(file, text.replacen(replaced, by, 1)).unwrap();
}

fn pairs(states: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(id, state): &(&str, &str)| ((*id).to_owned(), (*state).to_owned());
    states.iter().map(owned).collect()
}

#[test]
fn what_is_asked_for_is_run() {
    let scene = Scene::new(&[
        ("one/table1", "name", "name"),
        ("one/figure2", "name", "name"),
        ("two/table1", "name", "name"),
    ]);
    scene.reproduce(&["one/table1", "two"], 0);
    let expected = [("one/table1", "done"), ("two/table1", "done")];
    assert_eq!(scene.states(), pairs(&expected));
    assert!(!scene.path("out/one/figure2").exists());
    let summary = scene.summary();
    assert_eq!(summary["catalogue"], 3);
    assert_eq!(summary["counts"]["values"]["agrees"], 2);
    assert_eq!(summary["counts"]["rankings"]["agrees"], 2);
    assert_eq!(summary["items"][0]["claims"][0]["how"], "simulated");
    assert!(scene.page("html").contains("one/table1/report.html"));
    assert!(scene.path("out/two/table1/report.html").is_file());

    let unknown = scene.reproduce(&["one/tabel1"], 2);
    assert!(unknown.contains("did you mean `one/table1`?"), "{unknown}");
    let unknown = scene.reproduce(&["owt"], 2);
    assert!(unknown.contains("there are one, two"), "{unknown}");
}

/// The page over 421 verdicts was once replaced by one of 92.
#[test]
fn an_item_alone_keeps_the_page_over_everything_recorded() {
    let scene = Scene::new(&[
        ("p/a", "", ""),
        ("p/b", "", ""),
        (
            "q/c",
            "puts[scatterreduce] > puts",
            "puts[scatterreduce] < puts",
        ),
    ]);
    scene.reproduce(&[], 3);
    let (all, trials) = (scene.states(), scene.trials("p/b"));
    // What was asked for is as expected; what else is recorded is no fault of it.
    let said = scene.reproduce(&["p/a"], 0);
    assert!(said.contains("[1/1] p/a: done already"), "{said}");
    assert_eq!(scene.states(), all);
    assert_eq!(scene.trials("p/b"), trials);
    assert_eq!(scene.summary()["asked"][0], "p/a");
    assert!(
        scene
            .page("html")
            .contains("other items are as they were recorded")
    );
    // An option that leaves an item out leaves its record alone, too.
    scene.reproduce(&["--platform", "sim"], 3);
    assert_eq!(scene.states(), all);
    scene.ends(&["report", "out"], 3);
}

#[test]
fn nothing_selected_is_told() {
    let scene = Scene::new(&[("one/table1", "name", "name")]);
    fs::create_dir(scene.path("empty")).unwrap();
    scene.reproduce(&["--directory", "empty"], 4);
    scene.reproduce(&["--platform", "local"], 4);
    assert!(!scene.path("out").exists());
}

#[test]
fn a_dry_run_writes_nothing() {
    let scene = Scene::new(&[("one/a", "name", "name"), ("one/b", "name", "name")]);
    scene.reproduce(&["one/a"], 0);
    let output = scene.ends(&["reproduce", "--out", "out", "--dry-run", "--json"], 0);
    let lines: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(lines[0]["action"], "done_already");
    assert_eq!(lines[0]["ended"], 4);
    assert_eq!(lines[1]["action"], "run");
    assert_eq!(lines[1]["trials"], 4);
    assert_eq!(lines[1]["training_cpu_s"], 0.0);
    assert!(!scene.path("out/one/b").exists());
}

#[test]
fn training_time_is_estimated() {
    let scene = Scene::new(&[(
        "one/a",
        "platform: sim\ndataset: {name: cifar10}\nmodel: mine",
        "dataset: {name: synthetic-cifar10, train: 100, test: 20}\nmodel: mobilenet",
    )]);
    let output = scene.ends(&["reproduce", "--dry-run", "--json"], 0);
    let lines: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        lines[0]["training_cpu_s"].as_f64().unwrap() > 0.1,
        "{lines}"
    );
}

#[test]
fn quick_reduces_and_leaves_out_and_takes_the_whole_where_it_is() {
    let long = "evaluate: never\nforms: {quick: {set: {trials: 1, systems.0: {system: allreduce, name: first}}}}";
    let scene = Scene::new(&[
        ("one/long", "evaluate: never", long),
        (
            "one/longer",
            "trials: 2",
            "trials: 2\nforms: {quick: {leave_out: it takes hours}}",
        ),
        ("one/short", "name", "name"),
    ]);
    scene.reproduce(&["--quick"], 0);
    let expected = [
        ("one/long", "done"),
        ("one/longer", "left_out"),
        ("one/short", "done"),
    ];
    assert_eq!(scene.states(), pairs(&expected));
    assert_eq!(scene.trials("one/long.quick").lines().count(), 2);
    assert!(scene.trials("one/long.quick").contains("first"));
    assert!(!scene.path("out/one/long").exists());
    let summary = scene.summary();
    assert_eq!(summary["items"][0]["reduced"][0], "trials=1");
    let left_out = &summary["items"][1]["claims"][0];
    assert_eq!(left_out["verdict"]["verdict"], "not_run");
    assert_eq!(left_out["unexpected"], false);
    let reason = left_out["verdict"]["reason"].as_str().unwrap();
    assert!(reason.contains("it takes hours"), "{reason}");

    scene.reproduce(&[], 0);
    assert_eq!(scene.trials("one/long").lines().count(), 4);
    scene.reproduce(&["--quick"], 0);
    let summary = scene.summary();
    assert_eq!(summary["items"][0]["run"], "one/long");
    assert_eq!(summary["items"][0]["reduced"], serde_json::json!([]));
    assert_eq!(summary["items"][1]["state"], "done");
}

/// A form for another platform is an item of its own beside the experiment.
#[test]
fn a_form_for_a_platform_stands_beside_the_experiment() {
    if epochcost_platform::cloud().is_ok() {
        return; // It would run.
    }
    let form = "evaluate: never\nforms: {aws: {set: {platform: aws, model: mobilenet, \
                dataset: {name: synthetic-cifar10}}}}";
    let scene = Scene::new(&[
        ("one/a", "evaluate: never", form),
        (
            "one/b",
            "trials: 2",
            "trials: 2\nforms: {aws: {leave_out: it has no place there}}",
        ),
        ("one/c", "name", "name"),
    ]);
    scene.reproduce(&[], 0);
    scene.reproduce(&["one/a", "one/b", "--platform", "aws"], 0);
    let expected = [
        ("one/a", "done"),
        ("one/a.aws", "cannot_run"),
        ("one/b", "done"),
        ("one/b.aws", "left_out"),
        ("one/c", "done"),
    ];
    assert_eq!(scene.states(), pairs(&expected));
    let summary = scene.summary();
    assert_eq!(summary["items"][1]["reduced"][0], "platform=\"aws\"");
    assert_eq!(summary["items"][3]["why"], "it has no place there");
    let page = scene.page("md");
    assert!(page.contains("In this form: platform=\"aws\""), "{page}");
    assert!(!scene.path("out/one/a.aws").exists());
}

#[test]
fn a_wrong_reduction_is_refused_wherever_the_file_is_read() {
    let refused = |quick: &str, words: [&str; 2]| {
        let by = format!("evaluate: never\nforms: {{quick: {quick}}}");
        let scene = Scene::new(&[("one/a", "evaluate: never", &by)]);
        let text = printed(&scene.ends(&["check", "experiments/one/a.yaml"], 2));
        for word in words {
            assert!(text.contains(word), "no {word:?} in:\n{text}");
        }
    };
    refused(
        "{set: {epoch: 1}}",
        ["a.yaml:13:", "did you mean `epochs`?"],
    );
    refused("{set: {epochs: 0}}", ["a.yaml:13:", "epochs"]);
    refused("{set: {}}", ["a.yaml:13:", "leave_out"]);
    refused(
        "{leave_out: long, set: {epochs: 1}}",
        ["quick", "leave_out"],
    );
    refused(
        "{left_out: long}",
        ["left_out", "did you mean `leave_out`?"],
    );
}

#[test]
fn what_is_finished_is_not_run_again() {
    let scene = Scene::new(&[("one/a", "name", "name")]);
    scene.reproduce(&[], 0);
    let files = ["out/one/a/trials.jsonl", "out/one/a/manifest.json"];
    let before = files.map(|file| fs::metadata(scene.path(file)).unwrap().modified().unwrap());
    let pages = ["html", "md"].map(|extension| scene.page(extension));
    let text = scene.reproduce(&[], 0);
    assert!(text.contains("done already"), "{text}");
    let after = files.map(|file| fs::metadata(scene.path(file)).unwrap().modified().unwrap());
    assert_eq!(before, after);
    assert_eq!(pages, ["html", "md"].map(|extension| scene.page(extension)));

    let first = scene.trials("one/a");
    let text = scene.reproduce(&["--fresh"], 0);
    assert!(text.contains("--fresh was given"), "{text}");
    assert_eq!(scene.trials("one/a"), first, "a simulation repeats itself");
    assert_eq!(set_aside(&scene, "one/a").len(), 1);
}

/// What was set aside of an item.
fn set_aside(scene: &Scene, item: &str) -> Vec<PathBuf> {
    let directory = fs::read_dir(scene.path(&format!("out/set-aside/{item}")));
    let entries = directory.map_or_else(|_| Vec::new(), |entries| entries.flatten().collect());
    entries.iter().map(fs::DirEntry::path).collect()
}

#[test]
fn a_run_that_was_cut_off_goes_on() {
    let scene = Scene::new(&[("one/a", "name", "name")]);
    scene.reproduce(&[], 0);
    let whole = scene.trials("one/a");
    let file = scene.path("out/one/a/trials.jsonl");
    fs::write(&file, &whole[..whole.len() / 2 + 10]).unwrap();
    let text = scene.reproduce(&[], 0);
    assert!(text.contains("goes on after 2 of 4 trials"), "{text}");
    assert_eq!(scene.trials("one/a"), whole);
    assert!(set_aside(&scene, "one/a").is_empty());
}

#[test]
fn what_is_stale_is_set_aside_and_run_anew() {
    let scene = Scene::new(&[("one/a", "name", "name")]);
    scene.reproduce(&[], 0);
    scene.write("one/a", "workers: 2", "workers: 3");
    let text = scene.reproduce(&[], 3);
    assert!(text.contains("the experiment has changed since"), "{text}");
    let aside = set_aside(&scene, "one/a");
    let kept = fs::read_to_string(aside[0].join("plan.json")).unwrap();
    assert!(kept.contains("\"workers\": 2"), "{kept}");
    let name = aside[0].file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("20") && name.ends_with("-a"), "{name}");

    let manifest = scene.path("out/one/a/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut changed: Value = serde_json::from_str(&text).unwrap();
    changed["epochcost"]["sha256"] = "00".into();
    fs::write(&manifest, changed.to_string()).unwrap();
    fixture::reseal(&scene.path("out/one/a"));
    let text = scene.reproduce(&[], 3);
    assert!(text.contains("another build of epochcost"), "{text}");
    assert_eq!(set_aside(&scene, "one/a").len(), 2);

    fs::remove_file(&manifest).unwrap();
    let text = scene.reproduce(&[], 3);
    assert!(text.contains("no manifest.json"), "{text}");
    assert_eq!(set_aside(&scene, "one/a").len(), 3);
}

#[test]
fn an_interrupt_keeps_finished_trials_and_the_next_run_goes_on() {
    let scene = Scene::new(&[
        ("one/a", "name", "name"),
        ("one/b", "trials: 2", "trials: 60"),
        ("one/c", "name", "name"),
    ]);
    let mut child = scene
        .command(&["reproduce", "--out", "out"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while scene.trials("one/b").lines().count() < 3 {
        assert!(since.elapsed() < BOUND, "trials end");
        sleep(Duration::from_millis(2));
    }
    let interrupt = ["-INT".to_owned(), child.id().to_string()];
    assert!(
        Command::new("kill")
            .args(interrupt)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let expected = [
        ("one/a", "done"),
        ("one/b", "incomplete"),
        ("one/c", "not_reached"),
    ];
    assert_eq!(scene.states(), pairs(&expected));
    assert_eq!(scene.summary()["exit_code"], 7);
    assert!(scene.page("html").contains("not reached"));
    let kept = scene.trials("one/b");

    let text = scene.reproduce(&[], 0);
    assert!(text.contains("one/a: done already"), "{text}");
    let whole = scene.trials("one/b");
    assert!(whole.starts_with(&kept) && whole.lines().count() == 120);
    assert!(scene.states().iter().all(|(_, state)| state == "done"));
}

#[test]
fn one_changed_verdict_changes_page_twin_summary_and_exit_code() {
    let scene = Scene::new(&[("one/a", "name", "name"), ("one/b", "name", "name")]);
    scene.reproduce(&[], 0);
    let said_before = ["html", "md"].map(|extension| scene.page(extension));
    for page in &said_before {
        assert!(page.contains("a count, equal") && !page.contains("a count, not equal"));
        assert!(!page.contains("Not as expected"));
    }
    assert_eq!(scene.summary()["exit_code"], 0);

    edit(
        &scene.path("out/one/b/claims.json"),
        "\"value\": 6.0",
        "\"value\": 7.0",
    );
    fixture::reseal(&scene.path("out/one/b"));
    let output = scene.ends(&["report", "out"], 3);
    assert!(printed(&output).contains("one/b: differs"));
    for page in ["html", "md"].map(|extension| scene.page(extension)) {
        assert!(page.contains("a count, not equal") && page.contains("Not as expected"));
    }
    let summary = scene.summary();
    assert_eq!(summary["exit_code"], 3);
    assert_eq!(summary["counts"]["values"]["differs"], 1);
    let judged = &summary["items"][1]["claims"][0];
    assert_eq!(judged["verdict"]["verdict"], "differs");
    assert_eq!(judged["unexpected"], true);
}

#[test]
fn what_cannot_be_run_is_a_row_and_stops_nothing() {
    let scene = Scene::new(&[
        ("one/a-cloud", "platform: sim", "platform: aws"),
        ("one/broken", "workers: 2", "worker: 2"),
        (
            "one/data",
            "platform: sim\ndataset: {name: cifar10}\nmodel: mine",
            "dataset: {name: cifar10}\nmodel: mobilenet",
        ),
        ("one/whole", "name", "name"),
    ]);
    let own = "models:\n  - {name: mine, parameters: 1000, input: [3, 32, 32], flops_per_sample: 1e4, activation_bytes_per_sample: 1e3}\n";
    edit(&scene.path("experiments/one/a-cloud.yaml"), own, "");
    edit(
        &scene.path("experiments/one/a-cloud.yaml"),
        "model: mine",
        "model: mobilenet",
    );
    scene.reproduce(&[], 3);
    let expected = [
        ("one/a-cloud", "cannot_run"),
        ("one/broken", "failed"),
        ("one/data", "cannot_run"),
        ("one/whole", "done"),
    ];
    assert_eq!(scene.states(), pairs(&expected));
    let summary = scene.summary();
    let why = |index: usize| summary["items"][index]["why"].as_str().unwrap().to_owned();
    assert!(why(0).contains("no AWS clients"), "{}", why(0));
    assert!(why(1).contains("did you mean `workers`?"), "{}", why(1));
    assert!(why(2).contains("data_batch_1.bin"), "{}", why(2));
    assert_eq!(summary["items"][0]["claims"][0]["how"], "not_run");
    for page in ["html", "md"].map(|extension| scene.page(extension)) {
        assert!(page.contains("no AWS clients"), "{page}");
    }
    scene.reproduce(&["one/a-cloud", "one/whole"], 0);
    scene.reproduce(&["one/a-cloud", "one/data"], 5);
}

#[test]
fn an_item_on_real_services_is_not_run_where_one_is_missing() {
    let scene = Scene::new(&[
        (
            "one/servers",
            "platform: sim\ndataset: {name: cifar10}\nmodel: mine",
            "services: real\ndataset: {name: synthetic-cifar10, train: 32, test: 10}\nmodel: mobilenet",
        ),
        ("one/whole", "name", "name"),
    ]);
    let mut command = scene.command(&["reproduce", "--out", "out"]);
    let output = command.env("PATH", "").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    let expected = [("one/servers", "cannot_run"), ("one/whole", "done")];
    assert_eq!(scene.states(), pairs(&expected));
    let why = scene.summary()["items"][0]["why"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(why.contains("apt-get install redis-server"), "{why}");
}

#[test]
fn an_item_that_fails_in_the_middle_leaves_the_others_alone() {
    let scene = Scene::new(&[("one/a", "name", "name"), ("one/b", "name", "name")]);
    // A file where its directory should be.
    fs::create_dir_all(scene.path("out/one")).unwrap();
    fs::write(scene.path("out/one/a"), "").unwrap();
    let text = scene.reproduce(&[], 3);
    assert_eq!(
        scene.states(),
        pairs(&[("one/a", "failed"), ("one/b", "done")]),
        "{text}"
    );
}

#[test]
fn one_page_over_runs_of_any_origin() {
    let scene = Scene::new(&[("one/a", "name", "name"), ("one/b", "name", "name")]);
    for item in ["a", "b"] {
        let file = format!("experiments/one/{item}.yaml");
        scene.ends(&["run", &file, "--out", &format!("runs/{item}")], 0);
    }
    let both = ["report", "runs/a", "runs/b", "--out", "out"];
    scene.ends(&both, 0);
    let summary = scene.summary();
    assert_eq!(summary["counts"]["values"]["agrees"], 2);
    assert_eq!(summary["items"][1]["run"], "../runs/b");
    assert!(
        scene
            .page("html")
            .contains("href=\"../runs/b/report.html\"")
    );
    let page = scene.page("html");
    // They are no reproduction, and are not called one.
    assert!(page.contains("<h1>Several runs</h1>") && !page.contains("<h1>Reproduction</h1>"));
    scene.ends(&["report", "out"], 0);
    assert_eq!(scene.page("html"), page);
}

/// Two copies of a run have one name, and a section each.
#[test]
fn links_of_a_copy_lead_to_the_copy() {
    let scene = Scene::new(&[]);
    let claims = fixture::CLAIMS.replace("accuracy >= 0.3", "accuracy >= 0.9");
    drop(fixture::finished(&scene.path("one"), &claims));
    let mut copy = Command::new("cp");
    let copied = copy
        .arg("-r")
        .args(["one", "other"].map(|name| scene.path(name)));
    assert!(copied.status().unwrap().success());
    // A trial of the fixture failed, and a finding does not hold.
    scene.ends(&["report", "one", "other", "--out", "out"], 3);
    let page = scene.page("html");
    let named = |attribute: &str| -> Vec<String> {
        let rest = page.split(attribute).skip(1);
        rest.map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect()
    };
    let ids = named(" id=\"");
    let different: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(different.len(), ids.len(), "{ids:?}");
    let copy = ids.iter().find(|id| id.ends_with("-again")).unwrap();
    let first = copy.strip_suffix("-again").unwrap();
    let links = named("href=\"#");
    let to = |id: &str| links.iter().filter(|link| *link == id).count();
    assert!(to(first) > 0 && to(first) == to(copy), "{links:?}");
}

/// METHODOLOGY: origins are never mixed. No sentence, tally or sum adds what was measured to
/// what was simulated, and grid points are no votes.
#[test]
fn an_overview_adds_nothing_measured_to_anything_simulated() {
    let scene = Scene::new(&[("one/a", "name", "name")]);
    scene.ends(&["run", "experiments/one/a.yaml", "--out", "runs/a"], 0);
    let measured = fixture::finished(&scene.path("runs/m"), fixture::CLAIMS);
    analysis::summarise(&measured).unwrap();
    // A trial of the fixture failed.
    let both = ["report", "runs/a", "runs/m", "--out", "out"];
    let text = printed(&scene.ends(&both, 3));
    let summary = scene.summary();
    let told = summary["answer"]["findings"].as_array().unwrap();
    let told: Vec<&str> = told.iter().filter_map(Value::as_str).collect();
    let of = |origin: &str| {
        let mut found = told.iter().filter(|text| text.contains(origin));
        let found = (found.next().unwrap(), found.next());
        assert_eq!(found.1, None);
        (*found.0).to_owned()
    };
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        of(", measured: ").contains("of 3 printed figures, 3 are open. "),
        "{told:?}"
    );
    assert!(of(", simulated: ").contains("printed figure"), "{told:?}");
    assert_eq!(summary["answer"]["fastest"], "");
    let pages = ["html", "md"].map(|extension| scene.page(extension));
    for text in pages.iter().chain([&text]) {
        for sum in ["Fastest in", "settings", "all  "] {
            assert!(!text.contains(sum), "{sum}: {text}");
        }
        for origin in [", measured: of 1 statement", ", simulated: of 1 statement"] {
            assert!(text.contains(origin), "{origin}: {text}");
        }
    }
    for sum in [
        "all measured",
        "all simulated",
        "measured, published values: ",
        "simulated, ",
    ] {
        assert!(text.contains(sum), "{sum}: {text}");
    }
    // Each line of the tally has one origin.
    let tally = pages[1]
        .lines()
        .filter(|line| line.contains("| published values |"));
    assert_eq!(tally.count(), 2);
}
