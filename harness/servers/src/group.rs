//! Process groups that end together.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Script of the watcher, with the server's directory as its argument. Standard input
/// is a pipe whose other end this process holds. A line on it asks for the end of all
/// processes of the group, the watcher among them. The end of the pipe means that this
/// process has ended: then the watcher removes the directory, too.
const WATCHER: &str = r#"read -r line || rm -rf -- "$1"; kill -KILL 0"#;
/// Script of the guard, with the directory and the group as its arguments: a second watcher
/// outside the group, for the case that the first one was killed. It waits on a pipe of its own
/// in the same way.
const GUARD: &str = r#"read -r line || rm -rf -- "$1"; kill -KILL "-$2""#;
/// Time limit for the end of killed processes.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Process group that ends with this value, and with this process however it ends.
///
/// The group is led by a watcher, a shell that waits for the end of a pipe from
/// this process and then kills the group that it is in. The kernel's parent
/// death signal would do it without a shell, but is sent at the end of the
/// thread that started the process, and asks for unsafe code.
pub(crate) struct Group {
    watcher: Child,
    lifeline: Option<ChildStdin>,
    guard: Child,
    guard_lifeline: Option<ChildStdin>,
    members: Vec<Child>,
}

impl Group {
    /// Creates a group without servers. Its directory is removed if this process ends
    /// before the group.
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        let shell = |script: &str, name: &str, arguments: &[&OsStr]| {
            Command::new("/bin/sh")
                .args(["-c", script, name])
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()
        };
        let directory = directory.as_os_str();
        let mut watcher = shell(WATCHER, "epochcost-watcher", &[directory])?;
        let group = watcher.id().to_string();
        let guard = shell(GUARD, "epochcost-guard", &[directory, OsStr::new(&group)]);
        let mut guard = match guard {
            Ok(guard) => guard,
            Err(error) => {
                // The end of its pipe would remove the directory.
                let _ = watcher.kill();
                let _ = watcher.wait();
                return Err(error);
            }
        };
        Ok(Self {
            lifeline: watcher.stdin.take(),
            watcher,
            guard_lifeline: guard.stdin.take(),
            guard,
            members: Vec::new(),
        })
    }

    /// Starts a process in the group.
    pub(crate) fn start(&mut self, command: &mut Command) -> io::Result<()> {
        let member = command
            .stdin(Stdio::null())
            .process_group(self.id().cast_signed())
            .spawn()?;
        self.members.push(member);
        Ok(())
    }

    /// Returns the id of the process started last: the server.
    pub(crate) fn server(&self) -> u32 {
        self.members.last().map_or(0, Child::id)
    }

    /// Returns the exit status of the process started last, or `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.members.last_mut()?.try_wait().ok()?
    }

    /// Waits until the server ends on its own.
    pub(crate) fn wait(&mut self) {
        if let Some(server) = self.members.last_mut() {
            // Fails only after an earlier wait.
            let _ = server.wait();
        }
    }

    /// Kills all processes, without waiting for their end.
    pub(crate) fn kill(&mut self) {
        // A write fails only where the group has ended already.
        let lifelines = [self.lifeline.take(), self.guard_lifeline.take()];
        for mut lifeline in lifelines.into_iter().flatten() {
            let _ = lifeline.write_all(b"end\n");
        }
    }

    fn id(&self) -> u32 {
        self.watcher.id()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        // Every failure here means that the process in question has ended.
        let _ = self.watcher.wait();
        let _ = self.guard.wait();
        for member in &mut self.members {
            // The watcher has killed it, unless the watcher was killed itself.
            let _ = member.kill();
            let _ = member.wait();
        }
        let started = Instant::now();
        while has_members(self.id()) && started.elapsed() < END_TIMEOUT {
            sleep(Duration::from_millis(2));
        }
    }
}

/// Returns whether a process of the group still runs.
fn has_members(group: u32) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return false;
    };
    processes.flatten().any(|process| {
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // A process keeps its ports until its last thread has ended, while its
        // state is that of its first.
        let threads = || fs::read_dir(process.path().join("task")).map_or(0, Iterator::count);
        runs_in(&stat, group, threads)
    })
}

/// Whether a line of `/proc/PID/stat` is of a process of the group of which a
/// thread has not ended (proc(5): after the name in parentheses come state,
/// parent and group).
fn runs_in(stat: &str, group: u32, threads: impl Fn() -> usize) -> bool {
    let Some((_, after_name)) = stat.rsplit_once(')') else {
        return false;
    };
    let mut fields = after_name.split_whitespace();
    let state = fields.next();
    let of = fields.nth(1).and_then(|field| field.parse().ok());
    of == Some(group) && (!matches!(state, Some("Z" | "X")) || threads() > 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A group in a directory that runs a script.
    fn running(directory: &Path, script: &str) -> Group {
        let mut group = Group::new(directory).unwrap();
        let mut shell = Command::new("/bin/sh");
        group.start(shell.args(["-c", script])).unwrap();
        group
    }

    /// A shell with a child of its own, which outlives the shell.
    const SLEEPS: &str = "sleep 600 & sleep 600; true";

    #[test]
    fn the_whole_group_ends_when_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let mut group = running(directory.path(), SLEEPS);
        let id = group.id();
        assert!(has_members(id));
        assert!(group.ended().is_none());
        drop(group);
        assert!(!has_members(id));
        assert!(directory.path().is_dir(), "removed by its owner alone");
    }

    #[test]
    fn the_group_and_its_directory_end_with_the_lifeline() {
        let directory = tempfile::tempdir().unwrap();
        let mut group = running(directory.path(), SLEEPS);
        // What the kernel does when this process is killed.
        drop((group.lifeline.take(), group.guard_lifeline.take()));
        group.wait();
        assert!(group.ended().is_some());
        assert!(!directory.path().exists());
    }

    #[test]
    fn the_group_ends_with_the_lifeline_although_its_watcher_was_killed() {
        let directory = tempfile::tempdir().unwrap();
        let mut group = running(directory.path(), SLEEPS);
        group.watcher.kill().unwrap();
        group.watcher.wait().unwrap();
        assert!(group.ended().is_none());
        drop((group.lifeline.take(), group.guard_lifeline.take()));
        group.wait();
        group.guard.wait().unwrap();
        let has_ended = || !has_members(group.id()) && !directory.path().exists();
        let started = Instant::now();
        while !has_ended() && started.elapsed() < END_TIMEOUT {
            sleep(Duration::from_millis(2));
        }
        assert!(has_ended());
    }

    #[test]
    fn an_early_end_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let mut group = running(directory.path(), "exit 3");
        group.wait();
        assert_eq!(group.ended().unwrap().code(), Some(3));
    }

    #[test]
    fn groups_are_read_behind_any_name() {
        assert!(runs_in("12 (a) b (c)) S 1 77 77 0", 77, || 1));
        assert!(runs_in("12 (beam) Z 1 77 77 0", 77, || 3), "one thread");
        assert!(!runs_in("12 (sh) Z 1 77 77 0", 77, || 1), "ended");
        assert!(!runs_in("12 (sh) S 77 1 77 0", 77, || 1), "the parent's");
        assert!(!runs_in("", 77, || 1));
    }
}
