//! Figures, tables and verdicts as files of their own.

use super::*;

/// An SVG that was saved from the page was once shown as a tree of XML.
#[test]
fn figures_and_tables_stand_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (run, out) = (directory.path().join("run"), directory.path().join("out"));
    written(&run, fixture::CLAIMS);
    let output = program()
        .args([
            "report".as_ref(),
            run.as_os_str(),
            "--figures".as_ref(),
            out.as_os_str(),
        ])
        .output()
        .unwrap();
    // A trial of the fixture failed.
    assert_eq!(output.status.code(), Some(3));
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    for name in [
        "time-cost",
        "accuracy",
        "stages",
        "costs",
        "bytes",
        "loss",
        "timeline-spirt",
    ] {
        let image = read(&format!("{name}.svg"));
        assert!(
            image.contains("xmlns='http://www.w3.org/2000/svg'"),
            "{name}"
        );
        assert!(
            !image.contains("var(--") && !image.contains("display: none"),
            "{name}"
        );
        assert!(is_well_formed(&image), "{name}");
    }
    // Every digit of the summary.
    let summary: Value =
        serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap();
    let exact = summary["rows"][3]["figures"]["cost_full_usd"]["mean"].to_string();
    assert!(read("table-summary.csv").contains(&exact), "{exact}");
    let data = read("time-cost.csv");
    assert!(
        data.starts_with("name,origin,") && data.contains("SPIRT,measured,10,"),
        "{data}"
    );
    assert_eq!(data.lines().count(), 1 + fixture::SYSTEMS.len());
    // Figures have their units.
    let heading = |name: &str| read(name).lines().next().unwrap().to_owned();
    let heading_of_bytes = heading("bytes.csv");
    assert!(
        heading_of_bytes.starts_with("name,part,value (bytes per worker and trial)"),
        "{heading_of_bytes}"
    );
    let summary_heading = heading("table-summary.csv");
    for unit in ["(USD)", "(s)", "(MB)", "(bytes)", "(share)"] {
        assert!(summary_heading.contains(unit), "{summary_heading}");
    }
    let verdicts = read("table-verdicts.csv");
    let units = verdicts.lines().map(|line| {
        let unquoted: String = line.split('"').step_by(2).collect();
        unquoted.split(',').nth(7).unwrap().to_owned()
    });
    let units: Vec<String> = units.collect();
    assert!(
        units[0] == "unit" && units.iter().all(|unit| !unit.is_empty()),
        "{verdicts}"
    );
    let table = read("table-verdicts.tex");
    assert!(
        table.contains("\\toprule") && table.contains("every system learns something"),
        "{table}"
    );
    assert!(read("table-stages.md").starts_with("| system | fetch dataset |"));
    let citation = read("CITATION.bib");
    assert!(
        citation.contains(summary["run_id"].as_str().unwrap()),
        "{citation}"
    );
}

#[test]
fn junit_has_a_case_for_every_verdict() {
    let directory = tempfile::tempdir().unwrap();
    // Characters of a terminal, which XML does not have, are named.
    let claims =
        fixture::CLAIMS.replace("every system learns", "every SPIRT \\u001b[1mlearns\\u0007");
    let run = written(directory.path(), &claims);
    for name in ["junit.xml", "report.html", "report.md"] {
        let text = fs::read_to_string(run.path().join(name)).unwrap();
        assert!(text.contains("SPIRT [U+001B]"), "{name}");
        let is_control = |c: &char| c.is_control() && !"\n\t".contains(*c);
        assert_eq!(text.chars().find(is_control), None, "{name}");
    }
    let text = fs::read_to_string(run.path().join("junit.xml")).unwrap();
    let verdicts = analysis::summarise(&run).unwrap().summary.verdicts.len();
    assert!(is_well_formed(&text), "{text}");
    // One more for the row with a failed trial; one claim has no row.
    assert_eq!(text.matches("<testcase ").count(), verdicts + 1);
    assert!(
        text.contains("failures=\"1\" errors=\"0\" skipped=\"1\""),
        "{text}"
    );
    let row = text
        .lines()
        .find(|line| line.contains("trials failed"))
        .unwrap();
    assert!(
        row.contains("time=\"") && row.contains("<failure ") && row.contains(" s: "),
        "{row}"
    );
}

