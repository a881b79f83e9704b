//! What a run has spent so far on functions, their time and their requests, and
//! on instances: what grows while a run waits.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use epochcost_aws::AwsError;
use epochcost_channels::Traffic;
use epochcost_spec::metering::TrialOutcome;
use epochcost_systems::{Host, Record};
use jiff::Timestamp;

use super::log::Seen;
use crate::aws_plan::Share;

/// Prices of what runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningPrices {
    /// US dollars per GB-second.
    pub gb_second_usd: f64,
    /// US dollars per request.
    pub request_usd: f64,
    /// US dollars per request to S3, by its dimension.
    pub object_usd: BTreeMap<String, f64>,
    /// US dollars per hour, by instance type.
    pub instance_hour_usd: BTreeMap<String, f64>,
}

/// Instances that exist.
#[derive(Clone, Debug)]
pub(super) struct Rented {
    /// Number and type.
    pub(super) what: String,
    /// US dollars per hour, of all of them.
    pub(super) usd_per_hour: f64,
    /// Time from which they are charged for.
    pub(super) since: Instant,
}

/// Monitor of a trial's spending, with the limit.
#[derive(Clone, Debug)]
pub(super) struct Spending {
    pub(super) prices: RunningPrices,
    /// `--max-usd`.
    pub(super) limit_usd: Option<f64>,
    /// Memory size of the trial's functions, MB.
    pub(super) memory_mb: u32,
    /// The trial's instances.
    pub(super) rented: Vec<Rented>,
    /// Spending of earlier trials, US dollars.
    pub(super) before_usd: f64,
}

impl Spending {
    /// Returns what is charged for by the hour until `end` at most, beside `endpoints` of the
    /// run; `None` if nothing is.
    pub(super) fn rented(&self, endpoints: usize, end: Timestamp) -> Option<String> {
        if self.rented.is_empty() {
            return None;
        }
        let what: Vec<&str> = self.rented.iter().map(|all| all.what.as_str()).collect();
        let usd: f64 = self.rented.iter().map(|all| all.usd_per_hour).sum();
        let beside = match endpoints {
            0 => String::new(),
            count => format!(", beside {count} interface endpoints of the run"),
        };
        Some(format!(
            "rents {} for {usd:.2} USD an hour, until {} at the latest{beside}",
            what.join(", "),
            end.strftime("%Y-%m-%d %H:%M UTC")
        ))
    }

    /// Returns US dollars spent up to `now_s`, seconds since the Unix epoch: the billed
    /// time of ended invocations, the elapsed time of running ones, and the lifetime of
    /// instances.
    pub(super) fn usd(&self, seen: &[Seen], now_s: f64) -> f64 {
        let gb = f64::from(self.memory_mb) / 1024.0;
        let seconds = seen.iter().map(|seen| match &seen.report {
            Some(report) => report.billed_ms as f64 / 1e3,
            None => (now_s - seen.started_s).max(0.0),
        });
        let gb_seconds = seconds.sum::<f64>() * gb;
        self.before_usd
            + self.rented_usd()
            + gb_seconds * self.prices.gb_second_usd
            + seen.len() as f64 * self.prices.request_usd
    }

    /// Returns the most that a trial which succeeded can have cost, US dollars, once its instances are
    /// gone: what is known of it, and the worst case of all else.
    pub(super) fn settled_usd(&self, at_most: &Share, outcome: &TrialOutcome) -> f64 {
        let functions = (outcome.invocations.iter()).filter(|call| call.host == Host::Function);
        let billed_ms: u64 = functions.clone().map(|call| call.billed_ms).sum();
        let gb = f64::from(self.memory_mb) / 1024.0;
        let known_usd = |dimension: &str| {
            let (units, unit_usd) = match dimension {
                "lambda_gb_second" => (billed_ms as f64 / 1e3 * gb, self.prices.gb_second_usd),
                // A second delivery of a request may have come after its log was read.
                "lambda_request" => (
                    2.0 * functions.clone().count() as f64,
                    self.prices.request_usd,
                ),
                _ => (
                    requests(dimension, outcome)?,
                    *self.prices.object_usd.get(dimension)?,
                ),
            };
            Some(units * unit_usd)
        };
        let is_rented = |dimension: &str| dimension.starts_with("ec2/");
        let others = at_most
            .iter()
            .filter(|(dimension, _)| !is_rented(dimension));
        let others = others.map(|(dimension, usd)| known_usd(dimension).unwrap_or(*usd).min(*usd));
        self.rented_usd() + others.sum::<f64>()
    }

    /// Returns what the trial's instances cost so far, US dollars.
    fn rented_usd(&self) -> f64 {
        let hours = |rented: &Rented| rented.since.elapsed().as_secs_f64() / 3600.0;
        let rented = self.rented.iter();
        rented.map(|all| all.usd_per_hour * hours(all)).sum()
    }

    /// Returns US dollars spent.
    ///
    /// # Errors
    /// [`AwsError::Spent`] over the limit.
    pub(super) fn check(&self, seen: &[Seen]) -> Result<f64, AwsError> {
        #[expect(clippy::disallowed_methods, reason = "beside times of AWS")]
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.within(self.usd(seen, now.unwrap_or_default().as_secs_f64()))
    }

    fn within(&self, spent_usd: f64) -> Result<f64, AwsError> {
        match self.limit_usd {
            Some(limit_usd) if spent_usd > limit_usd => Err(AwsError::Spent {
                limit_usd,
                spent_usd,
            }),
            _ => Ok(spent_usd),
        }
    }
}

