//! A run directory from its first file to its report.

use crate::fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use epochcost::analysis::{self, Analysis};
use epochcost::claims::{Metric, VerdictKind};
use epochcost::exit::Exit;
use epochcost::report;
use epochcost::results::{ResultsError, RunDirectory};
use epochcost_systems::{Record, StageSeconds};

fn analysed(run: &RunDirectory) -> Analysis {
    let analysis = analysis::summarise(run).unwrap();
    report::write(run, &analysis).unwrap();
    analysis
}

/// A directory that stays after the test, so that its report can be looked at.
fn kept(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    path
}

#[test]
fn a_run_becomes_a_summary() {
    let run = fixture::finished(&kept("report-fixture"), fixture::CLAIMS);
    let analysis = analysed(&run);
    let text = fs::read_to_string(run.path().join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["schema_version"]["major"], 2);
    let rows = summary["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    let fields = [
        "system",
        "model",
        "dataset",
        "fidelity",
        "platform",
        "workers",
        "batch_size",
        "batches_per_worker",
        "epochs",
        "trials",
        "failed_trials",
        "memory_mb",
        "seconds_per_epoch",
        "stage_seconds",
        "billed_ms",
        "peak_memory_mb",
        "cost_paper_usd",
        "cost_full_usd",
        "traffic",
        "train_loss",
        "accuracy",
        "replicas_identical",
        "verdicts",
    ];
    for field in fields {
        assert!(rows[0].get(field).is_some(), "{field} is missing");
    }
    let allreduce = &rows[3];
    assert_eq!(allreduce["system"], "allreduce");
    let (p, steps) = (4 * fixture::sizes().parameters as u64, 2 * 3);
    assert_eq!(allreduce["traffic"]["puts"], 5 * steps);
    assert_eq!(allreduce["traffic"]["gets"], 8 * steps);
    assert_eq!(allreduce["traffic"]["bytes_up"], 5 * p * steps);
    assert_eq!(allreduce["traffic"]["bytes_down"], 8 * p * steps);
    assert_eq!(allreduce["traffic"]["missed_gets"], 0);
    assert_eq!(allreduce["dataset_traffic"]["gets"], 24);
    assert_eq!(allreduce["traffic_matches"], true);
    assert_eq!(allreduce["replicas_identical"], true);
    assert_eq!(allreduce["accuracy"], f64::from(200 + 120 + 60) / 512.0);
    assert_eq!(allreduce["memory_mb"], 2048);
    assert_eq!(rows[4]["memory_mb"], serde_json::Value::Null);
    assert!(allreduce["seconds_per_epoch"]["ci95"].is_array());
    let mlless = &rows[1];
    assert_eq!(
        (&mlless["trials"], &mlless["failed_trials"]),
        (&2.into(), &1.into())
    );
    assert_eq!(mlless["seconds_per_epoch"]["ci95"], serde_json::Value::Null);
    assert_eq!(analysis.exit_status(), Exit::Failed);
}

/// Three batches that start 2 + 0.4 · 3 s apart; the last lasts 3.32 s at rank 3.
#[test]
fn an_epoch_lasts_from_its_first_start_to_its_last_end() {
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), "[]");
    let analysis = analysed(&run);
    let first = &analysis.rows[3].trials[0];
    let last_step = 0.02 + 1.25 + 0.01 + 0.14 + 1.0 + 0.2 + 0.05 + 0.03 + 0.4;
    let expected = 2.0 * (2.0 + 3.0 * 0.4) + last_step;
    assert!(
        (first.epochs[0].seconds - expected).abs() < 1e-9,
        "{}",
        first.epochs[0].seconds
    );
}

