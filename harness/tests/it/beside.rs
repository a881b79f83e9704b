//! A made-up paper: a folder with a table, a drawing and sentences, and experiments that stand beside
//! it, by the program itself.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::program;

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
schema: 1
name: item
platform: sim
dataset: {name: cifar10}
model: mobilenet
workers: 4
batch_size: 512
batches_per_worker: 3
epochs: 1
evaluate: never
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
struct Scene(TempDir);

impl Scene {
    fn new(experiment: &str) -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        fs::create_dir(scene.0.path().join("made-up")).unwrap();
        for (name, text) in [
            ("paper.yaml", PAPER),
            ("table1.csv", TABLE),
            ("statements.csv", STATEMENTS),
            ("setups.csv", SETUPS),
            ("item.yaml", experiment),
        ] {
            scene.write(name, text);
        }
        scene
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join("made-up").join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join("made-up").join(name)).unwrap()
    }

    fn output(&self, arguments: &[&str]) -> Output {
        let mut command = program();
        let ran = command.args(arguments).current_dir(self.0.path()).output();
        ran.unwrap()
    }

    #[track_caller]
    fn run(&self, code: i32) -> Value {
        let output = self.output(&["run", "made-up/item.yaml", "--out", "out", "--json"]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{message}");
        fs::remove_dir_all(self.0.path().join("out")).unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    #[track_caller]
    fn reproduce(&self, arguments: &[&str], code: i32) -> Value {
        let all = ["reproduce", "--directory", ".", "--out", "out", "--json"];
        let output = self.output(&[&all, arguments].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{message}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[track_caller]
fn refused(scene: &Scene, words: &[&str]) {
    let output = scene.output(&["check", "made-up/item.yaml"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for word in words.iter().chain(&["item.yaml:", "help: "]) {
        assert!(message.contains(word), "no {word:?} in:\n{message}");
    }
}

fn verdict<'a>(summary: &'a Value, claim: &str) -> &'a Value {
    let mut verdicts = summary["verdicts"].as_array().unwrap().iter();
    let found = verdicts.find(|verdict| verdict["claim"] == claim);
    found.unwrap_or_else(|| panic!("no verdict on {claim}: {summary}"))
}

#[test]
fn a_paper_is_a_folder_and_takes_no_code() {
    let scene = Scene::new(EXPERIMENT);
    let summary = scene.run(0);
    let claims: Vec<&str> = summary["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|verdict| verdict["claim"].as_str().unwrap())
        .collect();
    let sentences = [
        "AllReduce costs less",
        "SPIRT writes longer than it reads",
        "SPIRT takes twice as long",
    ];
    for column in ["epoch_min", "total_usd", "worker_usd", "requests"] {
        for framework in ["AllReduce", "SPIRT"] {
            assert!(
                claims.contains(&&*format!("{column}[{framework}]")),
                "{claims:?}"
            );
        }
    }
    assert!(
        sentences.iter().all(|one| claims.contains(one)),
        "{claims:?}"
    );
    assert_eq!(claims.len(), 8 + 3, "{claims:?}");
    // A printed value, in its own unit, with its cell, its evidence and its cause.
    let epoch = verdict(&summary, "epoch_min[AllReduce]");
    assert_eq!(
        (&epoch["unit"], &epoch["published"]),
        (&"min".into(), &0.3.into())
    );
    assert_eq!(epoch["cell"], "table1.csv:2:epoch_min");
    assert_eq!(epoch["source"], "Nobody et al. 2020, Table 1");
    assert!(
        epoch["evidence"].is_number() && epoch["observed_ci95"].is_array(),
        "{epoch}"
    );
    assert_eq!(epoch["causes"][0]["row"], "log");
    let change = epoch["causes"][0]["change"].as_f64().unwrap();
    assert!(change > 0.0, "{epoch}");
    // A consequence names what it follows from; counts are equal or not.
    let total = verdict(&summary, "total_usd[SPIRT]");
    assert_eq!(total["kind"], "consequence");
    assert_eq!(total["of"], serde_json::json!(["worker_usd[SPIRT]"]));
    assert_eq!(
        verdict(&summary, "requests[AllReduce]")["verdict"],
        "agrees"
    );
    assert_eq!(verdict(&summary, "requests[SPIRT]")["verdict"], "differs");
    // Sentences over the same rows: an order by draws, a figure by evidence.
    let cheaper = verdict(&summary, sentences[0]);
    assert_eq!(
        (&cheaper["verdict"], &cheaper["draws"]["draws"]),
        (&"agrees".into(), &60.into())
    );
    let factor = verdict(&summary, sentences[2]);
    assert_eq!(factor["published"], 2.0);
    assert!(factor["evidence"].is_number(), "{factor}");
    // What no run can tell is the audit's.
    let audit = scene.output(&["audit", "./made-up", "--json"]);
    let text = String::from_utf8_lossy(&audit.stdout);
    assert!(
        text.contains("no number isolates it") && text.contains("not printed"),
        "{text}"
    );
}

/// Whatever is drawn, a printed number that is ours is not against the paper.
#[test]
fn a_printed_number_that_is_ours_agrees() {
    let scene = Scene::new(EXPERIMENT);
    let summary = scene.run(0);
    let mut table = "framework,epoch_min,total_usd,worker_usd,requests\n".to_owned();
    for framework in ["AllReduce", "SPIRT"] {
        let observed = |column: &str| {
            let verdict = verdict(&summary, &format!("{column}[{framework}]"));
            verdict["observed"].as_f64().unwrap()
        };
        let cells = ["epoch_min", "total_usd", "worker_usd", "requests"].map(observed);
        let cells = cells.map(|cell| cell.to_string()).join(",");
        table.push_str(&format!("{framework},{cells}\n"));
    }
    scene.write("table1.csv", &table);
    for verdict in scene.run(0)["verdicts"].as_array().unwrap() {
        let is_cell = verdict["cell"].is_string();
        let against = ["differs", "rather_differs"];
        let word = verdict["verdict"].as_str().unwrap();
        assert!(!is_cell || !against.contains(&word), "{verdict}");
    }
    // A changed cell changes its marks.
    scene.write(
        "table1.csv",
        &table.replacen("AllReduce,", "AllReduce,9", 1),
    );
    let changed = scene.run(0);
    assert_eq!(
        verdict(&changed, "epoch_min[AllReduce]")["verdict"],
        "differs"
    );
}

#[test]
fn a_verdict_that_is_not_the_recorded_one_is_an_exit_code() {
    let scene = Scene::new(EXPERIMENT);
    let new = scene.reproduce(&[], 3);
    assert_eq!(new["record"]["new"].as_array().unwrap().len(), 11);
    assert!(!scene.0.path().join("made-up/verdicts.csv").exists());
    scene.reproduce(&["--accept", "the first run"], 0);
    let recorded = scene.read("verdicts.csv");
    assert_eq!(recorded.matches("the first run").count(), 11, "{recorded}");
    for _ in 0..2 {
        let same = scene.reproduce(&[], 0);
        assert_eq!(same["record"]["compared"], 11);
    }
    // One changed, one new, one lost.
    let line = |claim: &str| {
        let mut lines = recorded.lines();
        lines.find(|line| line.contains(claim)).unwrap().to_owned()
    };
    let changed = recorded
        .replace(
            &line("requests[AllReduce]"),
            &line("requests[AllReduce]").replace("agrees", "open"),
        )
        .replace(
            &line("AllReduce costs less"),
            "item,SPIRT is free,agrees,2026-01-01,once",
        );
    scene.write("verdicts.csv", &changed);
    let differs = scene.reproduce(&[], 3);
    let record = &differs["record"];
    assert_eq!(record["different"][0]["claim"], "requests[AllReduce]");
    assert_eq!(
        record["new"],
        serde_json::json!(["made-up/item: AllReduce costs less"])
    );
    assert_eq!(
        record["lost"],
        serde_json::json!(["made-up/item: SPIRT is free"])
    );
    let page = fs::read_to_string(scene.0.path().join("out/report.html")).unwrap();
    assert!(
        page.contains("SPIRT is free") && page.contains("9 of 10 verdicts"),
        "no record"
    );
    // What stays as it was keeps its day and reason.
    scene.reproduce(&["--accept", "a better model"], 0);
    let again = scene.read("verdicts.csv");
    assert_eq!(again.matches("a better model").count(), 2, "{again}");
    assert!(!again.contains("SPIRT is free"));
    let output = scene.output(&["reproduce", "--directory", ".", "--accept", " "]);
    assert_eq!(output.status.code(), Some(2));
}

/// Its page has its tables over all experiments, by each, and on the other basis; and what was
/// predicted.
#[test]
fn the_page_of_a_paper_switches_between_experiments_and_counts_predictions() {
    let scene = Scene::new(EXPERIMENT);
    scene.write(
        "predictions.csv",
        "experiment,claim,predicts,commit,then\n\
         item,requests[AllReduce],15 to 15,,\n\
         item,AllReduce costs less,differs,,\n\
         item,SPIRT is free,agrees,,\n",
    );
    scene.reproduce(&["--accept", "the first run"], 0);
    let page = fs::read_to_string(scene.0.path().join("out/made-up.html")).unwrap();
    let labels = ["all experiments", "item", "item, wall clock and whole bill"];
    for label in labels {
        assert!(page.contains(&format!("> {label}</label>")), "no {label}");
    }
    assert_eq!(page.matches(" checked>").count(), 1);
    assert!(page.contains("cost full usd</small>"), "no whole bill");
    let told = "Of 3 outcomes that were predicted before they were first recorded, 1 came true, 1 did \
                not, and 1 is undecided.";
    assert!(page.contains(told), "no predictions");
    scene.write(
        "predictions.csv",
        "experiment,claim,predicts,commit,then\nitem,c,probably,,\n",
    );
    refused(&scene, &["predictions.csv:2:", "LOW to HIGH"]);
}

/// An experiment by another name makes new claims, and those of the old name are missed.
#[test]
fn an_experiment_that_is_gone_is_missed() {
    let scene = Scene::new(EXPERIMENT);
    scene.reproduce(&["--accept", "the first run"], 0);
    let folder = scene.0.path().join("made-up");
    fs::rename(folder.join("item.yaml"), folder.join("other.yaml")).unwrap();
    let renamed = scene.reproduce(&[], 3);
    let lost = renamed["record"]["lost"].as_array().unwrap();
    assert_eq!(lost.len(), 11, "{lost:?}");
    assert!(lost.contains(&"made-up/item: epoch_min[AllReduce]".into()));
    assert_eq!(renamed["record"]["new"].as_array().unwrap().len(), 11);
    // Nothing is missed of what was not asked for.
    let one = scene.reproduce(&["made-up/other"], 3);
    assert_eq!(one["record"].get("lost"), Some(&serde_json::json!([])));
    scene.reproduce(&["--accept", "a better name"], 0);
    assert!(!scene.read("verdicts.csv").contains("\nitem,"));
    scene.reproduce(&[], 0);
}

#[test]
fn what_an_entry_names_is_there() {
    let scene = Scene::new(EXPERIMENT);
    let with = |from: &str, to: &str, words: &[&str]| {
        let text = EXPERIMENT.replacen(from, to, 1);
        assert_ne!(text, EXPERIMENT, "{from}");
        scene.write("item.yaml", &text);
        refused(&scene, words);
    };
    with(
        "table: table1",
        "table: tabel1",
        &["beside.0.table", "did you mean `table1`"],
    );
    with(
        "keys: {framework: row}",
        "keys: {framewrk: row}",
        &["no key `framewrk`", "framework"],
    );
    with(
        "keys: {framework: row}",
        "keys: {framework: rwo}",
        &["no field of rows", "system"],
    );
    with(
        "    keys: {framework: row}\n",
        "",
        &["nothing says what the key `framework`", "`at`"],
    );
    with(
        "plain: AllReduce, spirt: Spirt",
        "plain: AllRed, spirt: Spit",
        &["no row stands beside"],
    );
    with(
        "rename: {plain: AllReduce,",
        "rename: {log: AllReduce, plain: AllReduce,",
        &["two rows stand beside epoch_min[AllReduce]", "`where`"],
    );
    with(
        "    rename: {plain",
        "    columns: [epoch]\n    rename: {plain",
        &["no metric observes a column `epoch`"],
    );
    with(
        "    rename: {plain",
        "    target: 0.8\n    rename: {plain",
        &["give `target` with time_to_accuracy"],
    );
    with(
        "beside:\n",
        "statements: [{of: cheapr, formula: bytes >= 0}]\nbeside:\n",
        &["statements.0.of", "did you mean `cheaper`"],
    );
    with(
        "beside:\n",
        "statements: [{of: cheaper, formula: \"bytes[plan] >= 0\"}]\nbeside:\n",
        &["statements.0.formula", "no row `plan`"],
    );
    with(
        "beside:\n",
        "statements: [{of: cheaper, formula: bytes >= 0}]\nbeside:\n",
        &["two claims are", "`about`"],
    );
    // The paper's own files are located as well.
    scene.write("item.yaml", EXPERIMENT);
    scene.write(
        "paper.yaml",
        &PAPER.replace("metric: seconds_per_epoch", "metric: seconds"),
    );
    refused(&scene, &["paper.yaml:", "no metric `seconds`"]);
    scene.write("paper.yaml", &PAPER.replace("{unit: min,", "{unit: MB,"));
    refused(&scene, &["is in MB", "seconds_per_epoch"]);
    scene.write("paper.yaml", PAPER);
    scene.write(
        "verdicts.csv",
        "experiment,claim,verdict,date,why\nitem,c,maybe,,\n",
    );
    refused(&scene, &["verdicts.csv:2:", "rather_agrees"]);
    fs::remove_file(scene.0.path().join("made-up/paper.yaml")).unwrap();
    refused(&scene, &["there is no paper.yaml beside the file"]);
}

#[test]
fn figures_of_another_kind_are_open() {
    let entry = "    not_comparable: {epoch_min: minutes of another program}\n    causes:";
    let scene = Scene::new(&EXPERIMENT.replace("    causes:", entry));
    let summary = scene.run(0);
    let epoch = verdict(&summary, "epoch_min[AllReduce]");
    assert_eq!(epoch["verdict"], "open");
    assert!(
        epoch["reason"]
            .as_str()
            .unwrap()
            .contains("another program"),
        "{epoch}"
    );
    // Neither is a sentence that reads it.
    let factor = verdict(&summary, "SPIRT takes twice as long");
    assert_eq!(factor["verdict"], "open", "{factor}");
    let cheaper = verdict(&summary, "AllReduce costs less");
    assert_eq!(cheaper["verdict"], "agrees", "{cheaper}");
}

/// What a paper does not say blames nobody.
#[test]
fn what_the_paper_leaves_open_is_open() {
    let scene = Scene::new(EXPERIMENT);
    let before = scene.run(0);
    let writes = verdict(&before, "SPIRT writes longer than it reads");
    assert_ne!(writes["verdict"], "open", "{writes}");
    let setups =
        "name,value,unit,place,for,field\nsize_of_files,?,,§2: no size,figure1[reading],\n";
    scene.write("setups.csv", setups);
    let after = scene.run(0);
    let writes = verdict(&after, "SPIRT writes longer than it reads");
    assert_eq!(writes["verdict"], "open", "{writes}");
    let reason = writes["reason"].as_str().unwrap();
    let why = "the paper leaves the size of files open (§2: no size)";
    assert!(reason.starts_with(why), "{reason}");
    let cheaper = verdict(&after, "AllReduce costs less");
    assert_eq!(
        cheaper["verdict"],
        verdict(&before, "AllReduce costs less")["verdict"]
    );
}

#[test]
fn rows_follow_the_set_ups_of_their_table_or_say_why_not() {
    let scene = Scene::new(EXPERIMENT);
    let setups = |value: &str| {
        format!("name,value,unit,place,for,field\nworkers,{value},,§1,table1,workers\n")
    };
    scene.write("setups.csv", &setups("\"2, 4\""));
    scene.run(0);
    scene.write("setups.csv", &setups("8"));
    refused(
        &scene,
        &[
            "item.yaml:18:",
            "workers 4",
            "table1: 8 (§1)",
            "deviates: {workers: REASON}",
        ],
    );
    let deviating =
        |text: &str| EXPERIMENT.replace("beside:", &format!("deviates: {text}\nbeside:"));
    scene.write("item.yaml", &deviating("{workers: four are enough}"));
    scene.run(0);
    scene.write("setups.csv", &setups("4"));
    refused(
        &scene,
        &[
            "item.yaml:17:21",
            "no row leaves a set-up of the paper by `workers`",
        ],
    );
    // What is left open, what is of another table, and what a key of the table stands for, is free.
    scene.write("item.yaml", EXPERIMENT);
    for line in [
        "workers,?,,§1,table1,workers",
        "workers,8,,§1,table2,workers",
        "name,other,,§1,table1,row",
    ] {
        scene.write(
            "setups.csv",
            &format!("name,value,unit,place,for,field\n{line}\n"),
        );
        scene.run(0);
    }
}

/// In the shipped papers, too.
#[test]
fn a_shipped_experiment_that_leaves_a_set_up_is_refused() {
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
    for (paper, item, from, to, field) in [
        (
            "cost-performance",
            "table2",
            "batch_size: 512",
            "batch_size: 256",
            "batch_size 256",
        ),
        (
            "cost-performance",
            "figure2",
            "workers: 16",
            "workers: 8",
            "workers 8",
        ),
        ("p2p", "table3", "workers: 4", "workers: 2", "workers 2"),
        // Of one value of a key alone.
        (
            "kubeml",
            "figure4",
            "learning_rate: 0.1",
            "learning_rate: 0.01",
            "learning_rate 0.01",
        ),
        (
            "p2p",
            "table1",
            "squeezenet1_1, instance_type: t2.medium",
            "squeezenet1_1, instance_type: t2.large",
            "instance_type t2.large",
        ),
        (
            "p2p",
            "table2",
            "memory_mb: 1700",
            "memory_mb: 4400",
            "memory_mb 4400",
        ),
        // A setting that the paper has on.
        (
            "cost-performance",
            "table3",
            "  settings.early_stopping: ",
            "  # ",
            "settings.early_stopping null",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join(paper);
        fs::create_dir(&folder).unwrap();
        for file in fs::read_dir(experiments.join(paper)).unwrap() {
            let file = file.unwrap().path();
            if file.is_file() {
                fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
            }
        }
        let published = directory.path().join("published");
        fs::create_dir(&published).unwrap();
        for file in fs::read_dir(experiments.join("published")).unwrap() {
            let file = file.unwrap().path();
            fs::copy(&file, published.join(file.file_name().unwrap())).unwrap();
        }
        let path = folder.join(format!("{item}.yaml"));
        let text = fs::read_to_string(&path).unwrap();
        let check = || program().arg("check").arg(&path).output().unwrap();
        assert!(check().status.success(), "{item}");
        assert!(text.contains(from), "{item}: {from}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let output = check();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && message.contains(field),
            "{item}: {message}"
        );
    }
}

/// A simulation that has one value for both says nothing of which is more.
#[test]
fn equal_figures_decide_no_strict_order() {
    let scene = Scene::new(EXPERIMENT);
    let column = "      peak: {unit: MB, metric: peak_memory_mb}\n    follows:";
    scene.write("paper.yaml", &PAPER.replacen("    follows:", column, 1));
    let table = TABLE.replace("requests\n", "requests,peak\n");
    let table = table
        .replace(",15\n", ",15,900\n")
        .replace(",9\n", ",9,1000\n");
    scene.write("table1.csv", &table);
    let statement = "same,§4,ranking,2,,SPIRT holds more,peak[SPIRT] > peak[AllReduce],\n";
    scene.write("statements.csv", &format!("{STATEMENTS}{statement}"));
    let summary = scene.run(0);
    let same = verdict(&summary, "SPIRT holds more");
    assert_eq!(same["observed"], 1.0, "{same}");
    assert_eq!(same["verdict"], "open", "{same}");
}

#[test]
fn remarks_of_the_folder_are_shown_with_their_verdicts() {
    let scene = Scene::new(EXPERIMENT);
    scene.write(
        "notes.csv",
        "about,experiment,when,note\nepoch_min[SPIRT],item,,SPIRT waits for its peers\n\
         cheaper,item,,AllReduce has fewer functions\nepoch_min,other,,elsewhere\n",
    );
    let summary = scene.run(0);
    assert_eq!(
        verdict(&summary, "epoch_min[SPIRT]")["note"],
        "SPIRT waits for its peers"
    );
    assert!(
        verdict(&summary, "epoch_min[AllReduce]")
            .get("note")
            .is_none()
    );
    assert_eq!(
        verdict(&summary, "AllReduce costs less")["note"],
        "AllReduce has fewer functions"
    );
}

/// The shipped papers: of a table that experiments stand beside, every observed cell has a row, and every
/// recorded verdict is on a claim of its experiment.
#[test]
fn every_observed_cell_of_the_papers_has_a_row() {
    use epochcost_experiment::{Experiment, Options, yaml_files};
    use epochcost_judge::audit;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
    let mut beside = std::collections::BTreeSet::new();
    for file in yaml_files(&root).unwrap() {
        let experiment = Experiment::load(&file, &Options::default());
        let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
        assert!(
            experiment.lost.is_empty(),
            "{}: {:?}",
            file.display(),
            experiment.lost
        );
        for claim in &experiment.claims {
            let printed = claim
                .printed
                .as_ref()
                .map(|printed| printed.cell.to_string());
            beside.extend(printed);
            let is_recorded = claim.expect.is_some() || !claim.kind.is_of_paper();
            assert!(
                is_recorded,
                "{}: no recorded verdict on {:?}",
                file.display(),
                claim.claim
            );
        }
    }
    let folders: Vec<_> = audit::names()
        .into_iter()
        .map(|name| root.join(name))
        .collect();
    let mut cells = 0;
    for paper in audit::read(&folders, None).unwrap() {
        for table in &paper.tables {
            for column in paper
                .grid
                .columns()
                .iter()
                .filter(|column| column.table == table.name)
            {
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
