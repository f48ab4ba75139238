//! What hostile clients, other tenants and damaged files can do to the durable invocations of a server.

#[path = "support/database.rs"]
mod database;
#[path = "support/program.rs"]
mod program;
mod serve_support;

use database::exchange;
use serde_json::{Value, json};
use serve_support::{Server, StateFolder, eventually, single};
use std::fs;
use std::path::PathBuf;

const OPTIONS: [&str; 2] = ["--suspend", "1s"];

/// A server with `inbox`, of which the invocation `one` waits for the event `a`.
fn server_on(state: &StateFolder, env: &[(&str, &str)]) -> Server {
    let server = Server::start_on(state, &OPTIONS, env);
    let bearer = env.first().map(|(_, token)| format!("Bearer {token}"));
    let headers: Vec<_> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    let ask = |method: &str, path: &str, body: &[u8]| server.ask_with(method, path, &headers, body);
    assert_eq!(ask("PUT", "/functions/inbox", &serve_support::image_bytes("inbox")).status, 201);
    let args = json!({ "events": ["a"], "fills": "result" });
    let document = single("inbox", "inbox", &json!({ "args": args, "outputs": ["result"] })).to_string();
    assert_eq!(ask("PUT", "/workflows/inbox", document.as_bytes()).status, 201);
    ask("POST", "/async-invoke/inbox?id=one", b"").expect(202);
    eventually("it waits", || ask("GET", "/invocations/one", b"").json()["status"] == "suspended");
    server
}

/// Changes the bytes of a file.
type Damage = fn(&mut Vec<u8>);

