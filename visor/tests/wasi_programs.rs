//! C programs of other projects as WebAssembly programs: their own tests, and the same inputs as to the native programs. What they print, the files that
//! they leave and how they end is the same, byte for byte.
//!
//! bzip2 and a part of SQLite's tests are built by `cargo xtask build`. The others are built by `cargo xtask build --c-programs-wasi`, so their tests are ignored where they are not asked
//! for: `cargo test -p monohull-visor --test wasi_programs -- --ignored`. `cargo xtask test --full` does both.

#[path = "wasi_programs/assemblyscript.rs"]
mod assemblyscript;
#[path = "wasi_programs/ffmpeg.rs"]
mod ffmpeg;
#[path = "support/jq_tests.rs"]
mod jq_tests;
mod support;

use monohull_visor::engine::RunOptions;
use monohull_visor::report::{RunReport, Silent, Status, Stream};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A part of what is built for these tests.
fn part(name: &str) -> PathBuf {
    support::root().join("target/wasi/programs").join(name)
}

/// A file of a source's tests.
fn test_file(name: &str) -> Vec<u8> {
    let path = part("tests").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}: it is built first", path.display()))
}

/// What a file holds. A difference is shown by how long it is and where it begins.
#[derive(Clone, PartialEq, Eq)]
struct Bytes(Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = String::from_utf8_lossy(&self.0[..self.0.len().min(60)]);
        write!(f, "{} bytes, {start:?}…", self.0.len())
    }
}

/// Files by name.
type Files = BTreeMap<String, Bytes>;

fn files<'a>(files: impl IntoIterator<Item = (&'a str, Vec<u8>)>) -> Files {
    files.into_iter().map(|(name, bytes)| (name.to_owned(), Bytes(bytes))).collect()
}

/// How a program ended, what it printed, and what it left in `/work`.
#[derive(PartialEq, Eq, Debug)]
struct Ran {
    error: Option<String>,
    out: Vec<String>,
    err: Vec<String>,
    files: Files,
}

impl Ran {
    /// It has succeeded.
    #[track_caller]
    fn well(self) -> Ran {
        assert_eq!(self.error, None, "{self:#?}");
        self
    }
}

/// Runs an image with these arguments, standard input and files in `/work`. The sources are at `/tests`.
fn ran(image: &Path, arguments: &[&str], input: &str, before: &Files) -> Ran {
    let work = tempfile::tempdir().expect("a folder");
    for (name, Bytes(bytes)) in before {
        fs::write(work.path().join(name), bytes).expect("written");
    }
    let document = json!({
        "name": "program",
        "functions": { "program": { "image": image } },
        "files": [
            { "at": "/work", "directory": work.path(), "access": "write" },
            { "at": "/tmp", "memory": "64MiB" },
            { "at": "/tests", "directory": part("tests"), "access": "read" },
        ],
        "steps": [{
            "name": "program", "function": "program", "args": { "argv": arguments }, "stdin": "input",
            // Two of jq's examples show the variable of an author's shell; one of Lua's tests asks for the path.
            "env": { "GREETING": "hello", "PAGER": "less", "PATH": "/bin" },
            "memory": "1GiB", "stack": "8MiB",
        }],
        "inputs": ["input"],
        "unread": "ignore",
        "limits": { "timeout": "300s" },
    });
    let inline_inputs = [("input".to_owned(), input.as_bytes().to_vec())].into();
    let options = RunOptions { inline_inputs, ..RunOptions::default() };
    let report = support::run_with(&document, &options, Arc::new(Silent));
    let mut after = Files::new();
    for entry in fs::read_dir(work.path()).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("UTF-8");
        after.insert(name, Bytes(fs::read(entry.path()).expect("a file")));
    }
    Ran {
        error: report.error.as_ref().map(|error| error.message.clone()),
        out: lines(&report, 0, Stream::Stdout),
        err: lines(&report, 0, Stream::Stderr),
        files: after,
    }
}

/// What the first instance of a step printed on a stream.
fn lines(report: &RunReport, step: usize, stream: Stream) -> Vec<String> {
    let instance = report.steps[step].instances.first();
    let lines = instance.into_iter().flat_map(|instance| &instance.lines);
    lines.filter(|line| line.stream == stream).map(|line| line.text.clone()).collect()
}

