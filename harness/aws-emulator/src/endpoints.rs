//! Endpoints of the emulated cloud, as functions and instances find them.

/// Endpoints of the emulated cloud, `http://HOST:PORT`.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints {
    /// Backend, for all other services.
    pub(crate) backend: String,
    /// S3.
    pub(crate) objects: String,
    /// Lambda, Step Functions and CloudWatch.
    pub(crate) own: String,
}

impl Endpoints {
    /// Returns the AWS SDK's variables for the endpoints, for functions and instances.
    pub(crate) fn variables(&self) -> [(&'static str, &str); 4] {
        [
            ("AWS_ENDPOINT_URL", &self.backend),
            ("AWS_ENDPOINT_URL_S3", &self.objects),
            ("AWS_ENDPOINT_URL_LAMBDA", &self.own),
            ("AWS_ENDPOINT_URL_SFN", &self.own),
        ]
    }
}
