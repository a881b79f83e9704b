//! The server loop of the Redis protocol, shared by the tensor store and the
//! queue.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use epochcost_tensor_commands::{CommandError, one_line};
use redis_protocol::resp2::encode::extend_encode;
use redis_protocol::resp2::types::BytesFrame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::listen;
use super::request::{Limits, Request, RequestDecoder};
use super::strangers::{Strangers, Trust};
use crate::endpoint::Secret;
use crate::{ChannelError, Payload, Reply, Result};

/// Size from which a reply is written without a copy.
const WRITE_IN_PLACE_BYTES: usize = 64 << 10;
/// Bytes that a client may send ahead while its command waits.
const SENT_AHEAD_BYTES: usize = 1 << 20;

/// A table of commands behind the Redis protocol.
#[async_trait]
pub trait Commands: Send + Sync + 'static {
    /// Name of the service.
    const SERVICE: &'static str;

    /// Executes one request.
    async fn execute(&self, request: &Request) -> BytesFrame;

    /// Returns whether the request may wait for a message. A request that waits
    /// is cancelled as soon as its client is gone.
    fn waits(&self, _request: &Request) -> bool {
        false
    }

    /// Takes back a reply that could not be written to its client.
    fn undelivered(&self, _request: &Request, _reply: BytesFrame) {}
}

/// A store or queue on loopback, served over the Redis protocol. Dropping it ends the server and its
/// connections.
#[derive(Debug)]
pub struct RespServer<S> {
    address: SocketAddr,
    password: Option<Secret>,
    _accepting: AbortOnDropHandle<()>,
    _store: PhantomData<fn(S)>,
}

impl<S: Commands> RespServer<S> {
    /// Serves `store` on a free port until dropped, to every client on this machine.
    ///
    /// # Errors
    /// [`Unreachable`](crate::ChannelError::Unreachable) if no port can be listened on.
    pub async fn start(store: Arc<S>) -> Result<Self> {
        Self::serve(store, None).await
    }

    /// Serves `store` on a free port until dropped, to clients that give a random password,
    /// which is part of the address.
    ///
    /// # Errors
    /// As [`RespServer::start`].
    pub async fn start_private(store: Arc<S>) -> Result<Self> {
        Self::serve(store, Some(Secret::random())).await
    }

    async fn serve(store: Arc<S>, password: Option<Secret>) -> Result<Self> {
        let (listener, address) = listen(S::SERVICE).await?;
        let accepting = tokio::spawn(accept(listener, store, password.clone()));
        Ok(Self {
            address,
            password,
            _accepting: AbortOnDropHandle::new(accepting),
            _store: PhantomData,
        })
    }

    /// Returns the address of the server: `redis://127.0.0.1:PORT`, or
    /// `redis://:PASSWORD@127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        match &self.password {
            Some(password) => format!("redis://:{}@{}", password.reveal(), self.address),
            None => format!("redis://{}", self.address),
        }
    }
}

