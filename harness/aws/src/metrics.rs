//! CloudWatch's metrics of functions and instances: a second witness of what
//! happened, beside the log. What they say of time is summed over periods and
//! stands for itself; durations come from REPORT lines alone.

use std::collections::BTreeMap;

use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{
    Dimension, Metric, MetricDataQuery, MetricDataResult, MetricStat, StatusCode,
};
use jiff::Timestamp;

use crate::{AwsError, Clients};

/// Queries of one call at most ("GetMetricData").
const AT_A_TIME: usize = 500;
/// Lambda's metrics come by the minute.
const MINUTE_S: i32 = 60;
/// Those of instances with basic monitoring every five, which are a whole
/// number of the others' periods, too.
const FIVE_MINUTES_S: i32 = 300;

/// A metric of one function or instance over the time asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The function's or the instance's name.
    pub of: String,
    /// The metric, as AWS names it.
    pub metric: &'static str,
    /// How the periods' values became one: `Sum`, `Maximum` or `Average`.
    pub statistic: &'static str,
    /// As AWS names it: `Count`, `Milliseconds`, `Percent`.
    pub unit: &'static str,
    /// Nothing where CloudWatch knows of none (yet), which is not 0.
    pub value: Option<f64>,
}

/// What is asked for, and from when until when.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// Functions by name.
    pub functions: &'a [String],
    /// Instances by name and id.
    pub instances: &'a [(String, String)],
    /// The first moment that counts.
    pub since: Timestamp,
    /// The last.
    pub until: Timestamp,
}

/// How a metric's values become one.
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

    /// Of the values of all periods; nothing of none.
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

/// A metric as it is asked for.
struct Kind {
    namespace: &'static str,
    dimension: &'static str,
    name: &'static str,
    statistic: Statistic,
    unit: &'static str,
    period_s: i32,
}

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

/// "Types of metrics for Lambda functions".
const OF_FUNCTIONS: [Kind; 7] = [
    of_lambda("Invocations", Statistic::Sum, "Count"),
    of_lambda("Errors", Statistic::Sum, "Count"),
    // Refused because too many ran, and not among the invocations.
    of_lambda("Throttles", Statistic::Sum, "Count"),
    of_lambda("Duration", Statistic::Sum, "Milliseconds"),
    of_lambda("ConcurrentExecutions", Statistic::Maximum, "Count"),
    // How long an asynchronous invocation waited, and those that were given up.
    of_lambda("AsyncEventAge", Statistic::Maximum, "Milliseconds"),
    of_lambda("AsyncEventsDropped", Statistic::Sum, "Count"),
];

/// "List the available CloudWatch metrics for your instances".
const OF_INSTANCES: [Kind; 1] = [Kind {
    namespace: "AWS/EC2",
    dimension: "InstanceId",
    name: "CPUUtilization",
    statistic: Statistic::Average,
    unit: "Percent",
    period_s: FIVE_MINUTES_S,
}];

/// How many metrics are asked for at a time; each is charged for.
pub fn count(functions: usize, instances: usize) -> usize {
    functions * OF_FUNCTIONS.len() + instances * OF_INSTANCES.len()
}

/// Asks CloudWatch once for every metric of what is asked for.
///
/// # Errors
/// When it cannot be asked.
pub async fn read(clients: &Clients, asked: &Asked<'_>) -> Result<Vec<Measured>, AwsError> {
    let of_functions = asked.functions.iter().flat_map(|name| {
        let kinds = OF_FUNCTIONS.iter();
        kinds.map(move |kind| (kind, name.as_str(), name.as_str()))
    });
    let of_instances = asked.instances.iter().flat_map(|(name, id)| {
        let kinds = OF_INSTANCES.iter();
        kinds.map(move |kind| (kind, name.as_str(), id.as_str()))
    });
    let wanted: Vec<(&Kind, &str, &str)> = of_functions.chain(of_instances).collect();
    let queries: Vec<MetricDataQuery> = (wanted.iter().enumerate())
        .map(|(index, (kind, _, id))| query(index, kind, id))
        .collect();
    let values = values(clients, &queries, asked).await?;
    let measured = wanted.iter().enumerate().map(|(index, (kind, name, _))| {
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

/// Ids begin with a lower-case letter.
fn id_of(index: usize) -> String {
    format!("m{index}")
}

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

/// The values of each query, by its id.
async fn values(
    clients: &Clients,
    queries: &[MetricDataQuery],
    asked: &Asked<'_>,
) -> Result<BTreeMap<String, Vec<f64>>, AwsError> {
    // A period that is cut by the ends may be left out of the answer.
    let period_s = i64::from(FIVE_MINUTES_S);
    let from = asked.since.as_second().div_euclid(period_s) * period_s;
    let to = (asked.until.as_second().div_euclid(period_s) + 1) * period_s;
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for some in queries.chunks(AT_A_TIME) {
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

/// A query's values of one page; others may follow on the next.
fn one(result: MetricDataResult) -> Result<(String, Vec<f64>), AwsError> {
    let id = result.id.unwrap_or_default();
    let refused = [StatusCode::InternalError, StatusCode::Forbidden];
    match result.status_code {
        Some(code) if refused.contains(&code) => {
            let said = result.messages.unwrap_or_default();
            let said = said.into_iter().find_map(|message| message.value);
            Err(AwsError::refused(
                &format!("read CloudWatch's metric {id}"),
                code.as_str().to_owned(),
                said.unwrap_or_else(|| "no message".to_owned()),
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
