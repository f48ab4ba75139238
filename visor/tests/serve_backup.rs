//! A state folder is copied while its server works, and another server goes on from the copy.

mod serve_support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use serve_support::verbs::run_verb;
use serve_support::{Server, StateFolder, eventually, single};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const OPTIONS: [&str; 2] = ["--suspend", "1s"];
/// Invocations that wait, and those whose events keep the server busy.
const SLEEPERS: usize = 12;
const COUNTERS: usize = 3;

/// Registers `inbox`, which waits for the event `go`, and `counter`, with their invocations, which wait.
fn start() -> Server {
    let server = Server::start_with(&OPTIONS);
    for example in ["inbox", "counter"] {
        server.put_example(example);
    }
    let args = json!({ "args": { "events": ["go"], "fills": "result" }, "outputs": ["result"] });
    server.put_workflow(&single("inbox", "inbox", &args));
    server.put_workflow(&single("counter", "counter", &json!({ "outputs": ["total"] })));
    let begun = |workflow: &str, id: &str| {
        server.post(&format!("/async-invoke/{workflow}?id={id}"), b"").expect(202);
        eventually("it waits", || server.get(&format!("/invocations/{id}")).json()["status"] == "suspended");
    };
    begun("inbox", "sleeper-0");
    let copies: Vec<_> = (1..SLEEPERS).map(|number| format!("sleeper-{number}")).collect();
    server.post("/invocations/sleeper-0/fork", json!({ "ids": copies }).to_string().as_bytes()).expect(200);
    (0..COUNTERS).for_each(|number| begun("counter", &format!("counter-{number}")));
    server
}

/// Copies the state of a server.
fn back_up(server: &Server, to: &Path) -> Value {
    let state = server.state();
    let words = ["backup", to.to_str().expect("UTF-8"), "--json", "--state", state.path().to_str().expect("UTF-8")];
    run_verb(&format!("http://{}", server.address), &words, &[], "").expect(0).json()
}

/// Where a copy can be made, and a server be started.
fn no_folder() -> StateFolder {
    let folder = StateFolder::new();
    fs::remove_dir(folder.path()).expect("it is empty");
    folder
}

/// Lets the load end.
struct End<'e>(&'e AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The copies that are made under load have all that was acknowledged before, and nothing of them is damaged: all that sleeps in them goes on.
#[test]
fn a_copy_of_a_busy_server_goes_on() {
    let server = start();
    let acknowledged: [AtomicU64; COUNTERS] = Default::default();
    let ends = AtomicBool::new(false);
    let count = |server: &Server, number: usize| -> u64 {
        let text = server.get(&format!("/invocations/counter-{number}/state/count")).expect(200).text();
        text.parse().expect("a number")
    };
    std::thread::scope(|scope| {
        // Also if something is not as it should be.
        let _end = End(&ends);
        for (number, acknowledged) in acknowledged.iter().enumerate() {
            let (server, ends) = (&server, &ends);
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let answer = server.post(&format!("/invocations/counter-{number}/events/add"), b"1");
                    match answer.status {
                        202 => _ = acknowledged.fetch_add(1, Ordering::Relaxed),
                        // The mailbox is full.
                        429 => {}
                        other => panic!("{other}: {}", answer.text()),
                    }
                    // Commits follow each other, and other processes have their turn.
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
            });
        }
        for _ in 0..3 {
            let before: Vec<u64> = acknowledged.iter().map(|sent| sent.load(Ordering::Relaxed)).collect();
            let copy = no_folder();
            let made = back_up(&server, copy.path());
            assert_eq!(made["invocations"], SLEEPERS + COUNTERS);
            assert_eq!(made["missing"], json!([]));
            let restored = Server::start_on(&copy, &OPTIONS, &[]);
            for (number, before) in before.iter().enumerate() {
                eventually("what was acknowledged is counted", || count(&restored, number) >= *before);
            }
            for number in 0..SLEEPERS {
                restored.post(&format!("/invocations/sleeper-{number}/events/go"), b"17").expect(202);
            }
            for number in 0..SLEEPERS {
                let at = format!("/invocations/sleeper-{number}");
                let shown = restored.get(&format!("{at}?wait=120s")).expect(200).json();
                assert_eq!(shown["status"], "completed", "{shown:#}\n{}", restored.log());
                assert_eq!(restored.get(&format!("{at}/outputs/result")).expect(200).text(), "go: 17\n");
            }
            let paused = restored.get("/invocations?status=paused").expect(200).json();
            assert_eq!(paused["invocations"], json!([]), "nothing is damaged");
            // The registered workflows are in it, too.
            restored.post("/async-invoke/inbox?id=new", b"").expect(202);
        }
    });
    // The server itself has noticed nothing.
    for (number, acknowledged) in acknowledged.iter().enumerate() {
        eventually("all is counted", || count(&server, number) == acknowledged.load(Ordering::Relaxed));
    }
    assert_eq!(server.get("/invocations/sleeper-7").json()["status"], "suspended");
}

