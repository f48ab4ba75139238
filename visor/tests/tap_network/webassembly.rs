//! WebAssembly programs over a device: `wasi:sockets` of a component as a server, as a client, with datagrams, and for names, over both kinds of
//! addresses; sockets that a module finds open, connections that it makes, and names that it looks up.
//!
//! The component is `wasi/guests/sockets`, and the modules are in `wasi/guests/c`, as in `e2e_wasi`, where the network is the host's.

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

/// The image of a program in C.
fn built(net: &Net, name: &str) -> String {
    let program = root().join("target/wasi").join(name).with_extension("wasm");
    let mut build = Command::new(env!("CARGO_BIN_EXE_monohull"));
    let output = build.arg("build").arg(program).arg("--out").arg(net.folder.path()).output().expect("monohull starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    net.folder.path().join(name).with_extension("so").to_str().expect("UTF-8").to_owned()
}

/// `wasi/guests/c/serve.c`, which answers in capitals what comes behind its length. It looks at first whether anything connects to the first of its
/// addresses, which is the second that this test connects to.
#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_module_finds_sockets_open_that_listen_at_its_device() {
    let net = Net::new();
    let document = json!({
        "name": "serve",
        "functions": { "serve": { "image": built(&net, "serve-c") } },
        "steps": [{ "name": "serve", "function": "serve", "env": { "MONOHULL_LISTEN": "[::]:8080,0.0.0.0:80" } }],
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

/// A run of `wasi/guests/c/connect.c` with these arguments.
fn connecting(net: &Net, arguments: &[String]) -> Run {
    net.run(&built(net, "connect-c"), json!({ "argv": arguments }))
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_module_connects_over_both_kinds_of_addresses() {
    for host in [IpAddr::from(FAR4), FAR6.into()] {
        let net = Net::new();
        let server = net.inside(|| TcpListener::bind((host, 0)).expect("a server"));
        let port = server.local_addr().expect("its address").port();
        // Datagrams come there, and no connections.
        let datagrams = net.inside(|| UdpSocket::bind((host, 0)).expect("a port"));
        let closed = datagrams.local_addr().expect("its address").port();
        let mut questions = vec![format!("say={host}:{port}"), format!("say={host}:{closed}")];
        if host.is_ipv4() {
            questions.extend([format!("later={host}:{port}"), format!("later={host}:{closed}")]);
            // A workflow does not reach itself.
            questions.push("say=127.0.0.1:80".to_owned());
        }
        let mut run = connecting(&net, &questions);
        let answer = |run: &mut Run| {
            let (mut stream, _) = run.accept(&server);
            stream.set_nonblocking(false).expect("it waits");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("what it says");
            stream.write_all(text.to_uppercase().as_bytes()).expect("sent");
        };
        answer(&mut run);
        assert_eq!(run.line(), "say: HELLO");
        assert_eq!(run.line(), "say: ECONNREFUSED");
        if host.is_ipv4() {
            answer(&mut run);
            assert_eq!(run.line(), "later: HELLO");
            assert_eq!(run.line(), "later: ECONNREFUSED, then 0");
            assert_eq!(run.line(), "say: Network unreachable");
        }
        run.end();
    }
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_module_looks_names_up_and_connects_to_them() {
    let net = net(&[FAR6.into()]);
    let _dnsmasq = dnsmasq(&net, FAR6.into());
    let server = net.inside(|| TcpListener::bind((FAR4, 0)).expect("a server"));
    let port = server.local_addr().expect("its address").port();
    let names = ["www.test", "four.test", "unknown.test"].map(|name| format!("name={name}"));
    // At one of the two addresses of that name nothing listens.
    let say = [format!("say=www.test:{port}"), format!("say=unknown.test:{port}")];
    let mut run = connecting(&net, &[&names[..], &say].concat());
    let line = run.line();
    assert_both(line.strip_prefix("name: ").expect("addresses"));
    assert_eq!(run.line(), "name: 192.0.2.4");
    assert_eq!(run.line(), "name: ENOENT");
    let (mut stream, _) = run.accept(&server);
    stream.set_nonblocking(false).expect("it waits");
    stream.write_all(b"good day").expect("sent");
    stream.shutdown(Shutdown::Write).expect("ended");
    assert_eq!(run.line(), "say: good day");
    assert_eq!(run.line(), "say: ENOENT");
    run.end();
}
