//! Rows: each system's entry over the common fields, once for every
//! combination of swept values.

use epochcost_spec::suggest::did_you_mean;
use epochcost_spec::yaml::overrides::{assign, system_entry};

use super::begun;
use super::document::{Document, Entry, Node, Origin, Place, Value, join};
use super::error::ExperimentError;
use super::schema;

/// More rows than anybody means to run.
const MOST_ROWS: usize = 10_000;

/// A row before it is checked: its fields in one map, and the swept values
/// that distinguish it from its siblings.
#[derive(Debug)]
pub struct RawRow {
    /// The fields of a row.
    pub fields: Node,
    /// Dotted paths and values, in the order of the sweep.
    pub swept: Vec<(String, String)>,
}

/// One swept field.
struct Axis<'a> {
    path: &'a str,
    origin: &'a Origin,
    values: &'a [Node],
}

/// Every row of the document, systems outermost, the last swept field fastest.
///
/// # Errors
/// When there is no system, or the sweep is not one of lists over known fields.
pub fn expand(document: &Document) -> Result<Vec<RawRow>, ExperimentError> {
    let root = &document.root;
    let axes = axes(document)?;
    let combinations = combinations(document, &axes)?;
    refuse_unused(document, &axes)?;
    let mut rows = Vec::new();
    for entry in systems(document)? {
        let entry = system_entry(entry);
        if !matches!(entry.value, Value::Map(_)) {
            let remedy = "give a system's name, or a map with a field `system`";
            return Err(document.error(entry.origin, "wrong type: a system is named here", remedy));
        }
        refuse_both(document, &entry, &axes)?;
        for combination in &combinations {
            let mut fields = Node {
                value: Value::Map(Vec::new()),
                origin: entry.origin.clone(),
            };
            for field in schema::common_fields() {
                if let Some(common) = root.entry(field) {
                    fields.insert(common.clone());
                }
            }
            for own in entry.entries() {
                fields.insert(own.clone());
            }
            let mut swept = Vec::new();
            for (axis, value) in axes.iter().zip(combination) {
                let segments: Vec<&str> = axis.path.split('.').collect();
                assign(&mut fields, &segments, value).map_err(|(problem, remedy)| {
                    document.error(value.origin.clone(), problem, remedy)
                })?;
                swept.push((axis.path.to_owned(), text(value)));
            }
            begun::complete(document, &mut fields)?;
            rows.push(RawRow { fields, swept });
        }
    }
    Ok(rows)
}

fn systems(document: &Document) -> Result<&[Node], ExperimentError> {
    let remedy = "list the training systems to run: `systems: [spirt, allreduce]`; only where every \
                  claim says `not_run` there may be none";
    let problem = match document.root.get("systems").map(Node::items) {
        Some([]) => "not a list with at least one system",
        Some(items) => return Ok(items),
        None => "missing field `systems`",
    };
    Err(document.error(document.root.origin_of("systems"), problem, remedy))
}

fn axes(document: &Document) -> Result<Vec<Axis<'_>>, ExperimentError> {
    let Some(sweep) = document.root.get("sweep") else {
        return Ok(Vec::new());
    };
    if !matches!(sweep.value, Value::Map(_)) {
        let remedy = "give fields and lists of their values: `sweep: {workers: [1, 2, 4]}`";
        return Err(document.error(sweep.origin.clone(), "wrong type: not a map", remedy));
    }
    let axes = sweep.entries().iter();
    axes.map(|entry| axis(document, entry)).collect()
}

fn axis<'a>(document: &Document, entry: &'a Entry) -> Result<Axis<'a>, ExperimentError> {
    let field = entry.key.split('.').next().unwrap_or_default();
    if !schema::swept_fields().any(|known| known == field) {
        let origin = Origin {
            place: entry.place.clone(),
            path: join("sweep", &entry.key),
        };
        let known: Vec<&str> = schema::common_fields().collect();
        let remedy = did_you_mean(field, &known);
        return Err(document.error(origin, format!("unknown field `{field}` to sweep"), remedy));
    }
    let origin = &entry.node.origin;
    let (path, values) = (&entry.key, entry.node.items());
    if values.is_empty() {
        let problem = "wrong type: not a list with at least one value";
        let remedy = format!("give the values to sweep over: `{path}: [1, 2]`");
        return Err(document.error(origin.clone(), problem, remedy));
    }
    for (index, value) in values.iter().enumerate() {
        if values[..index]
            .iter()
            .any(|other| other.value == value.value)
        {
            let problem = "the sweep has this value twice";
            return Err(document.error(value.origin.clone(), problem, "give each value once"));
        }
    }
    Ok(Axis {
        path,
        origin,
        values,
    })
}

fn combinations<'a>(
    document: &Document,
    axes: &[Axis<'a>],
) -> Result<Vec<Vec<&'a Node>>, ExperimentError> {
    let mut combinations: Vec<Vec<&Node>> = vec![Vec::new()];
    for axis in axes {
        if combinations.len() * axis.values.len() > MOST_ROWS {
            let problem = format!("the sweep has more than {MOST_ROWS} combinations");
            return Err(document.error(axis.origin.clone(), problem, "sweep over fewer values"));
        }
        let longer = combinations.iter().flat_map(|shorter| {
            let values = axis.values.iter();
            values.map(|value| [&shorter[..], &[value]].concat())
        });
        combinations = longer.collect();
    }
    Ok(combinations)
}

/// An option that gives a field of all rows would be dropped without a word where each row has its
/// own value, by the sweep or by its system.
fn refuse_unused(document: &Document, axes: &[Axis<'_>]) -> Result<(), ExperimentError> {
    let is_option = |node: &&Node| matches!(node.origin.place, Place::Option(_));
    for axis in axes {
        let mut segments = axis.path.split('.');
        let given = segments.try_fold(&document.root, |node, segment| node.get(segment));
        if let Some(given) = given.filter(is_option) {
            let problem = format!("`{}` is swept: no row has this value", axis.path);
            let remedy = format!("give the sweep's values: --set sweep.{}=[A,B]", axis.path);
            return Err(document.error(given.origin.clone(), problem, remedy));
        }
    }
    let entries: Vec<Node> = systems(document)?.iter().map(system_entry).collect();
    for field in schema::common_fields() {
        let given = document.root.get(field).filter(is_option);
        if let Some(given) = given.filter(|_| entries.iter().all(|own| own.get(field).is_some())) {
            let problem = format!("each system has its own `{field}`: no row has this value");
            let remedy = format!("give all of them this one: --set 'systems.*.{field}=VALUE'");
            return Err(document.error(given.origin.clone(), problem, remedy));
        }
    }
    Ok(())
}

/// A value of one system's own would be swept away without a word.
fn refuse_both(
    document: &Document,
    entry: &Node,
    axes: &[Axis<'_>],
) -> Result<(), ExperimentError> {
    for axis in axes {
        let mut segments = axis.path.split('.');
        let own = segments.try_fold(entry, |node, segment| node.get(segment));
        if let Some(own) = own {
            let problem = format!("`{}` is set for this system and swept as well", axis.path);
            return Err(document.error(own.origin.clone(), problem, "remove one of the two"));
        }
    }
    Ok(())
}

/// A value in a row's name.
fn text(node: &Node) -> String {
    match &node.value {
        Value::Null => "none".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::List(items) => items.iter().map(text).collect::<Vec<_>>().join("-"),
        Value::Map(entries) => {
            let pair = |entry: &Entry| format!("{}-{}", entry.key, text(&entry.node));
            entries.iter().map(pair).collect::<Vec<_>>().join("-")
        }
        _ => node.text().unwrap_or_default(),
    }
}
