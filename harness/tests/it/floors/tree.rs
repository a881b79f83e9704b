//! The files of a crate, the paths that each names, and the file that defines
//! what a path names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::tokens::{Token, is, tokens, without_tests};

/// A module by its path below the crate, `["platform", "local"]`.
pub type Module = Vec<String>;

/// A path that a file names, in a `use` or elsewhere.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its parts; the last of a glob is `*`.
    pub parts: Vec<String>,
    /// The name that it has in the file; none outside of `use`.
    name: Option<String>,
    /// Line in the file, from 1.
    pub line: usize,
}

/// A file without its test code.
#[derive(Debug)]
pub struct File {
    /// Its path below the root.
    pub path: PathBuf,
    /// Its module.
    pub module: Module,
    /// Every path that it names.
    pub named: Vec<Named>,
    /// Items that it defines.
    defined: BTreeSet<String>,
}

/// A crate's files.
#[derive(Debug)]
pub struct Tree {
    /// By their modules.
    pub files: BTreeMap<Module, File>,
}

impl Tree {
    /// Reads every file below `root`, the directory of `lib.rs`; binaries and
    /// test modules are left out.
    pub fn read(root: &Path) -> Self {
        let mut paths = Vec::new();
        collect(root, &mut paths);
        let (mut files, mut tests) = (BTreeMap::new(), Vec::new());
        for path in paths {
            let source = std::fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(root).unwrap().to_owned();
            let module = module_of(&path);
            let (tokens, test_files) = without_tests(&tokens(&source));
            let child = |name: String| [module.clone(), vec![name]].concat();
            tests.extend(test_files.into_iter().map(child));
            let file = File {
                path,
                named: named(&tokens),
                defined: defined(&tokens),
                module: module.clone(),
            };
            files.insert(module, file);
        }
        files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self { files }
    }

    /// Returns the path below the crate that `file` names, if it is one of the
    /// crate's own.
    pub fn absolute(&self, file: &File, parts: &[String]) -> Option<Module> {
        let mut module = file.module.clone();
        let own = match parts[0].as_str() {
            "crate" => return Some(parts[1..].to_vec()),
            "self" => 1,
            "super" => {
                let ups = parts.iter().take_while(|part| *part == "super").count();
                module.truncate(module.len().saturating_sub(ups));
                ups
            }
            // A child, as `use child::Item` in its parent.
            child => {
                let child = [module.clone(), vec![child.to_owned()]].concat();
                return (self.files.contains_key(&child))
                    .then(|| [child, parts[1..].to_vec()].concat());
            }
        };
        module.extend_from_slice(&parts[own..]);
        Some(module)
    }

    /// Returns the file that defines what a path below the crate names.
    pub fn definition(&self, path: &[String]) -> &File {
        self.find(path, &mut BTreeSet::new())
    }

    fn find(&self, path: &[String], seen: &mut BTreeSet<Module>) -> &File {
        let depth = (0..=path.len())
            .rev()
            .find(|depth| self.files.contains_key(&path[..*depth]))
            .unwrap();
        let file = &self.files[&path[..depth]];
        let rest = &path[depth..];
        let is_defined = rest.is_empty() || file.defined.contains(&rest[0]);
        if is_defined || !seen.insert(path.to_vec()) {
            return file;
        }
        // Not defined here: imported or exported again under this name.
        for import in &file.named {
            let Some(target) = self.absolute(file, &import.parts) else {
                continue;
            };
            if import.name.as_ref() == Some(&rest[0]) {
                return self.find(&[target, rest[1..].to_vec()].concat(), seen);
            }
            if let Some((glob, module)) = target.split_last()
                && glob == "*"
                && self
                    .files
                    .get(module)
                    .is_some_and(|f| f.defined.contains(&rest[0]))
            {
                return &self.files[module];
            }
        }
        file
    }
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        if path.is_dir() {
            collect(&path, files);
        } else if is_source && !path.ends_with("src/main.rs") {
            files.push(path);
        }
    }
}

fn module_of(path: &Path) -> Module {
    let path = path.with_extension("");
    let mut parts: Module = (path.iter())
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib")) {
        parts.pop();
    }
    parts
}

/// Returns the paths of every `use`, and those elsewhere that begin at the
/// crate, the module or its parent.
fn named(tokens: &[Token]) -> Vec<Named> {
    let mut named = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_use = tokens[at].text == "use" && !is(tokens.get(at + 1), "<");
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        let starts = matches!(tokens[at].text.as_str(), "crate" | "self" | "super")
            && is(tokens.get(at + 1), "::")
            && !is(before, "::")
            && !is(before, "in");
        if is_use {
            at = use_tree(tokens, at + 1, &[], &mut named);
        } else if starts {
            let line = tokens[at].line;
            let mut parts = vec![tokens[at].text.clone()];
            while is(tokens.get(at + 1), "::") && is_name(tokens.get(at + 2)) {
                parts.push(tokens[at + 2].text.clone());
                at += 2;
            }
            let name = None;
            named.push(Named { parts, name, line });
        }
        at += 1;
    }
    named
}

fn is_name(token: Option<&Token>) -> bool {
    token.is_some_and(|token| {
        token
            .text
            .starts_with(|c: char| c.is_alphabetic() || c == '_')
    })
}

/// Reads one tree of a `use`, and returns where what follows it begins.
fn use_tree(tokens: &[Token], start: usize, before: &[String], named: &mut Vec<Named>) -> usize {
    let (mut parts, mut at) = (before.to_vec(), start);
    let mut line = tokens.get(at).map_or(0, |token| token.line);
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "::" => {}
            "{" => {
                at += 1;
                while !is(tokens.get(at), "}") && at < tokens.len() {
                    at = use_tree(tokens, at, &parts, named);
                    at += usize::from(is(tokens.get(at), ","));
                }
                return at + 1;
            }
            text if text == "*" || is_name(Some(token)) => {
                line = token.line;
                parts.push(text.to_owned());
            }
            _ => break,
        }
        at += 1;
        if is(tokens.get(at), "as") {
            let name = tokens.get(at + 1).map(|token| token.text.clone());
            named.push(Named { parts, name, line });
            return at + 2;
        }
    }
    if parts.len() > 1 && parts.last().is_some_and(|part| part == "self") {
        parts.pop();
    }
    let name = parts.last().cloned();
    named.push(Named { parts, name, line });
    at
}

/// Returns the names of the items outside of any braces.
fn defined(tokens: &[Token]) -> BTreeSet<String> {
    const KINDS: [&str; 9] = [
        "fn",
        "struct",
        "enum",
        "trait",
        "type",
        "const",
        "static",
        "union",
        "macro_rules",
    ];
    let (mut depth, mut defined) = (0, BTreeSet::new());
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            kind if depth == 0 && KINDS.contains(&kind) => {
                let mut names = tokens[at + 1..].iter().filter(|token| token.text != "!");
                defined.extend(names.next().map(|name| name.text.clone()));
            }
            _ => {}
        }
    }
    defined
}
