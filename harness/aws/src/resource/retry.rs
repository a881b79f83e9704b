//! Retries of calls that AWS refuses for a while: new resources become visible, and
//! removed ones disappear, only after some time ("Eventual consistency in the Amazon EC2
//! API").

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::network_interface;
use crate::error::Cause;
use crate::{AwsError, Clients};

/// Time limit for the removal of functions' network interfaces: in a VPC they disappear
/// up to 40 minutes after their functions ("Giving Lambda functions access to resources
/// in an Amazon VPC"), and block their subnet and their security group until then.
const INTERFACE_TIMEOUT: Duration = Duration::from_secs(45 * 60);
/// Time limit until other calls know of a new resource.
const VISIBLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between attempts.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Repeats an attempt while it is refused for `cause`, until `timeout`.
async fn while_refused<T, F>(
    cause: Cause,
    timeout: Duration,
    attempt: impl Fn() -> F,
) -> Result<T, AwsError>
where
    F: Future<Output = Result<T, AwsError>>,
{
    let since = Instant::now();
    loop {
        match attempt().await {
            Err(error) if error.cause() == Some(cause) && since.elapsed() < timeout => {
                sleep(POLL_INTERVAL).await;
            }
            other => return other,
        }
    }
}

/// Repeats an attempt while the service refuses it for what passes, as long as the refusal is worth.
pub(crate) async fn once_passed<T, F>(attempt: impl Fn() -> F) -> Result<T, AwsError>
where
    F: Future<Output = Result<T, AwsError>>,
{
    let since = Instant::now();
    loop {
        match attempt().await {
            Err(error) if (error.patience()).is_some_and(|most| since.elapsed() < most) => {
                sleep(POLL_INTERVAL).await;
            }
            other => return other,
        }
    }
}

/// Repeats an attempt on a new resource until the service knows of it everywhere.
pub(super) async fn once_known<T, F>(attempt: impl Fn() -> F) -> Result<T, AwsError>
where
    F: Future<Output = Result<T, AwsError>>,
{
    while_refused(Cause::NotFound, VISIBLE_TIMEOUT, attempt).await
}

/// Repeats a removal while the resource is in use, until `timeout`.
pub(super) async fn once_unused<T, F>(
    timeout: Duration,
    attempt: impl Fn() -> F,
) -> Result<T, AwsError>
where
    F: Future<Output = Result<T, AwsError>>,
{
    while_refused(Cause::InUse, timeout, attempt).await
}

/// Repeats the removal of what Lambda's network interfaces may hold, until they are gone; removes
/// those that are detached, for which `filter` has the value `id`.
pub(super) async fn once_unheld<T, F>(
    (filter, id): (&str, &str),
    clients: &Clients,
    attempt: impl Fn() -> F,
) -> Result<T, AwsError>
where
    F: Future<Output = Result<T, AwsError>>,
{
    let attempt = || async {
        let refused = match attempt().await {
            Err(error) if error.cause() == Some(Cause::InUse) => error,
            other => return other,
        };
        // Whatever the interfaces' removal says, the next attempt decides.
        match network_interface::remove_detached(filter, id, clients).await {
            Err(error) if error.cause() == Some(Cause::Permission) => Err(error),
            _ => Err(refused),
        }
    };
    once_unused(INTERFACE_TIMEOUT, attempt).await
}

/// Returns what `look` finds, once EC2's lists have it; nothing if they never do.
pub(super) async fn once_listed<T, F>(look: impl Fn() -> F) -> Result<Option<T>, AwsError>
where
    F: Future<Output = Result<Option<T>, AwsError>>,
{
    let since = Instant::now();
    loop {
        match look().await? {
            None if since.elapsed() < VISIBLE_TIMEOUT => sleep(POLL_INTERVAL).await,
            found => return Ok(found),
        }
    }
}

/// Polls `condition` until it holds.
///
/// # Errors
/// [`AwsError::Deadline`] after `timeout`.
pub(super) async fn until<F>(
    what: &str,
    timeout: Duration,
    condition: impl Fn() -> F,
) -> Result<(), AwsError>
where
    F: Future<Output = Result<bool, AwsError>>,
{
    let since = Instant::now();
    while !condition().await? {
        if since.elapsed() > timeout {
            return Err(AwsError::Deadline {
                what: what.to_owned(),
                seconds: timeout.as_secs(),
                remedy: "give the command again later; `epochcost aws clean` removes what there is"
                    .to_owned(),
            });
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Refusals that pass are repeated, and others are not.
    #[tokio::test]
    async fn what_passes_is_called_again() {
        for (code, calls) in [("OperationAborted", 2), ("AccessDenied", 1)] {
            let made = AtomicUsize::new(0);
            let attempt = || async {
                match made.fetch_add(1, Ordering::SeqCst) {
                    0 => Err(AwsError::refused("do", code.to_owned(), String::new())),
                    _ => Ok(()),
                }
            };
            assert_eq!(once_passed(attempt).await.is_ok(), calls == 2);
            assert_eq!(made.load(Ordering::SeqCst), calls, "{code}");
        }
    }
}
