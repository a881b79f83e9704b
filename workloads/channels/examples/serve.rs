//! Starts the three embedded servers, prints their endpoints and serves until
//! interrupted: for trying them by hand with `redis-cli` or an S3 client.

use std::sync::Arc;

use epochcost_channels::embedded::{ObjectServer, QueueServer, TensorServer};
use epochcost_channels::memory::{MemoryObjects, MemoryQueue, MemoryTensors};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let objects = ObjectServer::start(Arc::new(MemoryObjects::default())).await?;
    let tensors = TensorServer::start(Arc::new(MemoryTensors::default())).await?;
    let queue = QueueServer::start(Arc::new(MemoryQueue::default())).await?;
    println!("objects {}", objects.endpoint());
    println!("tensors {}", tensors.endpoint());
    println!("queue   {}", queue.endpoint());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
