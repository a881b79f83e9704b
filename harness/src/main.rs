//! The `epochcost` command.

// A run on AWS nests the SDK's futures deeper than the default.
#![recursion_limit = "256"]

use std::process::ExitCode;

/// Simulations of many workers make and drop small values all the time: with
/// the system's allocator they take half as long again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    epochcost::cli::main().await
}