#[test]
fn verdicts_compare_only_what_can_be_compared() {
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), fixture::CLAIMS);
    let analysis = analysed(&run);
    let verdicts: Vec<(VerdictKind, &str)> = analysis
        .summary
        .verdicts
        .iter()
        .map(|verdict| (verdict.verdict, verdict.reason.as_str()))
        .collect();
    assert!(verdicts[0].0 == VerdictKind::Undecided && verdicts[0].1.contains("a cost computed"));
    assert!(
        verdicts[1].0 == VerdictKind::Undecided && verdicts[1].1.contains("a time of this machine")
    );
    assert_eq!(verdicts[2].0, VerdictKind::Reproduced, "{verdicts:?}");
    assert!(verdicts[3].0 == VerdictKind::Undecided && verdicts[3].1.contains("generated"));
    assert!(
        verdicts[4..9]
            .iter()
            .all(|(word, _)| *word == VerdictKind::Holds),
        "{verdicts:?}"
    );
    assert_eq!(verdicts[9].0, VerdictKind::NotRun);
    let ratio = &analysis.summary.verdicts[2];
    assert_eq!(
        (ratio.row.as_deref(), ratio.unit.as_str()),
        (Some("allreduce-paper"), "×")
    );
}

/// Rank 0 evaluates 10 s after the first step begins, both times: 39 % and 62.5 %.
#[test]
fn a_time_to_accuracy_is_known_only_once_it_is_reached() {
    let claims = r#"[
      {"kind": "own", "claim": "reached", "select": {"system": "spirt"}, "metric": "time_to_accuracy",
       "target": 0.6, "unit": "min", "at_least": 0},
      {"kind": "own", "claim": "never reached", "select": {"system": "spirt"}, "metric": "time_to_accuracy",
       "target": 0.9, "at_least": 0, "expect": "undecided", "explanation": {"text": "It is too short."}},
      {"kind": "own", "claim": "explained", "select": {"system": "spirt"}, "metric": "accuracy", "unit": "%",
       "at_least": 99, "expect": "undecided", "explanation": {"text": "It is too short."}},
      {"kind": "published", "claim": "of a paper", "select": {"system": "spirt"}, "over": {"system": "mlless"},
       "metric": "accuracy", "at_most": 2, "source": "a paper"}
    ]"#;
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), claims);
    let verdicts = analysed(&run).summary.verdicts;
    assert_eq!(verdicts[0].verdict, VerdictKind::Holds);
    assert!((verdicts[0].observed.unwrap() - 10.0 / 60.0).abs() < 1e-9);
    assert_eq!(
        (verdicts[1].verdict, verdicts[1].observed),
        (VerdictKind::Undecided, None)
    );
    let reason = &verdicts[1].reason;
    assert!(
        reason.contains("90.0 % accuracy was not reached in 2 epochs"),
        "{reason}"
    );
    assert!(
        reason.contains("62.5 %") && reason.ends_with("It is too short."),
        "{reason}"
    );
    // Where the verdict is another one than what is explained, it is not explained.
    assert_eq!(verdicts[2].verdict, VerdictKind::Fails);
    assert!(!verdicts[2].reason.contains("too short"));
    assert!((verdicts[2].observed.unwrap() - 62.5).abs() < 1e-9);
    // A paper's ranking is one of the original data.
    assert_eq!(verdicts[3].verdict, VerdictKind::Undecided);
    assert!(verdicts[3].reason.ends_with("there it is as published"));
}

/// Version 1.1 had no cells, and every verdict had a metric.
#[test]
fn a_verdict_of_an_older_summary_is_read() {
    let old = r#"{"claim": "c", "kind": "own", "statement": "c", "row": null, "metric": "puts", "unit": "", "source": null,
        "published": null, "observed": null, "observed_ci95": null, "ratio": null,
        "band": [null, 1.0], "verdict": "not_run", "expect": null, "reason": "r"}"#;
    let verdict: epochcost::analysis::summary::Verdict = serde_json::from_str(old).unwrap();
    assert_eq!(verdict.cell, None);
    assert_eq!(verdict.metric, Some(Metric::Puts));
}

