//! One client per service, configured by the SDK's own conventions.

use std::fmt;
use std::sync::Arc;

use aws_config::{BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_sdk_s3::config::interceptors::{
    BeforeSerializationInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_s3::config::{Intercept, RuntimeComponents};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_types::config_bag::ConfigBag;
use aws_types::service_config::ServiceConfigKey;

use crate::{AwsError, RunId, Scope};

/// Call of an API, by AWS' names of service and operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The service, such as `S3`.
    pub service: String,
    /// The operation, such as `CreateBucket`.
    pub operation: String,
}

/// Observer of every call, before it is sent and after it is answered.
pub trait Observer: Send + Sync {
    /// Runs before the first attempt.
    fn before(&self, _call: &Call) {}
    /// Runs after the last attempt, whatever its outcome.
    fn after(&self, _call: &Call) {}
}

/// Clients of one region's services.
#[derive(Clone)]
pub struct Clients {
    config: SdkConfig,
    interceptor: Option<ObserverInterceptor>,
    region: String,
    pub(crate) buckets: aws_sdk_s3::Client,
    pub(crate) instances: aws_sdk_ec2::Client,
    pub(crate) roles: aws_sdk_iam::Client,
    pub(crate) functions: aws_sdk_lambda::Client,
    pub(crate) logs: aws_sdk_cloudwatchlogs::Client,
    pub(crate) metrics: aws_sdk_cloudwatch::Client,
    pub(crate) states: aws_sdk_sfn::Client,
    pub(crate) identity: aws_sdk_sts::Client,
    pub(crate) quotas: aws_sdk_servicequotas::Client,
}

/// Identity of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Number of the account.
    pub account: String,
    /// ARN of the caller.
    pub arn: String,
}

/// Services that trials use, by the ids under which endpoints are configured.
const SERVICES: [&str; 8] = [
    "S3",
    "EC2",
    "IAM",
    "Lambda",
    "CloudWatch Logs",
    "CloudWatch",
    "SFN",
    "STS",
];

/// Returns whether the host of a URL is in a domain of AWS, such as that of a private endpoint.
fn is_aws(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split(['/', ':', '?']).next().unwrap_or_default();
    let domains = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"];
    domains.iter().any(|domain| host.ends_with(domain))
}

/// Returns the SDK's own configuration with the TLS library of this program: the SDK's
/// default would add a second cryptography library.
pub fn configuration() -> ConfigLoader {
    let tls = Provider::Rustls(CryptoMode::Ring);
    let http = aws_smithy_http_client::Builder::new().tls_provider(tls);
    aws_config::defaults(BehaviorVersion::latest()).http_client(http.build_https())
}

macro_rules! client {
    ($service:ident, $config:expr, $interceptor:expr) => {{
        let mut builder = $service::config::Builder::from($config);
        if let Some(interceptor) = $interceptor {
            builder = builder.interceptor(interceptor.clone());
        }
        $service::Client::from_conf(builder.build())
    }};
}

impl Clients {
    /// Loads the configuration by the SDK's own conventions: environment, profiles, SSO,
    /// instance roles, endpoint overrides; in `region`, or in the configured one.
    ///
    /// # Errors
    /// When no region is known.
    pub async fn load(region: Option<&str>) -> Result<Self, AwsError> {
        let mut loader = configuration();
        if let Some(region) = region {
            loader = loader.region(Region::new(region.to_owned()));
        }
        Self::new(loader.load().await, None)
    }

    /// Creates clients of a configuration; `observer` sees every call.
    ///
    /// # Errors
    /// When it has no region.
    pub fn new(config: SdkConfig, observer: Option<Arc<dyn Observer>>) -> Result<Self, AwsError> {
        let Some(region) = config.region().map(ToString::to_string) else {
            return Err(AwsError::Unusable {
                problem: "no AWS region is configured".to_owned(),
                remedy: "set AWS_REGION, or `region` in the profile".to_owned(),
            });
        };
        Ok(Self::from_config(
            config,
            observer.map(ObserverInterceptor),
            region,
        ))
    }

    fn from_config(
        config: SdkConfig,
        interceptor: Option<ObserverInterceptor>,
        region: String,
    ) -> Self {
        let (c, i) = (&config, &interceptor);
        Self {
            buckets: client!(aws_sdk_s3, c, i),
            instances: client!(aws_sdk_ec2, c, i),
            roles: client!(aws_sdk_iam, c, i),
            functions: client!(aws_sdk_lambda, c, i),
            logs: client!(aws_sdk_cloudwatchlogs, c, i),
            metrics: client!(aws_sdk_cloudwatch, c, i),
            states: client!(aws_sdk_sfn, c, i),
            identity: client!(aws_sdk_sts, c, i),
            quotas: client!(aws_sdk_servicequotas, c, i),
            region,
            interceptor,
            config,
        }
    }

