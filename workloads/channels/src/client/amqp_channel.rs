//! AMQP channels in use.

use std::ops::Deref;
use std::sync::{Arc, Mutex};

use lapin::Channel;
use tokio::runtime::Handle;

use crate::locked;

/// AMQP's code of a close without a fault.
const REPLY_SUCCESS: u16 = 200;

/// Open channels that no operation uses.
#[derive(Clone, Default)]
pub(super) struct Idle(Arc<Mutex<Vec<Channel>>>);

impl Idle {
    /// Takes a channel that still works, if there is one.
    pub(super) fn take(&self) -> Option<Lease> {
        let mut channels = locked(&self.0);
        while let Some(channel) = channels.pop() {
            if channel.status().connected() {
                return Some(Lease::new(channel));
            }
        }
        None
    }

    /// Keeps a channel whose operation is over.
    pub(super) fn give(&self, mut lease: Lease) {
        lease.is_over = true;
        locked(&self.0).push(lease.channel.clone());
    }
}

/// A channel in use by one operation. If the operation fails or is dropped, the
/// channel is closed, and the broker requeues the messages that it delivered and
/// that were not acknowledged.
///
/// The library closes a channel with the last of its clones, and keeps one
/// itself while it waits for the answer to a subscription.
pub(super) struct Lease {
    channel: Channel,
    is_over: bool,
}

impl Lease {
    pub(super) fn new(channel: Channel) -> Self {
        Self {
            channel,
            is_over: false,
        }
    }
}

impl Deref for Lease {
    type Target = Channel;

    fn deref(&self) -> &Channel {
        &self.channel
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_over || !self.channel.status().connected() {
            return;
        }
        // Without a runtime the connection ends, and the channel with it.
        if let Ok(runtime) = Handle::try_current() {
            let channel = self.channel.clone();
            runtime.spawn(async move {
                // It may be closed already.
                let _ = channel.close(REPLY_SUCCESS, "given up".into()).await;
            });
        }
    }
}
