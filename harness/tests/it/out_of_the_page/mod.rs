//! Figures and tables that leave the page: images that stand alone, data, tables for
//! papers, an appendix, and verdicts for continuous integration.

use std::fs;
use std::path::Path;

use epochcost_judge::analysis;
use epochcost_record::RunDirectory;
use epochcost_report as report;
use serde_json::Value;

use crate::fixture;
use crate::support::{Scene, holds, items, lacks, root};

mod appendix;
mod figures;
mod outside;
mod pages;

/// What is recorded of the last reproduction.
const RECORD: &str = "results/records/reproduction/summary.json";

fn written(directory: &Path, claims: &str) -> RunDirectory {
    let run = fixture::finished(directory, claims);
    report::write(&run, &analysis::summarise(&run).unwrap()).unwrap();
    run
}

/// Every element is closed, in order. Text and attributes are left alone.
fn is_well_formed(xml: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for part in xml.split('<').skip(1) {
        let Some((tag, _)) = part.split_once('>') else {
            return false;
        };
        if tag.starts_with(['!', '?']) || tag.ends_with('/') {
            continue;
        }
        let mut words = tag.trim_start_matches('/').split_whitespace();
        let name = words.next().unwrap();
        if !tag.starts_with('/') {
            open.push(name);
        } else if open.pop() != Some(name) {
            return false;
        }
    }
    open.is_empty()
}
