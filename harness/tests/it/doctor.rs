//! `epochcost doctor`: what it finds, and what it measures. No test here depends
//! on how much CPU time a sandbox got: that is what the verb itself is for.

use serde_json::Value;

use crate::support::Scene;

fn doctor(options: &str) -> Value {
    Scene::empty().json(&format!("doctor --json {options}"))
}

fn named<'a>(findings: &'a Value, what: &str) -> &'a Value {
    let mut all = findings.as_array().unwrap().iter();
    let found = all.find(|finding| finding["what"] == what);
    found.unwrap_or_else(|| panic!("no {what:?} in {findings}"))
}

#[test]
fn it_says_how_functions_are_held_to_their_size() {
    let findings = doctor("");
    let [cpu, memory] = ["CPU share of functions", "memory limit of functions"];
    for what in [cpu, memory, "size of /tmp"] {
        let finding = named(&findings, what);
        // What is lacking has a remedy, and what is there has none.
        let is_lacking = finding["ok"] != true;
        assert_eq!(is_lacking, !finding["remedy"].is_null(), "{finding}");
        assert!(finding.get("measured").is_none());
    }
}

#[test]
fn memory_and_storage_are_seen_to_end() {
    let findings = doctor("--measure");
    let memory = named(&findings, "measured: memory of 256 MB");
    assert_eq!(memory["ok"], true, "{memory}");
    assert!(memory["measured"].as_f64().unwrap() >= 256.0, "{memory}");
    let storage = named(&findings, "measured: /tmp of 512 MB");
    assert_eq!(storage["ok"], true, "{storage}");
    for (memory_mb, vcpus) in [(885, 0.5003), (1_769, 1.0)] {
        let share = named(&findings, &format!("measured: CPU share of {memory_mb} MB"));
        assert!((share["asked"].as_f64().unwrap() - vcpus).abs() < 1e-4);
        assert!(share["measured"].as_f64().unwrap() > 0.0, "{share}");
    }
}
