//! A network for tests: a namespace with the helper in it, and workflows beside it.
//!
//! Where `$MONOHULL_WIRE` says what a wire does to frames (with netem's options), programs and servers are beyond one:
//!
//! ```text
//!   workflow ─ device ─ near: helper, router ═ veth, netem both ways ═ far: curl, nginx, …      without: near is far
//! ```

use crate::world::{World, tables};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Lines};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Addresses in the namespace that are not a device's own: reached through one.
pub(crate) const FAR4: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
pub(crate) const FAR6: Ipv6Addr = Ipv6Addr::new(0xfd98, 0, 0, 0, 0, 0, 0, 1);
/// The addresses at the ends of the wire.
const NEAR_END: [&str; 2] = ["10.97.0.1/30", "fd97::1/64"];
const FAR_END: [&str; 2] = ["10.97.0.2/30", "fd97::2/64"];
/// What a wire does to frames, if there is one.
const WIRE_VARIABLE: &str = "MONOHULL_WIRE";
/// How long something that should happen may take on a busy computer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("visor lies in the root")
}

/// A namespace and its helper, and who is beyond the wire; all go when this does.
pub(crate) struct Net {
    near: String,
    far: String,
    helper: Child,
    pub(crate) folder: tempfile::TempDir,
}

impl Net {
    /// A helper with room for many devices.
    pub(crate) fn new() -> Net {
        Net::with(&["--pool", "10.99.0.0/24", "--pool", "fd99::/48", "--resolver", "10.98.0.1"])
    }

    /// A helper with these options, and another namespace beyond the device `out`.
    pub(crate) fn beside(world: &World, options: &[&str]) -> Net {
        let near = namespace();
        world.join(&near);
        Net::start_helper(near.clone(), near, options)
    }

    /// A helper with these options.
    pub(crate) fn with(options: &[&str]) -> Net {
        let near = namespace();
        let far = match std::env::var(WIRE_VARIABLE) {
            Ok(wire) => beyond_a_wire(&near, &wire),
            Err(_) => near.clone(),
        };
        ip(&["-n", &far, "addr", "add", &format!("{FAR4}/32"), "dev", "lo"]);
        ip(&["-n", &far, "addr", "add", &format!("{FAR6}/128"), "dev", "lo", "nodad"]);
        Net::start_helper(near, far, options)
    }

