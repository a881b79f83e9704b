//! External servers, which the user runs: their addresses come from environment
//! variables, since they contain passwords.

use std::{env, fmt};

use epochcost_channels::{ChannelError, Endpoint, Scheme};
use epochcost_environment::user::{REAL_RABBITMQ, REAL_REDIS, REAL_S3};

use crate::PlatformError;

/// Addresses of servers that the user runs.
#[derive(Clone, Default)]
pub(super) struct ExternalServers {
    /// One Redis per peer, as `redis://:PASSWORD@HOST:PORT`.
    pub(super) redis: Vec<String>,
    /// `amqp://USER:PASSWORD@HOST:PORT/VHOST`.
    pub(super) rabbitmq: Option<String>,
    /// `http://ACCESS_KEY:SECRET_KEY@HOST:PORT/BUCKET`.
    pub(super) s3: Option<String>,
}

impl ExternalServers {
    /// Returns the addresses in the environment.
    ///
    /// # Errors
    /// [`PlatformError::Lacks`] where an address is not one of its service.
    pub(super) fn read() -> Result<Self, PlatformError> {
        Self::from(|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from(variable: impl Fn(&str) -> Option<String>) -> Result<Self, PlatformError> {
        let redis = variable(REAL_REDIS).unwrap_or_default();
        let redis = redis.split(',').filter(|address| !address.is_empty());
        let external = Self {
            redis: redis.map(str::to_owned).collect(),
            rabbitmq: variable(REAL_RABBITMQ),
            s3: variable(REAL_S3),
        };
        for address in &external.redis {
            suits(REAL_REDIS, address, &[Scheme::Redis], false)?;
        }
        if let Some(address) = &external.rabbitmq {
            suits(REAL_RABBITMQ, address, &[Scheme::Amqp], false)?;
        }
        if let Some(address) = &external.s3 {
            suits(REAL_S3, address, &[Scheme::Http, Scheme::Https], true)?;
        }
        Ok(external)
    }
}

/// Prints no address, since addresses contain passwords.
impl fmt::Debug for ExternalServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalServers")
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
    let endpoint: Endpoint =
        (address.parse()).map_err(|error: ChannelError| refuse(error.to_string()))?;
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
    use super::*;

    fn read_with(name: &'static str, value: &'static str) -> Result<ExternalServers, String> {
        ExternalServers::from(|asked| (asked == name).then(|| value.to_owned()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_are_read() {
        let found = read_with(REAL_REDIS, "redis://:a@h:1,redis://:b@h:2").unwrap();
        assert_eq!(found.redis, ["redis://:a@h:1", "redis://:b@h:2"]);
        assert!(found.rabbitmq.is_none() && found.s3.is_none());
        assert!(read_with(REAL_S3, "http://key:secret@h:9000/bucket").is_ok());
        assert_eq!(format!("{found:?}"), "ExternalServers");
    }

    #[test]
    fn an_address_of_another_service_is_refused_without_its_password() {
        for (name, value) in [
            (REAL_REDIS, "amqp://u:canary@h:1"),
            (REAL_RABBITMQ, "redis://:canary@h:1"),
            (REAL_S3, "http://k:canary@h:1"),
            (REAL_S3, "canary"),
        ] {
            let error = read_with(name, value).unwrap_err();
            assert!(error.contains(name), "{error}");
            assert!(!error.contains("canary"), "{error}");
        }
    }
}
