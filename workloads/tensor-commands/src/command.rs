//! The command table.

use std::ops::Range;

use crate::{Arguments, CommandError, Operation, OperationKind, RobustMean, RobustRule, SgdStep};

/// Sources of one command. Robust rules take time and memory by the square of
/// it: more could stop a server.
pub const MAX_SOURCES: usize = 4_096;

/// A request to a tensor store; `V` is a value as its reader or sender holds it.
///
/// A **key** is UTF-8 text, possibly empty, an **integer** decimal digits. Clients send the shortest
/// text of a float that parses to the same f32.
///
/// A value that is computed on has a length that is a multiple of 4. `TENSOR.*` stores tensors and
/// `SET` strings, which are two types of Redis: `TENSOR.*` reads both, `GET` and `STRLEN` refuse
/// tensors. Replies are OK, or as in parentheses.
///
/// - `TENSOR.SET key blob`: stores the value, and replaces any other
/// - `TENSOR.GET key` (blob or nil)
/// - `TENSOR.GETRANGE key start count` (blob or nil): `count` elements (not bytes) from element
///   `start`; must lie within the tensor; `count` may be 0
/// - `TENSOR.ACCUMULATE key blob`: adds the blob to the tensor, or stores it if there is none
/// - `TENSOR.MEAN destination count source…`: the mean
/// - `TENSOR.ROBUST destination MEDIAN count source…`: median of each coordinate
/// - `TENSOR.ROBUST destination TRIMMED trim count source…`: mean of each coordinate without its `trim`
///   smallest and largest
/// - `TENSOR.ROBUST destination KRUM faulty count source…`: the source that Krum selects
/// - `TENSOR.ROBUST destination MULTIKRUM faulty kept count source…`: mean of the `kept` sources that
///   Krum would select first
/// - `TENSOR.ROBUST destination GEOMETRIC iterations smoothing count source…`: geometric median
/// - `TENSOR.ROBUST destination CLIPPED radius iterations count source…`: centred clipping about the
///   tensor at `destination`, which it replaces, or about 0 if there is none
/// - `TENSOR.ROBUST destination MIXED faulty RULE … count source…`: any of these rules, after each
///   source is replaced by the mean of its `count - faulty` nearest
/// - `TENSOR.SGD parameters gradient learning-rate momentum weight-decay`: one step
/// - `TENSOR.MEANSGD parameters learning-rate momentum weight-decay count source…`: `TENSOR.MEAN` and
///   `TENSOR.SGD` in turn, bit by bit, without storing the mean
/// - `TENSOR.JSONMEAN list count` (blob): the mean of the first `count` JSON texts of the list, as JSON
///   text; divides by the number found
///
/// `count` is the number of sources that follow, 1 to 4,096. Sources may repeat and may include the
/// destination; they are all read before anything is written.
#[derive(Clone, Debug, PartialEq)]
pub enum TensorCommand<V> {
    /// Stores a value, over anything that was there.
    Set {
        /// Key of the tensor.
        key: String,
        /// The value.
        value: V,
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
        /// The elements (not bytes).
        elements: Range<u64>,
    },
    /// Computes a tensor of others.
    Compute {
        /// The computation.
        operation: Operation,
        /// Value to add, of an addition.
        sent: Option<V>,
    },
    /// Appends a value to a list: Redis' RPUSH.
    Push {
        /// The list.
        key: String,
        /// The item.
        value: V,
    },
    /// Answers with the mean of JSON texts in a list.
    JsonMean {
        /// The list.
        key: String,
        /// Number of its items, from the first.
        count: u64,
    },
    /// Deletes keys: Redis' DEL.
    Delete {
        /// The keys; absent ones are no error.
        keys: Vec<String>,
    },
    /// Answers if the store is alive: Redis' PING.
    Ping,
}

