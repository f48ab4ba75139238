//! WebAssembly programs over a device: `wasi:sockets` of a component as a server, as a client, with datagrams, and for names, over both kinds of
//! addresses, and sockets that a module finds open.
//!
//! The component is `wasi/guests/sockets`, as in `e2e_wasi`, where the network is the host's.

use crate::names::{assert_both, dnsmasq, net};
use crate::net::{FAR4, FAR6, Net, PATIENCE, Run, root};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The address of the first workflow's device.
const WORKFLOW6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 2);

/// A run that is asked this.
fn asked(net: &Net, questions: &[String]) -> Run {
    net.run("wasi-sockets", json!({ "questions": questions.join(" ") }))
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_component_serves_and_echoes_over_both_kinds_of_addresses() {
    for six in [false, true] {
        let net = Net::new();
        let (stream, datagram) = if six { ("[::]:80", "[::]:7") } else { ("0.0.0.0:80", "0.0.0.0:7") };
        let mut run = asked(&net, &[format!("serve={stream}"), format!("echo={datagram}")]);
        assert_eq!(run.line(), format!("serve: listening at {stream}"));
        let host = if six { IpAddr::V6(WORKFLOW6) } else { net.workflow4() };
        let (answer, from) = net.inside(|| {
            let mut client = TcpStream::connect((host, 80)).expect("a connection");
            client.write_all(b"hello").expect("sent");
            client.shutdown(Shutdown::Write).expect("ended");
            let mut answer = String::new();
            client.read_to_string(&mut answer).expect("an answer");
            (answer, client.local_addr().expect("its address"))
        });
        assert_eq!(answer, format!("HELLO from {from}"));
        assert_eq!(run.line(), "serve: hello");
        assert_eq!(run.line(), format!("echo: bound to {datagram}"));
        let returned = net.inside(|| {
            let any: IpAddr = if six { FAR6.into() } else { FAR4.into() };
            let socket = UdpSocket::bind((any, 0)).expect("a port");
            socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a limit");
            let mut buffer = [0; 2000];
            // What is lost is sent again.
            loop {
                socket.send_to(&[7; 1400], (host, 7)).expect("sent");
                if let Ok(length) = socket.recv(&mut buffer) {
                    return buffer[..length].to_vec();
                }
            }
        });
        assert!(returned == [7; 1400], "{} bytes came back", returned.len());
        assert_eq!(run.line(), "echo: 1400 bytes");
        run.end();
    }
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_component_connects_over_both_kinds_of_addresses() {
    for host in [IpAddr::from(FAR4), FAR6.into()] {
        let net = Net::new();
        let [echo, slow] = net.inside(|| [0; 2].map(|_| TcpListener::bind((host, 0)).expect("a server")));
        let address = |listener: &TcpListener| listener.local_addr().expect("its address");
        // Datagrams come there, and no connections.
        let datagrams = net.inside(|| UdpSocket::bind((host, 0)).expect("a port"));
        let closed = SocketAddr::new(host, datagrams.local_addr().expect("its address").port());
        let questions = [
            format!("client={}", address(&echo)),
            format!("datagram={closed}"),
            format!("much={}", address(&slow)),
            format!("connect={closed}"),
            // A workflow does not reach itself, and the other spelling of an address is none of IPv6.
            "connect=127.0.0.1:80".to_owned(),
            format!("connect=[::ffff:{FAR4}]:80"),
        ];
        let mut run = asked(&net, &questions);
        let (mut stream, _) = run.accept(&echo);
        let mut text = [0; 5];
        stream.read_exact(&mut text).expect("what it says");
        stream.write_all(&text).expect("sent");
        assert_eq!(stream.read(&mut text).expect("the end"), 0);
        drop(stream);
        assert_eq!(run.line(), "client: Err(WouldBlock), then \"hello\", then 0");
        let (length, from) = datagrams.recv_from(&mut text).expect("a datagram");
        datagrams.send_to(&text[..length], from).expect("sent");
        assert_eq!(run.line(), "datagram: ping");
        let (mut stream, _) = run.accept(&slow);
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("all of it");
        stream.write_all(all.len().to_string().as_bytes()).expect("sent");
        drop(stream);
        assert_eq!(run.line(), format!("much: {}", 8 << 20));
        assert_eq!(run.line(), "connect: ConnectionRefused");
        assert_eq!(run.line(), "connect: HostUnreachable");
        assert_eq!(run.line(), "connect: InvalidInput");
        run.end();
    }
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_component_looks_names_up() {
    let net = net(&[FAR6.into()]);
    let _dnsmasq = dnsmasq(&net, FAR6.into());
    let names = ["www.test", "four.test", "unknown.test"].map(|name| format!("addresses={name}"));
    let mut run = asked(&net, &names);
    let line = run.line();
    assert_both(line.strip_prefix("addresses: ").expect("addresses"));
    assert_eq!(run.line(), "addresses: 192.0.2.4");
    // `name-unresolvable`, for which Rust's std has no kind.
    assert_eq!(run.line(), "addresses: Uncategorized");
    run.end();
}

/// A connection to what will listen there soon.
fn connected(net: &Net, address: SocketAddr) -> TcpStream {
    let begin = Instant::now();
    loop {
        match net.inside(|| TcpStream::connect(address)) {
            Ok(connection) => return connection,
            Err(error) if begin.elapsed() > PATIENCE => panic!("{address}: {error}"),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// `wasi/guests/c/serve.c`, which answers in capitals what comes behind its length.
#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_module_finds_sockets_open_that_listen_at_its_device() {
    let net = Net::new();
    let program = root().join("target/wasi/serve-c.wasm");
    let mut build = Command::new(env!("CARGO_BIN_EXE_monohull"));
    let built = build.arg("build").arg(program).arg("--out").arg(net.folder.path()).output().expect("monohull starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let document = json!({
        "name": "serve",
        "functions": { "serve": { "image": net.folder.path().join("serve-c.so") } },
        "steps": [{ "name": "serve", "function": "serve", "env": { "MONOHULL_LISTEN": "0.0.0.0:80,[::]:8080" } }],
        "network": "tap",
        "limits": { "timeout": "5m" },
    });
    thread::scope(|scope| {
        let run = scope.spawn(|| net.outputs(&document, []));
        net.wait_for_devices(1);
        for (address, text) in [((net.workflow4(), 80), "four"), ((WORKFLOW6.into(), 8080), "end")] {
            let mut connection = connected(&net, address.into());
            connection.write_all(format!("{:08}{text}", text.len()).as_bytes()).expect("sent");
            connection.shutdown(Shutdown::Write).expect("ended");
            let mut answer = String::new();
            connection.read_to_string(&mut answer).expect("an answer");
            assert_eq!(answer, text.to_uppercase());
        }
        run.join().expect("it has run");
    });
}
