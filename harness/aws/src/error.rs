//! Errors of AWS with their remedies.

use std::path::PathBuf;
use std::time::Duration;

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
    /// The service refuses for a while: a new role or an earlier change is not everywhere yet.
    Passing,
    /// The request is larger than the service takes, or otherwise the row's own.
    Settings,
    /// The service failed, also after retries.
    Service,
    /// The service could not be reached.
    Unreachable,
    /// Any other cause.
    Other,
}

impl Cause {
    /// Returns the cause of an answer: its message's where that says more than the code, else its
    /// code's, else its status's.
    fn of_answer(code: &str, status: Option<u16>, message: &str) -> Self {
        // Some of EC2's answers name the side of the fault.
        let code = code
            .strip_prefix("Client.")
            .or_else(|| code.strip_prefix("Server."))
            .unwrap_or(code);
        let message = message.to_ascii_lowercase();
        let by_message = MESSAGES.iter().find(|(_, of, part)| {
            (of.is_empty() || *of == code) && message.contains(&part.to_ascii_lowercase())
        });
        if let Some((cause, ..)) = by_message {
            return *cause;
        }
        let by_code = CODES
            .iter()
            .find(|(_, codes)| codes.split(' ').any(|known| known == code));
        if let Some((cause, _)) = by_code {
            return *cause;
        }
        // Kinds of codes, of which each service has one per resource.
        let has = |part: &str| code.contains(part);
        let ends = |end: &str| code.ends_with(end);
        match status {
            _ if ends(".NotFound") => Self::NotFound,
            _ if ends(".InUse") => Self::InUse,
            _ if ends("LimitExceeded") || ends("LimitExceededException") => Self::Quota,
            _ if ends("LimitReachedException") => Self::Quota,
            _ if has("Capacity") && (has("Insufficient") || has("Exceeded")) => Self::Capacity,
            Some(429) => Self::Throttled,
            Some(404) => Self::NotFound,
            Some(403) => Self::Permission,
            Some(413) => Self::Settings,
            Some(500..) => Self::Service,
            _ => Self::Other,
        }
    }

    /// Returns whether a refusal is no single trial's: every further call would be refused, too.
    pub fn is_everywhere(self) -> bool {
        matches!(
            self,
            Self::NoCredentials
                | Self::Expired
                | Self::Unrecognised
                | Self::Permission
                | Self::Unreachable
        )
    }

    /// Returns the remedy.
    fn remedy(self) -> &'static str {
        match self {
            Self::NoCredentials => {
                "log in (`aws configure sso`, `aws sso login`) or set AWS_PROFILE; \
                 `epochcost aws doctor` says what it sees"
            }
            Self::Expired => "renew the credentials (`aws sso login`), then give the command again",
            Self::Unrecognised => {
                "check AWS_PROFILE, the keys and this machine's clock; a region that is not enabled \
                 for the account answers so, too: enable it under Account"
            }
            Self::Permission => {
                "add the permission: `epochcost aws policy` has all that are needed"
            }
            Self::Throttled => "wait, and give the command again",
            Self::Quota => {
                "ask for more under Service Quotas; `epochcost aws doctor` says how much"
            }
            Self::Account => {
                "a free plan starts free instance types only: upgrade it under Billing; a new \
                 account's first instance in a region may take up to four hours to be verified; a \
                 service or a region may have to be enabled first"
            }
            Self::Capacity => "try another region or availability zone, or later",
            Self::Unreachable => "check the network, the region's name and endpoint overrides",
            Self::Passing => "give the command again in a few minutes",
            Self::Settings => "change the row's settings: its model, mini-batches or memory",
            Self::Service => {
                "give the command again later; the service's health page may know of it"
            }
            Self::NotFound | Self::Exists | Self::InUse | Self::Other => {
                "`epochcost aws clean --dry-run` lists what is left of a run"
            }
        }
    }
}

