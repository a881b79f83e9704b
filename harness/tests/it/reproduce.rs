//! `reproduce`: which items are run, skipped, resumed and set aside, and what
//! the page over all of them says.
use std::collections::BTreeSet;
use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Stdio;

use epochcost_judge::analysis;
use serde_json::{Value, json};

use crate::fixture;
use crate::support::{self, Ended, cases, holds, items, lacks, signal, until};

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

/// What an item on this machine has in place of it.
const SIMULATED: &str = "platform: sim\ndataset: {name: cifar10}\nmodel: mine";

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

/// A directory with papers.
struct Scene(support::Scene);

impl Deref for Scene {
    type Target = support::Scene;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Scene {
    /// Items, and a text to replace by another in each.
    fn new(items: &[(&str, &str, &str)]) -> Self {
        let scene = Self(support::Scene::empty());
        for (id, replaced, by) in items {
            scene.item(id, replaced, by);
        }
        scene
    }

    /// Items as they are.
    fn of(ids: &[&str]) -> Self {
        let items: Vec<_> = ids.iter().map(|id| (*id, "", "")).collect();
        Self::new(&items)
    }

    fn item(&self, id: &str, replaced: &str, by: &str) {
        assert!(TINY.contains(replaced), "{replaced}");
        let (folder, name) = id.split_once('/').unwrap();
        let text = TINY.replacen(replaced, by, 1).replace("NAME", name);
        self.write(&format!("experiments/{id}.yaml"), &text);
        let recorded = ["puts[allreduce]", "more is put"];
        let recorded = recorded.map(|claim| format!("{name},{claim},agrees,2026-11-01,\n"));
        let verdicts = format!("experiments/{folder}/verdicts.csv");
        let before = fs::read_to_string(self.file(&verdicts))
            .unwrap_or("experiment,claim,verdict,date,why\n".into());
        if !before.contains(&format!("\n{name},")) {
            self.write(&verdicts, &(before + &recorded.concat()));
        }
        for (part, text) in PAPER {
            self.write(&format!("experiments/{folder}/{part}"), text);
        }
    }

    #[track_caller]
    fn reproduce(&self, arguments: &str, code: i32) -> Ended {
        self.run(&format!("reproduce --out out {arguments}"))
            .ends(code)
    }

    fn summary(&self) -> Value {
        self.value("out/summary.json")
    }

    /// The states of all items on the page.
    fn states(&self) -> String {
        let summary = self.summary();
        let states = items(&summary, "items").iter().map(|item| {
            let [id, state] = ["id", "state"].map(|field| item[field].as_str().unwrap());
            format!("{id} {state}")
        });
        states.collect::<Vec<_>>().join(", ")
    }

    fn trials(&self, item: &str) -> String {
        fs::read_to_string(self.file(&format!("out/{item}/trials.jsonl"))).unwrap_or_default()
    }

    /// The page and its twin.
    fn pages(&self) -> [String; 2] {
        ["html", "md"].map(|extension| self.read(&format!("out/report.{extension}")))
    }

    /// What was set aside of an item.
    fn set_aside(&self, item: &str) -> Vec<PathBuf> {
        let directory = fs::read_dir(self.file(&format!("out/set-aside/{item}")));
        let entries = directory.into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }
}

#[test]
fn what_is_asked_for_is_run() {
    let scene = Scene::of(&["one/table1", "one/figure2", "two/table1"]);
    scene.reproduce("one/table1 two", 0);
    assert_eq!(scene.states(), "one/table1 done, two/table1 done");
    assert!(!scene.has("out/one/figure2"));
    let summary = scene.summary();
    assert_eq!(summary["catalogue"], 3);
    assert_eq!(summary["counts"]["figures"]["agrees"], 2);
    assert_eq!(summary["counts"]["statements"]["agrees"], 2);
    assert_eq!(summary["items"][0]["claims"][0]["how"], "simulated");
    holds(&scene.pages()[0], &["one/table1/report.html"]);
    assert!(scene.file("out/two/table1/report.html").is_file());

    let said = scene.reproduce("one/tabel1", 2);
    said.says(&["did you mean `one/table1`?"]);
    scene.reproduce("owt", 2).says(&["there are one, two"]);
}

/// A statement that gives a value was once counted among the printed figures, but not in the
/// sentence on them.
#[test]
fn a_statement_that_gives_a_value_is_no_printed_figure() {
    let item = "statements: [{of: times, formula: \"puts[scatterreduce] / puts[allreduce] = 2\"}, ";
    let scene = Scene::new(&[("one/a", "statements: [", item)]);
    for (file, line) in [
        (
            "statements",
            "times,§1,value,2,,twice as much is put,,drawn\n",
        ),
        ("verdicts", "a,twice as much is put,differs,2026-11-01,\n"),
    ] {
        let file = format!("experiments/one/{file}.csv");
        scene.write(&file, &(scene.read(&file) + line));
    }
    scene.reproduce("", 0).says(&[
        "of 2 statements, 1 agrees and 1 differs; of 1 printed figure, 1 agrees.",
        "simulated, verdicts on printed figures: 1 agrees\n",
        "simulated, verdicts on statements: 1 agrees, 1 differs\n",
    ]);
    let counts = &scene.summary()["counts"];
    assert_eq!(counts["figures"], json!({"agrees": 1}));
    assert_eq!(counts["statements"], json!({"agrees": 1, "differs": 1}));
}

/// The page over 421 verdicts was once replaced by one of 92.
#[test]
fn an_item_alone_keeps_the_page_over_everything_recorded() {
    let less = "puts[scatterreduce] < puts";
    let scene = Scene::new(&[
        ("p/a", "", ""),
        ("p/b", "", ""),
        ("q/c", "puts[scatterreduce] > puts", less),
    ]);
    scene.reproduce("", 3);
    let (all, trials) = (scene.states(), scene.trials("p/b"));
    // What was asked for is as expected; what else is recorded is no fault of it.
    let said = scene.reproduce("p/a", 0);
    said.says(&["[1/1] p/a: done already"]);
    assert_eq!(scene.states(), all);
    assert_eq!(scene.trials("p/b"), trials);
    assert_eq!(scene.summary()["asked"][0], "p/a");
    let [page, _] = scene.pages();
    holds(&page, &["other items are as they were recorded"]);
    // An option that leaves an item out leaves its record alone, too.
    scene.reproduce("--platform sim", 3);
    assert_eq!(scene.states(), all);
    scene.run("report out").ends(3);
    // A record that was changed is refused.
    let record = "out/reproduction.json";
    scene.edit(record, "\"catalogue\": 3", "\"catalogue\": 2");
    scene.run("report out").ends(2).says(&[record]);
}

#[test]
fn nothing_selected_is_told() {
    let scene = Scene::of(&["one/table1"]);
    fs::create_dir(scene.file("empty")).unwrap();
    scene.reproduce("--directory empty", 4);
    scene.reproduce("--platform local", 4);
    assert!(!scene.has("out"));
}

#[test]
fn a_dry_run_writes_nothing() {
    let trained = "dataset: {name: synthetic-cifar10, train: 100, test: 20}\nmodel: mobilenet";
    let scene = Scene::new(&[
        ("one/a", "", ""),
        ("one/b", "", ""),
        ("one/c", SIMULATED, trained),
    ]);
    scene.reproduce("one/a", 0);
    let lines = scene.reproduce("--dry-run --json", 0).json();
    assert_eq!(lines[0]["action"], "done_already");
    assert_eq!(lines[0]["ended"], 4);
    assert_eq!(lines[1]["action"], "run");
    assert_eq!(lines[1]["trials"], 4);
    assert_eq!(lines[1]["training_cpu_s"], 0.0);
    assert!(lines[2]["training_cpu_s"].as_f64() > Some(0.1), "{lines}");
    assert!(!scene.has("out/one/b"));
}

#[test]
fn quick_reduces_and_leaves_out_and_takes_the_whole_where_it_is() {
    let long = "evaluate: never\nforms: {quick: {set: {trials: 1, systems.0: {system: allreduce, name: first}}}}";
    let longer = "trials: 2\nforms: {quick: {leave_out: it takes hours}}";
    let scene = Scene::new(&[
        ("one/long", "evaluate: never", long),
        ("one/longer", "trials: 2", longer),
        ("one/short", "", ""),
    ]);
    let said = scene.reproduce("--quick", 0);
    let expected = "one/long done, one/longer left_out, one/short done";
    assert_eq!(scene.states(), expected);
    // Verdicts of what is reduced are not compared with the recorded ones.
    let reduced = items(&scene.summary()["items"][0], "claims").len();
    assert!(reduced > 0);
    let sentence = format!("; {reduced} of items that were not run whole are not compared.");
    said.says(&["verdicts are as recorded", &sentence]);
    assert_eq!(scene.trials("one/long.quick").lines().count(), 2);
    assert!(scene.trials("one/long.quick").contains("first"));
    assert!(!scene.has("out/one/long"));
    let summary = scene.summary();
    assert_eq!(summary["items"][0]["reduced"][0], "trials=1");
    let left_out = &summary["items"][1]["claims"][0];
    assert_eq!(left_out["verdict"]["verdict"], "not_run");
    assert_eq!(left_out["unexpected"], false);
    holds(&left_out["verdict"]["reason"], &["it takes hours"]);

    scene.reproduce("", 0);
    assert_eq!(scene.trials("one/long").lines().count(), 4);
    scene.reproduce("--quick", 0);
    let summary = scene.summary();
    assert_eq!(summary["items"][0]["run"], "one/long");
    assert_eq!(summary["items"][0]["reduced"], json!([]));
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
    let none = "trials: 2\nforms: {aws: {leave_out: it has no place there}}";
    let scene = Scene::new(&[
        ("one/a", "evaluate: never", form),
        ("one/b", "trials: 2", none),
        ("one/c", "", ""),
    ]);
    scene.reproduce("", 0);
    scene.reproduce("one/a one/b --platform aws", 0);
    let expected = "one/a done, one/a.aws cannot_run, one/b done, one/b.aws left_out, one/c done";
    assert_eq!(scene.states(), expected);
    let summary = scene.summary();
    assert_eq!(summary["items"][1]["reduced"][0], "platform=\"aws\"");
    assert_eq!(summary["items"][3]["why"], "it has no place there");
    holds(&scene.pages()[1], &["In this form: platform=\"aws\""]);
    assert!(!scene.has("out/one/a.aws"));
}

#[test]
fn a_wrong_reduction_is_refused_wherever_the_file_is_read() {
    for ([quick], words) in cases(&[
        "{set: {epoch: 1}} | a.yaml:13: | did you mean `epochs`?",
        "{set: {epochs: 0}} | a.yaml:13: | epochs",
        "{set: {}} | a.yaml:13: | leave_out",
        "{leave_out: long, set: {epochs: 1}} | quick | leave_out",
        "{left_out: long} | left_out | did you mean `leave_out`?",
    ]) {
        let by = format!("evaluate: never\nforms: {{quick: {quick}}}");
        let scene = Scene::new(&[("one/a", "evaluate: never", &by)]);
        let checked = scene.run("check experiments/one/a.yaml").ends(2);
        checked.says(&words);
    }
}

#[test]
fn what_is_finished_is_not_run_again() {
    let scene = Scene::of(&["one/a"]);
    scene.reproduce("", 0);
    let times = || {
        let files = ["out/one/a/trials.jsonl", "out/one/a/manifest.json"];
        files.map(|file| fs::metadata(scene.file(file)).unwrap().modified().unwrap())
    };
    let (before, pages) = (times(), scene.pages());
    scene.reproduce("", 0).says(&["done already"]);
    assert_eq!((times(), scene.pages()), (before, pages));

    let first = scene.trials("one/a");
    scene.reproduce("--fresh", 0).says(&["--fresh was given"]);
    assert_eq!(scene.trials("one/a"), first, "a simulation repeats itself");
    assert_eq!(scene.set_aside("one/a").len(), 1);
}

#[test]
fn a_run_that_was_cut_off_goes_on() {
    let scene = Scene::of(&["one/a"]);
    scene.reproduce("", 0);
    let whole = scene.trials("one/a");
    scene.write("out/one/a/trials.jsonl", &whole[..whole.len() / 2 + 10]);
    let said = scene.reproduce("", 0);
    said.says(&["goes on after 2 of 4 trials"]);
    assert_eq!(scene.trials("one/a"), whole);
    assert!(scene.set_aside("one/a").is_empty());
}

#[test]
fn what_is_stale_is_set_aside_and_run_anew() {
    let scene = Scene::of(&["one/a"]);
    scene.reproduce("", 0);
    scene.item("one/a", "workers: 2", "workers: 3");
    let said = scene.reproduce("", 3);
    said.says(&["the experiment has changed since"]);
    let aside = scene.set_aside("one/a");
    let kept = fs::read_to_string(aside[0].join("plan.json")).unwrap();
    holds(&kept, &["\"workers\": 2"]);
    let name = aside[0].file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("20") && name.ends_with("-a"), "{name}");

