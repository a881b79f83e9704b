//! What can be wrong with an experiment.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::document::{Origin, Place};

/// Why an experiment could not be used.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// The file could not be read.
    #[error("failed to read the experiment {}\n  = help: give the path of a YAML file, or the name of an experiment that `epochcost list experiments` shows", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The reason, as the operating system reports it.
        source: io::Error,
    },
    /// No file has this path, and no experiment this name.
    #[error("there is no experiment `{}`\n  = help: {remedy}", named.display())]
    Unknown {
        /// The path or name, as given.
        named: PathBuf,
        /// What to do, with the nearest name.
        remedy: String,
    },
    /// The content of the file is not a valid experiment.
    #[error(transparent)]
    Invalid(#[from] Box<Diagnostic>),
}

impl ExperimentError {
    /// Returns the problem and the remedy in one line, without the place in the file.
    pub fn brief(&self) -> String {
        match self {
            Self::Read { .. } | Self::Unknown { .. } => self.to_string(),
            Self::Invalid(diagnostic) => format!("{}; {}", diagnostic.problem, diagnostic.remedy),
        }
    }

    /// Returns the problem with its place, and the remedy.
    pub(super) fn parts(self) -> (String, String) {
        match self {
            Self::Invalid(diagnostic) => (diagnostic.located(), diagnostic.remedy),
            other => (other.to_string(), String::new()),
        }
    }
}

impl From<Diagnostic> for ExperimentError {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Invalid(Box::new(diagnostic))
    }
}

/// One finding: file, line, field, what is wrong and what to do.
#[derive(Debug)]
pub struct Diagnostic {
    /// The file.
    pub file: PathBuf,
    /// The place in the file, or on the command line.
    pub origin: Origin,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
    /// The line, if it is one of the file.
    excerpt: Option<Excerpt>,
}

/// Most characters of a text of the user's that an error repeats.
const MOST_REPEATED: usize = 600;

/// Most characters of a line that an error shows.
const MOST_SHOWN: usize = 160;

/// Returns a text, its middle left out if it is long.
fn shortened(text: &str) -> String {
    if text.chars().nth(MOST_REPEATED).is_none() {
        return text.to_owned();
    }
    let part = MOST_REPEATED / 2;
    let head: String = text.chars().take(part).collect();
    let tail = text.char_indices().nth_back(part - 1);
    let tail = tail.map_or("", |(start, _)| &text[start..]);
    format!("{head}…{tail}")
}

/// A line of the file, or the part of a long one around a column.
#[derive(Debug)]
struct Excerpt {
    text: String,
    /// Characters before the column.
    indent: usize,
}

impl Excerpt {
    fn around(line: &str, column: usize) -> Self {
        let indent = column.saturating_sub(1);
        if line.chars().nth(MOST_SHOWN).is_none() {
            let text = line.to_owned();
            return Self { text, indent };
        }
        let start = indent.saturating_sub(MOST_SHOWN / 2);
        let mark = |is_cut: bool| if is_cut { "…" } else { "" };
        let part: String = line.chars().skip(start).take(MOST_SHOWN).collect();
        let is_cut_behind = line.chars().nth(start + MOST_SHOWN).is_some();
        Self {
            text: format!("{}{part}{}", mark(start > 0), mark(is_cut_behind)),
            indent: indent - start + usize::from(start > 0),
        }
    }
}

impl Diagnostic {
    /// A finding about `text`, the content of `file`.
    pub fn new(file: &Path, text: &str, origin: Origin, problem: String, remedy: String) -> Self {
        let (mut excerpt, mut origin) = (None, origin);
        match &mut origin.place {
            Place::Line { line, column } => {
                let line = text.lines().nth(line.saturating_sub(1));
                excerpt = line.map(|line| Excerpt::around(line, *column));
            }
            Place::Option(option) => *option = shortened(option),
        }
        origin.path = shortened(&origin.path);
        Self {
            file: file.to_owned(),
            origin,
            problem: shortened(&problem),
            remedy: shortened(&remedy),
            excerpt,
        }
    }

    /// Returns the problem behind its place and field, in one line.
    fn located(&self) -> String {
        let file = self.file.display();
        let place = match &self.origin.place {
            Place::Line { line, column } => format!("{file}:{line}:{column}: "),
            Place::Option(option) => format!("{file}, {option}: "),
        };
        let problem = &self.problem;
        match &*self.origin.path {
            "" => format!("{place}{problem}"),
            path => format!("{place}{path}: {problem}"),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.located())?;
        if let (Place::Line { line, .. }, Some(excerpt)) = (&self.origin.place, &self.excerpt) {
            let margin = line.to_string().len();
            let Excerpt { text, indent } = excerpt;
            write!(f, "\n {line} | {text}\n {:margin$} | {:indent$}^", "", "")?;
        }
        write!(f, "\n  = help: {}", self.remedy)
    }
}

impl std::error::Error for Diagnostic {}
