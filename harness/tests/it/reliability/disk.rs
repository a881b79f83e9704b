//! A full disk: said in these words, with what to do, and no reason to begin again.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::{SIZES, Scene, errors};
use crate::support::program;

/// Runs the experiment in a mount namespace in which `full` is a file system of `size` KB, then
/// resumes it there, then with room enough. None where namespaces are not allowed.
fn run(directory: &Path, size: usize) -> Option<[Output; 3]> {
    let epochcost = program().get_program().to_owned();
    let script = format!(
        "mount -t tmpfs -o size={size}k none full || exit 99\n\
         for i in 1 2; do\n\
         [ $i = 2 ] && resume=--resume\n\
         \"$0\" run sizes.yaml --out full/run $resume > out.$i 2> err.$i; echo $? > code.$i\n\
         done\n\
         cp -a full/run room"
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--map-root-user", "sh", "-c", &script]);
    let status = unshare
        .arg(&epochcost)
        .current_dir(directory)
        .output()
        .ok()?;
    if status.status.code() == Some(99) || errors(&status).contains("unshare") {
        return None;
    }
    let output = |i: usize| {
        let read = |name: &str| fs::read(directory.join(format!("{name}.{i}"))).unwrap();
        let code: i32 = String::from_utf8_lossy(&read("code"))
            .trim()
            .parse()
            .unwrap();
        Output {
            status: std::os::unix::process::ExitStatusExt::from_raw(code << 8),
            stdout: read("out"),
            stderr: read("err"),
        }
    };
    let room = Command::new(&epochcost)
        .args(["run", "sizes.yaml", "--out", "room", "--resume"])
        .current_dir(directory)
        .output()
        .unwrap();
    Some([output(1), output(2), room])
}

#[test]
fn a_full_disk_is_named_and_the_run_goes_on_with_room() {
    for size in [16, 48, 96, 160] {
        let scene = Scene::new(SIZES);
        fs::create_dir(scene.0.path().join("full")).unwrap();
        let Some([first, again, room]) = run(scene.0.path(), size) else {
            eprintln!("not run: mount namespaces are not allowed here");
            return;
        };
        for output in [first, again] {
            let message = errors(&output);
            assert!(!output.status.success(), "{size} KB are too few");
            assert!(message.contains("No space left"), "{size} KB: {message}");
            assert!(message.contains("free some space"), "{size} KB: {message}");
        }
        assert_eq!(room.status.code(), Some(0), "{size} KB: {}", errors(&room));
    }
}
