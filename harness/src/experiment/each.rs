//! Claims that are written once for each system or row (`each`), multiplied out: every system
//! or row gets a claim of its own, as if the file listed them.

use epochcost_systems::{find, systems};
use serde::Deserialize;

use super::decode::decode;
use super::document::{Document, Entry, Node, Place, Value};
use super::error::ExperimentError;
use crate::claims::{Selector, matches};
use crate::rows::Row;
use crate::suggest::did_you_mean;

/// Fields of a claim that end here.
pub(super) const FIELDS: [&str; 3] = ["each", "only", "except"];

/// What a claim is repeated for.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Each {
    /// Systems of the selected rows.
    System,
    /// Selected rows.
    Row,
}

impl Each {
    /// Returns the field of a selection that names one of them.
    fn field(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Row => "row",
        }
    }

    fn name(self, row: &Row) -> &str {
        match self {
            Self::System => &row.job.system,
            Self::Row => &row.id,
        }
    }

    /// Returns placeholders of the claim's text with what stands for them.
    fn texts(self, row: &Row) -> Vec<(&'static str, String)> {
        let system = find(&row.job.system);
        let system = system.map_or_else(|| row.job.system.clone(), |known| known.noun());
        let mut texts = vec![("{system}", system)];
        if self == Self::Row {
            texts.push(("{row}", row.id.clone()));
        }
        texts
    }
}

/// Replaces every claim with `each` by one for each system or row that it selects.
///
/// # Errors
/// When such a claim selects nothing, excepts what there is not, or would say the same of all.
pub(super) fn expand(document: &mut Document, rows: &[&Row]) -> Result<(), ExperimentError> {
    let Some(Value::List(items)) = document.root.get("claims").map(|node| &node.value) else {
        return Ok(());
    };
    let mut claims = Vec::new();
    for item in items {
        match item.get("each") {
            Some(each) => claims.extend(repeated(document, item, each, rows)?),
            None => {
                if let Some(field) = FIELDS.iter().find(|field| item.get(field).is_some()) {
                    let problem = format!("`{field}` chooses among systems or rows of `each`");
                    let remedy = "add `each: system` or `each: row`";
                    return Err(document.error(item.origin_of(field), problem, remedy));
                }
                claims.push(item.clone());
            }
        }
    }
    if let Value::Map(entries) = &mut document.root.value
        && let Some(entry) = entries.iter_mut().find(|entry| entry.key == "claims")
    {
        entry.node.value = Value::List(claims);
    }
    Ok(())
}

fn repeated(
    document: &Document,
    claim: &Node,
    each: &Node,
    rows: &[&Row],
) -> Result<Vec<Node>, ExperimentError> {
    let kind: Each = decode(document, each)?;
    let select: Selector = match claim.get("select") {
        Some(node) => decode(document, node)?,
        None => Selector::default(),
    };
    // The first row of each name.
    let mut named: Vec<&Row> = Vec::new();
    for row in rows.iter().copied().filter(|row| matches(&select, row)) {
        if named.iter().all(|known| kind.name(known) != kind.name(row)) {
            named.push(row);
        }
    }
    let only = patterns(document, claim, "only", kind, &named)?;
    let except = patterns(document, claim, "except", kind, &named)?;
    named.retain(|row| {
        let fits = |patterns: &[String]| patterns.iter().any(|text| fits(text, kind.name(row)));
        (only.is_empty() || fits(&only)) && !fits(&except)
    });
    if named.is_empty() && !has_option(document.root.get("systems")) {
        let problem = format!("no {} is left that the claim is about", kind.field());
        let remedy = "correct `select`, `only` or `except`";
        return Err(document.error(each.origin.clone(), problem, remedy));
    }
    let several = named.len() > 1;
    let about = |row: &&Row| about(document, claim, each, kind, row, several);
    named.iter().map(about).collect()
}

/// Returns the claim about one system or row.
fn about(
    document: &Document,
    claim: &Node,
    each: &Node,
    kind: Each,
    row: &Row,
    several: bool,
) -> Result<Node, ExperimentError> {
    let mut own = claim.clone();
    for field in FIELDS {
        own.remove(field);
    }
    let entry = |key: &str, node: Node| Entry {
        key: key.to_owned(),
        place: node.origin.place.clone(),
        node,
    };
    // The sentence.
    if let Some(Node {
        value: Value::Text(template),
        origin,
    }) = claim.get("claim")
    {
        let texts = kind.texts(row);
        let mut text = template.clone();
        for (placeholder, own) in &texts {
            text = text.replace(placeholder, own);
        }
        let refused = |problem: String| {
            let known: Vec<&str> = texts.iter().map(|(placeholder, _)| *placeholder).collect();
            let remedy = format!("write {} where its name stands", known.join(" or "));
            document.error(origin.clone(), problem, remedy)
        };
        if several && text == *template {
            return Err(refused(format!(
                "the claim says the same of each {}",
                kind.field()
            )));
        }
        if let Some((_, rest)) = text.split_once('{') {
            let name = rest.split('}').next().unwrap_or_default();
            return Err(refused(format!("nothing stands for `{{{name}}}`")));
        }
        let (value, origin) = (Value::Text(text), origin.clone());
        own.insert(entry("claim", Node { value, origin }));
    }
    // The selection.
    let mut select = claim.get("select").cloned().unwrap_or(Node {
        value: Value::Map(Vec::new()),
        origin: each.origin.clone(),
    });
    let name = Node {
        value: Value::Text(kind.name(row).to_owned()),
        origin: each.origin.clone(),
    };
    select.insert(entry(kind.field(), name));
    own.insert(entry("select", select));
    Ok(own)
}

/// Returns the names of `only` or `except`, in which a `*` stands for any text.
fn patterns(
    document: &Document,
    claim: &Node,
    field: &str,
    kind: Each,
    named: &[&Row],
) -> Result<Vec<String>, ExperimentError> {
    let Some(node) = claim.get(field) else {
        return Ok(Vec::new());
    };
    let patterns: Vec<String> = decode(document, node)?;
    // Rows that options leave out are no mistake of the file.
    let may_be_left_out = has_option(document.root.get("systems"));
    for pattern in &patterns {
        let is_known = named.iter().any(|row| fits(pattern, kind.name(row)))
            || may_be_left_out && (kind == Each::Row || find(pattern).is_some());
        if !is_known {
            let mut known: Vec<&str> = named.iter().map(|row| kind.name(row)).collect();
            if may_be_left_out {
                known = systems().iter().map(|system| system.name()).collect();
            }
            let problem = format!("the claim is about no {} `{pattern}`", kind.field());
            return Err(document.error(
                node.origin.clone(),
                problem,
                did_you_mean(pattern, &known),
            ));
        }
    }
    Ok(patterns)
}

/// Returns whether `name` is the pattern with any text for its first `*`.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
        None => pattern == name,
    }
}

/// Returns whether an option of the command set some of it.
fn has_option(node: Option<&Node>) -> bool {
    node.is_some_and(|node| {
        matches!(node.origin.place, Place::Option(_))
            || match &node.value {
                Value::List(items) => items.iter().any(|item| has_option(Some(item))),
                Value::Map(entries) => entries.iter().any(|entry| has_option(Some(&entry.node))),
                _ => false,
            }
    })
}