/// Two rows whose epochs differ are set against each other by a thousand samples, and neither
/// is called the fastest of an epoch.
#[test]
fn no_chart_sets_unlike_epochs_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("unlike.yaml");
    let text = "\
schema: 1
name: unlike
platform: sim
dataset: {name: cifar10}
model: mobilenet
workers: 4
batch_size: 64
batches_per_worker: 6
epochs: 1
evaluate: never
simulation: {compute: [stated-flops], limits: false}
systems:
  - allreduce
  - {system: spirt, batches_per_worker: 2}
";
    fs::write(&file, text).unwrap();
    let (run, out) = (directory.path().join("run"), directory.path().join("out"));
    let ended = program()
        .arg("run")
        .arg(&file)
        .arg("--out")
        .arg(&run)
        .output()
        .unwrap();
    assert!(ended.status.success());
    let figures = program()
        .arg("report")
        .arg(&run)
        .arg("--figures")
        .arg(&out)
        .output()
        .unwrap();
    assert!(figures.status.success());
    let data = fs::read_to_string(out.join("time-cost.csv")).unwrap();
    let heading = data.lines().next().unwrap();
    assert_eq!(heading.matches("of 1,000 samples").count(), 2, "{heading}");
    assert!(!heading.contains("epoch"), "{heading}");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("No two rows of this run do the same work"));
    assert!(page.contains("so that 1,000 samples are compared"));
}

/// What compares systems at an accuracy names no winner among runs of which none learned anything,
/// and warns of no evaluation that a simulation of sizes cannot make.
#[test]
fn a_simulation_that_learns_nothing_names_no_winner() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let mut command = program();
    let ended = command
        .args(["run", "smoke", "--platform", "sim", "--out"])
        .arg(&run);
    let ended = ended.output().unwrap();
    let (said, warned) = (
        String::from_utf8_lossy(&ended.stdout).into_owned(),
        String::from_utf8_lossy(&ended.stderr).into_owned(),
    );
    assert!(ended.status.success(), "{warned}");
    assert!(
        said.starts_with("Sizes were simulated and nothing was trained"),
        "{said}"
    );
    for word in ["Fastest", "Cheapest"] {
        assert!(!said.contains(word), "{said}");
    }
    assert!(said.contains("checks hold"), "{said}");
    assert!(!warned.contains("there is no accuracy"), "{warned}");
}

/// Runs an experiment into `run`. Returns what is said of it, and the title of its chart of time and cost.
fn said_and_titled(experiment: &Path, run: &Path) -> (String, String) {
    let mut command = program();
    let ended = command.arg("run").arg(experiment).arg("--out").arg(run);
    let ended = ended.output().unwrap();
    let message = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{message}");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    let (_, title) = page.split_once("<h2 id=\"time-cost\">").unwrap();
    let (title, _) = title.split_once(" <span").unwrap();
    (String::from_utf8(ended.stdout).unwrap(), title.to_owned())
}

