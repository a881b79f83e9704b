//! Constants that an experiment states in place of its platform profile, and
//! what each value rests on.

use std::borrow::Cow;
use std::fmt;

use epochcost_simulator::profile::FittedTo;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};

/// A constant that an experiment or a row states.
#[derive(Clone, Debug, PartialEq)]
pub struct StatedConstant {
    /// Value, in the unit that the constant's name ends in.
    pub value: f64,
    /// What the value rests on; none where a file gives a bare number, which the experiment's
    /// check refuses.
    pub basis: Option<Basis>,
}

/// What a stated value rests on.
#[derive(Clone, Debug, PartialEq)]
pub enum Basis {
    /// Published figures that it was fitted to.
    FittedTo(FittedTo),
    /// A source that states it.
    StatedBy(String),
    /// An assumption, with its reason.
    Assumed(String),
}

impl StatedConstant {
    /// Returns a constant that another field of the row sets.
    pub fn by_field(value: f64, field: &str) -> Self {
        Self {
            value,
            basis: Some(Basis::Assumed(format!("the row's `{field}`"))),
        }
    }

    /// Returns the figures that it was fitted to, if it was.
    pub fn fitted_to(&self) -> Option<&FittedTo> {
        match &self.basis {
            Some(Basis::FittedTo(fitted)) => Some(fitted),
            _ => None,
        }
    }

    /// Returns what it rests on, in words.
    pub fn basis_text(&self) -> Option<String> {
        Some(match self.basis.as_ref()? {
            Basis::FittedTo(fitted) => format!("fitted to {}", fitted.source),
            Basis::StatedBy(source) => format!("stated by {source}"),
            Basis::Assumed(reason) => format!("assumed: {reason}"),
        })
    }
}

/// A constant, with what its value rests on: one of `fitted_to`, `stated_by` and `assumed`.
#[derive(Default, Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Value, in the unit that the constant's name ends in.
    #[schemars(range(min = 0.0, max = 1e18))]
    value: f64,
    /// Published figures that it was fitted to, from which verdicts by construction follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fitted_to: Option<FittedTo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    /// Source that states it.
    stated_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    /// Reason of an assumption.
    assumed: Option<String>,
}

impl Serialize for StatedConstant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut written = Written {
            value: self.value,
            ..Written::default()
        };
        match self.basis.clone() {
            None => return serializer.serialize_f64(self.value),
            Some(Basis::FittedTo(fitted)) => written.fitted_to = Some(fitted),
            Some(Basis::StatedBy(source)) => written.stated_by = Some(source),
            Some(Basis::Assumed(reason)) => written.assumed = Some(reason),
        }
        written.serialize(serializer)
    }
}

impl JsonSchema for StatedConstant {
    fn schema_name() -> Cow<'static, str> {
        "StatedConstant".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Written::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for StatedConstant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ConstantVisitor)
    }
}

struct ConstantVisitor;

impl<'de> Visitor<'de> for ConstantVisitor {
    type Value = StatedConstant;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map with `value` and one of `fitted_to`, `stated_by` and `assumed`")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<StatedConstant, E> {
        Ok(StatedConstant { value, basis: None })
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<StatedConstant, E> {
        self.visit_f64(value as f64)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<StatedConstant, E> {
        self.visit_f64(value as f64)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StatedConstant, A::Error> {
        let written = Written::deserialize(MapAccessDeserializer::new(map))?;
        let bases = [
            written.fitted_to.map(Basis::FittedTo),
            written.stated_by.map(Basis::StatedBy),
            written.assumed.map(Basis::Assumed),
        ];
        let mut bases = bases.into_iter().flatten();
        let (value, basis) = (written.value, bases.next());
        if basis.is_none() || bases.next().is_some() {
            let problem = "a constant gives exactly one of `fitted_to`, `stated_by` and `assumed`";
            return Err(de::Error::custom(problem));
        }
        Ok(StatedConstant { value, basis })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<StatedConstant, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn a_constant_is_written_as_it_is_read() {
        for json in [
            "2.5",
            r#"{"value":2.5,"stated_by":"Table 1"}"#,
            r#"{"value":2.5,"assumed":"a slow link"}"#,
            r#"{"value":2.5,"fitted_to":{"source":"A, §4","cells":["a.csv:2:x"]}}"#,
        ] {
            let constant = read(json).unwrap();
            assert_eq!(constant.value, 2.5);
            assert_eq!(serde_json::to_string(&constant).unwrap(), json);
        }
        assert_eq!(read("2").unwrap().value, 2.0);
    }

    #[test]
    fn a_constant_has_one_basis() {
        for json in [
            r#"{"value":2.5}"#,
            r#"{"value":2.5,"assumed":"a","stated_by":"b"}"#,
        ] {
            assert!(read(json).unwrap_err().to_string().contains("one of"));
        }
    }
}