/// Returns the requests of a price of S3 that the steps of a trial metered, twice: S3 may bill one that
/// was sent again, and what a worker asks for outside its steps is little. None of other dimensions.
fn requests(dimension: &str, outcome: &TrialOutcome) -> Option<f64> {
    let of: fn(&Traffic) -> u64 = match dimension {
        "s3_list" => |traffic| traffic.lists,
        "s3_get" => |traffic| traffic.gets + traffic.missed_gets,
        _ => return None,
    };
    let steps = outcome.records.iter().filter_map(|record| match record {
        Record::Step(step) => Some(&step.traffic),
        _ => None,
    });
    let requests: u64 = steps
        .flat_map(|traffic| [traffic.exchange, traffic.dataset, traffic.state])
        .map(|channels| of(&channels.objects))
        .sum();
    Some(2.0 * requests as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use epochcost_aws::logs::Streams;

    use super::*;
    use crate::aws::log::read;
    use crate::aws::log::tests::{FINISHED, lines, logged};

    /// Returns an invocation of 2 GB that was billed 0.6 s, and one that has run for 10 s.
    fn seen() -> Vec<Seen> {
        let log = |id, count| lines(&logged(id, 0, 0, FINISHED)[..count], 0);
        read(&Streams::from([
            ("a".into(), log(1, 5)),
            ("b".into(), log(2, 1)),
        ]))
    }

    fn spending(limit_usd: Option<f64>) -> Spending {
        Spending {
            prices: RunningPrices {
                gb_second_usd: 0.5,
                request_usd: 0.25,
                object_usd: BTreeMap::from([("s3_list".to_owned(), 0.125)]),
                instance_hour_usd: BTreeMap::from([("g4dn.xlarge".to_owned(), 0.5)]),
            },
            limit_usd,
            memory_mb: 2048,
            rented: Vec::new(),
            before_usd: 1.0,
        }
    }

    fn rented(what: &str, usd_per_hour: f64) -> Rented {
        Rented {
            what: what.to_owned(),
            usd_per_hour,
            since: Instant::now(),
        }
    }

    #[test]
    fn what_runs_is_spent_by_the_second_and_what_ended_as_it_was_billed() {
        // (0.6 + 10) s of 2 GB, two requests, and a dollar before.
        let usd = spending(None).usd(&seen(), 10.0);
        assert!((usd - (1.0 + 10.6 + 0.5)).abs() < 1e-9, "{usd}");
    }

    #[test]
    fn over_the_limit_is_over() {
        // The one that runs has done so since 1970.
        let error = spending(Some(1e6)).check(&seen()).unwrap_err();
        assert!(matches!(error, AwsError::Spent { .. }), "{error}");
        assert!(spending(None).check(&seen()).is_ok());
        assert!(spending(Some(2.0)).check(&[]).is_ok());
    }

    /// What was measured takes the place of its worst case, and of nothing else.
    #[test]
    fn what_is_over_cost_what_was_measured_and_the_worst_case_of_the_rest() {
        let dimensions = "lambda_gb_second lambda_request ec2/g4dn.xlarge s3_list logs_gb";
        let dimensions = dimensions.split(' ').map(str::to_owned);
        let at_most: Share = dimensions.map(|dimension| (dimension, 10.0)).collect();
        let outcome = TrialOutcome {
            invocations: seen().iter().filter_map(Seen::invocation).collect(),
            ..TrialOutcome::default()
        };
        assert_eq!(outcome.invocations.len(), 1);
        // 0.6 s of 2 GB, a request that may have come twice, no steps, and logs.
        let usd = spending(None).settled_usd(&at_most, &outcome);
        assert!((usd - (0.6 + 0.5 + 10.0)).abs() < 1e-9, "{usd}");
        let nothing = Share::from([("lambda_gb_second".to_owned(), 0.5)]);
        assert_eq!(spending(None).settled_usd(&nothing, &outcome), 0.5);
    }

    #[test]
    fn what_is_rented_is_said_with_its_price_and_its_end() {
        let end: Timestamp = "2026-11-23T14:05:59Z".parse().unwrap();
        assert_eq!(spending(None).rented(2, end), None);
        let all = Spending {
            rented: vec![
                rented("4 × g4dn.xlarge", 2.104),
                rented("5 × t2.medium", 0.232),
            ],
            ..spending(None)
        };
        let said = "rents 4 × g4dn.xlarge, 5 × t2.medium for 2.34 USD an hour, until 2026-11-23 14:05 \
                    UTC at the latest, beside 2 interface endpoints of the run";
        assert_eq!(all.rented(2, end).unwrap(), said);
    }

    #[test]
    fn instances_are_spent_by_the_hour() {
        let with = |usd_per_hour| Spending {
            rented: vec![Rented {
                since: Instant::now() - Duration::from_secs(1800),
                ..rented("2 × g4dn.xlarge", usd_per_hour)
            }],
            ..spending(Some(2.0))
        };
        // A dollar before, and two instances for half an hour and a moment.
        let usd = with(1.0).check(&[]).unwrap();
        assert!((usd - 1.5).abs() < 1e-3, "{usd}");
        assert!(with(3.0).check(&[]).is_err());
        // What has no price is over every limit.
        assert!(with(f64::INFINITY).check(&[]).is_err());
    }
}
