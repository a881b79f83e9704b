//! The messages, little-endian, each of a fixed size so that traffic has a
//! closed form. The originals are pickles.

use epochcost_channels::Payload;

use crate::{Result, SystemError};

const START: u8 = b'S';
const UPDATE: u8 = b'U';
const REPORT: u8 = b'I';
const BARRIER: u8 = b'C';
const MODEL: u8 = b'R';
const REMOVAL: u8 = b'K';
const DEPARTURE: u8 = b'D';
const FINISH: u8 = b'F';

/// First byte of the sender's rank in U, I and R.
pub(super) const RANK_AT: usize = 1;

/// Bytes of the message that lets workers start.
pub const START_BYTES: u64 = 1;
/// Bytes of U, K and D, and of the message that announces a final model.
pub const UPDATE_BYTES: u64 = 13;
/// Bytes of F.
pub const FINISH_BYTES: u64 = 9;
/// Bytes of I.
pub const REPORT_BYTES: u64 = 26;

/// Bytes of C: one bit per worker.
pub fn barrier_bytes(workers: usize) -> u64 {
    9 + workers.div_ceil(8) as u64
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    /// Start: all queues are bound.
    Start,
    /// U: the update of a worker is in the store.
    Update { rank: usize, step: u64 },
    /// I: a worker has done its part of a step.
    Report {
        rank: usize,
        step: u64,
        loss: f64,
        samples: u32,
        has_update: bool,
    },
    /// C: who has an update in this step, in rank order.
    Barrier { step: u64, senders: Vec<usize> },
    /// The final model of a worker is in the store.
    Model { rank: usize, step: u64 },
    /// K: a worker leaves after this step.
    Removal { rank: usize, step: u64 },
    /// D: the model of a worker that leaves is in the store.
    Departure { rank: usize, step: u64 },
    /// F: this step is the last.
    Finish { step: u64 },
}

impl Message {
    /// The bytes. `workers` is the W of the trial.
    pub(super) fn encode(&self, workers: usize) -> Payload {
        let mut bytes = Vec::new();
        match self {
            Self::Start => bytes.push(START),
            Self::Update { rank, step } => push_head(&mut bytes, UPDATE, *rank, *step),
            Self::Model { rank, step } => push_head(&mut bytes, MODEL, *rank, *step),
            Self::Removal { rank, step } => push_head(&mut bytes, REMOVAL, *rank, *step),
            Self::Departure { rank, step } => push_head(&mut bytes, DEPARTURE, *rank, *step),
            Self::Finish { step } => {
                bytes.push(FINISH);
                bytes.extend_from_slice(&step.to_le_bytes());
            }
            Self::Report {
                rank,
                step,
                loss,
                samples,
                has_update,
            } => {
                push_head(&mut bytes, REPORT, *rank, *step);
                bytes.extend_from_slice(&loss.to_le_bytes());
                bytes.extend_from_slice(&samples.to_le_bytes());
                bytes.push(u8::from(*has_update));
            }
            Self::Barrier { step, senders } => {
                bytes.push(BARRIER);
                bytes.extend_from_slice(&step.to_le_bytes());
                let mut bits = vec![0_u8; workers.div_ceil(8)];
                for rank in senders {
                    bits[rank / 8] |= 1 << (rank % 8);
                }
                bytes.extend_from_slice(&bits);
            }
        }
        bytes.into()
    }

    /// Reads a message of a trial of `workers`.
    ///
    /// # Errors
    /// [`SystemError::Malformed`].
    pub(super) fn decode(payload: &Payload, workers: usize) -> Result<Self> {
        let mut reader = Reader {
            rest: payload.bytes()?,
        };
        let message = match reader.take::<1>()?[0] {
            START => Self::Start,
            UPDATE => Self::Update {
                rank: reader.rank(workers)?,
                step: reader.step()?,
            },
            MODEL => Self::Model {
                rank: reader.rank(workers)?,
                step: reader.step()?,
            },
            REMOVAL => Self::Removal {
                rank: reader.rank(workers)?,
                step: reader.step()?,
            },
            DEPARTURE => Self::Departure {
                rank: reader.rank(workers)?,
                step: reader.step()?,
            },
            FINISH => Self::Finish {
                step: reader.step()?,
            },
            REPORT => Self::Report {
                rank: reader.rank(workers)?,
                step: reader.step()?,
                loss: f64::from_le_bytes(reader.take()?),
                samples: u32::from_le_bytes(reader.take()?),
                has_update: reader.flag()?,
            },
            BARRIER => Self::Barrier {
                step: reader.step()?,
                senders: reader.senders(workers)?,
            },
            kind => return Err(malformed(format!("there is no kind {kind}"))),
        };
        match reader.rest.len() {
            0 => Ok(message),
            more => Err(malformed(format!("{more} bytes follow its end"))),
        }
    }
}

