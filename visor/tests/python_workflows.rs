//! Workflow files that name Python programs: each is compiled once, and again when one of its files changes.
//!
//! As in `python_programs`, these tests are ignored where the interpreter is not asked for.

mod serve_support;

use serde_json::{Value, json};
use serve_support::Server;
use serve_support::verbs::{Done, run_verb};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A workflow with a program that publishes the slot `out`, and a cache and a folder of settings of its own.
struct Place(TempDir);

impl Place {
    fn new(image: &str, files: &[(&str, &str)]) -> Place {
        let place = Place(TempDir::new().expect("a folder"));
        let document = json!({
            "name": "test",
            "functions": { "app": { "image": image } },
            "steps": [{ "name": "app", "function": "app" }],
            "outputs": ["out"],
        });
        place.write("test.json", &document.to_string());
        files.iter().for_each(|(name, text)| place.write(name, text));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn monohull(&self, server: &str, arguments: &[&str]) -> Done {
        let folder = |name| self.path(name).to_str().expect("UTF-8").to_owned();
        let (cache, settings, state) = (folder("cache"), folder("settings"), folder("state"));
        let env = [("XDG_CACHE_HOME", &*cache), ("XDG_CONFIG_HOME", &*settings), ("XDG_STATE_HOME", &*state)];
        run_verb(server, arguments, &env, "")
    }

    /// What the program publishes.
    #[track_caller]
    fn run(&self) -> String {
        let report: Value = self.monohull("", &["run", "--json", &self.file()]).expect(0).json();
        report["output"]["out"]["text"].as_str().unwrap_or_else(|| panic!("{report:#}")).to_owned()
    }

    fn file(&self) -> String {
        self.path("test.json").to_str().expect("UTF-8").to_owned()
    }

    /// How many entries the cache has.
    fn entries(&self) -> usize {
        fs::read_dir(self.path("cache/monohull/python")).map_or(0, Iterator::count)
    }
}

const PUBLISHES: &str = "from monohull import slots\nimport words\nslots.put('out', words.WORD)\n";

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_program_is_compiled_once_and_again_when_a_file_changes() {
    let place = Place::new("app", &[("app/main.py", PUBLISHES), ("app/words.py", "WORD = 'one'\n")]);
    assert_eq!((place.run(), place.entries()), ("one".to_owned(), 1));
    assert_eq!((place.run(), place.entries()), ("one".to_owned(), 1));
    place.monohull("", &["validate", &place.file()]).expect(0);
    place.write("app/words.py", "WORD = 'two'\n");
    assert_eq!((place.run(), place.entries()), ("two".to_owned(), 2));
    // A damaged entry is made again; without a cache it works as well.
    let entries = fs::read_dir(place.path("cache/monohull/python")).expect("a folder");
    entries.for_each(|entry| fs::write(entry.expect("an entry").path(), [1; 64]).expect("written"));
    assert_eq!((place.run(), place.entries()), ("two".to_owned(), 2));
    fs::remove_dir_all(place.path("cache")).expect("removed");
    place.write("cache", "a file");
    assert_eq!(place.run(), "two");
    assert!(!place.path("app/app.so").exists(), "nothing is put beside the program");
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_wrong_program_is_refused_with_its_place() {
    let place = Place::new("app.py", &[("app.py", "def f(:\n    pass\n")]);
    let report = place.monohull("", &["run", "--json", &place.file()]).expect(2).json();
    let message = report["error"]["message"].as_str().expect("a message");
    assert!(message.contains("File \"app.py\", line 1") && message.contains("SyntaxError"), "{message}");
    assert_eq!(report["error"]["blame"], "function");
    let said = place.monohull("", &["validate", &place.file()]).expect(2).err;
    assert!(said.contains("SyntaxError"), "{said}");
    assert_eq!(place.entries(), 0);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn deploy_compiles_and_the_server_gets_an_image() {
    let server = Server::start();
    let address = format!("http://{}", server.address);
    let place = Place::new("app.py", &[("app.py", "from monohull import slots\nslots.put('out', 'served')\n")]);
    place.monohull(&address, &["deploy", &place.file()]).expect(0);
    assert_eq!(server.post("/invoke/test", b"").expect(200).text(), "served");
    place.write("app.py", "def f(:\n");
    let said = place.monohull(&address, &["deploy", &place.file()]).expect(2).err;
    assert!(said.contains("SyntaxError"), "{said}");
    assert_eq!(server.post("/invoke/test", b"").expect(200).text(), "served");
}

/// Its image is made again, and is the same.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_suspended_program_goes_on_without_the_cache() {
    let program = "import time\nfrom monohull import slots\ntime.sleep(1.5)\nslots.put('out', 'slept')\n";
    let place = Place::new("app.py", &[("app.py", program)]);
    let waiting = place.path("waiting").to_str().expect("UTF-8").to_owned();
    let suspended = place.monohull("", &["run", "--suspend", &waiting, "--json", &place.file()]).expect(4).json();
    fs::remove_dir_all(place.path("cache")).expect("removed");
    let checkpoint = suspended["checkpoint"].as_str().expect("a path");
    let report = place.monohull("", &["resume", checkpoint, "--json"]).expect(0).json();
    assert_eq!(report["output"]["out"]["text"], "slept", "{report:#}");
}

/// One child halves a number, one fails, and one is cancelled.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_program_starts_children_and_waits_for_their_ends() {
    let parent = "from monohull import Error, publish, slots, start\n\
        child = start('half', 'one', '34')\n\
        wrong = start('half', 'two', 'a text')\n\
        late = start('half', 'three', '')\n\
        publish('children', '3')\n\
        told = child.join()\n\
        failed = wrong.join()\n\
        late.cancel()\n\
        cancelled = late.join()\n\
        lines = [told.ending, told.output('half').decode(), str(told.output('other')), failed.ending, str(failed.output('half')), cancelled.ending]\n\
        try:\n    start('other', 'four')\nexcept Error as error:\n    lines.append(str(error))\n\
        slots.put('out', ', '.join(lines))\n\
        print(failed.message)\n";
    let half = "from monohull import event, slots\n\
        text = bytes(slots.get('number')).decode()\n\
        event('never') if not text else None\n\
        slots.put('half', str(int(text) // 2))\n";
    let place = Place::new("app.py", &[("app.py", parent), ("half.py", half)]);
    let mut document: Value = serde_json::from_slice(&fs::read(place.file()).expect("read")).expect("JSON");
    document["starts"] = json!(["half"]);
    place.write("test.json", &document.to_string());
    let child = json!({
        "name": "half",
        "functions": { "half": { "image": "half.py" } },
        "inputs": ["number"],
        "steps": [{ "name": "half", "function": "half" }],
        "outputs": ["half"],
    });
    place.write("half.json", &child.to_string());
    let (state, out) = (place.path("sleepers"), place.path("out.txt"));
    let (state, out) = (state.to_str().expect("UTF-8"), format!("out={}", out.to_str().expect("UTF-8")));
    let done = place.monohull("", &["run", &place.file(), "--state", state, "--id", "one", "--output", &out]).expect(0);
    let told = fs::read_to_string(place.path("out.txt")).expect("written");
    let refused = "`starts` of the workflow file does not name `other`";
    assert_eq!(told, format!("completed, 17, None, failed, None, cancelled, {refused}"));
    assert!(done.out.contains("exited with status 1"), "{}", done.out);
    let shown = place.monohull("", &["show", "one", "--state", state]).expect(0).out;
    assert!(shown.contains("children = 3"), "{shown}");
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_program_makes_save_points_and_copies_of_its_invocation() {
    let program = "from monohull import Error, checkpoint, event, fork, handed_over, slots\n\
        came = checkpoint('before')\n\
        copy = fork(2)\n\
        try:\n    fork(0)\nexcept Error as error:\n    refused = error.number\n\
        event('go')\n\
        slots.put('out', f'{came} {copy} {refused} {handed_over(\"count\")}')\n";
    let place = Place::new("app.py", &[("app.py", program)]);
    let (state, out) = (place.path("sleepers"), place.path("out.txt"));
    let (state, out) = (state.to_str().expect("UTF-8"), format!("out={}", out.to_str().expect("UTF-8")));
    let monohull = |arguments: &[&str]| place.monohull("", &[arguments, &["--state", state]].concat());
    monohull(&["run", &place.file(), "--id", "one", "--detach", "--output", &out]).expect(4);
    let wake = || monohull(&["wake", "--wait"]).expect(0);
    wake();
    monohull(&["rewind", "one", "--to", "before"]).expect(0);
    wake();
    let listed = monohull(&["ps", "--json"]).expect(0).json();
    let ids = listed["invocations"].as_array().expect("a list").iter().map(|row| row["id"].as_str().expect("an id"));
    let ids: Vec<String> = ids.map(str::to_owned).collect();
    assert_eq!(ids.len(), 3, "the copies are those that there were: {ids:?}");
    for id in &ids {
        monohull(&["send", id, "go"]).expect(0);
    }
    wake();
    let outputs = fs::read_dir(place.0.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let outputs = outputs.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    let mut told: Vec<_> = outputs.map(|path| fs::read_to_string(path).expect("text")).collect();
    told.sort();
    assert_eq!(told, ["False 1 22 None", "False 2 22 None", "True 0 22 None"]);
}
