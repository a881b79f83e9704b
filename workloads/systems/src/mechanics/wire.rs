//! Messages of fixed sizes, little-endian: what writes and reads them.

use epochcost_channels::Payload;

use crate::{Evaluation, Result, SystemError};

/// Writes a message, part after part.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Begins a message of this kind, a byte.
    pub(crate) fn of(kind: u8) -> Self {
        Self::default().bytes(&[kind])
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Writes a rank or a count, u32.
    pub(crate) fn number(self, number: usize) -> Self {
        self.bytes(&(number as u32).to_le_bytes())
    }

    pub(crate) fn long(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    pub(crate) fn real(self, number: f64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    /// Writes a result: loss (f64), correct and all samples (u64).
    pub(crate) fn evaluation(self, result: Evaluation) -> Self {
        let counts = self.real(result.loss).long(result.correct as u64);
        counts.long(result.samples as u64)
    }
}

impl From<Writer> for Payload {
    fn from(message: Writer) -> Self {
        message.0.into()
    }
}

/// Reads what a [`Writer`] wrote.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// The message, in words.
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Begins to read a message, which errors call `what`.
    pub(crate) fn new(message: &'a Payload, what: &'static str) -> Result<Self> {
        let rest = message.bytes()?;
        Ok(Self { rest, what })
    }

    pub(crate) fn malformed(&self, reason: impl Into<String>) -> SystemError {
        SystemError::malformed(self.what, reason)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let split = self.rest.split_at_checked(count);
        let (taken, rest) = split.ok_or_else(|| self.malformed("it is cut short"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut taken = [0; N];
        taken.copy_from_slice(self.bytes(N)?);
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn number(&mut self) -> Result<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    pub(crate) fn long(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn real(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    pub(crate) fn evaluation(&mut self) -> Result<Evaluation> {
        Ok(Evaluation {
            loss: self.real()?,
            correct: self.long()? as usize,
            samples: self.long()? as usize,
        })
    }

    /// Returns `message`, which must end here.
    pub(crate) fn end<M>(self, message: M) -> Result<M> {
        match self.rest.len() {
            0 => Ok(message),
            more => Err(self.malformed(format!("{more} bytes follow its end"))),
        }
    }
}
