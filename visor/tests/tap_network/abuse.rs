//! The calls on sockets with addresses and numbers that are not the caller's to use, on a network of the workflow's own: each is
//! refused with the right error and a reason, and an instance that runs at the same time keeps what it has. The same cases on
//! the host's sockets are in `e2e_hostcalls`.

use crate::net::Net;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpListener;
use std::thread::JoinHandle;

/// A workflow of instances of the function that abuses hostcalls, each in its role.
fn workflow(roles: &[&str], carriers: u32, outputs: &[&str]) -> Value {
    let step = |role: &&str| json!({ "name": role, "function": "hostcall-abuse", "args": { "role": role } });
    json!({
        "name": "abuse",
        "functions": { "hostcall-abuse": { "image": crate::net::root().join("target/images/hostcall-abuse.so") } },
        "steps": roles.iter().map(step).collect::<Vec<_>>(),
        "limits": { "carriers": carriers, "timeout": "120s" },
        "network": "tap",
        "files": [{ "at": "/work", "memory": "1MiB" }],
        "outputs": outputs,
    })
}

/// A pool of one address, so that the host has the address that the cases name, and no DNS server.
fn net() -> Net {
    Net::with(&["--pool", "10.99.0.0/30"])
}

/// The host says something to so many connections; how many bytes each has sent when it ends, in any order.
fn host(net: &Net, connections: usize) -> JoinHandle<Vec<u64>> {
    let server = net.inside(|| TcpListener::bind("0.0.0.0:7").expect("a server"));
    let serve = move || {
        let (mut stream, _) = server.accept().expect("a connection");
        stream.write_all(b"sixteen letters.").expect("written");
        std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()).expect("read"))
    };
    std::thread::spawn(move || {
        let received: Vec<_> = (0..connections).map(|_| serve()).collect();
        received.into_iter().map(|stream| stream.join().expect("no panic")).collect()
    })
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn every_abuse_is_refused_and_explained_and_harmless() {
    let net = net();
    for carriers in [1, 2] {
        // One of the victim, and two of the attacker: sockets, and queues.
        let host = host(&net, 3);
        let document = workflow(&["victim-on-tap", "attacker-on-tap"], carriers, &["verdicts", "victim-says"]);
        let [verdicts, victim] = net.outputs(&document, ["verdicts", "victim-says"]);
        let wrong: Vec<&str> = verdicts.lines().filter(|line| !line.starts_with("right: ")).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        let tried = |what: &str| verdicts.lines().filter(|line| line.contains(what)).count();
        assert!(tried("SOCKET_") > 200 && tried("an address of itself") == 9, "{verdicts}");
        // The positive control: what is right works.
        assert_eq!(tried("a datagram: 16 (expected 16)"), 1, "{verdicts}");
        assert_eq!(tried("what waited: 16 (expected 16)"), 1, "{verdicts}");
        assert_eq!(
            (tried("a socket of another instance"), tried("a file of another instance")),
            (12, 16),
            "{verdicts}"
        );
        assert_eq!(tried(" that is closed during a call"), 7, "{verdicts}");
        assert_eq!(victim, "intact");
        // What the attacker may send has arrived, and nothing of what it may not, in any connection.
        let mut received = host.join().expect("no panic");
        received.sort_unstable();
        assert_eq!(received, [0, 0, 16]);
        net.wait_for_devices(0);
    }
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn addresses_that_change_during_a_call_are_compared_and_used_as_one() {
    let net = net();
    for carriers in [1, 2] {
        let [] = net.outputs(&workflow(&["changing-addresses-on-tap"], carriers, &[]), []);
        net.wait_for_devices(0);
    }
}
