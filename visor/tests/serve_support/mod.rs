//! A server for one test: the real program, on a port of its own, with a state folder of its own.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod verbs;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tempfile::TempDir;

/// Long enough for anything on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    state: StateFolder,
    log: Mutex<mpsc::Receiver<Vec<u8>>>,
    log_so_far: Arc<Mutex<Vec<u8>>>,
}

/// The folder a server keeps its state in; lives on when the server is killed.
#[derive(Clone)]
pub(crate) struct StateFolder(std::sync::Arc<TempDir>);

impl StateFolder {
    pub(crate) fn new() -> StateFolder {
        StateFolder(std::sync::Arc::new(TempDir::new().expect("a folder")))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{:#?}: {}", self.headers, self.text());
        self
    }

    /// The `error` object, its kind and blame checked.
    #[track_caller]
    pub(crate) fn error(self, status: u16, kind: &str, blame: &str) -> Value {
        let error = self.expect(status).json()["error"].take();
        assert_eq!((error["kind"].as_str(), error["blame"].as_str()), (Some(kind), Some(blame)), "{error:#}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error:#}");
        error
    }

    /// Reads one answer.
    pub(crate) fn read(stream: &mut impl Read) -> Option<Answer> {
        let mut stream = BufReader::with_capacity(1, stream);
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        let mut body = Vec::new();
        if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).ok()?;
                let size = usize::from_str_radix(line.trim_end(), 16).ok()?;
                let mut chunk = vec![0; size + 2];
                stream.read_exact(&mut chunk).ok()?;
                if size == 0 {
                    break;
                }
                body.extend_from_slice(&chunk[..size]);
            }
        } else if let Some(len) = headers.get("content-length") {
            body.resize(len.parse().ok()?, 0);
            stream.read_exact(&mut body).ok()?;
        }
        Some(Answer { status, headers, body })
    }
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("visor lies in the root")
}

/// The image of an example, as `cargo xtask build` leaves it.
pub(crate) fn image(name: &str) -> PathBuf {
    let path = root().join("target/images").join(name).with_extension("so");
    assert!(path.exists(), "{}: images are built first: run `cargo xtask test`", path.display());
    path
}

/// The bytes of the image of an example.
pub(crate) fn image_bytes(name: &str) -> Vec<u8> {
    std::fs::read(image(name)).expect("readable")
}

/// A workflow of one step, `main`, that runs this function.
pub(crate) fn single(name: &str, function: &str, more: &Value) -> Value {
    let mut document = json!({
        "name": name,
        "functions": { "f": { "image": format!("function:{function}") } },
        "steps": [{ "name": "main", "function": "f" }],
    });
    for (key, value) in more.as_object().expect("an object") {
        match key.as_str() {
            "args" | "timeout" | "instances" | "retry" | "memory" => document["steps"][0][key] = value.clone(),
            _ => document[key] = value.clone(),
        }
    }
    document
}

impl Server {
    /// A server with a fresh state.
    pub(crate) fn start() -> Server {
        Server::start_with(&[])
    }

    /// A server with a fresh state and options.
    pub(crate) fn start_with(options: &[&str]) -> Server {
        Server::start_on(&StateFolder::new(), options, &[])
    }

    /// A server on a state folder, with options and environment.
    pub(crate) fn start_on(state: &StateFolder, options: &[&str], env: &[(&str, &str)]) -> Server {
        Server::start_by(Command::new(env!("CARGO_BIN_EXE_monohull")), state, options, env)
    }

    /// The same by a command that becomes the program.
    pub(crate) fn start_by(
        mut program: Command,
        state: &StateFolder,
        options: &[&str],
        env: &[(&str, &str)],
    ) -> Server {
        program.args(["serve", "--state"]).arg(state.path()).args(options);
        if !options.contains(&"--listen") {
            program.args(["--listen", "127.0.0.1:0"]);
        }
        // Where there are keys they are to be in force, on kernels too where they must be asked for.
        if monohull_visor::domain::keys::support().is_available() && !options.contains(&"--isolation") {
            program.args(["--isolation", "mpk"]);
        }
        // Several threads serve, on machines too where one would by default: what goes wrong between them does not with one.
        if !options.contains(&"--threads") {
            program.args(["--threads", "3"]);
        }
        // Workflows that wait do so in their processes, unless a test is about durable ones.
        if !options.contains(&"--suspend") {
            program.args(["--suspend", "never"]);
        }
        let mut child = program
            .env_remove("MONOHULL_TOKEN")
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("monohull starts");
        let mut errors = child.stderr.take().expect("piped");
        let (sender, log) = mpsc::channel();
        let log_so_far = Arc::<Mutex<Vec<u8>>>::default();
        let all = log_so_far.clone();
        std::thread::spawn(move || {
            let mut piece = vec![0; 64 << 10];
            while let Ok(length @ 1..) = errors.read(&mut piece) {
                all.lock().expect("no thread panics while it holds the lock").extend_from_slice(&piece[..length]);
            }
            let _ = sender.send(all.lock().expect("no thread panics while it holds the lock").clone());
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
        let address = line.trim_end().strip_prefix("monohull listens on http");
        let Some(address) = address.and_then(|rest| rest.strip_prefix("s://").or(rest.strip_prefix("://"))) else {
            let _ = child.kill();
            panic!("it said {line:?} and {}", String::from_utf8_lossy(&log.recv().unwrap_or_default()));
        };
        let address = address.parse().expect("an address");
        Server { address, child, state: state.clone(), log: log.into(), log_so_far }
    }

    pub(crate) fn state(&self) -> StateFolder {
        self.state.clone()
    }

    /// What it has said so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&self.log_so_far.lock().expect("no thread panics while it holds the lock")).into_owned()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The most memory that it has had, in bytes.
    pub(crate) fn most_memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it is there");
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a number");
        most.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).expect("it runs");
    }

