//! An experiment file as a tree that remembers where each value was written.
//!
//! Sweeps, a system's own settings and `--set` move values about before they
//! are given types. A value keeps its place through all of that, so that an
//! error found late still names the line, or the option, that it came from.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_yaml::Spanned;

use super::error::{Diagnostic, ExperimentError};
use super::yaml::{self, Parsed};
use crate::cost::PriceBook;
use crate::{profiles, shipped};

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
    /// Price book given with it; none: the shipped one.
    pub prices: Option<PriceBook>,
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read or is not YAML; a key given twice is refused.
    pub fn read(file: &Path) -> Result<Self, ExperimentError> {
        let failed = |source| ExperimentError::Read {
            file: file.to_owned(),
            source,
        };
        let bytes = shipped::read(file).map_err(failed)?;
        let text = String::from_utf8(bytes.into_owned()).map_err(|error| not_text(file, &error))?;
        Self::parse(file, text)
    }

    /// Parses a file's text.
    ///
    /// # Errors
    /// As [`Document::read`].
    pub fn parse(file: &Path, text: String) -> Result<Self, ExperimentError> {
        let root = yaml::parse(&text).map_err(|refused| {
            let origin = Origin {
                place: Place::Line {
                    line: refused.line,
                    column: refused.column,
                },
                path: refused.path,
            };
            Diagnostic::new(file, &text, origin, refused.problem, refused.remedy)
        })?;
        Ok(Self {
            file: file.to_owned(),
            root: Node::new(root, String::new()),
            text,
            prices: None,
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
        let parsed = yaml::parse(yaml).map_err(|refused| {
            let origin = Origin {
                place: Place::Option(option.to_owned()),
                path: path.to_owned(),
            };
            self.error(origin, refused.problem, refused.remedy)
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

    /// Returns the name or path of a profile that is named at a place: a path in the file is
    /// relative to the file, one of an option to the current directory.
    pub fn profile(&self, origin: &Origin, name: &str) -> String {
        match origin.place {
            Place::Line { .. } => profiles::beside(&self.file, name),
            Place::Option(_) => name.to_owned(),
        }
    }

    /// The content as YAML, with every option applied.
    pub fn resolved(&self) -> String {
        // Scalars, lists and maps with text keys: nothing that YAML could refuse.
        serde_yaml::to_string(&self.root).unwrap_or_else(|_| self.text.clone())
    }
}

/// Returns the error of a file that is not UTF-8 text, at its first foreign byte.
fn not_text(file: &Path, error: &std::string::FromUtf8Error) -> ExperimentError {
    let (valid, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
    let text = String::from_utf8_lossy(error.as_bytes());
    let before = String::from_utf8_lossy(valid);
    let (line, column) = match before.rsplit_once('\n') {
        Some((lines, line)) => (lines.matches('\n').count() + 2, line.chars().count() + 1),
        None => (1, before.chars().count() + 1),
    };
    let origin = Origin {
        place: Place::Line { line, column },
        path: String::new(),
    };
    let byte = rest.first().copied().unwrap_or_default();
    let problem = format!("not UTF-8 text: the byte 0x{byte:02x}");
    let remedy = "save the file as UTF-8".to_owned();
    Diagnostic::new(file, &text, origin, problem, remedy).into()
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