    let mut changed = scene.value("out/one/a/manifest.json");
    changed["epochcost"]["sha256"] = "00".into();
    scene.write("out/one/a/manifest.json", &changed.to_string());
    fixture::reseal(&scene.file("out/one/a"));
    scene.reproduce("", 3).says(&["another build of epochcost"]);
    assert_eq!(scene.set_aside("one/a").len(), 2);

    fs::remove_file(scene.file("out/one/a/manifest.json")).unwrap();
    scene.reproduce("", 3).says(&["no manifest.json"]);
    assert_eq!(scene.set_aside("one/a").len(), 3);
}

#[test]
fn an_interrupt_keeps_finished_trials_and_the_next_run_goes_on() {
    let scene = Scene::new(&[
        ("one/a", "", ""),
        ("one/b", "trials: 2", "trials: 60"),
        ("one/c", "", ""),
    ]);
    let mut command = scene.command("reproduce --out out");
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    until(|| scene.trials("one/b").lines().count() >= 3);
    signal("INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let expected = "one/a done, one/b incomplete, one/c not_reached";
    assert_eq!(scene.states(), expected);
    assert_eq!(scene.summary()["exit_code"], 7);
    holds(&scene.pages()[0], &["not reached"]);
    let kept = scene.trials("one/b");

    scene.reproduce("", 0).says(&["one/a: done already"]);
    let whole = scene.trials("one/b");
    assert!(whole.starts_with(&kept) && whole.lines().count() == 120);
    assert_eq!(scene.states(), "one/a done, one/b done, one/c done");
}

#[test]
fn one_changed_verdict_changes_page_twin_summary_and_exit_code() {
    let scene = Scene::of(&["one/a", "one/b"]);
    scene.reproduce("", 0);
    for page in scene.pages() {
        assert!(page.contains("a count, equal") && !page.contains("a count, not equal"));
        assert!(!page.contains("Not as expected"));
    }
    assert_eq!(scene.summary()["exit_code"], 0);

    let [six, seven] = ["\"value\": 6.0", "\"value\": 7.0"];
    scene.edit("out/one/b/claims.json", six, seven);
    fixture::reseal(&scene.file("out/one/b"));
    scene.run("report out").ends(3).says(&["one/b: differs"]);
    for page in scene.pages() {
        holds(&page, &["a count, not equal", "Not as expected"]);
    }
    let summary = scene.summary();
    assert_eq!(summary["exit_code"], 3);
    assert_eq!(summary["counts"]["figures"]["differs"], 1);
    let judged = &summary["items"][1]["claims"][0];
    assert_eq!(judged["verdict"]["verdict"], "differs");
    assert_eq!(judged["unexpected"], true);
}

#[test]
fn what_cannot_be_run_is_a_row_and_stops_nothing() {
    let there = "dataset: {name: cifar10}\nmodel: mobilenet";
    let generated = "dataset: {name: synthetic-cifar10, train: 32, test: 10}\nmodel: mobilenet";
    let real = format!("services: real\n{generated}");
    let scene = Scene::new(&[
        ("one/a-cloud", "platform: sim", "platform: aws"),
        ("one/broken", "workers: 2", "worker: 2"),
        ("one/data", SIMULATED, there),
        ("one/servers", SIMULATED, &real),
        ("one/whole", "", ""),
        ("one/written", "", ""),
    ]);
    // A file where its directory should be.
    scene.write("out/one/written", "");
    let mut lines = TINY.lines();
    let own = lines.find(|line| line.contains("{name: mine"));
    let cloud = "experiments/one/a-cloud.yaml";
    scene.edit(cloud, &format!("models:\n{}\n", own.unwrap()), "");
    scene.edit(cloud, "model: mine", "model: mobilenet");
    // No server is found.
    let mut command = scene.command("reproduce --out out");
    scene.end(command.env("PATH", "")).ends(3);
    let expected = "one/a-cloud cannot_run, one/broken failed, one/data cannot_run, one/servers cannot_run, \
                    one/whole done, one/written failed";
    assert_eq!(scene.states(), expected);
    let summary = scene.summary();
    let said =
        "no AWS clients|did you mean `workers`?|data_batch_1.bin|apt-get install redis-server";
    for (item, words) in items(&summary, "items").iter().zip(said.split('|')) {
        holds(&item["why"], &[words]);
    }
    assert_eq!(summary["items"][0]["claims"][0]["how"], "not_run");
    for page in scene.pages() {
        holds(&page, &["no AWS clients"]);
    }
    scene.reproduce("one/a-cloud one/whole", 0);
    scene.reproduce("one/a-cloud one/data", 5);
}

#[test]
fn one_page_over_runs_of_any_origin() {
    let scene = Scene::of(&["one/a", "one/b"]);
    for item in ["a", "b"] {
        scene.text(&format!(
            "run experiments/one/{item}.yaml --out runs/{item}"
        ));
    }
    scene.text("report runs/a runs/b --out out");
    let summary = scene.summary();
    assert_eq!(summary["counts"]["figures"]["agrees"], 2);
    assert_eq!(summary["items"][1]["run"], "../runs/b");
    let [page, _] = scene.pages();
    // They are no reproduction, and are not called one.
    let link = "href=\"../runs/b/report.html\"";
    holds(&page, &[link, "<h1>Several runs</h1>"]);
    assert!(!page.contains("<h1>Reproduction</h1>"));
    scene.text("report out");
    assert_eq!(scene.pages()[0], page);
}

/// Two copies of a run have one name, and a section each.
#[test]
fn links_of_a_copy_lead_to_the_copy() {
    let scene = Scene::of(&[]);
    let claims = fixture::CLAIMS.replace("accuracy >= 0.3", "accuracy >= 0.9");
    drop(fixture::finished(&scene.file("one"), &claims));
    // A trial of the fixture failed, and a finding does not hold.
    let both = "cp -r one other && exec \"$0\" report one other --out out";
    scene.shell(both).ends(3);
    let [page, _] = scene.pages();
    let named = |attribute: &str| -> Vec<&str> {
        let rest = page.split(attribute).skip(1);
        rest.map(|rest| rest.split('"').next().unwrap()).collect()
    };
    let ids = named(" id=\"");
    let different: BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(different.len(), ids.len(), "{ids:?}");
    let copy = ids.iter().find(|id| id.ends_with("-again")).unwrap();
    let first = copy.strip_suffix("-again").unwrap();
    let links = named("href=\"#");
    let to = |id: &str| links.iter().filter(|link| **link == id).count();
    assert!(to(first) > 0 && to(first) == to(copy), "{links:?}");
}

/// METHODOLOGY: origins are never mixed. No sentence, tally or sum adds what was measured to
/// what was simulated, and grid points are no votes.
#[test]
fn an_overview_adds_nothing_measured_to_anything_simulated() {
    let scene = Scene::of(&["one/a"]);
    scene.text("run experiments/one/a.yaml --out runs/a");
    let measured = fixture::finished(&scene.file("runs/m"), fixture::CLAIMS);
    analysis::summarise(&measured).unwrap();
    // A trial of the fixture failed.
    let both = scene.run("report runs/a runs/m --out out").ends(3);
    let text = both.text() + &both.message();
    let answer = &scene.summary()["answer"];
    let [one, other] = items(answer, "findings") else {
        panic!("{answer:#}")
    };
    let mut told = [one, other].map(Value::to_string);
    told.sort_by_key(|text| text.contains(", simulated: "));
    let [measured, simulated] = &told;
    let open = "of 3 printed figures, 3 are open. ";
    holds(measured, &[", measured: ", open]);
    lacks(measured, &[", simulated: "]);
    holds(simulated, &[", simulated: ", "printed figure"]);
    lacks(simulated, &[", measured: "]);
    assert_eq!(answer["fastest"], "");
    let pages = scene.pages();
    for text in pages.iter().chain([&text]) {
        lacks(text, &["Fastest in", "settings", "all  "]);
        let origins = [", measured: of 1 statement", ", simulated: of 1 statement"];
        holds(text, &origins);
    }
    holds(&text, &["all measured", "all simulated", "simulated, "]);
    holds(&text, &["measured, verdicts on printed figures: "]);
    // Each line of the tally has one origin.
    let tally = pages[1].matches("| printed figures |");
    assert_eq!(tally.count(), 2);
}
