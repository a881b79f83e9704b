//! Calls of AWS' APIs that this crate makes, with their permissions.

/// Call with its permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permitted {
    /// The SDK's name of the service.
    pub service: &'static str,
    /// Operation.
    pub operation: &'static str,
    /// IAM action; none if no permission is needed.
    pub action: Option<String>,
}

/// Calls by service: the SDK's name of the service, the prefix of its actions (none: no permission is
/// needed), and operations; `A=B` has an action of another name.
const SERVICES: [(&str, &str, &str); 10] = [
    (
        "S3",
        "s3",
        "CreateBucket PutBucketTagging PutPublicAccessBlock=PutBucketPublicAccessBlock \
         PutBucketLifecycleConfiguration=PutLifecycleConfiguration PutObject GetObject \
         ListBuckets=ListAllMyBuckets GetBucketLocation GetBucketTagging ListObjectsV2=ListBucket \
         DeleteObjects=DeleteObject DeleteBucket",
    ),
    (
        "IAM",
        "iam",
        "CreateRole GetRole PutRolePolicy ListRoles ListRoleTags ListRolePolicies \
         DeleteRolePolicy DeleteRole CreateInstanceProfile GetInstanceProfile \
         AddRoleToInstanceProfile ListInstanceProfiles RemoveRoleFromInstanceProfile \
         DeleteInstanceProfile SimulatePrincipalPolicy",
    ),
    (
        "EC2",
        "ec2",
        "DescribeRegions CreateVpc DescribeVpcs ModifyVpcAttribute DeleteVpc \
         CreateInternetGateway AttachInternetGateway DescribeInternetGateways \
         DetachInternetGateway DeleteInternetGateway DescribeRouteTables CreateRoute \
         DescribeInstanceTypeOfferings CreateSubnet ModifySubnetAttribute DescribeSubnets \
         DeleteSubnet CreateVpcEndpoint DescribeVpcEndpoints DeleteVpcEndpoints \
         DescribeVpcEndpointServices DescribeNetworkInterfaces DeleteNetworkInterface \
         CreateSecurityGroup AuthorizeSecurityGroupIngress DescribeSecurityGroups \
         DeleteSecurityGroup RunInstances DescribeInstances TerminateInstances DescribeVolumes \
         DeleteVolume",
    ),
    (
        "CloudWatch Logs",
        "logs",
        "CreateLogGroup PutRetentionPolicy DescribeLogGroups ListTagsForResource DeleteLogGroup \
         FilterLogEvents",
    ),
    ("CloudWatch", "cloudwatch", "GetMetricData"),
    (
        "Lambda",
        "lambda",
        "CreateFunction PutFunctionEventInvokeConfig GetFunctionConfiguration \
         Invoke=InvokeFunction ListFunctions ListTags DeleteFunction",
    ),
    (
        "SFN",
        "states",
        "DescribeStateMachine CreateStateMachine ListStateMachines ListTagsForResource \
         DeleteStateMachine StartExecution StopExecution ListExecutions DescribeExecution \
         GetExecutionHistory",
    ),
    ("STS", "", "GetCallerIdentity"),
    (
        "Service Quotas",
        "servicequotas",
        "GetServiceQuota GetAWSDefaultServiceQuota",
    ),
    ("Pricing", "pricing", "GetProducts"),
];

/// Returns all calls by service.
pub fn calls() -> impl Iterator<Item = Permitted> {
    SERVICES.iter().flat_map(|(service, prefix, operations)| {
        operations.split(' ').map(move |named| {
            let (operation, action) = named.split_once('=').unwrap_or((named, named));
            Permitted {
                service,
                operation,
                action: (!prefix.is_empty()).then(|| format!("{prefix}:{action}")),
            }
        })
    })
}

/// Actions beside those named like a call: tags in a creation, roles that are passed on.
pub const BESIDE: &[&str] = &[
    "iam:PassRole",
    "iam:TagRole",
    "iam:TagInstanceProfile",
    "ec2:CreateTags",
    // Private names of an endpoint are a zone of Route 53 that is associated with the VPC.
    "route53:AssociateVPCWithHostedZone",
    "lambda:TagResource",
    "logs:TagResource",
    "states:TagResource",
    // AWS fetches a function's package and reads an image's public parameter on behalf of
    // the caller.
    "s3:GetObject",
    "ssm:GetParameters",
];

/// Returns all actions that the caller needs, sorted.
pub fn actions() -> Vec<String> {
    let named = calls().filter_map(|call| call.action);
    let mut actions: Vec<String> = named
        .chain(BESIDE.iter().map(|&action| action.into()))
        .collect();
    actions.sort_unstable();
    actions
}
