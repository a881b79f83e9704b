#![allow(clippy::unwrap_used)]
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;

const REGION: &str = "eu-west-1";

fn in_an_hour() -> Timestamp {
    // Scripts know whole minutes.
    Timestamp::from_second(Timestamp::now().as_second() + 3630).unwrap()
}

/// Returns the script of a duty whose instance ends in an hour.
fn scripted(duty: &Duty) -> String {
    script(duty, REGION, in_an_hour()).unwrap()
}

fn worker() -> Duty {
    Duty::Worker {
        worker: "s3://code/it's here".into(),
        task: "s3://code/task.json".into(),
        log: "s3://exchange/log.txt".into(),
        environment: vec![("GREETING".into(), "it's $HOME `id`".into())],
    }
}

/// Writes programs that record how they were called, in place of the instance's.
fn stand_ins(directory: &Path) {
    let put = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
        let chmod = Command::new("chmod").arg("+x").arg(path).status();
        assert!(chmod.unwrap().success());
    };
    let calls = directory.join("calls");
    let say = |name: &str| format!("echo {name} \"$@\" >> {}", calls.display());
    put("shutdown", &say("shutdown"));
    put("dnf", &say("dnf"));
    let server = say("redis6-server");
    put("redis6-server", &format!("echo this is Redis; {server}"));
    put("hostname", "echo 127.9.9.9 172.17.0.1");
    put("sleep", &say("sleep"));
    // A worker that prints its input, and a log that is copied to a file.
    let worker = "read task; echo \"$1 $task $GREETING\"; exit ${FAILS:-0}";
    let fetch = format!(
        "{}\ncase \"$5\" in\n bootstrap) printf '#!/bin/bash\\n%s\\n' '{worker}' > bootstrap;;\n \
         epochcost) printf '#!/bin/bash\\necho $* on $CUDA_VISIBLE_DEVICES; exit ${{FAILS:-0}}\\n' > epochcost;;\n \
         trial.json|train.bin|test.bin) touch $5;;\n task.json) echo '{{\"a\": 1}}' > task.json;;\n module.so) touch module.so;;\n s3:*) cp log.txt {}/log;;\nesac",
        say("aws"),
        directory.display()
    );
    put("aws", &fetch);
}

/// Fails unless the text holds every word.
#[track_caller]
fn holds(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}

/// What an instance has done: its calls, a line each, and its log.
struct Done {
    calls: String,
    log: String,
}

impl Done {
    /// Checks that the instance first planned its end, and last ended.
    fn has_ended(&self) {
        let mut calls = self.calls.lines();
        assert_eq!(calls.next(), Some("shutdown -h +60"), "{}", self.calls);
        assert_eq!(calls.next_back(), Some("shutdown -h now"), "{}", self.calls);
    }

    fn has_called(&self, call: &str) -> bool {
        self.calls.lines().any(|own| own == call)
    }
}

/// Runs a script as its instance would, in a temporary directory.
fn run(script: &str, fails: bool) -> Done {
    let directory = tempfile::tempdir().unwrap();
    stand_ins(directory.path());
    let here = directory.path().join("opt");
    let script = script.replace("/opt/epochcost", &here.display().to_string());
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).env("PATH", path);
    if fails {
        bash.env("FAILS", "3");
    }
    bash.status().unwrap();
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name));
    let (calls, log) = (read("calls").unwrap(), read("log").unwrap_or_default());
    Done { calls, log }
}

#[test]
fn a_worker_runs_its_task_hands_in_its_log_and_ends_its_instance() {
    for fails in [false, true] {
        let done = run(&scripted(&worker()), fails);
        let lines: Vec<&str> = done.log.lines().collect();
        for (at, says) in [(0, "booted"), (1, "started"), (3, "ended")] {
            let clock = format!("EPOCHCOST-CLOCK {says} 1");
            assert!(lines[at].starts_with(&clock), "{lines:?}");
        }
        assert_eq!(lines[2], "--instance {\"a\": 1} it's $HOME `id`");
        done.has_ended();
        let fetched = "aws s3 cp --quiet s3://code/it's here bootstrap";
        assert!(done.has_called(fetched), "{}", done.calls);
    }
}

/// The local platform leaves what it recorded before its log; without it, the log alone.
#[test]
fn a_machine_runs_a_trial_and_hands_in_what_it_recorded() {
    for fails in [false, true] {
        let duty = Duty::Machine {
            program: "s3://code/epochcost".into(),
            worker: "s3://code/bootstrap-cuda".into(),
            trial: "s3://objects/it's r0t0".into(),
            log: "s3://objects/log.txt".into(),
            gpus: Some(2),
        };
        let done = run(&scripted(&duty), fails);
        holds(&done.log, &["\ndev trial . on 0,1\n"]);
        for (copied, expected) in [
            ("s3://code/epochcost epochcost", true),
            ("s3://objects/it's r0t0/train.bin train.bin", true),
            ("outcome.json s3://objects/it's r0t0/outcome.json", !fails),
        ] {
            let call = format!("aws s3 cp --quiet {copied}");
            assert_eq!(done.has_called(&call), expected, "{}", done.calls);
        }
        done.has_ended();
    }
}

fn host(service: Service) -> Duty {
    Duty::Host {
        service,
        address: "s3://objects/address.txt".into(),
        log: "s3://objects/log.txt".into(),
    }
}

