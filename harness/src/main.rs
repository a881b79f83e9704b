//! The `epochcost` command.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    epochcost::cli::main().await
}
