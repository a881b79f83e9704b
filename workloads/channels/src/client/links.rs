//! Connections between workers over TCP.
//!
//! A worker listens on a port of its own and tells the others its address, which ends in
//! a random word: whoever connects says that word and its rank first, so that a stranger's
//! connection is dropped. Then come messages, each its length as eight bytes, little
//! endian, and its bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use uuid::Uuid;

use crate::embedded::strangers::{Strangers, Trust};
use crate::{Channel, ChannelError, LinkCommand, Payload, Reply, Result, locked};

const SERVICE: &str = "a link between workers";

/// Messages that wait to be taken; a sender waits beyond that.
const WAITING: usize = 2;

/// Largest message, bytes: more is no message of this protocol.
const MOST_BYTES: u64 = 1 << 40;

/// Connections of one worker over TCP.
pub struct TcpLinks {
    /// Address of the interface that it listens on, which others can reach.
    interface: String,
    inboxes: Arc<Inboxes>,
    peers: Mutex<HashMap<usize, Arc<tokio::sync::Mutex<OwnedWriteHalf>>>>,
    listener: Mutex<Option<AbortHandle>>,
}

/// Messages that came, by the worker that sent them.
#[derive(Default)]
struct Inboxes(Mutex<HashMap<usize, Inbox>>);

struct Inbox {
    /// The end that the connection takes; dropped with it.
    send: Option<Sender<Payload>>,
    receive: Arc<tokio::sync::Mutex<Receiver<Payload>>>,
}

impl Inboxes {
    fn inbox<T>(&self, from: usize, of: impl FnOnce(&mut Inbox) -> T) -> T {
        let mut inboxes = locked(&self.0);
        of(inboxes.entry(from).or_insert_with(|| {
            let (send, receive) = channel(WAITING);
            Inbox {
                send: Some(send),
                receive: Arc::new(tokio::sync::Mutex::new(receive)),
            }
        }))
    }
}

impl TcpLinks {
    /// Makes the connections of a worker that others reach at `interface`.
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            inboxes: Arc::default(),
            peers: Mutex::default(),
            listener: Mutex::default(),
        }
    }
}

impl Drop for TcpLinks {
    fn drop(&mut self) {
        if let Some(listener) = locked(&self.listener).take() {
            listener.abort();
        }
    }
}

/// Takes connections for as long as the worker lives.
async fn accept(listener: TcpListener, word: Uuid, inboxes: Arc<Inboxes>) {
    let mut strangers = Strangers::default();
    while let Ok((stream, _)) = listener.accept().await {
        let (inboxes, trust) = (inboxes.clone(), strangers.enter());
        tokio::spawn(async move {
            // A connection that breaks is noticed by whoever waits for its messages.
            tokio::select! {
                _ = read(stream, word, &inboxes, &trust) => {}
                () = trust.clone().over() => {}
            }
        });
    }
}

/// Reads a peer's messages until its connection ends.
async fn read(
    mut stream: TcpStream,
    word: Uuid,
    inboxes: &Inboxes,
    trust: &Trust,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut said = [0; 16];
    stream.read_exact(&mut said).await?;
    let rank = stream.read_u32_le().await? as usize;
    if said != *word.as_bytes() {
        return Ok(());
    }
    trust.admit();
    let Some(inbox) = inboxes.inbox(rank, |inbox| inbox.send.take()) else {
        return Ok(());
    };
    loop {
        let length = stream.read_u64_le().await?;
        if length > MOST_BYTES {
            return Ok(());
        }
        let mut body = vec![0; length as usize];
        stream.read_exact(&mut body).await?;
        if inbox.send(body.into()).await.is_err() {
            return Ok(());
        }
    }
}

fn unreachable(address: &str, error: &std::io::Error) -> ChannelError {
    ChannelError::unreachable(SERVICE, address, error.to_string())
}

impl TcpLinks {
    async fn listen(&self) -> Result<String> {
        let failed = |error| unreachable(&self.interface, &error);
        let listener = TcpListener::bind((self.interface.as_str(), 0)).await;
        let listener = listener.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let word = Uuid::new_v4();
        let task = tokio::spawn(accept(listener, word, self.inboxes.clone()));
        if let Some(before) = locked(&self.listener).replace(task.abort_handle()) {
            before.abort();
        }
        Ok(format!("{address}/{}", word.simple()))
    }

