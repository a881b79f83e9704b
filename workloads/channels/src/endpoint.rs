//! Endpoints: address, credentials and options of a service in one URL.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::ChannelError;

/// Default time-out of one command: enough for 500 MB at 1.7 MB/s.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Time-out of connecting, unless the time-out of a command is shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Protocol and use of an endpoint: the scheme of its URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `redis`: a store or queue with the commands `TENSOR.*` or `QUEUE.*`: the
    /// embedded servers, or Redis with the module.
    Redis,
    /// `redis+plain`: unmodified Redis; the client fetches, computes and stores.
    RedisPlain,
    /// `redis+lua`: unmodified Redis; Lua scripts compute in it.
    RedisLua,
    /// `amqp`: RabbitMQ.
    Amqp,
    /// `http`: S3's path-style HTTP.
    Http,
    /// `https`: the same over TLS.
    Https,
    /// `s3`: S3 in the region that the host names, with the credentials that AWS
    /// gives the process: in the environment of a function, in the metadata of an instance.
    S3,
    /// `sqs`: SQS in the region that the host names, as the AWS SDK finds it.
    Sqs,
    /// `sqs+http`: a service that speaks SQS' protocol, at any address.
    SqsHttp,
    /// `sqs+https`: the same over TLS.
    SqsHttps,
}

impl Scheme {
    const ALL: [(&'static str, Self, Option<u16>); 10] = [
        ("redis", Self::Redis, Some(6379)),
        ("redis+plain", Self::RedisPlain, Some(6379)),
        ("redis+lua", Self::RedisLua, Some(6379)),
        ("amqp", Self::Amqp, Some(5672)),
        ("http", Self::Http, None),
        ("https", Self::Https, None),
        ("s3", Self::S3, None),
        ("sqs", Self::Sqs, None),
        ("sqs+http", Self::SqsHttp, None),
        ("sqs+https", Self::SqsHttps, None),
    ];

    /// Returns the name of the scheme in a URL.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, scheme, _)| *scheme == self)
            .map_or("", |(name, ..)| name)
    }
}

/// A password, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(Arc<str>);

impl Secret {
    /// Returns a password of 122 random bits, in letters and digits.
    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string().into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The address of a service with the credentials and limits of its client:
/// `SCHEME://USER:PASSWORD@HOST:PORT/PATH?OPTION=VALUE`, as `docs/FORMAT.md`
/// describes.
///
/// `Display` and `Debug` show neither password nor user.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub(crate) scheme: Scheme,
    pub(crate) user: String,
    pub(crate) password: Secret,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    /// Path, percent-decoded, without the leading slash.
    pub(crate) path: String,
    pub(crate) options: Options,
}

/// Options after the `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Longest time that one command may take.
    pub(crate) timeout: Duration,
    /// Size in bytes above which a value goes through the object store.
    pub(crate) limit_bytes: Option<u64>,
    /// Region in the signatures of S3 and SQS.
    pub(crate) region: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: TIMEOUT,
            limit_bytes: None,
            region: "us-east-1".into(),
        }
    }
}