/// Runs a program in both ways, and compares them.
#[track_caller]
fn same(name: &str, arguments: &[&str], input: &str, before: &Files) -> Ran {
    let native = part("native").join(name).with_extension("so");
    let native = if native.exists() { native } else { support::image(name) };
    let native = ran(&native, arguments, input, before);
    let guest = ran(&part(name).with_extension("so"), arguments, input, before);
    assert_eq!(guest, native, "{name} {arguments:?}: WebAssembly, and native");
    guest
}

/// Runs a shipped workflow with this input, if it has one: what each step printed.
#[track_caller]
fn shipped(name: &str, input: Option<(&str, &str)>) -> Vec<Vec<String>> {
    let ready = support::shipped(&format!("wasi/{name}"));
    let inline_inputs = input.map(|(slot, text)| (slot.to_owned(), text.as_bytes().to_vec())).into_iter().collect();
    let _one = support::one_at_a_time();
    let options = RunOptions { inline_inputs, ..RunOptions::default() };
    let report = ready.run(&options, Arc::new(Silent)).expect("the host can hold a domain");
    let steps = 0..report.steps.len();
    let printed = |step| [lines(&report, step, Stream::Stdout), lines(&report, step, Stream::Stderr)].concat();
    let printed: Vec<_> = steps.map(printed).collect();
    assert_eq!(report.status, Status::Done, "{printed:#?} {:#?}", report.error);
    printed
}

mod bzip2 {
    use super::*;

    /// `make test` of its own makefile.
    #[test]
    fn its_own_tests() {
        for (number, level, unpack) in [(1, "-1", "-d"), (2, "-2", "-d"), (3, "-3", "-ds")] {
            let [plain, packed] = ["ref", "bz2"].map(|end| test_file(&format!("bzip2/sample{number}.{end}")));
            let ran = same("bzip2", &[level, "/work/a"], "", &files([("a", plain.clone())])).well();
            assert_eq!(ran.files, files([("a.bz2", packed.clone())]), "{number}");
            let ran = same("bzip2", &[unpack, "-k", "/work/a.bz2"], "", &files([("a.bz2", packed.clone())])).well();
            assert_eq!(ran.files, files([("a", plain), ("a.bz2", packed)]), "{number}");
        }
    }

    #[test]
    fn what_it_refuses() {
        let mut packed = test_file("bzip2/sample1.bz2");
        let whole = files([("a.bz2", packed.clone())]);
        let ran = same("bzip2", &["-tv", "/work/a.bz2"], "", &whole).well();
        assert!(ran.err.iter().any(|line| line.ends_with("ok")), "{ran:#?}");
        let both = files([("a.bz2", packed.clone()), ("a", b"here".to_vec())]);
        assert!(same("bzip2", &["-d", "/work/a.bz2"], "", &both).error.is_some());
        assert!(same("bzip2", &["-d", "/work/none.bz2"], "", &whole).error.is_some());
        let middle = packed.len() / 2;
        packed[middle] ^= 1;
        let ran = same("bzip2", &["-d", "/work/a.bz2"], "", &files([("a.bz2", packed)]));
        assert_eq!(ran.error.as_deref(), Some("exited with status 2"), "{ran:#?}");
    }

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn the_shipped_workflow_prints_what_it_has_packed() {
        let printed = shipped("bzip2", None);
        assert_eq!(printed[2], ["  /tmp/ships.csv.bz2: ok"]);
        assert_eq!((printed[3].len(), &*printed[3][999]), (1000, "\"ship 1000\",1000000"));
    }
}

mod xz {
    use super::*;