/// What a server says that does not start on a state folder.
fn refusal(state: &StateFolder) -> String {
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_monohull"));
    let output = program.args(["serve", "--listen", "127.0.0.1:0", "--state"]).arg(state.path()).output();
    let output = output.expect("monohull starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    said
}

/// Whatever part of the database is damaged: the server does not start, changes nothing, and says what to do. What it says works.
#[test]
fn a_damaged_database_is_left_as_it_is_and_a_backup_goes_on() {
    let state = StateFolder::new();
    let server = server_on(&state, &[]);
    assert_eq!(server.stop().0, Some(0));
    let durable = state.path().join("durable");
    let database = durable.join("meta.sqlite");
    let whole = fs::read(&database).expect("a database");
    let backup = StateFolder::new();
    let copied = std::process::Command::new("cp").arg("-a").arg(state.path().join(".")).arg(backup.path()).status();
    assert!(copied.expect("cp runs").success());
    let damages: [Damage; 4] = [
        |bytes| bytes[..100].fill(b'x'),
        |bytes| bytes.truncate(bytes.len() / 2),
        // The pages of the tables, after that of their names.
        |bytes| bytes[4096..].fill(0x55),
        |bytes| bytes.truncate(50),
    ];
    for (number, damage) in damages.iter().enumerate() {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(&database, &bytes).expect("written");
        let said = refusal(&state);
        assert!(
            said.contains("Put a backup in the place") && said.contains(durable.to_str().expect("UTF-8")),
            "{number}: {said}"
        );
        assert_eq!(fs::read(&database).expect("a file"), bytes, "{number}: it is left as it is");
    }
    // One of the two ways: without the durable invocations, all else is there.
    fs::rename(&durable, state.path().join("away")).expect("moved");
    let server = Server::start_on(&state, &OPTIONS, &[]);
    server.get("/invocations/one").error(404, "not-found", "client");
    server.get("/workflows/inbox").expect(200);
    assert_eq!(server.stop().0, Some(0));
    // The other one: the invocation goes on.
    let server = Server::start_on(&backup, &OPTIONS, &[]);
    server.post("/invocations/one/events/a", b"it").expect(202);
    let result = server.get("/invocations/one/outputs/result?wait=120s").expect(200).text();
    assert_eq!(result, "a: it\n");
}

/// Without the key of checkpoints a server does not start and makes no other key, while invocations have checkpoints that it has sealed.
#[test]
fn a_key_that_is_missing_is_not_made_anew_while_invocations_wait() {
    let state = StateFolder::new();
    let server = server_on(&state, &[]);
    assert_eq!(server.stop().0, Some(0));
    let (key, away) = (state.path().join("checkpoint.key"), state.path().join("away.key"));
    fs::rename(&key, &away).expect("moved");
    let said = refusal(&state);
    let named =
        said.contains(key.to_str().expect("UTF-8")) && said.contains("missing") && said.contains("1 invocation");
    assert!(named && !key.exists(), "{said}");
    fs::rename(&away, &key).expect("moved");
    let server = Server::start_on(&state, &OPTIONS, &[]);
    server.post("/invocations/one/events/a", b"it").expect(202);
    assert_eq!(server.get("/invocations/one/outputs/result?wait=120s").expect(200).text(), "a: it\n");
    // The control: once none waits, a key is made.
    assert_eq!(server.stop().0, Some(0));
    fs::remove_file(&key).expect("removed");
    assert_eq!(Server::start_on(&state, &OPTIONS, &[]).stop().0, Some(0));
    assert!(key.exists());
}

/// Each route of an invocation, with a body that it takes.
const ROUTES: [(&str, &str, &str); 12] = [
    ("GET", "", ""),
    ("DELETE", "", ""),
    ("GET", "/logs", ""),
    ("GET", "/outputs/result", ""),
    ("GET", "/checkpoints", ""),
    ("POST", "/events/a", "x"),
    ("POST", "/pause", ""),
    ("POST", "/resume", ""),
    ("POST", "/cancel", ""),
    ("POST", "/purge", ""),
    ("POST", "/fork", "{}"),
    ("POST", "/rewind", "{\"to\":1}"),
];

#[track_caller]
fn is_untouched(shown: &Value) {
    let state = (&shown["status"], &shown["mail"], &shown["generation"], &shown["forks"]);
    assert_eq!(state, (&json!("suspended"), &json!(0), &json!(1), &json!([])), "{shown:#}");
}

/// All clients with the token are one tenant; one without it, and another site's page, is none.
#[test]
fn without_the_token_nothing_is_seen_or_changed() {
    let server = server_on(&StateFolder::new(), &[("MONOHULL_TOKEN", "secret")]);
    let right = ("Authorization", "Bearer secret");
    for (method, route, body) in ROUTES {
        let path = format!("/invocations/one{route}");
        for headers in [&[][..], &[("Authorization", "Bearer wrong")]] {
            let refusal = server.ask_with(method, &path, headers, body.as_bytes()).expect(401).text();
            assert!(!refusal.contains("inbox") && !refusal.contains("suspended"), "{refusal}");
        }
    }
    is_untouched(&server.ask_with("GET", "/invocations/one", &[right], b"").expect(200).json());
}

#[test]
fn another_sites_page_changes_nothing() {
    let server = server_on(&StateFolder::new(), &[]);
    for (method, route, body) in ROUTES {
        let path = format!("/invocations/one{route}");
        let origin = [("Origin", "https://evil.example")];
        server.ask_with(method, &path, &origin, body.as_bytes()).error(403, "forbidden", "client");
        if method != "GET" {
            let header = ("Sec-Fetch-Site", "cross-site");
            server.ask_with(method, &path, &[header], body.as_bytes()).error(403, "forbidden", "client");
        }
    }
    is_untouched(&server.get("/invocations/one").expect(200).json());
}

/// Tenants have servers of their own. What one knows of the other's ids, keys and files does not help it.
#[test]
fn another_tenants_invocation_is_out_of_reach() {
    let (mine, theirs) = (StateFolder::new(), StateFolder::new());
    let victim = server_on(&theirs, &[]);
    victim.post("/async-invoke/inbox?id=theirs", b"").expect(202);
    eventually("it waits", || victim.get("/invocations/theirs").json()["status"] == "suspended");
    let server = server_on(&mine, &[]);
    let tricks = [
        "theirs".to_owned(),
        "..%2Ftheirs".to_owned(),
        format!("..%2F..%2F..{}", theirs.path().display().to_string().replace('/', "%2F")),
        "one%00".to_owned(),
        "one'%20OR%201=1--".to_owned(),
        "%25".to_owned(),
        "_".to_owned(),
    ];
    for id in &tricks {
        for (method, route, body) in ROUTES {
            let path = format!("/invocations/{id}{route}");
            server.ask(method, &path, body.as_bytes()).error(404, "not-found", "client");
        }
    }
    is_untouched(&server.get("/invocations/one").expect(200).json());
    is_untouched(&victim.get("/invocations/theirs").expect(200).json());

    // A checkpoint of another server has another seal, whatever its place.
    let file = |state: &StateFolder, name: &str| state.path().join("durable/checkpoints").join(name);
    let name = |shown: PathBuf| shown.file_name().expect("a name").to_str().expect("text").to_owned();
    let of = |state: &StateFolder, id: &str| {
        let all = fs::read_dir(state.path().join("durable/checkpoints")).expect("a folder").flatten();
        let mut all = all.map(|entry| name(entry.path()));
        all.find(|name| name.starts_with(&format!("{id}."))).expect("a checkpoint")
    };
    // No process stays with it, so that it is restored; and both are files, and no contents in a database any more.
    assert_eq!([server, victim].map(|server| server.stop().0), [Some(0); 2]);
    fs::copy(file(&theirs, &of(&theirs, "theirs")), file(&mine, &of(&mine, "one"))).expect("copied");
    let server = Server::start_on(&mine, &OPTIONS, &[]);
    server.post("/invocations/one/events/a", b"x").expect(202);
    eventually("it is paused", || server.get("/invocations/one").json()["status"] == "paused");
    let shown = server.get("/invocations/one").expect(200).json();
    assert!(shown["reason"].as_str().is_some_and(|reason| reason.contains("key")), "{shown:#}");
    server.post("/invocations/one/fork", b"").error(409, "conflict", "client");
}

/// What is damaged on the disk is found before anything goes on from it, and stops nothing else.
#[test]
fn damaged_files_pause_their_invocation_and_no_other() {
    let state = StateFolder::new();
    let server = server_on(&state, &[]);
    let ids = ["cut", "changed", "gone", "start"];
    for id in ids {
        server.post(&format!("/async-invoke/inbox?id={id}"), b"").expect(202);
        eventually("it waits", || server.get(&format!("/invocations/{id}")).json()["status"] == "suspended");
    }
    // From here on no commit has what they hold.
    assert_eq!(server.stop().0, Some(0));
    let files = fs::read_dir(state.path().join("durable/checkpoints")).expect("a folder");
    let files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    let path = |id: &str| {
        let name_of = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
        files.iter().find(|path| name_of(path).starts_with(&format!("{id}.1"))).expect("a checkpoint").clone()
    };
    let bytes = fs::read(path("cut")).expect("a checkpoint");
    fs::write(path("cut"), &bytes[..bytes.len() / 2]).expect("written");
    let mut bytes = fs::read(path("changed")).expect("a checkpoint");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path("changed"), bytes).expect("written");
    fs::remove_file(path("gone")).expect("removed");
    let server = Server::start_on(&state, &OPTIONS, &[]);
    for id in ids {
        server.post(&format!("/invocations/{id}/events/a"), b"x").expect(202);
    }
    for id in &ids[..3] {
        eventually("it is paused", || server.get(&format!("/invocations/{id}")).json()["status"] == "paused");
        let shown = server.get(&format!("/invocations/{id}")).expect(200).json();
        assert!(shown["reason"].is_string() && shown["mail"] == 1, "{shown:#}");
    }
    let whole = server.get("/invocations/start/outputs/result?wait=120s").expect(200).text();
    assert_eq!(whole, "a: x\n");
    assert_eq!(server.get("/invocations/one").json()["status"], "suspended");
}

