//! Whether rows beside a table of a paper follow the set-ups of that table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use epochcost_spec::published::{Paper, SetUp};
use epochcost_spec::rows::Row;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::document::Document;
use super::error::ExperimentError;
use super::forms::{Form, FormName, Forms};

/// Field of an experiment: fields in which its rows leave the paper's set-ups, with the reason.
pub(super) const FIELD: &str = "deviates";

/// A row beside a cell.
pub(super) struct Placed<'a> {
    pub table: &'a str,
    /// Values of the cell's keys.
    pub at: &'a [String],
    /// Fields of rows that keys of the table stand for.
    pub keyed: &'a [String],
    pub row: &'a Row,
}

/// Compares rows with the set-ups of the tables that they stand beside. What `form` sets may be
/// explained, whether or not it leaves a set-up.
///
/// # Errors
/// When a row leaves a set-up and no deviation says so, or a deviation is of no set-up.
pub(super) fn check<'a>(
    document: &Document,
    paper: &Paper,
    form: Option<&Form>,
    beside: impl Iterator<Item = Placed<'a>>,
) -> Result<(), ExperimentError> {
    let deviations: BTreeMap<String, String> = stated(document, FIELD)?;
    let mut left: BTreeSet<&str> = BTreeSet::new();
    let mut rows: BTreeMap<&str, Value> = BTreeMap::new();
    for placed in beside {
        let table = placed.table;
        let row = &*rows
            .entry(&placed.row.id)
            .or_insert_with(|| serde_json::to_value(placed.row).unwrap_or_default());
        for (field, setups) in by_field(paper, &placed) {
            let Some(found) = value(row, field) else {
                continue;
            };
            if setups.iter().any(|setup| allows(setup, &found)) {
                continue;
            }
            left.insert(field);
            if deviations.contains_key(field) {
                continue;
            }
            let says = setups.iter();
            let says = says.map(|setup| format!("{} ({})", setup.value, setup.place));
            let says = says.collect::<Vec<_>>().join("; ");
            let id = &placed.row.id;
            let problem =
                format!("`{id}` has {field} {found}, and the paper has for {table}: {says}");
            let remedy =
                format!("follow the paper, or say why not: `{FIELD}: {{{field}: REASON}}`");
            let beside = document.root.get("beside").map(|node| node.origin.clone());
            let place = beside.unwrap_or_else(|| document.root.origin_of(FIELD));
            return Err(document.error(place, problem, remedy));
        }
    }
    let is_set = |field: &str| form.is_some_and(|form| form.sets(field));
    let is_idle = |field: &&String| !left.contains(field.as_str()) && !is_set(field);
    if let Some(field) = deviations.keys().find(is_idle) {
        let problem = format!("no row leaves a set-up of the paper by `{field}`");
        let remedy = "remove it, or name the field of setups.csv that rows leave";
        let node = document.root.get(FIELD).unwrap_or(&document.root);
        return Err(document.error(node.origin_of(field), problem, remedy));
    }
    Ok(())
}

/// Where an experiment, or a form of it, leaves the set-ups of its paper.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// Fields, with the reasons.
    pub fields: BTreeMap<String, String>,
    /// Tables that its rows stand beside.
    pub tables: BTreeSet<String>,
}

/// Returns where an experiment, or a form of it, leaves the set-ups of its paper.
///
/// # Errors
/// When there is no such file, or it is damaged.
pub fn deviations(path: &Path, form: Option<FormName>) -> Result<Left, ExperimentError> {
    let mut document = super::named::read(path)?;
    let forms = Forms::take(&mut document)?;
    if let Some(form) = form.and_then(|name| forms.get(name)) {
        form.apply(&mut document)?;
    }
    let entries: Vec<Value> = stated(&document, "beside")?;
    let tables = entries.iter();
    let tables = tables.filter_map(|entry| Some(entry.get("table")?.as_str()?.to_owned()));
    Ok(Left {
        fields: stated(&document, FIELD)?,
        tables: tables.collect(),
    })
}

fn stated<T: DeserializeOwned + JsonSchema + Default>(
    document: &Document,
    field: &str,
) -> Result<T, ExperimentError> {
    let node = document.root.get(field);
    let stated = node.map(|node| super::decode::decode(document, node));
    Ok(stated.transpose()?.unwrap_or_default())
}

