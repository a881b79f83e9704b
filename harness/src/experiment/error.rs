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
    #[error("failed to read the experiment {}\n  = help: give the path of a YAML file; `epochcost list experiments` shows those here", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The reason, as the operating system reports it.
        source: io::Error,
    },
    /// The content of the file is not a valid experiment.
    #[error(transparent)]
    Invalid(#[from] Box<Diagnostic>),
}

impl ExperimentError {
    /// Returns the problem and the remedy in one line, without the place in the file.
    pub fn brief(&self) -> String {
        match self {
            Self::Read { .. } => self.to_string(),
            Self::Invalid(diagnostic) => format!("{}; {}", diagnostic.problem, diagnostic.remedy),
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
    excerpt: Option<String>,
}

impl Diagnostic {
    /// A finding about `text`, the content of `file`.
    pub fn new(file: &Path, text: &str, origin: Origin, problem: String, remedy: String) -> Self {
        let excerpt = match origin.place {
            Place::Line { line, .. } => text.lines().nth(line.saturating_sub(1)).map(str::to_owned),
            Place::Option(_) => None,
        };
        Self {
            file: file.to_owned(),
            origin,
            problem,
            remedy,
            excerpt,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin.place {
            Place::Line { line, column } => write!(f, "{}:{line}:{column}: ", self.file.display())?,
            Place::Option(option) => write!(f, "{}, {option}: ", self.file.display())?,
        }
        if !self.origin.path.is_empty() {
            write!(f, "{}: ", self.origin.path)?;
        }
        f.write_str(&self.problem)?;
        if let (Place::Line { line, column }, Some(excerpt)) = (&self.origin.place, &self.excerpt) {
            let margin = line.to_string().len();
            let indent = column.saturating_sub(1);
            write!(
                f,
                "\n {line} | {excerpt}\n {:margin$} | {:indent$}^",
                "", ""
            )?;
        }
        write!(f, "\n  = help: {}", self.remedy)
    }
}

impl std::error::Error for Diagnostic {}
