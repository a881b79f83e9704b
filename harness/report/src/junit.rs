//! Verdicts as JUnit's XML, which services for continuous integration show.

use epochcost_judge::analysis::Analysis;
use epochcost_judge::analysis::summary::Verdict;
use epochcost_spec::claims::VerdictKind;

use super::chart::escape as xml_text;

/// Returns one test case for each verdict: a failure where it is not the expected
/// one, skipped where nothing was observed; one for each row with a failed trial, with the reasons;
/// and the answer.
pub(super) fn junit(name: &str, analysis: &Analysis) -> String {
    let summary = &analysis.summary;
    let verdicts = &summary.verdicts;
    let failed_rows = (summary.rows.iter()).filter(|row| row.surprising_failures() > 0);
    let failed_rows: Vec<_> = failed_rows.collect();
    let failures = verdicts.iter().filter(|verdict| !verdict.holds()).count() + failed_rows.len();
    let skipped = verdicts.iter().filter(|one| is_skipped(one)).count();
    let suite = xml_text(name);
    let trials = || analysis.rows.iter().flat_map(|row| &row.trials);
    let seconds: f64 = trials().map(|trial| trial.trial.wall_s).sum();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{suite}\" tests=\"{}\" \
         failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{seconds:.3}\">\n",
        verdicts.len() + failed_rows.len()
    );
    for verdict in verdicts {
        text.push_str(&case(&suite, verdict));
    }
    for row in failed_rows {
        let trials = || trials().filter(|trial| trial.trial.id.row == row.id);
        let seconds: f64 = trials().map(|trial| trial.trial.wall_s).sum();
        let reasons = trials().filter_map(|trial| {
            let reason = trial.trial.failure.as_deref()?;
            let (number, seconds) = (trial.trial.id.trial, trial.trial.wall_s);
            let reason = xml_text(reason);
            Some(format!("trial {number}, after {seconds:.3} s: {reason}"))
        });
        let reasons: Vec<String> = reasons.collect();
        let (name, failed, all) = (xml_text(&row.id), row.surprising_failures(), row.trials);
        text.push_str(&format!(
            "  <testcase classname=\"{suite}\" name=\"{name}\" time=\"{seconds:.3}\"><failure \
             message=\"{failed} of {all} trials failed\">{}</failure></testcase>\n",
            reasons.join("\n")
        ));
    }
    let answer = xml_text(&summary.answer.sentences().join("\n"));
    text.push_str(&format!(
        "  <system-out>{answer}</system-out>\n</testsuite>\n"
    ));
    text
}

fn is_skipped(verdict: &Verdict) -> bool {
    verdict.holds() && verdict.verdict == VerdictKind::NotRun
}

fn case(suite: &str, verdict: &Verdict) -> String {
    let row = verdict.row.as_ref();
    let row = row.map_or(String::new(), |row| format!(" ({row})"));
    let name = xml_text(&format!("{}{row}", verdict.claim));
    let reason = xml_text(&verdict.reason);
    let outcome = if !verdict.holds() {
        let message = xml_text(verdict.verdict.as_str());
        format!("<failure message=\"{message}\">{reason}</failure>")
    } else if is_skipped(verdict) {
        format!("<skipped message=\"{reason}\"/>")
    } else {
        String::new()
    };
    format!("  <testcase classname=\"{suite}\" name=\"{name}\">{outcome}</testcase>\n")
}
