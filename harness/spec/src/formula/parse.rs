//! From a text to the tree of a formula.

use super::error::{FormulaError, Span};
use super::tree::{Clause, Expr, Fold, Formula, Key, Kind, Op, Over, Reference, Set, Sign};

/// Parentheses within each other, beyond which a formula is refused.
const DEEPEST: usize = 40;

/// Words with a meaning of their own.
const RESERVED: [&str; 3] = ["and", "or", "not"];

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    /// When the text is none, with the column and the remedy.
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        let mut parser = Parser::new(text);
        let mut clauses = vec![parser.clause()?];
        let mut joined: Option<bool> = None;
        // All words between clauses are the same.
        while let Some((is_or, span)) = parser.joint() {
            if joined.is_some_and(|before| before != is_or) {
                let remedy = "write two statements, or one with `and` alone or `or` alone";
                return Err(parser.error(span, "`and` and `or` are mixed", remedy));
            }
            joined = Some(is_or);
            clauses.push(parser.clause()?);
        }
        parser.finish("`and`, `or`, an operator or the end of the formula")?;
        Ok(Self {
            text: text.to_owned(),
            clauses,
            is_or: joined == Some(true),
        })
    }
}

/// Reads a sum, the language of derived quantities and of numbers in notes.
pub(super) fn sum(text: &str) -> Result<Expr, FormulaError> {
    let mut parser = Parser::new(text);
    let sum = parser.sum()?;
    parser.finish("an operator or the end of the sum")?;
    Ok(sum)
}

struct Parser<'a> {
    text: &'a str,
    chars: Vec<char>,
    at: usize,
    depth: usize,
}

