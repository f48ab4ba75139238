//! Templates of Python programs: what is imported and computed before `monohull.ready()` is there in later invocations.
//!
//! As in `python_programs`, these tests are ignored where the interpreter is not asked for.

mod serve_support;

use serde_json::{Value, json};
use serve_support::verbs::run_verb;
use serve_support::{Server, eventually, single};
use std::fs;
use tempfile::TempDir;

/// A server with a workflow of one step, whose function is this program.
struct Served {
    server: Server,
    _folder: TempDir,
}

impl Served {
    #[track_caller]
    fn of(program: &str) -> Served {
        Served::built(program, &[])
    }

    /// The same with options of `monohull build`.
    #[track_caller]
    fn built(program: &str, options: &[&str]) -> Served {
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("app.py"), program).expect("written");
        let path = folder.path().to_str().expect("UTF-8");
        run_verb("", &[&["build", "--out", path, &format!("{path}/app.py")], options].concat(), &[], "").expect(0);
        let server = Server::start_with(&["--prefork", "2"]);
        let image = fs::read(folder.path().join("app.so")).expect("built");
        let answer = server.ask("PUT", "/functions/app", &image);
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
        let mut document = single("app", "app", &json!({ "args": { "argv": ["an argument"] } }));
        document["steps"][0]["env"] = json!({ "LABEL": "a label" });
        document["inputs"] = json!(["in"]);
        document["outputs"] = json!(["out"]);
        server.put_workflow(&document);
        Served { server, _folder: folder }
    }

    /// What an invocation has put into `out`, and what its report says of the start.
    #[track_caller]
    fn invoke(&self, input: &str) -> (Value, Value) {
        let answer = self.server.post("/invoke/app", input.as_bytes()).expect(200);
        let id = &answer.headers["x-invocation-id"];
        let start = self.server.get(&format!("/invocations/{id}")).expect(200).json()["report"]["start"].clone();
        (serde_json::from_str(&answer.text()).expect("a document"), start)
    }

    fn starts_from_template(&self) {
        eventually("it starts from a template", || self.invoke("input").1 == template_start());
    }
}

fn template_start() -> Value {
    json!({ "kind": "template" })
}

/// Imports that most programs have, a table, and then what is each instance's own.
const PROGRAM: &str = "
import asyncio, collections, dataclasses, hashlib, json, logging, os, random, re, sys, threading, time, uuid
import monohull

words = {letter: ord(letter) ** 3 for letter in map(chr, range(97, 123))}
word = re.compile('[a-z]+')
order = list({'alpha', 'beta', 'gamma', 'delta'})
shuffled = random.sample(range(1000), 3)
begin, seen = time.monotonic(), []

started_here = monohull.ready()

text = str(monohull.slots.get('in'), 'utf-8')
seen.append(text)

async def twice():
    await asyncio.sleep(0)
    return [await asyncio.to_thread(len, text) for _ in range(2)]

thread = threading.Thread(target=lambda: seen.append(threading.current_thread().name), name='other')
thread.start(); thread.join()
monohull.slots.put('out', json.dumps({
    'template': started_here,
    'sum': sum(words[letter] for found in word.findall(text) for letter in found),
    'order': order, 'shuffled': shuffled, 'seen': seen, 'backwards': time.monotonic() < begin,
    'label': os.environ['LABEL'], 'argv': sys.argv, 'lengths': asyncio.run(twice()),
    'random': random.random(), 'urandom': os.urandom(8).hex(), 'uuid': str(uuid.uuid4()), 'hash': hash('text'),
    'other': random.Random().random(), 'sha': hashlib.sha256(text.encode()).hexdigest(),
}))
print('printed by', text)
";

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn later_invocations_start_where_the_program_was_ready() {
    let served = Served::of(PROGRAM);
    let (ordinary, start) = served.invoke("the first");
    assert_eq!((&start["kind"], &ordinary["template"]), (&"main".into(), &json!(false)));
    served.starts_from_template();
    let later: Vec<Value> = (0..3)
        .map(|_| {
            let (later, start) = served.invoke("the first");
            assert_eq!((&start, &later["template"]), (&template_start(), &json!(true)));
            for same in ["sum", "label", "argv", "lengths", "sha", "backwards"] {
                assert_eq!(later[same], ordinary[same], "{same}");
            }
            assert_eq!(later["seen"], json!(["the first", "other"]), "inputs of others are nowhere");
            later
        })
        .collect();
    for (one, other) in [(0, 1), (1, 2), (0, 2)] {
        for own in ["random", "urandom", "uuid", "other"] {
            assert_ne!(later[one][own], later[other][own], "{own} is each instance's own");
        }
        for common in ["hash", "order", "shuffled"] {
            assert_eq!(later[one][common], later[other][common], "{common} is the template's");
        }
    }
    assert_ne!(later[0]["hash"], ordinary["hash"]);
}

