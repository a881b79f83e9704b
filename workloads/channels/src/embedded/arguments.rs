//! Arguments of a request, read as what a command expects of them.

use std::collections::VecDeque;
use std::str::FromStr;

use bytes::Bytes;
use redis_protocol::resp2::types::BytesFrame;

use super::connection::{refusal, wrong_count};
use super::request::Request;

/// The arguments of a request, taken from the front.
pub(super) struct Arguments<'a> {
    request: &'a Request,
    rest: VecDeque<&'a Bytes>,
}

/// A value, or the error reply that says why there is none.
pub(super) type Parsed<T> = Result<T, BytesFrame>;

impl<'a> Arguments<'a> {
    pub(super) fn of(request: &'a Request) -> Self {
        Self {
            request,
            rest: request.arguments.iter().collect(),
        }
    }

    /// The next argument as it is.
    pub(super) fn blob(&mut self) -> Parsed<Bytes> {
        self.rest
            .pop_front()
            .cloned()
            .ok_or_else(|| wrong_count(self.request))
    }

    /// The next argument as a key: UTF-8.
    pub(super) fn key(&mut self) -> Parsed<String> {
        let key = self.blob()?;
        std::str::from_utf8(&key)
            .map(str::to_owned)
            .map_err(|_| refusal("a key must be valid UTF-8"))
    }

    /// The next argument as a whole number.
    pub(super) fn integer<T: FromStr>(&mut self) -> Parsed<T> {
        self.number("value is not an integer or out of range")
    }

    /// The next argument as the nearest finite f32.
    pub(super) fn float(&mut self) -> Parsed<f32> {
        const WRONG: &str = "value is not a valid float";
        let value: f32 = self.number(WRONG)?;
        if value.is_finite() {
            Ok(value)
        } else {
            Err(refusal(WRONG))
        }
    }

    fn number<T: FromStr>(&mut self, wrong: &str) -> Parsed<T> {
        let text = self.blob()?;
        let text = std::str::from_utf8(&text).ok();
        text.and_then(|text| text.parse().ok())
            .ok_or_else(|| refusal(wrong))
    }

    /// All that is left, at least one, as keys.
    pub(super) fn keys(mut self) -> Parsed<Vec<String>> {
        let first = self.key()?;
        let mut keys = vec![first];
        while !self.rest.is_empty() {
            keys.push(self.key()?);
        }
        Ok(keys)
    }

    /// `count source…`: all that is left, as many keys as announced.
    pub(super) fn counted_keys(mut self) -> Parsed<Vec<String>> {
        let count: usize = self.integer()?;
        if count == 0 {
            return Err(refusal("at least one source is needed"));
        }
        if count != self.rest.len() {
            return Err(refusal("the number of sources does not match their count"));
        }
        self.keys()
    }

    /// All that is left, at least one, as it is.
    pub(super) fn blobs(mut self) -> Parsed<Vec<Bytes>> {
        let mut blobs = vec![self.blob()?];
        blobs.extend(self.rest.into_iter().cloned());
        Ok(blobs)
    }

    /// Refuses arguments that are left over.
    pub(super) fn end(self) -> Parsed<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(wrong_count(self.request))
        }
    }
}
