//! The lane of networks of workflows' own: TAP devices, namespaces, and peers from other projects. With it goes what else
//! takes root: disks that are full, mounts inside of granted directories, memory of other processes.
//!
//! It needs root and `/dev/net/tun`. Where it cannot run it fails and says why: a lane that passes by not running shows
//! nothing. The peers are Debian's, fetched and never installed.

use crate::apt::{self, Apt};
use crate::count::{Count, count};
use crate::extent::Extent;
use crate::vm::drivers;
use crate::workspace::Workspace;
use crate::{Result, flaky, lint, shell};
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// What the tests start, and the packages that bring it.
const PEERS: &[(&str, &str)] = &[
    ("bin/ip", "iproute2"),
    ("sbin/tc", "iproute2"),
    ("usr/bin/curl", "curl"),
    ("usr/bin/dig", "bind9-dnsutils"),
    ("usr/bin/iperf3", "iperf3"),
    ("usr/sbin/dnsmasq", "dnsmasq-base"),
    ("usr/sbin/nginx", "nginx-light"),
];

/// Runs the lane; everything has been built.
pub(crate) fn run(extent: Extent) -> Result<Count> {
    shell::heading("networks of workflows' own");
    if let Err(why) = ready() {
        println!("the lane cannot run: {why}");
        return Ok(Count::failure("networks of workflows' own: the lane cannot run"));
    }
    let mut folders = vec![peers()?.join("bin")];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let path = std::env::join_paths(folders).map_err(|error| format!("PATH: {error}"))?;
    let mut command = flaky::cargo_test()?;
    command.args(lint::with_std(&Workspace::load()?));
    command.args(["--test", "tap_network", "--test", "root_files", "--test", "root_tls", "--test", "root_https"]);
    // One after the other: each makes namespaces and starts servers.
    command.args(["--", "--include-ignored", "--test-threads=1"]).env("PATH", path);
    // A guest leaves half of the processors to the tests here.
    thread::scope(|scope| {
        let in_guest = scope.spawn(|| drivers::run(extent));
        let total = count(&mut command);
        let in_guest = in_guest.join().unwrap_or_else(|_| Ok(Count::failure("drivers")));
        let mut total = total?;
        total.add(in_guest?);
        Ok(total)
    })
}

/// Where the programs are that workflows talk to, and those that networks are made with.
pub(crate) fn peers() -> Result<PathBuf> {
    apt::cached("peers", "fetch programs for workflows to talk to: about 30 MB, once", fetch)
}

/// Whether there are root's rights and devices.
fn ready() -> Result {
    let id = shell::output(Command::new("id").arg("-u"))?;
    if id.trim_ascii() != b"0" {
        return Err("it needs root, to make network namespaces and devices".to_owned());
    }
    let tun = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    tun.map(drop).map_err(|error| format!("/dev/net/tun: {error}"))?;
    // What root may not do in a container shows only when it is tried.
    shell::run(Command::new("unshare").args(["--net", "true"]))
}

fn fetch(apt: &Apt, folder: &Path) -> Result {
    let packages: Vec<&str> = PEERS.iter().map(|(_, package)| *package).collect();
    apt.unpack(&packages, &[], &folder.join("tree"))?;
    let programs = folder.join("bin");
    apt::make(&programs)?;
    for (path, _) in PEERS {
        let script = programs.join(Path::new(path).file_name().unwrap_or_default());
        apt::write(&script, &start(path))?;
        let changed = fs::set_permissions(&script, Permissions::from_mode(0o755));
        changed.map_err(|error| format!("{}: {error}", script.display()))?;
        File::open(folder.join("tree").join(path)).map_err(|error| format!("{path} is in no package: {error}"))?;
    }
    Ok(())
}

/// A script that starts a program of the tree beside it, with the tree's own loader and libraries.
fn start(path: &str) -> String {
    format!(
        "#!/bin/sh\n\
         tree=$(dirname \"$(dirname \"$(readlink -f \"$0\")\")\")/tree\n\
         lib=\"$tree/lib/x86_64-linux-gnu\"\n\
         exec \"$lib/ld-linux-x86-64.so.2\" --inhibit-cache --library-path \"$lib:$tree/usr/lib/x86_64-linux-gnu\" \
         \"$tree/{path}\" \"$@\"\n"
    )
}
