//! A platform that this build does not have.

use super::{Cloud, Factory, Platform, PlatformError, PlatformOptions, Site};

/// A platform that this build does not have: its name is known, and whatever is
/// asked of it is refused with the remedy.
#[derive(Clone, Copy, Debug)]
pub struct Lacking {
    name: &'static str,
    site: Site,
    what: &'static str,
    remedy: &'static str,
}

/// Returns the stand-in for a platform that this build does not have. `what` is
/// missing, and `remedy` describes how to get a build that has it.
pub const fn lacking(
    name: &'static str,
    site: Site,
    what: &'static str,
    remedy: &'static str,
) -> Lacking {
    Lacking {
        name,
        site,
        what,
        remedy,
    }
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
