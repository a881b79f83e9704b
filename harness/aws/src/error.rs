//! Errors of AWS with their remedies.

use std::path::PathBuf;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use thiserror::Error;

/// Cause of a refusal, independent of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There are no credentials.
    NoCredentials,
    /// The credentials have expired.
    Expired,
    /// The credentials are not accepted.
    Unrecognised,
    /// The identity lacks the permission.
    Permission,
    /// Too many requests, also after retries.
    Throttled,
    /// A quota of the account is too small.
    Quota,
    /// The account's plan or state does not allow it, such as an instance type outside the
    /// free plan.
    Account,
    /// The region has no such instance available.
    Capacity,
    /// The resource does not exist.
    NotFound,
    /// The resource exists already.
    Exists,
    /// Another resource still uses it.
    InUse,
    /// The service failed, also after retries.
    Service,
    /// The service could not be reached.
    Unreachable,
    /// Any other cause.
    Other,
}

impl Cause {
    /// Returns the cause of a service's error code (each service's "Common errors").
    fn of_code(code: &str, status: Option<u16>) -> Self {
        match code {
            "ExpiredToken"
            | "ExpiredTokenException"
            | "RequestExpired"
            | "TokenRefreshRequired" => Self::Expired,
            "UnrecognizedClientException"
            | "InvalidClientTokenId"
            | "InvalidAccessKeyId"
            | "AuthFailure"
            | "SignatureDoesNotMatch"
            | "InvalidSignatureException" => Self::Unrecognised,
            "AccessDenied" | "AccessDeniedException" | "UnauthorizedOperation" => Self::Permission,
            "Throttling"
            | "ThrottlingException"
            | "ThrottledException"
            | "TooManyRequestsException"
            | "RequestLimitExceeded"
            | "SlowDown"
            | "RequestThrottled"
            | "RequestThrottledException" => Self::Throttled,
            "InsufficientInstanceCapacity" | "InsufficientHostCapacity" | "Unsupported" => {
                Self::Capacity
            }
            "PendingVerification" | "OptInRequired" | "Blocked" => Self::Account,
            "VcpuLimitExceeded"
            | "InstanceLimitExceeded"
            | "MaxSpotInstanceCountExceeded"
            | "LimitExceeded"
            | "LimitExceededException"
            | "CodeStorageExceededException"
            | "TooManyBuckets"
            | "VpcLimitExceeded"
            | "InternetGatewayLimitExceeded"
            | "SubnetLimitExceeded"
            | "VpcEndpointLimitExceeded"
            | "SecurityGroupLimitExceeded"
            | "StateMachineLimitExceeded"
            | "ServiceQuotaExceededException" => Self::Quota,
            "EntityAlreadyExists"
            | "ResourceConflictException"
            | "ResourceAlreadyExistsException"
            | "BucketAlreadyOwnedByYou"
            | "InvalidGroup.Duplicate"
            | "InvalidPermission.Duplicate"
            | "InvalidSubnet.Conflict"
            | "Resource.AlreadyAssociated"
            | "RouteAlreadyExists"
            | "StateMachineAlreadyExists"
            | "ExecutionAlreadyExists" => Self::Exists,
            "DependencyViolation" | "DeleteConflict" | "BucketNotEmpty" | "VolumeInUse" => {
                Self::InUse
            }
            "NoSuchEntity"
            | "NoSuchEntityException"
            | "NoSuchBucket"
            | "NoSuchKey"
            | "NoSuchTagSet"
            | "NotFound"
            | "ResourceNotFoundException"
            | "NoSuchResourceException"
            | "StateMachineDoesNotExist"
            | "ExecutionDoesNotExist"
            | "Gateway.NotAttached" => Self::NotFound,
            // EC2 has a code per kind, such as `InvalidGroup.NotFound`.
            _ if code.ends_with(".NotFound") => Self::NotFound,
            _ => match status {
                Some(429) => Self::Throttled,
                Some(404) => Self::NotFound,
                Some(403) => Self::Permission,
                Some(500..) => Self::Service,
                _ => Self::Other,
            },
        }
    }

