//! Policy of the caller: what a user or role must be allowed for this program's calls, each
//! limited to resources of its names where the action knows resources.

use serde_json::{Value, json};

use crate::calls;

/// Actions that know no resources, or are asked about all of them.
const OF_ALL: [&str; 13] = [
    "s3:ListAllMyBuckets",
    "iam:ListRoles",
    "iam:ListInstanceProfiles",
    "iam:SimulatePrincipalPolicy",
    "iam:GetRole",
    "lambda:ListFunctions",
    "logs:DescribeLogGroups",
    "states:ListStateMachines",
    "cloudwatch:GetMetricData",
    "servicequotas:GetServiceQuota",
    "pricing:GetProducts",
    "route53:AssociateVPCWithHostedZone",
    "ssm:GetParameters",
];

/// Returns the policy document of a caller in a partition (`aws`, `aws-cn`, `aws-us-gov`).
pub fn caller_policy(partition: &str) -> Value {
    let mut statements: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    let mut actions = calls::actions();
    actions.dedup();
    for action in actions {
        let resources = resources(partition, action);
        match statements.iter_mut().find(|(known, _)| *known == resources) {
            Some((_, actions)) => actions.push(action),
            None => statements.push((resources, vec![action])),
        }
    }
    let statements: Vec<Value> = (statements.into_iter())
        .map(|(resources, actions)| {
            json!({ "Effect": "Allow", "Action": actions, "Resource": resources })
        })
        .collect();
    json!({ "Version": "2012-10-17", "Statement": statements })
}

/// Returns the resources that an action is limited to.
fn resources(partition: &str, action: &str) -> Vec<String> {
    let all = || vec!["*".to_owned()];
    let arn = |rest: &str| format!("arn:{partition}:{rest}");
    if OF_ALL.contains(&action) {
        return all();
    }
    match action.split_once(':').map(|(service, _)| service) {
        Some("s3") => vec![arn("s3:::epochcost-*"), arn("s3:::epochcost-*/*")],
        Some("iam") => vec![
            arn("iam::*:role/epochcost/*"),
            arn("iam::*:instance-profile/epochcost/*"),
        ],
        Some("lambda") => vec![arn("lambda:*:*:function:epochcost-*")],
        Some("logs") => vec![
            arn("logs:*:*:log-group:/aws/lambda/epochcost-*"),
            arn("logs:*:*:log-group:/aws/lambda/epochcost-*:*"),
        ],
        Some("states") => vec![
            arn("states:*:*:stateMachine:epochcost-*"),
            arn("states:*:*:execution:epochcost-*:*"),
        ],
        // Networks and instances have ids for names, and descriptions know no resources.
        _ => all(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_policy_allows_every_action_once_and_no_wildcard() {
        let policy = caller_policy("aws");
        let statements = policy["Statement"].as_array().unwrap();
        let actions: Vec<&str> = statements
            .iter()
            .flat_map(|one| one["Action"].as_array().unwrap())
            .map(|action| action.as_str().unwrap())
            .collect();
        let distinct: BTreeSet<&str> = actions.iter().copied().collect();
        assert_eq!(distinct.len(), actions.len());
        assert_eq!(distinct, calls::actions().into_iter().collect());
        assert!(actions.iter().all(|action| !action.contains('*')));
    }

    /// `doctor --aws --print-policy` prints what the file must hold.
    #[test]
    fn the_documented_policy_is_the_generated_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/aws-policy.json");
        let text = std::fs::read_to_string(path).unwrap();
        let documented: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(documented, caller_policy("aws"));
    }
}
