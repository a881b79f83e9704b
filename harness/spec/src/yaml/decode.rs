//! Decoding of a located tree to typed values, with errors that name field and place.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess,
    Unexpected, Visitor,
};

use super::document::{Document, Entry, Node, Origin, Value, join, whole};
use super::error::ExperimentError;
use super::parse::{NO_COMMAS, is_digits};
use super::schema;
use crate::suggest::{did_you_mean, listed};

/// Reads `node`, a part of `document`, as a `T` within its bounds.
///
/// # Errors
/// Names the innermost field that does not fit.
pub fn decode<'a, T: Deserialize<'a> + JsonSchema>(
    document: &Document,
    node: &'a Node,
) -> Result<T, ExperimentError> {
    decode_with(document, node, &[])
}

/// Decodes a map whose other fields, `elsewhere`, are read by another type.
///
/// # Errors
/// Those of [`decode`].
pub fn decode_with<'a, T: Deserialize<'a> + JsonSchema>(
    document: &Document,
    node: &'a Node,
    elsewhere: &[&str],
) -> Result<T, ExperimentError> {
    let value = T::deserialize(Located(node)).map_err(|error| {
        let origin = error.origin.unwrap_or_else(|| node.origin.clone());
        // A map within this one has fields of its own.
        let inner = origin.path.strip_prefix(&node.origin.path);
        let inner = inner.unwrap_or(&origin.path).trim_start_matches('.');
        let (mut problem, mut remedy) = (error.problem, error.remedy);
        if let Some((field, expected)) = &error.unknown
            && !inner.contains('.')
        {
            remedy = known_fields(field, &[*expected, elsewhere].concat());
        }
        if let (Some(written), Some(found)) =
            (document.number_at(&origin), problem.strip_prefix(MISMATCH))
        {
            let digits = written.trim_start_matches('0');
            let is_whole = written.bytes().all(|byte| byte.is_ascii_digit());
            if is_whole && digits.len() < written.len() && written != "0" {
                problem = format!("found {written}, which starts with 0");
                remedy = format!("write {}", if digits.is_empty() { "0" } else { digits });
            } else if found.starts_with("the number") {
                problem = format!("{MISMATCH}the number {written}");
            }
        }
        let remedy = in_field(&origin.path, remedy);
        document.error(origin, problem, remedy)
    })?;
    schema::check(document, &schema::of::<T>(), node)?;
    Ok(value)
}

/// Start of the problem of a value of another type, or out of its type's range.
const MISMATCH: &str = "wrong type or value: found ";

/// Why a value does not fit, and where it is.
#[derive(Debug)]
struct DecodeError {
    problem: String,
    remedy: String,
    /// A field that is not known, and those that are.
    unknown: Option<(String, &'static [&'static str])>,
    /// Filled in by the innermost value that knows its place.
    origin: Option<Origin>,
}

/// Returns what to do about a field that is none of `known`.
fn known_fields(field: &str, known: &[&str]) -> String {
    if is_digits(field) {
        NO_COMMAS.to_owned()
    } else {
        did_you_mean(field, known)
    }
}

impl DecodeError {
    fn new(problem: String, remedy: impl Into<String>) -> Self {
        Self {
            problem,
            remedy: remedy.into(),
            unknown: None,
            origin: None,
        }
    }

    fn found(found: &str, expected: &str) -> Self {
        let remedy = format!("give {}", in_words(expected));
        Self::new(format!("{MISMATCH}{found}"), remedy)
    }

    fn or_at(mut self, origin: impl FnOnce() -> Origin) -> Self {
        self.origin.get_or_insert_with(origin);
        self
    }

    fn mismatch(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Bool(value) => format!("`{value}`"),
            Unexpected::Unsigned(value) => format!("the number {value}"),
            Unexpected::Signed(value) => format!("the number {value}"),
            Unexpected::Float(value) => format!("the number {value}"),
            Unexpected::Str(value) => format!("the text \"{value}\""),
            Unexpected::Unit => "nothing".to_owned(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a map".to_owned(),
            other => other.to_string(),
        };
        Self::found(&found, &expected.to_string())
    }
}

/// What stands behind "a whole number of 0 or more".
const COUNT: &str = "a whole number of 0 or more";

