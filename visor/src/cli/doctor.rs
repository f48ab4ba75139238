//! `monohull doctor`: what the host has, what is done without it, and how to fix it.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::{exit::Exit, prerequisites, table};
use monohull_domain::fault_injection;
use monohull_domain::gadgets::{self, Gadget, GadgetsError};
use monohull_domain::hostcall::NAMES;
use monohull_domain::keys::{self, Support};
use monohull_engine::options::modules_folder;
use monohull_network as network;
use monohull_report::escape::shown;
use monohull_sys::probe;
use monohull_sys::written_pages::PageMap;
use monohull_worker::cgroup;

/// Report what this host has and lacks
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull doctor", "monohull doctor --json"))]
pub(super) struct Doctor {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Something about the host.
#[derive(Debug, Serialize)]
struct Finding {
    name: Cow<'static, str>,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    consequence: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// There.
    Ok,
    /// Not there; something else takes its place.
    Fallback,
    /// Not there; what needs it cannot be built, and all else can.
    Absent,
    /// Not there, and required.
    Missing,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Fallback => "fallback",
            State::Absent => "absent",
            State::Missing => "MISSING",
        }
    }
}

#[derive(Serialize)]
struct Diagnosis<'a> {
    status: &'static str,
    isolation: &'static str,
    findings: &'a [Finding],
    gadgets: Vec<Listed<'a>>,
}

/// A gadget in the code of this process. Numbers are hexadecimal text: they have more digits than JSON readers keep.
#[derive(Serialize)]
struct Listed<'a> {
    kind: &'static str,
    object: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<String>,
    /// Relative to the object's load base.
    offset: String,
    /// In this process.
    address: String,
    bytes: String,
    fate: String,
}

/// What there is of gadgets, and what becomes of them.
struct Gadgets {
    list: Vec<Gadget>,
    removed: bool,
    /// Why protection keys cannot be put in force.
    error: Option<GadgetsError>,
}

impl Gadgets {
    /// Where keys can be used the gadgets of this process are removed in earnest, which shows more than the intention.
    fn look() -> Gadgets {
        let removal = keys::support().is_available().then(gadgets::remove);
        if let Some(Ok(())) = removal {
            return Gadgets { list: gadgets::removed().to_vec(), removed: true, error: None };
        }
        let removal = removal.and_then(Result::err);
        match gadgets::survey() {
            Ok(list) => {
                let error = removal.or_else(|| gadgets::obstacle(&list));
                Gadgets { list, removed: false, error }
            }
            Err(error) => Gadgets { list: Vec::new(), removed: false, error: Some(error) },
        }
    }

    fn listed(&self) -> Vec<Listed<'_>> {
        let listed = |gadget| Listed::new(gadget, self.removed);
        self.list.iter().map(listed).collect()
    }

    fn finding(&self) -> Finding {
        let line = |listed: &Listed<'_>| {
            let object = shown(listed.object.file_name().unwrap_or_default());
            let place = listed.symbol.as_ref().unwrap_or(&listed.offset);
            format!("{} in {object}, {place}: {}", listed.kind, listed.fate)
        };
        let found = match &self.error {
            Some(error) => error.to_string(),
            None => self.listed().iter().map(line).collect::<Vec<_>>().join("\n"),
        };
        let advice = [
            "protection keys would not keep functions from the system, and are not put in force",
            "another version of the object that is named",
        ];
        measured("gadgets in trusted code", found, self.error.is_none(), State::Fallback, advice)
    }
}

