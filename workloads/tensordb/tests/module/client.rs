//! A client that sends any bytes and shows every reply as it came.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::{Bytes, BytesMut};
use redis_protocol::resp2::decode::decode_bytes_mut;
use redis_protocol::resp2::types::BytesFrame;

pub struct Client {
    stream: TcpStream,
    received: BytesMut,
}

impl Client {
    /// Connects; `password` may be empty.
    pub fn connect(address: SocketAddr, password: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Self {
            stream,
            received: BytesMut::new(),
        };
        if !password.is_empty() {
            assert_eq!(client.call(&["AUTH", password]), ok());
        }
        client
    }

    /// Sends commands without waiting for their replies.
    pub fn send<W: AsRef<[u8]>, C: AsRef<[W]>>(&mut self, commands: &[C]) {
        let mut bytes = Vec::new();
        for command in commands {
            let words = command.as_ref();
            bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                let word = word.as_ref();
                bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                bytes.extend_from_slice(word);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next reply.
    pub fn receive(&mut self) -> BytesFrame {
        let mut part = [0; 1 << 16];
        loop {
            match decode_bytes_mut(&mut self.received) {
                Ok(Some((reply, _, _))) => return reply,
                Ok(None) => {}
                Err(error) => panic!("{error}: {}", shown(&[&self.received])),
            }
            let count = self.stream.read(&mut part).unwrap();
            assert_ne!(count, 0, "the server closed the connection");
            self.received.extend_from_slice(&part[..count]);
        }
    }

    /// Sends one command and waits for its reply.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> BytesFrame {
        self.send(&[words]);
        self.receive()
    }

    /// Sends commands at once and waits for all replies.
    pub fn pipeline<W: AsRef<[u8]>, C: AsRef<[W]>>(&mut self, commands: &[C]) -> Vec<BytesFrame> {
        self.send(commands);
        commands.iter().map(|_| self.receive()).collect()
    }

    /// Sends a command that must succeed.
    pub fn done<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        assert_eq!(self.call(words), ok(), "{:?}", shown(words));
    }

    /// The tensor at `key`.
    pub fn values(&mut self, key: &str) -> Option<Vec<f32>> {
        match self.call(&["TENSOR.GET", key]) {
            BytesFrame::BulkString(bytes) => Some(floats(&bytes)),
            BytesFrame::Null => None,
            other => panic!("{key}: {other:?}"),
        }
    }

    /// Redis' own digest of everything that it holds, expiries included.
    pub fn digest(&mut self) -> BytesFrame {
        self.call(&["DEBUG", "DIGEST"])
    }
}

pub fn ok() -> BytesFrame {
    BytesFrame::SimpleString(Bytes::from_static(b"OK"))
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|word| f32::from_le_bytes(*word))
        .collect()
}

/// A command for people: long words cut off.
pub fn shown<W: AsRef<[u8]>>(words: &[W]) -> String {
    let cut = |word: &W| {
        let word = word.as_ref();
        let text = word[..word.len().min(80)].escape_ascii().to_string();
        if word.len() > 80 {
            format!("{text}… ({} bytes)", word.len())
        } else {
            text
        }
    };
    words.iter().map(cut).take(24).collect::<Vec<_>>().join(" ")
}
