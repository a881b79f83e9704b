//! Checks of what an account allows, without creating anything.

use aws_sdk_ec2::types::InstanceType;
use aws_sdk_iam::types::PolicyEvaluationDecisionType;

use crate::resource::{call, vpcs};
use crate::{AwsError, Cause, Clients, calls};

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Subject of the check.
    pub what: &'static str,
    /// Finding, or the problem.
    pub found: Result<String, String>,
    /// Remedy of the problem; empty without one.
    pub remedy: String,
}

/// Requirements of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Functions that run at once.
    pub concurrency: u32,
    /// Workers on g4dn.xlarge that run at once.
    pub gpu_workers: u32,
}

/// vCPUs of a g4dn.xlarge ("Amazon EC2 G4 instances").
const GPU_VCPUS: u32 = 4;
const GPU_INSTANCE: &str = "g4dn.xlarge";
/// Id of no image: a dry run checks permissions before images.
const ANY_IMAGE: &str = "ami-00000000000000000";

/// Checks identity, region, quotas and permissions.
pub async fn check(clients: &Clients, needs: Needs) -> Vec<Check> {
    let mut checks = Vec::new();
    let identity = match clients.identity().await {
        Ok(identity) => {
            checks.push(Check {
                what: "AWS identity",
                found: Ok(format!("{} in account {}", identity.arn, identity.account)),
                remedy: String::new(),
            });
            identity
        }
        Err(error) => {
            // No other service would answer.
            checks.push(wrong("AWS identity", &error));
            return checks;
        }
    };
    checks.push(region(clients).await);
    checks.push(
        quota(
            clients,
            "Lambda concurrency",
            ("lambda", "L-B99A9384"),
            needs.concurrency,
            "concurrent executions",
        )
        .await,
    );
    checks.push(
        quota(
            clients,
            "G instances",
            ("ec2", "L-DB2E81BA"),
            needs.gpu_workers * GPU_VCPUS,
            "vCPUs of running on-demand G and VT instances",
        )
        .await,
    );
    checks.push(network(clients).await);
    checks.push(may_run(clients).await);
    checks.push(may(clients, &identity.arn).await);
    checks
}

/// Returns the check of something that failed.
fn wrong(what: &'static str, error: &AwsError) -> Check {
    let text = error.to_string();
    let (found, remedy) = text.split_once("\n  = help: ").unwrap_or((&text, ""));
    Check {
        what,
        found: Err(found.to_owned()),
        remedy: remedy.to_owned(),
    }
}

/// Checks that the region is enabled.
async fn region(clients: &Clients) -> Check {
    let what = "AWS region";
    let here = clients.region();
    match clients.regions().await {
        Err(error) => wrong(what, &error),
        Ok(regions) if regions.iter().any(|region| region == here) => Check {
            what,
            found: Ok(here.to_owned()),
            remedy: String::new(),
        },
        Ok(_) => Check {
            what,
            found: Err(format!("{here} is not enabled for this account")),
            remedy: "enable it, or set AWS_REGION to one that is".to_owned(),
        },
    }
}

/// Checks that a quota is at least `needed`.
async fn quota(
    clients: &Clients,
    what: &'static str,
    (service, code): (&str, &str),
    needed: u32,
    of: &str,
) -> Check {
    let ask = clients
        .quotas
        .get_service_quota()
        .service_code(service)
        .quota_code(code);
    let answer = match call!(format!("read the quota {code} of {service}"), ask) {
        Ok(answer) => answer,
        Err(error) => return wrong(what, &error),
    };
    let Some(value) = answer.quota.and_then(|quota| quota.value) else {
        return Check {
            what,
            found: Err("the quota has no value".to_owned()),
            remedy: "see Service Quotas in the console".to_owned(),
        };
    };
    // The quota against the need.
    let found = format!("{value} {of}, {needed} needed");
    if value >= f64::from(needed) {
        return Check {
            what,
            found: Ok(found),
            remedy: String::new(),
        };
    }
    Check {
        what,
        found: Err(found),
        remedy: format!(
            "ask under Service Quotas for at least {needed} of {code} ({service}) in {}",
            clients.region()
        ),
    }
}

