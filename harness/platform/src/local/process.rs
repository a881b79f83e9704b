//! A worker process: started, monitored and ended.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fmt, io};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Notify, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::limits::{Confinement, Limits, OutOfMemory, Size, bytes_in, killed_here};
use super::usage::{self, Usage};
use crate::locked;

/// Polling interval of a process's memory, CPU time and files.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time limit of the last output of a process that has ended.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Receiver of the lines that a process writes.
pub(super) type LineSink = Arc<dyn Fn(String) + Send + Sync>;

/// Parameters of a worker process.
pub(super) struct Launch<'a> {
    /// The worker binary.
    pub(super) program: &'a Path,
    /// Arguments of the binary.
    pub(super) arguments: &'a [&'a str],
    /// Complete environment of the process.
    pub(super) environment: &'a [(String, String)],
    /// First bytes on its standard input, which then stays open: the worker takes its
    /// end as the end of the harness.
    pub(super) input: String,
    /// The size of the function that it is a sandbox of.
    pub(super) size: Option<Size>,
}

/// End of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    /// Exit status from the operating system.
    pub(super) status: ExitStatus,
    /// Whether it was ended for its memory.
    pub(super) out_of_memory: bool,
    /// Whether the machine's or a container's memory ran out, and not its own.
    pub(super) starved: bool,
    /// Whether it was ended for the size of its files.
    pub(super) out_of_storage: bool,
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
        let (command, directory) = match launch.size {
            None => (std::process::Command::new(launch.program), None),
            Some(size) => limits.storage.enter(launch.program, size.storage_mb)?,
        };
        let temporary = (directory.as_ref()).map(|directory| ("TMPDIR", directory.path()));
        let mut child = Command::from(command)
            .args(launch.arguments)
            .env_clear()
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .envs(temporary)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let gone = || io::Error::other("it ended at once");
        let pid = child.id().ok_or_else(gone)?;
        let confinement = match launch.size {
            Some(size) => limits.confine(pid, size.memory_mb)?,
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
            size: launch.size,
            confinement,
            directory,
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

    /// Waits until it has ended and all its output has been read.
    pub(super) async fn ended(&self) -> Option<Exit> {
        ended(self.exit.clone()).await
    }

    /// Returns a receiver of its end that outlives this handle.
    pub(super) fn end(&self) -> watch::Receiver<Option<Exit>> {
        self.exit.clone()
    }

    /// Ends the process.
    pub(super) fn kill(&self) {
        self.kill.notify_one();
    }

    /// Returns what it uses now; after its end, what the last poll found.
    pub(super) fn usage(&self) -> Usage {
        usage::of(self.pid).unwrap_or_else(|| *locked(&self.usage))
    }
}

/// Waits for the end of a process; `None` where its handle was dropped.
pub(super) async fn ended(mut exit: watch::Receiver<Option<Exit>>) -> Option<Exit> {
    exit.wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|exit| *exit)
}

impl fmt::Display for Exit {
    /// Formats the end in Lambda's words: `exit status 1`, `signal: killed`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::os::unix::process::ExitStatusExt;
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => write!(f, "exit status {code}"),
            (None, Some(6)) => f.write_str("signal: aborted"),
            (None, Some(9)) => f.write_str("signal: killed"),
            (None, Some(11)) => f.write_str("signal: segmentation fault"),
            (None, Some(signal)) => write!(f, "signal: {signal}"),
            (None, None) => f.write_str("unknown status"),
        }?;
        if self.out_of_storage {
            f.write_str(" (no space left in its directory for temporary files)")?;
        } else if self.starved {
            f.write_str(
                " (the memory of this machine, or of the container that this runs in, ran out first: use fewer workers or smaller batches, or allow more)",
            )?;
        }
        Ok(())
    }
}

/// Monitor of a process. Fields drop in this order: the child is killed before its groups
/// and its directory are removed.
struct Monitor {
    child: Child,
    pid: u32,
    kill: Arc<Notify>,
    usage: Arc<Mutex<Usage>>,
    size: Option<Size>,
    confinement: Confinement,
    directory: Option<TempDir>,
}

/// Resource that a process used too much of.
enum Excess {
    Memory,
    Storage,
}

impl Monitor {
    async fn watch(mut self, readers: [AbortOnDropHandle<()>; 2]) -> Option<Exit> {
        let mut poll = interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut excess = None;
        let killed_before = killed_here();
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status.ok()?,
                () = self.kill.notified() => self.end(),
                _ = poll.tick(), if excess.is_none() => {
                    excess = self.excess();
                    if excess.is_some() {
                        self.end();
                    }
                }
            }
        };
        for reader in readers {
            // A pipe that something else still holds open is not waited for.
            let _ = timeout(LAST_OUTPUT, reader).await;
        }
        let ended_for = self.confinement.out_of_memory();
        let out_of_memory =
            matches!(excess, Some(Excess::Memory)) || ended_for == Some(OutOfMemory::Function);
        if out_of_memory {
            // The process may have grown after the last poll.
            let limit_mb = self.size.map_or(0, |size| size.memory_mb);
            let mut usage = locked(&self.usage);
            usage.peak_mb = usage.peak_mb.max(limit_mb);
        }
        Some(Exit {
            status,
            out_of_memory,
            starved: match ended_for {
                Some(whose) => whose == OutOfMemory::Surroundings,
                None => !status.success() && killed_here() > killed_before,
            },
            out_of_storage: matches!(excess, Some(Excess::Storage)),
        })
    }

    fn end(&mut self) {
        // Fails only where the process has ended already.
        let _ = self.child.start_kill();
    }

    /// Polls the usage; returns what the process uses too much of, where no cgroup or
    /// mount limits it.
    fn excess(&self) -> Option<Excess> {
        let now = usage::of(self.pid)?;
        *locked(&self.usage) = now;
        let size = self.size?;
        let watched = !self.confinement.holds_memory;
        if watched && now.resident_mb > size.memory_mb {
            return Some(Excess::Memory);
        }
        let directory = self.directory.as_ref()?;
        let limit = u64::from(size.storage_mb) << 20;
        (bytes_in(directory.path()) > limit).then_some(Excess::Storage)
    }
}

