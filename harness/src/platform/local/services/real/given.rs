//! Servers that run already and are used, not started: named in the
//! environment, since their addresses hold passwords.

use std::{env, fmt};

use epochcost_channels::{Endpoint, Scheme};
use epochcost_environment::user;

use crate::platform::PlatformError;

/// The addresses of servers that the user runs.
#[derive(Clone, Default)]
pub(super) struct Given {
    /// A Redis a peer, as `redis://:PASSWORD@HOST:PORT`.
    pub(super) redis: Vec<String>,
    /// `amqp://USER:PASSWORD@HOST:PORT/VHOST`.
    pub(super) rabbitmq: Option<String>,
    /// `http://ACCESS_KEY:SECRET_KEY@HOST:PORT/BUCKET`.
    pub(super) s3: Option<String>,
}

impl Given {
    /// Of a Redis for each peer, parted by commas.
    pub(super) const REDIS: &str = user::REAL_REDIS;
    /// Of RabbitMQ.
    pub(super) const RABBITMQ: &str = user::REAL_RABBITMQ;
    /// Of an S3-compatible server, with the bucket to use.
    pub(super) const S3: &str = user::REAL_S3;

    /// What the environment says.
    ///
    /// # Errors
    /// [`PlatformError::Lacks`] where an address is none of its service.
    pub(super) fn read() -> Result<Self, PlatformError> {
        Self::from(|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from(variable: impl Fn(&str) -> Option<String>) -> Result<Self, PlatformError> {
        let redis = variable(Self::REDIS).unwrap_or_default();
        let redis = redis.split(',').filter(|address| !address.is_empty());
        let given = Self {
            redis: redis.map(str::to_owned).collect(),
            rabbitmq: variable(Self::RABBITMQ),
            s3: variable(Self::S3),
        };
        for address in &given.redis {
            suits(Self::REDIS, address, &[Scheme::Redis], false)?;
        }
        if let Some(address) = &given.rabbitmq {
            suits(Self::RABBITMQ, address, &[Scheme::Amqp], false)?;
        }
        if let Some(address) = &given.s3 {
            suits(Self::S3, address, &[Scheme::Http, Scheme::Https], true)?;
        }
        Ok(given)
    }
}

/// Names no address, since it holds a password.
impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Given")
    }
}

fn suits(
    variable: &str,
    address: &str,
    schemes: &[Scheme],
    needs_path: bool,
) -> Result<(), PlatformError> {
    let refuse = |problem: String| PlatformError::Lacks {
        what: format!("a usable address in {variable}: {problem}"),
        remedy: format!("correct {variable}, or leave it out to have a server started"),
    };
    let endpoint: Endpoint = address
        .parse()
        .map_err(|error: epochcost_channels::ChannelError| refuse(error.to_string()))?;
    if !schemes.contains(&endpoint.scheme()) {
        let names: Vec<&str> = schemes.iter().map(|scheme| scheme.name()).collect();
        return Err(refuse(format!(
            "{endpoint} must begin with {}://",
            names.join(":// or ")
        )));
    }
    // Printed, it is SCHEME://HOST:PORT/PATH.
    if needs_path && endpoint.to_string().matches('/').count() < 3 {
        return Err(refuse(format!("{endpoint} names no bucket")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn given(name: &'static str, value: &'static str) -> Result<Given, String> {
        Given::from(|asked| (asked == name).then(|| value.to_owned()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_are_read() {
        let found = given(Given::REDIS, "redis://:a@h:1,redis://:b@h:2").unwrap();
        assert_eq!(found.redis, ["redis://:a@h:1", "redis://:b@h:2"]);
        assert!(found.rabbitmq.is_none() && found.s3.is_none());
        assert!(given(Given::S3, "http://key:secret@h:9000/bucket").is_ok());
        assert!(!format!("{found:?}").contains('a'), "{found:?}");
    }

    #[test]
    fn an_address_of_another_service_is_refused_without_its_password() {
        for (name, value) in [
            (Given::REDIS, "amqp://u:canary@h:1"),
            (Given::RABBITMQ, "redis://:canary@h:1"),
            (Given::S3, "http://k:canary@h:1"),
            (Given::S3, "canary"),
        ] {
            let error = given(name, value).unwrap_err();
            assert!(error.contains(name), "{error}");
            assert!(!error.contains("canary"), "{error}");
        }
    }
}
