//! Requests of the Redis protocol: arrays of bulk strings.
//!
//! This decoder replaces the one of `redis-protocol`, which recurses into nested
//! arrays without a limit: enough of `*1\r\n` overflow the stack. Large arguments
//! are not copied.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

/// Most arguments of one request, the name of the command included.
const MAX_ARGUMENTS: usize = 1 << 20;
/// Largest argument, bytes: 4 GiB.
const MAX_ARGUMENT_BYTES: usize = 1 << 32;
/// Most bytes of all arguments of one request: two of the largest.
const MAX_REQUEST_BYTES: usize = 2 * MAX_ARGUMENT_BYTES;
/// Longest length line, bytes: a marker and at most 20 digits.
const MAX_LINE_BYTES: usize = 32;
/// Size below which an argument is copied, so that it does not keep a whole read
/// buffer alive.
const COPY_BELOW_BYTES: usize = 16 << 10;
/// Most bytes reserved at once for an announced argument, once the first of it are there.
const MAX_RESERVE_BYTES: usize = 64 << 20;
/// Bytes of an argument that have to be there before more are reserved: an announcement alone
/// costs no more than these.
const FIRST_BYTES: usize = 64 << 10;

/// A command and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Name of the command in upper case.
    pub(super) name: String,
    /// Arguments after the name.
    pub(super) arguments: Vec<Bytes>,
}

/// A violation of the protocol, after which the connection is closed.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("Protocol error: {0}")]
pub(super) struct ProtocolError(&'static str);

/// Takes requests off a stream's bytes as they arrive.
#[derive(Debug, Default)]
pub(super) struct RequestDecoder {
    missing: usize,
    announced: Option<usize>,
    words: Vec<Bytes>,
    /// Bytes of the arguments that were announced of the request so far.
    bytes: usize,
    limits: Limits,
}

/// Limits of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    arguments: usize,
    bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            arguments: MAX_ARGUMENTS,
            bytes: MAX_REQUEST_BYTES,
        }
    }
}

impl Limits {
    /// Limits of a client that has not given the password yet.
    pub(super) const STRANGER: Self = Self {
        arguments: 16,
        bytes: 4 << 10,
    };
}

impl RequestDecoder {
    /// Changes the limits, between two requests.
    pub(super) fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the next complete request in `buffer`, or `None` if more bytes are
    /// needed; `buffer` then has capacity for them.
    pub(super) fn decode(
        &mut self,
        buffer: &mut BytesMut,
    ) -> Result<Option<Request>, ProtocolError> {
        loop {
            if self.missing == 0 {
                let Some(count) = take_length(buffer, b'*')? else {
                    return Ok(None);
                };
                if count > self.limits.arguments {
                    return Err(ProtocolError("invalid multibulk length"));
                }
                (self.missing, self.bytes) = (count, 0);
                continue;
            }
            let Some(word) = self.take_word(buffer)? else {
                return Ok(None);
            };
            self.words.push(word);
            self.missing -= 1;
            if self.missing == 0 {
                let mut words = std::mem::take(&mut self.words).into_iter();
                let name = words.next().unwrap_or_default();
                return Ok(Some(Request {
                    name: String::from_utf8_lossy(&name).to_uppercase(),
                    arguments: words.collect(),
                }));
            }
        }
    }

