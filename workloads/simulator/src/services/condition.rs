//! What an injected fault makes of a server.

use std::future::pending;
use std::sync::Mutex;

use epochcost_channels::ChannelError;
use epochcost_systems::Breakdown;

use crate::engine::{Engine, locked};

/// The condition of one server.
#[derive(Default)]
pub(crate) struct Condition(Mutex<Option<(Breakdown, u64)>>);

impl Condition {
    /// Breaks the server now.
    pub(crate) fn suffer(&self, breakdown: Breakdown, engine: &Engine) {
        *locked(&self.0) = Some((breakdown, engine.now()));
    }

    /// Waits as long as a broken server lets a request wait: for ever, where it hangs.
    ///
    /// # Errors
    /// [`ChannelError::Unreachable`] while it is dead.
    pub(crate) async fn pass(
        &self,
        engine: &Engine,
        service: &'static str,
    ) -> Result<(), ChannelError> {
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
            Breakdown::Dies | Breakdown::RestartsAfterMs(_) => Err(ChannelError::Unreachable {
                service,
                endpoint: "its address".into(),
                reason: "injected fault: the server is dead".into(),
            }),
        }
    }
}
