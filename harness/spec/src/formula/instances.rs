//! The instances of a formula: its comparisons for all values of its free keys.

use std::cmp::Ordering;

use super::compare::{Chosen, Compared};
use super::error::FormulaError;
use super::grid::Grid;
use super::parse::sum;
use super::quantity::{Input, Value, read};
use super::resolve::{Axis, Comparison, Judged, Resolver, Variable};
use super::tree::{Formula, Op};
use super::value::Evaluator;

/// Assignments of values to free keys, beyond which a formula is refused.
const MOST: usize = 100_000;

/// A formula for one value of each free key.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Values of the free keys, each under its name.
    pub at: Vec<(String, String)>,
    /// It holds if one of these is true: one, but for formulas with `or`.
    pub any: Vec<Compared>,
    /// The numbers that were read.
    pub inputs: Vec<Input>,
    /// The numbers that a largest, smallest or best one was compared with, and that other numbers
    /// than these might have chosen.
    pub beside: Vec<Input>,
}

impl Instance {
    /// Returns whether it is true.
    pub fn holds(&self) -> bool {
        self.any.iter().any(|one| one.holds == Some(true))
    }

    /// Returns whether it fails for a strict comparison of two equal numbers alone.
    pub fn is_tied(&self) -> bool {
        let is_equal = |one: &Compared| {
            matches!(one.op, Op::Less | Op::More) && one.left.value == one.right.value
        };
        !self.holds() && self.any.iter().any(is_equal)
    }

    /// Returns whether it is undecided: not true, and one comparison cannot be judged.
    pub fn is_unlike(&self) -> bool {
        !self.holds() && self.any.iter().any(|one| one.holds.is_none())
    }
}

/// Puts the values of a key in their order, if all are numbers; otherwise they stay in that of the
/// table.
pub(super) fn order<T>(steps: &mut [(String, T)]) {
    let number = |(at, _): &(String, T)| at.parse::<f64>().ok();
    if steps.iter().all(|step| number(step).is_some()) {
        steps.sort_by(|a, b| number(a).partial_cmp(&number(b)).unwrap_or(Ordering::Equal));
    }
}

/// The value of each variable in an instance.
pub(super) struct Scope<'a> {
    variables: &'a [Variable],
    values: Vec<Option<String>>,
}

impl<'a> Scope<'a> {
    pub fn new(variables: &'a [Variable]) -> Self {
        Self {
            variables,
            values: vec![None; variables.len()],
        }
    }

    pub fn value(&self, variable: usize) -> Option<&str> {
        self.values[variable].as_deref()
    }

    /// Returns the values of a cell's keys; none where a variable has no value.
    pub fn at(&self, axes: &[Axis]) -> Option<Vec<String>> {
        let at = axes.iter().map(|axis| match axis {
            Axis::Fixed(value) => Some(value.clone()),
            Axis::Variable(index) => self.values[*index].clone(),
        });
        at.collect()
    }

    pub fn domain(&self, variable: usize) -> Vec<String> {
        self.variables[variable].domain.clone()
    }

    pub fn set(&mut self, variable: usize, value: Option<String>) {
        self.values[variable] = value;
    }

    pub fn label(&self, variable: usize) -> String {
        self.variables[variable].label.clone()
    }
}

/// A formula whose names are resolved over the columns of a grid, whatever their cells hold.
#[derive(Clone, Debug)]
pub struct ResolvedFormula {
    text: String,
    pub(super) variables: Vec<Variable>,
    pub(super) comparisons: Vec<Comparison>,
    /// Comparisons of which one is to be true: all of them, or each.
    pub(super) together: usize,
}

impl Formula {
    /// Returns the instances over a grid.
    ///
    /// # Errors
    /// When a name is unknown, units are unlike, or there is no instance.
    pub fn instances(&self, grid: &Grid) -> Result<Vec<Instance>, FormulaError> {
        self.resolve(grid)?.instances(grid)
    }