/// The document decides what runs, so it is compared with its hash also in a folder without a key.
#[test]
fn a_document_that_was_changed_pauses_its_invocation() {
    let state = StateFolder::new();
    let server = server_on(&state, &[]);
    assert_eq!(server.stop().0, Some(0));
    let files = fs::read_dir(state.path().join("durable/files")).expect("a folder");
    let files = files.map(|file| file.expect("a file").path()).map(|path| (fs::read(&path).expect("a file"), path));
    let documents: Vec<_> = files.filter(|(content, _)| content.first() == Some(&b'{')).collect();
    assert!(!documents.is_empty());
    for (content, path) in &documents {
        // It is as good a document as before.
        fs::write(path, [content, &b"\n"[..]].concat()).expect("written");
    }
    let server = Server::start_on(&state, &OPTIONS, &[]);
    server.post("/invocations/one/events/a", b"x").expect(202);
    eventually("it is paused", || server.get("/invocations/one").json()["status"] == "paused");
    let shown = server.get("/invocations/one").expect(200).json();
    assert_eq!(shown["reason"], "its workflow document cannot be used: it was changed", "{shown:#}");
    for (content, path) in &documents {
        fs::write(path, content).expect("written");
    }
    server.post("/invocations/one/resume", b"").expect(200);
    assert_eq!(server.get("/invocations/one/outputs/result?wait=120s").expect(200).text(), "a: x\n");
}

