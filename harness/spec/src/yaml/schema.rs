//! JSON Schemas (draft 7) of files: what editors complete and check, the bounds that the reader
//! holds values to, and the reference that `list fields` prints. They follow from the types.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Value as Json, json};

use super::document::{Document, Node, Origin, Value, join};
use super::error::ExperimentError;

/// Most characters of a text, where its field states no other number.
const LONGEST_TEXT: u64 = 20_000;

/// Most entries of a list or a map, where its field states no other number.
const MOST_ENTRIES: u64 = 10_000;

/// Returns the schema of a type, with bounds on every text, list and map.
pub fn of<T: JsonSchema>() -> Arc<Json> {
    static KNOWN: Mutex<BTreeMap<Cow<'static, str>, Arc<Json>>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(schema) = known().get(&T::schema_id()) {
        return schema.clone();
    }
    // Without the lock: names that a schema offers may be read from files.
    let generator = SchemaSettings::draft07().into_generator();
    let schema = Arc::new(bounded(generator.into_root_schema_for::<T>()));
    known().insert(T::schema_id(), schema.clone());
    schema
}

/// Returns a schema with bounds on every text, list and map, in the words of a reference.
pub fn bounded(mut schema: Schema) -> Json {
    RecursiveTransform(bound).transform(&mut schema);
    schema.to_value()
}

fn bound(schema: &mut Schema) {
    let is = |schema: &Schema, name: &str| match schema.get("type") {
        Some(Json::String(own)) => own == name,
        Some(Json::Array(all)) => all.iter().any(|own| own == name),
        _ => false,
    };
    let mut most = |name: &str, keyword: &str, most: u64| {
        let is_bounded = [keyword, "enum", "const"]
            .iter()
            .any(|word| schema.get(*word).is_some());
        if is(schema, name) && !is_bounded {
            schema.insert(keyword.to_owned(), most.into());
        }
    };
    most("string", "maxLength", LONGEST_TEXT);
    most("array", "maxItems", MOST_ENTRIES);
    if (schema.get("additionalProperties")).is_some_and(|values| !values.is_boolean()) {
        let most = schema.get("maxProperties").cloned();
        let most = most.unwrap_or_else(|| MOST_ENTRIES.into());
        schema.insert("maxProperties".to_owned(), most);
    }
    // Names of Rust's types.
    schema.remove("format");
    if let Some(Json::String(text)) = schema.get("description") {
        let text = text.replace("[`", "`").replace("`]", "`");
        let paragraphs = text.split("\n\n").map(|part| part.replace('\n', " "));
        let text = paragraphs.collect::<Vec<_>>().join("\n\n");
        schema.insert("description".to_owned(), text.into());
    }
}

/// Restricts a text to names.
pub fn one_of<'a>(schema: &mut Schema, names: impl IntoIterator<Item = &'a str>) {
    let names: Vec<&str> = names.into_iter().collect();
    schema.insert("enum".to_owned(), names.into());
}

/// Names the values of a text that are known; it may have others, or be null.
pub fn known<'a>(schema: &mut Schema, names: impl IntoIterator<Item = &'a str>) {
    let names: Vec<&str> = names.into_iter().collect();
    let others = schema.remove("type").unwrap_or_else(|| "string".into());
    let both = json!([{"enum": names}, {"type": others}]);
    schema.insert("anyOf".to_owned(), both);
}

/// Checks that a value, which a type was read from, is within the bounds of a schema.
///
/// # Errors
/// Names the first number, text, list or map beyond them.
pub fn check(document: &Document, schema: &Json, node: &Node) -> Result<(), ExperimentError> {
    let root = schema;
    let walk = Walk { document, root };
    match walk.beyond(schema, node) {
        None => Ok(()),
        Some((origin, problem, remedy)) => Err(document.error(origin, problem, remedy)),
    }
}

/// Follows a reference to a definition.
pub fn resolved<'s>(root: &'s Json, schema: &'s Json) -> &'s Json {
    let name = schema["$ref"]
        .as_str()
        .and_then(|path| path.strip_prefix("#/definitions/"));
    name.map_or(schema, |name| resolved(root, &root["definitions"][name]))
}

/// Alternatives of a schema; none of one without.
pub fn alternatives(schema: &Json) -> &[Json] {
    let all = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    all.map_or(&[], Vec::as_slice)
}

/// Where a value lies beyond its bounds, the problem and the remedy.
type Beyond = (Origin, String, String);

struct Walk<'a> {
    document: &'a Document,
    root: &'a Json,
}