    /// Resolves the names over a grid.
    ///
    /// # Errors
    /// When a name is unknown.
    pub fn resolve(&self, grid: &Grid) -> Result<ResolvedFormula, FormulaError> {
        let mut resolver = Resolver::new(grid, &self.text);
        let mut comparisons = Vec::new();
        for clause in &self.clauses {
            let pairs = resolver.clause(clause)?;
            if self.is_or && (pairs.len() > 1 || pairs.iter().any(Comparison::is_trend)) {
                let problem = "one of several cannot be a chain or a trend";
                let remedy = "compare two sums on each side of `or`";
                return Err(resolver.error(pairs[0].span, problem, remedy));
            }
            comparisons.extend(pairs);
        }
        Ok(ResolvedFormula {
            text: self.text.clone(),
            variables: resolver.variables,
            together: if self.is_or { comparisons.len() } else { 1 },
            comparisons,
        })
    }
}

impl ResolvedFormula {
    /// Returns the instances over a grid with the columns and keys of the resolution.
    ///
    /// # Errors
    /// When units are unlike, or there is no instance.
    pub fn instances(&self, grid: &Grid) -> Result<Vec<Instance>, FormulaError> {
        let evaluator = Evaluator {
            grid,
            text: &self.text,
        };
        let mut scope = Scope::new(&self.variables);
        let mut all = Vec::new();
        for any in self.comparisons.chunks(self.together) {
            let own = evaluator.instances(any, &mut scope)?;
            if own.is_empty() {
                let span = any[0].span.to(any[self.together - 1].span);
                let problem = "there is no instance: no row has all of its cells";
                return Err(evaluator.error(span, problem, "name rows that are printed"));
            }
            all.extend(own);
        }
        Ok(all)
    }
}

/// Returns the number that a sum comes to, where free keys have these values.
///
/// # Errors
/// When the text is no sum, a name is unknown, or the sum has no value or several.
pub fn value_at(text: &str, grid: &Grid, at: &[(String, String)]) -> Result<f64, FormulaError> {
    let expr = sum(text)?;
    let mut resolver = Resolver::new(grid, text);
    let (node, free) = resolver.sum(&expr)?;
    for variable in &mut resolver.variables {
        let own = at.iter().find(|(label, _)| *label == variable.label);
        let own = own.or_else(|| at.iter().find(|(label, _)| *label == variable.key));
        if let Some((_, value)) = own
            && variable.domain.contains(value)
        {
            variable.domain = vec![value.clone()];
        }
    }
    let evaluator = Evaluator { grid, text };
    let mut found: Vec<Value> = Vec::new();
    each(&free, &mut Scope::new(&resolver.variables), &mut |scope| {
        found.extend(evaluator.value(&node, scope)?);
        Ok(())
    })?;
    match found.as_slice() {
        [one] => Ok(one.number),
        several => {
            let problem = match several.len() {
                0 => "it has no value: a cell is empty".to_owned(),
                count => format!("it has {count} values"),
            };
            Err(resolver.error(expr.span, problem, "name the row that is meant"))
        }
    }
}

/// Returns the free variables of comparisons, each once.
pub(super) fn free_of(any: &[Comparison]) -> Vec<usize> {
    let mut free: Vec<usize> = Vec::new();
    for index in any.iter().flat_map(|one| &one.free) {
        if !free.contains(index) {
            free.push(*index);
        }
    }
    free
}

type Each<'e> = dyn FnMut(&mut Scope<'_>) -> Result<(), FormulaError> + 'e;

/// Calls `done` with each assignment of values to these variables.
pub(super) fn each(
    free: &[usize],
    scope: &mut Scope<'_>,
    done: &mut Each<'_>,
) -> Result<(), FormulaError> {
    let Some((first, rest)) = free.split_first() else {
        return done(scope);
    };
    for value in scope.domain(*first) {
        scope.set(*first, Some(value));
        each(rest, scope, done)?;
    }
    scope.set(*first, None);
    Ok(())
}

