use proptest::prelude::*;

use super::*;
use crate::testing::{cases, holds};

/// A table as text: a line of names, `|` after the last key; units in parentheses.
fn table(grid: &mut Grid, name: &str, text: &str) {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let (keys, columns) = lines.next().unwrap().split_once('|').unwrap();
    let words =
        |text: &str| -> Vec<String> { text.split(',').map(|w| w.trim().to_owned()).collect() };
    let keys = words(keys);
    let rows: Vec<Vec<String>> = lines.map(words).collect();
    for (index, column) in words(columns).into_iter().enumerate() {
        let (column, unit) = column.split_once('(').unwrap_or((&column, ""));
        let unit = Unit::named(unit.trim_end_matches(')'));
        let is_exact = unit.as_ref().is_some_and(Unit::is_count);
        let mut made = Column::new(name, column.trim(), &keys, is_exact);
        for (line, row) in rows.iter().enumerate() {
            let at: Vec<String> = row[..keys.len()].to_vec();
            let text = &row[keys.len() + index];
            made.name_values(&at);
            if !text.is_empty() {
                let cell = Cell {
                    value: text.parse().unwrap(),
                    half_digit: if is_exact { 0.0 } else { half_digit(text) },
                    unit: unit.clone(),
                    place: format!("{name}:{}:{column}", line + 2),
                };
                assert!(made.insert(at, cell).is_none());
            }
        }
        grid.add_column(made);
    }
}

fn number(grid: &mut Grid, name: &str, text: &str, unit: &str, is_setup: bool) {
    let cell = Cell {
        value: text.parse().unwrap(),
        half_digit: half_digit(text),
        unit: Unit::named(unit),
        place: format!("quoted:{name}"),
    };
    assert!(grid.add_number(name, Number { cell, is_setup }));
}

fn grid() -> Grid {
    let mut grid = Grid::default();
    table(
        &mut grid,
        "costs",
        "model, framework | seconds(s), batches, usd(USD), share(%)
         small, one, 10, 3, 0.30, 50.0
         small, two, 20, 3, 0.61, 50.4
         small, gpu, 5, , 0.10, 60.1
         large, one, 40, 3, 1.20, 70.0
         large, two, 50, 3, 1.49, 70.0
         large, gpu, 8, , 0.20, 90.0",
    );
    table(
        &mut grid,
        "sizes",
        "batch | minutes(min), usd(USD), bytes(MB), count(count)
         64, 1, 0.5, 1, 100
         128, 2, 0.4, 1, 50
         1024, 4, 0.6, 1, 6",
    );
    number(&mut grid, "workers", "4", "", true);
    number(&mut grid, "samples", "6400", "", true);
    number(&mut grid, "speedup", "13", "ratio", false);
    grid.add_names(&["gpu".to_owned(), "GPU (four)".to_owned()]);
    grid.add_unprinted(["seconds_per_epoch".to_owned()]);
    grid.add_derived("price", "costs.usd / seconds").unwrap();
    grid
}

/// A grid of one table.
fn grid_of(text: &str) -> Grid {
    let mut grid = Grid::default();
    table(&mut grid, "t", text);
    grid
}

fn over(text: &str, grid: &Grid) -> Result<Vec<Instance>, FormulaError> {
    Formula::parse(text)?.instances(grid)
}

fn instances(text: &str) -> Vec<Instance> {
    over(text, &grid()).unwrap_or_else(|error| panic!("{error}"))
}

/// Instances that hold, of how many.
#[track_caller]
fn held(text: &str, of: [usize; 2]) {
    let all = instances(text);
    let held = all.iter().filter(|one| one.holds()).count();
    assert_eq!([held, all.len()], of, "{text}: {all:#?}");
}

/// Formulas with their instances that hold, of how many.
#[track_caller]
fn held_all(lines: &[&str]) {
    for ([text, of], _) in cases(lines) {
        let (holding, all) = of.split_once(" of ").unwrap();
        held(text, [holding, all].map(|count| count.parse().unwrap()));
    }
}

fn error(text: &str) -> FormulaError {
    over(text, &grid()).expect_err(text)
}

#[test]
fn free_keys_hold_for_all_values_and_empty_cells_drop_an_instance() {
    held_all(&[
        "seconds < 45 | 5 of 6",
        "seconds[small] < 45 | 3 of 3",
        "seconds * batches > 0 | 4 of 4",
        "seconds[not gpu] > seconds[gpu] | 4 of 4",
        "seconds[one] <= seconds | 2 of 4",
        "seconds[one] < seconds[two] and seconds[gpu] < 6 | 3 of 4",
        "seconds[gpu] > 6 or costs.usd[gpu] < 0.15 | 2 of 2",
        "seconds[GPU (four), small] = 5 | 1 of 1",
    ]);
}

