//! Identity of a run: names, tags and expiry of everything that it creates.

use std::fmt;
use std::str::FromStr;

use epochcost_aws_plan::Training;
use epochcost_systems::SystemError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::AwsError;

/// Tag of all resources of this project, and its value.
pub const PROJECT_TAG: (&str, &str) = ("epochcost:project", "epochcost");
/// Tag with the run's id.
pub const RUN_TAG: &str = "epochcost:run";
/// Tag with the expiry time of a resource.
pub const EXPIRES_TAG: &str = "epochcost:expires";
/// Path of roles and instance profiles.
pub const IAM_PATH: &str = "/epochcost/";

const PREFIX: &str = "epochcost-";
const ID_DIGITS: usize = 12;

/// Id of a run on AWS: twelve hexadecimal digits, part of every name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// Creates an id from the low 48 bits of `random`.
    pub fn new(random: u64) -> Self {
        Self(format!("{:012x}", random & 0xffff_ffff_ffff))
    }

    /// Returns the run of a resource's name, if the name has our form.
    pub fn of_name(name: &str) -> Option<Self> {
        let rest = name.strip_prefix(PREFIX)?;
        let (id, what) = rest.split_at_checked(ID_DIGITS)?;
        let what = what.strip_prefix('-')?;
        if what.is_empty() {
            return None;
        }
        id.parse().ok()
    }

    /// Returns this run's name for `what`.
    pub fn name(&self, what: &str) -> String {
        format!("{PREFIX}{}-{what}", self.0)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == ID_DIGITS && text.bytes().all(digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "{text:?} is no run id: twelve hexadecimal digits, lower case"
            ))
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

/// Account, region and expiry of a run's resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// The run.
    pub run: RunId,
    /// Partition of the account's ARNs: `aws`, `aws-cn`, `aws-us-gov`.
    pub partition: String,
    /// Number of the account.
    pub account: String,
    /// The region.
    pub region: String,
    /// Expiry time of all resources.
    #[serde(with = "as_text")]
    pub expires: Timestamp,
}

/// Serialization of a timestamp in RFC 3339's form.
mod as_text {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(at)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl Scope {
    /// Returns the time by which every instance of a row's trial that begins at `now` has ended,
    /// whatever becomes of the program that started it: the trial's deadline, and `around_s` seconds;
    /// the run's expiry if that is earlier.
    ///
    /// # Errors
    /// When there is no such system.
    pub fn ends_by(
        &self,
        row: &Training,
        around_s: u64,
        now: Timestamp,
    ) -> Result<Timestamp, SystemError> {
        let seconds = i64::try_from(row.deadline_s()? + around_s).unwrap_or(i64::MAX);
        let end = Timestamp::from_second(now.as_second().saturating_add(seconds));
        Ok(end.map_or(self.expires, |end| end.min(self.expires)))
    }

    /// Returns the tags of every resource of this run.
    pub fn tags(&self) -> [(String, String); 3] {
        [
            (PROJECT_TAG.0.to_owned(), PROJECT_TAG.1.to_owned()),
            (RUN_TAG.to_owned(), self.run.to_string()),
            (
                EXPIRES_TAG.to_owned(),
                self.expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            ),
        ]
    }

    /// Returns the ARN of a role of this run.
    pub fn role_arn(&self, name: &str) -> String {
        format!(
            "arn:{}:iam::{}:role{IAM_PATH}{name}",
            self.partition, self.account
        )
    }

    /// Returns the ARN of a regional service's resource, such as `function:NAME` of `lambda`.
    pub fn arn(&self, service: &str, resource: &str) -> String {
        format!(
            "arn:{}:{service}:{}:{}:{resource}",
            self.partition, self.region, self.account
        )
    }
}

/// Our tags of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerTags {
    /// Value of the project's tag.
    pub project: Option<String>,
    /// The run.
    pub run: Option<RunId>,
    /// Expiry time.
    pub expires: Option<Timestamp>,
}

