//! Servers, ours and the peer, each started for a measurement and ended with it.

use crate::harness::Result;
use crate::http;
use crate::ours::{image, scratch};
use crate::peer::build_floor;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that runs. It ends, with everything below it, when this is dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
    folder: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Apache, if it is killed, leaves its children behind.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// A folder of its own.
fn folder(name: &str) -> Result<PathBuf> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = scratch()?.join(format!("{name}-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// `monohull serve`, as `cargo xtask build` leaves it.
pub(crate) fn monohull(options: &[&str]) -> Result<Running> {
    let folder = folder("serve")?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("monohull");
    let mut command = Command::new(&program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--state"]).arg(&folder).args(options);
    command.env("RUST_LOG", "error").env_remove("MONOHULL_TOKEN").stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
    let mut line = String::new();
    let read = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
    let address = line.trim_end().strip_prefix("monohull listens on http://").and_then(|address| address.parse().ok());
    match (read, address) {
        (Some(Ok(_)), Some(address)) => Ok(Running { child, address, folder }),
        _ => {
            let _ = child.kill();
            Err(format!("monohull serve said {line:?}"))
        }
    }
}

/// Registers an example's function, and a workflow of one step that runs it, both under this name.
pub(crate) fn register(address: SocketAddr, name: &str, example: &str, more: &Value) -> Result<()> {
    let path = image(example);
    let bytes = fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    let mut document = serde_json::json!({
        "name": name,
        "functions": { "f": { "image": format!("function:{example}") } },
        "steps": [{ "name": "main", "function": "f" }],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        match key.as_str() {
            "args" | "timeout" => document["steps"][0][key] = value.clone(),
            _ => document[key] = value.clone(),
        }
    }
    put(address, &format!("/functions/{example}"), &bytes)?;
    put(address, &format!("/workflows/{name}"), document.to_string().as_bytes())
}

/// Registers something.
pub(crate) fn put(address: SocketAddr, path: &str, body: &[u8]) -> Result<()> {
    match http::ask(address, "PUT", path, body)? {
        (200 | 201, _) => Ok(()),
        (_, answer) => Err(format!("{path}: {}", String::from_utf8_lossy(&answer))),
    }
}

/// Apache, as `cargo xtask bench` fetches it, with a CGI program at `/cgi/program` and an empty file at `/empty`.
pub(crate) fn apache(program: &Path) -> Result<Running> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/apache/bookworm");
    let root = fs::canonicalize(&root).map_err(|_| "Apache is not there; `cargo xtask bench` fetches it".to_owned())?;
    // Apache's processes give up root's rights, so the folder must be readable for all users.
    let folder = std::env::temp_dir().join(format!("monohull-bench-apache-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let make = || -> std::io::Result<u16> {
        fs::create_dir_all(folder.join("cgi"))?;
        fs::create_dir_all(folder.join("www"))?;
        fs::write(folder.join("www/empty"), "")?;
        TcpListener::bind("127.0.0.1:0")?.local_addr().map(|address| address.port())
    };
    let port = make().map_err(|error| format!("{}: {error}", folder.display()))?;
    fs::copy(program, folder.join("cgi/program")).map_err(|error| format!("the CGI program: {error}"))?;
    let (tree, here) = (root.join("tree").display().to_string(), folder.display());
    let modules: String = ["mpm_event", "cgid", "alias", "authz_core"]
        .iter()
        .map(|name| format!("LoadModule {name}_module {tree}/usr/lib/apache2/modules/mod_{name}.so\n"))
        .collect();
    let user = if nix::unistd::Uid::effective().is_root() { "User #65534\nGroup #65534\n" } else { "" };
    let configuration = format!(
        "ServerRoot {here}\nServerName localhost\nListen 127.0.0.1:{port}\n{modules}{user}\
         PidFile {here}/pid\nErrorLog {here}/error.log\nScriptSock {here}/cgid\nDefaultRuntimeDir {here}\n\
         DocumentRoot {here}/www\nScriptAlias /cgi/ {here}/cgi/\nKeepAlive On\nMaxKeepAliveRequests 0\n\
         <Directory {here}>\nRequire all granted\nOptions +ExecCGI\n</Directory>\n"
    );
    let file = folder.join("apache.conf");
    fs::write(&file, configuration).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut command = Command::new(root.join("apache2"));
    command.arg("-f").arg(&file).args(["-D", "FOREGROUND"]);
    let child = command.spawn().map_err(|error| format!("Apache: {error}"))?;
    listening("Apache", Running { child, address: SocketAddr::from(([127, 0, 0, 1], port)), folder })
}

/// Where `cargo xtask bench` leaves wasmtime's program.
pub(crate) fn wasmtime_program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasmtime-cli/bin/wasmtime")
}

/// A server of our shape that does nothing ([`crate::peer`]), by the name of its peer, with so many processes.
pub(crate) fn relay(peer: &str, processes: usize) -> Result<Running> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["--peer", peer, &processes.to_string()]);
    saying(command, peer)
}

/// The server of `peers/floor.c`, with so many processes: what a request costs at least that a process answers which does this.
pub(crate) fn floor(what: &str, processes: usize) -> Result<Running> {
    let mut command = Command::new(build_floor()?);
    command.args([what, &processes.to_string()]);
    saying(command, "floor")
}

/// A server that says where it listens.
fn saying(mut command: Command, name: &str) -> Result<Running> {
    let folder = folder(name)?;
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("the {name}: {error}"))?;
    let mut line = String::new();
    let read = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
    match (read, line.trim_end().parse()) {
        (Some(Ok(_)), Ok(address)) => Ok(Running { child, address, folder }),
        _ => {
            let _ = child.kill();
            Err(format!("the {name} said {line:?}"))
        }
    }
}

