//! What a server knows survives: ends, kills at any moment, damage.

#[path = "support/extent.rs"]
mod extent;
mod serve_support;

use extent::some_of;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use serve_support::{Answer, Server, StateFolder, image_bytes, request, single};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A version of the workflow `w`: its number is in it.
fn version(number: u64) -> Value {
    single("w", "f", &json!({ "description": number.to_string() }))
}

fn number(document: &Value) -> u64 {
    document["description"].as_str().and_then(|text| text.parse().ok()).expect("a version")
}

#[test]
fn everything_is_there_after_a_restart() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &[], &[]);
    server.put_shipped("word-count.json");
    server.put_shipped("echo.json");
    let before =
        (server.get("/functions").json(), server.get("/workflows").json(), server.get("/workflows/echo").text());
    assert_eq!(server.stop().0, Some(0));
    let server = Server::start_on(&state, &[], &[]);
    let after =
        (server.get("/functions").json(), server.get("/workflows").json(), server.get("/workflows/echo").text());
    assert_eq!(before, after);
    assert_eq!(server.post("/invoke/word-count", b"a b a").expect(200).text(), "2 a\n1 b\n");
    server.ask("DELETE", "/workflows/echo", &[]).expect(204);
    server.ask("DELETE", "/functions/echo", &[]).expect(204);
    assert_eq!(server.stop().0, Some(0));
    let server = Server::start_on(&state, &[], &[]);
    server.get("/workflows/echo").expect(404);
    server.get("/functions/echo").expect(404);
}

/// Tries to send a request to a server that may be gone; the status if there was an answer.
fn try_ask(address: std::net::SocketAddr, method: &str, path: &str, body: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(serve_support::PATIENCE)).ok()?;
    stream.write_all(&request(method, path, &[], body)).ok()?;
    Answer::read(&mut stream).map(|answer| answer.status)
}

/// A server is killed while a workflow is replaced again and again, and a function put and removed in turns: after each
/// restart there is what was acknowledged last, or what was being written.
#[test]
fn a_kill_at_any_moment_loses_nothing_that_was_acknowledged() {
    let rounds = some_of(10, 25);
    let state = StateFolder::new();
    let image = image_bytes("no-op");
    let server = Server::start_on(&state, &[], &[]);
    server.put_example("no-op");
    server.ask("PUT", "/functions/f", &image).expect(201);
    server.put_workflow(&version(0));
    drop(server);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut last = 0;
    let mut came_and_went = None;
    for round in 0..rounds {
        let server = Server::start_on(&state, &[], &[]);
        let found = number(&server.get("/workflows/w").expect(200).json());
        assert!(found == last || found == last + 1, "round {round}: {found}, and {last} was acknowledged");
        last = found;
        let there = server.get("/functions/g").status == 200;
        assert!(came_and_went.is_none_or(|(known, pending)| there == known || there == pending), "round {round}");
        assert_eq!(server.get("/healthz").json()["damaged"], json!([]), "round {round}");
        assert_eq!(server.post("/invoke/w", b"").status, 200);

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (address, pid) = (server.address, server.pid());
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(random % 40_000));
            kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
        });
        let acknowledged = AtomicU64::new(last);
        let mut known = (there, there);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for next in last + 1.. {
                    match try_ask(address, "PUT", "/workflows/w", version(next).to_string().as_bytes()) {
                        Some(200) => acknowledged.store(next, Ordering::SeqCst),
                        None => return,
                        Some(status) => panic!("{status}"),
                    }
                }
            });
            scope.spawn(|| {
                loop {
                    let (method, body, wanted) =
                        if known.0 { ("DELETE", &[][..], 204) } else { ("PUT", image.as_slice(), 201) };
                    known.1 = !known.0;
                    match try_ask(address, method, "/functions/g", body) {
                        Some(status) if status == wanted => known.0 = known.1,
                        None => return,
                        Some(status) => panic!("{status}"),
                    }
                }
            });
        });
        killer.join().expect("killed");
        server.wait();
        last = acknowledged.load(Ordering::SeqCst);
        came_and_went = Some(known);
    }
    // Nothing half-written stays, and no image that no function is.
    drop(Server::start_on(&state, &[], &[]));
    let images = fs::read_dir(state.path().join("images")).expect("a folder").count();
    assert_eq!(images, 1, "one image, three names");
    for folder in ["images", "functions", "workflows"] {
        let names = fs::read_dir(state.path().join(folder)).expect("a folder").flatten().map(|entry| entry.file_name());
        assert!(names.into_iter().all(|name| !name.to_string_lossy().contains('.')), "{folder}");
    }
}

