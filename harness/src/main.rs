//! The `epochcost` command.

// A run on AWS nests the SDK's futures deeper than the default.
#![recursion_limit = "256"]

use std::fs::File;
use std::io;
use std::process::ExitCode;

use epochcost::exit::Exit;
use epochcost::ui::eprint_line;

/// Simulations of many workers make and drop small values all the time: with
/// the system's allocator they take half as long again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// File handles that every verb takes: with fewer, the runtime's own pipes would be missing.
const HANDLES: usize = 16;

/// Returns the runtime.
///
/// # Errors
/// When too few file handles are allowed, or threads.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let handles: io::Result<Vec<File>> = (0..HANDLES).map(|_| File::open("/dev/null")).collect();
    drop(handles?);
    tokio::runtime::Runtime::new()
}

fn main() -> ExitCode {
    match runtime() {
        Ok(runtime) => runtime.block_on(epochcost::cli::main()),
        Err(error) => {
            eprint_line(format_args!("error: failed to start: {error}"));
            Exit::Internal.into()
        }
    }
}
