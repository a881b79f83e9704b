//! Repeating what is refused for a while: EC2 knows of what was just made, and
//! forgets what was just removed, only after some time ("Eventual consistency
//! in the Amazon EC2 API").

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::AwsError;
use crate::error::Cause;

/// Network interfaces of functions in a VPC go up to 40 minutes after their
/// functions ("Giving Lambda functions access to resources in an Amazon VPC"),
/// and hold their subnet and their security group until then.
pub(super) const INTERFACES: Duration = Duration::from_secs(45 * 60);
/// How long what was just made may be unknown to other calls.
const UNKNOWN: Duration = Duration::from_secs(60);
/// From one attempt to the next.
const LOOK: Duration = Duration::from_secs(2);

/// Repeats an attempt while it is refused for `cause`, for so long.
async fn while_refused<T, F>(
    cause: Cause,
    patience: Duration,
    attempt: impl Fn() -> F,
) -> Result<T, AwsError>
where
    F: Future<Output = Result<T, AwsError>>,
{
    let since = Instant::now();
    loop {
        match attempt().await {
            Err(error) if error.cause() == Some(cause) && since.elapsed() < patience => {
                sleep(LOOK).await;
            }
            other => return other,
        }
    }
}

/// Repeats an attempt on something that was just made until EC2 knows of it.
pub(super) async fn once_known<T, F>(attempt: impl Fn() -> F) -> Result<T, AwsError>
where
    F: Future<Output = Result<T, AwsError>>,
{
    while_refused(Cause::NotFound, UNKNOWN, attempt).await
}

/// Repeats a removal until nothing uses the thing any more, for so long.
pub(super) async fn once_unused<T, F>(
    patience: Duration,
    attempt: impl Fn() -> F,
) -> Result<T, AwsError>
where
    F: Future<Output = Result<T, AwsError>>,
{
    while_refused(Cause::InUse, patience, attempt).await
}

/// Asks `is_there` until it says yes.
pub(super) async fn until<F>(
    what: &str,
    patience: Duration,
    is_there: impl Fn() -> F,
) -> Result<(), AwsError>
where
    F: Future<Output = Result<bool, AwsError>>,
{
    let since = Instant::now();
    while !is_there().await? {
        if since.elapsed() > patience {
            return Err(AwsError::Deadline {
                what: what.to_owned(),
                seconds: patience.as_secs(),
                remedy: "give the command again later; `epochcost clean` removes what there is"
                    .to_owned(),
            });
        }
        sleep(LOOK).await;
    }
    Ok(())
}
