//! What a workflow's list allows works, against peers that are ordinary programs with std.

use crate::{ask, beside, lines, probe};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

#[test]
fn it_reads_from_a_server() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a server");
    let address = server.local_addr().expect("its address");
    let serving = std::thread::spawn(move || {
        let (mut client, _) = server.accept().expect("a client");
        // Closed before the client receives anything.
        drop(server);
        client.write_all(b"from outside")
    });
    let answers = ask(
        json!({ "mode": "host", "connect": [address.to_string()] }),
        json!([{ "read": address.to_string() }, { "read": format!("[::ffff:127.0.0.1]:{}", address.port()) }]),
    );
    serving.join().expect("no panic").expect("written");
    assert_eq!(answers[0], "from outside");
    // The same address in other clothes: the list allows it, and the listener is closed.
    assert!(answers[1].starts_with("ConnectionRefused: "), "{answers:?}");
}

/// Makes sure that this process may have so many descriptors.
fn at_least_descriptors(needed: u64) {
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit");
    if now < needed {
        let raised = setrlimit(Resource::RLIMIT_NOFILE, needed, most.max(needed));
        raised.unwrap_or_else(|error| panic!("{needed} descriptors are needed, the limit is {most}: {error}"));
    }
}

#[test]
fn a_thousand_connections_at_once() {
    const CLIENTS: usize = 1000;
    // Both ends of each are this process's, which also runs the workflow.
    at_least_descriptors(2 * CLIENTS as u64 + 200);
    let mut document =
        probe(json!({ "mode": "host", "listen": ["127.0.0.1:0"] }), json!([{ "serve": ["127.0.0.1:0", CLIENTS] }]));
    document["steps"][0]["memory"] = "4GiB".into();
    let (report, sum) = beside(&document, |printed| {
        let address = printed.recv().expect("an address");
        let clients: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(&address).expect("a connection")).collect();
        clients
            .into_iter()
            .map(|mut client| {
                let mut text = String::new();
                client.read_to_string(&mut text).expect("an answer");
                text.parse::<usize>().expect("a number")
            })
            .sum::<usize>()
    });
    assert_eq!(sum, CLIENTS * (CLIENTS - 1) / 2);
    assert_eq!(lines(&report)[1], format!("served {CLIENTS}"));
}

#[test]
fn a_name_leads_where_it_led_at_the_start() {
    let answers = ask(
        json!({ "mode": "host", "connect": ["localhost:1", "127.0.0.0/8:1"] }),
        json!([{ "resolve": "localhost" }, { "resolve": "127.0.0.9" }]),
    );
    assert!(answers[0].contains("127.0.0.1"), "{answers:?}");
    assert_eq!(answers[1], "127.0.0.9");
}

#[test]
fn a_datagram_is_answered() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a server");
    let address = server.local_addr().expect("its address").to_string();
    let serving = std::thread::spawn(move || {
        let mut room = [0; 64];
        let (bytes, from) = server.recv_from(&mut room).expect("a datagram");
        // A peer that is not on the list sends first, and its datagram is dropped.
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a stranger");
        stranger.send_to(b"lie", ("127.0.0.1", from.port())).expect("sent");
        server.send_to(b"answer", from).expect("sent");
        room[..bytes].to_vec()
    });
    let answers = ask(json!({ "mode": "host", "connect": [address] }), json!([{ "ask": [address, 10_000] }]));
    assert_eq!(serving.join().expect("no panic"), b"question");
    assert_eq!(answers, [format!("answer from {address}")]);
}

/// To drop a stranger's datagram takes two calls. Between them another thread must not take it, or the next one would be dropped.
#[test]
fn threads_on_one_socket_lose_no_datagram_to_strangers() {
    const COUNT: usize = 2_000;
    const THREADS: usize = 4;
    /// So few are under way at a time that the socket's buffer holds them all.
    const WINDOW: usize = 16;
    let server = UdpSocket::bind("127.0.0.1:0").expect("a server");
    let address = server.local_addr().expect("its address").to_string();
    let serving = std::thread::spawn(move || {
        let mut room = [0; 64];
        let (_, asker) = server.recv_from(&mut room).expect("a question");
        server.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a stranger");
        let mut acknowledged = 0;
        for sent in 0..COUNT + THREADS {
            while sent - acknowledged >= WINDOW {
                server.recv(&mut room).map_err(|error| format!("{acknowledged} of {sent} arrived: {error}"))?;
                acknowledged += 1;
            }
            stranger.send_to(b"lie", ("127.0.0.1", asker.port())).expect("sent");
            server.send_to(if sent < COUNT { b"new" } else { b"end" }, asker).expect("sent");
        }
        for _ in acknowledged..COUNT + THREADS {
            server.recv(&mut room).map_err(|error| format!("the last ones: {error}"))?;
        }
        Ok::<_, String>(())
    });
    let answers = ask(json!({ "mode": "host", "connect": [address] }), json!([{ "ask-many": [address, THREADS] }]));
    assert_eq!(serving.join().expect("no panic"), Ok(()));
    assert_eq!(answers, [format!("took {COUNT}")]);
}

