//! Lists the files of `harness/places/`, so that a new place is a file and no code,
//! and the files that the program brings along.

use std::path::{Path, PathBuf};
use std::{env, fs};

const PLACES: &str = "../places";

/// Directories whose files the program brings along, and their names in it.
const SHIPPED: [(&str, &str); 5] = [
    ("../../experiments", "experiments"),
    ("../hardware", "hardware"),
    ("../places", "places"),
    ("../prices", "prices"),
    ("../profiles", "profiles"),
];

/// Endings of the files that are brought along.
const ENDINGS: [&str; 3] = ["yaml", "csv", "md"];

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    let write = |name: &str, text: String| fs::write(Path::new(&out).join(name), text);
    write("places.rs", places()?)?;
    write("shipped.rs", shipped()?)?;
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
