//! Optimizers of which an option or a sweep states a part: the rest is the system's default.

use epochcost_spec::yaml::decode::decode;
use epochcost_spec::yaml::overrides::system_entry;
use epochcost_systems::{self as systems, Fidelity};

use super::document::{Document, Entry, Node, Place, Value};
use super::error::ExperimentError;

/// The name of the field.
const FIELD: &str = "optimizer";

/// Origin of what the system's default states.
const DEFAULT: &str = "the default";

/// Returns whether a dotted path created the optimizer, as `optimizer.sgd.learning_rate` does:
/// its origin is then that of the value at the end of the path.
fn is_begun(optimizer: &Node) -> bool {
    let mut segments = optimizer.origin.path.split('.');
    segments.any(|segment| segment == FIELD)
        && (segments.next()).is_some_and(|next| next.parse::<usize>().is_err())
}

/// Returns the optimizer of a row's or an entry's fields with the rest of the default of its system
/// and fidelity, if a dotted path created it.
fn whole(document: &Document, fields: &Node) -> Result<Option<Node>, ExperimentError> {
    let Some(part) = fields.get(FIELD).filter(|node| is_begun(node)) else {
        return Ok(None);
    };
    let system = fields.get("system").and_then(Node::text);
    let system = system.and_then(|name| systems::find(&name));
    let (Some(system), Some(stated)) = (system, part.entries().first()) else {
        return Ok(None);
    };
    let fidelity = fields.get("fidelity").map(|node| decode(document, node));
    let fidelity = fidelity.transpose()?.unwrap_or(Fidelity::Paper);
    // A map of numbers under a name: nothing that JSON could refuse.
    let default = serde_json::to_string(&system.optimizer(fidelity)).unwrap_or_default();
    let default = document.option_value(DEFAULT, FIELD, &default)?;
    let mut optimizer = part.clone();
    FIELD.clone_into(&mut optimizer.origin.path);
    // Another optimizer than the default's has defaults of its own.
    if let Some(mut settings) = default.get(&stated.key).cloned() {
        for own in stated.node.entries() {
            settings.insert(own.clone());
        }
        optimizer.insert(Entry {
            node: settings,
            ..stated.clone()
        });
    }
    Ok(Some(optimizer))
}

/// Completes the optimizer of a row's fields, if a dotted path created it.
///
/// # Errors
/// When the fidelity is none.
pub(super) fn complete(document: &Document, fields: &mut Node) -> Result<(), ExperimentError> {
    if let Some(optimizer) = whole(document, fields)? {
        insert(fields, optimizer);
    }
    Ok(())
}

/// Leaves the default of a swept field to the sweep.
fn leave_out(optimizer: &mut Node, swept: &str) {
    let path: Vec<&str> = swept.split('.').collect();
    let [FIELD, kind, field] = path[..] else {
        return;
    };
    let Some(mut stated) = optimizer.entry(kind).cloned() else {
        return;
    };
    let place = stated.node.get(field).map(|node| &node.origin.place);
    if place == Some(&Place::Option(DEFAULT.to_owned())) {
        stated.node.remove(field);
        optimizer.insert(stated);
    }
}

fn insert(fields: &mut Node, optimizer: Node) {
    fields.insert(Entry {
        key: FIELD.to_owned(),
        place: optimizer.origin.place.clone(),
        node: optimizer,
    });
}

/// Completes the optimizers of a document that options created: at its top where all systems have
/// the same default, otherwise in the systems' entries.
///
/// # Errors
/// When the default depends on a swept fidelity.
pub(super) fn complete_all(document: &mut Document) -> Result<(), ExperimentError> {
    let mut root = document.root.clone();
    let common = root.entry(FIELD).filter(|entry| is_begun(&entry.node));
    let common = [common.cloned(), root.entry("fidelity").cloned()];
    let sweep = root.get("sweep").cloned();
    let swept = || sweep.iter().flat_map(Node::entries);
    let sweeps_fidelity = swept().any(|axis| axis.key == "fidelity");
    let Some(Value::List(mut items)) = root.get("systems").map(|systems| systems.value.clone())
    else {
        return Ok(());
    };
    let mut from_common: Vec<(usize, Node)> = Vec::new();
    for (index, item) in items.iter_mut().enumerate() {
        let mut entry = system_entry(item);
        let takes_common = entry.get(FIELD).is_none();
        for field in common.iter().flatten() {
            if entry.get(&field.key).is_none() {
                entry.insert(field.clone());
            }
        }
        let Some(mut optimizer) = whole(document, &entry)? else {
            continue;
        };
        for axis in swept() {
            leave_out(&mut optimizer, &axis.key);
        }
        if sweeps_fidelity {
            let problem = "the rest of the optimizer depends on the swept `fidelity`";
            let remedy = "state all of it: `optimizer={sgd: {learning_rate: 0.01, momentum: 0.9}}`";
            return Err(document.error(optimizer.origin, problem, remedy));
        }
        if takes_common {
            from_common.push((index, optimizer));
        } else {
            insert(item, optimizer);
        }
    }
    if let Some((_, first)) = from_common.first().cloned() {
        let mut all = from_common.iter();
        if all.all(|(_, other)| other.value == first.value) {
            insert(&mut root, first);
        } else {
            for (index, optimizer) in from_common {
                items[index] = system_entry(&items[index]);
                insert(&mut items[index], optimizer);
            }
            root.remove(FIELD);
        }
    }
    if let Value::Map(entries) = &mut root.value
        && let Some(systems) = entries.iter_mut().find(|entry| entry.key == "systems")
    {
        systems.node.value = Value::List(items);
    }
    document.root = root;
    Ok(())
}
