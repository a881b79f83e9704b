//! Output of verbs: results, messages and columns of text.

mod columns;
mod message;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

pub use columns::{columns, fit_to, table, table_of};
use message::message;

/// Whether a result for machines was printed: standard output holds one document.
static HAS_PRINTED: AtomicBool = AtomicBool::new(false);

/// The output of a verb: results on standard output, as text or JSON, and
/// messages on standard error.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Results as JSON.
    pub json: bool,
    /// Say more (1 and above) or nothing but errors (below 0).
    pub verbosity: i8,
    /// Whether tables have all their columns, however wide the terminal is.
    pub wide: bool,
}

impl Output {
    /// Prints a result for people; with `--json`, nothing.
    pub fn text(self, text: impl Display) {
        if !self.json {
            print_line(visible(&text.to_string()));
        }
    }

    /// Prints a result for machines, if `--json` asks for it.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) {
        if !self.json {
            return;
        }
        match serde_json::to_string_pretty(value) {
            Ok(text) => {
                print_line(text);
                HAS_PRINTED.store(true, Ordering::Relaxed);
            }
            Err(error) => note_failure(error.into()),
        }
    }

    /// Prints an error for machines, if `--json` asks for it and no result was
    /// printed: its message, what to do, and the exit code.
    pub fn error(self, text: &str, exit_code: u8) {
        let parts = text.split_once("\n  = help: ");
        let (message, help) = parts.map_or((text, None), |(message, help)| (message, Some(help)));
        if !HAS_PRINTED.load(Ordering::Relaxed) {
            self.json(&serde_json::json!({
                "error": {"message": message, "help": help, "exit_code": exit_code}
            }));
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

    /// Returns the columns that a table may take: those of the terminal; none where
    /// standard output is no terminal, or all columns are asked for.
    pub fn width(self) -> Option<usize> {
        let (_, columns) = Term::stdout().size_checked()?;
        Some(usize::from(columns)).filter(|_| !self.wide)
    }

    /// Returns whether progress may be drawn.
    pub fn draws_progress(self) -> bool {
        self.verbosity >= 0 && std::io::stderr().is_terminal()
    }
}

/// First error of standard output.
static FAILURE: Mutex<Option<io::Error>> = Mutex::new(None);

/// Returns a text with control characters named by their numbers: terminals obey them, and XML and
/// HTML forbid them. Line breaks and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || ('\u{fffe}'..='\u{ffff}').contains(&c)
    };
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            shown.push_str(&format!("[U+{:04X}]", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Prints to standard output. A reader that went away (`| head`) is no error; any other error
/// is kept for [`output_failure`].
fn print_line(text: impl Display) {
    print_bytes(format!("{text}\n").as_bytes());
}

/// Prints bytes to standard output.
pub fn print_bytes(bytes: &[u8]) {
    let mut output = io::stdout().lock();
    let printed = output.write_all(bytes).and_then(|()| output.flush());
    if let Err(error) = printed
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        note_failure(error);
    }
}

fn note_failure(error: io::Error) {
    let mut failure = FAILURE.lock().unwrap_or_else(PoisonError::into_inner);
    failure.get_or_insert(error);
}

/// Returns the first error of standard output, if there was one: results are lost then.
pub fn output_failure() -> Option<io::Error> {
    let mut failure = FAILURE.lock().unwrap_or_else(PoisonError::into_inner);
    failure.take()
}

/// Returns a bar over so many things, or a spinner; hidden where no progress may be drawn.
pub fn bar(output: Output, length: Option<u64>, template: &str) -> ProgressBar {
    let target = if output.draws_progress() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(length, target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Draws a bar again after each time, where this machine has a thread for it.
pub fn tick(bar: &ProgressBar, every: Duration) {
    // The bar's own thread is one that must start.
    if thread::Builder::new().spawn(|| ()).is_ok() {
        bar.enable_steady_tick(every);
    }
}

/// Prints to standard error; on a terminal wrapped at words, and in colour where it is wanted.
pub fn eprint_line(text: impl Display) {
    let text = text.to_string();
    let text = visible(&text);
    let shown = match Term::stderr().size_checked() {
        Some((_, columns)) => message(&text, columns.into(), console::colors_enabled_stderr()),
        None => text.into_owned(),
    };
    let _ = writeln!(io::stderr(), "{shown}");
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn control_characters_are_named() {
        let named = "a[U+001B][31m[U+0007][U+009B][U+FFFF][U+000D]";
        assert_eq!(visible("a\u{1b}[31m\u{7}\u{9b}\u{ffff}\r"), named);
        assert_eq!(visible("é\t中\n😀"), "é\t中\n😀");
    }
}
