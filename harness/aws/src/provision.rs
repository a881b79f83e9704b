//! Creation of a run's resources, one after another, each in the journal before it is
//! created.

use crate::resource::{Address, Kind, Spec};
use crate::{Approval, AwsError, Cause, Clients, Journal};

/// Creates everything in `specs` that does not exist, in the order of its kinds. May be
/// repeated after a failure or the death of the process: complete resources stay as they
/// are. Returns each resource's id from its service.
///
/// # Errors
/// The first refusal. Resources created before it are in the journal, for
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
    // Stable: the order within one kind stays.
    ordered.sort_by_key(|spec| spec.address().kind);
    let mut made = Vec::with_capacity(ordered.len());
    for spec in ordered {
        let address = spec.address();
        if !journal.outstanding().contains(&address) {
            journal.intends(&address)?;
        }
        let id = match spec.ensure(clients, &scope).await {
            Ok(id) => id,
            Err(error) => {
                // A refused instance is not on its way.
                if address.kind == Kind::Instance && is_refusal(&error) {
                    journal.removed(&address)?;
                }
                return Err(error);
            }
        };
        if !journal.is_made(&address) {
            journal.made(&address, &id)?;
        }
        made.push((address, id));
    }
    Ok(made)
}

/// Returns whether the service has answered that it creates nothing.
fn is_refusal(error: &AwsError) -> bool {
    matches!(
        error.cause(),
        Some(Cause::Quota | Cause::Account | Cause::Capacity | Cause::Permission)
    )
}

/// Checks that the journal is of the clients' account and region: nothing of another
/// account would be found.
///
/// # Errors
/// [`AwsError::Unusable`] when it is of another.
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
