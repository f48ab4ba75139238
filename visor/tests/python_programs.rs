//! Python programs as functions, from end to end: `monohull build app.py`, then `monohull run`.
//!
//! The interpreter takes minutes to compile (`cargo xtask build --python`), so these tests are ignored where it is not asked for:
//! `cargo test -p monohull-visor --test python_programs -- --ignored`. `cargo xtask test --full` does both, and `cargo xtask ci` a part of them.

#[path = "python/connections.rs"]
mod connections;
#[path = "python/continuations.rs"]
mod continuations;
#[path = "python/waits.rs"]
mod waits;

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn monohull(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.current_dir(folder).args(arguments).output().expect("monohull starts")
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with files, of which one or all are a program.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for (path, contents) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, contents).expect("written");
    }
    folder
}

/// The image of a program in one file.
#[track_caller]
fn built(program: &str) -> TempDir {
    let folder = folder(&[("app.py", program.as_bytes())]);
    let output = monohull(folder.path(), &["build", "app.py"]);
    assert!(output.status.success(), "{}", words(&output.stderr));
    assert_eq!(words(&output.stdout).trim(), "app.so");
    folder
}

/// What `monohull build` says of a program that it refuses.
#[track_caller]
fn refused(files: &[(&str, &[u8])], program: &str) -> String {
    let folder = folder(files);
    let output = monohull(folder.path(), &["build", program]);
    assert_eq!(output.status.code(), Some(2), "{}", words(&output.stderr));
    words(&output.stderr)
}

