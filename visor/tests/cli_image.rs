//! `monohull image` as a user meets it: what it writes is read by mtools and found clean by fsck.fat, and what they write is
//! read by it.
//!
//! Both come from Debian; `cargo xtask test` fetches them.

#[path = "support/sample_files.rs"]
mod sample_files;

use monohull_fat::{Geometry, Image};
use sample_files::{fill, text};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const MONOHULL: &str = env!("CARGO_BIN_EXE_monohull");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("visor lies in the root")
}

fn run(program: &Path, arguments: &[&str]) -> (i32, String, String) {
    // mtools writes names in the characters of its locale.
    let output: Output = Command::new(program).args(arguments).env("LC_ALL", "C.UTF-8").output().expect("it starts");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("an exit code"), text(&output.stdout), text(&output.stderr))
}

/// One of Debian's programs.
fn tool(name: &str, arguments: &[&str]) -> (i32, String, String) {
    let path = root().join("target/fat-tools/bookworm").join(name);
    assert!(path.exists(), "{}: tools are fetched first: run `cargo xtask test`", path.display());
    run(&path, arguments)
}

fn image(arguments: &[&str]) -> (i32, String, String) {
    run(Path::new(MONOHULL), &[&["image"], arguments].concat())
}

#[track_caller]
fn done((code, out, errors): (i32, String, String)) -> String {
    assert_eq!(code, 0, "{out}{errors}");
    out
}

/// Everything below a folder: relative path and bytes.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    fn add(folder: &Path, base: &Path, all: &mut Vec<(PathBuf, Vec<u8>)>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(base).expect("below").to_owned();
            if path.is_dir() {
                all.push((name, Vec::new()));
                add(&path, base, all);
            } else {
                all.push((name, fs::read(&path).expect("readable")));
            }
        }
    }
    let mut all = Vec::new();
    add(folder, folder, &mut all);
    all.sort();
    all
}

/// `fsck.fat` finds nothing.
#[track_caller]
fn clean(image: &str) {
    let (code, out, errors) = tool("fsck.fat", &["-n", image]);
    assert_eq!(code, 0, "{out}{errors}");
}

#[test]
fn what_we_write_mtools_read() {
    let folder = TempDir::new().expect("a folder");
    let (source, out, again) = (folder.path().join("in"), folder.path().join("out"), folder.path().join("again"));
    fill(&source);
    for size in [None, Some("8MiB"), Some("64MiB"), Some("600MiB")] {
        let path = folder.path().join("disk.img");
        let mut arguments = vec!["create", text(&path), "--force", "--from", text(&source)];
        arguments.extend(size.iter().flat_map(|size| ["--size", size]));
        done(image(&arguments));
        clean(text(&path));
        fs::create_dir_all(&out).expect("a folder");
        done(tool("mtools", &["mcopy", "-s", "-n", "-i", text(&path), "::/", text(&out)]));
        assert_eq!(tree(&out), tree(&source), "{size:?}");
        done(image(&["cp", &format!("{}:/", text(&path)), text(&again)]));
        assert_eq!(tree(&again), tree(&source), "{size:?}");
        fs::remove_dir_all(&out).and_then(|()| fs::remove_dir_all(&again)).expect("ours");
        let said = done(image(&["check", text(&path), "--json"]));
        let said: Value = serde_json::from_str(&said).expect("JSON");
        assert_eq!((said["clean"].as_bool(), said["files"].as_u64()), (Some(true), Some(70)), "{said:#}");
    }
}

#[test]
fn what_mtools_write_we_read() {
    let folder = TempDir::new().expect("a folder");
    let (source, out) = (folder.path().join("in"), folder.path().join("out"));
    fill(&source);
    for (bits, mebibytes) in [("12", "4"), ("16", "32"), ("32", "64")] {
        let path = folder.path().join(format!("{bits}.img"));
        fs::File::create(&path)
            .and_then(|file| file.set_len(mebibytes.parse::<u64>().expect("a number") << 20))
            .expect("room");
        done(tool("mkfs.fat", &["-F", bits, text(&path)]));
        for entry in fs::read_dir(&source).expect("a folder") {
            let entry = entry.expect("an entry").path();
            done(tool("mtools", &["mcopy", "-s", "-i", text(&path), text(&entry), "::/"]));
        }
        done(image(&["check", text(&path)]));
        done(image(&["cp", &format!("{}:/", text(&path)), text(&out)]));
        assert_eq!(tree(&out), tree(&source), "FAT{bits}");
        fs::remove_dir_all(&out).expect("ours");
    }
}

