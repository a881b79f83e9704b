//! Invocations of a trial, read from the log streams of its functions.
//!
//! On AWS no caller waits for a worker's answer: it may continue in an invocation
//! that it started itself. So only the log records what was invoked, how it
//! ended and what it cost, by the platform's lines around each invocation.

use epochcost_aws::logs::{Line, Streams};
use epochcost_aws::user_data::CLOCK_PREFIX;
use epochcost_systems::{
    Host, InvokedTask, OUTCOME_PREFIX, Outcome, RECORD_PREFIX, Record, TASK_PREFIX,
};

use epochcost_spec::metering::report_line::{Report, Status};
use epochcost_spec::metering::{Invocation, log};

/// Lines of output in the reason of a failure.
const TAIL: usize = 5;
/// Function of an invocation that logged no task: it is paid for, whatever it was for.
const UNKNOWN: &str = "unknown";

/// One invocation, from the part of its log that has arrived.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    /// Id of the request.
    pub(super) request_id: String,
    /// Log stream; each sandbox has one.
    pub(super) stream: String,
    /// Start time, seconds since the Unix epoch.
    pub(super) started_s: f64,
    /// End time, seconds since the Unix epoch, if its own log has it: an instance's.
    pub(super) ended_s: Option<f64>,
    /// Time at which its instance began to run, seconds since the Unix epoch.
    pub(super) booted_s: Option<f64>,
    /// Task that it worked on; `None` if the worker logged none.
    pub(super) task: Option<InvokedTask>,
    /// Outcome that the worker logged.
    pub(super) outcome: Option<Result<Outcome, String>>,
    /// Records that it logged.
    pub(super) records: Vec<Record>,
    /// A record that cannot be read.
    pub(super) unreadable: Option<String>,
    /// The platform's REPORT line; `None` before it has ended.
    pub(super) report: Option<Report>,
    /// Whether its sandbox was started for it.
    is_cold: bool,
    /// Last lines of its other output.
    pub(super) tail: Vec<String>,
}

impl Seen {
    fn begin(request_id: &str, stream: &str, at_ms: i64) -> Self {
        Self {
            request_id: request_id.to_owned(),
            stream: stream.to_owned(),
            started_s: at_ms as f64 / 1e3,
            ended_s: None,
            booted_s: None,
            task: None,
            outcome: None,
            records: Vec::new(),
            unreadable: None,
            report: None,
            is_cold: false,
            tail: Vec::new(),
        }
    }

    /// Takes an event, which may have several lines, and a line of the worker's behind other
    /// output without a line break.
    fn take(&mut self, event: &str) {
        for line in event.lines() {
            let own = [RECORD_PREFIX, TASK_PREFIX, OUTCOME_PREFIX];
            let at = own.iter().filter_map(|prefix| line.find(prefix)).min();
            let (before, own) = line.split_at(at.unwrap_or(0));
            self.take_line(before);
            self.take_line(own);
        }
    }

    fn take_line(&mut self, line: &str) {
        if let Some(record) = log::record(line) {
            match record {
                Ok(record) => self.records.push(record),
                Err(error) => self.unreadable = Some(format!("{error}: {line}")),
            }
        } else if let Some(task) = line.strip_prefix(TASK_PREFIX) {
            self.task = serde_json::from_str(task).ok();
        } else if let Some(outcome) = line.strip_prefix(OUTCOME_PREFIX) {
            self.outcome = serde_json::from_str(outcome).ok();
        } else if !line.starts_with("EPOCHCOST") && !line.is_empty() {
            self.tail.push(line.to_owned());
            if self.tail.len() > TAIL {
                self.tail.remove(0);
            }
        }
    }

    /// Returns whether it has ended: its outcome or the platform's report is in the log.
    pub(super) fn has_ended(&self) -> bool {
        self.outcome.is_some() || self.report.is_some()
    }

    /// Returns whether it did nothing, since its request had been delivered before.
    pub(super) fn is_repeated(&self) -> bool {
        matches!(self.outcome, Some(Ok(Outcome::Repeated)))
    }

    /// Returns the reason of its failure, once one is in the log.
    pub(super) fn failure(&self) -> Option<String> {
        let status = self.report.as_ref().map(|report| &report.status);
        let reason = match (&self.outcome, status) {
            (Some(Err(reason)), _) => reason.clone(),
            (_, Some(Some(Status::Timeout))) => "its time was over".to_owned(),
            (_, Some(Some(Status::Error { error_type }))) => error_type.clone(),
            (None, Some(None)) => "it ended without an outcome".to_owned(),
            (Some(Ok(_)), _) | (None, None) => return None,
        };
        Some(if self.tail.is_empty() {
            reason
        } else {
            format!("{reason}; it last wrote: {}", self.tail.join(" | "))
        })
    }

