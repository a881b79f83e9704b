//! Journal of the resources that a run intends, has made and has removed.
//!
//! The file has one JSON object per line, appended and synchronised before the event.
//! A process may die at any point: resources that are intended or made, and not removed,
//! may exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use epochcost_datasets::{flush, flush_directory};
use serde::{Deserialize, Serialize};

use crate::resource::Address;
use crate::{AwsError, Scope};

/// Major version of the format; other versions are refused.
const MAJOR: u32 = 1;

/// Line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// First line: the run of the journal.
    Begins {
        /// Major version of the format.
        version: u32,
        /// Account, region and run.
        scope: Scope,
    },
    /// The resource is about to be created.
    Intends {
        /// The resource.
        resource: Address,
    },
    /// The resource exists and is complete.
    Made {
        /// The resource.
        resource: Address,
        /// Id from the service.
        id: String,
    },
    /// The resource is gone.
    Removed {
        /// The resource.
        resource: Address,
    },
    /// A trial, or what all trials share, is about to begin.
    Reserves {
        /// Name of the trial; that of the run for what is shared.
        part: String,
        /// The most that it can cost, US dollars.
        usd: f64,
    },
    /// It is over, and all of it is gone.
    Spent {
        /// Name of the trial.
        part: String,
        /// What it cost at most, US dollars: in place of what was reserved.
        usd: f64,
    },
}

/// Hook that runs once an event is on the disk; tests end the process there.
pub type WriteHook = Box<dyn Fn(&Event) + Send + Sync>;

/// Open journal.
pub struct Journal {
    path: PathBuf,
    file: File,
    scope: Scope,
    outstanding: BTreeSet<Address>,
    made: BTreeMap<Address, String>,
    /// What each part has spent, or else reserved, US dollars.
    usd: BTreeMap<String, f64>,
    on_write: Option<WriteHook>,
}

