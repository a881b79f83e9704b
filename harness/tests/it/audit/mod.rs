//! `epochcost audit`: findings are instances of the papers' statements, and follow the cells.

use serde_json::Value;

use crate::support::{Ended, Scene, cases, holds, items, lacks, root};

/// Held and counted instances of every statement over the figures as they are printed.
const MARKS: &str = include_str!("marks.csv");

fn audit(arguments: &str) -> Ended {
    Scene::empty().run(&format!("audit {arguments}"))
}

/// A copy of the published tables with one text in one file replaced.
fn with(file: &str, before: &str, after: &str) -> Scene {
    let scene = Scene::copy_of(&root().join("experiments/published"));
    replace(&scene, file, before, after);
    scene
}

/// Replaces a text that the file has once.
#[track_caller]
fn replace(scene: &Scene, file: &str, before: &str, after: &str) {
    let count = scene.read(file).matches(before).count();
    assert_eq!(count, 1, "{before} in {file}");
    scene.edit(file, before, after);
}

#[track_caller]
fn audited(arguments: &str) -> Value {
    Scene::empty().json(&format!("audit --json {arguments}"))
}

/// Held and counted instances of a statement.
#[track_caller]
fn mark(audited: &Value, paper: &str, statement: &str) -> [u64; 2] {
    let mut all = items(audited, "statements").iter();
    let mark = all.find(|mark| mark["paper"] == paper && mark["statement"] == statement);
    ["held", "counted"].map(|field| mark.unwrap()[field].as_u64().unwrap())
}

/// Left and right side of the instance of a statement in that row.
#[track_caller]
fn sides(audited: &Value, statement: &str, row: &str) -> [f64; 2] {
    let mut all = items(audited, "findings").iter();
    let found = all.find(|one| one["statement"] == statement && one["row"] == row);
    let found = found.unwrap_or_else(|| panic!("{statement}, {row}"));
    ["left", "right"].map(|side| found["compared"][0][side]["value"].as_f64().unwrap())
}

