//! A way out, by the host's address: there only for those who ask for it, where the operator lets it, and gone afterwards.
//!
//! ```text
//!   workflow ─ device ─ namespace: helper, `out` ═ veth ═ `in`: a world that knows no way back to the pool
//! ```

use crate::net::{Net, Run};
use crate::world::{NEAR, World};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A network of the world's, and one that is not to be reached.
const REACHED: &str = "10.96.1.1";
const HIDDEN: &str = "10.96.2.1";
const OPTIONS: [&str; 6] = ["--pool", "10.99.0.0/24", "--outside", "out", "--reach", "10.96.1.0/24"];

/// A workflow that asks at both addresses, and then stays; it waits so long for the first answer, in ms.
fn curious(patience: u64) -> Value {
    let ask = |host: &str, patience: u64| json!({ "ask": [format!("{host}:7"), patience] });
    json!({ "questions": [ask(REACHED, patience), ask(HIDDEN, 1000), { "serve": ["0.0.0.0:80", 1] }] })
}

fn with_a_way_out(net: &Net) -> Run {
    net.run_on("network-probe", curious(60_000), json!({ "mode": "tap", "outside": true }))
}

/// What the answer to a question is, or that there is none.
fn answered(line: &str) -> bool {
    assert!(
        line.starts_with("answer from") || line.starts_with("WouldBlock") || line.starts_with("TimedOut"),
        "{line}"
    );
    line.starts_with("answer")
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn only_workflows_with_outside_get_out_and_only_where_allowed() {
    let world = World::new(&[REACHED, HIDDEN]);
    let net = Net::beside(&world, &OPTIONS);
    let before = net.state();
    let mut beside = net.run("network-probe", curious(1000));
    assert!(!answered(&beside.line()) && !answered(&beside.line()), "it has not asked for a way out");
    drop(beside);
    let mut run = with_a_way_out(&net);
    assert!(answered(&run.line()), "this is what it has asked for");
    assert!(!answered(&run.line()), "that network is not on the operator's list");
    assert_eq!(world.received(), [NEAR], "masquerading hides the pool");
    // Beside it, still not.
    let mut beside = net.run("network-probe", curious(1000));
    assert!(!answered(&beside.line()), "the way is its neighbour's");
    assert_ne!(net.state(), before);
    drop((run, beside));
    net.wait_for_devices(0);
    net.wait_for_state(&before);
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn what_the_world_begins_does_not_come_in() {
    let world = World::new(&[REACHED]);
    let net = Net::beside(&world, &OPTIONS);
    let mut run = with_a_way_out(&net);
    assert!(answered(&run.line()), "the way is open");
    assert!(!answered(&run.line()), "no answer");
    assert_eq!(run.line(), "0.0.0.0:80");
    let at = SocketAddr::new(net.workflow4(), 80);
    // A host outside that guesses the pool.
    world.knows_the_way_to("10.99.0.0/24");
    assert!(!world.connects(at), "only answers come in");
    assert!(net.inside(|| TcpStream::connect_timeout(&at, Duration::from_secs(20))).is_ok(), "it does listen");
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn without_the_operators_permission_there_is_no_way_out() {
    let net = Net::new();
    let why = with_a_way_out(&net).failure();
    assert!(why.contains("opens no way out") && why.contains("--outside"), "{why}");
    assert_eq!(net.devices(), []);
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_way_out_ends_with_a_killed_workflow() {
    let world = World::new(&[REACHED]);
    let mut net = Net::beside(&world, &OPTIONS);
    let before = net.state();
    // The workflow, all of its processes.
    for _ in 0..3 {
        let mut run = with_a_way_out(&net);
        assert!(answered(&run.line()));
        kill(Pid::from_raw(run.child.id() as i32), Signal::SIGKILL).expect("it is there");
        net.wait_for_devices(0);
        net.wait_for_state(&before);
    }
    // The helper: its device stays as long as the workflow, and leads nowhere.
    let mut run = with_a_way_out(&net);
    assert!(answered(&run.line()));
    net.kill_helper();
    net.wait_for_state(&before);
    assert_eq!(net.devices().len(), 1);
    drop(run);
    net.wait_for_devices(0);
    net.wait_for_state(&before);
}
