//! The verbs, one file each.

pub mod audit;
pub mod aws;
pub mod check;
pub mod compare;
pub mod data;
pub mod doctor;
mod execute;
pub mod list;
pub mod plan;
pub mod prices;
pub mod profile;
mod progress;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod run;
mod table;

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use serde::Serialize;

/// How a verb talks to its user: results on standard output, as text or JSON,
/// and messages on standard error.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Results as JSON.
    pub json: bool,
    /// Say more (1 and above) or nothing but errors (below 0).
    pub verbosity: i8,
}

impl Output {
    /// Prints a result for people; with `--json`, nothing.
    pub fn text(self, text: impl Display) {
        if !self.json {
            print(text);
        }
    }

    /// Prints a result for machines, if `--json` asks for it.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) {
        if self.json
            && let Ok(text) = serde_json::to_string_pretty(value)
        {
            print(text);
        }
    }

    /// Tells what is going on, unless `-q` forbids it.
    pub fn message(self, text: impl Display) {
        if self.verbosity >= 0 {
            complain(text);
        }
    }

    /// Tells details, if `-v` asks for them.
    pub fn detail(self, text: impl Display) {
        if self.verbosity > 0 {
            complain(text);
        }
    }

    /// Whether progress may be drawn.
    pub fn draws_progress(self) -> bool {
        self.verbosity >= 0 && std::io::stderr().is_terminal()
    }
}

/// Prints to standard output. A reader that went away (`| head`) is no error.
fn print(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints to standard error.
pub fn complain(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
