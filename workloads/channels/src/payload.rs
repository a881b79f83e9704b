use bytes::Bytes;

use crate::ChannelError;

/// A value on a channel: real bytes, or only their number.
///
/// Simulations of a thousand workers with 500 MB gradients fit in memory
/// because a phantom carries nothing but its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The bytes themselves, shared and never copied on clone.
    Bytes(Bytes),
    /// A stand-in of this many bytes.
    Phantom {
        /// How many bytes the value would have.
        bytes: u64,
    },
}

impl Payload {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Phantom { bytes } => *bytes,
        }
    }

    /// Whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    ///
    /// # Errors
    /// [`ChannelError::Phantom`] when only the size is known.
    pub fn bytes(&self) -> Result<&Bytes, ChannelError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Phantom { bytes } => Err(ChannelError::Phantom { bytes: *bytes }),
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
