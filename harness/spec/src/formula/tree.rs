//! The tree of a formula.

use std::collections::HashSet;
use std::hash::Hash;

use serde::{Serialize, Serializer};

use super::error::Span;

/// A comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
    /// `=`
    Equal,
    /// `~`
    About,
}

impl Op {
    /// Signs, the longer ones first.
    pub(super) const ALL: [(&'static str, Self); 6] = [
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("<", Self::Less),
        (">", Self::More),
        ("=", Self::Equal),
        ("~", Self::About),
    ];

    /// Returns the sign as formulas write it.
    pub fn sign(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(_, op)| *op == self).map_or("", |(sign, _)| sign)
    }

    /// Returns it for sides that change places.
    pub fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::More,
            Self::AtMost => Self::AtLeast,
            Self::More => Self::Less,
            Self::AtLeast => Self::AtMost,
            Self::Equal | Self::About => self,
        }
    }

    /// Returns the sign of what holds where this does not.
    pub fn opposite(self) -> &'static str {
        match self {
            Self::Less => Self::AtLeast.sign(),
            Self::AtMost => Self::More.sign(),
            Self::More => Self::AtMost.sign(),
            Self::AtLeast => Self::Less.sign(),
            Self::Equal | Self::About => "≠",
        }
    }
}

impl Serialize for Op {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.sign())
    }
}

/// A function over all values of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    Max,
    Min,
    Sum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
    Times,
    Over,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expr {
    pub kind: Kind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Number {
        value: f64,
        half_digit: f64,
    },
    Reference(Reference),
    Negative(Box<Expr>),
    Binary(Sign, Box<Expr>, Box<Expr>),
    /// `ceil`, or `floor`.
    Rounded {
        is_up: bool,
        of: Box<Expr>,
    },
    Fold(Fold, Box<Over>),
    Share(Box<Clause>),
}

/// `(key, sum)`: what a function goes over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Over {
    pub key: Key,
    pub of: Expr,
}

/// `table.name(argument)[set, set]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reference {
    pub table: Option<String>,
    pub name: String,
    pub sets: Vec<Set>,
}

/// `name: not A|B`; a lone value may be the name of a variable.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Set {
    pub name: Option<String>,
    pub is_not: bool,
    pub values: Vec<String>,
    pub span: Span,
}

/// A word with its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub name: String,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Clause {
    /// Two sums or a chain of more.
    Compared(Expr, Vec<(Op, Expr)>),
    /// `rising`, or `falling`.
    Trend { is_rising: bool, over: Over },
    /// `argmax`, or `argmin`.
    Best {
        is_max: bool,
        over: Over,
        value: Key,
    },
}

/// A whole formula: clauses that hold together, or of which one holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    pub(super) text: String,
    pub(super) clauses: Vec<Clause>,
    pub(super) is_or: bool,
}

impl Formula {
    /// Returns the names that it refers to, each once.
    pub fn names(&self) -> Vec<String> {
        self.collected(|reference, found| found.push(reference.name.clone()))
    }

    /// Returns the values in its brackets with the names of their sets, each once.
    pub fn values(&self) -> Vec<(Option<String>, String)> {
        self.collected(|reference, found| {
            for set in &reference.sets {
                let values = set.values.iter();
                found.extend(values.map(|value| (set.name.clone(), value.clone())));
            }
        })
    }

    /// Returns the values in its brackets that are chosen, and not left out.
    pub fn chosen(&self) -> Vec<String> {
        self.collected(|reference, found| {
            let chosen = reference.sets.iter().filter(|set| !set.is_not);
            found.extend(chosen.flat_map(|set| set.values.clone()));
        })
    }

    /// Returns the names of its sets, of the keys that functions go over, and of whatever else may
    /// be a key.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.names();
        keys.extend(self.values().into_iter().filter_map(|(name, _)| name));
        self.visit(&mut |named| {
            if let Named::Key(key) = named {
                keys.push(key.to_owned());
            }
        });
        keys
    }

    fn collected<T: Clone + Eq + Hash>(&self, collect: impl Fn(&Reference, &mut Vec<T>)) -> Vec<T> {
        let mut found = Vec::new();
        self.visit(&mut |named| {
            if let Named::Reference(reference) = named {
                collect(reference, &mut found);
            }
        });
        let mut known = HashSet::new();
        found.retain(|one| known.insert(one.clone()));
        found
    }

    fn visit<'f>(&'f self, visit: &mut dyn FnMut(Named<'f>)) {
        self.clauses.iter().for_each(|clause| clause.visit(visit));
    }

    /// Returns a column and the number that it is not to be below, if that is all it says.
    pub fn at_least(&self) -> Option<(&str, f64)> {
        if let [Clause::Compared(first, rest)] = self.clauses.as_slice()
            && let (Kind::Reference(reference), [(Op::AtLeast, limit)]) = (&first.kind, &rest[..])
            && let Kind::Number { value, .. } = limit.kind
        {
            return Some((&reference.name, value));
        }
        None
    }

    /// Returns the text that it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// What a formula names.
#[derive(Clone, Copy)]
pub(super) enum Named<'f> {
    Reference(&'f Reference),
    /// The key that a function goes over.
    Key(&'f str),
}

impl Expr {
    /// Calls `visit` with every reference, and every key of a function before what it goes over.
    pub fn visit<'f>(&'f self, visit: &mut dyn FnMut(Named<'f>)) {
        match &self.kind {
            Kind::Number { .. } => {}
            Kind::Reference(reference) => visit(Named::Reference(reference)),
            Kind::Negative(of) | Kind::Rounded { of, .. } => of.visit(visit),
            Kind::Fold(_, over) => over.visit(visit),
            Kind::Share(clause) => clause.visit(visit),
            Kind::Binary(_, left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
        }
    }
}

impl Over {
    fn visit<'f>(&'f self, visit: &mut dyn FnMut(Named<'f>)) {
        visit(Named::Key(&self.key.name));
        self.of.visit(visit);
    }
}

impl Clause {
    fn visit<'f>(&'f self, visit: &mut dyn FnMut(Named<'f>)) {
        match self {
            Self::Compared(first, rest) => {
                first.visit(visit);
                rest.iter().for_each(|(_, sum)| sum.visit(visit));
            }
            Self::Trend { over, .. } | Self::Best { over, .. } => over.visit(visit),
        }
    }
}
