use epochcost_kernels::KernelError;
use thiserror::Error;

/// Why a command was refused. Its text is the error reply, without the `-` in
/// front. What follows `ERR unknown command '` differs between servers.
#[derive(Debug, Error)]
pub enum CommandError {
    /// Too few or too many arguments.
    #[error("ERR wrong number of arguments for '{command}' command")]
    WrongCount {
        /// The command, in lower case.
        command: String,
    },
    /// No command of this name.
    #[error("ERR unknown command '{command}'")]
    Unknown {
        /// The command, in lower case and cut off if it is long.
        command: String,
    },
    /// A key whose bytes are not text.
    #[error("ERR a key must be valid UTF-8")]
    KeyNotText,
    /// Not decimal digits, or more than the type holds.
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    /// Not a decimal number, or not finite.
    #[error("ERR value is not a valid float")]
    NotAFloat,
    /// The number of sources is announced as 0.
    #[error("ERR at least one source is needed")]
    NoSources,
    /// The number of sources that follow is another than announced.
    #[error("ERR the number of sources does not match their count")]
    SourceCount,
    /// More sources than one command takes.
    #[error("ERR {count} sources are too many: a command takes at most {most}")]
    TooManySources {
        /// Sources named.
        count: usize,
        /// Sources that a command takes.
        most: usize,
    },
    /// No robust rule of this name.
    #[error("ERR the rule must be MEDIAN, TRIMMED, KRUM, MULTIKRUM, GEOMETRIC or CLIPPED")]
    UnknownRule,
    /// A value of another kind is there.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// A value that must be there is not.
    #[error("ERR no such key {}", serde_json::Value::from(.key.as_str()))]
    Missing {
        /// The key asked for. A JSON string on the wire: any key on one line.
        key: String,
    },
    /// A range that the tensor does not have.
    #[error("ERR the tensor has {elements} elements")]
    OutOfRange {
        /// Elements it has.
        elements: u64,
    },
    /// The server became a replica before the result could be written.
    #[error("READONLY You can't write against a read only replica.")]
    ReadOnly,
    /// Values that do not fit together.
    #[error("ERR failed to combine tensors: {0}")]
    Kernel(#[from] KernelError),
}

impl CommandError {
    /// Returns the error reply's text, on one line whatever the client sent.
    #[must_use]
    pub fn line(&self) -> String {
        one_line(&self.to_string())
    }

    /// Returns the refusal of too few or too many arguments.
    #[must_use]
    pub fn wrong_count(command: &str) -> Self {
        Self::WrongCount {
            command: command.to_lowercase(),
        }
    }

    /// Returns the refusal of an unknown command.
    #[must_use]
    pub fn unknown(command: &str) -> Self {
        Self::Unknown {
            command: command.to_lowercase().chars().take(64).collect(),
        }
    }
}

/// Returns `text` on one line: a space stands for each control character.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_one_line_and_tell_the_key() {
        let error = CommandError::Missing {
            key: "a \"b\"\r\n".into(),
        };
        assert_eq!(error.line(), r#"ERR no such key "a \"b\"\r\n""#);
        let error = CommandError::unknown("NO\r\nNSENSE");
        assert_eq!(error.line(), "ERR unknown command 'no  nsense'");
    }
}
