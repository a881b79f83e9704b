//! Options that texts of the program name: each is one of a verb, or of another program.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use clap::{Command, CommandFactory};
use epochcost::cli::Cli;

use crate::support::{files_of, root};

/// What else begins with two hyphens, by whose it is.
const OF_OTHERS: [&str; 6] = [
    "cargo: --bin --features --release --target-dir",
    "the worker: --describe --instance --simulate",
    "unshare, mount and systemd-run: --map-root-user --mount --propagation --scope --user",
    "git and llvm-config: --is-inside-work-tree --libdir --porcelain --verify",
    "earlier versions: --aws --print-policy",
    "style sheets: --s",
];

/// Returns the program's source files with their text, without tests and comments, each text on
/// one line.
fn sources() -> Vec<(String, String)> {
    let crates = ["harness", "workloads"].into_iter();
    let files = crates.flat_map(|crates| files_of(&root().join(crates), "rs"));
    let is_source = |file: &PathBuf| file.components().any(|part| part.as_os_str() == "src");
    let files = files.filter(is_source).map(|file| {
        let text = fs::read_to_string(&file).unwrap();
        let (text, _) = text.split_once("#[cfg(test)]").unwrap_or((&text, ""));
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.starts_with("//"));
        let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", "");
        (file.display().to_string(), joined)
    });
    let is_test = |file: &str| file.contains("/tests/") || file.ends_with("/tests.rs");
    files.filter(|(file, _)| !is_test(file)).collect()
}

/// Returns the options that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("--") {
        let before = text[..at].chars().next_back();
        let rest = text[at + 2..].chars();
        let word: String = rest
            .take_while(|c| c.is_ascii_lowercase() || *c == '-')
            .collect();
        let is_part = before.is_some_and(|c| c.is_alphanumeric() || c == '-');
        if !is_part && word.starts_with(|c: char| c.is_ascii_lowercase()) {
            found.insert(format!("--{}", word.trim_end_matches('-')));
        }
    }
    found
}

fn own_options(verb: &Command) -> BTreeSet<String> {
    let options = verb.get_arguments().filter_map(|option| option.get_long());
    options.map(|option| format!("--{option}")).collect()
}

fn all_options(verb: &Command) -> BTreeSet<String> {
    let below = verb.get_subcommands().flat_map(all_options);
    own_options(verb).into_iter().chain(below).collect()
}

/// In `epochcost VERB … --option`, the option is the verb's own.
#[test]
fn every_option_that_a_text_names_is_one_and_in_a_command_of_its_verb() {
    let mut program = Cli::command();
    program.build();
    let mut known = all_options(&program);
    let others: BTreeSet<String> = OF_OTHERS.into_iter().flat_map(named).collect();
    known.extend(others.iter().cloned());
    let (mut seen, mut commands) = (BTreeSet::new(), 0);
    for (file, text) in sources() {
        let options = named(&text);
        let unknown: Vec<&String> = options.difference(&known).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
        seen.extend(options);
        for (at, begin) in text.match_indices("`epochcost ") {
            let rest = &text[at + begin.len()..];
            let Some((command, _)) = rest.split_once('`') else {
                continue;
            };
            let mut verb = &program;
            for word in command.split_whitespace() {
                let Some(below) = verb.find_subcommand(word) else {
                    break;
                };
                verb = below;
            }
            let (known, options) = (own_options(verb), named(command));
            let unknown: Vec<&String> = options.difference(&known).collect();
            assert!(
                unknown.is_empty(),
                "{file}: `epochcost {command}`: {unknown:?}"
            );
            commands += 1;
        }
    }
    for option in others {
        assert!(seen.contains(&option), "no text names {option} of others");
    }
    assert!(commands > 20, "{commands}");
}