/// Causes of error codes (each service's "Common errors"), parted by blanks.
const CODES: [(Cause, &str); 12] = [
    (
        Cause::Expired,
        "ExpiredToken ExpiredTokenException RequestExpired TokenRefreshRequired",
    ),
    (
        Cause::Unrecognised,
        "UnrecognizedClientException InvalidClientTokenId InvalidAccessKeyId InvalidToken \
         AuthFailure IncompleteSignature SignatureDoesNotMatch InvalidSignatureException \
         RequestTimeTooSkewed",
    ),
    (
        Cause::Permission,
        "AccessDenied AccessDeniedException UnauthorizedOperation",
    ),
    (
        Cause::Throttled,
        "Throttling ThrottlingException ThrottledException TooManyRequestsException \
         RequestLimitExceeded SlowDown RequestThrottled RequestThrottledException \
         EC2ThrottledException KmsThrottlingException",
    ),
    (
        Cause::Capacity,
        "InsufficientFreeAddressesInSubnet Unsupported",
    ),
    (
        Cause::Account,
        "PendingVerification OptInRequired Blocked NotSignedUp AccountProblem AllAccessDisabled \
         RegionDisabledException",
    ),
    (
        Cause::Quota,
        "MaxSpotInstanceCountExceeded CodeStorageExceededException TooManyBuckets \
         ServiceQuotaExceededException",
    ),
    (
        Cause::Exists,
        "EntityAlreadyExists ResourceConflictException ResourceAlreadyExistsException \
         BucketAlreadyOwnedByYou InvalidGroup.Duplicate InvalidPermission.Duplicate \
         InvalidSubnet.Conflict Resource.AlreadyAssociated RouteAlreadyExists \
         StateMachineAlreadyExists ExecutionAlreadyExists",
    ),
    (
        Cause::InUse,
        "DependencyViolation DeleteConflict BucketNotEmpty VolumeInUse",
    ),
    (
        Cause::Passing,
        "ConcurrentModification ConcurrentModificationException EntityTemporarilyUnmodifiable \
         OperationAborted OperationAbortedException ConditionalRequestConflict RequestTimeout \
         IncorrectState ConcurrentTagAccess StateMachineDeleting ResourceNotReadyException",
    ),
    (
        Cause::Settings,
        "RequestTooLargeException RequestEntityTooLargeException InvalidDefinition \
         InvalidExecutionInput",
    ),
    (
        Cause::NotFound,
        "NoSuchEntity NoSuchEntityException NoSuchBucket NoSuchKey NoSuchTagSet NotFound \
         ResourceNotFoundException NoSuchResourceException StateMachineDoesNotExist \
         ExecutionDoesNotExist Gateway.NotAttached",
    ),
];

/// Lambda's code for many refusals, which differ in their message.
const INVALID: &str = "InvalidParameterValueException";

/// Causes by a part of the message, in any case, of answers with one code or, without it, any.
const MESSAGES: [(Cause, &str, &str); 10] = [
    // A new role is not known to Lambda, to KMS and to Step Functions yet.
    (Cause::Passing, INVALID, "cannot be assumed"),
    (Cause::Passing, INVALID, "does not have permissions to call"),
    (
        Cause::Passing,
        INVALID,
        "KMS key is invalid for CreateGrant",
    ),
    (
        Cause::Passing,
        "AccessDeniedException",
        "authorized to assume",
    ),
    // Functions in a VPC.
    (Cause::Passing, INVALID, THROTTLED_BY_EC2),
    // "Function already exist" has the same code.
    (
        Cause::InUse,
        "ResourceConflictException",
        "in the following state",
    ),
    (
        Cause::InUse,
        "ResourceConflictException",
        "update is in progress",
    ),
    // EC2 has no code of its own for a profile that it does not know yet.
    (
        Cause::NotFound,
        "InvalidParameterValue",
        "IAM Instance Profile",
    ),
    // Nor has it one for types that a plan leaves out.
    (Cause::Account, "", "not eligible for Free Tier"),
    // New accounts have functions of at most 3,008 MB.
    (Cause::Quota, "", "'MemorySize'"),
];

/// Lambda's answer where EC2 throttles the creation of network interfaces.
const THROTTLED_BY_EC2: &str = "throttled by EC2";

