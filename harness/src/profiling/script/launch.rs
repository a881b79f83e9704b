//! One run of the user's program, until it has taken enough steps.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use epochcost_environment::profiled;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::lines::{Described, Line, Step, parse};

/// The module that reports PyTorch's steps.
const MODULE: &str = include_str!("../../../python/epochcost_profile.py");
/// What starts it with every Python program.
const START: &str = include_str!("../../../python/sitecustomize.py");
/// Variables that limit threads of the libraries that compute.
const THREADS: [&str; 5] = [
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
];
/// Steps after the program's own warm-up that are not counted.
const WARM_UP: usize = 1;
/// Fewest steps of a program that ended by itself.
const FEWEST: usize = 3;
/// Lines of the program's output that an error repeats.
const TAIL: usize = 12;
/// Time from a request to end until the program is killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time in which lines arrive that a program wrote before its end.
const ARRIVAL: Duration = Duration::from_millis(50);

/// A run of the program: its batch size and threads.
#[derive(Clone, Debug)]
pub(super) struct Launch<'a> {
    /// Program and arguments, with the batch size in place.
    pub(super) command: &'a [String],
    /// Threads that it may compute on.
    pub(super) threads: usize,
    /// Counted steps after which it is ended.
    pub(super) steps: usize,
    /// Time of counted steps after which it is ended.
    pub(super) limit: Duration,
}

/// What a run reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// Seconds of each counted step: whole, in the optimizer, waiting for data, and, of the
    /// rest, for a core.
    pub(super) steps: Vec<[f64; 4]>,
    /// Samples of each step that named them.
    pub(super) samples: Vec<f64>,
    /// Most memory, MB.
    pub(super) peak_mb: Option<f64>,
    /// The model, if the program described it.
    pub(super) model: Option<Described>,
    /// Operations of one step.
    pub(super) flops: Option<f64>,
    /// Operations per second of a product of matrices on one thread.
    pub(super) rate: Option<f64>,
    /// Remarks.
    pub(super) notes: Vec<String>,
}

/// Why a run gave nothing.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) problem: String,
    pub(super) remedy: String,
}

/// Everything that runs share: the pipe, the module, and the program's output.
pub(super) struct Bench {
    directory: TempDir,
    pipe: PathBuf,
    lines: UnboundedReceiver<(Instant, String)>,
}

impl Bench {
    /// Makes the pipe and the module's directory.
    ///
    /// # Errors
    /// When the directory cannot be written or the pipe not be made.
    pub(super) async fn new() -> std::io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("epochcost-profile-")
            .tempdir()?;
        let python = directory.path().join("python");
        fs::create_dir(&python)?;
        fs::write(python.join("epochcost_profile.py"), MODULE)?;
        fs::write(python.join("sitecustomize.py"), START)?;
        let pipe = directory.path().join("steps");
        let made = Command::new("mkfifo").arg(&pipe).status().await?;
        if !made.success() {
            return Err(std::io::Error::other(format!("mkfifo ended with {made}")));
        }
        // Open for both, so that the program's end does not end the pipe.
        let both = fs::OpenOptions::new().read(true).write(true).open(&pipe)?;
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(both);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                if sender
                    .send((Instant::now(), std::mem::take(&mut line)))
                    .is_err()
                {
                    return;
                }
            }
        });
        Ok(Self {
            directory,
            pipe,
            lines,
        })
    }

    /// Runs the program until it has taken enough steps, and ends it.
    ///
    /// # Errors
    /// When it cannot be started, ends too early, or says that it cannot be profiled.
    pub(super) async fn run(&mut self, launch: &Launch<'_>) -> Result<Observed, Failure> {
        // Lines of the program before this one.
        while self.lines.try_recv().is_ok() {}
        let log = self.directory.path().join("output");
        let mut child = self.start(launch, &log).map_err(|error| Failure {
            problem: format!("failed to start {:?}: {error}", launch.command.join(" ")),
            remedy: "give the program as you start it: epochcost profile -- python train.py".into(),
        })?;
        let mut reading = Reading::new(launch);
        let ended = loop {
            tokio::select! {
                biased;
                line = self.lines.recv() => {
                    let Some((at, text)) = line else { break None };
                    if reading.takes(at, &text) {
                        break None;
                    }
                }
                status = child.wait() => break status.ok(),
            }
        };
        match ended {
            None => end(&mut child).await,
            // Its last lines are on their way.
            Some(_) => tokio::time::sleep(ARRIVAL).await,
        }
        while let Ok((at, text)) = self.lines.try_recv() {
            reading.takes(at, &text);
        }
        reading.done(ended, &log)
    }

    fn start(&self, launch: &Launch<'_>, log: &Path) -> std::io::Result<Child> {
        let Some((program, arguments)) = launch.command.split_first() else {
            return Err(std::io::Error::other("there is no program"));
        };
        let mut path = vec![self.directory.path().join("python")];
        if let Some(own) = std::env::var_os("PYTHONPATH") {
            path.extend(std::env::split_paths(&own));
        }
        let path = std::env::join_paths(path).map_err(std::io::Error::other)?;
        let output = fs::File::create(log)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("PYTHONPATH", path)
            .env(profiled::PIPE, &self.pipe)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .kill_on_drop(true);
        for name in THREADS {
            command.env(name, launch.threads.to_string());
        }
        command.spawn()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Ends the reader, which holds the pipe open by itself.
        self.lines.close();
        if let Ok(mut pipe) = fs::OpenOptions::new().write(true).open(&self.pipe) {
            let _ = pipe.write_all(b"note end\n");
        }
    }
}