    /// Returns its row of the results; `None` before it has ended.
    pub(super) fn invocation(&self) -> Option<Invocation> {
        let report = self.report.as_ref()?;
        let unknown = || InvokedTask {
            function: UNKNOWN.to_owned(),
            rank: 0,
            epoch: 0,
            batch: None,
        };
        let task = self.task.clone().unwrap_or_else(unknown);
        Some(Invocation {
            request_id: self.request_id.clone(),
            host: Host::Function,
            function: task.function,
            rank: task.rank,
            alike: 1,
            epoch: task.epoch,
            batch: task.batch,
            sandbox: self.stream.clone(),
            started_s: self.started_s,
            ended_s: self.started_s + report.duration_ms / 1e3,
            cold: self.is_cold || report.init_ms.is_some(),
            init_ms: report.init_ms,
            duration_ms: report.duration_ms,
            billed_ms: report.billed_ms,
            memory_mb: Some(report.memory_mb),
            peak_memory_mb: Some(report.peak_memory_mb),
            cpu_ms: None,
            error: self.failure(),
        })
    }
}

/// Returns every invocation in `streams`, ordered by start time.
pub(super) fn read(streams: &Streams) -> Vec<Seen> {
    let mut all: Vec<Seen> = (streams.iter())
        .flat_map(|(stream, lines)| read_stream(stream, lines))
        .collect();
    all.sort_by(|a, b| a.started_s.total_cmp(&b.started_s));
    all
}

/// Returns the invocation in the complete log of a worker on an instance.
pub(super) fn of_instance(text: &str) -> Seen {
    let mut seen = Seen::begin("", "", 0);
    for line in text.lines() {
        match line
            .strip_prefix(CLOCK_PREFIX)
            .and_then(|clock| clock.split_once(' '))
        {
            Some(("started", at)) => seen.started_s = at.parse().unwrap_or_default(),
            Some(("ended", at)) => seen.ended_s = at.parse().ok(),
            Some(("booted", at)) => seen.booted_s = at.parse().ok(),
            _ => seen.take(line),
        }
    }
    if seen.outcome.is_none() {
        seen.outcome = Some(Err("its worker ended without an outcome".to_owned()));
    }
    seen
}

/// Returns the invocations in a sandbox's log stream. A sandbox serves one
/// invocation at a time: every line between its START and its END belongs to it,
/// whatever its text, and so does what comes late, before the next START. Lines of one
/// millisecond may be in any order: of REPORT lines the first behind the END counts, else one
/// before it; a task before the START is the next invocation's.
fn read_stream(stream: &str, lines: &[Line]) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    // Whether the last invocation's END is missing, and whether its REPORT came behind that.
    let (mut is_inside, mut is_reported) = (false, false);
    // Lines before their START; whether the sandbox has begun since the last one.
    let (mut early, mut is_fresh): (Vec<&str>, bool) = (Vec::new(), true);
    for Line { at_ms, text } in lines {
        let is_start = !is_inside || seen.last().is_some_and(|last| last.report.is_some());
        if let Some(id) = started(text).filter(|_| is_start) {
            let mut one = Seen::begin(id, stream, *at_ms);
            one.is_cold = std::mem::take(&mut is_fresh);
            early.drain(..).for_each(|line| one.take(line));
            seen.push(one);
            (is_inside, is_reported) = (true, false);
            continue;
        }
        let Some(current) = seen.last_mut() else {
            if text.contains(r#""type":"platform."#) {
                let mut one = Seen::begin(stream, stream, *at_ms);
                one.outcome = Some(Err(JSON_FORMAT.to_owned()));
                return vec![one];
            }
            if text.starts_with("EPOCHCOST") {
                early.push(text);
            }
            continue;
        };
        let end = format!("END RequestId: {}", current.request_id);
        let is_report = is_report_of(text, &current.request_id);
        match is_report.then(|| Report::of_lambda(text)) {
            Some(_) if is_reported => {}
            Some(Ok(report)) => {
                current.report = Some(report);
                is_reported = !is_inside;
            }
            Some(Err(error)) if !is_inside => current.unreadable = Some(error.to_string()),
            _ if is_inside && text.trim_end().ends_with(&end) => {
                is_inside = false;
                current.take(text.trim_end().trim_end_matches(&end));
            }
            _ if !is_inside && text.starts_with("INIT_START ") => is_fresh = true,
            _ if !early.is_empty() || is_next(text, current) => early.push(text),
            // Its own lines may come behind Lambda's END: two writers, two clocks.
            _ => current.take(text),
        }
    }
    seen
}

