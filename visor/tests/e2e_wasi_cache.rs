//! Workflow files that name WebAssembly programs: each is compiled once, and only what this user has compiled is taken from the cache.

mod serve_support;

use serde_json::{Value, json};
use serve_support::Server;
use serve_support::verbs::{Done, run_verb};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

/// A program that publishes `text` in the slot `out`.
fn program(text: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
            (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "out{text}")
            (func (export "_start") (if (call $publish
                (i32.const 0) (i32.const 3) (i32.const 3) (i32.const {}) (i32.const 1)) (then unreachable))))"#,
        text.len()
    );
    wat::parse_str(text).expect("a right program")
}

/// A workflow with a program, and a cache and a folder of settings of its own.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new(program: &[u8]) -> Place {
        let place = Place { folder: TempDir::new().expect("a folder") };
        let document = json!({
            "name": "test",
            "functions": { "app": { "image": "app.wasm" } },
            "steps": [{ "name": "app", "function": "app" }],
            "outputs": ["out"],
        });
        fs::write(place.path("test.json"), document.to_string()).expect("written");
        fs::write(place.path("app.wasm"), program).expect("written");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn monohull(&self, server: &str, arguments: &[&str]) -> Done {
        let folder = |name| self.path(name).to_str().expect("UTF-8").to_owned();
        let (cache, settings, file) = (folder("cache"), folder("settings"), folder("test.json"));
        let arguments: Vec<&str> = arguments.iter().copied().chain([&*file]).collect();
        let env = [("XDG_CACHE_HOME", &*cache), ("XDG_CONFIG_HOME", &*settings)];
        run_verb(server, &arguments, &env, "")
    }

    /// What the program publishes.
    #[track_caller]
    fn run(&self) -> String {
        let report: Value = self.monohull("", &["run", "--json"]).expect(0).json();
        report["output"]["out"]["text"].as_str().unwrap_or_else(|| panic!("{report:#}")).to_owned()
    }

    /// The entries of the cache.
    fn entries(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path("cache/monohull/wasi")) else { return Vec::new() };
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    fn entry(&self) -> PathBuf {
        let entries = self.entries();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries[0].clone()
    }
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).expect("there").ino()
}

#[test]
fn a_program_is_compiled_once_and_again_when_it_changes() {
    let place = Place::new(&program("one"));
    assert_eq!(place.run(), "one");
    let entry = place.entry();
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&entry), mode(entry.parent().expect("a folder"))), (0o600, 0o700));
    assert_eq!(mode(&place.path("settings/monohull/wasi-cache.key")), 0o600);
    let first = inode(&entry);
    assert_eq!(place.run(), "one");
    place.monohull("", &["validate"]).expect(0);
    assert_eq!(inode(&place.entry()), first, "what is compiled anew replaces the entry");
    fs::write(place.path("app.wasm"), program("two")).expect("written");
    assert_eq!(place.run(), "two");
    assert_eq!(place.entries().len(), 2);
    assert_eq!(inode(&entry), first);
}

/// An entry that was last used so many seconds after 1970; the file has no blocks.
fn old_entry(place: &Place, name: &str, bytes: u64, used: u64) -> PathBuf {
    let path = place.path("cache/monohull/wasi").join(name);
    let file = fs::File::create(&path).expect("created");
    file.set_len(bytes).expect("extended");
    file.set_modified(UNIX_EPOCH + Duration::from_secs(used)).expect("dated");
    path
}

#[test]
fn entries_used_least_recently_are_removed() {
    let place = Place::new(&program("one"));
    assert_eq!(place.run(), "one");
    let first = place.entry();
    let old: Vec<PathBuf> = (0..262).map(|n| old_entry(&place, &format!("{n:064x}"), 10, 1_000 + n)).collect();
    let foreign = old_entry(&place, "notes", 10, 1);
    // The first entry is now the oldest, and taking it makes it the newest: no entry is removed by that.
    fs::File::open(&first).expect("there").set_modified(UNIX_EPOCH).expect("dated");
    assert_eq!(place.run(), "one");
    assert_eq!(place.entries().len(), 264);
    fs::write(place.path("app.wasm"), program("two")).expect("written");
    assert_eq!(place.run(), "two");
    assert_eq!(place.entries().len(), 257, "256 entries and a file that is none");
    assert!(first.exists() && foreign.exists());
    let kept: Vec<bool> = old.iter().map(|path| path.exists()).collect();
    assert!(kept == (0..262).map(|n| n >= 8).collect::<Vec<bool>>(), "{kept:?}");
}

#[test]
fn the_cache_has_a_bound_in_bytes() {
    let place = Place::new(&program("one"));
    assert_eq!(place.run(), "one");
    let large = [3, 2, 1].map(|n| old_entry(&place, &format!("{n:064x}"), 900 << 20, n));
    fs::write(place.path("app.wasm"), program("two")).expect("written");
    assert_eq!(place.run(), "two");
    assert_eq!(large.map(|path| path.exists()), [true, true, false]);
    assert_eq!(place.entries().len(), 4, "both programs and two of the others");
}