/// Ends a program and its children: first as a user would.
async fn end(child: &mut Child) {
    for (signal, patience) in [("TERM", PATIENCE), ("KILL", PATIENCE)] {
        if let Some(id) = child.id() {
            // By its group, whose name begins with a hyphen.
            let _ = Command::new("kill")
                .args(["-s", signal, "--", &format!("-{id}")])
                .stderr(Stdio::null())
                .status()
                .await;
        }
        if tokio::time::timeout(patience, child.wait()).await.is_ok() {
            return;
        }
    }
}

/// A run while it reports.
struct Reading {
    steps: usize,
    limit: Duration,
    observed: Observed,
    /// The process that takes the steps: the first that reported one.
    process: Option<u64>,
    /// End of the step before.
    last: Option<Instant>,
    skipped: usize,
    counting_since: Option<Instant>,
    others: usize,
    faults: Vec<String>,
    problem: Option<String>,
}

impl Reading {
    fn new(launch: &Launch<'_>) -> Self {
        Self {
            steps: launch.steps,
            limit: launch.limit,
            observed: Observed::default(),
            process: None,
            last: None,
            skipped: 0,
            counting_since: None,
            others: 0,
            faults: Vec::new(),
            problem: None,
        }
    }

    /// Takes a line; returns whether no more are needed.
    fn takes(&mut self, at: Instant, text: &str) -> bool {
        let reported = match parse(text) {
            Ok(reported) => reported,
            Err(fault) => {
                self.faults.push(fault);
                return false;
            }
        };
        if let Some(process) = reported.process
            && *self.process.get_or_insert(process) != process
        {
            self.others += 1;
            return false;
        }
        match reported.line {
            Line::Begin => self.last = Some(at),
            Line::Step(step) => self.step(at, step),
            Line::Model(model) => self.observed.model = Some(model),
            Line::Work(flops) => self.observed.flops = Some(flops),
            Line::Rate(rate) => self.observed.rate = Some(rate),
            Line::Note(note) if !self.observed.notes.contains(&note) => {
                self.observed.notes.push(note);
            }
            Line::Note(_) => {}
            Line::Problem(problem) => {
                self.problem = Some(problem);
                return true;
            }
        }
        let since = self.counting_since.map(|since| at.duration_since(since));
        let steps = self.observed.steps.len();
        steps >= self.steps || (steps > 0 && since.is_some_and(|since| since >= self.limit))
    }

    fn step(&mut self, at: Instant, step: Step) {
        // Without its own seconds, a step lasts from the line before; the first only begins.
        let counted = self.last.map(|last| at.duration_since(last).as_secs_f64());
        self.last = Some(at);
        self.observed.samples.extend(step.samples);
        if let Some(peak_mb) = step.peak_mb {
            let most = self.observed.peak_mb.unwrap_or(0.0).max(peak_mb);
            self.observed.peak_mb = Some(most);
        }
        let Some(seconds) = step.seconds.or(counted) else {
            return;
        };
        if step.is_warm_up {
            return;
        }
        if self.skipped < WARM_UP {
            self.skipped += 1;
            self.counting_since = Some(at);
            return;
        }
        self.counting_since.get_or_insert(at);
        let parts = [seconds, step.optimizer_s, step.data_s, step.queue_s];
        self.observed.steps.push(parts);
    }

