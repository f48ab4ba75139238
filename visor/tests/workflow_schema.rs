//! The published JSON Schema is the one the types give, and agrees with the checker about every shipped workflow.

use std::fs;
use std::path::{Path, PathBuf};

use monohull_visor::workflow;
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows")
}

fn published() -> Value {
    let text = fs::read_to_string(folder().join("workflow.schema.json")).expect("the published schema");
    serde_json::from_str(&text).expect("JSON")
}

/// Every workflow file below the folder.
fn shipped(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_workflow =
        |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(".json") && !path.ends_with(".schema.json"));
    let below = folders.iter().flat_map(|folder| shipped(folder)).collect::<Vec<_>>();
    files.into_iter().filter(is_workflow).chain(below).collect()
}

#[test]
fn the_published_schema_is_up_to_date() {
    assert!(published() == workflow::schema(), "run: monohull schema > workflows/workflow.schema.json");
    let text = fs::read_to_string(folder().join("grants.schema.json")).expect("the published schema of grants");
    let grants: Value = serde_json::from_str(&text).expect("JSON");
    assert!(grants == workflow::grants::schema(), "run: monohull schema --grants > workflows/grants.schema.json");
}

#[test]
fn schema_and_reader_of_grants_refuse_the_same() {
    let schema = jsonschema::validator_for(&workflow::grants::schema()).expect("a schema");
    let host = tempfile::TempDir::new().expect("a folder");
    let (data, image) = (host.path().join("data"), host.path().join("disk.img"));
    fs::create_dir(&data).expect("made");
    fs::write(&image, "").expect("written");
    fs::write(host.path().join("key"), "hunter2hunter2").expect("written");
    let all = json!(["*"]);
    for (field, value, valid) in [
        ("files", json!({ "a": { "directory": data, "workflows": all } }), true),
        ("files", json!({ "a": { "directory": "data", "access": "write", "workflows": ["w", "x-1"] } }), true),
        ("files", json!({ "a": { "image": image, "access": "read", "workflows": all } }), true),
        ("files", json!({ "a": { "image": image, "access": "copy", "workflows": all } }), false),
        ("files", json!({ "a": { "directory": data } }), false),
        ("files", json!({ "a": { "directory": data, "workflows": [] } }), false),
        ("files", json!({ "a": { "directory": data, "workflows": ["a b"] } }), false),
        ("files", json!({ "a": { "directory": data, "workflows": ["w", "w"] } }), false),
        ("files", json!({ "a": { "directory": data, "image": image, "workflows": all } }), false),
        ("files", json!({ "a": { "workflows": all } }), false),
        ("files", json!({ "a b": { "directory": data, "workflows": all } }), false),
        ("files", json!([]), false),
        ("networks", json!({ "n": { "network": "tap", "workflows": all } }), true),
        (
            "networks",
            json!({ "n": { "network": { "mode": "host", "connect": ["a.example:1"] }, "workflows": all } }),
            true,
        ),
        ("networks", json!({ "n": { "network": { "mode": "host", "https": ["a.example"] }, "workflows": all } }), true),
        ("networks", json!({ "n": { "network": { "grant": "m" }, "workflows": all } }), false),
        ("networks", json!({ "n": { "network": "tap" } }), false),
        ("networks", json!({ "n": { "workflows": all } }), false),
        ("secrets", json!({ "s": { "file": "key", "workflows": all } }), true),
        ("secrets", json!({ "s": { "environment": "PATH", "workflows": all } }), true),
        ("secrets", json!({ "s": { "file": "key", "environment": "PATH", "workflows": all } }), false),
        ("secrets", json!({ "s": { "file": "key" } }), true),
        ("secrets", json!({ "s": { "file": "key", "workflows": [] } }), false),
        ("secrets", json!({ "s": { "workflows": all } }), false),
        ("secrets", json!({ "s": { "value": "hunter2hunter2", "workflows": all } }), false),
        ("extra", json!(1), false),
        ("description", json!("what for"), true),
        ("$schema", json!("grants.schema.json"), true),
    ] {
        let document = json!({ field: value });
        let file = host.path().join("grants.json");
        fs::write(&file, document.to_string()).expect("written");
        let read = workflow::grants::Grants::load(&file);
        assert_eq!((schema.is_valid(&document), read.is_ok()), (valid, valid), "{document}: {read:?}");
    }
}

