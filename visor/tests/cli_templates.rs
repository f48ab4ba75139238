//! Templates of `monohull run`: later runs start from what an earlier one has computed, and only from what this user's own runs have kept.

mod serve_support;

use monohull_checkpoint::Key;
use serde_json::{Value, json};
use serve_support::image_bytes;
use serve_support::verbs::{Done, run_verb};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const NOTE: usize = 16;
const SEAL: usize = 32;

/// A workflow with the function `prepared`, and a cache and a folder of settings of its own.
struct Place {
    folder: TempDir,
}

/// What a run has written down, and what its report says of the start.
struct Ran {
    values: BTreeMap<String, String>,
    start: Value,
}

impl Ran {
    fn is(&self, name: &str) -> &str {
        self.values.get(name).unwrap_or_else(|| panic!("no {name}: {:?}", self.values))
    }
}

fn document(label: &str, more: &Value) -> Value {
    let mut step =
        json!({ "name": "main", "function": "f", "args": { "entries": 1000, "before": "", "label": label } });
    for (name, value) in more.as_object().into_iter().flatten() {
        step[name] = value.clone();
    }
    json!({
        "name": "prepared",
        "functions": { "f": { "image": "f.so" } },
        "steps": [step],
        "inputs": ["in"],
        "outputs": ["out"],
    })
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: TempDir::new().expect("a folder") };
        fs::write(place.path("f.so"), image_bytes("prepared")).expect("written");
        place.has("a", &json!({}));
        place
    }

    /// The workflow is this one now.
    fn has(&self, label: &str, more: &Value) {
        fs::write(self.path("test.json"), document(label, more).to_string()).expect("written");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn monohull(&self, arguments: &[&str], input: &str) -> Done {
        let folder = |name| self.path(name).to_str().expect("UTF-8").to_owned();
        let (cache, settings, file) = (folder("cache"), folder("settings"), folder("test.json"));
        let arguments: Vec<&str> =
            ["run", &file, "--input", "in=-"].iter().copied().chain(arguments.iter().copied()).collect();
        let env = [("XDG_CACHE_HOME", &*cache), ("XDG_CONFIG_HOME", &*settings), ("RUST_LOG", "error")];
        run_verb("", &arguments, &env, input)
    }

    #[track_caller]
    fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        let report = self.monohull(&[&["--json"], arguments].concat(), input).expect(0).json();
        let text = report["output"]["out"]["text"].as_str().unwrap_or_else(|| panic!("{report:#}"));
        let values = text.lines().filter_map(|line| line.split_once('='));
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ran { values, start: report["start"].clone() }
    }

    /// Runs it and says whether it has begun at a template.
    #[track_caller]
    fn is_from_template(&self) -> bool {
        let ran = self.run_with(&[], "some text");
        let is = ran.start == json!({ "kind": "template" });
        assert!(is || ran.start == json!({ "kind": "main" }), "{:#}", ran.start);
        assert_eq!(ran.is("template"), is.to_string());
        assert_eq!(ran.is("seen"), "");
        is
    }

    /// All files of the cache, the templates first.
    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path("cache/monohull/templates")) else { return Vec::new() };
        let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        files.sort_by_key(|path| std::cmp::Reverse(fs::symlink_metadata(path).expect("there").len()));
        files
    }

    /// Those that are templates. The others say what a program was told last.
    fn templates(&self) -> Vec<PathBuf> {
        let is_one = |path: &PathBuf| fs::symlink_metadata(path).expect("there").len() > 32;
        self.files().into_iter().filter(is_one).collect()
    }

    #[track_caller]
    fn template(&self) -> PathBuf {
        let templates = self.templates();
        assert_eq!(templates.len(), 1, "{templates:?}");
        templates[0].clone()
    }
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).expect("there").ino()
}

