//! Consent of the user and the spending limit, without which nothing is created.

use std::collections::BTreeSet;

use crate::AwsError;
use crate::resource::{Address, Spec};

/// Consent of the user to resources. The only way to get one is
/// [`Approval::ask`].
#[derive(Clone, Debug)]
pub struct Approval {
    addresses: BTreeSet<Address>,
}

/// Way in which the user consents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// `--yes` was given.
    Given,
    /// A terminal is available for a question.
    Ask,
    /// Neither is available.
    Impossible,
}

/// The most that may be spent, US dollars; none for any amount.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpendingLimit(pub Option<f64>);

impl SpendingLimit {
    /// Refuses what costs `next_usd` at most, where `spent_usd` are spent or reserved.
    ///
    /// # Errors
    /// [`AwsError::SpendingLimit`] where it does not fit.
    pub fn admits(self, spent_usd: f64, next_usd: f64) -> Result<(), AwsError> {
        let together_usd = spent_usd + next_usd;
        // What is not a number exceeds every limit.
        let is_over = |limit: &f64| together_usd.is_nan() || together_usd > *limit;
        match self.0.filter(is_over) {
            Some(limit_usd) => Err(AwsError::SpendingLimit {
                limit_usd,
                spent_usd,
                next_usd,
            }),
            None => Ok(()),
        }
    }
}

impl Approval {
    /// Asks for consent to everything at `addresses`. `answer` reads the user's answer, and is
    /// called only where consent is neither given nor impossible.
    ///
    /// # Errors
    /// [`AwsError::NotApproved`] without an answer of "yes".
    pub fn ask(
        addresses: impl IntoIterator<Item = Address>,
        consent: Consent,
        answer: impl FnOnce() -> Option<String>,
    ) -> Result<Self, AwsError> {
        let refused = |reason: &str| {
            Err(AwsError::NotApproved {
                reason: reason.to_owned(),
            })
        };
        match consent {
            Consent::Given => {}
            Consent::Ask => match answer() {
                Some(answer) if answer.trim() == "yes" => {}
                _ => return refused("the answer was not \"yes\""),
            },
            Consent::Impossible => {
                return refused("there is no terminal to ask at; give --yes to agree");
            }
        }
        Ok(Self {
            addresses: addresses.into_iter().collect(),
        })
    }

    /// Checks that the consent includes everything in `specs`.
    pub(crate) fn covers(&self, specs: &[Spec]) -> Result<(), AwsError> {
        let missing = |address: &Address| !self.addresses.contains(address);
        match specs.iter().map(Spec::address).find(missing) {
            None => Ok(()),
            Some(address) => Err(AwsError::NotApproved {
                reason: format!("the consent does not include the {address}"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::resource::BucketSpec;

    fn bucket(name: &str) -> [Spec; 1] {
        [Spec::Bucket(BucketSpec {
            name: name.into(),
            needed_s: None,
            objects: Vec::new(),
        })]
    }

    fn ask(consent: Consent, text: &str) -> Result<Approval, AwsError> {
        let addresses = bucket("b").map(|spec| spec.address());
        Approval::ask(addresses, consent, || Some(text.to_owned()))
    }

    #[test]
    fn only_yes_is_yes() {
        assert!(ask(Consent::Ask, "yes\n").is_ok());
        for text in ["", "y", "no", "Yes", "yes please"] {
            assert!(ask(Consent::Ask, text).is_err(), "{text}");
        }
        assert!(ask(Consent::Given, "").is_ok());
        assert!(ask(Consent::Impossible, "yes").is_err());
    }

    #[test]
    fn what_comes_next_fits_beside_what_is_spent() {
        let limit = SpendingLimit(Some(1.0));
        for (spent, next) in [
            (0.0, 1.01),
            (0.75, 0.5),
            (0.0, f64::NAN),
            (f64::INFINITY, 0.0),
        ] {
            let error = limit.admits(spent, next).unwrap_err();
            assert!(matches!(error, AwsError::SpendingLimit { .. }));
        }
        assert!(limit.admits(0.5, 0.5).is_ok());
        assert!(SpendingLimit(None).admits(1e9, 1e9).is_ok());
    }

    #[test]
    fn consent_to_one_thing_is_none_to_another() {
        let approval = ask(Consent::Given, "").unwrap();
        assert!(approval.covers(&bucket("b")).is_ok());
        assert!(approval.covers(&bucket("c")).is_err());
    }
}