    /// What `test_files.sh` of its tests does: good files can be read, and bad and unsupported ones are refused.
    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn its_own_tests() {
        let mut good = 0;
        for entry in fs::read_dir(part("tests/xz/tests/files")).expect("a folder of the tests") {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            let Some(kind) = ["xz", "lz", "lzma"].into_iter().find(|kind| name.ends_with(&format!(".{kind}"))) else {
                continue;
            };
            let packed = format!("a.{kind}");
            let before = files([(&*packed, test_file(&format!("xz/tests/files/{name}")))]);
            let ran = same("xz", &["-d", "-k", &format!("/work/{packed}")], "", &before);
            assert_eq!(ran.error.is_none(), name.starts_with("good"), "{name}: {ran:#?}");
            good += usize::from(ran.error.is_none());
        }
        assert!(good > 30, "{good}");
    }

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn what_is_compressed_is_the_same_and_comes_back() {
        let plain = test_file("zstd/tests/golden-compression/http");
        for arguments in [
            &["-0"][..],
            &["-6"],
            &["-3e", "--check=sha256"],
            &["--x86", "--lzma2=preset=2"],
            &["--delta=dist=4", "--lzma2=preset=1", "--block-size=8192"],
        ] {
            let ran = same("xz", &[arguments, &["/work/a"]].concat(), "", &files([("a", plain.clone())])).well();
            assert_eq!(ran.files.keys().collect::<Vec<_>>(), ["a.xz"]);
            same("xz", &["--list", "--robot", "-v", "/work/a.xz"], "", &ran.files).well();
            assert_eq!(same("xz", &["-d", "/work/a.xz"], "", &ran.files).well().files, files([("a", plain.clone())]));
        }
    }

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn the_shipped_workflow_prints_what_it_has_packed() {
        let printed = shipped("xz", None);
        assert_eq!((printed[3].len(), &*printed[3][999]), (1000, "\"ship 1000\",1000000"));
    }
}

mod zstd {
    use super::*;

    /// Files of its tests in a folder, by name.
    fn golden(folder: &str) -> Files {
        let entries = fs::read_dir(part("tests/zstd/tests").join(folder)).expect("a folder of the tests");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
        names.map(|name| (name.clone(), Bytes(test_file(&format!("zstd/tests/{folder}/{name}"))))).collect()
    }

    /// All that its tests keep to be compressed, at several levels, and with a dictionary.
    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn what_is_compressed_is_the_same_and_comes_back() {
        let plain = golden("golden-compression");
        assert_eq!(plain.len(), 4);
        let mut dictionaries = golden("golden-dictionaries").into_values();
        let (Some(dictionary), None) = (dictionaries.next(), dictionaries.next()) else { panic!("one dictionary") };
        let there_and_back = |name: &str, Bytes(bytes): &Bytes, more: &[&str]| {
            let before = [("a", bytes.clone()), ("d", dictionary.0.clone())];
            let ran = same("zstd", &[&["-q", "/work/a", "-o", "/work/z"], more].concat(), "", &files(before)).well();
            let packed = ran.files["z"].0.clone();
            let before = files([("z", packed.clone()), ("d", dictionary.0.clone())]);
            let more = if more.contains(&"-D") { more } else { &[] };
            let ran = same("zstd", &[&["-q", "-d", "/work/z", "-o", "/work/b"], more].concat(), "", &before).well();
            assert_eq!(ran.files["b"].0, *bytes, "{name} {more:?}");
        };
        for (name, bytes) in &plain {
            for level in ["-1", "-3", "-9", "-19", "--fast=3"] {
                there_and_back(name, bytes, &[level]);
            }
            there_and_back(name, bytes, &["-5", "--long=24", "--no-check"]);
        }
        there_and_back("http", &plain["http"], &["-D", "/work/d"]);
    }

    /// What it must read, and what it must refuse.
    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn its_golden_files_for_decompression() {
        for (folder, fine) in [("golden-decompression", true), ("golden-decompression-errors", false)] {
            for (name, bytes) in golden(folder) {
                let before = files([("a.zst", bytes.0)]);
                let ran = same("zstd", &["-d", "--no-progress", "/work/a.zst"], "", &before);
                assert_eq!(ran.error.is_none(), fine, "{name}: {ran:#?}");
            }
        }
    }

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn the_shipped_workflow_prints_what_it_has_packed() {
        let text = "a line\nanother one\n".repeat(100);
        let printed = shipped("zstd", Some(("text", &text)));
        assert_eq!((printed[0].len(), printed[1].len(), &*printed[1][199]), (0, 200, "another one"));
    }
}

