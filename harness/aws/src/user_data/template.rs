//! Bash templates: `@NAME@` stands for a value.

use crate::AwsError;

/// Replaces each `@NAME@` in a template with its value, in one pass: values may
/// contain any text. Values must be quoted already where they are words of a shell.
///
/// # Errors
/// When the template's names are not those of `values`.
pub(super) fn fill(template: &str, values: &[(&str, &str)]) -> Result<String, AwsError> {
    let fault = |problem: String| AwsError::Unusable {
        problem,
        remedy: "this is a fault of this program".to_owned(),
    };
    let mut text = String::with_capacity(template.len());
    let mut used = vec![false; values.len()];
    let mut rest = template;
    while let Some((before, name, after)) = placeholder(rest) {
        let index = values.iter().position(|(known, _)| *known == name);
        let index = index.ok_or_else(|| fault(format!("a start script lacks {name}")))?;
        used[index] = true;
        text.push_str(before);
        text.push_str(values[index].1);
        rest = after;
    }
    text.push_str(rest);
    match used.iter().position(|used| !used) {
        None => Ok(text),
        Some(index) => {
            let name = values[index].0;
            Err(fault(format!("a start script has no place for {name}")))
        }
    }
}

/// Returns the text before the first `@NAME@`, its name, and the text after it.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let is_name = |name: &str| {
        let letter = |c: char| c.is_ascii_uppercase() || c == '_';
        !name.is_empty() && name.chars().all(letter)
    };
    text.match_indices('@').find_map(|(start, _)| {
        let (name, after) = text[start + 1..].split_once('@')?;
        is_name(name).then(|| (&text[..start], name, after))
    })
}

/// Returns a value as one word of a shell.
pub(super) fn quoted(value: &str) -> Result<String, AwsError> {
    if value.contains(['\0', '\n', '\r']) {
        return Err(AwsError::Unusable {
            problem: format!("{value:?} cannot be written into a start script"),
            remedy: "leave out line breaks".to_owned(),
        });
    }
    Ok(format!("'{}'", value.replace('\'', r"'\''")))
}

/// Returns the name of an environment variable, which must be one in a shell, too.
pub(super) fn identifier(name: &str) -> Result<&str, AwsError> {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.is_empty()
        && name.chars().all(letter)
        && !name.starts_with(|c: char| c.is_ascii_digit())
    {
        return Ok(name);
    }
    Err(AwsError::Unusable {
        problem: format!("{name:?} is no name of an environment variable"),
        remedy: "use letters, digits and underscores".to_owned(),
    })
}