impl Journal {
    /// Begins the journal of a run; the file must not exist.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn begin(path: &Path, scope: Scope) -> Result<Self, AwsError> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)
            .map_err(|error| failed("begin", path, &error))?;
        let mut journal = Self {
            path: path.to_path_buf(),
            file,
            scope: scope.clone(),
            outstanding: BTreeSet::new(),
            made: BTreeMap::new(),
            usd: BTreeMap::new(),
            on_write: None,
        };
        journal.append(&Event::Begins {
            version: MAJOR,
            scope,
        })?;
        // The directory entry must survive a crash, too.
        flush_directory(path.parent().unwrap_or(Path::new("")))
            .map_err(|error| failed("begin", path, &error))?;
        Ok(journal)
    }

    /// Opens an existing journal.
    ///
    /// # Errors
    /// When the file cannot be read or has another version.
    pub fn resume(path: &Path) -> Result<Self, AwsError> {
        let text = std::fs::read_to_string(path).map_err(|error| failed("read", path, &error))?;
        let (events, whole_bytes) = parse(&text).map_err(|reason| AwsError::Journal {
            doing: "read",
            path: path.to_path_buf(),
            reason,
        })?;
        let Some(Event::Begins { scope, .. }) = events.first() else {
            return Err(AwsError::Journal {
                doing: "read",
                path: path.to_path_buf(),
                reason: "it has no first line: nothing was created under it".to_owned(),
            });
        };
        let file = OpenOptions::new()
            .append(true)
            .open(path)
            .map_err(|error| failed("open", path, &error))?;
        // A line that was cut off would merge with the next one.
        file.set_len(whole_bytes as u64)
            .map_err(|error| failed("repair", path, &error))?;
        let mut journal = Self {
            path: path.to_path_buf(),
            file,
            scope: scope.clone(),
            outstanding: BTreeSet::new(),
            made: BTreeMap::new(),
            usd: BTreeMap::new(),
            on_write: None,
        };
        events.iter().for_each(|event| journal.note(event));
        Ok(journal)
    }

    /// Sets a hook that runs whenever an event is on the disk.
    pub fn on_write(&mut self, hook: WriteHook) {
        self.on_write = Some(hook);
    }

    /// Returns the scope of the run's resources.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Returns the resources that may exist: intended or made, and not removed.
    pub fn outstanding(&self) -> &BTreeSet<Address> {
        &self.outstanding
    }

    /// Returns the most that was spent, US dollars: of what has not ended, all that is reserved.
    pub fn usd(&self) -> f64 {
        self.usd.values().sum()
    }

    /// Returns the same of a journal that is only read; 0 of one that has not begun.
    ///
    /// # Errors
    /// When the file cannot be read or has another version.
    pub fn usd_in(path: &Path) -> Result<f64, AwsError> {
        let text = std::fs::read_to_string(path).map_err(|error| failed("read", path, &error))?;
        let (events, _) = parse(&text).map_err(|reason| AwsError::Journal {
            doing: "read",
            path: path.to_path_buf(),
            reason,
        })?;
        let mut usd = BTreeMap::new();
        events.iter().for_each(|event| note_usd(event, &mut usd));
        Ok(usd.values().sum())
    }

    /// Returns whether the resource is complete.
    pub fn is_made(&self, resource: &Address) -> bool {
        self.made.contains_key(resource)
    }

    /// Returns the service's id of a complete resource.
    pub(crate) fn id(&self, resource: &Address) -> Option<&str> {
        self.made.get(resource).map(String::as_str)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends that a resource is about to be created.
    pub(crate) fn intends(&mut self, resource: &Address) -> Result<(), AwsError> {
        self.append(&Event::Intends {
            resource: resource.clone(),
        })
    }

    /// Appends that a resource is complete.
    pub(crate) fn made(&mut self, resource: &Address, id: &str) -> Result<(), AwsError> {
        self.append(&Event::Made {
            resource: resource.clone(),
            id: id.to_owned(),
        })
    }

    /// Appends that a resource is gone.
    pub(crate) fn removed(&mut self, resource: &Address) -> Result<(), AwsError> {
        self.append(&Event::Removed {
            resource: resource.clone(),
        })
    }

    /// Appends that a part of the run is about to begin, which costs at most `usd` US dollars.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn reserves(&mut self, part: &str, usd: f64) -> Result<(), AwsError> {
        let part = part.to_owned();
        self.append(&Event::Reserves { part, usd })
    }

    /// Appends that a part of the run is over and cost at most `usd` US dollars.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn spent(&mut self, part: &str, usd: f64) -> Result<(), AwsError> {
        let part = part.to_owned();
        self.append(&Event::Spent { part, usd })
    }

    /// Writes an event to the disk, notes it, and runs the hook.
    fn append(&mut self, event: &Event) -> Result<(), AwsError> {
        let mut line = serde_json::to_string(event).map_err(|error| AwsError::Journal {
            doing: "write",
            path: self.path.clone(),
            reason: error.to_string(),
        })?;
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .and_then(|()| flush(&self.file))
            .map_err(|error| failed("write", &self.path, &error))?;
        self.note(event);
        if let Some(hook) = &self.on_write {
            hook(event);
        }
        Ok(())
    }

    /// Applies an event to the state in memory.
    fn note(&mut self, event: &Event) {
        note_usd(event, &mut self.usd);
        match event {
            Event::Begins { .. } | Event::Reserves { .. } | Event::Spent { .. } => {}
            Event::Intends { resource } => {
                self.outstanding.insert(resource.clone());
            }
            Event::Made { resource, id } => {
                self.outstanding.insert(resource.clone());
                self.made.insert(resource.clone(), id.clone());
            }
            Event::Removed { resource } => {
                self.outstanding.remove(resource);
                self.made.remove(resource);
            }
        }
    }
}

/// Notes what a part costs, if the event says it.
fn note_usd(event: &Event, parts: &mut BTreeMap<String, f64>) {
    if let Event::Reserves { part, usd } | Event::Spent { part, usd } = event {
        parts.insert(part.clone(), *usd);
    }
}

/// Wraps an error of the operating system.
fn failed(doing: &'static str, path: &Path, error: &std::io::Error) -> AwsError {
    AwsError::Journal {
        doing,
        path: path.to_path_buf(),
        reason: error.to_string(),
    }
}

