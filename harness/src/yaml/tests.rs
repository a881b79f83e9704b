use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Sample {
    name: String,
    count: u64,
    small: Option<u32>,
    share: f64,
    models: Vec<BTreeMap<String, String>>,
    fit: Vec<String>,
    memory_mb: Vec<u32>,
}

fn problem(text: &str) -> String {
    let (problem, remedy) = read("own.yaml", text, |sample: &mut Sample| {
        if sample.share >= 0.0 {
            return Ok(());
        }
        Err(Fault {
            path: "share".to_owned(),
            problem: "below 0".to_owned(),
            remedy: format!("of {} models", sample.models.len()),
        })
    })
    .unwrap_err();
    format!("{problem}; {remedy}")
}

#[test]
fn whole_numbers_may_be_written_as_decimals() {
    for (written, whole) in [
        ("1e6", 1_000_000),
        ("8.0", 8),
        ("6e+6", 6_000_000),
        ("0", 0),
    ] {
        let text = format!("count: {written}\nsmall: {written}\nshare: {written}");
        let read: Sample = read("own.yaml", &text, |_| Ok(())).unwrap();
        assert_eq!(
            (read.count, read.small),
            (whole, u32::try_from(whole).ok()),
            "{written}"
        );
        assert_eq!(read.share, whole as f64);
    }
}

#[test]
fn numbers_are_refused_as_they_are_written() {
    for (text, words) in [
        (
            "count: 1.5e0",
            "own.yaml:1:8: count: wrong type or value: found the number 1.5e0; give a whole number",
        ),
        (
            "count: 017",
            "found 017, which starts with 0; write it without",
        ),
        (
            "{count: 04}",
            "found 04, which starts with 0; write it without",
        ),
        ("count: -1", "found the number -1"),
        ("small: 1e10", "found the number 1e10"),
        (
            "share: 1e-400",
            "own.yaml:1:8: `1e-400` is outside the range",
        ),
        ("share: 1e400", "`1e400` is not a finite number"),
        ("count: 12 apples", "found the text \"12 apples\""),
        ("name: 5", "give text (in quotes"),
    ] {
        let problem = problem(text);
        assert!(problem.contains(words), "{text}: {problem}");
    }
}

#[test]
fn a_name_that_is_listed_twice_is_refused_with_both_lines() {
    for (text, words) in [
        (
            "models:\n  - {model: a, device: cpu}\n  - {model: a, device: cuda}\n  - {model: a, device: cpu}",
            "own.yaml:4:5: models.2: `a, cpu` is listed twice, first in line 2; keep one",
        ),
        (
            "fit: [a, b, a]",
            "own.yaml:1:13: fit.2: `a` is listed twice",
        ),
        ("memory_mb: [128, 1024, 128]", "`128` is listed twice"),
    ] {
        let problem = problem(text);
        assert!(problem.contains(words), "{text}: {problem}");
    }
    let twice = "models: [{model: a, device: cpu}, {model: a, device: cuda}]";
    assert!(read("own.yaml", twice, |_: &mut Sample| Ok(())).is_ok());
}

#[test]
fn errors_are_in_the_words_of_experiments() {
    for (text, words) in [
        (
            "nmae: a",
            "own.yaml:1:1: nmae: unknown field `nmae`; did you mean `name`?",
        ),
        (
            "name: a\nname: b",
            "own.yaml:2:1: name: duplicate key `name`; keep one of the two",
        ),
        (
            "models: [&a {x: s}, &b {x: t}, {<<: *a, <<: *b}]",
            "own.yaml:1:41: <<: duplicate key `<<`; merge both by one key",
        ),
        ("{count: 1,000,000}", "write numbers without commas"),
        ("{name: a, count: 1,000}", "write numbers without commas"),
        ("name: a\n---\nname: b", "remove the line `---`"),
        ("name:", "found nothing; give text"),
        ("name: [", "own.yaml:1"),
        ("name: *a", "own.yaml:1"),
        (
            "count: 1\nshare: -1",
            "own.yaml:2:8: share: below 0; of 0 models",
        ),
    ] {
        let problem = problem(text);
        assert!(problem.contains(words), "{text}: {problem}");
        for foreign in ["serde", "Options", "Option<", "from_str", "deserialize"] {
            assert!(!problem.contains(foreign), "{text}: {problem}");
        }
    }
}

#[test]
fn maps_are_merged_the_first_first() {
    let text = "models: [&a {x: s}, &b {x: t, y: u}, {<<: [*a, *b]}, {<<: *b, x: v}]";
    let read = read("own.yaml", text, |_: &mut Sample| Ok(())).unwrap();
    let of = |model: usize, key: &str| read.models[model][key].as_str();
    assert_eq!(
        [of(2, "x"), of(2, "y"), of(3, "x"), of(3, "y")],
        ["s", "u", "v", "u"]
    );
}
