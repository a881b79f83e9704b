//! A YAML file as a tree that remembers where each value was written.
//!
//! Sweeps, a system's own settings and `--set` move values about before they
//! are given types. A value keeps its place through all of that, so that an
//! error found late still names the line, or the option, that it came from.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::ser::{Serialize, Serializer};
use serde_yaml::Spanned;

use super::error::{Diagnostic, ExperimentError};
use super::parse::{self, Parsed, Refused};
use crate::shipped;

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

impl Origin {
    /// The first character of the file, for what is wrong with all of it.
    pub const START: Self = Self::line(1, 1);

    /// A place in the file, without a path.
    pub(super) const fn line(line: usize, column: usize) -> Self {
        Self {
            place: Place::Line { line, column },
            path: String::new(),
        }
    }

    /// A field that an option gives.
    pub(super) fn option(option: &str, path: &str) -> Self {
        Self {
            place: Place::Option(option.to_owned()),
            path: path.to_owned(),
        }
    }
}

impl Node {
    /// The entry of a map's field.
    pub fn entry(&self, field: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == field)
    }

    /// The value of a map's field.
    pub fn get(&self, field: &str) -> Option<&Node> {
        self.entry(field).map(|entry| &entry.node)
    }

    /// The items of a list; none of anything else.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
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

    /// Creates the node of a path from what was parsed in the file, or of an option.
    fn new(parsed: Spanned<Parsed>, path: String, option: Option<&str>) -> Self {
        let place = place(&parsed, option);
        let value = match parsed.value {
            Parsed::Scalar(value) => value,
            Parsed::List(items) => {
                let items = items.into_iter().enumerate();
                let items = items.map(|(index, item)| Self::new(item, join(&path, index), option));
                Value::List(items.collect())
            }
            Parsed::Map(entries) => {
                let entries = entries.into_iter().map(|(key, value)| Entry {
                    place: self::place(&key, option),
                    node: Self::new(value, join(&path, &key.value), option),
                    key: key.value,
                });
                Value::Map(entries.collect())
            }
        };
        Self {
            value,
            origin: Origin { place, path },
        }
    }

    /// Returns the origin of the field of a dotted path, or of the innermost field around it.
    pub fn origin_at(&self, path: &str) -> Origin {
        let (mut node, mut rest) = (self, path);
        while !rest.is_empty() {
            let (segment, behind) = rest.split_once('.').unwrap_or((rest, ""));
            let index = segment.parse::<usize>();
            let found = match (&node.value, index) {
                (Value::List(items), Ok(index)) => items.get(index).map(|item| (item, behind)),
                // A key may hold dots itself.
                _ => (node.get(segment).map(|field| (field, behind)))
                    .or_else(|| node.get(rest).map(|field| (field, ""))),
            };
            let Some(found) = found else { break };
            (node, rest) = found;
        }
        Origin {
            path: path.to_owned(),
            ..node.origin.clone()
        }
    }

    /// Returns the first two entries of a list that identify the same thing, with its name.
    fn repeated(&self) -> Option<(&Node, &Node, String)> {
        match &self.value {
            Value::List(items) => items.iter().find_map(Node::repeated),
            Value::Map(entries) => entries.iter().find_map(|entry| {
                let Value::List(items) = &entry.node.value else {
                    return entry.node.repeated();
                };
                let mut known: Vec<(String, &Node)> = Vec::new();
                for item in items {
                    let Some(name) = item.identity(&entry.key) else {
                        continue;
                    };
                    if let Some((_, first)) = known.iter().find(|(other, _)| *other == name) {
                        return Some((*first, item, name));
                    }
                    known.push((name, item));
                }
                entry.node.repeated()
            }),
            _ => None,
        }
    }

    /// Returns what identifies this entry of a list; `None` where lists of that name may repeat
    /// their entries.
    fn identity(&self, list: &str) -> Option<String> {
        let (_, fields) = UNIQUE.iter().find(|(name, _)| *name == list)?;
        if let Value::Map(_) = self.value {
            let texts = fields.iter().filter_map(|field| self.get(field)?.text());
            let texts: Vec<String> = texts.collect();
            return (!texts.is_empty()).then(|| texts.join(", "));
        }
        self.text()
    }

    /// Returns a text or a number as text.
    pub fn text(&self) -> Option<String> {
        Some(match &self.value {
            Value::Text(text) => text.clone(),
            Value::Unsigned(number) => number.to_string(),
            Value::Signed(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            _ => return None,
        })
    }
}

/// Lists without repeated entries: the name of the list, and the fields that identify an entry
/// that is a map.
const UNIQUE: [(&str, &[&str]); 9] = [
    ("cells", &[]),
    ("compute", &[]),
    ("fit", &[]),
    ("hardware", &["name"]),
    ("memory_mb", &[]),
    ("models", &["name", "model", "device"]),
    ("prices", &["dimension"]),
    ("profiles", &["profile"]),
    ("targets", &["metric", "at_least", "at_most", "within"]),
];

/// Most bytes of a YAML file, of which each may take a hundred in memory.
const MOST_BYTES: usize = 4 << 20;

