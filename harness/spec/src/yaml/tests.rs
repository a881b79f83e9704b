use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::*;
use crate::testing::{cases, holds, lacks};

#[derive(Debug, Default, Deserialize, JsonSchema)]
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

/// Texts, each with what is said of it.
#[track_caller]
fn refused(lines: &[&str]) {
    for ([text], words) in cases(lines) {
        holds(problem(text), &words);
    }
}

#[test]
fn a_text_parsed_again_is_the_same_whatever_was_parsed_between() {
    let tree = |name: usize| {
        let text = format!("name: n{name}\nmodels: [{{a: b}}]\n");
        Document::parse(Path::new("own.yaml"), text).unwrap().root
    };
    let first = tree(0);
    for other in 1..40 {
        assert_ne!(tree(other), first);
        // Kept.
        assert_eq!(tree(0), first);
    }
    for other in 1..40 {
        tree(other);
    }
    // Parsed anew.
    assert_eq!(tree(0), first);
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
        let expected = (whole, u32::try_from(whole).ok(), whole as f64);
        assert_eq!((read.count, read.small, read.share), expected, "{written}");
    }
}

#[test]
fn numbers_are_refused_as_they_are_written() {
    refused(&[
        "count: 1.5e0 | own.yaml:1:8: count: wrong type or value: found the number 1.5e0; give a whole number",
        "count: 017 | found 017, which starts with 0; write it without",
        "{count: 04} | found 04, which starts with 0; write it without",
        "count: -1 | found the number -1",
        "small: 1e10 | found the number 1e10",
        "share: 1e-400 | own.yaml:1:8: `1e-400` is outside the range",
        "share: 1e400 | `1e400` is not a finite number",
        "count: 12 apples | found the text \"12 apples\"",
        "name: 5 | give text (in quotes",
    ]);
}

#[test]
fn a_name_that_is_listed_twice_is_refused_with_both_lines() {
    refused(&[
        "models:\n  - {model: a, device: cpu}\n  - {model: a, device: cuda}\n  - {model: a, device: cpu} | own.yaml:4:5: models.2: `a, cpu` is listed twice, first in line 2; keep one",
        "fit: [a, b, a] | own.yaml:1:13: fit.2: `a` is listed twice",
        "memory_mb: [128, 1024, 128] | `128` is listed twice",
    ]);
    let twice = "models: [{model: a, device: cpu}, {model: a, device: cuda}]";
    assert!(read("own.yaml", twice, |_: &mut Sample| Ok(())).is_ok());
}

#[test]
fn errors_are_in_the_words_of_experiments() {
    let lines = [
        "nmae: a | own.yaml:1:1: nmae: unknown field `nmae`; did you mean `name`?",
        "name: a\nname: b | own.yaml:2:1: name: duplicate key `name`; keep one of the two",
        "models: [&a {x: s}, &b {x: t}, {<<: *a, <<: *b}] | own.yaml:1:41: <<: duplicate key `<<`; merge both by one key",
        "{count: 1,000,000} | write numbers without commas",
        "{name: a, count: 1,000} | write numbers without commas",
        "name: a\n---\nname: b | remove the line `---`",
        "name: | found nothing; give text",
        "name: [ | own.yaml:1",
        "name: *a | own.yaml:1",
        "count: 1\nshare: -1 | own.yaml:2:8: share: below 0; of 0 models",
    ];
    refused(&lines);
    for ([text], _) in cases(&lines) {
        let foreign = ["serde", "Options", "Option<", "from_str", "deserialize"];
        lacks(problem(text), &foreign);
    }
}