#[test]
fn a_verdict_that_differs_from_the_expected_one_fails_the_run() {
    let judged = |expect: &str, limit: f64| {
        let claims = format!(
            r#"[{{"kind": "own", "claim": "c", "select": {{"system": "spirt"}}, "metric": "accuracy",
                "at_least": {limit}{expect}}}]"#
        );
        let directory = tempfile::tempdir().unwrap();
        let run =
            RunDirectory::create(Some(directory.path()), fixture::new_run(&claims, 1)).unwrap();
        for system in fixture::SYSTEMS {
            let plan = fixture::plan(system, 0);
            run.append_trial(&plan, &fixture::outcome(&plan, 1.0))
                .unwrap();
        }
        analysed(&run).exit_status()
    };
    assert_eq!(judged("", 0.3), Exit::Done);
    assert_eq!(judged("", 0.99), Exit::Failed);
    assert_eq!(judged(r#", "expect": "fails""#, 0.99), Exit::Done);
    assert_eq!(judged(r#", "expect": "fails""#, 0.3), Exit::Failed);
}

#[test]
fn replicas_that_differ_and_traffic_that_differs_are_seen() {
    let directory = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(Some(directory.path()), fixture::new_run("[]", 1)).unwrap();
    let plan = fixture::plan("allreduce", 0);
    let mut outcome = fixture::outcome(&plan, 1.0);
    let Some(Record::Step(step)) = outcome.records.last_mut() else {
        panic!("no step")
    };
    step.parameters_digest = Some("another".into());
    step.traffic.exchange.objects.puts += 1;
    run.append_trial(&plan, &outcome).unwrap();
    let plan = fixture::plan("scatterreduce", 0);
    let mut outcome = fixture::outcome(&plan, 1.0);
    outcome
        .records
        .retain(|record| !matches!(record, Record::Step(step) if step.rank == 3));
    run.append_trial(&plan, &outcome).unwrap();
    let analysis = analysed(&run);
    let row = |i: usize| &analysis.summary.rows[i];
    assert_eq!(
        (row(3).replicas_identical, row(3).traffic_matches),
        (Some(false), Some(false))
    );
    assert_eq!(row(2).replicas_identical, None, "one worker told nothing");
    assert_eq!(
        (row(0).trials, row(0).accuracy, row(0).traffic.puts),
        (0, None, None)
    );
    assert!(
        analysis
            .warnings()
            .iter()
            .any(|warning| warning.text.contains("closed form"))
    );
}

#[test]
fn the_report_is_a_pure_function_of_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), fixture::CLAIMS);
    let files = [
        "summary.json",
        "cost.json",
        "epochs.tsv",
        "trace.json",
        "report.html",
        "report.md",
    ];
    let read = || files.map(|name| fs::read(run.path().join(name)).unwrap());
    analysed(&run);
    let first = read();
    for name in files {
        fs::remove_file(run.path().join(name)).unwrap();
    }
    analysed(&RunDirectory::open(run.path()).unwrap());
    assert!(first == read());
}

#[test]
fn the_page_stands_alone_and_escapes_what_it_shows() {
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), fixture::CLAIMS);
    analysed(&run);
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    for foreign in ["src=", "<link", "@import", "url(", "http://", "https://"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("at &lt;epoch 1 | batch 2&gt;"));
    // Its policy names the one script by its hash, and lets no other run.
    let (_, script) = page.split_once("<script>").unwrap();
    let (script, rest) = script.split_once("</script>").unwrap();
    assert!(!rest.contains("<script"));
    let hash = BASE64_STANDARD.encode(epochcost::hash::sha256(script.as_bytes()));
    assert!(page.contains(&format!("script-src 'sha256-{hash}'")));
    for (size, class) in [(860, "for-wide"), (350, "for-narrow")] {
        let head = format!("<svg viewBox='0 0 {size} ");
        let charts = page.lines().filter(|line| line.contains(&head));
        let charts = charts.filter(|line| line.contains(class)).count();
        assert_eq!(charts, 7 + 5, "seven of all rows, and a timeline of each");
    }
    assert!(page.contains("local durations at list prices"));
    let markdown = fs::read_to_string(run.path().join("report.md")).unwrap();
    assert!(markdown.contains(r"at &lt;epoch 1 \| batch 2&gt;"));
}

/// A link in a claim or a description stays text: nothing in a report leads anywhere.
#[test]
fn links_in_texts_stay_text() {
    let link = "[x](javascript:alert(1)) <a href='javascript:alert(1)'> <javascript:alert(1)>";
    let claims = fixture::CLAIMS.replacen("every system learns something", link, 1);
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), &claims);
    analysed(&run);
    for name in ["report.md", "report.html"] {
        let page = fs::read_to_string(run.path().join(name)).unwrap();
        assert!(page.contains("javascript:alert(1)"), "the text is there");
        assert!(!page.contains("<a href='javascript") && !page.contains("<javascript"));
    }
    let markdown = fs::read_to_string(run.path().join("report.md")).unwrap();
    assert!(markdown.contains(r"\[x\](javascript:alert(1))"), "no link");
    assert_eq!(
        markdown.matches("](javascript").count(),
        markdown.matches(r"\](javascript").count()
    );
}

