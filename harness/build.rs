//! Takes the example system out of `docs/adding-a-system.md`, which
//! `epochcost dev new system` writes.

use std::path::Path;
use std::{env, fs};

const SYSTEM_DOCUMENT: &str = "../docs/adding-a-system.md";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    let write = |name: &str, text: String| fs::write(Path::new(&out).join(name), text);
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

/// Returns the block of Rust that follows the comment `name`.
fn block<'a>(document: &'a str, name: &str) -> Result<&'a str, String> {
    let mark = format!("<!-- {name} -->\n```rust\n");
    let block = document
        .split_once(mark.as_str())
        .and_then(|(_, rest)| rest.split_once("```"));
    let (block, _) = block.ok_or_else(|| format!("a document has no block {name:?}"))?;
    Ok(block)
}
