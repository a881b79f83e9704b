//! `epochcost profile` measures with real worker processes. Nothing here
//! depends on how long anything takes.
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use epochcost_platform::local::worker;
use epochcost_simulator::profile::{ComputeOrigin, ComputeProfile};
use epochcost_systems::Device;
use serde_json::{Value, json};

use crate::real_services::processes::is_gone;
use crate::support::{Ended, Scene, cases, holds, items, lacks, root, signal, until};

/// Exit 2, a message with these words, and nothing written.
#[track_caller]
fn refused(arguments: &str, words: &[&str]) {
    let scene = Scene::empty();
    let refused = scene.run(&format!("profile {arguments}"));
    refused.ends(2).says(words);
    assert_eq!(fs::read_dir(scene.path()).unwrap().count(), 0);
}

/// The profile that was written, which must have no faults.
#[track_caller]
fn written(scene: &Scene, name: &str) -> ComputeProfile {
    let profile: ComputeProfile = serde_yaml::from_str(&scene.read(name)).unwrap();
    assert_eq!(profile.faults(), []);
    profile
}

#[test]
fn a_measured_profile_reads_back() {
    let scene = Scene::empty();
    let profile = "profile --model lenet5 --batch 4,8 --threads 1 --steps 2 --rounds 1 --json \
                   --allow-bad-fit --out made/lenet.yaml";
    let printed = scene.json(profile);
    let text = scene.read("made/lenet.yaml");
    holds(&text, &["# worker: SHA-256 "]);
    let read = written(&scene, "made/lenet.yaml");
    assert_eq!((read.schema, read.name.as_str()), (1, "lenet"));
    assert_eq!(read.origin, ComputeOrigin::Measured);
    let cost = read.find("lenet5", Device::Cpu).unwrap();
    assert_eq!(read.models.len(), 1);
    assert!(cost.evaluate_sample_s > 0.0 && cost.build_s > 0.0, "{text}");
    // Either part of a line may be 0, its values not.
    assert!(cost.step_s(8, 1.0) > 0.0 && cost.peak_mb(8) > 0.0, "{text}");
    assert_eq!(cost.fit.as_ref().unwrap().points, 2);

    assert_eq!(printed["profile"]["models"][0]["model"], "lenet5");
    assert_eq!(items(&printed, "points").len(), 2);
    for point in items(&printed, "points") {
        assert!(point["step_s"].as_f64() > Some(0.0), "{point}");
        assert!(point["peak_mb"].as_f64() > Some(0.0), "{point}");
    }
    // Once more, the file is in the way.
    scene.run(profile).ends(2).says(&["--force"]);
}

#[test]
fn bad_arguments_are_refused_before_any_work() {
    for ([arguments], words) in cases(&[
        "--model lenet | `lenet` | help:  | did you mean `lenet5`",
        "--batch 8,0 | '0' | --batch",
        "--steps 0 | '0' | --steps",
        "--threads 1,100000 | 100000 threads | help: ",
        "--as-measured | --as-measured",
        "--model lenet5 -- sh | --model",
        "--rounds 2 -- sh | --rounds",
        "--for soon -- sh | --for",
        "-- no-such-program-anywhere {batch} | --batch 8,32",
        "--batch 8 -- sh | {batch}",
        "--batch 8,16 --samples-per-step 8 -- sh {batch} | 8 for 2 batch sizes | x0.5",
    ]) {
        refused(arguments, &words);
    }
}

/// Where a program of the tests lies.
fn data(path: &str) -> String {
    let path = root().join("harness/tests/it/data").join(path);
    path.display().to_string()
}

/// An empty directory where Python runs this; says that the test does not run where it does not.
fn with_python(code: &str) -> Option<Scene> {
    let ran = Command::new("python3").args(["-c", code]).output();
    let runs = ran.is_ok_and(|output| output.status.success());
    if !runs {
        eprintln!("not run: python3 -c '{code}' fails");
    }
    runs.then(Scene::empty)
}

/// `profile` of a program, with the stand-in for PyTorch on Python's path.
fn profile(scene: &Scene, arguments: &str) -> Ended {
    let profile = "profile --json --allow-bad-fit --threads 1 --steps 7";
    let mut profile = scene.command(&format!("{profile} {arguments}"));
    scene.end(profile.env("PYTHONPATH", data("torch_stub")))
}

