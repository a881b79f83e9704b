//! A formula over a paper's tables, written over the rows that stand beside their cells.

use super::Unit;
use super::grid::{Column, Grid, KNOWN};
use super::instances::{ResolvedFormula, Scope, each, free_of, order};
use super::resolve::{Axis, Comparison, Judged, Node, Over};
use super::tree::{Fold, Op, Sign};

/// A figure of a row that stands beside a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The figure as formulas over rows name it: `time_to_accuracy(0.8)`.
    pub figure: String,
    /// The row's id.
    pub row: String,
    /// What the figure is multiplied by to be in the column's unit.
    pub factor: f64,
    /// The column's unit.
    pub unit: Option<Unit>,
}

/// A formula for one value of each free key, over rows.
#[derive(Clone, Debug, PartialEq)]
pub struct OverRows {
    /// Values of the free keys, each under its name.
    pub at: Vec<(String, String)>,
    /// The formula.
    pub text: String,
}

/// What may stand beside a cell.
pub type StandsBeside<'a> = dyn Fn(&Column, &[String]) -> Option<Beside> + 'a;

impl ResolvedFormula {
    /// Returns the formula over rows, for each value of its free keys for which all of its cells
    /// have a row beside them.
    pub fn over_rows(&self, grid: &Grid, beside: &StandsBeside<'_>) -> Vec<OverRows> {
        let translator = Translator { grid, beside };
        let mut all: Vec<OverRows> = Vec::new();
        let clauses = self.comparisons.len() / self.together;
        let mut is_told = true;
        // How many clauses each is made of.
        let mut found: Vec<usize> = Vec::new();
        for any in self.comparisons.chunks(self.together) {
            let free = free_of(any);
            let mut scope = Scope::new(&self.variables);
            let before: usize = found.iter().sum();
            // It returns no error.
            let _ = each(&free, &mut scope, &mut |scope| {
                let Some(text) = translator.any(any, scope) else {
                    return Ok(());
                };
                // A key with one value tells no instance from another.
                let value = |index: &usize| {
                    let is_one = scope.domain(*index).len() == 1;
                    let value = scope.value(*index).filter(|_| !is_one)?;
                    Some((scope.label(*index), value.to_owned()))
                };
                let at: Vec<(String, String)> = free.iter().filter_map(value).collect();
                match all.iter().position(|one| one.at == at) {
                    Some(index) => {
                        all[index].text.push_str(&format!(" and {text}"));
                        found[index] += 1;
                    }
                    None => {
                        all.push(OverRows { at, text });
                        found.push(1);
                    }
                }
                Ok(())
            });
            is_told = is_told && found.iter().sum::<usize>() > before;
        }
        // Clauses over the same keys hold together, or say nothing; those over keys of their own each
        // have an instance, or the statement has none.
        let is_alike = all.iter().all(|one| one.at == all[0].at) || clauses == 1;
        let is_whole = |index: &usize| !is_alike || found[*index] == clauses;
        let kept = (0..all.len()).filter(|index| is_told && is_whole(index));
        kept.map(|index| all[index].clone()).collect()
    }
}

struct Translator<'a> {
    grid: &'a Grid,
    beside: &'a StandsBeside<'a>,
}

/// A sum as text over rows. Its value times `scale` is that of the sum over the paper's cells, in
/// `unit`.
struct Term {
    text: String,
    scale: f64,
    unit: Option<Unit>,
    /// Whether it reads a figure of a row.
    reads: bool,
    /// Whether it is wrapped where it stands beside an operator.
    is_sum: bool,
}

impl Term {
    fn number(value: f64, unit: Option<Unit>) -> Self {
        Self {
            text: number(value),
            scale: 1.0,
            unit,
            reads: false,
            is_sum: false,
        }
    }

    /// Returns it with another scale.
    fn at(&self, scale: f64) -> Self {
        let factor = self.scale / scale;
        let (text, is_sum) = match self.text.parse::<f64>() {
            Ok(value) => (number(value * factor), false),
            _ if (factor - 1.0).abs() < EQUAL => (self.text.clone(), self.is_sum),
            _ => (format!("{} * {}", number(factor), self.wrapped()), true),
        };
        Self {
            text,
            scale,
            unit: self.unit.clone(),
            reads: self.reads,
            is_sum,
        }
    }

