//! A worker process: started, watched and ended.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Notify, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::limits::{Confinement, Limits};
use super::usage::{self, Usage};

/// How often a process's memory and CPU time are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long the output of a process that has ended may still come.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Takes the lines that a process writes.
pub(super) type LineSink = Arc<dyn Fn(String) + Send + Sync>;

/// How to start a worker process.
pub(super) struct Launch<'a> {
    /// The worker binary.
    pub(super) program: &'a Path,
    /// Its arguments.
    pub(super) arguments: &'a [&'a str],
    /// Its whole environment.
    pub(super) environment: &'a [(String, String)],
    /// What it reads first on its standard input, which then stays open: its
    /// end tells the worker that the harness is no more.
    pub(super) input: String,
    /// Memory size of the function, which limits memory and CPU.
    pub(super) memory_mb: Option<u32>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    /// What the system says.
    pub(super) status: ExitStatus,
    /// Whether it was ended for its memory.
    pub(super) out_of_memory: bool,
}

/// A running worker process; killed when dropped.
pub(super) struct Process {
    pid: u32,
    kill: Arc<Notify>,
    exit: watch::Receiver<Option<Exit>>,
    usage: Arc<Mutex<Usage>>,
    _monitor: AbortOnDropHandle<()>,
}

impl Process {
    /// Starts a process in a group of its own, so that an interrupt at the
    /// terminal reaches the harness alone. Every line of its output and errors
    /// goes to `lines`.
    pub(super) fn start(launch: &Launch<'_>, limits: &Limits, lines: LineSink) -> io::Result<Self> {
        let mut child = Command::new(launch.program)
            .args(launch.arguments)
            .env_clear()
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let gone = || io::Error::other("it ended at once");
        let pid = child.id().ok_or_else(gone)?;
        let confinement = match launch.memory_mb {
            Some(memory_mb) => limits.confine(pid, memory_mb)?,
            None => Confinement::default(),
        };
        let readers = [
            read_lines(child.stdout.take().ok_or_else(gone)?, lines.clone()),
            read_lines(child.stderr.take().ok_or_else(gone)?, lines),
        ];
        let input = child.stdin.take().ok_or_else(gone)?;
        let (ended, exit) = watch::channel(None);
        let usage = Arc::new(Mutex::new(Usage::default()));
        let kill = Arc::new(Notify::new());
        let monitor = Monitor {
            child,
            pid,
            kill: kill.clone(),
            usage: usage.clone(),
            limit_mb: launch.memory_mb.filter(|_| !confinement.holds_memory),
            confinement,
        };
        let first = launch.input.clone();
        let monitor = tokio::spawn(async move {
            let _input = keep_open(input, first);
            if let Some(exit) = monitor.watch(readers).await {
                ended.send_replace(Some(exit));
            }
        });
        Ok(Self {
            pid,
            kill,
            exit,
            usage,
            _monitor: AbortOnDropHandle::new(monitor),
        })
    }

    /// Waits for its end, until which all its output has come.
    pub(super) async fn ended(&self) -> Option<Exit> {
        ended(self.exit.clone()).await
    }

    /// A waiter for its end that outlives this handle.
    pub(super) fn end(&self) -> watch::Receiver<Option<Exit>> {
        self.exit.clone()
    }

    /// Ends it.
    pub(super) fn kill(&self) {
        self.kill.notify_one();
    }

