//! The folders of `src` and the imports between them: `contract` knows neither
//! `mechanics` nor `systems`, `mechanics` knows no system, and no system knows
//! another.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module path below the crate's root, such as `["systems", "p2p", "barrier"]`.
type Module = Vec<String>;

/// Every source file below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The module that a file, named from `src`, holds.
fn module_of(file: &str) -> Module {
    let path = file.strip_suffix(".rs").unwrap();
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').map(str::to_owned).collect()
}

/// The paths that the code of `text` names from here, from above or from the crate's root, and those of
/// its `use` statements.
fn paths_in(text: &str) -> BTreeSet<Module> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code: String = text
        .lines()
        .filter(is_code)
        .map(|line| line.to_owned() + "\n")
        .collect();
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let starts = ["use ", "crate::", "super::", "self::"];
    let starts = starts
        .into_iter()
        .flat_map(|start| code.match_indices(start));
    let starts = starts.filter(|(at, _)| !code[..*at].ends_with(is_word));
    starts
        .flat_map(|(at, _)| {
            let tree = code[at..].trim_start_matches("use ");
            let mut depth = 0;
            let end = tree.find(|letter| {
                depth += i32::from(letter == '{') - i32::from(letter == '}');
                depth < 0 || depth == 0 && letter != '}' && !is_word(letter)
            });
            paths(&tree[..end.unwrap()])
        })
        .collect()
}

/// The paths that a tree such as `a::{b, c::{d, e}}` stands for.
fn paths(tree: &str) -> Vec<Module> {
    let words = |path: &str| {
        let words = path
            .split("::")
            .map(str::trim)
            .filter(|word| !word.is_empty());
        words.map(str::to_owned).collect::<Module>()
    };
    let Some((stem, rest)) = tree.split_once('{') else {
        return vec![words(tree.split(" as ").next().unwrap())];
    };
    let mut depth = 0;
    let branches = rest.strip_suffix('}').unwrap().split(|letter| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth == 0
    });
    let branches = branches.map(str::trim).filter(|branch| !branch.is_empty());
    let paths = branches.flat_map(paths);
    paths.map(|path| [words(stem), path].concat()).collect()
}

/// Names that `lib.rs` re-exports, and the module of each.
fn exports(library: &str) -> BTreeMap<String, Module> {
    let paths = paths_in(library).into_iter();
    paths
        .map(|mut path| {
            let name = path.pop().unwrap();
            // A module that is exported itself.
            if path.len() == 1 {
                path.push(name.clone());
            }
            (name, path)
        })
        .collect()
}

/// The module that `path`, written in `module`, leads to; nothing for another
/// crate's.
fn resolved(module: &Module, path: &Module, exports: &BTreeMap<String, Module>) -> Option<Module> {
    let first = path.first()?.as_str();
    match first {
        "crate" => {
            let rest = path.get(1..)?;
            let name = rest.first()?;
            let exported = exports.get(name).filter(|_| rest.len() == 1);
            Some(exported.cloned().unwrap_or_else(|| rest.to_vec()))
        }
        "self" => Some([module, path.get(1..)?].concat()),
        "super" => {
            let climbs = path.iter().take_while(|part| *part == "super").count();
            let kept = module.len().saturating_sub(climbs);
            Some([&module[..kept], &path[climbs..]].concat())
        }
        _ => None,
    }
}

/// Why a file of `module` must not import from `target`.
fn refusal(module: &Module, target: &Module) -> Option<&'static str> {
    let layer = |module: &Module| module.first().map_or("", String::as_str).to_owned();
    let system = |module: &Module| module.get(1).cloned();
    match (layer(module).as_str(), layer(target).as_str()) {
        ("contract", "mechanics") => Some("the contract knows no mechanics"),
        ("contract", "systems") => Some("the contract knows no system"),
        ("mechanics", "systems") => Some("mechanics know no system"),
        ("systems", "systems") => {
            // The folder itself and the registry name every system.
            let names_all = matches!(system(module).as_deref(), None | Some("registry"));
            let is_sibling = system(target).is_some() && system(target) != system(module);
            (!names_all && is_sibling).then_some("a system knows no other")
        }
        _ => None,
    }
}