#[test]
fn a_later_run_starts_from_what_the_first_has_kept_and_is_a_run_of_its_own() {
    let place = Place::new();
    let first = place.run_with(&[], "the first input");
    assert_eq!((&first.start, first.is("template")), (&json!({ "kind": "main" }), "false"));
    let entry = place.template();
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&entry), mode(entry.parent().expect("a folder"))), (0o600, 0o700));
    assert_eq!(mode(&place.path("settings/monohull/templates-cache.key")), 0o600);
    let kept = fs::read(&entry).expect("readable");
    assert!(!kept.windows(15).any(|bytes| bytes == b"the first input"), "nothing of a run is in it");
    let before = inode(&entry);
    let mut drawn = vec![first.is("random").to_owned(), first.is("invocation").to_owned()];
    for _ in 0..2 {
        let later = place.run_with(&[], "the first input");
        assert_eq!((&later.start, later.is("template")), (&json!({ "kind": "template" }), "true"));
        for same in ["sum", "label", "seen", "backwards"] {
            assert_eq!(later.is(same), first.is(same), "{same}");
        }
        for own in ["random", "invocation"] {
            let value = later.is(own).to_owned();
            assert!(!drawn.contains(&value), "{own} is each run's own: {drawn:?}");
            drawn.push(value);
        }
    }
    let other = place.run_with(&[], "another input");
    assert_ne!(other.is("sum"), first.is("sum"), "the input is the later run's");
    assert_eq!(inode(&place.template()), before, "it is made once");
    let text = place.monohull(&[], "some text").expect(0);
    assert!(text.out.contains("start       from a template\n"), "{}", text.out);
    assert_eq!(text.err.lines().filter(|line| line.contains("template")).count(), 0, "{}", text.err);
    // All else of a run holds.
    let folder = place.path("suspended");
    let suspended = place.run_with(&["--suspend", folder.to_str().expect("UTF-8")], "some text");
    assert_eq!(suspended.start, json!({ "kind": "template" }));
}

/// The second of three has the expensive start.
#[test]
fn a_later_step_starts_from_what_the_first_run_has_kept() {
    let place = Place::new();
    fs::write(place.path("pass.so"), image_bytes("sleeper")).expect("written");
    let mut document = document("a", &json!({ "after": ["first"] }));
    document["functions"]["pass"] = json!({ "image": "pass.so" });
    let passes_on = |slot: &str| json!({ "naps": 0, "milliseconds": 0, "takes": slot, "fills": slot });
    let steps = document["steps"].as_array_mut().expect("a list");
    steps.push(json!({ "name": "first", "function": "pass", "args": passes_on("in") }));
    steps.push(json!({ "name": "last", "function": "pass", "after": ["main"], "args": passes_on("out") }));
    fs::write(place.path("test.json"), document.to_string()).expect("written");
    let first = place.run_with(&[], "the first input");
    assert_eq!((&first.start, first.is("template")), (&json!({ "kind": "main" }), "false"));
    for _ in 0..2 {
        let later = place.run_with(&[], "the first input");
        assert_eq!((&later.start, later.is("template")), (&json!({ "kind": "template" }), "true"));
        for same in ["sum", "label", "seen", "backwards"] {
            assert_eq!(later.is(same), first.is(same), "{same}");
        }
        assert_ne!(later.is("random"), first.is("random"));
    }
    let text = place.monohull(&[], "some text").expect(0);
    assert!(text.out.contains("start       main[0] from a template\n"), "{}", text.out);
    // The image of that step counts, and that of no other.
    fs::write(place.path("pass.so"), [&image_bytes("sleeper")[..], b"x"].concat()).expect("written");
    assert!(place.is_from_template());
    fs::write(place.path("f.so"), [&image_bytes("prepared")[..], b"x"].concat()).expect("written");
    assert!(!place.is_from_template());
}

#[test]
fn a_workflow_of_several_steps_starts_from_a_template_of_the_first() {
    let place = Place::new();
    fs::write(place.path("second.so"), image_bytes("sleeper")).expect("written");
    let mut document = document("a", &json!({}));
    document["functions"]["second"] = json!({ "image": "second.so" });
    document["steps"].as_array_mut().expect("a list").push(json!({
        "name": "second",
        "function": "second",
        "after": ["main"],
        "args": { "naps": 0, "milliseconds": 0, "takes": "out", "fills": "end" },
    }));
    document["outputs"] = json!(["end"]);
    fs::write(place.path("test.json"), document.to_string()).expect("written");
    let run = || {
        let report = place.monohull(&["--json"], "some text").expect(0).json();
        let text = report["output"]["end"]["text"].as_str().unwrap_or_else(|| panic!("{report:#}")).to_owned();
        let own = |line: &&str| !["random=", "invocation=", "template="].iter().any(|own| line.starts_with(own));
        let same: Vec<_> = text.lines().filter(own).map(str::to_owned).collect();
        (report["start"].clone(), text.contains("template=true\n"), same)
    };
    let (start, template, first) = run();
    assert_eq!((start, template), (json!({ "kind": "main" }), false));
    let made = inode(&place.template());
    for _ in 0..2 {
        let (start, template, later) = run();
        assert_eq!((start, template, &later), (json!({ "kind": "template" }), true, &first));
    }
    // The other image is no part of it.
    let mut changed = image_bytes("sleeper");
    changed.push(0);
    fs::write(place.path("second.so"), &changed).expect("written");
    assert_eq!((run(), inode(&place.template())), ((json!({ "kind": "template" }), true, first), made));
}

