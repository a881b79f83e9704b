//! Work that is asked of what was deployed.

use aws_sdk_lambda::operation::RequestId;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;

use crate::resource::call;
use crate::{AwsError, Clients};

/// Puts an event into a function's queue and returns the request's id, by which
/// the function's log knows the invocation. Nothing waits for its end: what
/// became of it is in the log.
///
/// # Errors
/// When Lambda does not take it.
pub async fn invoke(clients: &Clients, function: &str, event: Vec<u8>) -> Result<String, AwsError> {
    let doing = format!("invoke the function {function}");
    let request = clients
        .functions
        .invoke()
        .function_name(function)
        .invocation_type(InvocationType::Event)
        .payload(Blob::new(event));
    let answer = call!(&doing, request)?;
    let id = answer.request_id().map(ToOwned::to_owned);
    id.ok_or(AwsError::Incomplete {
        doing,
        what: "the request's id",
    })
}
