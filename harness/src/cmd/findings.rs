//! What was found of a machine or an account, as a table with remedies.

use epochcost_platform::Finding;
use epochcost_spec::format::wrapped;
use epochcost_spec::ui::{Output, table_of};

use super::{cut, grouped};

/// Prints findings as a table with what to do about those that are lacking below it, each
/// remedy once: they are sentences, and too long for a column.
pub fn show(findings: &[Finding], output: Output) {
    let room = output.width().map(|width| width.saturating_sub(40));
    let row = |finding: &Finding| {
        let mark = if finding.ok { "yes" } else { "no" };
        let found = cut(&finding.found, room);
        [finding.what.clone(), mark.to_owned(), found]
    };
    let mut text = table_of(["what", "", "found"], findings, row);
    let remedies = findings.iter().filter_map(|finding| {
        let remedy = finding.remedy.as_deref()?;
        Some((remedy, finding.what.as_str()))
    });
    for (remedy, names) in grouped(remedies) {
        let line = wrapped("  ", &format!("{}: {remedy}", names.join(", ")));
        text.push_str(&format!("\n{line}"));
    }
    output.text(text);
}
