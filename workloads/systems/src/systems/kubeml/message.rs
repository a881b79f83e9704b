//! The HTTP requests and answers between the job and its functions, as
//! messages of fixed sizes, little-endian.

use epochcost_channels::Payload;

use crate::mechanics::wire::{Reader, Writer};
use crate::{Evaluation, Result};

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
        let of = |kind: u8, number: usize| Writer::of(kind).number(number);
        let report = |kind: u8, function: usize, at: Position| {
            let call = of(kind, function).number(at.epoch);
            call.number(at.interval).number(at.attempt)
        };
        let written = match self {
            Self::Query {
                functions,
                at,
                learning_rate,
            } => report(b'Q', functions, at).real(learning_rate),
            Self::Initialised { layers } => of(b'I', layers),
            Self::Next { function, at, loss } => report(b'N', function, at).real(loss),
            Self::GoOn { epoch, interval } => of(b'G', epoch).number(interval),
            Self::Trained { function, at, loss } => report(b'T', function, at).real(loss),
            Self::Failed { function, at } => report(b'F', function, at),
            Self::Validated {
                function,
                at,
                evaluation,
                held_out,
            } => {
                let written = report(b'V', function, at).evaluation(evaluation);
                held_out.into_iter().fold(written, Writer::evaluation)
            }
        };
        written.into()
    }

    pub(super) fn decode(payload: &Payload) -> Result<Self> {
        let mut reader = Reader::new(payload, "a message between a job and its functions")?;
        let message = match reader.byte()? {
            b'Q' => Self::Query {
                functions: reader.number()?,
                at: position(&mut reader)?,
                learning_rate: reader.real()?,
            },
            b'I' => Self::Initialised {
                layers: reader.number()?,
            },
            b'N' => Self::Next {
                function: reader.number()?,
                at: position(&mut reader)?,
                loss: reader.real()?,
            },
            b'G' => Self::GoOn {
                epoch: reader.number()?,
                interval: reader.number()?,
            },
            b'T' => Self::Trained {
                function: reader.number()?,
                at: position(&mut reader)?,
                loss: reader.real()?,
            },
            b'F' => Self::Failed {
                function: reader.number()?,
                at: position(&mut reader)?,
            },
            b'V' => Self::Validated {
                function: reader.number()?,
                at: position(&mut reader)?,
                evaluation: reader.evaluation()?,
                held_out: if reader.is_over() {
                    None
                } else {
                    Some(reader.evaluation()?)
                },
            },
            kind => return Err(reader.malformed(format!("there is no kind {kind}"))),
        };
        reader.end(message)
    }
}

fn position(reader: &mut Reader<'_>) -> Result<Position> {
    Ok(Position {
        epoch: reader.number()?,
        interval: reader.number()?,
        attempt: reader.number()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::SystemError;

    #[test]
    fn messages_are_of_the_stated_sizes_and_read_back() {
        let (function, functions, loss, learning_rate) = (3, 4, 0.5, 0.01);
        let (epoch, interval, attempt) = (2, 1, 3);
        let at = Position {
            epoch,
            interval,
            attempt,
        };
        let evaluation = Evaluation {
            loss,
            correct: 7,
            samples: 9,
        };
        let validated = |held_out| Message::Validated {
            function,
            at,
            evaluation,
            held_out,
        };
        let query = Message::Query {
            functions,
            at,
            learning_rate,
        };
        for (message, bytes) in [
            (query, QUERY_BYTES),
            (Message::Initialised { layers: 10 }, INITIALISED_BYTES),
            (Message::Next { function, at, loss }, REPORT_BYTES),
            (Message::Trained { function, at, loss }, REPORT_BYTES),
            (Message::GoOn { epoch, interval }, GO_ON_BYTES),
            (Message::Failed { function, at }, 17),
            (validated(None), VALIDATION_BYTES),
            (
                validated(Some(evaluation)),
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