async fn accept<C: Commands>(listener: TcpListener, commands: Arc<C>, password: Option<Secret>) {
    let (mut connections, mut strangers) = (JoinSet::new(), Strangers::default());
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let connection =
                        Connection::new(stream, Arc::clone(&commands), password.clone());
                    connections.spawn(connection.serve(strangers.enter()));
                }
                // For example no file handles are left: a connection must end first.
                Err(error) => {
                    debug!("failed to accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }
}

struct Connection<C> {
    stream: TcpStream,
    commands: Arc<C>,
    input: BytesMut,
    output: BytesMut,
    /// Whether the client asked for RESP3; only nil and the greeting differ.
    resp3: bool,
    /// The password that the client has still to give.
    password: Option<Secret>,
}

impl<C: Commands> Connection<C> {
    fn new(stream: TcpStream, commands: Arc<C>, password: Option<Secret>) -> Self {
        Self {
            stream,
            commands,
            input: BytesMut::new(),
            output: BytesMut::new(),
            resp3: false,
            password,
        }
    }

    async fn serve(mut self, trust: Trust) {
        tokio::select! {
            biased;
            served = self.answer_requests(&trust) => if let Err(error) = served {
                debug!("a connection broke: {error}");
            },
            () = trust.clone().over() => {}
        }
    }

    /// Answers a request of a client that has to give the password first; returns whether it does.
    async fn admit(&mut self, request: &Request) -> std::io::Result<bool> {
        let given = given_password(request);
        let password = self.password.as_ref();
        let is_right = given.is_some() && given == password.map(|known| known.reveal().as_bytes());
        match (request.name.as_str(), is_right) {
            ("AUTH", true) => self.write(ok()).await?,
            ("HELLO", true) => self.greet(request).await?,
            ("AUTH" | "HELLO", false) if given.is_some() => {
                self.write(BytesFrame::Error(WRONG_PASSWORD.into())).await?;
            }
            _ => self.write(BytesFrame::Error(NO_PASSWORD.into())).await?,
        }
        if is_right {
            self.password = None;
        }
        self.flush().await?;
        Ok(is_right)
    }

    /// Answers requests until the client disconnects, quits, or breaks the protocol or its limits.
    async fn answer_requests(&mut self, trust: &Trust) -> std::io::Result<()> {
        self.stream.set_nodelay(true)?;
        let mut decoder = RequestDecoder::default();
        match self.password {
            Some(_) => decoder.limit(Limits::STRANGER),
            None => trust.admit(),
        }
        loop {
            match decoder.decode(&mut self.input) {
                Ok(Some(request)) if self.password.is_some() => {
                    if self.admit(&request).await? {
                        decoder.limit(Limits::default());
                        trust.admit();
                    }
                }
                Ok(Some(request)) if request.name == "QUIT" => {
                    self.write(ok()).await?;
                    return self.flush().await;
                }
                Ok(Some(request)) if request.name == "HELLO" => self.greet(&request).await?,
                Ok(Some(request)) => {
                    if !self.answer(&request).await? {
                        return Ok(());
                    }
                }
                Ok(None) => {
                    self.flush().await?;
                    if self.stream.read_buf(&mut self.input).await? == 0 {
                        return Ok(());
                    }
                }
                Err(error) => {
                    self.write(refusal(&error.to_string())).await?;
                    return self.flush().await;
                }
            }
        }
    }

    /// Answers HELLO, which chooses the protocol's version.
    async fn greet(&mut self, request: &Request) -> std::io::Result<()> {
        self.resp3 = match request.arguments.first().map(Bytes::as_ref) {
            None => self.resp3,
            Some(b"2") => false,
            Some(b"3") => true,
            Some(_) => {
                let refused = "NOPROTO unsupported protocol version";
                return self.write(BytesFrame::Error(refused.into())).await;
            }
        };
        let greeting = greeting(if self.resp3 { 3 } else { 2 });
        // A map in RESP3, the same fields as a flat array in RESP2.
        let head = if self.resp3 {
            ('%', greeting.len() / 2)
        } else {
            ('*', greeting.len())
        };
        self.output
            .extend_from_slice(format!("{}{}\r\n", head.0, head.1).as_bytes());
        for field in greeting {
            self.write(field).await?;
        }
        Ok(())
    }

    /// Answers one request; returns false if the client disconnected while it waited.
    async fn answer(&mut self, request: &Request) -> std::io::Result<bool> {
        if !self.commands.waits(request) {
            let reply = self.commands.execute(request).await;
            self.write(reply).await?;
            return Ok(true);
        }
        self.flush().await?;
        let reply = tokio::select! {
            // Polled first, so that no message is taken for a client that is gone.
            biased;
            () = gone(&mut self.stream, &mut self.input) => return Ok(false),
            reply = self.commands.execute(request) => reply,
        };
        let written = async {
            self.write(reply.clone()).await?;
            self.flush().await
        };
        if let Err(error) = written.await {
            self.commands.undelivered(request, reply);
            return Err(error);
        }
        Ok(true)
    }

    async fn write(&mut self, reply: BytesFrame) -> std::io::Result<()> {
        match reply {
            BytesFrame::BulkString(bytes) if bytes.len() >= WRITE_IN_PLACE_BYTES => {
                self.output
                    .extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
                self.flush().await?;
                self.stream.write_all(&bytes).await?;
                self.output.extend_from_slice(b"\r\n");
                Ok(())
            }
            BytesFrame::Null if self.resp3 => {
                self.output.extend_from_slice(b"_\r\n");
                Ok(())
            }
            reply => extend_encode(&mut self.output, &reply, false)
                .map(drop)
                .map_err(std::io::Error::other),
        }
    }

    async fn flush(&mut self) -> std::io::Result<()> {
        self.stream.write_all(&self.output).await?;
        self.output.clear();
        Ok(())
    }
}

/// Returns after the peer closed its side; buffers what it sends until then.
async fn gone(stream: &mut TcpStream, input: &mut BytesMut) {
    while input.len() < SENT_AHEAD_BYTES {
        match stream.read_buf(input).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    std::future::pending().await
}

/// Replies of Redis to a client without password, and with a wrong one.
const NO_PASSWORD: &str = "NOAUTH Authentication required.";
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// Returns the password in `AUTH [USER] PASSWORD` or `HELLO VERSION AUTH USER PASSWORD`.
fn given_password(request: &Request) -> Option<&[u8]> {
    let arguments = request.arguments.as_slice();
    match (request.name.as_str(), arguments) {
        ("AUTH", [password] | [_, password]) => Some(password.as_ref()),
        ("HELLO", [_, word, _, password, ..]) if word.eq_ignore_ascii_case(b"AUTH") => {
            Some(password.as_ref())
        }
        _ => None,
    }
}

/// Formats the error reply `-ERR text`, on one line.
fn refusal(text: &str) -> BytesFrame {
    BytesFrame::Error(format!("ERR {}", one_line(text)).into())
}

/// Converts an error of the store to a reply (`CommandError` has their texts).
fn error_reply(error: &ChannelError) -> BytesFrame {
    match error {
        ChannelError::Refused { reason, .. } if reason.starts_with("WRONGTYPE ") => {
            BytesFrame::Error(reason.as_str().into())
        }
        ChannelError::Refused { reason, .. } => refusal(reason),
        ChannelError::Missing { key, .. } => {
            let key = key.clone();
            ErrorReply::from(CommandError::Missing { key }).0
        }
        other => refusal(&other.to_string()),
    }
}

/// A value, or the error reply to the request.
pub(super) type Parsed<T> = std::result::Result<T, ErrorReply>;

/// An error reply.
pub(super) struct ErrorReply(pub(super) BytesFrame);

impl From<CommandError> for ErrorReply {
    fn from(error: CommandError) -> Self {
        Self(BytesFrame::Error(error.line().into()))
    }
}

impl From<ChannelError> for ErrorReply {
    fn from(error: ChannelError) -> Self {
        Self(error_reply(&error))
    }
}

/// Returns the reply to a command of a store or queue.
pub(super) fn frame(reply: Reply) -> Parsed<BytesFrame> {
    match reply {
        Reply::Done => Ok(ok()),
        Reply::Count(count) => Ok(BytesFrame::Integer(count as i64)),
        other => other
            .value()?
            .map_or(Ok(BytesFrame::Null), |value| bulk(&value)),
    }
}

pub(super) fn bulk(value: &Payload) -> Parsed<BytesFrame> {
    Ok(BytesFrame::BulkString(value.bytes()?.clone()))
}

/// Answers the commands that clients send when they connect, and probes; the same
/// for both servers. Returns `None` for any other request.
pub(super) fn housekeeping(request: &Request) -> Option<BytesFrame> {
    Some(match (request.name.as_str(), request.arguments.as_slice()) {
        ("PING", []) => BytesFrame::SimpleString(Bytes::from_static(b"PONG")),
        ("PING" | "ECHO", [text]) => BytesFrame::BulkString(text.clone()),
        ("PING" | "ECHO", _) => ErrorReply::from(CommandError::wrong_count(&request.name)).0,
        // The password was given, or there is none.
        ("AUTH", [_] | [_, _]) => ok(),
        ("SELECT", [index]) if index.as_ref() == b"0" => ok(),
        ("SELECT", _) => refusal("DB index is out of range"),
        ("CLIENT", [sub, ..]) if sub.eq_ignore_ascii_case(b"ID") => BytesFrame::Integer(1),
        ("CLIENT", [sub, ..]) if sub.eq_ignore_ascii_case(b"GETNAME") => BytesFrame::Null,
        ("CLIENT", _) => ok(),
        ("COMMAND", [sub, ..]) if sub.eq_ignore_ascii_case(b"COUNT") => BytesFrame::Integer(0),
        ("COMMAND", _) => BytesFrame::Array(Vec::new()),
        ("INFO", _) => BytesFrame::BulkString(Bytes::from_static(
            b"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\nloading:0\r\n",
        )),
        _ => return None,
    })
}

/// Returns the reply to HELLO: names and values in turn.
fn greeting(protocol: i64) -> Vec<BytesFrame> {
    let bulk = |text: &'static str| BytesFrame::BulkString(Bytes::from_static(text.as_bytes()));
    vec![
        bulk("server"),
        bulk("redis"),
        bulk("version"),
        bulk("7.0.15"),
        bulk("proto"),
        BytesFrame::Integer(protocol),
        bulk("id"),
        BytesFrame::Integer(1),
        bulk("mode"),
        bulk("standalone"),
        bulk("role"),
        bulk("master"),
        bulk("modules"),
        BytesFrame::Array(Vec::new()),
    ]
}

/// Returns the reply `+OK`.
pub(super) fn ok() -> BytesFrame {
    BytesFrame::SimpleString(Bytes::from_static(b"OK"))
}