    /// Returns the cause of an answer: its code's, or its message's where the code says too little.
    fn of_answer(code: &str, status: Option<u16>, message: &str) -> Self {
        match Self::of_code(code, status) {
            // EC2 has no code of its own for a profile that it does not know yet.
            Self::Other if message.contains("IAM Instance Profile") => Self::NotFound,
            // Nor has it one for types that a plan leaves out.
            Self::Other if message.contains("not eligible for Free Tier") => Self::Account,
            // New accounts have functions of at most 3,008 MB.
            Self::Other if message.contains("MemorySize") => Self::Quota,
            cause => cause,
        }
    }

    /// Returns the remedy.
    fn remedy(self) -> &'static str {
        match self {
            Self::NoCredentials => {
                "log in (`aws configure sso`, `aws sso login`) or set AWS_PROFILE; \
                 `epochcost doctor --aws` says what it sees"
            }
            Self::Expired => "renew the credentials (`aws sso login`), then give the command again",
            Self::Unrecognised => "check AWS_PROFILE, the keys and this machine's clock",
            Self::Permission => {
                "add the permission; docs/aws.md lists every call and the permission it needs"
            }
            Self::Throttled => "wait, and give the command again",
            Self::Quota => {
                "ask for more under Service Quotas; `epochcost doctor --aws` says how much"
            }
            Self::Account => {
                "a free plan starts free instance types only: upgrade it under Billing; a new \
                 account's first instance in a region may take up to four hours to be verified"
            }
            Self::Capacity => "try another region or availability zone, or later",
            Self::Unreachable => "check the network, the region's name and endpoint overrides",
            Self::Service => {
                "give the command again later; the service's health page may know of it"
            }
            Self::NotFound | Self::Exists | Self::InUse | Self::Other => {
                "`epochcost clean --dry-run` lists what is left of a run"
            }
        }
    }
}

/// Failure of an operation on AWS or on the journal.
#[derive(Debug, Error)]
pub enum AwsError {
    /// A service refused, failed or could not be reached.
    #[error("failed to {doing}: {code}: {message}\n  = help: {}", cause.remedy())]
    Call {
        /// Attempted operation; follows "failed to".
        doing: String,
        /// Cause of the refusal.
        cause: Cause,
        /// Error code of the service.
        code: String,
        /// Message of the service.
        message: String,
    },
    /// An answer of a service lacks a required part.
    #[error("failed to {doing}: the answer lacks {what}")]
    Incomplete {
        /// Attempted operation; follows "failed to".
        doing: String,
        /// Missing part.
        what: &'static str,
    },
    /// The journal cannot be written or read.
    #[error("failed to {doing} the journal {}: {reason}", path.display())]
    Journal {
        /// Attempted operation; follows "failed to".
        doing: &'static str,
        /// Path of the journal.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// A condition did not hold in time.
    #[error("{what} took longer than {seconds} s\n  = help: {remedy}")]
    Deadline {
        /// Awaited condition.
        what: String,
        /// Time limit, seconds.
        seconds: u64,
        /// Remedy.
        remedy: String,
    },
    /// A request that cannot be fulfilled.
    #[error("{problem}\n  = help: {remedy}")]
    Unusable {
        /// Problem.
        problem: String,
        /// Remedy.
        remedy: String,
    },
    /// An instance ended before it had done its work.
    #[error("the instance {name} ended before {what}; its log: {log}")]
    Ended {
        /// Name of the instance.
        name: String,
        /// Its work.
        what: String,
        /// Last lines of its log, on one line.
        log: String,
    },
    /// The worst case exceeds the user's limit.
    #[error("the spending limit is {limit_usd} USD, and this may cost {worst_usd:.2} USD")]
    SpendingLimit {
        /// Limit of `--max-usd`.
        limit_usd: f64,
        /// Worst case, US dollars.
        worst_usd: f64,
    },
    /// The spending exceeds the user's limit.
    #[error("the spending limit is {limit_usd} USD, and {spent_usd:.4} USD are spent")]
    Spent {
        /// Limit of `--max-usd`.
        limit_usd: f64,
        /// Spending so far, US dollars.
        spent_usd: f64,
    },
    /// The user declined the cost estimate.
    #[error("nothing was created: {reason}")]
    NotApproved {
        /// Reason.
        reason: String,
    },
}

impl AwsError {
    /// Converts the error of a row's settings.
    pub(crate) fn of_row(error: epochcost_systems::SystemError) -> Self {
        Self::Unusable {
            problem: error.to_string(),
            remedy: "check the row's settings".to_owned(),
        }
    }

