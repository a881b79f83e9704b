//! Refusals and checks over AWS' wire formats, from documents written by hand: answers that
//! no emulator gives.

#![allow(clippy::unwrap_used)]

mod metrics;
mod network;
mod service;

use epochcost_aws::doctor::{Check, Needs, check};
use epochcost_aws::{AwsError, Cause, RunFilter, survey};
use service::{Service, ec2_error, identity, regions};

/// Returns the cause of a refused `DescribeRegions`, and the number of requests.
async fn refused(answer: service::Answerer) -> (AwsError, usize) {
    let service = Service::start(answer).await;
    let error = service.clients().await.regions().await.unwrap_err();
    (error, service.asked("DescribeRegions"))
}

#[tokio::test]
async fn refusals_are_told_apart_and_say_what_to_do() {
    let cases: [(service::Answerer, Cause, usize, &str); 8] = [
        (
            |_| (503, ec2_error("RequestLimitExceeded")),
            Cause::Throttled,
            3,
            "give the command again",
        ),
        (
            |_| (500, ec2_error("InternalError")),
            Cause::Service,
            3,
            "give the command again",
        ),
        (
            |_| (400, ec2_error("ExpiredToken")),
            Cause::Expired,
            1,
            "aws sso login",
        ),
        (
            |_| (401, ec2_error("AuthFailure")),
            Cause::Unrecognised,
            1,
            "AWS_PROFILE",
        ),
        (
            |_| (403, ec2_error("UnauthorizedOperation")),
            Cause::Permission,
            1,
            "epochcost aws policy",
        ),
        (
            |_| (400, ec2_error("VcpuLimitExceeded")),
            Cause::Quota,
            1,
            "Service Quotas",
        ),
        (
            |_| (400, ec2_error("DependencyViolation")),
            Cause::InUse,
            1,
            "clean --dry-run",
        ),
        (
            |_| (400, ec2_error("SomethingNew")),
            Cause::Other,
            1,
            "clean --dry-run",
        ),
    ];
    for (answer, cause, attempts, remedy) in cases {
        let (error, asked) = refused(answer).await;
        assert_eq!((error.cause(), asked), (Some(cause), attempts), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with("failed to list the account's regions"),
            "{text}"
        );
        assert!(text.contains(remedy), "{text}");
    }
}

/// A lack of capacity is AWS' shortage, whatever the status: no quota helps.
#[tokio::test]
async fn no_capacity_is_no_quota() {
    let answer: service::Answerer = |_| (500, ec2_error("InsufficientInstanceCapacity"));
    let (error, _) = refused(answer).await;
    assert_eq!(error.cause(), Some(Cause::Capacity));
    assert!(error.to_string().contains("another region"));
}

#[tokio::test]
async fn nobody_at_the_other_end_is_no_refusal() {
    let service = Service::start(|_| (200, String::new())).await;
    let mut clients = service.clients().await;
    let config = epochcost_aws::configuration()
        .region("eu-west-1")
        .credentials_provider(aws_sdk_s3::config::Credentials::new(
            "a", "b", None, None, "test",
        ))
        .retry_config(aws_config::retry::RetryConfig::disabled())
        // The discard port of the loopback interface, which is closed.
        .endpoint_url("http://127.0.0.1:9");
    clients = epochcost_aws::Clients::new(config.load().await, None).unwrap_or(clients);
    let error = clients.regions().await.unwrap_err();
    assert_eq!(error.cause(), Some(Cause::Unreachable), "{error}");
}

/// An incomplete survey must not read as "nothing is left".
#[tokio::test]
async fn a_survey_with_a_gap_is_an_error() {
    let service = Service::start(|_| (403, ec2_error("UnauthorizedOperation"))).await;
    let all = survey(
        &service.clients().await,
        &["eu-west-1".to_owned()],
        &RunFilter::AllRuns,
    )
    .await;
    assert!(all.is_err());
}

fn quota(value: f64) -> String {
    format!("{{\"Quota\": {{\"QuotaCode\": \"L\", \"Value\": {value}}}}}")
}

fn vpcs(count: usize) -> String {
    let items = "<item><vpcId>vpc-1</vpcId><state>available</state></item>".repeat(count);
    network::ec2("DescribeVpcs", &format!("<vpcSet>{items}</vpcSet>"))
}

/// Returns a decision for each of two actions.
fn decisions(second: &str) -> String {
    let one = |action: &str, decision: &str| {
        format!(
            "<member><EvalActionName>{action}</EvalActionName>\
             <EvalResourceName>*</EvalResourceName><EvalDecision>{decision}</EvalDecision></member>"
        )
    };
    format!(
        "<SimulatePrincipalPolicyResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\">\
         <SimulatePrincipalPolicyResult><IsTruncated>false</IsTruncated><EvaluationResults>{}{}\
         </EvaluationResults></SimulatePrincipalPolicyResult></SimulatePrincipalPolicyResponse>",
        one("s3:CreateBucket", "allowed"),
        one("iam:CreateRole", second)
    )
}