    /// Returns what was observed, or why that is not enough.
    fn done(mut self, ended: Option<ExitStatus>, log: &Path) -> Result<Observed, Failure> {
        let steps = self.observed.steps.len();
        if let Some(problem) = self.problem {
            return Err(Failure {
                problem: format!("the program's steps cannot be observed: {problem}"),
                remedy: "report them yourself: docs/profiling.md".into(),
            });
        }
        if let Some(status) = ended.filter(|_| steps < self.steps) {
            if steps < FEWEST {
                return Err(early(status, steps, &self.faults, log));
            }
            self.observed.notes.push(format!(
                "the program ended by itself after {steps} counted steps"
            ));
        }
        if self.others > 0 {
            self.observed.notes.push(format!(
                "{} lines of other processes were left out: figures are those of one process",
                self.others
            ));
        }
        if let Some(fault) = self.faults.first() {
            let count = self.faults.len();
            let note = format!("{count} lines were not understood, first: {fault}");
            self.observed.notes.push(note);
        }
        Ok(self.observed)
    }
}

/// Returns why a program that ended too early gave nothing.
fn early(status: ExitStatus, steps: usize, faults: &[String], log: &Path) -> Failure {
    let output = fs::read(log).unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    let lines: Vec<&str> = output.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n    ");
    let fault = faults.first();
    let fault = fault.map_or(String::new(), |fault| {
        format!("; a line it reported: {fault}")
    });
    let printed = if tail.is_empty() {
        "it printed nothing".to_owned()
    } else {
        format!("it printed\n    {tail}")
    };
    let remedy = if status.success() {
        "let it train for more steps. Steps are seen of torch.optim's optimizers in a python \
         without -I, -E or -S; others are reported by the program itself (docs/profiling.md)"
    } else {
        "make it run without `epochcost profile` first"
    };
    Failure {
        problem: format!(
            "the program ended with {status} after {steps} counted steps{fault}; {printed}"
        ),
        remedy: remedy.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn reading(steps: usize) -> Reading {
        Reading::new(&Launch {
            command: &[],
            threads: 1,
            steps,
            limit: Duration::from_secs(10),
        })
    }

    #[test]
    fn steps_without_seconds_last_from_line_to_line() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let mut reading = reading(2);
        // The first line only begins, and the step after it warms up.
        assert!(!reading.takes(at(0), "step samples=4"));
        assert!(!reading.takes(at(900), "step samples=4"));
        assert!(!reading.takes(at(1000), "step samples=4"));
        assert!(reading.takes(at(1250), "step samples=4"));
        let steps = &reading.observed.steps;
        assert_eq!(steps.len(), 2);
        assert!((steps[0][0] - 0.1).abs() < 1e-9 && (steps[1][0] - 0.25).abs() < 1e-9);
        assert_eq!(reading.observed.samples, [4.0; 4]);
    }

    #[test]
    fn a_time_ends_a_run_whatever_the_steps() {
        let began = Instant::now();
        let at = |s: u64| began + Duration::from_secs(s);
        let mut reading = reading(1000);
        assert!(!reading.takes(at(0), "step seconds=4 warm=1"));
        assert!(!reading.takes(at(5), "step seconds=4"));
        assert!(!reading.takes(at(9), "step seconds=4"));
        assert!(reading.takes(at(15), "step seconds=6"));
        assert_eq!(
            reading.observed.steps,
            [[4.0, 0.0, 0.0, 0.0], [6.0, 0.0, 0.0, 0.0]]
        );
    }

    #[test]
    fn one_process_counts() {
        let now = Instant::now();
        let mut reading = reading(10);
        for line in [
            "begin process=7",
            "step process=8 seconds=9",
            "step process=7 seconds=1",
            "step process=7 seconds=2",
            "nonsense",
        ] {
            assert!(!reading.takes(now, line));
        }
        assert_eq!(reading.observed.steps, [[2.0, 0.0, 0.0, 0.0]]);
        assert_eq!((reading.others, reading.faults.len()), (1, 1));
    }

    #[test]
    fn a_problem_ends_a_run() {
        let mut reading = reading(10);
        assert!(reading.takes(Instant::now(), "problem no hooks"));
        let failure = reading.done(None, Path::new("none")).unwrap_err();
        assert!(failure.problem.contains("no hooks"), "{failure:?}");
    }

    /// The module and this program name the same variable.
    #[test]
    fn the_module_writes_to_the_variables_pipe() {
        assert!(MODULE.contains(&format!("PIPE = \"{}\"", profiled::PIPE)));
    }
}
