//! `dev new`: the files that a new training system begins as.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;

use epochcost_planner::error::Error;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::Output;

/// The example system of `docs/adding-a-system.md`.
const EXAMPLE: &str = include_str!(concat!(env!("OUT_DIR"), "/example_system.rs"));
/// Its tests.
const EXAMPLE_TESTS: &str = include_str!(concat!(env!("OUT_DIR"), "/example_tests.rs"));
/// Its experiment.
const EXAMPLE_EXPERIMENT: &str = include_str!(concat!(env!("OUT_DIR"), "/example_experiment.yaml"));
/// Its line of the registry.
const EXAMPLE_LINE: &str = include_str!(concat!(env!("OUT_DIR"), "/example_line.rs"));
/// Its name, and the name of its type.
const EXAMPLE_NAME: (&str, &str) = ("gossip", "Gossip");

/// Directory of the systems, from the root of a checkout.
const SYSTEMS: &str = "workloads/systems/src/systems";
/// Line of the registry behind the last system.
const REGISTRY_END: &str = "\n    ]\n";
/// Experiments that run every system.
const FIRST_RUNS: [&str; 2] = ["smoke", "mobilenet"];
/// Line of these experiments behind the last system.
const SYSTEMS_END: &str = "# MLLess is exempt";

/// Words that Rust keeps to itself and that could be names.
const KEYWORDS: [&str; 38] = [
    "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
    "false", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut",
    "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true", "type", "unsafe",
    "use", "where", "while",
];

/// `new`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to begin.
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write a training system that works, to change: its file, its line of the registry, its
    /// tests and its experiment.
    ///
    /// In a checkout. The files are the example of docs/adding-a-system.md under another name.
    System {
        /// Name in experiments, as `pair_mean`.
        name: String,
        /// Root of the checkout.
        #[arg(long, default_value = ".", value_name = "DIR")]
        checkout: PathBuf,
    },
}

/// What `--json` prints.
#[derive(Serialize)]
struct Begun {
    written: Vec<PathBuf>,
    changed: Vec<PathBuf>,
}

/// Writes the files of a new system.
///
/// # Errors
/// When the name cannot be one, the directory is no checkout, or a file is in the way; then
/// nothing is written.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let What::System { name, checkout } = &args.what;
    let begun = system(name, checkout)?;
    for path in &begun.written {
        output.text(format_args!("written: {}", path.display()));
    }
    for path in &begun.changed {
        output.text(format_args!("changed: {}", path.display()));
    }
    output.message(format_args!(
        "next: docs/adding-a-system.md, and\n  cargo test --release -p epochcost-systems {name}\n  \
         cargo run --release -- run experiments/{name}.yaml"
    ));
    output.json(&begun);
    Ok(Exit::Done)
}

fn system(name: &str, checkout: &Path) -> Result<Begun, Error> {
    check_name(name)?;
    let systems = checkout.join(SYSTEMS);
    let experiment = checkout.join(format!("experiments/{name}.yaml"));
    let written = [
        (systems.join(format!("{name}.rs")), source(name)),
        (experiment, renamed(EXAMPLE_EXPERIMENT, name)),
    ];
    let line = renamed(EXAMPLE_LINE, name).replace("crate::systems", "super");
    let line = format!("\n        {}", line.trim_end());
    let mut changed = vec![
        in_modules(systems.join("mod.rs"), name)?,
        before(systems.join("registry.rs"), REGISTRY_END, &line)?,
    ];
    for run in FIRST_RUNS {
        let file = checkout.join(format!("experiments/{run}.yaml"));
        changed.push(before(file, SYSTEMS_END, &format!("  - {name}\n"))?);
    }
    if let Some((path, _)) = written.iter().find(|(path, _)| path.exists()) {
        return Err(Error::usage(
            format!("{} is there already; nothing was written", path.display()),
            "choose another name",
        ));
    }
    for (path, text) in written.iter().chain(&changed) {
        fs::write(path, text).map_err(Error::io(format!("write {}", path.display())))?;
    }
    let paths = |files: &[(PathBuf, String)]| files.iter().map(|(path, _)| path.clone()).collect();
    Ok(Begun {
        written: paths(&written),
        changed: paths(&changed),
    })
}

