//! What plans say, of whole experiment files.

use epochcost_spec::ui::Output;

use super::*;
use crate::testing::{holds, lacks};

const ROWS: &str = "\
schema: 1
name: said
platform: sim
simulation: {profile: aws-us-east-1-2024, compute: []}
dataset: {samples: 1000, test: 0, bytes_per_sample: 1000}
models:
  - {name: m, parameters: 1000000, flops_per_sample: 1.0e+8, activation_bytes_per_sample: 1.0e+6,
     cpu_flops_per_s: 1.0e+10, gpu_flops_per_s: 1.0e+12}
model: m
batch_size: 100
workers: 2
epochs: 1
";

/// Returns the plan of `ROWS` and `more`.
fn planned(more: &str, goal: Option<Goal>, places: &[&str]) -> Forecast {
    planned_of(&format!("{ROWS}{more}"), goal, places)
}

fn planned_of(text: &str, goal: Option<Goal>, places: &[&str]) -> Forecast {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("said.yaml");
    std::fs::write(&file, text).unwrap();
    let places: Vec<String> = places.iter().map(|place| (*place).to_owned()).collect();
    let request = Request {
        experiment: &file,
        set: &[],
        sweep: &[],
        work: None,
        goal,
        places: &places,
        any_steps: false,
        with_rows: false,
        profile: None,
        compute: &[],
        account: CostModel::Full,
        cheapest_memory: false,
        limits: None,
        sampling: None,
        platform: None,
        trials: None,
        prices: None,
    };
    let quiet = Output {
        json: true,
        verbosity: -1,
        wide: false,
    };
    forecast(&request, quiet).unwrap()
}

#[track_caller]
fn says(forecast: &Forecast, words: &[&str]) {
    holds(forecast.sentences().join(" "), words);
}

/// A profile of the CPU says nothing of GPUs, of a model whose operations nobody counted.
#[test]
fn places_of_which_nothing_is_known_are_left_out_with_the_reason() {
    let mut profile = epochcost_spec::profiles::compute("laptop").unwrap();
    profile.models.truncate(1);
    profile.models[0].model = "m".into();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.yaml");
    std::fs::write(&path, serde_json::to_string(&profile).unwrap()).unwrap();
    let counted = format!("{ROWS}systems: [gpu_baseline, scatterreduce]\n")
        .replace("compute: []", &format!("compute: [{}]", path.display()));
    let uncounted = counted.replace("flops_per_sample: 1.0e+8, ", "");
    let goal = Goal {
        deadline_s: Some(1e6),
        budget_usd: None,
    };
    let places = ["aws-g4dn.xlarge", "modal-t4", "aws-r5.large"];
    let asked = |text: &str| planned_of(text, Some(goal), &places);
    let reason = "Left out are aws-g4dn.xlarge, modal-t4: no compute profile knows the model";
    let found = asked(&uncounted);
    says(&found, &[reason, "`flops_per_sample`"]);
    let json = serde_json::to_string(&found.answer).unwrap();
    lacks(&json, &["\"place\":\"modal-t4\"", "\"place\":\"aws-g4dn"]);
    let said = asked(&counted).sentences().join(" ");
    lacks(said, &["Left out"]);
    // Nor do rows.
    says(&planned_of(&uncounted, None, &[]), &["not possible"]);
}

/// Rows with unlike numbers of samples are compared per 1,000 of them, one instance alone, too.
#[test]
fn the_time_of_one_instance_alone_has_the_unit_of_the_others() {
    let systems = "systems: [{system: scatterreduce, epochs: 1}, {system: ring, epochs: 2}]\n";
    let forecast = planned(systems, None, &[]);
    assert!(forecast.frontier_by_sample);
    let said = forecast.sentences().join(" ");
    let (_, alone) = said.split_once("one instance alone costs").unwrap();
    let (clause, _) = alone.split_once(". ").unwrap();
    holds(clause, &["and takes", " s per 1,000 samples"]);
}

