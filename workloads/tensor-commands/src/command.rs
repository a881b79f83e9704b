//! The command table.

use crate::{Arguments, CommandError, Operation, OperationKind, RobustRule, SgdStep};

/// Sources of one command. Robust rules take time and memory by the square of
/// it: more could stop a server.
pub const MAX_SOURCES: usize = 4_096;

/// Every command, in upper case.
pub const NAMES: [&str; 9] = [
    "TENSOR.SET",
    "TENSOR.GET",
    "TENSOR.GETRANGE",
    "TENSOR.ACCUMULATE",
    "TENSOR.MEAN",
    "TENSOR.ROBUST",
    "TENSOR.SGD",
    "TENSOR.MEANSGD",
    "TENSOR.JSONMEAN",
];

/// A command whose arguments have been read.
#[derive(Clone, Debug, PartialEq)]
pub enum Command<'a, A> {
    /// Stores a value, over anything that was there.
    Set {
        /// Key of the tensor.
        key: String,
        /// The value.
        value: &'a A,
    },
    /// Answers with a value.
    Get {
        /// Key of the tensor.
        key: String,
    },
    /// Answers with some elements of a tensor.
    GetRange {
        /// Key of the tensor.
        key: String,
        /// First element.
        start: u64,
        /// Number of elements.
        count: u64,
    },
    /// Adds a value to a tensor, or stores it if there is none.
    Accumulate {
        /// The addition: its only source is not a key but `value`.
        operation: Operation,
        /// Value to add.
        value: &'a A,
    },
    /// Computes a tensor of those at other keys.
    Compute(Operation),
    /// Answers with the mean of JSON texts in a list.
    JsonMean {
        /// The list.
        key: String,
        /// Number of its items, from the first.
        count: u64,
    },
}

impl<'a, A: AsRef<[u8]>> Command<'a, A> {
    /// Reads the command `name`, in upper case, with its arguments.
    ///
    /// # Errors
    /// What is wrong with them, [`CommandError::Unknown`] for another name.
    pub fn parse(name: &'a str, arguments: &'a [A]) -> Result<Self, CommandError> {
        let mut arguments = Arguments::new(name, arguments);
        match name {
            "TENSOR.SET" => {
                let (key, value) = (arguments.key()?, arguments.blob()?);
                arguments.end()?;
                Ok(Self::Set { key, value })
            }
            "TENSOR.GET" => {
                let key = arguments.key()?;
                arguments.end()?;
                Ok(Self::Get { key })
            }
            "TENSOR.GETRANGE" => {
                let key = arguments.key()?;
                let (start, count) = (arguments.integer()?, arguments.integer()?);
                arguments.end()?;
                Ok(Self::GetRange { key, start, count })
            }
            "TENSOR.ACCUMULATE" => {
                let (target, value) = (arguments.key()?, arguments.blob()?);
                arguments.end()?;
                let operation = Operation::new(target, OperationKind::Accumulate, Vec::new());
                Ok(Self::Accumulate { operation, value })
            }
            "TENSOR.JSONMEAN" => {
                let (key, count) = (arguments.key()?, arguments.integer()?);
                arguments.end()?;
                Ok(Self::JsonMean { key, count })
            }
            _ => operation(name, arguments).map(Self::Compute),
        }
    }
}

/// Returns the commands that compute one tensor of others.
fn operation<A: AsRef<[u8]>>(
    name: &str,
    mut arguments: Arguments<'_, A>,
) -> Result<Operation, CommandError> {
    let (target, kind, sources) = match name {
        "TENSOR.MEAN" => {
            let target = arguments.key()?;
            (target, OperationKind::Mean, arguments.counted_keys()?)
        }
        "TENSOR.ROBUST" => {
            let (target, rule) = (arguments.key()?, rule(&mut arguments)?);
            let kind = OperationKind::Robust(rule);
            (target, kind, arguments.counted_keys()?)
        }
        "TENSOR.SGD" => {
            let (target, gradient) = (arguments.key()?, arguments.key()?);
            let step = step(&mut arguments)?;
            arguments.end()?;
            (target, OperationKind::Step(step), vec![gradient])
        }
        "TENSOR.MEANSGD" => {
            let target = arguments.key()?;
            let step = step(&mut arguments)?;
            (target, OperationKind::Step(step), arguments.counted_keys()?)
        }
        _ => return Err(CommandError::unknown(name)),
    };
    Ok(Operation::new(target, kind, sources))
}

