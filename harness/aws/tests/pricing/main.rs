//! Prices from documents in the Pricing API's shape, and over its wire.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod documents;

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_config::{Region, SdkConfig};
use aws_sdk_s3::config::Credentials;
use axum::Router;
use axum::http::HeaderMap;
use axum::routing::post;
use bytes::Bytes;
use epochcost_aws::pricing::{PriceError, Query, Refreshed, fetch, queries, read};
use epochcost_testing::mangled::{Drawn, mangled};
use serde_json::{Value, json};
use tokio::net::TcpListener;

fn query(dimension: &str) -> Query {
    let mut all = queries(&["g4dn.xlarge"]).into_iter();
    all.find(|query| query.dimension == dimension).unwrap()
}

fn price(dimension: &str, products: &[Value]) -> Result<Refreshed, PriceError> {
    let texts: Vec<String> = products.iter().map(Value::to_string).collect();
    read(&query(dimension), "eu-south-2", &texts)
}

/// Of several tiers, the first that costs something; what has no group is known by its usage.
#[test]
fn a_product_has_its_price_and_unit() {
    for row in [
        "lambda_gb_second | 0.0000166667 | GB-second | 0.000015 from 6000000000 GB-seconds",
        "lambda_gb_second | 0.0000166667 | GB-second | from 15000000000",
        "state_transition | 0.000025 | transition |",
        "vpc_endpoint_hour | 0.01 | hour |",
        "vpc_endpoint_gb | 0.01 | GB | 0.006 from 1048576",
        "ipv4_address_hour | 0.005 | hour |",
        "metric_read | 0.00001 | metric |",
    ] {
        let parts: Vec<&str> = row.split('|').map(str::trim).collect();
        let found = price(parts[0], &[documents::of(parts[0])]).unwrap();
        assert_eq!(found.usd, parts[1].parse::<f64>().unwrap(), "{row}");
        assert_eq!(found.unit, parts[2], "{row}");
        assert!(found.about.contains(parts[3]), "{row}: {}", found.about);
    }
    let transition = price("state_transition", &[documents::of("state_transition")]).unwrap();
    let source = transition.source;
    assert!(source.contains("TRANSITIONSKU001"), "{source}");
}

#[test]
fn a_region_without_the_product_is_an_error_that_names_both() {
    for (dimension, asked) in [
        ("ec2/g4dn.xlarge", "instanceType=g4dn.xlarge"),
        ("ipv4_address_hour", "PublicIPv4:InUseAddress"),
    ] {
        let error = price(dimension, &[]).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, PriceError::NotOffered { .. }), "{text}");
        let names_both = text.contains("eu-south-2") && text.contains(asked);
        assert!(names_both, "{text}");
    }
}

/// A document that is not understood is an error, and never 0.
#[test]
fn what_is_not_understood_is_never_a_price() {
    let term = "/terms/OnDemand/G4DNXLARGESKU001.JRTCKXETXF";
    let dimension = format!("{term}/priceDimensions/G4DNXLARGESKU001.JRTCKXETXF.0000000000");
    for (what, pointer, value) in [
        ("another unit", "PRICE/unit", json!("Quantity")),
        (
            "another currency",
            "PRICE/pricePerUnit",
            json!({"CNY": "3.7"}),
        ),
        ("no number", "PRICE/pricePerUnit/USD", json!("free")),
        ("no finite number", "PRICE/pricePerUnit/USD", json!("NaN")),
        ("less than nothing", "PRICE/pricePerUnit/USD", json!("-1")),
        ("nothing", "PRICE/pricePerUnit/USD", json!("0.0000000000")),
        ("a gap before", "PRICE/beginRange", json!("1")),
        ("an end", "PRICE/endRange", json!("100")),
        ("no tiers", "TERM/priceDimensions", json!({})),
        ("no terms", "/terms", json!({})),
        ("no price on demand", "/terms/OnDemand", json!({})),
    ] {
        let pointer = pointer.replace("PRICE", &dimension).replace("TERM", term);
        let mut document = documents::of("ec2/g4dn.xlarge");
        *document.pointer_mut(&pointer).unwrap() = value;
        let error = price("ec2/g4dn.xlarge", &[document]).unwrap_err();
        let text = format!("{what}: {error}");
        assert!(matches!(error, PriceError::Unreadable { .. }), "{text}");
        assert!(text.contains("ec2/g4dn.xlarge"), "{text}");
    }
    assert!(price("ec2/g4dn.xlarge", &[documents::of("ec2/g4dn.xlarge")]).is_ok());
}

