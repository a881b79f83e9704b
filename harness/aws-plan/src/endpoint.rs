//! Services that a run reaches through VPC endpoints.

use std::collections::BTreeSet;

use epochcost_systems::SystemError;

use crate::Training;

/// Service of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointService {
    /// S3, through a gateway endpoint: a route, which is free.
    Objects,
    /// Lambda, through an interface endpoint.
    Functions,
    /// Step Functions, through an interface endpoint.
    Workflows,
}

impl EndpointService {
    /// Returns whether the endpoint is charged per hour and per gigabyte.
    pub fn is_interface(self) -> bool {
        self != Self::Objects
    }

    /// Returns the service's name in a region.
    pub fn name(self, region: &str) -> String {
        format!("com.amazonaws.{region}.{}", self.service())
    }

    /// Returns the last part of the service's name.
    fn service(self) -> &'static str {
        match self {
            Self::Objects => "s3",
            Self::Functions => "lambda",
            Self::Workflows => "states",
        }
    }
}

/// Returns the services that a run of these rows reaches through endpoints; none without a
/// network.
///
/// # Errors
/// When a row's settings are invalid for its system.
pub fn endpoints(rows: &[Training]) -> Result<BTreeSet<EndpointService>, SystemError> {
    let mut services = BTreeSet::new();
    for row in rows {
        if row.service_hosts()? == 0 {
            continue;
        }
        services.insert(EndpointService::Objects);
        if !row.calls()?.is_empty() {
            services.insert(EndpointService::Functions);
        }
        if row.transitions()? > 0 {
            services.insert(EndpointService::Workflows);
        }
    }
    Ok(services)
}
