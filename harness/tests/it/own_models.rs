//! Plans for models and data of one's own: fair opponents, shared work, and profiles that
//! count.

use serde_json::Value;

use crate::plan::{plan, refused, scene};
use crate::support::{cases, holds, items, lacks, shipped};

/// A described model on described data, whose workers share an epoch.
const EXPERIMENT: &str = "\
schema: 1
name: mine
platform: sim
dataset: {samples: 20000, test: 1000, bytes_per_sample: 3073}
models:
  - {name: mine, parameters: 1000000, flops_per_sample: 1.0e+8, activation_bytes_per_sample: 1048576}
model: mine
workers: 4
batch_size: 100
epochs: 2
memory_mb: 3538
systems: [scatterreduce, gpu_baseline]
";

/// A compute profile of a model: a hundredth of a second per sample.
const PROFILE: &str = "\
schema: 1
name: measured-here
about: test
origin: measured
models:
  - {model: mine, device: cuda, fixed_s: 0, sample_s: 0.01, parallel: 0.9, evaluate_sample_s: 0.001,
     build_s: 0, fixed_mb: 10, sample_mb: 1, source: test, date: 2026-11-22}
";

#[test]
fn one_instance_alone_is_always_a_row_and_trains_the_same_samples() {
    let planned = plan(EXPERIMENT, "");
    let rows = items(&planned, "rows");
    let alone = rows.last().unwrap();
    assert_eq!(alone["id"], "one-instance-alone");
    assert_eq!(alone["workers"], 1);
    assert_eq!(alone["estimate"]["traffic"]["bytes_up"], 0);
    for row in rows {
        assert_eq!(row["samples"], 40_000, "{row:#}");
    }
    // A row that is one already needs no other.
    let one = "gpu_baseline, {system: mirrored, workers: 1}]";
    let stated = EXPERIMENT.replace("gpu_baseline]", one);
    assert_eq!(items(&plan(&stated, ""), "rows").len(), 3);
    // Models of this program are planned as they are stated.
    let known = EXPERIMENT.replace("model: mine\n", "model: mobilenet\n");
    assert_eq!(items(&plan(&known, ""), "rows").len(), 2);
}

/// One instance alone, which is cheaper than every row, was not listed once.
#[test]
fn the_shipped_example_is_planned_and_names_what_is_cheapest() {
    let scene = scene(&shipped("experiments/own-model.yaml"));
    let plan = scene.json("plan x.yaml --json");
    assert_eq!(items(&plan, "rows").len(), 6);
    for row in items(&plan, "rows") {
        assert!(row["infeasible"].is_null(), "{row:#}");
        assert!(row["estimate"]["seconds"].as_f64() > Some(0.0), "{row:#}");
        assert_eq!(row["compute"]["origin"], "stated");
    }
    let usd = |row: &Value| row["estimate"]["cost_full_usd"].as_f64().unwrap();
    let (alone, others) = items(&plan, "rows").split_last().unwrap();
    assert_eq!(alone["on_frontier"], true);
    assert!(others.iter().all(|other| usd(alone) < usd(other)));
    // A simulation reads no data: none are here.
    let checked = scene.run("check x.yaml").ends(0).text();
    holds(checked, &["data: described (50000 training"]);
}

#[test]
fn workers_share_the_work_that_is_asked_for() {
    let batches = EXPERIMENT.replace("epochs: 2\n", "epochs: 1\nbatches_per_worker: 9\n");
    let planned = |more: &str| plan(&batches, &format!("--sweep workers=1,2,4,8 {more}"));
    for row in items(&planned("--samples 8000"), "rows") {
        assert_eq!(row["samples"], 8_000, "{row:#}");
    }
    for row in items(&planned("--epochs 3"), "rows") {
        assert_eq!(row["samples"], 60_000);
        assert_eq!(row["epochs"], 3);
    }
    // Rows with epochs of their own among them.
    let own = EXPERIMENT.replace("gpu_baseline]", "{system: gpu_baseline, epochs: 5}]");
    for row in items(&plan(&own, "--epochs 3"), "rows") {
        assert_eq!(row["epochs"], 3, "{row:#}");
    }
    // Without either, each worker does what the file says of a worker.
    let own = planned("");
    assert_eq!(own["rows"][0]["samples"], 900);
    assert_eq!(own["rows"][3]["samples"], 7_200);
    let both = batches.replace("epochs: 1\n", "epochs: 1\nsamples: 100\n");
    refused(&both, "", &["`samples` and `batches_per_worker`"]);
    refused(EXPERIMENT, "--samples 5 --epochs 1", &["--epochs"]);
}