    /// Returns the cause, if a service refused.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::Call { cause, .. } => Some(*cause),
            _ => None,
        }
    }

    /// Returns a refusal that is part of a successful answer.
    pub(crate) fn refused(doing: &str, code: String, message: String) -> Self {
        Self::Call {
            doing: doing.to_owned(),
            cause: Cause::of_code(&code, None),
            code,
            message,
        }
    }

    /// Converts the SDK's error of a call; `doing` follows "failed to".
    pub(crate) fn of<E>(doing: impl Into<String>, error: SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let status = error.raw_response().map(|raw| raw.status().as_u16());
        if let Some(service) = error.as_service_error() {
            let code = service.code().unwrap_or("unnamed error").to_owned();
            let message = service.message().unwrap_or("no message").to_owned();
            let cause = Cause::of_answer(&code, status, &message);
            return Self::Call {
                doing: doing.into(),
                cause,
                code,
                message,
            };
        }
        // The call got no answer that the service could name an error in.
        let text = causes(&error);
        let no_credentials = text.contains("credential") || text.contains("identity");
        let cause = match &error {
            _ if no_credentials => Cause::NoCredentials,
            SdkError::ResponseError(_) => Cause::Service,
            SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) => Cause::Unreachable,
            _ => Cause::Other,
        };
        let code = match cause {
            Cause::NoCredentials => "no credentials",
            Cause::Service => "unreadable answer",
            Cause::Unreachable => "no connection",
            _ => "the call was not made",
        };
        Self::Call {
            doing: doing.into(),
            cause,
            code: code.to_owned(),
            message: text,
        }
    }
}

/// Returns an error's message with those of all its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}

/// Turns [`Cause::NotFound`] into `Ok(None)`.
pub(crate) fn if_there<T>(result: Result<T, AwsError>) -> Result<Option<T>, AwsError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.cause() == Some(Cause::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Turns an error with the cause `already` into success.
pub(crate) fn unless(result: Result<(), AwsError>, already: Cause) -> Result<(), AwsError> {
    match result {
        Err(error) if error.cause() == Some(already) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What new accounts and free plans answer ends a row, not a run.
    #[test]
    fn refusals_of_new_accounts_have_causes_of_their_own() {
        let plan = "The specified instance type is not eligible for Free Tier.";
        let memory = "'MemorySize' value failed to satisfy constraint: Member must have value less \
                      than or equal to 3008";
        let known = [
            ("InvalidParameterCombination", plan, Cause::Account),
            ("PendingVerification", "", Cause::Account),
            ("OptInRequired", "", Cause::Account),
            ("Blocked", "", Cause::Account),
            ("InvalidParameterValueException", memory, Cause::Quota),
            ("MaxSpotInstanceCountExceeded", "", Cause::Quota),
            ("Unsupported", "", Cause::Capacity),
            ("InvalidParameterCombination", "", Cause::Other),
        ];
        for (code, message, expected) in known {
            assert_eq!(
                Cause::of_answer(code, Some(400), message),
                expected,
                "{code}"
            );
        }
    }
}