/// A reason is said of the rows that it keeps from their end, and further ones are counted.
#[test]
fn a_reason_is_of_the_rows_that_have_it() {
    let systems = "systems:
  - {name: a, system: scatterreduce, workers: 20}
  - {name: b, system: scatterreduce, workers: 20, memory_mb: 3008}
  - {name: c, system: scatterreduce, workers: 30}
  - {name: d, system: scatterreduce}
";
    let forecast = planned(systems, None, &[]);
    says(&forecast, &["Of 5 rows 3 are not possible ("]);
    says(&forecast, &[" and 1 more: cannot be run"]);
    says(&forecast, &["; 1 for reasons given below)."]);
}

/// Added rows that differ in their epochs alone have names of their own.
#[test]
fn every_row_of_one_instance_alone_has_its_own_name() {
    let systems = "systems:
  - {name: a, system: scatterreduce, epochs: 1}
  - {name: b, system: scatterreduce, epochs: 3}
  - {name: c, system: mirrored, workers: 1, epochs: 2}
";
    let forecast = planned(systems, None, &[]);
    let ids: Vec<&str> = forecast.rows.iter().map(|row| row.id.as_str()).collect();
    let alone = [
        "one-instance-alone-m-b100-e1",
        "one-instance-alone-m-b100-e3",
    ];
    assert_eq!(ids, [&["a", "b", "c"][..], &alone].concat());
}

fn within_two_hours() -> Option<Goal> {
    Goal::parse(Some("2h"), None).unwrap()
}

/// A few mini-batches of KubeML are too few documents for its functions, and the whole is not: it
/// is carried on from longer parts.
#[test]
fn parts_that_are_too_short_for_a_system_are_made_longer() {
    let systems = "batch_size: 8\nsystems: [kubeml]\n";
    let rows = ROWS
        .replace("batch_size: 100\n", "")
        .replace("samples: 1000", "samples: 20000");
    let text = format!("{rows}{systems}");
    let forecast = planned_of(&text, within_two_hours(), &["lambda-arm"]);
    let answer = serde_json::to_value(&forecast).unwrap()["answer"].take();
    assert_eq!(answer["answer"]["system"], "kubeml", "{answer:#}");
}

/// The question names its mini-batches where rows have several, and is searched as it is said.
#[test]
fn a_question_names_the_row_that_it_is_about() {
    let systems = "systems:
  - {name: a, system: scatterreduce, epochs: 1}
  - {name: b, system: scatterreduce, epochs: 3, batch_size: 50}
";
    let forecast = planned(systems, within_two_hours(), &["aws-g4dn.xlarge"]);
    let batches = ", mini-batches of 50 as in b, within 2 h";
    says(&forecast, &["1,000 samples x 3 epochs", batches]);
    let answer = serde_json::to_value(&forecast).unwrap()["answer"].take();
    assert_eq!(answer["answer"]["batches_per_worker"], 20, "{answer:#}");
}

/// Where nothing can train, the answer says why; a kind of host that was not searched is not
/// called impossible.
#[test]
fn an_answer_says_why_nothing_can_train() {
    let activation = "activation_bytes_per_sample: 1.0e+";
    let rows = ROWS.replace(&format!("{activation}6"), &format!("{activation}12"));
    let text = format!("{rows}systems: [ring]\n");
    let forecast = planned_of(&text, within_two_hours(), &["aws-g4dn.xlarge"]);
    let nothing = "Nothing can train this at all (";
    says(&forecast, &[nothing, "MB", "let alone within 2 h"]);
    let said = forecast.sentences().join(" ");
    assert!(!said.contains("No setting on"), "{said}");
}

/// An instance that is kept boots once: more runs fit into a month than with a boot each.
#[test]
fn a_kept_instance_boots_once() {
    let places = ["lambda-arm", "aws-g4dn.xlarge"];
    let forecast = planned("systems: [scatterreduce]\n", within_two_hours(), &places);
    says(&forecast, &["if an instance ran all month"]);
}

