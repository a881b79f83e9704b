//! Takes the example model out of `docs/adding-a-model.md`, so that the tests
//! build and train what the document contains.

use std::path::Path;
use std::{env, fs};

const DOCUMENT: &str = "../../docs/adding-a-model.md";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={DOCUMENT}");
    let document = fs::read_to_string(DOCUMENT)?;
    let out = env::var("OUT_DIR")?;
    let write = |name: &str, text: String| fs::write(Path::new(&out).join(name), text);
    // An included file cannot have documentation of its own at its head.
    let file = |name| Ok::<_, String>(block(&document, name)?.replace("//!", "//"));
    let described = "crate::documented::description";
    let description = file("description")?.replace("use crate::", "use epochcost_architectures::");
    write("description.rs", description)?;
    let network = file("network")?.replace("epochcost_architectures::models::pinhole", described);
    write("network.rs", network)?;
    write("documented_tests.rs", file("tests")?)?;
    let line = block(&document, "description line")?.trim();
    write("description_line.rs", line.trim_end_matches(',').to_owned())?;
    // The line is an arm of a match: the documented model is asked for by its name, too.
    let line = block(&document, "network line")?;
    let rest = "model => return Err(ModelError::NoNetwork { model }),";
    write(
        "network_line.rs",
        format!("match info.name {{ {line} {rest} }}"),
    )?;
    Ok(())
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
