//! The page, its Markdown twin and the table of the terminal.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use epochcost::report;
use epochcost::results::RunDirectory;

use super::analysed;
use crate::fixture;

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
