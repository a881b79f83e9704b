//! Checks of what an account allows, without creating anything.

use aws_sdk_ec2::types::InstanceType;
use aws_sdk_iam::types::PolicyEvaluationDecisionType;
use std::collections::BTreeSet;

use epochcost_systems::SystemError;

use crate::names::SERVICE_INSTANCE;
use crate::resource::{call, vpcs};
use crate::training::Training;
use crate::{AwsError, Cause, Clients, Identity, caller_policy};

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
    /// vCPUs of instances with GPUs that run at once.
    pub gpu_vcpus: u32,
    /// vCPUs of other instances that run at once: hosts of tensor stores and queues, and workers
    /// without a GPU.
    pub standard_vcpus: u32,
}

impl Needs {
    /// Returns what the most demanding of `rows` requires: trials run one after another.
    ///
    /// # Errors
    /// When a row's settings are invalid for its system.
    pub fn of(rows: &[Training]) -> Result<Self, SystemError> {
        let mut needs = Self {
            concurrency: 0,
            gpu_vcpus: 0,
            standard_vcpus: 0,
        };
        for row in rows {
            let hosts = row.service_hosts()? as u32 * vcpus(SERVICE_INSTANCE);
            let workers = row.instances()? as u32 * vcpus(&row.instance_type);
            let (gpu, standard) = if has_gpus(&row.instance_type) {
                (workers, hosts)
            } else {
                (0, hosts + workers)
            };
            needs.gpu_vcpus = needs.gpu_vcpus.max(gpu);
            needs.standard_vcpus = needs.standard_vcpus.max(standard);
            let functions = u32::try_from(row.functions_at_once()?).unwrap_or(u32::MAX);
            needs.concurrency = needs.concurrency.max(functions);
        }
        Ok(needs)
    }
}

/// Returns whether an instance type counts against the quota of G and VT instances.
fn has_gpus(instance_type: &str) -> bool {
    instance_type.starts_with('g') || instance_type.starts_with("vt")
}

/// Returns the vCPUs of an instance type by its size, as the families that experiments name have
/// them ("Amazon EC2 instance types": g4dn, g5 and g6 have 4 as xlarge, t2 and m5 have 2 up to
/// large and double from xlarge on; t2.micro and t2.small have 1).
fn vcpus(instance_type: &str) -> u32 {
    let (family, size) = instance_type.split_once('.').unwrap_or((instance_type, ""));
    match size {
        "nano" | "micro" | "small" if family == "t2" => 1,
        "nano" | "micro" | "small" | "medium" | "large" => 2,
        "xlarge" => 4,
        "metal" => 96,
        size => {
            let times: Option<u32> = size.strip_suffix("xlarge").and_then(|n| n.parse().ok());
            times.map_or(96, |times| 4 * times)
        }
    }
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
            needs.gpu_vcpus,
            "vCPUs of running on-demand G and VT instances",
        )
        .await,
    );
    checks.push(
        quota(
            clients,
            "standard instances",
            ("ec2", "L-1216C47A"),
            needs.standard_vcpus,
            "vCPUs of running on-demand standard instances (A, C, D, H, I, M, R, T, Z)",
        )
        .await,
    );
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
            remedy: "`epochcost clean` takes away what it started".to_owned(),
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
        .set_action_names(Some(
            actions.iter().map(|action| (*action).to_owned()).collect(),
        ));
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

    #[test]
    fn sizes_have_the_vcpus_that_their_names_say() {
        let known = [
            ("t2.small", 1),
            ("t2.medium", 2),
            ("t2.large", 2),
            ("g4dn.xlarge", 4),
            ("g4dn.12xlarge", 48),
            ("g6.48xlarge", 192),
        ];
        for (name, expected) in known {
            assert_eq!(vcpus(name), expected, "{name}");
        }
    }

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