/// Returns a role of IAM Identity Center, whose ARN has a path that a session's lacks.
fn role() -> String {
    "<GetRoleResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"><GetRoleResult><Role>\
     <Path>/aws-reserved/sso.amazonaws.com/</Path><RoleName>x</RoleName><RoleId>AROA1</RoleId>\
     <Arn>arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/x</Arn>\
     <CreateDate>2026-01-01T00:00:00Z</CreateDate></Role></GetRoleResult></GetRoleResponse>"
        .to_owned()
}

async fn checks(answer: service::Answerer) -> Vec<Check> {
    let service = Service::start(answer).await;
    let needs = Needs {
        concurrency: 12,
        gpu_vcpus: 16,
        standard_vcpus: 10,
    };
    check(&service.clients().await, needs).await
}

fn one<'a>(checks: &'a [Check], what: &str) -> &'a Check {
    checks.iter().find(|check| check.what == what).unwrap()
}

#[tokio::test]
async fn an_account_with_everything_is_fine() {
    let checks = checks(|operation| match operation {
        "GetCallerIdentity" => (200, identity()),
        "DescribeRegions" => (200, regions()),
        "GetServiceQuota" => (200, quota(1000.0)),
        "DescribeVpcs" => (200, vpcs(1)),
        "RunInstances" => (412, ec2_error("DryRunOperation")),
        "GetRole" => (200, role()),
        "SimulatePrincipalPolicy" => (200, decisions("allowed")),
        other => panic!("nobody should ask for {other}"),
    })
    .await;
    assert!(checks.iter().all(|check| check.found.is_ok()), "{checks:?}");
    // One dry run for the GPUs' type, one for the hosts'.
    assert_eq!(checks.len(), 9);
}

#[tokio::test]
async fn what_is_missing_is_named_with_what_to_ask_for() {
    let checks = checks(|operation| match operation {
        "GetCallerIdentity" => (200, identity()),
        "DescribeRegions" => (200, regions().replace("eu-west-1", "us-east-1")),
        "GetServiceQuota" => (200, quota(8.0)),
        "DescribeVpcs" => (200, vpcs(8)),
        "RunInstances" => (403, ec2_error("UnauthorizedOperation")),
        "GetRole" => (200, role()),
        "SimulatePrincipalPolicy" => (200, decisions("implicitDeny")),
        other => panic!("nobody should ask for {other}"),
    })
    .await;
    assert!(one(&checks, "AWS region").found.is_err());
    assert!(
        one(&checks, "Lambda concurrency")
            .remedy
            .contains("at least 12")
    );
    // Four workers of four vCPUs.
    assert!(
        one(&checks, "G instances")
            .remedy
            .contains("at least 16 of L-DB2E81BA")
    );
    // What tensor stores and queues run on.
    assert!(
        one(&checks, "standard instances")
            .remedy
            .contains("at least 10 of L-1216C47A")
    );
    // The run's VPC in addition to eight existing ones.
    assert!(
        one(&checks, "VPCs")
            .remedy
            .contains("at least 9 of L-F678F1CE")
    );
    assert!(one(&checks, "EC2 dry run").found.is_err());
    let permissions = one(&checks, "permissions").found.as_ref().unwrap_err();
    assert_eq!(permissions, "not allowed: iam:CreateRole");
}

/// A quota that nobody has changed is unknown in some accounts: it has its default.
#[tokio::test]
async fn an_unknown_quota_is_its_default() {
    let checks = checks(|operation| match operation {
        "GetCallerIdentity" => (200, identity()),
        "DescribeRegions" => (200, regions()),
        "GetServiceQuota" => {
            let unknown = "{\"__type\": \"NoSuchResourceException\", \"Message\": \"told to\"}";
            (400, unknown.to_owned())
        }
        "GetAWSDefaultServiceQuota" => (200, quota(5.0)),
        "DescribeVpcs" => (200, vpcs(1)),
        "RunInstances" => (412, ec2_error("DryRunOperation")),
        "GetRole" => (200, role()),
        "SimulatePrincipalPolicy" => (200, decisions("allowed")),
        other => panic!("nobody should ask for {other}"),
    })
    .await;
    assert!(one(&checks, "VPCs").found.is_ok(), "{checks:?}");
    let standard = one(&checks, "standard instances").found.as_ref();
    assert!(standard.unwrap_err().starts_with("5 vCPUs"), "{checks:?}");
}

#[tokio::test]
async fn without_an_identity_nothing_else_is_asked() {
    let checks = checks(|_| {
        let error = "<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredToken</Code>\
                     <Message>told to</Message></Error></ErrorResponse>";
        (403, error.to_owned())
    })
    .await;
    assert_eq!(checks.len(), 1);
    assert!(checks[0].remedy.contains("aws sso login"), "{checks:?}");
}
