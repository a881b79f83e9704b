//! Forms of an experiment: its field `forms`.

use std::collections::BTreeMap;

use epochcost_platform::{Figures, PlatformKind, aws_plan, site_of};
use epochcost_spec::suggest::did_you_mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decode::decode;
use super::document::{Document, Entry, Node, Value};
use super::error::ExperimentError;
use super::setups;

/// The name of the field.
pub(super) const FIELD: &str = "forms";

/// Name of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FormName {
    /// For `reproduce --quick`: takes the place of the whole experiment.
    Quick,
    /// For AWS: one more source beside the experiment itself.
    Aws,
}

impl FormName {
    const ALL: [Self; 2] = [Self::Quick, Self::Aws];

    /// Returns the name in files, and the suffix of run directories.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Aws => aws_plan::NAME,
        }
    }

    /// Returns the form for a platform; none where experiments run as they are.
    pub fn of(platform: PlatformKind) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|form| form.as_str() == platform.as_str())
    }
}

/// Forms of an experiment, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forms(BTreeMap<FormName, Form>);

/// Form of an experiment: what it changes, and nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Form {
    /// Reason why all of the experiment is left out, if it is.
    pub leave_out: Option<String>,
    /// Rows that are left out, with the reasons.
    pub without: BTreeMap<String, String>,
    /// Fields that it sets, and set-ups of the paper that it leaves, with the reasons.
    pub deviates: BTreeMap<String, String>,
    /// Parts of a simulation that it does without.
    drop: Vec<Dropped>,
    /// Dotted paths and values laid over the experiment, as `--set` takes them.
    set: Vec<Entry>,
    /// The form in the file.
    node: Option<Node>,
}

/// Forms as they are written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// What `reproduce --quick` runs in its place.
    quick: Option<WrittenForm>,
    /// What `reproduce --platform aws` runs beside it.
    aws: Option<WrittenForm>,
}

/// A form: `leave_out`, or changes. It has no recorded verdicts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenForm {
    /// Reason why the experiment is left out.
    leave_out: Option<String>,
    /// Dotted paths and values, as of `--set` (`{epochs: 1, systems.*.memory_mb: 1769}`); of a finding
    /// whose verdict changes, `findings.N.open_since`.
    set: Option<BTreeMap<String, serde_json::Value>>,
    /// Parts of a simulation that a real platform has no use for.
    #[serde(default)]
    drop: Vec<Dropped>,
    /// Rows that are left out, with the reasons: `{ROW: REASON}`.
    #[serde(default)]
    without: BTreeMap<String, String>,
    /// Fields that it sets, and set-ups of the paper that it leaves beside those of the experiment, with
    /// the reasons.
    #[serde(default)]
    deviates: BTreeMap<String, String>,
}

/// Part of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Dropped {
    /// Constants that the experiment or its rows state; a forecast keeps them.
    Constants,
    /// Clients of functions; the worker is compiled, in a forecast too.
    Client,
}

impl Dropped {
    const ALL: [Self; 2] = [Self::Constants, Self::Client];

    fn field(self) -> &'static str {
        match self {
            Self::Constants => "constants",
            Self::Client => "client",
        }
    }

    /// Returns whether an experiment states it.
    fn is_stated(self, root: &Node) -> bool {
        let simulation = root.get("simulation");
        let systems = root.get("systems").map_or(&[][..], Node::items);
        let entries = systems.iter().chain(simulation).chain([root]);
        let mut stated = entries.filter_map(|node| node.get(self.field()));
        stated.any(|node| !matches!(&node.value, Value::Map(entries) if entries.is_empty()))
    }

    fn remove(self, root: &mut Node, with_simulation: bool) {
        root.remove(self.field());
        let Value::Map(entries) = &mut root.value else {
            return;
        };
        for entry in entries {
            match (&mut entry.node.value, entry.key.as_str()) {
                (Value::List(rows), "systems") => {
                    for row in rows {
                        row.remove(self.field());
                    }
                }
                (_, "simulation") if with_simulation => drop(entry.node.remove(self.field())),
                _ => {}
            }
        }
    }
}

impl Forms {
    /// Takes the field out of the document: it is no part of what is run.
    ///
    /// # Errors
    /// When a form states nothing, or two things at once.
    pub(super) fn take(document: &mut Document) -> Result<Self, ExperimentError> {
        let Some(node) = document.root.remove(FIELD) else {
            return Ok(Self::default());
        };
        let Written { quick, aws } = decode(document, &node)?;
        let mut forms = Self::default();
        for (name, written) in [(FormName::Quick, quick), (FormName::Aws, aws)] {
            if let (Some(written), Some(node)) = (written, node.get(name.as_str())) {
                forms.0.insert(name, Form::of(document, node, written)?);
            }
        }
        Ok(forms)
    }

    /// Returns a form; none where the experiment is itself in it.
    pub fn get(&self, name: FormName) -> Option<&Form> {
        self.0.get(&name)
    }

    /// Returns the forms that change something.
    pub(super) fn changing(&self) -> impl Iterator<Item = FormName> {
        let changing = self.0.iter().filter(|(_, form)| form.leave_out.is_none());
        changing.map(|(name, _)| *name)
    }
}

