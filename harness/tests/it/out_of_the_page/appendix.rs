//! The appendix of an artefact, and the crate that describes a run.

use super::*;

#[test]
fn an_appendix_has_every_mandatory_section() {
    let directory = tempfile::tempdir().unwrap();
    let record = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join("results/records/reproduction/summary.json");
    let appendix = |arguments: &[&str]| -> std::process::Output {
        let mut command: Command = program();
        command
            .args(["report", "appendix"])
            .args(arguments)
            .arg("--record")
            .arg(&record);
        command.arg("--out").arg(directory.path()).output().unwrap()
    };
    let output = appendix(&["p2p"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    for section in [
        "Abstract",
        "Description and requirements",
        "How to access",
        "Hardware dependencies",
        "Software dependencies",
        "Benchmarks",
        "Set-up",
        "Evaluation workflow",
        "Major claims",
        "Experiments",
        "Notes on reusability",
    ] {
        assert!(
            read("appendix.md").contains(&format!("# {section}\n")),
            "{section}"
        );
        assert!(
            read("appendix.tex").contains(&format!("section{{{section}}}")),
            "{section}"
        );
    }
    let text = read("appendix.md");
    assert!(
        text.contains("| C1 |") && text.contains("epochcost reproduce p2p/peers"),
        "{text}"
    );
    assert!(!text.contains("cost-performance/"));
    let unknown = appendix(&["p2q"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("did you mean `p2p`?"));
}

/// Every reference is to an entity, and every file is there.
#[test]
fn a_crate_names_every_file_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let run = written(directory.path(), fixture::CLAIMS);
    let text = fs::read(run.path().join("ro-crate-metadata.json")).unwrap();
    let metadata: Value = serde_json::from_slice(&text).unwrap();
    let graph = metadata["@graph"].as_array().unwrap();
    let ids: Vec<&str> = graph
        .iter()
        .map(|entity| entity["@id"].as_str().unwrap())
        .collect();
    for (index, id) in ids.iter().enumerate() {
        assert!(!ids[..index].contains(id), "{id} is there twice");
    }
    let entity = |id: &str| graph.iter().find(|entity| entity["@id"] == id).unwrap();
    let root = entity("./");
    let workflow = entity(root["mainEntity"]["@id"].as_str().unwrap());
    assert!(
        workflow["@type"]
            .as_array()
            .unwrap()
            .contains(&"ComputationalWorkflow".into())
    );
    let action = entity(root["mentions"]["@id"].as_str().unwrap());
    assert_eq!(action["instrument"], root["mainEntity"]);

    let mut parts: Vec<&str> = (root["hasPart"].as_array().unwrap().iter())
        .map(|part| part["@id"].as_str().unwrap().trim_end_matches('/'))
        .collect();
    let entries = fs::read_dir(run.path()).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut files: Vec<String> = names
        .filter(|name| name != "ro-crate-metadata.json")
        .collect();
    files.retain(|name| !name.starts_with('.') && name != "run.lock");
    parts.sort_unstable();
    files.sort_unstable();
    assert_eq!(parts, files);

    let mut references = Vec::new();
    collect_references(&metadata["@graph"], &mut references);
    let outside = [
        "https://w3id.org/ro/crate/1.1",
        "http://schema.org/CompletedActionStatus",
    ];
    for reference in references {
        let is_known = ids.contains(&reference) || outside.contains(&reference);
        assert!(is_known, "{reference} is no entity");
    }
}

/// Every object that is nothing but a reference.
fn collect_references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) if fields.len() == 1 && fields.contains_key("@id") => {
            found.extend(fields["@id"].as_str());
        }
        Value::Object(fields) => {
            for field in fields.values() {
                collect_references(field, found);
            }
        }
        Value::Array(values) => {
            for value in values {
                collect_references(value, found);
            }
        }
        _ => {}
    }
}
