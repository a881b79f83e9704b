//! A server of a trial: its model, its bandwidth, and what an injected fault makes of it.

use std::future::pending;
use std::sync::{Arc, Mutex};

use epochcost_channels::ChannelError;
use epochcost_systems::Breakdown;

use crate::engine::{Engine, locked};
use crate::network::Peer;
use crate::profile::ServiceModel;
use crate::resource::Resource;

/// One server. Clones are of the same one.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) peer: Peer,
    pub(crate) model: Arc<ServiceModel<f64>>,
    /// Bandwidth that all transfers share.
    pub(crate) bandwidth: Resource,
    /// What broke it last, and when.
    broken: Arc<Mutex<Option<(Breakdown, u64)>>>,
}

impl Backend {
    pub(crate) fn new(engine: &Engine, peer: Peer, model: Arc<ServiceModel<f64>>) -> Self {
        let capacity = model.server_bytes_per_s.unwrap_or(f64::INFINITY);
        Self {
            peer,
            model,
            bandwidth: Resource::new(engine, capacity),
            broken: Arc::default(),
        }
    }

    /// Breaks the server now.
    pub(crate) fn suffer(&self, breakdown: Breakdown, engine: &Engine) {
        *locked(&self.broken) = Some((breakdown, engine.now()));
    }

    /// Waits as long as a broken server lets a request wait: for ever, where it hangs. The
    /// request's connection exists since the instant `connected`.
    ///
    /// # Errors
    /// [`ChannelError::Unreachable`] while it is dead, and if it died since.
    pub(crate) async fn pass(&self, engine: &Engine, connected: u64) -> Result<(), ChannelError> {
        self.keeps(connected)?;
        let nanoseconds = |ms: u64| ms.saturating_mul(1_000_000);
        let broken = *locked(&self.broken);
        let Some((breakdown, since)) = broken else {
            return Ok(());
        };
        match breakdown {
            Breakdown::Hangs => pending().await,
            Breakdown::SlowByMs(late_ms) => {
                if late_ms > 0 {
                    engine.until(engine.now() + nanoseconds(late_ms)).await;
                }
                Ok(())
            }
            Breakdown::RestartsAfterMs(away_ms)
                if engine.now() >= since.saturating_add(nanoseconds(away_ms)) =>
            {
                Ok(())
            }
            Breakdown::Dies | Breakdown::RestartsAfterMs(_) => {
                Err(self.unreachable("the server is dead"))
            }
        }
    }

    /// Returns whether a connection that exists since the instant `connected` still does.
    ///
    /// # Errors
    /// [`ChannelError::Unreachable`] if the server died since.
    pub(crate) fn keeps(&self, connected: u64) -> Result<(), ChannelError> {
        let ends = |breakdown| matches!(breakdown, Breakdown::Dies | Breakdown::RestartsAfterMs(_));
        match *locked(&self.broken) {
            Some((breakdown, since)) if ends(breakdown) && since >= connected => {
                Err(self.unreachable("the server died, and the connection with it"))
            }
            _ => Ok(()),
        }
    }

    fn unreachable(&self, reason: &str) -> ChannelError {
        let reason = format!("injected fault: {reason}");
        ChannelError::unreachable(self.peer.name(), "its address", reason)
    }
}
