//! Schemas of the files that users write: as fresh as their types, with bounds on everything, and
//! agreed with by a validator that is not this project's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use boon::{Compiler, SchemaIndex, Schemas};
use epochcost::schemas::{KINDS, text};
use epochcost_experiment::{Document, of_settings};
use serde_json::Value;

use crate::support::{files_of, root};

/// Compiled schemas, by kind.
pub(crate) struct Validator {
    schemas: Schemas,
    indices: BTreeMap<&'static str, SchemaIndex>,
}

impl Validator {
    pub(crate) fn of(names: &[&str]) -> Self {
        let (mut schemas, mut indices) = (Schemas::new(), BTreeMap::new());
        for kind in KINDS.iter().filter(|kind| names.contains(&kind.name)) {
            let mut compiler = Compiler::new();
            let place = format!("file:///{}.json", kind.name);
            compiler.add_resource(&place, (kind.schema)()).unwrap();
            indices.insert(kind.name, compiler.compile(&place, &mut schemas).unwrap());
        }
        Self { schemas, indices }
    }

    /// Why a text is not of a kind; `None` if it is.
    pub(crate) fn refusal(&self, kind: &str, yaml: &str) -> Option<String> {
        let document = match Document::parse(Path::new("a.yaml"), yaml.to_owned()) {
            Ok(document) => document,
            Err(error) => return Some(error.to_string()),
        };
        let value = serde_json::to_value(&document.root).unwrap();
        let checked = self.schemas.validate(&value, self.indices[kind]);
        checked.err().map(|error| error.to_string())
    }
}

#[test]
fn the_schemas_on_disk_are_those_of_the_types() {
    let directory = root().join("docs/schemas");
    let stale = KINDS.iter().filter(|kind| {
        let path = directory.join(format!("{}.json", kind.name));
        fs::read_to_string(path).unwrap_or_default() != text(&(kind.schema)())
    });
    let stale: Vec<&str> = stale.map(|kind| kind.name).collect();
    let command = "epochcost list fields KIND --json > docs/schemas/KIND.json";
    assert!(stale.is_empty(), "{stale:?} differ: {command}");
    assert_eq!(fs::read_dir(directory).unwrap().count(), KINDS.len());
}

/// Calls `each` with every part of a schema and its path.
fn parts(path: &str, schema: &Value, each: &mut dyn FnMut(&str, &Value)) {
    each(path, schema);
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                parts(&format!("{path}/{name}"), value, each);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| parts(path, item, each)),
        _ => {}
    }
}

#[test]
fn every_number_has_both_bounds_and_every_text_list_and_map_a_length() {
    let systems = epochcost_systems::systems().iter();
    let settings = systems.map(|system| (system.name(), of_settings(system.name()).clone()));
    let kinds = KINDS.iter().map(|kind| (kind.name, (kind.schema)()));
    let (mut unbounded, mut numbers) = (Vec::new(), 0);
    for (name, schema) in kinds.chain(settings) {
        parts(name, &schema, &mut |path, part| {
            let is = |kind: &str| match &part["type"] {
                Value::String(own) => own == kind,
                Value::Array(all) => all.iter().any(|own| own == kind),
                _ => false,
            };
            let lacks = |all: &[&str]| all.iter().any(|keyword| part.get(keyword).is_none());
            if part.get("const").is_some() || part.get("enum").is_some() {
                return;
            }
            let is_number = is("number") || is("integer");
            numbers += usize::from(is_number);
            let is_open = part["additionalProperties"].is_object();
            if (is_number && lacks(&["minimum", "maximum"]))
                || (is("string") && lacks(&["maxLength"]))
                || (is("array") && lacks(&["maxItems"]))
                || (is("object") && is_open && lacks(&["maxProperties"]))
            {
                unbounded.push(path.to_owned());
            }
        });
    }
    assert!(unbounded.is_empty(), "{unbounded:#?}");
    assert!(numbers > 150, "{numbers}");
}

#[test]
fn every_field_says_what_it_means() {
    let mut silent = Vec::new();
    for kind in &KINDS {
        let fields = epochcost_spec::yaml::schema::fields(&(kind.schema)());
        assert!(fields.len() > 3, "{}", kind.name);
        let without = fields.into_iter().filter(|field| field.about.is_empty());
        silent.extend(without.map(|field| format!("{}: {}", kind.name, field.path)));
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn every_shipped_file_names_its_schema_and_is_valid_by_it() {
    let directories = "experiments harness/hardware harness/places harness/prices harness/profiles";
    let directories = directories
        .split(' ')
        .map(|directory| root().join(directory));
    let files: Vec<_> = directories
        .flat_map(|directory| files_of(&directory, "yaml"))
        .collect();
    assert!(files.len() > 100, "{}", files.len());
    let validator = Validator::of(&KINDS.each_ref().map(|kind| kind.name));
    let mut wrong = Vec::new();
    let schemas = root().join("docs/schemas").canonicalize().unwrap();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let first = text.lines().next().unwrap_or_default();
        let named = first.strip_prefix("# yaml-language-server: $schema=");
        let named = named.and_then(|named| file.parent().unwrap().join(named).canonicalize().ok());
        let Some(named) = named.filter(|named| named.parent() == Some(&schemas)) else {
            wrong.push(format!("{}: {first}", file.display()));
            continue;
        };
        let kind = named.file_stem().unwrap().to_str().unwrap();
        if let Some(problem) = validator.refusal(kind, &text) {
            wrong.push(format!("{}: {problem}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
