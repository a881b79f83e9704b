//! The program under test.

use std::path::Path;
use std::process::{Command, Output};

/// A command that runs the program.
pub fn program() -> Command {
    epochcost_testing::watch();
    Command::new(env!("CARGO_BIN_EXE_epochcost"))
}

/// Runs the program in `directory` to its end.
pub fn epochcost(directory: &Path, arguments: &[&str]) -> Output {
    program()
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}
