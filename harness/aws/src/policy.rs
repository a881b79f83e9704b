//! Least-privilege policies, written out as data.

use serde::Serialize;
use serde_json::{Value, json};

/// A policy document of IAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Policy {
    statements: Vec<Statement>,
}

/// Whether a statement permits or forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Effect {
    /// What it names may be done.
    Allow,
    /// It may not, whatever another statement says.
    Deny,
}

/// When a statement holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// How the values are compared, such as `ArnLike`.
    pub operator: &'static str,
    /// What of the request, such as `lambda:SourceFunctionArn`.
    pub key: &'static str,
    /// One of these.
    pub values: Vec<String>,
}

/// What may be done, and to what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// Whether it may or may not.
    pub effect: Effect,
    /// Actions, such as `s3:GetObject`; never a wildcard.
    pub actions: Vec<&'static str>,
    /// ARNs of this run's own resources.
    pub resources: Vec<String>,
    /// When it holds; nothing is always.
    pub condition: Option<Condition>,
}

impl Statement {
    pub(crate) fn allow(actions: &[&'static str], resources: Vec<String>) -> Self {
        Self {
            effect: Effect::Allow,
            actions: actions.to_vec(),
            resources,
            condition: None,
        }
    }

    pub(crate) fn covers(&self, action: &str, resource: &str) -> bool {
        let is_it = |pattern: &String| matches(pattern, resource);
        self.actions.contains(&action) && self.resources.iter().any(is_it)
    }

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
        let statements: Vec<Value> = self.statements.iter().map(Statement::to_value).collect();
        json!({ "Version": "2012-10-17", "Statement": statements }).to_string()
    }

    /// Whether it allows the run's own code an action on a resource. That code
    /// runs in the functions that conditions name: each condition holds.
    pub fn allows(&self, action: &str, resource: &str) -> bool {
        let says = |effect| {
            let of = self.statements.iter().filter(move |s| s.effect == effect);
            of.into_iter().any(|s| s.covers(action, resource))
        };
        says(Effect::Allow) && !says(Effect::Deny)
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
