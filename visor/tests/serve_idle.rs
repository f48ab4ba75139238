//! A server that ends when it has nothing to do: its socket is held by a service manager, which starts it at the next connection and when the
//! next invocation is due. The manager here is a thread that does what systemd does with the units in `visor/systemd`.

mod serve_support;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;
use serve_support::{Answer, PATIENCE, StateFolder, eventually, image_bytes, is_alive, request, root, single};
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A command that passes its standard input as the listening socket, as systemd does, and becomes the program.
fn passing(socket: &OwnedFd, arguments: &[&str]) -> Command {
    let mut command = Command::new("/bin/sh");
    let script = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_monohull"), "serve", "--listen", "systemd"]).args(arguments);
    command.env_remove("MONOHULL_TOKEN").stdin(socket.try_clone().expect("a descriptor"));
    command
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs()
}

/// What systemd does: it holds the socket, and starts the server when a client connects or the timer elapses, if it does not run.
struct Manager {
    state: StateFolder,
    ends: Arc<AtomicBool>,
    /// The server that runs; 0 if none does.
    pid: Arc<AtomicI32>,
    /// How each server has ended, and what it has said.
    ended: Arc<Mutex<Vec<Output>>>,
    thread: Option<JoinHandle<()>>,
}

impl Manager {
    fn new(socket: OwnedFd) -> Manager {
        let (state, ends) = (StateFolder::new(), Arc::<AtomicBool>::default());
        let (pid, ended) = (Arc::<AtomicI32>::default(), Arc::<Mutex<Vec<Output>>>::default());
        let next_due = state.path().join("next-due");
        let manage = {
            let (state, ends, pid, ended) = (state.clone(), ends.clone(), pid.clone(), ended.clone());
            move || {
                while !ends.load(Ordering::SeqCst) {
                    let due: Option<u64> = fs::read_to_string(&next_due).ok().and_then(|due| due.trim().parse().ok());
                    let mut waits = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
                    let connects = poll(&mut waits, PollTimeout::from(20_u8)).expect("a socket") > 0;
                    if !connects && due.is_none_or(|due| now() < due) {
                        continue;
                    }
                    let folder = state.path().to_str().expect("UTF-8").to_owned();
                    let idle = "--exit-when-idle=300ms";
                    let mut server = passing(&socket, &["--state", &folder, "--suspend", "1s", idle]);
                    let server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
                    pid.store(server.id() as i32, Ordering::SeqCst);
                    let output = server.wait_with_output().expect("a child");
                    ended.lock().expect("no panic").push(output);
                    pid.store(0, Ordering::SeqCst);
                }
            }
        };
        Manager { state, ends, pid, ended, thread: Some(spawn(manage)) }
    }

    fn next_due(&self) -> Option<u64> {
        Some(fs::read_to_string(self.state.path().join("next-due")).ok()?.trim().parse().expect("seconds"))
    }

    /// Waits until no server runs.
    fn idle(&self) {
        eventually("the server ends when it is idle", || self.pid.load(Ordering::SeqCst) == 0);
    }

    fn starts(&self) -> usize {
        self.ended.lock().expect("no panic").len()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.expect("it was started").expect("no panic");
            for output in self.ended.lock().expect("no panic").iter() {
                let log = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{}: {log}", output.status);
            }
        }
    }
}

fn ask(address: &str, method: &str, path: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).expect("the manager holds the socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(&request(method, path, &[], body)).expect("sent");
    Answer::read(&mut stream).unwrap_or_else(|| panic!("no answer to {method} {path}"))
}

#[test]
fn it_ends_while_all_sleep_and_is_started_by_a_connection_and_when_something_is_due() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address").to_string();
    let manager = Manager::new(socket.into());
    let ask = |method: &str, path: &str, body: &[u8]| ask(&address, method, path, body);
    ask("PUT", "/functions/sleeper", &image_bytes("sleeper")).expect(201);
    for (name, milliseconds) in [("naps", 10_000), ("sleeps", 86_400_000)] {
        let args = json!({ "naps": 1, "milliseconds": milliseconds, "takes": "", "fills": "result" });
        let document = single(name, "sleeper", &json!({ "args": args, "outputs": ["result"] }));
        ask("PUT", &format!("/workflows/{name}"), document.to_string().as_bytes()).expect(201);
    }
    manager.idle();
    assert_eq!(manager.next_due(), None, "nothing is due");
    let (starts, begun) = (manager.starts(), now());
    ask("POST", "/async-invoke/naps?id=nap", b"").expect(202);
    ask("POST", "/async-invoke/sleeps?id=sleep", b"").expect(202);
    eventually("the nap is over, without a request", || {
        manager.pid.load(Ordering::SeqCst) == 0 && manager.next_due().is_some_and(|due| due > begun + 3600)
    });
    assert!(manager.starts() > starts + 1, "one server has started the nap, and another one has ended it");
    let shown = ask("GET", "/invocations/nap", b"").expect(200).json();
    assert_eq!(shown["status"], "completed", "{shown:#}");
    let shown = ask("GET", "/invocations/sleep", b"").expect(200).json();
    assert_eq!(shown["status"], "suspended", "{shown:#}");
    manager.idle();
    let due = manager.next_due().expect("one sleeps");
    assert!((begun + 86_399..now() + 86_401).contains(&due), "{begun} {due}");
}