    /// What it may write to one file from now on: with nothing its disk is full.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let pid = Pid::from_raw(self.pid()).expect("a process");
        prlimit(Some(pid), Resource::Fsize, Rlimit { current: bytes, maximum: None }).expect("it is below us");
    }

    /// Waits for its end: the exit code, if it has one, and what it said.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("a child");
        let log = self
            .log
            .lock()
            .expect("no thread panics while it holds the lock")
            .recv_timeout(PATIENCE)
            .expect("its standard error ends with it");
        (status.code(), String::from_utf8_lossy(&log).into_owned())
    }

    /// Ends it as a service manager does.
    pub(crate) fn stop(self) -> (Option<i32>, String) {
        self.signal(nix::sys::signal::Signal::SIGTERM);
        self.wait()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        stream
    }

    /// Sends bytes as they are, and reads one answer.
    pub(crate) fn raw(&self, request: &[u8]) -> Option<Answer> {
        let mut stream = self.connect();
        // It may answer, and close, before all has been sent.
        let _ = stream.write_all(request);
        Answer::read(&mut stream)
    }

    /// A request with headers and a body.
    #[track_caller]
    pub(crate) fn ask_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let request = request(method, path, headers, body);
        self.raw(&request).unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        self.ask_with(method, path, &[], body)
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[])
    }

    /// The bytes of an invocation's checkpoints, the oldest first.
    pub(crate) fn checkpoint_sizes(&self, location: &str) -> Vec<u64> {
        let listed = self.get(&format!("{location}/checkpoints")).expect(200).json();
        let listed = listed["checkpoints"].as_array().expect("a list").iter();
        listed.map(|checkpoint| checkpoint["bytes"].as_u64().expect("a number")).collect()
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.ask("POST", path, body)
    }

    /// Registers the function of an example under its own name.
    #[track_caller]
    pub(crate) fn put_example(&self, name: &str) {
        let answer = self.ask("PUT", &format!("/functions/{name}"), &image_bytes(name));
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
    }

    /// Registers a workflow.
    #[track_caller]
    pub(crate) fn put_workflow(&self, document: &Value) {
        let path = format!("/workflows/{}", document["name"].as_str().expect("a name"));
        let answer = self.ask("PUT", &path, document.to_string().as_bytes());
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
    }

    /// Registers a shipped workflow with its functions.
    #[track_caller]
    pub(crate) fn put_shipped(&self, file: &str) {
        let path = root().join("workflows").join(file);
        let mut document: Value =
            serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("a workflow in JSON");
        for function in document["functions"].as_object_mut().expect("functions").values_mut() {
            let path = PathBuf::from(function["image"].as_str().expect("an image"));
            let name = path.file_stem().expect("a name").to_str().expect("UTF-8").to_owned();
            self.put_example(&name);
            function["image"] = format!("function:{name}").into();
        }
        self.put_workflow(&document);
    }

    /// Asks about an asynchronous invocation until it has ended.
    #[track_caller]
    pub(crate) fn ended(&self, location: &str) -> Value {
        let begin = std::time::Instant::now();
        loop {
            let shown = self.get(location).expect(200).json();
            if !["pending", "running", "suspended"].contains(&shown["status"].as_str().expect("a status")) {
                return shown;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end: {shown:#}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The processes below it that have not ended: its spawner's first.
    pub(crate) fn descendants(&self) -> Vec<i32> {
        let mut found = children(self.pid());
        let mut next = 0;
        while next < found.len() {
            found.extend(children(found[next]));
            next += 1;
        }
        found
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request as bytes; the connection ends with its answer.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("connection")) {
        head += "Connection: close\r\n";
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Closes the sending side; errors are ignored.
pub(crate) fn half_close(stream: &TcpStream) {
    let said = stream.shutdown(Shutdown::Write);
    assert!(said.is_ok() || said.is_err_and(|error| error.kind() == std::io::ErrorKind::NotConnected));
}

/// The children of a process.
fn children(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Whether a process exists and has not ended.
pub(crate) fn is_alive(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "still not: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Takes one callback and answers it with this status: its head, in small letters, and the invocation's document.
pub(crate) fn take_callback(listener: &TcpListener, status: &str) -> (String, Value) {
    let (mut stream, _) = listener.accept().expect("a call");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text").to_lowercase();
    let len = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()).expect("a length");
    let mut body = vec![0; len.parse().expect("a number")];
    stream.read_exact(&mut body).expect("a body");
    stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).expect("sent");
    (head, serde_json::from_slice(&body).expect("JSON"))
}
