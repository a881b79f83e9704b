//! The messages, little-endian, each of a fixed size so that traffic has a
//! closed form. The originals are pickles.

use epochcost_channels::Payload;

use crate::Result;
use crate::mechanics::wire::{Reader, Writer};

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
        samples: usize,
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
        let head = |kind: u8, rank: usize, step: u64| Writer::of(kind).number(rank).long(step);
        let written = match self {
            Self::Start => Writer::of(START),
            Self::Update { rank, step } => head(UPDATE, *rank, *step),
            Self::Model { rank, step } => head(MODEL, *rank, *step),
            Self::Removal { rank, step } => head(REMOVAL, *rank, *step),
            Self::Departure { rank, step } => head(DEPARTURE, *rank, *step),
            Self::Finish { step } => Writer::of(FINISH).long(*step),
            Self::Report {
                rank,
                step,
                loss,
                samples,
                has_update,
            } => {
                let counts = head(REPORT, *rank, *step).real(*loss);
                counts.number(*samples).bytes(&[u8::from(*has_update)])
            }
            Self::Barrier { step, senders } => {
                let mut bits = vec![0_u8; workers.div_ceil(8)];
                for rank in senders {
                    bits[rank / 8] |= 1 << (rank % 8);
                }
                Writer::of(BARRIER).long(*step).bytes(&bits)
            }
        };
        written.into()
    }

    /// Reads a message of a trial of `workers`.
    ///
    /// # Errors
    /// [`SystemError::Malformed`].
    pub(super) fn decode(payload: &Payload, workers: usize) -> Result<Self> {
        let mut reader = Reader::new(payload, "a message between workers")?;
        let message = match reader.byte()? {
            START => Self::Start,
            UPDATE => Self::Update {
                rank: rank(&mut reader, workers)?,
                step: reader.long()?,
            },
            MODEL => Self::Model {
                rank: rank(&mut reader, workers)?,
                step: reader.long()?,
            },
            REMOVAL => Self::Removal {
                rank: rank(&mut reader, workers)?,
                step: reader.long()?,
            },
            DEPARTURE => Self::Departure {
                rank: rank(&mut reader, workers)?,
                step: reader.long()?,
            },
            FINISH => Self::Finish {
                step: reader.long()?,
            },
            REPORT => Self::Report {
                rank: rank(&mut reader, workers)?,
                step: reader.long()?,
                loss: reader.real()?,
                samples: reader.number()?,
                has_update: flag(&mut reader)?,
            },
            BARRIER => Self::Barrier {
                step: reader.long()?,
                senders: senders(&mut reader, workers)?,
            },
            kind => return Err(reader.malformed(format!("there is no kind {kind}"))),
        };
        reader.end(message)
    }
}

fn rank(reader: &mut Reader<'_>, workers: usize) -> Result<usize> {
    let rank = reader.number()?;
    if rank >= workers {
        return Err(reader.malformed(format!("it names rank {rank} of {workers}")));
    }
    Ok(rank)
}

fn flag(reader: &mut Reader<'_>) -> Result<bool> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(reader.malformed(format!("{other} is no truth value"))),
    }
}

fn senders(reader: &mut Reader<'_>, workers: usize) -> Result<Vec<usize>> {
    let bytes = workers.div_ceil(8);
    let bits = reader.bytes(bytes)?;
    let is_set = |rank: &usize| bits[rank / 8] >> (rank % 8) & 1 == 1;
    if (workers..8 * bytes).any(|rank| is_set(&rank)) {
        return Err(reader.malformed(format!("it names ranks beyond {workers} workers")));
    }
    Ok((0..workers).filter(is_set).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

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
        fn messages_survive_and_have_the_stated_sizes(
            workers in 1_usize..40,
            picks: [prop::sample::Index; 4],
            step: u64,
            loss in -1e9_f64..1e9,
            samples: u32,
            has_update: bool,
        ) {
            let samples = samples as usize;
            let rank = picks[0].index(workers);
            let mut senders: Vec<usize> = picks.iter().map(|p| p.index(workers)).collect();
            senders.sort_unstable();
            senders.dedup();
            let report = Message::Report { rank, step, loss, samples, has_update };
            for (message, bytes) in [
                (Message::Start, START_BYTES),
                (Message::Update { rank, step }, UPDATE_BYTES),
                (Message::Model { rank, step }, UPDATE_BYTES),
                (Message::Removal { rank, step }, UPDATE_BYTES),
                (Message::Departure { rank, step }, UPDATE_BYTES),
                (Message::Finish { step }, FINISH_BYTES),
                (report, REPORT_BYTES),
                (Message::Barrier { step, senders }, barrier_bytes(workers)),
            ] {
                let payload = message.encode(workers);
                prop_assert_eq!(payload.len(), bytes);
                prop_assert_eq!(Message::decode(&payload, workers).unwrap(), message);
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
