//! `epochcost profile` measures with real worker processes. Nothing here
//! depends on how long anything takes.
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::program;

use epochcost_platform::local::worker;
use epochcost_simulator::profile::{ComputeOrigin, ComputeProfile};
use epochcost_systems::Device;
use serde_json::json;

fn profile(directory: &Path, arguments: &[&str]) -> Output {
    program()
        .arg("profile")
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Exit 2, a message with these words, and nothing written.
#[track_caller]
fn refused(arguments: &[&str], words: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let output = profile(directory.path(), arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for word in words {
        assert!(message.contains(word), "no {word:?} in:\n{message}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_measured_profile_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "--model lenet5 --batch 4,8 --threads 1 --steps 2 --rounds 1 --json \
                     --allow-bad-fit --out made/lenet.yaml";
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let output = profile(directory.path(), &arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");

    let text = fs::read_to_string(directory.path().join("made/lenet.yaml")).unwrap();
    assert!(text.contains("# worker: SHA-256 "), "{text}");
    let read: ComputeProfile = serde_yaml::from_str(&text).unwrap();
    assert_eq!(read.faults(), []);
    assert_eq!((read.schema, read.name.as_str()), (1, "lenet"));
    assert_eq!(read.origin, ComputeOrigin::Measured);
    let cost = read.find("lenet5", Device::Cpu).unwrap();
    assert_eq!(read.models.len(), 1);
    for number in [cost.evaluate_sample_s, cost.build_s] {
        assert!(number > 0.0, "{text}");
    }
    // Either part of a line may be 0, its values not.
    assert!(cost.step_s(8, 1.0) > 0.0 && cost.peak_mb(8) > 0.0, "{text}");
    assert_eq!(cost.fit.as_ref().unwrap().points, 2);

    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["profile"]["models"][0]["model"], "lenet5");
    assert_eq!(printed["points"].as_array().unwrap().len(), 2);
    for point in printed["points"].as_array().unwrap() {
        assert!(point["step_s"].as_f64().unwrap() > 0.0);
        assert!(point["peak_mb"].as_f64().unwrap() > 0.0);
    }

    // Once more, the file is in the way.
    let output = profile(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--force"));
}

#[test]
fn bad_arguments_are_refused_before_any_work() {
    refused(
        &["--model", "lenet"],
        &["`lenet`", "help: ", "did you mean `lenet5`"],
    );
    refused(&["--batch", "8,0"], &["'0'", "--batch"]);
    refused(&["--steps", "0"], &["'0'", "--steps"]);
    refused(&["--threads", "1,100000"], &["100000 threads", "help: "]);
}

/// Where the tests' programs lie.
fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/data")
}

/// Whether a program is installed; says that the test does not run where it is not.
fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    let is_installed = found.is_ok_and(|output| output.status.success());
    if !is_installed {
        eprintln!("not run: {program} is not installed");
    }
    is_installed
}

/// `profile` of a program, with the stand-in for PyTorch on Python's path.
fn profile_program(directory: &Path, options: &[&str], command: &[&str]) -> Output {
    program()
        .args([
            "profile",
            "--json",
            "--allow-bad-fit",
            "--threads",
            "1",
            "--steps",
            "7",
        ])
        .args(options)
        .arg("--")
        .args(command)
        .env("PYTHONPATH", data().join("torch_stub"))
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Parses what a program printed, once it has ended well.
#[track_caller]
fn printed(output: &Output) -> serde_json::Value {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The whole way of an unchanged script: hooks, samples, model, profile, experiment, plan.
/// The script would train for minutes, and is ended after its steps.
#[test]
fn an_unchanged_training_is_profiled_and_planned() {
    if !is_installed("python3") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = data().join("torch_stub/train.py").display().to_string();
    let command = ["python3", &script, "--batch", "{batch}"];
    let options = ["--batch", "4,16", "--out", "mine.yaml"];
    let found = printed(&profile_program(directory.path(), &options, &command));
    let points = found["points"].as_array().unwrap();
    // Two micro-batches make up a step.
    let samples: Vec<u64> = points
        .iter()
        .map(|p| p["samples"].as_u64().unwrap())
        .collect();
    assert_eq!(samples, [4, 16]);
    for point in points {
        assert!(point["steps"].as_u64().unwrap() >= 7, "{point}");
        assert!(
            point["low_s"].as_f64() <= point["step_s"].as_f64(),
            "{point}"
        );
        assert!(
            point["step_s"].as_f64() <= point["high_s"].as_f64(),
            "{point}"
        );
        assert!(point["peak_mb"].as_f64().unwrap() > 1.0, "{point}");
        // The optimizer's part is told apart: it sleeps for a millisecond, whatever else happens.
        assert!(point["optimizer_s"].as_f64().unwrap() >= 0.001, "{point}");
    }
    // Adapters are what is exchanged; the rest of the model is not.
    let model = &found["model"];
    for (field, value) in [
        ("trainable", 20.0),
        ("parameters", 1020.0),
        ("statistics", 6.0),
        ("trainable_bytes", 80.0),
        ("optimizer_bytes", 80.0),
        ("flops_per_sample", 1000.0),
    ] {
        assert_eq!(model[field].as_f64(), Some(value), "{field}: {model}");
    }
    assert_eq!(
        (model["dtype"].as_str(), model["device"].as_str()),
        (Some("float32"), Some("cpu"))
    );
    let text = fs::read_to_string(directory.path().join("mine.yaml")).unwrap();
    let read: ComputeProfile = serde_yaml::from_str(&text).unwrap();
    assert_eq!(read.faults(), []);
    assert_eq!(read.origin, ComputeOrigin::Scaled);
    assert!(
        read.find("torch-stub-train", Device::Cpu)
            .unwrap()
            .carried
            .is_some(),
        "{text}"
    );

    // Its data set knows an epoch's samples, of which its loader draws many more; it ends by steps that
    // nothing names, so epochs are asked for.
    assert_eq!(model["epoch_samples"].as_f64(), Some(6400.0), "{model}");
    let notes = found["notes"].to_string();
    assert!(notes.contains("draws 10000000000 of 6400"), "{notes}");
    let planned = |arguments: &[&str]| {
        program()
            .args(["plan", "mine-plan.yaml", "--json"])
            .args(arguments)
            .current_dir(directory.path())
            .output()
            .unwrap()
    };
    let asked = planned(&[]);
    assert_eq!(asked.status.code(), Some(2), "{asked:?}");
    let message = String::from_utf8_lossy(&asked.stderr);
    for words in [
        "mine-plan.yaml:",
        "nothing says how many epochs",
        "--epochs N",
    ] {
        assert!(message.contains(words), "no {words:?} in {message}");
    }
    let goal = [
        "--epochs",
        "3",
        "--deadline",
        "2h",
        "--place",
        "aws-r5.large",
    ];
    let answer = printed(&planned(&goal));
    let question = &answer["answer"]["question"];
    let text = question["text"].as_str().unwrap();
    let expected = "6,400 samples (from the experiment file) x 3 epochs (from --epochs 3)";
    assert!(text.contains(expected), "{text}");
    // The program itself steps once per 16 samples.
    assert_eq!(question["steps_per_epoch"], 400);

    // The experiment beside it is planned as it is, on the profile's steps.
    let plan = printed(&planned(&["--samples", "2000"]));
    assert_eq!(plan["rows"][0]["model"], "torch-stub-train", "{plan:#}");
    let used = plan["simulation"]["compute"].as_array().unwrap();
    assert!(
        used.iter()
            .any(|c| c["name"] == "mine" && c["origin"] == "scaled"),
        "{used:#?}"
    );

    // Nothing is replaced unasked.
    let output = profile_program(directory.path(), &options, &command);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// What every fifth step does beside is in the mean of its operations and of its time.
#[test]
fn steps_that_differ_count_as_often_as_they_are_taken() {
    if !is_installed("python3") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = data().join("torch_stub/train.py").display().to_string();
    let command = ["python3", &script, "--every", "5"];
    let found = printed(&profile_program(
        directory.path(),
        &["--out", "own.yaml"],
        &command,
    ));
    // 1,000 per sample, and in every fifth step 1,000 more; seen from the third step on.
    let flops = found["model"]["flops_per_sample"].as_f64().unwrap();
    assert!((1090.0..1310.0).contains(&flops), "{found:#}");
    // 40 ms more.
    let point = &found["points"][0];
    assert!(point["step_s"].as_f64().unwrap() > 0.0115, "{point:#}");
    assert_eq!(point["samples"], 4);
    // What a reinforcement learner does before each step may be training: nobody but its user knows.
    let warned = "taken for evaluation";
    assert!(!found["warnings"].to_string().contains(warned), "{found:#}");
    let command = ["python3", &script, "--rollouts"];
    let options = ["--out", "rollouts.yaml"];
    let found = printed(&profile_program(directory.path(), &options, &command));
    assert!(found["warnings"].to_string().contains(warned), "{found:#}");
}

/// Samples are those of the loader whatever else is called, an evaluation is no part of a step, and the
/// program's checkpoint and its epochs are left and found as they were.
#[test]
fn what_is_no_training_is_taken_for_none() {
    if !is_installed("python3") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let checkpoint = directory.path().join("model.pt");
    fs::write(&checkpoint, "trained").unwrap();
    let script = data().join("torch_stub/hard.py").display().to_string();
    let options = ["--batch", "8,16", "--out", "own.yaml"];
    let command = ["python3", &script, "--batch", "{batch}"];
    let found = printed(&profile_program(directory.path(), &options, &command));
    let points = found["points"].as_array().unwrap();
    let samples: Vec<&serde_json::Value> = points.iter().map(|point| &point["samples"]).collect();
    assert_eq!(samples, [8, 16]);
    for point in points {
        // The evaluation between two epochs sleeps for longer than any step takes.
        assert!(point["whole_s"].as_f64().unwrap() < 0.3, "{point}");
    }
    let notes = found["notes"].to_string();
    for words in [
        "as the DataLoader hands out; Discriminator takes",
        "model.pt: the file that was there is put back",
    ] {
        assert!(notes.contains(words), "no {words:?} in {notes}");
    }
    assert_eq!(fs::read_to_string(&checkpoint).unwrap(), "trained");
    let cost = &found["profile"]["models"][0];
    let source = cost["source"].as_str().unwrap();
    assert!(
        source.contains("the program's own forward passes"),
        "{source}"
    );
    let plan = fs::read_to_string(directory.path().join("own-plan.yaml")).unwrap();
    assert!(
        plan.contains("By args.epochs of hard.py.\nepochs: 40"),
        "{plan}"
    );
    assert!(plan.contains("samples: 16,"), "{plan}");
    // A graph is neither cut nor sampled: an epoch is a step, which a plan can train.
    let full = ["python3", &script, "--full"];
    let found = printed(&profile_program(
        directory.path(),
        &["--out", "full.yaml"],
        &full,
    ));
    assert_eq!(
        (
            &found["points"][0]["samples"],
            &found["model"]["epoch_samples"]
        ),
        (&2708.into(), &2708.0.into())
    );
    // A batch that two networks take is not all the data.
    let delayed = ["python3", &script, "--delayed"];
    let options_of_it = ["--out", "delayed.yaml"];
    let found = printed(&profile_program(directory.path(), &options_of_it, &delayed));
    assert!(found["model"]["epoch_samples"].is_null(), "{found:#}");
    assert_eq!(found["points"][0]["samples"], 8);
    let plan = fs::read_to_string(directory.path().join("full-plan.yaml")).unwrap();
    for words in [
        "one graph, which is not cut",
        "workers: 1\n",
        "epochs: 40\n",
        "[gpu_baseline]",
    ] {
        assert!(plan.contains(words), "no {words:?} in {plan}");
    }
    let mut planner = program();
    planner.args([
        "plan",
        "full-plan.yaml",
        "--json",
        "--deadline",
        "2h",
        "--place",
        "aws-r5.large",
    ]);
    let answer = printed(&planner.current_dir(directory.path()).output().unwrap());
    assert_eq!(
        answer["answer"]["question"]["steps_per_epoch"], 1,
        "{answer:#}"
    );
    // A factor, and a number for each batch size; one number is not enough for two.
    let halves = [&options[..], &["--force", "--samples-per-step", "x0.5"]].concat();
    let found = printed(&profile_program(directory.path(), &halves, &command));
    assert_eq!(found["points"][1]["samples"], 8);
    refused(
        &[
            "--batch",
            "8,16",
            "--samples-per-step",
            "8",
            "--",
            "sh",
            "{batch}",
        ],
        &["8 for 2 batch sizes", "x0.5"],
    );
}

/// A line that is not UTF-8 is a note like any other, and a signal ends the program with its children.
#[test]
fn a_line_of_any_bytes_is_a_note() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"printf 'note caf\351\n' > "$EPOCHCOST_PROFILE_PIPE"
        while true; do echo "step samples=$1 seconds=0.0$1" > "$EPOCHCOST_PROFILE_PIPE"; done"#;
    let options = ["--batch", "3,6", "--out", "own.yaml"];
    let command = ["sh", "-c", script, "sh", "{batch}"];
    let found = printed(&profile_program(directory.path(), &options, &command));
    assert!(found["notes"].to_string().contains("caf"), "{found}");
}

/// A program that takes six steps, fewer than are asked for.
const SIX: &str = r#"for i in 1 2 3 4 5 6; do echo "step samples=4 seconds=0.01"; done > "$EPOCHCOST_PROFILE_PIPE";"#;

/// Steps of a program that fails are none, however many there were.
#[test]
fn a_program_that_fails_gives_no_profile() {
    let directory = tempfile::tempdir().unwrap();
    let ending = |end: &str| {
        let script = format!("{SIX} {end}");
        let options = ["--out", "own.yaml"];
        profile_program(directory.path(), &options, &["sh", "-c", &script])
    };
    for (end, status) in [("exit 17", "exit status: 17"), ("kill -9 $$", "signal: 9")] {
        let output = ending(end);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{message}");
        assert!(message.contains(status), "{message}");
        assert!(!directory.path().join("own.yaml").exists());
    }
    printed(&ending("exit 0"));
    assert!(directory.path().join("own.yaml").exists());
}

/// A program that takes no more steps ends when those that were counted have lasted long enough.
#[test]
fn a_program_that_stalls_ends_in_time() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!("{SIX} sleep 600");
    let options = ["--for", "1s", "--out", "own.yaml"];
    let began = std::time::Instant::now();
    printed(&profile_program(
        directory.path(),
        &options,
        &["sh", "-c", &script],
    ));
    assert!(began.elapsed().as_secs() < 300, "it waited for the program");
}

/// Arguments stay comments of what is written, and secrets among them are not written.
#[test]
fn arguments_are_shown_on_one_line_and_without_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--out", "own.yaml"];
    let command = [
        "sh",
        "-c",
        SIX,
        "sh",
        "--token=swordfish",
        "--api-key",
        "swordfish",
        "https://me:swordfish@host/",
        "a\nmodels: []",
    ];
    let output = profile_program(directory.path(), &options, &command);
    printed(&output);
    let written = fs::read_to_string(directory.path().join("own.yaml")).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = said + &String::from_utf8_lossy(&output.stdout) + &written;
    assert!(!said.contains("swordfish"), "{said}");
    assert!(
        !written.lines().any(|line| line == "models: []"),
        "{written}"
    );
    assert!(written.contains("--token=***"), "{written}");
}

/// A program may close descriptors that it did not open, and replace the clock.
#[test]
fn a_program_that_closes_and_replaces_is_measured() {
    if !is_installed("python3") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = "import os, time, epochcost_profile as p\n\
                  p.step(samples=4)\n\
                  os.closerange(3, 256)\n\
                  own = [open(f'own{n}', 'w') for n in range(300)]\n\
                  time.perf_counter = lambda: 0.0\n\
                  for _ in range(12):\n  time.sleep(0.02); p.step(samples=4)\n";
    let options = ["--out", "own.yaml"];
    let found = printed(&profile_program(
        directory.path(),
        &options,
        &["python3", "-c", script],
    ));
    let seconds = found["points"][0]["step_s"].as_f64().unwrap();
    assert!(seconds > 0.015, "{found:#}");
    for n in 0..300 {
        let own = fs::read_to_string(directory.path().join(format!("own{n}"))).unwrap();
        assert_eq!(own, "", "own{n}");
    }
}

/// A program that ends by itself leaves none of its processes, not even those that know nothing of this one.
#[cfg(target_os = "linux")]
#[test]
fn no_child_outlives_a_program() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "env -i sleep 600 & echo $! > group; setsid env -i sleep 600 & echo $! > own; {SIX}"
    );
    let options = ["--out", "own.yaml"];
    printed(&profile_program(
        directory.path(),
        &options,
        &["sh", "-c", &script],
    ));
    for name in ["group", "own"] {
        let id = fs::read_to_string(directory.path().join(name)).unwrap();
        ends(id.trim().parse().unwrap());
    }
}

/// Waits for the end of a process; a busy machine takes its time.
#[cfg(target_os = "linux")]
#[track_caller]
fn ends(id: u32) {
    // Ended, and at most not yet waited for.
    let is_there = || {
        let state = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z")
    };
    let began = std::time::Instant::now();
    while is_there() {
        assert!(began.elapsed().as_secs() < 10, "{id} runs on");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A signal to the profiler ends the program with all its processes, those that ignore signals or left
/// its group among them.
#[cfg(target_os = "linux")]
#[test]
fn no_process_is_left_after_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let script = "trap '' TERM INT; echo $$ > own; setsid sleep 600 & echo $! > child; \
                  while true; do sleep 0.1; done";
    let mut profiler = program()
        .args([
            "profile",
            "--threads",
            "1",
            "--out",
            "own.yaml",
            "--",
            "sh",
            "-c",
            script,
        ])
        .current_dir(directory.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ids = ["own", "child"].map(|name| {
        let file = directory.path().join(name);
        loop {
            match fs::read_to_string(&file)
                .unwrap_or_default()
                .trim()
                .parse::<u32>()
            {
                Ok(id) => break id,
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        }
    });
    let id = profiler.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-s", "TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(profiler.wait().unwrap().code(), Some(7));
    for id in ids {
        ends(id);
    }
}

#[test]
fn a_program_reports_its_own_steps_on_the_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let script = data().join("steps.sh").display().to_string();
    let options = ["--batch", "3,6", "--out", "own.yaml"];
    let found = printed(&profile_program(
        directory.path(),
        &options,
        &["sh", &script, "{batch}"],
    ));
    let points = found["points"].as_array().unwrap();
    let samples: Vec<u64> = points
        .iter()
        .map(|p| p["samples"].as_u64().unwrap())
        .collect();
    assert_eq!(samples, [3, 6]);
    assert_eq!(found["model"]["trainable"].as_f64(), Some(1000.0));
    // No product of matrices was timed: the factor is said to be assumed.
    let carried = &found["profile"]["models"][0]["carried"];
    assert!(
        carried["source"].as_str().unwrap().contains("assumed"),
        "{carried}"
    );
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains("says nothing of GPUs"), "{warnings}");
    // Without a loader nothing knows an epoch.
    let plan = |arguments: &[&str]| {
        let mut command = program();
        command
            .args(["plan", "own-plan.yaml", "--json"])
            .args(arguments);
        command.current_dir(directory.path()).output().unwrap()
    };
    let asked = plan(&[]);
    assert_eq!(asked.status.code(), Some(2), "{asked:?}");
    let message = String::from_utf8_lossy(&asked.stderr);
    assert!(
        message.contains("nothing says how many samples an epoch has, and how many"),
        "{message}"
    );
    let planned = printed(&plan(&["--samples", "600"]));
    assert_eq!(planned["rows"][0]["samples"], 600, "{planned:#}");
}

#[test]
fn two_lines_report_the_steps_of_any_python_program() {
    if !is_installed("python3") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = "import epochcost_profile, time\nwhile True:\n    time.sleep(0.005)\n    \
                  epochcost_profile.step(samples=5)\n";
    let options = ["--out", "own.yaml", "--name", "loop"];
    let found = printed(&profile_program(
        directory.path(),
        &options,
        &["python3", "-c", script],
    ));
    assert_eq!(found["points"][0]["samples"], 5);
    assert_eq!(found["profile"]["models"][0]["model"], "loop");
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains("one batch size"), "{warnings}");
}

/// A program that cannot be profiled ends the verb with the reason and its own last words.
#[test]
fn a_program_without_steps_is_refused_with_its_output() {
    let directory = tempfile::tempdir().unwrap();
    let command = ["sh", "-c", "echo no such data; exit 3"];
    let output = profile_program(directory.path(), &["--out", "own.yaml"], &command);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let message = String::from_utf8_lossy(&output.stdout);
    for words in ["exit status: 3", "no such data", "0 counted steps"] {
        assert!(message.contains(words), "no {words:?} in {message}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    refused(
        &["--", "no-such-program-anywhere", "{batch}"],
        &["--batch 8,32"],
    );
    refused(&["--batch", "8", "--", "sh"], &["{batch}"]);
}

/// Steps that do not lie on a line are no profile, unless one insists.
#[test]
fn a_bad_fit_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"i=0; while true; do i=$((i+1)); echo "step samples=$1 seconds=$((100 / $1))"; done > "$EPOCHCOST_PROFILE_PIPE""#;
    let command = ["sh", "-c", script, "sh", "{batch}"];
    let run = |options: &[&str]| {
        program()
            .args([
                "profile",
                "--threads",
                "1",
                "--steps",
                "7",
                "--batch",
                "4,50",
            ])
            .args(["--out", "own.yaml"])
            .args(options)
            .arg("--")
            .args(command)
            .current_dir(directory.path())
            .output()
            .unwrap()
    };
    let output = run(&[]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{message}");
    assert!(message.contains("do not lie on a line"), "{message}");
    assert!(message.contains("--allow-bad-fit"), "{message}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    assert_eq!(run(&["--allow-bad-fit"]).status.code(), Some(0));
    assert!(directory.path().join("own.yaml").exists());
}

/// With PyTorch itself, where it is installed.
#[test]
fn pytorch_is_profiled_unchanged() {
    let found = Command::new("python3")
        .args(["-c", "import torch"])
        .output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("not run: python3 has no torch");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/profiling/lora.py");
    let script = script.display().to_string();
    let small = [
        "--layers",
        "2",
        "--width",
        "64",
        "--heads",
        "2",
        "--vocabulary",
        "100",
    ];
    let command = [&["python3", &script, "--batch", "{batch}"], &small[..]].concat();
    let output = program()
        .args([
            "profile",
            "--json",
            "--allow-bad-fit",
            "--threads",
            "1",
            "--steps",
            "7",
        ])
        .args(["--batch", "2,8", "--out", "lora.yaml", "--"])
        .args(command)
        .current_dir(directory.path())
        .output()
        .unwrap();
    let found = printed(&output);
    // Rank 8 on queries and values of two layers: 2 x 2 x 8 x (64 + 64) scalars.
    assert_eq!(found["model"]["trainable"].as_f64(), Some(4096.0));
    assert!(found["model"]["flops_per_sample"].as_f64().unwrap() > 1e6);
    let samples: Vec<&serde_json::Value> = (0..2).map(|i| &found["points"][i]["samples"]).collect();
    assert_eq!(samples, [2, 8]);
    let costs = found["profile"]["models"].as_array().unwrap();
    assert_eq!(
        (&costs[0]["device"], &costs[1]["device"]),
        (&"cpu".into(), &"cuda".into())
    );
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
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    // Of 2^20 bytes.
    let peak_mb = answer["peak_mb"].as_f64().unwrap() * 1.048_576;
    assert!(peak_mb < 600.0, "{peak_mb}");
}