impl OwnerTags {
    /// Reads our tags among all tags of a resource.
    pub fn of<'a>(tags: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut owner_tags = Self::default();
        for (key, value) in tags {
            match key {
                _ if key == PROJECT_TAG.0 => owner_tags.project = Some(value.to_owned()),
                RUN_TAG => owner_tags.run = value.parse().ok(),
                EXPIRES_TAG => owner_tags.expires = value.parse().ok(),
                _ => {}
            }
        }
        owner_tags
    }

    /// Returns the run of a resource with this name and these tags.
    ///
    /// Tags take precedence. A name of our form counts where our tags are absent, since a
    /// process may die between the creation of a resource and of its tags.
    pub fn owner(&self, name: &str) -> Option<RunId> {
        match &self.project {
            Some(project) if project == PROJECT_TAG.1 => {
                self.run.clone().or_else(|| RunId::of_name(name))
            }
            Some(_) => None,
            None => RunId::of_name(name),
        }
    }
}

/// Returns the seconds from now to `expires`, at least 60.
///
/// # Errors
/// [`AwsError::Unusable`] with less than 60 s left.
pub(crate) fn seconds_left(expires: Timestamp) -> Result<u64, AwsError> {
    let left = expires.as_second() - Timestamp::now().as_second();
    match u64::try_from(left) {
        Ok(seconds) if seconds >= 60 => Ok(seconds),
        _ => Err(AwsError::Unusable {
            problem: format!("the run expired at {expires}"),
            remedy: "`epochcost aws clean` removes what is left; start a new run".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::deployment::tests::{rows, scope};

    #[test]
    fn names_lead_back_to_their_run() {
        let run = RunId::new(0xfeed_0123_4567_89ab);
        assert_eq!(run.to_string(), "0123456789ab");
        let name = run.name("worker-2048");
        assert_eq!(name, "epochcost-0123456789ab-worker-2048");
        assert_eq!(RunId::of_name(&name), Some(run));
    }

    #[test]
    fn names_of_others_are_not_ours() {
        for name in [
            "epochcost",
            "epochcost-0123456789ab",
            "epochcost-0123456789ab-",
            "epochcost-0123456789AB-x",
            "epochcost-0123456789-x",
            "my-epochcost-0123456789ab-x",
            "epochcost-0123456789é-x",
        ] {
            assert_eq!(RunId::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn tags_decide_and_names_count_where_there_are_none() {
        let run = RunId::new(7);
        let name = run.name("x");
        let ours = OwnerTags::of([
            ("epochcost:project", "epochcost"),
            (RUN_TAG, "00000000000b"),
        ]);
        assert_eq!(ours.owner("anything"), Some(RunId::new(11)));
        assert_eq!(OwnerTags::default().owner(&name), Some(run));
        assert_eq!(OwnerTags::default().owner("anything"), None);
        let another = OwnerTags::of([("epochcost:project", "somebody")]);
        assert_eq!(another.owner(&name), None);
    }

    #[test]
    fn expiry_survives_its_tag() {
        let scope = scope();
        let tags = scope.tags();
        let owner_tags = OwnerTags::of(tags.iter().map(|(k, v)| (k.as_str(), v.as_str())));
        assert_eq!(owner_tags.expires, Some(scope.expires));
        assert_eq!(owner_tags.run, Some(scope.run.clone()));
        let arn = "arn:aws:iam::123456789012:role/epochcost/r";
        assert_eq!(scope.role_arn("r"), arn);
    }

    /// A laptop that dies leaves instances until their trial's end, not until the end of all
    /// trials of the run.
    #[test]
    fn instances_end_with_their_trial() {
        let (now, scope) = (Timestamp::now(), scope());
        for row in rows() {
            let end = scope.ends_by(&row, 1_200, now).unwrap();
            let lived = u64::try_from(end.as_second() - now.as_second()).unwrap();
            assert_eq!(lived, row.deadline_s().unwrap() + 1_200, "{}", row.row);
            assert!(end < scope.expires);
        }
        let over = Scope {
            expires: now,
            ..scope
        };
        assert_eq!(over.ends_by(&rows()[0], 1_200, now).unwrap(), now);
    }
}
