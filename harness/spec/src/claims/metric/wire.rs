//! Metrics in claims and results: each as its name.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, EnumAccess, VariantAccess, Visitor};
use serde::{Serialize, Serializer};

use super::Metric;

/// The names of all metrics, in the order of [`Metric::ALL`].
const NAMES: [&str; Metric::ALL.len()] = {
    let mut names = [""; Metric::ALL.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = Metric::ALL[i].name();
        i += 1;
    }
    names
};

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum("Metric", &NAMES, MetricVisitor)
    }
}

struct MetricVisitor;

impl<'de> Visitor<'de> for MetricVisitor {
    type Value = Metric;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("enum Metric")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Metric, A::Error> {
        let (name, content): (Name, _) = data.variant()?;
        content.unit_variant()?;
        Ok(name.0)
    }
}

/// A metric's name alone, whatever format it stands in.
struct Name(Metric);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(NameVisitor)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("variant identifier")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Name, E> {
        let mut metrics = Metric::ALL.into_iter();
        metrics
            .find(|metric| metric.name() == name)
            .map(Name)
            .ok_or_else(|| E::unknown_variant(name, &NAMES))
    }
}
