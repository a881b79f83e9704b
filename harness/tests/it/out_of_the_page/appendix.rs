//! The appendix of an artefact, and the crate that describes a run.

use std::collections::BTreeSet;

use super::*;

#[test]
fn an_appendix_has_every_mandatory_section() {
    let scene = Scene::empty();
    let record = root().join(RECORD);
    let options = format!("--record {} --out .", record.display());
    scene.text(&format!("report appendix p2p {options}"));
    let [text, latex] = ["appendix.md", "appendix.tex"].map(|name| scene.read(name));
    let sections = "Abstract, Description and requirements, How to access, Hardware dependencies, Software \
                    dependencies, Benchmarks, Set-up, Evaluation workflow, Major claims, Experiments, Notes on \
                    reusability";
    for section in sections.split(", ") {
        holds(&text, &[&format!("# {section}\n")]);
        holds(&latex, &[&format!("section{{{section}}}")]);
    }
    holds(&text, &["| C1 |", "epochcost reproduce p2p/peers"]);
    assert!(!text.contains("cost-performance/"));
    let unknown = scene.run(&format!("report appendix p2q {options}"));
    unknown.ends(2).says(&["did you mean `p2p`?"]);
    // The program does not carry the record.
    let without = Scene::empty().run("report appendix").ends(2);
    without.says(&["at the root of a checkout", "--record"]);
}

/// Every reference is to an entity, and every file is there.
#[test]
fn a_crate_names_every_file_and_nothing_else() {
    let scene = Scene::empty();
    let _run = written(scene.path(), fixture::CLAIMS);
    let metadata = scene.value("ro-crate-metadata.json");
    let graph = items(&metadata, "@graph");
    let ids = graph.iter().map(|entity| entity["@id"].as_str().unwrap());
    let ids: Vec<&str> = ids.collect();
    let different: BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(different.len(), ids.len(), "{ids:?}");
    let entity = |id: &str| graph.iter().find(|entity| entity["@id"] == id).unwrap();
    let root = entity("./");
    let workflow = entity(root["mainEntity"]["@id"].as_str().unwrap());
    assert!(items(workflow, "@type").contains(&"ComputationalWorkflow".into()));
    let action = entity(root["mentions"]["@id"].as_str().unwrap());
    assert_eq!(action["instrument"], root["mainEntity"]);

    let own = items(root, "hasPart").iter();
    let own = own.map(|part| part["@id"].as_str().unwrap());
    let mut parts: Vec<&str> = own.map(|id| id.trim_end_matches('/')).collect();
    parts.sort_unstable();
    let entries = fs::read_dir(scene.path()).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut files: BTreeSet<String> = names.collect();
    let unnamed = ["ro-crate-metadata.json", "run.lock"];
    files.retain(|name| !name.starts_with('.') && !unnamed.contains(&&**name));
    assert!(files.iter().eq(&parts), "{files:?} {parts:?}");

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
            let fields = fields.values();
            fields.for_each(|field| collect_references(field, found));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| collect_references(item, found)),
        _ => {}
    }
}