#[test]
fn what_samples_are_rounded_to_is_said() {
    let answer = "--deadline 2h --place aws-g4dn.xlarge";
    for ([arguments, asked, trained], said) in cases(&[
        "--samples 3 | 3 | 400 | 400 samples: 3 rounded up to whole mini-batches of all workers.",
        "--samples 1001 | 1001 | 1200 | 1,200 samples: 1,001 rounded up to",
        "--set dataset.samples=20150 | 40300 | 40000 | 40,000 samples: 40,300 rounded down to",
    ]) {
        let one_epoch = arguments.starts_with("--samples");
        let epochs = if one_epoch { "--set epochs=1" } else { "" };
        let scene = scene(EXPERIMENT);
        let (of_rows, of_answer) = ("/samples_rounded/0", "/answer/samples_rounded");
        for (goal, path) in [("", of_rows), (answer, of_answer)] {
            let plan = format!("plan x.yaml {arguments} {epochs} {goal}");
            let json = scene.json(&format!("{plan} --json"));
            let rounded = json.pointer(path).unwrap();
            assert_eq!(rounded["asked"].to_string(), asked);
            assert_eq!(rounded["least"].to_string(), trained);
            assert_eq!(json["rows"][0]["samples"].to_string(), trained);
            holds(scene.text(&plan).replace('\n', " "), &said);
        }
    }
    for exact in ["", "--set batches_per_worker=3"] {
        let plan = plan(EXPERIMENT, exact);
        assert_eq!(items(&plan, "samples_rounded").len(), 0);
    }
}

#[test]
fn described_models_are_evaluated_only_where_that_is_asked_for() {
    let evaluated = |experiment: &str| {
        let stages = &plan(experiment, "")["rows"][1]["estimate"]["stage_seconds"];
        stages["detect_convergence"].as_f64().unwrap()
    };
    assert_eq!(evaluated(EXPERIMENT), 0.0);
    assert!(evaluated(&EXPERIMENT.replace("epochs: 2", "epochs: 2\nevaluate: last")) > 0.0);
}

/// With their place, or their rows are said to fail: no panic, no overflow, and a plan that ends.
#[test]
fn numbers_beyond_any_machine_are_refused() {
    for field in ["samples", "test", "bytes_per_sample"] {
        let field = format!("dataset.{field}");
        let set = format!("--set {field}={}", u64::MAX);
        refused(EXPERIMENT, &set, &[&field, "is outside"]);
    }
    for ([from, to], field) in cases(&[
        "flops_per_sample: 1.0e+8, | flops_per_sample: 1e308, | flops_per_sample",
        "parameters: 1000000, | parameters: 18446744073709551615, | parameters",
    ]) {
        refused(&EXPERIMENT.replace(from, to), "", &field);
    }
    let slow = "activation_bytes_per_sample: 1048576, cpu_flops_per_s: 1.0}";
    let slow = EXPERIMENT.replace("activation_bytes_per_sample: 1048576}", slow);
    let plan = plan(&slow, "");
    let rows = items(&plan, "rows").iter();
    let mut failures = rows.filter_map(|row| row["failure"].as_str());
    holds(failures.next().unwrap(), &["years"]);
}

#[test]
fn compute_profiles_count_for_described_models() {
    let scene = scene(EXPERIMENT).with("steps.yaml", PROFILE);
    let other = PROFILE.replace("model: mine", "model: another");
    scene.write("other.yaml", &other);
    let compute = |plan: &Value, row: usize| {
        let stages = &plan["rows"][row]["estimate"]["stage_seconds"];
        stages["compute_gradients"].as_f64().unwrap()
    };
    let plain = scene.json("plan x.yaml --json");
    let planned = |with: &str| scene.run(&format!("plan x.yaml --compute {with}")).ends(0);
    let ended = planned("./steps.yaml --json");
    lacks(ended.message(), &["no row uses"]);
    let profiled = ended.json();
    assert_eq!(items(&profiled, "unused_compute").len(), 0);
    // Two hundred steps of 100 samples by one instance alone.
    let alone = compute(&profiled, 2);
    assert!((alone - 200.0).abs() < 1e-6, "{alone}");
    assert_eq!(profiled["rows"][2]["compute"]["origin"], "measured");
    assert_ne!(compute(&plain, 1), compute(&profiled, 1));
    // The profile says nothing of CPUs, for which the description still speaks.
    assert_eq!(compute(&plain, 0), compute(&profiled, 0));
    // Places take what was measured anywhere for the steps of their references, and say so.
    let answer = planned("./steps.yaml --deadline 2h --place aws-g4dn.xlarge");
    let taken = "measured, and taken as the steps of one vCPU";
    holds(answer.text(), &[taken]);
    let ended = planned("./other.yaml --json");
    let unused = "no row uses the compute profile measured-here";
    holds(ended.message(), &[unused]);
    let unused = ended.json();
    assert_eq!(unused["unused_compute"][0]["profile"], "measured-here");
    assert_eq!(compute(&plain, 1), compute(&unused, 1));
}