/// `wasmtime serve` of a component that answers nothing: an instance for each request.
pub(crate) fn wasmtime() -> Result<Running> {
    let folder = folder("wasmtime")?;
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = port.map_err(|error| format!("a port for wasmtime: {error}"))?;
    let mut command = Command::new(wasmtime_program());
    command.args(["serve", "--addr", &address.to_string(), concat!(env!("CARGO_MANIFEST_DIR"), "/peers/nothing.wat")]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.map_err(|error| format!("wasmtime serve: {error}"))?;
    listening("wasmtime serve", Running { child, address, folder })
}

/// nginx, as `cargo xtask bench` fetches it, with an empty file at `/empty` and a process for each processor.
pub(crate) fn nginx() -> Result<Running> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/nginx/bookworm/nginx");
    let program =
        fs::canonicalize(&program).map_err(|_| "nginx is not there; `cargo xtask bench` fetches it".to_owned())?;
    // Its processes give up root's rights, so the folder must be readable for all users.
    let folder = std::env::temp_dir().join(format!("monohull-bench-nginx-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let make = || -> std::io::Result<u16> {
        fs::create_dir_all(folder.join("www"))?;
        fs::write(folder.join("www/empty"), "")?;
        TcpListener::bind("127.0.0.1:0")?.local_addr().map(|address| address.port())
    };
    let port = make().map_err(|error| format!("{}: {error}", folder.display()))?;
    let here = folder.display();
    let user = if nix::unistd::Uid::effective().is_root() { "user nobody nogroup;\n" } else { "" };
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {here}/{kind};\n"))
        .collect();
    let configuration = format!(
        "daemon off;\n{user}worker_processes auto;\npid {here}/pid;\nerror_log {here}/error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\naccess_log off;\nkeepalive_requests 1000000000;\nopen_file_cache max=10;\n{paths}\
         server {{ listen 127.0.0.1:{port}; root {here}/www; }}\n}}\n"
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, configuration).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut command = Command::new(program);
    command.arg("-e").arg(folder.join("error.log")).arg("-c").arg(&file).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| format!("nginx: {error}"))?;
    listening("nginx", Running { child, address: SocketAddr::from(([127, 0, 0, 1], port)), folder })
}

/// Waits until a server listens.
fn listening(name: &str, mut running: Running) -> Result<Running> {
    let begin = Instant::now();
    while TcpStream::connect(running.address).is_err() {
        if begin.elapsed() > PATIENCE || running.child.try_wait().is_ok_and(|ended| ended.is_some()) {
            let log = fs::read_to_string(running.folder.join("error.log")).unwrap_or_default();
            return Err(format!("{name} does not listen: {log}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(running)
}

/// Waits until something holds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    while !holds()? {
        if begin.elapsed() > PATIENCE {
            return Err(format!("still not: {what}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Whether a process of the server's has a workflow, and with it the image of a function.
pub(crate) fn has_image(pid: i32) -> bool {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    links.filter_map(|link| fs::read_link(link.path()).ok()).any(|link| link.to_string_lossy().contains("memfd:"))
}

/// Bytes of a process's memory that no other has.
pub(crate) fn private_memory(pid: &i32) -> u64 {
    memory_of(*pid, &["Private_Clean:", "Private_Dirty:"])
}

/// The sum of these lines of what the kernel knows of a process's memory, in bytes.
pub(crate) fn memory_of(pid: i32, lines: &[&str]) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let number = |name: &&str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
    };
    lines.iter().map(number).sum()
}

/// The children of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Bytes of a process's memory; of what it shares with others, its part.
pub(crate) fn pss(pid: &i32) -> u64 {
    memory_of(*pid, &["Pss:"])
}
