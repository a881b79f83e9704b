//! Every command line that a document, a recipe or help shows: parsed by the program's own
//! parser, its experiments found, and run where that is cheap, in an empty directory and in a
//! checkout.
mod options;
mod text;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use clap::Parser;
use clap::error::ErrorKind;
use epochcost::cli::Cli;
use epochcost_testing::watch_for;

use self::text::{Command, commands};
use crate::support::{Scene, root, shipped};

/// Commands that are parsed, whose experiments are found, and that are not run, by a part of
/// their text, with the reason.
const NOT_RUN: [&str; 17] = [
    "--platform aws: needs an account",
    "epochcost aws doctor: needs an account",
    "epochcost aws policy: needs a build with AWS's clients",
    "epochcost aws clean: needs an account",
    "epochcost aws prices refresh: needs an account",
    "--fetch: downloads",
    "epochcost profile: measures for minutes",
    "epochcost plan map: seconds of every place: tests of the map run it",
    "epochcost dev validate: half a minute: tests of validations run it",
    "epochcost dev new: changes a checkout: tests of installations run it",
    "epochcost dev faults: searches for minutes: the campaign's tests search",
    "--deadline: searches for half a minute: tests of the answer and of own models search",
    "--limits: searches for up to four minutes",
    "--uncertainty: simulates every row often",
    "--cheapest-memory: simulates every row often",
    "--measure: builds the worker and measures",
    "plan results/RUN: needs a run of this machine: tests of recorded runs plan one",
];

/// Files of the reader's own, of which only the command is parsed.
const OWN_FILES: [&str; 5] = [
    "x.yaml",
    "kubeml.yaml",
    "experiments/gossip.yaml",
    "results/profiles/mywork-train-2026-11-22-plan.yaml",
    "EXPERIMENT",
];

/// The parts of commands that are not run.
fn not_run() -> [&'static str; 17] {
    NOT_RUN.map(|line| line.split_once(": ").unwrap().0)
}

fn is_ours(command: &Command) -> bool {
    let verb = command.words.get(1);
    command.words[0] == "epochcost" && verb.is_some_and(|verb| !is_placeholder(verb))
}

/// Returns whether a text only stands for something: `DIR`, `results/<run>`, `RUN…`.
fn is_placeholder(word: &str) -> bool {
    let mut name = word.chars();
    let is_name = name.all(|c| c.is_ascii_uppercase() || "[/]…+".contains(c));
    word.contains(['…', '<', '{', '*']) || (!word.is_empty() && is_name)
}

#[test]
fn every_command_is_one() {
    let commands = commands();
    let ours = commands.iter().filter(|command| is_ours(command));
    assert!(ours.clone().count() > 80, "{}", ours.count());
    for command in ours {
        let Err(error) = Cli::try_parse_from(&command.words) else {
            continue;
        };
        let is_help = error.kind() == ErrorKind::DisplayHelp;
        // A verb that a text only names has no arguments.
        let of_missing = [
            ErrorKind::MissingRequiredArgument,
            ErrorKind::MissingSubcommand,
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
        ];
        let is_name = command.words.len() == 2 && of_missing.contains(&error.kind());
        let (place, text) = (&command.place, command.text());
        assert!(is_help || is_name, "{place}: {text}\n{error}");
    }
    for part in not_run() {
        let mut texts = commands.iter().map(Command::text);
        let is_there = texts.any(|text| text.contains(part));
        assert!(is_there, "no command has {part}");
    }
}

/// Recipes, packages and scripts of a checkout.
#[test]
fn what_other_commands_name_is_there() {
    let [recipes, lock] = ["justfile", "Cargo.lock"].map(shipped);
    for Command { words, place } in commands() {
        let is_there = match &*words[0] {
            "just" => recipes.lines().any(|line| {
                let rest = line.strip_prefix(&*words[1]);
                rest.is_some_and(|rest| rest.starts_with([' ', ':']))
            }),
            "cargo" => {
                let mut after = words.iter().skip_while(|word| *word != "-p").skip(1);
                let line = after.next().map(|package| format!("name = \"{package}\""));
                line.is_none_or(|line| lock.contains(&line))
            }
            "python3" | "sh" => {
                let script = words[1..].iter().find(|word| word.contains('/'));
                script.is_none_or(|script| root().join(script).is_file())
            }
            _ => true,
        };
        assert!(is_there, "{place}: {}", words.join(" "));
    }
}