/// One row that was edited is named in the list, and does not hide the others.
#[test]
fn a_row_that_was_edited_is_named_and_the_others_are_listed() {
    let state = StateFolder::new();
    let server = server_on(&state, &[]);
    server.post("/async-invoke/inbox?id=two", b"").expect(202);
    eventually("it waits", || server.get("/invocations/two").json()["status"] == "suspended");
    assert_eq!(server.stop().0, Some(0));
    exchange(&state.path().join("durable/meta.sqlite"), br#"{"file":"two."#, br#"{"else":"two."#);

    let server = Server::start_on(&state, &OPTIONS, &[]);
    let listed = server.get("/invocations").expect(200).json()["invocations"].take();
    let listed: Vec<_> = listed.as_array().expect("a list").iter().map(|it| (&it["id"], &it["status"])).collect();
    assert_eq!(listed, [(&json!("two"), &json!("damaged")), (&json!("one"), &json!("suspended"))]);
    let page = server.get("/invocations?limit=1").expect(200).json();
    let reason = &page["invocations"][0]["reason"];
    assert!(reason.as_str().is_some_and(|reason| reason.contains("it has a wrong checkpoint")), "{page:#}");
    let next = page["next_cursor"].as_str().expect("there are more");
    let page = server.get(&format!("/invocations?limit=1&cursor={next}")).expect(200).json();
    assert_eq!((&page["invocations"][0]["id"], &page["next_cursor"]), (&json!("one"), &Value::Null));
    let error = server.get("/invocations/two").error(500, "host", "host");
    assert!(error["message"].as_str().is_some_and(|why| why.contains("invocation `two`")), "{error:#}");
    server.post("/invocations/one/events/a", b"x").expect(202);
    assert_eq!(server.get("/invocations/one/outputs/result?wait=120s").expect(200).text(), "a: x\n");
}

#[test]
fn senders_of_events_are_bounded() {
    let server = server_on(&StateFolder::new(), &[]);
    server.post("/invocations/one/pause", b"").expect(200);
    let path = "/invocations/one/events/a";
    server.post(path, &vec![b'x'; (1 << 20) + 1]).error(413, "too-large", "client");
    for name in ["%0a", "%1b%5b31m", &"x".repeat(300)] {
        server.post(&format!("/invocations/one/events/{name}"), b"").error(400, "bad-request", "client");
    }
    server.ask_with("POST", path, &[("Idempotency-Key", &"k".repeat(256))], b"").error(400, "bad-request", "client");
    // 16 MiB in all.
    let large = vec![b'x'; 1 << 20];
    let sent = (0..20).filter(|_| server.post(path, &large).status == 202).count();
    assert_eq!(sent, 16);
    server.post(path, b"x").error(429, "full", "host");
    assert_eq!(server.get("/invocations/one").json()["mail"], 16);
}

/// A command line knows nothing of what a server's invocations were started with: it must neither run them nor sweep their files.
#[test]
fn command_lines_leave_a_servers_store_alone() {
    let state = StateFolder::new();
    let server = server_on(&state, &[]);
    let folder = state.path().join("durable");
    let folder = folder.to_str().expect("text");
    let count = |name: &str| fs::read_dir(state.path().join("durable").join(name)).expect("a folder").count();
    let before = (count("files"), count("checkpoints"));
    for args in [
        &["ps", "--state", folder][..],
        &["wake", "--state", folder],
        &["cancel", "one", "--state", folder],
        &["send", "one", "a", "--state", folder],
    ] {
        let output = program::monohull(state.path(), args);
        program::refused(&output, 3, "a server's");
    }
    assert_eq!((count("files"), count("checkpoints")), before);
    is_untouched(&server.get("/invocations/one").expect(200).json());
}
