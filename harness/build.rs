//! Takes the example system out of `docs/adding-a-system.md`, which
//! `epochcost dev new system` writes.

#[path = "document.rs"]
mod document;

use std::path::Path;
use std::{env, fs};

use document::block;

const SYSTEM_DOCUMENT: &str = "../docs/adding-a-system.md";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    let write = |name: &str, text: &str| fs::write(Path::new(&out).join(name), text);
    println!("cargo::rerun-if-changed={SYSTEM_DOCUMENT}");
    let document = fs::read_to_string(SYSTEM_DOCUMENT)?;
    write("example_system.rs", block(&document, "gossip.rs")?)?;
    write("example_tests.rs", block(&document, "tests")?)?;
    write("example_line.rs", block(&document, "registry.rs")?.trim())?;
    let experiment = document
        .split_once("```yaml\n")
        .and_then(|(_, rest)| rest.split_once("```"));
    let (experiment, _) = experiment.ok_or("the document has no experiment")?;
    write("example_experiment.yaml", experiment)?;
    Ok(())
}
