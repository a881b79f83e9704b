//! The run as a Workflow Run RO-Crate: what was run, with which program, and which files came
//! of it, in the vocabulary of research repositories.

use epochcost_record::{Manifest, RunDirectory};
use epochcost_spec::format;
use epochcost_spec::hash::sha256_of;
use serde_json::{Value, json};

use super::downloads::present;
use super::facts::origin;

/// File that makes a directory an RO-Crate.
pub(super) const FILE: &str = "ro-crate-metadata.json";
/// The workflow: the experiment as it was resolved.
const WORKFLOW: &str = "experiment.yaml";

/// Profiles that the crate follows: address at w3id.org, which ends in the version, and name.
const PROFILES: [(&str, &str); 3] = [
    ("ro/wfrun/process/0.5", "Process Run Crate"),
    ("ro/wfrun/workflow/0.5", "Workflow Run Crate"),
    ("workflowhub/workflow-ro-crate/1.0", "Workflow RO-Crate"),
];

/// Files beside the workflow that are known before the run; the others are its results.
const INPUTS: [&str; 3] = ["prices.yaml", "plan.json", "claims.json"];

/// Returns the content of `ro-crate-metadata.json`.
pub(super) fn crate_metadata(run: &RunDirectory) -> Value {
    let manifest = run.manifest();
    let mut files = present(run);
    let about_page = "figures, verdicts and their origin, for people";
    files.push(("report.html", about_page));
    let addresses = PROFILES.map(|(path, _)| format!("https://w3id.org/{path}"));
    let id = |name: &str| match name {
        "events" => "events/".to_owned(),
        file => file.to_owned(),
    };
    let references = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({"@id": id(name)})).collect()
    };
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let beside_workflow = names.iter().copied().filter(|name| *name != WORKFLOW);
    let (inputs, results): (Vec<&str>, Vec<&str>) =
        beside_workflow.partition(|name| INPUTS.contains(name));
    // The crate and its root.
    let mut graph = vec![
        json!({
            "@id": FILE, "@type": "CreativeWork", "about": {"@id": "./"},
            "conformsTo": [{"@id": "https://w3id.org/ro/crate/1.1"}, {"@id": addresses[2]}],
        }),
        json!({
            "@id": "./", "@type": "Dataset",
            "name": manifest.run_id,
            "description": description(manifest),
            "datePublished": manifest.created,
            "license": {"@id": "#licence"},
            "conformsTo": addresses.each_ref().map(|address| json!({"@id": address})),
            "hasPart": references(&names),
            "mainEntity": {"@id": WORKFLOW},
            "mentions": {"@id": "#run"},
        }),
        json!({
            "@id": "#licence", "@type": "CreativeWork", "name": "not stated",
            "description": "Whoever publishes the results of this run states their licence here.",
        }),
    ];
    let profile = |(address, (path, name)): (&String, (&str, &str))| {
        let version = path.rsplit('/').next();
        json!({"@id": address, "@type": "CreativeWork", "name": name, "version": version})
    };
    graph.extend(addresses.iter().zip(PROFILES).map(profile));
    // What was run, and with what.
    let mut objects = references(&inputs);
    let datasets = || manifest.datasets.iter();
    objects.extend(datasets().map(|set| json!({"@id": format!("#data-{}", set.name)})));
    let mut action = json!({
        "@id": "#run", "@type": "CreateAction",
        "name": format::shell_words(&manifest.command),
        "description": description(manifest),
        "startTime": with_offset(&manifest.created),
        "actionStatus": "http://schema.org/CompletedActionStatus",
        "instrument": {"@id": WORKFLOW},
        "object": objects,
        "result": references(&results),
    });
    if let Some(ended) = ended(run) {
        action["endTime"] = ended.into();
    }
    graph.push(action);
    graph.push(json!({
        "@id": "#epochcost", "@type": ["ComputerLanguage", "SoftwareApplication"],
        "name": "epochcost", "version": manifest.epochcost.version,
        "identifier": manifest.epochcost.sha256,
    }));
    graph.extend(datasets().map(|set| {
        let origin = origin(set);
        json!({
            "@id": format!("#data-{}", set.name), "@type": "CreativeWork", "name": set.name,
            "description": format!("{origin} data; manifest.json has the checksum of every file"),
        })
    }));
    // The files.
    graph.extend(files.iter().map(|(name, what)| match *name {
        WORKFLOW => json!({
            "@id": WORKFLOW, "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
            "name": manifest.experiment, "description": what,
            "encodingFormat": format_of(name),
            "version": sha256_of(&run.path().join(name)).ok(),
            "programmingLanguage": {"@id": "#epochcost"},
        }),
        "events" => json!({"@id": id(name), "@type": "Dataset", "name": name, "description": what}),
        _ => json!({
            "@id": name, "@type": "File", "name": name, "description": what,
            "encodingFormat": format_of(name),
        }),
    }));
    json!({
        "@context": [
            "https://w3id.org/ro/crate/1.1/context",
            "https://w3id.org/ro/terms/workflow-run/context",
        ],
        "@graph": graph,
    })
}

/// Returns when the last trial ended; nothing where trials ran in virtual time.
fn ended(run: &RunDirectory) -> Option<String> {
    let is_virtual = run.manifest().simulation.is_some();
    let trials = run.trials().ok().filter(|_| !is_virtual)?;
    let ends = trials.iter().map(|trial| trial.started_s + trial.wall_s);
    let last = ends.max_by(f64::total_cmp)?;
    let at = jiff::Timestamp::from_second(last.ceil() as i64).ok()?;
    Some(with_offset(&at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()))
}

/// Returns a time in UTC with its offset in digits, as the profile wants it.
fn with_offset(time: &str) -> String {
    match time.strip_suffix('Z') {
        Some(time) => format!("{time}+00:00"),
        None => time.to_owned(),
    }
}

fn description(manifest: &Manifest) -> String {
    let (experiment, platform) = (&manifest.experiment, &manifest.platform);
    let version = &manifest.epochcost.version;
    format!("Run of the experiment {experiment} on the platform {platform} by epochcost {version}")
}

/// Returns the media type of a file, by its extension.
fn format_of(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("json") => "application/json",
        Some("jsonl") => "application/jsonl",
        Some("yaml") => "application/yaml",
        Some("xml") => "application/xml",
        Some("tsv") => "text/tab-separated-values",
        Some("md") => "text/markdown",
        Some("html") => "text/html",
        _ => "application/octet-stream",
    }
}
