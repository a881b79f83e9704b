//! Errors as text: each with its causes.

use std::error::Error;

/// The mark before what to do about an error; it ends the error's text.
const REMEDY: &str = "\n  = help: ";

/// Returns an error's text with those of its causes, from the outermost to the
/// innermost, separated by ": ". What to do about the error stays at the end.
///
/// No error of this crate repeats in its own text what its source says: the
/// text is `failed to read x`, and why is the source.
pub fn chain(error: &dyn Error) -> String {
    let own = error.to_string();
    let (problem, remedy) = own.split_at(own.find(REMEDY).unwrap_or(own.len()));
    let mut text = problem.to_owned();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text + remedy
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::chain;

    fn cause() -> io::Error {
        io::Error::other("the cause")
    }

    #[test]
    fn nested_causes_follow_each_other() {
        #[derive(Debug, thiserror::Error)]
        #[error("failed to load\n  = help: load another")]
        struct Outer(#[source] Middle);
        #[derive(Debug, thiserror::Error)]
        #[error("failed to parse")]
        struct Middle(#[source] io::Error);
        let error = Outer(Middle(cause()));
        let expected = "failed to load: failed to parse: the cause\n  = help: load another";
        assert_eq!(chain(&error), expected);
        // A cause that is part of another's text is a cause all the same.
        let error = Middle(io::Error::other("parse"));
        assert_eq!(chain(&error), "failed to parse: parse");
    }
}
