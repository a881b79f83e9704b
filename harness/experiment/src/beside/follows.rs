//! Printed cells that follow from others, by the paper's own arithmetic.

use std::collections::BTreeMap;

use epochcost_spec::published::{Kind, Paper};

/// Returns what each cell follows from, by their places.
pub(super) fn follows(paper: &Paper) -> BTreeMap<String, Vec<String>> {
    let mut follows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let statements = paper.statements.iter();
    for statement in statements.filter(|one| one.kind == Kind::Follows) {
        let formula = statement.formula.as_ref();
        let instances = formula.map(|formula| formula.instances(&paper.grid));
        for instance in instances.into_iter().flatten().flatten() {
            let is_cell = instance.any.first().is_some_and(|one| one.left.reads == 1);
            if let ([left, rest @ ..], true) = (instance.inputs.as_slice(), is_cell) {
                let of = follows.entry(left.place.clone()).or_default();
                of.extend(rest.iter().map(|input| input.place.clone()));
            }
        }
    }
    follows
}

/// Returns the claims on cells that a cell follows from, and that follow from none themselves.
pub(super) fn bases(
    place: &str,
    follows: &BTreeMap<String, Vec<String>>,
    labels: &BTreeMap<&str, String>,
) -> Vec<String> {
    let mut bases = Vec::new();
    for label in bases_within(place, follows, labels, 0) {
        if !bases.contains(&label) {
            bases.push(label);
        }
    }
    bases
}

/// Limit of consequences of consequences.
const DEEPEST: usize = 9;

fn bases_within(
    place: &str,
    follows: &BTreeMap<String, Vec<String>>,
    labels: &BTreeMap<&str, String>,
    depth: usize,
) -> Vec<String> {
    if depth == DEEPEST {
        return Vec::new();
    }
    let mut found = Vec::new();
    for base in follows.get(place).into_iter().flatten() {
        let above = bases_within(base, follows, labels, depth + 1);
        if above.is_empty() {
            found.extend(labels.get(base.as_str()).cloned());
        } else {
            found.extend(above);
        }
    }
    found
}
