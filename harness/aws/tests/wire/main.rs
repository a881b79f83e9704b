//! Refusals and checks over AWS' wire formats, from documents written by hand: answers that
//! no emulator gives.

#![allow(clippy::unwrap_used)]

mod metrics;
mod network;
mod service;

use epochcost_aws::doctor::{Check, Needs, check};
use epochcost_aws::{Cause, RunFilter, survey};
use service::{IDENTITY, Row, Service, clients};

/// Fails unless the text holds every word.
#[track_caller]
fn holds(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}

/// What was tried three times may succeed later. A lack of capacity is AWS' shortage, whatever the status:
/// no quota helps.
#[tokio::test]
async fn refusals_are_told_apart_and_say_what_to_do() {
    for row in [
        "503 RequestLimitExceeded | Throttled | 3 | give the command again",
        "500 InternalError | Service | 3 | give the command again",
        "500 InsufficientInstanceCapacity | Capacity | 3 | another region",
        "400 ExpiredToken | Expired | 1 | aws sso login",
        "401 AuthFailure | Unrecognised | 1 | AWS_PROFILE",
        "403 UnauthorizedOperation | Permission | 1 | epochcost aws policy",
        "400 VcpuLimitExceeded | Quota | 1 | Service Quotas",
        "400 DependencyViolation | InUse | 1 | clean --dry-run",
        "400 SomethingNew | Other | 1 | clean --dry-run",
    ] {
        let parts: Vec<&str> = row.split(" | ").collect();
        let service = Service::of(&[("DescribeRegions", &[parts[0]])]).await;
        let error = service.clients().await.regions().await.unwrap_err();
        let cause = format!("{:?}", error.cause().unwrap());
        let asked = service.asked("DescribeRegions").to_string();
        assert_eq!([&*cause, &*asked], parts[1..3], "{error}");
        let listing = "failed to list the account's regions";
        assert!(error.to_string().starts_with(listing), "{error}");
        holds(&error.to_string(), &[parts[3]]);
    }
}

#[tokio::test]
async fn nobody_at_the_other_end_is_no_refusal() {
    // The discard port of the loopback interface, which is closed.
    let clients = clients("http://127.0.0.1:9").await;
    let error = clients.regions().await.unwrap_err();
    assert_eq!(error.cause(), Some(Cause::Unreachable), "{error}");
}

/// An incomplete survey must not read as "nothing is left".
#[tokio::test]
async fn a_survey_with_a_gap_is_an_error() {
    // Whatever is asked for.
    let service = Service::of(&[("", &["403 UnauthorizedOperation"])]).await;
    let regions = ["eu-west-1".to_owned()];
    let all = survey(&service.clients().await, &regions, &RunFilter::AllRuns).await;
    assert!(all.is_err());
}

const REGIONS: &str = "<regionInfo><item><regionName>eu-west-1</regionName></item></regionInfo>";

/// A role of IAM Identity Center, whose ARN has a path that a session's lacks.
const ROLE: &str = "200 <GetRoleResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"><GetRoleResult>\
    <Role><Path>/aws-reserved/sso.amazonaws.com/</Path><RoleName>x</RoleName><RoleId>AROA1</RoleId>\
    <Arn>arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/x</Arn>\
    <CreateDate>2026-01-01T00:00:00Z</CreateDate></Role></GetRoleResult></GetRoleResponse>";

fn quota(value: f64) -> String {
    format!("200 {{\"Quota\": {{\"QuotaCode\": \"L\", \"Value\": {value}}}}}")
}

fn vpcs(count: usize) -> String {
    let items = "<item><vpcId>vpc-1</vpcId><state>available</state></item>".repeat(count);
    format!("<vpcSet>{items}</vpcSet>")
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
        "200 <SimulatePrincipalPolicyResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\">\
         <SimulatePrincipalPolicyResult><IsTruncated>false</IsTruncated><EvaluationResults>{}{}\
         </EvaluationResults></SimulatePrincipalPolicyResult></SimulatePrincipalPolicyResponse>",
        one("s3:CreateBucket", "allowed"),
        one("iam:CreateRole", second)
    )
}