/// Checks the quota of VPCs: a run with hosts of services creates one more.
async fn network(clients: &Clients) -> Check {
    let there = match vpcs(clients).await {
        Ok(there) => u32::try_from(there).unwrap_or(u32::MAX),
        Err(error) => return wrong("VPCs", &error),
    };
    let needed = there.saturating_add(1);
    let of = format!("VPCs, of which {there} are there");
    quota(clients, "VPCs", ("vpc", "L-F678F1CE"), needed, &of).await
}

/// Checks by a dry run whether instances may be started.
async fn may_run(clients: &Clients) -> Check {
    let what = "EC2 dry run";
    let run = clients
        .instances
        .run_instances()
        .dry_run(true)
        .min_count(1)
        .max_count(1)
        .image_id(ANY_IMAGE)
        .instance_type(InstanceType::from(GPU_INSTANCE));
    let allowed = || Check {
        what,
        found: Ok(format!("instances of {GPU_INSTANCE} may be started")),
        remedy: String::new(),
    };
    match call!("start an instance in a dry run", run) {
        // An emulator without dry runs would have started one.
        Ok(_) => Check {
            what,
            found: Err("EC2 did not treat the dry run as one".to_owned()),
            remedy: "`epochcost clean` takes away what it started".to_owned(),
        },
        Err(AwsError::Call { code, .. }) if code == "DryRunOperation" => allowed(),
        // EC2 checks the image only after the permission.
        Err(AwsError::Call { code, .. }) if code.starts_with("InvalidAMIID") => allowed(),
        Err(error) => wrong(what, &error),
    }
}

/// Checks by IAM's simulator which actions the caller may do.
async fn may(clients: &Clients, arn: &str) -> Check {
    let what = "permissions";
    let simulate = clients
        .roles
        .simulate_principal_policy()
        .policy_source_arn(principal(arn))
        .set_action_names(Some(
            calls::actions().into_iter().map(str::to_owned).collect(),
        ));
    // The simulator answers for every action.
    let mut pages = simulate.into_paginator().send();
    let (mut asked, mut denied) = (0, Vec::new());
    while let Some(page) = pages.next().await {
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                let error = AwsError::of("ask what the caller may do", error);
                let mut check = wrong(what, &error);
                if error.cause() == Some(Cause::Permission) {
                    check.remedy =
                        "add iam:SimulatePrincipalPolicy, or compare with docs/aws.md".to_owned();
                }
                return check;
            }
        };
        for result in page.evaluation_results() {
            asked += 1;
            if *result.eval_decision() != PolicyEvaluationDecisionType::Allowed {
                denied.push(result.eval_action_name().to_owned());
            }
        }
    }
    // No answers at all are no permission.
    if denied.is_empty() && asked > 0 {
        return Check {
            what,
            found: Ok(format!("all {asked} actions are allowed")),
            remedy: String::new(),
        };
    }
    Check {
        what,
        found: Err(format!("not allowed: {}", denied.join(", "))),
        remedy: "add them to the caller's policy; docs/aws.md has one".to_owned(),
    }
}

/// Returns the role behind a session: sessions themselves have no policies.
fn principal(arn: &str) -> String {
    let session = arn.split_once(":assumed-role/");
    match session.and_then(|(before, rest)| Some((before, rest.split('/').next()?))) {
        Some((before, role)) => format!("{}:role/{role}", before.replace(":sts:", ":iam:")),
        None => arn.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_stands_for_its_role() {
        assert_eq!(
            principal("arn:aws:sts::123456789012:assumed-role/Admin/me@here"),
            "arn:aws:iam::123456789012:role/Admin"
        );
        let user = "arn:aws:iam::123456789012:user/me";
        assert_eq!(principal(user), user);
    }
}
