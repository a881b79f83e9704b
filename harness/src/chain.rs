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
    use std::path::{Path, PathBuf};

    use epochcost_datasets::DatasetError;

    use super::chain;
    use crate::audit::AuditError;
    use crate::error::Error;
    use crate::experiment::{ExperimentError, UnreadableDirectory};
    use crate::platform::PlatformError;
    use crate::published::PublishedError;
    use crate::results::ResultsError;

    fn cause() -> io::Error {
        io::Error::other("the cause")
    }

    /// Every variant that has a source, in every error that can hold it.
    fn errors() -> Vec<Error> {
        let path = || PathBuf::from("some/path");
        let published = || PublishedError::Io {
            path: "some/path".into(),
            source: cause(),
        };
        vec![
            Error::Io {
                doing: "write some/path".into(),
                source: cause(),
            },
            PlatformError::Io {
                doing: "write some/path".into(),
                source: cause(),
            }
            .into(),
            ExperimentError::Read {
                file: path(),
                source: cause(),
            }
            .into(),
            UnreadableDirectory {
                directory: path(),
                source: cause(),
            }
            .into(),
            AuditError::from(published()).into(),
            ResultsError::Unwritable {
                path: path(),
                source: cause(),
            }
            .into(),
            ResultsError::io("read", Path::new("some/path"))(cause()).into(),
            DatasetError::Read {
                path: path(),
                source: cause(),
            }
            .into(),
            DatasetError::Write {
                path: path(),
                source: cause(),
            }
            .into(),
        ]
    }

    #[test]
    fn every_cause_is_named_once_and_before_the_remedy() {
        for error in errors() {
            let text = chain(&error);
            assert_eq!(text.matches("the cause").count(), 1, "{text}");
            assert_eq!(text.matches("some/path").count(), 1, "{text}");
            let first = text.lines().next().unwrap_or_default();
            assert!(first.ends_with(": the cause"), "{text}");
        }
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
