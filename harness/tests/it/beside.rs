//! A made-up paper: a folder with a table, a drawing and sentences, and experiments that stand beside
//! it, by the program itself.

use std::collections::BTreeSet;
use std::fs;

use epochcost_experiment::yaml_files;
use epochcost_judge::audit;
use serde_json::{Value, json};

use crate::support::{Scene, cases, holds, items, load, root, sized};

const PAPER: &str = "\
cite: Nobody et al. 2020
names:
  mobilenet: [MobileNet]
  allreduce: [AllReduce]
  spirt: [SPIRT, Spirt]
tables:
  table1:
    place: Table 1
    file: table1.csv
    keys: [framework]
    fixed: {model: MobileNet}
    columns:
      epoch_min: {unit: min, metric: seconds_per_epoch}
      total_usd: {unit: USD, metric: total_cost_usd}
      worker_usd: {unit: USD, metric: cost_per_worker_usd}
      requests: {unit: count, metric: puts}
    follows:
      total: total_usd = workers * worker_usd
  figure1:
    place: Figure 1
    keys: [framework, stage]
    columns:
      stage_s: {unit: s, metric_by: {stage: {writing: put, reading: get}}}
";

const TABLE: &str = "framework,epoch_min,total_usd,worker_usd,requests\n\
                     AllReduce,0.30,0.0021,0.00052,15\n\
                     SPIRT,0.2,0.0100,0.0025,9\n";

const STATEMENTS: &str = "\
id,place,kind,weight,reading_of,says,formula,why
cheaper,§1,ranking,1,,AllReduce costs less,total_usd[AllReduce] < 10 * total_usd[SPIRT],
writes,§2,drawing,2,,SPIRT writes longer than it reads,\"stage_s[SPIRT, writing] > stage_s[SPIRT, reading]\",
factor,§3,value,2,,SPIRT takes twice as long,epoch_min[SPIRT] / epoch_min[AllReduce] = 2.0,
memory,§3,cause,3,,memory is the cause,,no number isolates it
";

const SETUPS: &str = "name,value,unit,place,field\nworkers,4,,§1,workers\n";

const EXPERIMENT: &str = "\
name: item
batch_size: 512
memory_mb: 3000
simulation: {compute: [stated-flops], limits: false, draws: 60}
systems:
  - {system: spirt, name: spirt}
  - {system: allreduce, name: plain}
  - {system: allreduce, name: log, settings: {rewrites_log: true}}
beside:
  - table: table1
    keys: {framework: row}
    rename: {plain: AllReduce, spirt: Spirt}
    causes: {log objects rewritten: {plain: log}}
  - {table: figure1, keys: {framework: row}, where: {row: spirt}, rename: {spirt: SPIRT}}
";

/// A directory of papers with one, and its experiment.
fn scene(experiment: &str) -> Scene {
    Scene::of("made-up/paper.yaml", PAPER)
        .with("made-up/table1.csv", TABLE)
        .with("made-up/statements.csv", STATEMENTS)
        .with("made-up/setups.csv", SETUPS)
        .with("made-up/item.yaml", &sized(experiment))
}

/// What a run of the experiment prints.
#[track_caller]
fn run(scene: &Scene) -> Value {
    let summary = scene.json("run made-up/item.yaml --out out --json");
    fs::remove_dir_all(scene.file("out")).unwrap();
    summary
}

#[track_caller]
fn reproduce(scene: &Scene, arguments: &str, code: i32) -> Value {
    let all = "reproduce --directory . --out out --json";
    scene.run(&format!("{all} {arguments}")).ends(code).json()
}

#[track_caller]
fn refused(scene: &Scene, words: &[&str]) {
    let refused = scene.run("check made-up/item.yaml").ends(2);
    refused.says(words).says(&["item.yaml:", "help: "]);
}

/// Writes set-ups of a table's rows.
fn state(scene: &Scene, line: &str) {
    let text = format!("name,value,unit,place,for,field\n{line}\n");
    scene.write("made-up/setups.csv", &text);
}

fn verdict<'a>(summary: &'a Value, claim: &str) -> &'a Value {
    let mut verdicts = items(summary, "verdicts").iter();
    let found = verdicts.find(|verdict| verdict["claim"] == claim);
    found.unwrap_or_else(|| panic!("no verdict on {claim}: {summary}"))
}

