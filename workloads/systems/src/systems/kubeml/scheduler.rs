//! The elastic scheduler: how many functions the next epoch gets.

/// An epoch that took at most this much of the reference's time gains a function.
const FASTER: f64 = 1.05;
/// Growth of an epoch's time from which on parallelism falls by one.
const SLOWER: f64 = 1.2;

/// Decides after each epoch, from how long it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scheduler {
    parallelism: usize,
    /// The epoch time that later ones are compared with, seconds.
    reference_s: Option<f64>,
    /// Fewer functions than this are never asked for.
    at_least: usize,
}

impl Scheduler {
    /// The first request is answered with the default parallelism.
    pub(super) fn new(default: usize, at_least: usize) -> Self {
        Self {
            parallelism: default,
            reference_s: None,
            at_least,
        }
    }

    /// Functions of the next epoch.
    pub(super) fn parallelism(&self) -> usize {
        self.parallelism
    }

    /// An epoch took so long.
    pub(super) fn ended(&mut self, epoch_s: f64) {
        match self.reference_s {
            reference if reference.is_none_or(|reference| epoch_s <= FASTER * reference) => {
                self.parallelism += 1;
                self.reference_s = Some(epoch_s);
            }
            Some(reference) if epoch_s >= SLOWER * reference => {
                self.parallelism = self.parallelism.saturating_sub(1).max(self.at_least);
                self.reference_s = Some(epoch_s);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Seconds of an epoch by those of the reference: the bounds of the rules, and any others.
    fn factor() -> impl Strategy<Value = f64> {
        prop_oneof![prop::sample::select(vec![1.05, 1.2]), 0.5..1.5]
    }

    proptest! {
        #[test]
        fn one_function_at_a_time_and_never_below_the_floor(
            default in 1usize..9, floor in 0usize..2, factors in prop::collection::vec(factor(), 1..60),
        ) {
            let mut scheduler = Scheduler::new(default, floor);
            prop_assert_eq!(scheduler.parallelism(), default);
            for factor in factors {
                let before = scheduler;
                let epoch_s = factor * before.reference_s.unwrap_or(100.0);
                scheduler.ended(epoch_s);
                let step = scheduler.parallelism() as i64 - before.parallelism() as i64;
                prop_assert!(scheduler.parallelism() >= floor);
                let is_first = before.reference_s.is_none();
                if !is_first && (1.05 < factor && factor < 1.2) {
                    prop_assert_eq!(scheduler, before, "as it was");
                    continue;
                }
                let goes_down = !is_first && factor >= 1.2;
                let may_go = before.parallelism() > floor;
                prop_assert_eq!(step, if goes_down { -i64::from(may_go) } else { 1 });
                prop_assert_eq!(scheduler.reference_s, Some(epoch_s));
            }
        }
    }
}
