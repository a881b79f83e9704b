//! Products in the form of the Pricing API, written by hand.

use serde_json::{Value, json};

/// Returns a product in the form of `PriceList` in `GetProducts`: JSON in a string.
/// `tiers` are pairs of a range's begin and its price; each ends where the
/// next begins.
pub fn product(sku: &str, service: &str, unit: &str, tiers: &[(&str, &str)]) -> Value {
    let mut dimensions = serde_json::Map::new();
    for (index, (begin, usd)) in tiers.iter().enumerate() {
        let end = tiers.get(index + 1).map_or("Inf", |next| next.0);
        let code = format!("{sku}.JRTCKXETXF.{index:010X}");
        let dimension = json!({
            "unit": unit,
            "endRange": end,
            "description": format!("${usd} per {unit}"),
            "appliesTo": [],
            "rateCode": code,
            "beginRange": begin,
            "pricePerUnit": { "USD": usd },
        });
        dimensions.insert(code, dimension);
    }
    json!({
        "product": {
            "productFamily": "Any",
            "attributes": { "servicecode": service, "location": "Anywhere" },
            "sku": sku,
        },
        "serviceCode": service,
        "terms": { "OnDemand": { format!("{sku}.JRTCKXETXF"): {
            "priceDimensions": dimensions,
            "sku": sku,
            "effectiveDate": "2026-11-01T00:00:00Z",
            "offerTermCode": "JRTCKXETXF",
            "termAttributes": {},
        } } },
        "version": "20261118000000",
        "publicationDate": "2026-11-18T00:00:00Z",
    })
}

/// Dimension, SKU, service, unit, and tiers: a range's begin and its price.
const PRODUCTS: [&str; 7] = [
    "lambda_gb_second GBSECONDSKU00001 AWSLambda Lambda-GB-Second \
        0:0.0000166667 6000000000:0.0000150000 15000000000:0.0000133334",
    "state_transition TRANSITIONSKU001 AmazonStates StateTransitions 0:0.0000000000 4000:0.0000250000",
    "ec2/g4dn.xlarge G4DNXLARGESKU001 AmazonEC2 Hrs 0:0.5260000000",
    "vpc_endpoint_hour ENDPOINTHOURS001 AmazonVPC Hrs 0:0.0100000000",
    "vpc_endpoint_gb ENDPOINTBYTES001 AmazonVPC GB \
        0:0.0100000000 1048576:0.0060000000 5242880:0.0040000000",
    "metric_read METRICREADS00001 AmazonCloudWatch Metrics 0:0.0000100000",
    "ipv4_address_hour PUBLICADDRESS001 AmazonVPC Hrs 0:0.0050000000",
];

/// Returns the product of a dimension.
pub fn of(dimension: &str) -> Value {
    let mut rows = PRODUCTS
        .iter()
        .map(|row| row.split(' ').collect::<Vec<_>>());
    let row = rows.find(|row| row[0] == dimension).unwrap();
    let tiers: Vec<_> = (row[4..].iter())
        .map(|tier| tier.split_once(':').unwrap())
        .collect();
    product(row[1], row[2], row[3], &tiers)
}