/// Returns the whole number of 0 or more that a decimal number is, as `1e6` and `8.0` are.
pub fn whole(number: f64) -> Option<u64> {
    /// Largest number up to which 64-bit floating point holds every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && (0.0..=EXACT).contains(&number);
    is_whole.then_some(number as u64)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { line, .. } => write!(f, "line {line}"),
            Self::Option(option) => write!(f, "{option}"),
        }
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

fn place<T>(spanned: &Spanned<T>, option: Option<&str>) -> Place {
    let number = |count: u64| usize::try_from(count).unwrap_or(0);
    match option {
        Some(option) => Place::Option(option.to_owned()),
        None => Place::Line {
            line: number(spanned.referenced.line()),
            column: number(spanned.referenced.column()),
        },
    }
}

/// Texts whose trees are kept: an experiment reads its own file for each of its forms, and the
/// profiles, prices and papers that others read, up to about ten.
const KEPT_TEXTS: usize = 16;

/// Most bytes of a text that is kept: a tree takes many times as many.
const MOST_KEPT_BYTES: usize = 128 << 10;

/// Trees of the texts that were parsed last, the newest first.
static KEPT: Mutex<VecDeque<(String, Arc<Node>)>> = Mutex::new(VecDeque::new());

/// Returns the tree of a text, which is parsed unless it is kept.
fn tree(text: &str) -> Result<Node, Refused> {
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let found = {
        let mut kept = kept();
        let at = kept.iter().position(|(known, _)| known == text);
        at.and_then(|at| kept.remove(at)).map(|entry| {
            let tree = entry.1.clone();
            kept.push_front(entry);
            tree
        })
    };
    if let Some(known) = found {
        return Ok(Node::clone(&known));
    }
    let node = Node::new(parse::parse(text)?, String::new(), None);
    if text.len() <= MOST_KEPT_BYTES {
        let mut kept = kept();
        kept.truncate(KEPT_TEXTS - 1);
        kept.push_front((text.to_owned(), Arc::new(node.clone())));
    }
    Ok(node)
}

/// A YAML file.
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
        if text.len() > MOST_BYTES {
            let problem = format!("a file of {} bytes", text.len());
            let remedy = format!("write at most {MOST_BYTES} bytes");
            return Err(Diagnostic::new(file, &text, Origin::START, problem, remedy).into());
        }
        let root = tree(&text).map_err(|refused| {
            let origin = Origin {
                path: refused.path,
                ..Origin::line(refused.line, refused.column)
            };
            Diagnostic::new(file, &text, origin, refused.problem, refused.remedy)
        })?;
        Ok(Self {
            file: file.to_owned(),
            root,
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
        let parsed = parse::parse(yaml).map_err(|refused| {
            let origin = Origin::option(option, path);
            self.error(origin, refused.problem, refused.remedy)
        })?;
        Ok(Node::new(parsed, path.to_owned(), Some(option)))
    }

    /// Returns the nodes of a field that is a list; none where it is not there.
    ///
    /// # Errors
    /// When it is no list.
    pub fn list(&self, field: &str) -> Result<&[Node], ExperimentError> {
        match self.root.get(field) {
            Some(node) if !matches!(node.value, Value::List(_)) => {
                let problem = format!("`{field}` is no list");
                Err(self.error(node.origin.clone(), problem, "write a list"))
            }
            node => Ok(node.map_or(&[], Node::items)),
        }
    }

    /// Refuses a list with two entries of the same name, which could only be read as one of them.
    ///
    /// # Errors
    /// Names both.
    pub fn refuse_repeated(&self) -> Result<(), ExperimentError> {
        let Some((first, second, name)) = self.root.repeated() else {
            return Ok(());
        };
        let problem = format!("`{name}` is listed twice, first in {}", first.origin.place);
        Err(self.error(second.origin.clone(), problem, "keep one of the two"))
    }

    /// Returns the number that is written at a place, as it is written.
    pub(super) fn number_at(&self, origin: &Origin) -> Option<String> {
        let written = match &origin.place {
            Place::Line { line, column } => {
                let line = self.text.lines().nth(line.checked_sub(1)?)?;
                parse::written(line.chars().skip(column.checked_sub(1)?))
            }
            Place::Option(option) => parse::written(option.split_once('=')?.1.chars()),
        };
        let is_number = written.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
        is_number.then_some(written)
    }

    /// An error about something of this file.
    pub fn error(
        &self,
        origin: Origin,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ExperimentError {
        let (problem, remedy) = (problem.into(), remedy.into());
        Diagnostic::new(&self.file, &self.text, origin, problem, remedy).into()
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
    let byte = rest.first().copied().unwrap_or_default();
    let problem = format!("not UTF-8 text: the byte 0x{byte:02x}");
    let remedy = "save the file as UTF-8".to_owned();
    Diagnostic::new(file, &text, Origin::line(line, column), problem, remedy).into()
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
                serializer.collect_map(entries.iter().map(|entry| (&entry.key, &entry.node)))
            }
        }
    }
}
