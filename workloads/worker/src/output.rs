//! Lines on standard output, which the harness reads. The prefixes are those of its
//! log reader (`docs/FORMAT.md`).

use std::io::{Write, stdout};

use epochcost_systems::{
    InvokedTask, LAST_LINE_PREFIX, OUTCOME_PREFIX, Outcome, RECORD_PREFIX, Record, Recorder,
    TASK_PREFIX, Task,
};
use serde::Serialize;

/// Standard output, flushed after every line.
pub struct Output;

impl Output {
    /// Writes one line.
    pub fn line(&self, line: &str) {
        let mut out = stdout().lock();
        // A closed standard output cannot be reported.
        let _ = out
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| out.flush());
    }

    /// Writes what an invocation works on: where no caller waits for its answer, its
    /// log is the only report.
    pub fn task(&self, task: &Task) {
        self.json(TASK_PREFIX, &InvokedTask::from(task));
    }

    /// Writes the outcome of a task.
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

/// The end of an invocation's output, written when dropped, also by a panic: the
/// answer travels on another way and may arrive first.
pub struct LastLine {
    request_id: String,
}

impl LastLine {
    /// Makes the last line of the invocation `request_id`.
    pub fn new(request_id: String) -> Self {
        Self { request_id }
    }
}

impl Drop for LastLine {
    fn drop(&mut self) {
        Output.line(&format!("{LAST_LINE_PREFIX}{}", self.request_id));
    }
}
