//! The `epochcost` command.

// A run on AWS nests the SDK's futures deeper than the default.
#![recursion_limit = "256"]

use std::fs::{self, File};
use std::io;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread::{self, Builder};
use std::time::Duration;

use epochcost::run::{survive_file_limit, watch};
use epochcost_platform::local;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::eprint_line;
use rustix::io::Errno;
use tokio::runtime::{self, Runtime};

/// Simulations of many workers make and drop small values all the time: with
/// the system's allocator they take half as long again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// File handles that every verb takes: with fewer, the runtime's own pipes would be missing.
const HANDLES: usize = 16;

/// Threads beside those of the runtime: for signals, and for work that blocks.
const SPARE_THREADS: usize = 3;

/// Time at the end for work on other threads, a build or a download that was cut short.
const LAST_WORK: Duration = Duration::from_secs(1);

/// Returns how many of `wanted` threads can be had at the same time.
fn threads(wanted: usize) -> usize {
    let gate = Mutex::new(());
    let started = thread::scope(|scope| {
        let closed = gate.lock();
        let start = |_| Builder::new().spawn_scoped(scope, || drop(gate.lock()));
        let started = (0..wanted).map_while(|at| start(at).ok()).count();
        drop(closed);
        started
    });
    // The kernel counts a thread until it is gone, a moment after its end.
    for _ in 0..50 {
        if fs::read_dir("/proc/self/task").map_or(1, Iterator::count) <= 1 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    started
}

/// Returns the runtime. It panics where one of its threads does not start, so that with few it has
/// none but those for blocking work.
///
/// # Errors
/// When too few file handles are allowed, or threads.
fn runtime() -> Result<Runtime, String> {
    local::raise_limits();
    let handles: io::Result<Vec<File>> = (0..HANDLES).map(|_| File::open("/dev/null")).collect();
    drop(handles.map_err(|error| local::explained("open /dev/null", &error))?);
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let spare = threads(workers + SPARE_THREADS);
    if spare < SPARE_THREADS {
        return Err(local::explained("start threads", &Errno::AGAIN.into()));
    }
    // The kernel ends no process 1, the program of a container, on a signal that it does not
    // handle.
    if std::process::id() == 1 {
        watch().map_err(|error| local::explained("listen for signals", &error))?;
    }
    let mut builder = if spare < workers + SPARE_THREADS {
        runtime::Builder::new_current_thread()
    } else {
        runtime::Builder::new_multi_thread()
    };
    let runtime = builder.enable_all().build();
    runtime.map_err(|error| local::explained("start", &error))
}

fn main() -> ExitCode {
    match runtime() {
        Ok(runtime) => {
            let exit = runtime.block_on(async {
                survive_file_limit();
                epochcost::cli::main().await
            });
            runtime.shutdown_timeout(LAST_WORK);
            exit
        }
        Err(error) => {
            eprint_line(format_args!("error: {error}"));
            Exit::Internal.into()
        }
    }
}
