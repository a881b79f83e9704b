//! What an account would be charged for: every dimension of a price book that this emulator
//! sees, in the emulated cloud's time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Charges of everything that ever existed.
#[derive(Default)]
pub(crate) struct Meter {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Quantity by dimension.
    charged: BTreeMap<String, f64>,
    /// Existing resources that are paid by the hour: dimension and begin by id.
    rented: HashMap<String, (String, f64)>,
}

impl Meter {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges a quantity.
    pub(crate) fn charge(&self, dimension: &str, quantity: f64) {
        *self
            .locked()
            .charged
            .entry(dimension.to_owned())
            .or_default() += quantity;
    }

    /// Notes what is paid by the hour and exists at `now_s`: ids with their dimensions. What was
    /// there before and is gone is charged until now.
    pub(crate) fn rented(&self, existing: &HashMap<String, String>, now_s: f64) {
        let mut state = self.locked();
        let gone: Vec<String> = (state.rented.keys())
            .filter(|id| !existing.contains_key(*id))
            .cloned()
            .collect();
        for id in gone {
            if let Some((dimension, since_s)) = state.rented.remove(&id) {
                *state.charged.entry(dimension).or_default() += (now_s - since_s) / 3600.0;
            }
        }
        for (id, dimension) in existing {
            let entry = || (dimension.clone(), now_s);
            state.rented.entry(id.clone()).or_insert_with(entry);
        }
    }

    /// Returns the quantities up to `now_s`, and the ids of what is still paid by the hour.
    pub(crate) fn read(&self, now_s: f64) -> (BTreeMap<String, f64>, Vec<String>) {
        let state = self.locked();
        let mut charged = state.charged.clone();
        for (dimension, since_s) in state.rented.values() {
            *charged.entry(dimension.clone()).or_default() += (now_s - since_s) / 3600.0;
        }
        let mut rented: Vec<String> = state.rented.keys().cloned().collect();
        rented.sort();
        (charged, rented)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rented_is_charged_from_its_first_sight_to_its_last() {
        let meter = Meter::default();
        let there = |ids: &[&str]| -> HashMap<String, String> {
            let hour = |id: &&str| ((*id).to_owned(), "ec2/t2.medium".to_owned());
            ids.iter().map(hour).collect()
        };
        meter.rented(&there(&["a"]), 0.0);
        meter.rented(&there(&["a", "b"]), 1800.0);
        meter.rented(&there(&["b"]), 3600.0);
        meter.charge("s3_put", 2.0);
        let (charged, rented) = meter.read(7200.0);
        assert_eq!(charged["ec2/t2.medium"], 1.0 + 1.5);
        assert_eq!(charged["s3_put"], 2.0);
        assert_eq!(rented, ["b"]);
    }
}