#[test]
fn without_templates_none_is_used_and_none_is_made() {
    let place = Place::new();
    let without = || place.run_with(&["--no-template"], "text").start;
    assert_eq!(without(), json!({ "kind": "main" }));
    assert_eq!(place.files(), Vec::<PathBuf>::new());
    assert!(!place.is_from_template() && place.is_from_template());
    assert_eq!(without(), json!({ "kind": "main" }));
}

#[test]
fn another_image_and_another_workflow_have_templates_of_their_own() {
    let place = Place::new();
    assert!(!place.is_from_template() && place.is_from_template());
    let first = place.template();
    // These bytes are another image, and do the same. What was kept is replaced, once it is run a second time: it may be built anew before each run.
    let mut changed = image_bytes("prepared");
    changed.push(0);
    let old = fs::read(&first).expect("readable");
    fs::write(place.path("f.so"), &changed).expect("written");
    assert!(!place.is_from_template());
    assert_eq!(place.templates(), Vec::<PathBuf>::new());
    assert!(!place.is_from_template() && place.is_from_template());
    assert!(place.template() == first && fs::read(&first).expect("readable") != old);
    // The one before under the name of the one after.
    fs::write(&first, &old).expect("written");
    assert!(!place.is_from_template() && place.is_from_template());
    for more in [json!({ "memory": "32MiB" }), json!({ "stack": "128KiB" }), json!({ "timeout": "1h" })] {
        place.has("a", &more);
        assert!(!place.is_from_template() && place.is_from_template(), "{more}");
    }
    assert_eq!(place.templates().len(), 4);
    place.has("a", &json!({}));
    assert!(place.is_from_template());
}

/// Each would take the time of another start, and no later run would use it.
#[test]
fn a_program_that_is_told_something_else_each_time_has_no_templates_made_in_vain() {
    let place = Place::new();
    let is_from_template = |label: &str| {
        place.has(label, &json!({}));
        let ran = place.run_with(&[], "some text");
        assert_eq!(ran.is("label"), label, "what it is told is the run's own");
        ran.start == json!({ "kind": "template" })
    };
    for label in ["a", "b", "c", "d"] {
        assert!(!is_from_template(label));
    }
    assert_eq!(place.templates().len(), 1, "that of the first");
    assert!(is_from_template("a"));
    assert!(!is_from_template("d"), "told twice in a row: now it is made");
    assert!(is_from_template("d") && is_from_template("a"));
    assert_eq!(place.templates().len(), 2);
}

/// Such as two projects, each with a `main.json` of its own.
#[test]
fn workflows_of_one_name_in_several_folders_have_templates_of_their_own() {
    let place = Place::new();
    let folders = ["one", "other"].map(|name| place.path(name));
    let mut image = image_bytes("prepared");
    for folder in &folders {
        fs::create_dir(folder).expect("made");
        fs::write(folder.join("f.so"), &image).expect("written");
        fs::write(folder.join("test.json"), document("a", &json!({})).to_string()).expect("written");
        image.push(0);
    }
    let start = |folder: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.args(["run", "test.json", "--json", "--input", "in=test.json"]).current_dir(folder);
        command.env("XDG_CACHE_HOME", place.path("cache")).env("XDG_CONFIG_HOME", place.path("settings"));
        let output = command.env("RUST_LOG", "error").output().expect("it runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        report["start"]["kind"].clone()
    };
    for kind in ["main", "template", "template"] {
        for folder in &folders {
            assert_eq!(start(folder), kind, "{folder:?}");
        }
    }
    assert_eq!(place.templates().len(), 2);
}

/// What fails may fail again, and takes the time of another start each time.
#[test]
fn after_one_that_could_not_be_made_that_is_tried_again_after_an_hour() {
    let place = Place::new();
    assert!(!place.is_from_template() && place.is_from_template());
    fs::remove_file(place.template()).expect("removed");
    let [mark] = &place.files()[..] else { panic!("{:?}", place.files()) };
    let failed: Vec<u8> = fs::read(mark).expect("readable").iter().map(|byte| !byte).collect();
    fs::write(mark, &failed).expect("written");
    assert!(!place.is_from_template() && !place.is_from_template());
    assert_eq!(place.templates(), Vec::<PathBuf>::new());
    let hour = File::options().write(true).open(mark).expect("there");
    hour.set_modified(SystemTime::now() - Duration::from_secs(3601)).expect("set");
    assert!(!place.is_from_template() && place.is_from_template());
}