/// Set `UPDATE_GOLDEN=1` to accept what changed.
#[test]
fn the_markdown_twin_reads_as_before() {
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), fixture::CLAIMS);
    let analysis = analysed(&run);
    let markdown = fs::read_to_string(run.path().join("report.md")).unwrap();
    let found = format!(
        "{}\n{}\n",
        redacted(&markdown, &analysis.summary.run_id),
        report::terminal_table(&analysis, None)
    );
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/report/golden.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &found).unwrap();
    }
    assert_eq!(found, fs::read_to_string(&golden).unwrap());
}

/// Without what depends on the day and the machine.
fn redacted(markdown: &str, run_id: &str) -> String {
    let (head, rest) = markdown.split_once("<details><summary>").unwrap();
    let (warnings, rest) = rest.split_once("</details>").unwrap();
    assert!(warnings.contains("warnings of"), "{warnings}");
    let (body, _) = rest.split_once("## Provenance").unwrap();
    format!("{head}{body}").replace(run_id, "RUN-ID")
}

/// The page, its Markdown twin and the terminal begin with what follows from the
/// figures; a machine reads it in `summary.json`.
#[test]
fn a_report_begins_with_its_answer() {
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), fixture::CLAIMS);
    let analysis = analysed(&run);
    let [fastest, cheapest, conclusions] = analysis.summary.answer.sentences()[..] else {
        panic!("{:?}", analysis.summary.answer);
    };
    // Every system reaches 30 % at its first evaluation, 10 s after its first step.
    assert!(
        fastest.starts_with("Fastest: SPIRT, 10.0 s to 30.0 % accuracy"),
        "{fastest}"
    );
    assert!(
        fastest.contains("do not tell it apart from MLLess and 3 more"),
        "{fastest}"
    );
    assert!(cheapest.starts_with("Cheapest: "), "{cheapest}");
    assert!(
        cheapest.contains(" on functions, $")
            && cheapest.contains("on rented instances, GPU baseline, costs"),
        "{cheapest}"
    );
    assert_eq!(
        conclusions,
        "Of 4 published figures tested here, 1 is reproduced and 3 cannot be told."
    );
    let read = |name: &str| fs::read_to_string(run.path().join(name)).unwrap();
    let (page, twin) = (read("report.html"), read("report.md"));
    let place = |text: &str, part: &str| text.find(part).unwrap_or_else(|| panic!("{part}"));
    assert!(place(&page, conclusions) < place(&page, "class=\"strip\""));
    assert!(place(&page, "id=\"table-summary\"") < place(&page, "id=\"warnings\""));
    assert!(place(&twin, conclusions) < place(&twin, "## Summary"));
    assert!(report::terminal_table(&analysis, None).starts_with("Fastest: SPIRT"));
    let summary: serde_json::Value = serde_json::from_str(&read("summary.json")).unwrap();
    assert_eq!(summary["answer"]["conclusions"], conclusions);
    assert_eq!(summary["target_accuracy"], 0.3);
    assert_eq!(summary["rows"][0]["seconds_to_target"]["mean"], 10.0);
    assert!(
        summary["rows"][0]["cost_to_target_full_usd"]
            .as_f64()
            .is_some()
    );
}

/// Smoke's twenty checks once filled a table "Published against measured", each
/// "reproduced".
#[test]
fn checks_are_one_line_and_no_reproductions() {
    let checks: Vec<String> = fixture::SYSTEMS
        .iter()
        .map(|system| {
            format!(
                r#"{{"kind": "check", "claim": "traffic of {system}", "select": {{"system": "{system}"}},
                    "metric": "traffic_matches", "at_least": 1}}"#
            )
        })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let claims = format!("[{}]", checks.join(","));
    let run = fixture::finished(directory.path(), &claims);
    let analysis = analysed(&run);
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(page.contains("<b>5</b> of 5 checks hold"));
    assert!(page.contains("<details><summary>5 of 5 checks hold"));
    assert!(!page.contains("Published against") && !page.contains("id=\"table-verdicts\""));
    let conclusions = &analysis.summary.answer.conclusions;
    assert_eq!(conclusions, "No statement of a paper is tested here.");
    let printed = report::terminal_table(&analysis, None);
    assert_eq!(printed.matches("checks hold").count(), 1, "{printed}");
}