    /// What it has used: now, or when it was last seen before its end.
    pub(super) fn usage(&self) -> Usage {
        usage::of(self.pid)
            .unwrap_or_else(|| *self.usage.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Waits for the end of a process; `None` where its handle was dropped.
pub(super) async fn ended(mut exit: watch::Receiver<Option<Exit>>) -> Option<Exit> {
    match exit.wait_for(Option::is_some).await {
        Ok(exit) => *exit,
        Err(_) => None,
    }
}

impl fmt::Display for Exit {
    /// As Lambda words it: `exit status 1`, `signal: killed`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::os::unix::process::ExitStatusExt;
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => write!(f, "exit status {code}"),
            (None, Some(6)) => f.write_str("signal: aborted"),
            (None, Some(9)) => f.write_str("signal: killed"),
            (None, Some(11)) => f.write_str("signal: segmentation fault"),
            (None, Some(signal)) => write!(f, "signal: {signal}"),
            (None, None) => f.write_str("unknown status"),
        }
    }
}

/// Fields drop in this order: the child is killed before its groups go.
struct Monitor {
    child: Child,
    pid: u32,
    kill: Arc<Notify>,
    usage: Arc<Mutex<Usage>>,
    limit_mb: Option<u32>,
    confinement: Confinement,
}

impl Monitor {
    async fn watch(mut self, readers: [AbortOnDropHandle<()>; 2]) -> Option<Exit> {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut over_limit = false;
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status.ok()?,
                () = self.kill.notified() => self.end(),
                _ = look.tick() => {
                    if self.is_over_limit() && !over_limit {
                        over_limit = true;
                        self.end();
                    }
                }
            }
        };
        for reader in readers {
            // A pipe that something else still holds open is not waited for.
            let _ = timeout(LAST_OUTPUT, reader).await;
        }
        let out_of_memory = over_limit || self.confinement.ran_out_of_memory();
        Some(Exit {
            status,
            out_of_memory,
        })
    }

    fn end(&mut self) {
        // Fails only where the process has ended already.
        let _ = self.child.start_kill();
    }

    fn is_over_limit(&self) -> bool {
        let Some(now) = usage::of(self.pid) else {
            return false;
        };
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = now;
        self.limit_mb.is_some_and(|limit| now.resident_mb > limit)
    }
}

/// Writes `first` and keeps the pipe open until the task is dropped.
fn keep_open(mut input: ChildStdin, first: String) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        // A process that does not read ends, and its end says why.
        let _ = input.write_all(first.as_bytes()).await;
        let _ = input.flush().await;
        std::future::pending::<()>().await;
    }))
}

fn read_lines(
    output: impl AsyncRead + Send + Unpin + 'static,
    lines: LineSink,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output
            .read_until(b'\n', &mut line)
            .await
            .is_ok_and(|read| read > 0)
        {
            let text = String::from_utf8_lossy(&line);
            lines(text.strip_suffix('\n').unwrap_or(&text).to_owned());
            line.clear();
        }
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn start(program: &str, arguments: &[&str], memory_mb: Option<u32>) -> (Process, Lines) {
        let lines = Lines::default();
        let written = lines.clone();
        let launch = Launch {
            program: Path::new(program),
            arguments,
            environment: &[("GREETING".into(), "hello".into())],
            input: "first\n".into(),
            memory_mb,
        };
        let sink: LineSink = Arc::new(move |line| written.lock().unwrap().push(line));
        (
            Process::start(&launch, &Limits::without_groups(), sink).unwrap(),
            lines,
        )
    }

    type Lines = Arc<Mutex<Vec<String>>>;

    #[tokio::test]
    async fn all_output_has_come_when_a_process_has_ended() {
        let script = "read line; echo $line; echo $GREETING >&2; printf last; exit 3";
        let (process, lines) = start("/bin/sh", &["-c", script], None);
        let exit = process.ended().await.unwrap();
        assert_eq!(
            (exit.to_string().as_str(), exit.out_of_memory),
            ("exit status 3", false)
        );
        let mut lines = lines.lock().unwrap().clone();
        lines.sort();
        assert_eq!(lines, ["first", "hello", "last"]);
    }

    #[tokio::test]
    async fn a_killed_process_says_so() {
        let (process, _) = start("/bin/sleep", &["600"], None);
        process.kill();
        assert_eq!(process.ended().await.unwrap().to_string(), "signal: killed");
    }

    #[tokio::test]
    async fn without_groups_memory_is_watched() {
        // One endless line, which tail keeps in memory.
        let (process, _) = start("/usr/bin/tail", &["/dev/zero"], Some(64));
        let exit = process.ended().await.unwrap();
        assert!(exit.out_of_memory);
        assert!(process.usage().peak_mb > 64);
    }
}
