//! Devices are leased, one to each workflow, and released however it ends.

use crate::net::Net;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// A workflow that keeps its device until it is ended.
fn endless() -> Value {
    json!({ "questions": [{ "serve": ["0.0.0.0:80", 1] }] })
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn each_workflow_has_addresses_of_its_own() {
    let net = Net::new();
    let mut runs: Vec<_> = (0..5).map(|_| net.run("network-probe", endless())).collect();
    for run in &mut runs {
        assert_eq!(run.line(), "0.0.0.0:80");
    }
    let mut devices = net.devices();
    assert_eq!(devices.len(), 5);
    devices.sort_by_key(|(_, address)| *address);
    devices.dedup_by_key(|(_, address)| *address);
    assert_eq!(devices.len(), 5, "{devices:?}");
    drop(runs);
    net.wait_for_devices(0);
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_device_goes_with_a_workflow_that_is_killed() {
    // There is one place, so the second needs what the first had.
    let net = Net::with(&["--pool", "10.99.0.0/30"]);
    for _ in 0..3 {
        let mut run = net.run("network-probe", endless());
        assert_eq!(run.line(), "0.0.0.0:80");
        assert_eq!(net.devices().len(), 1);
        kill(Pid::from_raw(run.child.id() as i32), Signal::SIGKILL).expect("it is there");
        net.wait_for_devices(0);
    }
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_refused_lease_is_explained() {
    let net = Net::with(&["--pool", "10.99.0.0/30"]);
    let mut first = net.run("network-probe", endless());
    first.line();
    let why = net.run("network-probe", endless()).failure();
    assert!(why.contains("all addresses of the pool are in use"), "{why}");
    drop(first);
    let net = Net::with(&["--pool", "10.99.0.0/24", "--most", "1"]);
    let mut first = net.run("network-probe", endless());
    first.line();
    let why = net.run("network-probe", endless()).failure();
    assert!(why.contains("as many as are allowed are in use"), "{why}");
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_user_without_rights_gets_a_device_if_his_group_may() {
    const UNPRIVILEGED: u32 = 65_534;
    let net = Net::new();
    let why = net.run_as(UNPRIVILEGED, "network-probe", endless()).failure();
    assert!(why.contains("cannot connect to the network helper at") && why.contains("ermission denied"), "{why}");
    assert_eq!(net.devices(), []);
    let net = Net::with(&["--pool", "10.99.0.0/24", "--group", "nogroup"]);
    let mut run = net.run_as(UNPRIVILEGED, "network-probe", endless());
    assert_eq!(run.line(), "0.0.0.0:80");
    assert_eq!(net.devices().len(), 1);
}
