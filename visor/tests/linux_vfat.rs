//! Linux's own vfat driver and ours agree: what one has written the other reads, names, bytes and times.
//!
//! It takes root and a kernel with the drivers `vfat` and `loop`, so this is part of a lane of its own, in a virtual machine:
//! `cargo xtask test --network`. Elsewhere these tests are ignored.

#[path = "support/sample_files.rs"]
mod sample_files;

use sample_files::{fill, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const MONOHULL: &str = env!("CARGO_BIN_EXE_monohull");
/// An image of each kind: FAT12, FAT16, FAT32.
const SIZES: [&str; 3] = ["4MiB", "64MiB", "600MiB"];

/// What a path leads to: when it was changed, in seconds, and a file's bytes.
type Tree = BTreeMap<PathBuf, (u64, Option<Vec<u8>>)>;

#[track_caller]
fn done(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it starts");
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {out}{errors}");
    out.into_owned()
}

/// Everything below a folder. Times are files' only: a folder's is that of its last change.
fn tree(folder: &Path) -> Tree {
    fn add(folder: &Path, base: &Path, all: &mut Tree) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(base).expect("below").to_owned();
            if path.is_dir() {
                all.insert(name, (0, None));
                add(&path, base, all);
            } else {
                let changed = fs::metadata(&path).and_then(|known| known.modified()).expect("a time");
                let seconds = changed.duration_since(UNIX_EPOCH).expect("later").as_secs();
                all.insert(name, (seconds, Some(fs::read(&path).expect("readable"))));
            }
        }
    }
    let mut all = Tree::new();
    add(folder, folder, &mut all);
    all
}

/// An image that Linux has mounted, until this goes.
struct Mounted {
    at: PathBuf,
}

impl Mounted {
    fn new(image: &Path, at: &Path, access: &str) -> Mounted {
        fs::create_dir_all(at).expect("a folder");
        // FAT knows no time zones; ours writes UTC.
        let options = format!("loop,{access},tz=UTC,errors=remount-ro");
        done("mount", &["-t", "vfat", "-o", &options, text(image), text(at)]);
        Mounted { at: at.to_owned() }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let ended = Command::new("umount").arg(&self.at).status();
        assert!(std::thread::panicking() || ended.is_ok_and(|status| status.success()), "it is unmounted");
    }
}

/// Runs a function that makes these tries on an image, and gives what it printed.
fn tries(image: &Path, attempts: &Value) -> Vec<String> {
    let probe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/file-probe.so");
    let document = json!({
        "name": "vfat",
        "functions": { "probe": { "image": probe } },
        "steps": [{ "name": "probe", "function": "probe", "args": { "tries": attempts } }],
        "files": [{ "at": "/disk", "image": image, "access": "write" }],
    });
    let file = image.with_extension("json");
    fs::write(&file, document.to_string()).expect("a file");
    let said = done(MONOHULL, &["run", text(&file)]);
    said.lines().filter_map(|line| line.split_once(" | ")).map(|(_, said)| said.to_owned()).collect()
}

