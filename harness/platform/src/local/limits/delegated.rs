//! Making groups under version 2, whose groups hold processes or further groups
//! with controllers, and never both ("no internal processes", the kernel's
//! `cgroup-v2.rst`).
//!
//! A group that was handed to us (`systemd-run -p Delegate=yes`) starts with the
//! harness in it. The harness steps down into a group of its own inside it.

use std::path::Path;
use std::sync::LazyLock;
use std::{fs, io, process};

use super::group::{hold, unique_name};

/// Name of the group that this harness steps down into.
static OWN_NAME: LazyLock<String> = LazyLock::new(|| unique_name() + "-harness");

/// Returns the group in which groups are made: that of this process or, once it has
/// stepped down, the one above.
pub(super) fn home(own: &Path) -> &Path {
    match own.parent() {
        Some(above) if own.ends_with(&*OWN_NAME) => above,
        _ => own,
    }
}

/// Enables groups with `controller` in `home`.
pub(super) fn enable(home: &Path, controller: &str) -> Result<(), String> {
    // Only the root of all groups has no type, and may hold both.
    let stepped_down = home.join("cgroup.type").exists() && {
        step_down(home).map_err(|error| refused(home, controller, &error))?;
        true
    };
    let enabled = fs::write(
        home.join("cgroup.subtree_control"),
        format!("+{controller}"),
    );
    enabled.map_err(|error| {
        if stepped_down {
            step_back(home);
        }
        refused(home, controller, &error)
    })
}

fn step_down(home: &Path) -> io::Result<()> {
    let own = home.join(&*OWN_NAME);
    match fs::create_dir(&own) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Until this process is in it, another harness could remove it.
    let _held = hold(&own);
    fs::write(own.join("cgroup.procs"), process::id().to_string())
}

/// Restores the initial state.
fn step_back(home: &Path) {
    // What cannot be undone is harmless: a group with this process in it.
    let _ = fs::write(home.join("cgroup.procs"), process::id().to_string());
    let _ = fs::remove_dir(home.join(&*OWN_NAME));
}

fn refused(home: &Path, controller: &str, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ResourceBusy => "other processes run in that group",
        io::ErrorKind::PermissionDenied => "that group was not handed to this user",
        _ => "the kernel refused",
    };
    format!(
        "no cgroup v2 group with {controller:?} can be made in {}: {why} ({error}); start it as \
         `systemd-run --scope -p Delegate=yes epochcost ...`, with `--user` if you are not root",
        home.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::holds;

    #[test]
    fn groups_are_made_beside_the_harness() {
        let scope = Path::new("/sys/fs/cgroup/user.slice/run-1.scope");
        assert_eq!(home(scope), scope);
        assert_eq!(home(&scope.join(&*OWN_NAME)), scope);
        let others = scope.join("epochcost-1-harness");
        assert_eq!(home(&others), others);
    }

    /// Plain files stand for the kernel's, which take the same writes.
    #[test]
    fn the_harness_steps_down_before_it_asks_for_a_controller() {
        let home = tempfile::tempdir().unwrap();
        let read = |file: &str| fs::read_to_string(home.path().join(file)).unwrap_or_default();
        fs::write(home.path().join("cgroup.type"), "domain").unwrap();
        enable(home.path(), "memory").unwrap();
        let own = process::id().to_string();
        assert_eq!(read(&format!("{}/cgroup.procs", *OWN_NAME)), own);
        assert_eq!(read("cgroup.subtree_control"), "+memory");
        // At the root of all groups it stays where it is.
        let root = tempfile::tempdir().unwrap();
        enable(root.path(), "cpu").unwrap();
        assert!(!root.path().join(&*OWN_NAME).exists());
    }

    #[test]
    fn a_group_of_others_is_told_with_a_remedy() {
        let gone = enable(Path::new("/sys/fs/cgroup/no/such/group"), "cpu");
        holds(gone.unwrap_err(), &["Delegate=yes", "no/such"]);
    }
}
