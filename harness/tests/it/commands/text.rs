//! Command lines of documents, experiments, recipes and help.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::{Scene, root, shipped};

/// A command line, and the file that it stands in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command {
    /// Arguments, the program first.
    pub words: Vec<String>,
    /// File, or the help that it is an example of.
    pub place: String,
}

impl Command {
    pub fn text(&self) -> String {
        self.words.join(" ")
    }
}

/// Programs that lines of code blocks begin with.
const PROGRAMS: &str = "epochcost cargo just apt-get pip python3 sh docker rustup";

/// Returns every command, each once for a place.
pub fn commands() -> BTreeSet<Command> {
    let mut found = BTreeSet::new();
    let mut add = |place: &str, line: &str| {
        let words = words(line);
        let program = words.first();
        if program.is_some_and(|word| PROGRAMS.split(' ').any(|known| known == word)) {
            let place = place.to_owned();
            found.insert(Command { words, place });
        }
    };
    for file in files(&root(), "md") {
        let text = shipped(&file);
        lines(&text, &mut |line| add(&file, line));
    }
    for file in files(&root().join("experiments"), "yaml") {
        let text = shipped(&format!("experiments/{file}"));
        let lines = text.lines().map(str::trim_start);
        let comments: Vec<&str> = lines.filter_map(|line| line.strip_prefix('#')).collect();
        comments.iter().for_each(|line| add(&file, line));
        spans(&comments.join("\n"), &mut |span| add(&file, span));
    }
    for line in shipped("justfile")
        .lines()
        .filter(|line| line.starts_with("    "))
    {
        add("justfile", &line.replace("{{ARGS}}", ""));
    }
    let shown = |arguments: &str| Scene::empty().text(arguments);
    let verbs = shown("--help");
    let verbs = verbs.lines().filter_map(|line| line.strip_prefix("  "));
    for verb in verbs.filter_map(|line| line.split(' ').next()) {
        if verb.starts_with(|c: char| c.is_ascii_lowercase()) && verb != "help" {
            let help = shown(&format!("{verb} --help"));
            let (_, examples) = help.split_once("Examples:").unwrap_or_default();
            let place = format!("help of {verb}");
            examples.lines().for_each(|line| add(&place, line));
        }
    }
    found
}

/// Returns the documents of a checkout, without those that record what was once run.
fn files(directory: &Path, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let is_left_out = ["target", "results", "adr"].contains(&name.as_str());
        if path.is_dir() && !is_left_out && !name.starts_with('.') {
            let below = files(&path, extension).into_iter();
            found.extend(below.map(|file| format!("{name}/{file}")));
        } else if path.extension().is_some_and(|end| end == extension) {
            found.push(name);
        }
    }
    found.sort();
    found
}

/// Calls `add` with every line of a code block, and every span of code, of a document.
fn lines(text: &str, add: &mut impl FnMut(&str)) {
    let (mut is_block, mut open, mut rest) = (false, String::new(), String::new());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if !is_block {
            rest.push_str(line);
            rest.push('\n');
        } else if let Some(begun) = line.strip_suffix('\\') {
            open.push_str(begun);
        } else {
            add(&(std::mem::take(&mut open) + line));
        }
    }
    spans(&rest, add);
}

/// Calls `add` with every span that is a command of this program.
fn spans(text: &str, add: &mut impl FnMut(&str)) {
    for paragraph in text.split("\n\n") {
        for span in paragraph.split('`').skip(1).step_by(2) {
            let span = span.replace('\n', " ");
            if span.starts_with("epochcost ") {
                add(&span);
            }
        }
    }
}

/// Splits a line as a shell does, up to a comment, a pipe or a second command; `cargo run` is
/// this program, and variables before a command are left out.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.trim().trim_start_matches("$ ").chars() {
        match (c, quote) {
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => quote = None,
            (' ' | '\t', None) => words.extend(word.take()),
            ('#', None) if word.is_none() => break,
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    let is_end = |word: &String| ["&&", "|", ">", ";"].contains(&word.as_str());
    let end = words.iter().position(is_end).unwrap_or(words.len());
    words.truncate(end);
    let is_variable = |word: &&String| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    let variables = words.iter().take_while(is_variable).count();
    words.drain(..variables);
    let is_ours = words.starts_with(&["cargo", "run"].map(str::to_owned))
        && !words.contains(&"-p".to_owned());
    let dashes = words.iter().position(|word| word == "--");
    if let Some(dashes) = dashes.filter(|_| is_ours) {
        words.splice(..=dashes, ["epochcost".to_owned()]);
    }
    words
}
