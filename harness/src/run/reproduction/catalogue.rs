//! The papers' tables and figures: experiment files in directories of papers.

use std::path::{Path, PathBuf};

use epochcost_experiment::yaml_files;
use epochcost_judge::analysis::overview::is_named;
use epochcost_planner::error::Error;
use epochcost_spec::shipped;
use epochcost_spec::suggest::{listed, nearest};

/// Directory beside the papers' that contains published values, no experiments.
const PUBLISHED: &str = "published";

/// Every item, in the order of ids.
pub(super) struct Catalogue {
    directory: PathBuf,
    entries: Vec<Entry>,
}

/// One table or figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// `paper/item`: the file's path below the directory, without its extension.
    pub id: String,
    /// Experiment file.
    pub file: PathBuf,
}

impl Catalogue {
    /// Searches for experiments in the directories of `directory`; those right in
    /// it belong to no paper.
    ///
    /// # Errors
    /// [`Error::NothingSelected`] if there are none.
    pub fn read(directory: &Path) -> Result<Self, Error> {
        let unreadable = |error| Error::unreadable(&error, Some("--directory"));
        let files = yaml_files(directory).map_err(unreadable)?;
        let mut entries: Vec<Entry> = files
            .into_iter()
            .filter_map(|file| {
                let path = file.strip_prefix(directory).ok()?.with_extension("");
                let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
                let is_item = parts.len() == 2 && parts[0] != PUBLISHED;
                is_item.then(|| Entry {
                    id: parts.join("/"),
                    file,
                })
            })
            .collect();
        entries.sort_by(|a, b| a.id.cmp(&b.id));
        if entries.is_empty() {
            return Err(Error::NothingSelected(format!(
                "there is no paper's directory with experiments under {}",
                directory.display()
            )));
        }
        Ok(Self {
            directory: directory.to_owned(),
            entries,
        })
    }

    /// Returns the ids of all items, in their order.
    pub fn ids(&self) -> Vec<String> {
        self.entries.iter().map(|entry| entry.id.clone()).collect()
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the items that `asked` names, each once; all, if it is empty. A name is
    /// an id or a paper.
    ///
    /// # Errors
    /// For an unknown name, with the nearest known one.
    pub fn select(&self, asked: &[String]) -> Result<Vec<Entry>, Error> {
        for name in asked {
            if !self.entries.iter().any(|entry| is_named(name, &entry.id)) {
                return Err(self.unknown(name));
            }
        }
        let wanted =
            |entry: &&Entry| asked.is_empty() || asked.iter().any(|name| is_named(name, &entry.id));
        Ok(self.entries.iter().filter(wanted).cloned().collect())
    }

    fn unknown(&self, name: &str) -> Error {
        let ids: Vec<&str> = self.entries.iter().map(|entry| entry.id.as_str()).collect();
        let mut papers: Vec<&str> = ids.iter().filter_map(|id| id.split('/').next()).collect();
        papers.dedup();
        let experiment = shipped::experiment(Path::new(name));
        let found = nearest(name, &[&papers[..], &ids[..]].concat());
        let remedy = if shipped::is_file(&experiment) {
            format!("it is an experiment of no paper: `epochcost run {name}` runs it")
        } else if found.is_empty() {
            format!("there are {}", listed(&papers))
        } else {
            let found = found.join(" or ");
            format!("did you mean {found}? There are {}", listed(&papers))
        };
        let place = if shipped::is_shipped(&self.directory) {
            "in this program".to_owned()
        } else {
            format!("under {}", self.directory.display())
        };
        Error::usage(
            format!("there is no paper or item `{name}` {place}"),
            remedy,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue(files: &[&str]) -> (tempfile::TempDir, Result<Catalogue, Error>) {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let catalogue = Catalogue::read(directory.path());
        (directory, catalogue)
    }

    fn ids(catalogue: &Catalogue, asked: &[&str]) -> Result<Vec<String>, String> {
        let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
        let selected = catalogue.select(&asked);
        let selected = selected.map_err(|error| error.to_string())?;
        Ok(selected.into_iter().map(|entry| entry.id).collect())
    }

    const FILES: [&str; 7] = [
        "smoke.yaml",
        "published/columns.yaml",
        "one/more/figure3.yaml",
        "one/table1.yaml",
        "one/table10.yaml",
        "one-more/figure2.yaml",
        "one/notes.md",
    ];

    #[test]
    fn items_lie_in_directories_of_papers() {
        let (_kept, catalogue) = catalogue(&FILES);
        let catalogue = catalogue.unwrap();
        let all = ["one-more/figure2", "one/table1", "one/table10"];
        assert_eq!(ids(&catalogue, &[]).unwrap(), all);
        assert_eq!(ids(&catalogue, &["one"]).unwrap(), all[1..]);
        assert_eq!(ids(&catalogue, &["one/table1"]).unwrap(), all[1..2]);
        let twice = ["one/table10", "one", "one-more/"];
        assert_eq!(ids(&catalogue, &twice).unwrap(), all);
        let (_kept, none) = super::tests::catalogue(&FILES[..2]);
        assert!(matches!(none, Err(Error::NothingSelected(_))));
    }
}