/// The same, as JSON, where it ends well.
#[track_caller]
fn profiled(scene: &Scene, arguments: &str) -> Value {
    profile(scene, arguments).ends(0).json()
}

fn samples(profiled: &Value) -> Vec<u64> {
    let points = items(profiled, "points").iter();
    let samples = points.map(|point| point["samples"].as_u64());
    samples.map(Option::unwrap).collect()
}

/// The whole way of an unchanged script: hooks, samples, model, profile, experiment, plan.
/// The script would train for minutes, and is ended after its steps.
#[test]
fn an_unchanged_training_is_profiled_and_planned() {
    let Some(scene) = with_python("") else { return };
    let script = data("torch_stub/train.py");
    let arguments = format!("--batch 4,16 --out mine.yaml -- python3 '{script}' --batch {{batch}}");
    let found = profiled(&scene, &arguments);
    // Two micro-batches make up a step.
    assert_eq!(samples(&found), [4, 16]);
    for point in items(&found, "points") {
        assert!(point["steps"].as_u64() >= Some(7), "{point}");
        let [low, step, high] = ["low_s", "step_s", "high_s"].map(|name| point[name].as_f64());
        assert!(low <= step && step <= high, "{point}");
        assert!(point["peak_mb"].as_f64() > Some(1.0), "{point}");
        // The optimizer's part is told apart: it sleeps for a millisecond, whatever else happens.
        assert!(point["optimizer_s"].as_f64() >= Some(0.001), "{point}");
    }
    // Adapters are what is exchanged; the rest of the model is not. Its data set knows an epoch's samples.
    let model = &found["model"];
    for (field, value) in [
        ("trainable", 20.0),
        ("parameters", 1020.0),
        ("statistics", 6.0),
        ("trainable_bytes", 80.0),
        ("optimizer_bytes", 80.0),
        ("flops_per_sample", 1000.0),
        ("epoch_samples", 6400.0),
    ] {
        assert_eq!(model[field].as_f64(), Some(value), "{field}: {model}");
    }
    assert_eq!(model["dtype"], "float32");
    assert_eq!(model["device"], "cpu");
    let read = written(&scene, "mine.yaml");
    assert_eq!(read.origin, ComputeOrigin::Scaled);
    let cost = read.find("torch-stub-train", Device::Cpu).unwrap();
    assert!(cost.carried.is_some(), "{}", scene.read("mine.yaml"));

    // Its loader draws many more samples than an epoch's; it ends by steps that nothing names, so epochs
    // are asked for.
    holds(found["notes"].to_string(), &["draws 10000000000 of 6400"]);
    let asked = scene.run("plan mine-plan.yaml --json").ends(2).message();
    let problem = "nothing says how many epochs";
    holds(&asked, &["mine-plan.yaml:", problem, "--epochs N"]);
    let goal = "--epochs 3 --deadline 2h --place aws-r5.large";
    let answer = scene.json(&format!("plan mine-plan.yaml --json {goal}"));
    let question = &answer["answer"]["question"];
    let expected = "6,400 samples (from the experiment file) x 3 epochs (from --epochs 3)";
    holds(question["text"].as_str().unwrap(), &[expected]);
    // The program itself steps once per 16 samples.
    assert_eq!(question["steps_per_epoch"], 400);

    // The experiment beside it is planned as it is, on the profile's steps.
    let plan = scene.json("plan mine-plan.yaml --json --samples 2000");
    assert_eq!(plan["rows"][0]["model"], "torch-stub-train", "{plan:#}");
    let used = items(&plan["simulation"], "compute");
    let is_own = |profile: &Value| profile["name"] == "mine" && profile["origin"] == "scaled";
    assert!(used.iter().any(is_own), "{used:#?}");

    // Nothing is replaced unasked.
    profile(&scene, &arguments).ends(2);
}