#[test]
fn shipped_workflows_pass_schema_and_checker() {
    let schema = jsonschema::validator_for(&published()).expect("a schema");
    let files = shipped(&folder());
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).expect("readable");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let errors: Vec<_> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", file.display());
        let checked = workflow::check_file(&file).expect("readable");
        assert!(checked.plan.is_some() && checked.mistakes.is_empty(), "{:#?}", checked.mistakes);
    }
}

#[test]
fn schema_and_checker_refuse_the_same() {
    let schema = jsonschema::validator_for(&workflow::schema()).expect("a schema");
    let good = json!({
        "name": "w",
        "functions": { "f": { "image": "f.so" } },
        "steps": [{ "name": "s", "function": "f" }]
    });
    let accepted = |value: &Value| {
        let by_checker = workflow::load_str(Path::new("w.json"), &value.to_string()).is_ok();
        assert_eq!(schema.is_valid(value), by_checker, "{value}");
        by_checker
    };
    assert!(accepted(&good));
    for (field, value, valid) in [
        ("instances", json!(0), false),
        ("instances", json!(100_000), true),
        ("instances", json!(100_001), false),
        ("instances", json!(null), false),
        ("instances", json!({ "each": "part.*" }), false),
        ("instances", json!({ "each": "part.", "max": 3 }), false),
        ("instances", json!({ "each": "*", "max": 3 }), false),
        ("instances", json!({ "each": "part.*", "max": 100_001 }), false),
        ("args", json!([]), false),
        ("args", json!({ "a": [{}] }), true),
        ("env", json!({ "A": 1 }), false),
        ("secrets", json!({ "A": "key" }), true),
        ("secrets", json!({ "A": "a b" }), false),
        ("secrets", json!(["key"]), false),
        ("timeout", json!("30s"), true),
        ("timeout", json!("30"), false),
        ("timeout", json!(30), false),
        ("memory", json!("64MiB"), true),
        ("memory", json!(1 << 26), true),
        ("memory", json!("64MB"), false),
        ("memory", json!(-1), false),
        ("stack", json!(true), false),
        ("stdin", json!("input"), true),
        ("stdin", json!(""), false),
        ("stdin", json!(["input"]), false),
        ("after", json!(["s2", "s2"]), false),
        ("handles", json!("a b"), false),
        ("handles", json!(["blob"]), false),
        ("performs", json!([]), true),
        ("performs", json!(["blob", "blob"]), false),
        ("performs", json!("blob"), false),
        ("files", json!([]), true),
        ("files", json!(["a"]), false),
        ("files", json!({}), false),
        ("retry", json!({}), false),
        ("retry", json!({ "max_attempts": 2, "backoff_rate": 0.5 }), false),
        ("retry", json!({ "max_attempts": 2, "on": ["panic"] }), true),
        ("retry", json!({ "max_attempts": 2, "on": ["boredom"] }), false),
        ("colour", json!("red"), false),
    ] {
        let mut document = good.clone();
        document["steps"][0][field] = value;
        assert_eq!(accepted(&document), valid, "{document}");
    }
    for (field, value, valid) in [
        ("name", json!("a b"), false),
        ("functions", json!({ "a b": { "image": "x" } }), false),
        ("steps", json!([]), false),
        ("inputs", json!(["a", { "slot": "b", "path": "x" }]), true),
        ("inputs", json!([""]), false),
        ("inputs", json!(["a=b"]), false),
        ("inputs", json!([{ "slot": "b", "file": "x" }]), false),
        ("outputs", json!(["a", { "slot": "b" }]), true),
        ("outputs", json!([{ "slot": "b", "path": "x" }]), false),
        ("http", json!({ "request": "a" }), false),
        ("http", json!({ "request": "a", "response": "" }), false),
        ("http", json!("a"), false),
        ("unread", json!("warn"), true),
        ("unread", json!("maybe"), false),
        ("unread", json!({ "default": "ignore", "slots": { "part.*": "fail" } }), true),
        ("unread", json!({ "slots": { "a=b": "fail" } }), false),
        ("unread", json!({ "slots": { "a": true } }), false),
        ("unread", json!({ "slots": ["a"] }), false),
        ("unread", json!({ "otherwise": "fail" }), false),
        ("network", json!("host"), true),
        ("network", json!("tap"), true),
        ("network", json!("hots"), false),
        ("network", json!({ "mode": "host", "connect": ["10.0.0.0/8:*", "[::1]:1-2"], "listen": ["0.0.0.0:0"] }), true),
        ("network", json!({ "connect": [] }), false),
        ("network", json!({ "mode": "host", "connect": ["10.0.0.1"] }), false),
        ("network", json!({ "mode": "host", "connect": [":80"] }), false),
        ("network", json!({ "mode": "host", "connect": ["::1:80"] }), false),
        ("network", json!({ "mode": "host", "listen": ["a:1", "a:1"] }), false),
        ("isolation", json!("function"), true),
        ("isolation", json!("none"), false),
        ("limits", json!({ "carriers": 33 }), false),
        ("limits", json!({ "threads": 5, "timeout": "1m", "slots": "1GiB", "output": 0, "carriers": 1 }), true),
        ("files", json!([]), true),
        ("files", json!([{ "at": "/", "memory": "1MiB" }, { "at": "/a b/ä", "memory": 65536 }]), true),
        ("files", json!([{ "at": "tmp", "memory": "1MiB" }]), false),
        ("files", json!([{ "at": "", "memory": "1MiB" }]), false),
        ("files", json!([{ "at": "/tmp/", "memory": "1MiB" }]), false),
        ("files", json!([{ "at": "/a//b", "memory": "1MiB" }]), false),
        ("files", json!([{ "at": "/a/../b", "memory": "1MiB" }]), false),
        ("files", json!([{ "at": "/..", "memory": "1MiB" }]), false),
        ("files", json!([{ "at": "/...", "memory": "1MiB" }]), true),
        ("files", json!([{ "at": "/a\u{0}", "memory": "1MiB" }]), false),
        ("files", json!([{ "at": "/tmp" }]), false),
        ("files", json!([{ "at": "/tmp", "memory": true }]), false),
        ("files", json!([{ "at": "/tmp", "memory": "1MiB", "colour": 1 }]), false),
        ("files", json!([{ "at": "/data", "image": "disk.img" }]), true),
        ("files", json!([{ "at": "/data", "image": "disk.img", "access": "write" }]), true),
        ("files", json!([{ "at": "/data", "image": "disk.img", "access": "delete" }]), false),
        ("files", json!([{ "at": "/data", "image": "" }]), false),
        ("files", json!([{ "at": "/data", "image": "disk.img", "memory": "1MiB" }]), false),
        ("files", json!([{ "at": "/data", "memory": "1MiB", "access": "read" }]), false),
        (
            "files",
            json!([{ "at": "/data", "grant": "reports" }, { "at": "/d", "grant": "disk", "access": "copy" }]),
            true,
        ),
        ("files", json!([{ "at": "/data", "grant": "a b" }]), false),
        ("files", json!([{ "at": "/data", "grant": "a", "directory": "d" }]), false),
        ("network", json!({ "mode": "host", "https": ["api.example", { "host": "b.example", "steps": ["s"] }] }), true),
        (
            "network",
            json!({ "mode": "host", "https": [{ "host": "a.example", "port": 8443, "headers": {
                "x-a": "1", "x-b": { "environment": "A", "prefix": "Bearer " }, "x-c": { "file": "key" },
            } }] }),
            true,
        ),
        ("network", json!({ "mode": "host", "https": ["192.0.2.1"] }), false),
        ("network", json!({ "mode": "host", "https": ["api.example:443"] }), false),
        ("network", json!({ "mode": "host", "https": [{ "port": 443 }] }), false),
        ("network", json!({ "mode": "host", "https": [{ "host": "a.example", "port": 0 }] }), false),
        ("network", json!({ "mode": "host", "https": [{ "host": "a.example", "steps": [] }] }), false),
        ("network", json!({ "mode": "host", "https": [{ "host": "a.example", "headers": { "a b": "1" } }] }), false),
        ("network", json!({ "mode": "host", "https": [{ "host": "a.example", "headers": { "a": {} } }] }), false),
        ("network", json!({ "grant": "api" }), true),
        ("network", json!({ "grant": "a b" }), false),
        ("network", json!({ "grant": "api", "mode": "host" }), false),
        ("files", json!("/tmp"), false),
        ("$schema", json!("workflow.schema.json"), true),
        ("extra", json!(1), false),
    ] {
        let mut document = good.clone();
        document[field] = value;
        assert_eq!(accepted(&document), valid, "{document}");
    }
}
