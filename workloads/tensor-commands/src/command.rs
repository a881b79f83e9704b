//! The command table.

use crate::{Arguments, CommandError, Operation, OperationKind, RobustMean, RobustRule, SgdStep};

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
            let (target, mean) = (arguments.key()?, robust_mean(&mut arguments)?);
            let kind = OperationKind::Robust(mean);
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

/// Words of a rule's settings, by its name; none of a name that is no rule.
fn settings_of(rule: &[u8]) -> Option<usize> {
    match rule.to_ascii_uppercase().as_slice() {
        b"MEDIAN" => Some(0),
        b"TRIMMED" | b"KRUM" => Some(1),
        b"MULTIKRUM" | b"GEOMETRIC" | b"CLIPPED" => Some(2),
        _ => None,
    }
}

fn is_mixed(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"MIXED")
}

/// `[MIXED faulty] rule …`.
fn robust_mean<A: AsRef<[u8]>>(
    arguments: &mut Arguments<'_, A>,
) -> Result<RobustMean, CommandError> {
    let mut name = arguments.blob()?.as_ref();
    let mut mixed = None;
    if is_mixed(name) {
        mixed = Some(arguments.integer()?);
        name = arguments.blob()?.as_ref();
    }
    let rule = match name.to_ascii_uppercase().as_slice() {
        b"MEDIAN" => RobustRule::CoordinateMedian,
        b"TRIMMED" => RobustRule::TrimmedMean {
            trim: arguments.integer()?,
        },
        b"KRUM" => RobustRule::Krum {
            faulty: arguments.integer()?,
        },
        b"MULTIKRUM" => RobustRule::MultiKrum {
            faulty: arguments.integer()?,
            kept: arguments.integer()?,
        },
        b"GEOMETRIC" => RobustRule::GeometricMedian {
            iterations: arguments.integer()?,
            smoothing: arguments.float()?,
        },
        b"CLIPPED" => RobustRule::CentredClipping {
            radius: arguments.float()?,
            iterations: arguments.integer()?,
        },
        _ => return Err(CommandError::UnknownRule),
    };
    Ok(RobustMean { mixed, rule })
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
        "TENSOR.ROBUST" => robust_sources_from(arguments),
        "TENSOR.SGD" => return (0..arguments.len().min(2)).collect(),
        _ => return (0..arguments.len().min(1)).collect(),
    };
    let target = 0..arguments.len().min(1);
    target.chain(sources_from..arguments.len()).collect()
}

/// The position of the first source of `TENSOR.ROBUST`: behind the target, the rule with
/// its settings, and the count. An unknown rule is taken for one of one setting.
fn robust_sources_from<A: AsRef<[u8]>>(arguments: &[A]) -> usize {
    let word = |position: usize| arguments.get(position).map(AsRef::as_ref);
    let rule = if word(1).is_some_and(is_mixed) { 3 } else { 1 };
    let settings = word(rule).and_then(settings_of).unwrap_or(1);
    rule + settings + 2
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
    fn robust_rules_are_read_with_their_settings() {
        let words = [
            "TENSOR.ROBUST",
            "m",
            "mixed",
            "2",
            "clipped",
            "0.5",
            "3",
            "1",
            "a",
        ];
        let mean = RobustMean {
            mixed: Some(2),
            rule: RobustRule::CentredClipping {
                radius: 0.5,
                iterations: 3,
            },
        };
        let operation = Operation::new("m".into(), OperationKind::Robust(mean), vec!["a".into()]);
        assert!(operation.reads_target());
        assert_eq!(parse(&words).unwrap(), Command::Compute(operation));
        assert_eq!(positions_of_keys(words[0], &words[1..]), [0, 7]);
        for (rule, keys) in [
            (&["MEDIAN"][..], [0, 3]),
            (&["KRUM", "1"], [0, 4]),
            (&["MULTIKRUM", "1", "2"], [0, 5]),
            (&["GEOMETRIC", "3", "0.1"], [0, 5]),
        ] {
            let words = [&["m"], rule, &["1", "a"]].concat();
            assert_eq!(positions_of_keys("TENSOR.ROBUST", &words), keys, "{rule:?}");
            assert!(Command::parse("TENSOR.ROBUST", &words).is_ok(), "{rule:?}");
        }
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
                "[0-9]{1,21}|-1|nan|1e999|MEDIAN|KRUM|TRIMMED|MIXED|CLIPPED".prop_map(String::into_bytes),
            ], 0..9),
        ) {
            let positions = positions_of_keys(name, &words);
            prop_assert!(positions.iter().all(|position| *position < words.len()));
            let _ = Command::parse(name, &words);
        }
    }
}