    fn start_helper(near: String, far: String, options: &[&str]) -> Net {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &near, env!("CARGO_BIN_EXE_monohull"), "network", "--socket"]);
        command.arg(folder.path().join("socket")).args(options).stdout(Stdio::piped());
        let mut helper = command.spawn().expect("the helper starts");
        let mut said = String::new();
        BufReader::new(helper.stdout.take().expect("piped")).read_line(&mut said).expect("it prints a line");
        assert!(said.starts_with("leasing devices at "), "{said}");
        Net { near, far, helper, folder }
    }

    /// Whether there is a wire that loses, delays or reorders.
    pub(crate) fn is_bad(&self) -> bool {
        self.near != self.far
    }

    /// What is shown to have come about on the wire, in each direction; nothing if there is none.
    pub(crate) fn wire(&self) -> Vec<String> {
        let ends = [(&self.near, "near"), (&self.far, "far")].into_iter().filter(|_| self.is_bad());
        let shown = |(namespace, device): (&String, &str)| {
            let text = succeeded(tc_output(&["-s", "-n", namespace, "qdisc", "show", "dev", device])).stdout;
            String::from_utf8(text).expect("text")
        };
        ends.map(shown).collect()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// A program beyond the wire.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.far, program]);
        command
    }

    /// What a program beyond the wire says; it must succeed.
    #[track_caller]
    pub(crate) fn output(&self, program: &str, arguments: &[&str]) -> Vec<u8> {
        succeeded(self.command(program).args(arguments).output().expect("a program")).stdout
    }

    /// Starts a program beyond the wire that ends with the test.
    pub(crate) fn start(&self, program: &str, arguments: &[&str]) -> Guest {
        let mut command = self.command(program);
        Guest(command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a program"))
    }

    /// Runs code whose sockets are beyond the wire.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.far, work)
    }

    /// The devices that are there, each with its address on the host's side.
    pub(crate) fn devices(&self) -> Vec<(String, Ipv4Addr)> {
        let text = succeeded(ip_output(&["-n", &self.near, "-4", "-o", "addr", "show"])).stdout;
        let text = String::from_utf8(text).expect("text");
        let device = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            let name = words.next().filter(|name| name.starts_with("mhull"))?;
            let address = words.nth(1)?.split('/').next()?.parse().ok()?;
            Some((name.to_owned(), address))
        };
        text.lines().filter_map(device).collect()
    }

    /// The address of the one workflow that has a device.
    pub(crate) fn workflow4(&self) -> IpAddr {
        let devices = self.devices();
        assert_eq!(devices.len(), 1, "{devices:?}");
        Ipv4Addr::from_bits(devices[0].1.to_bits() + 1).into()
    }

    /// Waits until there are so many devices.
    #[track_caller]
    pub(crate) fn wait_for_devices(&self, count: usize) {
        let start = Instant::now();
        while self.devices().len() != count {
            assert!(start.elapsed() < PATIENCE, "{:?}", self.devices());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Takes a device away.
    pub(crate) fn remove(&self, device: &str) {
        ip(&["-n", &self.near, "link", "del", device]);
    }

    /// Whether nothing that the namespace sends to an address arrives, and no error comes back.
    pub(crate) fn silence(&self, address: IpAddr, silent: bool) {
        let change = if silent { "add" } else { "del" };
        ip(&["-n", &self.near, "route", change, "blackhole", &format!("{address}/32")]);
    }

    /// Ends the helper at once, and nothing else.
    pub(crate) fn kill_helper(&mut self) {
        self.helper.kill().expect("it runs");
        self.helper.wait().expect("it ends");
    }

    /// Rules, routes and forwarding of the namespace with the helper, as text.
    pub(crate) fn state(&self) -> String {
        let routes = succeeded(ip_output(&["-n", &self.near, "route", "show", "table", "all"])).stdout;
        let forwarding = "grep -r . /proc/sys/net/ipv4/conf/*/forwarding /proc/sys/net/ipv4/ip_forward | sort";
        let forwarding = succeeded(ip_output(&["netns", "exec", &self.near, "sh", "-c", forwarding])).stdout;
        let tables = within(&self.near, tables);
        format!("{tables:?}\n{}\n{}", String::from_utf8_lossy(&routes), String::from_utf8_lossy(&forwarding))
    }

    /// Waits until they are as they were.
    #[track_caller]
    pub(crate) fn wait_for_state(&self, before: &str) {
        let start = Instant::now();
        // The names of devices that come and go are in it.
        while self.state() != before {
            let lines = |text: &str| text.lines().filter(|line| !line.contains("mhull")).collect::<Vec<_>>().join("\n");
            if self.devices().len() == 1 && lines(&self.state()) == lines(before) && !self.forwards() {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{}\nit was\n{before}", self.state());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether a workflow's device forwards.
    fn forwards(&self) -> bool {
        self.state().lines().any(|line| line.contains("mhull") && line.ends_with("forwarding:1"))
    }

    /// Starts a workflow of one step.
    pub(crate) fn run(&self, image: &str, arguments: Value) -> Run {
        self.run_on(image, arguments, json!("tap"))
    }

    /// The same, with this network.
    pub(crate) fn run_on(&self, image: &str, arguments: Value, network: Value) -> Run {
        let program = Path::new(env!("CARGO_BIN_EXE_monohull"));
        let image = root().join("target/images").join(image).with_extension("so");
        self.start_run(None, program, &image, arguments, network)
    }

    /// Runs a workflow to its end, which must be a good one; what is in these slots then.
    #[track_caller]
    pub(crate) fn outputs<const N: usize>(&self, document: &Value, slots: [&str; N]) -> [String; N] {
        let file = self.folder.path().join("whole.json");
        std::fs::write(&file, document.to_string()).expect("a file");
        let path = |slot: &str| self.folder.path().join(slot);
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.arg("run").arg(&file).env("MONOHULL_NETWORK", self.socket());
        for slot in slots {
            command.arg("--output").arg(format!("{slot}={}", path(slot).display()));
        }
        succeeded(command.output().expect("a workflow"));
        slots.map(|slot| std::fs::read_to_string(path(slot)).expect("text"))
    }

    /// The same for a user that can read nothing but what it is given: a copy of all it takes.
    pub(crate) fn run_as(&self, user: u32, image: &str, arguments: Value) -> Run {
        let folder = self.folder.path();
        let modules = folder.join("modules");
        std::fs::create_dir_all(&modules).expect("a folder");
        for path in [folder, &modules] {
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).expect("changed");
        }
        for module in std::fs::read_dir(root().join("target/modules")).expect("modules").flatten() {
            std::fs::copy(module.path(), modules.join(module.file_name())).expect("a copy");
        }
        let (program, copy) = (folder.join("monohull"), folder.join(image));
        if !program.exists() {
            std::fs::copy(env!("CARGO_BIN_EXE_monohull"), &program).expect("a copy");
            std::fs::copy(root().join("target/images").join(image).with_extension("so"), &copy).expect("a copy");
        }
        self.start_run(Some(user), &program, &copy, arguments, json!("tap"))
    }

    /// Starts `workflows/network/NAME.json` as it is; it prints its report.
    pub(crate) fn start_shipped(&self, name: &str) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.arg("run").arg(root().join("workflows/network").join(name).with_extension("json")).arg("--json");
        command.env("MONOHULL_NETWORK", self.socket()).stdout(Stdio::piped());
        command.spawn().expect("a workflow")
    }

    fn start_run(&self, user: Option<u32>, program: &Path, image: &Path, arguments: Value, network: Value) -> Run {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let fetches = image.ends_with("http-fetch.so");
        let document = json!({
            "name": "net",
            "functions": { "f": { "image": image } },
            "steps": [{ "name": "step", "function": "f", "args": arguments, "memory": "4GiB" }],
            "limits": { "threads": 4096, "timeout": "5m" },
            "network": network,
            "outputs": if fetches { json!(["body"]) } else { json!([]) },
        });
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = self.folder.path().join(format!("workflow-{number}.json"));
        std::fs::write(&file, document.to_string()).expect("a file");
        let result = self.folder.path().join(format!("body-{number}"));
        let mut command = Command::new(program);
        command.arg("run").arg(&file).env("MONOHULL_NETWORK", self.socket());
        if let Some(user) = user {
            // With the group of the same number, and no other.
            command.uid(user).gid(user);
        }
        if fetches {
            command.arg("--output").arg(format!("body={}", result.display()));
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a workflow");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Run { child, lines, result }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = self.helper.kill();
        let _ = self.helper.wait();
        let _ = ip_output(&["netns", "del", &self.near]);
        if self.is_bad() {
            let _ = ip_output(&["netns", "del", &self.far]);
        }
    }
}

/// A new namespace.
pub(crate) fn namespace() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("monohull-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    ip(&["netns", "add", &name]);
    ip(&["-n", &name, "link", "set", "lo", "up"]);
    name
}

/// Runs code whose sockets are in a namespace.
pub(crate) fn within<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    let namespace = File::open(Path::new("/run/netns").join(namespace)).expect("the namespace");
    std::thread::scope(|scope| {
        let body = || {
            setns(&namespace, CloneFlags::CLONE_NEWNET).expect("this thread may enter");
            work()
        };
        scope.spawn(body).join().expect("it does not panic")
    })
}

/// A namespace beyond a wire that does this to frames, both ways.
fn beyond_a_wire(near: &str, wire: &str) -> String {
    let far = format!("{near}-far");
    ip(&["netns", "add", &far]);
    ip(&["-n", &far, "link", "set", "lo", "up"]);
    ip(&["-n", near, "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", &far]);
    for (namespace, device, addresses) in [(near, "near", NEAR_END), (&far, "far", FAR_END)] {
        let [four, six] = addresses;
        ip(&["-n", namespace, "addr", "add", four, "dev", device]);
        ip(&["-n", namespace, "addr", "add", six, "dev", device, "nodad"]);
        // Single packets are lost, not the many that one buffer stands for.
        ip(&["-n", namespace, "link", "set", device, "gso_max_segs", "1", "up"]);
        let netem = ["-n", namespace, "qdisc", "add", "dev", device, "root", "netem"];
        succeeded(tc_output(&netem.into_iter().chain(wire.split_whitespace()).collect::<Vec<_>>()));
    }
    for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        let forward = format!("echo 1 >/proc/sys/net/{setting}");
        ip(&["netns", "exec", near, "sh", "-c", &forward]);
    }
    ip(&["-n", near, "route", "add", &format!("{FAR4}/32"), "via", "10.97.0.2"]);
    ip(&["-n", near, "-6", "route", "add", &format!("{FAR6}/128"), "via", "fd97::2"]);
    ip(&["-n", &far, "route", "add", "default", "via", "10.97.0.1"]);
    ip(&["-n", &far, "-6", "route", "add", "default", "via", "fd97::1"]);
    far
}

/// A program that ends with the test.
pub(crate) struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        // Asked politely, it takes its own children along.
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// A running workflow.
pub(crate) struct Run {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    result: PathBuf,
}

impl Run {
    /// The next line that the function prints.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        loop {
            let line = match self.lines.next() {
                Some(line) => line.expect("text"),
                None => panic!("it printed nothing more: {}", self.errors()),
            };
            if let Some((_, said)) = line.split_once(" | ") {
                return said.to_owned();
            }
        }
    }

    /// The next connection to a server of the test's. Without one, the run's output.
    #[track_caller]
    pub(crate) fn accept(&mut self, server: &TcpListener) -> (TcpStream, SocketAddr) {
        server.set_nonblocking(true).expect("it waits here, not there");
        let start = Instant::now();
        loop {
            let error = match server.accept() {
                Ok(accepted) => return accepted,
                Err(error) => error,
            };
            let runs = self.child.try_wait().is_ok_and(|ended| ended.is_none());
            if error.kind() != ErrorKind::WouldBlock || !runs || start.elapsed() > PATIENCE {
                let _ = self.child.kill();
                panic!("no connection: {error}: {}", self.errors());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end, which must be a good one; what its output slot held.
    #[track_caller]
    pub(crate) fn end(mut self) -> Vec<u8> {
        let rest: Vec<String> = self.lines.by_ref().map_while(Result::ok).collect();
        let status = self.child.wait().expect("a child");
        assert!(status.success(), "{status}: {rest:#?} {}", self.errors());
        std::fs::read(&self.result).unwrap_or_default()
    }

    /// Waits for the end, which must be a bad one; what it said.
    #[track_caller]
    pub(crate) fn failure(mut self) -> String {
        while let Some(Ok(_)) = self.lines.next() {}
        assert!(!self.child.wait().expect("a child").success());
        self.errors()
    }

    fn errors(&mut self) -> String {
        let stderr = self.child.stderr.take().expect("piped");
        BufReader::new(stderr).lines().map_while(Result::ok).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn succeeded(output: Output) -> Output {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    output
}

pub(crate) fn ip_output(arguments: &[&str]) -> Output {
    Command::new("ip").args(arguments).output().expect("iproute2 is installed")
}

fn tc_output(arguments: &[&str]) -> Output {
    Command::new("tc").args(arguments).output().expect("iproute2 is installed")
}

#[track_caller]
pub(crate) fn ip(arguments: &[&str]) {
    succeeded(ip_output(arguments));
}
