//! An experiment file as a tree that remembers where each value was written.
//!
//! Sweeps, a system's own settings and `--set` move values about before they
//! are given types. A value keeps its place through all of that, so that an
//! error found late still names the line, or the option, that it came from.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_yaml::Spanned;

use super::error::{Diagnostic, ExperimentError};

/// The place where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A place in the file; both numbers count from 1.
    Line {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// On the command line, as it was given: `--set epochs=3`.
    Option(String),
}

/// A value's place and its dotted path there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The place.
    pub place: Place,
    /// Field names and list indices, joined by dots; empty for the whole file.
    pub path: String,
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Place and path of the value.
    pub origin: Origin,
}

/// A YAML value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number of 0 or more.
    Unsigned(u64),
    /// A whole number below 0.
    Signed(i64),
    /// Another number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order written.
    Map(Vec<Entry>),
}

/// One entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The place where the key was written.
    pub place: Place,
    /// The value of the key.
    pub node: Node,
}

impl Node {
    /// The value of a map's field.
    pub fn get(&self, field: &str) -> Option<&Node> {
        self.entries()
            .iter()
            .find(|entry| entry.key == field)
            .map(|entry| &entry.node)
    }

    /// The entries of a map; none of anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Sets a map's field, replacing what it was.
    pub fn insert(&mut self, entry: Entry) {
        let Value::Map(entries) = &mut self.value else {
            return;
        };
        match entries.iter_mut().find(|present| present.key == entry.key) {
            Some(present) => *present = entry,
            None => entries.push(entry),
        }
    }

    /// Takes a map's field out of it.
    pub fn remove(&mut self, field: &str) -> Option<Node> {
        let Value::Map(entries) = &mut self.value else {
            return None;
        };
        let index = entries.iter().position(|entry| entry.key == field)?;
        Some(entries.remove(index).node)
    }

    /// The field's origin, or this node's where the field was not written.
    pub fn origin_of(&self, field: &str) -> Origin {
        match self.get(field) {
            Some(node) => node.origin.clone(),
            None => Origin {
                path: join(&self.origin.path, field),
                ..self.origin.clone()
            },
        }
    }

    fn new(parsed: Spanned<Parsed>, path: String) -> Self {
        let place = place(&parsed);
        let value = match parsed.value {
            Parsed::Scalar(value) => value,
            Parsed::List(items) => Value::List(
                items
                    .into_iter()
                    .enumerate()
                    .map(|(index, item)| Self::new(item, join(&path, index)))
                    .collect(),
            ),
            Parsed::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| Entry {
                        place: self::place(&key),
                        node: Self::new(value, join(&path, &key.value)),
                        key: key.value,
                    })
                    .collect(),
            ),
        };
        Self {
            value,
            origin: Origin { place, path },
        }
    }

    /// The same value, marked as from an option.
    fn relocated(mut self, option: &str, path: &str) -> Self {
        self.origin = Origin {
            place: Place::Option(option.to_owned()),
            path: path.to_owned(),
        };
        self.value = match self.value {
            Value::List(items) => Value::List(
                items
                    .into_iter()
                    .enumerate()
                    .map(|(index, item)| item.relocated(option, &join(path, index)))
                    .collect(),
            ),
            Value::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|entry| Entry {
                        place: Place::Option(option.to_owned()),
                        node: entry.node.relocated(option, &join(path, &entry.key)),
                        key: entry.key,
                    })
                    .collect(),
            ),
            scalar => scalar,
        };
        self
    }
}

/// `path` with one more segment.
pub fn join(path: &str, segment: impl fmt::Display) -> String {
    if path.is_empty() {
        segment.to_string()
    } else {
        format!("{path}.{segment}")
    }
}

fn place<T>(spanned: &Spanned<T>) -> Place {
    Place::Line {
        line: usize::try_from(spanned.referenced.line()).unwrap_or(0),
        column: usize::try_from(spanned.referenced.column()).unwrap_or(0),
    }
}

