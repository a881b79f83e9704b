//! Least-privilege policies, written out as data.

use serde::Serialize;
use serde_json::{Value, json};

use crate::resource::{Kind, Spec};
use crate::{RunId, Scope};

/// A policy document of IAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Policy {
    statements: Vec<Statement>,
}

/// What may be done, and to what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// Actions, such as `s3:GetObject`; never a wildcard.
    pub actions: Vec<&'static str>,
    /// ARNs of this run's own resources.
    pub resources: Vec<String>,
}

impl Policy {
    /// A policy of these statements.
    pub fn new(statements: Vec<Statement>) -> Self {
        Self { statements }
    }

    /// Who may take the role on: a service, on behalf of this account alone
    /// ("The confused deputy problem", IAM user guide).
    pub(crate) fn trust(service: &str, account: &str) -> Trust {
        Trust(json!({
            "Version": "2012-10-17",
            "Statement": [{
                "Effect": "Allow",
                "Action": "sts:AssumeRole",
                "Principal": { "Service": service },
                "Condition": match service {
                    // EC2 does not send the key.
                    "ec2.amazonaws.com" => json!({}),
                    _ => json!({ "StringEquals": { "aws:SourceAccount": account } }),
                },
            }],
        }))
    }

    /// The document.
    pub fn to_json(&self) -> String {
        let statements: Vec<Value> = (self.statements.iter())
            .map(|statement| {
                json!({
                    "Effect": "Allow",
                    "Action": statement.actions,
                    "Resource": statement.resources,
                })
            })
            .collect();
        json!({ "Version": "2012-10-17", "Statement": statements }).to_string()
    }

    /// Whether it allows an action on a resource.
    pub fn allows(&self, action: &str, resource: &str) -> bool {
        self.statements.iter().any(|statement| {
            statement.actions.contains(&action)
                && (statement.resources.iter()).any(|pattern| matches(pattern, resource))
        })
    }

    /// The statements.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }
}

/// A trust policy.
pub(crate) struct Trust(Value);

impl Trust {
    pub(crate) fn to_json(&self) -> String {
        self.0.to_string()
    }
}

/// `*` stands for anything, as in IAM.
fn matches(pattern: &str, resource: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == resource;
    };
    let Some(tail) = resource.strip_prefix(start) else {
        return false;
    };
    (0..=tail.len())
        .filter_map(|skipped| tail.get(skipped..))
        .any(|tail| matches(rest, tail))
}

/// What the functions of a run may do: write their logs, use the run's buckets,
/// invoke each other and start the run's state machines.
pub fn of_functions(scope: &Scope) -> Policy {
    let run = |what: &str| scope.run.name(what);
    let mut statements = vec![Statement {
        actions: vec!["logs:CreateLogStream", "logs:PutLogEvents"],
        resources: vec![scope.arn("logs", &format!("log-group:/aws/lambda/{}", run("*")))],
    }];
    statements.extend(objects(scope));
    statements.push(Statement {
        actions: vec!["lambda:InvokeFunction"],
        resources: vec![scope.arn("lambda", &format!("function:{}", run("*")))],
    });
    statements.push(Statement {
        actions: vec!["states:StartExecution"],
        resources: vec![scope.arn("states", &format!("stateMachine:{}", run("*")))],
    });
    Policy::new(statements)
}

/// What the state machines of a run may do: invoke its functions.
pub fn of_state_machines(scope: &Scope) -> Policy {
    Policy::new(vec![Statement {
        actions: vec!["lambda:InvokeFunction"],
        resources: vec![scope.arn("lambda", &format!("function:{}", scope.run.name("*")))],
    }])
}

/// What the instances of a run may do: use the run's buckets.
pub fn of_instances(scope: &Scope) -> Policy {
    Policy::new(objects(scope))
}