fn rule<A: AsRef<[u8]>>(arguments: &mut Arguments<'_, A>) -> Result<RobustRule, CommandError> {
    let name = arguments.blob()?.as_ref();
    match name.to_ascii_uppercase().as_slice() {
        b"MEDIAN" => Ok(RobustRule::CoordinateMedian),
        b"TRIMMED" => Ok(RobustRule::TrimmedMean {
            trim: arguments.integer()?,
        }),
        b"KRUM" => Ok(RobustRule::Krum {
            faulty: arguments.integer()?,
        }),
        _ => Err(CommandError::UnknownRule),
    }
}

fn step<A: AsRef<[u8]>>(arguments: &mut Arguments<'_, A>) -> Result<SgdStep, CommandError> {
    Ok(SgdStep {
        learning_rate: arguments.float()?,
        momentum: arguments.float()?,
        weight_decay: arguments.float()?,
    })
}

/// Returns the positions, counted from 0, of the arguments of `name` that are
/// keys, also when the rest of them is nonsense: what access control and
/// clusters ask for. The key of a velocity is not among the arguments.
#[must_use]
pub fn positions_of_keys<A: AsRef<[u8]>>(name: &str, arguments: &[A]) -> Vec<usize> {
    let sources_from = match name {
        "TENSOR.MEAN" => 2,
        "TENSOR.MEANSGD" => 5,
        "TENSOR.ROBUST" => match arguments.get(1) {
            Some(rule) if rule.as_ref().eq_ignore_ascii_case(b"MEDIAN") => 3,
            _ => 4,
        },
        "TENSOR.SGD" => return (0..arguments.len().min(2)).collect(),
        _ => return (0..arguments.len().min(1)).collect(),
    };
    let target = 0..arguments.len().min(1);
    target.chain(sources_from..arguments.len()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse<'a>(words: &'a [&'a str]) -> Result<Command<'a, &'a str>, String> {
        Command::parse(words[0], &words[1..]).map_err(|error| error.line())
    }

    #[test]
    fn settings_and_sources_are_read() {
        let step = SgdStep {
            learning_rate: 0.05,
            momentum: 0.9,
            weight_decay: 0.0,
        };
        assert_eq!(
            parse(&["TENSOR.MEANSGD", "w", "5e-2", "0.9", "0", "2", "a", "b"]).unwrap(),
            Command::Compute(Operation::new(
                "w".into(),
                OperationKind::Step(step),
                vec!["a".into(), "b".into()]
            ))
        );
    }

    #[test]
    fn nonsense_is_refused_in_the_formats_words() {
        for (words, refusal) in [
            (
                &["TENSOR.MEAN", "m"][..],
                "ERR wrong number of arguments for 'tensor.mean' command",
            ),
            (
                &["TENSOR.MEAN", "m", "18446744073709551615", "a"],
                "ERR the number of sources does not match their count",
            ),
            (
                &["TENSOR.ROBUST", "m", "KRUM", "-1", "1", "a"],
                "ERR value is not an integer or out of range",
            ),
            (
                &["TENSOR.SGD", "w", "g", "nan", "0", "0"],
                "ERR value is not a valid float",
            ),
            (&["TENSOR.NONE"], "ERR unknown command 'tensor.none'"),
        ] {
            assert_eq!(parse(words).unwrap_err(), refusal, "{words:?}");
        }
        let many = vec!["s"; MAX_SOURCES + 1];
        let count = many.len().to_string();
        let words = [&["TENSOR.MEAN", "m", &count], many.as_slice()].concat();
        assert_eq!(
            parse(&words).unwrap_err(),
            "ERR 4097 sources are too many: a command takes at most 4096"
        );
    }

    proptest! {
        /// Whatever is sent, reading it ends in a value or an error.
        #[test]
        fn no_arguments_bring_the_reader_down(
            name in prop::sample::select(NAMES.to_vec()),
            words in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..9),
                "[0-9]{1,21}|-1|nan|1e999|MEDIAN|KRUM|TRIMMED".prop_map(String::into_bytes),
            ], 0..9),
        ) {
            let positions = positions_of_keys(name, &words);
            prop_assert!(positions.iter().all(|position| *position < words.len()));
            let _ = Command::parse(name, &words);
        }
    }
}
