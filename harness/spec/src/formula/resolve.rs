//! From the tree of a formula to comparisons over a grid: what each name stands for.

use std::collections::HashMap;
use std::mem::{replace, take};

use super::error::{FormulaError, Span};
use super::grid::{Column, Grid};
use super::quantity::Value;
use super::tree::{self, Clause, Expr, Fold, Kind, Named, Op, Reference, Set, Sign};
use crate::suggest::did_you_mean;

/// Sums within each other by names of derived quantities, beyond which one is refused.
const DEEPEST: usize = 8;

/// What stands for any of several values of a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variable {
    /// Its name: that of the key, or one that the formula gives.
    pub label: String,
    pub key: String,
    /// Values that it goes over.
    pub domain: Vec<String>,
    /// The set as the formula writes it, by which references share a variable.
    identity: String,
    /// Whether a function goes over it, so that it is not free.
    is_bound: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Axis {
    Fixed(String),
    Variable(usize),
}

/// A sum for each value of the key that a function goes over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Over {
    pub variable: usize,
    pub of: Node,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Number(Value),
    Cell {
        column: usize,
        axes: Vec<Axis>,
    },
    /// The value of a numeric key.
    KeyNumber(usize, Span),
    Negative(Box<Node>),
    Binary(Sign, Box<Node>, Box<Node>, Span),
    Rounded {
        is_up: bool,
        of: Box<Node>,
    },
    Fold(Fold, Box<Over>),
    Share(Box<Comparison>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Judged {
    Pair(Node, Op, Node),
    Best {
        is_max: bool,
        over: Over,
        value: String,
    },
    Trend {
        is_rising: bool,
        over: Over,
    },
}

/// What becomes a comparison of two numbers for each value of its free variables.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    pub judged: Judged,
    /// Free variables, in the order of their first reference.
    pub free: Vec<usize>,
    pub span: Span,
}

impl Comparison {
    pub fn is_trend(&self) -> bool {
        matches!(self.judged, Judged::Trend { .. })
    }
}

/// A formula's names, as far as they are known.
pub(super) struct Resolver<'a> {
    pub grid: &'a Grid,
    text: &'a str,
    pub variables: Vec<Variable>,
    /// Names within a share are its own: the first variable that it may refer to.
    first: usize,
    /// Sets that the formula gives a name.
    named: HashMap<String, Set>,
    /// Keys that functions around the current place go over.
    bound: Vec<(String, usize)>,
    /// Sets on the names of derived quantities around the current place.
    around: Vec<(String, Set)>,
    /// References to derived quantities around the current place: the place of the outermost,
    /// which all in it has, and their number.
    derived: (Option<Span>, usize),
    /// Whether keys' numbers are looked up: not before all references are known.
    has_keys: bool,
}

type Resolved<T> = Result<T, FormulaError>;

impl<'a> Resolver<'a> {
    pub fn new(grid: &'a Grid, text: &'a str) -> Self {
        Self {
            grid,
            text,
            variables: Vec::new(),
            first: 0,
            named: HashMap::new(),
            bound: Vec::new(),
            around: Vec::new(),
            derived: (None, 0),
            has_keys: true,
        }
    }

