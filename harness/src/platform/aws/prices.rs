//! The price book, as the AWS crate asks for prices.

use epochcost_aws::{HoldingPrices, Prices};

use crate::cost::PriceBook;

/// A price book's prices.
pub(super) struct Book<'a>(pub(super) &'a PriceBook);

impl Book<'_> {
    fn usd(&self, dimension: &str) -> Result<f64, String> {
        self.price(dimension).map(|(usd, _)| usd)
    }
}

impl Prices for Book<'_> {
    fn price(&self, dimension: &str) -> Result<(f64, String), String> {
        let price = self.0.price(dimension).map_err(|error| error.to_string())?;
        Ok((price.usd, price.unit.clone()))
    }
}

impl HoldingPrices for Book<'_> {
    fn instance_hour(&self, instance_type: &str) -> Result<f64, String> {
        self.usd(&format!("ec2/{instance_type}"))
    }

    fn object_gb_month(&self) -> Result<f64, String> {
        self.usd("s3_gb_month")
    }

    fn log_gb_month(&self) -> Result<f64, String> {
        self.usd("logs_gb_month")
    }

    fn volume_gb_month(&self) -> Result<f64, String> {
        self.usd("ebs_gp3_gb_month")
    }

    fn endpoint_hour(&self) -> Result<f64, String> {
        self.usd("vpc_endpoint_hour")
    }
}