/// A copy has another copy's name only once it is whole, and takes no folder's place. It can be made while no server runs.
#[test]
fn a_copy_takes_no_place_and_needs_no_server() {
    let server = start();
    let (state, address) = (server.state(), format!("http://{}", server.address));
    server.signal(Signal::SIGKILL);
    server.wait();
    let copy = no_folder();
    let state_path = state.path().to_str().expect("UTF-8");
    let verb = |to: &Path| run_verb(&address, &["backup", to.to_str().expect("UTF-8"), "--state", state_path], &[], "");
    let said = verb(copy.path()).expect(0).out;
    assert!(said.contains(&format!("{} invocations", SLEEPERS + COUNTERS)), "{said}");
    let mode = |name: &str| fs::metadata(copy.path().join(name)).expect("it is there").mode() & 0o777;
    let names = ["", "durable", "durable/checkpoints", "durable/meta.sqlite", "checkpoint.key", "images"];
    assert!(names.iter().all(|name| mode(name) & 0o077 == 0), "it is its owner's alone");
    assert!(verb(copy.path()).expect(2).err.contains("is there already"));
    let other = no_folder();
    let part = other.path().with_extension("part");
    fs::create_dir(&part).expect("made");
    assert!(verb(other.path()).expect(2).err.contains("has not come to its end"));
    fs::remove_dir(&part).expect("it is empty");
    let none = run_verb(&address, &["backup", "/nowhere/copy", "--state", "/nowhere/state"], &[], "").expect(3);
    assert!(none.err.contains("/nowhere/state"), "{}", none.err);
    let restored = Server::start_on(&copy, &OPTIONS, &[]);
    restored.post("/invocations/sleeper-3/events/go", b"x").expect(202);
    assert_eq!(restored.get("/invocations/sleeper-3/outputs/result?wait=60s").expect(200).text(), "go: x\n");
}

/// The copy is at fault, and not the folder that is copied; and what there is of it takes no room any more.
#[test]
fn a_copy_that_finds_no_room_names_itself_and_leaves_nothing() {
    let server = start();
    let root = tempfile::TempDir::new().expect("a folder");
    let to = root.path().join("copy");
    // So many blocks of 512 bytes: the database has more, and images have more than the database.
    for (blocks, at_fault) in [(64, "/copy.part/durable/meta.sqlite: "), (500, "/copy.part/")] {
        let backup = Command::new("sh")
            .args(["-c", r#"ulimit -f "$1" && exec "$2" backup "$3" --state "$4""#, "sh", &blocks.to_string()])
            .arg(env!("CARGO_BIN_EXE_monohull"))
            .args([&to, server.state().path()])
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&backup.stderr);
        assert!(backup.status.code() == Some(3) && said.contains(at_fault), "{blocks}: {backup:?}");
        assert!(!said.contains("the database of the state folder"), "{said}");
        assert_eq!(fs::read_dir(root.path()).expect("a folder").count(), 0, "{blocks}");
    }
}
