use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::locked;
use crate::{ChannelError, Links, Payload, Result};

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
impl Links for MemoryLinks {
    async fn listen(&self, rank: usize) -> Result<String> {
        Ok(format!("memory:{rank}"))
    }

    async fn connect(&self, _rank: usize, _to: usize, _address: &str) -> Result<()> {
        Ok(())
    }

    async fn send(&self, rank: usize, to: usize, message: Payload) -> Result<()> {
        let sent = self.way(rank, to).send.send(message);
        sent.map_err(|_| ChannelError::closed(to))
    }

    async fn receive(&self, rank: usize, from: usize) -> Result<Payload> {
        let way = self.way(from, rank);
        let mut receive = way.receive.lock().await;
        receive
            .recv()
            .await
            .ok_or_else(|| ChannelError::closed(from))
    }
}