#[test]
fn files_are_listed_printed_and_copied_one_by_one() {
    let folder = TempDir::new().expect("a folder");
    let (path, notes) = (folder.path().join("disk.img"), folder.path().join("notes.txt"));
    let path = text(&path);
    done(image(&["create", path, "--size", "1MiB"]));
    fs::write(&notes, "some notes\n").expect("a file");
    done(image(&["cp", text(&notes), &format!("{path}:/")]));
    done(image(&["cp", text(&notes), &format!("{path}:/other name.txt")]));
    assert_eq!(done(image(&["cat", path, "/other name.txt"])), "some notes\n");
    let listed: Value = serde_json::from_str(&done(image(&["ls", path, "--json"]))).expect("JSON");
    let names: Vec<_> = listed.as_array().expect("a list").iter().map(|entry| entry["name"].as_str()).collect();
    assert_eq!(names, [Some("notes.txt"), Some("other name.txt")]);
    assert_eq!((listed[0]["bytes"].as_u64(), listed[0]["kind"].as_str()), (Some(11), Some("file")));
    assert!(done(image(&["ls", path])).lines().all(|line| line.trim_start().starts_with("11  20")));
    // The one that is there is replaced.
    fs::write(&notes, "other notes\n").expect("a file");
    done(image(&["cp", text(&notes), &format!("{path}:/notes.txt")]));
    assert_eq!(done(image(&["cat", path, "notes.txt"])), "other notes\n");
    clean(path);
}

#[test]
fn mistakes_are_reported() {
    let folder = TempDir::new().expect("a folder");
    let (path, large) = (folder.path().join("disk.img"), folder.path().join("large"));
    let path = text(&path);
    fs::write(&large, vec![1; 3 << 20]).expect("a file");
    for (arguments, said) in [
        (&["create", path][..], "--size"),
        (&["create", path, "--size", "10"], "too small"),
        (&["create", path, "--size", "1MB"], "64MiB"),
        (&["ls", text(&large)], "this is no FAT image"),
        (&["ls", "/nowhere"], "No such file"),
    ] {
        let (code, _, errors) = image(arguments);
        assert!(code == 2 && errors.contains(said), "{arguments:?}: {code} {errors}");
        let _ = fs::remove_file(path);
    }
    done(image(&["create", path, "--size", "1MiB"]));
    for (arguments, said) in [
        (&["create", path, "--size", "1MiB"][..], "File exists"),
        (&["cp", text(&large), &format!("{path}:/large")], "the image is full"),
        (&["cat", path, "/missing"], "nothing by that name"),
        (&["cat", path, "/"], "is a directory"),
        (&["cp", path, path], "one of the two"),
    ] {
        let (code, _, errors) = image(arguments);
        assert!(code == 2 && errors.contains(said), "{arguments:?}: {code} {errors}");
    }
    // What did not fit left nothing.
    assert_eq!(done(image(&["ls", path])), "");
    clean(path);
}

#[test]
fn a_copy_that_does_not_fit_leaves_what_has_its_name() {
    let folder = TempDir::new().expect("a folder");
    let (path, small, large) =
        (folder.path().join("disk.img"), folder.path().join("small"), folder.path().join("large"));
    let path = text(&path);
    fs::write(&small, vec![b's'; 300_000]).and_then(|()| fs::write(&large, vec![b'l'; 900_000])).expect("files");
    done(image(&["create", path, "--size", "1MiB"]));
    done(image(&["cp", text(&small), &format!("{path}:/file")]));
    let (code, _, errors) = image(&["cp", text(&large), &format!("{path}:/file")]);
    assert!(code == 2 && errors.contains("file: the image is full"), "{code}: {errors}");
    assert_eq!(done(image(&["cat", path, "/file"])), "s".repeat(300_000));
    assert!(done(image(&["check", path])).ends_with("as it should be\n"));
    clean(path);
}