#[test]
fn sets_of_one_name_and_equal_sets_have_one_value() {
    // Each of the two with itself, and not each with each.
    held("seconds[one|two] * costs.usd[one|two] > 0", [4, 4]);
    let named = "seconds[f: one|two, small] + seconds[f, large] < 60";
    held(named, [1, 2]);
    let at = instances(named)[0].at.clone();
    assert_eq!(at, [("f".to_owned(), "one".to_owned())]);
    held("seconds[one|two, small] < seconds[two|gpu, large]", [2, 4]);
    // The name of a key says which key is meant.
    held("seconds[framework: one] > 0", [2, 2]);
}

#[test]
fn chains_trends_and_the_best_are_comparisons_of_two_numbers() {
    held_all(&[
        "seconds[gpu] < seconds[one] < seconds[two] | 4 of 4",
        "rising(batch, minutes) | 2 of 2",
        "falling(batch, sizes.usd) | 1 of 2",
    ]);
    let steps = instances("rising(batch, minutes)");
    let at = ("batch".to_owned(), "128 to 1024".to_owned());
    assert_eq!(steps[1].at, [at]);
    held_all(&[
        "argmin(framework, seconds) = gpu | 2 of 2",
        "argmax(framework, costs.share) = gpu | 2 of 2",
        "argmax(framework, seconds) = gpu and argmin(batch, sizes.usd) = 128 | 1 of 3",
    ]);
    let best = &instances("argmax(framework, seconds[small]) = gpu")[0].any[0];
    assert_eq!((best.left.value, best.right.value), (5.0, 20.0));
    assert_eq!(best.right.row.as_deref(), Some("two"));
}

#[test]
fn functions_go_over_a_key() {
    held_all(&[
        "max(batch, sizes.usd / minutes) = 0.5 | 1 of 1",
        "sum(framework, seconds[small]) = 35 | 1 of 1",
        "min(framework, seconds[not gpu, large]) = 40 | 1 of 1",
        "min(framework, seconds[not gpu]) >= 10 | 2 of 2",
        "sizes.count = ceil(samples / batch) | 2 of 3",
        "floor(-seconds[gpu, small] / 2) = -3 | 1 of 1",
        "share(seconds < 45) >= 1/2 | 1 of 1",
        "share(seconds < 45) > 5/6 | 0 of 1",
    ]);
    // What was read is what was chosen.
    let [one] = &instances("max(batch, sizes.usd) = 0.6")[..] else {
        panic!()
    };
    let [read] = one.inputs.as_slice() else {
        panic!("{:?}", one.inputs);
    };
    assert_eq!(read.place, "sizes:4:usd");
}

#[test]
fn derived_quantities_take_the_sets_of_their_reference() {
    held_all(&[
        "price[gpu, small] = 0.02 | 1 of 1",
        "price[one] > price[gpu] | 2 of 2",
        "argmax(framework, price[large]) = one | 1 of 1",
    ]);
    let wrong = error("price[three] > 0");
    assert_eq!((wrong.column(), &*wrong.text), (7, "price[three] > 0"));
}

#[test]
fn equality_is_to_the_digits_or_to_one_percent_by_what_is_compared() {
    held_all(&[
        // A lone number: to its digits.
        "seconds[small, two] / seconds[small, gpu] = 4.0 | 1 of 1",
        "seconds[small, two] / seconds[large, one] * 26.3 = speedup | 1 of 1",
        "seconds[small, two] / seconds[large, one] * 30 = speedup | 0 of 1",
        "4.2 = seconds[small, two] / 5 | 0 of 1",
        // Products: within 1 %, which the mark says.
        "seconds[small, one] * 1.009 = seconds[small, one] * 1.0 | 1 of 1",
        // Counts and set-ups: exactly.
        "sizes.count[128] * 128 = samples | 1 of 1",
        "sizes.count[1024] * 1024 = samples | 0 of 1",
        "workers * 1600.5 = samples | 0 of 1",
        // Percentages: in points.
        "costs.share[small, one] = costs.share[small, two] | 0 of 1",
        "costs.share[small, one] ~ costs.share[small, two] | 1 of 1",
        "costs.share[small, one] ~ costs.share[large, one] | 0 of 1",
        "seconds[small, one] * 1.09 ~ seconds[small, one] | 1 of 1",
        "seconds[small, one] * 1.2 ~ seconds[small, one] * 1.0 | 0 of 1",
    ]);
}

