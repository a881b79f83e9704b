//! Permissions of a run's roles, and the check that they reach nothing beyond the run.

use crate::names::{code_bucket, objects_bucket};
use crate::policy::{Condition, Effect, Policy, Statement};
use crate::resource::{Kind, Spec};
use crate::{RunId, Scope};

/// Returns the policy of a run's functions: they write their logs, use the run's buckets,
/// invoke each other and start the run's state machines. In the run's network, Lambda may
/// handle network interfaces for them, and their own code may not.
pub fn functions(scope: &Scope, in_network: bool) -> Policy {
    let groups = scope.arn(
        "logs",
        &format!("log-group:/aws/lambda/{}", scope.run.name("*")),
    );
    let mut statements = vec![Statement::allow(
        &["logs:CreateLogStream", "logs:PutLogEvents"],
        vec![groups],
    )];
    statements.extend(objects(scope));
    statements.push(invocations(scope));
    statements.push(executions(scope));
    if in_network {
        statements.extend(interfaces(scope));
    }
    Policy::new(statements)
}

/// Returns the policy of a run's state machines: they invoke its functions.
pub fn state_machines(scope: &Scope) -> Policy {
    Policy::new(vec![invocations(scope)])
}

/// Returns the policy of a run's dead man's switch: it removes the run's functions, stops its
/// executions, and ends the instances and endpoints with its tag. Descriptions know no resources, and
/// instances and endpoints have ids for names.
pub fn switch(scope: &Scope) -> Policy {
    let own =
        |service, what: &str| vec![scope.arn(service, &format!("{what}:{}", scope.run.name("*")))];
    let mut executions = own("states", "execution");
    executions[0] += ":*";
    let tagged = |action, what| Statement {
        condition: Some(Condition {
            operator: "StringEquals",
            key: "aws:ResourceTag/epochcost:run",
            values: vec![scope.run.to_string()],
        }),
        ..Statement::allow(&[action], vec![scope.arn("ec2", what)])
    };
    Policy::new(vec![
        Statement::allow(&["lambda:DeleteFunction"], own("lambda", "function")),
        Statement::allow(&["states:ListExecutions"], own("states", "stateMachine")),
        Statement::allow(&["states:StopExecution"], executions),
        Statement::allow(
            &["ec2:DescribeInstances", "ec2:DescribeVpcEndpoints"],
            vec!["*".to_owned()],
        ),
        tagged("ec2:TerminateInstances", "instance/*"),
        tagged("ec2:DeleteVpcEndpoints", "vpc-endpoint/*"),
    ])
}

/// Returns the policy of a run's instances: they use the run's buckets, and, as workers
/// that `invoke`, its functions and its state machines.
pub fn instances(scope: &Scope, invoke: bool) -> Policy {
    let mut statements = objects(scope);
    if invoke {
        statements.push(invocations(scope));
        statements.push(executions(scope));
        let executions = format!("execution:{}:*", scope.run.name("*"));
        statements.push(Statement::allow(
            &["states:DescribeExecution"],
            vec![scope.arn("states", &executions)],
        ));
    }
    Policy::new(statements)
}

/// Returns the permission to invoke the run's functions.
fn invocations(scope: &Scope) -> Statement {
    let functions = format!("function:{}", scope.run.name("*"));
    Statement::allow(
        &["lambda:InvokeFunction"],
        vec![scope.arn("lambda", &functions)],
    )
}

/// Returns the permission to start the run's state machines.
fn executions(scope: &Scope) -> Statement {
    let machines = format!("stateMachine:{}", scope.run.name("*"));
    Statement::allow(
        &["states:StartExecution"],
        vec![scope.arn("states", &machines)],
    )
}

/// Actions of Lambda on behalf of a function in a VPC ("Giving Lambda functions access to
/// resources in an Amazon VPC"). New interfaces have no names that a policy could list.
const INTERFACE_ACTIONS: [&str; 6] = [
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeSubnets",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
];

/// Returns two statements: Lambda may handle interfaces, and the functions' own code, whose
/// requests carry the ARN of their function, may not.
fn interfaces(scope: &Scope) -> [Statement; 2] {
    let functions = format!("function:{}", scope.run.name("*"));
    let allowed = Statement::allow(&INTERFACE_ACTIONS, vec!["*".to_owned()]);
    let denied = Statement {
        effect: Effect::Deny,
        condition: Some(Condition {
            operator: "ArnLike",
            key: "lambda:SourceFunctionArn",
            values: vec![scope.arn("lambda", &functions)],
        }),
        ..allowed.clone()
    };
    [allowed, denied]
}

