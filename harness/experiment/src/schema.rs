//! The schema of experiments, whose parts several types read.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use epochcost_spec::yaml::schema::{bounded, check, of};
use epochcost_systems::systems;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::raw::{Header, Training};
use super::{Document, ExperimentError, beside, forms, own};

/// Fields of an experiment that are read one by one.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct Parts {
    /// Training systems: names, or maps with `system` and fields of a row.
    #[schemars(length(min = 1, max = 1_000))]
    systems: Vec<Value>,
    /// Fields of a row by dotted path (`optimizer.sgd.learning_rate`), each with its values: every
    /// combination is a row, and the last field varies fastest. A field that a system's entry sets is an
    /// error.
    sweep: BTreeMap<String, Vec<Value>>,
    /// Tables of the paper that rows stand beside.
    beside: Vec<beside::Entry>,
    /// Statements of the paper in this experiment's own rows.
    statements: Vec<beside::Stated>,
    /// Set-ups that rows beside a table leave, with the reason: `{batch_size: minutes of training in place
    /// of hours}`. What is no deviation must not be here.
    deviates: BTreeMap<String, String>,
    /// Invariants of this program, as formulas over the rows (`traffic_matches[not mlless] = 1`).
    checks: Vec<String>,
    /// What the experiment shows, as formulas over the rows.
    findings: Vec<own::Finding>,
    /// Other forms of the experiment, for reproductions.
    forms: forms::Written,
}

/// Returns the names of the fields that are read one by one.
pub(super) fn parts() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| names(&of::<Parts>()));
    &NAMES
}

/// Returns a document without what it says of the rows' results: `checks`, `findings`, and the like.
pub fn rows_alone(mut document: Document) -> Document {
    for field in parts() {
        if !["systems", "sweep"].contains(&field.as_str()) {
            document.root.remove(field);
        }
    }
    document
}

/// Checks the lengths of the fields that are read one by one.
///
/// # Errors
/// Names the first beyond its bounds.
pub(super) fn check_parts(document: &Document) -> Result<(), ExperimentError> {
    check(document, &of::<Parts>(), &document.root)
}

fn names(schema: &Value) -> Vec<String> {
    let fields = schema["properties"].as_object();
    let names = fields.into_iter().flat_map(Map::keys);
    names.cloned().collect()
}

/// Returns the names of the fields of a row.
pub(super) fn of_rows() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| names(&of::<Training>()));
    &NAMES
}

/// Returns the fields of a row that may be swept.
pub(super) fn swept_fields() -> impl Iterator<Item = &'static str> {
    let own = ["name", "faults", "constants"];
    let all = of_rows().iter().map(String::as_str);
    all.filter(move |field| !own.contains(field))
}

/// Returns the fields of a row that may be at the top of the file, where `name` is the experiment's.
pub(super) fn common_fields() -> impl Iterator<Item = &'static str> {
    swept_fields().filter(|field| *field != "system")
}

/// Returns the schema of a system's settings; null if there is no such system.
pub fn of_settings(system: &str) -> &'static Value {
    static ALL: LazyLock<Map<String, Value>> = LazyLock::new(|| {
        let settings = systems().iter().map(|system| {
            let mut schema = bounded(system.settings_schema());
            if let Some(fields) = schema.as_object_mut() {
                // Each is laid over those of the row's fidelity.
                fields.retain(|name, _| !["required", "$schema", "title"].contains(&name.as_str()));
            }
            let fields = schema["properties"].as_object_mut();
            for own in fields.into_iter().flat_map(Map::values_mut) {
                own.as_object_mut().map(|own| own.remove("default"));
            }
            schema["description"] = format!("Settings of {}.", system.title()).into();
            (system.name().to_owned(), schema)
        });
        settings.collect()
    });
    ALL.get(system).unwrap_or(&Value::Null)
}

/// Returns the schema of an experiment's file.
pub fn of_experiment() -> Value {
    let (mut file, row, parts) = ((*of::<Header>()).clone(), of::<Training>(), of::<Parts>());
    file["title"] = "Experiment".into();
    file["description"] = "An experiment of epochcost.".into();
    let mut add = |target: &str, from: &Value, keep: &dyn Fn(&str) -> bool| {
        let from = from[target].as_object().into_iter().flatten();
        for (name, schema) in from.filter(|(name, _)| keep(name)) {
            file[target][name.as_str()] = schema.clone();
        }
    };
    add("definitions", &row, &|_| true);
    add("definitions", &parts, &|_| true);
    let is_common = |name: &str| common_fields().any(|field| field == name);
    add("properties", &row, &is_common);
    add("properties", &parts, &|_| true);
    let settings = |system: &str| json!({"$ref": format!("#/definitions/settings_{system}")});
    let names: Vec<&str> = systems().iter().map(|system| system.name()).collect();
    for name in &names {
        file["definitions"][format!("settings_{name}")] = of_settings(name).clone();
    }
    let all: Vec<Value> = names.iter().map(|name| settings(name)).collect();
    file["properties"]["settings"]["anyOf"] = all.into();
    let by_system = names.iter().map(|name| {
        json!({
            "if": {"properties": {"system": {"const": name}}},
            "then": {"properties": {"settings": settings(name)}},
        })
    });
    file["definitions"]["EntryOfSystems"] = json!({
        "description": "A training system with fields of its rows.",
        "type": "object",
        "properties": row["properties"],
        "additionalProperties": false,
        "required": ["system"],
        "allOf": by_system.collect::<Vec<_>>(),
    });
    file["properties"]["systems"]["items"] =
        json!({"anyOf": [{"enum": names}, {"$ref": "#/definitions/EntryOfSystems"}]});
    let swept = swept_fields().collect::<Vec<_>>().join("|");
    file["properties"]["sweep"]["propertyNames"] =
        json!({"pattern": format!("^({swept})(\\..+)?$")});
    if let Some(required) = file["required"].as_array_mut() {
        required.push("systems".into());
    }
    file
}