#[test]
fn nearly_is_beyond_rounding_and_within_one_percent() {
    let grid =
        grid_of("k | a(USD), b(s)\n x, 1.0000, 1.0050\n y, 1.0000, 1.0200\n z, 1.00, 1.0001");
    let error = over("a = b * 1", &grid).unwrap_err();
    assert!(error.problem.contains("USD and s"), "{error}");
    let found: Vec<_> = (over("a = b * b / b", &grid).unwrap().iter())
        .map(|one| (one.any[0].holds, one.any[0].within_rounding))
        .collect();
    let [nearly, no, yes] = [(true, false), (false, false), (true, true)]
        .map(|(holds, rounding)| (Some(holds), Some(rounding)));
    assert_eq!(found, [nearly, no, yes]);
}

#[test]
fn units_convert_and_unlike_ones_are_refused() {
    held_all(&[
        "minutes[64] * 5 > seconds[large, two] | 1 of 1",
        "minutes[64] + seconds[small, one] > seconds[large, two] | 1 of 1",
        "seconds[small, one] + minutes[64] = 70 | 1 of 1",
    ]);
    let wrong = error("seconds[small] < costs.usd[small]");
    let said = (wrong.column(), &*wrong.problem);
    assert_eq!(said, (1, "s and USD are unlike units"));
    let wrong = error("4 < seconds + sizes.bytes[64]");
    assert_eq!(wrong.column(), 5, "{wrong}");
    // Products are not checked.
    held("seconds[small, one] * costs.usd[small, one] = 3.00", [1, 1]);
    let grid = grid_of("k | wall(s), all(s summed)\n x, 10, 40");
    let all = over("wall < all", &grid).unwrap();
    assert!(all[0].is_unlike() && !all[0].holds());
    assert_eq!(all[0].any[0].holds, None);
}

#[test]
fn errors_give_column_caret_and_remedy() {
    for ([text, column, problem], remedy) in cases(&[
        "seconds < | 10 | ends too early | a number or a name",
        "secnods < 3 | 1 | no `secnods` | did you mean `seconds`",
        "seconds < 3 andd 4 | 13 | `a` is not expected | the end",
        "seconds < 3 and batches = 3 or batches = 4 | 29 | mixed | two statements",
        "seconds[smal] < 3 | 9 | no row `smal` | did you mean `small`",
        "seconds[model: three] < 3 | 9 | no row of `seconds` has model three | large, small",
        "seconds[small, large] < 3 | 16 | two sets of `model` | `|`",
        "seconds[small|one] < 3 | 9 | different keys | comma",
        "usd < 3 | 1 | several tables | `costs.usd` or `sizes.usd`",
        "costs.minutes < 3 | 1 | no `minutes` in `costs` | minutes",
        "max(batches, seconds) < 3 | 5 | no key `batches` | did you mean `batch`",
        "max(batch, seconds) < 3 | 5 | nothing in it has the key `batch` | leave the key",
        "argmax(framework, seconds) = three | 30 | `three` is no framework | gpu",
        "argmax(framework, seconds) = one|two | 33 | `|` is not expected | the end",
        "workers[small] = 4 | 9 | `workers` has no keys | leave the brackets out",
        "seconds / (workers - 4) < 3 | 1 | division by 0 | 0",
        "1.5.2 < seconds | 1 | `1.5.2` is no number | 1200",
        "seconds['small] < 3 | 9 | quotation | close it",
        "seconds[small < 3 | 18 | ends too early | `]`",
        "framework < 3 | 1 | no one value | `framework`",
        "framework * seconds < 3 | 1 | `one` is no number | numbers",
        "batches[gpu] = 3 | 1 | no instance | printed",
        "seconds[not small|large] < 3 | 9 | empty | one value",
        "seconds = seconds | 1 | no instance | printed",
        "seconds[f: one, small] < seconds[f: two, small] | 34 | `f` names two sets | another name",
        "rising(batch, minutes) or seconds < 3 | 8 | cannot be a chain or a trend | two sums",
    ]) {
        let error = error(text);
        let column: usize = column.parse().unwrap();
        assert_eq!(error.column(), column, "{error}");
        assert!(error.problem.contains(problem), "{error}");
        holds(&error.remedy, &remedy);
        let caret = error.to_string();
        let caret = caret.lines().nth(2).unwrap().find('^').unwrap();
        assert_eq!(caret, column + 1, "{error}");
    }
    let unprinted = error("seconds_per_epoch[small] < 3");
    assert!(unprinted.is_unprinted && unprinted.problem.contains("not printed"));
    assert!(!error("second_per_epoch < 3").is_unprinted);
}

#[test]
fn a_quantity_made_of_itself_is_refused() {
    let mut grid = grid();
    grid.add_derived("round", "1 + round").unwrap();
    let error = over("round < 3", &grid).unwrap_err();
    assert!(error.problem.contains("made of itself"), "{error}");
}

