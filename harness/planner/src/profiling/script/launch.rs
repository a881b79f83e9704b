//! One run of the user's program, until it has taken enough steps.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use epochcost_environment::profiled;
use epochcost_spec::ui::eprint_line;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::lines::{Line, Step, parse};
use super::observed::Observed;
use super::shown::command_line;

/// The module that reports PyTorch's steps.
const MODULE: &str = include_str!("../../../../python/epochcost_profile.py");
/// What starts it with every Python program.
const START: &str = include_str!("../../../../python/sitecustomize.py");
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
/// Lines of the program's output that an error repeats, and the characters of each.
const TAIL: usize = 12;
const WIDEST: usize = 500;
/// Longest line that is read from the pipe, bytes; what is longer is several.
const LONGEST: u64 = 1 << 16;
/// Time from a request to end until the program is killed.
const PATIENCE: Duration = Duration::from_millis(1200);
/// Interval at which its processes are looked for meanwhile.
const POLL: Duration = Duration::from_millis(20);
/// What the module adds to the name of a file that it keeps.
const KEPT: &str = ".epochcost-kept";

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
    /// An end of the pipe, for a line between two programs.
    writer: fs::File,
    lines: UnboundedReceiver<(Instant, String)>,
    runs: usize,
}

impl Bench {
    /// Makes the pipe and the module's directory.
    ///
    /// # Errors
    /// When the directory cannot be written, the pipe not be made, or no thread be started.
    pub(super) async fn new() -> std::io::Result<Self> {
        use std::io::Error;
        let directory = tempfile::Builder::new()
            .prefix("epochcost-profile-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()?;
        adopt_orphans();
        let python = directory.path().join("python");
        fs::create_dir(&python)?;
        fs::write(python.join("epochcost_profile.py"), MODULE)?;
        fs::write(python.join("sitecustomize.py"), START)?;
        let pipe = directory.path().join("steps");
        let made = Command::new("mkfifo").arg(&pipe).status().await?;
        if !made.success() {
            return Err(Error::other(format!("mkfifo ended with {made}")));
        }
        // Open for both, so that the program's end does not end the pipe.
        let both = fs::OpenOptions::new().read(true).write(true).open(&pipe)?;
        let writer = both.try_clone()?;
        let (sender, lines) = unbounded_channel();
        let thread = std::thread::Builder::new().name("steps".into());
        thread
            .spawn(move || {
                let mut reader = BufReader::new(both);
                let mut line = Vec::new();
                while (&mut reader)
                    .take(LONGEST)
                    .read_until(b'\n', &mut line)
                    .is_ok_and(|bytes| bytes > 0)
                {
                    let text = String::from_utf8_lossy(&line).into_owned();
                    line.clear();
                    if sender.send((Instant::now(), text)).is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| {
                Error::new(error.kind(), format!("failed to start a thread: {error}"))
            })?;
        Ok(Self {
            directory,
            pipe,
            writer,
            lines,
            runs: 0,
        })
    }

    /// Takes what an earlier program has written, which may still be in the pipe: all lines before one
    /// of ours.
    async fn empty(&mut self) -> std::io::Result<()> {
        self.runs += 1;
        let mark = format!("run {}\n", self.runs);
        // Behind a line that the program did not end.
        self.writer.write_all(format!("\n{mark}").as_bytes())?;
        while let Some((_, text)) = self.lines.recv().await {
            if text == mark {
                break;
            }
        }
        Ok(())
    }

    /// Runs the program until it has taken enough steps, and ends it.
    ///
    /// # Errors
    /// When it cannot be started, ends too early, or says that it cannot be profiled.
    pub(super) async fn run(&mut self, launch: &Launch<'_>) -> Result<Observed, Failure> {
        let failed = |error: std::io::Error| Failure {
            problem: format!("failed to start {}: {error}", command_line(launch.command)),
            remedy: "give the program as you start it: epochcost profile -- python train.py".into(),
        };
        self.empty().await.map_err(failed)?;
        let log = self.directory.path().join("output");
        let mut running = self.start(launch, &log).map_err(failed)?;
        let mut reading = Reading::new(launch);
        let ended = loop {
            let ends = reading.ends().map(tokio::time::Instant::from_std);
            let late = async move {
                match ends {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                line = self.lines.recv() => {
                    let Some((at, text)) = line else { break None };
                    if reading.takes(at, &text) {
                        break None;
                    }
                }
                status = running.child.wait() => break status.ok(),
                () = late => break None,
            }
        };
        if ended.is_some() {
            // Its last lines are on their way. Of a program that is ended here, what follows is no
            // step of its own.
            tokio::time::sleep(ARRIVAL).await;
            while let Ok((at, text)) = self.lines.try_recv() {
                reading.takes(at, &text);
            }
        }
        drop(running);
        reading.done(ended, &log)
    }

    fn start(&self, launch: &Launch<'_>, log: &Path) -> std::io::Result<Running> {
        let Some((program, arguments)) = launch.command.split_first() else {
            return Err(std::io::Error::other("there is no program"));
        };
        let mut path = vec![self.directory.path().join("python")];
        if let Some(own) = std::env::var_os("PYTHONPATH") {
            path.extend(std::env::split_paths(&own));
        }
        let path = std::env::join_paths(path).map_err(std::io::Error::other)?;
        let output = fs::File::create(log)?;
        let (terminal, input) = match terminal() {
            Ok((ours, theirs)) => (Some(ours), Stdio::from(theirs)),
            Err(_) => (None, Stdio::null()),
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("PYTHONPATH", path)
            .env(profiled::PIPE, &self.pipe)
            .stdin(input)
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .kill_on_drop(true);
        for name in THREADS {
            command.env(name, launch.threads.to_string());
        }
        let child = command.spawn()?;
        Ok(Running {
            group: child.id().and_then(|id| Pid::from_raw(id.cast_signed())),
            child,
            pipe: self.pipe.clone(),
            _terminal: terminal,
        })
    }
}

/// Returns both ends of a terminal of 24 x 80 for the program's standard input: programs ask for
/// its size. It has no input: each of these characters ends one read.
fn terminal() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    use rustix::{fs, pty, termios};
    const END_OF_FILE: [u8; 64] = [4; 64];
    let ours = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY)?;
    pty::grantpt(&ours)?;
    pty::unlockpt(&ours)?;
    let name = pty::ptsname(&ours, Vec::new())?;
    let flags = fs::OFlags::RDWR | fs::OFlags::NOCTTY | fs::OFlags::CLOEXEC;
    let theirs = fs::open(name.as_c_str(), flags, fs::Mode::empty())?;
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
    let size = termios::Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    termios::tcsetwinsize(&theirs, size)?;
    rustix::io::write(&ours, &END_OF_FILE)?;
    Ok((ours, theirs))
}

/// A program that runs. With this value its processes end, and files that it replaced are put back.
struct Running {
    child: Child,
    /// Its group of processes.
    group: Option<Pid>,
    /// The pipe, which the environment of all its processes names.
    pipe: PathBuf,
    _terminal: Option<OwnedFd>,
}

impl Running {
    /// Returns its processes, those that left its group among them (as the ranks of torchrun do):
    /// whose environment names the pipe, and all that descend from this program, which has no other
    /// children meanwhile.
    fn processes(&self) -> Vec<Pid> {
        let Ok(all) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let ids = (all.flatten()).filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let parents: HashMap<i32, i32> = ids.filter_map(|id| Some((id, parent(id)?))).collect();
        let pipe = self.pipe.as_os_str().as_encoded_bytes();
        let names_pipe = |id: &i32| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            let mut fields = environment.split(|byte| *byte == 0);
            fields.any(|field| field.ends_with(pipe))
        };
        let us = std::process::id().cast_signed();
        let descends = |id: &i32| {
            let mut ancestors = std::iter::successors(parents.get(id), |id| parents.get(id));
            ancestors.any(|ancestor| *ancestor == us)
        };
        let ours = parents.keys().filter(|id| names_pipe(id) || descends(id));
        ours.filter_map(|id| Pid::from_raw(*id)).collect()
    }

    /// Sends a signal; processes that have ended meanwhile are no fault.
    fn signal(&mut self, signal: Signal) {
        // The group of a child that was waited for may be another's by now.
        if let Some(group) = self.group.filter(|_| self.child.id().is_some()) {
            let _ = kill_process_group(group, signal);
        }
        for process in self.processes() {
            let _ = kill_process(process, signal);
        }
    }
}

/// Has processes whose parent has ended become children of this one, so that they are found.
fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Returns the parent of a process that runs; none of one that has ended and was not waited for.
fn parent(id: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The program's name, in parentheses, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let is_over = matches!(fields.next()?, "Z" | "X");
    fields.next()?.parse().ok().filter(|_| !is_over)
}

impl Drop for Running {
    fn drop(&mut self) {
        // First as a user would.
        self.signal(Signal::TERM);
        let began = Instant::now();
        let is_over = |running: &mut Self| {
            let ended = running.child.try_wait();
            ended.is_ok_and(|status| status.is_some()) && running.processes().is_empty()
        };
        while !is_over(self) && began.elapsed() < PATIENCE {
            std::thread::sleep(POLL);
        }
        self.signal(Signal::KILL);
        // Written by the module, a line for each file that the program wrote over.
        let list = self.pipe.with_file_name("kept");
        for path in fs::read_to_string(&list).unwrap_or_default().lines() {
            if let Err(error) = fs::rename(format!("{path}{KEPT}"), path) {
                eprint_line(format_args!(
                    "warning: failed to put back {path} from {path}{KEPT}: {error}"
                ));
            }
        }
        let _ = fs::remove_file(list);
    }
}

/// A run while it reports.
#[derive(Default)]
struct Reading {
    steps: usize,
    limit: Duration,
    observed: Observed,
    /// The process that takes the steps: the first that reported one.
    process: Option<u64>,
    /// End of the step before.
    last: Option<Instant>,
    skipped: usize,
    first_is_over: bool,
    /// Steps, warm-up among them.
    taken: usize,
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
            ..Self::default()
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
            Line::Begin => {
                self.last = Some(at);
                self.taken += 1;
            }
            Line::Step(step) => self.step(at, step),
            Line::Model(model) => self.observed.model = Some(*model),
            Line::Work(work) => self.observed.work.push(work),
            Line::Evaluation(seconds, samples) => {
                self.observed.evaluation[0] += seconds;
                self.observed.evaluation[1] += samples;
            }
            Line::Rate(rate) => self.observed.rate = Some(rate),
            Line::Note(note) => {
                if !self.observed.notes.contains(&note) {
                    self.observed.notes.push(note);
                }
            }
            Line::Problem(problem) => {
                self.problem = Some(problem);
                return true;
            }
        }
        let since = self.counting_since.map(|since| at.duration_since(since));
        let steps = self.observed.steps.len();
        steps >= self.steps || (steps > 0 && since.is_some_and(|since| since >= self.limit))
    }