/// Time for which a refusal that passes is worth another attempt: roles and changes take seconds,
/// network interfaces minutes (the AWS provider of Terraform, `retryFunctionOp`).
const PATIENCE: [Duration; 2] = [Duration::from_secs(120), Duration::from_secs(600)];

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
    /// The lease was not renewed in time: what the run pays for is being removed.
    #[error(
        "the run's lease ended at {until}: this machine slept, or had no network\n  = help: what the run paid for is being removed; `run --resume` with its `--out` goes on with what is missing"
    )]
    LeaseEnded {
        /// When it ended.
        until: jiff::Timestamp,
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
    #[error("the instance {name} ended before {what}; EC2: {reason}; its log: {log}")]
    Ended {
        /// Name of the instance.
        name: String,
        /// Its work.
        what: String,
        /// Reason that EC2 states.
        reason: String,
        /// Last lines of its log, on one line.
        log: String,
    },
    /// What would be started next does not fit into the user's limit.
    #[error(
        "the spending limit is {limit_usd} USD: {spent_usd:.4} USD are spent, and what comes next may \
         cost {next_usd:.4} USD"
    )]
    SpendingLimit {
        /// Limit of `--max-usd`.
        limit_usd: f64,
        /// Spent, or reserved by what has not ended, US dollars.
        spent_usd: f64,
        /// Worst case of what comes next, US dollars.
        next_usd: f64,
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

    /// Returns how long a call that was refused so is repeated.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let [short, long] = PATIENCE;
        match self {
            Self::Call {
                cause: Cause::Passing,
                message,
                ..
            } if message.contains(THROTTLED_BY_EC2) => Some(long),
            Self::Call {
                cause: Cause::Passing,
                ..
            } => Some(short),
            _ => None,
        }
    }

    /// Returns whether an error belongs to one trial: its row records it, and the run continues.
    /// What is not known is one trial's.
    pub fn is_the_trials(&self) -> bool {
        match self {
            Self::Call { cause, .. } => !cause.is_everywhere(),
            Self::Incomplete { .. }
            | Self::Deadline { .. }
            | Self::Unusable { .. }
            | Self::Ended { .. } => true,
            Self::Journal { .. }
            | Self::LeaseEnded { .. }
            | Self::SpendingLimit { .. }
            | Self::Spent { .. }
            | Self::NotApproved { .. } => false,
        }
    }

    /// Returns a refusal that is part of a successful answer.
    pub(crate) fn refused(doing: &str, code: String, message: String) -> Self {
        Self::Call {
            doing: doing.to_owned(),
            cause: Cause::of_answer(&code, None, &message),
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

    /// What AWS answers has a cause of its own, by its message, its code or the kind of its code.
    #[test]
    fn answers_have_their_causes() {
        let plan = "The specified instance type is not eligible for Free Tier.";
        let memory = "'MemorySize' value failed to satisfy constraint: Member must have value less \
                      than or equal to 3008";
        let older = "1 validation error detected: Value '5120' at 'memorySize' failed to satisfy";
        let kms = "Lambda was unable to configure access to your environment variables because the \
                   KMS key is invalid for CreateGrant. KMS Message: ARN does not refer to a valid \
                   principal";
        let ec2 =
            "Your request has been throttled by EC2, please make sure you have enough API rate";
        let pending = "The operation cannot be performed at this time. The function is currently in \
                       the following state: Pending";
        let conflict = "ResourceConflictException";
        use Cause::{Account, Capacity, Exists, InUse, NotFound, Other, Passing};
        use Cause::{Quota, Settings, Throttled, Unrecognised};
        let known = [
            ("InvalidParameterCombination", 400, plan, Account),
            ("PendingVerification", 400, "", Account),
            ("NotSignedUp", 403, "", Account),
            ("RegionDisabledException", 403, "", Account),
            (INVALID, 400, memory, Quota),
            ("ValidationException", 400, older, Quota),
            (INVALID, 400, kms, Passing),
            (INVALID, 400, ec2, Passing),
            (INVALID, 400, "Unzipped size must be smaller", Other),
            (conflict, 409, pending, InUse),
            (conflict, 409, "Function already exist: f", Exists),
            ("MaxSpotInstanceCountExceeded", 400, "", Quota),
            ("VolumeLimitExceeded", 400, "", Quota),
            ("RulesPerSecurityGroupLimitExceeded", 400, "", Quota),
            ("ExecutionLimitExceeded", 400, "", Quota),
            ("ENILimitReachedException", 502, "", Quota),
            ("SubnetIPAddressLimitReachedException", 502, "", Quota),
            ("LimitExceededException", 400, "", Quota),
            ("Unsupported", 400, "", Capacity),
            ("InsufficientInstanceCapacity", 500, "", Capacity),
            ("InsufficientFreeAddressesInSubnet", 400, "", Capacity),
            ("ReservationCapacityExceeded", 400, "", Capacity),
            ("Client.RequestLimitExceeded", 503, "", Throttled),
            ("EC2ThrottledException", 502, "", Throttled),
            ("InvalidGroup.InUse", 400, "", InUse),
            ("InvalidVpcEndpointId.NotFound", 400, "", NotFound),
            ("OperationAborted", 409, "", Passing),
            ("EntityTemporarilyUnmodifiable", 409, "", Passing),
            ("RequestTooLargeException", 413, "", Settings),
            ("RequestTimeTooSkewed", 403, "", Unrecognised),
            ("InvalidParameterCombination", 400, "", Other),
        ];
        for (code, status, message, expected) in known {
            let cause = Cause::of_answer(code, Some(status), message);
            assert_eq!(cause, expected, "{code}: {message}");
        }
        // EC2 throttles for longer than a grant takes.
        for (message, seconds) in [(ec2, 600), (kms, 120)] {
            let refused = AwsError::Call {
                doing: "create a function".to_owned(),
                cause: Cause::Passing,
                code: INVALID.to_owned(),
                message: message.to_owned(),
            };
            assert_eq!(refused.patience(), Some(Duration::from_secs(seconds)));
        }
    }

    /// What no table knows ends its row; what every call would meet, and the user's limits, the run.
    #[test]
    fn unknown_refusals_are_the_trials() {
        let of = |code: &str| AwsError::refused("do", code.to_owned(), String::new());
        for (code, expected) in [
            ("NeverSeenBefore", true),
            ("VolumeLimitExceeded", true),
            ("AccessDenied", false),
            ("ExpiredToken", false),
        ] {
            assert_eq!(of(code).is_the_trials(), expected, "{code}");
        }
        let (limit_usd, spent_usd) = (1.0, 2.0);
        let spent = AwsError::Spent {
            limit_usd,
            spent_usd,
        };
        assert!(!spent.is_the_trials());
    }
}
