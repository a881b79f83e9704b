//! Products of the Pricing API for the dimensions of a price book.

/// Query for the price of a dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Name of the dimension in price books.
    pub dimension: String,
    /// Code of the service in the Pricing API.
    pub service: &'static str,
    /// Attributes that, with the region, identify the product.
    pub attributes: Vec<(&'static str, String)>,
    /// Part of the usage type, where no attribute identifies the product: usage types
    /// begin with a prefix of the region.
    pub usage: Option<&'static str>,
    /// Unit in price books.
    pub unit: &'static str,
    /// Names of that unit in the Pricing API. Other units are an error, since there is no
    /// conversion.
    pub units: &'static [&'static str],
    /// Description.
    pub about: String,
}

/// Returns a query without a usage type.
fn query(
    dimension: &str,
    service: &'static str,
    attributes: &[(&'static str, &str)],
    (unit, units): (&'static str, &'static [&'static str]),
    about: &str,
) -> Query {
    Query {
        dimension: dimension.to_owned(),
        service,
        attributes: (attributes.iter())
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect(),
        usage: None,
        unit,
        units,
        about: about.to_owned(),
    }
}

/// Returns the query for a dimension of Amazon VPC, identified by its usage type.
fn of_vpc(
    dimension: &str,
    usage: &'static str,
    unit: (&'static str, &'static [&'static str]),
    about: &str,
) -> Query {
    Query {
        usage: Some(usage),
        ..query(dimension, "AmazonVPC", &[], unit, about)
    }
}

const HOUR: (&str, &[&str]) = ("hour", &["Hrs", "Hours", "Hour"]);
const GB_MONTH: (&str, &[&str]) = ("GB-month", &["GB-Mo", "GB-month"]);
const REQUEST: (&str, &[&str]) = ("request", &["Requests", "Request", "API Requests"]);
const GB_SECOND: (&str, &[&str]) = ("GB-second", &["Lambda-GB-Second", "GB-Second", "Second"]);
const TRANSITION: (&str, &[&str]) = ("transition", &["StateTransitions", "StateTransition"]);
const METRIC: (&str, &[&str]) = ("metric", &["Metrics", "Metric"]);
const GB: (&str, &[&str]) = ("GB", &["GB", "GigaBytes"]);

/// Returns the queries for every dimension with a price at AWS: instances of
/// `instance_types`, and everything else that a run is billed for.
pub fn queries(instance_types: &[&str]) -> Vec<Query> {
    let lambda = |group: &'static str| [("group", group)];
    let mut queries = vec![
        // Functions and workflows.
        query(
            "lambda_gb_second",
            "AWSLambda",
            &lambda("AWS-Lambda-Duration"),
            GB_SECOND,
            "Lambda, x86, GB of 1,024 MB, billed in steps of 1 ms",
        ),
        query(
            "lambda_gb_second_arm",
            "AWSLambda",
            &lambda("AWS-Lambda-Duration-ARM"),
            GB_SECOND,
            "Lambda, arm64, GB of 1,024 MB, billed in steps of 1 ms",
        ),
        query(
            "lambda_request",
            "AWSLambda",
            &lambda("AWS-Lambda-Requests"),
            REQUEST,
            "Lambda requests",
        ),
        query(
            "state_transition",
            "AmazonStates",
            &[("group", "SFN-StateTransitions")],
            TRANSITION,
            "Step Functions standard workflows",
        ),
        // Objects.
        query(
            "s3_put",
            "AmazonS3",
            &[("group", "S3-API-Tier1")],
            REQUEST,
            "S3 Standard PUT, COPY, POST",
        ),
        query(
            "s3_list",
            "AmazonS3",
            &[("group", "S3-API-Tier1")],
            REQUEST,
            "S3 Standard LIST",
        ),
        query(
            "s3_get",
            "AmazonS3",
            &[("group", "S3-API-Tier2")],
            REQUEST,
            "S3 Standard GET and all others, found or not",
        ),
        query(
            "s3_gb_month",
            "AmazonS3",
            &[
                ("volumeType", "Standard"),
                ("storageClass", "General Purpose"),
            ],
            GB_MONTH,
            "S3 Standard storage",
        ),
        // Queues.
        query(
            "sqs_request",
            "AWSQueueService",
            &[("queueType", "Standard")],
            REQUEST,
            "SQS standard queue requests of up to 64 KB",
        ),
        query(
            "broker/mq.m5.large",
            "AmazonMQ",
            &[
                ("brokerEngine", "RabbitMQ"),
                ("instanceType", "mq.m5.large"),
                ("deploymentOption", "Single-AZ"),
            ],
            HOUR,
            "Amazon MQ for RabbitMQ, one mq.m5.large broker, without its storage",
        ),
        // Volumes, logs and metrics.
        query(
            "ebs_gp3_gb_month",
            "AmazonEC2",
            &[
                ("productFamily", "Storage"),
                ("volumeApiName", "gp3"),
                // And not on an Outpost.
                ("locationType", "AWS Region"),
            ],
            GB_MONTH,
            "EBS volumes of type gp3",
        ),
        // The class for rare access has "DataProcessingIA-Bytes".
        Query {
            usage: Some("DataProcessing-Bytes"),
            ..query(
                "logs_gb",
                "AmazonCloudWatch",
                &[("group", "Ingested Logs"), ("logsSource", "Custom")],
                GB,
                "CloudWatch logs taken in",
            )
        },
        Query {
            usage: Some("GMD-Metrics"),
            ..query(
                "metric_read",
                "AmazonCloudWatch",
                &[],
                METRIC,
                "CloudWatch metrics read by GetMetricData",
            )
        },
        // Network.
        of_vpc(
            "vpc_endpoint_hour",
            "VpcEndpoint-Hours",
            HOUR,
            "An interface VPC endpoint in one availability zone",
        ),
        of_vpc(
            "vpc_endpoint_gb",
            "VpcEndpoint-Bytes",
            GB,
            "Traffic through interface VPC endpoints",
        ),
        of_vpc(
            "ipv4_address_hour",
            "PublicIPv4:InUseAddress",
            HOUR,
            "A public IPv4 address in use",
        ),
    ];
    queries.extend(instance_types.iter().map(|kind| instance(kind)));
    queries
}

/// Returns the query for an instance type: Linux, on demand, on shared hardware, without
/// licences.
fn instance(kind: &str) -> Query {
    query(
        &format!("ec2/{kind}"),
        "AmazonEC2",
        &[
            ("instanceType", kind),
            ("operatingSystem", "Linux"),
            ("preInstalledSw", "NA"),
            ("tenancy", "Shared"),
            ("capacitystatus", "Used"),
            ("operation", "RunInstances"),
            ("locationType", "AWS Region"),
        ],
        HOUR,
        &format!("EC2 Linux, {kind}, on demand"),
    )
}