#[test]
fn a_copy_that_is_killed_leaves_what_had_its_name_or_the_copy() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("disk.img");
    let path = text(&path);
    let sources = ["a", "b"].map(|name| (name.repeat(20_000_000), folder.path().join(name)));
    for (content, source) in &sources {
        fs::write(source, content).expect("a file");
    }
    let to = format!("{path}:/deep/a name that is long enough");
    done(image(&["create", path, "--size", "64MiB"]));
    fs::create_dir(folder.path().join("deep")).expect("a folder");
    done(image(&["cp", text(&folder.path().join("deep")), &format!("{path}:/deep")]));
    done(image(&["cp", text(&sources[0].1), &to]));
    // The same moments each time, as far as a machine has them.
    let (mut seed, mut left_over) = (1u64, 0);
    for round in 1..=ROUNDS_MAX {
        if round > 60 && left_over > 0 {
            break;
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let before = done(image(&["cat", path, "/deep/a name that is long enough"]));
        let (content, source) = &sources[round % 2];
        let child = Command::new(MONOHULL).args(["image", "cp", text(source), &to]).spawn().expect("it starts");
        kill_when_marked(child, path, Duration::from_micros((seed >> 33) % 6000));
        let now = done(image(&["cat", path, "/deep/a name that is long enough"]));
        assert!(now == before || now == *content, "round {round}: {} bytes", now.len());
        let (code, said, errors) = image(&["check", path]);
        assert!(code == 0 || code == 1, "{said}{errors}");
        assert!(!said.contains("of which"), "{said}");
        left_over += u32::from(said.contains("/.monohull-removed-copy-0` is left over"));
        if round % 2 == 0 {
            done(image(&["check", path, "--repair"]));
            clean(path);
            assert_eq!(done(image(&["cat", path, "/deep/a name that is long enough"])), now);
        }
    }
    assert!(left_over > 0, "no copy was interrupted half-way");
}

/// An image in a file, to be damaged.
struct Bytes(Vec<u8>);

impl Image for Bytes {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), monohull_fat::Error> {
        to.copy_from_slice(&self.0[offset as usize..offset as usize + to.len()]);
        Ok(())
    }
}

impl Bytes {
    /// Changes a cluster's entry in all copies of the FAT.
    fn set(&mut self, geometry: &Geometry, cluster: u32, value: u32) {
        for copy in 0..geometry.fats {
            let at = (geometry.entry_offset(cluster) + copy * geometry.fat_bytes) as usize;
            let (mut bytes, len) = ([0; 4], geometry.entry_len());
            bytes[..len].copy_from_slice(&self.0[at..at + len]);
            self.0[at..at + len].copy_from_slice(&geometry.with_value(bytes, cluster, value)[..len]);
        }
    }
}

/// Changes an image, given where everything is and the clusters of a file.
type Damage<'d> = &'d dyn Fn(&mut Bytes, &Geometry, &[u32]);

