//! A sign of life while a plan is computed.

use std::fmt::Display;
use std::time::Duration;

use indicatif::ProgressBar;

use epochcost_spec::ui::{Output, bar, tick};

/// Time between two pictures of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// What is being computed: a spinner on a terminal, and a line for each part elsewhere.
pub(super) struct Activity {
    output: Output,
    spinner: ProgressBar,
}

impl Activity {
    /// Begins with a first part.
    pub(super) fn begin(output: Output, part: impl Display) -> Self {
        let activity = Self {
            output,
            spinner: bar(output, None, "{spinner} {msg}, {elapsed}"),
        };
        activity.now(part);
        tick(&activity.spinner, TICK);
        activity
    }

    /// Goes on with another part.
    pub(super) fn now(&self, part: impl Display) {
        if self.output.draws_progress() {
            self.spinner.set_message(part.to_string());
        } else {
            self.output.message(part);
        }
    }

    /// Prints a line that stays.
    pub(super) fn say(&self, text: impl Display) {
        self.spinner.suspend(|| self.output.message(text));
    }

    /// Prints details, if `-v` asks for them.
    pub(super) fn detail(&self, text: impl Display) {
        self.spinner.suspend(|| self.output.detail(text));
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        self.spinner.finish_and_clear();
    }
}
