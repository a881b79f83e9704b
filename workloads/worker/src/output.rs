//! What the harness reads from this process's standard output, line by line.
//! The prefixes are those of the harness's log reader (`docs/FORMAT.md`).

use std::io::{Write, stdout};

use epochcost_systems::{
    InvokedTask, LAST_LINE_PREFIX, OUTCOME_PREFIX, Outcome, RECORD_PREFIX, Record, Recorder,
    TASK_PREFIX, Task,
};
use serde::Serialize;

/// Standard output; every line is written at once.
pub struct Output;

impl Output {
    /// Writes one line.
    pub fn line(&self, line: &str) {
        let mut out = stdout().lock();
        // Nobody can be told that standard output is closed.
        let _ = out
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| out.flush());
    }

    /// Writes what an invocation works on: its log is all that tells where
    /// nobody waits for its answer.
    pub fn task(&self, task: &Task) {
        self.json(TASK_PREFIX, &InvokedTask::from(task));
    }

    /// Writes how a task ended.
    pub fn outcome(&self, outcome: &Result<Outcome, String>) {
        self.json(OUTCOME_PREFIX, outcome);
    }

    fn json(&self, prefix: &str, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(json) => self.line(&format!("{prefix}{json}")),
            Err(error) => eprintln!("failed to write a record: {error}"),
        }
    }
}

impl Recorder for Output {
    fn record(&self, record: Record) {
        self.json(RECORD_PREFIX, &record);
    }
}

/// Marks the end of an invocation's output when dropped, also by a panic: the
/// answer travels another way and may come first.
pub struct LastLine {
    request_id: String,
}

impl LastLine {
    /// Of that invocation.
    pub fn of(request_id: String) -> Self {
        Self { request_id }
    }
}

impl Drop for LastLine {
    fn drop(&mut self) {
        Output.line(&format!("{LAST_LINE_PREFIX}{}", self.request_id));
    }
}
