//! The registry: every platform by its name.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, EnumAccess, VariantAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::local::LocalFactory;
use super::sim::SimFactory;
use super::{Cloud, Factory, Figures, PlatformError, Site};

#[cfg(feature = "aws")]
const AWS: &dyn Factory = &super::aws::AwsFactory;
#[cfg(not(feature = "aws"))]
const AWS: &dyn Factory = &super::Lacking {
    name: super::aws_plan::NAME,
    site: Site::Cloud("AWS"),
    what: "this build has no AWS clients",
    remedy: "build it with them, which takes minutes and 8 GB of memory: \
             cargo run --release --features aws -- …",
};

/// Every platform, the one that experiments run on by default first. A new one is
/// one line here.
static PLATFORMS: &[&dyn Factory] = &[&LocalFactory, &SimFactory, AWS];

static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| PLATFORMS.iter().map(|platform| platform.name()).collect());

static KINDS: LazyLock<Vec<PlatformKind>> =
    LazyLock::new(|| PLATFORMS.iter().copied().map(PlatformKind).collect());

/// Returns the platform of that name.
pub fn find(name: &str) -> Option<&'static dyn Factory> {
    let mut known = PLATFORMS.iter().chain(DOCUMENTED).copied();
    known.find(|known| known.name() == name)
}

/// The line of `docs/adding-a-platform.md`, which adds its example.
#[cfg(test)]
const DOCUMENTED: &[&dyn Factory] = &[include!(concat!(env!("OUT_DIR"), "/tasks_line.rs"))];
#[cfg(not(test))]
const DOCUMENTED: &[&dyn Factory] = &[];

/// Returns where trials of a recorded run took place, by the name of its
/// platform; none for a platform that this program does not know.
pub fn site_of(name: &str) -> Option<Site> {
    find(name).map(Factory::site)
}

/// Returns where the figures of a recorded run come from, by the name of its
/// platform. An unknown platform is taken to have run processes.
pub fn figures_of(name: &str) -> Figures {
    site_of(name).map_or(Figures::Measured, Site::figures)
}

/// Returns the account that `aws clean` and `aws prices refresh` are about: that of the
/// first platform on which trials cost money.
///
/// # Errors
/// When this build has no clients for it.
pub fn cloud() -> Result<&'static dyn Cloud, PlatformError> {
    for platform in PLATFORMS {
        if let Some(cloud) = platform.cloud()? {
            return Ok(cloud);
        }
    }
    Err(PlatformError::lacking(
        "no platform of this build has an account",
        "use another build",
    ))
}

/// Returns the platform that needs neither data, nor workers, nor an account:
/// forecasts are made on it, whatever platform an experiment names.
pub fn simulator() -> PlatformKind {
    PlatformKind(&SimFactory)
}

/// A platform of the registry, as an experiment or an option names it.
#[derive(Clone, Copy)]
pub struct PlatformKind(&'static dyn Factory);

impl PlatformKind {
    /// Returns all of them, the one that experiments run on by default first.
    pub fn all() -> &'static [Self] {
        &KINDS
    }

    /// Returns the word used in experiments and results.
    pub fn as_str(self) -> &'static str {
        self.0.name()
    }

    /// Returns its name, as prose has it.
    pub fn title(self) -> &'static str {
        match self.0.site() {
            Site::Cloud(title) => title,
            Site::ThisMachine | Site::VirtualTime => self.as_str(),
        }
    }
}

impl Deref for PlatformKind {
    type Target = dyn Factory;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl Default for PlatformKind {
    fn default() -> Self {
        Self(PLATFORMS[0])
    }
}

impl PartialEq for PlatformKind {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for PlatformKind {}

impl fmt::Debug for PlatformKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for PlatformKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl JsonSchema for PlatformKind {
    fn schema_name() -> Cow<'static, str> {
        "PlatformKind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": *NAMES})
    }
}

impl<'de> Deserialize<'de> for PlatformKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum("PlatformKind", &NAMES, Named)
    }
}

/// Reads a platform's name as a choice, so that errors list the registry.
struct Named;

impl<'de> Visitor<'de> for Named {
    type Value = PlatformKind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("enum PlatformKind")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<PlatformKind, A::Error> {
        let (name, choice): (String, _) = data.variant()?;
        choice.unit_variant()?;
        find(&name)
            .map(PlatformKind)
            .ok_or_else(|| de::Error::unknown_variant(&name, &NAMES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::holds;

    #[test]
    fn names_are_unique_and_found_and_only_the_simulator_computes_its_figures() {
        for (at, factory) in PLATFORMS.iter().enumerate() {
            let found = PLATFORMS.iter().position(|p| p.name() == factory.name());
            assert_eq!(found, Some(at));
            let is_simulator = factory.name() == simulator().as_str();
            let is_simulated = figures_of(factory.name()) == Figures::Simulated;
            assert_eq!(is_simulated, is_simulator);
        }
        let later = "a platform of a later version";
        assert_eq!(site_of(later), None);
        assert_eq!(figures_of(later), Figures::Measured);
    }

    #[test]
    fn a_name_is_read_and_written_as_one_word() {
        for kind in PlatformKind::all() {
            let text = serde_json::to_string(kind).unwrap();
            assert_eq!(text, format!("{:?}", kind.as_str()));
            assert_eq!(serde_json::from_str::<PlatformKind>(&text).unwrap(), *kind);
        }
        let error = serde_json::from_str::<PlatformKind>("\"azure\"").unwrap_err();
        holds(error, &["unknown variant `azure`"]);
    }
}