impl<V> TensorCommand<V> {
    /// Reads the command `name` of the table `TENSOR.*`, in upper case, with its arguments; `value`
    /// converts the one that is a value.
    ///
    /// # Errors
    /// What is wrong with them, [`CommandError::Unknown`] for another name.
    pub fn parse<'a, A: AsRef<[u8]>>(
        name: &'a str,
        arguments: &'a [A],
        value: impl FnOnce(&'a A) -> V,
    ) -> Result<Self, CommandError> {
        let mut arguments = Arguments::new(name, arguments);
        let command = match name {
            "TENSOR.SET" => Self::Set {
                key: arguments.key()?,
                value: value(arguments.blob()?),
            },
            "TENSOR.GET" => Self::Get {
                key: arguments.key()?,
            },
            "TENSOR.GETRANGE" => {
                let key = arguments.key()?;
                let (start, count): (u64, u64) = (arguments.integer()?, arguments.integer()?);
                let elements = start..start.saturating_add(count);
                Self::GetRange { key, elements }
            }
            "TENSOR.ACCUMULATE" => Self::Compute {
                operation: Operation::accumulate(arguments.key()?),
                sent: Some(value(arguments.blob()?)),
            },
            "TENSOR.JSONMEAN" => Self::JsonMean {
                key: arguments.key()?,
                count: arguments.integer()?,
            },
            _ => Self::Compute {
                operation: operation(name, &mut arguments)?,
                sent: None,
            },
        };
        arguments.end()?;
        Ok(command)
    }

    /// Returns the name and arguments of the command on the wire, of which a server's are read by
    /// [`parse`](Self::parse); `value` converts the value.
    ///
    /// # Errors
    /// Those of `value`.
    pub fn words<W: From<String>, E>(
        self,
        value: impl FnOnce(V) -> Result<W, E>,
    ) -> Result<(&'static str, Vec<W>), E> {
        let number = |number: u64| W::from(number.to_string());
        Ok(match self {
            Self::Set { key, value: sent } => ("TENSOR.SET", vec![key.into(), value(sent)?]),
            Self::Get { key } => ("TENSOR.GET", vec![key.into()]),
            Self::GetRange { key, elements } => {
                let count = elements.end.saturating_sub(elements.start);
                let words = vec![key.into(), number(elements.start), number(count)];
                ("TENSOR.GETRANGE", words)
            }
            Self::Compute { operation, sent } => operation.words(sent.map(value).transpose()?),
            Self::Push { key, value: sent } => ("RPUSH", vec![key.into(), value(sent)?]),
            Self::JsonMean { key, count } => ("TENSOR.JSONMEAN", vec![key.into(), number(count)]),
            Self::Delete { keys } => ("DEL", keys.into_iter().map(W::from).collect()),
            Self::Ping => ("PING", Vec::new()),
        })
    }

    /// Returns every key that the command names.
    pub fn keys_mut(&mut self) -> Vec<&mut String> {
        match self {
            Self::Set { key, .. }
            | Self::Get { key }
            | Self::GetRange { key, .. }
            | Self::Push { key, .. }
            | Self::JsonMean { key, .. } => vec![key],
            Self::Compute { operation, .. } => {
                let target = std::iter::once(&mut operation.target);
                target.chain(&mut operation.sources).collect()
            }
            Self::Delete { keys } => keys.iter_mut().collect(),
            Self::Ping => Vec::new(),
        }
    }
}

impl OperationKind {
    /// Returns the name of the command for any number of sources, and its settings in the order of the
    /// wire; `float` writes an f32.
    pub fn words(&self, float: impl Fn(f32) -> String) -> (&'static str, Vec<String>) {
        match self {
            Self::Accumulate => ("TENSOR.ACCUMULATE", Vec::new()),
            Self::Mean => ("TENSOR.MEAN", Vec::new()),
            Self::Robust(mean) => {
                let mixed = mean
                    .mixed
                    .map(|faulty| ["MIXED".into(), faulty.to_string()]);
                let rule = mean.rule.words(float);
                (
                    "TENSOR.ROBUST",
                    mixed.into_iter().flatten().chain(rule).collect(),
                )
            }
            Self::Step(step) => ("TENSOR.MEANSGD", step.settings().map(float).into()),
        }
    }
}

impl Operation {
    fn words<W: From<String>>(self, sent: Option<W>) -> (&'static str, Vec<W>) {
        let (name, settings) = self.kind.words(|setting| setting.to_string());
        let (target, sources) = (vec![self.target], self.sources);
        let (name, words) = match (self.kind, sources.len()) {
            (OperationKind::Accumulate, _) => (name, target),
            (OperationKind::Step(_), 1) => ("TENSOR.SGD", [target, sources, settings].concat()),
            (_, count) => {
                let count = vec![count.to_string()];
                (name, [target, settings, count, sources].concat())
            }
        };
        (name, words.into_iter().map(W::from).chain(sent).collect())
    }
}

