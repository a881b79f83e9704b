//! From the tree of a formula to comparisons over a grid: what each name stands for.

use std::collections::HashMap;

use super::error::{FormulaError, Span};
use super::grid::Grid;
use super::parse::{Clause, Expr, Fold, Key, Kind, Op, Reference, Set, Sign};
use super::quantity::Value;
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
    Fold(Fold, usize, Box<Node>),
    Share(Box<Comparison>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Judged {
    Pair(Node, Op, Node),
    Best {
        is_max: bool,
        variable: usize,
        of: Node,
        value: String,
    },
    Trend {
        is_rising: bool,
        variable: usize,
        of: Node,
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

/// A formula's names, as far as they are known.
pub(super) struct Resolver<'a> {
    pub grid: &'a Grid,
    text: String,
    pub variables: Vec<Variable>,
    /// Sets that the formula gives a name.
    named: HashMap<String, Set>,
    /// Keys that functions around the current place go over.
    bound: Vec<(String, usize)>,
    /// Sets on the names of derived quantities around the current place.
    around: Vec<(String, Set)>,
    depth: usize,
    /// Whether keys' numbers are looked up: not before all references are known.
    has_keys: bool,
}

type Resolved<T> = Result<T, FormulaError>;

impl<'a> Resolver<'a> {
    pub fn new(grid: &'a Grid, text: &str) -> Self {
        Self {
            grid,
            text: text.to_owned(),
            variables: Vec::new(),
            named: HashMap::new(),
            bound: Vec::new(),
            around: Vec::new(),
            depth: 0,
            has_keys: true,
        }
    }

    pub fn error(
        &self,
        span: Span,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> FormulaError {
        FormulaError::new(&self.text, span, problem, remedy)
    }

    /// Returns the comparisons of a clause; of a chain, one for each pair.
    pub fn clause(&mut self, clause: &Clause) -> Resolved<Vec<Comparison>> {
        let mut sets = Vec::new();
        named_sets(clause, &mut sets);
        for set in sets {
            let Some(name) = &set.name else { continue };
            let before = self.named.insert(name.clone(), set.clone());
            if before.is_some_and(|before| !same(&before, &set)) {
                let problem = format!("`{name}` names two sets");
                return Err(self.error(set.span, problem, "give one of them another name"));
            }
        }
        // Keys' numbers are those of the variables that all references make.
        self.has_keys = false;
        self.comparisons(clause)?;
        self.has_keys = true;
        let found = self.comparisons(clause)?;
        self.pruned(found)
    }

    fn comparisons(&mut self, clause: &Clause) -> Resolved<Vec<Comparison>> {
        match clause {
            Clause::Compared(first, rest) => {
                let mut all = Vec::new();
                let mut before = first;
                for (op, next) in rest {
                    let (left, right) = (self.node(before)?, self.node(next)?);
                    let span = before.span.to(next.span);
                    all.push(Comparison {
                        judged: Judged::Pair(left, *op, right),
                        free: Vec::new(),
                        span,
                    });
                    before = next;
                }
                Ok(all)
            }
            Clause::Trend { is_rising, key, of } => {
                let (variable, node) = self.over(key, of)?;
                let judged = Judged::Trend {
                    is_rising: *is_rising,
                    variable,
                    of: node,
                };
                Ok(vec![self.comparison(judged, key.span.to(of.span))])
            }
            Clause::Best {
                is_max,
                key,
                of,
                value,
            } => {
                let (variable, node) = self.over(key, of)?;
                let [wanted] = value.values.as_slice() else {
                    let remedy = "name one value, or write two clauses";
                    return Err(self.error(value.span, "one of several is no best", remedy));
                };
                let wanted = self.grid.canonical(wanted).to_owned();
                let domain = &self.variables[variable].domain;
                if value.is_not || !domain.contains(&wanted) {
                    let known: Vec<&str> = domain.iter().map(String::as_str).collect();
                    let problem = format!("`{wanted}` is no {}", key.name);
                    return Err(self.error(value.span, problem, did_you_mean(&wanted, &known)));
                }
                let judged = Judged::Best {
                    is_max: *is_max,
                    variable,
                    of: node,
                    value: wanted,
                };
                Ok(vec![self.comparison(judged, key.span.to(value.span))])
            }
        }
    }

    fn comparison(&self, judged: Judged, span: Span) -> Comparison {
        Comparison {
            judged,
            free: Vec::new(),
            span,
        }
    }

    /// Returns the comparisons with the free variables of each.
    fn pruned(&self, mut found: Vec<Comparison>) -> Resolved<Vec<Comparison>> {
        for comparison in &mut found {
            let mut used = Vec::new();
            match &comparison.judged {
                Judged::Pair(left, _, right) => {
                    left.variables(&mut used);
                    right.variables(&mut used);
                }
                Judged::Best { of, .. } | Judged::Trend { of, .. } => of.variables(&mut used),
            }
            used.retain(|index| !self.variables[*index].is_bound);
            comparison.free = used;
        }
        Ok(found)
    }

    /// Returns a sum with its free variables: a number of a note, or a derived quantity.
    pub fn sum(&mut self, expr: &Expr) -> Resolved<(Node, Vec<usize>)> {
        self.has_keys = false;
        self.node(expr)?;
        self.has_keys = true;
        let node = self.node(expr)?;
        let mut used = Vec::new();
        node.variables(&mut used);
        used.retain(|index| !self.variables[*index].is_bound);
        Ok((node, used))
    }

    fn node(&mut self, expr: &Expr) -> Resolved<Node> {
        Ok(match &expr.kind {
            Kind::Number { value, half_digit } => Node::Number(Value::literal(*value, *half_digit)),
            Kind::Negative(of) => Node::Negative(Box::new(self.node(of)?)),
            Kind::Binary(sign, left, right) => {
                let (left, right) = (self.node(left)?, self.node(right)?);
                Node::Binary(*sign, Box::new(left), Box::new(right), expr.span)
            }
            Kind::Rounded { is_up, of } => Node::Rounded {
                is_up: *is_up,
                of: Box::new(self.node(of)?),
            },
            Kind::Fold(fold, key, of) => {
                let (variable, of) = self.over(key, of)?;
                Node::Fold(*fold, variable, Box::new(of))
            }
            Kind::Share(clause) => self.share(clause, expr.span)?,
            Kind::Reference(reference) => self.reference(reference, expr.span)?,
        })
    }

    /// Returns the share of instances for which a clause holds: its variables are its own.
    fn share(&mut self, clause: &Clause, span: Span) -> Resolved<Node> {
        let before = self.variables.len();
        // Variables outside are out of reach, so that each one inside is new.
        let mut inner = Resolver::new(self.grid, &self.text);
        inner.depth = self.depth;
        inner.around.clone_from(&self.around);
        let found = inner.clause(clause)?;
        let [comparison] = found.as_slice() else {
            let remedy = "compare two sums, or write a share for each pair";
            return Err(self.error(span, "a share is of one comparison", remedy));
        };
        let mut comparison = comparison.clone();
        comparison.shift(before);
        let own = inner.variables.into_iter().map(|variable| Variable {
            is_bound: true,
            identity: format!("share {before} {}", variable.identity),
            ..variable
        });
        self.variables.extend(own);
        Ok(Node::Share(Box::new(comparison)))
    }

    /// Returns a sum with the variable of the key that a function goes over.
    fn over(&mut self, key: &Key, of: &Expr) -> Resolved<(usize, Node)> {
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
            identity: format!("bound {variable}"),
            is_bound: true,
        });
        self.bound.push((key.name.clone(), variable));
        let node = self.node(of);
        self.bound.pop();
        let node = node?;
        if self.has_keys && self.variables[variable].domain.is_empty() {
            let problem = format!("nothing in it has the key `{}`", key.name);
            let remedy = "leave the key out of a reference in it";
            return Err(self.error(key.span, problem, remedy));
        }
        Ok((variable, node))
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
            return self.derived(
                &reference.name,
                &derived.sum.clone(),
                &derived.text,
                reference,
                span,
            );
        }
        let no_sets = |resolver: &Self| match reference.sets.first() {
            None => Ok(()),
            Some(set) => {
                let problem = format!("`{}` has no keys", reference.name);
                Err(resolver.error(set.span, problem, "leave the brackets out"))
            }
        };
        if let Some(number) = grid.number(&reference.name) {
            no_sets(self)?;
            return Ok(Node::Number(Value::of_number(&reference.name, number)));
        }
        if grid.has_key(&reference.name) {
            no_sets(self)?;
            return self.key_number(&reference.name, span);
        }
        Err(self.unknown(reference, span))
    }

    fn unknown(&self, reference: &Reference, span: Span) -> FormulaError {
        let is_unprinted = self.grid.is_unprinted(&reference.name);
        let (problem, remedy) = if is_unprinted {
            let problem = format!("`{}` is not printed", reference.name);
            (problem, "only an experiment can tell".to_owned())
        } else {
            let names = self.grid.names();
            let table = reference.table.as_ref();
            let within = table.map_or(String::new(), |table| format!(" in `{table}`"));
            let problem = format!("there is no `{}`{within}", reference.name);
            (problem, did_you_mean(&reference.name, &names))
        };
        FormulaError {
            is_unprinted,
            ..self.error(span, problem, remedy)
        }
    }

    fn key_number(&mut self, key: &str, span: Span) -> Resolved<Node> {
        if !self.has_keys {
            return Ok(Node::Number(Value::literal(1.0, 0.0)));
        }
        let bound = self.bound.iter().rev().find(|(own, _)| own == key);
        let free = || {
            let mut free = (0..self.variables.len()).filter(|index| {
                self.variables[*index].key == key && !self.variables[*index].is_bound
            });
            match (free.next(), free.next()) {
                (Some(one), None) => Some(one),
                _ => None,
            }
        };
        match bound.map(|(_, index)| *index).or_else(free) {
            Some(index) => Ok(Node::KeyNumber(index, span)),
            None => {
                let problem = format!("`{key}` has no one value here");
                let remedy = format!("leave the key `{key}` out of exactly one kind of reference");
                Err(self.error(span, problem, remedy))
            }
        }
    }

    /// Returns the sum of a derived quantity, with the sets of its reference on all in it.
    fn derived(
        &mut self,
        name: &str,
        sum: &Expr,
        text: &str,
        reference: &Reference,
        span: Span,
    ) -> Resolved<Node> {
        if self.depth >= DEEPEST {
            let problem = format!("`{name}` is made of itself");
            return Err(self.error(span, problem, "make it of printed quantities"));
        }
        let mut columns = Vec::new();
        self.columns(sum, &mut columns, 0);
        let before = self.around.len();
        for set in &reference.sets {
            let (key, set) = self.key_of(set, &columns, &reference.name)?;
            self.around.insert(0, (key, set));
        }
        let own = std::mem::replace(&mut self.text, text.to_owned());
        self.depth += 1;
        let node = self.node(sum);
        self.depth -= 1;
        self.text = own;
        self.around.drain(..self.around.len() - before);
        node.map_err(|inner| {
            let problem = format!("in `{name}`, {}", inner.problem);
            FormulaError {
                is_unprinted: inner.is_unprinted,
                ..self.error(span, problem, inner.remedy)
            }
        })
    }

    /// Collects the columns that a sum refers to.
    fn columns(&self, expr: &Expr, found: &mut Vec<usize>, depth: usize) {
        expr.visit(&mut |reference| {
            let own = self.grid.find(reference.table.as_deref(), &reference.name);
            match self.grid.derived(&reference.name) {
                Some(derived) if own.is_empty() && depth < DEEPEST => {
                    self.columns(&derived.sum, found, depth + 1);
                }
                _ => found.extend(own),
            }
        });
    }

    /// Returns a set with the key that its values are of.
    fn key_of(&self, set: &Set, columns: &[usize], name: &str) -> Resolved<(String, Set)> {
        // A lone value may be the name that another set has.
        let lone = match (&set.name, set.is_not, set.values.as_slice()) {
            (None, false, [value]) => self.named.get(value),
            _ => None,
        };
        self.key_of_values(lone.unwrap_or(set), columns, name)
    }

    fn key_of_values(&self, set: &Set, columns: &[usize], name: &str) -> Resolved<(String, Set)> {
        let columns: Vec<_> = columns
            .iter()
            .map(|index| &self.grid.columns()[*index])
            .collect();
        let values: Vec<String> = set
            .values
            .iter()
            .map(|value| self.grid.canonical(value).to_owned())
            .collect();
        let mut keys: Vec<&str> = Vec::new();
        for key in columns.iter().flat_map(|column| &column.keys) {
            let holds = |value: &String| {
                columns
                    .iter()
                    .any(|column| column.values_of(key).contains(value))
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
            [key] => Ok((
                (*key).to_owned(),
                Set {
                    values,
                    ..set.clone()
                },
            )),
            [] => {
                let all = columns
                    .iter()
                    .flat_map(|column| column.keys.iter().flat_map(|key| column.values_of(key)));
                let mut known: Vec<&str> = all.map(String::as_str).collect();
                known.sort_unstable();
                known.dedup();
                let is_unknown = |value: &&String| !known.contains(&value.as_str());
                let (problem, remedy) = match values.iter().find(is_unknown) {
                    Some(value) => (
                        format!("`{name}` has no row `{value}`"),
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
                let problem = format!(
                    "`{}` is a value of {}",
                    values.join("|"),
                    several.join(" and ")
                );
                let remedy = format!("write `{}: {}`", several[0], values.join("|"));
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
            let is_its = |(known, _): &&(String, Set)| known == key;
            let set = own
                .iter()
                .find(is_its)
                .or_else(|| self.around.iter().find(is_its));
            let set = set.map(|(_, set)| set.clone());
            axes.push(self.axis(key, index, set.as_ref())?);
        }
        Ok(Node::Cell {
            column: index,
            axes,
        })
    }

    fn axis(&mut self, key: &str, column: usize, set: Option<&Set>) -> Resolved<Axis> {
        let all = self.grid.columns()[column].values_of(key);
        let is_in =
            |value: &&String| set.is_none_or(|set| set.values.contains(value) != set.is_not);
        let domain: Vec<String> = all.iter().filter(is_in).cloned().collect();
        if let Some(set) = set
            && let ([value], false, None) = (set.values.as_slice(), set.is_not, &set.name)
        {
            return Ok(Axis::Fixed(value.clone()));
        }
        if let Some(set) = set
            && domain.is_empty()
        {
            let remedy = "leave one value of the key over";
            return Err(self.error(set.span, "the set is empty", remedy));
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
        let mut known = self.variables.iter();
        let known = known.position(|variable| variable.identity == identity);
        Ok(Axis::Variable(known.unwrap_or_else(|| {
            self.variables.push(Variable {
                label,
                key: key.to_owned(),
                domain,
                identity,
                is_bound: false,
            });
            self.variables.len() - 1
        })))
    }
}

/// Returns whether two sets are the same but for their places.
fn same(one: &Set, other: &Set) -> bool {
    (one.is_not, &one.values) == (other.is_not, &other.values)
}

/// Collects the sets of a clause that have a name.
fn named_sets(clause: &Clause, found: &mut Vec<Set>) {
    let mut collect = |reference: &Reference| {
        let named = reference.sets.iter().filter(|set| set.name.is_some());
        found.extend(named.cloned());
    };
    match clause {
        Clause::Compared(first, rest) => {
            first.visit(&mut collect);
            for (_, sum) in rest {
                sum.visit(&mut collect);
            }
        }
        Clause::Trend { of, .. } | Clause::Best { of, .. } => of.visit(&mut collect),
    }
}

impl Expr {
    /// Calls `visit` with every reference, but for those of shares, whose names are their own.
    fn visit(&self, visit: &mut dyn FnMut(&Reference)) {
        match &self.kind {
            Kind::Number { .. } | Kind::Share(_) => {}
            Kind::Reference(reference) => visit(reference),
            Kind::Negative(of) | Kind::Rounded { of, .. } | Kind::Fold(_, _, of) => of.visit(visit),
            Kind::Binary(_, left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
        }
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
            Self::Negative(of) | Self::Rounded { of, .. } | Self::Fold(_, _, of) => {
                of.variables(found);
            }
            Self::Binary(_, left, right, _) => {
                left.variables(found);
                right.variables(found);
            }
        }
    }

    fn shift(&mut self, by: usize) {
        match self {
            Self::Number(_) => {}
            Self::KeyNumber(index, _) => *index += by,
            Self::Cell { axes, .. } => axes.iter_mut().for_each(|axis| {
                if let Axis::Variable(index) = axis {
                    *index += by;
                }
            }),
            Self::Negative(of) | Self::Rounded { of, .. } => of.shift(by),
            Self::Fold(_, index, of) => {
                *index += by;
                of.shift(by);
            }
            Self::Binary(_, left, right, _) => {
                left.shift(by);
                right.shift(by);
            }
            Self::Share(comparison) => comparison.shift(by),
        }
    }
}

impl Comparison {
    /// Moves its variables behind others.
    fn shift(&mut self, by: usize) {
        self.free.iter_mut().for_each(|index| *index += by);
        match &mut self.judged {
            Judged::Pair(left, _, right) => {
                left.shift(by);
                right.shift(by);
            }
            Judged::Best { variable, of, .. } | Judged::Trend { variable, of, .. } => {
                *variable += by;
                of.shift(by);
            }
        }
    }
}
