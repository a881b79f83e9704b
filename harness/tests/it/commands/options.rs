//! Options that texts of the program name: each is one of a verb, or of another program.

use std::collections::BTreeSet;
use std::fs;

use clap::{Command, CommandFactory};
use epochcost::cli::Cli;

use crate::support::{files_of, root};

/// What else begins with two hyphens, by whose it is.
const OF_OTHERS: [(&str, &[&str]); 6] = [
    (
        "cargo",
        &["--bin", "--features", "--release", "--target-dir"],
    ),
    ("the worker", &["--describe", "--instance", "--simulate"]),
    (
        "unshare, mount and systemd-run",
        &[
            "--map-root-user",
            "--mount",
            "--propagation",
            "--scope",
            "--user",
        ],
    ),
    (
        "git and llvm-config",
        &[
            "--is-inside-work-tree",
            "--libdir",
            "--porcelain",
            "--verify",
        ],
    ),
    ("earlier versions", &["--aws", "--print-policy"]),
    ("style sheets", &["--s"]),
];

/// Returns the program's source files with their text, without tests and comments, each text on
/// one line.
fn sources() -> Vec<(String, String)> {
    let mut files = files_of(&root().join("harness/src"), "rs");
    for crates in ["harness", "workloads"] {
        for entry in fs::read_dir(root().join(crates)).unwrap() {
            let source = entry.unwrap().path().join("src");
            if source.is_dir() {
                files.extend(files_of(&source, "rs"));
            }
        }
    }
    let files = files.into_iter().map(|file| {
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

#[test]
fn every_option_that_a_text_names_is_one() {
    let mut program = Cli::command();
    program.build();
    let mut known = all_options(&program);
    let others = OF_OTHERS.iter().flat_map(|(_, options)| *options);
    known.extend(others.map(|option| (*option).to_owned()));
    let mut seen = BTreeSet::new();
    for (file, text) in sources() {
        let options = named(&text);
        let unknown: Vec<&String> = options.difference(&known).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
        seen.extend(options);
    }
    for (program, options) in OF_OTHERS {
        for option in options {
            assert!(
                seen.contains(*option),
                "no text names {option} of {program}"
            );
        }
    }
}

/// `epochcost VERB … --option` in a text: the verb has the option.
#[test]
fn a_command_in_a_text_has_options_of_its_verb() {
    let mut program = Cli::command();
    program.build();
    let mut commands = 0;
    for (file, text) in sources() {
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
            let known = own_options(verb);
            let options = named(command);
            let unknown: Vec<&String> = options.difference(&known).collect();
            assert!(
                unknown.is_empty(),
                "{file}: `epochcost {command}`: {unknown:?}"
            );
            commands += 1;
        }
    }
    assert!(commands > 20, "{commands}");
}
