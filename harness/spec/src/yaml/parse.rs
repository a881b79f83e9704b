//! YAML as it is parsed: values with their places, and texts that YAML would take for
//! something else refused.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::Spanned;

use super::document::Value;

/// Why a text is refused, and where.
pub(super) struct Refused {
    /// Line, from 1.
    pub(super) line: usize,
    /// Column, from 1.
    pub(super) column: usize,
    /// Field that the error is about; empty for none.
    pub(super) path: String,
    /// Problem.
    pub(super) problem: String,
    /// Remedy.
    pub(super) remedy: String,
}

/// Parses a text.
///
/// # Errors
/// When it is not YAML, repeats a key, or has a tag, or digits with `_` between them.
pub(super) fn parse(text: &str) -> Result<Spanned<Parsed>, Refused> {
    let options = serde_yaml::options! {
        strict_booleans: true,
        with_snippet: false,
        reject_unsupported_tags: true,
    };
    let parsed = serde_yaml::from_str_with_options(text, options.clone());
    let parsed = parsed.map_err(|error| by_tab(text, syntax(&error)))?;
    // Merged keys are gone from what is parsed: as an ordinary key a second one is a duplicate.
    if text.matches("<<").nth(1).is_some() {
        let mut unmerged = options;
        unmerged.merge_keys = serde_yaml::MergeKeyPolicy::AsOrdinary;
        serde_yaml::from_str_with_options::<Spanned<Parsed>>(text, unmerged)
            .map_err(|error| syntax(&error))?;
    }
    let lines: Vec<Option<Vec<char>>> = text.lines().map(suspect).collect();
    plain_numbers(&parsed, &lines)?;
    Ok(parsed)
}

/// Returns the characters of a line that may have a number with `_` or an exponent in it: a file
/// may be one long line, which is gone through once.
fn suspect(line: &str) -> Option<Vec<char>> {
    let in_number = |pair: &[u8]| match pair[1] {
        b'_' => pair[0].is_ascii_digit() || matches!(pair[0], b'x' | b'o' | b'b'),
        b'e' | b'E' => pair[0].is_ascii_digit() || pair[0] == b'.',
        b'0'..=b'9' => pair[0] == b'0',
        _ => false,
    };
    let is_suspect = line.as_bytes().windows(2).any(in_number);
    is_suspect.then(|| line.chars().collect())
}

/// What to do about a number with commas between its digits, of which braces make several fields.
pub(super) const NO_COMMAS: &str = "write numbers without commas, which end a value in braces";

/// Returns whether a key is the rest of such a number.
pub(super) fn is_digits(key: &str) -> bool {
    key.len() == 3 && key.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the tab that indents a line instead of an error there or in the line before, which the
/// parser blames.
fn by_tab(text: &str, refused: Refused) -> Refused {
    let first = refused.line.saturating_sub(1);
    let mut lines = text.lines().enumerate().skip(first).take(2);
    let tab = lines.find_map(|(index, line)| {
        let mut blank = line.chars().take_while(|c| c.is_whitespace());
        Some((index + 1, blank.position(|c| c == '\t')? + 1))
    });
    let Some((line, column)) = tab else {
        return refused;
    };
    Refused {
        line,
        column,
        problem: "a tab indents this line".to_owned(),
        remedy: "indent with spaces: YAML allows no tabs".to_owned(),
        ..refused
    }
}

fn syntax(error: &serde_yaml::Error) -> Refused {
    let (line, column) = error.location().map_or((1, 1), |at| {
        let number = |count: u64| usize::try_from(count).unwrap_or(1);
        (number(at.line()), number(at.column()))
    });
    let mut path = String::new();
    let (problem, remedy) = match error.without_snippet() {
        serde_yaml::Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("a key");
            path = key.to_owned();
            let remedy = match key {
                "<<" => "merge both by one key, the stronger first: `<<: [*a, *b]`",
                _ if is_digits(key) => NO_COMMAS,
                _ => "keep one of the two",
            };
            (format!("duplicate key `{key}`"), remedy)
        }
        serde_yaml::Error::UnsupportedTag { tag, .. } => (
            format!("unknown tag `{tag}`"),
            "leave it out: tags have no meaning here",
        ),
        serde_yaml::Error::MultipleDocuments { .. } => (
            "more than one document in the file".to_owned(),
            "write one document: remove the line `---`",
        ),
        other => {
            let text = other.render_with_formatter(&serde_yaml::UserMessageFormatter);
            let first = text.lines().next().unwrap_or_default();
            let remedy = "check indentation, colons and quotes here";
            (format!("not valid YAML: {first}"), remedy)
        }
    };
    Refused {
        line,
        column,
        path,
        problem,
        remedy: remedy.to_owned(),
    }
}

