//! A full disk: said in these words, with what to do, and no reason to begin again.

use super::*;
use crate::elsewhere::unshared;

/// In a namespace in which `full` is a file system of so many KB.
#[test]
fn a_full_disk_is_named_and_the_run_goes_on_with_room() {
    for size in [16, 48, 96, 160] {
        let scene = sizes();
        fs::create_dir(scene.file("full")).unwrap();
        let script = format!(
            "mount -t tmpfs -o size={size}k none full || exit 99\n\
             \"$0\" run sizes.yaml --out full/run 2> first && exit 1\n\
             \"$0\" run sizes.yaml --out full/run --resume 2> again && exit 2\n\
             cp -a full/run room"
        );
        let Some(ended) = unshared(&scene, "--mount --map-root-user", &script) else {
            return;
        };
        ended.ends(0);
        for message in ["first", "again"] {
            holds(scene.read(message), &["No space left", "free some space"]);
        }
        scene.text("run sizes.yaml --out room --resume");
    }
}
