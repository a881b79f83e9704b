//! Policy of the caller: what a user or role must be allowed for this program's calls, each
//! limited to resources of its names where the action knows resources.

use serde_json::{Value, json};

use crate::calls;

/// Actions that know no resources, or are asked about all of them.
const OF_ALL: [&str; 14] = [
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
    "servicequotas:GetAWSDefaultServiceQuota",
    "pricing:GetProducts",
    "route53:AssociateVPCWithHostedZone",
    "ssm:GetParameters",
];

/// Actions with the resources that they are limited to.
pub(crate) type Group = (Vec<String>, Vec<String>);

/// Returns all actions of a caller in a partition, by the resources that they are limited to.
pub(crate) fn groups(partition: &str) -> Vec<Group> {
    let mut statements: Vec<Group> = Vec::new();
    let mut actions = calls::actions();
    actions.dedup();
    for action in actions {
        let resources = resources(partition, &action);
        match statements.iter_mut().find(|(known, _)| *known == resources) {
            Some((_, actions)) => actions.push(action),
            None => statements.push((resources, vec![action])),
        }
    }
    statements
}

/// Returns a resource of this program that a pattern of [`groups`] stands for; none for all.
pub(crate) fn example(pattern: &str, region: &str, account: &str) -> Option<String> {
    let named = (pattern.replace(":*:*:", &format!(":{region}:{account}:")))
        .replace("::*:", &format!("::{account}:"))
        .replace("epochcost-*", "epochcost-000000000000-x")
        .replace('*', "x");
    (pattern != "*").then_some(named)
}

/// Returns the policy document of a caller in a partition (`aws`, `aws-cn`, `aws-us-gov`).
pub fn caller_policy(partition: &str) -> Value {
    let statements: Vec<Value> = (groups(partition).into_iter())
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
    use crate::policy::Statement;

    #[test]
    fn the_policy_allows_every_action_once_and_no_wildcard() {
        let policy = caller_policy("aws");
        let statements = policy["Statement"].as_array().unwrap();
        let actions = statements
            .iter()
            .flat_map(|one| one["Action"].as_array().unwrap());
        let actions: Vec<&str> = actions.map(|action| action.as_str().unwrap()).collect();
        let distinct: BTreeSet<&str> = actions.iter().copied().collect();
        assert_eq!(distinct.len(), actions.len());
        let needed = calls::actions();
        assert_eq!(distinct, needed.iter().map(String::as_str).collect());
        assert!(actions.iter().all(|action| !action.contains('*')));
    }

    /// What the simulator is asked about is what the policy grants, and is a single resource.
    #[test]
    fn every_pattern_has_an_example_that_it_covers() {
        for (patterns, actions) in groups("aws") {
            let names: Vec<&str> = actions.into_iter().map(|name| &*name.leak()).collect();
            let statement = Statement::allow(&names, patterns.clone());
            for pattern in &patterns {
                let example = example(pattern, "eu-west-1", "123456789012");
                assert_eq!(example.is_none(), pattern == "*");
                let Some(example) = example else { continue };
                assert!(!example.contains('*'), "{example}");
                assert!(statement.covers(names[0], &example), "{example}");
            }
        }
    }

    /// `aws policy` prints what the file must hold.
    #[test]
    fn the_documented_policy_is_the_generated_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/aws-policy.json");
        let text = std::fs::read_to_string(path).unwrap();
        let documented: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(documented, caller_policy("aws"));
    }
}
