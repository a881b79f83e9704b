//! The page, its Markdown twin and the table of the terminal.

use std::fs;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use epochcost_record::{RunDirectory, TrialId};
use epochcost_report as report;
use epochcost_spec::claims::Metric;

use super::{Reported, analysed};
use crate::fixture;
use crate::support::{holds, lacks};

#[test]
fn the_report_is_a_pure_function_of_the_directory() {
    let reported = Reported::of(fixture::CLAIMS);
    let files = [
        "summary.json",
        "cost.json",
        "epochs.tsv",
        "trace.json",
        "report.html",
        "report.md",
    ];
    let read = || files.map(|name| reported.read(name));
    let first = read();
    for name in files {
        fs::remove_file(reported.scene.file(name)).unwrap();
    }
    analysed(&RunDirectory::open(reported.scene.path()).unwrap());
    assert!(first == read());
}

#[test]
fn epochs_of_failed_trials_are_marked() {
    let reported = Reported::with("[]", &fixture::SYSTEMS, |outcome, system| {
        outcome.failure = (system == "mlless").then(|| "a worker died".into());
    });
    let trials = reported.run.trials().unwrap();
    let table = reported.read("epochs.tsv");
    let mut marked = 0;
    for line in table.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let is_of = |id: &TrialId| id.row == cells[0] && id.trial.to_string() == cells[2];
        let trial = trials.iter().find(|trial| is_of(&trial.id)).unwrap();
        let failed = usize::from(trial.failure.is_some());
        assert_eq!(cells[9], failed.to_string(), "{line}");
        marked += failed;
    }
    assert!(marked > 0, "{table}");
}

#[test]
fn the_page_stands_alone_and_escapes_what_it_shows() {
    let reported = Reported::of(fixture::CLAIMS);
    let page = reported.read("report.html");
    lacks(
        &page,
        &["src=", "<link", "@import", "url(", "http://", "https://"],
    );
    let listed = "local durations at list prices";
    holds(&page, &["at &lt;epoch 1 | batch 2&gt;", listed]);
    // Its policy names the one script by its hash, and lets no other run.
    let (_, script) = page.split_once("<script>").unwrap();
    let (script, rest) = script.split_once("</script>").unwrap();
    assert!(!rest.contains("<script"));
    let hash = BASE64_STANDARD.encode(epochcost_spec::hash::sha256(script.as_bytes()));
    holds(&page, &[&format!("script-src 'sha256-{hash}'")]);
    for (size, class) in [(860, "for-wide"), (350, "for-narrow")] {
        let head = format!("<svg viewBox='0 0 {size} ");
        let charts = page.lines().filter(|line| line.contains(&head));
        let charts = charts.filter(|line| line.contains(class)).count();
        assert_eq!(charts, 7 + 5, "seven of all rows, and a timeline of each");
    }
    let escaped = r"at &lt;epoch 1 \| batch 2&gt;";
    holds(reported.read("report.md"), &[escaped]);
}

/// A link in a claim or a description stays text: nothing in a report leads anywhere.
#[test]
fn links_in_texts_stay_text() {
    let link = "[x](javascript:alert(1)) <a href='javascript:alert(1)'> <javascript:alert(1)>";
    let claims = fixture::CLAIMS.replacen("every system learns something", link, 1);
    let reported = Reported::of(&claims);
    for name in ["report.md", "report.html"] {
        let page = reported.read(name);
        assert!(page.contains("javascript:alert(1)"), "the text is there");
        assert!(!page.contains("<a href='javascript") && !page.contains("<javascript"));
    }
    let markdown = reported.read("report.md");
    holds(&markdown, &[r"\[x\](javascript:alert(1))"]);
    let count = |link: &str| markdown.matches(link).count();
    assert_eq!(count("](javascript"), count(r"\](javascript"));
}

#[test]
fn the_markdown_twin_reads_as_before() {
    let reported = Reported::of(fixture::CLAIMS);
    let id = &reported.analysis.summary.run_id;
    let markdown = redacted(&reported.read("report.md"), id);
    insta::assert_snapshot!(format!("{markdown}\n{}", reported.terminal()));
}

/// Without what depends on the day and the machine.
fn redacted(markdown: &str, run_id: &str) -> String {
    let (head, rest) = markdown.split_once("<details><summary>").unwrap();
    let (warnings, rest) = rest.split_once("</details>").unwrap();
    assert!(warnings.contains("warnings of"), "{warnings}");
    let (body, _) = rest.split_once("## Provenance").unwrap();
    format!("{head}{body}").replace(run_id, "RUN-ID")
}

