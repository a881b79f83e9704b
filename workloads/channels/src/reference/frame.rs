use crate::{ChannelError, Result};

/// First bytes of every reference.
const MAGIC: &[u8; 20] = b"\x93EPOCHCOST-REFERENCE";

/// Reference to a value in the object store (`docs/FORMAT.md`, "Values by reference").
///
/// The length of a reference is never a multiple of 4, so that no store treats it
/// as a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// The object's key.
    pub(super) key: String,
    /// Size of the value.
    pub(super) bytes: u64,
    /// Whether there may be several receivers. A single receiver deletes the object.
    pub(super) shared: bool,
}

impl Reference {
    /// Returns whether `value` is a reference.
    pub(super) fn is_one(value: &[u8]) -> bool {
        value.starts_with(MAGIC)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut frame = MAGIC.to_vec();
        frame.push(if self.shared { b'*' } else { b'1' });
        frame.extend_from_slice(&self.bytes.to_le_bytes());
        frame.extend_from_slice(self.key.as_bytes());
        while frame.len() % 4 != 1 {
            frame.push(0);
        }
        frame
    }

    pub(super) fn decode(frame: &[u8]) -> Result<Self> {
        let malformed = || {
            let (operation, reason) = ("resolution of a reference", "the reference is malformed");
            ChannelError::refused("object store", operation, reason)
        };
        let rest = frame.strip_prefix(MAGIC).ok_or_else(malformed)?;
        let (kind, rest) = rest.split_first().ok_or_else(malformed)?;
        let (bytes, key) = rest.split_first_chunk().ok_or_else(malformed)?;
        let shared = match kind {
            b'*' => true,
            b'1' => false,
            _ => return Err(malformed()),
        };
        let key = std::str::from_utf8(key).map_err(|_| malformed())?;
        Ok(Self {
            key: key.trim_end_matches('\0').to_owned(),
            bytes: u64::from_le_bytes(*bytes),
            shared,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn references_are_read_back_and_are_no_tensors() {
        for length in 0..9 {
            let reference = Reference {
                key: "k".repeat(length),
                bytes: u64::MAX - 1,
                shared: length % 2 == 0,
            };
            let frame = reference.encode();
            assert!(frame.len() % 4 == 1, "{}", frame.len());
            assert!(Reference::is_one(&frame));
            assert_eq!(Reference::decode(&frame).unwrap(), reference);
        }
    }

    #[test]
    fn what_was_cut_off_is_refused() {
        let reference = Reference {
            key: "ü".into(),
            bytes: 1,
            shared: true,
        };
        let frame = reference.encode();
        for length in 0..29 {
            assert!(Reference::decode(&frame[..length]).is_err(), "{length}");
        }
        assert!(Reference::decode(&frame[..30]).is_err(), "half a letter");
        let mut other = frame.clone();
        other[20] = b'?';
        assert!(Reference::decode(&other).is_err());
    }
}
