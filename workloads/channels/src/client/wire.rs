//! One connection in the Redis protocol: commands of all tasks go out in the order in which they
//! come, and their replies come back in it.
//!
//! Ours, since libraries cost 15 and 27 CPU seconds of a build, and copy large values.

use std::io::{self, Write};
use std::pin::pin;

use bytes::{Buf, Bytes, BytesMut};
use redis_protocol::resp2::decode::decode_bytes_mut;
use redis_protocol::resp2::types::BytesFrame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

/// Size from which a word is written without a copy.
const WRITE_IN_PLACE_BYTES: usize = 64 << 10;
/// Room for replies of unknown size, bytes.
const READ_BYTES: usize = 8 << 10;
/// Most bytes reserved at once for an announced value.
const MAX_RESERVE_BYTES: usize = 64 << 20;
/// Longest length line, bytes: a marker, at most 20 digits and the line's end.
const MAX_LINE_BYTES: usize = 23;

/// Why a command has no reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server's error, or what is wrong with its answer.
    Answered(String),
    /// The connection has ended.
    Closed,
}

/// A reply, or why there is none.
pub(super) type Reply = Result<BytesFrame, Failure>;

/// One connection, closed when dropped.
pub(super) struct Wire {
    requests: UnboundedSender<Request>,
    exchange: AbortOnDropHandle<()>,
}

/// A command whose reply has not been read.
pub(super) struct Asked(oneshot::Receiver<Reply>);

struct Request {
    command: &'static str,
    arguments: Vec<Bytes>,
    asker: oneshot::Sender<Reply>,
}

impl Wire {
    /// Connects to `HOST:PORT`.
    pub(super) async fn open(authority: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        let (requests, asked) = unbounded_channel();
        Ok(Self {
            requests,
            exchange: AbortOnDropHandle::new(tokio::spawn(exchange(stream, asked))),
        })
    }

    /// Sends one command and waits for its reply. If it is dropped meanwhile, the command is
    /// executed all the same.
    pub(super) async fn ask(&self, command: &'static str, arguments: Vec<Bytes>) -> Reply {
        self.reply(&mut self.start(command, arguments)).await
    }

    /// Sends one command.
    pub(super) fn start(&self, command: &'static str, arguments: Vec<Bytes>) -> Asked {
        let (asker, reply) = oneshot::channel();
        let request = Request {
            command,
            arguments,
            asker,
        };
        // If the connection has ended, so has the sender of the reply.
        let _ = self.requests.send(request);
        Asked(reply)
    }

    /// Waits for the reply to a command that this connection started.
    pub(super) async fn reply(&self, asked: &mut Asked) -> Reply {
        tokio::select! {
            biased;
            reply = &mut asked.0 => reply.unwrap_or(Err(Failure::Closed)),
            // A request that comes while the connection ends may lie there for ever.
            () = self.requests.closed() => Err(Failure::Closed),
        }
    }

    /// Sends nothing more, and returns the reply to a command if it was on its way.
    pub(super) async fn end(self, mut asked: Asked) -> Option<BytesFrame> {
        drop(self.requests);
        let _ = self.exchange.await;
        asked.0.try_recv().ok()?.ok()
    }
}

/// Writes requests and reads replies until the connection ends. Whoever waits then sees that the
/// other end of its reply is gone.
async fn exchange(mut stream: TcpStream, mut requests: UnboundedReceiver<Request>) {
    let (input, output) = stream.split();
    let (asked, unanswered) = unbounded_channel();
    let mut receiving = pin!(receive(input, unanswered));
    // Both at once: a server may wait for us to read before it reads on.
    let ended = tokio::select! {
        ended = &mut receiving => ended,
        // A server that closes may have said why.
        _ = send(output, &mut requests, asked) => receiving.await,
    };
    if let Err(error) = ended {
        debug!("a connection broke: {error}");
    }
}