/// Returns a remedy in the words of its field: the unit that the number is in, and 1 where 0
/// would be refused next.
fn in_field(path: &str, remedy: String) -> String {
    /// Units by the end of a field's name, with an example.
    const UNITS: [(&str, &str); 5] = [
        ("_mb", "megabytes, as 2048"),
        ("_ms", "milliseconds, as 250"),
        ("_s", "seconds, as 900"),
        ("_bytes", "bytes, as 3073"),
        ("_usd", "US dollars, as 0.5"),
    ];
    const FROM_ONE: [&str; 6] = [
        "workers",
        "batch_size",
        "batches_per_worker",
        "epochs",
        "trials",
        "k",
    ];
    let field = path.rsplit('.').next().unwrap_or(path);
    let is_rate = field.contains("_per_");
    let unit = UNITS
        .iter()
        .find(|(end, _)| field.ends_with(end) && !is_rate);
    if let Some((_, unit)) = unit {
        let number = remedy
            .replace(COUNT, "a whole number")
            .replace("0 to 4294967295", "1");
        let number = number.replace(" from 1", "");
        return if number.contains("number") {
            format!("{number} of {unit}, without a unit")
        } else {
            number
        };
    }
    if field == "input" && remedy.contains("3 values") {
        return format!("{remedy}: channels, height and width, as [3, 32, 32]");
    }
    if FROM_ONE.contains(&field) {
        return remedy.replace(COUNT, "a whole number of 1 or more");
    }
    remedy
}

/// Names of Rust types, in a user's words.
fn in_words(expected: &str) -> String {
    match expected {
        "u64" | "usize" => COUNT.to_owned(),
        "a nonzero usize" => "a whole number of 1 or more".to_owned(),
        "u32" => "a whole number from 0 to 4294967295".to_owned(),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "text (in quotes, if it looks like a number)".to_owned(),
        "a sequence" => "a list".to_owned(),
        other if other.starts_with("struct ") => "a map of fields".to_owned(),
        other if other.starts_with("enum ") => "one of its names".to_owned(),
        other => match other.strip_prefix("an array of length ") {
            Some(length) => format!("a list of {length} values"),
            None => other.to_owned(),
        },
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string(), "correct this value")
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::mismatch(found, expected)
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::mismatch(found, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::found(&format!("a list of {length}"), &expected.to_string())
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let problem = format!("unknown field `{field}`");
        Self {
            unknown: Some((field.to_owned(), expected)),
            ..Self::new(problem, known_fields(field, expected))
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let problem = format!("unknown value `{variant}`");
        Self::new(problem, did_you_mean(variant, expected))
    }

    fn missing_field(field: &'static str) -> Self {
        let problem = format!("missing field `{field}`");
        Self::new(problem, format!("add `{field}:` here"))
    }
}

/// Deserializes a node.
struct Located<'a>(&'a Node);

impl<'de> Deserializer<'de> for Located<'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let result = match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Unsigned(value) => visitor.visit_u64(*value),
            Value::Signed(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(value) => visitor.visit_borrowed_str(value),
            Value::List(items) => visitor.visit_seq(SeqDeserializer::new(items.iter().map(Self))),
            Value::Map(entries) => visitor.visit_map(Fields::new(entries, self.0)),
        };
        result.map_err(|error| error.or_at(|| self.0.origin.clone()))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.0.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let result = match &self.0.value {
            Value::Text(variant) => visitor.visit_enum(variant.as_str().into_deserializer()),
            Value::Map(entries) if entries.len() == 1 => {
                visitor.visit_enum(MapAccessDeserializer::new(Fields::new(entries, self.0)))
            }
            other => {
                let found: &str = match other {
                    Value::Map(entries) if entries.len() > 1 => {
                        let names = entries.iter().map(|entry| entry.key.as_str());
                        &format!("{} together", names.collect::<Vec<_>>().join(" and "))
                    }
                    Value::Null | Value::Map(_) => "nothing",
                    Value::List(_) => "a list",
                    _ => "a number or a boolean",
                };
                let expected = format!("one of {}", listed(variants));
                Err(DecodeError::found(found, &expected))
            }
        };
        result.map_err(|error| error.or_at(|| self.0.origin.clone()))
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_u64(visitor)
    }

    /// Takes `1e6` and `8.0` as the whole numbers that they are.
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let decimal = match self.0.value {
            Value::Float(number) => whole(number),
            _ => None,
        };
        match decimal {
            Some(whole) => visitor
                .visit_u64(whole)
                .map_err(|error: DecodeError| error.or_at(|| self.0.origin.clone())),
            None => self.deserialize_any(visitor),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u128 f32 f64 char str string
        bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, DecodeError> for Located<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// A map's entries.
struct Fields<'a> {
    entries: std::slice::Iter<'a, Entry>,
    next: Option<&'a Node>,
    path: &'a str,
}

impl<'a> Fields<'a> {
    fn new(entries: &'a [Entry], map: &'a Node) -> Self {
        Self {
            entries: entries.iter(),
            next: None,
            path: &map.origin.path,
        }
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, DecodeError> {
        let Some(entry) = self.entries.next() else {
            return Ok(None);
        };
        self.next = Some(&entry.node);
        let key: StrDeserializer<'_, DecodeError> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|error| {
            error.or_at(|| Origin {
                place: entry.place.clone(),
                path: join(self.path, &entry.key),
            })
        })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<T::Value, DecodeError> {
        let node = self.next.take();
        let node = node.ok_or_else(|| de::Error::custom("a value without a key"))?;
        seed.deserialize(Located(node))
    }
}