impl Form {
    fn of(document: &Document, node: &Node, form: WrittenForm) -> Result<Self, ExperimentError> {
        let set = node.get("set").map_or(&[][..], |set| set.entries());
        let changes = !set.is_empty() || !form.drop.is_empty() || !form.without.is_empty();
        let mut reasons = (form.leave_out.iter())
            .chain(form.without.values())
            .chain(form.deviates.values());
        let is_told = reasons.all(|reason| !reason.trim().is_empty());
        let is_empty = form.set.is_some() && set.is_empty();
        if !is_told || is_empty || changes == form.leave_out.is_some() {
            let problem = "neither changes nor one reason to leave the experiment out";
            let remedy = "give `set`, a map of fields and values as for --set, or `leave_out` with the reason";
            return Err(document.error(node.origin.clone(), problem, remedy));
        }
        Ok(Self {
            leave_out: form.leave_out.map(|reason| reason.trim().to_owned()),
            without: form.without,
            deviates: form.deviates,
            drop: form.drop,
            set: set.to_vec(),
            node: Some(node.clone()),
        })
    }

    /// Lays its values over the document.
    ///
    /// # Errors
    /// When a path leads nowhere.
    pub(super) fn apply(&self, document: &mut Document) -> Result<(), ExperimentError> {
        for entry in &self.set {
            document.lay(&entry.key, &entry.node)?;
        }
        let deviates = self.node.as_ref().and_then(|node| node.get(setups::FIELD));
        for entry in deviates.map_or(&[][..], Node::entries) {
            // A field's name holds dots.
            let stated = document.root.get(setups::FIELD).cloned();
            let mut all = stated.unwrap_or_else(|| Node {
                value: Value::Map(Vec::new()),
                origin: entry.node.origin.clone(),
            });
            all.insert(entry.clone());
            document.root.insert(Entry {
                key: setups::FIELD.to_owned(),
                place: entry.place.clone(),
                node: all,
            });
        }
        Ok(())
    }

    /// Removes what it drops, after options are laid over the document: a forecast keeps constants,
    /// which describe what the platform is expected to be.
    ///
    /// # Errors
    /// When nothing states it, or when the experiment states what a real platform cannot heed.
    pub(super) fn drop_from(&self, document: &mut Document) -> Result<(), ExperimentError> {
        let platform = document.root.get("platform").and_then(Node::text);
        let site = platform.and_then(|name| site_of(&name));
        let is_simulated = site.is_some_and(|site| site.figures() == Figures::Simulated);
        let origin = || match &self.node {
            Some(node) => node.origin_of("drop"),
            None => document.root.origin_of(FIELD),
        };
        for part in Dropped::ALL {
            let (is_dropped, is_stated) =
                (self.drop.contains(&part), part.is_stated(&document.root));
            let field = part.field();
            if is_dropped && !is_stated {
                let problem = format!("nothing states the `{field}` that it drops");
                let remedy = format!("remove `{field}` from `drop`");
                return Err(document.error(origin(), problem, remedy));
            }
            if is_stated && !is_dropped && !is_simulated {
                let problem = format!("it keeps `{field}`, which only a simulation heeds");
                let remedy = format!(
                    "add `{field}` to `drop`, and rows that are nothing without it to `without`"
                );
                return Err(document.error(origin(), problem, remedy));
            }
        }
        for part in &self.drop {
            match part {
                // Those of `simulation` are of the forecast alone.
                Dropped::Constants if is_simulated => {}
                Dropped::Constants => part.remove(&mut document.root, false),
                Dropped::Client => part.remove(&mut document.root, true),
            }
        }
        Ok(())
    }

    /// Returns whether it leaves a row out.
    pub(super) fn leaves_out(&self, row: &str) -> bool {
        self.without.contains_key(row)
    }

    /// Checks that the rows that it leaves out are rows.
    ///
    /// # Errors
    /// Names the first that is none.
    pub(super) fn check_rows(
        &self,
        document: &Document,
        rows: &[String],
    ) -> Result<(), ExperimentError> {
        let Some(row) = self.without.keys().find(|row| !rows.contains(row)) else {
            return Ok(());
        };
        let without = self.node.as_ref().and_then(|node| node.get("without"));
        let origin = without.unwrap_or(&document.root).origin_of(row);
        let known: Vec<&str> = rows.iter().map(String::as_str).collect();
        let problem = format!("no row is called `{row}`");
        Err(document.error(origin, problem, did_you_mean(row, &known)))
    }

    /// Returns everything that it changes: fields as `--set` takes them, what is dropped and left
    /// out, and the reasons.
    pub fn changes(&self) -> Vec<String> {
        let assignment = |entry: &Entry| {
            let value = serde_json::to_string(&entry.node).unwrap_or_default();
            format!("{}={value}", entry.key)
        };
        let set = self.set.iter().map(assignment);
        let drop = self.drop.iter();
        let drop = drop.map(|part| format!("without {}", part.field()));
        let without = self.without.iter();
        let without = without.map(|(row, why)| format!("without the row {row}: {why}"));
        let deviates = self.deviates.iter();
        let deviates = deviates.map(|(field, why)| format!("{field}: {why}"));
        set.chain(drop).chain(without).chain(deviates).collect()
    }

    /// Returns whether it sets a field, of the experiment or of a row.
    pub(super) fn sets(&self, field: &str) -> bool {
        let within = |whole: &str, part: &str| {
            let rest = part.strip_prefix(whole);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.fields()
            .any(|path| within(path, field) || path.ends_with(&format!(".{field}")))
    }

    /// Returns the paths of the fields that it sets.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.set.iter().map(|entry| entry.key.as_str())
    }
}
