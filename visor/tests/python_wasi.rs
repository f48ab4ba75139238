//! Python programs that are built for WebAssembly, from end to end: `monohull build --wasi app.py`, then `monohull run`.
//!
//! As in `python_programs`, tests are ignored where the interpreter is not asked for (`cargo xtask build --python-wasi`); `cargo xtask test --full`
//! does both.

#[path = "python/connections.rs"]
mod connections;
#[path = "python/continuations.rs"]
mod continuations;
#[path = "support/https_host.rs"]
mod https_host;
#[path = "python/sockets.rs"]
mod sockets;
#[path = "python/waits.rs"]
mod waits;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use https_host::{Authority, Host};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn monohull(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("monohull starts")
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.envs(["XDG_CACHE_HOME", "XDG_CONFIG_HOME"].map(|name| (name, env!("CARGO_TARGET_TMPDIR"))));
    command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.current_dir(folder).args(arguments);
    command
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program in one file, as it is named by the workflow of a step with more fields, and a workflow with more.
struct Program {
    folder: TempDir,
}

impl Program {
    fn new(text: &str) -> Program {
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("app.py"), text).expect("written");
        Program { folder }
    }

    /// Writes a workflow file.
    fn write(&self, name: &str, step: &Value, workflow: &Value) {
        let mut document = json!({
            "name": "app",
            "functions": { "app": { "image": "app.py", "target": "wasi" } },
            "steps": [{ "name": "app", "function": "app" }],
            "limits": { "timeout": "300s" },
        });
        merge(&mut document["steps"][0], step);
        merge(&mut document, workflow);
        fs::write(self.folder.path().join(name), document.to_string()).expect("written");
    }

    /// Its report.
    fn run(&self, step: &Value, workflow: &Value) -> Value {
        self.write("workflow.json", step, workflow);
        let output = monohull(self.folder.path(), &["run", "workflow.json", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }
}

fn merge(into: &mut Value, fields: &Value) {
    for (name, value) in fields.as_object().into_iter().flatten() {
        into[name] = value.clone();
    }
}

/// The lines of one stream of an instance.
fn lines<'r>(report: &'r Value, instance: usize, stream: &str) -> Vec<&'r str> {
    let lines = report["steps"][0]["instances"][instance]["lines"].as_array().into_iter().flatten();
    lines.filter(|line| line["stream"] == stream).map(|line| line["text"].as_str().expect("a text")).collect()
}

/// What a program has printed that succeeded.
#[track_caller]
fn printed(report: &Value) -> Vec<&str> {
    assert_eq!(report["status"], "done", "{report:#}");
    lines(report, 0, "stdout")
}

/// A program that checks itself prints nothing else but the last line.
#[track_caller]
fn checks(program: &str) {
    let report = Program::new(program).run(&NONE, &NONE);
    assert_eq!(printed(&report), ["all right"], "{report:#}");
}

const NONE: Value = Value::Null;

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn arguments_environment_and_input() {
    let program = Program::new(
        "import os, sys\n\
         print(sys.platform, __name__, __file__, sys.argv, os.environ['GREETING'])\n\
         print([line.strip() for line in sys.stdin])\n\
         print('to stderr', file=sys.stderr)\n\
         exit()\n",
    );
    fs::write(program.folder.path().join("lines.txt"), "first\nWörter\n").expect("written");
    let step = json!({ "args": { "argv": ["a b", "ü"], "more": 3 }, "env": { "GREETING": "hello" }, "stdin": "lines" });
    let report = program.run(&step, &json!({ "inputs": [{ "slot": "lines", "path": "lines.txt" }] }));
    assert_eq!(
        printed(&report),
        ["wasi __main__ app.py ['app', 'a b', 'ü', '--more=3'] hello", "['first', 'Wörter']"],
        "{report:#}"
    );
    assert_eq!(lines(&report, 0, "stderr"), ["to stderr"]);
}

