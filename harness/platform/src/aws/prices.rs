//! The price book, as the AWS crate asks for prices.

use epochcost_aws::HoldingPrices;
use epochcost_aws_plan::Prices;

pub(super) use crate::aws_plan::Book;

impl Book<'_> {
    fn usd(&self, dimension: &str) -> Result<f64, String> {
        self.price(dimension).map(|(usd, _)| usd)
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
