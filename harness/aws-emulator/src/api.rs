//! What the emulated APIs share: the account, errors, and the content of request headers.

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Account of everything emulated: the one that moto uses.
pub(crate) const ACCOUNT: &str = "123456789012";

/// Error in the form in which AWS' services answer it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.code {
            "ResourceNotFoundException" => StatusCode::NOT_FOUND,
            "ResourceConflictException" => StatusCode::CONFLICT,
            "ServiceException" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        let body = json!({ "__type": self.code, "message": self.message, "Message": self.message });
        (status, [("x-amzn-errortype", self.code)], body.to_string()).into_response()
    }
}

/// Returns a header's text, if it has one.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns the region that a request was signed for.
pub(crate) fn region(headers: &HeaderMap) -> String {
    let signed = header(headers, "authorization").and_then(|authorization| {
        let scope = authorization.split_once("Credential=")?.1;
        scope.split('/').nth(2)
    });
    signed.unwrap_or("us-east-1").to_owned()
}
