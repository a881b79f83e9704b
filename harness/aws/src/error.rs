//! Why AWS could not be used, and what to do about it.

use std::path::PathBuf;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use thiserror::Error;

/// What kind of refusal an error is, whatever service it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There are no credentials.
    NoCredentials,
    /// The credentials were valid once.
    Expired,
    /// The credentials are not accepted.
    Unrecognised,
    /// The identity may not do this.
    Permission,
    /// Too many requests, also after retries.
    Throttled,
    /// A quota of the account is too small.
    Quota,
    /// The region has no such instance at the moment.
    Capacity,
    /// What was asked for is not there.
    NotFound,
    /// What was to be made is there already.
    Exists,
    /// Something else still uses it.
    InUse,
    /// The service failed, also after retries.
    Service,
    /// The service could not be reached.
    Unreachable,
    /// Anything else.
    Other,
}

impl Cause {
    /// By the code that a service answers with (each service's "Common errors").
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
            "InsufficientInstanceCapacity" => Self::Capacity,
            "VcpuLimitExceeded"
            | "InstanceLimitExceeded"
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
            | "StateMachineAlreadyExists" => Self::Exists,
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
            // EC2 names each kind of thing, such as `InvalidGroup.NotFound`.
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

    /// What to do.
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

/// Why something on AWS, or its journal, could not be done.
#[derive(Debug, Error)]
pub enum AwsError {
    /// A service refused, failed or was out of reach.
    #[error("failed to {doing}: {code}: {message}\n  = help: {}", cause.remedy())]
    Call {
        /// What was attempted.
        doing: String,
        /// What kind of refusal.
        cause: Cause,
        /// The service's name for it.
        code: String,
        /// What the service said.
        message: String,
    },
    /// A service answered without what it must contain.
    #[error("failed to {doing}: the answer lacks {what}")]
    Incomplete {
        /// What was attempted.
        doing: String,
        /// What is missing.
        what: &'static str,
    },
    /// The journal cannot be written or read.
    #[error("failed to {doing} the journal {}: {reason}", path.display())]
    Journal {
        /// Reading or writing.
        doing: &'static str,
        /// Where it is.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something did not come to pass in time.
    #[error("{what} did not come to pass within {seconds} s\n  = help: {remedy}")]
    Deadline {
        /// What was waited for.
        what: String,
        /// For how long.
        seconds: u64,
        /// What to do.
        remedy: String,
    },
    /// What was asked for cannot be.
    #[error("{problem}\n  = help: {remedy}")]
    Unusable {
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// An instance ended before it did what it was started for.
    #[error("the instance {name} ended before {what}; its log: {log}")]
    Ended {
        /// Its name.
        name: String,
        /// What it was to do.
        what: String,
        /// The last lines that it wrote, on one line.
        log: String,
    },
    /// It may cost more than the user allows.
    #[error("the spending limit is {limit_usd} USD, and this may cost {worst_usd:.2} USD")]
    SpendingLimit {
        /// `--max-usd`.
        limit_usd: f64,
        /// The worst case.
        worst_usd: f64,
    },
    /// More was spent than the user allows.
    #[error("the spending limit is {limit_usd} USD, and {spent_usd:.4} USD are spent")]
    Spent {
        /// `--max-usd`.
        limit_usd: f64,
        /// What was spent.
        spent_usd: f64,
    },
    /// Nobody agreed.
    #[error("nothing was created: {reason}")]
    NotApproved {
        /// Why.
        reason: String,
    },
}

impl AwsError {
    /// What a row's own settings make impossible.
    pub(crate) fn of_row(error: epochcost_systems::SystemError) -> Self {
        Self::Unusable {
            problem: error.to_string(),
            remedy: "check the row's settings".to_owned(),
        }
    }

    /// What kind of refusal it is, if a service refused.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::Call { cause, .. } => Some(*cause),
            _ => None,
        }
    }

    /// A refusal that stands in the answer to a call.
    pub(crate) fn refused(doing: &str, code: String, message: String) -> Self {
        Self::Call {
            doing: doing.to_owned(),
            cause: Cause::of_code(&code, None),
            code,
            message,
        }
    }

    /// What a call's error means; `doing` follows "failed to".
    pub(crate) fn of<E>(doing: impl Into<String>, error: SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let status = error.raw_response().map(|raw| raw.status().as_u16());
        if let Some(service) = error.as_service_error() {
            let code = service.code().unwrap_or("unnamed error").to_owned();
            let message = service.message().unwrap_or("no message").to_owned();
            let cause = match Cause::of_code(&code, status) {
                // EC2 has no code of its own for a profile that it does not know yet.
                Cause::Other if message.contains("IAM Instance Profile") => Cause::NotFound,
                cause => cause,
            };
            return Self::Call {
                doing: doing.into(),
                cause,
                code,
                message,
            };
        }
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

/// An error with everything that caused it.
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

/// `Ok(None)` where the error says that there is nothing.
pub(crate) fn if_there<T>(result: Result<T, AwsError>) -> Result<Option<T>, AwsError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.cause() == Some(Cause::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Nothing done where the error says that it is so already.
pub(crate) fn unless(result: Result<(), AwsError>, already: Cause) -> Result<(), AwsError> {
    match result {
        Err(error) if error.cause() == Some(already) => Ok(()),
        other => other,
    }
}
