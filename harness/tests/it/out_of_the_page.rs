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

/// Every reference is to an entity, and every file is there.
#[test]
fn a_crate_names_every_file_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let run = written(directory.path(), fixture::CLAIMS);
    let text = fs::read(run.path().join("ro-crate-metadata.json")).unwrap();
    let metadata: Value = serde_json::from_slice(&text).unwrap();
    let graph = metadata["@graph"].as_array().unwrap();
    let ids: Vec<&str> = graph
        .iter()
        .map(|entity| entity["@id"].as_str().unwrap())
        .collect();
    for (index, id) in ids.iter().enumerate() {
        assert!(!ids[..index].contains(id), "{id} is there twice");
    }
    let entity = |id: &str| graph.iter().find(|entity| entity["@id"] == id).unwrap();
    let root = entity("./");
    let workflow = entity(root["mainEntity"]["@id"].as_str().unwrap());
    assert!(
        workflow["@type"]
            .as_array()
            .unwrap()
            .contains(&"ComputationalWorkflow".into())
    );
    let action = entity(root["mentions"]["@id"].as_str().unwrap());
    assert_eq!(action["instrument"], root["mainEntity"]);

    let mut parts: Vec<&str> = (root["hasPart"].as_array().unwrap().iter())
        .map(|part| part["@id"].as_str().unwrap().trim_end_matches('/'))
        .collect();
    let entries = fs::read_dir(run.path()).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut files: Vec<String> = names
        .filter(|name| name != "ro-crate-metadata.json")
        .collect();
    files.retain(|name| !name.starts_with('.') && name != "run.lock");
    parts.sort_unstable();
    files.sort_unstable();
    assert_eq!(parts, files);

    let mut references = Vec::new();
    collect_references(&metadata["@graph"], &mut references);
    let outside = [
        "https://w3id.org/ro/crate/1.1",
        "http://schema.org/CompletedActionStatus",
    ];
    for reference in references {
        let is_known = ids.contains(&reference) || outside.contains(&reference);
        assert!(is_known, "{reference} is no entity");
    }
}

/// Every object that is nothing but a reference.
fn collect_references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) if fields.len() == 1 && fields.contains_key("@id") => {
            found.extend(fields["@id"].as_str());
        }
        Value::Object(fields) => {
            for field in fields.values() {
                collect_references(field, found);
            }
        }
        Value::Array(values) => {
            for value in values {
                collect_references(value, found);
            }
        }
        _ => {}
    }
}

