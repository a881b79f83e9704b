//! `--set a.b=c` and the like: values of the command line laid over the file's.

use super::document::{Document, Entry, Node, Origin, Value};
use super::error::ExperimentError;

/// Most names in a path: no field lies deeper.
const MOST_SEGMENTS: usize = 32;

/// A field that an option gives, and the option as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Dotted path of the field.
    pub path: String,
    /// The option with its value.
    pub option: String,
}

impl Given {
    /// Returns what `--set` gives; none without a path.
    pub fn set(assignment: &str) -> Option<Self> {
        let (path, _) = assignment.split_once('=')?;
        Some(Self {
            path: path.to_owned(),
            option: format!("--set {assignment}"),
        })
    }

    /// Returns the field that both this and a later option give: the later one would drop the value of
    /// this one. A swept field is given by its sweep.
    fn lost_to<'a>(&'a self, later: &'a Self) -> Option<&'a str> {
        let (own, other) = (self.path.as_str(), later.path.as_str());
        let below = own.strip_prefix(other);
        if below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
            return Some(other);
        }
        let swept = |path: &'a str, field: &str| path.strip_prefix(SWEEP).filter(|of| *of == field);
        swept(own, other).or(swept(other, own))
    }
}

/// Where swept fields stand.
const SWEEP: &str = "sweep.";

impl Document {
    /// Refuses options that give one field twice, in the order in which they are applied: one of them
    /// would be dropped.
    ///
    /// # Errors
    /// Names the field and both options.
    pub fn refuse_twice(&self, given: &[Given]) -> Result<(), ExperimentError> {
        for (place, later) in given.iter().enumerate() {
            let mut before = given[..place].iter();
            let earlier = before.find_map(|one| Some((one, one.lost_to(later)?)));
            let Some((earlier, field)) = earlier else {
                continue;
            };
            let origin = Origin::option(&later.option, field);
            let field = field.strip_prefix(SWEEP).unwrap_or(field);
            let (first, second) = (&earlier.option, &later.option);
            let problem = format!("`{field}` is given twice: by {first} and by {second}");
            let mut both = [earlier, later].into_iter();
            let is_swept = both.any(|one| one.path.starts_with(SWEEP));
            let remedy = if is_swept {
                format!(
                    "leave one of them out; a sweep takes all values: --set {SWEEP}{field}=[A,B]"
                )
            } else {
                "leave one of them out".to_owned()
            };
            return Err(self.error(origin, problem, remedy));
        }
        Ok(())
    }

    /// Applies one `--set PATH=VALUE`. A path's segments are field names, list
    /// indices and `*`, which stands for every item of a list.
    ///
    /// # Errors
    /// When the assignment has no `=`, its value is not YAML, or its path leads
    /// through something that is neither a map nor a list.
    pub fn set(&mut self, assignment: &str) -> Result<(), ExperimentError> {
        let option = format!("--set {assignment}");
        let parts = assignment.split_once('=');
        let Some((path, yaml)) = parts.filter(|(path, _)| !path.is_empty()) else {
            let remedy = "write a dotted path, `=` and a YAML value: --set epochs=3";
            return Err(self.error(Origin::option(&option, ""), "no value", remedy));
        };
        self.set_option(&option, path, yaml)
    }

    /// Sets `path` to a YAML value, marked as from `option`.
    ///
    /// # Errors
    /// As [`Document::set`].
    pub fn set_option(
        &mut self,
        option: &str,
        path: &str,
        yaml: &str,
    ) -> Result<(), ExperimentError> {
        let value = self.option_value(option, path, yaml)?;
        let count = path.split('.').count();
        if count > MOST_SEGMENTS {
            let problem = format!("a path of {count} names");
            let remedy = format!("give at most {MOST_SEGMENTS}, joined by dots");
            return Err(self.error(value.origin, problem, remedy));
        }
        self.lay(path, &value)
    }

    /// Sets what a dotted path leads to.
    ///
    /// # Errors
    /// When it leads through something that is neither a map nor a list; nothing is changed then.
    pub fn lay(&mut self, path: &str, value: &Node) -> Result<(), ExperimentError> {
        let mut root = self.root.clone();
        let segments: Vec<&str> = path.split('.').collect();
        assign(&mut root, &segments, value)
            .map_err(|(problem, remedy)| self.error(value.origin.clone(), problem, remedy))?;
        self.root = root;
        Ok(())
    }
}

/// Sets what `segments` lead to, below `node`, to `value`.
///
/// # Errors
/// The problem and its remedy.
pub fn assign(node: &mut Node, segments: &[&str], value: &Node) -> Result<(), (String, String)> {
    let [segment, rest @ ..] = segments else {
        *node = value.clone();
        return Ok(());
    };
    if let Value::Null = node.value {
        node.value = Value::Map(Vec::new());
    }
    match &mut node.value {
        Value::Map(_) => assign_field(node, segment, rest, value),
        Value::List(items) if *segment == "*" => {
            let mut items = items.iter_mut();
            items.try_for_each(|item| assign_item(item, rest, value))
        }
        Value::List(items) => {
            let count = items.len();
            let index = segment.parse::<usize>().ok();
            match index.and_then(|index| items.get_mut(index)) {
                Some(item) => assign_item(item, rest, value),
                None => Err((
                    format!("there is no item `{segment}` in a list of {count}"),
                    "give an index that counts from 0, or `*` for every item".to_owned(),
                )),
            }
        }
        _ => Err((
            format!("`{segment}` names a field of something that holds no fields"),
            "give the path of a field".to_owned(),
        )),
    }
}

/// A system may be listed by its name alone; a field of it turns it into a map.
fn assign_item(item: &mut Node, rest: &[&str], value: &Node) -> Result<(), (String, String)> {
    if !rest.is_empty() {
        *item = system_entry(item);
    }
    assign(item, rest, value)
}

fn assign_field(
    node: &mut Node,
    field: &str,
    rest: &[&str],
    value: &Node,
) -> Result<(), (String, String)> {
    let mut child = node.get(field).cloned().unwrap_or_else(|| Node {
        value: Value::Null,
        origin: value.origin.clone(),
    });
    assign(&mut child, rest, value)?;
    node.insert(Entry {
        key: field.to_owned(),
        place: value.origin.place.clone(),
        node: child,
    });
    Ok(())
}

/// A system's entry in full: `spirt` stands for `{system: spirt}`.
pub fn system_entry(node: &Node) -> Node {
    match node.value {
        Value::Text(_) => Node {
            value: Value::Map(vec![Entry {
                key: "system".to_owned(),
                place: node.origin.place.clone(),
                node: node.clone(),
            }]),
            origin: node.origin.clone(),
        },
        _ => node.clone(),
    }
}
