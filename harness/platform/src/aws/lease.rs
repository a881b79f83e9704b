//! The lease of a run: while this program lives, it puts off the end of all that the run pays for.

use std::sync::Arc;
use std::time::Duration;

use epochcost_aws::deployment::{LEASE_S, RENEWED_S};
use epochcost_aws::resource::{Ends, arm_switch, disarm_switch, lease};
use epochcost_aws::{AwsError, Clients, Scope};
use jiff::Timestamp;
use tokio::sync::{Mutex, watch};
use tokio::time::sleep;

/// Time between two looks at the clock: this machine may sleep meanwhile.
const LOOK: Duration = Duration::from_secs(15);

/// Time before the lease's end in which it is not renewed any more, s: calls take some.
const MARGIN_S: i64 = 60;

/// Lease whose end the dead man's switch waits for.
pub(super) struct Lease {
    clients: Clients,
    scope: Scope,
    state: Mutex<State>,
    /// When it ended, if it was not renewed in time.
    ended: watch::Sender<Option<Timestamp>>,
}

struct State {
    until: Timestamp,
    /// Executions of the switch that wait.
    armed: Vec<String>,
    /// Number of the last one.
    number: usize,
    /// What they end by name.
    ends: Ends,
}

impl Lease {
    /// Creates the lease of the execution that was started with the switch.
    pub(super) fn new(clients: Clients, scope: Scope, armed: Vec<String>) -> Self {
        // The switch was armed some seconds ago.
        let until = lease(Timestamp::now());
        let state = State {
            until,
            armed,
            number: 0,
            ends: Ends::default(),
        };
        Self {
            clients,
            scope,
            state: Mutex::new(state),
            ended: watch::Sender::new(None),
        }
    }

    /// Renews it, and has the switch end what a trial is about to make.
    pub(super) async fn begins(&self, ends: Ends) -> Result<(), AwsError> {
        let mut state = self.state.lock().await;
        state.ends = ends;
        self.renew(&mut state).await
    }

    /// Starts an execution of the switch that waits for a later end, and stops those before it.
    async fn renew(&self, state: &mut State) -> Result<(), AwsError> {
        let now = Timestamp::now();
        if now.as_second() + MARGIN_S >= state.until.as_second() {
            self.ended.send_replace(Some(state.until));
            return Err(AwsError::LeaseEnded { until: state.until });
        }
        let until = lease(now);
        state.number += 1;
        let (clients, number) = (&self.clients, state.number);
        let armed = arm_switch(clients, &self.scope, until, &state.ends, number).await?;
        let before = std::mem::replace(&mut state.armed, vec![armed]);
        for (done, execution) in before.iter().enumerate() {
            if let Err(error) = disarm_switch(clients, execution).await {
                // They are stopped with the next, before their own end.
                state.armed.extend_from_slice(&before[done..]);
                return Err(error);
            }
        }
        state.until = until;
        Ok(())
    }

    /// Renews it for as long as this program lives; ends where it could not be renewed in time.
    pub(super) async fn keep(self: Arc<Self>) {
        loop {
            sleep(LOOK).await;
            let mut state = self.state.lock().await;
            let left_s = state.until.as_second() - Timestamp::now().as_second();
            if left_s > (LEASE_S - RENEWED_S) as i64 {
                continue;
            }
            // What is refused now may be granted later, until the end.
            if let Err(AwsError::LeaseEnded { .. }) = self.renew(&mut state).await {
                return;
            }
        }
    }

    /// Waits until it has ended, and returns that as an error; for ever while it is renewed.
    pub(super) async fn ended(&self) -> AwsError {
        let mut ended = self.ended.subscribe();
        let until = match ended.wait_for(Option::is_some).await {
            Ok(until) => *until,
            // The sender lives as long as this.
            Err(_) => None,
        };
        AwsError::LeaseEnded {
            until: until.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use epochcost_aws::RunId;

    use super::*;

    async fn lease_until(until: Timestamp) -> Lease {
        let scope = Scope {
            run: RunId::new(1),
            partition: "aws".into(),
            account: "123456789012".into(),
            region: "eu-west-1".into(),
            expires: Timestamp::MAX,
        };
        let clients = Clients::load(Some("eu-west-1")).await.unwrap();
        let lease = Lease::new(clients, scope, vec!["armed".into()]);
        lease.state.try_lock().unwrap().until = until;
        lease
    }

    /// A machine that slept asks nothing of the account, and whoever waits hears of the end.
    #[tokio::test]
    async fn a_lease_that_has_ended_is_not_renewed() {
        let until = Timestamp::now();
        let lease = lease_until(until).await;
        let error = lease.begins(Ends::default()).await.unwrap_err();
        let ended = lease.ended().await;
        for error in [error, ended] {
            assert!(matches!(error, AwsError::LeaseEnded { until: found } if found == until));
            assert!(!error.is_the_trials());
        }
    }
}
