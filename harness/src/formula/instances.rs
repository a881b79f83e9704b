//! The instances of a formula: its comparisons for all values of its free keys.

use super::compare::{Compared, Holds};
use super::error::FormulaError;
use super::grid::Grid;
use super::parse::{Formula, Op, sum};
use super::quantity::Value;
use super::resolve::{Comparison, Judged, Node, Resolver, Variable};
use super::value::{Evaluator, Input};

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
}

impl Instance {
    /// Returns whether it is true.
    pub fn holds(&self) -> bool {
        self.any.iter().any(Compared::is_true)
    }

    /// Returns whether it is undecided: not true, and one comparison cannot be judged.
    pub fn is_unlike(&self) -> bool {
        !self.holds() && self.any.iter().any(|one| one.holds == Holds::Unlike)
    }
}

/// The value of each variable in an instance.
pub(super) struct Scope<'a> {
    variables: &'a [Variable],
    values: Vec<Option<String>>,
}

impl<'a> Scope<'a> {
    fn new(variables: &'a [Variable]) -> Self {
        Self {
            variables,
            values: vec![None; variables.len()],
        }
    }

    pub fn value(&self, variable: usize) -> Option<&str> {
        self.values[variable].as_deref()
    }

    pub fn domain(&self, variable: usize) -> Vec<String> {
        self.variables[variable].domain.clone()
    }

    pub fn set(&mut self, variable: usize, value: Option<String>) {
        self.values[variable] = value;
    }
}

impl Formula {
    /// Returns the instances over a grid.
    ///
    /// # Errors
    /// When a name is unknown, units are unlike, or there is no instance.
    pub fn instances(&self, grid: &Grid) -> Result<Vec<Instance>, FormulaError> {
        let mut resolver = Resolver::new(grid, &self.text);
        let mut clauses = Vec::new();
        for clause in &self.clauses {
            clauses.push(resolver.clause(clause)?);
        }
        let mut evaluator = Evaluator::new(grid, &self.text);
        let mut scope = Scope::new(&resolver.variables);
        let mut all = Vec::new();
        if self.is_or {
            let chain = clauses.iter().find(|pairs| pairs.len() > 1);
            let is_trend = |one: &Comparison| matches!(one.judged, Judged::Trend { .. });
            let trend = clauses.iter().flatten().find(|one| is_trend(one));
            if let Some(one) = chain.and_then(|pairs| pairs.first()).or(trend) {
                let problem = "one of several cannot be a chain or a trend";
                return Err(resolver.error(
                    one.span,
                    problem,
                    "compare two sums on each side of `or`",
                ));
            }
            let together: Vec<Comparison> = clauses.into_iter().flatten().collect();
            all = evaluator.instances(&together, &mut scope)?;
        } else {
            for comparison in clauses.iter().flatten() {
                let own = evaluator.instances(std::slice::from_ref(comparison), &mut scope)?;
                if own.is_empty() {
                    let problem = "there is no instance: no row has all of its cells";
                    return Err(resolver.error(
                        comparison.span,
                        problem,
                        "name rows that are printed",
                    ));
                }
                all.extend(own);
            }
        }
        if all.is_empty() {
            let span = super::Span {
                start: 0,
                end: self.text.chars().count(),
            };
            let problem = "there is no instance: no row has all of its cells";
            return Err(resolver.error(span, problem, "name rows that are printed"));
        }
        Ok(all)
    }
}

/// Returns the number that a sum comes to, where free keys have these values.
///
/// # Errors
/// When the text is no sum, a name is unknown, or the sum has no value or several.
pub fn value_at(
    text: &str,
    grid: &Grid,
    at: &[(String, String)],
) -> Result<(f64, Option<super::Unit>), FormulaError> {
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
    let mut evaluator = Evaluator::new(grid, text);
    let mut scope = Scope::new(&resolver.variables);
    let mut found: Vec<Value> = Vec::new();
    evaluator.each(&free, &mut scope, &mut |evaluator, scope| {
        found.extend(evaluator.value(&node, scope)?);
        Ok(())
    })?;
    match found.as_slice() {
        [one] => Ok((one.number, one.named_unit())),
        several => {
            let problem = match several.len() {
                0 => "it has no value: a cell is empty".to_owned(),
                count => format!("it has {count} values"),
            };
            Err(resolver.error(expr.span, problem, "name the row that is meant"))
        }
    }
}

type Each<'e, 'g> = dyn FnMut(&mut Evaluator<'g>, &mut Scope<'_>) -> Result<(), FormulaError> + 'e;

impl<'g> Evaluator<'g> {
    pub(super) fn new(grid: &'g Grid, text: &'g str) -> Self {
        Self {
            grid,
            text,
            inputs: Vec::new(),
        }
    }