#[test]
#[ignore = "needs root, vfat and loop: cargo xtask test --network"]
fn linux_reads_what_we_wrote() {
    for size in SIZES {
        let folder = TempDir::new().expect("a folder");
        let (source, disk, at) = (folder.path().join("in"), folder.path().join("disk.img"), folder.path().join("at"));
        fill(&source);
        done(MONOHULL, &["image", "create", text(&disk), "--size", size, "--from", text(&source)]);
        let mounted = Mounted::new(&disk, &at, "ro");
        assert_eq!(tree(&at), tree(&source), "{size}");
        // By its short name too.
        assert_eq!(fs::read(at.join("ONESEC~1")).expect("a file"), fs::read(at.join("one sector")).expect("a file"));
        drop(mounted);

        let before = SystemTime::now();
        let said = tries(
            &disk,
            &json!([
                ["make", "/disk/new folder"],
                ["write", "/disk/new folder/Überschrift.txt", "written by a function"],
                ["fill", "/disk/new folder/large", "150000"],
                ["rename", "/disk/one sector", "/disk/deep/er/a sector that went elsewhere"],
                ["remove", "/disk/deep/large"],
                ["write", "/disk/ONE.TXT", "longer than it was"],
            ]),
        );
        let came: Vec<&str> = said.iter().filter_map(|line| line.rsplit(": ").next()).collect();
        assert_eq!(came, ["made", "written", "filled", "renamed", "removed", "written"], "{said:#?}");
        let mut expected = tree(&source);
        let mut moved = |from: &str, to: &str| {
            let file = expected.remove(Path::new(from)).expect("it was there");
            expected.insert(to.into(), file);
        };
        moved("one sector", "deep/er/a sector that went elsewhere");
        expected.remove(Path::new("deep/large"));
        expected.insert("new folder".into(), (0, None));
        let _mounted = Mounted::new(&disk, &at, "ro");
        let mut found = tree(&at);
        // These have the time of the run, to two seconds.
        let earliest = before.duration_since(UNIX_EPOCH).expect("later").as_secs() - 2;
        for (name, bytes) in [
            ("new folder/Überschrift.txt", b"written by a function".to_vec()),
            ("new folder/large", vec![b'x'; 150_000]),
            ("ONE.TXT", b"longer than it was".to_vec()),
        ] {
            let (changed, content) = found.remove(Path::new(name)).expect(name);
            assert_eq!(content, Some(bytes), "{name}");
            assert!((earliest..earliest + 600).contains(&changed), "{name}: {changed}, not since {earliest}");
            expected.remove(Path::new(name));
        }
        assert_eq!(found, expected, "{size}");
    }
}

#[test]
#[ignore = "needs root, vfat and loop: cargo xtask test --network"]
fn we_read_what_linux_wrote() {
    for size in SIZES {
        let folder = TempDir::new().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let (source, disk, at, out) = (path("in"), path("disk.img"), path("at"), path("out"));
        done(MONOHULL, &["image", "create", text(&disk), "--size", size]);
        let mounted = Mounted::new(&disk, &at, "rw");
        fill(&at);
        fs::create_dir(at.join("gone")).expect("a folder");
        fs::write(at.join("gone/too"), vec![1; 100_000]).expect("a file");
        fs::remove_dir_all(at.join("gone")).expect("it was there");
        fs::rename(at.join("x/a"), at.join("deep/renamed by Linux")).expect("it was there");
        drop(mounted);
        fill(&source);
        fs::rename(source.join("x/a"), source.join("deep/renamed by Linux")).expect("it was there");

        let checked: Value =
            serde_json::from_str(&done(MONOHULL, &["image", "check", text(&disk), "--json"])).expect("JSON");
        assert_eq!(checked["clean"], true, "{checked:#}");
        done(MONOHULL, &["image", "cp", &format!("{}:/", text(&disk)), text(&out)]);
        let bytes = |tree: Tree| tree.into_iter().map(|(name, (_, bytes))| (name, bytes)).collect::<Vec<_>>();
        assert_eq!(bytes(tree(&out)), bytes(tree(&source)), "{size}");
        let listed: Value =
            serde_json::from_str(&done(MONOHULL, &["image", "ls", text(&disk), "--json"])).expect("JSON");
        let one = listed.as_array().expect("a list").iter().find(|entry| entry["name"] == "ONE.TXT").expect("a file");
        // The second of them: one step after 2020-02-29T12:54:56Z.
        assert_eq!(one["modified"], "2020-03-01T02:48:18Z", "{one}");
        let said = tries(
            &disk,
            &json!([["list", "/disk/ä ö ü"], ["size", "/disk/deep/renamed by Linux"], ["list", "/disk/x"]]),
        );
        let expected =
            ["list /disk/ä ö ü: 名前.txt", "size /disk/deep/renamed by Linux: 10 bytes", "list /disk/x: a~1"];
        assert_eq!(said, expected, "{size}");
    }
}
