//! Takes the example platform out of `docs/adding-a-platform.md`, so that the
//! tests build and run what the document says.

#[path = "../document.rs"]
mod document;

use std::path::Path;
use std::{env, fs};

use document::block;

const DOCUMENT: &str = "../../docs/adding-a-platform.md";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={DOCUMENT}");
    let document = fs::read_to_string(DOCUMENT)?;
    let out = env::var("OUT_DIR")?;
    let write = |name: &str, text: &str| fs::write(Path::new(&out).join(name), text);
    // An included file cannot have documentation of its own at its head.
    write(
        "tasks.rs",
        &block(&document, "mod.rs")?.replace("//!", "//"),
    )?;
    write("tasks_tests.rs", block(&document, "tests")?)?;
    let line = block(&document, "registry.rs")?.trim();
    write("tasks_line.rs", line.trim_end_matches(','))?;
    Ok(())
}
