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

    #[test]
    fn the_rules_by_hand() {
        let mut scheduler = Scheduler::new(2, 0);
        assert_eq!(scheduler.parallelism(), 2);
        let mut after = |epoch_s| {
            scheduler.ended(epoch_s);
            (scheduler.parallelism(), scheduler.reference_s)
        };
        assert_eq!(after(100.0), (3, Some(100.0)));
        assert_eq!(after(105.0), (4, Some(105.0)));
        assert_eq!(
            after(115.0),
            (4, Some(105.0)),
            "between 1.05 and 1.2: as it was"
        );
        assert_eq!(after(126.0), (3, Some(126.0)));
        assert_eq!(after(80.0), (4, Some(80.0)));
        for slower in 1..=4 {
            after(80.0 * 1.3_f64.powi(slower));
        }
        assert_eq!(scheduler.parallelism(), 0, "as published, nothing holds it");
    }

    proptest! {
        #[test]
        fn one_function_at_a_time_and_never_below_the_floor(
            default in 1usize..9, floor in 0usize..2, times in prop::collection::vec(0.1f64..100.0, 1..60),
        ) {
            let mut scheduler = Scheduler::new(default, floor);
            for (index, epoch_s) in times.into_iter().enumerate() {
                let before = scheduler;
                scheduler.ended(epoch_s);
                let step = scheduler.parallelism() as i64 - before.parallelism() as i64;
                prop_assert!(scheduler.parallelism() >= floor);
                match before.reference_s {
                    None => prop_assert_eq!((index, step), (0, 1)),
                    Some(reference) if epoch_s <= 1.05 * reference => prop_assert_eq!(step, 1),
                    Some(reference) if epoch_s >= 1.2 * reference => {
                        prop_assert_eq!(step, if before.parallelism() > floor { -1 } else { 0 });
                    }
                    Some(_) => prop_assert_eq!(scheduler, before),
                }
            }
        }
    }
}