/// A search tries systems that do not know the experiment's settings; with -v it shows its rows.
#[test]
fn settings_of_the_experiment_are_of_its_own_systems() {
    let one = "settings: {rounds_per_epoch: 2}\nsystems: [spirt]";
    let small = EXPERIMENT.replace("samples: 20000", "samples: 1600");
    let scene = scene(&small.replace("systems: [scatterreduce, gpu_baseline]", one));
    let question = "plan x.yaml --budget 5usd --place lambda-x86";
    let text = scene.text(question);
    assert!(text.contains("SPIRT") && !text.contains("sync s"), "{text}");
    holds(scene.text(&format!("{question} -v")), &["sync s"]);
}

/// A search for an answer honours what the experiment and its rows state of the platform.
#[test]
fn an_answer_stands_on_the_profile_and_the_client_that_are_asked_for() {
    // Little work, so that every search takes about a second.
    let small = EXPERIMENT.replace("samples: 20000", "samples: 1600");
    let small = small
        .replace(", gpu_baseline", "")
        .replace("epochs: 2", "epochs: 1");
    let answer = |arguments: &str| {
        let plan = plan(&small, &format!("--place lambda-x86 {arguments}"));
        plan["answer"]["answer"].clone()
    };
    let seconds = |arguments: &str| {
        let answer = answer(&format!("--budget 100usd {arguments}"));
        answer["seconds"].as_f64().unwrap()
    };
    let stated = seconds("");
    let interpreted = seconds("--set simulation.client=interpreted");
    let fitted = seconds("--profile aws-us-east-1");
    let late = "function.cold_start_s: {value: 60, assumed: x}";
    let late = seconds(&format!("--set 'simulation.constants={{{late}}}'"));
    let of_row = seconds("--set 'systems=[{system: scatterreduce, client: interpreted}]'");
    // Another setting may be the cheapest of those that tie, so that the answer may be faster, too.
    assert_ne!(interpreted, stated);
    assert_ne!(fitted, stated);
    assert!(late > stated + 50.0, "{stated} {late}");
    assert_eq!(of_row, interpreted);
    // Under a short time-out only workers that go on in another function are possible, as `tuned`
    // ones do; without limits it does not hold.
    let short = "--deadline 10h --set timeout_s=2";
    let held = answer(short);
    let lifted = answer(&format!("{short} --set simulation.limits=false"));
    assert_eq!(held["fidelity"], "tuned");
    assert_eq!(lifted["fidelity"], "paper");
    let [held, lifted] = [held, lifted].map(|answer| answer["usd"].as_f64().unwrap());
    assert!(held > lifted, "{held} {lifted}");
    // What cannot be had at a place is refused, or said where all are searched.
    let place = "--deadline 2h --place cloud-run-l4 --set simulation.client=interpreted";
    let problem = "cloud-run-l4: its profile serverless-gpu describes no interpreted client";
    refused(EXPERIMENT, place, &[problem]);
}

#[test]
fn described_data_are_checked_and_only_simulated() {
    for ([from, to], words) in cases(&[
        ", bytes_per_sample: 3073 |  | need `samples` and `bytes_per_sample`",
        "samples: 20000,  |  | samples",
        "samples: 20000 | samples: 20000, seed: 3 | `seed` is of data in files",
        "samples: 20000, test: 1000, bytes_per_sample: 3073 | name: mine | unknown dataset `mine`",
    ]) {
        refused(&EXPERIMENT.replace(from, to), "", &words);
    }
    let known = scene(&EXPERIMENT.replace("model: mine\n", "model: mobilenet\n"));
    let run = known.run("run x.yaml --platform local --dry-run");
    run.ends(2).says(&["there are no files of them"]);
    let few = scene(&EXPERIMENT.replace("samples: 20000", "samples: 100"));
    let words = "the described data have 100 training samples, 25 for each";
    few.run("check x.yaml").ends(2).says(&[words]);
    // The bytes of a sample are what is fetched.
    for bytes in [3_073, 10] {
        let experiment = EXPERIMENT.replace("3073", &bytes.to_string());
        let traffic = &plan(&experiment, "")["rows"][2]["estimate"]["dataset_traffic"];
        assert_eq!(traffic["bytes_down"], 20_000 * bytes);
    }
}

