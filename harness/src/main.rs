//! The `epochcost` command.

// A run on AWS nests the SDK's futures deeper than the default.
#![recursion_limit = "256"]

use std::fs::File;
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use epochcost::exit::Exit;
use epochcost::platform::local;
use epochcost::run::watch;
use epochcost::ui::eprint_line;
use tokio::runtime::Runtime;

/// Simulations of many workers make and drop small values all the time: with
/// the system's allocator they take half as long again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// File handles that every verb takes: with fewer, the runtime's own pipes would be missing.
const HANDLES: usize = 16;

/// Time at the end for work on other threads, a build or a download that was cut short.
const LAST_WORK: Duration = Duration::from_secs(1);

/// Returns the runtime.
///
/// # Errors
/// When too few file handles are allowed, or threads.
fn runtime() -> Result<Runtime, String> {
    local::raise_limits();
    let handles: io::Result<Vec<File>> = (0..HANDLES).map(|_| File::open("/dev/null")).collect();
    drop(handles.map_err(|error| local::explained("open /dev/null", &error))?);
    // The runtime's first thread must start, or it panics.
    let probe = thread::Builder::new().spawn(|| ());
    let probe = probe.map_err(|error| local::explained("start a thread", &error))?;
    let _ = probe.join();
    // The kernel ends no process 1, the program of a container, on a signal that it does not
    // handle.
    if std::process::id() == 1 {
        watch().map_err(|error| local::explained("listen for signals", &error))?;
    }
    Runtime::new().map_err(|error| local::explained("start", &error))
}

fn main() -> ExitCode {
    match runtime() {
        Ok(runtime) => {
            let exit = runtime.block_on(epochcost::cli::main());
            runtime.shutdown_timeout(LAST_WORK);
            exit
        }
        Err(error) => {
            eprint_line(format_args!("error: {error}"));
            Exit::Internal.into()
        }
    }
}
