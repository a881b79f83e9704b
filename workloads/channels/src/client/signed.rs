//! Signatures (Version 4) of requests to AWS' APIs, with the credentials that AWS
//! gives the process.

use axum::http::Request;
use bytes::Bytes;
use object_store::aws::{AmazonS3Builder, AwsAuthorizer, AwsCredentialProvider};
use object_store::client::HttpRequest;

use crate::{ChannelError, Result};

/// Signer of requests to one region.
#[derive(Debug)]
pub struct Signer {
    credentials: AwsCredentialProvider,
    region: String,
}

impl Signer {
    /// Creates a signer with the credentials in the environment, as in a function,
    /// or else those of this instance. No request is sent yet.
    ///
    /// # Errors
    /// [`ChannelError::Endpoint`] when the environment is unusable.
    pub fn from_environment(region: &str) -> Result<Self> {
        super::http::use_ring();
        // The library's credential providers are private, and a store is the only way
        // to them. No request is sent to this bucket.
        let store = AmazonS3Builder::from_env()
            .with_region(region)
            .with_bucket_name("credentials")
            .with_allow_http(true)
            .build()
            .map_err(unusable)?;
        Ok(Self {
            credentials: store.credentials().clone(),
            region: region.to_owned(),
        })
    }

    /// Returns the headers of a signed POST of `body` to `url` of `service`,
    /// `headers` included.
    ///
    /// # Errors
    /// [`ChannelError::Endpoint`] when there are no credentials, or the request
    /// cannot be written.
    pub async fn headers(
        &self,
        service: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Vec<(String, String)>> {
        let credential = (self.credentials.get_credential().await).map_err(unusable)?;
        let mut request = Request::builder().method("POST").uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request: HttpRequest = request.body(body.into()).map_err(unusable)?;
        AwsAuthorizer::new(&credential, service, &self.region)
            .try_authorize(&mut request, None)
            .map_err(unusable)?;
        let signed = request.headers().iter();
        let signed = signed.map(|(name, value)| {
            let value = value.to_str().map_err(unusable);
            value.map(|value| (name.to_string(), value.to_owned()))
        });
        signed.collect()
    }
}

fn unusable(error: impl std::fmt::Display) -> ChannelError {
    ChannelError::endpoint(format!("a request to AWS cannot be signed: {error}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use object_store::StaticCredentialProvider;
    use object_store::aws::AwsCredential;

    use super::*;

    #[tokio::test]
    async fn a_request_names_its_region_service_and_session_and_no_secret() {
        let signer = Signer {
            credentials: std::sync::Arc::new(StaticCredentialProvider::new(AwsCredential {
                key_id: "AKID".into(),
                secret_key: "canary-secret".into(),
                token: Some("session".into()),
            })),
            region: "eu-west-1".into(),
        };
        let url = "https://lambda.eu-west-1.amazonaws.com/2015-03-31/functions/f/invocations";
        let given = [("x-amz-invocation-type", "Event")];
        let headers = signer.headers("lambda", url, &given, Bytes::from_static(b"{}"));
        let headers = headers.await.unwrap();
        let value = |name: &str| {
            let found = headers.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str()).unwrap()
        };
        let authorization = value("authorization");
        assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKID/"));
        assert!(authorization.contains("/eu-west-1/lambda/aws4_request"));
        assert!(authorization.contains("x-amz-invocation-type"));
        assert_eq!(value("x-amz-security-token"), "session");
        // SHA-256 of the two bytes.
        assert_eq!(
            value("x-amz-content-sha256"),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
        assert!(!format!("{headers:?}").contains("canary"));
    }
}