/// Where no setting keeps the goal in enough draws, the likeliest stands for its host, and settings
/// of fewer optimizer steps that keep it are not denied.
#[test]
fn the_likeliest_stands_for_its_host() {
    let answer = |goal| {
        let forecast = planned("systems: [scatterreduce]\n", goal, &["lambda-arm"]);
        serde_json::to_value(forecast).unwrap()["answer"].take()
    };
    let wide = answer(within_two_hours());
    let steps = |one: &serde_json::Value| one["steps_per_epoch"].as_u64().unwrap();
    let own = steps(&wide["question"]);
    let settings = wide["frontier"].as_array().unwrap().iter();
    let seconds = (settings.filter(|one| steps(one) >= own))
        .map(|one| one["seconds"].as_f64().unwrap())
        .fold(f64::INFINITY, f64::min);
    let deadline = format!("{}s", seconds * 1.001);
    let answer = answer(Goal::parse(Some(&deadline), None).unwrap());
    assert!(answer["answer"].is_null(), "{answer:#}");
    assert_eq!(answer["functions"]["what"], answer["likeliest"]["what"]);
    let said = answer["sentences"][1].as_str().unwrap();
    let denies = said.starts_with("No setting keeps");
    assert_eq!(denies, answer["fewer_steps"].is_null(), "{said}");
    let other = "No setting on instances was searched, so that";
    holds(&answer["sentences"], &[other]);
}

/// A row with mini-batches of its own is asked about with these, and with its own steps.
#[test]
fn a_question_has_the_samples_and_the_steps_of_its_row() {
    let systems = "systems:
  - {name: a, system: scatterreduce, epochs: 2}
  - {name: b, system: scatterreduce, epochs: 30, batches_per_worker: 1}
";
    let forecast = planned(systems, within_two_hours(), &["lambda-arm"]);
    says(&forecast, &["train said, 200 samples x 30 epochs"]);
    let answer = serde_json::to_value(&forecast).unwrap()["answer"].take();
    assert_eq!(answer["samples"], 200 * 30, "{answer:#}");
    assert_eq!(answer["question"]["steps_per_epoch"], 1, "{answer:#}");
}

/// Where settings can train the model, but with fewer optimizer steps alone, that is said.
#[test]
fn fewer_steps_are_not_called_impossible() {
    let systems = "timeout_s: 4\nsystems: [mlless]\n";
    let forecast = planned(systems, within_two_hours(), &["lambda-arm"]);
    says(
        &forecast,
        &[
            "No setting with the experiment's 5 optimizer steps per epoch can train this (",
            "Excluded: ",
        ],
    );
}

/// One instance alone has a GPU where the experiment's rows have types without one.
#[test]
fn one_instance_alone_has_a_gpu() {
    let forecast = planned("instance_type: t2.large\nsystems: [p2p]\n", None, &[]);
    let types = forecast.rows.iter().map(|row| row.instance_type.as_deref());
    let types: Vec<&str> = types.flatten().collect();
    assert_eq!(types, ["t2.large", "g4dn.xlarge"]);
    let on_cpu = "instance_type: t2.large\ndevice: {kind: cpu}\nsystems: [p2p]\n";
    let forecast = planned(on_cpu, None, &[]);
    let types = forecast.rows.iter().map(|row| row.instance_type.as_deref());
    assert_eq!(types.flatten().collect::<Vec<_>>(), ["t2.large"; 2]);
}

/// Rows that compute on the CPU as they were asked to are ranked.
#[test]
fn rows_on_the_cpu_that_was_asked_for_are_ranked() {
    let forecast = planned(
        "device: {kind: cpu}\nsystems: [gpu_baseline, ring]\n",
        None,
        &[],
    );
    says(&forecast, &["Fastest (simulated)"]);
    let said = forecast.sentences().join(" ");
    assert!(!said.contains("is left out"), "{said}");
}

/// The plain alternative is named wherever it ties with the best.
#[test]
fn a_tie_with_the_plain_alternative_is_said() {
    let mut forecast = planned("systems: [ring, gpu_baseline]\n", None, &[]);
    for (row, seconds) in forecast.rows.iter_mut().zip([75.57, 75.58, 75.61]) {
        row.estimate.as_mut().unwrap().seconds = seconds;
    }
    says(
        &forecast,
        &["; it ties with GPU baseline and one instance alone."],
    );
}