impl Evaluator<'_> {
    /// Returns the instances of comparisons of which one must be true.
    pub(super) fn instances(
        &self,
        any: &[Comparison],
        scope: &mut Scope<'_>,
    ) -> Result<Vec<Instance>, FormulaError> {
        let free = free_of(any);
        let sizes = free.iter().map(|index| scope.domain(*index).len().max(1));
        let count: usize = sizes.product();
        if count > MOST {
            let problem = format!("{count} instances are too many");
            return Err(self.error(any[0].span, problem, "name rows in brackets"));
        }
        let mut found = Vec::new();
        each(&free, scope, &mut |scope| {
            let value =
                |index: &usize| Some((scope.label(*index), scope.value(*index)?.to_owned()));
            let at: Vec<(String, String)> = free.iter().filter_map(value).collect();
            if let [one] = any {
                found.extend(self.pairs(one, scope)?.into_iter().map(|pair| Instance {
                    at: at.iter().cloned().chain(pair.at).collect(),
                    ..pair
                }));
                return Ok(());
            }
            let mut instance = Instance {
                at,
                any: Vec::new(),
                inputs: Vec::new(),
                beside: Vec::new(),
            };
            for comparison in any {
                // An instance with an empty cell does not exist.
                let Some(pair) = self.pairs(comparison, scope)?.pop() else {
                    return Ok(());
                };
                instance.any.extend(pair.any);
                read(&mut instance.inputs, &pair.inputs);
                read(&mut instance.beside, &pair.beside);
            }
            found.push(instance);
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the pairs of numbers of a comparison, each under the step of the trend that it is of:
    /// one, but for trends; none if a cell is empty or both sides are one cell.
    fn pairs(
        &self,
        comparison: &Comparison,
        scope: &mut Scope<'_>,
    ) -> Result<Vec<Instance>, FormulaError> {
        let pair = |left: Chosen, op, right: Chosen, step: Option<(String, String)>| {
            let (mut inputs, mut beside) = (left.0.inputs.clone(), left.0.beside.clone());
            read(&mut inputs, &right.0.inputs);
            read(&mut beside, &right.0.beside);
            Ok(Instance {
                at: Vec::from_iter(step),
                any: vec![self.compared(left, op, right, comparison.span)?],
                inputs,
                beside,
            })
        };
        match &comparison.judged {
            Judged::Pair(left, op, right) => {
                let both = self.value(left, scope)?.zip(self.value(right, scope)?);
                let is_one_cell = |(left, right): &(Value, Value)| {
                    !left.inputs.is_empty()
                        && (&left.inputs, &left.beside) == (&right.inputs, &right.beside)
                        && left.number == right.number
                };
                let two = both.filter(|both| !is_one_cell(both)).into_iter();
                two.map(|(left, right)| pair((left, None), *op, (right, None), None))
                    .collect()
            }
            Judged::Best {
                is_max,
                over,
                value,
            } => {
                let steps = self.steps(over, scope)?.into_iter();
                let (own, mut rivals): (Vec<_>, Vec<_>) = steps.partition(|(at, _)| at == value);
                rivals.sort_by(|(_, a), (_, b)| {
                    let [a, b] = if *is_max { [a, b] } else { [b, a] };
                    a.number.total_cmp(&b.number)
                });
                let (Some((at, own)), Some((rival, best))) = (own.into_iter().next(), rivals.pop())
                else {
                    return Ok(Vec::new());
                };
                let others = rivals.iter();
                let best = others.fold(best, |best, (_, other)| best.chosen_before(other));
                let op = if *is_max { Op::More } else { Op::Less };
                Ok(vec![pair((own, Some(at)), op, (best, Some(rival)), None)?])
            }
            Judged::Trend { is_rising, over } => {
                let op = if *is_rising { Op::Less } else { Op::More };
                let mut steps = self.steps(over, scope)?;
                order(&mut steps);
                let pairs = steps.windows(2).map(|two| {
                    let [from, to] = [&two[0], &two[1]];
                    let step = format!("{} to {}", from.0, to.0);
                    let step = (scope.label(over.variable), step);
                    let side = |(at, value): &(String, Value)| (value.clone(), Some(at.clone()));
                    pair(side(from), op, side(to), Some(step))
                });
                pairs.collect()
            }
        }
    }
}