/// The file of `module`, named from `src`.
fn file_of(module: &Module, files: &BTreeMap<Module, String>) -> String {
    let prefixes = (1..=module.len()).rev().map(|length| &module[..length]);
    let mut found = prefixes.filter_map(|prefix| files.get(prefix));
    found.next().cloned().unwrap_or_else(|| module.join("/"))
}

/// A line for every import of `text`, which is `module`'s, that is refused.
fn refused(
    module: &Module,
    text: &str,
    exports: &BTreeMap<String, Module>,
    files: &BTreeMap<Module, String>,
) -> Vec<String> {
    let paths = paths_in(text).into_iter();
    paths
        .filter_map(|path| {
            let target = resolved(module, &path, exports)?;
            let why = refusal(module, &target)?;
            let (from, to) = (file_of(module, files), file_of(&target, files));
            let path = path.join("::");
            Some(format!("{from} imports {path} from {to}: {why}"))
        })
        .collect()
}

/// What `library` reads: modules by name, their files, and what they import.
type Library = (
    BTreeMap<String, Module>,
    BTreeMap<Module, String>,
    Vec<(Module, String)>,
);

/// The exports of `lib.rs`, every file by its module, and their texts.
fn library() -> Library {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut texts) = (BTreeMap::new(), Vec::new());
    for path in sources(&root) {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let module = module_of(name);
        files.insert(module.clone(), name.to_owned());
        texts.push((module, fs::read_to_string(&path).unwrap()));
    }
    let exports = exports(&fs::read_to_string(root.join("lib.rs")).unwrap());
    (exports, files, texts)
}

#[test]
fn no_layer_imports_from_one_above_it_and_no_system_from_another() {
    let (exports, files, texts) = library();
    for layer in ["contract", "mechanics", "systems"] {
        let in_layer = texts.iter().filter(|(module, _)| module[0] == layer);
        assert!(in_layer.count() > 5, "{layer} has no files");
    }
    let refused: Vec<String> = texts
        .iter()
        .flat_map(|(module, text)| refused(module, text, &exports, &files))
        .collect();
    assert!(refused.is_empty(), "\n{}", refused.join("\n"));
}

#[test]
fn an_import_that_is_not_allowed_is_named_with_both_files() {
    let (exports, files, _) = library();
    let refused = |file: &str, text: &str| {
        let refused = refused(&module_of(file), text, &exports, &files);
        assert!(refused.len() < 2, "{refused:?}");
        refused.into_iter().next().unwrap_or_default()
    };
    let is_named = |file, text, to: &str| {
        let refused = refused(file, text);
        assert!(refused.starts_with(file), "{text}: {refused:?}");
        assert!(refused.contains(to), "{text}: {refused:?}");
    };
    let replica = "use crate::{\n    World,\n    mechanics::{replica::Replica},\n};\n";
    is_named("contract/world.rs", replica, "mechanics/replica.rs");
    // Under a name that the library re-exports, too.
    let find = "use crate::{World, find};";
    is_named("contract/job.rs", find, "systems/registry.rs");
    let exported = "pub use crate::find;";
    is_named("mechanics/synchronous.rs", exported, "systems/registry.rs");
    let call = "    let system = crate::find(name);";
    is_named("mechanics/continuation.rs", call, "systems/registry.rs");
    is_named(
        "systems/allreduce.rs",
        "use super::spirt::TOKEN_BYTES;",
        "systems/spirt/mod.rs",
    );
    let twice = "    use super::super::mlless::Settings;";
    is_named("systems/p2p/settings.rs", twice, "systems/mlless/mod.rs");
    let p2p = "use crate::p2p;";
    is_named("systems/p2p_lambda/peer.rs", p2p, "systems/p2p/mod.rs");
    for (file, text) in [
        ("systems/registry.rs", "use super::spirt::Spirt;"),
        ("systems/p2p/settings.rs", "use super::{Barrier, Settings};"),
        ("systems/allreduce.rs", "use crate::mechanics::in_store;"),
        ("systems/allreduce.rs", "use crate::{Techniques, World};"),
        ("mechanics/replica.rs", "use crate::contract::data::Shard;"),
        ("contract/world.rs", "use std::systems::Spirt;"),
    ] {
        assert_eq!(refused(file, text), "");
    }
}