impl Walk<'_> {
    fn beyond(&self, schema: &Json, node: &Node) -> Option<Beyond> {
        let schema = resolved(self.root, schema);
        if let Some(all) = schema["allOf"].as_array()
            && let Some(found) = all.iter().find_map(|part| self.beyond(part, node))
        {
            return Some(found);
        }
        let mut alternatives = alternatives(schema).iter();
        if let Some(own) = alternatives.find(|own| self.fits(own, node))
            && let Some(found) = self.beyond(own, node)
        {
            return Some(found);
        }
        match &node.value {
            Value::Null | Value::Bool(_) => None,
            Value::Unsigned(number) => self.number(schema, node, *number as f64),
            Value::Signed(number) => self.number(schema, node, *number as f64),
            Value::Float(number) => self.number(schema, node, *number),
            Value::Text(text) => {
                let bounds = ["minLength", "maxLength"];
                counted(schema, node, bounds, text.chars().count(), "characters")
            }
            Value::List(items) => {
                let bounds = ["minItems", "maxItems"];
                counted(schema, node, bounds, items.len(), "entries").or_else(|| {
                    items.iter().enumerate().find_map(|(index, item)| {
                        let every = &schema["items"];
                        let own = if every.is_array() {
                            &every[index]
                        } else {
                            every
                        };
                        self.beyond(own, item)
                    })
                })
            }
            Value::Map(entries) => {
                let bounds = ["minProperties", "maxProperties"];
                counted(schema, node, bounds, entries.len(), "entries").or_else(|| {
                    entries.iter().find_map(|entry| {
                        let own = schema["properties"].get(&entry.key);
                        let schema = own.unwrap_or(&schema["additionalProperties"]);
                        self.beyond(schema, &entry.node)
                    })
                })
            }
        }
    }

    /// Whether a value has the form of an alternative.
    fn fits(&self, schema: &Json, node: &Node) -> bool {
        let schema = resolved(self.root, schema);
        let (kind, is_whole) = match &node.value {
            Value::Null => ("null", false),
            Value::Bool(_) => ("boolean", false),
            Value::Unsigned(_) | Value::Signed(_) => ("number", true),
            Value::Float(number) => ("number", number.fract() == 0.0),
            Value::Text(_) => ("string", false),
            Value::List(_) => ("array", false),
            Value::Map(_) => ("object", false),
        };
        let is = |own: &Json| own == kind || (is_whole && own == "integer");
        let is_kind = match &schema["type"] {
            Json::Array(all) => all.iter().any(is),
            Json::Null => true,
            own => is(own),
        };
        let is_text = |own: &Json| matches!(&node.value, Value::Text(text) if own == text);
        let is_named = match (&schema["const"], &schema["enum"]) {
            (Json::Null, Json::Array(all)) => all.iter().any(is_text),
            (Json::Null, _) => true,
            (own, _) => is_text(own),
        };
        let mut required = schema["required"].as_array().into_iter().flatten();
        let is_there = |field: &Json| {
            field
                .as_str()
                .is_some_and(|field| node.get(field).is_some())
        };
        is_kind && is_named && required.all(is_there)
    }

    fn number(&self, schema: &Json, node: &Node, number: f64) -> Option<Beyond> {
        let low = schema["minimum"].as_f64().unwrap_or(f64::NEG_INFINITY);
        let high = schema["maximum"].as_f64().unwrap_or(f64::INFINITY);
        if (low..=high).contains(&number) {
            return None;
        }
        let field = node.origin.path.rsplit('.').next().unwrap_or_default();
        let origin = node.origin.clone();
        if number == 0.0 && low == 1.0 {
            return Some((origin, format!("zero {field}"), "give 1 or more".to_owned()));
        }
        let written = self.document.number_at(&origin);
        let written = written.unwrap_or_else(|| figure(number));
        let range = format!("{} to {}", figure(low), figure(high));
        let problem = format!("{written} is outside {range}");
        Some((origin, problem, format!("give {range}")))
    }
}

fn counted(
    schema: &Json,
    node: &Node,
    [least, most]: [&str; 2],
    count: usize,
    what: &str,
) -> Option<Beyond> {
    let count = count as u64;
    let (least, most) = (schema[least].as_u64(), schema[most].as_u64());
    let (amount, remedy) = match (least, most) {
        (Some(least), _) if count < least => ("few", format!("give {least} or more")),
        (_, Some(most)) if count > most => ("many", format!("give {most} or fewer")),
        _ => return None,
    };
    let problem = format!("{count} {what} are too {amount}");
    Some((node.origin.clone(), problem, remedy))
}

/// Returns a bound as it is written.
pub fn figure(number: f64) -> String {
    if number == 0.0 || (1e-3..1e15).contains(&number.abs()) {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

/// A field of a file, for a reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Dotted path; `*` stands for any name, `[]` for every entry.
    pub path: String,
    /// Type, values and bounds, the default, and whether it must be there.
    pub form: String,
    /// Meaning.
    pub about: String,
}

/// Returns the fields of a schema, each before those within it; the fields of a definition once.
pub fn fields(root: &Json) -> Vec<Field> {
    let mut reference = Reference {
        root,
        found: Vec::new(),
        first: BTreeMap::new(),
    };
    reference.within(root, "");
    reference.found
}

struct Reference<'a> {
    root: &'a Json,
    found: Vec<Field>,
    /// Where each definition is described.
    first: BTreeMap<&'a str, String>,
}