#[test]
fn a_datagram_server_answers_known_senders() {
    let document = probe(json!({ "mode": "host", "listen": ["127.0.0.1:0"] }), json!([{ "answer": "127.0.0.1:0" }]));
    let (report, received) = beside(&document, |printed| {
        let address = printed.recv().expect("an address");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a client");
        client.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        client.send_to(b"question", address).expect("sent");
        let mut room = [0; 64];
        let bytes = client.recv(&mut room).expect("an answer");
        String::from_utf8_lossy(&room[..bytes]).into_owned()
    });
    assert_eq!((received.as_str(), lines(&report)[1].as_str()), ("answer", "question"));
}

#[test]
fn options_are_read_as_they_were_set() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a server");
    let address = server.local_addr().expect("its address").to_string();
    let serving = std::thread::spawn(move || drop(server.accept().expect("a client")));
    let answers = ask(json!({ "mode": "host", "connect": [address] }), json!([{ "options": address }]));
    serving.join().expect("no panic");
    assert_eq!(answers, ["(false, None, false) (true, 9, Some(7s), true) (false, None)"]);
}

/// What the kernel waits for on a connection of this computer's, and how long still, in hundredths of a second: the column
/// `tr tm->when` of `/proc/net/tcp`.
fn timer(local: &str, peer: u16) -> (u8, u64) {
    let local: u16 = local.parse().expect("a port");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (own, other) = (format!(":{local:04X}"), format!(":{peer:04X}"));
    let line = table.lines().map(fields).find(|line| line[1].ends_with(&own) && line[2].ends_with(&other));
    let line = line.expect("the connection");
    let (kind, when) = line[5].split_once(':').expect("two numbers");
    (u8::from_str_radix(kind, 16).expect("a kind"), u64::from_str_radix(when, 16).expect("a time"))
}

#[test]
fn keepalive_probes_are_sent_after_silence() {
    /// The kernel waits to ask whether the peer is there.
    const KEEP_ALIVE: u8 = 2;
    let server = TcpListener::bind("127.0.0.1:0").expect("a server");
    let address = server.local_addr().expect("its address");
    let document = probe(
        json!({ "mode": "host", "connect": [address.to_string()] }),
        json!([{ "keep-alive": [address.to_string(), 30] }]),
    );
    let (report, timers) = beside(&document, |printed| {
        let _clients = [server.accept().expect("a client"), server.accept().expect("a client")];
        let ports = printed.recv().expect("two ports");
        let (kept, other) = ports.split_once(' ').expect("two ports");
        [kept, other].map(|port| timer(port, address.port()))
    });
    let [(kept, when), (other, _)] = timers;
    assert!(kept == KEEP_ALIVE && when <= 3000, "{timers:?}");
    assert_ne!(other, KEEP_ALIVE, "it was not asked for");
    assert_eq!(lines(&report)[1..], ["kept alive: Ok(0)", "the other: Ok(0)"]);
}

#[test]
fn nothing_waits_on_sockets_that_do_not_block() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a server");
    let address = server.local_addr().expect("its address").to_string();
    let network = json!({ "mode": "host", "connect": [address], "listen": ["0.0.0.0:0"] });
    let document = probe(network, json!([{ "non-blocking": address }]));
    let (report, written) = beside(&document, |printed| {
        let (mut client, _) = server.accept().expect("a client");
        let said = printed.recv().expect("what it has written");
        let (kinds, written) = said.split_once(", written ").expect("both");
        assert_eq!(kinds, "[Err(WouldBlock), Err(WouldBlock), Err(WouldBlock)]");
        let mut bytes = vec![0; written.parse().expect("a number")];
        client.read_exact(&mut bytes).expect("all that was written");
        client.write_all(&bytes).expect("written");
        bytes.len()
    });
    assert!(written > 0);
    assert_eq!(lines(&report)[1], format!("read {written}"));
}

#[test]
fn a_peer_that_resets_costs_only_the_call() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a server");
    let address = server.local_addr().expect("its address").to_string();
    let serving = std::thread::spawn(move || {
        for text in ["", "after all"] {
            let (mut client, _) = server.accept().expect("a client");
            // To close with no time to linger is to reset.
            let reset = nix::sys::socket::sockopt::Linger;
            let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
            match text {
                "" => nix::sys::socket::setsockopt(&client, reset, &at_once).expect("set"),
                text => client.write_all(text.as_bytes()).expect("written"),
            }
        }
    });
    let answers =
        ask(json!({ "mode": "host", "connect": [address] }), json!([{ "read": address }, { "read": address }]));
    serving.join().expect("no panic");
    assert!(answers[0].starts_with("ConnectionReset: "), "{answers:?}");
    assert_eq!(answers[1], "after all");
}