#[test]
fn a_paper_is_a_folder_and_takes_no_code() {
    let scene = scene(EXPERIMENT);
    let summary = run(&scene);
    let verdict = |claim: &str| verdict(&summary, claim);
    assert_eq!(items(&summary, "verdicts").len(), 8 + 3, "{summary:#}");
    // A printed value, in its own unit, with its cell, its evidence and its cause.
    let epoch = verdict("epoch_min[AllReduce]");
    assert_eq!(epoch["unit"], "min");
    assert_eq!(epoch["published"], 0.3);
    assert_eq!(epoch["cell"], "table1.csv:2:epoch_min");
    assert_eq!(epoch["source"], "Nobody et al. 2020, Table 1");
    assert!(epoch["evidence"].is_number(), "{epoch}");
    assert!(epoch["observed_ci95"].is_array(), "{epoch}");
    assert_eq!(epoch["causes"][0]["row"], "log");
    let change = epoch["causes"][0]["change"].as_f64();
    assert!(change > Some(0.0), "{epoch}");
    // A consequence names what it follows from; counts are equal or not.
    let total = verdict("total_usd[SPIRT]");
    assert_eq!(total["kind"], "consequence");
    assert_eq!(total["of"], json!(["worker_usd[SPIRT]"]));
    assert_eq!(verdict("requests[AllReduce]")["verdict"], "agrees");
    assert_eq!(verdict("requests[SPIRT]")["verdict"], "differs");
    // Sentences over the same rows: an order by draws, a figure by evidence.
    verdict("SPIRT writes longer than it reads");
    let cheaper = verdict("AllReduce costs less");
    assert_eq!(cheaper["verdict"], "agrees");
    assert_eq!(cheaper["draws"]["draws"], 60);
    let factor = verdict("SPIRT takes twice as long");
    assert_eq!(factor["published"], 2.0);
    assert!(factor["evidence"].is_number(), "{factor}");
    // What no run can tell is the audit's.
    let audit = scene.run("audit ./made-up --json").text();
    holds(&audit, &["no number isolates it", "not printed"]);
}

/// Whatever is drawn, a printed number that is ours is not against the paper.
#[test]
fn a_printed_number_that_is_ours_agrees() {
    let scene = scene(EXPERIMENT);
    let summary = run(&scene);
    let mut table = "framework,epoch_min,total_usd,worker_usd,requests\n".to_owned();
    for framework in ["AllReduce", "SPIRT"] {
        table += framework;
        for column in ["epoch_min", "total_usd", "worker_usd", "requests"] {
            let verdict = verdict(&summary, &format!("{column}[{framework}]"));
            table += &format!(",{}", verdict["observed"].as_f64().unwrap());
        }
        table += "\n";
    }
    scene.write("made-up/table1.csv", &table);
    for verdict in items(&run(&scene), "verdicts") {
        let is_cell = verdict["cell"].is_string();
        let against = ["differs", "rather_differs"];
        let word = verdict["verdict"].as_str().unwrap();
        assert!(!is_cell || !against.contains(&word), "{verdict}");
    }
    // A changed cell changes its marks.
    scene.edit("made-up/table1.csv", "AllReduce,", "AllReduce,9");
    let changed = run(&scene);
    let epoch = verdict(&changed, "epoch_min[AllReduce]");
    assert_eq!(epoch["verdict"], "differs");
}

#[test]
fn a_verdict_that_is_not_the_recorded_one_is_an_exit_code() {
    let scene = scene(EXPERIMENT);
    let new = reproduce(&scene, "", 3);
    assert_eq!(items(&new["record"], "new").len(), 11);
    assert!(!scene.has("made-up/verdicts.csv"));
    reproduce(&scene, "--accept 'the first run'", 0);
    let recorded = scene.read("made-up/verdicts.csv");
    assert_eq!(recorded.matches("the first run").count(), 11, "{recorded}");
    for _ in 0..2 {
        let same = reproduce(&scene, "", 0);
        assert_eq!(same["record"]["compared"], 11);
    }
    // One changed, one new, one lost.
    let line = |claim: &str| recorded.lines().find(|line| line.contains(claim)).unwrap();
    let requests = line("requests[AllReduce]");
    let changed = recorded.replace(requests, &requests.replace("agrees", "open"));
    let free = "item,SPIRT is free,agrees,2026-01-01,once";
    let changed = changed.replace(line("AllReduce costs less"), free);
    scene.write("made-up/verdicts.csv", &changed);
    let record = &reproduce(&scene, "", 3)["record"];
    assert_eq!(record["different"][0]["claim"], "requests[AllReduce]");
    assert_eq!(record["new"], json!(["made-up/item: AllReduce costs less"]));
    assert_eq!(record["lost"], json!(["made-up/item: SPIRT is free"]));
    let words = ["SPIRT is free", "9 of 10 verdicts"];
    holds(scene.read("out/report.html"), &words);
    // What stays as it was keeps its day and reason.
    reproduce(&scene, "--accept 'a better model'", 0);
    let again = scene.read("made-up/verdicts.csv");
    assert_eq!(again.matches("a better model").count(), 2, "{again}");
    assert!(!again.contains("SPIRT is free"));
    scene.run("reproduce --directory . --accept ' '").ends(2);
}