#[test]
fn what_is_damaged_is_set_aside_and_the_rest_works() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &[], &[]);
    server.put_shipped("echo.json");
    server.put_shipped("no-op.json");
    server.put_shipped("json-report.json");
    let image = server.get("/functions/json-report").json()["image"].as_str().expect("a hash").to_owned();
    server.stop();
    // A byte of a workflow, a byte of an image, and half of a function's entry.
    let damage = |path: std::path::PathBuf, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(&path).expect("readable");
        change(&mut bytes);
        fs::write(&path, bytes).expect("written");
    };
    let hash = image.strip_prefix("sha256:").expect("a hash");
    damage(state.path().join("workflows/no-op"), &|bytes| *bytes.last_mut().expect("not empty") ^= 1);
    damage(state.path().join("images").join(hash), &|bytes| bytes[100] ^= 1);
    damage(state.path().join("functions/no-op"), &|bytes| bytes.truncate(bytes.len() / 2));

    let server = Server::start_on(&state, &[], &[]);
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    server.get("/readyz").expect(200);
    let damaged = server.get("/healthz").expect(200).json()["damaged"].take();
    let paths: Vec<String> = damaged
        .as_array()
        .expect("a list")
        .iter()
        .map(|damage| damage["path"].as_str().expect("a path").rsplit('/').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    for path in ["no-op workflows", "json-report functions", "no-op functions"] {
        assert!(paths.iter().any(|found| found == path), "{path} in {paths:?}");
    }
    server.get("/workflows/no-op").expect(404);
    // This workflow is whole, its function is not.
    let error = server.post("/invoke/json-report", b"").error(422, "invalid", "host");
    assert!(error["message"].as_str().expect("a message").contains("json-report"), "{error:#}");
    server.put_example("json-report");
    server.post("/invoke/json-report", b"").expect(200);
    let (_, log) = server.stop();
    assert_eq!(log.matches("set aside").count(), 3, "{log}");

    // What was set aside is kept, its image too, and not met again.
    let kept = fs::read_dir(state.path().join("damaged")).expect("a folder").flatten();
    assert_eq!(kept.filter(|kept| kept.file_name().to_string_lossy().starts_with("images-")).count(), 2);
    let server = Server::start_on(&state, &[], &[]);
    assert_eq!(server.get("/healthz").json()["damaged"], json!([]));
    server.post("/invoke/json-report", b"").expect(200);
}