impl Endpoint {
    /// Returns the scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the endpoint with another scheme: with `redis+plain`, a Redis that
    /// has the module is used as one that does not.
    #[must_use]
    pub fn with_scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }

    /// Returns the time-out of connecting.
    pub(crate) fn connect_timeout(&self) -> Duration {
        CONNECT_TIMEOUT.min(self.options.timeout)
    }

    /// Returns `HOST:PORT`, or `HOST` alone.
    pub(crate) fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// Returns the error for an endpoint that cannot serve as `service`.
    pub(crate) fn unsuited(&self, service: &'static str, schemes: &str) -> ChannelError {
        ChannelError::endpoint(format!(
            "{self} is no {service}: its scheme must be {schemes}"
        ))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority())?;
        if !self.path.is_empty() {
            write!(f, "/{}", self.path)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

impl FromStr for Endpoint {
    type Err = ChannelError;

    /// Parses an endpoint. The text may hold a password, so that an error repeats
    /// only its scheme, host and names of options.
    fn from_str(text: &str) -> Result<Self, ChannelError> {
        let url = Url::parse(text)
            .map_err(|error| ChannelError::endpoint(format!("it is no URL: {error}")))?;
        let found = Scheme::ALL.iter().find(|(name, ..)| *name == url.scheme());
        let Some((_, scheme, port)) = found else {
            let known: Vec<_> = Scheme::ALL.iter().map(|(name, ..)| *name).collect();
            return Err(ChannelError::endpoint(format!(
                "there is no scheme {:?}: use one of {}",
                url.scheme(),
                known.join(", ")
            )));
        };
        let host = url.host_str().unwrap_or_default();
        if host.is_empty() {
            return Err(ChannelError::endpoint("it names no host"));
        }
        if url.fragment().is_some() {
            return Err(ChannelError::endpoint("it has a fragment"));
        }
        Ok(Self {
            scheme: *scheme,
            user: decoded(url.username(), "user")?,
            password: Secret(decoded(url.password().unwrap_or_default(), "password")?.into()),
            host: host.to_owned(),
            port: url.port().or(*port),
            path: decoded(url.path().trim_start_matches('/'), "path")?,
            options: options(&url)?,
        })
    }
}

fn options(url: &Url) -> Result<Options, ChannelError> {
    let mut options = Options::default();
    for (name, value) in url.query_pairs() {
        let number = || {
            value
                .parse::<u64>()
                .ok()
                .filter(|number| *number > 0)
                .ok_or_else(|| {
                    ChannelError::endpoint(format!("{name} must be a whole number from 1"))
                })
        };
        match name.as_ref() {
            "timeout_s" => options.timeout = Duration::from_secs(number()?),
            "limit_bytes" => options.limit_bytes = Some(number()?),
            "region" => options.region = value.into_owned(),
            _ => {
                return Err(ChannelError::endpoint(format!(
                    "there is no option {name:?}: use timeout_s, limit_bytes or region"
                )));
            }
        }
    }
    Ok(options)
}

fn decoded(part: &str, name: &str) -> Result<String, ChannelError> {
    let text = percent_decode_str(part).decode_utf8();
    text.map(std::borrow::Cow::into_owned)
        .map_err(|_| ChannelError::endpoint(format!("its {name} is no UTF-8")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const CANARY: &str = "c4n4ry/ü@,";

    fn endpoint(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    #[test]
    fn every_part_is_read() {
        let found = endpoint(
            "amqp://us%2Fer:c4n4ry%2F%C3%BC%40%2C@broker:1234/v%2Fhost?timeout_s=7&limit_bytes=9",
        );
        assert_eq!(found.scheme, Scheme::Amqp);
        assert_eq!(found.user, "us/er");
        assert_eq!(found.password.reveal(), CANARY);
        assert_eq!(found.authority(), "broker:1234");
        assert_eq!(found.path, "v/host");
        assert_eq!(found.options.timeout, Duration::from_secs(7));
        assert_eq!(found.options.limit_bytes, Some(9));
        let found = endpoint("redis+plain://h");
        assert_eq!((found.port, found.path.as_str()), (Some(6379), ""));
        assert_eq!(endpoint("http://h/b").authority(), "h");
    }

    #[test]
    fn what_is_printed_holds_no_credentials() {
        let found = endpoint("http://canary-user:canary-secret@h:1/bucket?region=r");
        let text = format!("{found:?} {:?}", found.password);
        assert!(!text.contains("canary"), "{text}");
        assert_eq!(found.to_string(), "http://h:1/bucket");
    }

    #[test]
    fn errors_say_what_is_wrong_and_hold_no_credentials() {
        for (text, expected) in [
            ("canary", "no URL"),
            ("http://:canary@h:99999", "no URL"),
            ("ftp://:canary@h", "no scheme \"ftp\""),
            ("redis://:canary@", "no URL"),
            ("redis:canary", "no host"),
            ("redis://:canary@h?speed=canary", "no option \"speed\""),
            ("redis://:canary@h?timeout_s=canary", "timeout_s must be"),
            ("redis://:canary%ff@h", "its password is no UTF-8"),
            ("redis://:canary@h#canary", "a fragment"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(expected), "{text}: {shown}");
            assert!(!shown.contains("canary"), "{text}: {shown}");
        }
    }
}
