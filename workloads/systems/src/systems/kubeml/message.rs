//! The HTTP requests and answers between the job and its functions, as
//! messages of fixed sizes, little-endian.

use epochcost_channels::Payload;

use crate::{Evaluation, Result, SystemError};

/// Bytes of the query of a call.
pub const QUERY_BYTES: u64 = 25;
/// Bytes of the message that the reference model is stored.
pub const INITIALISED_BYTES: u64 = 5;
/// Bytes of /next, and of the answer of a training function.
pub const REPORT_BYTES: u64 = 25;
/// Bytes of what answers /next.
pub const GO_ON_BYTES: u64 = 9;
/// Bytes of the answer of a validating function.
pub const VALIDATION_BYTES: u64 = 41;

/// Call that a message belongs to, and the interval that it is about.
///
/// An invocation can fail after its function has posted a report, and then the
/// function is called again: what the lost call posted must not be taken for a
/// report of the later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) epoch: usize,
    /// Interval of the epoch, from 0; 0 in validation.
    pub(super) interval: usize,
    /// Number of the function's call in the epoch: training calls count from 0,
    /// the call that validates is [`CALLS`](super::CALLS).
    pub(super) attempt: usize,
}

/// Bytes that the answer has more where the job has a validation split.
pub const HELD_OUT_BYTES: u64 = 24;

/// A request or an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Message {
    /// The query of a call: functions of the epoch, the call with the interval
    /// to begin with, and the learning rate.
    Query {
        functions: usize,
        at: Position,
        learning_rate: f64,
    },
    /// The reference model is stored, in so many layers.
    Initialised { layers: usize },
    /// /next: a function has stored the model of an interval, and waits.
    Next {
        function: usize,
        at: Position,
        loss: f64,
    },
    /// The answer to /next: the interval is merged.
    GoOn { epoch: usize, interval: usize },
    /// A function has stored its last model and returned its mean loss.
    Trained {
        function: usize,
        at: Position,
        loss: f64,
    },
    /// A call came back with an error, and the function is not called again.
    Failed { function: usize, at: Position },
    /// Results of a function on its share of the test split, and of the validation split
    /// where the job has one.
    Validated {
        function: usize,
        at: Position,
        evaluation: Evaluation,
        held_out: Option<Evaluation>,
    },
}

impl Message {
    /// Returns the function and the call of a report; `None` for other messages.
    pub(super) fn reported(&self) -> Option<(usize, Position)> {
        match *self {
            Self::Next { function, at, .. }
            | Self::Trained { function, at, .. }
            | Self::Failed { function, at }
            | Self::Validated { function, at, .. } => Some((function, at)),
            Self::Query { .. } | Self::Initialised { .. } | Self::GoOn { .. } => None,
        }
    }

    pub(super) fn encode(self) -> Payload {
        let mut bytes = Vec::new();
        let number = |bytes: &mut Vec<u8>, number: usize| {
            bytes.extend_from_slice(&(number as u32).to_le_bytes());
        };
        let mut head = |kind: u8, function: usize, at: Option<Position>| {
            bytes.push(kind);
            number(&mut bytes, function);
            if let Some(at) = at {
                for part in [at.epoch, at.interval, at.attempt] {
                    number(&mut bytes, part);
                }
            }
        };
        match self {
            Self::Query {
                functions,
                at,
                learning_rate,
            } => {
                head(b'Q', functions, Some(at));
                bytes.extend_from_slice(&learning_rate.to_le_bytes());
            }
            Self::Initialised { layers } => head(b'I', layers, None),
            Self::Next { function, at, loss } => {
                head(b'N', function, Some(at));
                bytes.extend_from_slice(&loss.to_le_bytes());
            }
            Self::GoOn { epoch, interval } => {
                head(b'G', epoch, None);
                number(&mut bytes, interval);
            }
            Self::Trained { function, at, loss } => {
                head(b'T', function, Some(at));
                bytes.extend_from_slice(&loss.to_le_bytes());
            }
            Self::Failed { function, at } => head(b'F', function, Some(at)),
            Self::Validated {
                function,
                at,
                evaluation,
                held_out,
            } => {
                head(b'V', function, Some(at));
                for evaluation in [Some(evaluation), held_out].into_iter().flatten() {
                    bytes.extend_from_slice(&evaluation.loss.to_le_bytes());
                    bytes.extend_from_slice(&(evaluation.correct as u64).to_le_bytes());
                    bytes.extend_from_slice(&(evaluation.samples as u64).to_le_bytes());
                }
            }
        }
        bytes.into()
    }

