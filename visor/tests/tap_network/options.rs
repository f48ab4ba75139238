//! Options of sockets, on a device of the kernel's: as they are set, and their effects on the wire.

use crate::net::{Net, PATIENCE};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// A peer, and its address.
fn server(net: &Net) -> (TcpListener, String) {
    let server = net.inside(|| TcpListener::bind((crate::net::FAR4, 0)).expect("a server"));
    let at = server.local_addr().expect("its address").to_string();
    (server, at)
}

/// Segments that have come in on a connection: `tcpi_segs_in` of Linux's `struct tcp_info`, which has more than libc's.
fn segments_in(stream: &TcpStream) -> u32 {
    const SEGMENTS_IN: usize = 140;
    let (mut info, mut len) = ([0u8; SEGMENTS_IN + 4], (SEGMENTS_IN + 4) as u32);
    // SAFETY: the buffer has as many bytes as the length that is passed.
    let status = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &mut len)
    };
    assert_eq!((status, len as usize), (0, info.len()));
    u32::from_ne_bytes(info[SEGMENTS_IN..].try_into().expect("four bytes"))
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn options_are_read_as_they_were_set() {
    let net = Net::new();
    let (server, at) = server(&net);
    let mut run = net.run("network-probe", json!({ "questions": [{ "options": at }] }));
    drop(run.accept(&server));
    assert_eq!(run.line(), "(false, None, false) (true, 9, Some(7s), true) (false, None)");
    run.end();
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_silent_peer_is_asked_whether_it_is_there_and_given_up_if_not() {
    let net = Net::new();
    let (server, at) = server(&net);
    let mut run = net.run("network-probe", json!({ "questions": [{ "keep-alive": [at, 1] }] }));
    let accepted = [run.accept(&server), run.accept(&server)];
    let ports = run.line();
    let named = |port: &str| {
        let (stream, _) = accepted.iter().find(|(_, from)| from.port().to_string() == port).expect("a port of theirs");
        stream
    };
    let (kept, other) = ports.split_once(' ').expect("two ports");
    let (kept, other) = (named(kept), named(other));
    let before = segments_in(kept);
    let quiet = segments_in(other);
    let start = Instant::now();
    while segments_in(kept) < before + 3 {
        assert!(start.elapsed() < PATIENCE, "no probe arrived");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(segments_in(other), quiet, "no probes without keepalive");
    // From here on no peer answers, as if the peer's computer were gone. One of the connections does not notice.
    net.silence(net.workflow4(), true);
    assert_eq!(run.line(), "kept alive: Err(ConnectionReset)");
    net.silence(net.workflow4(), false);
    drop(accepted);
    assert_eq!(run.line(), "the other: Ok(0)");
    run.end();
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn nothing_waits_on_sockets_that_do_not_block() {
    let net = Net::new();
    let (server, at) = server(&net);
    let mut run = net.run("network-probe", json!({ "questions": [{ "non-blocking": at }] }));
    let (mut client, _) = run.accept(&server);
    let said = run.line();
    let would_wait = "Err(WouldBlock)";
    let (kinds, written) = said.split_once(", written ").expect("both");
    assert_eq!(kinds, format!("[{would_wait}, {would_wait}, {would_wait}]"));
    let written: usize = written.parse().expect("a number");
    assert!(written > 0, "{said}");
    let mut bytes = vec![0; written];
    client.read_exact(&mut bytes).expect("all that was written");
    assert!(bytes.iter().all(|byte| *byte == 7));
    client.write_all(&bytes).expect("written");
    assert_eq!(run.line(), format!("read {written}"));
    run.end();
}
