//! Takes the example platform out of `docs/adding-a-platform.md`, so that the
//! tests build and run what the document says.

use std::path::Path;
use std::{env, fs};

const DOCUMENT: &str = "../../docs/adding-a-platform.md";

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
    Ok(())
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