/// Returns the value that `text` starts with, up to a space, a comma or a bracket.
pub(super) fn written(text: impl Iterator<Item = char>) -> String {
    let ends = |c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}' | '#');
    text.take_while(|c| !ends(*c)).collect()
}

fn starts_with_zero(written: &str) -> bool {
    let digits = written.strip_prefix('0').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Refuses numbers with `_` between their digits: YAML 1.1 drops it, YAML 1.2 reads a text.
/// Refuses numbers beyond the range of 64-bit floating point, which would become 0 or infinite.
fn plain_numbers(parsed: &Spanned<Parsed>, lines: &[Option<Vec<char>>]) -> Result<(), Refused> {
    match &parsed.value {
        Parsed::Scalar(Value::Unsigned(_) | Value::Signed(_) | Value::Float(_)) => {}
        Parsed::Scalar(_) => return Ok(()),
        Parsed::List(items) => {
            return items.iter().try_for_each(|item| plain_numbers(item, lines));
        }
        Parsed::Map(entries) => {
            let mut values = entries.iter().map(|(_, value)| value);
            return values.try_for_each(|value| plain_numbers(value, lines));
        }
    }
    // The place where an alias stands for is that of the value itself.
    let at = |count: u64| usize::try_from(count).unwrap_or(1).max(1);
    let (line, column) = (at(parsed.defined.line()), at(parsed.defined.column()));
    let Some(Some(line_text)) = lines.get(line - 1) else {
        return Ok(());
    };
    let written = written(line_text.iter().skip(column - 1).copied());
    let mantissa = written.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = !mantissa.contains(|c: char| matches!(c, '1'..='9'));
    let (problem, remedy) = match parsed.value {
        _ if written.contains('_') => (
            format!("`{written}` is a number to some readers of YAML and text to others"),
            format!("write {}", written.replace('_', "")),
        ),
        // To readers of YAML 1.1 it is octal.
        _ if starts_with_zero(&written) => (
            format!("found {written}, which starts with 0"),
            "write it without zeros before it, or in quotes if it is text".to_owned(),
        ),
        Parsed::Scalar(Value::Float(x)) if (x == 0.0 && !is_zero) || x.is_infinite() => (
            format!("`{written}` is outside the range of 64-bit floating point"),
            "give 0, or a number between 1e-300 and 1e300".to_owned(),
        ),
        _ => return Ok(()),
    };
    Err(Refused {
        line,
        column,
        path: String::new(),
        problem,
        remedy,
    })
}

/// What the parser hands over: values that do not know their path yet.
pub(super) enum Parsed {
    Scalar(Value),
    List(Vec<Spanned<Parsed>>),
    Map(Vec<(Spanned<String>, Spanned<Parsed>)>),
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ParsedVisitor)
    }
}

struct ParsedVisitor;

impl<'de> Visitor<'de> for ParsedVisitor {
    type Value = Parsed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Null))
    }

    fn visit_none<E: de::Error>(self) -> Result<Parsed, E> {
        self.visit_unit()
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Bool(value)))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Unsigned(value)))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(
            u64::try_from(value).map_or(Value::Signed(value), Value::Unsigned),
        ))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Float(value)))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Parsed, E> {
        Ok(Parsed::Scalar(Value::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Parsed, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Parsed::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Parsed, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Parsed::Map(map))
    }
}