#[test]
fn a_table_fits_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), "[]");
    let analysis = analysed(&run);
    let widest = |text: &str| {
        let table = text.lines().skip_while(|line| !line.starts_with("system"));
        let table = table.take(1 + fixture::SYSTEMS.len());
        table.map(|line| line.chars().count()).max().unwrap()
    };
    let whole = report::terminal_table(&analysis, None);
    assert!(widest(&whole) > 100 && !whole.contains("--wide"));
    for width in [120, 80, 60] {
        let text = report::terminal_table(&analysis, Some(width));
        assert!(widest(&text) <= width, "{width}: {text}");
        assert!(
            text.contains("s/epoch") && text.contains("$ full"),
            "{text}"
        );
        assert!(text.contains("--wide also shows"), "{text}");
    }
}

#[test]
fn a_run_that_was_cut_off_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(Some(directory.path()), fixture::new_run("[]", 2)).unwrap();
    let plan = fixture::plan("spirt", 0);
    run.append_trial(&plan, &fixture::outcome(&plan, 1.0))
        .unwrap();
    fixture::unsealed(run.path());
    let trials = run.path().join("trials.jsonl");
    let mut text = fs::read(&trials).unwrap();
    text.extend_from_within(..100);
    fs::write(&trials, text).unwrap();
    let calls = run.path().join("invocations.jsonl");
    let orphans = fs::read_to_string(&calls)
        .unwrap()
        .replace(r#""trial":0"#, r#""trial":1"#);
    fs::write(&calls, fs::read_to_string(&calls).unwrap() + &orphans).unwrap();

    let path = directory.path();
    let busy = RunDirectory::resume(path, &fixture::new_run("[]", 2)).unwrap_err();
    assert!(matches!(busy, ResultsError::InUse { .. }), "{busy}");
    drop(run);
    let opened = RunDirectory::open(path).unwrap();
    assert!(
        opened.warnings()[0].contains("trials.jsonl"),
        "{:?}",
        opened.warnings()
    );
    let run = RunDirectory::resume(path, &fixture::new_run("[]", 2)).unwrap();
    let finished = run.finished_trials().unwrap();
    assert_eq!(finished.len(), 1);
    assert!(
        finished
            .iter()
            .all(|id| (id.row.as_str(), id.trial) == ("spirt-paper", 0))
    );
    assert_eq!(
        run.invocations().unwrap().len(),
        4,
        "an unfinished trial's are dropped"
    );
    let plan = fixture::plan("spirt", 1);
    run.append_trial(&plan, &fixture::outcome(&plan, 1.0))
        .unwrap();
    assert_eq!(run.trials().unwrap().len(), 2);
    drop(run);
    assert!(matches!(
        RunDirectory::resume(path, &fixture::new_run("[]", 3)),
        Err(ResultsError::Different { .. })
    ));
}

