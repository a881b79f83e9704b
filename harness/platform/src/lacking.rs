//! A platform that this build does not have.

use super::{Cloud, Factory, Platform, PlatformError, PlatformOptions, Site};

/// A platform that this build does not have: its name is known, and whatever is
/// asked of it is refused with the remedy.
#[derive(Clone, Copy, Debug)]
pub struct Lacking {
    /// Name of the platform.
    pub name: &'static str,
    /// Location of its trials.
    pub site: Site,
    /// What is missing.
    pub what: &'static str,
    /// How to get a build that has it.
    pub remedy: &'static str,
}

impl Lacking {
    fn refusal(&self) -> PlatformError {
        PlatformError::lacking(self.what, self.remedy)
    }
}

impl Factory for Lacking {
    fn name(&self) -> &'static str {
        self.name
    }

    fn site(&self) -> Site {
        self.site
    }

    fn cloud(&self) -> Result<Option<&dyn Cloud>, PlatformError> {
        Err(self.refusal())
    }

    fn open(&self, _: PlatformOptions) -> Result<Box<dyn Platform>, PlatformError> {
        Err(self.refusal())
    }
}