#[test]
fn damaged_and_forged_entries_are_compiled_again() {
    let (place, other) = (Place::new(&program("mine")), Place::new(&program("evil")));
    assert_eq!((place.run(), other.run()), ("mine".into(), "evil".into()));
    let entry = place.entry();
    let good = fs::read(&entry).expect("readable");
    let foreign = fs::read(other.entry()).expect("readable");
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 1;
    // A whole image of another program, with the seal of this one and with one of another key, or moved from another program's entry.
    let forged = [&good[..32], &foreign[32..]].concat();
    fs::write(place.path("app.wasm"), program("evil")).expect("written");
    assert_eq!(place.run(), "evil");
    let second = place.entries().into_iter().find(|path| *path != entry).expect("a second entry");
    let moved = fs::read(second).expect("readable");
    fs::write(place.path("app.wasm"), program("mine")).expect("written");
    for bytes in
        [&damaged, &forged, &foreign, &moved, &good[..good.len() - 1], &good[..31], &[][..]].map(<[u8]>::to_vec)
    {
        fs::write(&entry, &bytes).expect("written");
        assert_eq!(place.run(), "mine");
        assert!(fs::read(&entry).expect("readable") == good, "the entry is as it was made first");
    }
    // The control: an unchanged entry is taken, so the seal is what decides.
    let before = inode(&entry);
    assert_eq!(place.run(), "mine");
    assert_eq!(inode(&entry), before);
    fs::rename(&entry, place.path("elsewhere")).expect("moved");
    symlink(place.path("elsewhere"), &entry).expect("linked");
    assert_eq!(place.run(), "mine");
    assert!(fs::symlink_metadata(&entry).expect("there").is_file(), "a link is not followed, but replaced");
}

/// A program that says when it is ready has a template as well, which a later run begins with.
#[test]
fn a_later_run_starts_where_the_program_was_ready() {
    let program = |text: &str| {
        let text = format!(
            r#"(module
                (import "monohull" "ready" (func $ready (result i32)))
                (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
                (memory (export "memory") 1)
                (data (i32.const 0) "out0{text}")
                (func (export "_start")
                    (i32.store8 (i32.const 3) (i32.add (i32.const 48) (call $ready)))
                    (if (call $publish
                        (i32.const 0) (i32.const 3) (i32.const 3) (i32.const {}) (i32.const 1)) (then unreachable))))"#,
            text.len() + 1
        );
        wat::parse_str(text).expect("a right program")
    };
    let place = Place::new(&program("one"));
    assert_eq!([(); 3].map(|()| place.run()), ["0one", "1one", "1one"]);
    fs::write(place.path("app.wasm"), program("two")).expect("written");
    // It may be changed before each run: its template is made when it is run again.
    assert_eq!([(); 3].map(|()| place.run()), ["0two", "0two", "1two"]);
}

#[test]
fn a_cache_that_cannot_be_used_changes_nothing() {
    let place = Place::new(&program("one"));
    fs::write(place.path("cache"), "a file").expect("written");
    assert_eq!(place.run(), "one");
    fs::remove_file(place.path("cache")).expect("removed");
    assert_eq!(place.run(), "one");
    // Others may read the key: it is not believed.
    fs::set_permissions(place.path("settings/monohull/wasi-cache.key"), PermissionsExt::from_mode(0o644))
        .expect("changed");
    let before = inode(&place.entry());
    assert_eq!(place.run(), "one");
    let run = place.monohull("", &["run"]).expect(0);
    assert_eq!(run.err.matches("monohull: the cache is not used: ").count(), 1, "{}", run.err);
    assert!(run.err.contains("wasi-cache.key: the key is not used: others"), "{}", run.err);
    assert_eq!(inode(&place.entry()), before);
}

#[test]
fn what_is_no_program_is_refused_with_its_name() {
    let whole = program("one");
    let of_a_later_version = b"\0asm\x0e\0\x01\0".as_slice();
    let component_cut_off = b"\0asm\x0d\0\x01\0\x07".as_slice();
    for bytes in [of_a_later_version, component_cut_off, &whole[..whole.len() - 1], b"text"] {
        let place = Place::new(bytes);
        for verb in ["run", "validate"] {
            let said = place.monohull("", &[verb]).expect(2).err;
            assert!(said.contains("app.wasm") && said.contains("cannot be compiled"), "{said}");
        }
        assert_eq!(place.entries(), Vec::<PathBuf>::new());
    }
}

