//! What all workers of a job do when its loss on the validation split no longer
//! falls: every worker follows what worker 0 found after an epoch, so that all
//! end with the same learning rate in the same epoch.

use serde::{Deserialize, Serialize};

use crate::{Job, Techniques};

/// A loss counts as lower from this share on: PyTorch's default.
const THRESHOLD: f64 = 1e-4;
/// A smaller change of the learning rate is none: PyTorch's default.
const LEAST_CHANGE: f64 = 1e-8;

/// Follows the losses of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Monitor {
    techniques: Techniques,
    pub(crate) learning_rate: f64,
    pub(crate) is_over: bool,
    plateau: Lowest,
    stopping: Lowest,
}

/// The lowest loss, and how many epochs ago it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Lowest {
    loss: Option<f64>,
    since: usize,
}

impl Lowest {
    fn follow(&mut self, loss: f64, enough: impl Fn(f64) -> f64) {
        match self.loss {
            Some(lowest) if loss >= enough(lowest) => self.since += 1,
            _ => {
                self.loss = Some(loss);
                self.since = 0;
            }
        }
    }
}

impl Monitor {
    /// The monitor of a job; `None` if it has no technique.
    pub(crate) fn new(job: &Job) -> Option<Self> {
        let techniques = job.techniques();
        (!techniques.is_empty()).then(|| Self {
            techniques,
            learning_rate: job.optimizer.learning_rate(),
            is_over: false,
            plateau: Lowest::default(),
            stopping: Lowest::default(),
        })
    }

    /// Takes in the loss after an epoch; without one, nothing changes.
    pub(crate) fn follow(&mut self, loss: Option<f64>) {
        // A loss that is not a number is no lower than any.
        let Some(loss) = loss.map(|loss| if loss.is_nan() { f64::INFINITY } else { loss }) else {
            return;
        };
        if let Some(plateau) = self.techniques.reduce_on_plateau {
            self.plateau
                .follow(loss, |lowest| lowest * (1.0 - THRESHOLD));
            if self.plateau.since > plateau.patience {
                let reduced = (self.learning_rate * plateau.factor).max(plateau.minimum);
                if self.learning_rate - reduced > LEAST_CHANGE {
                    self.learning_rate = reduced;
                }
                self.plateau.since = 0;
            }
        }
        if let Some(stopping) = self.techniques.early_stopping {
            self.stopping
                .follow(loss, |lowest| lowest - stopping.min_delta);
            self.is_over = self.stopping.since >= stopping.patience;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;
    use crate::{Fidelity, testing};

    fn monitor(settings: Value) -> Option<Monitor> {
        let mut job = testing::job("allreduce", Fidelity::Paper, 2, &Default::default()).unwrap();
        job.data.validation_samples = 4;
        job.settings = settings;
        job.techniques().check("allreduce", &job).unwrap();
        Monitor::new(&job)
    }

    #[test]
    fn a_job_without_techniques_has_no_monitor() {
        assert_eq!(monitor(json!({})), None);
    }

    /// Six epochs in a row that are no better, then a tenth of the rate.
    #[test]
    fn the_rate_falls_after_more_than_the_patience() {
        let mut monitor = monitor(json!({"reduce_on_plateau": {}})).unwrap();
        let mut rates = Vec::new();
        for _ in 0..14 {
            monitor.follow(Some(1.0));
            rates.push(monitor.learning_rate);
        }
        let at = |rate: f64| rates.iter().filter(|r| (**r - rate).abs() < 1e-12).count();
        assert_eq!([at(0.01), at(0.001), at(0.0001)], [6, 6, 2]);
        // A ten-thousandth less is no less; more is.
        monitor.follow(Some(0.99995));
        assert_eq!(monitor.plateau.since, 2);
        monitor.follow(Some(0.9998));
        assert_eq!(monitor.plateau.since, 0);
        for _ in 0..100 {
            monitor.follow(Some(1.0));
        }
        assert!((monitor.learning_rate - 1e-6).abs() < 1e-12);
        assert!(!monitor.is_over);
    }

    #[test]
    fn training_ends_with_the_patience() {
        let settings = json!({"early_stopping": {"patience": 3, "min_delta": 0.1}});
        let mut monitor = monitor(settings).unwrap();
        // 0.95 is not lower by a tenth; 0.85 is.
        for (loss, is_over) in [
            (1.0, false),
            (0.95, false),
            (0.95, false),
            (0.85, false),
            (0.8, false),
            (2.0, false),
            (0.8, true),
        ] {
            monitor.follow(Some(loss));
            assert_eq!(monitor.is_over, is_over, "{loss}");
        }
        assert_eq!(monitor.learning_rate, 0.01);
    }

    #[test]
    fn a_monitor_survives_being_written() {
        let mut monitor = monitor(json!({"early_stopping": {}})).unwrap();
        monitor.follow(Some(0.25));
        monitor.follow(None);
        let text = serde_json::to_vec(&monitor).unwrap();
        assert_eq!(serde_json::from_slice::<Monitor>(&text).unwrap(), monitor);
    }
}