#[test]
fn maps_are_merged_the_first_first() {
    let text = "models: [&a {x: s}, &b {x: t, y: u}, {<<: [*a, *b]}, {<<: *b, x: v}]";
    let read = read("own.yaml", text, |_: &mut Sample| Ok(())).unwrap();
    let of = |model: usize, key: &str| read.models[model][key].as_str();
    let merged = [of(2, "x"), of(2, "y"), of(3, "x"), of(3, "y")];
    assert_eq!(merged, ["s", "u", "v", "u"]);
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Bounded {
    #[schemars(range(min = 1, max = 900))]
    timeout_s: Option<u32>,
    #[schemars(range(min = 0.0, max = 1e18))]
    rate: f64,
    #[schemars(length(max = 3))]
    word: String,
    #[schemars(length(min = 2, max = 3), inner(range(min = -1, max = 5)))]
    list: Option<Vec<i32>>,
    #[schemars(extend("additionalProperties" = {"type": "integer", "minimum": 1, "maximum": 9}, "maxProperties" = 2))]
    map: BTreeMap<String, u32>,
    either: Option<Either>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code)]
enum Either {
    Never,
    Every(#[schemars(range(min = 2, max = 7))] u32),
    In {
        #[schemars(range(min = 3, max = 4))]
        steps: u32,
    },
}

#[test]
fn values_beyond_their_bounds_are_refused_where_they_are() {
    for ([text], words) in cases(&[
        "timeout_s: 0 | own.yaml:1:12: timeout_s: zero timeout_s; give 1 or more",
        "timeout_s: 901 | timeout_s: 901 is outside 1 to 900; give 1 to 900",
        "rate: -0.5 | rate: -0.5 is outside 0 to 1e18; give 0 to 1e18",
        "rate: 1e19 | rate: 1e19 is outside",
        "word: abcd | word: 4 characters are too many; give 3 or fewer",
        "list: [1] | list: 1 entries are too few; give 2 or more",
        "list: [1, 2, 3, 4] | list: 4 entries are too many",
        "list:\n  - 1\n  - -2 | own.yaml:3:5: list.1: -2 is outside -1 to 5",
        "map: {a: 1, b: 10} | own.yaml:1:16: map.b: 10 is outside 1 to 9",
        "map: {a: 1, b: 1, c: 1} | map: 3 entries are too many",
        "either: {every: 8} | either.every: 8 is outside 2 to 7",
        "either: {in: {steps: 5}} | either.in.steps: 5 is outside 3 to 4",
    ]) {
        let refused = read("own.yaml", text, |_: &mut Bounded| Ok(()));
        let (problem, remedy) = refused.unwrap_err();
        holds(format!("{problem}; {remedy}"), &words);
    }
    for text in [
        "{timeout_s: 900, rate: 1e18, word: äöü, list: [-1, 5], map: {a: 9}}",
        "{timeout_s: null, list: null, either: never}",
        "{either: {every: 2}}",
    ] {
        let read = read("own.yaml", text, |_: &mut Bounded| Ok(()));
        assert!(read.is_ok(), "{text}: {:?}", read.unwrap_err());
    }
}

#[test]
fn a_reference_has_each_field_with_values_bounds_and_meaning() {
    let fields = schema::fields(&schema::of::<Bounded>());
    let form = |path: &str| {
        let found = fields.iter().find(|field| field.path == path);
        found.map(|field| field.form.as_str())
    };
    for (path, expected) in [
        ("timeout_s", "whole number, 1 to 900"),
        ("rate", "number, 0 to 1e18, default 0"),
        ("either", "never | {every: …} | {in: …}"),
        ("either.in.steps", "whole number, 3 to 4, required"),
    ] {
        assert_eq!(form(path), Some(expected));
    }
}

#[test]
fn a_file_beyond_four_mebibytes_is_not_parsed() {
    let text = format!("name: {}", "a".repeat(4 << 20));
    let (problem, remedy) = read("own.yaml", &text, |_: &mut Sample| Ok(())).unwrap_err();
    assert_eq!(problem, "own.yaml:1:1: a file of 4194310 bytes");
    assert_eq!(remedy, "write at most 4194304 bytes");
}