/// Parses all complete lines, and returns their events and their size in bytes. A last line
/// without its end was cut off by a crash, before its event began.
fn parse(text: &str) -> Result<(Vec<Event>, usize), String> {
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut events = Vec::new();
    for (index, line) in text[..whole].lines().enumerate() {
        let event: Event = serde_json::from_str(line)
            .map_err(|error| format!("line {} is no event: {error}", index + 1))?;
        match (&event, index) {
            (Event::Begins { version, .. }, 0) if *version != MAJOR => {
                return Err(format!(
                    "it is of version {version}, and this program reads version {MAJOR}; \
                     use the program that wrote it"
                ));
            }
            (Event::Begins { .. }, 0) => {}
            (Event::Begins { .. }, _) | (_, 0) => {
                return Err(format!("line {} is out of place", index + 1));
            }
            _ => {}
        }
        events.push(event);
    }
    Ok((events, whole))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::deployment::tests::scope;
    use crate::resource::Kind;

    fn address(name: &str) -> Address {
        Address {
            kind: Kind::Bucket,
            name: name.into(),
        }
    }

    /// A journal cut at any byte reads as a journal of the events whose lines
    /// were whole, and can be gone on with.
    #[test]
    fn a_journal_cut_anywhere_holds_the_whole_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        let mut journal = Journal::begin(&path, scope()).unwrap();
        journal.intends(&address("a")).unwrap();
        journal.made(&address("a"), "a").unwrap();
        journal.intends(&address("b")).unwrap();
        journal.removed(&address("a")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let first = text.find('\n').unwrap() + 1;
        for cut in first..=text.len() {
            std::fs::write(&path, &text[..cut]).unwrap();
            let lines = text[..cut].matches('\n').count();
            let mut resumed = Journal::resume(&path).unwrap();
            let outstanding = resumed.outstanding();
            let outstanding: Vec<_> = outstanding.iter().map(|a| a.name.as_str()).collect();
            let expected: &[&str] = [&[][..], &["a"], &["a"], &["a", "b"], &["b"]][lines - 1];
            assert_eq!(outstanding, expected, "cut at {cut}");
            resumed.intends(&address("c")).unwrap();
            let again = Journal::resume(&path).unwrap();
            assert!(again.outstanding().contains(&address("c")), "cut at {cut}");
            assert_eq!(again.scope(), &scope());
        }
        for cut in 0..first {
            std::fs::write(&path, &text[..cut]).unwrap();
            assert!(Journal::resume(&path).is_err(), "cut at {cut}");
        }
    }

    /// What was reserved counts until it is known what was spent, cut anywhere.
    #[test]
    fn money_is_spent_or_reserved() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        let mut journal = Journal::begin(&path, scope()).unwrap();
        let steps: [(&str, bool, f64, f64); 4] = [
            ("run", true, 0.25, 0.25),
            ("r0t0", true, 2.0, 2.25),
            ("r0t0", false, 0.5, 0.75),
            ("r0t1", true, 2.0, 2.75),
        ];
        let mut after = vec![0.0];
        for (part, is_reserved, usd, all_usd) in steps {
            if is_reserved {
                journal.reserves(part, usd).unwrap();
            } else {
                journal.spent(part, usd).unwrap();
            }
            assert_eq!(journal.usd(), all_usd);
            after.push(all_usd);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for cut in 0..=text.len() {
            std::fs::write(&path, &text[..cut]).unwrap();
            let lines = text[..cut].matches('\n').count();
            let expected = after[lines.saturating_sub(1)];
            assert_eq!(Journal::usd_in(&path).unwrap(), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_journal_is_never_begun_twice_and_damage_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.jsonl");
        Journal::begin(&path, scope()).unwrap();
        assert!(Journal::begin(&path, scope()).is_err());
        let text = std::fs::read_to_string(&path).unwrap();
        let unknown = format!("{text}{{\"event\":\"burns\"}}\n");
        let later = text.replace("\"version\":1", "\"version\":2");
        for (damaged, says) in [(unknown, "line 2"), (later, "version 2")] {
            std::fs::write(&path, damaged).unwrap();
            let error = Journal::resume(&path).err().unwrap().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
