//! `epochcost audit`: findings are instances of the papers' statements, and follow the cells.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::program;

use serde_json::Value;
use tempfile::TempDir;

/// Held and counted instances of every statement over the figures as they are printed.
const MARKS: &str = include_str!("marks.csv");

fn epochcost(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments")
}

/// A copy of the published tables with one text in one file replaced.
fn with(file: &str, before: &str, after: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(experiments().join("published")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
    }
    replace(&directory.path().join(file), before, after);
    directory
}

#[track_caller]
fn replace(path: &Path, before: &str, after: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert_eq!(
        text.matches(before).count(),
        1,
        "{before} in {}",
        path.display()
    );
    fs::write(path, text.replace(before, after)).unwrap();
}

#[track_caller]
fn audited(arguments: &[&str]) -> Value {
    let output = epochcost(&[&["audit", "--json"], arguments].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Held and counted instances of a statement.
#[track_caller]
fn mark(audited: &Value, paper: &str, statement: &str) -> [u64; 2] {
    let mut all = audited["statements"].as_array().unwrap().iter();
    let mark = all.find(|mark| mark["paper"] == paper && mark["statement"] == statement);
    ["held", "counted"].map(|field| mark.unwrap()[field].as_u64().unwrap())
}

/// Left and right side of the instance of a statement in that row.
#[track_caller]
fn sides(audited: &Value, statement: &str, row: &str) -> [f64; 2] {
    let mut all = audited["findings"].as_array().unwrap().iter();
    let found = all.find(|one| one["statement"] == statement && one["row"] == row);
    let found = found.unwrap_or_else(|| panic!("{statement}, {row}"));
    ["left", "right"].map(|side| found["compared"][0][side]["value"].as_f64().unwrap())
}

#[test]
fn every_statement_has_its_mark() {
    let all = audited(&[]);
    assert_eq!(all["schema_version"]["major"], 2);
    let mut found = String::from("paper,statement,outcome,held,counted\n");
    for mark in all["statements"].as_array().unwrap() {
        let text = |field: &str| mark[field].as_str().unwrap().to_owned();
        let [paper, statement, outcome] = ["paper", "statement", "outcome"].map(text);
        let (held, counted) = (&mark["held"], &mark["counted"]);
        found.push_str(&format!("{paper},{statement},{outcome},{held},{counted}\n"));
    }
    assert_eq!(found, MARKS);
}

/// A printed figure, what is put there, and the statement whose instances change.
#[test]
fn a_changed_cell_changes_its_marks() {
    for (file, before, after, paper, statement, held) in [
        (
            "cp_table2.csv",
            "0.000442",
            "0.000490",
            "cost-performance",
            "cost-of-a-function",
            6,
        ),
        (
            "cp_table2.csv",
            "14.343,24,344.23",
            "28.686,24,344.23",
            "cost-performance",
            "total-seconds",
            7,
        ),
        (
            "cp_table3.csv",
            "84.96,83.2",
            "61.2,83.2",
            "cost-performance",
            "time-to-80",
            1,
        ),
        (
            "cp_table3.csv",
            "1367.01,85.05",
            "1367.01,84.05",
            "cost-performance",
            "accuracy",
            1,
        ),
        (
            "cp_communication.csv",
            "21.88,8.36",
            "8.36,21.88",
            "cost-performance",
            "larger-models",
            1,
        ),
        (
            "cp_table2.csv",
            "0.01344,0.0538",
            "0.0538,0.0538",
            "cost-performance",
            "one-machine",
            1,
        ),
        (
            "p2p_table2_serverless.csv",
            "0.03451",
            "0.03555",
            "p2p",
            "cost-with-lambda",
            4,
        ),
        (
            "p2p_table1.csv",
            "CIFAR,model update,141.5,530,0.0052",
            "CIFAR,model update,141.5,530,0.15",
            "p2p",
            "model-update",
            3,
        ),
        (
            "p2p_table1.csv",
            "194.82,600,14.93",
            "194.82,600,0.01",
            "p2p",
            "gradients-seconds",
            5,
        ),
        (
            "kubeml_text.csv",
            "K = infinity\",2.75",
            "K = infinity\",1.25",
            "kubeml",
            "batches",
            1,
        ),
    ] {
        let changed = with(file, before, after);
        let changed = audited(&["--published", changed.path().to_str().unwrap()]);
        let [now, _] = mark(&changed, paper, statement);
        let [was, _] = mark(&audited(&[]), paper, statement);
        assert_eq!(now, held, "{statement}: {before} to {after}");
        assert_ne!(now, was, "{statement}: {before} to {after}");
    }
}

#[test]
fn figures_are_those_of_the_papers_own_formulas() {
    let all = audited(&[]);
    for (statement, row, left, right) in [
        (
            "cost-of-a-function",
            "MobileNet, AllReduce",
            0.000445,
            14.382 * 2.048 * 0.0000166667,
        ),
        // 24 steps of 16 writes and 24 reads.
        (
            "requests",
            "MobileNet, ScatterReduce",
            384.0 * 5e-6 + 576.0 * 4e-7,
            0.000422,
        ),
        (
            "epochs-of-exchanges",
            "AllReduce, MobileNet",
            1367.01 * 60.0 / 345.17,
            1.5 * 70.33 * 60.0 / 92.0,
        ),
        ("parameters", "VGG-11", 132_900_000.0, 128_807_306.0),
        ("parameters", "ResNet-18", 11_700_000.0, 11_173_962.0),
        (
            "cost-with-lambda",
            "128",
            0.03451,
            (0.0000233 * 118.0 + 0.00000639) * 12.9,
        ),
        ("small-models", "1000", 1_235_496.0 * 4.0 / 1e6, 5.0),
    ] {
        let found = sides(&all, statement, row);
        for (found, expected) in found.into_iter().zip([left, right]) {
            assert!(
                (found / expected - 1.0).abs() < 1e-9,
                "{statement}, {row}: {found}"
            );
        }
    }
    let mut all = all["findings"].as_array().unwrap().iter();
    let caption = all
        .find(|one| one["statement"] == "figure2-caption")
        .unwrap();
    assert!(caption["compared"][0]["left"]["value"].as_f64().unwrap() < 0.0);
}

/// A further paper is a folder: no program changes for it.
#[test]
fn a_made_up_paper_is_audited() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("made-up");
    fs::create_dir(&folder).unwrap();
    let write = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
    write(
        "paper.yaml",
        "cite: Nobody 2026\ntables:\n  table1:\n    place: Table 1\n    file: table1.csv\n    keys: [system]\n    columns:\n      steps: {setup: true}\n      step_s: {unit: s}\n      minutes: {unit: min}\n    follows:\n      minutes: minutes = steps * step_s\n",
    );
    write(
        "table1.csv",
        "system,steps,step_s,minutes\nfast,60,2,2.0\nslow,60,5,5.0\nnew,60,3,4.0\n",
    );
    write(
        "statements.csv",
        "id,place,kind,weight,reading_of,says,formula,why\nfirst,abstract,ranking,1,,fast is fastest,\"argmin(system, minutes) = fast\",\ntwice,§2,value,2,,slow takes twice as long as any other,minutes[slow] >= 2 * minutes[not slow],\nreason,§2,cause,3,,it is fast by design,,no figure isolates it\n",
    );
    write(
        "notes.csv",
        "about,when,note\ntwice,differs,slow takes {minutes[slow] / minutes} times as long\n",
    );
    let name = folder.to_str().unwrap();
    let all = audited(&[name]);
    let marks = ["minutes", "first", "twice", "reason"].map(|id| mark(&all, "made-up", id));
    assert_eq!(marks, [[2, 3], [1, 1], [1, 2], [0, 0]]);
    let text = String::from_utf8(epochcost(&["audit", name]).stdout).unwrap();
    assert!(text.contains("slow takes 1.25 times as long"), "{text}");
    assert!(
        text.contains("fast is fastest") && text.contains("no figure isolates it"),
        "{text}"
    );
    // Damage names file, line and column.
    for (file, before, after, place, problem) in [
        (
            "statements.csv",
            "minutes[slow] >=",
            "minutes[slw] >=",
            "statements.csv:3:",
            "did you mean `slow`",
        ),
        (
            "statements.csv",
            ",cause,",
            ",reason,",
            "statements.csv:4:",
            "write ranking",
        ),
        (
            "paper.yaml",
            "minutes = steps *",
            "minutes = stepz *",
            "paper.yaml:12:",
            "did you mean `steps`",
        ),
        (
            "paper.yaml",
            "unit: min",
            "units: min",
            "paper.yaml:10",
            "units",
        ),
        (
            "table1.csv",
            "fast,60,2,2.0",
            "fast,60,two,2.0",
            "table1.csv:2:",
            "finite number",
        ),
        (
            "table1.csv",
            "slow,60,5,5.0",
            "fast,60,5,5.0",
            "table1.csv:3:",
            "twice",
        ),
        (
            "notes.csv",
            "{minutes[slow]",
            "{minute[slow]",
            "notes.csv:2:",
            "did you mean `minutes`",
        ),
        (
            "statements.csv",
            "reason,§2,cause,3,,",
            "third,§2,value,2,twice,slow takes 20 minutes,minutes[slow] = 20,\nfourth,§2,value,2,third,about 20,minutes[slow] ~ 20,\nreason,§2,cause,3,,",
            "statements.csv:5:",
            "is a reading of \"twice\" itself",
        ),
        (
            "statements.csv",
            "reason,§2,cause,3,,",
            "reason,§2,cause,3,first,",
            "statements.csv:4:",
            "has other places",
        ),
        (
            "notes.csv",
            "twice,differs",
            "thrice,differs",
            "notes.csv:2:",
            "no statement",
        ),
    ] {
        let whole = fs::read_to_string(folder.join(file)).unwrap();
        replace(&folder.join(file), before, after);
        let output = epochcost(&["audit", name]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(
            message.contains(place) && message.contains(problem),
            "{after}: {message}"
        );
        write(file, &whole);
    }
}

#[test]
fn a_damaged_table_is_located() {
    let word = with("cp_table2.csv", "14.343", "fast");
    let output = epochcost(&["audit", "--published", word.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("cp_table2.csv:3:25") && message.contains("\"fast\""),
        "{message}"
    );
    let gone = with("cp_table3.csv", "MLLess", "MLMore");
    let output = epochcost(&["audit", "--published", gone.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("MLLess"));
}

#[test]
fn papers_are_chosen_by_name() {
    let all = audited(&["p2p"]);
    let all = all["findings"].as_array().unwrap();
    assert!(!all.is_empty() && all.iter().all(|finding| finding["paper"] == "p2p"));
    let unknown = epochcost(&["audit", "p3p"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        String::from_utf8(unknown.stderr)
            .unwrap()
            .contains("there are cost-performance, kubeml, p2p")
    );
    let plain = epochcost(&["audit", "cost-performance"]);
    let plain = String::from_utf8(plain.stdout).unwrap();
    assert!(plain.contains("Barrak et al. 2025") && !plain.contains("Barrak et al. 2023"));
    assert!(
        plain.lines().all(|line| line.chars().count() <= 100),
        "{plain}"
    );
    let markdown = epochcost(&["audit", "--markdown"]);
    assert!(
        String::from_utf8(markdown.stdout)
            .unwrap()
            .starts_with("# Audit")
    );
}

#[track_caller]
fn text(arguments: &[&str]) -> String {
    let output = epochcost(&[&["audit"], arguments].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    String::from_utf8(output.stdout).unwrap()
}

/// The sentences that are chosen: places and statements of each one's readings.
#[track_caller]
fn chosen(arguments: &[&str]) -> Vec<[String; 2]> {
    let all = audited(arguments);
    let sentences = all["sentences"].as_array().unwrap().iter();
    let fields = |one: &Value, name: &str| {
        let readings = one["readings"].as_array().unwrap().iter();
        let texts: Vec<&str> = readings.map(|one| one[name].as_str().unwrap()).collect();
        texts.join("; ")
    };
    sentences
        .map(|one| ["place", "statement"].map(|name| fields(one, name)))
        .collect()
}

#[test]
fn sentences_are_chosen_by_their_place() {
    let count = |paper, place| chosen(&[paper, "--at", place]).len();
    for (paper, place, same) in [
        ("p2p", "V-B2", "§v-b2"),
        ("p2p", "V-B2 ¶6", "section V-B2 ¶6"),
        ("p2p", "Table II", "table2"),
        ("kubeml", "Figure 4", "fig. 4"),
        ("cost-performance", "4.2", "§4.2"),
    ] {
        assert!(count(paper, place) > 0, "{place}");
        assert_eq!(count(paper, place), count(paper, same), "{place}");
    }
    // With all below it; V is neither VI nor VIII, and I no Table I.
    for (place, part) in [("V-B", "§V-B"), ("V", "§V-"), ("I", "§I ")] {
        let own = chosen(&["p2p", "--at", place]);
        assert!(own.iter().all(|[own, _]| own.contains(part)), "{own:?}");
    }
    let [all, one, two] = ["V-B", "V-B1", "V-B2"].map(|place| count("p2p", place));
    assert!(all > one.max(two));
    let five = chosen(&["kubeml", "--at", "figure 5"]);
    assert!(five.iter().any(|[place, _]| place == "Figures 3 to 5"));
    assert!(five.iter().all(|[place, _]| place != "Figures 3 and 4"));
    // `V-B2` is not the beginning of `V-B21`.
    let directory = tempfile::tempdir().unwrap();
    made_up(directory.path());
    let name = directory.path().to_str().unwrap();
    let only = chosen(&[name, "--at", "§V-B2"]);
    // A sentence comes before its readings, also where its file has it behind them.
    assert_eq!(only, [["§V-B2 ¶6; §V-B2 ¶6", "first; alike"]]);
    assert_eq!(chosen(&[name, "--at", "v-b"]).len(), 2);
}

/// A paper whose sections differ in a digit behind their names.
fn made_up(folder: &Path) {
    let table = "cite: Nobody 2026\ntables:\n  t:\n    place: Table 1\n    file: t.csv\n    keys: [k]\n    columns:\n      s: {unit: s}\n";
    let lines = "id,place,kind,weight,reading_of,says,formula,why\nalike,§V-B2 ¶6,ranking,1,first,a is faster than b,s[a] < s[b],\nfirst,§V-B2 ¶6,ranking,1,,a is fastest,\"argmin(k, s) = a\",\nother,§V-B21 ¶1,ranking,2,,b is slowest,\"argmax(k, s) = b\",\n";
    for (file, text) in [
        ("paper.yaml", table),
        ("t.csv", "k,s\na,1.5\nb,2.5\n"),
        ("statements.csv", lines),
    ] {
        fs::write(folder.join(file), text).unwrap();
    }
}

#[test]
fn sentences_are_chosen_by_a_word_of_them_or_of_their_formula() {
    let all = audited(&["p2p", "--word", "COSTS more"]);
    let marks = all["statements"].as_array().unwrap();
    assert!(marks.iter().any(|mark| mark["statement"] == "costs-more"));
    assert!(marks.len() < 12, "{}", marks.len());
    let by_formula = chosen(&["p2p", "--word", "vgg_memory_gb"]);
    assert_eq!(by_formula.len(), 1, "{by_formula:?}");
    let both = chosen(&["p2p", "--word", "memory", "--at", "V-B2"]);
    assert!(both.iter().all(|[place, _]| place.contains("§V-B2")));
    assert!(!both.is_empty() && both.len() < chosen(&["p2p", "--word", "memory"]).len());
    // What agrees and what cannot be checked is what the reader asks for, each figure in full.
    let shown = text(&["p2p", "--at", "V-B2", "--word", "choose an"]);
    assert!(shown.contains("cannot be checked  §V-B2 ¶7"), "{shown}");
    let shown = text(&["p2p", "--at", "V-B2", "--word", "faster and costs"]);
    assert!(shown.contains("agrees  abstract ¶2"), "{shown}");
    for part in ["table2.cost_per_peer_usd >", "p2p_table3_instance.csv:2:"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("main conclusions"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn a_place_or_word_that_no_sentence_has_is_answered_with_those_there_are() {
    for (arguments, parts) in [
        (&["--at", "V-B9"][..], &["`V-B9`", "`V-B2`", "Table I"][..]),
        (&["--at", "§"], &["`§`", "V-B2"]),
        (&["--at", "table 99999"], &["`table 99999`", "Table III"]),
        (&["--word", "blockchain"], &["`blockchain`"]),
        (&["--at", "VIII", "--word", "QSGD"], &["`VIII`", "III-B4"]),
    ] {
        let output = epochcost(&[&["audit", "p2p"], arguments].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        for part in parts {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}

#[test]
fn a_sentence_and_its_readings_are_one_block() {
    let asked = ["p2p", "--at", "V-B2", "--word", "ratio of the"];
    let says = [
        "the ratio of the cost on Lambda to that on instances falls",
        "every smaller size of batch has a lower ratio",
        "the difference of the two costs in USD falls",
    ];
    let all = audited(&asked);
    let sentences = all["sentences"].as_array().unwrap();
    let mut blocks = sentences.iter();
    let is_its = |one: &&Value| one["readings"][0]["statement"] == "ratio-falls";
    let block = blocks.find(is_its).unwrap();
    let readings = block["readings"].as_array().unwrap();
    assert_eq!(readings.len(), 3);
    assert_eq!(block["outcome"], Value::Null, "it depends on the reading");
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    let asked_page = [&asked[..], &["--html", page.to_str().unwrap()]].concat();
    let plain = text(&asked_page);
    let markdown = text(&[&asked[..], &["--markdown"]].concat());
    for shown in [plain.clone(), markdown, fs::read_to_string(page).unwrap()] {
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        // A page also names the sentence as the heading of its block.
        let main = shown.rfind(says[0]).unwrap();
        let readings = [says[1], says[2]].map(|says| shown.find(says).unwrap());
        assert!(main < readings[0] && readings[0] < readings[1], "{shown}");
        let between = &shown[main..readings[1]];
        assert!(!between.contains("§V-B2 ¶6"), "{between}");
        assert!(between.matches("in another reading: ").count() >= 2);
    }
    assert!(
        plain.contains("\n  differs  §V-B2 ¶6: the ratio"),
        "{plain}"
    );
    assert!(
        plain.contains("\n      agrees  in another reading: "),
        "{plain}"
    );
    // The whole audit has each sentence once, and a reading below its own.
    let whole = text(&["p2p"]);
    let whole = whole.split_once("\n\n").unwrap().1;
    let times = whole.matches("the ratio of the cost on Lambda to").count();
    assert_eq!(times, 2, "of V-B2 and of VI-A");
    let page = text(&["p2p", "--markdown"]);
    assert!(!page.contains("| inputs |\n| --- | --- | --: | --: | --- | --- |\n\n"));
    let of_all = audited(&[]);
    let ids = |field: &str| of_all[field].as_array().unwrap().len();
    let [sentences, statements] = ["sentences", "statements"].map(ids);
    assert!(sentences < statements);
}

#[test]
fn figures_of_the_authors_data_are_counted_apart() {
    let all = audited(&["kubeml"]);
    let findings = all["findings"].as_array().unwrap();
    let inputs = |one: &Value| one["inputs"].as_array().unwrap().clone();
    let is_data = |input: &Value| input["authors_data"] == true;
    let checked = findings.iter().filter(|one| !inputs(one).is_empty());
    let of_data = checked
        .clone()
        .filter(|one| inputs(one).iter().any(is_data));
    let (checked, of_data) = (checked.count(), of_data.count());
    assert!(of_data > 400 && of_data < checked, "{of_data} of {checked}");
    let printed = checked - of_data;
    let counts = format!("{printed} printed in the paper, {of_data} in its authors' data");
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain = flat(&text(&["kubeml"]));
    assert!(plain.contains(&counts), "{counts}: {plain}");
    for (file, is_marked) in [
        ("figures34.csv:9:seconds_to_target", true),
        ("kubeml_text.csv:4:value", false),
    ] {
        let marked = plain.contains(&format!("kubeml/{file}, authors' data)"));
        assert_eq!(marked, is_marked, "{file}");
    }
    assert!(!flat(&text(&["p2p"])).contains("authors' data"));
    // The marker is a field of a table.
    let directory = tempfile::tempdir().unwrap();
    made_up(directory.path());
    let (path, name) = (
        directory.path().join("paper.yaml"),
        directory.path().to_str().unwrap(),
    );
    assert!(!flat(&text(&[name])).contains("authors' data"));
    replace(&path, "keys: [k]", "keys: [k]\n    authors_data: true");
    assert!(flat(&text(&[name])).contains("3 in its authors' data"));
    replace(&path, "authors_data: true", "authors_data: 7");
    let message = String::from_utf8(epochcost(&["audit", name]).stderr).unwrap();
    assert!(message.contains("paper.yaml:7:"), "{message}");
}