mod jq {
    use super::*;

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn its_own_tests() {
        for (file, tests) in super::jq_tests::FILES {
            let path = format!("/tests/jq/tests/{file}");
            let arguments = ["-L", "/tests/jq/tests/modules", "--run-tests", &path];
            let ran = same("jq", &arguments, "", &Files::new()).well();
            let last = format!("{tests} of {tests} tests passed (0 malformed, 0 skipped)");
            assert_eq!(ran.out.last(), Some(&last), "{file}");
        }
    }

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn programs_files_and_errors() {
        let input = "{\"a\": [1, 2.5, 100000000000000000000], \"b\": \"ä\\u0000\"}\n[]\n";
        for arguments in [
            &["."][..],
            &["--compact-output", "--sort-keys", "., keys?"],
            &["--color-output", "."],
            &["--slurp", "--tab", "map(type)"],
            &["--raw-input", "length"],
            &["-n", "[inputs | .a? // .] | @base64 \"\\(.)\""],
            &["-n", "env.GREETING, $__prog_args, now > 0"],
            &["--arg", "x", "1", "--argjson", "y", "{\"z\": 2}", "-n", "$x, $y, $ARGS.named"],
            &["-e", ".none"],
            &[
                "-c",
                "-n",
                "\"Argo, 16 t\" | capture(\"(?<name>\\\\w+), (?<mass>[0-9]+)\"), [scan(\"[a-z]+\")], test(\"(\")",
            ],
            &["-f", "/work/program", "/work/data"],
            &[".a[0] | strftime(\"%A, %B %d, %Y\")"],
            &["-n", "\"2026-11-26T12:00:00Z\" | fromdate, strptime(\"%Y-%m-%dT%H:%M:%SZ\")"],
            &["-n", "1 | error"],
            &["-n", "{} | .a.b.c[3] |= 5, [limit(5; repeat(1))], (1e1000 | tostring), ([1, 2] | sin?)"],
            &[".", "/work/none"],
            &["{"],
        ] {
            let before = files([("program", b".[] | . * 2".to_vec()), ("data", b"[1, 2, 3]".to_vec())]);
            same("jq", arguments, input, &before);
        }
    }

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn the_shipped_workflow_adds_up() {
        let orders =
            r#"[{"customer":"Ada","price":3.5},{"customer":"Grace","price":12},{"customer":"Ada","price":16.25}]"#;
        let printed = shipped("jq", Some(("orders", orders)));
        assert_eq!(printed[0], ["{\"customer\":\"Ada\",\"total\":19.75}", "{\"customer\":\"Grace\",\"total\":12}"]);
    }
}

mod sqlite {
    use super::*;

    /// Runs what fuzzers have found, databases and scripts of SQLite's own tests, natively and as WebAssembly: what is printed of each, without what
    /// says how long it took and how long pointers are.
    #[track_caller]
    fn passes(database: u32, tests: u32) {
        // Where it can be written to: SQLite for WASI locks a database by a folder beside it.
        let name = format!("fuzzdata{database}.db");
        let before = files([(&*name, test_file(&format!("sqlite/test/{name}")))]);
        let path = format!("/work/{name}");
        let arguments = ["-v", &*path];
        let [guest, native] = ["fuzzcheck.so", "native/fuzzcheck.so"].map(|image| {
            let mut ran = ran(&part(image), &arguments, "", &before).well();
            for line in &mut ran.out {
                let end = if line.starts_with("fuzzcheck: ") { " in " } else { " (" };
                let end = line.find(end).filter(|_| line.starts_with("fuzzcheck: ") || line.starts_with("SQLite 3"));
                line.truncate(end.unwrap_or(line.len()));
            }
            // Natively it is told that there are no timers, which it asks for.
            ran.err.retain(|line| !line.starts_with("monohull: "));
            ran
        });
        assert_eq!(guest, native, "WebAssembly, and native: {arguments:?}");
        let said = format!("fuzzcheck: 0 errors out of {tests} tests");
        assert!(guest.out.contains(&said), "{guest:#?}");
    }

    #[test]
    fn a_sample_of_its_own_tests() {
        passes(4, 2575);
    }

    #[test]
    #[ignore = "a minute on one processor: `cargo xtask test --full`"]
    fn all_of_its_own_tests() {
        for (database, tests) in [(1, 9917), (2, 9959), (3, 2316), (5, 8834), (6, 3896), (7, 8145), (8, 746)] {
            passes(database, tests);
        }
    }