type Parsed<T> = Result<T, FormulaError>;

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            chars: text.chars().collect(),
            at: 0,
            depth: 0,
        }
    }

    fn error(
        &self,
        span: Span,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> FormulaError {
        FormulaError::new(self.text, span, problem, remedy)
    }

    fn since(&self, start: usize) -> Span {
        Span {
            start,
            end: self.at.max(start + 1),
        }
    }

    /// Returns the error of a character that does not fit.
    fn expected(&self, what: &str) -> FormulaError {
        let problem = match self.chars.get(self.at) {
            Some(found) => format!("`{found}` is not expected here"),
            None => "the formula ends too early".to_owned(),
        };
        self.error(self.since(self.at), problem, format!("write {what}"))
    }

    fn skip(&mut self) {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<char> {
        self.skip();
        self.chars.get(self.at).copied()
    }

    /// Takes a sign if it comes next.
    fn take(&mut self, sign: &str) -> bool {
        self.skip();
        let length = sign.chars().count();
        let next = self.chars.get(self.at..self.at + length);
        let is_next = next.is_some_and(|next| sign.chars().eq(next.iter().copied()));
        self.at += if is_next { length } else { 0 };
        is_next
    }

    fn need(&mut self, sign: &str) -> Parsed<()> {
        if self.take(sign) {
            return Ok(());
        }
        Err(self.expected(&format!("`{sign}`")))
    }

    fn finish(&mut self, what: &str) -> Parsed<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected(what)),
        }
    }

    /// Returns the word that comes next, without taking it.
    fn word(&mut self) -> Option<String> {
        let first = self.peek()?;
        if !(first.is_alphabetic() || first == '_') {
            return None;
        }
        let rest = self.chars[self.at..].iter();
        let word = rest.take_while(|c| c.is_alphanumeric() || **c == '_');
        Some(word.collect())
    }

    fn name(&mut self, what: &str) -> Parsed<Key> {
        let word = self.word();
        let Some(name) = word.filter(|word| !RESERVED.contains(&word.as_str())) else {
            return Err(self.expected(what));
        };
        let start = self.at;
        self.at += name.chars().count();
        Ok(Key {
            name,
            span: self.since(start),
        })
    }

    /// Takes one of these words if an opening parenthesis follows it.
    fn function<T: Copy>(&mut self, known: &[(&str, T)]) -> Option<T> {
        let word = self.word()?;
        let (_, found) = known.iter().find(|(name, _)| *name == word)?;
        let start = self.at;
        self.at += word.chars().count();
        if self.take("(") {
            return Some(*found);
        }
        self.at = start;
        None
    }

    /// Takes `and` or `or`; returns whether it is `or`.
    fn joint(&mut self) -> Option<(bool, Span)> {
        let word = self.word().filter(|word| word == "and" || word == "or")?;
        let start = self.at;
        self.at += word.chars().count();
        Some((word == "or", self.since(start)))
    }

    fn clause(&mut self) -> Parsed<Clause> {
        if let Some(is_rising) = self.function(&[("rising", true), ("falling", false)]) {
            let over = self.over()?;
            return Ok(Clause::Trend { is_rising, over });
        }
        if let Some(is_max) = self.function(&[("argmax", true), ("argmin", false)]) {
            let over = self.over()?;
            self.need("=")?;
            self.skip();
            let start = self.at;
            let name = self.value(false)?;
            let span = self.since(start);
            let value = Key { name, span };
            return Ok(Clause::Best {
                is_max,
                over,
                value,
            });
        }
        let first = self.sum()?;
        let mut rest = Vec::new();
        while let Some(op) = self.op() {
            rest.push((op, self.sum()?));
        }
        if rest.is_empty() {
            return Err(self.expected("a comparison: `<`, `<=`, `>`, `>=`, `=` or `~`"));
        }
        Ok(Clause::Compared(first, rest))
    }

    fn op(&mut self) -> Option<Op> {
        let mut all = Op::ALL.into_iter();
        all.find(|(sign, _)| self.take(sign)).map(|(_, op)| op)
    }

    /// Reads `key, sum)`.
    fn over(&mut self) -> Parsed<Over> {
        let key = self.name("the key that this goes over")?;
        self.need(",")?;
        let of = self.sum()?;
        self.need(")")?;
        Ok(Over { key, of })
    }

    /// Reads what may be within others of its kind, up to a depth.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > DEEPEST {
            let remedy = "give a part of it a name under `derived:` of paper.yaml";
            let here = self.since(self.at);
            return Err(self.error(here, "parentheses or signs are too deep", remedy));
        }
        let found = read(self)?;
        self.depth -= 1;
        Ok(found)
    }

    fn sum(&mut self) -> Parsed<Expr> {
        let mut left = self.nested(Self::product)?;
        loop {
            let sign = match self.peek() {
                Some('+') => Sign::Plus,
                Some('-') => Sign::Minus,
                _ => break,
            };
            self.at += 1;
            left = binary(sign, left, self.nested(Self::product)?);
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed<Expr> {
        let mut left = self.atom()?;
        loop {
            let sign = match self.peek() {
                Some('*') => Sign::Times,
                Some('/') => Sign::Over,
                _ => return Ok(left),
            };
            self.at += 1;
            left = binary(sign, left, self.atom()?);
        }
    }

    fn atom(&mut self) -> Parsed<Expr> {
        let first = self.peek();
        let start = self.at;
        let kind = match first {
            Some('-') => {
                self.at += 1;
                Kind::Negative(Box::new(self.nested(Self::atom)?))
            }
            Some('(') => {
                self.at += 1;
                let inner = self.sum()?;
                self.need(")")?;
                return Ok(Expr {
                    span: self.since(start),
                    ..inner
                });
            }
            Some(digit) if digit.is_ascii_digit() => self.number()?,
            _ => self.named()?,
        };
        Ok(Expr {
            kind,
            span: self.since(start),
        })
    }

    fn number(&mut self) -> Parsed<Kind> {
        let start = self.at;
        while let Some(next) = self.chars.get(self.at) {
            let is_exponent = matches!(self.chars[..self.at], [.., 'e' | 'E']);
            match next {
                '0'..='9' | '.' | 'e' | 'E' => {}
                '-' | '+' if is_exponent => {}
                _ => break,
            }
            self.at += 1;
        }
        let text: String = self.chars[start..self.at].iter().collect();
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
        let value = value.ok_or_else(|| {
            let problem = format!("`{text}` is no number");
            let remedy = "write it like 1200, 0.5 or 1.5e-3";
            self.error(self.since(start), problem, remedy)
        })?;
        let half_digit = super::half_digit(&text);
        Ok(Kind::Number { value, half_digit })
    }

    /// Reads a function or a reference.
    fn named(&mut self) -> Parsed<Kind> {
        if let Some(is_up) = self.function(&[("ceil", true), ("floor", false)]) {
            let of = Box::new(self.sum()?);
            self.need(")")?;
            return Ok(Kind::Rounded { is_up, of });
        }
        if let Some(fold) =
            self.function(&[("max", Fold::Max), ("min", Fold::Min), ("sum", Fold::Sum)])
        {
            return Ok(Kind::Fold(fold, Box::new(self.over()?)));
        }
        if self.function(&[("share", ())]).is_some() {
            let clause = self.nested(Self::clause)?;
            self.need(")")?;
            return Ok(Kind::Share(Box::new(clause)));
        }
        self.reference().map(Kind::Reference)
    }

    fn reference(&mut self) -> Parsed<Reference> {
        let first = self.name("a number or a name")?.name;
        let (table, mut name) = if self.take(".") {
            (Some(first), self.name("the name of a column")?.name)
        } else {
            (None, first)
        };
        // An argument is part of the name: `time_to_accuracy(0.8)`.
        if self.take("(") {
            let start = self.at;
            self.skip();
            self.number()?;
            let argument: String = self.chars[start..self.at].iter().collect();
            self.need(")")?;
            name = format!("{name}({})", argument.trim());
        }
        let mut sets = Vec::new();
        if self.take("[") {
            sets.push(self.set()?);
            while self.take(",") {
                sets.push(self.set()?);
            }
            self.need("]")?;
        }
        Ok(Reference { table, name, sets })
    }

    fn set(&mut self) -> Parsed<Set> {
        self.skip();
        let start = self.at;
        let name = self.set_name();
        let is_not = self.word().is_some_and(|word| word == "not");
        self.at += if is_not { "not".len() } else { 0 };
        let mut values = vec![self.value(true)?];
        while self.take("|") {
            values.push(self.value(true)?);
        }
        Ok(Set {
            name,
            is_not,
            values,
            span: self.since(start),
        })
    }

    /// Takes `name:` if it comes next.
    fn set_name(&mut self) -> Option<String> {
        let start = self.at;
        let word = self.word()?;
        if RESERVED.contains(&word.as_str()) {
            return None;
        }
        self.at += word.chars().count();
        if self.take(":") {
            return Some(word);
        }
        self.at = start;
        None
    }

    /// Reads a printed name, in quotation marks if it holds a comma. Outside brackets it ends
    /// where the next clause begins.
    fn value(&mut self, is_in_brackets: bool) -> Parsed<String> {
        if let Some(quote @ ('\'' | '"')) = self.peek() {
            let open = self.at;
            let rest = &self.chars[open + 1..];
            let Some(length) = rest.iter().position(|c| *c == quote) else {
                let remedy = format!("close it with {quote}");
                return Err(self.error(self.since(open), "the quotation does not end", remedy));
            };
            self.at = open + length + 2;
            return Ok(rest[..length].iter().collect());
        }
        let ends = if is_in_brackets { "|,]" } else { "|" };
        let rest = self.chars[self.at..].iter();
        let rest: String = rest.take_while(|c| !ends.contains(**c)).collect();
        let joints = [" and ", " or "].map(|joint| rest.find(joint));
        let rest = match joints.into_iter().flatten().min() {
            Some(joint) if !is_in_brackets => &rest[..joint],
            _ => &rest,
        };
        if rest.trim().is_empty() {
            return Err(self.expected("the printed name of a row"));
        }
        self.at += rest.chars().count();
        Ok(rest.trim().to_owned())
    }
}

fn binary(sign: Sign, left: Expr, right: Expr) -> Expr {
    Expr {
        span: left.span.to(right.span),
        kind: Kind::Binary(sign, Box::new(left), Box::new(right)),
    }
}
