//! Processes below a run, their names and the ports that they listen on.

use std::collections::BTreeSet;
use std::fs;

/// Every process below `ancestor`.
pub fn descendants(ancestor: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all().filter_map(|id| Some((id, parent(id)?))).collect();
    let mut found = vec![ancestor];
    let mut next = 0;
    while next < found.len() {
        let of = found[next];
        let children = parents.iter().filter(|(_, up)| *up == of);
        found.extend(children.map(|(id, _)| *id));
        next += 1;
    }
    found.split_off(1)
}

/// Those of them that run a program of that name.
pub fn named(ancestor: u32, program: &str) -> Vec<u32> {
    let mut found = descendants(ancestor);
    found.retain(|id| name(*id).as_deref() == Some(program));
    found
}

/// Whether a process has ended: one that nobody has waited for yet has, too.
pub fn is_gone(process: u32) -> bool {
    stat(process).is_none_or(|stat| matches!(stat[0].as_str(), "Z" | "X"))
}

/// The ports of IPv4 on which processes below `ancestor` listen.
pub fn listening(ancestor: u32) -> BTreeSet<u16> {
    let below = descendants(ancestor).into_iter();
    let sockets: BTreeSet<String> = below.flat_map(sockets).collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // proc(5): address, state 0A is LISTEN, inode.
            let port = fields[1].split_once(':')?.1;
            let is_ours = fields[3] == "0A" && sockets.contains(fields[9]);
            is_ours.then(|| u16::from_str_radix(port, 16).unwrap())
        })
        .collect()
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// State, parent and what follows, of `/proc/PID/stat`.
fn stat(process: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    Some(after_name.split_whitespace().map(str::to_owned).collect())
}

fn parent(process: u32) -> Option<u32> {
    stat(process)?.get(1)?.parse().ok()
}

fn name(process: u32) -> Option<String> {
    let program = fs::read_link(format!("/proc/{process}/exe")).ok()?;
    // Debian's redis-server is a link to redis-check-rdb.
    let name = program.file_name()?.to_str()?;
    let name = if name.starts_with("redis-") {
        "redis-server"
    } else {
        name
    };
    Some(name.to_owned())
}

fn sockets(process: u32) -> Vec<String> {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return Vec::new();
    };
    let targets = files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok());
    let inodes = targets.filter_map(|target| {
        let inode = target.to_str()?.strip_prefix("socket:[")?;
        Some(inode.strip_suffix(']')?.to_owned())
    });
    inodes.collect()
}