    /// Returns whether an endpoint outside AWS's domains is configured, for one service or all of them:
    /// an emulator's.
    pub fn is_rehearsal(&self) -> bool {
        let of_service = |service| {
            let key = ServiceConfigKey::builder().service_id(service);
            let key = key.env("AWS_ENDPOINT_URL").profile("endpoint_url").build();
            self.config.service_config()?.load_config(key.ok()?)
        };
        let of_all = self.config.endpoint_url().map(str::to_owned);
        let mut endpoints = SERVICES.into_iter().filter_map(of_service).chain(of_all);
        endpoints.any(|url| !is_aws(&url))
    }

    /// Returns clients of the same account in another region.
    pub fn in_region(&self, region: &str) -> Self {
        let builder = self.config.to_builder();
        let config = builder.region(Region::new(region.to_owned())).build();
        Self::from_config(config, self.interceptor.clone(), region.to_owned())
    }

    /// Returns the region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Returns the identity of the caller.
    ///
    /// # Errors
    /// When there are no usable credentials.
    pub async fn identity(&self) -> Result<Identity, AwsError> {
        let doing = "ask who is calling";
        let answer = self.identity.get_caller_identity().send().await;
        let answer = answer.map_err(|error| AwsError::of(doing, error))?;
        match (answer.account, answer.arn) {
            (Some(account), Some(arn)) => Ok(Identity { account, arn }),
            _ => Err(AwsError::Incomplete {
                doing: doing.to_owned(),
                what: "the account and the ARN",
            }),
        }
    }

    /// Returns the scope of a new run in this account and region.
    ///
    /// # Errors
    /// When there are no usable credentials.
    pub async fn scope(&self, run: RunId, expires: jiff::Timestamp) -> Result<Scope, AwsError> {
        let Identity { account, arn } = self.identity().await?;
        Ok(Scope {
            run,
            partition: arn.split(':').nth(1).unwrap_or("aws").to_owned(),
            account,
            region: self.region.clone(),
            expires,
        })
    }

    /// Returns every region that the account has enabled, sorted.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn regions(&self) -> Result<Vec<String>, AwsError> {
        let answer = self.instances.describe_regions().send().await;
        let answer = answer.map_err(|error| AwsError::of("list the account's regions", error))?;
        let mut regions: Vec<String> = (answer.regions.unwrap_or_default().into_iter())
            .filter_map(|region| region.region_name)
            .collect();
        regions.sort();
        Ok(regions)
    }
}

impl fmt::Debug for Clients {
    /// Leaves out the configuration, which contains credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Clients");
        debug.field("region", &self.region).finish_non_exhaustive()
    }
}

/// Interceptor that reports the calls of every client to an observer.
#[derive(Clone)]
struct ObserverInterceptor(Arc<dyn Observer>);

impl fmt::Debug for ObserverInterceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObserverInterceptor")
    }
}

/// Returns the names of the current call.
fn call(bag: &ConfigBag) -> Call {
    let named = bag.load::<Metadata>();
    Call {
        service: named.map_or("unknown", Metadata::service).to_owned(),
        operation: named.map_or("unknown", Metadata::name).to_owned(),
    }
}

impl Intercept for ObserverInterceptor {
    fn name(&self) -> &'static str {
        "epochcost::ObserverInterceptor"
    }

    /// Reports the call here and not before the execution, where the operation has no
    /// name yet.
    fn read_before_serialization(
        &self,
        _context: &BeforeSerializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.before(&call(bag));
        Ok(())
    }

    fn read_after_execution(
        &self,
        _context: &FinalizerInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.after(&call(bag));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_endpoints_are_aws_s_and_emulators_are_not() {
        for (url, expected) in [
            ("https://s3.cn-north-1.amazonaws.com.cn/", true),
            ("https://lambda.eu-west-1.api.aws:443/x", true),
            ("https://b.vpce-1a.s3.us-east-1.vpce.amazonaws.com", true),
            ("http://127.0.0.1:5000", false),
            ("https://amazonaws.com.example.org", false),
            ("https://example.org/.amazonaws.com", false),
        ] {
            assert_eq!(is_aws(url), expected, "{url}");
        }
    }
}
