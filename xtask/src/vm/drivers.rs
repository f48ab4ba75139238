//! What needs drivers that not every Linux has: networks that lose, delay and reorder (`tc netem`), and Linux's own vfat.
//! Part of `cargo xtask test --network`.
//!
//! Debian's kernels have them as modules, so the guest loads them; one kernel will do. Nothing runs there without the
//! processor's keys, so functions that abuse a device of the kernel's are tried with keys in force.

use super::archive::Archive;
use super::fetch::{Cache, DRIVERS};
use super::lane::{Artifact, quoted, tests_of};
use super::machine::Machine;
use super::tally::{Item, in_guest, script};
use super::{Kernel, guest};
use crate::count::Count;
use crate::extent::Extent;
use crate::workspace::Workspace;
use crate::{Result, lint, network, shell};
use std::time::Duration;

const KERNEL: Kernel = Kernel::Newer;
/// The guest's memory in MiB; its files take a part.
const MEMORY: u32 = 2048;
/// How long all of it may take, and one item.
const LIMIT: Duration = Duration::from_secs(3600);
const ITEM_SECONDS: u32 = 1500;
/// What the wire between workflows and their peers does, in each direction.
const WIRE: &str = "delay 5ms 2ms loss 1% reorder 10% duplicate 1%";
/// Tests that have no place here, and why.
const LEFT_OUT: [(&str, &str); 2] = [
    ("a_thousand_connections_at_once", "a thousand are too many for this processor"),
    ("outside::", "masquerading takes drivers that are not fetched"),
];
/// Those of real peers, which have a simulated wire in front.
const PEERS: &str = "peers:: names::";
/// Those of devices, frames and functions that mean harm: here with keys in force.
const HOSTILE: &str = "abuse:: hostile:: leases:: options::";

/// Has drivers loaded before anything runs, in the order that they need.
pub(super) fn load(files: &mut Archive, cache: &Cache, kernel: Kernel, wanted: &[String]) -> Result {
    if let Some(unknown) = wanted.iter().find(|wanted| !DRIVERS.iter().any(|(name, ..)| name == wanted)) {
        return Err(format!("no driver is called {unknown}"));
    }
    for (index, (_, file, _)) in DRIVERS.iter().enumerate().filter(|(_, (name, ..))| wanted.iter().any(|w| w == name)) {
        files.file_as(&cache.driver(kernel, file), format!("/drivers/{index}-{file}.ko"))?;
    }
    Ok(())
}

/// Runs the lane; everything has been built.
pub(crate) fn run(extent: Extent) -> Result<Count> {
    let workspace = Workspace::load()?;
    let tests = ["--test", "tap_network", "--test", "linux_vfat"].map(str::to_owned);
    let built = tests_of(lint::with_std(&workspace).into_iter().chain(tests))?;
    let cache = Cache::ready()?;
    let peers = network::peers()?;
    let mut files = guest(&workspace, &cache)?;
    for program in &built {
        let shipped = workspace.target().join("release").join(&program.target.name);
        let from = if program.profile.test { &program.executable } else { &shipped };
        files.program_as(from, &program.executable)?;
    }
    files.tree_as_it_is(&peers)?;
    // Servers give up root's rights for those of an ordinary user.
    files.script("/etc/passwd", b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")?;
    files.script("/etc/group", b"root:x:0:\nnogroup:x:65534:\n")?;
    let every: Vec<String> = DRIVERS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    load(&mut files, &cache, KERNEL, &every)?;
    let program = |name: &str| {
        let found = built.iter().find(|program| program.profile.test && program.target.name == name);
        found.ok_or_else(|| format!("there is no test program {name}"))
    };
    let (network, vfat) = (program("tap_network")?, program("linux_vfat")?);
    let items = [
        on_wire(network),
        item("devices, with keys".to_owned(), network, "", &format!(" {HOSTILE}")),
        item("linux_vfat".to_owned(), vfat, "", ""),
    ];
    let path = format!("export PATH={}:$PATH\n", quoted(&peers.join("bin")));
    files.script("/job", (path + &script(&items)).as_bytes())?;
    shell::heading(&format!("drivers of Linux {}", KERNEL.version()));
    for (test, why) in LEFT_OUT {
        println!("not here: tap_network {test}: {why}");
    }
    let random_addresses = extent == Extent::Full;
    let machine = Machine { cache: &cache, kernel: KERNEL, memory: MEMORY, limit: LIMIT, random_addresses };
    Ok(in_guest(&machine, &files.finish()?, &items))
}

/// The tests of real peers, beyond the wire.
fn on_wire(program: &Artifact) -> Item {
    let skipped: String = LEFT_OUT.iter().map(|(test, _)| format!(" --skip {test}")).collect();
    let variable = format!("MONOHULL_WIRE='{WIRE}' ");
    item(format!("real peers, netem {WIRE}"), program, &variable, &format!(" {PEERS}{skipped}"))
}

/// A test's output is shown at once, so that it is complete if the test is killed.
fn item(name: String, program: &Artifact, before: &str, after: &str) -> Item {
    let command = format!(
        "{before}timeout {ITEM_SECONDS} {} --include-ignored --test-threads=1 --nocapture{after}",
        quoted(&program.executable)
    );
    Item { name, command, counts: true, again: None }
}
