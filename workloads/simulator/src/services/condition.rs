//! What an injected fault makes of a server.

use std::future::pending;
use std::sync::Mutex;

use epochcost_channels::ChannelError;
use epochcost_systems::Breakdown;

use crate::engine::{Engine, locked};

/// The condition of one server: what broke it last, and when.
#[derive(Default)]
pub(crate) struct Condition(Mutex<Option<(Breakdown, u64)>>);

impl Condition {
    /// Breaks the server now.
    pub(crate) fn suffer(&self, breakdown: Breakdown, engine: &Engine) {
        *locked(&self.0) = Some((breakdown, engine.now()));
    }

    /// Waits as long as a broken server lets a request wait: for ever, where it hangs. The
    /// request's connection exists since the instant `connected`.
    ///
    /// # Errors
    /// [`ChannelError::Unreachable`] while it is dead, and if it died since.
    pub(crate) async fn pass(
        &self,
        engine: &Engine,
        service: &'static str,
        connected: u64,
    ) -> Result<(), ChannelError> {
        self.keeps(service, connected)?;
        let nanoseconds = |ms: u64| ms.saturating_mul(1_000_000);
        let broken = *locked(&self.0);
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
                Err(unreachable(service, "the server is dead"))
            }
        }
    }

    /// Returns whether a connection that exists since the instant `connected` still does.
    ///
    /// # Errors
    /// [`ChannelError::Unreachable`] if the server died since.
    pub(crate) fn keeps(&self, service: &'static str, connected: u64) -> Result<(), ChannelError> {
        let ends = |breakdown| matches!(breakdown, Breakdown::Dies | Breakdown::RestartsAfterMs(_));
        match *locked(&self.0) {
            Some((breakdown, since)) if ends(breakdown) && since >= connected => Err(unreachable(
                service,
                "the server died, and the connection with it",
            )),
            _ => Ok(()),
        }
    }
}

fn unreachable(service: &'static str, reason: &str) -> ChannelError {
    ChannelError::Unreachable {
        service,
        endpoint: "its address".into(),
        reason: format!("injected fault: {reason}"),
    }
}
