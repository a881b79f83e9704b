//! The floors of the harness: a module imports from floors below its own and
//! from itself, and files beside each other form no large circle.
mod checks;
mod tokens;
mod tree;

use std::path::Path;

use self::checks::{Floors, circles};
use self::tree::Tree;
use tempfile::TempDir;

/// Files in a circle up to which they count as one idea.
const MOST: usize = 3;

fn sources(below: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(below)
}

#[track_caller]
fn assert_none(found: Vec<String>) {
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

#[test]
fn every_import_of_the_harness_goes_down() {
    let source = sources("harness/src");
    let (tree, floors) = (Tree::read(&source), Floors::read(&source.join("lib.rs")));
    assert_none(floors.gaps(&tree));
    assert_none(floors.backward(&tree));
}

#[test]
fn no_verb_imports_from_another() {
    /// What verbs share.
    const SHARED: [&str; 4] = ["fetch", "findings", "selection", "spending"];
    let tree = Tree::read(&sources("harness/src"));
    let verbs = tree.files.values().filter(|file| file.module.len() > 1);
    let verbs = verbs.filter(|file| file.module[0] == "cmd");
    let mut found = Vec::new();
    for (file, import) in verbs.flat_map(|file| file.named.iter().map(move |i| (file, i))) {
        let Some(target) = tree.absolute(file, &import.parts) else {
            continue;
        };
        let other = &tree.definition(&target).module;
        let is_verb = other.len() > 1 && other[0] == "cmd" && !SHARED.contains(&&*other[1]);
        if is_verb && other[1] != file.module[1] {
            let (path, line) = (file.path.display(), import.line);
            found.push(format!(
                "{path}:{line}: the verb `{}` imports `{}`. Move what both need to a floor below",
                file.module[1],
                target.join("::")
            ));
        }
    }
    assert_none(found);
}

#[test]
fn no_circle_holds_more_than_three_files() {
    for below in [
        "harness/src",
        "harness/aws/src",
        "harness/aws-emulator/src",
        "harness/aws-plan/src",
        "workloads/simulator/src",
        "workloads/channels/src",
        "workloads/kernels/src",
        "workloads/models/src",
        "workloads/worker/src",
    ] {
        assert_none(circles(&Tree::read(&sources(below)), MOST));
    }
}

/// A crate of these files, with floors 1 (`low`, `beside`) and 2 (`high`).
fn fabricated(files: &[(&str, &str)]) -> (TempDir, Tree, Floors) {
    let directory = tempfile::tempdir().unwrap();
    let lib = "//! | floor | modules |\n//! | 2 | `high` |\n//! | 1 | `low`, `beside` |\n";
    for (path, text) in [("lib.rs", lib)].iter().chain(files) {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (tree, floors) = (
        Tree::read(directory.path()),
        Floors::read(&directory.path().join("lib.rs")),
    );
    (directory, tree, floors)
}

const HIGH: (&str, &str) = ("high/mod.rs", "mod deep;\npub use deep::Roof;\n");
const DEEP: (&str, &str) = (
    "high/deep.rs",
    "use crate::low::Ground;\npub struct Roof;\n",
);
const LOW: (&str, &str) = ("low.rs", "pub struct Ground;\n");
const BESIDE: (&str, &str) = ("beside.rs", "pub struct Shed;\n");

#[test]
fn imports_that_go_down_are_free() {
    let (_kept, tree, floors) = fabricated(&[HIGH, DEEP, LOW, BESIDE]);
    assert_none(floors.gaps(&tree));
    assert_none(floors.backward(&tree));
}

#[test]
fn an_import_that_goes_up_is_named_with_both_files_and_floors() {
    let low = (
        "low.rs",
        "pub struct Ground;\n\nuse crate::{beside, high::Roof};\n",
    );
    let (_kept, tree, floors) = fabricated(&[HIGH, DEEP, low, BESIDE]);
    let found = floors.backward(&tree);
    assert_eq!(found.len(), 2, "{found:?}");
    for words in [
        "low.rs:3",
        "floor 1",
        "goes sideways",
        "`beside`",
        "beside.rs",
    ] {
        assert!(found[0].contains(words), "{words:?} in {}", found[0]);
    }
    // The file that defines it, not the one that exports it again.
    for words in [
        "low.rs:3",
        "goes up",
        "high/deep.rs",
        "floor 2",
        "Move what both need",
    ] {
        assert!(found[1].contains(words), "{words:?} in {}", found[1]);
    }
}

#[test]
fn a_path_outside_of_imports_counts_and_tests_comments_and_texts_do_not() {
    let inline = "#[cfg(test)]\nmod t { use crate::high::Roof; }\n\
                  fn f() -> crate::high::Roof { loop {} }\n";
    let (_kept, tree, floors) = fabricated(&[HIGH, DEEP, ("low.rs", inline), BESIDE]);
    assert_eq!(floors.backward(&tree).len(), 1);
    let free = r##"
        // crate::high::Roof
        /* crate::high /* nested */ crate::high::Roof */
        const A: &str = "crate::high::Roof";
        const B: &str = r#"crate::high::"Roof""#;
        const C: char = '"';
        fn f<'a>(x: &'a str) -> &'a str { x }
        #[cfg(test)]
        use crate::high::{Roof};
        #[cfg(test)]
        #[allow(unused)]
        mod inside { use crate::high::Roof; }
        #[cfg(test)]
        mod tests;
    "##;
    let tests = ("low/tests.rs", "use crate::high::Roof;\n");
    let (_kept, tree, floors) = fabricated(&[HIGH, DEEP, ("low/mod.rs", free), tests, BESIDE]);
    assert_none(floors.backward(&tree));
}

#[test]
fn a_module_without_a_floor_is_named() {
    let (_kept, tree, floors) = fabricated(&[HIGH, DEEP, LOW, ("cellar.rs", "")]);
    let gaps = floors.gaps(&tree).join("\n");
    assert!(gaps.contains("`cellar` has no floor"), "{gaps}");
    assert!(gaps.contains("has `beside`, which is gone"), "{gaps}");
}

/// A module of as many files, each of which imports from the next, the last
/// from the first.
fn ring(size: usize) -> Vec<(String, String)> {
    let file = |i: usize| {
        let next = (i + 1) % size;
        let text = format!("use super::part{next}::Part{next};\npub struct Part{i};\n");
        (format!("high/part{i}.rs"), text)
    };
    (0..size).map(file).collect()
}

#[test]
fn a_circle_of_four_files_is_named_and_one_of_three_is_free() {
    for (size, expected) in [(3, 0), (4, 1)] {
        let ring = ring(size);
        let mut files: Vec<(&str, &str)> = (ring.iter())
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        files.push(("high/mod.rs", "mod part0;\npub use part0::Part0;\n"));
        let (_kept, tree, _) = fabricated(&files);
        let found = circles(&tree, MOST);
        assert_eq!(found.len(), expected, "{found:?}");
        if let Some(circle) = found.first() {
            assert!(circle.contains("a circle of 4 files"), "{circle}");
            let import = "high/part3.rs imports from high/part0.rs";
            assert!(circle.contains(import), "{circle}");
        }
    }
}

#[test]
fn an_import_through_a_parent_leads_to_the_file_that_defines() {
    let files = [
        (
            "high/mod.rs",
            "mod one;\nmod two;\nuse one::One;\npub use two::*;\n",
        ),
        ("high/one.rs", "use super::Two;\npub struct One;\n"),
        ("high/two.rs", "use super::One;\npub struct Two;\n"),
    ];
    let (_kept, tree, _) = fabricated(&files);
    assert!(circles(&tree, 2).is_empty());
    assert_eq!(circles(&tree, 1).len(), 1);
}