    async fn connect(&self, rank: usize, to: usize, address: &str) -> Result<()> {
        let (host, word) = address.split_once('/').unwrap_or((address, ""));
        let word = Uuid::parse_str(word).map_err(|error| {
            ChannelError::endpoint(format!("the address of worker {to} has no word: {error}"))
        })?;
        let connected = async {
            let mut stream = TcpStream::connect(host).await?;
            stream.set_nodelay(true)?;
            stream.write_all(word.as_bytes()).await?;
            stream.write_u32_le(rank as u32).await?;
            Ok::<_, std::io::Error>(stream.into_split().1)
        };
        let stream = connected.await.map_err(|error| unreachable(host, &error))?;
        let peer = Arc::new(tokio::sync::Mutex::new(stream));
        locked(&self.peers).insert(to, peer);
        Ok(())
    }

    async fn send(&self, to: usize, message: Payload) -> Result<()> {
        let peer = locked(&self.peers).get(&to).cloned();
        let peer = peer.ok_or_else(|| ChannelError::closed(to))?;
        let body = message.bytes()?;
        let mut stream = peer.lock().await;
        let sent = async {
            stream.write_u64_le(body.len() as u64).await?;
            stream.write_all(body).await
        };
        let sent = sent.await;
        sent.map_err(|error| unreachable(&format!("worker {to}"), &error))
    }
}

#[async_trait]
impl Channel<LinkCommand> for TcpLinks {
    async fn run(&self, command: LinkCommand) -> Result<Reply> {
        match command {
            LinkCommand::Listen { .. } => self.listen().await.map(Reply::Address),
            LinkCommand::Connect { rank, to, address } => {
                self.connect(rank, to, &address).await.map(Reply::from)
            }
            LinkCommand::Send { to, message, .. } => self.send(to, message).await.map(Reply::from),
            LinkCommand::Receive { from, .. } => {
                let receive = self.inboxes.inbox(from, |inbox| inbox.receive.clone());
                let message = receive.lock().await.recv().await;
                Ok(Reply::Value(message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Links;

    fn links() -> Links {
        Links::new(Arc::new(TcpLinks::new("127.0.0.1")))
    }

    async fn pair() -> (Links, Links) {
        let (a, b) = (links(), links());
        let address = b.listen(1).await.unwrap();
        a.connect(0, 1, &address).await.unwrap();
        (a, b)
    }

    #[tokio::test]
    async fn messages_arrive_whole_and_in_order() {
        let (a, b) = pair().await;
        let sizes = [0_usize, 1, 7, 1_000_003];
        let sending = async {
            for size in sizes {
                a.send(0, 1, vec![size as u8; size].into()).await.unwrap();
            }
        };
        let receiving = async {
            for size in sizes {
                let message = b.receive(1, 0).await.unwrap();
                assert_eq!(message.bytes().unwrap().as_ref(), vec![size as u8; size]);
            }
        };
        tokio::join!(sending, receiving);
    }

    #[tokio::test]
    async fn a_peer_that_ends_is_an_error_and_not_a_wait() {
        let (a, b) = pair().await;
        a.send(0, 1, vec![1_u8].into()).await.unwrap();
        drop(a);
        assert!(b.receive(1, 0).await.is_ok());
        let error = b.receive(1, 0).await.unwrap_err().to_string();
        assert!(error.contains("worker 0"), "{error}");
        assert!(b.send(1, 0, vec![1_u8].into()).await.is_err());
    }

    #[tokio::test]
    async fn a_stranger_is_not_heard() {
        let (a, b) = (links(), links());
        let address = b.listen(1).await.unwrap();
        let (host, _) = address.split_once('/').unwrap();
        let wrong = format!("{host}/{}", Uuid::new_v4().simple());
        a.connect(0, 1, &wrong).await.unwrap();
        a.connect(0, 1, &address).await.unwrap();
        a.send(0, 1, vec![9_u8].into()).await.unwrap();
        assert_eq!(b.receive(1, 0).await.unwrap(), vec![9_u8].into());
        assert!(a.connect(0, 1, host).await.is_err());
    }
}
