//! Child processes of this program, from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::process::{self, Command};

/// Returns id and command line of all processes below this one, parents first.
pub(crate) fn descendants() -> Vec<(u32, String)> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let process = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some((process, parent)) = process.and_then(|id| Some((id, parent(id)?))) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found: Vec<(u32, String)> = Vec::new();
    let mut parents = vec![process::id()];
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.push((child, command(child)));
            parents.push(child);
        }
    }
    found
}

/// Returns the parent of a process, the second field after its name.
fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

fn command(process: u32) -> String {
    let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&arguments).replace('\0', " ");
    text.trim().to_owned()
}

/// Kills processes once this one has ended: a test that waits for one of them would go on.
pub(crate) fn kill_afterwards(processes: impl Iterator<Item = u32>) {
    let ids: Vec<String> = processes.map(|id| id.to_string()).collect();
    if !ids.is_empty() {
        // By the shell's own command: `kill` is not installed everywhere.
        let script = format!(
            "i=0; while [ -e /proc/{}/exe ] && [ $i -lt 50 ]; do i=$((i + 1)); sleep 0.1; done; \
             kill -9 {}",
            process::id(),
            ids.join(" ")
        );
        let _ = Command::new("sh").args(["-c", &script]).spawn();
    }
}