#[test]
fn steps_that_differ_count_as_often_as_they_are_taken() {
    let Some(scene) = with_python("") else { return };
    let script = data("torch_stub/train.py");
    let run = |out: &str, option: &str| {
        let arguments = format!("--out {out}.yaml -- python3 '{script}' {option}");
        profiled(&scene, &arguments)
    };
    let found = run("own", "--every 5");
    // 1,000 per sample, and in every fifth step 1,000 more; seen from the third step on.
    let flops = found["model"]["flops_per_sample"].as_f64().unwrap();
    assert!((1090.0..1310.0).contains(&flops), "{found:#}");
    // 40 ms more.
    let point = &found["points"][0];
    assert!(point["step_s"].as_f64() > Some(0.0115), "{point:#}");
    assert_eq!(point["samples"], 4);
    // What a reinforcement learner does before each step may be training: nobody but its user knows.
    let warned = "taken for evaluation";
    assert!(!found["warnings"].to_string().contains(warned), "{found:#}");
    holds(&run("rollouts", "--rollouts")["warnings"], &[warned]);
}

/// Samples are those of the loader whatever else is called, an evaluation is no part of a step, and the
/// program's checkpoint and its epochs are left and found as they were.
#[test]
fn what_is_no_training_is_taken_for_none() {
    let Some(scene) = with_python("") else { return };
    scene.write("model.pt", "trained");
    let script = data("torch_stub/hard.py");
    let by_batch = format!("--batch 8,16 --out own.yaml -- python3 '{script}' --batch {{batch}}");
    let found = profiled(&scene, &by_batch);
    assert_eq!(samples(&found), [8, 16]);
    for point in items(&found, "points") {
        // The evaluation between two epochs sleeps for longer than any step takes.
        assert!(point["whole_s"].as_f64().unwrap() < 0.3, "{point}");
    }
    let notes = &found["notes"];
    holds(notes, &["as the DataLoader hands out; Discriminator takes"]);
    holds(notes, &["model.pt: the file that was there is put back"]);
    assert_eq!(scene.read("model.pt"), "trained");
    let own = ["the program's own forward passes"];
    holds(&found["profile"]["models"][0]["source"], &own);
    let words = ["By args.epochs of hard.py.\nepochs: 40", "samples: 16,"];
    holds(scene.read("own-plan.yaml"), &words);
    // A graph is neither cut nor sampled: an epoch is a step, which a plan can train.
    let run = |out: &str| {
        let arguments = format!("--out {out}.yaml -- python3 '{script}' --{out}");
        profiled(&scene, &arguments)
    };
    let full = run("full");
    assert_eq!(samples(&full), [2708]);
    assert_eq!(full["model"]["epoch_samples"], 2708.0);
    let plan = scene.read("full-plan.yaml");
    holds(&plan, &["workers: 1\n", "epochs: 40\n", "[gpu_baseline]"]);
    holds(&plan, &["one graph, which is not cut"]);
    let answer = scene.json("plan full-plan.yaml --json --deadline 2h --place aws-r5.large");
    let question = &answer["answer"]["question"];
    assert_eq!(question["steps_per_epoch"], 1, "{answer:#}");
    // A batch that two networks take is not all the data.
    let delayed = run("delayed");
    assert!(delayed["model"]["epoch_samples"].is_null(), "{delayed:#}");
    assert_eq!(samples(&delayed), [8]);
    // A factor halves them.
    let halved = format!("--force --samples-per-step x0.5 {by_batch}");
    assert_eq!(samples(&profiled(&scene, &halved)), [4, 8]);
}

/// A line that is not UTF-8 is a note like any other, and a signal ends the program with its children.
#[test]
fn a_line_of_any_bytes_is_a_note() {
    let script = r#"printf "note caf\351\n" > "$EPOCHCOST_PROFILE_PIPE"
        while true; do echo "step samples=$1 seconds=0.0$1" > "$EPOCHCOST_PROFILE_PIPE"; done"#;
    let arguments = format!("--batch 3,6 --out own.yaml -- sh -c '{script}' sh {{batch}}");
    let found = profiled(&Scene::empty(), &arguments);
    holds(found["notes"].to_string(), &["caf"]);
}

/// A program that takes six steps, fewer than are asked for.
const SIX: &str = r#"for i in 1 2 3 4 5 6; do echo "step samples=4 seconds=0.01"; done > "$EPOCHCOST_PROFILE_PIPE";"#;