/// A request that takes longer than a server may be idle, and a client that says nothing, are under way.
#[test]
fn it_does_not_end_while_something_is_under_way() {
    let folder = StateFolder::new();
    let path = folder.path().join("socket");
    let socket = UnixListener::bind(&path).expect("a socket");
    let state = StateFolder::new();
    let arguments = ["--state", state.path().to_str().expect("UTF-8"), "--exit-when-idle=100ms"];
    let mut server = passing(&socket.into(), &arguments).stderr(Stdio::null()).spawn().expect("it starts");
    let mut client = UnixStream::connect(&path).expect("the socket is there");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    Answer::read(&mut client).expect("an answer").expect(200);
    // The time is only so long that a server which ends would have ended.
    std::thread::sleep(Duration::from_secs(1));
    assert!(is_alive(server.id() as i32), "a client is connected");
    drop(client);
    assert!(server.wait().expect("a child").success());
    assert!(path.exists(), "the socket is the manager's");
}

#[test]
fn without_a_socket_it_says_what_is_missing() {
    let state = StateFolder::new();
    let run = |mut command: Command| {
        let output = command.arg("--state").arg(state.path()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        said
    };
    let mut none = Command::new(env!("CARGO_BIN_EXE_monohull"));
    none.args(["serve", "--listen", "systemd"]).env("LISTEN_FDS", "1").env("LISTEN_PID", "1");
    assert!(run(none).contains("no socket was passed"), "they were another process's");
    let file: OwnedFd = fs::File::open("/dev/null").expect("a file").into();
    assert!(run(passing(&file, &[])).contains("no TCP socket"));
}

/// A program of this name that writes down how it was called.
fn write_fake(folder: &StateFolder, name: &str) {
    let path = folder.path().join(name);
    fs::write(&path, format!("#!/bin/sh\necho {name} \"$@\" >>\"$CALLS\"\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("changed");
}

#[test]
fn the_timer_is_set_to_what_the_server_has_said_and_to_nothing_else() {
    let (bin, state) = (StateFolder::new(), StateFolder::new());
    write_fake(&bin, "systemctl");
    write_fake(&bin, "systemd-run");
    let calls = bin.path().join("calls");
    let set = |said: Option<&str>| {
        let _ = fs::remove_file(&calls);
        match said {
            Some(said) => fs::write(state.path().join("next-due"), said).expect("written"),
            None => drop(fs::remove_file(state.path().join("next-due"))),
        }
        let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").expect("a path"));
        let mut script = Command::new("/bin/sh");
        script.arg(root().join("visor/systemd/set-timer")).env("PATH", path).env("CALLS", &calls);
        let output = script.env("STATE_DIRECTORY", state.path()).output().expect("it runs");
        (output.status.success(), fs::read_to_string(&calls).expect("calls"))
    };
    const STOP: &str = "systemctl --system stop monohull.timer\n";
    assert_eq!(set(None), (true, STOP.to_owned()));
    let due = now() + 3600;
    let timer = "systemd-run --system --quiet --unit=monohull.service";
    let at = format!("{STOP}{timer} --on-calendar=@{due} --timer-property=AccuracySec=10ms\n");
    assert_eq!(set(Some(&format!("{due}\n"))), (true, at));
    let start = format!("{STOP}systemctl --system start --no-block monohull.service\n");
    assert_eq!(set(Some("1\n")), (true, start), "what is due already");
    for wrong in ["-1\n", "1; reboot\n", "$(reboot)\n", "root:x:0:0\n", "@1\n"] {
        assert_eq!(set(Some(wrong)), (false, STOP.to_owned()), "{wrong:?}");
    }
}

/// The units are what systemd takes for units, and its timers take such a time.
#[test]
fn systemd_takes_the_units() {
    let analyze = |arguments: &[&str]| {
        let output = Command::new("systemd-analyze").args(arguments).output().ok()?;
        Some((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    if analyze(&["--version"]).is_none() {
        // Where it is not installed there is nothing to ask: what the units say is looked at all the same.
        for unit in ["monohull.service", "monohull.socket"] {
            let text = fs::read_to_string(root().join("visor/systemd").join(unit)).expect("it is shipped");
            assert!(text.contains("[Install]"), "{unit}");
        }
        return;
    }
    let (taken, said) = analyze(&["calendar", "@1795607660"]).expect("it is there");
    assert!(taken, "{said}");
    // It looks for the programs, too.
    let folder = StateFolder::new();
    let units: Vec<PathBuf> = ["monohull.service", "monohull.socket"].map(|unit| folder.path().join(unit)).into();
    for unit in &units {
        let name = unit.file_name().expect("a name");
        let text = fs::read_to_string(root().join("visor/systemd").join(name)).expect("it is shipped");
        let text = text.replace("/usr/local/lib/monohull/", "/bin/").replace("/bin/monohull", "/bin/true");
        fs::write(unit, text.replace("/bin/set-timer", "/bin/true")).expect("written");
    }
    let (taken, said) = analyze(&["verify", units[0].to_str().expect("UTF-8")]).expect("it is there");
    assert!(taken && !said.contains("monohull"), "{said}");
}