#[test]
fn what_is_no_entry_at_all_does_not_keep_a_server_from_starting() {
    use std::os::unix::ffi::OsStrExt;
    let state = StateFolder::new();
    let server = Server::start_on(&state, &[], &[]);
    server.put_shipped("echo.json");
    server.stop();
    let at = |path: &str| state.path().join(path);
    nix::unistd::mkfifo(&at("workflows/pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    std::os::unix::fs::symlink("loop", at("functions/loop")).expect("a link");
    std::os::unix::net::UnixListener::bind(at("functions/socket")).expect("a socket");
    fs::write(at("functions").join("x".repeat(250)), "long").expect("written");
    fs::write(at("functions").join(std::ffi::OsStr::from_bytes(b"\xff\xfe")), "no text").expect("written");
    for folder in ["workflows/folder", "functions/half.part", "images/folder"] {
        fs::create_dir(at(folder)).expect("a folder");
    }
    let server = Server::start_on(&state, &[], &[]);
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    let damaged = server.get("/healthz").expect(200).json()["damaged"].as_array().expect("a list").len();
    assert!(damaged >= 6, "{damaged} are reported");
    server.stop();
    let server = Server::start_on(&state, &[], &[]);
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
}

/// A host that is short of descriptors says nothing about what was kept.
#[test]
fn what_could_not_be_read_is_not_taken_for_damaged() {
    const FUNCTIONS: usize = 40;
    let state = StateFolder::new();
    let server = Server::start_on(&state, &[], &[]);
    let image = image_bytes("no-op");
    for number in 0..FUNCTIONS {
        server.ask("PUT", &format!("/functions/f{number}"), &image).expect(201);
    }
    let before = server.get("/functions").json();
    assert_eq!(server.stop().0, Some(0));
    // Each function takes a descriptor.
    let script = format!("ulimit -n {FUNCTIONS}; exec \"$@\"");
    let failed = Command::new("sh")
        .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_monohull"), "serve", "--listen", "127.0.0.1:0", "--state"])
        .arg(state.path())
        .output()
        .expect("sh starts");
    let said = String::from_utf8_lossy(&failed.stderr);
    assert_eq!((failed.status.code(), failed.stdout), (Some(3), Vec::new()), "{said}");
    assert!(said.contains("Too many open files"), "{said}");
    let server = Server::start_on(&state, &[], &[]);
    assert_eq!(server.get("/healthz").json()["damaged"], json!([]));
    assert!(server.get("/functions").json() == before, "all functions are there");
    server.put_example("echo");
    assert_eq!(fs::read_dir(state.path().join("images")).expect("a folder").count(), 2);
}

/// For any folder that `--state` names, a server neither adopts nor changes files that are not its own.
#[test]
fn a_folder_that_is_not_a_state_folder_is_refused_and_left_as_it_is() {
    let refused = |path: &std::path::Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_monohull"))
            .args(["serve", "--listen", "127.0.0.1:0", "--state"])
            .arg(path)
            .output()
            .expect("monohull starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
        said
    };
    let root = tempfile::TempDir::new().expect("a folder");
    let own = root.path().join("own");
    fs::create_dir(&own).expect("made");
    // It was asked for by name, and lies in a folder with other things.
    fs::create_dir(own.join("images")).expect("made");
    fs::write(own.join("images/holiday.png"), "data").expect("written");
    let said = refused(&own);
    assert!(said.contains("no server has made it its state folder; choose an empty folder"), "{said}");
    assert_eq!(fs::read_dir(&own).expect("a folder").count(), 1, "nothing is added");
    assert_eq!(fs::read(own.join("images/holiday.png")).expect("there"), b"data");
    let state = StateFolder::new();
    let link = root.path().join("link");
    std::os::unix::fs::symlink(state.path(), &link).expect("a link");
    assert!(refused(&link).contains("it is a symbolic link"));
    let open = |mode| fs::set_permissions(state.path(), std::os::unix::fs::PermissionsExt::from_mode(mode));
    open(0o777).expect("changed");
    assert!(refused(state.path()).contains("other users may write to it (its mode is 777)"));
    assert_eq!(fs::read_dir(state.path()).expect("a folder").count(), 0, "nothing is added");
    // The positive control: what is only its own is taken, and taken again.
    open(0o700).expect("changed");
    drop(Server::start_on(&state, &[], &[]));
    drop(Server::start_on(&state, &[], &[]));
}

/// A state folder that goes away under a running server, and another server's that comes in its place.
#[test]
fn a_state_folder_that_is_removed_or_replaced_is_reported_and_unchanged() {
    let root = tempfile::TempDir::new().expect("a folder");
    let away = root.path().join("away");
    let state = StateFolder::new();
    let first = Server::start_on(&state, &[], &[]);
    first.put_shipped("echo.json");
    let accepted = || first.post("/async-invoke/echo", b"x");
    accepted().expect(202);
    first.get("/readyz").expect(200);
    let in_place = |value: u8| first.get("/metrics").text().contains(&format!("\nmonohull_state_in_place {value}\n"));
    assert!(in_place(1));
    let image = image_bytes("no-op");
    let refused = |why: &str| {
        serve_support::eventually("it is reported", || first.get("/readyz").text().contains(why));
        let error = first.get("/readyz").error(503, "unavailable", "host");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(why)), "{error:#}");
        let health = first.get("/healthz").expect(503).json();
        assert!(health["trouble"].as_str().is_some_and(|trouble| trouble.contains(why)), "{health:#}");
        assert!(in_place(0));
        for answer in [
            accepted(),
            first.ask("PUT", "/functions/no-op", &image),
            first.ask("PUT", "/workflows/w", single("w", "echo", &json!({})).to_string().as_bytes()),
            first.ask("DELETE", "/workflows/echo", &[]),
        ] {
            let error = answer.error(503, "unavailable", "host");
            assert!(error["message"].as_str().is_some_and(|message| message.contains(why)), "{error:#}");
        }
        // What needs no folder goes on.
        assert_eq!(first.post("/invoke/echo", b"x").expect(200).text(), "x");
    };
    fs::rename(state.path(), &away).expect("moved");
    refused("has been removed");

    let second = Server::start_on(&state, &[], &[]);
    second.put_shipped("no-op.json");
    refused("has been replaced by another");
    let names = |folder: &str| fs::read_dir(state.path().join(folder)).expect("a folder").count();
    assert_eq!(["durable/files", "functions", "workflows", "images"].map(names), [0, 1, 1, 1], "only the second's own");
    second.post("/invoke/no-op", b"").expect(200);
    assert_eq!(second.stop().0, Some(0));

    // Once it is back all is as before.
    fs::remove_dir_all(state.path()).expect("removed");
    fs::rename(&away, state.path()).expect("moved back");
    serve_support::eventually("it is reported", || first.get("/readyz").status == 200);
    accepted().expect(202);
    assert!(in_place(1));
    let (_, log) = first.stop();
    let reported = |line: &&str| line.contains(r#""level":"ERROR""#) && line.contains("has been removed");
    assert_eq!(log.lines().filter(reported).count(), 1, "reported once, at its beginning");
}

/// A backup of the database that is put in its place under a running server: what is written to the one that is open would be lost with the server.
#[test]
fn a_database_that_is_replaced_is_reported_and_takes_nothing() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &[], &[]);
    server.put_shipped("echo.json");
    server.post("/async-invoke/echo?id=before", b"x").expect(202);
    server.ended("/invocations/before");
    let [durable, away] = ["durable", "away"].map(|name| state.path().join(name));
    fs::rename(&durable, &away).expect("moved");
    fs::create_dir(&durable).expect("made");
    for name in ["meta.sqlite", "meta.sqlite-wal", "files.lock"] {
        fs::copy(away.join(name), durable.join(name)).expect("copied");
    }
    fs::create_dir(durable.join("files")).expect("made");
    let why = "has lost its file durable/meta.sqlite, or has another one there";
    for (path, body) in
        [("/async-invoke/echo?id=after", "x"), ("/invocations/before/fork", "{}"), ("/invocations/before/purge", "")]
    {
        let error = server.post(path, body.as_bytes()).error(503, "unavailable", "host");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(why)), "{path}: {error:#}");
    }
    serve_support::eventually("it is reported", || server.get("/readyz").text().contains(why));
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x", "what needs no folder goes on");
    fs::remove_dir_all(&durable).expect("removed");
    fs::rename(&away, &durable).expect("moved back");
    serve_support::eventually("it is in its place again", || server.get("/readyz").status == 200);
    server.post("/async-invoke/echo?id=after", b"x").expect(202);
    server.ended("/invocations/after");
}