    fn take_word(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, ProtocolError> {
        let length = match self.announced {
            Some(length) => length,
            None => match take_length(buffer, b'$')? {
                Some(length) if length > MAX_ARGUMENT_BYTES => {
                    return Err(ProtocolError("invalid bulk length"));
                }
                Some(length) => {
                    self.bytes += length;
                    if self.bytes > self.limits.bytes {
                        return Err(ProtocolError("too large a request"));
                    }
                    *self.announced.insert(length)
                }
                None => return Ok(None),
            },
        };
        let needed = length + 2;
        if buffer.len() < needed {
            let most = if buffer.len() < FIRST_BYTES {
                FIRST_BYTES
            } else {
                MAX_RESERVE_BYTES
            };
            buffer.reserve((needed - buffer.len()).min(most));
            return Ok(None);
        }
        if &buffer[length..needed] != b"\r\n" {
            return Err(ProtocolError("expected CRLF after a bulk string"));
        }
        let word = if length < COPY_BELOW_BYTES {
            let word = Bytes::copy_from_slice(&buffer[..length]);
            buffer.advance(length);
            word
        } else {
            buffer.split_to(length).freeze()
        };
        buffer.advance(2);
        self.announced = None;
        Ok(Some(word))
    }
}

/// Takes a line of `marker` and a length, if it is complete.
fn take_length(buffer: &mut BytesMut, marker: u8) -> Result<Option<usize>, ProtocolError> {
    let wrong = match marker {
        b'*' => ProtocolError("expected '*' and the number of arguments"),
        _ => ProtocolError("expected '$' and the length of an argument"),
    };
    if buffer.first().is_some_and(|&byte| byte != marker) {
        return Err(wrong);
    }
    let head = &buffer[..buffer.len().min(MAX_LINE_BYTES)];
    let Some(end) = head.windows(2).position(|pair| pair == b"\r\n") else {
        return if head.len() == MAX_LINE_BYTES {
            Err(wrong)
        } else {
            Ok(None)
        };
    };
    let digits = &buffer[1..end];
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(wrong);
    }
    let length = std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse().ok());
    buffer.advance(end + 2);
    length.map(Some).ok_or(wrong)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn encode(words: &[Vec<u8>]) -> Vec<u8> {
        let mut wire = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            wire.extend(format!("${}\r\n", word.len()).into_bytes());
            wire.extend(word);
            wire.extend(b"\r\n");
        }
        wire
    }

    fn decode_in_pieces(wire: &[u8], piece: usize) -> Result<Vec<Request>, ProtocolError> {
        let (mut decoder, mut buffer) = (RequestDecoder::default(), BytesMut::new());
        let mut requests = Vec::new();
        for part in wire.chunks(piece) {
            buffer.extend_from_slice(part);
            while let Some(request) = decoder.decode(&mut buffer)? {
                requests.push(request);
            }
        }
        Ok(requests)
    }

    proptest! {
        #[test]
        fn requests_survive_any_cutting(
            words in vec(vec(any::<u8>(), 0..40_000), 0..4),
            piece in 1_usize..5_000,
        ) {
            let mut words = words;
            words.insert(0, b"tensor.Set".to_vec());
            let wire = [encode(&words), encode(&words)].concat();
            let requests = decode_in_pieces(&wire, piece).unwrap();
            prop_assert_eq!(requests.len(), 2);
            for request in requests {
                prop_assert_eq!(&request.name, "TENSOR.SET");
                prop_assert_eq!(&request.arguments, &words[1..]);
            }
        }

        #[test]
        fn no_input_makes_it_panic(
            wire in vec(prop_oneof![
                Just(b"*".to_vec()), Just(b"$".to_vec()), Just(b"\r\n".to_vec()),
                Just(b"-1".to_vec()), Just(b"3".to_vec()), Just(b"99999999999999999999".to_vec()),
                vec(any::<u8>(), 0..5),
            ], 0..40),
            piece in 1_usize..50,
        ) {
            let _ = decode_in_pieces(&wire.concat(), piece);
        }
    }

    #[test]
    fn lies_about_lengths_are_refused() {
        for wire in [
            "*9999999999\r\n",
            "*-1\r\n",
            "*1\r\n$-1\r\n",
            "*1\r\n$9999999999999\r\n",
            "*1\r\n$1\r\nabc",
            "*1\r\n*1\r\n",
            "PING\r\n",
            "*1\r\n:1\r\n",
            "*11111111111111111111111111111111111",
        ] {
            assert!(
                decode_in_pieces(wire.as_bytes(), 7).is_err(),
                "{wire:?} was accepted"
            );
        }
        assert_eq!(decode_in_pieces(b"*0\r\n*0\r\n", 3), Ok(vec![]));
    }

    #[test]
    fn an_announcement_alone_costs_little() {
        let (mut decoder, mut buffer) = (RequestDecoder::default(), BytesMut::new());
        buffer.extend_from_slice(b"*1\r\n$4294967296\r\n");
        assert_eq!(decoder.decode(&mut buffer), Ok(None));
        assert!(buffer.capacity() <= 2 * FIRST_BYTES);
        // As soon as a part is there, the rest is reserved at once.
        buffer.extend_from_slice(&[0; FIRST_BYTES]);
        assert_eq!(decoder.decode(&mut buffer), Ok(None));
        assert!(buffer.capacity() >= MAX_RESERVE_BYTES);
    }

    #[test]
    fn a_request_has_a_largest_size() {
        let decoded = |wire: &str| {
            let mut decoder = RequestDecoder::default();
            decoder.limit(Limits::STRANGER);
            decoder.decode(&mut BytesMut::from(wire))
        };
        let known = decoded("*3\r\n$4\r\nAUTH\r\n$9\r\nepochcost\r\n$6\r\nsecret\r\n");
        assert!(known.unwrap().is_some());
        for wire in ["*17\r\n", "*2\r\n$4\r\nECHO\r\n$4093\r\n"] {
            assert!(decoded(wire).is_err(), "{wire:?}");
        }
        let wire = "*4\r\n$4\r\nECHO\r\n$4294967296\r\n";
        let mut decoder = RequestDecoder {
            bytes: MAX_REQUEST_BYTES,
            ..RequestDecoder::default()
        };
        let anew = decoder.decode(&mut BytesMut::from(wire));
        assert_eq!(anew, Ok(None), "a new request counts anew");
    }
}