/// As `docs/wasi.md` says: a workflow file that names the program, and an image of it.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn what_new_writes_runs_and_is_built() {
    let folder = TempDir::new().expect("a folder");
    let made = monohull(folder.path(), &["new", "--lang", "python", "--wasi", "hello"]);
    assert!(made.status.success(), "{}", words(&made.stderr));
    let here = folder.path().join("hello");
    let program = fs::read_to_string(here.join("app.py")).expect("a program");
    let tells = "import sys, monohull\nprint(sys.platform, monohull.instance.count, monohull.generation())\n";
    fs::write(here.join("app.py"), program + tells).expect("written");
    let run = || -> Value {
        let output = monohull(&here, &["run", "workflow.json", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    assert_eq!(printed(&run()), ["Hello from Monohull!", "wasi 1 0"]);
    let built = monohull(&here, &["build", "--wasi", "app.py"]);
    assert_eq!((built.status.code(), words(&built.stdout).trim()), (Some(0), "app.so"), "{built:?}");
    let path = here.join("workflow.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    for function in document["functions"].as_object_mut().expect("functions").values_mut() {
        *function = json!({ "image": "app.so" });
    }
    fs::write(&path, document.to_string()).expect("written");
    assert_eq!(printed(&run()), ["Hello from Monohull!", "wasi 1 0"]);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn slots_and_the_instance() {
    let program = Program::new(
        "from monohull import Error, instance, slots\n\
         view = slots.get('in')\n\
         assert isinstance(view, memoryview) and bytes(view) == b'bytes', bytes(view)\n\
         assert (instance.index, instance.count, instance.attempt) == (0, 1, 1)\n\
         assert slots.get('never', wait=False) is None\n\
         for wrong in [lambda: slots.get('never'), lambda: slots.put('out', view) or slots.put('out', b'')]:\n\
         \x20   try:\n\
         \x20       wrong()\n\
         \x20   except Error as error:\n\
         \x20       print(error.number, error)\n\
         \x20   else:\n\
         \x20       raise AssertionError\n\
         room = slots.make(4)\n\
         room[:] = b'made'\n\
         slots.put('text', 'Wörter')\n\
         slots.put('made', room)\n",
    );
    fs::write(program.folder.path().join("in.txt"), "bytes").expect("written");
    let workflow = json!({
        "inputs": [{ "slot": "in", "path": "in.txt" }],
        "outputs": ["out", "text", "made"],
        "steps": [{ "name": "app", "function": "app" }],
    });
    let report = program.run(&NONE, &workflow);
    let said = printed(&report);
    assert_eq!(said, ["1002 no instance is left that could fill slot `never`", "17 slot `out` is already filled"]);
    for (slot, expected) in [("out", "bytes"), ("text", "Wörter"), ("made", "made")] {
        assert_eq!(report["output"][slot]["text"], expected, "{report:#}");
    }
}

/// It sleeps for a month without a process, and is given events, once with and once without one.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn a_month_events_and_a_save_point() {
    let program = Program::new(
        "import time\n\
         from monohull import Error, checkpoint, event, fork, handed_over, publish, send, sleep\n\
         kept, begun = {'ship': ['Argo'] * 1000}, time.time()\n\
         publish('where', 'asleep')\n\
         sleep(30 * 86400)\n\
         print(kept['ship'].count('Argo'), time.time() - begun >= 30 * 86400)\n\
         print('came back' if checkpoint('here') else 'went on')\n\
         print(event('paid', timeout=86400), event('paid', timeout=0))\n\
         event('go')\n\
         for wrong in [lambda: fork(0), lambda: event(''), lambda: send('other', 'paid')]:\n\
         \x20   try:\n\
         \x20       wrong()\n\
         \x20   except Error as error:\n\
         \x20       print(error.number, 'name' in str(error))\n\
         print(handed_over('count'))\n",
    );
    let folder = program.folder.path();
    program.write("workflow.json", &NONE, &json!({ "limits": {} }));
    let durable = |arguments: &[&str]| monohull(folder, &[arguments, &["--state", "state"]].concat());
    let says = |arguments: &[&str], code: i32| -> Vec<String> {
        let output = durable(arguments);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let lines = words(&output.stdout);
        lines.lines().filter_map(|line| line.strip_prefix("app[0] | ").map(str::to_owned)).collect()
    };
    says(&["run", "workflow.json", "--id", "one", "--detach"], 4);
    let said = says(&["wake", "--wait", "--skip-time"], 0);
    assert_eq!(said, ["1000 True", "went on", "None None"]);
    says(&["rewind", "one", "--to", "here"], 0);
    says(&["send", "one", "paid", "--data", "r-4711"], 0);
    says(&["send", "one", "go"], 0);
    let said = says(&["wake", "--wait"], 0);
    assert_eq!(said, ["came back", "b'r-4711' None", "22 False", "22 True", "1 True", "None"]);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn effects_and_children() {
    let program = Program::new(
        "import sys\n\
         from monohull import Error, perform, slots, start\n\
         if '--act=handle' in sys.argv:\n\
         \x20   slots.put('reply', b'<' + bytes(slots.get('request')))\n\
         elif '--act=child' in sys.argv:\n\
         \x20   slots.put('half', str(int(bytes(slots.get('number'))) // 2))\n\
         else:\n\
         \x20   print(bytes(perform('blob', 'logo')))\n\
         \x20   child, wrong = start('half', 'one', '34'), start('half', 'two', '')\n\
         \x20   told, failed = child.join(), wrong.join()\n\
         \x20   print(told.ending, told.output('half'), told.output('other'), failed.ending, bool(failed.message))\n\
         \x20   try:\n\
         \x20       start('other', 'three')\n\
         \x20   except Error as error:\n\
         \x20       print(error.number, '`starts`' in str(error))\n",
    );
    let act = |name: &str, act: &str| json!({ "name": name, "function": "app", "args": { "act": act } });
    let mut handler = act("handler", "handle");
    handler["handles"] = "blob".into();
    let steps = json!([act("app", "ask"), handler]);
    program.write("workflow.json", &NONE, &json!({ "starts": ["half"], "steps": steps, "limits": {} }));
    let slots = json!({ "name": "half", "inputs": ["number"], "outputs": ["half"], "steps": [act("app", "child")], "limits": {} });
    program.write("half.json", &NONE, &slots);
    let arguments = ["run", "workflow.json", "--state", "state", "--id", "one", "--skip-time"];
    let output = monohull(program.folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = words(&output.stdout);
    for line in ["b'<logo'", "completed b'17' None failed True", "1 True"] {
        assert!(said.lines().any(|said| said.ends_with(&format!("| {line}"))), "{line}: {said}");
    }
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn a_program_waits_for_others_and_lets_others_go_on() {
    let program = Program::new(include_str!("python/continuations.py"));
    continuations::check(program.folder.path(), &json!({ "image": "app.py", "target": "wasi" }), monohull);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn a_program_connects_to_what_is_granted() {
    let program = Program::new(include_str!("python/connections.py"));
    connections::check(program.folder.path(), &json!({ "image": "app.py", "target": "wasi" }), monohull);
}

/// What the program asks in plain HTTP goes to a host that `https` lists over TLS.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn a_request_to_a_listed_host_is_carried_over_tls() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let port = host.address.port();
    // With the point at its end the name is looked up.
    let program = Program::new(&format!(
        "import urllib.request\n\
         print(urllib.request.urlopen('http://localhost.:{port}/a').read())\n\
         print(urllib.request.urlopen('http://localhost.:{port}/b', b'posted').read())\n",
    ));
    let network = json!({
        "mode": "host", "connect": [host.address.to_string()], "https": [{ "host": "localhost", "port": port }],
    });
    program.write("workflow.json", &NONE, &json!({ "network": network }));
    let mut run = command(program.folder.path(), &["run", "workflow.json", "--json"]);
    let output = run.env("SSL_CERT_FILE", authority.roots()).env_remove("SSL_CERT_DIR").output();
    let output = output.expect("monohull starts");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(printed(&report), ["b'hello'", "b'hello'"], "{report:#}");
    let requests = [host.request(), host.request()];
    assert!(requests[0].starts_with("GET /a HTTP/1.1\r\n"), "{requests:?}");
    assert!(requests[1].starts_with("POST /b HTTP/1.1\r\n") && requests[1].ends_with("posted"), "{requests:?}");
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn the_library() {
    checks(
        "import array, asyncio, bz2, collections, csv, dataclasses, datetime, decimal, gzip, hashlib, heapq, hmac, io, itertools\n\
         import json, logging, math, os, pathlib, pickle, random, re, statistics, string, struct, sysconfig, textwrap, time\n\
         import unicodedata, urllib.parse, uuid, xml.etree.ElementTree, zipfile, zlib\n\
         assert json.loads(json.dumps({'a': [1, 2.5, None, 'ü']})) == {'a': [1, 2.5, None, 'ü']}\n\
         assert re.findall(r'(\\w+)@(\\w+)', 'a@b c@d') == [('a', 'b'), ('c', 'd')]\n\
         assert hashlib.sha256(b'abc').hexdigest()[:8] == 'ba7816bf' and hashlib.sha3_256(b'').hexdigest()[:4] == 'a7ff'\n\
         assert hmac.new(b'k', b'm', 'sha1').hexdigest()[:8] == '772b71c8'\n\
         assert struct.unpack('<IhQ', struct.pack('<IhQ', 1, -2, 2**63)) == (1, -2, 2**63)\n\
         for packed in zlib, gzip, bz2:\n\
         \x20   assert packed.decompress(packed.compress(b'abc' * 1000)) == b'abc' * 1000\n\
         assert decimal.Decimal(1) / 3 == decimal.Decimal('0.3333333333333333333333333333')\n\
         assert datetime.date(2026, 11, 26).isoformat() == '2026-11-26' and time.time() > 1.7e9\n\
         assert 2**200 % 10**9 == pow(2, 200, 10**9) and math.isclose(math.sin(1), 0.8414709848078965)\n\
         assert pickle.loads(pickle.dumps({'a': (1, b'x')})) == {'a': (1, b'x')}\n\
         assert len(os.urandom(16)) == 16 and uuid.uuid4() != uuid.uuid4() and 0 <= random.random() < 1\n\
         assert xml.etree.ElementTree.fromstring('<a><b/></a>')[0].tag == 'b'\n\
         assert unicodedata.name('ü') == 'LATIN SMALL LETTER U WITH DIAERESIS'\n\
         async def one(number):\n\
         \x20   await asyncio.sleep(0.001 * number)\n\
         \x20   return number\n\
         async def all():\n\
         \x20   return await asyncio.gather(*map(one, range(5)))\n\
         assert asyncio.run(all()) == [0, 1, 2, 3, 4]\n\
         before = time.monotonic(); time.sleep(0.01); assert time.monotonic() - before >= 0.01\n\
         print('all right')\n",
    );
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn what_there_is_not_is_named() {
    let report = Program::new(
        "import asyncio, http.client, socket, subprocess, threading, urllib.request\n\
         def refused(what):\n\
         \x20   try:\n\
         \x20       what()\n\
         \x20   except Exception as error:\n\
         \x20       print(type(error).__name__, error, sep=': ')\n\
         \x20   else:\n\
         \x20       print('no error')\n\
         for name in ['ssl', 'sqlite3', 'lzma', 'ctypes', 'mmap', 'fcntl', 'readline']:\n\
         \x20   refused(lambda: __import__(name))\n\
         refused(lambda: socket.create_connection(('127.0.0.1', 80)))\n\
         refused(lambda: urllib.request.urlopen('http://127.0.0.1/'))\n\
         refused(lambda: urllib.request.urlopen('https://127.0.0.1/'))\n\
         refused(lambda: socket.getaddrinfo('db.example', 80))\n\
         refused(lambda: socket.gethostbyaddr('127.0.0.1'))\n\
         refused(threading.Thread(target=print).start)\n\
         refused(lambda: subprocess.run(['ls']))\n",
    )
    .run(&NONE, &NONE);
    let without = "Python that is built for WebAssembly has no";
    let network = "the workflow has no network; its file gives one with `network`";
    let expected = [
        format!("ModuleNotFoundError: No module named '_ssl': {without} ssl"),
        format!("ModuleNotFoundError: No module named '_sqlite3': {without} sqlite3"),
        format!("ModuleNotFoundError: No module named '_lzma': {without} lzma"),
        format!("ModuleNotFoundError: No module named 'ctypes': {without} libraries"),
        format!("ModuleNotFoundError: No module named 'mmap': {without} mapped files"),
        format!("ModuleNotFoundError: No module named 'fcntl': {without} locks of files"),
        format!("ModuleNotFoundError: No module named 'readline': {without} terminal"),
        format!("PermissionError: [Errno 63] {network}"),
        format!("URLError: <urlopen error [Errno 63] {network}>"),
        "URLError: <urlopen error unknown url type: https>".to_owned(),
        format!("gaierror: [Errno -4] {network}"),
        "herror: [Errno 1] Python that is built for WebAssembly looks up no names of addresses: 127.0.0.1".to_owned(),
        format!("RuntimeError: can't start new thread: {without} threads"),
        "OSError: [Errno 58] wasi does not support processes.".to_owned(),
    ];
    assert_eq!(printed(&report), expected, "{report:#}");
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn ends() {
    let failed = Program::new("import json\ndef inner():\n    json.loads('{')\ninner()\n").run(&NONE, &NONE);
    assert_eq!(failed["status"], "failed", "{failed:#}");
    let said = lines(&failed, 0, "stderr");
    assert_eq!(
        said[..3],
        ["Traceback (most recent call last):", "  File \"app.py\", line 4, in <module>", "    inner()"]
    );
    assert!(said.last().is_some_and(|last| last.starts_with("json.decoder.JSONDecodeError: ")), "{said:?}");
    for (program, status, error) in [
        ("import sys; sys.exit(0)", "done", ""),
        ("import sys; print('buffered', end=''); sys.exit(3)", "failed", "exited with status 3"),
        ("raise SystemExit('why')", "failed", "exited with status 1"),
        ("import os; os._exit(7)", "failed", "exited with status 7"),
        ("import os; os.abort()", "failed", "unreachable"),
    ] {
        let report = Program::new(program).run(&NONE, &NONE);
        assert_eq!(report["status"], status, "{program}: {report:#}");
        assert!(report["error"]["message"].as_str().unwrap_or_default().contains(error), "{program}: {report:#}");
    }
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn deep_recursion_is_an_exception() {
    let program = include_str!("python/recursion.py");
    // The default, and one for which the stack in the program's memory is the shorter one.
    for stack in ["1MiB", "16MiB"] {
        let report = Program::new(program).run(&json!({ "stack": stack }), &NONE);
        assert_eq!(printed(&report).last(), Some(&"all right"), "{stack}: {report:#}");
    }
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn files_on_mounts() {
    let program = Program::new(
        "import os, pathlib, tempfile\n\
         work = pathlib.Path('/work')\n\
         (work / 'a').mkdir()\n\
         (work / 'a' / 'text').write_text('first\\nWörter\\n')\n\
         with open('/work/a/text') as file:\n\
         \x20   assert [line.strip() for line in file] == ['first', 'Wörter']\n\
         assert sorted(os.listdir('/work')) == ['a'] and [path.name for path in work.rglob('*')] == ['a', 'text']\n\
         assert os.stat('/work/a/text').st_size == 14\n\
         os.rename('/work/a/text', '/work/moved')\n\
         with tempfile.TemporaryFile(dir='/work') as file:\n\
         \x20   file.write(b'x'); file.seek(0); assert file.read() == b'x'\n\
         try:\n\
         \x20   open('/work/none')\n\
         except FileNotFoundError as error:\n\
         \x20   assert error.filename == '/work/none'\n\
         os.remove('/work/moved'); os.rmdir('/work/a')\n\
         print('all right')\n",
    );
    let report = program.run(&NONE, &json!({ "files": [{ "at": "/work", "memory": "1MiB" }] }));
    assert_eq!(printed(&report), ["all right"], "{report:#}");
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn an_allocation_beyond_the_memory_is_an_error() {
    let program = Program::new(
        "try:\n\
         \x20   bytearray(64 << 20)\n\
         except MemoryError:\n\
         \x20   print('first')\n\
         kept = []\n\
         try:\n\
         \x20   while True:\n\
         \x20       kept.append(bytes(1 << 16))\n\
         except MemoryError:\n\
         \x20   kept.clear()\n\
         print(len(bytearray(4 << 20)))\n",
    );
    let report = program.run(&json!({ "memory": "48MiB" }), &NONE);
    assert_eq!(printed(&report), ["first", "4194304"], "{report:#}");
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn the_library_is_no_part_of_an_instances_memory() {
    // It has 9 MiB, and the interpreter with what it imports here takes less than the step's memory leaves without them.
    let program = Program::new("import json\nprint(json.dumps([1]))\n");
    let report = program.run(&json!({ "memory": "14MiB", "instances": 2 }), &NONE);
    assert_eq!(report["status"], "done", "{report:#}");
    for instance in 0..2 {
        assert_eq!(lines(&report, instance, "stdout"), ["[1]"], "{report:#}");
    }
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn a_folder_with_packages_data_and_a_wheel() {
    let folder = TempDir::new().expect("a folder");
    let program = folder.path().join("program");
    for (path, text) in [
        (
            "main.py",
            "import importlib.metadata, importlib.resources\nimport package.inner, wheeled\n\
             print(package.inner.NAME, wheeled.value(), importlib.metadata.version('wheeled'))\n\
             print(importlib.resources.files('package').joinpath('data.txt').read_text())\n",
        ),
        ("package/__init__.py", ""),
        ("package/inner.py", "NAME = __name__\n"),
        ("package/data.txt", "data"),
    ] {
        let path = program.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    // The interpreter itself makes the wheel, compressed, as published ones are.
    let maker = Program::new(
        "import io, zipfile\nfrom monohull import slots\n\
         whole = io.BytesIO()\n\
         with zipfile.ZipFile(whole, 'w', zipfile.ZIP_DEFLATED) as wheel:\n\
         \x20   wheel.writestr('wheeled/__init__.py', 'def value():\\n    return 42\\n' + '#' * 1000)\n\
         \x20   wheel.writestr('wheeled-1.5.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: wheeled\\nVersion: 1.5\\n')\n\
         slots.put('wheel', whole.getvalue())\n",
    );
    let report = maker.run(&NONE, &json!({ "outputs": ["wheel"] }));
    assert_eq!(report["status"], "done", "{report:#}");
    let wheel = report["output"]["wheel"]["base64"].as_str().expect("bytes that are no text");
    let wheel = BASE64_STANDARD.decode(wheel).expect("base64");
    fs::write(program.join("wheeled-1.5-py3-none-any.whl"), wheel).expect("written");
    let built = monohull(folder.path(), &["build", "--wasi", "program", "--out", "."]);
    assert!(built.status.success(), "{}", words(&built.stderr));
    let document = json!({
        "name": "app",
        "functions": { "app": { "image": "program.so" } },
        "steps": [{ "name": "app", "function": "app" }],
    });
    fs::write(folder.path().join("workflow.json"), document.to_string()).expect("written");
    let output = monohull(folder.path(), &["run", "workflow.json", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(printed(&report), ["package.inner 42 1.5", "data"], "{report:#}");
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn an_error_of_syntax_is_found_when_it_is_built() {
    let program = Program::new("print('a'\n");
    let built = monohull(program.folder.path(), &["build", "--wasi", "app.py"]);
    assert_eq!(built.status.code(), Some(2));
    assert!(words(&built.stderr).contains("SyntaxError: '(' was never closed"), "{}", words(&built.stderr));
}

#[test]
fn only_a_program_in_python_is_built_so() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("app.js"), "").expect("written");
    let built = monohull(folder.path(), &["build", "--wasi", "app.js"]);
    assert_eq!(built.status.code(), Some(2));
    assert!(words(&built.stderr).contains("app.js is no Python program"), "{}", words(&built.stderr));
    let document = |target: &str| {
        let functions = json!({ "app": { "image": "app.js", "target": target } });
        json!({ "name": "app", "functions": functions, "steps": [{ "name": "app", "function": "app" }] })
    };
    for (target, why) in [("wasi", "app.js is no Python program"), ("wasm", "`target` is `wasm`")] {
        fs::write(folder.path().join("workflow.json"), document(target).to_string()).expect("written");
        for verb in ["run", "validate"] {
            let refused = monohull(folder.path(), &[verb, "workflow.json"]);
            let said = words(&[refused.stdout, refused.stderr].concat());
            assert!(!refused.status.success() && said.contains(why), "{verb}: {said}");
        }
    }
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn clients_answer_callbacks() {
    let program = Program::new(waits::ANSWERS);
    waits::check_answers(program.folder.path(), &json!({ "image": "app.py", "target": "wasi" }), monohull);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn an_effect_is_tried_again_with_its_key() {
    let program = Program::new(waits::ATTEMPTS);
    waits::check_attempts(program.folder.path(), &json!({ "image": "app.py", "target": "wasi" }), monohull);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python-wasi`"]
fn a_failure_for_good_has_one_attempt() {
    let folder = Program::new(waits::FAILS).folder;
    waits::check_failure(folder.path(), &json!({ "image": "app.py", "target": "wasi" }), monohull);
}