    /// Returns its text beside an operator.
    fn wrapped(&self) -> String {
        if self.is_sum {
            format!("({})", self.text)
        } else {
            self.text.clone()
        }
    }
}

/// Relative difference below which two scales are one.
const EQUAL: f64 = 1e-12;

impl Translator<'_> {
    fn any(&self, any: &[Comparison], scope: &mut Scope<'_>) -> Option<String> {
        let mut texts = Vec::new();
        for comparison in any {
            let pairs = self.pairs(comparison, scope)?;
            // One of several is one comparison.
            if pairs.is_empty() || any.len() > 1 && pairs.len() > 1 {
                return None;
            }
            texts.push(pairs.join(" and "));
        }
        Some(texts.join(" or "))
    }

    fn pairs(&self, comparison: &Comparison, scope: &mut Scope<'_>) -> Option<Vec<String>> {
        match &comparison.judged {
            Judged::Pair(left, op, right) => {
                let (left, right) = (self.term(left, scope)?, self.term(right, scope)?);
                Some(vec![joined(&left, *op, &right)?])
            }
            Judged::Best {
                is_max,
                over,
                value,
            } => {
                let op = if *is_max { Op::More } else { Op::Less };
                let steps = self.steps(over, scope)?;
                let own = steps.iter().find(|(at, _)| at == value)?;
                let rivals = steps.iter().filter(|(at, _)| at != value);
                rivals.map(|rival| joined(&own.1, op, &rival.1)).collect()
            }
            Judged::Trend { is_rising, over } => {
                let op = if *is_rising { Op::Less } else { Op::More };
                let mut steps = self.steps(over, scope)?;
                order(&mut steps);
                let pairs = steps.windows(2);
                pairs.map(|two| joined(&two[0].1, op, &two[1].1)).collect()
            }
        }
    }

    /// Returns a sum for each value of a key; none if a printed one has no row.
    fn steps(&self, over: &Over, scope: &mut Scope<'_>) -> Option<Vec<(String, Term)>> {
        let mut steps = Vec::new();
        let mut is_whole = true;
        for at in scope.domain(over.variable) {
            scope.set(over.variable, Some(at.clone()));
            match self.term(&over.of, scope) {
                Some(term) => steps.push((at, term)),
                None => is_whole = is_whole && !self.is_printed(&over.of, scope),
            }
        }
        scope.set(over.variable, None);
        (is_whole && steps.len() > 1).then_some(steps)
    }

    /// Returns whether all printed cells of a sum hold numbers.
    fn is_printed(&self, node: &Node, scope: &Scope<'_>) -> bool {
        match node {
            Node::Cell { column, axes } => {
                let column = &self.grid.columns()[*column];
                let at = scope.at(axes);
                at.is_some_and(|at| column.cell(&at).is_some())
            }
            Node::Negative(of) | Node::Rounded { of, .. } => self.is_printed(of, scope),
            Node::Binary(_, left, right, _) => {
                self.is_printed(left, scope) && self.is_printed(right, scope)
            }
            _ => true,
        }
    }

    fn term(&self, node: &Node, scope: &mut Scope<'_>) -> Option<Term> {
        match node {
            Node::Number(value) => Some(Term::number(value.number, value.unit().cloned())),
            Node::KeyNumber(variable, _) => {
                Some(Term::number(scope.value(*variable)?.parse().ok()?, None))
            }
            Node::Cell { column, axes } => self.cell(*column, axes, scope),
            Node::Negative(of) => {
                let of = self.term(of, scope)?;
                let text = format!("-{}", of.wrapped());
                Some(Term { text, ..of })
            }
            Node::Rounded { is_up, of } => {
                let of = self.term(of, scope)?;
                let name = if *is_up { "ceil" } else { "floor" };
                let of = of.at(1.0);
                Some(Term {
                    text: format!("{name}({})", of.text),
                    is_sum: false,
                    ..of
                })
            }
            Node::Binary(sign, left, right, _) => {
                let (left, right) = (self.term(left, scope)?, self.term(right, scope)?);
                binary(*sign, &left, &right)
            }
            Node::Fold(Fold::Sum, over) => {
                let steps = self.steps(over, scope)?;
                let mut terms = steps.into_iter().map(|(_, term)| term);
                let first = terms.next()?;
                terms.try_fold(first, |sum, next| binary(Sign::Plus, &sum, &next))
            }
            Node::Fold(fold, over) => self.extreme(*fold, over, scope),
            Node::Share(_) => None,
        }
    }

    fn cell(&self, column: usize, axes: &[Axis], scope: &Scope<'_>) -> Option<Term> {
        let column = &self.grid.columns()[column];
        let at = scope.at(axes)?;
        let printed = column.cell(&at);
        // A printed table has no statement about an empty cell.
        if printed.is_none() && !column.is_empty() {
            return None;
        }
        if let Some(found) = (self.beside)(column, &at) {
            return Some(Term {
                text: format!("{}[{}]", found.figure, found.row),
                scale: found.factor,
                unit: found.unit,
                reads: true,
                is_sum: false,
            });
        }
        let printed = printed.filter(|_| column.is_exact || column.table == KNOWN)?;
        Some(Term::number(printed.value, printed.unit.clone()))
    }

    /// Returns the largest or smallest of one figure of several rows: `max(row, seconds[a|b])`.
    fn extreme(&self, fold: Fold, over: &Over, scope: &mut Scope<'_>) -> Option<Term> {
        let mut steps = self.steps(over, scope)?.into_iter().map(|(_, term)| term);
        let first = steps.next()?;
        let part = |text: &str| {
            let (figure, row) = text.strip_suffix(']')?.split_once('[')?;
            (!row.contains('[')).then(|| (figure.to_owned(), row.to_owned()))
        };
        let (figure, mut rows) = part(&first.text)?;
        for step in steps {
            let (own, row) = part(&step.text)?;
            if own != figure || step.scale != first.scale {
                return None;
            }
            rows.push_str(&format!("|{row}"));
        }
        let name = if fold == Fold::Max { "max" } else { "min" };
        let text = format!("{name}(row, {figure}[{rows}])");
        Some(Term { text, ..first })
    }
}