/// The first run keeps it in the user's cache.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_later_run_of_the_command_line_starts_there_too() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let program = |word: &str| {
        format!(
            "import json, os, random, re, sys, time\n\
             import monohull\n\
             word, begin = re.compile('[a-z]+'), time.monotonic()\n\
             started_here = monohull.ready()\n\
             print(json.dumps([started_here, '{word}', sys.stdin.read(), sys.argv[1:], time.monotonic() < begin]))\n\
             print(random.random(), os.urandom(8).hex())\n"
        )
    };
    let run = |input: &str| {
        let (cache, settings, program) = (path("cache"), path("settings"), path("app.py"));
        let env = [("XDG_CACHE_HOME", &*cache), ("XDG_CONFIG_HOME", &*settings)];
        let arguments = ["run", &program, "--json", "--input", "stdin=-", "--", "an argument"];
        let report = run_verb("", &arguments, &env, input).expect(0).json();
        let lines = &report["steps"][0]["instances"][0]["lines"];
        let line = |index: usize| lines[index]["text"].as_str().unwrap_or_else(|| panic!("{report:#}")).to_owned();
        let told: Value = serde_json::from_str(&line(0)).expect("a document");
        (report["start"].clone(), told, line(1))
    };
    let told = |is: bool, word: &str, input: &str| json!([is, word, input, ["an argument"], false]);
    for word in ["first", "second"] {
        // A program that was changed is another one, also for its template.
        fs::write(path("app.py"), program(word)).expect("written");
        let (start, ordinary, _) = run("one");
        assert_eq!((start, ordinary), (json!({ "kind": "main" }), told(false, word, "one")));
        if word == "second" {
            // It may be changed before each run: its template is made when it is run again.
            assert_eq!(run("one").0, json!({ "kind": "main" }));
        }
        let later = ["one", "two"].map(&run);
        for ((start, later, _), input) in later.iter().zip(["one", "two"]) {
            assert_eq!((start, later), (&template_start(), &told(true, word, input)));
        }
        assert_ne!(later[0].2, later[1].2, "random numbers are each run's own");
    }
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn what_is_an_instances_own_leaves_a_program_without_a_template() {
    for (before, call) in [
        ("import os; own = os.urandom(8)", "GETRANDOM"),
        ("import random; own = random.Random()", "GETRANDOM"),
        ("import uuid; own = uuid.uuid4()", "GETRANDOM"),
        ("print('too early')", "STDIO_WRITE"),
        ("text = monohull.slots.get('in')", "SLOT_TAKE"),
        ("import threading; threading.Thread(target=print).start()", "THREAD_SPAWN"),
    ] {
        let after =
            "if 'text' not in globals():\n    text = monohull.slots.get('in')\nmonohull.slots.put('out', '1')\n";
        let served = Served::of(&format!("import monohull\n{before}\nmonohull.ready()\n{after}"));
        let why = format!("main[0] (function f) has called {call} before it was ready");
        eventually("it is known that there is no template", || {
            served.invoke("input").1 == json!({ "kind": "main", "no_template": why })
        });
    }
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn a_program_for_webassembly_starts_where_it_was_ready() {
    let served = Served::built(
        "import json, os, random, re, time, uuid\n\
         import monohull\n\
         word = re.compile('[a-z]+')\n\
         order = list({'alpha', 'beta', 'gamma', 'delta'})\n\
         begin = time.monotonic()\n\
         started_here = monohull.ready()\n\
         text = str(monohull.slots.get('in'), 'utf-8')\n\
         monohull.slots.put('out', json.dumps({\n\
         \x20   'template': started_here, 'words': word.findall(text), 'order': order, 'hash': hash('text'),\n\
         \x20   'label': os.environ['LABEL'], 'backwards': time.monotonic() < begin,\n\
         \x20   'random': random.random(), 'urandom': os.urandom(8).hex(), 'uuid': str(uuid.uuid4()),\n\
         }))\n",
        &["--wasi"],
    );
    let (ordinary, start) = served.invoke("the first");
    assert_eq!((&start["kind"], &ordinary["template"]), (&"main".into(), &json!(false)), "{start:#}");
    served.starts_from_template();
    let later = ["one", "two words"].map(|input| served.invoke(input));
    for ((later, start), words) in later.iter().zip([json!(["one"]), json!(["two", "words"])]) {
        assert_eq!((start, &later["template"], &later["words"]), (&template_start(), &json!(true), &words));
        assert_eq!((&later["label"], &later["backwards"]), (&json!("a label"), &json!(false)));
    }
    for own in ["random", "urandom", "uuid"] {
        assert_ne!(later[0].0[own], later[1].0[own], "{own} is each instance's own");
    }
    for common in ["hash", "order"] {
        assert_eq!(later[0].0[common], later[1].0[common], "{common} is the template's");
    }
}