    /// Returns the instances of comparisons of which one must be true.
    pub(super) fn instances(
        &mut self,
        any: &[Comparison],
        scope: &mut Scope<'_>,
    ) -> Result<Vec<Instance>, FormulaError> {
        let mut free: Vec<usize> = any.iter().flat_map(|one| one.free.clone()).collect();
        let mut seen = Vec::new();
        free.retain(|index| {
            !seen.contains(index) && {
                seen.push(*index);
                true
            }
        });
        let count: usize = free
            .iter()
            .map(|index| scope.domain(*index).len().max(1))
            .product();
        if count > MOST {
            let problem = format!("{count} instances are too many");
            let span = any.first().map(|one| one.span).unwrap_or_default();
            return Err(self.error(span, problem, "name rows in brackets"));
        }
        let outer = std::mem::take(&mut self.inputs);
        let mut found = Vec::new();
        self.each(&free, scope, &mut |evaluator, scope| {
            let at: Vec<(String, String)> = free
                .iter()
                .filter_map(|index| {
                    let value = scope.value(*index)?.to_owned();
                    Some((scope.variables[*index].label.clone(), value))
                })
                .collect();
            let trend = match any {
                [
                    Comparison {
                        judged:
                            Judged::Trend {
                                is_rising,
                                variable,
                                of,
                            },
                        span,
                        ..
                    },
                ] => Some((*is_rising, *variable, of, *span)),
                _ => None,
            };
            if let Some((is_rising, variable, of, span)) = trend {
                let op = if is_rising { Op::Less } else { Op::More };
                let steps = evaluator.steps(variable, of, scope)?;
                for pair in steps.windows(2) {
                    let [(from, left, inputs), (to, right, others)] = pair else {
                        continue;
                    };
                    let sides = [(left, from), (right, to)];
                    let sides = sides.map(|(value, row)| (value.clone(), Some(row.clone())));
                    let mut at = at.clone();
                    let label = scope.variables[variable].label.clone();
                    at.push((label, format!("{from} to {to}")));
                    found.push(Instance {
                        at,
                        any: vec![evaluator.compared(sides, op, span)?],
                        inputs: [inputs.clone(), others.clone()].concat(),
                    });
                }
                return Ok(());
            }
            evaluator.inputs.clear();
            let mut all = Vec::new();
            for comparison in any {
                // An instance with an empty cell does not exist.
                let Some(compared) = evaluator.pair(comparison, scope)? else {
                    return Ok(());
                };
                all.push(compared);
            }
            found.push(Instance {
                at,
                any: all,
                inputs: evaluator.inputs.clone(),
            });
            Ok(())
        })?;
        self.inputs = outer;
        Ok(found)
    }

    /// Calls `done` with each assignment of values to these variables.
    fn each(
        &mut self,
        free: &[usize],
        scope: &mut Scope<'_>,
        done: &mut Each<'_, 'g>,
    ) -> Result<(), FormulaError> {
        let Some((first, rest)) = free.split_first() else {
            return done(self, scope);
        };
        for value in scope.domain(*first) {
            scope.set(*first, Some(value));
            self.each(rest, scope, done)?;
        }
        scope.set(*first, None);
        Ok(())
    }

    /// Returns the value of each step of a key, numbers in their order, with what it read.
    fn steps(
        &mut self,
        variable: usize,
        of: &Node,
        scope: &mut Scope<'_>,
    ) -> Result<Vec<(String, Value, Vec<Input>)>, FormulaError> {
        let mut domain = scope.domain(variable);
        let number = |value: &String| value.parse::<f64>().ok();
        if domain.iter().all(|value| number(value).is_some()) {
            domain.sort_by(|a, b| {
                number(a)
                    .partial_cmp(&number(b))
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
        }
        let mut steps = Vec::new();
        for value in domain {
            self.inputs.clear();
            scope.set(variable, Some(value.clone()));
            if let Some(found) = self.value(of, scope)? {
                steps.push((value, found, self.inputs.clone()));
            }
        }
        scope.set(variable, None);
        Ok(steps)
    }

    /// Returns the two numbers of a comparison; `None` if a cell is empty or both are one cell.
    fn pair(
        &mut self,
        comparison: &Comparison,
        scope: &mut Scope<'_>,
    ) -> Result<Option<Compared>, FormulaError> {
        let before = std::mem::take(&mut self.inputs);
        let (sides, op, inputs) = match &comparison.judged {
            Judged::Pair(left, op, right) => {
                let left = self.value(left, scope)?;
                let own = std::mem::take(&mut self.inputs);
                let right = self.value(right, scope)?;
                let (Some(left), Some(right)) = (left, right) else {
                    return Ok(None);
                };
                let others = std::mem::take(&mut self.inputs);
                if !own.is_empty() && own == others && left.number.total_cmp(&right.number).is_eq()
                {
                    return Ok(None);
                }
                ([(left, None), (right, None)], *op, [own, others].concat())
            }
            Judged::Best {
                is_max,
                variable,
                of,
                value,
            } => {
                let mut steps = self.steps(*variable, of, scope)?;
                let Some(own) = steps.iter().position(|(at, ..)| at == value) else {
                    return Ok(None);
                };
                let (at, own, mut inputs) = steps.remove(own);
                let order = |a: &f64, b: &f64| {
                    if *is_max {
                        a.total_cmp(b)
                    } else {
                        b.total_cmp(a)
                    }
                };
                let best = steps
                    .into_iter()
                    .max_by(|(_, a, _), (_, b, _)| order(&a.number, &b.number));
                let Some((rival, best, others)) = best else {
                    return Ok(None);
                };
                inputs.extend(others);
                let op = if *is_max { Op::More } else { Op::Less };
                ([(own, Some(at)), (best, Some(rival))], op, inputs)
            }
            Judged::Trend { .. } => return Ok(None),
        };
        self.inputs = before;
        for input in inputs {
            if !self.inputs.contains(&input) {
                self.inputs.push(input);
            }
        }
        self.compared(sides, op, comparison.span).map(Some)
    }
}
