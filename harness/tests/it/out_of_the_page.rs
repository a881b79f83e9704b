//! Figures and tables that leave the page: images that stand alone, data, tables for
//! papers, an appendix, and verdicts for continuous integration.

use std::fs;
use std::path::Path;
use std::process::Command;

use epochcost::{analysis, report};
use serde_json::Value;

use crate::fixture;
use crate::support::program;

fn written(directory: &Path, claims: &str) -> epochcost::results::RunDirectory {
    let run = fixture::finished(directory, claims);
    report::write(&run, &analysis::summarise(&run).unwrap()).unwrap();
    run
}

/// Every element is closed, in order. Text and attributes are left alone.
fn is_well_formed(xml: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for part in xml.split('<').skip(1) {
        let Some((tag, _)) = part.split_once('>') else {
            return false;
        };
        if tag.starts_with(['!', '?']) || tag.ends_with('/') {
            continue;
        }
        let name = tag
            .trim_start_matches('/')
            .split_whitespace()
            .next()
            .unwrap();
        if !tag.starts_with('/') {
            open.push(name);
        } else if open.pop() != Some(name) {
            return false;
        }
    }
    open.is_empty()
}

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

#[test]
fn an_appendix_has_every_mandatory_section() {
    let directory = tempfile::tempdir().unwrap();
    let record = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(analysis::record::RECORD);
    let appendix = |arguments: &[&str]| -> std::process::Output {
        let mut command: Command = program();
        command
            .arg("artifact")
            .args(arguments)
            .arg("--record")
            .arg(&record);
        command.arg("--out").arg(directory.path()).output().unwrap()
    };
    let output = appendix(&["p2p"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    for section in [
        "Abstract",
        "Description and requirements",
        "How to access",
        "Hardware dependencies",
        "Software dependencies",
        "Benchmarks",
        "Set-up",
        "Evaluation workflow",
        "Major claims",
        "Experiments",
        "Notes on reusability",
    ] {
        assert!(
            read("appendix.md").contains(&format!("# {section}\n")),
            "{section}"
        );
        assert!(
            read("appendix.tex").contains(&format!("section{{{section}}}")),
            "{section}"
        );
    }
    let text = read("appendix.md");
    assert!(
        text.contains("| C1 |") && text.contains("epochcost reproduce p2p/peers"),
        "{text}"
    );
    assert!(!text.contains("cost-performance/"));
    let unknown = appendix(&["p2q"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("did you mean `p2p`?"));
}