/// Returns the permissions on the run's buckets: objects are read and written, programs only read.
fn objects(scope: &Scope) -> Vec<Statement> {
    let bucket = |name: String| format!("arn:{}:s3:::{name}", scope.partition);
    let (code, objects) = (bucket(code_bucket(scope)), bucket(objects_bucket(scope)));
    let in_objects = format!("{objects}/*");
    vec![
        Statement::allow(&["s3:ListBucket"], vec![code.clone(), objects]),
        Statement::allow(
            &["s3:GetObject"],
            vec![format!("{code}/*"), in_objects.clone()],
        ),
        Statement::allow(&["s3:PutObject", "s3:DeleteObject"], vec![in_objects]),
    ]
}

/// Returns whether a resource's name can only be one of this run's.
fn is_own(resource: &str, run: &RunId) -> bool {
    resource.contains(&run.name(""))
}

/// Returns the statements of roles among `specs` that reach beyond the run. Two pairs are exempt:
/// what Lambda needs for functions in a VPC, with its denial to the functions themselves; and the
/// switch's, which lists instances and endpoints and ends those with the run's tag.
pub fn too_wide(specs: &[Spec], scope: &Scope) -> Vec<String> {
    let pairs = [
        interfaces(scope).to_vec(),
        switch(scope).statements().to_vec(),
    ];
    let mut wide = Vec::new();
    for spec in specs {
        let Spec::Role(role) = spec else { continue };
        let statements = role.policy.statements();
        let is_whole = |pair: &&Vec<Statement>| pair.iter().all(|one| statements.contains(one));
        let exempt: Vec<&Statement> = pairs.iter().filter(is_whole).flatten().collect();
        for statement in statements {
            if exempt.contains(&statement) {
                continue;
            }
            let is_beyond = |arn: &String| !is_own(arn, &scope.run);
            let beyond = statement.resources.iter().any(is_beyond);
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
    use serde_json::{Value, json};

    use super::*;

    fn scope() -> Scope {
        of_run(0xab)
    }

    fn of_run(run: u64) -> Scope {
        Scope {
            run: RunId::new(run),
            region: "eu-west-1".into(),
            ..crate::deployment::tests::scope()
        }
    }

    /// Fails unless the policy allows the action on the run's own resource, and not on that of another run.
    #[track_caller]
    fn own_alone(policy: &Policy, action: &str, own: &str) {
        assert!(policy.allows(action, own), "{action} on {own}");
        let others = own.replace("0000ab", "0000ac");
        assert!(!policy.allows(action, &others), "{action} on {others}");
    }

    #[test]
    fn functions_reach_their_own_run_and_nothing_else() {
        let policy = functions(&scope(), false);
        let own = "arn:aws:s3:::epochcost-0000000000ab-objects";
        let code = "arn:aws:s3:::epochcost-0000000000ab-code/bootstrap";
        let function = scope().arn("lambda", "function:epochcost-0000000000ab-w");
        let logs = scope().arn("logs", "log-group:/aws/lambda/epochcost-0000000000ab-w");
        for (action, resource) in [
            ("s3:GetObject", code),
            ("s3:ListBucket", own),
            ("s3:PutObject", &format!("{own}/gradients/0")),
            ("lambda:InvokeFunction", &function),
            ("logs:CreateLogStream", &logs),
        ] {
            own_alone(&policy, action, resource);
        }
        for (action, resource) in [
            // Programs that others run are not theirs to change.
            ("s3:PutObject", code),
            ("s3:DeleteObject", code),
            ("s3:DeleteBucket", own),
            ("lambda:UpdateFunctionCode", &function),
            // Only the harness creates log groups: a removed one is not created again.
            ("logs:CreateLogGroup", &logs),
        ] {
            assert!(!policy.allows(action, resource), "{action} on {resource}");
        }
    }

    fn role(policy: Policy) -> [Spec; 1] {
        [Spec::Role(crate::resource::RoleSpec {
            name: scope().run.name("functions"),
            service: "lambda.amazonaws.com",
            policy,
        })]
    }

    /// Lambda handles interfaces in the functions' name; their own code may not.
    #[test]
    fn functions_in_a_network_may_not_what_lambda_may() {
        let (inside, outside) = (functions(&scope(), true), functions(&scope(), false));
        let interface = "arn:aws:ec2:eu-west-1:123456789012:network-interface/eni-1";
        for action in INTERFACE_ACTIONS {
            assert!(!inside.allows(action, interface), "{action}");
            assert!(!outside.allows(action, interface), "{action}");
            let of = (inside.statements().iter()).filter(|s| s.covers(action, interface));
            let effects: Vec<_> = of.map(|s| (s.effect, s.condition.is_some())).collect();
            // Without a condition, the denial would hold for Lambda, too.
            assert_eq!(effects, [(Effect::Allow, false), (Effect::Deny, true)]);
        }
        let document: Value = serde_json::from_str(&inside.to_json()).unwrap();
        let last = document["Statement"].as_array().unwrap().last().unwrap();
        let ours = scope().arn("lambda", "function:epochcost-0000000000ab-*");
        let from = json!({ "ArnLike": { "lambda:SourceFunctionArn": [ours] } });
        assert_eq!(last["Effect"], "Deny");
        assert_eq!(last["Condition"], from);
        let with = "s3:ListBucket";
        let own = "arn:aws:s3:::epochcost-0000000000ab-objects";
        assert!(inside.allows(with, own) && outside.allows(with, own));
    }

    #[test]
    fn nothing_but_the_pair_for_interfaces_reaches_beyond_the_run() {
        let whole = functions(&scope(), true);
        assert!(too_wide(&role(whole.clone()), &scope()).is_empty());
        // Either alone, or another's denial, is too wide.
        let [allowed, denied] = interfaces(&scope());
        for missing in [&allowed, &denied] {
            let mut statements = whole.statements().to_vec();
            statements.retain(|statement| statement != missing);
            let left = too_wide(&role(Policy::new(statements)), &scope());
            assert_eq!(left.len(), 1, "{missing:?}");
        }
        let [_, theirs] = interfaces(&of_run(0xac));
        let mixed = Policy::new(vec![allowed.clone(), theirs]);
        assert_eq!(too_wide(&role(mixed), &scope()).len(), 2);
        let mut more = allowed.clone();
        more.actions.push("ec2:TerminateInstances");
        let more = Policy::new(vec![allowed, denied, more]);
        assert_eq!(too_wide(&role(more), &scope()).len(), 1);
    }

    /// The switch's removals are limited to the run's names and tag; without that it is too wide.
    #[test]
    fn the_switch_reaches_what_its_run_has_and_nothing_else() {
        assert!(too_wide(&role(switch(&scope())), &scope()).is_empty());
        let others = switch(&of_run(0xac));
        assert_eq!(too_wide(&role(others), &scope()).len(), 6);
        for tagged in [4, 5] {
            let mut statements = switch(&scope()).statements().to_vec();
            statements[tagged].condition = None;
            assert_eq!(too_wide(&role(Policy::new(statements)), &scope()).len(), 3);
        }
        for (action, service, what, end) in [
            ("lambda:DeleteFunction", "lambda", "function", ""),
            ("states:ListExecutions", "states", "stateMachine", ""),
            ("states:StopExecution", "states", "execution", ":1"),
        ] {
            let what = format!("{what}:epochcost-0000000000ab-x{end}");
            own_alone(&switch(&scope()), action, &scope().arn(service, &what));
        }
    }

    #[test]
    fn only_instances_that_invoke_may_invoke() {
        let (invoking, others) = (instances(&scope(), true), instances(&scope(), false));
        for (action, service, what, end) in [
            ("lambda:InvokeFunction", "lambda", "function", ""),
            ("states:StartExecution", "states", "stateMachine", ""),
            ("states:DescribeExecution", "states", "execution", ":run-1"),
        ] {
            let what = format!("{what}:epochcost-0000000000ab-p2p_lambda{end}");
            let resource = scope().arn(service, &what);
            own_alone(&invoking, action, &resource);
            assert!(!others.allows(action, &resource), "{action}");
        }
    }

    #[test]
    fn machines_and_instances_may_less_than_functions() {
        let scope = scope();
        let functions = functions(&scope, false);
        for policy in [state_machines(&scope), instances(&scope, false)] {
            for statement in policy.statements() {
                for action in &statement.actions {
                    for resource in &statement.resources {
                        assert!(functions.allows(action, resource), "{action} on {resource}");
                    }
                }
            }
            assert!(policy.statements().len() < functions.statements().len());
        }
    }

    #[test]
    fn documents_are_as_iam_reads_them() {
        let value: Value = serde_json::from_str(&state_machines(&scope()).to_json()).unwrap();
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
        let statement = &trust["Statement"][0];
        assert_eq!(statement["Principal"]["Service"], "lambda.amazonaws.com");
        let account = &statement["Condition"]["StringEquals"]["aws:SourceAccount"];
        assert_eq!(account, "1");
    }
}