async fn send(
    mut output: WriteHalf<'_>,
    requests: &mut UnboundedReceiver<Request>,
    asked: UnboundedSender<oneshot::Sender<Reply>>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(first) = requests.recv().await {
        // What came meanwhile is written at once.
        let mut next = Some(first);
        while let Some(request) = next {
            // `receive` has not ended: this would have, too.
            let _ = asked.send(request.asker);
            write!(buffer, "*{}\r\n", request.arguments.len() + 1)?;
            let name = Bytes::from_static(request.command.as_bytes());
            for word in [name].iter().chain(&request.arguments) {
                write!(buffer, "${}\r\n", word.len())?;
                if word.len() < WRITE_IN_PLACE_BYTES {
                    buffer.extend_from_slice(word);
                    buffer.extend_from_slice(b"\r\n");
                } else {
                    // One call to the system for all three.
                    let end = Buf::chain(&word[..], &b"\r\n"[..]);
                    let mut parts = Buf::chain(&buffer[..], end);
                    output.write_all_buf(&mut parts).await?;
                    buffer.clear();
                }
            }
            if buffer.len() >= WRITE_IN_PLACE_BYTES {
                flush(&mut output, &mut buffer).await?;
            }
            next = requests.try_recv().ok();
        }
        flush(&mut output, &mut buffer).await?;
    }
    output.shutdown().await
}

async fn flush(output: &mut WriteHalf<'_>, buffer: &mut Vec<u8>) -> io::Result<()> {
    output.write_all(buffer).await?;
    buffer.clear();
    Ok(())
}

async fn receive(
    mut input: ReadHalf<'_>,
    mut unanswered: UnboundedReceiver<oneshot::Sender<Reply>>,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        let decoded = decode_bytes_mut(&mut buffer);
        let is_wrong = decoded.is_err();
        let reply = match decoded {
            Ok(None) => {
                make_room(&mut buffer);
                if input.read_buf(&mut buffer).await? == 0 {
                    return Ok(());
                }
                continue;
            }
            Ok(Some((frame, ..))) => match error_of(&frame) {
                Some(error) => Err(Failure::Answered(error.to_owned())),
                None => Ok(frame),
            },
            Err(error) => Err(Failure::Answered(error.to_string())),
        };
        let Ok(asker) = unanswered.try_recv() else {
            return Err(io::Error::other("a reply to no command"));
        };
        // Fails if nobody waits any more.
        let _ = asker.send(reply);
        if is_wrong {
            return Ok(());
        }
    }
}

/// Reserves what is read next: an announced value in one piece, which is then not copied.
fn make_room(buffer: &mut BytesMut) {
    let missing = match announced(buffer) {
        Some(bytes) => bytes.saturating_sub(buffer.len()).min(MAX_RESERVE_BYTES),
        None if buffer.len() < buffer.capacity() => return,
        None => READ_BYTES,
    };
    buffer.reserve(missing);
}

/// Returns the size of the bulk string that `buffer` begins with, with its length and ends of lines.
fn announced(buffer: &[u8]) -> Option<usize> {
    let line = buffer.strip_prefix(b"$")?;
    let line = &line[..line.len().min(MAX_LINE_BYTES)];
    let end = line.windows(2).position(|pair| pair == b"\r\n")?;
    let length: usize = std::str::from_utf8(&line[..end]).ok()?.parse().ok()?;
    length.checked_add(1 + end + 4)
}