/// Problem with the log of a function whose format was changed behind this program.
const JSON_FORMAT: &str = "Lambda writes its log in JSON, and this program reads text: leave \
                           the log format of its functions as it creates them";

/// Returns whether a line is the task of the invocation after `current`.
fn is_next(text: &str, current: &Seen) -> bool {
    current.task.is_some() && current.report.is_some() && text.starts_with(TASK_PREFIX)
}

/// Tells whether a line is Lambda's REPORT line of a request, readable or not.
fn is_report_of(text: &str, request_id: &str) -> bool {
    text.strip_prefix("REPORT RequestId: ")
        .and_then(|rest| rest.strip_prefix(request_id))
        .is_some_and(|rest| rest.starts_with('\t'))
}

/// Returns the request id of a START line.
fn started(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("START RequestId: ")?;
    rest.split(' ').next()
}

#[cfg(test)]
pub(super) mod tests {
    use uuid::Uuid;

    use super::*;

    /// Lines of a log, one each millisecond.
    pub(in crate::aws) fn lines(texts: &[String], from_ms: i64) -> Vec<Line> {
        let line = |(at_ms, text): (i64, &String)| Line {
            at_ms,
            text: text.clone(),
        };
        (from_ms..).zip(texts).map(line).collect()
    }

    fn of(texts: &[String]) -> Vec<Seen> {
        read(&Streams::from([("s".to_owned(), lines(texts, 1_000))]))
    }

    fn report(id: Uuid) -> String {
        Report {
            request_id: id,
            duration_ms: 500.0,
            billed_ms: 600,
            memory_mb: 2048,
            peak_memory_mb: 55,
            init_ms: Some(99.5),
            status: None,
        }
        .to_string()
    }

    /// The log of an invocation of a worker: its start, task, outcome, end and report.
    pub(in crate::aws) fn logged(id: u128, rank: usize, epoch: usize, says: &str) -> Vec<String> {
        let id = Uuid::from_u128(id);
        let task = format!(r#""rank":{rank},"epoch":{epoch},"batch":null"#);
        vec![
            log::start_line(id),
            format!(r#"{TASK_PREFIX}{{"function":"worker",{task}}}"#),
            format!("{OUTCOME_PREFIX}{says}"),
            log::end_line(id),
            report(id),
        ]
    }

    pub(in crate::aws) const FINISHED: &str = r#"{"Ok":"finished"}"#;
    const FAILED: &str = r#"{"Err":"no such bucket"}"#;

    /// The same with an imitation of another's end before the outcome.
    fn whole(id: u128, says: &str) -> Vec<String> {
        let mut texts = logged(id, 2, 1, says);
        texts.insert(2, log::end_line(Uuid::from_u128(99)));
        texts
    }

    #[test]
    fn invocations_of_a_sandbox_are_told_apart() {
        let seen = of(&[whole(1, FINISHED), whole(2, FAILED)].concat());
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].failure(), None);
        let invocation = seen[0].invocation().unwrap();
        assert_eq!((invocation.rank, invocation.epoch), (2, 1));
        assert_eq!((invocation.started_s, invocation.ended_s), (1.0, 1.5));
        assert!(invocation.cold);
        let failure = seen[1].failure().unwrap();
        assert!(failure.starts_with("no such bucket"), "{failure}");
    }

    /// Platform lines of one millisecond come in any order, Lambda's own lines and the worker's are
    /// stamped by different clocks, and other output may have no line break: none of it makes an
    /// invocation incomplete, or is taken for the next one's.
    #[test]
    fn platform_lines_are_found_in_any_order_and_behind_other_text() {
        // START, task, another's END, outcome, END, REPORT.
        let good = || whole(1, FINISHED);
        let mut swapped = good();
        swapped.swap(4, 5);
        let mut early_report = good();
        early_report.swap(3, 5);
        let mut lost_end = good();
        lost_end.remove(4);
        let mut glued = good();
        glued[4].insert_str(0, "progress 100%");
        glued[3].insert_str(0, "progress 99%");
        let mut joined = good();
        let outcome = joined.remove(3);
        joined[2] = format!("thread 'main' panicked\n{outcome}");
        let mut start_second = good();
        start_second.swap(0, 1);
        let mut late = good();
        late[3..].rotate_left(1);
        for texts in [
            swapped,
            early_report,
            lost_end,
            glued,
            joined,
            start_second,
            late,
        ] {
            for (says, fails) in [(FINISHED, false), (FAILED, true)] {
                let seen = of(&[&texts[..], &whole(2, says)].concat());
                let failures: Vec<bool> = seen.iter().map(|one| one.failure().is_some()).collect();
                assert_eq!(failures, [false, fails], "{texts:?}");
                assert!(matches!(seen[0].outcome, Some(Ok(_))), "{texts:?}");
                for invocation in seen.iter().map(|one| one.invocation().unwrap()) {
                    assert_eq!(invocation.billed_ms, 600, "{texts:?}");
                    assert_eq!(invocation.function, "worker", "{texts:?}");
                }
            }
        }
        // An imitation of one's own REPORT counts neither before nor behind the true one.
        for at in [1, 6] {
            let mut texts = good();
            texts.insert(at, good()[5].replace("600 ms", "1 ms"));
            assert_eq!(of(&texts)[0].invocation().unwrap().billed_ms, 600);
        }
    }

