use epochcost_judge::audit;
use epochcost_spec::formula::{Beside, Cell, Formula, Instance};

use super::*;

/// A statement over rows that hold what the paper prints says what it says over the paper:
/// in each instance it holds or not, and compares the same ratio.
#[test]
fn a_formula_over_rows_is_that_over_the_paper() {
    let mut compared = 0;
    for paper in audit::read(&[], None).unwrap() {
        // Each figure in another unit than the paper's, so that scales are seen.
        for factor in [1.0, 60.0, 0.01] {
            for statement in &paper.statements {
                let Some(formula) = &statement.formula else {
                    continue;
                };
                if let Ok(instances) = formula.instances(&paper.grid) {
                    compared += over_rows(&paper, formula, &instances, factor);
                }
            }
        }
    }
    assert!(compared > 300, "{compared}");
}

/// Compares a formula's instances with those over rows; returns how many there are.
fn over_rows(paper: &Paper, formula: &Formula, over_paper: &[Instance], factor: f64) -> usize {
    let row = |at: &[String]| format!("r-{}", at.join("-").replace([' ', ',', '(', ')', '='], "_"));
    let mut rows = Grid::default();
    let mut figures = std::collections::BTreeSet::new();
    let columns = paper.grid.columns().iter();
    for column in columns.filter(|column| !column.is_exact) {
        let name = format!("{}_{}", column.table, column.name);
        let mut made = Column::new("row", &name, &["row".to_owned()], false);
        for (at, cell) in column.cells() {
            let scaled = Cell {
                value: cell.value / factor,
                half_digit: cell.half_digit / factor,
                unit: None,
                ..cell.clone()
            };
            made.insert(vec![row(at)], scaled);
        }
        figures.insert(name);
        rows.add_column(made);
    }
    let beside = |column: &Column, at: &[String]| {
        let figure = format!("{}_{}", column.table, column.name);
        let cell = column.cell(at)?;
        figures.contains(&figure).then(|| Beside {
            figure,
            row: row(at),
            factor,
            unit: cell.unit.clone(),
        })
    };
    let resolved = formula.resolve(&paper.grid).unwrap();
    let mut compared = 0;
    for one in resolved.over_rows(&paper.grid, &beside) {
        let again = Formula::parse(&one.text).and_then(|formula| formula.instances(&rows));
        let again = again.unwrap_or_else(|error| panic!("{}: {error}", one.text));
        let is_its = |instance: &&Instance| {
            let mut at = one.at.iter();
            at.all(|value| instance.at.contains(value))
        };
        let own: Vec<&Instance> = over_paper.iter().filter(is_its).collect();
        // Equality has the digits that are printed, which a product of units has not.
        if !formula.text().contains(['=', '~']) || formula.text().contains(['<', '>']) {
            let here = again.iter().all(Instance::holds);
            let there = own.iter().all(|instance| instance.holds());
            assert_eq!(here, there, "{} over rows: {}", formula.text(), one.text);
        }
        if let ([a], [b]) = (again.as_slice(), own.as_slice())
            && let (Some(a), Some(b)) = (a.any[0].ratio, b.any[0].ratio)
        {
            let is_same = (a - b).abs() <= 1e-9 * b.abs();
            assert!(is_same, "{}: {a} and {b}: {}", formula.text(), one.text);
        }
        compared += 1;
    }
    compared
}