/// Reads the commands that compute one tensor of others.
fn operation<A: AsRef<[u8]>>(
    name: &str,
    arguments: &mut Arguments<'_, A>,
) -> Result<Operation, CommandError> {
    let (target, kind, sources) = match name {
        "TENSOR.MEAN" => {
            let target = arguments.key()?;
            (target, OperationKind::Mean, arguments.counted_keys()?)
        }
        "TENSOR.ROBUST" => {
            let (target, mean) = (arguments.key()?, robust_mean(arguments)?);
            let kind = OperationKind::Robust(mean);
            (target, kind, arguments.counted_keys()?)
        }
        "TENSOR.SGD" => {
            let (target, gradient) = (arguments.key()?, arguments.key()?);
            let step = step(arguments)?;
            (target, OperationKind::Step(step), vec![gradient])
        }
        "TENSOR.MEANSGD" => {
            let target = arguments.key()?;
            let step = step(arguments)?;
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

    /// Every command of the table.
    const NAMES: [&str; 9] = [
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

    fn parse<W: AsRef<[u8]>>(words: &[W]) -> Result<TensorCommand<String>, String> {
        let text = |word: &W| String::from_utf8_lossy(word.as_ref()).into_owned();
        TensorCommand::parse(&text(&words[0]), &words[1..], text).map_err(|error| error.line())
    }

    #[test]
    fn keys_of_robust_means_are_found_behind_their_settings() {
        let words = ["m", "mixed", "2", "clipped", "0.5", "3", "1", "a"];
        assert_eq!(positions_of_keys("TENSOR.ROBUST", &words), [0, 7]);
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

    fn rule() -> impl Strategy<Value = RobustRule> {
        let settings = (0..6, 0_usize..9, 0_usize..9, -9.0_f32..9.0);
        settings.prop_map(|(rule, count, kept, float)| match rule {
            0 => RobustRule::CoordinateMedian,
            1 => RobustRule::TrimmedMean { trim: count },
            2 => RobustRule::Krum { faulty: count },
            3 => RobustRule::MultiKrum {
                faulty: count,
                kept,
            },
            4 => RobustRule::GeometricMedian {
                iterations: count,
                smoothing: float,
            },
            _ => RobustRule::CentredClipping {
                radius: float,
                iterations: count,
            },
        })
    }

    /// Commands of the table, as a client may send them.
    fn command() -> impl Strategy<Value = TensorCommand<String>> {
        let mixed = prop::option::of(0_usize..9);
        let kind = prop_oneof![
            Just(OperationKind::Mean),
            (mixed, rule())
                .prop_map(|(mixed, rule)| OperationKind::Robust(RobustMean { mixed, rule })),
            any::<[f32; 3]>().prop_filter_map("finite", |settings| {
                let [learning_rate, momentum, weight_decay] = settings;
                let step = SgdStep {
                    learning_rate,
                    momentum,
                    weight_decay,
                };
                let is_finite = settings.iter().all(|setting| setting.is_finite());
                is_finite.then_some(OperationKind::Step(step))
            }),
        ];
        let sources = prop::collection::vec(any::<String>(), 1..4);
        prop_oneof![
            any::<[String; 2]>().prop_map(|[key, value]| TensorCommand::Set { key, value }),
            any::<String>().prop_map(|key| TensorCommand::Get { key }),
            any::<(String, u32, u32)>().prop_map(|(key, start, count)| {
                let elements = start.into()..u64::from(start) + u64::from(count);
                TensorCommand::GetRange { key, elements }
            }),
            any::<[String; 2]>().prop_map(|[key, value]| TensorCommand::Compute {
                operation: Operation::accumulate(key),
                sent: Some(value),
            }),
            (any::<String>(), kind, sources).prop_map(|(target, kind, sources)| {
                let operation = Operation::new(target, kind, sources);
                let sent = None;
                TensorCommand::Compute { operation, sent }
            }),
            any::<(String, u64)>().prop_map(|(key, count)| TensorCommand::JsonMean { key, count }),
        ]
    }

    proptest! {
        /// What a client sends is what a server reads, and the keys that it finds are the command's.
        #[test]
        fn words_are_read_back(mut command in command()) {
            let sent = command.clone().words(Ok::<String, std::convert::Infallible>);
            let (name, words) = sent.unwrap();
            let keys: Vec<String> = positions_of_keys(name, &words)
                .into_iter()
                .map(|position| words[position].clone())
                .collect();
            prop_assert_eq!(&parse(&[&[name.to_owned()], words.as_slice()].concat()).unwrap(), &command);
            prop_assert_eq!(keys.iter().collect::<Vec<_>>(), command.keys_mut());
        }

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
            let _ = parse(&[&[name.as_bytes().to_vec()], words.as_slice()].concat());
        }
    }
}
