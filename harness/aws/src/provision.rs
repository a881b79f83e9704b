//! Making what a run needs, one resource after another, each in the journal
//! before it is created.

use crate::resource::{Address, Spec};
use crate::{Approval, AwsError, Clients, Journal};

/// Makes everything in `specs` that is not there, in the order of its kinds.
/// May be repeated after a failure or the death of the process: what is
/// complete is left as it is. Returns each resource's own id.
///
/// # Errors
/// The first refusal. What was made before is in the journal, for
/// [`tear_down`](crate::tear_down) or another call of this function.
pub async fn provision(
    specs: &[Spec],
    clients: &Clients,
    journal: &mut Journal,
    approval: &Approval,
) -> Result<Vec<(Address, String)>, AwsError> {
    approval.covers(specs)?;
    let scope = journal.scope().clone();
    is_same_account(clients, journal).await?;
    let mut ordered: Vec<&Spec> = specs.iter().collect();
    // Stable: among one kind, as given.
    ordered.sort_by_key(|spec| spec.address().kind);
    let mut made = Vec::with_capacity(ordered.len());
    for spec in ordered {
        let address = spec.address();
        if !journal.outstanding().contains(&address) {
            journal.intends(&address)?;
        }
        let id = spec.ensure(clients, &scope).await?;
        if !journal.is_made(&address) {
            journal.made(&address, &id)?;
        }
        made.push((address, id));
    }
    Ok(made)
}

/// Refuses to go on with one account's journal in another: nothing of it would
/// be found there.
pub(crate) async fn is_same_account(clients: &Clients, journal: &Journal) -> Result<(), AwsError> {
    let (identity, scope) = (clients.identity().await?, journal.scope());
    if identity.account == scope.account && clients.region() == scope.region {
        return Ok(());
    }
    Err(AwsError::Unusable {
        problem: format!(
            "the run is in account {}, {}, and these credentials are of account {}, {}",
            scope.account,
            scope.region,
            identity.account,
            clients.region()
        ),
        remedy: "use the credentials and the region that the run was started with".to_owned(),
    })
}
