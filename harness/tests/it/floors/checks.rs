//! What is checked of a crate's imports: that they go down, and that files
//! beside each other form no circle of any size.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::tree::{File, Module, Named, Tree};

/// Floor of each module right below the crate.
#[derive(Debug)]
pub struct Floors(BTreeMap<String, u8>);

impl Floors {
    /// Reads the table in the documentation of a crate: lines as
    /// `//! | 2 | `claims`, `cost` | what they are |`.
    pub fn read(lib: &Path) -> Self {
        let text = std::fs::read_to_string(lib).unwrap();
        let mut floors = BTreeMap::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("//! |")) {
            let mut cells = line.split('|').map(str::trim);
            let (Some(floor), Some(modules)) = (cells.next(), cells.next()) else {
                continue;
            };
            let Ok(floor) = floor.parse::<u8>() else {
                continue;
            };
            let names = modules.split('`').skip(1).step_by(2);
            floors.extend(names.map(|name| (name.to_owned(), floor)));
        }
        Self(floors)
    }

    /// Returns what is wrong between the table and the crate's modules.
    pub fn gaps(&self, tree: &Tree) -> Vec<String> {
        let modules: BTreeSet<&String> = (tree.files.keys())
            .filter_map(|module| module.first())
            .collect();
        let homeless = modules.iter().filter(|name| !self.0.contains_key(**name));
        let homeless = homeless.map(|name| {
            format!("the module `{name}` has no floor: add it to the table in src/lib.rs")
        });
        let gone = self.0.keys().filter(|name| !modules.contains(name));
        let gone = gone.map(|name| format!("the table in src/lib.rs has `{name}`, which is gone"));
        homeless.chain(gone).collect()
    }

    /// Returns every import that goes up, or to another module of its floor.
    pub fn backward(&self, tree: &Tree) -> Vec<String> {
        let files = tree.files.values();
        let imports = files.flat_map(|file| file.named.iter().map(move |import| (file, import)));
        imports
            .filter_map(|(file, import)| self.fault(tree, file, import))
            .collect()
    }

    /// Returns what is wrong with one import, if it does not go down.
    fn fault(&self, tree: &Tree, file: &File, import: &Named) -> Option<String> {
        let target = tree.absolute(file, &import.parts)?;
        let (own, other) = (file.module.first()?, target.first()?);
        let (from, to) = (self.0.get(own)?, self.0.get(other)?);
        if own == other || to < from {
            return None;
        }
        let way = if to > from { "up" } else { "sideways" };
        Some(format!(
            "{}:{} (`{own}`, floor {from}) imports `{}` of {} (`{other}`, floor {to}): an import \
             goes {way}. Move what both need to a floor below {from}, or the code that needs it \
             to a floor above {to}; the table of floors is in src/lib.rs",
            file.path.display(),
            import.line,
            target.join("::"),
            tree.definition(&target).path.display(),
        ))
    }
}

/// Files by their modules, each with those that it imports from.
type Graph<'a> = BTreeMap<&'a Module, BTreeSet<&'a Module>>;

/// Returns every circle of more than `most` files. Imports between a module
/// and those inside it are left out.
pub fn circles(tree: &Tree, most: usize) -> Vec<String> {
    let graph = graph(tree);
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = (graph.keys())
        .map(|module| (*module, reachable(&graph, module)))
        .collect();
    let mut circles: BTreeSet<Vec<&Module>> = BTreeSet::new();
    for (module, others) in &reached {
        let back = others
            .iter()
            .filter(|other| reached[*other].contains(module));
        circles.insert(back.copied().collect());
    }
    (circles.into_iter())
        .filter(|circle| circle.len() > most)
        .map(|circle| {
            let imports = circle.iter().map(|module| {
                let others = graph[module].iter().filter(|other| circle.contains(other));
                let others: Vec<String> = others.map(|other| name(tree, other)).collect();
                format!(
                    "  {} imports from {}",
                    name(tree, module),
                    others.join(", ")
                )
            });
            let imports: Vec<String> = imports.collect();
            format!(
                "a circle of {} files, where at most {most} may import from each other. Move what \
                 they share to a file that imports from none of them:\n{}",
                circle.len(),
                imports.join("\n")
            )
        })
        .collect()
}

fn name(tree: &Tree, module: &Module) -> String {
    tree.files[module].path.display().to_string()
}

fn graph(tree: &Tree) -> Graph<'_> {
    let others = |file: &File| {
        let targets = file.named.iter();
        let targets = targets.filter_map(|import| tree.absolute(file, &import.parts));
        let targets = targets.map(|target| &tree.definition(&target).module);
        let is_inside =
            |other: &Module| other.starts_with(&file.module) || file.module.starts_with(other);
        targets.filter(|other| !is_inside(other)).collect()
    };
    let files = tree.files.iter();
    files.map(|(module, file)| (module, others(file))).collect()
}

fn reachable<'a>(graph: &Graph<'a>, from: &Module) -> BTreeSet<&'a Module> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for other in &graph[module] {
            if reached.insert(*other) {
                next.push(other);
            }
        }
    }
    reached
}