/// Of a function that begins too early there is none; that is known afterwards.
#[test]
fn why_there_is_none_is_said_and_kept() {
    let place = Place::new();
    let mut early = document("a", &json!({}));
    early["steps"][0]["args"]["before"] = json!("random");
    fs::write(place.path("test.json"), early.to_string()).expect("written");
    assert_eq!(place.run_with(&[], "text").start, json!({ "kind": "main" }));
    let why = "main[0] (function f) has called GETRANDOM before it was ready";
    let before = inode(&place.template());
    for _ in 0..2 {
        assert_eq!(place.run_with(&[], "text").start, json!({ "kind": "main", "no_template": why }));
    }
    let text = place.monohull(&[], "text").expect(0).out;
    assert!(text.contains(&format!("start       from the image, without a template: {why}\n")), "{text}");
    assert_eq!(inode(&place.template()), before, "it is not tried again");
}

#[test]
fn damaged_and_forged_entries_are_refused_and_removed() {
    let (place, other) = (Place::new(), Place::new());
    assert!(!place.is_from_template() && !other.is_from_template());
    let entry = place.template();
    let good = fs::read(&entry).expect("readable");
    let foreign = fs::read(other.template()).expect("readable");
    let end = good.len() - NOTE - SEAL;
    let edited = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    // A whole template that the same user has made for another workflow.
    place.has("a", &json!({ "timeout": "1h" }));
    assert!(!place.is_from_template());
    let moved = place.templates().into_iter().find(|path| *path != entry).expect("a second entry");
    let moved = fs::read(moved).expect("readable");
    place.has("a", &json!({}));
    fs::write(&entry, &good).expect("written");
    assert!(place.is_from_template(), "the control: an unchanged entry is taken");
    for (what, bytes) in [
        ("a page", edited(100)),
        ("the record", edited(end - 100)),
        ("its kind", edited(end)),
        ("its time", edited(end + 8)),
        ("the seal", edited(end + NOTE)),
        ("cut off", good[..good.len() - 1].to_vec()),
        ("cut at the front", good[1..].to_vec()),
        ("an end alone", good[end..].to_vec()),
        ("a half end", good[good.len() - 20..].to_vec()),
        ("nothing", Vec::new()),
        ("the content of another, with this seal", [&foreign[..foreign.len() - SEAL], &good[end + NOTE..]].concat()),
        ("another user's", foreign.clone()),
        ("another workflow's", moved),
    ] {
        fs::write(&entry, &bytes).expect("written");
        assert!(!place.is_from_template(), "{what}");
        assert_ne!(fs::read(&entry).expect("made again"), bytes, "{what}");
        assert!(place.is_from_template(), "{what}: it was made again");
    }
    fs::set_permissions(&entry, PermissionsExt::from_mode(0o620)).expect("changed");
    assert!(!place.is_from_template(), "others may write to it");
    let mode = fs::metadata(&entry).expect("there").permissions().mode() & 0o777;
    assert!(mode == 0o600 && place.is_from_template());
    fs::rename(&entry, place.path("elsewhere")).expect("moved");
    symlink(place.path("elsewhere"), &entry).expect("linked");
    assert!(!place.is_from_template(), "a link is not followed");
    assert!(fs::symlink_metadata(&entry).expect("there").is_file() && place.is_from_template());
}

/// The sealed content of an entry, with another one in its place that the user's key has sealed for it as well.
fn reseal(place: &Place, entry: &Path, content: &[u8], note: [u8; NOTE]) {
    let name = entry.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    let name: Vec<u8> = (0..32).map(|at| u8::from_str_radix(&name[2 * at..2 * at + 2], 16).expect("hex")).collect();
    let image = Sha256::digest(fs::read(place.path("f.so")).expect("readable"));
    let made_from = Sha256::new().chain_update(name).chain_update("image").chain_update(image).finalize();
    let bound = Sha256::new().chain_update(made_from).chain_update(note).finalize();
    let key = Key::load(&place.path("settings/monohull/templates-cache.key")).expect("a key");
    let seal = key.seal_entry(&bound.into(), content);
    fs::write(entry, [content, &note, &seal].concat()).expect("written");
}