/// Steps of a program that fails are none, however many there were: the verb ends with the reason and the
/// program's own last words.
#[test]
fn a_program_that_fails_gives_no_profile() {
    let scene = Scene::empty();
    let run = |program: &str| profile(&scene, &format!("--out own.yaml -- sh -c '{program}'"));
    for ([end], words) in cases(&["exit 17 | exit status: 17", "kill -9 $$ | signal: 9"]) {
        holds(run(&format!("{SIX} {end}")).ends(5).message(), &words);
    }
    let words = ["exit status: 3", "no such data", "0 counted steps"];
    holds(run("echo no such data; exit 3").ends(5).text(), &words);
    assert_eq!(fs::read_dir(scene.path()).unwrap().count(), 0);
    run(&format!("{SIX} exit 0")).ends(0);
    assert!(scene.has("own.yaml"));
}

#[test]
fn a_program_that_stalls_ends_in_time() {
    let began = Instant::now();
    let arguments = format!("--for 1s --out own.yaml -- sh -c '{SIX} sleep 600'");
    profile(&Scene::empty(), &arguments).ends(0);
    assert!(began.elapsed().as_secs() < 300, "it waited for the program");
}

/// Arguments stay comments of what is written, and secrets among them are not written.
#[test]
fn arguments_are_shown_on_one_line_and_without_secrets() {
    let scene = Scene::empty();
    let secrets =
        "--token=swordfish --api-key swordfish https://me:swordfish@host/ 'a\nmodels: []'";
    let arguments = format!("--out own.yaml -- sh -c '{SIX}' sh {secrets}");
    let ended = profile(&scene, &arguments).ends(0);
    let written = scene.read("own.yaml");
    let said = ended.message() + &ended.text() + &written;
    lacks(&said, &["swordfish"]);
    let mut lines = written.lines();
    assert!(!lines.any(|line| line == "models: []"), "{written}");
    holds(&written, &["--token=***"]);
}

/// Two lines report the steps of any Python program, which may close descriptors that it did not open, and
/// replace the clock.
#[test]
fn a_program_that_reports_its_steps_is_measured() {
    let Some(scene) = with_python("") else { return };
    let script = "import os, time, epochcost_profile as p\n\
                  p.step(samples=4)\n\
                  os.closerange(3, 256)\n\
                  own = [open(f\"own{n}\", \"w\") for n in range(300)]\n\
                  time.perf_counter = lambda: 0.0\n\
                  for _ in range(12):\n  time.sleep(0.02); p.step(samples=4)\n";
    let arguments = format!("--out own.yaml --name loop -- python3 -c '{script}'");
    let found = profiled(&scene, &arguments);
    assert_eq!(samples(&found), [4]);
    assert_eq!(found["profile"]["models"][0]["model"], "loop");
    holds(&found["warnings"], &["one batch size"]);
    let seconds = found["points"][0]["step_s"].as_f64();
    assert!(seconds > Some(0.015), "{found:#}");
    for n in 0..300 {
        assert_eq!(scene.read(&format!("own{n}")), "", "own{n}");
    }
}

/// A program that ends by itself leaves none of its processes, not even those that know nothing of this one.
#[cfg(target_os = "linux")]
#[test]
fn no_child_outlives_a_program() {
    let scene = Scene::empty();
    let children = "env -i sleep 600 & echo $! > group; setsid env -i sleep 600 & echo $! > own;";
    let arguments = format!("--out own.yaml -- sh -c '{children} {SIX}'");
    profile(&scene, &arguments).ends(0);
    for name in ["group", "own"] {
        let id = scene.read(name).trim().parse().unwrap();
        until(|| is_gone(id));
    }
}

/// A signal to the profiler ends the program with all its processes, those that ignore signals or left
/// its group among them.
#[cfg(target_os = "linux")]
#[test]
fn no_process_is_left_after_a_signal() {
    let scene = Scene::empty();
    let script = "trap \"\" TERM INT; echo $$ > own; setsid sleep 600 & echo $! > child; \
                  while true; do sleep 0.1; done";
    let profile = format!("profile --threads 1 --out own.yaml -- sh -c '{script}'");
    let mut profiler = scene.command(&profile);
    let mut profiler = profiler.stderr(Stdio::null()).spawn().unwrap();
    let id = |name| {
        let text = fs::read_to_string(scene.file(name)).unwrap_or_default();
        text.trim().parse::<u32>()
    };
    until(|| id("own").is_ok() && id("child").is_ok());
    signal("TERM", profiler.id());
    assert_eq!(profiler.wait().unwrap().code(), Some(7));
    for name in ["own", "child"] {
        until(|| is_gone(id(name).unwrap()));
    }
}