#[test]
fn changes_of_one_name_do_not_mix() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &[], &[]);
    let images = ["no-op", "echo", "json-report"].map(image_bytes);
    std::thread::scope(|scope| {
        for client in 0..6 {
            let (server, images) = (&server, &images);
            scope.spawn(move || {
                for turn in 0..10 {
                    let image = &images[(client + turn) % images.len()];
                    let answer = match (client + turn) % 4 {
                        3 => server.ask("DELETE", "/functions/f", &[]),
                        _ => server.ask("PUT", "/functions/f", image),
                    };
                    // 409: it was removed while it was replaced.
                    assert!([200, 201, 204, 404, 409].contains(&answer.status), "{}", answer.text());
                }
            });
        }
    });
    server.ask("PUT", "/functions/f", &images[0]);
    let shown = server.get("/functions/f").expect(200).json();
    assert_eq!(fs::read_dir(state.path().join("images")).expect("a folder").count(), 1);
    drop(server);
    let server = Server::start_on(&state, &[], &[]);
    assert_eq!(server.get("/functions/f").expect(200).json(), shown);
    assert_eq!(server.get("/healthz").json()["damaged"], json!([]));
}

#[test]
fn a_workflow_runs_what_its_functions_are_now() {
    let server = Server::start();
    server.ask("PUT", "/functions/f", &image_bytes("echo")).expect(201);
    let slots = json!({ "inputs": ["in"], "outputs": ["out"] });
    server.put_workflow(&single("w", "f", &slots));
    assert_eq!(server.post("/invoke/w", b"x").expect(200).text(), "x");
    server.ask("PUT", "/functions/f", &image_bytes("no-op")).expect(200);
    server.post("/invoke/w", b"x").error(502, "output", "workflow");
    server.ask("PUT", "/functions/f", &image_bytes("echo")).expect(200);
    assert_eq!(server.post("/invoke/w", b"x").expect(200).text(), "x");
}

