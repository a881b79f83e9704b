//! Checks of what an account allows, without creating anything.

use aws_sdk_ec2::types::InstanceType;
use aws_sdk_iam::types::PolicyEvaluationDecisionType;
use std::collections::BTreeSet;

use epochcost_aws_plan::SERVICE_INSTANCE;

use crate::resource::{call, vpcs};
use crate::{AwsError, Cause, Clients, Identity, caller_policy};

pub use epochcost_aws_plan::Needs;

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
    for (known, needed) in needs.quotas() {
        let of = (known.service, known.code);
        checks.push(quota(clients, known.title, of, needed, known.of).await);
    }
    checks.push(network(clients).await);
    let kinds = [
        (GPU_INSTANCE, needs.gpu_vcpus),
        (SERVICE_INSTANCE, needs.standard_vcpus),
    ];
    for (kind, _) in kinds.into_iter().filter(|(_, needed)| *needed > 0) {
        checks.push(may_run(clients, kind).await);
    }
    checks.push(may(clients, &identity).await);
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
    let doing = format!("read the quota {code} of {service}");
    let answer = match call!(&doing, ask) {
        Ok(answer) => Ok(answer.quota),
        // Quotas that nobody has changed are unknown in some accounts, and have their default.
        Err(error) if error.cause() == Some(Cause::NotFound) => {
            let default = clients
                .quotas
                .get_aws_default_service_quota()
                .service_code(service)
                .quota_code(code);
            call!(&doing, default).map(|answer| answer.quota)
        }
        Err(error) => Err(error),
    };
    let quota = match answer {
        Ok(quota) => quota,
        Err(error) => return wrong(what, &error),
    };
    let Some(value) = quota.and_then(|quota| quota.value) else {
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

/// Checks by a dry run whether instances of a type may be started, which free plans limit.
async fn may_run(clients: &Clients, kind: &str) -> Check {
    let what = "EC2 dry run";
    let run = clients
        .instances
        .run_instances()
        .dry_run(true)
        .min_count(1)
        .max_count(1)
        .image_id(ANY_IMAGE)
        .instance_type(InstanceType::from(kind));
    let allowed = || Check {
        what,
        found: Ok(format!("instances of {kind} may be started")),
        remedy: String::new(),
    };
    match call!("start an instance in a dry run", run) {
        // An emulator without dry runs would have started one.
        Ok(_) => Check {
            what,
            found: Err("EC2 did not treat the dry run as one".to_owned()),
            remedy: "`epochcost aws clean` takes away what it started".to_owned(),
        },
        Err(AwsError::Call { code, .. }) if code == "DryRunOperation" => allowed(),
        // EC2 checks the image only after the permission.
        Err(AwsError::Call { code, .. }) if code.starts_with("InvalidAMIID") => allowed(),
        Err(error) => wrong(what, &error),
    }
}

/// Checks by IAM's simulator which actions the caller may do, each on a resource of this program.
async fn may(clients: &Clients, identity: &Identity) -> Check {
    let (what, arn) = ("permissions", identity.arn.as_str());
    // An account's own user has all permissions, and no policies to ask for.
    if arn.ends_with(":root") {
        return Check {
            what,
            found: Ok("the account's root user may do everything".to_owned()),
            remedy: String::new(),
        };
    }
    let principal = match principal(clients, arn).await {
        Ok(principal) => principal,
        Err(error) => return wrong(what, &error),
    };
    let partition = arn.split(':').nth(1).unwrap_or("aws");
    let (mut asked, mut denied) = (BTreeSet::new(), BTreeSet::new());
    for group in caller_policy::groups(partition) {
        let answers = match simulated(clients, (&principal, &identity.account), &group).await {
            Ok(answers) => answers,
            Err(error) => {
                let mut check = wrong(what, &error);
                if error.cause() == Some(Cause::Permission) {
                    check.remedy =
                        "add iam:SimulatePrincipalPolicy, or compare with docs/aws.md".to_owned();
                }
                return check;
            }
        };
        for (action, is_allowed) in answers {
            asked.insert(action.clone());
            if !is_allowed {
                denied.insert(action);
            }
        }
    }
    let (asked, denied) = (asked.len(), Vec::from_iter(denied));
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

/// Returns which actions of a group the simulator allows a principal of an account.
async fn simulated(
    clients: &Clients,
    (principal, account): (&str, &str),
    (patterns, actions): &caller_policy::Group,
) -> Result<Vec<(String, bool)>, AwsError> {
    let resources: Vec<String> = (patterns.iter())
        .filter_map(|pattern| caller_policy::example(pattern, clients.region(), account))
        .collect();
    let simulate = clients
        .roles
        .simulate_principal_policy()
        .policy_source_arn(principal)
        .set_resource_arns((!resources.is_empty()).then_some(resources))
        .set_action_names(Some(actions.clone()));
    let mut pages = simulate.into_paginator().send();
    let mut answers = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| AwsError::of("ask what the caller may do", error))?;
        for result in page.evaluation_results() {
            let is_allowed = *result.eval_decision() == PolicyEvaluationDecisionType::Allowed;
            answers.push((result.eval_action_name().to_owned(), is_allowed));
        }
    }
    Ok(answers)
}

/// Returns the ARN whose policies are asked for: the caller's, or that of the role behind its
/// session, since sessions have no policies. A session's ARN lacks its role's path, which roles
/// of IAM Identity Center have; IAM says it.
async fn principal(clients: &Clients, arn: &str) -> Result<String, AwsError> {
    let Some(role) = session_role(arn) else {
        return Ok(arn.to_owned());
    };
    let ask = clients.roles.get_role().role_name(role);
    let answer = call!(format!("look up the role {role}"), ask)?;
    answer
        .role
        .map(|role| role.arn)
        .ok_or_else(|| AwsError::Incomplete {
            doing: format!("look up the role {role}"),
            what: "the role",
        })
}

/// Returns the name of the role behind a session's ARN.
fn session_role(arn: &str) -> Option<&str> {
    let (_, rest) = arn.split_once(":assumed-role/")?;
    rest.split('/').next()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::deployment::tests::rows;

    /// Four peers with a store each and the queue; four workers on g4dn.xlarge.
    #[test]
    fn an_experiment_needs_what_its_largest_row_needs() {
        let of = |system: &str| {
            let all = rows();
            let row = all.iter().find(|row| row.row == system).unwrap();
            Needs::of(std::slice::from_ref(row)).unwrap()
        };
        let spirt = of("spirt");
        assert_eq!((spirt.gpu_vcpus, spirt.standard_vcpus), (0, 10));
        assert_eq!(spirt.concurrency, 12);
        assert_eq!(of("gpu_baseline").gpu_vcpus, 16);
        assert_eq!(of("gpu_baseline").concurrency, 0);
        assert_eq!(of("allreduce").concurrency, 4);
        // One function per mini-batch and peer, after one that makes their inputs.
        assert_eq!(of("p2p_lambda").concurrency, 12);
        let all = Needs::of(&rows()).unwrap();
        assert!(all.concurrency >= 12 && all.gpu_vcpus == 16);
    }

    #[test]
    fn a_session_stands_for_its_role() {
        let sso = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_x_0123/me@here";
        assert_eq!(session_role(sso), Some("AWSReservedSSO_x_0123"));
        assert_eq!(session_role("arn:aws:iam::123456789012:user/me"), None);
    }
}
