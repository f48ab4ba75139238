//! A network for tests: a namespace with the helper in it, and workflows beside it.

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Lines};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Addresses in the namespace that are not a device's own: reached through one.
pub(crate) const FAR4: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
pub(crate) const FAR6: Ipv6Addr = Ipv6Addr::new(0xfd98, 0, 0, 0, 0, 0, 0, 1);
/// How long something that should happen may take on a busy computer.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("visor lies in the root")
}

/// A namespace and its helper; both go when this does.
pub(crate) struct Net {
    name: String,
    helper: Child,
    pub(crate) folder: tempfile::TempDir,
}

impl Net {
    /// A helper with room for many devices.
    pub(crate) fn new() -> Net {
        Net::with(&["--pool", "10.99.0.0/24", "--pool", "fd99::/48", "--resolver", "10.98.0.1"])
    }

    /// A helper with these options.
    pub(crate) fn with(options: &[&str]) -> Net {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("monohull-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &name]);
        for arguments in [
            &["link", "set", "lo", "up"][..],
            &["addr", "add", &format!("{FAR4}/32"), "dev", "lo"],
            &["addr", "add", &format!("{FAR6}/128"), "dev", "lo", "nodad"],
        ] {
            ip(&[&["-n", &name], arguments].concat());
        }
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &name, env!("CARGO_BIN_EXE_monohull"), "network", "--socket"]);
        command.arg(folder.path().join("socket")).args(options).stdout(Stdio::piped());
        let mut helper = command.spawn().expect("the helper starts");
        let mut said = String::new();
        BufReader::new(helper.stdout.take().expect("piped")).read_line(&mut said).expect("it speaks");
        assert!(said.starts_with("lending devices at "), "{said}");
        Net { name, helper, folder }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// A program in the namespace.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// What a program in the namespace says; it must succeed.
    #[track_caller]
    pub(crate) fn output(&self, program: &str, arguments: &[&str]) -> Vec<u8> {
        succeeded(self.command(program).args(arguments).output().expect("a program")).stdout
    }

    /// Starts a program in the namespace that ends with the test.
    pub(crate) fn start(&self, program: &str, arguments: &[&str]) -> Guest {
        let mut command = self.command(program);
        Guest(command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a program"))
    }

    /// Runs code whose sockets are in the namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(Path::new("/run/netns").join(&self.name)).expect("the namespace");
        std::thread::scope(|scope| {
            let body = || {
                setns(&namespace, CloneFlags::CLONE_NEWNET).expect("this thread may enter");
                work()
            };
            scope.spawn(body).join().expect("it does not panic")
        })
    }

    /// The devices that are there, each with its address on the host's side.
    pub(crate) fn devices(&self) -> Vec<(String, Ipv4Addr)> {
        let text = succeeded(ip_output(&["-n", &self.name, "-4", "-o", "addr", "show"])).stdout;
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
        ip(&["-n", &self.name, "link", "del", device]);
    }

    /// Starts a workflow of one step.
    pub(crate) fn run(&self, image: &str, arguments: Value) -> Run {
        let program = Path::new(env!("CARGO_BIN_EXE_monohull"));
        self.start_run(&[], program, &root().join("target/images").join(image).with_extension("so"), arguments)
    }

    /// The same for a user who can read nothing but what he is given: a copy of all it takes.
    pub(crate) fn run_as(&self, prefix: &[&str], image: &str, arguments: Value) -> Run {
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
        self.start_run(prefix, &program, &copy, arguments)
    }

    fn start_run(&self, prefix: &[&str], program: &Path, image: &Path, arguments: Value) -> Run {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let fetches = image.ends_with("http-fetch.so");
        let document = json!({
            "name": "net",
            "functions": { "f": { "image": image } },
            "steps": [{ "name": "step", "function": "f", "args": arguments, "memory": "4GiB" }],
            "limits": { "threads": 4096, "timeout": "5m" },
            "network": "tap",
            "outputs": if fetches { json!(["body"]) } else { json!([]) },
        });
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = self.folder.path().join(format!("workflow-{number}.json"));
        std::fs::write(&file, document.to_string()).expect("a file");
        let result = self.folder.path().join(format!("body-{number}"));
        let mut line = prefix.iter().map(OsStr::new).chain([program.as_os_str(), OsStr::new("run"), file.as_os_str()]);
        let mut command = Command::new(line.next().expect("a program"));
        command.args(line).env("MONOHULL_NETWORK", self.socket());
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
        let _ = ip_output(&["netns", "del", &self.name]);
    }
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

fn ip_output(arguments: &[&str]) -> Output {
    Command::new("ip").args(arguments).output().expect("iproute2 is installed")
}

#[track_caller]
fn ip(arguments: &[&str]) {
    succeeded(ip_output(arguments));
}
