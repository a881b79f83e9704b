//! Verdicts in a summary.

use super::*;

#[test]
fn verdicts_compare_only_what_can_be_compared() {
    let analysis = Reported::of(fixture::CLAIMS).analysis;
    let verdicts = &analysis.summary.verdicts;
    let open = ["a cost computed", "a time of this machine", "generated"];
    for (place, why) in [0, 1, 3].into_iter().zip(open) {
        assert_eq!(verdicts[place].verdict, VerdictKind::Open);
        holds(&verdicts[place].reason, &[why]);
    }
    assert_eq!(verdicts[2].verdict, VerdictKind::Agrees, "{verdicts:?}");
    let mut own = verdicts[4..9].iter();
    let hold = own.all(|one| one.verdict == VerdictKind::Holds);
    assert!(hold, "{verdicts:?}");
    assert_eq!(verdicts[9].verdict, VerdictKind::NotRun);
    let ratio = (verdicts[2].row.as_deref(), &*verdicts[2].unit);
    assert_eq!(ratio, (Some("allreduce-paper"), "×"));
}

#[test]
fn a_verdict_that_differs_from_the_expected_one_fails_the_run() {
    let fails = r#", "expect": "fails""#;
    for (expect, limit, status, said) in [
        ("", 0.3, Exit::Done, "1 holds."),
        ("", 0.99, Exit::Failed, "0 hold."),
        (fails, 0.99, Exit::Done, "0 hold; all are as expected."),
        (fails, 0.3, Exit::Failed, "1 holds; one is not as expected."),
    ] {
        let claims = format!(
            r#"[{{"kind": "own", "claim": "c", "metric": "completed", "formula": "0.9 * completed[spirt] >= {limit}"{expect}}}]"#
        );
        let analysis = Reported::with(&claims, &fixture::SYSTEMS, |_, _| ()).analysis;
        assert_eq!(analysis.exit_status(), status);
        let conclusions = &analysis.summary.answer.conclusions;
        let end = format!("; of 1 finding of this project, {said}");
        assert!(conclusions.ends_with(&end), "{conclusions}");
    }
}

/// Smoke's twenty checks once filled a table "Published against measured", each
/// an agreement.
#[test]
fn checks_are_one_line_and_no_reproductions() {
    let checks = fixture::SYSTEMS.map(|system| {
        format!(
            r#"{{"kind": "check", "claim": "traffic of {system}", "metric": "traffic_matches",
                "formula": "traffic_matches[{system}] = 1"}}"#
        )
    });
    let reported = Reported::of(&format!("[{}]", checks.join(",")));
    let page = reported.read("report.html");
    let hold = "<details><summary>5 of 5 checks hold";
    holds(&page, &["<b>5</b> of 5 checks hold", hold]);
    assert!(!page.contains("Published against") && !page.contains("id=\"table-verdicts\""));
    let none = "This run tests no published statement.";
    assert_eq!(reported.analysis.summary.answer.conclusions, none);
    let printed = reported.terminal();
    assert_eq!(printed.matches("checks hold").count(), 1, "{printed}");
    let overview = reported.scene.run("report . --out overview");
    holds(overview.text(), &["tests no published statement"]);
}