/// The page, its Markdown twin, JUnit's file and the terminal begin with what follows from the
/// figures; a machine reads it in `summary.json`. Seconds of this machine name no winner.
#[test]
fn a_run_on_this_machine_begins_with_what_was_learned_and_names_no_winner() {
    let check = r#"[{"kind": "check", "claim": "replicas agree", "metric": "replicas_identical", "formula": "replicas_identical = 1"},
      {"kind": "check", "claim": "traffic is that of its closed form", "metric": "traffic_matches", "formula": "traffic_matches = 1"},"#;
    let claims = fixture::CLAIMS.replacen('[', check, 1);
    let reported = Reported::of(&claims);
    let sentences = reported.analysis.summary.answer.sentences();
    assert_eq!(
        sentences,
        [
            "5 of 5 systems passed 30 % test accuracy (62.5 to 78.1 %).",
            "Checks: replicas are bit-identical in 5 of 5, metered traffic equals its closed form in 5 of 5.",
            "Time to 30 %: 10.0 s on the trial's clock. Seconds are of this machine: the \
             verb plan and the platform sim compare systems on AWS.",
            "The one conclusion tested here holds. Of 3 published figures tested here, 0 agree and 3 are undecided.",
        ]
    );
    let [page, twin, junit] =
        ["report.html", "report.md", "junit.xml"].map(|name| reported.read(name));
    let terminal = reported.terminal();
    let learned = sentences[0];
    for text in [&page, &twin, &terminal, &junit] {
        holds(text, &[learned]);
        lacks(
            text,
            &["Fastest", "Cheapest", "Pareto", "Down and left is better"],
        );
    }
    let title = "<h2 id=\"time-cost\">Time against cost on this machine: no ranking";
    holds(&page, &[title]);
    assert!(terminal.starts_with(learned));
    // The answer, then the table, then all else.
    let place = |text: &str, part: &str| text.find(part).unwrap_or_else(|| panic!("{part}"));
    let order = [
        "id=\"answer\"",
        "id=\"table-summary\"",
        "id=\"warnings\"",
        "class=\"strip\"",
        "<nav",
    ];
    let order = order.map(|part| place(&page, part));
    assert!(order.is_sorted(), "{order:?}");
    assert!(place(&twin, learned) < place(&twin, "## Summary"));
    let summary = reported.scene.value("summary.json");
    assert_eq!(summary["answer"]["findings"][0], learned);
    assert_eq!(summary["answer"]["fastest"], "");
    assert_eq!(summary["target_accuracy"], 0.3);
    assert_eq!(summary["rows"][0]["seconds_to_target"]["mean"], 10.0);
    let usd = &summary["rows"][0]["cost_to_target_full_usd"];
    assert!(usd.as_f64().is_some());
}

#[test]
fn systems_that_did_not_learn_are_named() {
    let [before, after] =
        [0.3, 0.7].map(|target| format!("{target}, \"formula\": \"accuracy >= {target}"));
    let reported = Reported::of(&fixture::CLAIMS.replacen(&before, &after, 1));
    assert_eq!(
        reported.analysis.summary.answer.sentences()[0],
        "3 of 5 systems passed 70 % test accuracy (70.3 to 78.1 %) (not SPIRT: 62.5 %, MLLess: 66.4 %)."
    );
}

/// Six steps teach nothing: an accuracy of chance is no result, and stands on no first screen.
#[test]
fn a_run_of_a_few_steps_compares_nothing() {
    let reported = Reported::of("[]");
    let first = "5 of 5 systems ran; the run is too short to compare.";
    assert_eq!(reported.analysis.summary.answer.sentences()[0], first);
    let page = reported.read("report.html");
    let (_, table) = page.split_once("id=\"table-summary\"").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    for text in [&*reported.terminal(), table] {
        lacks(text, &["accuracy", "62.5 %"]);
    }
}