/// A plan with a goal, as JSON, and its exit code.
fn goal(experiment: &str, arguments: &str) -> (Value, Option<i32>) {
    let ended = scene(experiment).run(&format!("plan x.yaml --json {arguments}"));
    (ended.json(), ended.output.status.code())
}

fn sentences(plan: &Value) -> Vec<&str> {
    let said = items(&plan["answer"], "sentences").iter();
    said.map(|sentence| sentence.as_str().unwrap()).collect()
}

/// The question comes first, with who stated its amounts; the answer says in how many draws it
/// keeps the goal, and which price nobody read.
#[test]
fn an_answer_repeats_the_question_and_says_its_chance() {
    let places = "--place aws-g4dn.12xlarge --deadline 2h --budget 5usd";
    let (found, code) = goal(EXPERIMENT, places);
    assert_eq!(code, Some(0));
    let said = sentences(&found);
    let question = "Question: train mine, 20,000 samples x 2 epochs (from the experiment file), within 2 h and $5.";
    assert_eq!(said[0], question);
    let answer = &found["answer"]["answer"];
    assert_eq!(answer["chance"]["draws"], 200);
    assert!(answer["chance"]["kept"].as_u64() >= Some(190), "{answer}");
    holds(said[1], &["price assumed, not read on 2026-11-21"]);
    holds(said[1], &["It keeps 2 h and $5 in all 200 draws"]);
    let (found, _) = goal(EXPERIMENT, &format!("{places} --epochs 3"));
    let expected = "20,000 samples (from the experiment file) x 3 epochs (from --epochs 3)";
    holds(&found["answer"]["question"]["text"], &[expected]);
}

/// Just above the fastest time, half of the draws are too late: the likeliest is named, and the exit
/// code is that of an unmet goal.
#[test]
fn a_goal_that_no_setting_keeps_is_unmet() {
    let goal = |arguments: &str| goal(EXPERIMENT, &format!("--place modal-t4 {arguments}"));
    let (plan, _) = goal("--deadline 2h");
    let frontier = items(&plan["answer"], "frontier").iter();
    let seconds = frontier.map(|choice| choice["seconds"].as_f64().unwrap());
    let deadline = seconds.fold(f64::INFINITY, f64::min) * 1.001;
    let (plan, code) = goal(&format!("--any-steps --deadline {deadline}s"));
    assert_eq!(code, Some(3), "{plan:#}");
    assert!(plan["answer"]["answer"].is_null());
    let kept = plan["answer"]["likeliest"]["chance"]["kept"].as_u64();
    assert!((1..190).contains(&kept.unwrap()), "{kept:?}");
    let said = sentences(&plan);
    assert!(said[1].starts_with("No setting keeps"), "{said:?}");
    let (plan, code) = goal("--budget 0.000001usd");
    assert_eq!(code, Some(3));
    assert!(sentences(&plan)[1].starts_with("Nothing trains this within"));
}

/// More workers at the same batch size take fewer optimizer steps than the experiment's four, and
/// are the answer only if that is asked for.
#[test]
fn fewer_optimizer_steps_are_no_answer_unless_asked_for() {
    let experiment = EXPERIMENT.replace("flops_per_sample: 1.0e+8", "flops_per_sample: 1.0e+10");
    let few = "--set batch_size=1000 --set epochs=1 --place aws-g4dn.xlarge-spot --budget 5usd";
    let plan = |more: &str| goal(&experiment, &format!("{few} {more}")).0;
    let steps = |choice: &Value| choice["steps_per_epoch"].as_u64().unwrap();
    let own = plan("");
    assert_eq!(steps(&own["answer"]["question"]), 5);
    assert!(steps(&own["answer"]["answer"]) >= 5);
    assert!(steps(&own["answer"]["fewer_steps"]) < 5);
    let said = sentences(&own);
    assert!(said[2].starts_with("Excluded: "), "{said:?}");
    holds(said[2], &["--any-steps"]);
    let any = plan("--any-steps");
    assert!(steps(&any["answer"]["answer"]) < 5);
    assert!(any["answer"]["fewer_steps"].is_null());
    let compared = "optimizer steps per epoch, and the experiment 5";
    holds(sentences(&any)[1], &[compared]);
}