fn push_head(bytes: &mut Vec<u8>, kind: u8, rank: usize, step: u64) {
    bytes.push(kind);
    bytes.extend_from_slice(&(rank as u32).to_le_bytes());
    bytes.extend_from_slice(&step.to_le_bytes());
}

fn malformed(reason: impl Into<String>) -> SystemError {
    SystemError::Malformed {
        what: "a message between workers".into(),
        reason: reason.into(),
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or_else(|| malformed("it is cut short"))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn rank(&mut self, workers: usize) -> Result<usize> {
        let rank = u32::from_le_bytes(self.take()?) as usize;
        if rank >= workers {
            return Err(malformed(format!("it names rank {rank} of {workers}")));
        }
        Ok(rank)
    }

    fn step(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn flag(&mut self) -> Result<bool> {
        match self.take::<1>()?[0] {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(malformed(format!("{other} is no truth value"))),
        }
    }

    fn senders(&mut self, workers: usize) -> Result<Vec<usize>> {
        let bytes = workers.div_ceil(8);
        let (bits, rest) = self
            .rest
            .split_at_checked(bytes)
            .ok_or_else(|| malformed("it is cut short"))?;
        self.rest = rest;
        let is_set = |rank: &usize| bits[rank / 8] >> (rank % 8) & 1 == 1;
        if (workers..8 * bytes).any(|rank| is_set(&rank)) {
            return Err(malformed(format!(
                "it names ranks beyond {workers} workers"
            )));
        }
        Ok((0..workers).filter(is_set).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_have_the_stated_sizes() {
        let size = |message: Message, workers| message.encode(workers).len();
        assert_eq!(size(Message::Start, 3), START_BYTES);
        assert_eq!(size(Message::Update { rank: 2, step: 9 }, 3), UPDATE_BYTES);
        assert_eq!(size(Message::Model { rank: 2, step: 9 }, 3), UPDATE_BYTES);
        assert_eq!(size(Message::Removal { rank: 2, step: 9 }, 3), UPDATE_BYTES);
        assert_eq!(
            size(Message::Departure { rank: 2, step: 9 }, 3),
            UPDATE_BYTES
        );
        assert_eq!(size(Message::Finish { step: 9 }, 3), FINISH_BYTES);
        let report = Message::Report {
            rank: 1,
            step: 2,
            loss: 2.5,
            samples: 8,
            has_update: true,
        };
        assert_eq!(size(report, 3), REPORT_BYTES);
        for workers in [1, 3, 8, 9] {
            let barrier = Message::Barrier {
                step: 1,
                senders: vec![0],
            };
            assert_eq!(size(barrier, workers), barrier_bytes(workers));
        }
    }

    #[test]
    fn ranks_beyond_the_workers_are_refused() {
        let update = Message::Update { rank: 3, step: 0 }.encode(4);
        assert!(Message::decode(&update, 4).is_ok());
        assert!(Message::decode(&update, 3).is_err());
        let barrier = Message::Barrier {
            step: 0,
            senders: vec![3],
        }
        .encode(4);
        assert!(Message::decode(&barrier, 4).is_ok());
        assert!(Message::decode(&barrier, 3).is_err());
    }

    proptest! {
        #[test]
        fn messages_survive(
            workers in 1_usize..40,
            picks: [prop::sample::Index; 4],
            step: u64,
            loss in -1e9_f64..1e9,
            samples: u32,
            has_update: bool,
        ) {
            let rank = picks[0].index(workers);
            let mut senders: Vec<usize> = picks.iter().map(|p| p.index(workers)).collect();
            senders.sort_unstable();
            senders.dedup();
            for message in [
                Message::Start,
                Message::Update { rank, step },
                Message::Model { rank, step },
                Message::Removal { rank, step },
                Message::Departure { rank, step },
                Message::Finish { step },
                Message::Report { rank, step, loss, samples, has_update },
                Message::Barrier { step, senders },
            ] {
                let decoded = Message::decode(&message.encode(workers), workers).unwrap();
                prop_assert_eq!(decoded, message);
            }
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(
            kind in prop::sample::select(b"SUICRKDF?".to_vec()),
            mut bytes in prop::collection::vec(any::<u8>(), 0..40),
            workers in 1_usize..20,
        ) {
            bytes.insert(0, kind);
            let _ = Message::decode(&bytes.into(), workers);
        }
    }
}
