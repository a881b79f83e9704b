//! CloudWatch's metrics of a trial, a cross-check beside its log: whether both
//! count the same invocations, and what only Lambda itself knows of, such as
//! asynchronous invocations that it refused for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use epochcost_aws::metrics::{Measured, MetricsRequest, read};
use epochcost_spec::metering::{CloudWatchMetric, TrialOutcome};
use epochcost_systems::Host;
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::context::Trial;
use super::unusable;
use crate::PlatformError;

/// Default time limit of metrics after a trial, seconds; [`PATIENCE_VARIABLE`]
/// overrides it. They arrive within minutes.
const PATIENCE_S: u64 = 180;
/// Environment variable of another time limit, seconds; with 0 they are not read.
const PATIENCE_VARIABLE: &str = epochcost_environment::user::METRICS_PATIENCE_S;
/// Polling interval; each metric of each poll is charged for.
const POLL_INTERVAL: Duration = Duration::from_secs(15);

/// Reads CloudWatch's metrics of a trial from `since` on, polling until they count
/// the invocations in the log, and adds them to the trial's outcome. A failure to read
/// them is a warning.
///
/// # Errors
/// When the row's settings are not its system's.
pub(super) async fn cross_check(
    trial: &Trial<'_>,
    since: Timestamp,
    outcome: &mut TrialOutcome,
) -> Result<(), PlatformError> {
    let patience = std::env::var(PATIENCE_VARIABLE).ok();
    let patience = patience.and_then(|seconds| seconds.parse().ok());
    let patience = Duration::from_secs(patience.unwrap_or(PATIENCE_S));
    let logged = logged(trial, outcome)?;
    let functions: Vec<String> = logged.keys().cloned().collect();
    let instances = trial.instances();
    if patience.is_zero() || functions.len() + instances.len() == 0 {
        return Ok(());
    }
    let began = Instant::now();
    let measured = loop {
        let request = MetricsRequest {
            functions: &functions,
            instances: &instances,
            since,
            until: Timestamp::now(),
        };
        match read(&trial.aws.clients, &request).await {
            Ok(measured) => {
                // The log of a failed trial may be incomplete.
                let is_enough = outcome.failure.is_some() || agrees(&logged, &measured);
                if is_enough || began.elapsed() >= patience {
                    break measured;
                }
            }
            Err(error) => {
                let text = format!("CloudWatch's metrics were not read: {error}");
                outcome.warnings.push(text);
                return Ok(());
            }
        }
        sleep(POLL_INTERVAL.min(patience)).await;
    };
    let found = findings(&logged, &measured, began.elapsed().as_secs());
    outcome.warnings.extend(found);
    outcome.throttles = throttles(&measured);
    outcome.cloudwatch = measured.into_iter().map(row).collect();
    Ok(())
}

/// Returns the number of invocations in the log, by the function's name on Lambda.
fn logged(
    trial: &Trial<'_>,
    outcome: &TrialOutcome,
) -> Result<BTreeMap<String, u64>, PlatformError> {
    let calls = trial.training.calls().map_err(unusable)?;
    let counted = calls.iter().map(|called| {
        let ran = outcome.invocations.iter().filter(|invocation| {
            invocation.host == Host::Function && invocation.function == called.function
        });
        (trial.function(called.function), ran.count() as u64)
    });
    Ok(counted.collect())
}

fn row(measured: Measured) -> CloudWatchMetric {
    CloudWatchMetric {
        of: measured.of,
        metric: measured.metric.to_owned(),
        statistic: measured.statistic.to_owned(),
        unit: measured.unit.to_owned(),
        value: measured.value,
    }
}

fn value(measured: &[Measured], of: &str, metric: &str) -> Option<f64> {
    let mut it = measured.iter();
    it.find(|one| one.of == of && one.metric == metric)?.value
}