/// Beyond the longest time of a function, instances are cheaper; what is never cheaper is said of the
/// amounts that were tried, and of the two settings that were compared.
#[test]
fn break_evens_are_of_two_settings_and_what_was_tried() {
    let places = "--place lambda-arm --place aws-g6.12xlarge";
    let (plan, _) = goal(EXPERIMENT, &format!("{places} --deadline 2h --epochs 1"));
    let answer = &plan["answer"];
    let break_even = |quantity: &str| {
        let mut found = items(answer, "break_evens").iter();
        found.find(|even| even["quantity"] == quantity).unwrap()
    };
    let samples = break_even("samples");
    assert_eq!(samples["cheaper_below"], "function", "{samples}");
    holds(&samples["text"], &["instances become cheaper above"]);
    holds(&samples["text"], &["functions are not possible"]);
    for host in ["functions", "instances"] {
        let what = answer[host]["what"].as_str().unwrap();
        holds(sentences(&plan).last().unwrap(), &[what]);
    }
    // Runs per month divide from the dollars that are shown.
    let runs = break_even("runs_per_month")["at"].as_f64().unwrap();
    let run_usd = answer["functions"]["usd"].as_f64().unwrap();
    // A month of 720 h with the instance's address and volume.
    let month_usd = 720.0 * 4.6016 + 3.60 + 6.00;
    let is_equal = (runs * run_usd / month_usd - 1.0).abs() < 1e-9;
    assert!(is_equal, "{runs} {run_usd}");
}

/// Instances have memory as functions do; where theirs is not known, the answer says so.
#[test]
fn an_instance_needs_memory_for_the_model() {
    let large = EXPERIMENT.replace("parameters: 1000000", "parameters: 7000000000");
    let (found, code) = goal(&large, "--place aws-r5.large --deadline 5d -v");
    assert_eq!(code, Some(3));
    assert_eq!(found["answer"]["possible"], 0);
    let alone = items(&found, "rows").last().unwrap();
    assert_eq!(alone["infeasible"]["limit"], "memory", "{alone:#}");
    let reason = alone["infeasible"]["reason"].as_str().unwrap();
    assert!(reason.ends_with(" MB of 16384 MB"), "{reason}");
    let (found, _) = goal(&large, "--place runpod-l40s --deadline 5d");
    assert_eq!(found["answer"]["answer"]["is_memory_checked"], false);
    holds(sentences(&found)[1], &["memory not checked"]);
    // Without limits, the peak is the number that it is.
    let large = "--set models.0.activation_bytes_per_sample=1e15 --set simulation.limits=false";
    let found = plan(EXPERIMENT, large);
    let alone = items(&found, "rows").last().unwrap();
    let peak_mb = alone["estimate"]["peak_memory_mb"].as_u64();
    assert!(peak_mb > Some(u64::from(u32::MAX)), "{peak_mb:?}");
}

/// Replicas of one machine are as many as it has GPUs, and memory is a limit on instances, too.
#[test]
fn limits_of_instances_are_their_gpus_and_their_memory() {
    let large = EXPERIMENT.replace("parameters: 1000000", "parameters: 200000000");
    let plan = plan(&large, "--limits --up-to 100");
    let [_, of_many, alone] = items(&plan, "limits") else {
        panic!("{:#}", plan["limits"]);
    };
    let limit = &of_many["then"]["infeasible"]["limit"];
    assert_eq!(limit, "memory", "{of_many:#}");
    assert_eq!(alone["feasible_up_to"], 1);
    assert_eq!(alone["fails_at"], 2);
    let reason = alone["then"]["failed"].as_str().unwrap();
    assert!(reason.ends_with("g4dn.xlarge has 1"), "{reason}");
}

/// One function exchanges with none, whatever the system that it belongs to.
#[test]
fn one_function_is_called_that() {
    let (plan, _) = goal(EXPERIMENT, "--place lambda-x86 --deadline 5h");
    let what = &plan["answer"]["answer"]["what"];
    assert_eq!(what, "one Lambda function (x86, 1,769 MB)");
    lacks(&plan["answer"], &["ScatterReduce with 1 worker"]);
}

/// What MLLess's functions cost falls with their memory as long as they lack a part of a vCPU, and rises from there
/// on, where a model uses one only. That size is no multiple of the 64 MB that others are searched by.
#[test]
fn the_size_of_exactly_one_vcpu_is_tried() {
    let experiment = EXPERIMENT.replace("[scatterreduce, gpu_baseline]", "[mlless]");
    let experiment = experiment.replace("parameters: 1000000", "parameters: 100000");
    let serial = PROFILE.replace("cuda", "cpu").replace("0.9", "0");
    let scene = scene(&(experiment + "simulation: {compute: [serial.yaml]}\n"));
    scene.write("serial.yaml", &serial);
    let plan = scene.json("plan x.yaml --json --cheapest-memory");
    assert_eq!(plan["cheapest_memory"][0]["memory_mb"], 1769, "{plan:#}");
}