/// Runs a workflow of one step of the image `app.so`, with more fields of the step and of the workflow: its report.
fn run(folder: &Path, step: &Value, workflow: &Value) -> Value {
    let mut whole = json!({ "name": "app", "function": "app" });
    let mut document =
        json!({ "name": "app", "functions": { "app": { "image": "app.so" } }, "limits": { "timeout": "120s" } });
    merge(&mut whole, step);
    merge(&mut document, workflow);
    document["steps"] = json!([whole]);
    fs::write(folder.join("workflow.json"), document.to_string()).expect("written");
    let output = monohull(folder, &["run", "workflow.json", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

fn merge(into: &mut Value, fields: &Value) {
    for (name, value) in fields.as_object().into_iter().flatten() {
        into[name] = value.clone();
    }
}

/// The lines of one stream of the first step.
fn lines<'r>(report: &'r Value, stream: &str) -> Vec<&'r str> {
    let lines = report["steps"][0]["instances"][0]["lines"].as_array().into_iter().flatten();
    lines.filter(|line| line["stream"] == stream).map(|line| line["text"].as_str().expect("a text")).collect()
}

/// What a program has printed that succeeded.
#[track_caller]
fn printed(report: &Value) -> Vec<&str> {
    assert_eq!(report["status"], "done", "{report:#}");
    lines(report, "stdout")
}

/// A program that checks itself prints nothing else but the last line.
#[track_caller]
fn checks(program: &str, step: &Value, workflow: &Value) {
    let folder = built(program);
    let report = run(folder.path(), step, workflow);
    assert_eq!(printed(&report), ["all right"], "{report:#}");
}

const NONE: Value = Value::Null;

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn arguments_environment_and_input() {
    let folder = built(
        "import os, sys\n\
         print(__name__, __file__, sys.argv, os.environ['GREETING'])\n\
         print([line.strip() for line in sys.stdin])\n\
         print('to stderr', file=sys.stderr)\n\
         exit()\n",
    );
    fs::write(folder.path().join("lines.txt"), "first\nWörter\n").expect("written");
    let step = json!({ "args": { "argv": ["a b", "ü"], "more": 3 }, "env": { "GREETING": "hello" }, "stdin": "lines" });
    let report = run(folder.path(), &step, &json!({ "inputs": [{ "slot": "lines", "path": "lines.txt" }] }));
    assert_eq!(
        printed(&report),
        ["__main__ app.py ['app', 'a b', 'ü', '--more=3'] hello", "['first', 'Wörter']"],
        "{report:#}"
    );
    assert_eq!(lines(&report, "stderr"), ["to stderr"]);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn ends() {
    let end = |program: &str| {
        let folder = built(program);
        let report = run(folder.path(), &NONE, &NONE);
        let errors = lines(&report, "stderr").join("\n");
        (report["error"]["message"].as_str().unwrap_or_default().to_owned(), errors)
    };
    assert_eq!(end("import sys\nsys.exit(3)\n"), ("exited with status 3".to_owned(), String::new()));
    assert_eq!(end("import sys\nsys.exit('no')\n"), ("exited with status 1".to_owned(), "no".to_owned()));
    let (message, errors) = end("import json\n\ndef load(text):\n    return json.loads(text)\n\nload('{')\n");
    assert_eq!(message, "exited with status 1");
    let own = "Traceback (most recent call last):\n  File \"app.py\", line 6, in <module>\n    load('{')\n    ~~~~^^^^^\n  \
               File \"app.py\", line 4, in load\n    return json.loads(text)\n           ~~~~~~~~~~^^^^^^\n";
    assert!(errors.starts_with(own), "{errors}");
    assert!(errors.contains("  File \"<frozen json.decoder>\", line "), "{errors}");
    let last = errors.lines().last().expect("a line");
    assert!(last.starts_with("json.decoder.JSONDecodeError: Expecting property name"), "{errors}");
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn what_cannot_be_built_is_refused_with_its_place() {
    let why = refused(&[("app.py", b"def f():\n    return )\n")], "app.py");
    assert!(why.contains("app.py cannot be built:") && why.contains("File \"app.py\", line 2"), "{why}");
    assert!(why.contains("SyntaxError: unmatched ')'"), "{why}");
    let why = refused(&[("app/main.py", b"import native\n"), ("app/native.so", b"\x7fELF")], "app");
    assert!(why.contains("native.so is a library, and a function loads none"), "{why}");
    let why = refused(&[("app/main.py", b""), ("app/w-1-py3-none-any.whl", b"no archive")], "app");
    assert!(why.contains("w-1-py3-none-any.whl is no wheel that can be read"), "{why}");
    assert!(refused(&[("app/other.py", b"")], "app").contains("is no crate"));
}

/// Packages, folders without `__init__.py`, data beside modules, a wheel with its metadata, and a module that shadows the library's.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_folder_with_packages_and_a_wheel() {
    let wheel = wheel(&[
        ("greet/__init__.py", "from .words import WORD\n"),
        ("greet/words.py", "WORD = 'hello from a wheel'\n"),
        ("greet/future.py", "this is for another Python\n"),
        ("greet-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.2\n"),
        ("greet-1.2.dist-info/entry_points.txt", "[tool]\nwords = greet.words:WORD\n"),
        ("greet-1.2.data/purelib/beside.py", "NAME = __name__\n"),
    ]);
    let main = "import greet, package.inner, bare.leaf, beside, this, sys\n\
                from importlib import metadata, resources\n\
                import pkgutil\n\
                print(greet.WORD, metadata.version('greet'), [e.load() for e in metadata.entry_points(group='tool')])\n\
                print(package.inner.NAME, bare.leaf.NAME, beside.NAME, this.OWN)\n\
                print((resources.files('package') / 'data' / 'text.txt').read_text().strip(), pkgutil.get_data('package', 'data/text.txt'))\n\
                print(sorted(f.name for f in resources.files(package).iterdir()))\n\
                print(package.__file__, package.inner.__spec__.parent, __spec__)\n\
                try:\n    import greet.future\nexcept SyntaxError as error:\n    print(error)\n\
                try:\n    import missing\nexcept ModuleNotFoundError as error:\n    print(error)\n";
    let folder = folder(&[
        ("app/__main__.py", main.as_bytes()),
        ("app/package/__init__.py", b""),
        ("app/package/inner.py", b"from . import __name__ as parent\nNAME = parent + '.inner'\n"),
        ("app/package/data/text.txt", b"some data\n"),
        ("app/bare/leaf.py", b"NAME = __name__\n"),
        ("app/this.py", b"OWN = True\n"),
        ("app/greet-1.2-py3-none-any.whl", &wheel),
    ]);
    let output = monohull(folder.path(), &["build", "app", "--out", "."]);
    assert!(output.status.success(), "{}", words(&output.stderr));
    let report = run(folder.path(), &NONE, &NONE);
    assert_eq!(
        printed(&report),
        [
            "hello from a wheel 1.2 ['hello from a wheel']",
            "package.inner bare.leaf beside True",
            "some data b'some data\\n'",
            "['__init__.py', 'data', 'inner.py']",
            "package/__init__.py package None",
            "greet/future.py: invalid syntax (future.py, line 1)",
            "No module named 'missing'",
        ],
        "{report:#}"
    );
    // What has been built is no part of the next image.
    let build = || {
        let output = monohull(folder.path(), &["build", "app"]);
        assert_eq!(words(&output.stdout).trim(), "app/app.so", "{}", words(&output.stderr));
        fs::metadata(folder.path().join("app/app.so")).expect("an image").len()
    };
    assert_eq!(build(), build());
}

/// The packages that `requirements.txt` names are wheels, which `pip` finds: here in a folder. They are looked for once.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn requirements_are_wheels_in_the_image() {
    let tags = "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let wheel_named = |name: &str, version: &str, needs: &str| {
        let information = |file: &str| format!("{name}-{version}.dist-info/{file}");
        wheel(&[
            (&format!("{name}/__init__.py"), "WORD = 'hello from a requirement'\n"),
            (&information("METADATA"), &format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")),
            (&information("WHEEL"), tags),
            (&information("RECORD"), ""),
        ])
    };
    let wheel_of = |version: &str, needs: &str| wheel_named("greet", version, needs);
    let with_conditions = wheel_of(
        "1.5",
        "Requires-Dist: deeper; python_version >= '3.13' and implementation_name == 'cpython'\n\
         Requires-Dist: of_others; python_version < '3.13'\nRequires-Dist: of_others; extra == 'more'\n",
    );
    let [deeper, of_thirteen] = ["deeper", "of_thirteen"].map(|name| wheel_named(name, "1.0", ""));
    let [wheel, third, fourth] = [("1.2", ""), ("1.3", "Requires-Dist: native\n"), ("1.4", "Requires-Dist: native\n")]
        .map(|(version, needs)| wheel_of(version, needs));
    let folder = folder(&[
        ("app/main.py", b"import greet\nprint(greet.WORD)\n"),
        ("app/requirements.txt", b"# what is needed\ngreet >= 1.0\n"),
        ("index/greet-1.2-py3-none-any.whl", &wheel),
        ("index-of-later-ones/greet-1.3-py3-none-any.whl", &third),
        ("index-of-later-ones/greet-1.4-py3-none-any.whl", &fourth),
        ("index-with-conditions/greet-1.5-py3-none-any.whl", &with_conditions),
        ("index-with-conditions/deeper-1.0-py3-none-any.whl", &deeper),
        ("index-with-conditions/of_thirteen-1.0-py3-none-any.whl", &of_thirteen),
    ]);
    let path = folder.path();
    let build = |index: &str| {
        let mut build = Command::new(env!("CARGO_BIN_EXE_monohull"));
        build
            .current_dir(path)
            .args(["build", "app", "--out", "."])
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", path.join(index))
            .env("XDG_CACHE_HOME", path);
        build.env("XDG_CONFIG_HOME", path).output().expect("monohull starts")
    };
    let output = build("index");
    assert!(output.status.success(), "{}", words(&output.stderr));
    assert_eq!(printed(&run(path, &NONE, &NONE)), ["hello from a requirement"]);
    // What was found is kept, until the file changes.
    let output = build("none");
    assert!(output.status.success(), "{}", words(&output.stderr));
    fs::write(path.join("app/requirements.txt"), "greet >= 2.0\n").expect("written");
    let output = build("index");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = words(&output.stderr);
    assert!(said.contains("requirements.txt cannot be built:\npip has found no wheels"), "{said}");
    // Conditions are those of the function's Python, whichever runs pip.
    fs::write(
        path.join("app/requirements.txt"),
        "greet >= 1.5\nof_others ; python_version < '3.13' or sys_platform == 'win32'\nof_thirteen ; python_full_version >= '3.13.1'\n",
    )
    .expect("written");
    fs::write(path.join("app/main.py"), "import greet, deeper, of_thirteen\nprint(greet.WORD)\n").expect("written");
    let output = build("index-with-conditions");
    assert!(output.status.success(), "{}", words(&output.stderr));
    assert_eq!(printed(&run(path, &NONE, &NONE)), ["hello from a requirement"]);
    fs::write(path.join("app/main.py"), "import greet\nprint(greet.WORD)\n").expect("written");
    // Wheels in the folder are all there are, which is said where the file names others.
    fs::copy(path.join("index/greet-1.2-py3-none-any.whl"), path.join("app/greet-1.2-py3-none-any.whl"))
        .expect("copied");
    let output = build("none");
    assert!(output.status.success(), "{}", words(&output.stderr));
    assert!(words(&output.stderr).contains("requirements.txt is not read, because"), "{output:?}");
    fs::remove_file(path.join("app/greet-1.2-py3-none-any.whl")).expect("removed");
    // What leads to a package that has no such wheel is told.
    fs::write(path.join("app/requirements.txt"), "greet >= 1.3\n").expect("written");
    let said = words(&build("index-of-later-ones").stderr);
    assert!(said.contains("greet 1.4 depends on native") && !said.contains("To fix this"), "{said}");
    fs::write(path.join("app/requirements.txt"), "greet @ https://example.com/greet.tar.gz\n").expect("written");
    let output = build("index");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(words(&output.stderr).contains("line 1 is `greet @ https"), "{output:?}");
}

/// An archive as `zip -0` makes it.
fn wheel(files: &[(&str, &str)]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, text) in files {
        let offset = archive.len() as u32;
        let mut fields = Vec::new();
        fields.extend([20_u16, 0, 0, 0, 33].map(u16::to_le_bytes).concat());
        fields.extend([crc32(text.as_bytes()), text.len() as u32, text.len() as u32].map(u32::to_le_bytes).concat());
        fields.extend([name.len() as u16, 0].map(u16::to_le_bytes).concat());
        archive.extend(b"PK\x03\x04");
        archive.extend(&fields);
        archive.extend(name.as_bytes());
        archive.extend(text.as_bytes());
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&fields);
        directory.extend([0_u16; 3].map(u16::to_le_bytes).concat());
        directory.extend([0, offset].map(u32::to_le_bytes).concat());
        directory.extend(name.as_bytes());
    }
    let (start, count) = (archive.len() as u32, files.len() as u16);
    archive.extend(&directory);
    archive.extend(b"PK\x05\x06");
    archive.extend([0, 0, count, count].map(u16::to_le_bytes).concat());
    archive.extend([directory.len() as u32, start].map(u32::to_le_bytes).concat());
    archive.extend([0, 0]);
    archive
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
    })
}

