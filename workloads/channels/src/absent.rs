use async_trait::async_trait;

use crate::{Channel, ChannelError, Command, Reply, Result};

/// Stand-in for a channel that a deployment does not have: every command is refused.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    /// Name of the service.
    pub service: &'static str,
    /// Why there is none.
    pub reason: &'static str,
}

impl Absent {
    /// The queue of a deployment without one.
    pub const QUEUE: Self = Self {
        service: "queue",
        reason: "this deployment has no queue",
    };
    /// The links of workers that cannot reach each other.
    pub const LINKS: Self = Self {
        service: "a link between workers",
        reason: "the workers of this deployment cannot reach each other",
    };
}

#[async_trait]
impl<C: Command> Channel<C> for Absent {
    async fn run(&self, mut command: C) -> Result<Reply> {
        let names = command.names();
        let operation = format!("a request on {names:?}");
        Err(ChannelError::refused(self.service, operation, self.reason))
    }
}