/// Returns the set-ups of a cell by the field that follows them; none that the paper leaves open.
fn by_field<'p>(paper: &'p Paper, placed: &Placed<'_>) -> BTreeMap<&'p str, Vec<&'p SetUp>> {
    let mut fields: BTreeMap<&str, Vec<&SetUp>> = BTreeMap::new();
    let is_its = |setup: &&SetUp| {
        let is_keyed = placed.keyed.contains(&setup.field) || setup.field.is_empty();
        !is_keyed && setup.is_of(placed.table, placed.at)
    };
    for setup in paper.setups.iter().filter(is_its) {
        fields.entry(&setup.field).or_default().push(setup);
    }
    fields.retain(|_, setups| !setups.iter().any(|setup| setup.is_open()));
    fields
}

/// What a row has of a setting that is not set.
const UNSET: &str = "null";

/// Returns the value of a row's field; none where it has no such field.
fn value(row: &Value, field: &str) -> Option<String> {
    let field = field.replace("dataset.name", "data.dataset");
    let path = format!("/{}", field.replace('.', "/"));
    let found = row.pointer(&format!("/job{path}")).or(row.pointer(&path))?;
    Some(
        found
            .as_str()
            .map_or_else(|| found.to_string(), str::to_owned),
    )
}

/// Returns whether a value is one of a set-up's; what is on, with values that are open, may be
/// anything but unset.
fn allows(setup: &SetUp, found: &str) -> bool {
    if setup.value == "on" || setup.value.starts_with("on;") {
        return found != UNSET && found != "false";
    }
    let number = |text: &str| text.parse::<f64>().ok();
    setup.value.split(", ").any(|value| {
        value == found || number(value).is_some_and(|value| Some(value) == number(found))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_of_the_row_or_of_its_job() {
        let row = json!({"id": "a", "memory_mb": 3000, "job": {"workers": 4, "model": "lenet5",
            "data": {"dataset": "mnist", "train_samples": 60_000},
            "settings": {"k": -1, "slack": null}, "optimizer": {"sgd": {"momentum": 0.9}}}});
        for (field, found) in [
            ("workers", Some("4")),
            ("memory_mb", Some("3000")),
            ("dataset.name", Some("mnist")),
            ("data.train_samples", Some("60000")),
            ("settings.k", Some("-1")),
            ("settings.slack", Some(UNSET)),
            ("settings.fan_out", None),
            ("optimizer.sgd.momentum", Some("0.9")),
        ] {
            assert_eq!(value(&row, field).as_deref(), found, "{field}");
        }
    }

    fn setup(value: &str, of: &str) -> SetUp {
        SetUp {
            name: "batch_sizes".into(),
            value: value.into(),
            unit: String::new(),
            place: "§1".into(),
            of: of.into(),
            field: "batch_size".into(),
            reading: String::new(),
            followed: String::new(),
        }
    }

    #[test]
    fn a_set_up_is_of_the_cells_with_all_values_of_a_bracket() {
        let setup = setup("64", "figure2 table2[SPIRT; Mobile Net] table2[GPU]");
        let is_of = |table: &str, at: &[&str]| {
            let at: Vec<String> = at.iter().map(|value| (*value).to_owned()).collect();
            setup.is_of(table, &at)
        };
        for at in [&["Mobile Net", "SPIRT"][..], &["ResNet", "GPU"]] {
            assert!(is_of("table2", at), "{at:?}");
        }
        for at in [&["Mobile Net", "MLLess"][..], &["ResNet", "SPIRT"], &[]] {
            assert!(!is_of("table2", at), "{at:?}");
        }
        assert!(is_of("figure2", &[]) && !is_of("table1", &["GPU"]) && setup.is_of_some("table2"));
    }

    #[test]
    fn a_set_up_allows_each_of_its_values() {
        let setup = |value: &str| setup(value, "table1");
        assert!(allows(&setup("1024, 512"), "512"));
        assert!(allows(&setup("0.10"), "0.1"));
        assert!(!allows(&setup("1024, 512"), "51"));
        assert!(!allows(&setup("vgg11"), "vgg11_at_32"));
        let on = setup("on; patience is open");
        assert!(allows(&on, r#"{"patience":3}"#));
        assert!(!allows(&on, UNSET) && !allows(&on, "false"));
    }
}