/// Everything that the image has of the standard library can be imported, but for what is named here with its reason.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn the_standard_library() {
    checks(
        include_str!("python/library.py"),
        &json!({ "stack": "8MiB" }),
        &json!({ "files": [{ "at": "/", "memory": "16MiB" }] }),
    );
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn threads_files_sockets_and_databases() {
    let workflow = json!({
        "files": [{ "at": "/data", "memory": "16MiB" }],
        "network": { "mode": "host", "listen": ["127.0.0.1:*"], "connect": ["127.0.0.1:*"] },
    });
    checks(include_str!("python/system.py"), &NONE, &workflow);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_program_connects_to_what_is_granted() {
    let folder = built(include_str!("python/connections.py"));
    connections::check(folder.path(), &json!({ "image": "app.so" }), monohull);
}

/// The report of a workflow of `workflows/python`, which has succeeded.
#[track_caller]
fn shipped(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows/python");
    let output = monohull(&folder, &["run", &format!("{name}.json"), "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(report["status"], "done", "{report:#}");
    report
}

/// Slots go from Rust to Python to the output by reference.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn the_shipped_workflow_mixes_rust_and_python() {
    let report = shipped("invoices");
    let table = "number,customer,net,vat,gross\r\n1,Ada,15.00,2.85,17.85\r\n2,Grace,3.50,0.67,4.17\r\n";
    assert_eq!(report["output"]["invoices"]["text"], table);
    let python = &report["steps"][1]["instances"][0];
    assert!(python["bytes_in"].as_u64() > Some(0) && python["bytes_out"] == table.len(), "{python:#}");
}

/// A picture lies in one place, from Rust on monohull-std over Rust's own std and Python to C.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn the_shipped_workflow_mixes_four_kinds() {
    let report = shipped("kinds");
    let steps = report["steps"].as_array().expect("steps").iter().map(|step| &step["instances"][0]);
    let said = |instance: &Value| {
        instance["lines"].as_array().and_then(|lines| lines.last()?["text"].as_str().map(str::to_owned))
    };
    let said: Vec<_> = steps.clone().map(|instance| said(instance).expect("a line")).collect();
    // What the others print is where the picture lies.
    assert!(said[0].starts_with("369 bytes at 0x"), "{said:?}");
    assert_eq!((&said[1], &*said[2], &said[3]), (&said[0], "3 birds in 9 lines", &said[0]));
    let moved: Vec<_> = steps.map(|instance| (instance["bytes_in"].as_u64(), instance["bytes_out"].as_u64())).collect();
    assert_eq!(moved[2], (Some(369), Some(369)), "{moved:?}");
    let picture = report["output"]["picture"]["text"].as_str().expect("a text");
    assert_eq!((picture.matches("vv").count(), picture.matches("|__\\").count()), (3, 1), "{picture}");
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn slots_are_views_of_their_memory() {
    let folder = built(include_str!("python/slots.py"));
    fs::write(folder.path().join("given.txt"), "some bytes").expect("written");
    let inputs = json!([{ "slot": "given", "path": "given.txt" }, { "slot": "other", "path": "given.txt" }]);
    let workflow = json!({ "inputs": inputs, "outputs": ["moved", "copied", "text", "empty"] });
    let report = run(folder.path(), &NONE, &workflow);
    assert_eq!(printed(&report), ["all right"], "{report:#}");
    for (slot, text) in [("moved", "SOME bytes"), ("copied", "bytes"), ("text", "Wörter"), ("empty", "")] {
        assert_eq!(report["output"][slot]["text"], text, "{slot}: {report:#}");
    }
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_program_asks_for_effects_and_handles_them() {
    let folder = built(include_str!("python/effects.py"));
    let document = json!({
        "name": "effects",
        "functions": { "app": { "image": "app.so" } },
        "steps": [
            { "name": "asks", "function": "app" },
            { "name": "handler", "function": "app", "handles": "shout", "stdin": "request" },
        ],
        "limits": { "timeout": "120s" },
    });
    fs::write(folder.path().join("workflow.json"), document.to_string()).expect("written");
    let output = monohull(folder.path(), &["run", "workflow.json", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let said = printed(&report);
    assert_eq!(said[0], "b'WHAT' Ä", "{report:#}");
    assert!(said[1].starts_with("the handler of effect `shout`, handler[0], failed (exit)"), "{report:#}");
    assert_eq!(said[2], "no step of the workflow handles effect `nobody`", "{report:#}");
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_program_waits_for_others_and_lets_others_go_on() {
    let folder = built(include_str!("python/continuations.py"));
    continuations::check(folder.path(), &json!({ "image": "app.so" }), monohull);
}

/// One that was ready is not taken apart at its end, and does all the same what an end does.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_program_that_was_ready_ends_like_any_other() {
    for status in [None, Some(3)] {
        let folder = built(include_str!("python/leaves.py"));
        fs::create_dir(folder.path().join("data")).expect("made");
        let argv: Vec<String> = status.iter().map(ToString::to_string).collect();
        let workflow = json!({ "files": [{ "at": "/data", "directory": "data", "access": "write" }] });
        let report = run(folder.path(), &json!({ "args": { "argv": argv } }), &workflow);
        let expected = ["the thread has ended", "at exit", "gone: before", "gone: after", "gone: cycle"];
        assert_eq!(lines(&report, "stdout"), expected, "{report:#}");
        assert_eq!(report["status"], if status.is_none() { "done" } else { "failed" }, "{report:#}");
        let read = |name: &str| fs::read_to_string(folder.path().join("data").join(name)).expect("written");
        assert_eq!((read("variable"), read("module")), ("of a variable".to_owned(), "of a module".to_owned()));
    }
}

/// Objects, an open file and a thread that waits as well go on in another process.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_program_that_sleeps_goes_on_in_another_process() {
    let expected = ["waits", "written before Argo", "the thread has slept", "all right"];
    assert_eq!(suspended_and_resumed(include_str!("python/sleeps.py")), expected);
}

/// The same of a loop of asyncio, which waits in `epoll`.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_loop_of_asyncio_goes_on_in_another_process() {
    let expected = ["waits", "False False Argo", "before after", "[0, 1, 2, 3]", "in time", "b''", "all right"];
    assert_eq!(suspended_and_resumed(include_str!("python/waits.py")), expected);
}

/// What a program prints that is suspended once and goes on in another process.
fn suspended_and_resumed(program: &str) -> Vec<String> {
    let folder = built(program);
    let mut document = json!({ "name": "app", "functions": { "app": { "image": "app.so" } } });
    document["files"] = json!([{ "at": "/tmp", "memory": "1MiB" }]);
    document["steps"] = json!([{ "name": "app", "function": "app" }]);
    fs::write(folder.path().join("workflow.json"), document.to_string()).expect("written");
    let output = monohull(folder.path(), &["run", "workflow.json", "--suspend", "waiting", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let suspended: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let output = monohull(folder.path(), &["resume", suspended["checkpoint"].as_str().expect("a path"), "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    printed(&report).into_iter().map(str::to_owned).collect()
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn limits_are_exceptions() {
    let program = "import sys\n\
                   try:\n    kept = [bytes(1 << 20) for _ in range(10_000)]\nexcept MemoryError:\n    kept = None\n\
                   def deep(n):\n    return max(map(deep, [n + 1]))\n\
                   try:\n    deep(0)\nexcept RecursionError:\n    kept = 1\n\
                   class Chain:\n    def __getattr__(self, name):\n        return getattr(self, name + '_')\n\
                   try:\n    Chain().end\nexcept RecursionError:\n    print('all right' if kept else 'none')\n";
    checks(program, &json!({ "memory": "96MiB" }), &NONE);
    let folder = built("while True:\n    pass\n");
    let report = run(folder.path(), &json!({ "timeout": "300ms" }), &NONE);
    assert_eq!(report["error"]["kind"], "timeout", "{report:#}");
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn what_does_not_exist_is_refused() {
    let program = "import os, subprocess\n\
                   for attempt in (os.fork, lambda: subprocess.run(['ls']), lambda: os.symlink('a', 'b')):\n\
                   \x20   try:\n        attempt()\n        print('done')\n    except OSError as error:\n        pass\n\
                   try:\n    import ctypes\nexcept ModuleNotFoundError as error:\n    print(error)\n";
    let folder = built(program);
    let report = run(folder.path(), &NONE, &json!({ "files": [{ "at": "/", "memory": "1MiB" }] }));
    assert_eq!(printed(&report), ["No module named 'ctypes'"], "{report:#}");
    let errors = lines(&report, "stderr");
    assert!(errors[0].contains("cannot start another (fork"), "{errors:#?}");
}

/// numpy, if the interpreter has it.
#[test]
#[ignore = "the interpreter and numpy take minutes to compile: `cargo xtask build --python --with numpy`"]
fn numpy_computes_in_memory_of_slots() {
    let folder = built(include_str!("python/numpy.py"));
    fs::write(folder.path().join("given.txt"), "some bytes").expect("written");
    let workflow = json!({ "inputs": [{ "slot": "given", "path": "given.txt" }], "outputs": ["squares"] });
    let report = run(folder.path(), &json!({ "memory": "1GiB" }), &workflow);
    assert_eq!(printed(&report), ["all right"], "{report:#}");
    assert_eq!(report["output"]["squares"]["bytes"], 8000, "{report:#}");
}

/// Another interpreter than the one beside the program: here something that is none.
#[test]
fn the_folder_of_the_interpreter_can_be_named() {
    let folder = folder(&[("app.py", b""), ("named/python.so", b"no image")]);
    let build = |named: &str| {
        let mut build = Command::new(env!("CARGO_BIN_EXE_monohull"));
        build.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
        build.current_dir(folder.path()).args(["build", "app.py"]).env("MONOHULL_PYTHON", folder.path().join(named));
        let output = build.output().expect("monohull starts");
        assert!(!output.status.success(), "{output:?}");
        words(&output.stderr)
    };
    assert!(build("named").contains("the image python is refused: this is not an ELF file"), "{}", build("named"));
    assert!(build("other").contains("MONOHULL_PYTHON names none"), "{}", build("other"));
}

/// The interpreter alone is a function too.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn the_interpreter_takes_its_own_arguments() {
    let folder = TempDir::new().expect("a folder");
    let interpreter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python/python.so");
    fs::copy(interpreter, folder.path().join("app.so")).expect("`cargo xtask build --python` makes it");
    let arguments = json!({ "args": { "argv": ["-c", "import sys; print(sys.argv, sys.version_info[:2])", "x"] } });
    let report = run(folder.path(), &arguments, &NONE);
    assert_eq!(printed(&report), ["['-c', 'x'] (3, 13)"]);
    fs::write(folder.path().join("script.py"), "import sys\nprint('from', sys.argv)\n").expect("written");
    let step = json!({ "args": { "argv": ["-", "y"] }, "stdin": "script" });
    let report = run(folder.path(), &step, &json!({ "inputs": [{ "slot": "script", "path": "script.py" }] }));
    assert_eq!(printed(&report), ["from ['-', 'y']"]);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn clients_answer_callbacks() {
    let folder = built(waits::ANSWERS);
    waits::check_answers(folder.path(), &json!({ "image": "app.so" }), monohull);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn an_effect_is_tried_again_with_its_key() {
    let folder = built(waits::ATTEMPTS);
    waits::check_attempts(folder.path(), &json!({ "image": "app.so" }), monohull);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_failure_for_good_has_one_attempt() {
    let folder = built(waits::FAILS);
    waits::check_failure(folder.path(), &json!({ "image": "app.so" }), monohull);
}
