//! What was found of a machine or an account, as a table with remedies.

use epochcost_platform::Finding;
use epochcost_spec::format::wrapped;
use epochcost_spec::ui::{Output, table};

/// Prints findings, and what to do about those that are lacking.
pub fn show(findings: &[Finding], output: Output) {
    let rows: Vec<[String; 4]> = findings
        .iter()
        .map(|finding| {
            let mark = if finding.ok { "yes" } else { "no" };
            let remedy = finding.remedy.clone().unwrap_or_default();
            [
                finding.what.clone(),
                mark.to_owned(),
                finding.found.clone(),
                remedy,
            ]
        })
        .collect();
    output.text(findings_text(&rows, output.width()));
}

/// Returns the findings as a table with the remedies below it, each once: they are
/// sentences, and too long for a column.
fn findings_text(rows: &[[String; 4]], width: Option<usize>) -> String {
    let found = rows.iter().map(|[what, mark, found, _]| {
        let room = width.map(|width| width.saturating_sub(40));
        let cut = found.chars().count() > room.unwrap_or(usize::MAX);
        let found = if cut {
            let room = room.unwrap_or(0).saturating_sub(1);
            format!("{}…", found.chars().take(room).collect::<String>())
        } else {
            found.clone()
        };
        [what.clone(), mark.clone(), found]
    });
    let mut text = table(["what", "", "found"], &found.collect::<Vec<_>>());
    let mut remedies: Vec<(&str, Vec<&str>)> = Vec::new();
    for [what, _, _, remedy] in rows.iter().filter(|row| !row[3].is_empty()) {
        match remedies.iter_mut().find(|(known, _)| known == remedy) {
            Some((_, names)) => names.push(what),
            None => remedies.push((remedy, vec![what])),
        }
    }
    for (remedy, names) in remedies {
        let line = wrapped("  ", &format!("{}: {remedy}", names.join(", ")));
        text.push_str(&format!("\n{line}"));
    }
    text
}
