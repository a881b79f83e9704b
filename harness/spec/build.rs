//! Lists the files that the program brings along.

use std::path::{Path, PathBuf};
use std::{env, fs};

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
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("shipped.rs"), shipped()?)?;
    Ok(())
}

/// Returns an array of the names and texts of all files that are brought along, in the
/// order of their names.
fn shipped() -> Result<String, Failure> {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let mut entries = String::new();
    for (directory, name) in SHIPPED {
        println!("cargo::rerun-if-changed={directory}");
        let root = manifest.join(directory).canonicalize()?;
        for file in files(&root)? {
            let below = file.strip_prefix(&root)?.display();
            // A build directory may serve several checkouts: where this one lies is not written.
            let path = format!("/{directory}/{below}");
            let text = format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))");
            entries.push_str(&format!("(\"{name}/{below}\", {text}),\n"));
        }
    }
    Ok(format!("&[{entries}]"))
}

/// Returns the files below a directory that are brought along, sorted.
fn files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            let is_it = |ending: &&str| path.extension().is_some_and(|own| own == *ending);
            found.extend(ENDINGS.iter().any(is_it).then_some(path));
        }
    }
    found.sort();
    Ok(found)
}
