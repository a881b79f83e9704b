//! CloudWatch's metrics of functions and instances: a second source beside the log.
//! Times in metrics are sums over periods and are reported as such; durations come from
//! REPORT lines alone.

use std::collections::BTreeMap;

use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{
    Dimension, Metric, MetricDataQuery, MetricDataResult, MetricStat, StatusCode,
};
use epochcost_aws_plan::{METRICS_OF_FUNCTION, METRICS_OF_INSTANCE};
use jiff::Timestamp;

use crate::{AwsError, Clients};

/// Maximum number of queries per call ("GetMetricData").
const QUERIES_PER_CALL: usize = 500;
/// Period of Lambda's metrics.
const MINUTE_S: i32 = 60;
/// Period of instances' metrics with basic monitoring: a multiple of Lambda's period.
const FIVE_MINUTES_S: i32 = 300;

/// Metric of one function or instance over the requested time.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Name of the function or instance.
    pub of: String,
    /// AWS' name of the metric.
    pub metric: &'static str,
    /// Statistic over the values of all periods: `Sum`, `Maximum` or `Average`.
    pub statistic: &'static str,
    /// AWS' name of the unit: `Count`, `Milliseconds`, `Percent`.
    pub unit: &'static str,
    /// Value; `None`, which is not 0, where CloudWatch has none (yet).
    pub value: Option<f64>,
}

/// Functions, instances and the time of a request.
#[derive(Clone, Debug)]
pub struct MetricsRequest<'a> {
    /// Functions by name.
    pub functions: &'a [String],
    /// Instances by name and id.
    pub instances: &'a [(String, String)],
    /// Start of the time.
    pub since: Timestamp,
    /// End of the time.
    pub until: Timestamp,
}

/// Statistic over the values of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    Sum,
    Maximum,
    Average,
}

impl Statistic {
    fn name(self) -> &'static str {
        match self {
            Self::Sum => "Sum",
            Self::Maximum => "Maximum",
            Self::Average => "Average",
        }
    }

    /// Returns the statistic of the values of all periods; `None` without values.
    fn of(self, values: &[f64]) -> Option<f64> {
        let total: f64 = values.iter().sum();
        let most = values.iter().copied().reduce(f64::max)?;
        Some(match self {
            Self::Sum => total,
            Self::Maximum => most,
            Self::Average => total / values.len() as f64,
        })
    }
}

/// Definition of a metric.
struct Kind {
    namespace: &'static str,
    dimension: &'static str,
    name: &'static str,
    statistic: Statistic,
    unit: &'static str,
    period_s: i32,
}

/// Returns the definition of a metric of Lambda.
const fn of_lambda(name: &'static str, statistic: Statistic, unit: &'static str) -> Kind {
    Kind {
        namespace: "AWS/Lambda",
        dimension: "FunctionName",
        name,
        statistic,
        unit,
        period_s: MINUTE_S,
    }
}

/// Metrics of functions ("Types of metrics for Lambda functions").
const OF_FUNCTIONS: [Kind; METRICS_OF_FUNCTION] = [
    of_lambda("Invocations", Statistic::Sum, "Count"),
    of_lambda("Errors", Statistic::Sum, "Count"),
    // Refused because too many ran; not counted as invocations.
    of_lambda("Throttles", Statistic::Sum, "Count"),
    of_lambda("Duration", Statistic::Sum, "Milliseconds"),
    of_lambda("ConcurrentExecutions", Statistic::Maximum, "Count"),
    // Waiting time of asynchronous invocations, and the number of abandoned ones.
    of_lambda("AsyncEventAge", Statistic::Maximum, "Milliseconds"),
    of_lambda("AsyncEventsDropped", Statistic::Sum, "Count"),
];

/// Metrics of instances ("List the available CloudWatch metrics for your instances").
const OF_INSTANCES: [Kind; METRICS_OF_INSTANCE] = [Kind {
    namespace: "AWS/EC2",
    dimension: "InstanceId",
    name: "CPUUtilization",
    statistic: Statistic::Average,
    unit: "Percent",
    period_s: FIVE_MINUTES_S,
}];

