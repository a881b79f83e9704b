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
        "timeline-0-figure",
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
    let exact = summary["rows"][3]["cost_full_usd"].to_string();
    assert!(read("table-summary.csv").contains(&exact), "{exact}");
    let data = read("time-cost.csv");
    assert!(
        data.starts_with("name,origin,") && data.contains("SPIRT,measured,10,"),
        "{data}"
    );
    assert_eq!(data.lines().count(), 1 + fixture::SYSTEMS.len());
    let table = read("table-verdicts.tex");
    assert!(
        table.contains("\\toprule") && table.contains("SPIRT reaches 83.2 \\%"),
        "{table}"
    );
    assert!(read("table-stages.md").starts_with("| system | fetch dataset |"));
    let citation = read("CITATION.txt");
    assert!(
        citation.contains(summary["run_id"].as_str().unwrap()),
        "{citation}"
    );
}

#[test]
fn junit_has_a_case_for_every_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let run = written(directory.path(), fixture::CLAIMS);
    let text = fs::read_to_string(run.path().join("junit.xml")).unwrap();
    let verdicts = analysis::summarise(&run).unwrap().summary.verdicts.len();
    assert!(is_well_formed(&text), "{text}");
    // One more for the row with a failed trial; one claim has no row.
    assert_eq!(text.matches("<testcase ").count(), verdicts + 1);
    assert!(text.contains("failures=\"1\" skipped=\"1\""), "{text}");
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
claims: []
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
