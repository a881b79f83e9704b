//! Finding and removing leftovers of runs, by tag and by name.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use crate::provision::is_same_account;
use crate::resource::{self, Address, Found, Holding, Kind};
use crate::{AwsError, Clients, Journal, RunId};

/// Number of requests at once.
const CONCURRENCY: usize = 8;
/// Time for which a run's lists are asked again for instances and endpoints whose creation was
/// under way: EC2's lists are behind by seconds ("Eventual consistency in the Amazon EC2 API").
pub const LISTS_LAG: Duration = Duration::from_secs(20);
/// Interval between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Selection of runs whose resources are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunFilter {
    /// All runs.
    AllRuns,
    /// One run.
    Run(RunId),
    /// Runs that expired before this time.
    ExpiredAt(Timestamp),
}

impl RunFilter {
    fn includes(&self, found: &Found) -> bool {
        match self {
            Self::AllRuns => true,
            Self::Run(run) => found.run == *run,
            Self::ExpiredAt(now) => found.expires.is_some_and(|expires| expires < *now),
        }
    }
}

/// Returns the resources in `regions`, in the order in which they must be removed.
///
/// # Errors
/// The first failed request: an incomplete list would read as "nothing is left".
pub async fn survey(
    clients: &Clients,
    regions: &[String],
    filter: &RunFilter,
) -> Result<Vec<Found>, AwsError> {
    let regional = Kind::ALL.into_iter().filter(|kind| !kind.is_global());
    let regional = regions.iter().flat_map(|region| {
        regional
            .clone()
            .map(move |kind| (kind, clients.in_region(region)))
    });
    let global = Kind::ALL.into_iter().filter(|kind| kind.is_global());
    let global = global.map(|kind| (kind, clients.clone()));
    let requests: Vec<_> = global.chain(regional).collect();
    let found: Vec<Vec<Found>> = stream::iter(requests)
        .map(|(kind, clients)| async move { resource::list(kind, &clients).await })
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await?;
    let mut found: Vec<Found> = (found.into_iter().flatten())
        .filter(|found| filter.includes(found))
        .collect();
    found.sort_by(|a, b| {
        (a.address
            .kind
            .removal_order()
            .cmp(&b.address.kind.removal_order()))
        .then_with(|| (&a.region, &a.address.name).cmp(&(&b.region, &b.address.name)))
    });
    Ok(found)
}

/// Result of removing resources.
#[derive(Debug, Default)]
pub struct Removal {
    /// Removed resources.
    pub removed: Vec<Found>,
    /// Resources that could not be removed, each with the reason.
    pub leftovers: Vec<(Found, AwsError)>,
}

/// Removes everything in `found`, in its order, and goes on after a failure.
pub async fn remove_all(found: Vec<Found>, clients: &Clients) -> Removal {
    let mut removal = Removal::default();
    resource::terminate_instances(&found, clients).await;
    for found in found {
        if let Some(error) = still_needed(&found, &removal.leftovers) {
            removal.leftovers.push((found, error));
            continue;
        }
        let there = clients.in_region(&found.region);
        match resource::remove(&found, &there).await {
            Ok(()) => removal.removed.push(found),
            Err(error) => removal.leftovers.push((found, error)),
        }
    }
    removal
}

/// Returns why a role must stay: Lambda removes network interfaces of deleted functions
/// under their role. Without it, subnet and security group would stay for good.
fn still_needed(found: &Found, leftovers: &[(Found, AwsError)]) -> Option<AwsError> {
    let is_in_use = |(leftover, _): &&(Found, AwsError)| {
        leftover.run == found.run
            && matches!(leftover.address.kind, Kind::SecurityGroup | Kind::Subnet)
    };
    if found.address.kind != Kind::Role {
        return None;
    }
    let (in_use, _) = leftovers.iter().find(is_in_use)?;
    Some(AwsError::Unusable {
        problem: format!(
            "the {} stays as long as the {}: Lambda removes its network interfaces under it",
            found.address, in_use.address
        ),
        remedy: "`epochcost aws clean` again later".to_owned(),
    })
}

/// Removes everything of a run, by its journal and by its tags, including resources whose
/// creation was under way when the process that wrote the journal died.
///
/// # Errors
/// When the journal is of another account, or a request failed.
pub async fn tear_down(clients: &Clients, journal: &mut Journal) -> Result<Removal, AwsError> {
    tear_down_within(clients, journal, LISTS_LAG).await
}

/// Does the same where lists are behind by `lag` at most.
///
/// # Errors
/// As [`tear_down`].
pub async fn tear_down_within(
    clients: &Clients,
    journal: &mut Journal,
    lag: Duration,
) -> Result<Removal, AwsError> {
    is_same_account(clients, journal).await?;
    let held = journal.outstanding().clone();
    let found = find(clients, journal, &held, lag).await?;
    let removal = remove_all(found, clients).await;
    let leftovers: BTreeSet<&Address> = removal
        .leftovers
        .iter()
        .map(|(found, _)| &found.address)
        .collect();
    let gone = journal
        .outstanding()
        .iter()
        .filter(|address| !leftovers.contains(address));
    for address in gone.cloned().collect::<Vec<_>>() {
        journal.removed(&address)?;
    }
    Ok(removal)
}