    /// Returns when the counted steps have lasted as long as they may.
    fn ends(&self) -> Option<Instant> {
        let since = self.counting_since?.checked_add(self.limit);
        since.filter(|_| !self.observed.steps.is_empty())
    }

    fn step(&mut self, at: Instant, step: Step) {
        // Without its own seconds, a step lasts from the line before; the first only begins.
        let counted = self.last.map(|last| at.duration_since(last).as_secs_f64());
        self.last = Some(at);
        self.taken += 1;
        if self.first_is_over {
            *self.observed.seen.entry(step.kind).or_default() += 1.0;
        }
        self.first_is_over = true;
        if self.observed.steps.is_empty() {
            // Those of the warm-up only as long as there are no others.
            self.observed.samples.clear();
        }
        self.observed.samples.extend(step.samples);
        if let Some(peak_mb) = step.peak_mb {
            let most = self.observed.peak_mb.unwrap_or(0.0).max(peak_mb);
            self.observed.peak_mb = Some(most);
        }
        let Some(seconds) = step.seconds.or(counted).filter(|_| !step.is_warm_up) else {
            return;
        };
        if self.skipped < WARM_UP {
            self.skipped += 1;
            self.counting_since = Some(at);
            return;
        }
        self.counting_since.get_or_insert(at);
        let parts = [seconds, step.optimizer_s, step.data_s, step.queue_s];
        self.observed.steps.push(parts);
        self.observed.kinds.push(step.kind);
        self.observed.apart.push(step.apart_s);
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
            if steps < FEWEST || !status.success() {
                return Err(early(status, steps, self.taken, &self.faults, log));
            }
            self.observed.ended_after = Some(self.taken);
            self.observed.notes.push(format!(
                "the program ended by itself after {steps} counted steps"
            ));
        }
        if self.others > 0 {
            let others = self.others;
            self.observed.notes.push(format!(
                "{others} lines of other processes were left out: figures are those of one process"
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
fn early(status: ExitStatus, steps: usize, taken: usize, faults: &[String], log: &Path) -> Failure {
    let output = fs::read(log).unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    let mut lines: Vec<&str> = output.lines().collect();
    // What a launcher adds hides the error of the process that failed.
    let launcher =
        |line: &&str| line.contains("distributed.elastic") || line.contains("distributed/elastic");
    let banner = lines.iter().position(launcher);
    let banner = banner.filter(|line| *line > 0 && !status.success());
    lines.truncate(banner.unwrap_or(lines.len()));
    let tail = &lines[lines.len().saturating_sub(TAIL)..];
    let narrow = |line: &&str| line.chars().take(WIDEST).collect::<String>();
    let tail = tail.iter().map(narrow).collect::<Vec<_>>().join("\n    ");
    let fault = faults.first();
    let fault = fault.map(|fault| format!("; a line it reported: {fault}"));
    let fault = fault.unwrap_or_default();
    let printed = match tail.as_str() {
        "" => "it printed nothing".to_owned(),
        tail => format!("it printed\n    {tail}"),
    };
    let remedy = if status.success() && taken > 0 {
        "let it train for at least 7 steps: the first four warm up, and three are timed"
    } else if status.success() {
        "steps are seen of torch.optim's optimizers in a python without -I, -E or -S; any other \
         program reports them itself (docs/profiling.md)"
    } else {
        "make it run without `epochcost profile` first"
    };
    Failure {
        problem: format!(
            "the program ended with {status} after {taken} steps, {steps} counted steps{fault}; {printed}"
        ),
        remedy: remedy.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{holds, lacks};

    fn reading(steps: usize) -> Reading {
        Reading::new(&Launch {
            command: &[],
            threads: 1,
            steps,
            limit: Duration::from_secs(10),
        })
    }

    /// What has been read when lines have come, `;` between them.
    fn read(lines: &str) -> Observed {
        let mut reading = reading(100);
        for line in lines.split(';') {
            reading.takes(Instant::now(), line);
        }
        reading.observed
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
        assert_eq!(reading.observed.samples, [4.0; 2]);
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
        let steps = [4.0, 6.0].map(|seconds| [seconds, 0.0, 0.0, 0.0]);
        assert_eq!(reading.observed.steps, steps);
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

    /// Two kinds alternate after the first step; of a third nothing was counted.
    #[test]
    fn operations_are_the_mean_of_kinds_as_often_as_they_were_seen() {
        let lines = "step seconds=9 kind=0 warm=1;work flops=999 samples=8 kind=0;\
                     step seconds=1 kind=1 warm=1;work flops=10 samples=8 kind=1;work flops=14 samples=8 kind=1;\
                     step seconds=1 kind=2;work flops=6 samples=4 kind=2;\
                     step seconds=1 kind=1;step seconds=1 kind=1;step seconds=4 kind=3";
        let observed = read(lines);
        // Twice the time of one of a kind that was counted in one of two steps.
        assert_eq!(observed.beyond_counted(), Some(2.0));
        assert_eq!(observed.operations(), Some((10.5, Some(7.0))));
        assert_eq!(Observed::default().operations(), None);
    }

    #[test]
    fn operations_that_vary_are_known_as_far_as_their_sample_tells() {
        let error = |lines: &str| {
            let first = "step seconds=1 kind=9 warm=1;";
            read(&format!("{first}{lines}")).operations_error()
        };
        let step = |kind: u64, flops: f64| {
            format!("step seconds=1 kind={kind};work flops={flops} samples=2 kind={kind};")
        };
        // Every step of its own size: a mean of 25 a sample, known to 2 x 12.9 / sqrt(4).
        let sizes = [20.0, 40.0, 60.0, 80.0].into_iter().zip(0..);
        let sizes: String = sizes.map(|(flops, kind)| step(kind, flops)).collect();
        let found = error(&sizes).unwrap();
        assert!((found - 12.909_944 / 25.0).abs() < 1e-6, "{found}");
        // What a program does in turn is counted as often as it is seen.
        assert_eq!(error(&(step(0, 20.0) + &step(1, 60.0))), None);
        assert_eq!(error(&step(3, 20.0).repeat(5)), Some(0.0));
    }

    #[test]
    fn a_problem_ends_a_run() {
        let mut reading = reading(10);
        assert!(reading.takes(Instant::now(), "problem no hooks"));
        let failure = reading.done(None, Path::new("none")).unwrap_err();
        assert!(failure.problem.contains("no hooks"), "{failure:?}");
    }

    /// torchrun's banner is longer than what an error repeats.
    #[test]
    fn a_ranks_own_error_is_shown_and_not_its_launchers() {
        use std::os::unix::process::ExitStatusExt;
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("output");
        let banner =
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n".repeat(20);
        fs::write(&log, format!("Traceback\nKeyError: 'lr'\n{banner}")).unwrap();
        let failed = early(ExitStatus::from_raw(256), 0, 0, &[], &log).problem;
        holds(&failed, &["KeyError"]);
        lacks(&failed, &["elastic"]);
        // One step is said to be too few, and not to be none.
        let ended = early(ExitStatus::from_raw(0), 0, 1, &[], &log);
        assert!(ended.remedy.contains("at least 7 steps"), "{ended:?}");
    }

    /// The module and this program name the same variable.
    #[test]
    fn the_module_writes_to_the_variables_pipe() {
        assert!(MODULE.contains(&format!("PIPE = \"{}\"", profiled::PIPE)));
    }
}
