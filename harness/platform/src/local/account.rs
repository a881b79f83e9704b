//! Concurrency and scaling limits of an account, and the treatment of refused invocations.
//!
//! Sources: "Lambda scaling behavior" (sandboxes a function may gain), "Lambda
//! quotas" (invocations at once), "How Lambda handles errors and retries with
//! asynchronous invocation", and Step Functions' "Handle Lambda service
//! exceptions" (the retry policy that AWS recommends).

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use epochcost_spec::rows::sandbox::Account;
use thiserror::Error;

use crate::locked;

/// Reason why an invocation was refused: HTTP status 429, with the reasons of Lambda's
/// `TooManyRequestsException`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Throttle {
    /// The account's limit of concurrent invocations is reached.
    #[error(
        "TooManyRequestsException: Rate Exceeded (ConcurrentInvocationLimitExceeded: {limit} functions \
         run already, the account's limit)"
    )]
    Concurrency {
        /// Limit of concurrent invocations.
        limit: u32,
    },
    /// The function has gained as many sandboxes as it may.
    #[error(
        "TooManyRequestsException: Rate Exceeded (FunctionInvocationRateLimitExceeded: {function} may \
         gain {per_10_s} sandboxes in 10 s)"
    )]
    Scaling {
        /// Name of the function.
        function: String,
        /// Limit of new sandboxes per ten seconds.
        per_10_s: u32,
    },
}

/// The account of one trial.
pub(super) struct Admission {
    limits: Account,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: u32,
    gained: HashMap<String, Bucket>,
}

/// Sandboxes that a function may still gain, refilled continuously and never
/// beyond what ten seconds give.
struct Bucket {
    tokens: f64,
    at: Duration,
}

impl Bucket {
    fn take(&mut self, now: Duration, per_10_s: f64) -> bool {
        let refill = now.saturating_sub(self.at).as_secs_f64() / 10.0 * per_10_s;
        self.tokens = (self.tokens + refill).min(per_10_s);
        self.at = now;
        let may = self.tokens >= 1.0;
        if may {
            self.tokens -= 1.0;
        }
        may
    }
}

impl Admission {
    /// Creates an account in which nothing runs.
    pub(super) fn new(limits: Account) -> Self {
        Self {
            limits,
            began: Instant::now(),
            state: Mutex::default(),
        }
    }

    /// Admits one more invocation, which counts until the result is dropped.
    pub(super) fn enter(&self) -> Result<Running<'_>, Throttle> {
        let limit = self.limits.concurrency_limit;
        let mut state = locked(&self.state);
        if state.running >= limit {
            return Err(Throttle::Concurrency { limit });
        }
        state.running += 1;
        Ok(Running(self))
    }

    /// Admits one more sandbox of `function`.
    pub(super) fn gain(&self, function: &str) -> Result<(), Throttle> {
        self.gain_at(function, self.began.elapsed())
    }

    fn gain_at(&self, function: &str, now: Duration) -> Result<(), Throttle> {
        let per_10_s = self.limits.scaling_per_10_s;
        let full = || Bucket {
            tokens: per_10_s.into(),
            at: now,
        };
        let mut state = locked(&self.state);
        let bucket = state.gained.entry(function.to_owned());
        if bucket.or_insert_with(full).take(now, per_10_s.into()) {
            Ok(())
        } else {
            Err(Throttle::Scaling {
                function: function.to_owned(),
                per_10_s,
            })
        }
    }
}

/// One of the invocations that run.
pub(super) struct Running<'a>(&'a Admission);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        locked(&self.0.state).running -= 1;
    }
}

/// Caller of functions, which determines the retries after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Step Functions, with the retry policy that AWS recommends.
    Workflow,
    /// Step Functions without one: a refusal fails the execution.
    WorkflowWithoutRetry,
    /// Lambda's own queue of asynchronous events.
    Events,
}

/// Largest age of an event in Lambda's queue.
const OLDEST_EVENT: Duration = Duration::from_secs(6 * 3_600);
/// Longest time between two attempts of an event.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

impl Caller {
    /// Returns the wait after refusal number `refusals`, from 1, of a call first made
    /// `age` ago; `None` if the caller gives up.
    pub(super) fn waits(self, refusals: u32, age: Duration) -> Option<Duration> {
        let doubled = |first: u64| {
            let wait = first.saturating_mul(1 << (refusals - 1).min(32));
            Duration::from_secs(wait)
        };
        match self {
            // IntervalSeconds 2, BackoffRate 2, MaxAttempts 6.
            Self::Workflow => (refusals <= 6).then(|| doubled(2)),
            Self::WorkflowWithoutRetry => None,
            Self::Events => {
                let wait = doubled(1).min(LONGEST_WAIT);
                (age + wait <= OLDEST_EVENT).then_some(wait)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(concurrency_limit: u32, scaling_per_10_s: u32) -> Admission {
        Admission::new(Account {
            concurrency_limit,
            scaling_per_10_s,
        })
    }

    #[test]
    fn as_many_run_at_once_as_the_account_allows() {
        let account = admission(2, 10);
        let first = account.enter().unwrap();
        let _second = account.enter().unwrap();
        let refused = account.enter().err().unwrap();
        assert_eq!(refused, Throttle::Concurrency { limit: 2 });
        let text = refused.to_string();
        assert!(text.starts_with("TooManyRequestsException"), "{text}");
        drop(first);
        assert!(account.enter().is_ok());
    }

    #[test]
    fn a_function_gains_sandboxes_at_its_rate() {
        let account = admission(100, 5);
        let gains = |function: &str, at_s: f64| {
            let at = Duration::from_secs_f64(at_s);
            account.gain_at(function, at).is_ok()
        };
        assert!((0..5).all(|_| gains("f", 0.0)) && !gains("f", 0.0));
        // Each function has a rate of its own.
        assert!(gains("g", 0.0));
        // One every two seconds.
        assert!(!gains("f", 1.9) && gains("f", 2.1) && !gains("f", 2.2));
        // What is not used does not add up.
        assert!((0..5).all(|_| gains("f", 1_000.0)) && !gains("f", 1_000.0));
    }

    #[test]
    fn callers_wait_as_documented() {
        let waits = |caller: Caller| -> Vec<u64> {
            let mut age = Duration::ZERO;
            let waits = (1..).map_while(|refusals| {
                let wait = caller.waits(refusals, age)?;
                age += wait;
                Some(wait.as_secs())
            });
            waits.collect()
        };
        assert_eq!(waits(Caller::Workflow), [2, 4, 8, 16, 32, 64]);
        assert!(waits(Caller::WorkflowWithoutRetry).is_empty());
        let events = waits(Caller::Events);
        assert_eq!(events[..10], [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        let all: u64 = events.iter().sum();
        assert!((6 * 3_600 - 300..=6 * 3_600).contains(&all), "{all}");
    }
}