fn objects(scope: &Scope) -> Vec<Statement> {
    let buckets = format!("arn:{}:s3:::{}", scope.partition, scope.run.name("*"));
    vec![
        Statement {
            actions: vec!["s3:ListBucket"],
            resources: vec![buckets.clone()],
        },
        Statement {
            actions: vec!["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
            resources: vec![format!("{buckets}/*")],
        },
    ]
}

/// Whether a resource's name can only be one of this run's.
pub(crate) fn is_own(resource: &str, run: &RunId) -> bool {
    resource.contains(&run.name(""))
}

/// The roles among `specs` whose policies reach beyond the run: there are none.
pub fn too_wide(specs: &[Spec], run: &RunId) -> Vec<String> {
    let mut wide = Vec::new();
    for spec in specs {
        let Spec::Role(role) = spec else { continue };
        for statement in role.policy.statements() {
            let beyond = statement.resources.iter().any(|arn| !is_own(arn, run));
            if beyond || statement.actions.iter().any(|action| action.contains('*')) {
                wide.push(format!("{} {}: {:?}", Kind::Role, role.name, statement));
            }
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn scope() -> Scope {
        Scope {
            run: RunId::new(0xab),
            partition: "aws".into(),
            account: "123456789012".into(),
            region: "eu-west-1".into(),
            expires: "2026-11-21T13:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn functions_reach_their_own_run_and_nothing_else() {
        let policy = of_functions(&scope());
        let own = "arn:aws:s3:::epochcost-0000000000ab-exchange";
        let others = "arn:aws:s3:::epochcost-0000000000ac-exchange";
        assert!(policy.allows("s3:ListBucket", own));
        assert!(!policy.allows("s3:ListBucket", others));
        assert!(policy.allows("s3:PutObject", &format!("{own}/gradients/0")));
        assert!(!policy.allows("s3:PutObject", &format!("{others}/gradients/0")));
        assert!(!policy.allows("s3:DeleteBucket", own));
        let function = "arn:aws:lambda:eu-west-1:123456789012:function:epochcost-0000000000ab-w";
        assert!(policy.allows("lambda:InvokeFunction", function));
        assert!(!policy.allows("lambda:InvokeFunction", &function.replace("ab-w", "ac-w")));
        assert!(!policy.allows("lambda:UpdateFunctionCode", function));
        // Nobody but the harness makes log groups: one that is removed stays away.
        let logs =
            "arn:aws:logs:eu-west-1:123456789012:log-group:/aws/lambda/epochcost-0000000000ab-w";
        assert!(policy.allows("logs:CreateLogStream", logs));
        assert!(!policy.allows("logs:CreateLogGroup", logs));
    }

    #[test]
    fn machines_and_instances_may_less_than_functions() {
        let scope = scope();
        let functions = of_functions(&scope);
        for policy in [of_state_machines(&scope), of_instances(&scope)] {
            for statement in policy.statements() {
                for (action, resource) in statement
                    .actions
                    .iter()
                    .flat_map(|a| statement.resources.iter().map(move |r| (a, r)))
                {
                    assert!(functions.allows(action, resource), "{action} on {resource}");
                }
            }
            assert!(policy.statements().len() < functions.statements().len());
        }
    }

    #[test]
    fn documents_are_as_iam_reads_them() {
        let value: Value = serde_json::from_str(&of_state_machines(&scope()).to_json()).unwrap();
        assert_eq!(
            value,
            json!({"Version": "2012-10-17", "Statement": [{
                "Effect": "Allow",
                "Action": ["lambda:InvokeFunction"],
                "Resource": ["arn:aws:lambda:eu-west-1:123456789012:function:epochcost-0000000000ab-*"],
            }]})
        );
        let trust: Value =
            serde_json::from_str(&Policy::trust("lambda.amazonaws.com", "1").to_json()).unwrap();
        assert_eq!(
            trust["Statement"][0]["Principal"]["Service"],
            "lambda.amazonaws.com"
        );
        assert_eq!(
            trust["Statement"][0]["Condition"]["StringEquals"]["aws:SourceAccount"],
            "1"
        );
    }
}
