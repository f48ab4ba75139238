//! Files where it takes root to bring the host into the state that is tried: disks that are full, mounts inside of what is granted,
//! users who are not root.
//!
//! Part of a lane of its own, `cargo xtask test --network`. Elsewhere these tests are ignored.

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const MONOHULL: &str = env!("CARGO_BIN_EXE_monohull");
const UNPRIVILEGED: u32 = 65534;

fn run(program: &str, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(program).args(arguments).output().expect("it starts");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("an exit code"), text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn done(program: &str, arguments: &[&str]) -> String {
    let (code, out, errors) = run(program, arguments);
    assert_eq!(code, 0, "{program} {arguments:?}: {out}{errors}");
    out
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path is UTF-8")
}

/// A file system in memory, until this goes.
struct Mounted {
    at: PathBuf,
}

impl Mounted {
    fn new(at: &Path, size: &str) -> Mounted {
        fs::create_dir_all(at).expect("a folder");
        done("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "none", text(at)]);
        Mounted { at: at.to_owned() }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let ended = Command::new("umount").arg(&self.at).status();
        assert!(std::thread::panicking() || ended.is_ok_and(|status| status.success()), "it is unmounted");
    }
}

/// Where the null device is missing or is something else, nothing runs, and nothing is read or written in its place.
#[test]
#[ignore = "needs root: cargo xtask test --network"]
fn without_the_null_device_nothing_runs() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("null");
    fs::write(&file, "").expect("written");
    let workflow = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows/no-op.json");
    let hidden = |how: &str| {
        let script = format!("{how} && exec {MONOHULL} run {}", text(&workflow));
        run("unshare", &["--mount", "sh", "-c", &script])
    };
    assert_eq!(hidden("true").0, 0, "the positive control");
    for (how, why) in [
        (format!("mount --bind {} /dev/null", text(&file)), "/dev/null is not the null device"),
        ("mount -t tmpfs none /dev".to_owned(), "opening /dev/null: No such file"),
    ] {
        let (code, out, errors) = hidden(&how);
        assert_eq!((code, &*out), (3, ""), "{errors}");
        assert!(errors.contains(why), "{errors}");
    }
    assert_eq!(fs::read(&file).expect("readable"), b"");
}

/// Runs a function that makes these tries on files, and gives what came of each.
fn tried(folder: &Path, files: &Value, tries: &Value) -> Vec<String> {
    let probe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/file-probe.so");
    let document = json!({
        "name": "tries",
        "functions": { "probe": { "image": probe } },
        "steps": [{ "name": "probe", "function": "probe", "args": { "tries": tries } }],
        "files": files,
    });
    let file = folder.join("workflow.json");
    fs::write(&file, document.to_string()).expect("a file");
    let said = done(MONOHULL, &["run", text(&file)]);
    let results = said.lines().filter_map(|line| line.split_once(" | ")?.1.rsplit_once(": "));
    results.map(|(_, result)| result.to_owned()).collect()
}

#[test]
#[ignore = "needs root: cargo xtask test --network"]
fn a_full_disk_of_the_host_is_an_error_of_the_write() {
    let folder = TempDir::new().expect("a folder");
    let disk = Mounted::new(&folder.path().join("disk"), "4m");
    let (image, granted, source) = (disk.at.join("disk.img"), disk.at.join("granted"), folder.path().join("large"));
    fs::create_dir(&granted).expect("a folder");
    fs::write(&source, vec![b's'; 6 << 20]).expect("a file");
    done(MONOHULL, &["image", "create", text(&image), "--size", "16MiB"]);
    let files = json!([
        { "at": "/d", "image": image, "access": "write" },
        { "at": "/g", "directory": granted, "access": "write" },
    ]);
    let tries = json!([
        ["fill", "/d/kept", "1000000"],
        ["fill", "/d/large", "8000000"],
        ["grow", "/d/larger", "8000000"],
        ["fill", "/g/large", "8000000"],
        // What has its place is written still, and what fits.
        ["hold", "/d/kept"],
        ["write-held", "0", "changed"],
        ["size", "/d/kept"],
    ]);
    let results = tried(folder.path(), &files, &tries);
    let full = "StorageFull";
    assert_eq!(results, ["filled", full, full, full, "held", "7 bytes", "1000000 bytes"]);

    let to = format!("{}:/kept", text(&image));
    let (code, _, errors) = run(MONOHULL, &["image", "cp", text(&source), &to]);
    assert!(code == 2 && errors.contains("the disk that the image lies on is full"), "{code}: {errors}");
    let kept = done(MONOHULL, &["image", "cat", text(&image), "/kept"]);
    assert!(kept.len() == 1_000_000 && kept.starts_with("changedxxx"));
    let (code, said, _) = run(MONOHULL, &["image", "check", text(&image)]);
    assert!(code < 2 && !said.contains("of which"), "{said}");

    // The same with room again.
    fs::remove_file(granted.join("large")).expect("it is there");
    done("mount", &["-o", "remount,size=32m", text(&disk.at)]);
    let tries = json!([["fill", "/d/large", "8000000"], ["fill", "/g/large", "8000000"]]);
    assert_eq!(tried(folder.path(), &files, &tries), ["filled", "filled"]);
}

#[test]
#[ignore = "needs root: cargo xtask test --network"]
fn what_is_mounted_inside_of_a_grant_is_not_granted() {
    let folder = TempDir::new().expect("a folder");
    let granted = folder.path().join("granted");
    fs::create_dir_all(granted.join("inner")).expect("a folder");
    let files = json!([{ "at": "/g", "directory": granted, "access": "write" }]);
    let tries = json!([
        ["write", "/g/inner/file", "of the grant"],
        ["read", "/g/inner/file"],
        ["list", "/g/inner"],
        ["make", "/g/inner/new"],
        ["rename", "/g/inner/file", "/g/taken"],
    ]);
    let mounted = Mounted::new(&granted.join("inner"), "1m");
    fs::write(mounted.at.join("file"), "SECRET").expect("a file");
    assert_eq!(tried(folder.path(), &files, &tries), ["PermissionDenied"; 5]);
    assert_eq!(fs::read_to_string(mounted.at.join("file")).expect("it is there"), "SECRET");
    assert_eq!(fs::read_dir(&mounted.at).expect("it is there").count(), 1);
    drop(mounted);
    // The control.
    let expected = ["written", "of the grant", "file", "made", "renamed"];
    assert_eq!(tried(folder.path(), &files, &tries), expected);
}

#[test]
#[ignore = "needs root: cargo xtask test --network"]
fn images_are_made_and_filled_by_an_ordinary_user() {
    // The user `nobody` has no access to the folder that this was built in.
    let folder = TempDir::new_in("/tmp").expect("a folder");
    let (program, own) = (folder.path().join("monohull"), folder.path().join("own"));
    fs::copy(MONOHULL, &program).and_then(|_| fs::create_dir(&own)).expect("room");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), mode)
        .and_then(|()| chown(&own, Some(UNPRIVILEGED), Some(UNPRIVILEGED)))
        .expect("root may");
    let (image, notes) = (own.join("disk.img"), own.join("notes"));
    fs::write(&notes, "some notes").expect("a file");
    let as_unprivileged = |arguments: &[&str]| {
        let (id, group) = (format!("--reuid={UNPRIVILEGED}"), format!("--regid={UNPRIVILEGED}"));
        let before = [id.as_str(), &group, "--clear-groups", "--bounding-set=-all", text(&program), "image"];
        run("setpriv", &[&before, arguments].concat())
    };
    let file = format!("{}:/notes", text(&image));
    for arguments in [
        &["create", text(&image), "--size", "64MiB"][..],
        &["cp", text(&notes), &file],
        &["cp", text(&notes), &file],
        &["check", text(&image), "--repair"],
        &["cp", &file, text(&own.join("copy"))],
    ] {
        let (code, out, errors) = as_unprivileged(arguments);
        assert_eq!(code, 0, "{arguments:?}: {out}{errors}");
    }
    assert_eq!(as_unprivileged(&["cat", text(&image), "/notes"]).1, "some notes");
    assert_eq!(fs::read_to_string(own.join("copy")).expect("a copy"), "some notes");
    // Rights are the user's own: an image of root's is to be read, and no more.
    chown(&image, Some(0), Some(0)).expect("root may");
    assert_eq!(as_unprivileged(&["cat", text(&image), "/notes"]).1, "some notes");
    let (code, _, errors) = as_unprivileged(&["cp", text(&notes), &file]);
    assert!(code == 2 && errors.contains("Permission denied"), "{code}: {errors}");
}