    pub fn error(
        &self,
        span: Span,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> FormulaError {
        FormulaError::new(self.text, self.derived.0.unwrap_or(span), problem, remedy)
    }

    /// Resolves twice: keys' numbers are those of the variables that all references make.
    fn twice<T>(&mut self, resolve: impl Fn(&mut Self) -> Resolved<T>) -> Resolved<T> {
        let before = replace(&mut self.has_keys, false);
        resolve(self)?;
        self.has_keys = true;
        let found = resolve(self);
        self.has_keys = before;
        found
    }

    /// Returns the comparisons of a clause; of a chain, one for each pair.
    pub fn clause(&mut self, clause: &Clause) -> Resolved<Vec<Comparison>> {
        self.twice(|resolver| resolver.comparisons(clause))
    }

    /// Returns a sum with its free variables: a number of a note.
    pub fn sum(&mut self, expr: &Expr) -> Resolved<(Node, Vec<usize>)> {
        let node = self.twice(|resolver| resolver.node(expr))?;
        let free = self.free(&[&node]);
        Ok((node, free))
    }

    fn comparisons(&mut self, clause: &Clause) -> Resolved<Vec<Comparison>> {
        let (judged, span) = match clause {
            Clause::Compared(first, rest) => {
                let mut all = Vec::new();
                let mut before = first;
                for (op, next) in rest {
                    let (left, right) = (self.node(before)?, self.node(next)?);
                    all.push(Comparison {
                        free: self.free(&[&left, &right]),
                        judged: Judged::Pair(left, *op, right),
                        span: before.span.to(next.span),
                    });
                    before = next;
                }
                return Ok(all);
            }
            Clause::Trend { is_rising, over } => {
                let is_rising = *is_rising;
                let span = over.key.span.to(over.of.span);
                let over = self.over(over)?;
                (Judged::Trend { is_rising, over }, span)
            }
            Clause::Best {
                is_max,
                over,
                value,
            } => {
                let (key, span) = (&over.key, over.key.span.to(value.span));
                let over = self.over(over)?;
                let wanted = self.grid.canonical(&value.name).to_owned();
                let domain = &self.variables[over.variable].domain;
                if !domain.contains(&wanted) {
                    let known: Vec<&str> = domain.iter().map(String::as_str).collect();
                    let problem = format!("`{wanted}` is no {}", key.name);
                    return Err(self.error(value.span, problem, did_you_mean(&wanted, &known)));
                }
                let judged = Judged::Best {
                    is_max: *is_max,
                    over,
                    value: wanted,
                };
                (judged, span)
            }
        };
        let (Judged::Best { over, .. } | Judged::Trend { over, .. }) = &judged else {
            return Ok(Vec::new());
        };
        let free = self.free(&[&over.of]);
        Ok(vec![Comparison { judged, free, span }])
    }

    /// Returns the variables of nodes that no function goes over.
    fn free(&self, nodes: &[&Node]) -> Vec<usize> {
        let mut found = Vec::new();
        nodes.iter().for_each(|node| node.variables(&mut found));
        found.retain(|index| !self.variables[*index].is_bound);
        found
    }

    fn node(&mut self, expr: &Expr) -> Resolved<Node> {
        Ok(match &expr.kind {
            Kind::Number { value, half_digit } => Node::Number(Value::literal(*value, *half_digit)),
            Kind::Negative(of) => Node::Negative(Box::new(self.node(of)?)),
            Kind::Binary(sign, left, right) => {
                let (left, right) = (self.node(left)?, self.node(right)?);
                let span = self.derived.0.unwrap_or(expr.span);
                Node::Binary(*sign, Box::new(left), Box::new(right), span)
            }
            Kind::Rounded { is_up, of } => Node::Rounded {
                is_up: *is_up,
                of: Box::new(self.node(of)?),
            },
            Kind::Fold(fold, over) => Node::Fold(*fold, Box::new(self.over(over)?)),
            Kind::Share(clause) => self.share(clause, expr.span)?,
            Kind::Reference(reference) => self.reference(reference, expr.span)?,
        })
    }

    /// Returns the share of instances for which a clause holds: its variables are its own.
    fn share(&mut self, clause: &Clause, span: Span) -> Resolved<Node> {
        let own = self.variables.len();
        let first = replace(&mut self.first, own);
        let (named, bound) = (take(&mut self.named), take(&mut self.bound));
        let found = self.clause(clause);
        (self.first, self.named, self.bound) = (first, named, bound);
        let mut found = found?;
        for variable in &mut self.variables[own..] {
            variable.is_bound = true;
        }
        match (found.pop(), found.is_empty()) {
            (Some(comparison), true) => Ok(Node::Share(Box::new(comparison))),
            _ => {
                let remedy = "compare two sums, or write a share for each pair";
                Err(self.error(span, "a share is of one comparison", remedy))
            }
        }
    }

    /// Returns a sum with the variable of the key that a function goes over.
    fn over(&mut self, over: &tree::Over) -> Resolved<Over> {
        let key = &over.key;
        if !self.grid.has_key(&key.name) {
            let keys = self.grid.columns().iter().flat_map(|column| &column.keys);
            let mut known: Vec<&str> = keys.map(String::as_str).collect();
            known.sort_unstable();
            known.dedup();
            let problem = format!("there is no key `{}`", key.name);
            return Err(self.error(key.span, problem, did_you_mean(&key.name, &known)));
        }
        let variable = self.variables.len();
        self.variables.push(Variable {
            label: key.name.clone(),
            key: key.name.clone(),
            domain: Vec::new(),
            identity: String::new(),
            is_bound: true,
        });
        self.bound.push((key.name.clone(), variable));
        let of = self.node(&over.of);
        self.bound.pop();
        let of = of?;
        if self.has_keys && self.variables[variable].domain.is_empty() {
            let problem = format!("nothing in it has the key `{}`", key.name);
            let remedy = "leave the key out of a reference in it";
            return Err(self.error(key.span, problem, remedy));
        }
        Ok(Over { variable, of })
    }

    fn reference(&mut self, reference: &Reference, span: Span) -> Resolved<Node> {
        let table = reference.table.as_deref();
        match self.grid.find(table, &reference.name).as_slice() {
            [] if table.is_none() => self.alone(reference, span),
            [] => Err(self.unknown(reference, span)),
            [column] => self.cell(*column, reference),
            several => {
                let tables = several.iter().map(|index| {
                    let table = &self.grid.columns()[*index].table;
                    format!("`{table}.{}`", reference.name)
                });
                let tables: Vec<String> = tables.collect();
                let problem = format!("`{}` is a column of several tables", reference.name);
                let remedy = format!("write {}", tables.join(" or "));
                Err(self.error(span, problem, remedy))
            }
        }
    }

    /// Returns what a name without a table and a column stands for.
    fn alone(&mut self, reference: &Reference, span: Span) -> Resolved<Node> {
        let grid = self.grid;
        if let Some(derived) = grid.derived(&reference.name) {
            return self.derived(derived, reference, span);
        }
        let number = grid.number(&reference.name);
        if number.is_none() && !grid.has_key(&reference.name) {
            return Err(self.unknown(reference, span));
        }
        if let Some(set) = reference.sets.first() {
            let problem = format!("`{}` has no keys", reference.name);
            return Err(self.error(set.span, problem, "leave the brackets out"));
        }
        match number {
            Some(number) => Ok(Node::Number(Value::of_number(&reference.name, number))),
            None => self.key_number(&reference.name, span),
        }
    }

    fn unknown(&self, reference: &Reference, span: Span) -> FormulaError {
        let name = &reference.name;
        if self.grid.is_unprinted(name) {
            let problem = format!("`{name}` is not printed");
            return FormulaError {
                is_unprinted: true,
                ..self.error(span, problem, "only an experiment can tell")
            };
        }
        let table = reference.table.as_ref();
        let within = table.map_or(String::new(), |table| format!(" in `{table}`"));
        let remedy = did_you_mean(name, &self.grid.names());
        self.error(span, format!("there is no `{name}`{within}"), remedy)
    }

    fn key_number(&mut self, key: &str, span: Span) -> Resolved<Node> {
        if !self.has_keys {
            return Ok(Node::Number(Value::literal(1.0, 0.0)));
        }
        let bound = self.bound.iter().rev().find(|(own, _)| own == key);
        let is_its = |index: &usize| {
            let variable = &self.variables[*index];
            variable.key == key && !variable.is_bound
        };
        let mut free = (self.first..self.variables.len()).filter(is_its);
        let bound = bound.map(|(_, index)| *index);
        match (bound, free.next(), free.next()) {
            (Some(index), ..) | (None, Some(index), None) => {
                Ok(Node::KeyNumber(index, self.derived.0.unwrap_or(span)))
            }
            _ => {
                let problem = format!("`{key}` has no one value here");
                let remedy = format!("leave the key `{key}` out of exactly one kind of reference");
                Err(self.error(span, problem, remedy))
            }
        }
    }

    /// Returns the sum of a derived quantity, with the sets of its reference on all in it.
    fn derived(&mut self, sum: &Expr, reference: &Reference, span: Span) -> Resolved<Node> {
        let name = &reference.name;
        if self.derived.1 >= DEEPEST {
            let problem = format!("`{name}` is made of itself");
            return Err(self.error(span, problem, "make it of printed quantities"));
        }
        let mut columns = Vec::new();
        self.columns(sum, &mut columns, 0);
        for set in &reference.sets {
            let own = self.key_of(set, &columns, name)?;
            self.around.insert(0, own);
        }
        let (outer, depth) = self.derived;
        self.derived = (outer.or(Some(span)), depth + 1);
        let node = self.node(sum);
        self.derived = (outer, depth);
        self.around.drain(..reference.sets.len());
        node.map_err(|inner| FormulaError {
            problem: format!("in `{name}`, {}", inner.problem),
            ..inner
        })
    }

    /// Collects the columns that a sum refers to.
    fn columns(&self, expr: &Expr, found: &mut Vec<usize>, depth: usize) {
        expr.visit(&mut |named| {
            let Named::Reference(reference) = named else {
                return;
            };
            let own = self.grid.find(reference.table.as_deref(), &reference.name);
            match self.grid.derived(&reference.name) {
                Some(sum) if own.is_empty() && depth < DEEPEST => {
                    self.columns(sum, found, depth + 1);
                }
                _ => found.extend(own),
            }
        });
    }

    /// Returns a set with the key that its values are of.
    fn key_of(&mut self, set: &Set, columns: &[usize], name: &str) -> Resolved<(String, Set)> {
        if let Some(label) = &set.name {
            let first = self.named.entry(label.clone()).or_insert(set.clone());
            if (first.is_not, &first.values) != (set.is_not, &set.values) {
                let problem = format!("`{label}` names two sets");
                return Err(self.error(set.span, problem, "give one of them another name"));
            }
        }
        // A lone value may be the name that a set before it has.
        let set = match (&set.name, set.is_not, set.values.as_slice()) {
            (None, false, [value]) => self.named.get(value).unwrap_or(set),
            _ => set,
        };
        let columns = columns.iter().map(|index| &self.grid.columns()[*index]);
        let columns: Vec<&Column> = columns.collect();
        let values = set.values.iter();
        let values = values.map(|value| self.grid.canonical(value).to_owned());
        let values: Vec<String> = values.collect();
        let mut keys: Vec<&str> = Vec::new();
        for key in columns.iter().flat_map(|column| &column.keys) {
            let holds = |value: &String| {
                let mut own = columns.iter();
                own.any(|column| column.values_of(key).contains(value))
            };
            if !keys.contains(&key.as_str()) && values.iter().all(holds) {
                keys.push(key);
            }
        }
        // The name of a key says which one is meant.
        if let Some(meant) = &set.name
            && keys.contains(&meant.as_str())
        {
            keys = vec![meant];
        }
        match keys.as_slice() {
            [key] => {
                let mut set = set.clone();
                set.values = values;
                Ok(((*key).to_owned(), set))
            }
            [] => {
                // Values of the key that is meant, if one is, else of all.
                let has = |key: &String| columns.iter().any(|column| column.keys.contains(key));
                let meant = set.name.as_ref().filter(|meant| has(meant));
                let is_asked = |key: &&String| meant.is_none_or(|meant| meant == *key);
                let all = columns.iter().flat_map(|column| {
                    let keys = column.keys.iter().filter(is_asked);
                    keys.flat_map(|key| column.values_of(key))
                });
                let mut known: Vec<&str> = all.map(String::as_str).collect();
                known.sort_unstable();
                known.dedup();
                let is_unknown = |value: &&String| !known.contains(&value.as_str());
                let (problem, remedy) = match values.iter().find(is_unknown) {
                    Some(value) => (
                        match meant {
                            Some(key) => format!("no row of `{name}` has {key} {value}"),
                            None => format!("`{name}` has no row `{value}`"),
                        },
                        did_you_mean(value, &known),
                    ),
                    None => (
                        format!("`{}` are values of different keys", values.join("`, `")),
                        "put a comma between values of different keys".to_owned(),
                    ),
                };
                Err(self.error(set.span, problem, remedy))
            }
            several => {
                let (values, keys) = (values.join("|"), several.join(" and "));
                let problem = format!("`{values}` is a value of {keys}");
                let remedy = format!("write `{}: {values}`", several[0]);
                Err(self.error(set.span, problem, remedy))
            }
        }
    }

    fn cell(&mut self, index: usize, reference: &Reference) -> Resolved<Node> {
        let mut own: Vec<(String, Set)> = Vec::new();
        for set in &reference.sets {
            let (key, resolved) = self.key_of(set, &[index], &reference.name)?;
            if own.iter().any(|(known, _)| *known == key) {
                let problem = format!("there are two sets of `{key}`");
                return Err(self.error(set.span, problem, "join the values with `|`"));
            }
            own.push((key, resolved));
        }
        let keys = self.grid.columns()[index].keys.clone();
        let mut axes = Vec::new();
        for key in &keys {
            let mut sets = own.iter().chain(&self.around);
            let set = sets.find(|(known, _)| known == key);
            let set = set.map(|(_, set)| set.clone());
            axes.push(self.axis(key, index, set.as_ref())?);
        }
        let column = index;
        Ok(Node::Cell { column, axes })
    }

    fn axis(&mut self, key: &str, column: usize, set: Option<&Set>) -> Resolved<Axis> {
        let all = self.grid.columns()[column].values_of(key);
        let is_in =
            |value: &&String| set.is_none_or(|set| set.values.contains(value) != set.is_not);
        let domain: Vec<String> = all.iter().filter(is_in).cloned().collect();
        if let Some(set) = set {
            if let ([value], false, None) = (set.values.as_slice(), set.is_not, &set.name) {
                return Ok(Axis::Fixed(value.clone()));
            }
            if domain.is_empty() {
                let remedy = "leave one value of the key over";
                return Err(self.error(set.span, "the set is empty", remedy));
            }
        }
        let bound = self.bound.iter().rev().find(|(own, _)| own == key);
        if let Some((_, index)) = bound {
            let known = &mut self.variables[*index].domain;
            if known.is_empty() {
                *known = domain;
            } else if set.is_some() {
                known.retain(|value| domain.contains(value));
            }
            return Ok(Axis::Variable(*index));
        }
        let (label, identity) = match set {
            None => (key.to_owned(), key.to_owned()),
            Some(Set {
                name: Some(name), ..
            }) => (name.clone(), format!("{key}: {name}")),
            Some(set) => {
                let mut values = set.values.clone();
                values.sort_unstable();
                (key.to_owned(), format!("{key} {} {values:?}", set.is_not))
            }
        };
        let is_it = |variable: &Variable| variable.identity == identity && !variable.is_bound;
        let known = self.variables[self.first..].iter().position(is_it);
        Ok(Axis::Variable(match known {
            Some(index) => self.first + index,
            None => {
                self.variables.push(Variable {
                    label,
                    key: key.to_owned(),
                    domain,
                    identity,
                    is_bound: false,
                });
                self.variables.len() - 1
            }
        }))
    }
}

impl Node {
    /// Collects the variables of all references, each once.
    fn variables(&self, found: &mut Vec<usize>) {
        let mut add = |index: usize| {
            if !found.contains(&index) {
                found.push(index);
            }
        };
        match self {
            Self::Number(_) | Self::Share(_) => {}
            Self::KeyNumber(index, _) => add(*index),
            Self::Cell { axes, .. } => axes.iter().for_each(|axis| {
                if let Axis::Variable(index) = axis {
                    add(*index);
                }
            }),
            Self::Negative(of) | Self::Rounded { of, .. } => of.variables(found),
            Self::Fold(_, over) => over.of.variables(found),
            Self::Binary(_, left, right, _) => {
                left.variables(found);
                right.variables(found);
            }
        }
    }
}
