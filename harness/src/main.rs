//! The `epochcost` command.

// A run on AWS nests the SDK's futures deeper than the default.
#![recursion_limit = "256"]

use std::process::ExitCode;

use epochcost::exit::Exit;
use epochcost::ui::eprint_line;

/// Simulations of many workers make and drop small values all the time: with
/// the system's allocator they take half as long again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(epochcost::cli::main()),
        // For example too few file handles are allowed.
        Err(error) => {
            eprint_line(format_args!("error: failed to start: {error}"));
            Exit::Internal.into()
        }
    }
}