/// Checks an account with everything, but for some answers.
async fn checks(but: &[Row<'_>]) -> (Service, Vec<Check>) {
    let (quota, vpcs, allowed) = (quota(1000.0), vpcs(1), decisions("allowed"));
    let fine: [Row<'_>; 7] = [
        ("GetCallerIdentity", &[IDENTITY]),
        ("DescribeRegions", &[REGIONS]),
        ("GetServiceQuota", &[&quota]),
        ("DescribeVpcs", &[&vpcs]),
        ("RunInstances", &["412 DryRunOperation"]),
        ("GetRole", &[ROLE]),
        ("SimulatePrincipalPolicy", &[&allowed]),
    ];
    let service = Service::of(&[but, &fine].concat()).await;
    let needs = Needs {
        concurrency: 12,
        gpu_vcpus: 16,
        standard_vcpus: 10,
    };
    let checks = check(&service.clients().await, needs).await;
    (service, checks)
}

fn one<'a>(checks: &'a [Check], what: &str) -> &'a Check {
    checks.iter().find(|check| check.what == what).unwrap()
}

#[tokio::test]
async fn an_account_with_everything_is_fine() {
    let (service, checks) = checks(&[]).await;
    assert!(checks.iter().all(|check| check.found.is_ok()), "{checks:?}");
    // One dry run for the GPUs' type, one for the hosts'.
    assert_eq!(checks.len(), 9);
    let asked = service.first("SimulatePrincipalPolicy");
    holds(&asked, &["role%2Faws-reserved%2Fsso.amazonaws.com%2Fx"]);
}

#[tokio::test]
async fn what_is_missing_is_named_with_what_to_ask_for() {
    let others = REGIONS.replace("eu-west-1", "us-east-1");
    let (_, checks) = checks(&[
        ("DescribeRegions", &[&others]),
        ("GetServiceQuota", &[&quota(8.0)]),
        ("DescribeVpcs", &[&vpcs(8)]),
        ("RunInstances", &["403 UnauthorizedOperation"]),
        ("SimulatePrincipalPolicy", &[&decisions("implicitDeny")]),
    ])
    .await;
    for what in ["AWS region", "EC2 dry run"] {
        assert!(one(&checks, what).found.is_err(), "{what}");
    }
    for (what, remedy) in [
        ("Lambda concurrency", "at least 12"),
        // Four workers of four vCPUs.
        ("G instances", "at least 16 of L-DB2E81BA"),
        // What tensor stores and queues run on.
        ("standard instances", "at least 10 of L-1216C47A"),
        // The run's VPC in addition to eight existing ones.
        ("VPCs", "at least 9 of L-F678F1CE"),
    ] {
        holds(&one(&checks, what).remedy, &[remedy]);
    }
    let permissions = one(&checks, "permissions").found.as_ref().unwrap_err();
    assert_eq!(permissions, "not allowed: iam:CreateRole");
}

/// A quota that nobody has changed is unknown in some accounts: it has its default.
#[tokio::test]
async fn an_unknown_quota_is_its_default() {
    let unknown = r#"400 {"__type": "NoSuchResourceException", "Message": "told to"}"#;
    let (_, checks) = checks(&[
        ("GetServiceQuota", &[unknown]),
        ("GetAWSDefaultServiceQuota", &[&quota(5.0)]),
    ])
    .await;
    assert!(one(&checks, "VPCs").found.is_ok(), "{checks:?}");
    let standard = one(&checks, "standard instances").found.as_ref();
    assert!(standard.unwrap_err().starts_with("5 vCPUs"), "{checks:?}");
}

#[tokio::test]
async fn without_an_identity_nothing_else_is_asked() {
    let expired = "403 <ErrorResponse><Error><Type>Sender</Type><Code>ExpiredToken</Code>\
                   <Message>told to</Message></Error></ErrorResponse>";
    let (_, checks) = checks(&[("GetCallerIdentity", &[expired])]).await;
    assert_eq!(checks.len(), 1);
    holds(&checks[0].remedy, &["aws sso login"]);
}