    /// What died before it logged its task is paid for, and a sandbox is cold for the first
    /// invocation after each of its inits, reported or suppressed.
    #[test]
    fn what_died_in_its_init_is_paid_for_and_was_cold() {
        let (crashed, next) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let init = || "INIT_START Runtime Version: provided:al2023.v104".to_owned();
        let plain = |id| report(id).replace("\tInit Duration: 99.50 ms", "");
        let mut texts = vec![init(), log::start_line(crashed)];
        texts.push("INIT_REPORT Init Duration: 9.00 ms\tPhase: invoke\tStatus: error".to_owned());
        texts.push(log::end_line(crashed));
        texts.push(plain(crashed) + "Status: error\tError Type: Runtime.ExitError\t");
        for again in [false, true] {
            let mut texts = texts.clone();
            texts.extend(again.then(init));
            let mut then = whole(2, FINISHED);
            then[5] = plain(next);
            texts.extend(then);
            let found: Vec<Invocation> = of(&texts).iter().filter_map(Seen::invocation).collect();
            let cold: Vec<bool> = found.iter().map(|one| one.cold).collect();
            assert_eq!(cold, [true, again]);
            assert_eq!(found[0].billed_ms, 600);
            assert_eq!(found[0].function, UNKNOWN);
            let error = found[0].error.as_ref().unwrap();
            assert!(error.starts_with("Runtime.ExitError"), "{error}");
        }
    }

    #[test]
    fn a_log_in_json_is_named() {
        let start = r#"{"time":"2026-01-01T00:00:00.100Z","type":"platform.start","record":{}}"#;
        let seen = of(&[start.to_owned(), "EPOCHCOST".to_owned()]);
        assert!(seen[0].failure().unwrap().contains("JSON"));
    }

    #[test]
    fn a_report_with_a_trace_is_read_and_a_wrong_one_is_named() {
        let mut texts = whole(1, FINISHED);
        texts[5].push_str("\nXRAY TraceId: 1-5bda1d6e\tSegmentId: 53aa\tSampled: true\t\n");
        let seen = &of(&texts)[0];
        assert!(seen.invocation().is_some() && seen.unreadable.is_none());
        let id = Uuid::from_u128(1);
        texts[5] = report(id).replace("500.00 ms", "0.5 s");
        let seen = &of(&texts)[0];
        assert!(seen.report.is_none());
        let error = seen.unreadable.as_ref().unwrap();
        let names_both = error.contains("Duration") && error.contains(&id.to_string());
        assert!(names_both, "{error}");
    }

    #[test]
    fn an_instances_log_says_when_it_ran_and_how_it_ended() {
        let text = format!(
            "{CLOCK_PREFIX}booted 90.5\n{CLOCK_PREFIX}started 100.5\nhello\n{OUTCOME_PREFIX}{{\"Ok\":\"finished\"}}\n\
             {CLOCK_PREFIX}ended 103.25\n"
        );
        let seen = of_instance(&text);
        let times = (seen.booted_s, seen.started_s, seen.ended_s);
        assert_eq!(times, (Some(90.5), 100.5, Some(103.25)));
        assert_eq!(seen.failure(), None);
        let cut = of_instance(&text[..70]);
        assert!(cut.failure().unwrap().contains("without an outcome"));
    }

    /// Whatever has not come yet, nothing is taken for what it is not.
    #[test]
    fn a_log_cut_anywhere_is_an_invocation_that_has_not_ended() {
        let texts = whole(1, FINISHED);
        for cut in 0..texts.len() {
            for seen in of(&texts[..cut]) {
                assert!(seen.report.is_none() && seen.invocation().is_none());
                assert_eq!(seen.failure(), None);
            }
        }
    }
}
