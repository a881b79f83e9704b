//! `doctor --aws`: what the account allows.

use epochcost_aws::Clients;
use epochcost_aws::doctor::{Needs, check};

use crate::error::Error;
use crate::platform::Finding;

/// What the largest comparison needs (Barrak et al. 2025, Table 2): four peers
/// with 24 mini-batches each at a time, or four workers with a GPU.
const NEEDS: Needs = Needs {
    concurrency: 96,
    gpu_workers: 4,
};

pub(super) async fn look() -> Result<Vec<Finding>, Error> {
    let clients = Clients::load(None).await?;
    let checks = check(&clients, NEEDS).await;
    let findings = checks.into_iter().map(|check| match check.found {
        Ok(found) => Finding::there(check.what, found),
        Err(found) => Finding::lacking(check.what, found, check.remedy),
    });
    Ok(findings.collect())
}
