//! The HTTP requests and answers between the job and its functions, as
//! messages of fixed sizes, little-endian.

use epochcost_channels::Payload;

use crate::{Evaluation, Result, SystemError};

/// Bytes of the query of a call.
pub const QUERY_BYTES: u64 = 21;
/// Bytes of the message that the reference model is stored.
pub const INITIALISED_BYTES: u64 = 5;
/// Bytes of /next, and of the answer of a training function.
pub const REPORT_BYTES: u64 = 13;
/// Bytes of what answers /next.
pub const GO_ON_BYTES: u64 = 1;
/// Bytes of the answer of a validating function.
pub const VALIDATION_BYTES: u64 = 29;

/// A request or an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Message {
    /// The query of a call: functions of the epoch, the epoch, the interval to
    /// begin with, and the learning rate.
    Query {
        functions: usize,
        epoch: usize,
        interval: usize,
        learning_rate: f64,
    },
    /// The reference model is stored, in so many layers.
    Initialised { layers: usize },
    /// /next: a function has stored the model of an interval, and waits.
    Next { function: usize, loss: f64 },
    /// The answer to /next.
    GoOn,
    /// A function has stored its last model and returned its mean loss.
    Trained { function: usize, loss: f64 },
    /// A call came back with an error.
    Failed { function: usize },
    /// Result of a function on its share of the test split.
    Validated {
        function: usize,
        evaluation: Evaluation,
    },
}

impl Message {
    pub(super) fn encode(self) -> Payload {
        let mut bytes = Vec::new();
        let mut head = |kind: u8, function: usize| {
            bytes.push(kind);
            bytes.extend_from_slice(&(function as u32).to_le_bytes());
        };
        match self {
            Self::Query {
                functions,
                epoch,
                interval,
                learning_rate,
            } => {
                head(b'Q', functions);
                bytes.extend_from_slice(&(epoch as u32).to_le_bytes());
                bytes.extend_from_slice(&(interval as u32).to_le_bytes());
                bytes.extend_from_slice(&learning_rate.to_le_bytes());
            }
            Self::Initialised { layers } => head(b'I', layers),
            Self::Next { function, loss } => {
                head(b'N', function);
                bytes.extend_from_slice(&loss.to_le_bytes());
            }
            Self::GoOn => bytes.push(b'G'),
            Self::Trained { function, loss } => {
                head(b'T', function);
                bytes.extend_from_slice(&loss.to_le_bytes());
            }
            Self::Failed { function } => head(b'F', function),
            Self::Validated {
                function,
                evaluation,
            } => {
                head(b'V', function);
                bytes.extend_from_slice(&evaluation.loss.to_le_bytes());
                bytes.extend_from_slice(&(evaluation.correct as u64).to_le_bytes());
                bytes.extend_from_slice(&(evaluation.samples as u64).to_le_bytes());
            }
        }
        bytes.into()
    }

    pub(super) fn decode(payload: &Payload) -> Result<Self> {
        let mut reader = Reader(payload.bytes()?);
        let message = match reader.take::<1>()?[0] {
            b'Q' => Self::Query {
                functions: reader.number()?,
                epoch: reader.number()?,
                interval: reader.number()?,
                learning_rate: reader.real()?,
            },
            b'I' => Self::Initialised {
                layers: reader.number()?,
            },
            b'N' => Self::Next {
                function: reader.number()?,
                loss: reader.real()?,
            },
            b'G' => Self::GoOn,
            b'T' => Self::Trained {
                function: reader.number()?,
                loss: reader.real()?,
            },
            b'F' => Self::Failed {
                function: reader.number()?,
            },
            b'V' => Self::Validated {
                function: reader.number()?,
                evaluation: Evaluation {
                    loss: reader.real()?,
                    correct: u64::from_le_bytes(reader.take()?) as usize,
                    samples: u64::from_le_bytes(reader.take()?) as usize,
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
        let query = Message::Query {
            functions: 4,
            epoch: 2,
            interval: 1,
            learning_rate: 0.01,
        };
        for (message, bytes) in [
            (query, QUERY_BYTES),
            (Message::Initialised { layers: 10 }, INITIALISED_BYTES),
            (Message::Next { function, loss }, REPORT_BYTES),
            (Message::Trained { function, loss }, REPORT_BYTES),
            (Message::GoOn, GO_ON_BYTES),
            (Message::Failed { function }, 5),
            (
                Message::Validated {
                    function,
                    evaluation,
                },
                VALIDATION_BYTES,
            ),
        ] {
            let payload = message.encode();
            assert_eq!(payload.len(), bytes, "{message:?}");
            assert_eq!(Message::decode(&payload).unwrap(), message);
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [&[][..], b"X", b"T123", b"G "] {
            let error = Message::decode(&bytes.to_vec().into()).unwrap_err();
            assert!(matches!(error, SystemError::Malformed { .. }), "{error}");
        }
    }
}