fn store(module: Option<&str>) -> Duty {
    host(Service::TensorStore {
        module: module.map(str::to_owned),
        malloc_conf: Some("dirty_decay_ms:-1".into()),
    })
}

/// The replaced server ends at once: the log is published, and no address is.
#[test]
fn a_tensor_store_that_does_not_come_up_hands_in_its_log_and_ends_its_instance() {
    let done = run(&scripted(&store(Some("s3://code/module.so"))), false);
    done.has_ended();
    let fetched = "aws s3 cp --quiet s3://code/module.so module.so";
    assert!(done.has_called(fetched), "{}", done.calls);
    let server = "redis6-server --port 6379 --bind 127.9.9.9";
    holds(&done.calls, &[server, "--loadmodule"]);
    assert!(!done.calls.contains("address.txt"), "{}", done.calls);
    // The output of the server.
    holds(&done.log, &["this is Redis"]);
}

/// No credentials, or no bucket any more: nothing can be copied. The instance ends all the same.
#[test]
fn an_instance_that_cannot_copy_anything_ends() {
    for duty in [worker(), store(None), host(Service::Queue)] {
        let text = scripted(&duty);
        let refused = text.replace("aws s3 cp", "false s3 cp");
        assert_ne!(refused, text);
        run(&refused, false).has_ended();
    }
}

/// A role's permissions may come seconds after its instance.
#[test]
fn what_cannot_be_fetched_yet_is_fetched_again() {
    let text = scripted(&worker());
    // Every other copy is refused.
    let late = text.replace(
        "aws s3 cp --quiet \"$1\" \"$2\" && return",
        "(( ++tries % 2 == 0 )) && aws s3 cp --quiet \"$1\" \"$2\" && return",
    );
    assert_ne!(late, text);
    let done = run(&late.replace("copy() {", "tries=0\ncopy() {"), false);
    holds(&done.log, &["--instance"]);
    assert_eq!(done.calls.matches("sleep 2").count(), 3, "{}", done.calls);
}

#[test]
fn what_is_not_asked_for_is_not_loaded() {
    let Done { calls, .. } = run(&scripted(&store(None)), false);
    holds(&calls, &["redis6-server"]);
    assert!(!calls.contains("module"), "{calls}");
    let text = scripted(&host(Service::Queue));
    assert!(!text.contains("redis"), "{text}");
    holds(&text, &["rabbitmq:3.13 &", "$address/5672"]);
}

#[test]
fn no_instance_is_started_for_a_run_that_is_over() {
    let past = Timestamp::from_second(Timestamp::now().as_second() - 1).unwrap();
    assert!(script(&worker(), REGION, past).is_err());
}

#[test]
fn what_cannot_be_a_word_is_refused() {
    let mut duty = worker();
    if let Duty::Worker { environment, .. } = &mut duty {
        environment[0] = ("A;B".into(), "x".into());
    }
    assert!(script(&duty, REGION, in_an_hour()).is_err());
    assert!(script(&store(Some("s3://a\nreboot")), REGION, in_an_hour()).is_err());
}

/// Scripts of every duty, with and without what is optional.
fn representative() -> Vec<String> {
    let without = Duty::Worker {
        worker: "s3://code/bootstrap".into(),
        task: "s3://objects/task.json".into(),
        log: "s3://objects/log.txt".into(),
        environment: Vec::new(),
    };
    let duties = [
        worker(),
        without,
        store(Some("s3://code/it's @PORT@ $(here).so")),
        store(None),
        host(Service::TensorStore {
            module: None,
            malloc_conf: None,
        }),
        host(Service::Queue),
    ];
    duties.iter().map(scripted).collect()
}

/// Runs a program that reads a script from its standard input, and expects success;
/// `false` where the program is not installed.
fn accepts(program: &str, arguments: &[&str], script: &str) -> bool {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else { return false };
    let mut input = child.stdin.take().unwrap();
    input.write_all(script.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{script}");
    true
}

#[test]
fn every_script_is_filled_and_parses() {
    for script in representative() {
        assert!(accepts("bash", &["-n"], &script));
        let quoted = script.replace("@PORT@ $(here)", "");
        let is_filled = !quoted.contains("@PORT@") && !quoted.contains("_URL@");
        assert!(is_filled, "{script}");
    }
}

/// Under EPOCHCOST_REQUIRE_SHELLCHECK=1, a missing `shellcheck` fails the test.
#[test]
fn shellcheck_has_nothing_to_say() {
    let required = std::env::var("EPOCHCOST_REQUIRE_SHELLCHECK").is_ok_and(|value| value == "1");
    for script in representative() {
        // In single quotes on purpose: values that look like expansions.
        let arguments = ["--shell=bash", "--exclude=SC2016", "-"];
        if !accepts("shellcheck", &arguments, &script) {
            assert!(!required, "not run: shellcheck is not installed");
            eprintln!("not run: shellcheck is not installed");
            return;
        }
    }
}

#[test]
fn a_template_takes_its_own_values_once_and_no_others() {
    let values = [("ONE", "@TWO@"), ("TWO", "2")];
    let filled = fill("a @ONE@ \"${b[@]}\" @TWO@ @ONE@", &values);
    assert_eq!(filled.unwrap(), "a @TWO@ \"${b[@]}\" 2 @TWO@");
    assert!(fill("@ONE@", &[]).is_err());
    assert!(fill("", &[("ONE", "1")]).is_err());
}
