//! Calls of AWS' APIs that this crate makes, with their permissions.

/// Call with its permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permitted {
    /// The SDK's name of the service.
    pub service: &'static str,
    /// Operation.
    pub operation: &'static str,
    /// IAM action; empty if no permission is needed.
    pub action: &'static str,
}

const fn call(service: &'static str, operation: &'static str, action: &'static str) -> Permitted {
    Permitted {
        service,
        operation,
        action,
    }
}

/// All calls by service.
pub const CALLS: &[Permitted] = &[
    call("S3", "CreateBucket", "s3:CreateBucket"),
    call("S3", "PutBucketTagging", "s3:PutBucketTagging"),
    call(
        "S3",
        "PutPublicAccessBlock",
        "s3:PutBucketPublicAccessBlock",
    ),
    call(
        "S3",
        "PutBucketLifecycleConfiguration",
        "s3:PutLifecycleConfiguration",
    ),
    call("S3", "PutObject", "s3:PutObject"),
    call("S3", "GetObject", "s3:GetObject"),
    call("S3", "ListBuckets", "s3:ListAllMyBuckets"),
    call("S3", "GetBucketLocation", "s3:GetBucketLocation"),
    call("S3", "GetBucketTagging", "s3:GetBucketTagging"),
    call("S3", "ListObjectsV2", "s3:ListBucket"),
    call("S3", "DeleteObjects", "s3:DeleteObject"),
    call("S3", "DeleteBucket", "s3:DeleteBucket"),
    call("IAM", "CreateRole", "iam:CreateRole"),
    call("IAM", "GetRole", "iam:GetRole"),
    call("IAM", "PutRolePolicy", "iam:PutRolePolicy"),
    call("IAM", "ListRoles", "iam:ListRoles"),
    call("IAM", "ListRoleTags", "iam:ListRoleTags"),
    call("IAM", "ListRolePolicies", "iam:ListRolePolicies"),
    call("IAM", "DeleteRolePolicy", "iam:DeleteRolePolicy"),
    call("IAM", "DeleteRole", "iam:DeleteRole"),
    call("IAM", "CreateInstanceProfile", "iam:CreateInstanceProfile"),
    call("IAM", "GetInstanceProfile", "iam:GetInstanceProfile"),
    call(
        "IAM",
        "AddRoleToInstanceProfile",
        "iam:AddRoleToInstanceProfile",
    ),
    call("IAM", "ListInstanceProfiles", "iam:ListInstanceProfiles"),
    call(
        "IAM",
        "RemoveRoleFromInstanceProfile",
        "iam:RemoveRoleFromInstanceProfile",
    ),
    call("IAM", "DeleteInstanceProfile", "iam:DeleteInstanceProfile"),
    call(
        "IAM",
        "SimulatePrincipalPolicy",
        "iam:SimulatePrincipalPolicy",
    ),
    call("EC2", "DescribeRegions", "ec2:DescribeRegions"),
    call("EC2", "CreateVpc", "ec2:CreateVpc"),
    call("EC2", "DescribeVpcs", "ec2:DescribeVpcs"),
    call("EC2", "ModifyVpcAttribute", "ec2:ModifyVpcAttribute"),
    call("EC2", "DeleteVpc", "ec2:DeleteVpc"),
    call("EC2", "CreateInternetGateway", "ec2:CreateInternetGateway"),
    call("EC2", "AttachInternetGateway", "ec2:AttachInternetGateway"),
    call(
        "EC2",
        "DescribeInternetGateways",
        "ec2:DescribeInternetGateways",
    ),
    call("EC2", "DetachInternetGateway", "ec2:DetachInternetGateway"),
    call("EC2", "DeleteInternetGateway", "ec2:DeleteInternetGateway"),
    call("EC2", "DescribeRouteTables", "ec2:DescribeRouteTables"),
    call("EC2", "CreateRoute", "ec2:CreateRoute"),
    call(
        "EC2",
        "DescribeInstanceTypeOfferings",
        "ec2:DescribeInstanceTypeOfferings",
    ),
    call("EC2", "CreateSubnet", "ec2:CreateSubnet"),
    call("EC2", "ModifySubnetAttribute", "ec2:ModifySubnetAttribute"),
    call("EC2", "DescribeSubnets", "ec2:DescribeSubnets"),
    call("EC2", "DeleteSubnet", "ec2:DeleteSubnet"),
    call("EC2", "CreateVpcEndpoint", "ec2:CreateVpcEndpoint"),
    call("EC2", "DescribeVpcEndpoints", "ec2:DescribeVpcEndpoints"),
    call("EC2", "DeleteVpcEndpoints", "ec2:DeleteVpcEndpoints"),
    call(
        "EC2",
        "DescribeVpcEndpointServices",
        "ec2:DescribeVpcEndpointServices",
    ),
    call(
        "EC2",
        "DescribeNetworkInterfaces",
        "ec2:DescribeNetworkInterfaces",
    ),
    call(
        "EC2",
        "DeleteNetworkInterface",
        "ec2:DeleteNetworkInterface",
    ),
    call("EC2", "CreateSecurityGroup", "ec2:CreateSecurityGroup"),
    call(
        "EC2",
        "AuthorizeSecurityGroupIngress",
        "ec2:AuthorizeSecurityGroupIngress",
    ),
    call(
        "EC2",
        "DescribeSecurityGroups",
        "ec2:DescribeSecurityGroups",
    ),
    call("EC2", "DeleteSecurityGroup", "ec2:DeleteSecurityGroup"),
    call("EC2", "RunInstances", "ec2:RunInstances"),
    call("EC2", "DescribeInstances", "ec2:DescribeInstances"),
    call("EC2", "TerminateInstances", "ec2:TerminateInstances"),
    call("EC2", "DescribeVolumes", "ec2:DescribeVolumes"),
    call("EC2", "DeleteVolume", "ec2:DeleteVolume"),
    call("CloudWatch Logs", "CreateLogGroup", "logs:CreateLogGroup"),
    call(
        "CloudWatch Logs",
        "PutRetentionPolicy",
        "logs:PutRetentionPolicy",
    ),
    call(
        "CloudWatch Logs",
        "DescribeLogGroups",
        "logs:DescribeLogGroups",
    ),
    call(
        "CloudWatch Logs",
        "ListTagsForResource",
        "logs:ListTagsForResource",
    ),
    call("CloudWatch Logs", "DeleteLogGroup", "logs:DeleteLogGroup"),
    call("CloudWatch Logs", "FilterLogEvents", "logs:FilterLogEvents"),
    call("CloudWatch", "GetMetricData", "cloudwatch:GetMetricData"),
    call("Lambda", "CreateFunction", "lambda:CreateFunction"),
    call(
        "Lambda",
        "PutFunctionEventInvokeConfig",
        "lambda:PutFunctionEventInvokeConfig",
    ),
    call(
        "Lambda",
        "GetFunctionConfiguration",
        "lambda:GetFunctionConfiguration",
    ),
    call("Lambda", "Invoke", "lambda:InvokeFunction"),
    call("Lambda", "ListFunctions", "lambda:ListFunctions"),
    call("Lambda", "ListTags", "lambda:ListTags"),
    call("Lambda", "DeleteFunction", "lambda:DeleteFunction"),
    call("SFN", "DescribeStateMachine", "states:DescribeStateMachine"),
    call("SFN", "CreateStateMachine", "states:CreateStateMachine"),
    call("SFN", "ListStateMachines", "states:ListStateMachines"),
    call("SFN", "ListTagsForResource", "states:ListTagsForResource"),
    call("SFN", "DeleteStateMachine", "states:DeleteStateMachine"),
    call("SFN", "StartExecution", "states:StartExecution"),
    call("SFN", "StopExecution", "states:StopExecution"),
    call("SFN", "ListExecutions", "states:ListExecutions"),
    call("SFN", "DescribeExecution", "states:DescribeExecution"),
    call("SFN", "GetExecutionHistory", "states:GetExecutionHistory"),
    call("STS", "GetCallerIdentity", ""),
    call(
        "Service Quotas",
        "GetServiceQuota",
        "servicequotas:GetServiceQuota",
    ),
    call(
        "Service Quotas",
        "GetAWSDefaultServiceQuota",
        "servicequotas:GetAWSDefaultServiceQuota",
    ),
    call("Pricing", "GetProducts", "pricing:GetProducts"),
];

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
pub fn actions() -> Vec<&'static str> {
    let named = CALLS.iter().map(|call| call.action);
    let mut actions: Vec<&'static str> = named
        .filter(|action| !action.is_empty())
        .chain(BESIDE.iter().copied())
        .collect();
    actions.sort_unstable();
    actions
}
