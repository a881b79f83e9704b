//! Requests to the Pricing API.

use aws_config::{Region, SdkConfig};
use aws_sdk_pricing::types::{Filter, FilterType};
use futures_util::stream::{self, StreamExt};

use super::{PriceError, Query, Refreshed, read};
use crate::resource::built;
use crate::{AwsError, configuration};

/// Region of the API, which has the prices of all regions.
const HOME: &str = "us-east-1";
/// Number of requests at once.
const CONCURRENCY: usize = 4;

/// Returns each query's price in `region`, or the reason why it has none.
///
/// # Errors
/// When the API refuses or cannot be reached.
pub async fn fetch(
    config: &SdkConfig,
    region: &str,
    queries: &[Query],
) -> Result<Vec<Result<Refreshed, PriceError>>, AwsError> {
    let config = config.to_builder().region(Region::new(HOME)).build();
    let client = aws_sdk_pricing::Client::new(&config);
    // Made before they are polled: a closure within the stream would bind its lifetime too narrowly
    // for a future that is `Send`.
    let requests: Vec<_> = (queries.iter())
        .map(|query| one(&client, region, query))
        .collect();
    let answers: Vec<_> = stream::iter(requests).buffered(CONCURRENCY).collect().await;
    let mut prices = Vec::with_capacity(queries.len());
    for (query, answer) in queries.iter().zip(answers) {
        prices.push(read(query, region, &answer?));
    }
    Ok(prices)
}

/// Does the same with the SDK's own configuration, which needs no region.
///
/// # Errors
/// When the API refuses or cannot be reached.
pub async fn fetch_as_configured(
    region: &str,
    queries: &[Query],
) -> Result<Vec<Result<Refreshed, PriceError>>, AwsError> {
    let config = configuration().region(HOME).load().await;
    fetch(&config, region, queries).await
}

/// Returns the products that match a query.
async fn one(
    client: &aws_sdk_pricing::Client,
    region: &str,
    query: &Query,
) -> Result<Vec<String>, AwsError> {
    let doing = format!("ask for the price of {}", query.dimension);
    let filter = |how: FilterType, field: &str, value: &str| {
        let filter = Filter::builder().r#type(how).field(field).value(value);
        built(&doing, filter.build())
    };
    let mut filters = vec![filter(FilterType::TermMatch, "regionCode", region)?];
    for (field, value) in &query.attributes {
        filters.push(filter(FilterType::TermMatch, field, value)?);
    }
    if let Some(usage) = query.usage {
        filters.push(filter(FilterType::Contains, "usagetype", usage)?);
    }
    let products = client
        .get_products()
        .service_code(query.service)
        .format_version("aws_v1")
        .set_filters(Some(filters));
    let mut pages = products.into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of(&doing, error))?;
        found.extend(page.price_list.unwrap_or_default());
    }
    Ok(found)
}