/// Returns the error that a reply is or holds, as the reply to EXEC does.
fn error_of(frame: &BytesFrame) -> Option<&str> {
    match frame {
        BytesFrame::Error(text) => Some(text),
        BytesFrame::Array(items) => items.iter().find_map(error_of),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    /// A server that answers the n-th request with the n-th of `replies`, in pieces, and closes.
    async fn server(replies: Vec<Vec<u8>>, piece: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut input, mut output) = stream.split();
            let mut buffer = BytesMut::new();
            for reply in replies {
                while decode_bytes_mut(&mut buffer).unwrap().is_none() {
                    assert!(input.read_buf(&mut buffer).await.unwrap() > 0);
                }
                for part in reply.chunks(piece) {
                    output.write_all(part).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        });
        address
    }

    fn bulk(value: &[u8]) -> Vec<u8> {
        let head = format!("${}\r\n", value.len());
        [head.as_bytes(), value, b"\r\n"].concat()
    }

    /// Answers each ECHO, and reads on only when its answer is taken.
    async fn echo() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = BytesMut::new();
            loop {
                let Some((BytesFrame::Array(words), ..)) = decode_bytes_mut(&mut buffer).unwrap()
                else {
                    buffer.reserve(READ_BYTES);
                    if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                        return;
                    }
                    continue;
                };
                let BytesFrame::BulkString(sent) = &words[1] else {
                    panic!("{words:?}");
                };
                let reply = bulk(sent);
                if stream.write_all(&reply).await.is_err() {
                    return;
                }
            }
        });
        address
    }

    fn value(index: usize, bytes: usize) -> Bytes {
        let text = format!("{index} ").into_bytes();
        text.into_iter().cycle().take(bytes).collect()
    }

    #[tokio::test]
    async fn every_task_gets_its_own_reply() {
        let wire = Wire::open(&echo().await).await.unwrap();
        // Together far more than both sockets hold.
        let sizes = [0, 1, 100, READ_BYTES, WRITE_IN_PLACE_BYTES, 3 << 20];
        let asked = (0..60).map(|index| {
            let sent = value(index, sizes[index % sizes.len()]);
            let reply = wire.ask("ECHO", vec![sent.clone()]);
            async move { assert_eq!(reply.await, Ok(BytesFrame::BulkString(sent))) }
        });
        join_all(asked).await;
    }

    #[tokio::test]
    async fn a_reply_that_nobody_waits_for_is_nobody_elses() {
        let wire = Wire::open(&echo().await).await.unwrap();
        for index in 0..50 {
            let given_up = wire.ask("ECHO", vec![value(index, 200 << 10)]);
            // Ends between any two steps of the exchange.
            let _ = timeout(Duration::from_micros(index as u64 * 10), given_up).await;
            let sent = value(index + 1, 10);
            let reply = wire.ask("ECHO", vec![sent.clone()]).await;
            assert_eq!(reply, Ok(BytesFrame::BulkString(sent)));
        }
    }

    #[tokio::test]
    async fn errors_are_the_servers_own_words() {
        let replies = [
            "-BUSY x y\r\n",
            "*2\r\n+OK\r\n*1\r\n-ERR inner\r\n",
            "*-1\r\n",
        ];
        for piece in [1, 100] {
            let replies = replies.map(|reply| reply.as_bytes().to_vec());
            let address = server(replies.into(), piece).await;
            let wire = Wire::open(&address).await.unwrap();
            let mut found = Vec::new();
            for _ in 0..3 {
                found.push(wire.ask("X", Vec::new()).await);
            }
            let answered = |text: &str| Err(Failure::Answered(text.into()));
            let expected = [
                answered("BUSY x y"),
                answered("ERR inner"),
                Ok(BytesFrame::Null),
            ];
            assert_eq!(found, expected);
        }
    }

    #[tokio::test]
    async fn the_end_reaches_everyone_who_waits() {
        let half = bulk(b"whole")[..6].to_vec();
        let wire = Wire::open(&server(vec![half], 100).await).await.unwrap();
        let asked = (0..10).map(|_| wire.ask("X", Vec::new()));
        let replies = timeout(Duration::from_secs(60), join_all(asked)).await;
        let is_closed = |reply: &_| *reply == Err(Failure::Closed);
        assert!(replies.unwrap().iter().all(is_closed));
        assert_eq!(wire.ask("X", Vec::new()).await, Err(Failure::Closed));
    }

    #[tokio::test]
    async fn what_is_no_reply_ends_the_connection() {
        let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
        let wire = Wire::open(&server(vec![answer], 100).await).await.unwrap();
        let reply = wire.ask("PING", Vec::new()).await;
        assert!(matches!(reply, Err(Failure::Answered(_))), "{reply:?}");
        assert_eq!(wire.ask("PING", Vec::new()).await, Err(Failure::Closed));
    }

    #[test]
    fn an_announced_value_is_read_into_one_piece() {
        for (bytes, size) in [
            (&b"$3\r\n"[..], Some(9)),
            (b"$3\r\nabc\r\n+OK\r\n", Some(9)),
            (b"$-1\r\n", None),
            (b"$3", None),
            (b"+3\r\n", None),
            (b"", None),
            (b"$18446744073709551615\r\n", None),
        ] {
            assert_eq!(announced(bytes), size, "{bytes:?}");
        }
        let mut buffer = BytesMut::from(&b"$5000000\r\nab"[..]);
        make_room(&mut buffer);
        let room = buffer.capacity();
        assert!(room >= 5_000_000 + 12, "{room}");
        buffer.resize(5_000_000, 0);
        make_room(&mut buffer);
        assert_eq!(buffer.capacity(), room);
    }
}
