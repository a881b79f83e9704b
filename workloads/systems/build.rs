//! Takes the example system out of `docs/adding-a-system.md`, so that the tests
//! build and run what the document contains.

use std::path::Path;
use std::{env, fs};

const DOCUMENT: &str = "../../docs/adding-a-system.md";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={DOCUMENT}");
    let document = fs::read_to_string(DOCUMENT)?;
    let out = env::var("OUT_DIR")?;
    let write = |name: &str, text: String| fs::write(Path::new(&out).join(name), text);
    // An included file cannot have documentation of its own at its head.
    let file = block(&document, "gossip.rs")?.replace("//!", "//");
    write("gossip.rs", file)?;
    write("gossip_tests.rs", block(&document, "tests")?.to_owned())?;
    let line = block(&document, "registry.rs")?.trim();
    write("registry_line.rs", line.trim_end_matches(',').to_owned())?;
    Ok(())
}

/// The block of Rust that follows the comment `name`.
fn block<'a>(document: &'a str, name: &str) -> Result<&'a str, String> {
    let mark = format!("<!-- {name} -->\n```rust\n");
    let block = document
        .split_once(mark.as_str())
        .and_then(|(_, rest)| rest.split_once("```"));
    let (block, _) = block.ok_or_else(|| format!("{DOCUMENT} has no block {name:?}"))?;
    Ok(block)
}
