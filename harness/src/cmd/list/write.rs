//! `list --write`: the files that this program brings along, written out.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use epochcost_planner::error::Error;
use epochcost_spec::exit::Exit;
use epochcost_spec::format::shell_word;
use epochcost_spec::shipped;
use epochcost_spec::ui::Output;
use epochcost_spec::yaml::named;
use serde::Serialize;

use crate::schemas::{self, KINDS};

/// What `--json` prints.
#[derive(Serialize)]
struct Written {
    directory: PathBuf,
    written: Vec<PathBuf>,
    /// Files that were there already, with the same content.
    kept: Vec<PathBuf>,
}

/// Writes experiments, published tables, validations, profiles, places and prices, and the schemas of
/// such files.
///
/// # Errors
/// When a file of another content is in the way, before anything is written; and when
/// nothing can be written.
pub fn run(directory: &Path, output: Output) -> Result<Exit, Error> {
    let mut written = Written {
        directory: directory.to_owned(),
        written: Vec::new(),
        kept: Vec::new(),
    };
    let mut texts = Vec::new();
    let files = shipped::files().iter().map(|(name, text)| {
        let depth = name.matches('/').count();
        ((*name).to_owned(), named::relocated(text, depth))
    });
    let schemas = KINDS.iter().map(|kind| {
        let name = format!("{}/{}.json", named::DIRECTORY, kind.name);
        (name, schemas::text(&(kind.schema)()))
    });
    for (name, text) in files.chain(schemas) {
        let path = directory.join(name);
        if is_there(&path, &text)? {
            written.kept.push(path);
        } else {
            texts.push((path, text));
        }
    }
    for (path, text) in texts {
        write(&path, &text)?;
        written.written.push(path);
    }
    let there = match written.kept.len() {
        0 => String::new(),
        kept => format!(", of which {kept} were there already"),
    };
    let (all, place) = (
        written.written.len() + written.kept.len(),
        directory.display(),
    );
    output.text(format_args!("{all} files in {place}{there}"));
    output.message(format_args!(
        "cd {} && epochcost run experiments/smoke.yaml",
        shell_word(&directory.to_string_lossy())
    ));
    output.json(&written);
    Ok(Exit::Done)
}

/// Returns whether a file is there with this content.
///
/// # Errors
/// When it has another content, or cannot be read.
fn is_there(path: &Path, text: &str) -> Result<bool, Error> {
    let found = fs::read(path);
    let path = path.display();
    match found {
        Ok(found) if found == text.as_bytes() => Ok(true),
        Ok(_) => Err(Error::usage(
            format!("{path} is there already, with another content; nothing was written"),
            "name another directory, or move that file",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::usage(
            format!("failed to read {path}: {source}; nothing was written"),
            "name another directory",
        )),
    }
}

/// Writes a file that is not there.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = Error::io(format!("write {}", path.display()));
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(&failed)?;
    }
    let mut file = fs::File::create_new(path).map_err(&failed)?;
    io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)
}