#[test]
fn every_statement_has_its_mark() {
    let all = audited("");
    assert_eq!(all["schema_version"]["major"], 2);
    let mut found = String::from("paper,statement,outcome,held,counted\n");
    for mark in items(&all, "statements") {
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
    let all = audited("");
    for ([file, before, after, paper, statement, held], _) in cases(&[
        "cp_table2 | 0.000442 | 0.000490 | cost-performance | cost-of-a-function | 6",
        "cp_table2 | 14.343,24,344.23 | 28.686,24,344.23 | cost-performance | total-seconds | 7",
        "cp_table3 | 84.96,83.2 | 61.2,83.2 | cost-performance | time-to-80 | 1",
        "cp_table3 | 1367.01,85.05 | 1367.01,84.05 | cost-performance | accuracy | 1",
        "cp_communication | 21.88,8.36 | 8.36,21.88 | cost-performance | larger-models | 1",
        "cp_table2 | 0.01344,0.0538 | 0.0538,0.0538 | cost-performance | one-machine | 1",
        "p2p_table2_serverless | 0.03451 | 0.03555 | p2p | cost-with-lambda | 4",
        "p2p_table1 | update,141.5,530,0.0052 | update,141.5,530,0.15 | p2p | model-update | 3",
        "p2p_table1 | 194.82,600,14.93 | 194.82,600,0.01 | p2p | gradients-seconds | 5",
        "kubeml_text | infinity\",2.75 | infinity\",1.25 | kubeml | batches | 1",
    ]) {
        let scene = with(&format!("{file}.csv"), before, after);
        let changed = scene.json("audit --json --published .");
        let [now, was] = [&changed, &all].map(|audited| mark(audited, paper, statement)[0]);
        let change = format!("{statement}: {before} to {after}");
        assert_eq!(now.to_string(), held, "{change}");
        assert_ne!(now, was, "{change}");
    }
}

#[test]
fn figures_are_those_of_the_papers_own_formulas() {
    let all = audited("");
    let function = 14.382 * 2.048 * 0.0000166667;
    // 24 steps of 16 writes and 24 reads.
    let requests = 384.0 * 5e-6 + 576.0 * 4e-7;
    let epochs = 1367.01 * 60.0 / 345.17;
    let others = 1.5 * 70.33 * 60.0 / 92.0;
    let with_lambda = (0.0000233 * 118.0 + 0.00000639) * 12.9;
    for (statement, row, left, right) in [
        (
            "cost-of-a-function",
            "MobileNet, AllReduce",
            0.000445,
            function,
        ),
        ("requests", "MobileNet, ScatterReduce", requests, 0.000422),
        (
            "epochs-of-exchanges",
            "AllReduce, MobileNet",
            epochs,
            others,
        ),
        ("parameters", "VGG-11", 132_900_000.0, 128_807_306.0),
        ("parameters", "ResNet-18", 11_700_000.0, 11_173_962.0),
        ("cost-with-lambda", "128", 0.03451, with_lambda),
        ("small-models", "1000", 1_235_496.0 * 4.0 / 1e6, 5.0),
    ] {
        let found = sides(&all, statement, row);
        for (found, expected) in found.into_iter().zip([left, right]) {
            let is = (found / expected - 1.0).abs() < 1e-9;
            assert!(is, "{statement}, {row}: {found}");
        }
    }
    let mut all = items(&all, "findings").iter();
    let caption = all.find(|one| one["statement"] == "figure2-caption");
    assert!(caption.unwrap()["compared"][0]["left"]["value"].as_f64() < Some(0.0));
}

/// A further paper is a folder: no program changes for it.
#[test]
fn a_made_up_paper_is_audited() {
    let paper = "cite: Nobody 2026\ntables:\n  table1:\n    place: Table 1\n    file: table1.csv\n    keys: [system]\n    columns:\n      steps: {setup: true}\n      step_s: {unit: s}\n      minutes: {unit: min}\n    follows:\n      minutes: minutes = steps * step_s\n";
    let table = "system,steps,step_s,minutes\nfast,60,2,2.0\nslow,60,5,5.0\nnew,60,3,4.0\n";
    let statements = "id,place,kind,weight,reading_of,says,formula,why\nfirst,abstract,ranking,1,,fast is fastest,\"argmin(system, minutes) = fast\",\ntwice,§2,value,2,,slow takes twice as long as any other,minutes[slow] >= 2 * minutes[not slow],\nreason,§2,cause,3,,it is fast by design,,no figure isolates it\n";
    let notes =
        "about,when,note\ntwice,differs,slow takes {minutes[slow] / minutes} times as long\n";
    let scene = Scene::of("made-up/paper.yaml", paper)
        .with("made-up/table1.csv", table)
        .with("made-up/statements.csv", statements)
        .with("made-up/notes.csv", notes);
    let all = scene.json("audit --json ./made-up");
    let mut within = scene.command("audit --json .");
    let within = scene.end(within.current_dir(scene.file("made-up")));
    assert_eq!(within.json()["statements"], all["statements"]);
    let marks = ["minutes", "first", "twice", "reason"].map(|id| mark(&all, "made-up", id));
    assert_eq!(marks, [[2, 3], [1, 1], [1, 2], [0, 0]]);
    let words = [
        "slow takes 1.25 times as long",
        "fast is fastest",
        "no figure isolates it",
    ];
    holds(scene.text("audit ./made-up"), &words);
    // Damage names file, line and column.
    for ([place, before, after], words) in cases(&[
        "statements.csv:3: | minutes[slow] >= | minutes[slw] >= | did you mean `slow`",
        "statements.csv:4: | ,cause, | ,reason, | write ranking",
        "paper.yaml:12: | minutes = steps * | minutes = stepz * | did you mean `steps`",
        "paper.yaml:10 | unit: min | units: min | units",
        "table1.csv:2: | fast,60,2,2.0 | fast,60,two,2.0 | finite number",
        "table1.csv:3: | slow,60,5,5.0 | fast,60,5,5.0 | twice",
        "notes.csv:2: | {minutes[slow] | {minute[slow] | did you mean `minutes`",
        "statements.csv:5: | reason,§2,cause,3,, | third,§2,value,2,twice,slow takes 20 minutes,minutes[slow] = 20,\n\
         fourth,§2,value,2,third,about 20,minutes[slow] ~ 20,\nreason,§2,cause,3,, | is a reading of \"twice\" itself",
        "statements.csv:4: | reason,§2,cause,3,, | reason,§2,cause,3,first, | has other places",
        "notes.csv:2: | twice,differs | thrice,differs | no statement",
    ]) {
        let (file, _) = place.split_once(':').unwrap();
        let file = format!("made-up/{file}");
        let whole = scene.read(&file);
        replace(&scene, &file, before, after);
        let refused = scene.run("audit ./made-up").ends(2);
        refused.says(&[place]).says(&words);
        scene.write(&file, &whole);
    }
}

#[test]
fn a_damaged_table_is_located() {
    for ([file, before, after], words) in cases(&[
        "cp_table2.csv | 14.343 | fast | cp_table2.csv:3:25 | \"fast\"",
        "cp_table2.csv | 14.343 | -14.343 | cp_table2.csv:3:25 | -14.343 s | 0 or more",
        "cp_table3.csv | MLLess | MLMore | MLLess",
    ]) {
        let ended = with(file, before, after).run("audit --published .");
        ended.ends(2).says(&words);
    }
}

#[test]
fn papers_are_chosen_by_name() {
    let all = audited("p2p");
    let all = items(&all, "findings");
    assert!(!all.is_empty() && all.iter().all(|finding| finding["paper"] == "p2p"));
    let known = "there are cost-performance, kubeml, p2p";
    audit("p3p").ends(2).says(&[known]);
    let plain = text("cost-performance");
    assert!(plain.contains("Barrak et al. 2025") && !plain.contains("Barrak et al. 2023"));
    let mut lines = plain.lines();
    assert!(lines.all(|line| line.chars().count() <= 100), "{plain}");
    assert!(text("--markdown").starts_with("# Audit"));
}

#[track_caller]
fn text(arguments: &str) -> String {
    audit(arguments).ends(0).text()
}

/// The sentences that are chosen: places and statements of each one's readings.
#[track_caller]
fn chosen(arguments: &str) -> Vec<[String; 2]> {
    let all = audited(arguments);
    let fields = |one: &Value, name: &str| {
        let readings = items(one, "readings").iter();
        let texts: Vec<&str> = readings.map(|one| one[name].as_str().unwrap()).collect();
        texts.join("; ")
    };
    let sentences = items(&all, "sentences").iter();
    let chosen = sentences.map(|one| ["place", "statement"].map(|name| fields(one, name)));
    chosen.collect()
}

#[test]
fn sentences_are_chosen_by_their_place() {
    let count = |paper, place| chosen(&format!("{paper} --at '{place}'")).len();
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
        let own = chosen(&format!("p2p --at '{place}'"));
        assert!(own.iter().all(|[own, _]| own.contains(part)), "{own:?}");
    }
    let [all, one, two] = ["V-B", "V-B1", "V-B2"].map(|place| count("p2p", place));
    assert!(all > one.max(two));
    let five = chosen("kubeml --at 'figure 5'");
    assert!(five.iter().any(|[place, _]| place == "Figures 3 to 5"));
    assert!(five.iter().all(|[place, _]| place != "Figures 3 and 4"));
    // `V-B2` is not the beginning of `V-B21`.
    let scene = made_up();
    let name = scene.path().display();
    let only = chosen(&format!("{name} --at §V-B2"));
    // A sentence comes before its readings, also where its file has it behind them.
    assert_eq!(only, [["§V-B2 ¶6; §V-B2 ¶6", "first; alike"]]);
    assert_eq!(chosen(&format!("{name} --at v-b")).len(), 2);
}

