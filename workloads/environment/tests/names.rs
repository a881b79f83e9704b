//! Every variable is named once in the sources and described once in the documents.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use epochcost_environment::PREFIX;

/// Root of the checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Files below `directory` whose name ends in one of `extensions`, in order.
fn files(directory: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" {
                found.extend(files(&path, extensions));
            }
        } else if extensions.iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Names of variables in `text`: the prefix, and at least one more letter.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.match_indices(PREFIX)
        .map(|(start, _)| {
            let rest = &text[start..];
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            rest[..end].to_owned()
        })
        .filter(|name| name.len() > PREFIX.len())
        .collect()
}

/// The constants of this crate, by value.
fn constants() -> BTreeSet<String> {
    let source = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"));
    let values: Vec<String> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub const "))
        .filter_map(|constant| Some(constant.split_once(": &str = \"")?.1.to_owned()))
        .map(|value| value.trim_end_matches("\";").to_owned())
        .filter(|value| value != PREFIX)
        .collect();
    let unique: BTreeSet<String> = values.iter().cloned().collect();
    assert_eq!(unique.len(), values.len(), "a name has two constants");
    unique
}

/// The variables of FORMAT.md: name, set by, read by, value.
fn table() -> BTreeMap<String, [String; 3]> {
    let text = read(&root().join("docs/FORMAT.md"));
    let (_, section) = text.split_once("\n## Environment variables\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let (mut rows, mut group) = (BTreeMap::new(), None);
    for line in section.lines() {
        let sides = line
            .strip_prefix("Set by ")
            .and_then(|line| line.strip_suffix(':'));
        group = sides.map_or(group, |sides| sides.split_once(", read by "));
        let Some((name, value)) = line
            .strip_prefix("- `")
            .and_then(|line| line.split_once("`: "))
        else {
            continue;
        };
        let (set_by, read_by) = group.unwrap();
        let described = [set_by, read_by, value].map(str::to_owned);
        assert!(
            rows.insert(name.to_owned(), described).is_none(),
            "twice: {line}"
        );
    }
    rows
}

#[test]
fn the_table_and_the_constants_name_the_same_variables() {
    let described: BTreeSet<String> = table().into_keys().collect();
    assert_eq!(described, constants());
}

/// The groups of the table are the modules of this crate.
#[test]
fn the_table_says_who_sets_and_who_reads_a_variable() {
    use epochcost_environment::{s3_server, test, user, worker};
    let table = table();
    for (name, set_by, read_by) in [
        (worker::OBJECTS, "harness", "worker"),
        (worker::NETWORK, "harness (`local`)", "worker"),
        (worker::DEPLOYMENT, "harness (`aws`)", "worker"),
        (s3_server::SECRET_KEY, "harness", "`epochcost-s3`"),
        (user::WORKER, "user", "harness"),
        (test::REQUIRE_SERVERS, "user", "tests"),
    ] {
        assert_eq!(table[name][..2], [set_by, read_by], "{name}");
        assert!(!table[name][2].is_empty(), "{name}");
    }
}

/// Tests may write a name out: they play the user or the other process, and a
/// changed constant must fail them. They are those in `tests` and `benches`, in
/// files `tests.rs`, and in the modules `tests` at the end of a file.
fn is_test(path: &Path) -> bool {
    let mut parts = path.iter().map(|part| part.to_string_lossy());
    parts.any(|part| ["tests", "benches", "tests.rs"].contains(&part.as_ref()))
}

#[test]
fn no_other_source_writes_a_name_as_a_literal() {
    let (root, literal) = (root(), format!("\"{PREFIX}"));
    let mut sources = files(&root.join("harness"), &[".rs"]);
    sources.extend(files(&root.join("workloads"), &[".rs"]));
    assert!(sources.len() > 400, "{} sources", sources.len());
    let own = root.join("workloads/environment");
    let mut literals = Vec::new();
    for path in sources {
        if path.starts_with(&own) || is_test(path.strip_prefix(&root).unwrap()) {
            continue;
        }
        let text = read(&path);
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            if line.contains(&literal) {
                literals.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(literals.is_empty(), "{literals:#?}");
}

/// Messages, comments, tests, scripts and documents name only variables that
/// exist.
#[test]
fn nothing_names_a_variable_that_is_none() {
    let (root, constants) = (root(), constants());
    let mut texts = vec![root.join("README.md"), root.join("justfile")];
    for directory in ["harness", "workloads", "docs", "benches", "experiments"] {
        texts.extend(files(
            &root.join(directory),
            &[".rs", ".md", ".py", ".yaml"],
        ));
    }
    for path in texts {
        for name in names(&read(&path)) {
            assert!(constants.contains(&name), "{}: {name}", path.display());
        }
    }
}
