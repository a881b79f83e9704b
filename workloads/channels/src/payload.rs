use bytes::Bytes;

use crate::ChannelError;

/// A value on a channel: real bytes, or only their number.
///
/// Simulations of a thousand workers with 500 MB gradients fit in memory, since a
/// phantom has only a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The bytes themselves, shared and never copied on clone.
    Bytes(Bytes),
    /// A value without content.
    Phantom {
        /// Size that the value would have, bytes.
        bytes: u64,
    },
    /// A value without content except for its first bytes, which the receiver
    /// reads to identify it.
    Headed {
        /// The first bytes.
        head: Bytes,
        /// Size of the missing rest, bytes.
        bytes: u64,
    },
}

impl Payload {
    /// Joins `head` and `body`.
    #[must_use]
    pub fn with_head(head: Bytes, body: Self) -> Self {
        match body {
            Self::Bytes(body) => {
                let mut all = Vec::with_capacity(head.len() + body.len());
                all.extend_from_slice(&head);
                all.extend_from_slice(&body);
                all.into()
            }
            Self::Phantom { bytes } => Self::Headed { head, bytes },
            Self::Headed { head: own, bytes } => Self::Headed {
                head: [head, own].concat().into(),
                bytes,
            },
        }
    }

    /// Splits off the first `count` bytes; `None` if the value does not have them
    /// as content.
    pub fn split_head(&self, count: usize) -> Option<(Bytes, Self)> {
        match self {
            Self::Bytes(bytes) if bytes.len() >= count => {
                Some((bytes.slice(..count), bytes.slice(count..).into()))
            }
            Self::Headed { head, bytes } if head.len() == count => {
                Some((head.clone(), Self::Phantom { bytes: *bytes }))
            }
            _ => None,
        }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Phantom { bytes } => *bytes,
            Self::Headed { head, bytes } => head.len() as u64 + bytes,
        }
    }

    /// Returns whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes.
    ///
    /// # Errors
    /// [`ChannelError::Phantom`] when only the size is known.
    pub fn bytes(&self) -> Result<&Bytes, ChannelError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Phantom { .. } | Self::Headed { .. } => {
                Err(ChannelError::Phantom { bytes: self.len() })
            }
        }
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_head_can_be_read_whatever_follows_it() {
        let head = Bytes::from_static(b"head");
        for body in [
            Payload::from(vec![1, 2, 3]),
            Payload::Phantom { bytes: 3 },
            Payload::Phantom { bytes: 0 },
        ] {
            let whole = Payload::with_head(head.clone(), body.clone());
            assert_eq!(whole.len(), 4 + body.len());
            assert_eq!(whole.split_head(4), Some((head.clone(), body)));
        }
        assert_eq!(Payload::Phantom { bytes: 9 }.split_head(4), None);
        assert_eq!(Payload::from(vec![1, 2, 3]).split_head(4), None);
        let headed = Payload::with_head(head, Payload::Phantom { bytes: 3 });
        assert!(matches!(
            headed.bytes(),
            Err(ChannelError::Phantom { bytes: 7 })
        ));
    }
}