/// Its page has its tables over all experiments, by each, and on the other basis; and what was
/// predicted.
#[test]
fn the_page_of_a_paper_switches_between_experiments_and_counts_predictions() {
    let predictions = "experiment,claim,predicts,commit,then\n";
    let made = "item,requests[AllReduce],15 to 15,,\nitem,AllReduce costs less,differs,,\n\
                item,SPIRT is free,agrees,,\n";
    let made = format!("{predictions}{made}");
    let scene = scene(EXPERIMENT).with("made-up/predictions.csv", &made);
    reproduce(&scene, "--accept 'the first run'", 0);
    let page = scene.read("out/made-up.html");
    let words = [
        "> all experiments</label>",
        "> item</label>",
        "> item, wall clock and whole bill</label>",
        "cost full usd</small>",
        "Of 3 outcomes that were predicted before they were first recorded, 1 came true, 1 did not, and 1 is \
         undecided.",
    ];
    holds(&page, &words);
    assert_eq!(page.matches(" checked>").count(), 1);
    let mistaken = format!("{predictions}item,c,probably,,\n");
    scene.write("made-up/predictions.csv", &mistaken);
    refused(&scene, &["predictions.csv:2:", "LOW to HIGH"]);
}

/// An experiment by another name makes new claims, and those of the old name are missed.
#[test]
fn an_experiment_that_is_gone_is_missed() {
    let scene = scene(EXPERIMENT);
    reproduce(&scene, "--accept 'the first run'", 0);
    let [item, other] = ["item", "other"].map(|name| scene.file(&format!("made-up/{name}.yaml")));
    fs::rename(item, other).unwrap();
    let renamed = reproduce(&scene, "", 3);
    let lost = items(&renamed["record"], "lost");
    assert_eq!(lost.len(), 11, "{lost:?}");
    assert!(lost.contains(&"made-up/item: epoch_min[AllReduce]".into()));
    assert_eq!(items(&renamed["record"], "new").len(), 11);
    // Nothing is missed of what was not asked for.
    let one = reproduce(&scene, "made-up/other", 3);
    assert_eq!(items(&one["record"], "lost").len(), 0);
    reproduce(&scene, "--accept 'a better name'", 0);
    assert!(!scene.read("made-up/verdicts.csv").contains("\nitem,"));
    reproduce(&scene, "", 0);
}

#[test]
fn what_an_entry_names_is_there() {
    let scene = scene(EXPERIMENT);
    for ([from, to], words) in cases(&[
        "table: table1 | table: tabel1 | beside.0.table | did you mean `table1`",
        "keys: {framework: row} | keys: {framewrk: row} | no key `framewrk` | framework",
        "keys: {framework: row} | keys: {framework: rwo} | no field of rows | system",
        "keys: {framework: row}\n | \n | nothing says what the key `framework` | `at`",
        "plain: AllReduce, spirt: Spirt | plain: AllRed, spirt: Spit | no row stands beside",
        "{plain: AllReduce, | {log: AllReduce, plain: AllReduce, | two rows stand beside epoch_min[AllReduce] | `where`",
        "rename: {plain | columns: [epoch]\n    rename: {plain | no metric observes a column `epoch`",
        "rename: {plain | target: 0.8\n    rename: {plain | give `target` with time_to_accuracy",
        "beside: | statements: [{of: cheapr, formula: bytes >= 0}]\nbeside: | statements.0.of | did you mean `cheaper`",
        "beside: | statements: [{of: cheaper, formula: \"bytes[plan] >= 0\"}]\nbeside: | statements.0.formula | no row `plan`",
        "beside: | statements: [{of: cheaper, formula: bytes >= 0}]\nbeside: | two claims are | `about`",
    ]) {
        let text = EXPERIMENT.replacen(from, to, 1);
        assert_ne!(text, EXPERIMENT, "{from}");
        scene.write("made-up/item.yaml", &sized(&text));
        refused(&scene, &words);
    }
    // The paper's own files are located as well.
    scene.write("made-up/item.yaml", &sized(EXPERIMENT));
    for ([from, to], words) in cases(&[
        "metric: seconds_per_epoch | metric: seconds | paper.yaml: | no metric `seconds`",
        "{unit: min, | {unit: MB, | is in MB | seconds_per_epoch",
    ]) {
        scene.write("made-up/paper.yaml", &PAPER.replace(from, to));
        refused(&scene, &words);
    }
    scene.write("made-up/paper.yaml", PAPER);
    let verdicts = "experiment,claim,verdict,date,why\nitem,c,maybe,,\n";
    scene.write("made-up/verdicts.csv", verdicts);
    refused(&scene, &["verdicts.csv:2:", "rather_agrees"]);
    fs::remove_file(scene.file("made-up/paper.yaml")).unwrap();
    refused(&scene, &["there is no paper.yaml beside the file"]);
}