/// A paper whose sections differ in a digit behind their names.
fn made_up() -> Scene {
    let table = "cite: Nobody 2026\ntables:\n  t:\n    place: Table 1\n    file: t.csv\n    keys: [k]\n    columns:\n      s: {unit: s}\n";
    let lines = "id,place,kind,weight,reading_of,says,formula,why\nalike,§V-B2 ¶6,ranking,1,first,a is faster than b,s[a] < s[b],\nfirst,§V-B2 ¶6,ranking,1,,a is fastest,\"argmin(k, s) = a\",\nother,§V-B21 ¶1,ranking,2,,b is slowest,\"argmax(k, s) = b\",\n";
    Scene::of("paper.yaml", table)
        .with("t.csv", "k,s\na,1.5\nb,2.5\n")
        .with("statements.csv", lines)
}

#[test]
fn sentences_are_chosen_by_a_word_of_them_or_of_their_formula() {
    let all = audited("p2p --word 'COSTS more'");
    let marks = items(&all, "statements");
    assert!(marks.iter().any(|mark| mark["statement"] == "costs-more"));
    assert!(marks.len() < 12, "{}", marks.len());
    let by_formula = chosen("p2p --word vgg_memory_gb");
    assert_eq!(by_formula.len(), 1, "{by_formula:?}");
    let both = chosen("p2p --word memory --at V-B2");
    assert!(both.iter().all(|[place, _]| place.contains("§V-B2")));
    assert!(!both.is_empty() && both.len() < chosen("p2p --word memory").len());
    // What agrees and what cannot be checked is what the reader asks for, each figure in full.
    let shown = text("p2p --at V-B2 --word 'choose an'");
    holds(&shown, &["cannot be checked  §V-B2 ¶7"]);
    let shown = text("p2p --at V-B2 --word 'faster and costs'");
    let figures = ["table2.cost_per_peer_usd >", "p2p_table3_instance.csv:2:"];
    holds(&shown, &["agrees  abstract ¶2", figures[0], figures[1]]);
    assert!(!shown.contains("main conclusions"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn a_place_or_word_that_no_sentence_has_is_answered_with_those_there_are() {
    for ([arguments], parts) in cases(&[
        "--at V-B9 | `V-B9` | `V-B2` | Table I",
        "--at § | `§` | V-B2",
        "--at 'table 99999' | `table 99999` | Table III",
        "--word blockchain | `blockchain`",
        "--at VIII --word QSGD | `VIII` | III-B4",
    ]) {
        audit(&format!("p2p {arguments}")).ends(2).says(&parts);
    }
    // The places of other papers are none that was asked about.
    let told = |papers: &str| audit(&format!("{papers} --at nowhere")).ends(2).message();
    lacks(told("p2p"), &["4.2"]);
    holds(told("cost-performance"), &["4.2"]);
    holds(told("p2p cost-performance"), &["4.2", "V-B2"]);
}

/// Of one paper they were once said twice in a sentence.
#[test]
fn figures_that_do_not_follow_are_counted_by_paper_where_there_are_several() {
    let said = "do not follow from what the paper and its authors give";
    let [one, several] = [". ", ": "].map(|end| format!("{said}{end}"));
    let words = ["figures of Barrak et al. 2025, ", &one];
    holds(flat(&text("cost-performance")), &words);
    holds(flat(&text("cost-performance p2p")), &[&several]);
}

/// Tables and inequalities are further off, and are not what is compared.
#[test]
fn what_is_furthest_off_says_of_what() {
    let said = "Furthest off among equalities of sentences that every reading contradicts: Barrak";
    holds(flat(&text("p2p")), &[said]);
}

/// What cannot be checked was once counted among the figures of which some do not follow.
#[test]
fn figures_that_cannot_be_checked_are_not_among_those_that_follow() {
    let counts = |arguments: &str| {
        let all = audited(arguments);
        let findings = items(&all, "findings");
        let of = |outcome: &str| {
            let is_its = |one: &&Value| one["outcome"] == outcome;
            findings.iter().filter(is_its).count()
        };
        assert!(of("cannot_be_checked") > 0);
        [of("differs"), of("differs") + of("agrees")]
    };
    let [off, checked] = counts("p2p");
    let said = format!("Of {checked} checked figures of Barrak et al. 2023, {off} do not follow");
    holds(flat(&text("p2p")), &[&said]);
    let [all_off, all] = counts("");
    let said = format!("Of {all} checked figures, {all_off} do not follow");
    let of_one = format!("{off} of {checked} in Barrak et al. 2023");
    holds(flat(&text("")), &[&said, &of_one]);
}

#[test]
fn a_sentence_and_its_readings_are_one_block() {
    let asked = "p2p --at V-B2 --word 'ratio of the'";
    let says = [
        "the ratio of the cost on Lambda to that on instances falls",
        "every smaller size of batch has a lower ratio",
        "the difference of the two costs in USD falls",
    ];
    let all = audited(asked);
    let mut blocks = items(&all, "sentences").iter();
    let is_its = |one: &&Value| one["readings"][0]["statement"] == "ratio-falls";
    let block = blocks.find(is_its).unwrap();
    assert_eq!(items(block, "readings").len(), 3);
    assert_eq!(block["outcome"], Value::Null, "it depends on the reading");
    let scene = Scene::empty();
    let plain = scene.text(&format!("audit {asked} --html page.html"));
    let markdown = text(&format!("{asked} --markdown"));
    for shown in [&plain, &markdown, &scene.read("page.html")] {
        let shown = flat(shown);
        // A page also names the sentence as the heading of its block.
        let main = shown.rfind(says[0]).unwrap();
        let readings = [says[1], says[2]].map(|says| shown.find(says).unwrap());
        assert!(main < readings[0] && readings[0] < readings[1], "{shown}");
        let between = &shown[main..readings[1]];
        assert!(!between.contains("§V-B2 ¶6"), "{between}");
        assert!(between.matches("in another reading: ").count() >= 2);
    }
    let main = "\n  differs  §V-B2 ¶6: the ratio";
    holds(&plain, &[main, "\n      agrees  in another reading: "]);
    // The whole audit has each sentence once, and a reading below its own.
    let whole = text("p2p");
    let whole = whole.split_once("\n\n").unwrap().1;
    let times = whole.matches("the ratio of the cost on Lambda to").count();
    assert_eq!(times, 2, "of V-B2 and of VI-A");
    let page = text("p2p --markdown");
    assert!(!page.contains("| inputs |\n| --- | --- | --: | --: | --- | --- |\n\n"));
    let of_all = audited("");
    assert!(items(&of_all, "sentences").len() < items(&of_all, "statements").len());
}

/// In one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn figures_of_the_authors_data_are_counted_apart() {
    let all = audited("kubeml");
    let inputs = items(&all, "findings")
        .iter()
        .map(|one| items(one, "inputs"));
    let checked = inputs.filter(|inputs| !inputs.is_empty());
    let is_data = |input: &Value| input["authors_data"] == true;
    let of_data = checked.clone().filter(|inputs| inputs.iter().any(is_data));
    let (checked, of_data) = (checked.count(), of_data.count());
    assert!(of_data > 400 && of_data < checked, "{of_data} of {checked}");
    let printed = checked - of_data;
    let counts = format!("{printed} printed in the paper, {of_data} in its authors' data");
    let plain = flat(&text("kubeml"));
    holds(&plain, &[&counts]);
    for (file, is_marked) in [
        ("figures34.csv:9:seconds_to_target", true),
        ("kubeml_text.csv:4:value", false),
    ] {
        let marked = plain.contains(&format!("kubeml/{file}, authors' data)"));
        assert_eq!(marked, is_marked, "{file}");
    }
    assert!(!flat(&text("p2p")).contains("authors' data"));
    // The marker is a field of a table.
    let scene = made_up();
    let audit = format!("audit {}", scene.path().display());
    let shown = || flat(&scene.text(&audit));
    assert!(!shown().contains("authors' data"));
    let marked = "keys: [k]\n    authors_data: true";
    replace(&scene, "paper.yaml", "keys: [k]", marked);
    holds(shown(), &["3 in its authors' data"]);
    let [is, seven] = ["authors_data: true", "authors_data: 7"];
    replace(&scene, "paper.yaml", is, seven);
    scene.run(&audit).ends(2).says(&["paper.yaml:7:"]);
}
