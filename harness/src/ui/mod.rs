//! Output of verbs: results, messages and columns of text.

mod columns;

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use serde::Serialize;

pub use columns::table;

/// The output of a verb: results on standard output, as text or JSON, and
/// messages on standard error.
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
            print_line(text);
        }
    }

    /// Prints a result for machines, if `--json` asks for it.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) {
        if self.json
            && let Ok(text) = serde_json::to_string_pretty(value)
        {
            print_line(text);
        }
    }

    /// Prints progress, unless `-q` forbids it.
    pub fn message(self, text: impl Display) {
        if self.verbosity >= 0 {
            eprint_line(text);
        }
    }

    /// Prints details, if `-v` asks for them.
    pub fn detail(self, text: impl Display) {
        if self.verbosity > 0 {
            eprint_line(text);
        }
    }

    /// Returns whether progress may be drawn.
    pub fn draws_progress(self) -> bool {
        self.verbosity >= 0 && std::io::stderr().is_terminal()
    }
}

/// Prints to standard output. A reader that went away (`| head`) is no error.
fn print_line(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints to standard error.
pub fn eprint_line(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