#[test]
fn a_comparison_is_a_page_with_the_figures_of_its_json() {
    let directory = tempfile::tempdir().unwrap();
    let simulated = |name: &str, memory_mb: &str| {
        let out = directory.path().join(name);
        let smoke = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/smoke.yaml");
        let ended = program()
            .arg("run")
            .arg(smoke)
            .args([
                "--platform",
                "sim",
                "--set",
                "claims=[]",
                "--set",
                "systems=[spirt, allreduce]",
            ])
            .args(["--set", memory_mb, "--out"])
            .arg(&out)
            .output()
            .unwrap();
        assert!(
            ended.status.success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
        out
    };
    let (before, after) = (
        simulated("before", "memory_mb=2048"),
        simulated("after", "memory_mb=1024"),
    );
    let page = directory.path().join("compare.html");
    let output = program()
        .arg("compare")
        .args([&before, &after])
        .arg("--html")
        .arg(&page)
        .arg("--json")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let compared: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = fs::read_to_string(&page).unwrap();
    for sentence in compared["answer"].as_array().unwrap() {
        let sentence = sentence
            .as_str()
            .unwrap()
            .split(['&', '<', '>', '"', '\''])
            .next()
            .unwrap();
        assert!(text.contains(sentence), "{sentence}");
    }
    let rows = compared["comparison"]["rows"].as_array().unwrap();
    let tables = text.matches("<table class=\"sortable\"").count();
    assert_eq!(tables, rows.len());
    // Metrics that are the same are named, all others have a line.
    let metrics = rows
        .iter()
        .flat_map(|row| row["metrics"].as_array().unwrap());
    let changed = metrics.filter(|metric| metric["change"] != "same").count();
    assert!(changed > 2 * 2, "{changed}");
    assert_eq!(text.matches("<td class=\"change\">").count(), changed);
}

/// Text as pages escape it.
fn escaped(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

/// Runs a verb with `--html` and `--json`; what it printed, and its page.
fn page_of(arguments: &[&str]) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    let output = program()
        .args(arguments)
        .arg("--json")
        .arg("--html")
        .arg(&page)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    let printed = serde_json::from_slice(&output.stdout).unwrap();
    (printed, fs::read_to_string(&page).unwrap())
}

/// The page has a figure, but for the last digit, which a reader of JSON may round otherwise.
#[track_caller]
fn has_figure(page: &str, figure: &Value) {
    let wanted = figure.as_f64().unwrap();
    let values = page.split("data-value=\"").skip(1);
    let mut values = values.filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
    let is_same = |value: f64| (value - wanted).abs() <= 1e-12 * wanted.abs();
    assert!(values.any(is_same), "{wanted} is not on the page");
}

/// Nothing that a browser would ask for, and a policy that names the script.
#[track_caller]
fn stands_alone(page: &str) {
    for foreign in ["src=", "<link", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("<div class=\"answer\""));
}

#[test]
fn a_plan_is_a_page_with_the_figures_of_its_json() {
    let smoke = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/smoke.yaml");
    let smoke = smoke.to_str().unwrap();
    let (plan, page) = page_of(&["plan", smoke, "--set", "memory_mb=512"]);
    stands_alone(&page);
    let rows = plan["rows"].as_array().unwrap();
    let mut possible = 0;
    for row in rows {
        assert!(page.contains(&format!(
            "<th scope=\"row\">{}</th>",
            row["id"].as_str().unwrap()
        )));
        let estimate = &row["estimate"];
        if estimate.is_null() {
            continue;
        }
        possible += 1;
        for field in [
            "seconds",
            "seconds_per_epoch",
            "cost_full_usd",
            "cost_paper_usd",
        ] {
            has_figure(&page, &estimate[field]);
        }
    }
    assert!(possible > 0);
    // The fastest, the cheapest, and what is not possible are said first.
    let least = |field: &str| {
        let known = rows.iter().filter(|row| !row["estimate"].is_null());
        let value = |row: &&Value| row["estimate"][field].as_f64().unwrap();
        let best = known.min_by(|a, b| value(a).total_cmp(&value(b))).unwrap();
        best["id"].as_str().unwrap()
    };
    let (_, answer) = page.split_once("<div class=\"answer\"").unwrap();
    let (answer, _) = answer.split_once("</div>").unwrap();
    assert!(
        answer.contains(&format!("Fastest (simulated): {}, ", least("seconds"))),
        "{answer}"
    );
    assert!(
        answer.contains(&format!(
            "Cheapest (simulated): {}, ",
            least("cost_full_usd")
        )),
        "{answer}"
    );
    let impossible = rows.len() - possible;
    let said = match impossible {
        0 => format!("All {possible} rows are possible."),
        1 => format!("Of {} rows 1 is not possible", rows.len()),
        count => format!("Of {} rows {count} are not possible", rows.len()),
    };
    assert!(answer.contains(&said), "{said}: {answer}");
    assert_eq!(
        page.matches("<tr class=\"infeasible\">").count(),
        impossible
    );
}

#[test]
fn a_plan_with_a_goal_begins_with_where_to_train() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/own-model.yaml");
    let own = own.to_str().unwrap();
    let goal = [
        "--deadline",
        "1h",
        "--place",
        "lambda-x86",
        "--samples",
        "2000",
    ];
    let (plan, page) = page_of(&[&["plan", own], &goal[..]].concat());
    stands_alone(&page);
    for sentence in plan["answer"]["sentences"].as_array().unwrap() {
        assert!(
            page.contains(&escaped(sentence.as_str().unwrap())),
            "{sentence}"
        );
    }
    for choice in plan["answer"]["frontier"].as_array().unwrap() {
        assert!(
            page.contains(&escaped(choice["what"].as_str().unwrap())),
            "{choice}"
        );
    }
}