/// Whatever is in the cache, a run is what it would be without. Here it is what only this user could have made, and does not fit all the same.
#[test]
fn a_template_that_does_not_fit_is_removed_and_the_run_begins_without_it() {
    let place = Place::new();
    place.has("a", &json!({ "stack": "128KiB" }));
    assert!(!place.is_from_template());
    let other = fs::read(place.template()).expect("readable");
    fs::remove_file(place.template()).expect("removed");
    place.has("a", &json!({}));
    assert!(!place.is_from_template() && place.is_from_template());
    let entry = place.template();
    let good = fs::read(&entry).expect("readable");
    let parts = |bytes: &[u8]| {
        let end = bytes.len() - NOTE - SEAL;
        (bytes[..end].to_vec(), <[u8; NOTE]>::try_from(&bytes[end..end + NOTE]).expect("a note"))
    };
    let (content, note) = parts(&good);
    reseal(&place, &entry, &content, note);
    assert!(place.is_from_template(), "the control: this is how it is sealed");
    let mut later = note;
    later[8..].copy_from_slice(&u64::MAX.to_le_bytes());
    for (what, content, note) in [
        ("another size of the stack", &parts(&other).0, note),
        ("no template", &b"text".to_vec(), note),
        ("made at a time that has not come", &content, later),
    ] {
        reseal(&place, &entry, content, note);
        assert!(!place.is_from_template(), "{what}");
        assert!(place.is_from_template(), "{what}: it was made again");
    }
}

#[test]
fn a_cache_that_cannot_be_used_changes_nothing() {
    let place = Place::new();
    fs::write(place.path("cache"), "a file").expect("written");
    assert!(!place.is_from_template() && !place.is_from_template());
    fs::remove_file(place.path("cache")).expect("removed");
    // Nothing can be made in this folder, by any process.
    symlink("/proc/self/nothing", place.path("cache")).expect("linked");
    assert!(!place.is_from_template() && !place.is_from_template());
    fs::remove_file(place.path("cache")).expect("removed");
    symlink("/sys/kernel", place.path("cache")).expect("linked");
    assert!(!place.is_from_template() && !place.is_from_template());
    fs::remove_file(place.path("cache")).expect("removed");
    // Others may read the key: it is not believed.
    assert!(!place.is_from_template() && place.is_from_template());
    let key = place.path("settings/monohull/templates-cache.key");
    fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).expect("changed");
    assert!(!place.is_from_template() && !place.is_from_template());
    // No home at all.
    let file = place.path("test.json");
    for _ in 0..2 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        for name in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        command.arg("run").arg(&file).args(["--input", "in=", "--json"]);
        let output = command.current_dir(serve_support::root()).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!(report["start"], json!({ "kind": "main" }));
    }
}

#[test]
fn runs_at_the_same_time_keep_one() {
    let place = Place::new();
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| place.is_from_template())).collect();
        for run in runs {
            run.join().expect("each is a run");
        }
    });
    if place.templates().is_empty() {
        // Each has found that another one does it.
        assert!(!place.is_from_template());
    }
    place.template();
    assert!(place.is_from_template());
}

#[test]
fn a_workflow_that_cannot_have_one_leaves_nothing_behind() {
    let place = Place::new();
    let mut two = document("a", &json!({}));
    two["files"] = json!([{ "at": "/", "directory": "." }]);
    fs::write(place.path("test.json"), two.to_string()).expect("written");
    for _ in 0..2 {
        assert_eq!(place.run_with(&[], "text").is("template"), "false");
    }
    assert_eq!(place.files(), Vec::<PathBuf>::new());
}

/// Nor is there one of a workflow that needs something of the host.
#[test]
fn a_workflow_that_has_something_of_the_host_says_that_it_has_no_template() {
    let place = Place::new();
    fs::create_dir(place.path("shared")).expect("made");
    let mut document = document("a", &json!({}));
    document["files"] = json!([{ "at": "/shared", "directory": "shared" }]);
    fs::write(place.path("test.json"), document.to_string()).expect("written");
    let why = "the workflow has something of the host: a network, a directory or a disk image";
    for _ in 0..2 {
        assert_eq!(place.run_with(&[], "text").start, json!({ "kind": "main", "no_template": why }));
    }
    assert_eq!(place.templates(), Vec::<PathBuf>::new());
}