#[test]
fn figures_of_another_kind_are_open() {
    let entry = "    not_comparable: {epoch_min: minutes of another program}\n    causes:";
    let summary = run(&scene(&EXPERIMENT.replace("    causes:", entry)));
    let epoch = verdict(&summary, "epoch_min[AllReduce]");
    holds(epoch["reason"].as_str().unwrap(), &["another program"]);
    for (claim, expected) in [
        ("epoch_min[AllReduce]", "open"),
        // Neither is a sentence that reads it.
        ("SPIRT takes twice as long", "open"),
        ("AllReduce costs less", "agrees"),
    ] {
        let verdict = verdict(&summary, claim);
        assert_eq!(verdict["verdict"], expected, "{verdict}");
    }
}

/// What a paper does not say blames nobody.
#[test]
fn what_the_paper_leaves_open_is_open() {
    let scene = scene(EXPERIMENT);
    let before = run(&scene);
    state(&scene, "size_of_files,?,,§2: no size,figure1[reading],");
    let after = run(&scene);
    let [was, writes] =
        [&before, &after].map(|summary| verdict(summary, "SPIRT writes longer than it reads"));
    assert_ne!(was["verdict"], "open", "{was}");
    assert_eq!(writes["verdict"], "open", "{writes}");
    let reason = writes["reason"].as_str().unwrap();
    let why = "the paper leaves the size of files open (§2: no size)";
    assert!(reason.starts_with(why), "{reason}");
    let [was, cheaper] = [&before, &after].map(|summary| verdict(summary, "AllReduce costs less"));
    assert_eq!(was["verdict"], cheaper["verdict"]);
}

#[test]
fn rows_follow_the_set_ups_of_their_table_or_say_why_not() {
    let scene = scene(EXPERIMENT);
    let state = |line: &str| state(&scene, line);
    state("workers,\"2, 4\",,§1,table1,workers");
    run(&scene);
    let eight = "workers,8,,§1,table1,workers";
    state(eight);
    let remedy = "deviates: {workers: REASON}";
    let words = ["item.yaml:18:", "workers 4", "table1: 8 (§1)", remedy];
    refused(&scene, &words);
    let deviates = "deviates: {workers: four are enough}\nbeside:";
    scene.edit("made-up/item.yaml", "beside:", deviates);
    run(&scene);
    state(&eight.replace('8', "4"));
    let reason = "no row leaves a set-up of the paper by `workers`";
    refused(&scene, &["item.yaml:17:21", reason]);
    // What is left open, what is of another table, and what a key of the table stands for, is free.
    scene.write("made-up/item.yaml", &sized(EXPERIMENT));
    for line in [
        "workers,?,,§1,table1,workers",
        "workers,8,,§1,table2,workers",
        "name,other,,§1,table1,row",
    ] {
        state(line);
        run(&scene);
    }
}

/// In the shipped papers, too.
#[test]
fn a_shipped_experiment_that_leaves_a_set_up_is_refused() {
    let scene = Scene::copy_of(&root().join("experiments"));
    for ([item, from, to], field) in cases(&[
        "cost-performance/table2 | batch_size: 512 | batch_size: 256 | batch_size 256",
        "cost-performance/figure2 | workers: 16 | workers: 8 | workers 8",
        "p2p/table3 | workers: 4 | workers: 2 | workers 2",
        // Of one value of a key alone.
        "kubeml/figure4 | learning_rate: 0.1 | learning_rate: 0.01 | learning_rate 0.01",
        "p2p/table1 | squeezenet1_1, instance_type: t2.medium | squeezenet1_1, instance_type: t2.large | \
         instance_type t2.large",
        "p2p/table2 | memory_mb: 1700 | memory_mb: 4400 | memory_mb 4400",
        // A setting that the paper has on.
        "cost-performance/table3 | settings.early_stopping:  | # | settings.early_stopping null",
    ]) {
        let file = format!("{item}.yaml");
        let check = format!("check {file}");
        scene.run(&check).ends(0);
        let text = scene.read(&file);
        assert!(text.contains(from), "{item}: {from}");
        scene.write(&file, &text.replacen(from, to, 1));
        scene.run(&check).ends(2).says(&field);
        scene.write(&file, &text);
    }
}