/// Refuses names that cannot be a module, or are taken.
fn check_name(name: &str) -> Result<(), Error> {
    let refused = |problem, remedy| Err(Error::usage(format!("{name:?} {problem}"), remedy));
    let is_plain = |character: char| {
        character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_'
    };
    let starts_well = name.starts_with(|first: char| first.is_ascii_lowercase());
    if !starts_well || !name.chars().all(is_plain) || name.ends_with('_') || name.contains("__") {
        return refused(
            "is no name of a system",
            "use lower-case letters, digits and single `_`, and begin with a letter",
        );
    }
    let taken = ["registry", EXAMPLE_NAME.0];
    if KEYWORDS.contains(&name) || taken.contains(&name) {
        return refused("is taken", "choose another name");
    }
    if epochcost_systems::find(name).is_some() {
        return refused("is a system already", "choose another name");
    }
    Ok(())
}

/// Returns the file of a system: the example and its tests, renamed.
fn source(name: &str) -> String {
    let tests = EXAMPLE_TESTS.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("    {line}\n"),
    });
    let tests: String = tests.collect();
    let file = format!(
        "{EXAMPLE}\n#[cfg(test)]\nmod tests {{\n    #![allow(clippy::unwrap_used)]\n\n{tests}}}\n"
    );
    let bucket = format!("const BUCKET: &str = \"{}\"", EXAMPLE_NAME.0);
    // Names of buckets have no `_`.
    let own_bucket = format!("const BUCKET: &str = \"{}\"", name.replace('_', "-"));
    renamed(&file.replace(&bucket, &own_bucket), name)
}

/// Returns a text of the example under another name.
fn renamed(text: &str, name: &str) -> String {
    let (module, type_name) = EXAMPLE_NAME;
    text.replace(module, name)
        .replace(type_name, &camel_case(name))
}

/// Returns the name of a type: `pair_mean` is `PairMean`.
fn camel_case(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    name.split('_').map(word).collect()
}

/// Returns a file with `text` before the first occurrence of `mark`.
fn before(path: PathBuf, mark: &str, text: &str) -> Result<(PathBuf, String), Error> {
    let content = read(&path)?;
    let (head, tail) = (content.split_once(mark))
        .ok_or_else(|| no_checkout(&path, "it does not have the form that this program knows"))?;
    Ok((path, format!("{head}{text}{mark}{tail}")))
}

/// Returns the list of modules with one more, in the order of names.
fn in_modules(path: PathBuf, name: &str) -> Result<(PathBuf, String), Error> {
    let content = read(&path)?;
    let is_behind = |line: &&str| {
        let module = line
            .strip_prefix("pub")
            .and_then(|line| line.split_once("mod "));
        let module = module.and_then(|(_, module)| module.strip_suffix(';'));
        module.is_some_and(|module| module > name)
    };
    let mut lines: Vec<&str> = content.lines().collect();
    let place = lines.iter().position(is_behind).unwrap_or(lines.len());
    let line = format!("pub(crate) mod {name};");
    lines.insert(place, &line);
    Ok((path, lines.join("\n") + "\n"))
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => no_checkout(path, "there is no such file"),
        _ => no_checkout(path, &source.to_string()),
    })
}

fn no_checkout(path: &Path, problem: &str) -> Error {
    Error::usage(
        format!("{}: {problem}; nothing was written", path.display()),
        "a system is a file of the source: run it at the root of a checkout of this \
                 version, or name one with --checkout",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_the_documents_under_another_name() {
        let own = source("pair_mean");
        assert!(!own.to_lowercase().contains("gossip"));
        let back = own
            .replace("PairMean", "Gossip")
            .replace("pair_mean", "gossip")
            .replace("pair-mean", "gossip");
        let (file, tests) = back.split_once("\n#[cfg(test)]\n").unwrap();
        assert_eq!(file, EXAMPLE);
        for line in EXAMPLE_TESTS.lines() {
            assert!(tests.contains(line), "{line}");
        }
    }

    #[test]
    fn names_are_modules() {
        for name in ["pair_mean", "x", "ring2"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "", "Ring", "2x", "a-b", "a__b", "a_", "../x", "loop", "spirt", "gossip", "é",
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert_eq!(camel_case("pair_mean2"), "PairMean2");
    }
}
