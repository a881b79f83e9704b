//! The page, its Markdown twin and the table of the terminal.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use epochcost_record::TrialId;
use epochcost_systems::Device;

use super::*;
use crate::support::lacks;

#[test]
fn the_report_is_a_pure_function_of_the_directory() {
    let reported = Reported::of(fixture::CLAIMS);
    let files = "summary.json cost.json epochs.tsv trace.json report.html report.md";
    let read = || -> Vec<String> { files.split(' ').map(|name| reported.read(name)).collect() };
    let first = read();
    for name in files.split(' ') {
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
    let outside = ["src=", "<link", "@import", "url(", "http://", "https://"];
    lacks(&page, &outside);
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
}

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
    // The others are in the snapshot above.
    let checks = "Checks: replicas are bit-identical in 5 of 5, metered traffic equals its closed form in 5 of 5.";
    assert_eq!((sentences.len(), sentences[1]), (4, checks));
    let [page, twin, junit] =
        ["report.html", "report.md", "junit.xml"].map(|name| reported.read(name));
    let terminal = reported.terminal();
    let learned = "5 of 5 systems passed 30 % test accuracy (62.5 to 78.1 %).";
    for text in [&page, &twin, &terminal, &junit] {
        holds(text, &[learned]);
        lacks(text, &["Fastest", "Cheapest", "Pareto"]);
        lacks(text, &["Down and left is better"]);
    }
    let title = "<h2 id=\"time-cost\">Time against cost on this machine: no ranking";
    holds(&page, &[title]);
    assert!(terminal.starts_with(learned));
    // The answer, then the table, then all else.
    let place = |text: &str, part: &str| text.find(part).unwrap_or_else(|| panic!("{part}"));
    let order = r#"id="answer", id="table-summary", id="warnings", class="strip", <nav"#;
    let order: Vec<usize> = order.split(", ").map(|part| place(&page, part)).collect();
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

/// Seconds and dollars of a line are of one basis, an epoch where no accuracy is asked for.
#[test]
fn seconds_and_dollars_of_a_line_have_one_basis() {
    let reported = Reported::of("[]");
    let terminal = reported.terminal();
    let line = |begin: &str| {
        let line = terminal.lines().find(|line| line.starts_with(begin));
        line.unwrap()
    };
    let words = line("system ").split("  ").map(str::trim);
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let columns = ["system", "s/epoch", "cost/epoch", "paper's cost/epoch"];
    assert_eq!(words[..4], columns);
    let heading = "| seconds per epoch | cost per epoch |";
    holds(reported.read("report.md"), &[heading]);
    let row = &reported.analysis.summary.rows[4];
    let per_epoch = row.mean(Metric::CostFullUsd).unwrap() / row.epochs as f64;
    let per_epoch = epochcost_spec::format::number(per_epoch);
    holds(line("GPU baseline"), &[&format!("{per_epoch} ‡")]);
}

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
        new.rows[4].row.job.device = Device::Cuda;
        let run = RunDirectory::create(Some(directory.path()), new).unwrap();
        let mut plan = fixture::plan("gpu_baseline", 0);
        plan.row.job.device = Device::Cuda;
        let mut outcome = fixture::outcome(&plan, 1.0);
        if fell_back {
            let warning = "gradients were computed on the CPU in fp32: there is no GPU";
            outcome.warnings.push(warning.to_owned());
        }
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
