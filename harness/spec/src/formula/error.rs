//! Errors of formulas, with the place in the text.

use std::fmt;

/// A stretch of a formula's text, in characters from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First character.
    pub start: usize,
    /// Character behind the last one.
    pub end: usize,
}

impl Span {
    /// Returns the stretch from the start of this one to the end of another.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self {
            start: self.start,
            end: other.end,
        }
    }
}

/// Why a formula cannot be read or evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormulaError {
    /// The formula.
    pub text: String,
    /// The part that is wrong.
    pub span: Span,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
    /// Whether the formula is sound, and only names a metric that no paper prints.
    pub is_unprinted: bool,
}

impl FormulaError {
    pub(crate) fn new(
        text: &str,
        span: Span,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            text: text.to_owned(),
            span,
            problem: problem.into(),
            remedy: remedy.into(),
            is_unprinted: false,
        }
    }

    /// Returns the column of the part that is wrong, in characters from 1.
    pub fn column(&self) -> usize {
        self.span.start + 1
    }
}

impl fmt::Display for FormulaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.span.end.saturating_sub(self.span.start).max(1);
        // Tabs and line breaks would move the caret away from its part.
        let line = self.text.replace(char::is_control, " ");
        writeln!(f, "column {}: {}", self.column(), self.problem)?;
        writeln!(f, "  {line}")?;
        writeln!(f, "  {}{}", " ".repeat(self.span.start), "^".repeat(width))?;
        write!(f, "  = help: {}", self.remedy)
    }
}

impl std::error::Error for FormulaError {}
