//! Consent of the user, without which nothing is created.

use std::collections::BTreeSet;

use crate::AwsError;
use crate::resource::{Address, Spec};

/// Consent of the user to resources and their worst case. The only way to get one is
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

impl Approval {
    /// Asks for consent to everything at `addresses`, which costs at most `worst_usd`.
    /// `answer` reads the user's answer, and is called only where consent is neither given
    /// nor impossible.
    ///
    /// # Errors
    /// [`AwsError::SpendingLimit`] over the limit, [`AwsError::NotApproved`]
    /// without an answer of "yes".
    pub fn ask(
        addresses: impl IntoIterator<Item = Address>,
        worst_usd: f64,
        limit_usd: Option<f64>,
        consent: Consent,
        answer: impl FnOnce() -> Option<String>,
    ) -> Result<Self, AwsError> {
        // A worst case that is not a number exceeds every limit.
        let is_over = |limit: &f64| worst_usd.is_nan() || worst_usd > *limit;
        if let Some(limit_usd) = limit_usd.filter(is_over) {
            return Err(AwsError::SpendingLimit {
                limit_usd,
                worst_usd,
            });
        }
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

    fn specs() -> Vec<Spec> {
        vec![Spec::Bucket(BucketSpec {
            name: "b".into(),
            objects: Vec::new(),
        })]
    }

    fn ask(
        worst: f64,
        limit: Option<f64>,
        consent: Consent,
        text: &str,
    ) -> Result<Approval, AwsError> {
        let addresses = specs().iter().map(Spec::address).collect::<Vec<_>>();
        Approval::ask(addresses, worst, limit, consent, || Some(text.to_owned()))
    }

    #[test]
    fn only_yes_is_yes() {
        assert!(ask(1.0, None, Consent::Ask, "yes\n").is_ok());
        for text in ["", "y", "no", "Yes", "yes please"] {
            assert!(ask(1.0, None, Consent::Ask, text).is_err(), "{text}");
        }
        assert!(ask(1.0, None, Consent::Given, "").is_ok());
        assert!(ask(1.0, None, Consent::Impossible, "yes").is_err());
    }

    #[test]
    fn the_limit_holds_whatever_is_answered() {
        for worst in [1.01, f64::NAN, f64::INFINITY] {
            let error = ask(worst, Some(1.0), Consent::Given, "yes").unwrap_err();
            assert!(matches!(error, AwsError::SpendingLimit { .. }));
        }
        assert!(ask(1.0, Some(1.0), Consent::Given, "").is_ok());
    }

    #[test]
    fn consent_to_one_thing_is_none_to_another() {
        let approval = ask(1.0, None, Consent::Given, "").unwrap();
        assert!(approval.covers(&specs()).is_ok());
        let another = [Spec::Bucket(BucketSpec {
            name: "c".into(),
            objects: Vec::new(),
        })];
        assert!(approval.covers(&another).is_err());
    }
}