/// Returns everything of the journal's run that exists, in the order of removal. What is paid by
/// the second or the hour, is at one of the addresses `held` and is in no list is not taken for
/// gone: the journal may have its id, and what was on its way is looked for again for `lag`.
async fn find(
    clients: &Clients,
    journal: &Journal,
    held: &BTreeSet<Address>,
    lag: Duration,
) -> Result<Vec<Found>, AwsError> {
    let scope = journal.scope();
    let (regions, filter) = ([scope.region.clone()], RunFilter::Run(scope.run.clone()));
    let since = Instant::now();
    let mut found = survey(clients, &regions, &filter).await?;
    loop {
        let is_listed = |address: &&Address| found.iter().any(|found| found.address == **address);
        let unlisted: Vec<&Address> = (held.iter())
            .filter(|address| matches!(address.kind, Kind::Instance | Kind::Endpoint))
            .filter(|address| !is_listed(address))
            .collect();
        let on_its_way = (unlisted.iter()).any(|address| journal.id(address).is_none());
        if !on_its_way || since.elapsed() >= lag {
            let by_id = unlisted.into_iter().filter_map(|address| {
                let id = journal.id(address)?.to_owned();
                Some(known(address, id, journal))
            });
            let by_id: Vec<Found> = by_id.collect();
            found.extend(by_id);
            found.sort_by_key(|found| found.address.kind.removal_order());
            return Ok(found);
        }
        sleep(LOOK_INTERVAL).await;
        found = survey(clients, &regions, &filter).await?;
    }
}

/// Returns a resource that the journal knows and no list has.
fn known(address: &Address, id: String, journal: &Journal) -> Found {
    let scope = journal.scope();
    Found {
        address: address.clone(),
        region: scope.region.clone(),
        id,
        run: scope.run.clone(),
        expires: Some(scope.expires),
        holding: Holding::Free,
    }
}

/// Removes the resources of a run at `addresses`: those of one trial, at its end.
///
/// # Errors
/// When a request failed, or the journal cannot be written.
pub async fn remove(
    clients: &Clients,
    journal: &mut Journal,
    addresses: &BTreeSet<Address>,
) -> Result<Removal, AwsError> {
    let held: BTreeSet<Address> = (addresses.iter())
        .filter(|address| journal.outstanding().contains(address))
        .cloned()
        .collect();
    let mut found = find(clients, journal, &held, LISTS_LAG).await?;
    found.retain(|found| addresses.contains(&found.address));
    let removal = remove_all(found, clients).await;
    let leftovers: BTreeSet<&Address> = (removal.leftovers.iter())
        .map(|(found, _)| &found.address)
        .collect();
    for address in addresses
        .iter()
        .filter(|address| !leftovers.contains(address))
    {
        if journal.outstanding().contains(address) {
            journal.removed(address)?;
        }
    }
    Ok(removal)
}

/// Prices of resources that exist without being used.
pub trait HoldingPrices {
    /// Returns US dollars per hour of an instance type.
    ///
    /// # Errors
    /// When there is no price for it.
    fn instance_hour(&self, instance_type: &str) -> Result<f64, String>;
    /// Returns US dollars per gigabyte of objects and month.
    ///
    /// # Errors
    /// When there is no price for it.
    fn object_gb_month(&self) -> Result<f64, String>;
    /// Returns US dollars per gigabyte of logs and month.
    ///
    /// # Errors
    /// When there is no price for it.
    fn log_gb_month(&self) -> Result<f64, String>;
    /// Returns US dollars per gigabyte of volumes and month.
    ///
    /// # Errors
    /// When there is no price for it.
    fn volume_gb_month(&self) -> Result<f64, String>;
    /// Returns US dollars per hour of an interface endpoint.
    ///
    /// # Errors
    /// When there is no price for it.
    fn endpoint_hour(&self) -> Result<f64, String>;
}

/// Hours per month in AWS' monthly figures.
const MONTH_HOURS: f64 = 730.0;
const GIB: f64 = (1u64 << 30) as f64;

/// Returns US dollars per month of a resource that stays as it is.
///
/// # Errors
/// When it has no price: unknown is not free.
pub fn monthly_usd(holding: &Holding, prices: &dyn HoldingPrices) -> Result<f64, String> {
    Ok(match holding {
        Holding::Free => 0.0,
        Holding::ObjectBytes(bytes) => *bytes as f64 / GIB * prices.object_gb_month()?,
        Holding::LogBytes(bytes) => *bytes as f64 / GIB * prices.log_gb_month()?,
        Holding::VolumeGb(gb) => *gb as f64 * prices.volume_gb_month()?,
        Holding::Endpoint => MONTH_HOURS * prices.endpoint_hour()?,
        Holding::Instance(kind) => MONTH_HOURS * prices.instance_hour(kind)?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct FixedPrices;

    impl HoldingPrices for FixedPrices {
        fn instance_hour(&self, kind: &str) -> Result<f64, String> {
            match kind {
                "g4dn.xlarge" => Ok(0.526),
                other => Err(format!("no price for {other}")),
            }
        }
        fn object_gb_month(&self) -> Result<f64, String> {
            Ok(0.023)
        }
        fn log_gb_month(&self) -> Result<f64, String> {
            Ok(0.03)
        }
        fn volume_gb_month(&self) -> Result<f64, String> {
            Ok(0.08)
        }
        fn endpoint_hour(&self) -> Result<f64, String> {
            Ok(0.01)
        }
    }

    #[test]
    fn what_is_left_costs_what_aws_would_charge() {
        let usd = |holding| monthly_usd(&holding, &FixedPrices).unwrap();
        assert_eq!(usd(Holding::Free), 0.0);
        assert!((usd(Holding::Instance("g4dn.xlarge".into())) - 383.98).abs() < 1e-9);
        assert!((usd(Holding::ObjectBytes(3 << 30)) - 0.069).abs() < 1e-12);
        assert!((usd(Holding::LogBytes(1 << 29)) - 0.015).abs() < 1e-12);
        assert!((usd(Holding::VolumeGb(8)) - 0.64).abs() < 1e-12);
        assert!((usd(Holding::Endpoint) - 7.3).abs() < 1e-12);
        assert!(monthly_usd(&Holding::Instance("x9.mega".into()), &FixedPrices).is_err());
    }
}