#[test]
fn what_is_wrong_is_named_and_put_right() {
    let folder = TempDir::new().expect("a folder");
    let source = folder.path().join("in");
    fs::create_dir(&source).expect("a folder");
    for name in ["a", "b"] {
        fs::write(source.join(name), vec![name.as_bytes()[0]; 40_000]).expect("a file");
    }
    for size in ["4MiB", "64MiB", "600MiB"] {
        let path = folder.path().join("disk.img");
        let path = text(&path);
        let damages: [(&str, Damage<'_>, &str); 5] = [
            ("lost", &|bytes, g, _| bytes.set(g, g.clusters, 0x0fff_ffff), "belong to no file"),
            ("cut", &|bytes, g, chain| bytes.set(g, chain[2], 0x0fff_ffff), "its chain ends before"),
            ("free", &|bytes, g, chain| bytes.set(g, chain[2], 0), "leads to a free cluster"),
            ("round", &|bytes, g, chain| bytes.set(g, chain[2], chain[0]), "runs into another file's"),
            ("open", &|bytes, g, _| bytes.0[g.dirty_flag() as usize] |= 1, "it was not closed"),
        ];
        for (what, damage, said) in damages {
            done(image(&["create", path, "--force", "--from", text(&source), "--size", size]));
            let mut bytes = Bytes(fs::read(path).expect("readable"));
            let geometry = Geometry::read(&bytes).expect("an image");
            let monohull_fat::Found::Entry(a) = monohull_fat::find(&geometry, &bytes, "a").expect("it is there") else {
                panic!("a file")
            };
            let chain: Vec<u32> =
                (0..40_000u32.div_ceil(geometry.cluster_size as u32)).map(|n| a.cluster + n).collect();
            damage(&mut bytes, &geometry, &chain);
            fs::write(path, &bytes.0).expect("writable");
            let (code, out, errors) = image(&["check", path]);
            assert!(code == 1 && out.contains(said), "{size} {what}: {code} {out}{errors}");
            let out = done(image(&["check", path, "--repair"]));
            assert!(out.contains(said) && out.ends_with("put right\n"), "{size} {what}: {out}");
            assert!(done(image(&["check", path])).ends_with("as it should be\n"), "{size} {what}");
            clean(path);
            assert_eq!(done(image(&["cat", path, "b"])), "b".repeat(40_000), "{size} {what}");
        }
    }
}

/// Has the slot of what a path leads to say that it begins at another cluster, and what it is (16 for a directory).
fn lead(bytes: &mut Bytes, geometry: &Geometry, path: &str, cluster: u32, what: u8) {
    let slot = entry(bytes, geometry, path).slot as usize;
    bytes.0[slot + 11] = what;
    bytes.0[slot + 26..slot + 28].copy_from_slice(&cluster.to_le_bytes()[..2]);
    if geometry.root_bytes == 0 {
        bytes.0[slot + 20..slot + 22].copy_from_slice(&cluster.to_le_bytes()[2..]);
    }
}

fn entry(bytes: &Bytes, geometry: &Geometry, path: &str) -> monohull_fat::Entry {
    match monohull_fat::find(geometry, bytes, path) {
        Ok(monohull_fat::Found::Entry(entry)) => entry,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn images_with_shared_clusters_are_reported_and_not_written_to() {
    type Tangle<'t> = &'t dyn Fn(&mut Bytes, &Geometry);
    let cluster = |bytes: &Bytes, geometry: &Geometry, path| entry(bytes, geometry, path).cluster;
    let folder = TempDir::new().expect("a folder");
    let source = folder.path().join("in");
    fs::create_dir_all(source.join("d/e")).expect("folders");
    fs::create_dir(source.join("x")).expect("a folder");
    for name in ["d/file", "d/e/file", "x/1", "x/2"] {
        fs::write(source.join(name), name.repeat(3000)).expect("a file");
    }
    let tangles: [(Tangle<'_>, &str, &str, &str); 5] = [
        // A directory that is in itself, and one in the one above.
        (
            &|b, g| lead(b, g, "d/e/file", cluster(b, g, "d/e"), 16),
            "/d/e/file: the image is damaged",
            "`/d/e/file` leads back to `/d/e`",
            "d",
        ),
        (
            &|b, g| lead(b, g, "d/e", cluster(b, g, "d"), 16),
            "/d/e: the image is damaged: a directory lies in itself",
            "`/d/e` leads back to `/d`",
            "d",
        ),
        (&|b, g| lead(b, g, "d/e", 0, 16), "/d/e: the image is damaged: a directory ", "`/d/e` leads back to `/`", "d"),
        // Ways to one directory double with each level.
        (
            &|b, g| lead(b, g, "x", cluster(b, g, "d"), 16),
            "/x has bytes that /d has too",
            "is another name of `/d`",
            "",
        ),
        (
            &|b, g| lead(b, g, "x/2", cluster(b, g, "x/1") + 1, 32),
            "/x/2 has bytes that /x/1 has too",
            "`/x/2` has 9000 bytes, of which 0 are there",
            "x",
        ),
    ];
    for size in ["4MiB", "64MiB", "600MiB"] {
        for (tangle, refused, found, whole) in tangles {
            let path = folder.path().join("disk.img");
            let path = text(&path);
            done(image(&["create", path, "--force", "--from", text(&source), "--size", size]));
            let mut bytes = Bytes(fs::read(path).expect("readable"));
            let geometry = Geometry::read(&bytes).expect("an image");
            tangle(&mut bytes, &geometry);
            fs::write(path, &bytes.0).expect("writable");
            let out = folder.path().join("out");
            let (code, said, errors) = image(&["cp", &format!("{path}:/{whole}"), text(&out)]);
            assert!(code == 2 && errors.contains(refused), "{size}: {code} {said}{errors}");
            fs::remove_dir_all(&out).expect("what was copied before");
            let (code, said, errors) = image(&["check", path]);
            assert!(code == 1 && said.contains(found), "{size}: {code} {said}{errors}");
            // Looking changes nothing, and nothing is written to what would lose more; of two names for one thing one goes first.
            let two_names = found.contains("another name");
            let (code, _, errors) = image(&["cp", text(&source.join("x/1")), &format!("{path}:/new")]);
            if two_names {
                assert_eq!(code, 0, "{errors}");
            } else {
                assert!(
                    code == 2 && errors.contains("is damaged, so nothing is written to it") && errors.contains(found),
                    "{errors}"
                );
                assert!(fs::read(path).expect("readable") == bytes.0, "{size} {found}");
            }
            done(image(&["check", path, "--repair"]));
            clean(path);
            done(image(&["cp", &format!("{path}:/"), text(&out)]));
            assert_eq!(fs::read_to_string(out.join("d/file")).expect("it is kept"), "d/file".repeat(3000));
            fs::remove_dir_all(&out).expect("ours");
        }
    }
}

/// How often writers are killed until one was in the middle of something. On a host that is busy they may have ended before.
const ROUNDS_MAX: usize = 200;

/// Kills a process so long after the image is marked as being written.
fn kill_when_marked(mut child: Child, path: &str, after: Duration) {
    let image = fs::File::open(path).expect("it is there");
    let flag = Geometry::read(&Bytes(fs::read(path).expect("readable"))).expect("an image").dirty_flag();
    let mut flags = [0];
    while flags[0] & 1 == 0 && child.try_wait().expect("a child").is_none() {
        image.read_exact_at(&mut flags, flag).expect("readable");
        std::thread::yield_now();
    }
    std::thread::sleep(after);
    child.kill().and_then(|()| child.wait()).expect("it ends");
}

/// Runs a workflow that writes to an image, and kills it so long after the image is marked as being written: 1 if the check
/// finds something then, which is not that bytes are gone.
fn killed(workflow: &Path, path: &str, after: Duration) -> i32 {
    let mut command = Command::new(MONOHULL);
    command.arg("run").arg(workflow).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("it starts");
    kill_when_marked(child, path, after);
    // Its worker dies with it; the claim on the image ends then.
    let (code, out, errors) = loop {
        let (code, out, errors) = image(&["check", path]);
        if !errors.contains("is in use") {
            break (code, out, errors);
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(code == 0 || code == 1, "{out}{errors}");
    // Space may be lost, and what was being moved may have had two names; nothing else.
    assert!(!out.contains("of which"), "{out}");
    code
}

#[test]
fn a_workflow_killed_while_it_renames_leaves_every_name_to_one_of_its_files() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("disk.img");
    let path = text(&path);
    let (workflow, first) = (folder.path().join("workflow.json"), folder.path().join("first"));
    fs::write(&first, "the first").expect("a file");
    done(image(&["create", path, "--size", "64MiB"]));
    done(image(&["cp", text(&first), &format!("{path}:/replaced again and again")]));
    let rounds = (0..400).flat_map(|_| {
        [
            serde_json::json!(["fill", "/d/new", "9000"]),
            serde_json::json!(["rename", "/d/new", "/d/another name"]),
            serde_json::json!(["rename", "/d/another name", "/d/replaced again and again"]),
        ]
    });
    let document = serde_json::json!({
        "name": "killed",
        "functions": { "probe": { "image": root().join("target/images/file-probe.so") } },
        "steps": [{ "name": "rename", "function": "probe", "args": { "tries": rounds.collect::<Vec<_>>() } }],
        "files": [{ "at": "/d", "image": path, "access": "write" }],
    });
    fs::write(&workflow, document.to_string()).expect("a file");
    let (mut interrupted, mut replaced) = (0, 0);
    for round in 0..ROUNDS_MAX {
        if round >= 30 && interrupted > 0 && replaced > 0 {
            break;
        }
        interrupted += killed(&workflow, path, Duration::from_micros(round as u64 % 30 * 1500));
        let content = done(image(&["cat", path, "replaced again and again"]));
        assert!(content == "the first" || content == "x".repeat(9000), "round {round}: {} bytes", content.len());
        replaced += usize::from(content != "the first");
        done(image(&["check", path, "--repair"]));
        clean(path);
        assert_eq!(done(image(&["cat", path, "replaced again and again"])), content, "round {round}");
        let out = folder.path().join("out");
        done(image(&["cp", &format!("{path}:/"), text(&out)]));
        for (name, bytes) in tree(&out) {
            let known = ["new", "another name", "replaced again and again"].contains(&text(&name));
            // A file that is new is empty first.
            let whole =
                bytes.iter().all(|byte| *byte == b'x') && [0, 9000].contains(&bytes.len()) || bytes == b"the first";
            assert!(known && whole, "round {round}: {}, {} bytes", name.display(), bytes.len());
        }
        fs::remove_dir_all(&out).expect("ours");
    }
    assert!(interrupted > 0 && replaced > 0, "no run was interrupted while it renamed");
}

#[test]
fn a_workflow_killed_at_any_moment_leaves_an_image_that_can_be_used() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("disk.img");
    let path = text(&path);
    let kept = folder.path().join("kept");
    fs::write(&kept, "kept whatever happens").expect("a file");
    done(image(&["create", path, "--size", "64MiB"]));
    done(image(&["cp", text(&kept), &format!("{path}:/kept")]));
    let function = root().join("target/images/log-analytics.so");
    let workflow = folder.path().join("workflow.json");
    let document = serde_json::json!({
        "name": "killed",
        "functions": { "log-analytics": { "image": function } },
        "steps": [{ "name": "write", "function": "log-analytics", "args": { "part": "write", "files": 400, "lines": 2000 } }],
        "files": [{ "at": "/logs", "image": path, "access": "write" }],
    });
    fs::write(&workflow, document.to_string()).expect("a file");
    let (mut interrupted, mut written) = (0, 0);
    for round in 0..ROUNDS_MAX {
        if round >= 12 && interrupted > 0 && written > 0 {
            break;
        }
        interrupted += killed(&workflow, path, Duration::from_millis(round as u64 % 12 * 5));
        assert_eq!(done(image(&["cat", path, "kept"])), "kept whatever happens");
        // What was being written: every file that has a name can be read, and has nothing in it but what
        // was written.
        let out = folder.path().join("out");
        done(image(&["cp", &format!("{path}:/"), text(&out)]));
        for (name, bytes) in tree(&out) {
            let lines = String::from_utf8(bytes).unwrap_or_else(|_| panic!("{}: no text", name.display()));
            assert!(!lines.contains('\0'), "{}: bytes that were never written", name.display());
            written += usize::from(name != Path::new("kept") && !lines.is_empty());
        }
        fs::remove_dir_all(&out).expect("ours");
        done(image(&["check", path, "--repair"]));
        clean(path);
    }
    assert!(interrupted > 0, "no run was interrupted while it wrote");
    assert!(written > 0, "nothing but what was there before was read");
}

/// The image may be made in the directory that goes into it, under any name of that directory.
#[test]
fn an_image_is_not_copied_into_itself() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("file"), "text").expect("a file");
    fs::create_dir(folder.path().join("inner")).expect("a folder");
    for (size, more) in [(None, &[][..]), (Some("64MiB"), &["--force"])] {
        let mut command = Command::new(MONOHULL);
        command.current_dir(folder.path()).args(["image", "create", "inner/disk.img", "--from", "."]).args(more);
        let made = command.args(size.map(|size| format!("--size={size}"))).output().expect("monohull starts");
        assert!(made.status.success(), "{made:?}");
        assert!(String::from_utf8_lossy(&made.stderr).ends_with(", 1 files\n"), "{made:?}");
        let path = folder.path().join("inner/disk.img");
        let listed = done(image(&["ls", path.to_str().expect("UTF-8"), "/inner"]));
        assert_eq!(listed, "");
    }
    // The size is that of the rest, also when there is a large one already.
    let mut command = Command::new(MONOHULL);
    command.current_dir(folder.path()).args(["image", "create", "inner/disk.img", "--from", ".", "--force"]);
    assert!(command.output().expect("monohull starts").status.success());
    assert!(fs::metadata(folder.path().join("inner/disk.img")).expect("an image").len() < 8 << 20);
}
