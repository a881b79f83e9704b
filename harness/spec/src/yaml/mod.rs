//! YAML files: experiments, profiles, price books, places and validations. Every value keeps its
//! place, and every error names it.

pub mod decode;
pub mod document;
pub mod error;
pub mod named;
pub mod overrides;
mod parse;
pub mod schema;

use std::path::Path;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use self::document::Document;
use self::error::ExperimentError;

/// A value that a file states and that cannot be used.
#[derive(Debug)]
pub struct Fault {
    /// Field names and list indices, joined by dots.
    pub path: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

/// Reads a text as a `T` that `check` accepts; `file` is its name in errors.
///
/// # Errors
/// The problem with its place, and the remedy.
pub fn read<T: DeserializeOwned + JsonSchema>(
    file: &str,
    text: &str,
    check: impl FnOnce(&mut T) -> Result<(), Fault>,
) -> Result<T, (String, String)> {
    let read = || -> Result<T, ExperimentError> {
        let document = Document::parse(Path::new(file), text.to_owned())?;
        document.refuse_repeated()?;
        let mut value = decode::decode(&document, &document.root)?;
        check(&mut value).map_err(|fault| {
            let origin = document.root.origin_at(&fault.path);
            document.error(origin, fault.problem, fault.remedy)
        })?;
        Ok(value)
    };
    read().map_err(|error| error.parts())
}

#[cfg(test)]
mod tests;