/// Returns whether CloudWatch counts as many invocations as the log. It has no metric
/// of functions that never ran.
fn agrees(logged: &BTreeMap<String, u64>, measured: &[Measured]) -> bool {
    logged.iter().all(|(function, count)| {
        value(measured, function, "Invocations").unwrap_or(0.0) == *count as f64
    })
}

/// Returns the number of refused invocations of all functions; `None` where CloudWatch
/// has no metric of them.
fn throttles(measured: &[Measured]) -> Option<u64> {
    let known = measured.iter().filter(|one| one.metric == "Throttles");
    let known: Vec<f64> = known.filter_map(|one| one.value).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() as u64)
}

/// Returns warnings about differences from the log.
fn findings(logged: &BTreeMap<String, u64>, measured: &[Measured], waited_s: u64) -> Vec<String> {
    let mut found = Vec::new();
    for (function, count) in logged {
        let of = |metric| value(measured, function, metric);
        match of("Invocations") {
            Some(ran) if ran != *count as f64 => found.push(format!(
                "CloudWatch counts {ran} invocations of {function} {waited_s} s after the trial, \
                 and the log has {count}"
            )),
            None if *count > 0 => found.push(format!(
                "CloudWatch knows of no invocation of {function} {waited_s} s after the trial, \
                 and the log has {count}"
            )),
            _ => {}
        }
        if let Some(refused) = of("Throttles").filter(|refused| *refused > 0.0) {
            found.push(format!(
                "Lambda refused {refused} invocations of {function} because too many ran; \
                 asynchronous ones were tried again"
            ));
        }
        if let Some(dropped) = of("AsyncEventsDropped").filter(|dropped| *dropped > 0.0) {
            found.push(format!(
                "Lambda gave up {dropped} asynchronous invocations of {function}"
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(values: &[(&'static str, Option<f64>)]) -> Vec<Measured> {
        let one = |(metric, value): &(&'static str, Option<f64>)| Measured {
            of: "f".into(),
            metric,
            statistic: "Sum",
            unit: "Count",
            value: *value,
        };
        values.iter().map(one).collect()
    }

    fn logged(count: u64) -> BTreeMap<String, u64> {
        [("f".to_owned(), count)].into()
    }

    #[test]
    fn both_witnesses_must_count_the_same() {
        let four = measured(&[("Invocations", Some(4.0))]);
        assert!(agrees(&logged(4), &four));
        assert!(!agrees(&logged(5), &four));
        let unknown = measured(&[("Invocations", None)]);
        assert!(!agrees(&logged(4), &unknown));
        // What never ran has no metrics.
        assert!(agrees(&logged(0), &unknown));
        assert!(findings(&logged(4), &four, 9).is_empty());
        assert!(findings(&logged(0), &unknown, 9).is_empty());
        let text = findings(&logged(5), &four, 9).join("");
        assert!(text.contains("4 invocations of f 9 s after"), "{text}");
        let text = findings(&logged(4), &unknown, 9).join("");
        assert!(text.contains("no invocation of f"), "{text}");
    }

    #[test]
    fn throttles_are_told_from_what_nobody_knows() {
        let unknown = measured(&[("Invocations", Some(4.0)), ("Throttles", None)]);
        assert_eq!(throttles(&unknown), None);
        let none = measured(&[("Invocations", Some(4.0)), ("Throttles", Some(0.0))]);
        assert_eq!(throttles(&none), Some(0));
        assert!(findings(&logged(4), &none, 9).is_empty());
        let some = [
            ("Invocations", 4.0),
            ("Throttles", 3.0),
            ("AsyncEventsDropped", 1.0),
        ];
        let some = measured(&some.map(|(metric, value)| (metric, Some(value))));
        assert_eq!(throttles(&some), Some(3));
        let found = findings(&logged(4), &some, 9);
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("refused 3 invocations"), "{found:?}");
        assert!(found[1].contains("gave up 1"), "{found:?}");
    }
}
