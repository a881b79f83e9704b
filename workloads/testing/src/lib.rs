//! What tests of all crates share: a watchdog that ends a hanging test, and the one way in which
//! a test is skipped where this machine lacks what it needs; and texts changed at random.

pub mod mangled;
mod processes;

use std::cell::RefCell;
use std::env;
use std::fmt::Display;
use std::io::Write;
use std::process::exit;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use epochcost_environment::test::{LIMIT_S, REQUIRE_SERVERS};

/// Longest time of a test, s, unless it states another one or [`LIMIT_S`] is set.
pub const LIMIT: u64 = 120;
/// Exit code of a test program, as libtest's own where a test fails.
const FAILED: i32 = 101;

thread_local! {
    /// Dropped at the end of the thread, which ends the watch.
    static WATCH: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
}

/// Watches the test that runs in this thread until the thread ends: after [`LIMIT`] seconds the
/// test's name and child processes are printed, the children are killed, and the program ends
/// as failed. Does nothing where the test is watched already, and in threads of no test: libtest
/// names the thread of a test after it.
pub fn watch() {
    watch_for(LIMIT);
}

/// Watches as [`watch`] does, with another limit in seconds.
pub fn watch_for(limit: u64) {
    let current = thread::current();
    let is_test = |name: &&str| *name != "main" && !name.starts_with("tokio");
    let Some(test) = current.name().filter(is_test) else {
        return;
    };
    let stated = env::var(LIMIT_S).ok().and_then(|text| text.parse().ok());
    let limit = stated.unwrap_or(limit);
    let begin = || watcher(test.to_owned(), limit);
    // A thread that ends has no more to watch.
    let _ = WATCH.try_with(|watch| {
        watch.borrow_mut().get_or_insert_with(begin);
    });
}

/// Starts a thread that waits for the end of a test.
fn watcher(test: String, limit: u64) -> Sender<()> {
    let (alive, over) = channel();
    #[expect(
        clippy::disallowed_methods,
        reason = "a test without its watchdog does not run"
    )]
    thread::spawn(move || {
        let waited = over.recv_timeout(Duration::from_secs(limit));
        if waited == Err(RecvTimeoutError::Timeout) {
            end(&test, limit);
        }
    });
    alive
}

/// Ends the program.
fn end(test: &str, limit: u64) {
    let children = processes::descendants();
    let mut text = format!(
        "\nwatchdog: the test {test} has run for {limit} s and is ended, with its program\n\
         \x20 = help: {LIMIT_S}=600 gives tests more time on a slow machine\n"
    );
    for (process, command) in &children {
        text.push_str(&format!("  child process {process}: {command}\n"));
    }
    if children.is_empty() {
        text.push_str("  it has no child process\n");
    }
    // Not `eprintln`, which libtest captures.
    let _ = std::io::stderr().write_all(text.as_bytes());
    processes::kill_afterwards(children.iter().map(|(process, _)| *process));
    exit(FAILED);
}

/// Returns what a test needs; where this machine lacks it, prints what is missing and returns
/// nothing, so that the test can end: `SKIPPED` and the reason.
///
/// # Panics
/// Where something is missing and [`REQUIRE_SERVERS`] is `1`.
#[track_caller]
pub fn or_skip<T>(needed: Result<T, impl Display>) -> Option<T> {
    let missing = match needed {
        Ok(needed) => return Some(needed),
        Err(missing) => missing,
    };
    let is_required = env::var(REQUIRE_SERVERS).is_ok_and(|value| value == "1");
    assert!(!is_required, "{REQUIRE_SERVERS} is set, and {missing}");
    let test = thread::current();
    let test = test.name().unwrap_or("a test");
    // Not `eprintln`, which libtest shows of tests that fail alone.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {missing}");
    None
}