/// A simulation that has one value for both says nothing of which is more.
#[test]
fn equal_figures_decide_no_strict_order() {
    let scene = scene(EXPERIMENT);
    // A worker's share is one mini-batch, in memory at once with either system.
    let few = "dataset: {name: synthetic-cifar10, train: 2048, test: 10}";
    scene.edit("made-up/item.yaml", "dataset: {name: cifar10}", few);
    scene.edit(
        "made-up/item.yaml",
        "batches_per_worker: 3",
        "batches_per_worker: 1",
    );
    let column = "      peak: {unit: MB, metric: peak_memory_mb}\n    follows:";
    scene.edit("made-up/paper.yaml", "    follows:", column);
    for (from, to) in [
        ("requests\n", "requests,peak\n"),
        (",15\n", ",15,900\n"),
        (",9\n", ",9,1000\n"),
    ] {
        scene.edit("made-up/table1.csv", from, to);
    }
    let statement = "same,§4,ranking,2,,SPIRT holds more,peak[SPIRT] > peak[AllReduce],\n";
    let statements = format!("{STATEMENTS}{statement}");
    scene.write("made-up/statements.csv", &statements);
    let summary = run(&scene);
    let same = verdict(&summary, "SPIRT holds more");
    assert_eq!(same["observed"], 1.0, "{same}");
    assert_eq!(same["verdict"], "open", "{same}");
}

#[test]
fn remarks_of_the_folder_are_shown_with_their_verdicts() {
    let scene = scene(EXPERIMENT).with(
        "made-up/notes.csv",
        "about,experiment,when,note\nepoch_min[SPIRT],item,,SPIRT waits for its peers\n\
         cheaper,item,,AllReduce has fewer functions\nepoch_min,other,,elsewhere\n",
    );
    let summary = run(&scene);
    let note = |claim: &str| verdict(&summary, claim).get("note")?.as_str();
    assert_eq!(note("epoch_min[SPIRT]"), Some("SPIRT waits for its peers"));
    assert_eq!(note("epoch_min[AllReduce]"), None);
    let fewer = "AllReduce has fewer functions";
    assert_eq!(note("AllReduce costs less"), Some(fewer));
}

/// The shipped papers: of a table that experiments stand beside, every observed cell has a row, and every
/// recorded verdict is on a claim of its experiment.
#[test]
fn every_observed_cell_of_the_papers_has_a_row() {
    let experiments = root().join("experiments");
    let mut beside = BTreeSet::new();
    for file in yaml_files(&experiments).unwrap() {
        let experiment = load(&file);
        let lost = &experiment.lost;
        assert!(lost.is_empty(), "{}: {lost:?}", file.display());
        for claim in &experiment.claims {
            let printed = claim.printed.as_ref();
            beside.extend(printed.map(|printed| printed.cell.to_string()));
            let is_recorded = claim.expect.is_some() || !claim.kind.is_of_paper();
            let (file, claim) = (file.display(), &claim.claim);
            assert!(is_recorded, "{file}: no recorded verdict on {claim:?}");
        }
    }
    let names = audit::names().into_iter();
    let folders: Vec<_> = names.map(|name| experiments.join(name)).collect();
    let mut cells = 0;
    for paper in audit::read(&folders, None).unwrap() {
        for table in &paper.tables {
            let columns = paper.grid.columns().iter();
            for column in columns.filter(|column| column.table == table.name) {
                let Some(observed) = table.observed.get(&column.name) else {
                    continue;
                };
                for (at, cell) in column.cells() {
                    let is_observed = observed.metric(&column.keys, at).is_some();
                    let name = cell.place.rsplit('/').next().unwrap();
                    let file = name.split(':').next().unwrap();
                    if !is_observed || !beside.iter().any(|cell| cell.starts_with(file)) {
                        continue;
                    }
                    assert!(beside.contains(name), "nothing stands beside {name}");
                    cells += 1;
                }
            }
        }
    }
    // 54 of Table 2, 10 of Table 3, 5 of section 4.3, 10 of communication; 90 of the P2P paper's Table I and 30
    // of them by epoch, 20 of its other tables; of the data of the KubeML paper's authors 67 of Figures 3 and
    // 4 and 24 of Figure 5.
    assert_eq!(cells, 54 + 10 + 5 + 10 + 90 + 30 + 20 + 67 + 24);
}
