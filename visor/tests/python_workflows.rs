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