#[test]
fn depth_is_limited_and_not_the_stack() {
    for opening in ["(", "-", "share("] {
        let error = Formula::parse(&opening.repeat(100_000)).unwrap_err();
        assert!(error.problem.contains("too"), "{}", error.problem);
    }
}

#[test]
fn numbers_of_notes_have_one_value() {
    let grid = grid();
    let at = [("model".to_owned(), "small".to_owned())];
    let value = |text: &str, at: &[(String, String)]| value_at(text, &grid, at);
    assert_eq!(value("seconds[one] + 1", &at).unwrap(), 11.0);
    let error = value("seconds[one]", &[]).unwrap_err();
    assert!(error.problem.contains("2 values"), "{error}");
}

/// Sums of literals, with what they come to.
fn sums() -> impl Strategy<Value = (String, f64)> {
    let number = (1u32..1000).prop_map(|n| (n.to_string(), f64::from(n)));
    number.prop_recursive(5, 40, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            (two.clone()).prop_map(|((a, x), (b, y))| (format!("({a} + {b})"), x + y)),
            (two.clone()).prop_map(|((a, x), (b, y))| (format!("({a} - {b})"), x - y)),
            two.prop_map(|((a, x), (b, y))| (format!("{a} * {b}"), x * y)),
            inner.prop_map(|(a, x)| (format!("-({a})"), -x)),
        ]
    })
}

/// A row of a table: two numbers with two decimals.
fn cells() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((1u32..10_000, 1u32..10_000), 1..8)
}

fn of(cells: &[(u32, u32)]) -> Grid {
    let rows = cells.iter().enumerate().map(|(row, (a, b))| {
        let [a, b] = [a, b].map(|cents| f64::from(*cents) / 100.0);
        format!("r{row}, {a:.2}, {b:.2}")
    });
    let rows: Vec<String> = rows.collect();
    grid_of(&format!("k | a, b\n{}", rows.join("\n")))
}

fn marks(text: &str, grid: &Grid) -> Vec<(String, bool)> {
    let all = over(text, grid).unwrap().into_iter();
    all.map(|one| (one.at[0].1.clone(), one.holds())).collect()
}

proptest! {
    #[test]
    fn no_text_is_a_panic(text in "\\PC{0,60}") {
        let _ = over(&text, &grid());
    }

    #[test]
    fn no_mixture_of_words_is_a_panic(words in prop::collection::vec(
        prop::sample::select(vec!["seconds", "usd", "costs.", "[", "]", "small", "not", "|", ",", "(", ")",
            "max(", "argmax(", "rising(", "share(", "batch", "framework", "=", "<", "+", "-", "/", "and", "or",
            "2", "f:", "price", "workers", "minutes"]), 0..14)) {
        let text = words.join(" ");
        if let Err(error) = over(&text, &grid()) {
            prop_assert!(error.column() <= error.text.chars().count() + 1, "{}", error);
            prop_assert!(!error.remedy.is_empty());
        }
    }

    #[test]
    fn sums_are_arithmetic((text, value) in sums()) {
        let found = value_at(&text, &Grid::default(), &[]).unwrap();
        prop_assert!((found - value).abs() <= value.abs() * 1e-12, "{text} = {found}, not {value}");
    }

    #[test]
    fn a_comparison_and_its_opposite_exclude_each_other(cells in cells()) {
        let grid = of(&cells);
        for (text, opposite) in [("a < b", "a >= b"), ("a > b", "a <= b")] {
            for (one, other) in marks(text, &grid).into_iter().zip(marks(opposite, &grid)) {
                prop_assert_ne!(one.1, other.1);
            }
        }
    }

    #[test]
    fn a_changed_cell_changes_its_mark_alone(cells in cells(), row in 0usize..8) {
        let row = row % cells.len();
        // Every row follows, then one does not.
        let sound: Vec<(u32, u32)> = cells.iter().map(|(_, b)| (2 * b, *b)).collect();
        prop_assert!(marks("a = 2 * b", &of(&sound)).iter().all(|(_, holds)| *holds));
        let mut changed = sound.clone();
        changed[row].0 += changed[row].0 / 20 + 10;
        for (at, holds) in marks("a = 2 * b", &of(&changed)) {
            prop_assert_eq!(holds, at != format!("r{row}"));
        }
    }

    #[test]
    fn the_order_of_rows_changes_no_mark(cells in cells()) {
        let mut turned = cells.clone();
        turned.reverse();
        let last = cells.len() - 1;
        let mut other = marks("a < b", &of(&turned));
        for (at, _) in &mut other {
            *at = format!("r{}", last - at[1..].parse::<usize>().unwrap());
        }
        other.sort();
        prop_assert_eq!(marks("a < b", &of(&cells)), other);
    }
}