/// Writes `first` and keeps the pipe open until the task is dropped.
fn keep_open(mut input: ChildStdin, first: String) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        // A process that does not read has ended, and its exit status has the reason.
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
        while let Ok(1..) = output.read_until(b'\n', &mut line).await {
            let text = String::from_utf8_lossy(&line);
            lines(text.strip_suffix('\n').unwrap_or(&text).to_owned());
            line.clear();
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Lines = Arc<Mutex<Vec<String>>>;

    const SMALL: Size = Size {
        memory_mb: 64,
        storage_mb: 1,
    };

    fn start_under(limits: &Limits, arguments: &[&str], size: Option<Size>) -> (Process, Lines) {
        let lines = Lines::default();
        let written = lines.clone();
        let launch = Launch {
            program: Path::new(arguments[0]),
            arguments: &arguments[1..],
            environment: &[("GREETING".into(), "hello".into())],
            input: "first\n".into(),
            size,
        };
        let sink: LineSink = Arc::new(move |line| written.lock().unwrap().push(line));
        (Process::start(&launch, limits, sink).unwrap(), lines)
    }

    fn start(arguments: &[&str], size: Option<Size>) -> (Process, Lines) {
        start_under(&Limits::without_groups(), arguments, size)
    }

    fn sorted(lines: &Lines) -> Vec<String> {
        let mut lines = lines.lock().unwrap().clone();
        lines.sort();
        lines
    }

    #[tokio::test]
    async fn all_output_has_come_when_a_process_has_ended() {
        let script = "read line; echo $line; echo $GREETING >&2; printf last; exit 3";
        let (process, lines) = start(&["/bin/sh", "-c", script], None);
        let exit = process.ended().await.unwrap();
        assert_eq!(exit.to_string(), "exit status 3");
        assert!(!exit.out_of_memory);
        assert_eq!(sorted(&lines), ["first", "hello", "last"]);
    }

    #[tokio::test]
    async fn a_killed_process_says_so() {
        let (process, _) = start(&["/bin/sleep", "600"], None);
        process.kill();
        assert_eq!(process.ended().await.unwrap().to_string(), "signal: killed");
    }

    /// One endless line, which tail keeps in memory.
    const HOARDS: [&str; 2] = ["/usr/bin/tail", "/dev/zero"];

    #[tokio::test]
    async fn a_process_over_its_memory_is_ended_with_groups_and_without() {
        for limits in [Limits::detect(), Limits::without_groups()] {
            let (process, _) = start_under(&limits, &HOARDS, Some(SMALL));
            let exit = process.ended().await.unwrap();
            assert!(exit.out_of_memory && !exit.out_of_storage);
            assert!(process.usage().peak_mb >= 64, "{:?}", process.usage());
        }
    }

    #[tokio::test]
    async fn without_a_mount_files_are_looked_at() {
        let script = "head -c 2000000 /dev/zero > $TMPDIR/a; sleep 600";
        let (process, _) = start(&["/bin/sh", "-c", script], Some(SMALL));
        let exit = process.ended().await.unwrap();
        assert!(exit.out_of_storage && !exit.out_of_memory);
        assert!(exit.to_string().contains("no space left"), "{exit}");
    }

    /// Where nothing can be mounted, the directory stands for `/tmp`.
    #[tokio::test]
    async fn every_sandbox_has_a_directory_of_its_own() {
        let limits = Limits::detect();
        let name = format!("epochcost-{}", uuid::Uuid::new_v4());
        let script = format!("cd ${{TMPDIR:-/tmp}}; ls; echo mine > {name}; cat {name}");
        for _ in 0..2 {
            let (process, lines) = start_under(&limits, &["/bin/sh", "-c", &script], Some(SMALL));
            assert_eq!(process.ended().await.unwrap().to_string(), "exit status 0");
            // Nothing was there before.
            assert_eq!(sorted(&lines), ["mine"]);
        }
        assert!(!Path::new("/tmp").join(name).exists());
    }

    #[tokio::test]
    async fn a_mounted_directory_is_full_at_its_size() {
        let limits = Limits::detect();
        if limits.storage.is_watched() {
            return eprintln!("skipped: {}", limits.storage.how());
        }
        let script = "head -c 2000000 /dev/zero > /tmp/a; wc -c < /tmp/a";
        let (process, lines) = start_under(&limits, &["/bin/sh", "-c", script], Some(SMALL));
        process.ended().await.unwrap();
        let lines = sorted(&lines);
        assert_eq!(lines[0], (1 << 20).to_string(), "{lines:?}");
        assert!(lines[1].contains("No space left"), "{lines:?}");
    }
}
