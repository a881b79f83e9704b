use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{Channel, ChannelError, LinkCommand, Payload, Reply, Result, locked};

/// Connections between the workers of one process.
#[derive(Debug, Default)]
pub struct MemoryLinks {
    ways: Mutex<HashMap<(usize, usize), Arc<Way>>>,
}

/// Messages from one worker to another, in order.
#[derive(Debug)]
struct Way {
    send: UnboundedSender<Payload>,
    receive: tokio::sync::Mutex<UnboundedReceiver<Payload>>,
}

impl MemoryLinks {
    fn way(&self, from: usize, to: usize) -> Arc<Way> {
        let mut ways = locked(&self.ways);
        let way = ways.entry((from, to)).or_insert_with(|| {
            let (send, receive) = unbounded_channel();
            Arc::new(Way {
                send,
                receive: tokio::sync::Mutex::new(receive),
            })
        });
        way.clone()
    }
}

#[async_trait]
impl Channel<LinkCommand> for MemoryLinks {
    async fn run(&self, command: LinkCommand) -> Result<Reply> {
        match command {
            LinkCommand::Listen { rank } => Ok(Reply::Address(format!("memory:{rank}"))),
            LinkCommand::Connect { .. } => Ok(Reply::Done),
            LinkCommand::Send { rank, to, message } => {
                let sent = self.way(rank, to).send.send(message);
                sent.map(Reply::from).map_err(|_| ChannelError::closed(to))
            }
            LinkCommand::Receive { rank, from } => {
                let way = self.way(from, rank);
                let message = way.receive.lock().await.recv().await;
                Ok(Reply::Value(message))
            }
        }
    }
}