#[test]
fn two_products_are_one_price_only_where_they_cost_the_same() {
    let twin = |sku, usd| documents::product(sku, "AmazonEC2", "Hrs", &[("0", usd)]);
    let same = [twin("A", "0.5260000000"), twin("B", "0.526")];
    assert_eq!(price("ec2/g4dn.xlarge", &same).unwrap().usd, 0.526);
    let error = price("ec2/g4dn.xlarge", &[twin("A", "0.526"), twin("B", "0.6")]).unwrap_err();
    assert!(error.to_string().contains("A, B"), "{error}");
}

async fn config(url: &str) -> SdkConfig {
    epochcost_aws::configuration()
        .region(Region::new("eu-south-2"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(url)
        .load()
        .await
}

/// Answers like the API: by service and filters, with one product per page.
fn answer(asked: &Value) -> Value {
    let filter = |field: &str| {
        let filters = asked["Filters"].as_array().unwrap();
        let found = filters.iter().find(|filter| filter["Field"] == field);
        found.map(|filter| filter["Value"].as_str().unwrap().to_owned())
    };
    assert_eq!(filter("regionCode").as_deref(), Some("eu-south-2"));
    let products: Vec<Value> = match asked["ServiceCode"].as_str().unwrap() {
        "AWSLambda" => vec![documents::of("lambda_gb_second"); 2],
        "AmazonVPC" => {
            // Usage types begin with the region's prefix.
            let filters = asked["Filters"].as_array().unwrap();
            let usage = json!({
                "Type": "CONTAINS", "Field": "usagetype", "Value": "VpcEndpoint-Hours",
            });
            assert!(filters.contains(&usage), "{filters:?}");
            vec![documents::of("vpc_endpoint_hour")]
        }
        // This region has no GPU instances.
        "AmazonEC2" => Vec::new(),
        other => panic!("nobody asked for {other}"),
    };
    let at: usize = asked["NextToken"]
        .as_str()
        .map_or(0, |token| token.parse().unwrap());
    let page: Vec<String> = products.get(at).map(Value::to_string).into_iter().collect();
    let mut answer = json!({ "FormatVersion": "aws_v1", "PriceList": page });
    if at + 1 < products.len() {
        answer["NextToken"] = json!((at + 1).to_string());
    }
    answer
}

#[tokio::test]
async fn prices_come_over_the_wire() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let serve = move |headers: HeaderMap, body: Bytes| async move {
        counted.fetch_add(1, Ordering::SeqCst);
        assert_eq!(headers["x-amz-target"], "AWSPriceListService.GetProducts");
        answer(&serde_json::from_slice(&body).unwrap()).to_string()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let routes = Router::new().route("/", post(serve));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let asked = ["lambda_gb_second", "ec2/g4dn.xlarge", "vpc_endpoint_hour"].map(query);
    let prices = fetch(&config(&url).await, "eu-south-2", &asked).await;
    let prices = prices.unwrap();
    assert_eq!(prices[0].as_ref().unwrap().usd, 0.0000166667);
    assert!(matches!(prices[1], Err(PriceError::NotOffered { .. })));
    assert_eq!(prices[2].as_ref().unwrap().usd, 0.01);
    // Two pages of one product, and one of each other.
    assert_eq!(requests.load(Ordering::SeqCst), 4);
}

/// Whatever a document says, there is a price above 0 or an error that names the dimension.
#[test]
fn changed_documents_are_prices_or_refused() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = env::var("MANGLED_SEED").map_or(now.as_secs(), |text| text.parse().unwrap());
    eprintln!("MANGLED_SEED={seed}");
    let dimensions = [
        "lambda_gb_second",
        "state_transition",
        "ec2/g4dn.xlarge",
        "vpc_endpoint_gb",
    ];
    let mut drawn = Drawn::new(seed);
    let mut refused = 0;
    for number in 0..5_000 {
        let dimension = dimensions[number % dimensions.len()];
        let document = serde_json::to_string_pretty(&documents::of(dimension)).unwrap();
        let text = String::from_utf8_lossy(&mangled(&document, &mut drawn)).into_owned();
        match read(&query(dimension), "eu-south-2", std::slice::from_ref(&text)) {
            Ok(price) => assert!(price.usd > 0.0 && price.usd.is_finite(), "{number}: {text}"),
            Err(error) => {
                refused += 1;
                let error = error.to_string();
                assert!(error.contains(dimension), "{number}: {error}: {text}");
            }
        }
    }
    assert!(refused > 250, "{refused}");
}