/// Returns a sum of two as text.
fn binary(sign: Sign, left: &Term, right: &Term) -> Option<Term> {
    let reads = left.reads || right.reads;
    let (name, [left_text, right_text], scale, unit) = match sign {
        Sign::Plus | Sign::Minus => {
            let (left, right) = alike(left, right)?;
            let name = if sign == Sign::Plus { "+" } else { "-" };
            let unit = left.unit.clone().or_else(|| right.unit.clone());
            (name, [left.wrapped(), right.wrapped()], left.scale, unit)
        }
        Sign::Times | Sign::Over => {
            // Numbers scale a quantity; the unit of a product of quantities is not known.
            let unit = match (&left.unit, &right.unit, sign) {
                (Some(own), None, _) | (None, Some(own), Sign::Times) => Some(own.clone()),
                _ => None,
            };
            let texts = [left, right].map(Term::wrapped);
            match sign {
                Sign::Times => ("*", texts, left.scale * right.scale, unit),
                _ => ("/", texts, left.scale / right.scale, unit),
            }
        }
    };
    Some(Term {
        text: format!("{left_text} {name} {right_text}"),
        scale,
        unit,
        reads,
        is_sum: true,
    })
}

/// Returns two terms with one scale, where they are of one kind: in the unit of the left.
fn alike(left: &Term, right: &Term) -> Option<(Term, Term)> {
    let into = match (&left.unit, &right.unit) {
        // Wall time and a sum of times are not.
        (Some(own), Some(theirs)) => own.factor_from(theirs)?,
        _ => 1.0,
    };
    let mut own = right.at(right.scale);
    own.scale *= into;
    // A number takes the scale of what it stands with.
    let scale = if left.reads { left.scale } else { own.scale };
    Some((left.at(scale), own.at(scale)))
}

/// Returns a comparison; none of a figure with itself, and none without a figure.
fn joined(left: &Term, op: Op, right: &Term) -> Option<String> {
    let (left, right) = alike(left, right)?;
    let reads = left.reads || right.reads;
    (reads && left.text != right.text)
        .then(|| format!("{} {} {}", left.text, op.sign(), right.text))
}

/// Returns a number as formulas write it.
fn number(value: f64) -> String {
    if value < 0.0 {
        format!("(-{})", -value)
    } else {
        value.to_string()
    }
}
