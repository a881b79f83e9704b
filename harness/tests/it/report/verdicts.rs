//! Verdicts in a summary.

use std::fs;

use epochcost_record::RunDirectory;
use epochcost_report as report;
use epochcost_spec::claims::VerdictKind;
use epochcost_spec::exit::Exit;

use super::analysed;
use crate::fixture;
use crate::support::epochcost;

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
    assert!(verdicts[0].0 == VerdictKind::Open && verdicts[0].1.contains("a cost computed"));
    assert!(verdicts[1].0 == VerdictKind::Open && verdicts[1].1.contains("a time of this machine"));
    assert_eq!(verdicts[2].0, VerdictKind::Agrees, "{verdicts:?}");
    assert!(verdicts[3].0 == VerdictKind::Open && verdicts[3].1.contains("generated"));
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

#[test]
fn a_verdict_that_differs_from_the_expected_one_fails_the_run() {
    let judged = |expect: &str, limit: f64| {
        let claims = format!(
            r#"[{{"kind": "own", "claim": "c", "metric": "completed", "formula": "0.9 * completed[spirt] >= {limit}"{expect}}}]"#
        );
        let directory = tempfile::tempdir().unwrap();
        let run =
            RunDirectory::create(Some(directory.path()), fixture::new_run(&claims, 1)).unwrap();
        for system in fixture::SYSTEMS {
            let plan = fixture::plan(system, 0);
            run.append_trial(&plan, &fixture::outcome(&plan, 1.0))
                .unwrap();
        }
        let analysis = analysed(&run);
        let said = analysis.summary.answer.conclusions.clone();
        let (_, said) = said.rsplit_once("; of ").unwrap();
        (analysis.exit_status(), said.to_owned())
    };
    let found = |status: Exit, said: &str| (status, said.to_owned());
    let fails = r#", "expect": "fails""#;
    assert_eq!(
        judged("", 0.3),
        found(Exit::Done, "1 finding of this project, 1 holds.")
    );
    assert_eq!(
        judged("", 0.99),
        found(Exit::Failed, "1 finding of this project, 0 hold.")
    );
    assert_eq!(
        judged(fails, 0.99),
        found(
            Exit::Done,
            "1 finding of this project, 0 hold; all are as expected."
        )
    );
    assert_eq!(
        judged(fails, 0.3),
        found(
            Exit::Failed,
            "1 finding of this project, 1 holds; one is not as expected."
        )
    );
}

/// Smoke's twenty checks once filled a table "Published against measured", each
/// an agreement.
#[test]
fn checks_are_one_line_and_no_reproductions() {
    let checks: Vec<String> = fixture::SYSTEMS
        .iter()
        .map(|system| {
            format!(
                r#"{{"kind": "check", "claim": "traffic of {system}", "metric": "traffic_matches",
                    "formula": "traffic_matches[{system}] = 1"}}"#
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
    assert_eq!(conclusions, "This run tests no published statement.");
    let printed = report::terminal_table(&analysis, None);
    assert_eq!(printed.matches("checks hold").count(), 1, "{printed}");
    let path = run.path().to_string_lossy();
    let overview = epochcost(directory.path(), &["report", &path, "--out", "overview"]);
    let printed = String::from_utf8_lossy(&overview.stdout);
    assert!(
        printed.contains("tests no published statement"),
        "{printed}"
    );
}
