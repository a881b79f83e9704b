//! Sentences of the papers against their own figures.

use std::fs;

use super::{finding, findings, near, shipped, text, with};

#[test]
fn the_gpu_baseline_is_not_the_most_accurate() {
    let what = ["abstract", "highest accuracy", "GPU-based"];
    let found = finding(&findings(&shipped()), what);
    near(&found, 85.05);
    assert_eq!(found["printed"]["value"], 84.5);
    assert_eq!(found["outcome"], "differs");
    assert!(text(&found, "explanation").starts_with("AllReduce ends 0.550 points higher"));
    let sentence = &found["statements"][0];
    let place = text(sentence, "place");
    assert!(place.ends_with("statements.csv:3:statement"), "{place}");
    let other = with("cp_table3.csv", "1367.01,85.05", "1367.01,84.05");
    assert_eq!(finding(&findings(other.path()), what)["outcome"], "agrees");
}

#[test]
fn the_exchange_for_larger_models_is_the_other_one() {
    let what = ["§4.2", "exchange of larger models", "MobileNet"];
    let found = finding(&findings(&shipped()), what);
    near(&found, (21.88 / 8.36) / (4.77 / 6.47));
    assert_eq!(found["outcome"], "differs");
    assert!(text(&found, "consequence").contains("wrong way round"));
    let other = with("cp_communication.csv", "21.88,8.36", "8.36,21.88");
    assert_eq!(finding(&findings(other.path()), what)["outcome"], "agrees");
    let all = findings(&shipped());
    let workers = |model| finding(&all, ["§4.2", "exchange between more workers", model]);
    assert_eq!(workers("MobileNet")["outcome"], "agrees");
    assert_eq!(workers("ResNet-50")["outcome"], "differs");
}

#[test]
fn two_sentences_describe_two_machines() {
    let item = "§2 and §4.3";
    let what = "instances of the GPU baseline";
    let found = finding(&findings(&shipped()), [item, what, "MobileNet"]);
    near(&found, 0.0538 / 0.01344);
    assert_eq!(found["statements"].as_array().unwrap().len(), 2);
    assert!(text(&found, "explanation").contains("as §2 has it"));
    let single = with("cp_table2.csv", "0.01344,0.0538", "0.0538,0.0538");
    let found = finding(&findings(single.path()), [item, what, "MobileNet"]);
    assert!(text(&found, "explanation").contains("as §4.3 has it"));
}

#[test]
fn small_models_have_the_counts_of_another_head_too() {
    let all = findings(&shipped());
    for (model, parameters) in [("SqueezeNet 1.1", 727_626.0), ("MobileNet V3", 1_528_106.0)] {
        let found = finding(&all, ["small models", "parameters", model]);
        near(&found, parameters);
        assert_eq!(found["outcome"], "differs", "{model}");
        assert!(text(&found, "explanation").contains("1000 classes"));
    }
    let size = |row| finding(&all, ["small models", "size of a small model", row]);
    near(&size("SqueezeNet 1.1, 1000"), 1_235_496.0 * 4.0 / 1e6);
    assert_eq!(size("SqueezeNet 1.1, 1000")["outcome"], "agrees");
    assert_eq!(size("MobileNet V3 Small, 10 ")["outcome"], "differs");
}

#[test]
fn gradients_are_the_costliest_stage_in_seconds_alone() {
    let all = findings(&shipped());
    let pairs = |row| finding(&all, ["Table I", "costliest stage", row]);
    near(&pairs("seconds"), 6.0);
    assert_eq!(pairs("seconds")["outcome"], "agrees");
    assert_eq!(pairs("CPU")["outcome"], "differs");
    assert!(text(&pairs("memory"), "explanation").contains("VGG-11 on MNIST: receive gradients"));
    let other = with(
        "p2p_table1.csv",
        "MNIST,compute gradients (per batch),194.82,600,14.93",
        "MNIST,compute gradients (per batch),194.82,600,0.01",
    );
    let found = findings(other.path());
    near(
        &finding(&found, ["Table I", "costliest stage", "seconds"]),
        5.0,
    );
}

#[test]
fn savings_shrink_with_peers_and_speed_ups_grow_with_smaller_batches() {
    let all = findings(&shipped());
    let saved = finding(&all, ["section V-B1", "savings and peers", "VGG-11"]);
    near(&saved, (1.0 - 12.9 / 330.4) * 100.0);
    assert_eq!(saved["outcome"], "agrees");
    let speed_up = |model| finding(&all, ["text", "speed-up by size of batch", model]);
    near(&speed_up("LeNet-5"), 2.75 / 1.41);
    near(&speed_up("ResNet-34"), 3.98 / 2.02);
    let other = with(
        "kubeml_text.csv",
        "K = infinity\",2.75",
        "K = infinity\",1.25",
    );
    let found = findings(other.path());
    let found = finding(&found, ["text", "speed-up by size of batch", "LeNet-5"]);
    assert_eq!(found["outcome"], "differs");
}

/// Every sentence is in a finding, and what is drawn alone names a file that runs it.
#[test]
fn no_sentence_is_left_out() {
    let all = findings(&shipped());
    let quoted: Vec<String> = all
        .iter()
        .flat_map(|finding| finding["statements"].as_array().unwrap())
        .map(|statement| text(statement, "text").to_owned())
        .collect();
    let file = fs::read_to_string(shipped().join("statements.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(file.as_bytes());
    for record in reader.records() {
        let record = record.unwrap();
        assert!(quoted.iter().any(|text| *text == record[3]), "{record:?}");
    }
    for finding in &all {
        let explanation = finding["explanation"].as_str().unwrap_or_default();
        for word in explanation.split([' ', ',', ';']) {
            if word.starts_with("experiments/") {
                let file = shipped().join("../..").join(word);
                assert!(file.is_file(), "{word}");
            }
        }
    }
}
