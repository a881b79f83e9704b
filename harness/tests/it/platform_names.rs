//! The registry alone knows platforms by their names: elsewhere in the harness
//! no source compares a name, and no feature chooses code.

use epochcost_platform::PlatformKind;

use crate::support::{files_of, root};

/// The only files in which the feature chooses code: declaration and stand-in of
/// the platform.
const SEAM: [&str; 2] = ["platform/src/lib.rs", "platform/src/registry.rs"];

/// Sources of the harness but of AWS and the servers, with their paths in it.
fn harness() -> Vec<(String, String)> {
    let harness = root().join("harness");
    let is_source = |path: &str| path.split('/').any(|part| part == "src");
    let is_own = |path: &str| ["aws", "servers"].iter().any(|own| path.starts_with(own));
    let files = files_of(&harness, "rs").into_iter().map(|file| {
        let path = file.strip_prefix(&harness).unwrap().to_str().unwrap();
        (path.to_owned(), std::fs::read_to_string(&file).unwrap())
    });
    let sources = files.filter(|(path, _)| is_source(path) && !is_own(path));
    sources.collect()
}

/// Places of code that hold one of `words`, but in some files.
fn places(words: &[String], is_exempt: fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in harness() {
        let lines = text.lines().enumerate();
        let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
        let held = code.filter(|(_, line)| words.iter().any(|word| line.contains(word)));
        let held = held.filter(|_| !is_exempt(&path));
        found.extend(held.map(|(at, line)| format!("{path}:{}: {}", at + 1, line.trim())));
    }
    found
}

#[test]
fn no_source_outside_the_platforms_names_one() {
    let all = PlatformKind::all().iter();
    let quoted = all.map(|known| format!("{:?}", known.as_str()));
    let types = ["LocalFactory", "SimFactory", "AwsFactory"].map(String::from);
    // A variant would be a name: there are none.
    let variants = ('A'..='Z').map(|letter| format!("PlatformKind::{letter}"));
    let words: Vec<String> = quoted.chain(types).chain(variants).collect();
    let found = places(&words, |path| path.starts_with("platform/"));
    assert!(
        found.is_empty(),
        "ask the registry for a property (`epochcost_platform::site_of`) instead of its name:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_feature_of_a_platform_chooses_code_in_one_place() {
    let words = [r#"feature = "aws""#.to_owned()];
    let found = places(&words, |path| SEAM.contains(&path));
    assert!(found.is_empty(), "{}", found.join("\n"));
}
