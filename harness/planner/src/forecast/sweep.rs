//! `--sweep FIELD=VALUES`, laid over the experiment's own sweep.

use epochcost_experiment::document::{Document, Entry, Node, Origin, Place, Value};
use epochcost_experiment::error::ExperimentError;

/// Sweeps a field of the experiment over values; one that its file sweeps
/// already takes these instead.
///
/// # Errors
/// When there are no values, or they are not YAML. Whether the field can be
/// swept is checked with the rest of the experiment.
pub(super) fn lay(document: &mut Document, sweep: &str) -> Result<(), ExperimentError> {
    let option = format!("--sweep {sweep}");
    let origin = |path: &str| Origin {
        place: Place::Option(option.clone()),
        path: path.to_owned(),
    };
    let Some((field, values)) = sweep.split_once('=').filter(|(field, _)| !field.is_empty()) else {
        let remedy = "write a field, `=` and values: --sweep workers=2,4,8";
        return Err(document.error(origin(""), "no values", remedy));
    };
    let path = format!("sweep.{field}");
    let bracketed = values.starts_with('[');
    let list = if bracketed {
        values.to_owned()
    } else {
        format!("[{values}]")
    };
    let values = document.option_value(&option, &path, &list)?;
    let mut sweep = document.root.get("sweep").cloned().unwrap_or(Node {
        value: Value::Map(Vec::new()),
        origin: origin("sweep"),
    });
    // What is no map is refused with the rest of the experiment.
    sweep.insert(Entry {
        key: field.to_owned(),
        place: Place::Option(option.clone()),
        node: values,
    });
    document.root.insert(Entry {
        key: "sweep".to_owned(),
        place: Place::Option(option.clone()),
        node: sweep,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::testing::holds;

    fn swept(text: &str, sweeps: &[&str]) -> Result<String, ExperimentError> {
        let mut document = Document::parse(Path::new("x.yaml"), text.to_owned())?;
        for sweep in sweeps {
            lay(&mut document, sweep)?;
        }
        Ok(document.resolved())
    }

    #[test]
    fn options_join_the_sweep_of_the_file_or_replace_a_part_of_it() {
        let text = "sweep: {workers: [1, 2], epochs: [1]}\n";
        let resolved = swept(text, &["workers=4,8", "settings.sort=[true,false]"]).unwrap();
        let again: serde_json::Value = serde_yaml::from_str(&resolved).unwrap();
        let expected = serde_json::json!({
            "sweep": {"workers": [4, 8], "epochs": [1], "settings.sort": [true, false]}
        });
        assert_eq!(again, expected);
        let added = swept("name: x\n", &["memory_mb=512"]).unwrap();
        holds(added, &["512"]);
    }

    #[test]
    fn a_sweep_without_values_is_refused_with_its_option() {
        let refused = |sweep: &str| swept("name: x\n", &[sweep]).unwrap_err();
        holds(refused("workers"), &["--sweep workers", "no values"]);
        holds(refused("workers=[1,"), &["--sweep workers=[1,"]);
    }
}
