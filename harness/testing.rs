//! What tests of the crates of this folder share: each takes this file in as a module of its own,
//! of which it need not use all.
#![allow(dead_code)]

use std::array::from_fn;
use std::fmt::Display;

/// Fails unless the text holds every word.
#[track_caller]
pub fn holds(text: impl Display, words: &[&str]) {
    let text = text.to_string();
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}

/// Fails if the text holds one of the words.
#[track_caller]
pub fn lacks(text: impl Display, words: &[&str]) {
    let text = text.to_string();
    for word in words {
        assert!(!text.contains(word), "{word:?} in:\n{text}");
    }
}

/// Cases of a table, a line each: its first parts, and the words that are said. ` | ` stands between them.
pub fn cases<'a, const N: usize>(
    lines: &'a [&'a str],
) -> impl Iterator<Item = ([&'a str; N], Vec<&'a str>)> {
    lines.iter().map(|line| {
        let mut parts = line.split(" | ");
        let first = from_fn(|_| parts.next().unwrap());
        (first, parts.collect())
    })
}