impl<'a> Reference<'a> {
    fn within(&mut self, schema: &'a Json, path: &str) {
        if let Some(name) = schema["$ref"].as_str() {
            if let Some(first) = self.first.get(name) {
                if let Some(field) = self.found.last_mut()
                    && let Some(rest) = field.form.strip_prefix("map")
                {
                    field.form = format!("map, as `{first}`{rest}");
                }
                return;
            }
            self.first.insert(name, path.to_owned());
        }
        let schema = resolved(self.root, schema);
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.within(part, path);
        }
        let required = schema["required"].as_array();
        for (name, own) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.is_some_and(|all| all.iter().any(|field| field == name));
            self.field(own, &join(path, name), is_required);
        }
        if schema["additionalProperties"].is_object() {
            self.within(&schema["additionalProperties"], &join(path, "*"));
        }
        if schema["items"].is_object() {
            self.within(&schema["items"], &format!("{path}[]"));
        }
        for own in alternatives(schema) {
            let first = self.found.len();
            self.within(own, path);
            // A variant that is a map is described beside it.
            if let (Some(field), Some(about)) =
                (self.found.get_mut(first), own["description"].as_str())
                && field.about.is_empty()
            {
                about.clone_into(&mut field.about);
            }
        }
    }

    fn field(&mut self, own: &'a Json, path: &str, is_required: bool) {
        // A definition is described beside the field that it stands for.
        let own_about = own["description"].as_str();
        let value = match own["allOf"].as_array().map(Vec::as_slice) {
            Some([one]) => one,
            _ => own,
        };
        let schema = resolved(self.root, value);
        let mut form = form(self.root, schema);
        if let Some(rest) = form.strip_suffix(" | null").filter(|_| !is_required) {
            form.truncate(rest.len());
        }
        let default = own.get("default");
        let is_plain = |value: &&Json| match value {
            Json::String(text) => !text.is_empty(),
            other => other.is_number() || other.is_boolean(),
        };
        match default.filter(is_plain) {
            _ if is_required => form.push_str(", required"),
            Some(default) => form.push_str(&format!(", default {}", plain(default))),
            None => {}
        }
        let about = own_about.or(schema["description"].as_str());
        let mut about = about.unwrap_or_default().to_owned();
        for own in alternatives(schema) {
            let own = resolved(self.root, own);
            if let (Some(name), Some(text)) = (own["const"].as_str(), own["description"].as_str()) {
                about.push_str(&format!("\n- {name}: {text}"));
            }
        }
        self.found.push(Field {
            path: path.to_owned(),
            form,
            about,
        });
        self.within(value, path);
    }
}

/// Returns type, values and bounds.
fn form(root: &Json, schema: &Json) -> String {
    let schema = resolved(root, schema);
    if let Some(name) = schema.get("const") {
        return plain(name);
    }
    if let Some(names) = schema["enum"].as_array() {
        let names = names.iter().map(plain);
        return names.collect::<Vec<_>>().join(" | ");
    }
    let all = alternatives(schema);
    if !all.is_empty() {
        let mut forms: Vec<String> = all.iter().map(|own| form(root, own)).collect();
        forms.dedup();
        return forms.join(" | ");
    }
    let bounds = schema["minimum"].as_f64().zip(schema["maximum"].as_f64());
    let range = bounds.map_or(String::new(), |(low, high)| {
        let exact = schema["maximum"].as_u64();
        let high = exact.map_or_else(|| figure(high), |high| high.to_string());
        format!(", {} to {high}", figure(low))
    });
    let of = |kind: &str| match kind {
        "integer" => format!("whole number{range}"),
        "number" => format!("number{range}"),
        "boolean" => "true | false".to_owned(),
        "string" => "text".to_owned(),
        "array" if schema["items"].is_object() => {
            format!("list of {}", form(root, &schema["items"]))
        }
        "array" => "list".to_owned(),
        "object" => match schema["properties"].as_object() {
            Some(own) if own.len() == 1 && schema["required"].is_array() => {
                let names = own.keys().map(|name| format!("{{{name}: …}}"));
                names.collect()
            }
            _ => "map".to_owned(),
        },
        other => other.to_owned(),
    };
    match &schema["type"] {
        Json::String(kind) => of(kind),
        Json::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Json::as_str).map(of);
            kinds.collect::<Vec<_>>().join(" | ")
        }
        _ => "any value".to_owned(),
    }
}

fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Number(number) => number.as_f64().map_or_else(String::new, figure),
        other => other.to_string(),
    }
}