    /// Its other tests are scripts for an interpreter that WASI has no place for; these are compared with the native shell, and the database with its
    /// database.
    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn scripts_print_the_same_and_leave_the_same_database() {
        let scripts = [
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);\n\
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) INSERT INTO t SELECT i, 'row ' || i FROM n;\n\
             CREATE INDEX by_b ON t (b);\n\
             SELECT count(*), sum(a), max(b), (SELECT a FROM t WHERE b = 'row 4321') FROM t;\n\
             BEGIN; DELETE FROM t WHERE a > 10; SELECT count(*) FROM t; ROLLBACK; SELECT count(*) FROM t;\n\
             DELETE FROM t WHERE a % 3 = 0; VACUUM; PRAGMA integrity_check;\n",
            "CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES ('the quick fox'), ('a slow dog'); SELECT x FROM f WHERE f MATCH 'qui*';\n\
             CREATE VIRTUAL TABLE r USING rtree(id, a, b); INSERT INTO r VALUES (1, 0, 5), (2, 4, 9); SELECT id FROM r WHERE a < 3;\n\
             SELECT json_extract('{\"a\": [1, 2]}', '$.a[1]'), sqrt(16), sin(1), datetime('2026-11-24', '+1 day');\n",
            ".mode json\nCREATE TABLE t (a, b);\nINSERT INTO t VALUES (1, 'x'), (2.5, x'00ff'), (NULL, 'ä');\nSELECT * FROM t;\n\
             .mode box\nSELECT * FROM t;\n.mode insert\nSELECT * FROM t;\n.schema\n.dump\n.tables\nEXPLAIN QUERY PLAN SELECT * FROM t;\n",
            ".import --csv /work/ships.csv ships\nSELECT count(*), sum(tons) FROM ships;\n.headers on\nSELECT * FROM ships ORDER BY tons DESC;\n\
             .output /work/out.txt\nSELECT name FROM ships;\n.output\n.backup /work/copy.db\n.read /work/more.sql\n",
            "SELECT count(*) FROM (SELECT value FROM generate_series(1, 100000)) WHERE value % 7 = 3;\n\
             WITH RECURSIVE x(n, a) AS (SELECT 0, 1.0 UNION ALL SELECT n + 1, a * 1.0001 FROM x WHERE n < 5000) SELECT printf('%.10f', max(a)) FROM x;\n\
             SELECT round(avg(value), 3), group_concat(value, '-') FROM generate_series(1, 9);\n\
             SELECT value, sum(value) OVER (ORDER BY value ROWS 2 PRECEDING), rank() OVER (ORDER BY value % 3) FROM generate_series(1, 9);\n",
            "CREATE TABLE a (x UNIQUE CHECK (x > 0)); INSERT INTO a VALUES (1);\nINSERT INTO a VALUES (1);\nINSERT INTO a VALUES (-1);\nSELECT nothing;\n\
             SELEC 1;\nSELECT * FROM a;\n",
            // More than is kept in memory goes to a temporary file.
            "PRAGMA temp_store = 1; PRAGMA cache_size = 4; PRAGMA temp.cache_size = 4; CREATE TEMP TABLE t (a, b); CREATE TABLE u (a);\n\
             INSERT INTO t SELECT value, hex(zeroblob(500)) FROM generate_series(1, 5000); INSERT INTO u SELECT a FROM t ORDER BY -a;\n\
             SELECT count(*), sum(a), sum(length(b)), (SELECT sum(a) FROM u) FROM t;\n",
        ];
        let more = "CREATE TRIGGER t AFTER DELETE ON ships BEGIN INSERT INTO ships VALUES (old.name || ' II', 1); END;\n\
                    DELETE FROM ships WHERE tons < 100; SELECT * FROM ships;\n";
        for script in scripts {
            let before = files([
                ("ships.csv", b"name,tons\nCutty Sark,963\n\"Sea, Witch\",908\nThermopylae,991\n".to_vec()),
                ("more.sql", more.as_bytes().to_vec()),
            ]);
            let ran = same("sqlite3", &["-init", "/dev/null", "-batch", "/work/a.db"], script, &before);
            assert!(ran.files.contains_key("a.db") || script.contains("generate_series"), "{ran:#?}");
        }
    }

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn the_shipped_workflows_answer() {
        let printed = shipped("sqlite3", Some(("orders", "Ada,3.50\nGrace,12\nAda,16.25\n")));
        assert_eq!(printed[0], ["Ada,2,19.75", "Grace,1,12.00"]);
        let printed = shipped("minigzip", None);
        assert_eq!(
            (&printed[2][..], &printed[4][..]),
            (&["/tmp/ships.db.gz|1".to_owned()][..], &["1000|ship 999".to_owned()][..])
        );
    }
}