impl<'a> Listed<'a> {
    fn new(gadget: &'a Gadget, removed: bool) -> Listed<'a> {
        let bytes: Vec<String> = gadget.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let fate = match gadget.fate {
            Ok(way) if removed => way.name().to_owned(),
            Ok(way) => format!("would be {}", way.name()),
            Err(obstacle) => format!("stays: {obstacle}"),
        };
        Listed {
            kind: gadget.kind.name(),
            object: &gadget.object,
            symbol: gadget.symbol(),
            offset: format!("{:#x}", gadget.offset),
            address: format!("{:#x}", gadget.address),
            bytes: bytes.join(" "),
            fate,
        }
    }
}

impl Doctor {
    pub(super) fn run(&self) -> Exit {
        let gadgets = Gadgets::look();
        let findings = examine(&gadgets);
        let ready = findings.iter().all(|finding| finding.state != State::Missing);
        let isolation = keys::isolation(keys::by_default() && gadgets.error.is_none());
        if self.json {
            let status = if ready { "ready" } else { "not-ready" };
            super::output::json(&Diagnosis { status, isolation, findings: &findings, gadgets: gadgets.listed() });
        } else {
            show(&findings, isolation, ready);
        }
        if ready { Exit::Done } else { Exit::Host }
    }
}

/// Columns of the table where standard output is no terminal.
const WIDTH: u16 = 120;

fn show(findings: &[Finding], isolation: &str, ready: bool) {
    let head = ["", "state", "found", "consequence and remedy"];
    let mut table = table::of_width(head, Some(super::output::terminal_width().unwrap_or(WIDTH)));
    for finding in findings {
        let advice: Vec<&str> = finding.consequence.into_iter().chain(finding.remedy).collect();
        table.add_row([&*finding.name, finding.state.name(), &finding.found, &advice.join("; ")]);
    }
    let verdict = if ready { "This host can run workflows." } else { "This host lacks something required." };
    super::output::text(format_args!("{table}\n{verdict} Isolation `auto` means `{isolation}` here.\n"));
}

/// A finding about something that was tried.
fn tried(
    name: &'static str,
    outcome: std::io::Result<()>,
    otherwise: State,
    consequence: &'static str,
    remedy: &'static str,
) -> Finding {
    let name = name.into();
    match outcome {
        Ok(()) => Finding { name, state: State::Ok, found: "works".to_owned(), consequence: None, remedy: None },
        Err(error) => Finding {
            name,
            state: otherwise,
            found: error.to_string(),
            consequence: Some(consequence),
            remedy: Some(remedy),
        },
    }
}

/// A finding about a quantity, which should be at least so much.
fn measured(
    name: impl Into<Cow<'static, str>>,
    found: String,
    enough: bool,
    otherwise: State,
    advice: [&'static str; 2],
) -> Finding {
    let name = name.into();
    let [consequence, remedy] = advice.map(|text| (!enough).then_some(text));
    Finding { name, state: if enough { State::Ok } else { otherwise }, found, consequence, remedy }
}

fn examine(gadgets: &Gadgets) -> Vec<Finding> {
    let mut findings = vec![
        kernel(),
        protection_keys(),
        gadgets.finding(),
        tried(
            "syscall user dispatch",
            probe::syscall_dispatch(),
            State::Missing,
            "system calls of functions cannot be caught",
            "Linux 5.11 or newer with CONFIG_GENERIC_ENTRY, and no sandbox around it that forbids prctl",
        ),
        tried(
            "seccomp",
            probe::seccomp(),
            State::Missing,
            "the process cannot be confined to the system calls it needs",
            "a kernel with CONFIG_SECCOMP_FILTER",
        ),
        landlock(),
        control_groups(),
        tried(
            "guard pages (MADV_GUARD_INSTALL)",
            probe::guard_pages(),
            State::Fallback,
            "every guard page is a mapping of its own, so vm.max_map_count bounds the number of threads",
            "Linux 6.13 or newer",
        ),
        tried(
            "userfaultfd",
            probe::userfaultfd(),
            State::Fallback,
            "memory is filled at once instead of when it is touched",
            "CONFIG_USERFAULTFD; inside a sandbox, allow the system call",
        ),
        tried(
            "written pages (PAGEMAP_SCAN)",
            PageMap::is_of_use(),
            State::Fallback,
            "a checkpoint after the first reads all memory to find what has changed",
            "Linux 6.7 or newer with CONFIG_USERFAULTFD; inside a sandbox, allow userfaultfd and ioctl",
        ),
        devices(),
        tried(
            "way out of such a network (nf_tables)",
            network::probe::way_out(),
            State::Fallback,
            "`monohull network --outside` cannot work: a workflow's device reaches this host, and what this host's own rules forward",
            "root's rights, and a kernel with nf_tables and nft_masq",
        ),
        address_space(),
        descriptors(),
        processes(),
        max_map_count(),
        memory(),
        cores(),
    ];
    findings.extend(modules());
    findings.extend(prerequisites::ALL.iter().map(|needed| {
        let found = needed.find();
        let is_there = found.is_ok();
        let advice = [needed.without, needed.remedy];
        measured(needed.name, found.unwrap_or_else(|why| why), is_there, State::Absent, advice)
    }));
    let remedy = Some("run `monohull`, which is another program");
    findings.extend(fault_injection::warning().map(|found| Finding {
        name: "defences".into(),
        state: State::Missing,
        found,
        consequence: Some("functions may do what they like"),
        remedy,
    }));
    findings
}

fn kernel() -> Finding {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let advice = ["the isolation of functions cannot be set up", "install a newer kernel: Linux 5.11 or later"];
    measured("kernel", release, version >= (5, 11), State::Missing, advice)
}

fn protection_keys() -> Finding {
    let (found, enough) = match keys::support() {
        Support::Available if keys::by_default() => ("works".to_owned(), true),
        Support::Available => {
            let found =
                "works, but this kernel cannot by itself report a function's fault with keys in force".to_owned();
            let advice = [
                "isolation `auto` is `process`; with --isolation mpk workflows are traced, so that faults are reported",
                "Linux 6.12 or newer",
            ];
            return measured("protection keys", found, false, State::Fallback, advice);
        }
        Support::Missing(why) => (why.to_string(), false),
    };
    let advice = [
        "isolation is `process`: the process wall and the system-call defence, but functions share one domain's memory",
        "a processor with PKU (Intel servers since 2017, AMD since Zen 3); a virtual machine needs the flag passed on",
    ];
    measured("protection keys", found, enough, State::Fallback, advice)
}

/// What keeps a worker in the wrong hands from files, and since which version from what else.
fn landlock() -> Finding {
    /// The newest that is used: files, the network, signals and sockets.
    const NEWEST: i64 = 6;
    let (found, version) = match probe::landlock() {
        Ok(version) => (format!("version {version}"), version),
        Err(error) => (error.to_string(), 0),
    };
    let advice = [
        "a process of a workflow that is in the wrong hands has fewer walls around it: its list of system calls remains",
        "Linux 6.12 or newer with CONFIG_SECURITY_LANDLOCK, and landlock among its security modules (lsm=)",
    ];
    measured("Landlock", found, version >= NEWEST, State::Fallback, advice)
}

/// What `serve` would find if it were started as this was.
fn control_groups() -> Finding {
    let (found, enough) = match cgroup::probe() {
        Ok(folder) => (format!("{} can be divided", shown(&folder)), true),
        Err(error) => (error.to_string(), false),
    };
    let advice = [
        "processes of workflows share their server's group: what limits their memory is Monohull itself",
        "start `monohull serve` alone in a group that is its own: with systemd, Delegate=memory pids",
    ];
    measured("control groups", found, enough, State::Fallback, advice)
}

/// The requirement of `"network": "tap"`: a network helper, or at least the means to start one.
fn devices() -> Finding {
    let (found, available, remedy) = match (network::probe::helper(), network::probe::devices()) {
        (Ok(path), _) => (format!("a network helper listens at {}", shown(&path)), true, ""),
        (Err(_), Ok(())) => {
            ("devices can be made, but no network helper runs".to_owned(), false, "start `monohull network`")
        }
        (Err(_), Err(error)) => {
            let remedy = "`monohull network`, started with root's rights on a host with /dev/net/tun";
            (format!("no device can be made: {error}"), false, remedy)
        }
    };
    let consequence =
        "workflows that want a device of their own are refused; `\"network\": {\"mode\": \"host\"}` works";
    measured("networks of workflows' own (TUN)", found, available, State::Fallback, [consequence, remedy])
}

fn address_space() -> Finding {
    let [limit, _] = limits("Max address space");
    let unlimited = limit == "unlimited";
    let advice = ["the fixed address ranges of a domain cannot be reserved", "ulimit -v unlimited"];
    measured("address space limit", limit, unlimited, State::Missing, advice)
}

/// What a server has by default: 1024 connections, 64 workflows that run and their idle workers with two descriptors each, and results
/// that are remembered.
fn descriptors() -> Finding {
    const ENOUGH: u64 = 4096;
    let [_, limit] = limits("Max open files");
    let enough = allows(&limit, ENOUGH);
    let advice = ["a server has less room for connections and large results than its settings say", "ulimit -Hn 65536"];
    measured("descriptors, at most", limit, enough, State::Fallback, advice)
}

fn processes() -> Finding {
    const ENOUGH: u64 = 1024;
    let [limit, _] = limits("Max processes");
    let enough = allows(&limit, ENOUGH);
    let advice = ["a server cannot run as many workflows at once as its settings say", "ulimit -u 4096"];
    measured("processes and threads of this user", limit, enough, State::Fallback, advice)
}

fn allows(limit: &str, least: u64) -> bool {
    limit.parse().map_or(limit == "unlimited", |limit: u64| limit >= least)
}

/// This process's soft and hard limit of something.
fn limits(name: &str) -> [String; 2] {
    let limits = read("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let mut words = line.split_whitespace();
    [(); 2].map(|()| words.next().unwrap_or("unlimited").to_owned())
}

fn max_map_count() -> Finding {
    const USUAL: u64 = 65_530;
    let count = read("/proc/sys/vm/max_map_count").and_then(|text| text.parse().ok()).unwrap_or(0u64);
    let advice = ["many instances or threads at once may run out of mappings", "sysctl vm.max_map_count=1048576"];
    measured("vm.max_map_count", count.to_string(), count >= USUAL, State::Fallback, advice)
}

fn memory() -> Finding {
    const ENOUGH: u64 = 256 << 20;
    let text = read("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    let bytes = kib.saturating_mul(1024);
    let found = format!("{} available", indicatif::BinaryBytes(bytes));
    let advice = ["larger workflows may be ended by the host", "free some memory or add some"];
    measured("memory", found, bytes >= ENOUGH, State::Fallback, advice)
}

fn cores() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let advice = ["instances take turns", "allow this process more cores"];
    measured("cores", cores.to_string(), cores > 1, State::Fallback, advice)
}

/// The libos modules.
fn modules() -> Vec<Finding> {
    const REMEDY: &str = "cargo xtask build";
    let folder = modules_folder();
    let missing = "no workflow can use its services";
    let found = folder.as_ref().map_or_else(|| "not found".to_owned(), |folder| shown(folder).to_string());
    let advice = ["no workflow can run", REMEDY];
    let mut findings = vec![measured("modules", found, folder.is_some(), State::Missing, advice)];
    for name in NAMES {
        let path = folder.as_ref().map(|folder| folder.join(format!("{name}.so"))).filter(|path| path.is_file());
        let found = path.as_ref().map_or_else(|| "not found".to_owned(), |path| shown(path).to_string());
        findings.push(measured(format!("module {name}"), found, path.is_some(), State::Missing, [missing, REMEDY]));
    }
    findings
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}