/// Reads every metric of a request once.
///
/// # Errors
/// When it cannot be wanted.
pub async fn read(
    clients: &Clients,
    wanted: &MetricsRequest<'_>,
) -> Result<Vec<Measured>, AwsError> {
    let of_functions = wanted.functions.iter().flat_map(|name| {
        let kinds = OF_FUNCTIONS.iter();
        kinds.map(move |kind| (kind, name.as_str(), name.as_str()))
    });
    let of_instances = wanted.instances.iter().flat_map(|(name, id)| {
        let kinds = OF_INSTANCES.iter();
        kinds.map(move |kind| (kind, name.as_str(), id.as_str()))
    });
    let metrics: Vec<(&Kind, &str, &str)> = of_functions.chain(of_instances).collect();
    let queries: Vec<MetricDataQuery> = (metrics.iter().enumerate())
        .map(|(index, (kind, _, id))| query(index, kind, id))
        .collect();
    let values = values(clients, &queries, wanted).await?;
    let measured = metrics.iter().enumerate().map(|(index, (kind, name, _))| {
        let of_all = values.get(&id_of(index)).map_or(&[][..], Vec::as_slice);
        Measured {
            of: (*name).to_owned(),
            metric: kind.name,
            statistic: kind.statistic.name(),
            unit: kind.unit,
            value: kind.statistic.of(of_all),
        }
    });
    Ok(measured.collect())
}

/// Returns the id of a query, which must begin with a lower-case letter.
fn id_of(index: usize) -> String {
    format!("m{index}")
}

/// Returns the query of a metric of one function or instance.
fn query(index: usize, kind: &Kind, of: &str) -> MetricDataQuery {
    let dimension = Dimension::builder().name(kind.dimension).value(of).build();
    let metric = Metric::builder()
        .namespace(kind.namespace)
        .metric_name(kind.name)
        .dimensions(dimension);
    let stat = MetricStat::builder()
        .metric(metric.build())
        .period(kind.period_s)
        .stat(kind.statistic.name());
    MetricDataQuery::builder()
        .id(id_of(index))
        .metric_stat(stat.build())
        .build()
}

/// Returns the values of each query by its id.
async fn values(
    clients: &Clients,
    queries: &[MetricDataQuery],
    wanted: &MetricsRequest<'_>,
) -> Result<BTreeMap<String, Vec<f64>>, AwsError> {
    // CloudWatch may leave out periods that the request's ends cut.
    let period_s = i64::from(FIVE_MINUTES_S);
    let from = wanted.since.as_second().div_euclid(period_s) * period_s;
    let to = (wanted.until.as_second().div_euclid(period_s) + 1) * period_s;
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for some in queries.chunks(QUERIES_PER_CALL) {
        let request = clients
            .metrics
            .get_metric_data()
            .start_time(DateTime::from_secs(from))
            .end_time(DateTime::from_secs(to))
            .set_metric_data_queries(Some(some.to_vec()));
        let mut pages = request.into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| AwsError::of("read CloudWatch's metrics", error))?;
            for result in page.metric_data_results.unwrap_or_default() {
                let (id, more) = one(result)?;
                values.entry(id).or_default().extend(more);
            }
        }
    }
    Ok(values)
}

/// Returns a query's id and its values on one page; more may follow on the next page.
fn one(result: MetricDataResult) -> Result<(String, Vec<f64>), AwsError> {
    let id = result.id.unwrap_or_default();
    let refused = [StatusCode::InternalError, StatusCode::Forbidden];
    match result.status_code {
        Some(code) if refused.contains(&code) => {
            let messages = result.messages.unwrap_or_default();
            let messages = messages.into_iter().find_map(|message| message.value);
            Err(AwsError::refused(
                &format!("read CloudWatch's metric {id}"),
                code.as_str().to_owned(),
                messages.unwrap_or_else(|| "no message".to_owned()),
            ))
        }
        _ => Ok((id, result.values.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_not_zero() {
        for statistic in [Statistic::Sum, Statistic::Maximum, Statistic::Average] {
            assert_eq!(statistic.of(&[]), None);
            assert_eq!(statistic.of(&[0.0]), Some(0.0));
        }
        assert_eq!(Statistic::Sum.of(&[1.0, 2.0]), Some(3.0));
        assert_eq!(Statistic::Maximum.of(&[1.0, 2.0]), Some(2.0));
        assert_eq!(Statistic::Average.of(&[1.0, 2.0]), Some(1.5));
    }
}