/// Seconds and dollars of a line are of one basis, and those of the whole trial are called so.
#[test]
fn seconds_and_dollars_of_a_line_have_one_basis() {
    let heading = |claims: &str| {
        let reported = Reported::of(claims);
        let terminal = reported.terminal();
        let first = |text: &str, begin: &str| {
            let mut lines = text.lines();
            let line = lines.find(|line| line.starts_with(begin));
            line.unwrap().to_owned()
        };
        let words = first(&terminal, "system ");
        let words = words.split("  ").map(str::trim);
        let words = words.filter(|word| !word.is_empty());
        let row = &reported.analysis.summary.rows[4];
        let per_epoch = row.mean(Metric::CostFullUsd).unwrap() / row.epochs as f64;
        (
            words.map(str::to_owned).collect::<Vec<_>>(),
            first(&reported.read("report.md"), "| system |"),
            epochcost_spec::format::number(per_epoch),
            first(&terminal, "GPU baseline"),
        )
    };
    let (words, twin, per_epoch, line) = heading("[]");
    let columns = ["system", "s/epoch", "cost/epoch", "paper's cost/epoch"];
    assert_eq!(words[..4], columns);
    holds(&twin, &["| seconds per epoch | cost per epoch |"]);
    holds(&line, &[&format!("{per_epoch} ‡")]);
    let (words, twin, _, _) = heading(fixture::CLAIMS);
    let to_target = [
        "system",
        "s to 30 %",
        "cost to 30 %",
        "paper's cost to 30 %",
    ];
    assert_eq!(words[..4], to_target);
    assert_eq!(words[4..6], ["total s", "total cost"]);
    let is_of_epoch = |word: &String| word.contains("epoch");
    assert!(!words.iter().any(is_of_epoch), "{words:?}");
    let to_target = "| seconds to 30 % | cost to 30 % |";
    holds(&twin, &[to_target, "| total seconds | total cost |"]);
}

/// A row that stands for a GPU and was computed on a CPU is marked wherever it stands.
#[test]
fn a_cpu_in_a_gpus_place_is_marked_where_it_stands() {
    let reported = Reported::of(fixture::CLAIMS);
    let out = reported.scene.file("figures");
    fs::create_dir(&out).unwrap();
    report::write_figures(&reported.run, &reported.analysis, &out).unwrap();
    let means = "computed on a CPU in place of its GPU";
    for text in [
        reported.read("report.html"),
        reported.read("report.md"),
        reported.terminal(),
        reported.read("figures/time-cost.svg"),
        reported.read("figures/table-summary.md"),
    ] {
        holds(&text, &["GPU baseline †", &format!("† {means}")]);
        assert!(!text.contains("SPIRT †"));
    }
    let csv = reported.read("figures/table-summary.csv");
    let line = |system: &str| csv.lines().find(|line| line.starts_with(system)).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",note") && !csv.contains('†'));
    assert!(line("GPU baseline,").contains(means) && !line("AllReduce,").contains(means));
    let latex = reported.read("figures/table-summary.tex");
    let note = format!("\\dag{{}} {means}");
    holds(&latex, &["GPU baseline \\dag{} &", &note]);
}

/// A worker says in a warning that it fell back; one with a GPU has none.
#[test]
fn a_row_on_a_gpu_has_no_mark_unless_its_worker_fell_back() {
    for fell_back in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let mut new = fixture::new_run("[]", 1);
        let gpu = new.rows.last_mut().unwrap();
        gpu.row.job.device = epochcost_systems::Device::Cuda;
        let run = RunDirectory::create(Some(directory.path()), new).unwrap();
        let mut plan = fixture::plan("gpu_baseline", 0);
        plan.row.job.device = epochcost_systems::Device::Cuda;
        let mut outcome = fixture::outcome(&plan, 1.0);
        let warning = "gradients were computed on the CPU in fp32: there is no GPU";
        outcome
            .warnings
            .extend(fell_back.then(|| warning.to_owned()));
        run.append_trial(&plan, &outcome).unwrap();
        let rows = analysed(&run).summary.rows;
        assert_eq!(rows[4].cpu_for_gpu, fell_back);
        assert!(!rows[0].cpu_for_gpu);
    }
}

#[test]
fn a_table_fits_the_terminal() {
    let reported = Reported::of("[]");
    let widest = |text: &str| {
        let table = text.lines().skip_while(|line| !line.starts_with("system"));
        let table = table.take(1 + fixture::SYSTEMS.len());
        table.map(|line| line.chars().count()).max().unwrap()
    };
    let whole = reported.terminal();
    assert!(widest(&whole) > 90 && !whole.contains("--wide"));
    for width in [90, 80, 60] {
        let text = report::terminal_table(&reported.analysis, Some(width));
        assert!(widest(&text) <= width, "{width}: {text}");
        holds(&text, &["s/epoch", "cost/epoch", "--wide also shows"]);
    }
}

#[test]
fn a_page_of_hundreds_of_verdicts_stays_small() {
    let claim = r#"{"kind": "published", "claim": "every system learns something, and this says so at some length",
        "metric": "accuracy", "formula": "accuracy >= 0.55", "source": "a paper, a table"}"#;
    let claims = format!("[{}]", [claim; 80].join(","));
    let reported = Reported::of(&claims);
    assert_eq!(reported.analysis.summary.verdicts.len(), 400);
    let size = reported.read("report.html").len();
    assert!(size < 1_000_000, "{size} bytes");
}
