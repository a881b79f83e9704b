//! Claims of runs that were written before format 1.8, in today's form.

use serde_json::{Map, Value, json};

/// Brings claims into today's form: those that quote a paper are published, the
/// others this project's own, and an explanation has a text.
pub(super) fn claims(claims: &mut Value) {
    for claim in claims.as_array_mut().into_iter().flatten() {
        if let Value::Object(claim) = claim
            && !claim.contains_key("kind")
        {
            upgrade(claim);
        }
    }
}

fn upgrade(claim: &mut Map<String, Value>) {
    let is_of_paper = ["source", "cell", "published"]
        .iter()
        .any(|field| claim.contains_key(*field));
    let kind = if is_of_paper { "published" } else { "own" };
    claim.insert("kind".into(), kind.into());
    if !is_of_paper {
        let expect = match claim.get("expect").and_then(Value::as_str) {
            Some("reproduced") => "holds",
            Some("not_reproduced") => "fails",
            _ => "",
        };
        if !expect.is_empty() {
            claim.insert("expect".into(), expect.into());
        }
    }
    if let Some(Value::String(text)) = claim.get("explanation") {
        let text = text.clone();
        claim.insert("explanation".into(), json!({ "text": text }));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::claims::{Claim, ClaimKind, VerdictKind};

    #[test]
    fn claims_of_earlier_versions_are_read() {
        let mut read = json!([
            {"claim": "a", "select": {}, "metric": "puts", "published": 1, "tolerance": 0.1,
             "source": "Table 1", "expect": "not_reproduced", "explanation": "why"},
            {"claim": "b", "select": {}, "metric": "puts", "at_least": 1, "expect": "reproduced"},
        ]);
        claims(&mut read);
        let read: Vec<Claim> = serde_json::from_value(read).unwrap();
        assert_eq!(read[0].kind, ClaimKind::Published);
        assert_eq!(read[0].explanation.as_ref().unwrap().text, "why");
        assert_eq!(read[1].kind, ClaimKind::Own);
        assert_eq!(read[1].expect, Some(VerdictKind::Holds));
    }
}