#[test]
fn a_full_disk_is_reported_and_breaks_nothing() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &[], &[]);
    server.put_shipped("echo.json");
    // A folder where the new entry should be written stands for a disk that refuses.
    fs::create_dir(state.path().join("workflows/w.part")).expect("made");
    let document = single("w", "echo", &json!({})).to_string();
    server.ask("PUT", "/workflows/w", document.as_bytes()).error(500, "host", "host");
    server.get("/workflows/w").expect(404);
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    fs::remove_dir(state.path().join("workflows/w.part")).expect("removed");
    server.ask("PUT", "/workflows/w", document.as_bytes()).expect(201);
}

/// Without other settings, the command line and a server of the same user use one folder.
#[test]
fn the_users_key_for_checkpoints_may_lie_in_the_state_folder() {
    let state = StateFolder::new();
    let folder = tempfile::TempDir::new().expect("a folder");
    fs::write(folder.path().join("no-op.so"), image_bytes("no-op")).expect("written");
    let document = json!({
        "name": "w",
        "functions": { "f": { "image": "no-op.so" } },
        "steps": [{ "name": "s", "function": "f" }],
    });
    fs::write(folder.path().join("w.json"), document.to_string()).expect("written");
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.env("STATE_DIRECTORY", state.path()).current_dir(folder.path());
        let output = command.args(["run", "w.json", "--suspend", "waiting"]).output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        fs::read(state.path().join("checkpoint.key")).expect("a key")
    };
    let key = run();
    let server = Server::start_on(&state, &[], &[]);
    server.get("/readyz").expect(200);
    assert_eq!(run(), key, "the same while a server runs");
    assert_eq!(server.stop().0, Some(0));
    assert_eq!(fs::read(state.path().join("checkpoint.key")).expect("still there"), key);
    // And the other way round: the server came first.
    fs::remove_file(state.path().join("checkpoint.key")).expect("removed");
    run();
    assert_eq!(Server::start_on(&state, &[], &[]).stop().0, Some(0));
}
