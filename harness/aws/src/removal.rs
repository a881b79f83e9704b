//! Finding what is left of runs, by tag and by name, and taking it away.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use jiff::Timestamp;

use crate::provision::is_same_account;
use crate::resource::{self, Address, Found, Holding, Kind};
use crate::{AwsError, Clients, Journal, RunId};

/// Regions asked at a time.
const AT_A_TIME: usize = 8;

/// Whose resources are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Every run's.
    AllRuns,
    /// One run's.
    Run(RunId),
    /// Every run's that expired before then.
    ExpiredAt(Timestamp),
}

impl Whose {
    fn includes(&self, found: &Found) -> bool {
        match self {
            Self::AllRuns => true,
            Self::Run(run) => found.run == *run,
            Self::ExpiredAt(now) => found.expires.is_some_and(|expires| expires < *now),
        }
    }
}

/// What is there in `regions`, in the order in which it must be removed.
///
/// # Errors
/// The first service that could not be asked: a list that lacks something
/// would read as "nothing is left".
pub async fn survey(
    clients: &Clients,
    regions: &[String],
    whose: &Whose,
) -> Result<Vec<Found>, AwsError> {
    let regional = Kind::ALL.into_iter().filter(|kind| !kind.is_global());
    let regional = regions.iter().flat_map(|region| {
        regional
            .clone()
            .map(move |kind| (kind, clients.in_region(region)))
    });
    let global = Kind::ALL.into_iter().filter(|kind| kind.is_global());
    let global = global.map(|kind| (kind, clients.clone()));
    let asked: Vec<_> = global.chain(regional).collect();
    let found: Vec<Vec<Found>> = stream::iter(asked)
        .map(|(kind, clients)| async move { resource::list(kind, &clients).await })
        .buffer_unordered(AT_A_TIME)
        .try_collect()
        .await?;
    let mut found: Vec<Found> = (found.into_iter().flatten())
        .filter(|found| whose.includes(found))
        .collect();
    found.sort_by(|a, b| {
        (b.address.kind.cmp(&a.address.kind))
            .then_with(|| (&a.region, &a.address.name).cmp(&(&b.region, &b.address.name)))
    });
    Ok(found)
}

/// What removing came to.
#[derive(Debug, Default)]
pub struct Removed {
    /// What is gone.
    pub gone: Vec<Found>,
    /// What refused, and why.
    pub left: Vec<(Found, AwsError)>,
}

/// Removes everything in `found`, in its order. A refusal keeps nothing else
/// from being removed.
pub async fn remove_all(found: Vec<Found>, clients: &Clients) -> Removed {
    let mut removed = Removed::default();
    for found in found {
        if let Some(error) = still_needed(&found, &removed.left) {
            removed.left.push((found, error));
            continue;
        }
        let there = clients.in_region(&found.region);
        match resource::remove(&found, &there).await {
            Ok(()) => removed.gone.push(found),
            Err(error) => removed.left.push((found, error)),
        }
    }
    removed
}

/// Lambda takes network interfaces of functions that are gone away under their
/// role: without it, what they hold would stay for good.
fn still_needed(found: &Found, left: &[(Found, AwsError)]) -> Option<AwsError> {
    let is_held = |(left, _): &&(Found, AwsError)| {
        left.run == found.run && matches!(left.address.kind, Kind::SecurityGroup | Kind::Subnet)
    };
    if found.address.kind != Kind::Role {
        return None;
    }
    let (held, _) = left.iter().find(is_held)?;
    Some(AwsError::Unusable {
        problem: format!(
            "the {} stays as long as the {}: Lambda removes its network interfaces under it",
            found.address, held.address
        ),
        remedy: "`epochcost clean` again later".to_owned(),
    })
}

/// Removes everything of a run, by its journal and by its tags: also what the
/// process that wrote the journal had asked for when it died.
///
/// # Errors
/// When the journal's account is another, or a service could not be asked.
pub async fn tear_down(clients: &Clients, journal: &mut Journal) -> Result<Removed, AwsError> {
    is_same_account(clients, journal).await?;
    let scope = journal.scope().clone();
    let found = survey(clients, &[scope.region], &Whose::Run(scope.run)).await?;
    let removed = remove_all(found, clients).await;
    let left: BTreeSet<&Address> = removed
        .left
        .iter()
        .map(|(found, _)| &found.address)
        .collect();
    let gone = journal.held().iter().filter(|held| !left.contains(held));
    for address in gone.cloned().collect::<Vec<_>>() {
        journal.removed(&address)?;
    }
    Ok(removed)
}

/// Removes those resources of a run that are at `addresses`: what was made for
/// one trial, when the trial is over.
///
/// # Errors
/// When a service could not be asked, or the journal cannot be written.
pub async fn remove(
    clients: &Clients,
    journal: &mut Journal,
    addresses: &BTreeSet<Address>,
) -> Result<Removed, AwsError> {
    let scope = journal.scope().clone();
    let mut found = survey(clients, &[scope.region], &Whose::Run(scope.run)).await?;
    found.retain(|found| addresses.contains(&found.address));
    let removed = remove_all(found, clients).await;
    let left: BTreeSet<&Address> = (removed.left.iter())
        .map(|(found, _)| &found.address)
        .collect();
    for address in addresses.iter().filter(|address| !left.contains(address)) {
        if journal.held().contains(address) {
            journal.removed(address)?;
        }
    }
    Ok(removed)
}

/// Prices of what is kept.
pub trait HoldingPrices {
    /// US dollars an hour of an instance type.
    ///
    /// # Errors
    /// When there is no price for it.
    fn instance_hour(&self, instance_type: &str) -> Result<f64, String>;
    /// US dollars of a gigabyte of objects a month.
    ///
    /// # Errors
    /// When there is no price for it.
    fn object_gb_month(&self) -> Result<f64, String>;
    /// US dollars of a gigabyte of logs a month.
    ///
    /// # Errors
    /// When there is no price for it.
    fn log_gb_month(&self) -> Result<f64, String>;
    /// US dollars of a gigabyte of volumes a month.
    ///
    /// # Errors
    /// When there is no price for it.
    fn volume_gb_month(&self) -> Result<f64, String>;
    /// US dollars an hour of an interface endpoint.
    ///
    /// # Errors
    /// When there is no price for it.
    fn endpoint_hour(&self) -> Result<f64, String>;
}

/// Hours of a month, as AWS counts them for monthly figures.
const MONTH_HOURS: f64 = 730.0;
const GIB: f64 = (1u64 << 30) as f64;

/// US dollars a month of something that is left as it is.
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

    struct Known;

    impl HoldingPrices for Known {
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
        let usd = |holding| monthly_usd(&holding, &Known).unwrap();
        assert_eq!(usd(Holding::Free), 0.0);
        assert!((usd(Holding::Instance("g4dn.xlarge".into())) - 383.98).abs() < 1e-9);
        assert!((usd(Holding::ObjectBytes(3 << 30)) - 0.069).abs() < 1e-12);
        assert!((usd(Holding::LogBytes(1 << 29)) - 0.015).abs() < 1e-12);
        assert!((usd(Holding::VolumeGb(8)) - 0.64).abs() < 1e-12);
        assert!((usd(Holding::Endpoint) - 7.3).abs() < 1e-12);
        assert!(monthly_usd(&Holding::Instance("x9.mega".into()), &Known).is_err());
    }
}
