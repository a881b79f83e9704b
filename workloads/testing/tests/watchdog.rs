//! A test that hangs ends its program, which names it and its child processes.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::env;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use epochcost_testing::{or_skip, watch, watch_for};

/// Runs a test of this file that is ignored, in a process of its own.
fn run(test: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", test])
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "hangs; another test starts it"]
fn hangs() {
    watch();
    let mut child = Command::new("sleep").arg("86399").spawn().unwrap();
    child.wait().unwrap();
}

#[test]
#[ignore = "another test starts it"]
fn ends_after_others_watched() {
    thread::scope(|scope| {
        scope.spawn(watch);
    });
    let named = thread::Builder::new().name("of a test".into());
    named.spawn(|| watch_for(86_400)).unwrap().join().unwrap();
    watch_for(86_400);
    watch();
}

#[test]
fn a_test_that_hangs_is_named_with_its_children_and_ended() {
    watch();
    let output = run("hangs", &[("EPOCHCOST_TEST_LIMIT_S", "1")]);
    let message = errors(&output);
    assert_eq!(output.status.code(), Some(101), "{message}");
    assert!(
        message.contains("the test hangs has run for 1 s"),
        "{message}"
    );
    let child = message.lines().find(|line| line.ends_with(": sleep 86399"));
    let child = child.unwrap_or_else(|| panic!("no child in {message}"));
    let id = child.trim_start_matches("  child process ");
    let id = id.split(':').next().unwrap();
    // An orphan that was killed is gone, or waits for its new parent.
    let state = || std::fs::read_to_string(Path::new("/proc").join(id).join("stat"));
    while state().is_ok_and(|state| !state.contains(") Z ")) {
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_test_that_ends_is_left_alone() {
    let output = run("ends_after_others_watched", &[]);
    assert!(output.status.success(), "{}", errors(&output));
    // The limit of a thread that has ended does not count for the next one.
    let (sender, receiver) = channel();
    for _ in 0..2 {
        let sender = sender.clone();
        let thread = thread::Builder::new().name("short".into());
        let short = thread.spawn(move || {
            watch_for(1);
            sender.send(()).unwrap();
        });
        short.unwrap().join().unwrap();
    }
    assert_eq!(receiver.try_iter().count(), 2);
}

#[test]
#[ignore = "another test starts it"]
fn lacks_a_server() {
    assert!(or_skip::<()>(Err("no server is here")).is_none());
}

#[test]
fn what_is_missing_is_named_or_fails() {
    let skipped = run("lacks_a_server", &[("EPOCHCOST_REQUIRE_SERVERS", "0")]);
    assert!(skipped.status.success());
    // Shown though the test passes.
    let message = errors(&skipped);
    assert!(
        message.contains("SKIPPED: lacks_a_server: no server is here"),
        "{message}"
    );
    let failed = run("lacks_a_server", &[("EPOCHCOST_REQUIRE_SERVERS", "1")]);
    let message = String::from_utf8_lossy(&failed.stdout).into_owned();
    assert_eq!(failed.status.code(), Some(101), "{message}");
    assert!(message.contains("no server is here"), "{message}");
    assert_eq!(or_skip::<u8>(Ok::<_, &str>(7)), Some(7));
}
