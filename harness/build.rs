//! Takes the example platform out of `docs/adding-a-platform.md`, so that the
//! tests build and run what the document says, and lists the files of `places/`, so
//! that a new place is a file and no code.

use std::path::Path;
use std::{env, fs};

const DOCUMENT: &str = "../docs/adding-a-platform.md";

const PLACES: &str = "places";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={DOCUMENT}");
    let document = fs::read_to_string(DOCUMENT)?;
    let out = env::var("OUT_DIR")?;
    let write = |name: &str, text: String| fs::write(Path::new(&out).join(name), text);
    // An included file cannot have documentation of its own at its head.
    let file = block(&document, "mod.rs")?.replace("//!", "//");
    write("tasks.rs", file)?;
    write("tasks_tests.rs", block(&document, "tests")?.to_owned())?;
    let line = block(&document, "registry.rs")?.trim();
    write("tasks_line.rs", line.trim_end_matches(',').to_owned())?;
    write("places.rs", places()?)?;
    Ok(())
}

/// Returns an array of the texts of all places, in the order of their names.
fn places() -> Result<String, Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={PLACES}");
    let directory = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join(PLACES);
    let files: Result<Vec<_>, _> = fs::read_dir(directory)?.collect();
    let mut files: Vec<_> = files?.iter().map(fs::DirEntry::path).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "yaml"));
    files.sort();
    let included = files.iter().map(|file| format!("include_str!({file:?}),"));
    Ok(format!("&[{}]", included.collect::<String>()))
}

/// Returns the block of Rust that follows the comment `name`.
fn block<'a>(document: &'a str, name: &str) -> Result<&'a str, String> {
    let mark = format!("<!-- {name} -->\n```rust\n");
    let block = document
        .split_once(mark.as_str())
        .and_then(|(_, rest)| rest.split_once("```"));
    let (block, _) = block.ok_or_else(|| format!("{DOCUMENT} has no block {name:?}"))?;
    Ok(block)
}