#[test]
fn deploy_compiles_and_the_server_gets_an_image() {
    let server = Server::start();
    let address = format!("http://{}", server.address);
    let place = Place::new(&program("served"));
    place.monohull(&address, &["deploy"]).expect(0);
    place.entry();
    assert_eq!(server.post("/invoke/test", b"").expect(200).text(), "served");
    fs::write(place.path("app.wasm"), b"\0asm\x0d\0\x01\0\x07").expect("written");
    let said = place.monohull(&address, &["deploy"]).expect(2).err;
    assert!(said.contains("cannot be compiled"), "{said}");
    assert_eq!(server.post("/invoke/test", b"").expect(200).text(), "served");

    // Of two programs the second cannot be compiled: the first is not sent either.
    let registered = || server.get("/functions").expect(200).text();
    let before = registered();
    fs::write(place.path("app.wasm"), program("other")).expect("written");
    fs::write(place.path("broken.wasm"), b"\0asm\x0d\0\x01\0\x07").expect("written");
    let document = json!({
        "name": "test",
        "functions": { "app": { "image": "app.wasm" }, "broken": { "image": "broken.wasm" } },
        "steps": [{ "name": "app", "function": "app" }, { "name": "broken", "function": "broken" }],
        "outputs": ["out"],
    });
    fs::write(place.path("test.json"), document.to_string()).expect("written");
    let said = place.monohull(&address, &["deploy"]).expect(2).err;
    assert!(said.contains("broken.wasm"), "{said}");
    assert_eq!(registered(), before);
}

/// A server may have another processor than the host that compiles.
#[test]
fn deploy_compiles_for_every_processor_or_for_what_it_is_told() {
    let server = Server::start();
    let address = format!("http://{}", server.address);
    let place = Place::new(&program("served"));
    let app = place.path("app.wasm").display().to_string();
    for (options, level) in
        [(&[][..], "x86-64-v2"), (&["--cpu", "x86-64-v3"], "x86-64-v3"), (&["--cpu", "x86-64-v2"], "x86-64-v2")]
    {
        place.monohull(&address, &[&["deploy"], options].concat()).expect(0);
        run_verb("", &["build", &app, "--cpu", level], &[], "").expect(0);
        let built = format!("sha256:{:x}", Sha256::digest(fs::read(place.path("app.so")).expect("built")));
        let registered = server.get("/functions/test-app").expect(200).json();
        assert_eq!(registered["image"], built, "{options:?}");
    }
    assert_eq!(place.entries().len(), 2, "an entry of the cache for each level");
}

/// A program that sleeps so long and then publishes.
fn sleeper(nanoseconds: u64) -> Vec<u8> {
    let timeout: String = nanoseconds.to_le_bytes().iter().map(|byte| format!("\\{byte:02x}")).collect();
    let text = format!(
        r#"(module
            (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
            (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 16) "outslept")
            (data (i32.const 80) "\01")
            (data (i32.const 88) "{timeout}")
            (func (export "_start")
                (if (call $poll (i32.const 64) (i32.const 256) (i32.const 1) (i32.const 512)) (then unreachable))
                (if (call $publish (i32.const 16) (i32.const 3) (i32.const 19) (i32.const 5) (i32.const 1))
                    (then unreachable))))"#
    );
    wat::parse_str(text).expect("a right program")
}

/// A workflow of a program is suspended and resumed as any other: its image is made again, and must be the same.
#[test]
fn a_suspended_program_goes_on() {
    let place = Place::new(&sleeper(1_500_000_000));
    let monohull = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        for (name, folder) in
            [("XDG_CACHE_HOME", "cache"), ("XDG_CONFIG_HOME", "settings"), ("XDG_STATE_HOME", "state")]
        {
            command.env(name, place.path(folder));
        }
        command.env_remove("STATE_DIRECTORY").current_dir(place.folder.path());
        let output = command.args(arguments).output().expect("it starts");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), document, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, document, said) = monohull(&["run", "test.json", "--suspend", "waiting", "--json"]);
    assert_eq!(code, Some(4), "{document} {said}");
    let checkpoint = document["checkpoint"].as_str().expect("a path");
    let (_, described, _) = monohull(&["checkpoint", "describe", checkpoint, "--json"]);
    assert_eq!(described["instances"][0]["threads"][0]["state"], "time", "{described}");
    let (code, document, said) = monohull(&["resume", checkpoint, "--json"]);
    assert_eq!((code, &document["output"]["out"]["text"]), (Some(0), &json!("slept")), "{document} {said}");
    // Compiled once more, without what the cache had.
    fs::remove_dir_all(place.path("cache")).expect("removed");
    let (code, _, said) = monohull(&["resume", checkpoint, "--json"]);
    assert_eq!(code, Some(0), "{said}");
    fs::write(place.path("app.wasm"), program("another")).expect("written");
    let (code, _, said) = monohull(&["resume", checkpoint]);
    assert!(code == Some(2) && said.contains("is not the one that the workflow was suspended with"), "{code:?} {said}");
    assert!(said.contains("app.wasm") && !said.contains("/proc/"), "the file is the user's: {said}");
}