    pub(super) fn decode(payload: &Payload) -> Result<Self> {
        let mut reader = Reader(payload.bytes()?);
        let message = match reader.take::<1>()?[0] {
            b'Q' => Self::Query {
                functions: reader.number()?,
                at: reader.position()?,
                learning_rate: reader.real()?,
            },
            b'I' => Self::Initialised {
                layers: reader.number()?,
            },
            b'N' => Self::Next {
                function: reader.number()?,
                at: reader.position()?,
                loss: reader.real()?,
            },
            b'G' => Self::GoOn {
                epoch: reader.number()?,
                interval: reader.number()?,
            },
            b'T' => Self::Trained {
                function: reader.number()?,
                at: reader.position()?,
                loss: reader.real()?,
            },
            b'F' => Self::Failed {
                function: reader.number()?,
                at: reader.position()?,
            },
            b'V' => Self::Validated {
                function: reader.number()?,
                at: reader.position()?,
                evaluation: reader.evaluation()?,
                held_out: if reader.0.is_empty() {
                    None
                } else {
                    Some(reader.evaluation()?)
                },
            },
            kind => return Err(malformed(format!("there is no kind {kind}"))),
        };
        match reader.0.len() {
            0 => Ok(message),
            more => Err(malformed(format!("{more} bytes follow its end"))),
        }
    }
}

fn malformed(reason: impl Into<String>) -> SystemError {
    SystemError::Malformed {
        what: "a message between a job and its functions".into(),
        reason: reason.into(),
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or_else(|| malformed("it is cut short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<usize> {
        Ok(u32::from_le_bytes(self.take()?) as usize)
    }

    fn position(&mut self) -> Result<Position> {
        Ok(Position {
            epoch: self.number()?,
            interval: self.number()?,
            attempt: self.number()?,
        })
    }

    fn evaluation(&mut self) -> Result<Evaluation> {
        Ok(Evaluation {
            loss: self.real()?,
            correct: u64::from_le_bytes(self.take()?) as usize,
            samples: u64::from_le_bytes(self.take()?) as usize,
        })
    }

    fn real(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.take()?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn messages_are_of_the_stated_sizes_and_read_back() {
        let (function, loss) = (3, 0.5);
        let evaluation = Evaluation {
            loss,
            correct: 7,
            samples: 9,
        };
        let at = Position {
            epoch: 2,
            interval: 1,
            attempt: 3,
        };
        let go_on = Message::GoOn {
            epoch: 2,
            interval: 1,
        };
        let query = Message::Query {
            functions: 4,
            at,
            learning_rate: 0.01,
        };
        for (message, bytes) in [
            (query, QUERY_BYTES),
            (Message::Initialised { layers: 10 }, INITIALISED_BYTES),
            (Message::Next { function, at, loss }, REPORT_BYTES),
            (Message::Trained { function, at, loss }, REPORT_BYTES),
            (go_on, GO_ON_BYTES),
            (Message::Failed { function, at }, 17),
            (
                Message::Validated {
                    function,
                    at,
                    evaluation,
                    held_out: None,
                },
                VALIDATION_BYTES,
            ),
            (
                Message::Validated {
                    function,
                    at,
                    evaluation,
                    held_out: Some(evaluation),
                },
                VALIDATION_BYTES + HELD_OUT_BYTES,
            ),
        ] {
            let payload = message.encode();
            assert_eq!(payload.len(), bytes, "{message:?}");
            assert_eq!(Message::decode(&payload).unwrap(), message);
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [&[][..], b"X", b"T123", b"G12345678 "] {
            let error = Message::decode(&bytes.to_vec().into()).unwrap_err();
            assert!(matches!(error, SystemError::Malformed { .. }), "{error}");
        }
    }
}