/// An experiment file.
#[derive(Clone, Debug)]
pub struct Document {
    /// The path of the file, as given.
    pub file: PathBuf,
    /// The text of the file.
    pub text: String,
    /// The content of the file, options included.
    pub root: Node,
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read or is not YAML; a key given twice is refused.
    pub fn read(file: &Path) -> Result<Self, ExperimentError> {
        let text = std::fs::read_to_string(file).map_err(|source| ExperimentError::Read {
            file: file.to_owned(),
            source,
        })?;
        Self::parse(file, text)
    }

    /// Parses a file's text.
    ///
    /// # Errors
    /// As [`Document::read`].
    pub fn parse(file: &Path, text: String) -> Result<Self, ExperimentError> {
        let root = parse(&text).map_err(|error| {
            let origin = Origin {
                place: error
                    .location()
                    .map_or(Place::Line { line: 1, column: 1 }, |location| Place::Line {
                        line: usize::try_from(location.line()).unwrap_or(1),
                        column: usize::try_from(location.column()).unwrap_or(1),
                    }),
                path: String::new(),
            };
            syntax_error(file, &text, origin, &error)
        })?;
        Ok(Self {
            file: file.to_owned(),
            root: Node::new(root, String::new()),
            text,
        })
    }

    /// The value of an option, marked as from it. `option` is what was
    /// written, `yaml` the part that is the value.
    ///
    /// # Errors
    /// When it is not YAML.
    pub fn option_value(
        &self,
        option: &str,
        path: &str,
        yaml: &str,
    ) -> Result<Node, ExperimentError> {
        let parsed = parse(yaml).map_err(|error| {
            let origin = Origin {
                place: Place::Option(option.to_owned()),
                path: path.to_owned(),
            };
            syntax_error(&self.file, &self.text, origin, &error)
        })?;
        Ok(Node::new(parsed, String::new()).relocated(option, path))
    }

    /// An error about something of this file.
    pub fn error(
        &self,
        origin: Origin,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ExperimentError {
        Diagnostic::new(
            &self.file,
            &self.text,
            origin,
            problem.into(),
            remedy.into(),
        )
        .into()
    }

    /// The content as YAML, with every option applied.
    pub fn resolved(&self) -> String {
        // Scalars, lists and maps with text keys: nothing that YAML could refuse.
        serde_yaml::to_string(&self.root).unwrap_or_else(|_| self.text.clone())
    }
}

fn parse(text: &str) -> Result<Spanned<Parsed>, serde_yaml::Error> {
    let options = serde_yaml::options! { strict_booleans: true, with_snippet: false };
    serde_yaml::from_str_with_options(text, options)
}

fn syntax_error(
    file: &Path,
    text: &str,
    mut origin: Origin,
    error: &serde_yaml::Error,
) -> ExperimentError {
    let (problem, remedy) = match error.without_snippet() {
        serde_yaml::Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("a key");
            origin.path = key.to_owned();
            (
                format!("duplicate key `{key}`"),
                "keep one of the two".to_owned(),
            )
        }
        other => (
            format!(
                "not valid YAML: {}",
                other.to_string().lines().next().unwrap_or_default()
            ),
            "check indentation, colons and quotes here".to_owned(),
        ),
    };
    Diagnostic::new(file, text, origin, problem, remedy).into()
}

/// What the parser hands over: values that do not know their path yet.
enum Parsed {
    Scalar(Value),
    List(Vec<Spanned<Parsed>>),
    Map(Vec<(Spanned<String>, Spanned<Parsed>)>),
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParsedVisitor)
    }
}

struct ParsedVisitor;

impl<'de> Visitor<'de> for ParsedVisitor {
    type Value = Parsed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Null))
    }

    fn visit_none<E: de::Error>(self) -> Result<Parsed, E> {
        self.visit_unit()
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Bool(value)))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Unsigned(value)))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(
            u64::try_from(value).map_or(Value::Signed(value), Value::Unsigned),
        ))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Float(value)))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Parsed, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Parsed::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Parsed, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Parsed::Map(map))
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Unsigned(value) => serializer.serialize_u64(*value),
            Value::Signed(value) => serializer.serialize_i64(*value),
            Value::Float(value) => serializer.serialize_f64(*value),
            Value::Text(value) => serializer.serialize_str(value),
            Value::List(items) => serializer.collect_seq(items),
            Value::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for entry in entries {
                    map.serialize_entry(&entry.key, &entry.node)?;
                }
                map.end()
            }
        }
    }
}