#[test]
fn steps_survive_their_file() {
    let directory = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(Some(directory.path()), fixture::new_run("[]", 1)).unwrap();
    let plan = fixture::plan("mlless", 0);
    let mut outcome = fixture::outcome(&plan, 1.0);
    if let Some(Record::Step(step)) = outcome.records.first_mut() {
        step.batch = None;
        step.loss = None;
        step.update_density = Some(0.25);
        step.parameters_digest = None;
        step.traffic.state.queue.polls = u64::MAX;
    }
    let row = run.append_trial(&plan, &outcome).unwrap();
    let written: Vec<_> = outcome
        .records
        .into_iter()
        .filter_map(|record| {
            if let Record::Step(step) = record {
                Some(*step)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(run.steps(&row).unwrap(), written);
    let names: Vec<_> = fs::read_dir(run.path().join("events")).unwrap().collect();
    assert_eq!(names.len(), 1, "no temporary file stays behind");
}

#[test]
fn directories_that_cannot_be_used_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    let new = || fixture::new_run("[]", 1);
    let below_a_file = RunDirectory::create(Some(&file.join("run")), new()).unwrap_err();
    assert!(
        matches!(below_a_file, ResultsError::Unwritable { .. }),
        "{below_a_file}"
    );
    let full = RunDirectory::create(Some(directory.path()), new()).unwrap_err();
    assert!(
        matches!(full, ResultsError::NotEmpty(_)) && full.is_usage(),
        "{full}"
    );
    let empty = RunDirectory::open(&directory.path().join("none")).unwrap_err();
    assert!(matches!(empty, ResultsError::NotARun(_)), "{empty}");
}
fn trace(run: &RunDirectory) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(run.path().join("trace.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(trace["displayTimeUnit"], "ms");
    trace["traceEvents"].as_array().unwrap().clone()
}

/// The fields that the Trace Event Format requires of slices ("X") and of
/// names ("M"), and that slices of a thread nest.
#[test]
fn the_trace_is_one_that_viewers_open() {
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), "[]");
    analysed(&run);
    let mut open: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
    let mut categories = BTreeSet::new();
    let mut processes = BTreeSet::new();
    for event in trace(&run) {
        assert!(event["name"].is_string(), "{event}");
        let thread = (
            event["pid"].as_u64().unwrap(),
            event["tid"].as_u64().unwrap(),
        );
        if event["ph"] == "M" {
            let names = [
                "process_name",
                "process_labels",
                "process_sort_index",
                "thread_name",
            ];
            assert!(names.iter().any(|name| event["name"] == *name), "{event}");
            assert_eq!(event["args"].as_object().unwrap().len(), 1);
            continue;
        }
        assert_eq!(event["ph"], "X");
        processes.insert(thread.0);
        categories.insert(event["cat"].as_str().unwrap().to_owned());
        let (from, duration) = (
            event["ts"].as_f64().unwrap(),
            event["dur"].as_f64().unwrap(),
        );
        assert!(from >= 0.0 && duration >= 0.0, "{event}");
        let stack = open.entry(thread).or_default();
        while stack.last().is_some_and(|end| *end <= from) {
            stack.pop();
        }
        assert!(
            stack.last().is_none_or(|end| from + duration <= end + 1e-3),
            "{event}"
        );
        stack.push(from + duration);
    }
    let known = ["init", "invocation", "stage", "step", "synchronise"];
    assert!(categories.iter().eq(known.iter()), "{categories:?}");
    assert_eq!(
        processes.len(),
        5 * 4,
        "one a worker of a trial of each row"
    );
}

#[test]
fn a_trace_of_many_steps_is_cut_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(Some(directory.path()), fixture::new_run("[]", 1)).unwrap();
    let plan = fixture::plan("allreduce", 0);
    let mut outcome = fixture::outcome(&plan, 1.0);
    let short = |(i, record): (usize, &Record)| {
        let mut record = record.clone();
        if let Record::Step(step) = &mut record {
            step.started_s = 1000.0 + i as f64 * 1e-3;
            step.seconds = StageSeconds {
                compute_gradients: 4e-4,
                put: 1e-4,
                get: 1e-4,
                ..StageSeconds::default()
            };
        }
        record
    };
    let records = outcome.records.iter().cycle().take(12_000).enumerate();
    outcome.records = records.map(short).collect();
    run.append_trial(&plan, &outcome).unwrap();
    analysed(&run);
    let slices = trace(&run)
        .iter()
        .filter(|event| event["ph"] == "X")
        .count();
    assert_eq!(slices, 40_000);
    let text = fs::read_to_string(run.path().join("trace.json")).unwrap();
    assert!(
        text.contains("\"left_out\":[\"allreduce-paper trial 0: "),
        "{}",
        &text[..900]
    );
}

#[test]
fn a_page_of_hundreds_of_verdicts_stays_small() {
    let claim = r#"{"kind": "published", "claim": "every system learns something, and this says so at some length",
        "select": {}, "metric": "accuracy", "published": 0.55, "tolerance": 0.1, "source": "a paper, a table"}"#;
    let claims = format!("[{}]", [claim; 80].join(","));
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), &claims);
    let analysis = analysed(&run);
    assert_eq!(analysis.summary.verdicts.len(), 400);
    let size = fs::metadata(run.path().join("report.html")).unwrap().len();
    assert!(size < 1_000_000, "{size} bytes");
}
