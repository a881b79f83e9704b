//! IAM policies as data.

use serde::Serialize;
use serde_json::{Value, json};

/// Policy document of IAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Policy {
    statements: Vec<Statement>,
}

/// Effect of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Effect {
    /// Permits the actions.
    Allow,
    /// Forbids the actions, whatever other statements permit.
    Deny,
}

/// Condition of a statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// Comparison, such as `ArnLike`.
    pub operator: &'static str,
    /// Key of the request, such as `lambda:SourceFunctionArn`.
    pub key: &'static str,
    /// Values, one of which must match.
    pub values: Vec<String>,
}

/// Actions on resources that are permitted or forbidden.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// Effect.
    pub effect: Effect,
    /// Actions, such as `s3:GetObject`; never a wildcard.
    pub actions: Vec<&'static str>,
    /// ARNs of this run's own resources.
    pub resources: Vec<String>,
    /// Condition; `None` applies always.
    pub condition: Option<Condition>,
}

impl Statement {
    /// Creates a statement that permits actions.
    pub(crate) fn allow(actions: &[&'static str], resources: Vec<String>) -> Self {
        Self {
            effect: Effect::Allow,
            actions: actions.to_vec(),
            resources,
            condition: None,
        }
    }

    /// Returns whether the statement applies to an action on a resource.
    pub(crate) fn covers(&self, action: &str, resource: &str) -> bool {
        let is_it = |pattern: &String| matches(pattern, resource);
        self.actions.contains(&action) && self.resources.iter().any(is_it)
    }

    /// Returns the statement in IAM's form.
    fn to_value(&self) -> Value {
        let mut value = json!({
            "Effect": self.effect,
            "Action": self.actions,
            "Resource": self.resources,
        });
        if let Some(Condition {
            operator,
            key,
            values,
        }) = &self.condition
        {
            value["Condition"] = json!({ *operator: { *key: values } });
        }
        value
    }
}

impl Policy {
    /// Creates a policy of these statements.
    pub fn new(statements: Vec<Statement>) -> Self {
        Self { statements }
    }

    /// Returns the trust policy of a role: a service may assume it on behalf of this
    /// account only ("The confused deputy problem", IAM user guide).
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

    /// Returns the document.
    pub fn to_json(&self) -> String {
        let statements: Vec<Value> = self.statements.iter().map(Statement::to_value).collect();
        json!({ "Version": "2012-10-17", "Statement": statements }).to_string()
    }

    /// Returns whether the run's own code may perform an action on a resource. That code
    /// runs in the functions of all conditions, so that each condition holds.
    pub fn allows(&self, action: &str, resource: &str) -> bool {
        let says = |effect| {
            let of = self.statements.iter().filter(move |s| s.effect == effect);
            of.into_iter().any(|s| s.covers(action, resource))
        };
        says(Effect::Allow) && !says(Effect::Deny)
    }

    /// Returns the statements.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }
}

/// Trust policy of a role.
pub(crate) struct Trust(Value);

impl Trust {
    pub(crate) fn to_json(&self) -> String {
        self.0.to_string()
    }
}

/// Returns whether a resource matches a pattern, in which `*` stands for any text.
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