/// Returns the experiments that a command names.
fn experiments(command: &Command) -> Vec<String> {
    let [_, verb, arguments @ ..] = &command.words[..] else {
        return Vec::new();
    };
    // Data that are to be fetched are not there, and the map is of no experiment.
    let mut words = arguments.iter();
    let is_other = words.any(|word| word == "--fetch" || word == "map");
    if !["run", "check", "plan"].contains(&verb.as_str()) || is_other {
        return Vec::new();
    }
    let options = arguments.iter().position(|word| word.starts_with('-'));
    let names = arguments[..options.unwrap_or(arguments.len())].iter();
    let names = names.filter(|name| !OWN_FILES.contains(&name.as_str()));
    let names = names.filter(|name| !is_placeholder(name) && !name.starts_with("results/RUN"));
    names.cloned().collect()
}

/// Returns a command as it is run: what costs minutes is only checked, placeholders are filled.
fn cheap(command: &Command) -> Option<Vec<String>> {
    let mut words: Vec<String> = command.words[1..].to_vec();
    let [verb, ..] = &words[..] else { return None };
    let is_bare = words.len() == 1;
    match verb.as_str() {
        _ if is_bare && !["audit", "doctor"].contains(&verb.as_str()) => return None,
        "run" if !words.contains(&"sim".to_owned()) => return None,
        "run" => words.extend(["--out", "results/new"].map(str::to_owned)),
        "reproduce" if !words.contains(&"--dry-run".to_owned()) => {
            words.push("--dry-run".to_owned());
        }
        _ => {}
    }

    for word in &mut words {
        *word = match word.as_str() {
            "results/<before>" => "results/BEFORE".to_owned(),
            "results/<after>" => "results/AFTER".to_owned(),
            "RUN" | "BEFORE" | "AFTER" => format!("results/{word}"),
            "DIR" => "written".to_owned(),
            _ => std::mem::take(word),
        };
    }
    let is_run = |word: &str| word.starts_with("results/");
    let is_unknown = |word: &String| is_placeholder(word) && !is_run(word);
    (!words.iter().any(is_unknown)).then_some(words)
}

/// A directory with the runs that commands name; in a checkout, with the experiments and the
/// record, too.
fn scene(is_checkout: bool) -> Scene {
    let scene = Scene::empty();
    let few = "--platform sim --set systems=[allreduce] --set findings=[]";
    scene.text(&format!("run smoke {few} --out results/RUN"));
    for name in ["BEFORE", "AFTER", "ONE", "TWO"] {
        let copied = scene.shell(&format!("cp -r results/RUN results/{name}"));
        copied.ends(0);
    }
    if is_checkout {
        let root = root().canonicalize().unwrap();
        for below in ["experiments", "results/records"] {
            symlink(root.join(below), scene.file(below)).unwrap();
        }
    }
    scene
}

#[test]
fn commands_work_in_an_empty_directory_and_in_a_checkout() {
    watch_for(600);
    let commands = commands();
    for is_checkout in [false, true] {
        let scene = scene(is_checkout);
        let ends_well = |words: &[String], place: &str| {
            let ended = scene.end(scene.command("").args(words));
            let (code, said) = (ended.output.status.code(), ended.message());
            assert_eq!(code, Some(0), "{place}: {}: {said}", words.join(" "));
        };
        let mut done = BTreeSet::new();
        for command in commands.iter().filter(|command| is_ours(command)) {
            for name in experiments(command) {
                let check = vec!["check".to_owned(), name];
                if done.insert(check.clone()) {
                    ends_well(&check, &command.place);
                }
            }
            // The appendix is written from the record of a checkout.
            let is_elsewhere = !is_checkout && command.text().contains("report appendix");
            // Names without a path are found alike; a forecast of every item takes seconds, too: once
            // is enough.
            let is_path = |word: &String| word.contains('/');
            let is_again = is_checkout
                && (!command.words.iter().any(is_path)
                    || command.text().contains("epochcost reproduce"));
            let names_own = (command.words.iter()).any(|word| OWN_FILES.contains(&word.as_str()));
            let is_dear = not_run().iter().any(|part| command.text().contains(part));
            if is_dear || is_elsewhere || is_again || names_own {
                continue;
            }
            let Some(words) = cheap(command).filter(|words| done.insert(words.clone())) else {
                continue;
            };
            ends_well(&words, &command.place);
            let _ = fs::remove_dir_all(scene.file("results/new"));
        }
        let checked = done.iter().filter(|words| words[0] == "check").count();
        assert!(done.len() > 20 && checked > 7, "{done:?}");
    }
}