mod zlib {
    use super::*;

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn its_own_tests() {
        let [guest, native] = ["example.so", "native/example.so"].map(|image| {
            let mut ran = ran(&part(image), &["/tmp/foo.gz"], "", &Files::new()).well();
            // How long numbers and pointers are, in one number.
            ran.out.retain(|line| !line.contains("compile flags = "));
            ran
        });
        assert_eq!(guest, native);
        for test in ["gzread(): hello, hello!", "large_inflate(): OK", "inflate with dictionary: hello, hello!"] {
            assert!(guest.out.iter().any(|line| line == test), "{test}: {guest:#?}");
        }
        // It prints how much memory it has used, which is less where pointers are shorter.
        let ran = ran(&part("infcover.so"), &[], "", &Files::new()).well();
        assert!(ran.err.iter().chain(&ran.out).any(|line| line.starts_with("inflate_fast")), "{ran:#?}");
    }

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn files_are_packed_alike() {
        let plain = test_file("zstd/tests/golden-compression/http");
        let mut packed = same("minigzip", &["-9", "/work/a"], "", &files([("a", plain.clone())])).well().files;
        assert_eq!(packed.keys().collect::<Vec<_>>(), ["a.gz"]);
        let ran = same("minigzip", &["-d", "/work/a.gz"], "", &packed).well();
        assert_eq!(ran.files, files([("a", plain)]));
        let damaged = packed.get_mut("a.gz").expect("is there");
        let middle = damaged.0.len() / 2;
        damaged.0[middle] ^= 1;
        same("minigzip", &["-d", "/work/a.gz"], "", &packed);
    }
}

mod lua {
    use super::*;

    /// As natively without what its authors call not portable (processes, and a library of their own) and heavy. Two fail, for what
    /// `docs/wasi.md` says.
    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn its_own_tests() {
        let (mut tests, mut failed) = (0, BTreeMap::new());
        for entry in fs::read_dir(part("tests/lua")).expect("a folder of the tests") {
            let file = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            // One file runs the others, in one program.
            let Some(name) = file.strip_suffix(".lua").filter(|name| *name != "all") else { continue };
            let settings = "_port = true; _soft = true; package.path = '/tests/lua/?.lua'";
            let ran = ran(&part("lua.so"), &["-e", settings, &format!("/tests/lua/{file}")], "", &Files::new());
            if ran.error.is_some() {
                failed.insert(name.to_owned(), ran);
            }
            tests += 1;
        }
        assert_eq!(
            (tests, failed.keys().map(String::as_str).collect()),
            (32, vec!["attrib", "literals"]),
            "{failed:#?}"
        );
    }

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn the_language_and_its_libraries() {
        let script = include_str!("c_programs/basics.lua");
        assert_eq!(same("lua", &["-", "an argument"], script, &Files::new()).well().out, ["70 checks"]);
    }

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn errors_leave_calls_of_c() {
        let script = include_str!("c_programs/errors.lua");
        let ran = same("lua", &["-"], script, &Files::new()).well();
        assert_eq!(ran.out[0], "false\tdeep");
    }

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn how_a_script_ends() {
        for script in
            ["local order\nprint(order.price)\n", "os.exit(3)", "error({})", "print(", "io.stderr:write('x')", ""]
        {
            same("lua", &["-"], script, &Files::new());
        }
        same("lua", &["/work/none.lua"], "", &Files::new());
        let before = files([("a.lua", b"for line in io.lines() do print(#line, line) end".to_vec())]);
        same("lua", &["/work/a.lua"], "one\ntwo\n", &before).well();
        same("lua", &["-v", "-e", "print(#arg, _VERSION)"], "", &Files::new()).well();
    }

    #[test]
    #[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
    fn the_shipped_workflow_adds_up() {
        let printed = shipped("lua", Some(("orders", "Ada 3.50\nGrace 12\nnot an order\nAda 16.25\n")));
        assert_eq!(printed[0], ["1. Ada         19.75", "2. Grace       12.00", "skipped: not an order"]);
    }
}
