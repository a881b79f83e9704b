//! Units of prices: one for each dimension, and those that convert to it.

use crate::suggest::did_you_mean;

/// Dimensions that bills name, each with the unit of its quantity. A name that ends in `/` stands
/// for a family of dimensions.
const DIMENSIONS: [(&str, &str); 22] = [
    ("lambda_gb_second", "GB-second"),
    ("lambda_gb_second_arm", "GB-second"),
    ("lambda_request", "request"),
    ("state_transition", "transition"),
    ("s3_put", "request"),
    ("s3_list", "request"),
    ("s3_get", "request"),
    ("s3_delete", "request"),
    ("s3_upload_gb", "GB"),
    ("s3_retrieval_gb", "GB"),
    ("s3_gb_month", "GB-month"),
    ("ebs_gp3_gb_month", "GB-month"),
    ("logs_gb", "GB"),
    ("logs_gb_month", "GB-month"),
    ("metric_read", "metric"),
    ("vpc_endpoint_hour", "hour"),
    ("vpc_endpoint_gb", "GB"),
    ("ipv4_address_hour", "hour"),
    ("sqs_request", "request"),
    ("broker/", "hour"),
    ("ec2/", "hour"),
    ("serverless_gpu/", "second"),
];

/// Names of units, each with the unit that it is a multiple of, and that multiple.
const UNITS: [(&str, &str, f64); 20] = [
    ("s", "second", 1.0),
    ("sec", "second", 1.0),
    ("second", "second", 1.0),
    ("min", "second", 60.0),
    ("minute", "second", 60.0),
    ("h", "second", 3600.0),
    ("hr", "second", 3600.0),
    ("hour", "second", 3600.0),
    ("day", "second", 86_400.0),
    ("gb-s", "GB-second", 1.0),
    ("gb-second", "GB-second", 1.0),
    ("gb-h", "GB-second", 3600.0),
    ("gb-hour", "GB-second", 3600.0),
    ("gb", "GB", 1.0),
    ("gb-month", "GB-month", 1.0),
    ("gb-mo", "GB-month", 1.0),
    ("request", "request", 1.0),
    ("transition", "transition", 1.0),
    ("metric", "metric", 1.0),
    ("call", "request", 1.0),
];

/// The field of a price that cannot be used, the problem and the remedy.
pub(crate) type Fault = (&'static str, String, String);

/// Returns the unit of a dimension, and the factor that turns a price per `unit` into a price per
/// it.
///
/// # Errors
/// When there is no such dimension, or `unit` does not convert to its unit.
pub fn of(dimension: &str, unit: &str) -> Result<(&'static str, f64), Fault> {
    let is_it = |known: &str| {
        let rest = dimension.strip_prefix(known);
        rest.is_some_and(|rest| rest.is_empty() != known.ends_with('/'))
    };
    let Some((_, wanted)) = DIMENSIONS.iter().find(|(known, _)| is_it(known)) else {
        let known = DIMENSIONS.map(|(known, _)| known);
        let problem = format!("no bill has a dimension `{dimension}`");
        let given = dimension.split_inclusive('/').next().unwrap_or_default();
        return Err(("dimension", problem, did_you_mean(given, &known)));
    };
    if unit == *wanted {
        return Ok((wanted, 1.0));
    }
    if let (Some((base, written)), Some((own_base, own))) = (size(unit), size(wanted))
        && base == own_base
    {
        return Ok((wanted, own / written));
    }
    let problem = format!("`{unit}` is not a unit of `{dimension}`");
    let remedy = format!("state the price in US dollars per {wanted}: `unit: {wanted}`");
    Err(("unit", problem, remedy))
}

/// Returns what a unit is a multiple of, and that multiple: `1,000 requests`, `million requests`.
fn size(unit: &str) -> Option<(&'static str, f64)> {
    let unit = unit.trim().to_lowercase();
    let mut words: Vec<&str> = unit.split_whitespace().collect();
    let name = words.pop()?;
    let is_it = |known: &str| name == known || name.strip_suffix('s') == Some(known);
    let (_, base, size) = UNITS.iter().find(|(known, _, _)| is_it(known))?;
    let count = words.into_iter().try_fold(1.0, |count, word| {
        let factor = match word {
            "per" => 1.0,
            "thousand" => 1e3,
            "million" => 1e6,
            number => number.replace(',', "").parse().ok()?,
        };
        Some(count * factor)
    })?;
    (count > 0.0 && f64::is_finite(count)).then_some((*base, count * size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_converted_to_the_unit_of_their_dimension() {
        for (dimension, unit, factor) in [
            ("ec2/modal-t4", "second", 3600.0),
            ("ec2/modal-t4", "day", 1.0 / 24.0),
            ("serverless_gpu/cloud_run_l4", "hour", 1.0 / 3600.0),
            ("lambda_gb_second", "GB-hours", 1.0 / 3600.0),
            ("s3_put", "1,000 requests", 1e-3),
            ("sqs_request", "per million requests", 1e-6),
        ] {
            let (_, found) = of(dimension, unit).unwrap();
            let off = (found / factor - 1.0).abs();
            assert!(off < 1e-12, "{dimension}, {unit}: {found}");
        }
    }

    #[test]
    fn other_units_and_dimensions_are_refused() {
        for (dimension, unit) in [
            ("ec2/g4dn.xlarge", "request"),
            ("ec2/g4dn.xlarge", "EUR per hour"),
            ("ec2/g4dn.xlarge", "0 hours"),
            ("ec2/g4dn.xlarge", "month"),
            ("s3_gb_month", "GB"),
            ("lambda_gb_second", "second"),
            ("lambda_gb_second", ""),
        ] {
            let (field, _, remedy) = of(dimension, unit).unwrap_err();
            assert_eq!(field, "unit");
            assert!(remedy.contains("unit: "), "{remedy}");
        }
        for (typo, meant) in [
            ("lambda_gb_secnd", "`lambda_gb_second`"),
            ("ec3/g4dn.xlarge", "`ec2/`"),
            ("ec2/", "`ec2/`"),
        ] {
            let (field, _, remedy) = of(typo, "hour").unwrap_err();
            assert_eq!(field, "dimension");
            assert!(remedy.contains(meant), "{remedy}");
        }
    }
}
