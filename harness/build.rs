//! Takes the example platform out of `docs/adding-a-platform.md`, so that the
//! tests build and run what the document says; lists the files of `places/`, so
//! that a new place is a file and no code; lists the files that the program brings
//! along; and takes the example system out of `docs/adding-a-system.md`, which
//! `epochcost dev new system` writes.

use std::path::{Path, PathBuf};
use std::{env, fs};

const DOCUMENT: &str = "../docs/adding-a-platform.md";

const SYSTEM_DOCUMENT: &str = "../docs/adding-a-system.md";

const PLACES: &str = "places";

/// Directories whose files the program brings along, and their names in it.
const SHIPPED: [(&str, &str); 5] = [
    ("../experiments", "experiments"),
    ("hardware", "hardware"),
    ("places", "places"),
    ("prices", "prices"),
    ("profiles", "profiles"),
];

/// Endings of the files that are brought along.
const ENDINGS: [&str; 3] = ["yaml", "csv", "md"];

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
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
    example_system(&write)?;
    write("places.rs", places()?)?;
    write("shipped.rs", shipped()?)?;
    Ok(())
}

/// Takes the example system out of its document: `epochcost dev new system` writes it.
fn example_system(write: &dyn Fn(&str, String) -> std::io::Result<()>) -> Result<(), Failure> {
    println!("cargo::rerun-if-changed={SYSTEM_DOCUMENT}");
    let document = fs::read_to_string(SYSTEM_DOCUMENT)?;
    write(
        "example_system.rs",
        block(&document, "gossip.rs")?.to_owned(),
    )?;
    write("example_tests.rs", block(&document, "tests")?.to_owned())?;
    let line = block(&document, "registry.rs")?.trim();
    write("example_line.rs", line.to_owned())?;
    let experiment = document
        .split_once("```yaml\n")
        .and_then(|(_, rest)| rest.split_once("```"));
    let (experiment, _) = experiment.ok_or("the document has no experiment")?;
    write("example_experiment.yaml", experiment.to_owned())?;
    Ok(())
}

/// Returns an array of the texts of all places, in the order of their names.
fn places() -> Result<String, Failure> {
    let files = files(&manifest()?.join(PLACES))?;
    let mut entries = String::new();
    for file in files {
        let below = file.strip_prefix(manifest()?)?.display().to_string();
        entries.push_str(&format!("{},\n", included(&below)));
    }
    Ok(format!("&[{entries}]"))
}

/// Returns an array of the names and texts of all files that are brought along, in the
/// order of their names.
fn shipped() -> Result<String, Failure> {
    let manifest = manifest()?;
    let mut entries = String::new();
    for (directory, name) in SHIPPED {
        println!("cargo::rerun-if-changed={directory}");
        let root = manifest.join(directory).canonicalize()?;
        for file in files(&root)? {
            let below = file.strip_prefix(&root)?.display();
            let included = included(&format!("{directory}/{below}"));
            entries.push_str(&format!("(\"{name}/{below}\", {included}),\n"));
        }
    }
    Ok(format!("&[{entries}]"))
}

/// Returns the expression that includes a file of this package, wherever its checkout lies
/// when it is compiled: a build directory may serve several checkouts.
fn included(below: &str) -> String {
    let below = format!("/{below}");
    format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {below:?}))")
}

/// Returns the directory of this package.
fn manifest() -> Result<PathBuf, Failure> {
    Ok(PathBuf::from(env::var("CARGO_MANIFEST_DIR")?))
}

/// Returns the files below a directory that are brought along, sorted.
fn files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path
            .extension()
            .is_some_and(|own| ENDINGS.iter().any(|ending| own == *ending))
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the block of Rust that follows the comment `name`.
fn block<'a>(document: &'a str, name: &str) -> Result<&'a str, String> {
    let mark = format!("<!-- {name} -->\n```rust\n");
    let block = document
        .split_once(mark.as_str())
        .and_then(|(_, rest)| rest.split_once("```"));
    let (block, _) = block.ok_or_else(|| format!("a document has no block {name:?}"))?;
    Ok(block)
}
