//! Processor and memory by stage, as in Table I of the P2P paper.

use std::collections::BTreeMap;

use epochcost_systems::{Stage, StepRecord};

/// CPU and memory of workers' processes by stage, where they are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usages(BTreeMap<Stage, Used>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Used {
    cpu_s: f64,
    wall_s: f64,
    /// Sum over steps of the most that was resident behind the stage.
    resident_mb: f64,
    steps: f64,
}

impl Usages {
    /// Adds what a step used.
    pub(super) fn add(&mut self, step: &StepRecord) {
        for (stage, usage) in &step.usage {
            let used = self.0.entry(*stage).or_default();
            let alike = step.alike as f64;
            used.cpu_s += usage.cpu_s * alike;
            used.wall_s += step.seconds.of(*stage) * alike;
            used.resident_mb += usage.resident_mb * alike;
            used.steps += alike;
        }
    }

    /// Returns CPU time over wall time, percent of a core; none where neither
    /// is known.
    pub fn cpu_percent(&self, stage: Stage) -> Option<f64> {
        let used = self.0.get(&stage).filter(|used| used.wall_s > 0.0)?;
        Some(100.0 * used.cpu_s / used.wall_s)
    }

    /// Returns the most memory that was resident behind the stage, MB, a mean
    /// over steps.
    pub fn memory_mb(&self, stage: Stage) -> Option<f64> {
        let used = self.0.get(&stage)?;
        Some(used.resident_mb / used.steps)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record in which nothing took any time.
    pub(in crate::analysis) fn step() -> StepRecord {
        StepRecord {
            function: "peer".into(),
            alike: 1,
            ..StepRecord::default()
        }
    }

    #[test]
    fn cpu_is_over_wall_time_and_memory_a_mean() {
        let step = |cpu_s: f64, wall_s, resident_mb: f64| {
            let usage = serde_json::json!({"put": {"cpu_s": cpu_s, "resident_mb": resident_mb}});
            let mut step = StepRecord {
                usage: serde_json::from_value(usage).unwrap(),
                ..step()
            };
            step.seconds.put = wall_s;
            step
        };
        let mut usages = Usages::default();
        assert_eq!(usages.memory_mb(Stage::Put), None);
        usages.add(&step(0.3, 0.1, 100.0));
        usages.add(&step(0.1, 0.3, 200.0));
        assert!((usages.cpu_percent(Stage::Put).unwrap() - 100.0).abs() < 1e-9);
        assert_eq!(usages.memory_mb(Stage::Put), Some(150.0));
        assert_eq!(usages.cpu_percent(Stage::Get), None);
        assert_eq!(usages.memory_mb(Stage::Get), None);
    }
}