/// A simulation that trains names no winner among rows that guess, in its answer and in the chart's
/// title, and none that guesses beside one that has learned.
#[test]
fn a_simulation_that_trains_crowns_none_that_guesses() {
    let directory = tempfile::tempdir().unwrap();
    let answer = |name: &str, rows: &str| {
        let file = directory.path().join(format!("{name}.yaml"));
        let text = format!(
            "schema: 1\nname: {name}\nplatform: sim\nmodel: lenet5\nworkers: 2\nbatch_size: 32\n\
             dataset: {{name: synthetic-mnist, train: 512, test: 200, seed: 1}}\n\
             batches_per_worker: 8\nevaluate: every_epoch\n\
             simulation: {{compute: [stated-flops], real_compute: true}}\nsystems:\n{rows}"
        );
        fs::write(&file, text).unwrap();
        let (said, title) = said_and_titled(&file, &directory.path().join(name));
        // On one line, however wide.
        let said: Vec<&str> = said.split_whitespace().collect();
        (said.join(" "), title)
    };
    let row = |system: &str, name: &str, rate: f64, epochs: usize| {
        format!(
            "  - {{system: {system}, name: {name}, epochs: {epochs}, \
             optimizer: {{sgd: {{learning_rate: {rate}, momentum: 0.9}}}}}}\n"
        )
    };
    let none = [
        row("allreduce", "one", 1e-6, 1),
        row("gpu_baseline", "other", 1e-6, 1),
    ];
    let (said, title) = answer("guessing", &none.concat());
    assert!(
        said.starts_with("What was trained in this simulation is hardly better than guessing"),
        "{said}"
    );
    assert!(!said.contains("Fastest"), "{said}");
    assert_eq!(title, "Time against cost: nothing was learned, no ranking");
    let some = [
        row("allreduce", "one", 0.05, 4),
        row("gpu_baseline", "other", 0.05, 4),
        row("scatterreduce", "third", 1e-6, 4),
    ];
    let (said, _) = answer("learning", &some.concat());
    assert!(said.starts_with("Fastest: "), "{said}");
    assert!(
        said.contains("Left out, since hardly better than guessing: 1 of 3 rows."),
        "{said}"
    );
}

/// Virtual time is that of AWS, and names the fastest and the cheapest with the basis; many
/// settings are no votes.
#[test]
fn a_simulated_run_names_the_fastest_and_many_settings_none() {
    let directory = tempfile::tempdir().unwrap();
    let answer = |sweep: &str| {
        let file = directory.path().join("settings.yaml");
        let text = format!(
            "schema: 1\nname: settings\nplatform: sim\ndataset: {{name: cifar10}}\nmodel: mobilenet\n\
             workers: 4\nbatch_size: 64\nbatches_per_worker: 2\nepochs: 2\nevaluate: never\n\
             simulation: {{compute: [stated-flops], limits: false}}\n\
             systems: [allreduce, gpu_baseline]\n{sweep}"
        );
        fs::write(&file, text).unwrap();
        let run = directory.path().join(format!("run{}", sweep.len()));
        let (_, title) = said_and_titled(&file, &run);
        let text = fs::read(run.join("summary.json")).unwrap();
        let summary: Value = serde_json::from_slice(&text).unwrap();
        (summary["answer"].clone(), title)
    };
    let (one, title) = answer("");
    let text = |field: &str| one[field].as_str().unwrap().to_owned();
    let fastest = text("fastest");
    assert!(
        fastest.starts_with("Fastest: ") && fastest.contains(" per epoch (simulated); next: "),
        "{fastest}"
    );
    let cheapest = text("cheapest");
    assert!(
        cheapest.starts_with("Cheapest: AllReduce on functions, $")
            && cheapest.contains("on rented instances, GPU baseline on 4 × g4dn.xlarge, costs"),
        "{cheapest}"
    );
    // The chart's title says the same.
    let leader = |sentence: &str, end: &str| {
        let (_, rest) = sentence.split_once(": ").unwrap();
        rest.split_once(end).unwrap().0.to_owned()
    };
    let (fast, cheap) = (leader(&fastest, ","), leader(&cheapest, " on functions"));
    let told = if fast == cheap {
        format!("{fast} is fastest and cheapest per epoch")
    } else {
        format!("{fast} is fastest, {cheap} is cheapest per epoch")
    };
    assert_eq!(title, told);
    let (many, _) = answer("sweep: {workers: [2, 3, 4, 6, 8]}\n");
    let fastest = many["fastest"].as_str().unwrap();
    assert!(
        fastest.starts_with("5 settings that differ in their work (simulated)"),
        "{fastest}"
    );
    assert_eq!(many["cheapest"], "");
}