#[test]
fn an_audit_is_a_page_with_every_finding() {
    let (audited, page) = page_of(&["audit"]);
    stands_alone(&page);
    let findings = audited["findings"].as_array().unwrap();
    let rows = page.matches("<th scope=\"row\">").count();
    assert_eq!(rows, findings.len());
    for sentence in audited["answer"].as_array().unwrap() {
        assert!(
            page.contains(&escaped(sentence.as_str().unwrap())),
            "{sentence}"
        );
    }
    for finding in findings {
        if let Some(consequence) = finding["consequence"].as_str() {
            assert!(page.contains(&escaped(consequence)), "{consequence}");
        }
    }
}

#[test]
fn a_replay_is_a_page_with_the_figures_of_its_json() {
    let run = crate::replay::scene().path().join("run");
    let (replayed, page) = page_of(&["replay", run.to_str().unwrap()]);
    stands_alone(&page);
    for row in replayed["rows"].as_array().unwrap() {
        for figures in [&row["recorded"], &row["simulated"]] {
            has_figure(&page, &figures["wall_s"]["mean"]);
        }
    }
    assert!(page.contains("Simulated wall time: "), "{page}");
}

/// A machine without a program that draws says what to install; one with a program gets a
/// picture beside every image.
#[test]
fn figures_are_drawn_by_a_program_of_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let (run, out) = (directory.path().join("run"), directory.path().join("out"));
    written(&run, fixture::CLAIMS);
    let programs = directory.path().join("bin");
    fs::create_dir(&programs).unwrap();
    let drawn = || {
        program()
            .arg("report")
            .arg(&run)
            .arg("--figures")
            .arg(&out)
            .arg("--png")
            .env("PATH", &programs)
            .output()
            .unwrap()
    };
    let lacking = drawn();
    let message = String::from_utf8_lossy(&lacking.stderr).into_owned();
    assert_eq!(lacking.status.code(), Some(5), "{message}");
    assert!(
        message.contains("apt-get install librsvg2-bin"),
        "{message}"
    );

    let stand_in = programs.join("rsvg-convert");
    fs::write(&stand_in, "#!/bin/sh\necho \"$5\" > \"$4\"\n").unwrap();
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(&stand_in, mode).unwrap();
    let ended = drawn();
    let message = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(3), "{message}");
    let of_kind = |kind: &str| {
        let entries = fs::read_dir(&out).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        let names = names.filter_map(|name| name.strip_suffix(kind).map(str::to_owned));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    assert_eq!(of_kind(".png"), of_kind(".svg"));
    assert!(of_kind(".png").len() > 6);
}

/// A document of LaTeX that takes the appendix in.
const PAPER: &str = r"\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{array,booktabs,longtable}
\begin{document}
\input{appendix}
\end{document}
";

/// Runs pdflatex in a directory; what it said. None where there is no LaTeX.
fn typeset(directory: &Path, file: &str) -> Option<String> {
    let mut latex = Command::new("pdflatex");
    latex.args(["-interaction=nonstopmode", "-halt-on-error", file]);
    let ended = match latex.current_dir(directory).output() {
        Ok(ended) => ended,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let what = "no pdflatex; to run it: apt-get install texlive-latex-recommended";
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("SKIPPED {file}: {what}\n").as_bytes(),
            );
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{said}");
    Some(said)
}

#[test]
fn tables_and_appendix_are_typeset_where_there_is_latex() {
    let directory = tempfile::tempdir().unwrap();
    let (run, out) = (directory.path().join("run"), directory.path().join("out"));
    written(&run, fixture::CLAIMS);
    let figures = program()
        .arg("report")
        .arg(&run)
        .arg("--figures")
        .arg(&out)
        .output()
        .unwrap();
    assert_eq!(figures.status.code(), Some(3));
    let record = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(analysis::record::RECORD);
    let appendix = program()
        .arg("artifact")
        .arg("--record")
        .arg(&record)
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    assert!(appendix.status.success());
    fs::write(out.join("paper.tex"), PAPER).unwrap();
    for file in ["tables.tex", "paper.tex"] {
        let Some(said) = typeset(&out, file) else {
            return;
        };
        // What reaches into the margin is not read.
        let beyond = said.lines().filter_map(|line| {
            let rest = line.strip_prefix("Overfull \\hbox (")?;
            rest.split("pt").next()?.parse::<f64>().ok()
        });
        let widest = beyond.fold(0.0, f64::max);
        assert!(
            widest < 40.0,
            "{file}: {widest} points beyond the margin: {said}"
        );
        assert!(out.join(file).with_extension("pdf").is_file());
    }
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
