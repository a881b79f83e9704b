//! What trials take of this machine, checked before the first one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;

use epochcost_spec::rows::Row;
use epochcost_systems::{FanOut, State, find};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::PlatformError;

/// File handles of a sandbox in the harness: pipes of the process, files of its groups, and its
/// connections to the services, of which a worker of its own has more than a function of a workflow.
/// 11 to 26 were counted for 1 to 12 workers of seven systems.
const PER_SANDBOX: [usize; 2] = [10, 26];
/// File handles of two peers of a workflow at most, each of which reads from the other's store.
const PER_PAIR: usize = 7;
/// End of a message on too few of them.
const FEW_FILES: &str = "; too few open files are allowed: raise the limit with `ulimit -n`";
/// Open files that the limit is raised to, at most: some servers take memory for each that they
/// may open.
const ENOUGH: u64 = 1 << 16;
/// Iterations of an inline Map state that run at the same time.
const MAP_WIDTH: usize = 40;

/// Raises the limit on open files as far as this user may.
pub fn raise_limits() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    if limit.current.is_some_and(|current| current < most) {
        let raised = Rlimit {
            current: Some(most),
            ..limit
        };
        // Where the limit may not be raised, what it is too low for says so.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// Returns the text of an error while `doing` something, with the limit to raise if it is one.
pub fn explained(doing: &str, error: &io::Error) -> String {
    let few_files = [Errno::MFILE, Errno::NFILE].map(|few| Some(few.raw_os_error()));
    let remedy = if few_files.contains(&error.raw_os_error()) {
        FEW_FILES
    } else if error.kind() == io::ErrorKind::WouldBlock {
        "; too few processes and threads are allowed: raise the limit with `ulimit -u`"
    } else {
        ""
    };
    format!("failed to {doing}: {error}{remedy}")
}

/// Returns whether this process may open no further file: its servers then take no connection, and
/// workers see a time-out.
pub(super) fn is_short_of_files() -> bool {
    let opened = File::open("/dev/null");
    opened.is_err_and(|error| error.raw_os_error() == Some(Errno::MFILE.raw_os_error()))
}

/// Returns the reason of a failure, with the limit to raise where files ran out or it says so.
pub(super) fn of_files(reason: String, ran_out: bool) -> String {
    let too_many = format!("(os error {})", Errno::MFILE.raw_os_error());
    let is_one = (ran_out || reason.contains(&too_many)) && !reason.contains(FEW_FILES);
    reason + if is_one { FEW_FILES } else { "" }
}

/// Returns the end of a message on a sandbox that does not start in time: the limit on
/// processes, where it is low.
pub(super) fn few_threads() -> String {
    match getrlimit(Resource::Nproc).current {
        Some(limit) if limit < 1_024 => format!(
            "; this user may have {limit} processes and threads: raise the limit with `ulimit -u`"
        ),
        _ => String::new(),
    }
}

/// Returns the number of sandboxes and workers that a row has at the same time: those of a function
/// stay for its next call.
fn processes(row: &Row) -> usize {
    let job = &row.job;
    let bound = find(&job.system).and_then(|system| system.bind(job).ok());
    let states = bound.as_ref().map_or_else(Vec::new, |bound| bound.states());
    let rounds = bound.map_or(1, |bound| bound.rounds().max(1));
    let batches = job.batches_per_worker.div_ceil(rounds);
    let mut wide = BTreeMap::new();
    for state in states {
        let (function, at_once) = match state {
            State::Task { function } => (function, 1),
            State::Batches {
                function,
                fan_out: FanOut::Parallel,
            } => (function, batches),
            State::Batches {
                function,
                fan_out: FanOut::Map,
            } => (function, batches.min(MAP_WIDTH)),
        };
        let most = wide.entry(function).or_insert(1);
        *most = at_once.max(*most);
    }
    let limit = row.sandbox.account.concurrency_limit as usize;
    let functions = wide.into_values().map(|each| limit.min(job.workers * each));
    functions.sum::<usize>().max(job.workers)
}

/// Refuses rows that run more processes at the same time than this process may have files for.
///
/// # Errors
/// [`PlatformError::Refused`], with the limit to raise.
pub(super) fn has_handles_for(rows: &[Row]) -> Result<(), PlatformError> {
    let allowed = getrlimit(Resource::Nofile).current;
    let most = rows.iter().map(|row| (processes(row), row));
    let most = most.max_by_key(|(count, _)| *count);
    let (Some(allowed), Some((count, row))) = (allowed, most) else {
        return Ok(());
    };
    let [fewest, most] = PER_SANDBOX.map(|each| each * count);
    let most = most + PER_PAIR * row.job.workers * row.job.workers;
    if fewest as u64 <= allowed {
        return Ok(());
    }
    let id = &row.id;
    Err(PlatformError::lacking(
        format!(
            "{id} has {count} processes at the same time, which take {fewest} to {most} open files, \
             and {allowed} are allowed"
        ),
        format!("raise the limit with `ulimit -n {most}`, or set fewer workers or batches"),
    ))
}

/// Refuses a machine whose loopback interface is down.
///
/// # Errors
/// [`PlatformError::Refused`], with the remedy.
pub(super) fn has_loopback() -> Result<(), PlatformError> {
    let address = Ipv4Addr::LOCALHOST;
    // Listening works on an interface that is down; reaching it does not.
    let reached = TcpListener::bind((address, 0))
        .and_then(|listener| TcpStream::connect(listener.local_addr()?));
    reached.map(drop).map_err(|error| {
        PlatformError::lacking(
            format!("workers reach services at {address}, and this machine does not: {error}"),
            "bring the loopback interface up (`ip link set lo up`), or simulate with \
             `--platform sim`",
        )
    })
}

/// Refuses a directory for temporary files that cannot be written to.
///
/// # Errors
/// [`PlatformError::Refused`], with the remedy.
pub(super) fn has_temporary_files(directory: &Path) -> Result<(), PlatformError> {
    let made = tempfile::tempdir_in(directory).map(drop);
    let directory = directory.display();
    made.map_err(|error| {
        PlatformError::lacking(
            format!(
                "functions keep their /tmp in {directory}, which cannot be written to: {error}"
            ),
            "set TMPDIR to a directory that can be written to",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::holds;

    #[test]
    fn what_is_too_low_is_named() {
        let text = |code| explained("start a sandbox", &io::Error::from_raw_os_error(code));
        assert!(text(24).contains("ulimit -n"), "{}", text(24));
        assert!(text(11).contains("ulimit -u"), "{}", text(11));
        assert!(!text(2).contains("ulimit"), "{}", text(2));
        let error = has_temporary_files(Path::new("/nonexistent")).unwrap_err();
        holds(error, &["/nonexistent", "set TMPDIR"]);
    }
}