#[test]
fn a_program_reports_its_own_steps_on_the_pipe() {
    let scene = Scene::empty();
    let script = data("steps.sh");
    let arguments = format!("--batch 3,6 --out own.yaml -- sh '{script}' {{batch}}");
    let found = profiled(&scene, &arguments);
    assert_eq!(samples(&found), [3, 6]);
    assert_eq!(found["model"]["trainable"].as_f64(), Some(1000.0));
    // No product of matrices was timed: the factor is said to be assumed.
    let carried = &found["profile"]["models"][0]["carried"];
    holds(carried["source"].as_str().unwrap(), &["assumed"]);
    holds(found["warnings"].to_string(), &["says nothing of GPUs"]);
    // Without a loader nothing knows an epoch.
    let asked = scene.run("plan own-plan.yaml --json").ends(2).message();
    let problem = "nothing says how many samples an epoch has, and how many";
    holds(&asked, &[problem]);
    let planned = scene.json("plan own-plan.yaml --json --samples 600");
    assert_eq!(planned["rows"][0]["samples"], 600, "{planned:#}");
}

#[test]
fn a_bad_fit_is_refused() {
    let scene = Scene::empty();
    let script = r#"i=0; while true; do i=$((i+1)); echo "step samples=$1 seconds=$((100 / $1))"; done > "$EPOCHCOST_PROFILE_PIPE""#;
    let profile = "profile --threads 1 --steps 7 --batch 4,50 --out own.yaml";
    let program = format!("-- sh -c '{script}' sh {{batch}}");
    let refused = scene.run(&format!("{profile} {program}")).ends(5);
    refused.says(&["do not lie on a line", "--allow-bad-fit"]);
    assert_eq!(fs::read_dir(scene.path()).unwrap().count(), 0);
    scene.text(&format!("{profile} --allow-bad-fit {program}"));
    assert!(scene.has("own.yaml"));
}

/// With PyTorch itself, where it is installed.
#[test]
fn pytorch_is_profiled_unchanged() {
    let Some(scene) = with_python("import torch") else {
        return;
    };
    let script = root().join("harness/examples/profiling/lora.py");
    let small = "--layers 2 --width 64 --heads 2 --vocabulary 100";
    let found = scene.json(&format!(
        "profile --json --allow-bad-fit --threads 1 --steps 7 --batch 2,8 --out lora.yaml -- \
         python3 '{}' --batch {{batch}} {small}",
        script.display()
    ));
    // Rank 8 on queries and values of two layers: 2 x 2 x 8 x (64 + 64) scalars.
    assert_eq!(found["model"]["trainable"].as_f64(), Some(4096.0));
    assert!(found["model"]["flops_per_sample"].as_f64() > Some(1e6));
    assert_eq!(samples(&found), [2, 8]);
    let costs = &found["profile"]["models"];
    assert_eq!(costs[0]["device"], "cpu");
    assert_eq!(costs[1]["device"], "cuda");
}

/// The target of a step with recomputation; with everything kept, it is over 900 MB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_step_of_mobilenet_at_512_with_the_least_memory_peaks_under_600_mb() {
    let mut worker = Command::new(worker::find_or_build().unwrap().path)
        .arg("--profile")
        .env_clear()
        .env("RAYON_NUM_THREADS", "1")
        .env(epochcost_environment::user::RECOMPUTE, "least")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let request = json!({
        "model": "mobilenet", "device": "cpu", "batch_size": 512, "steps": 1,
        "measure_s": 0.0, "warm_up_s": 0.0, "seed": 1,
    });
    // The worker ends with its standard input.
    let mut requests = worker.stdin.take().unwrap();
    writeln!(requests, "{request}").unwrap();
    let answer = std::io::read_to_string(worker.stdout.take().unwrap()).unwrap();
    drop(requests);
    assert!(worker.wait().unwrap().success());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    // Of 2^20 bytes.
    let peak_mb = answer["peak_mb"].as_f64().unwrap() * 1.048_576;
    assert!(peak_mb < 600.0, "{peak_mb}");
}
