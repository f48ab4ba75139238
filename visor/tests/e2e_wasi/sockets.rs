//! Sockets of preview 1: a server in C (`wasi/guests/c/serve.c`) over those that it finds open.

use super::support::{Function, kept, monohull, printed, program, run_with, words, words_of};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a connection is tried for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The folder with the server's image, which is compiled once.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = TempDir::new().expect("a folder");
        let program = folder.path().join("serve.wasm");
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasi/serve-c.wasm");
        std::fs::copy(built, &program).expect("`cargo xtask build` makes it");
        let output = monohull(&["build", program.to_str().expect("UTF-8")]);
        assert!(output.status.success(), "{}", words(&output.stderr));
        folder
    });
    folder.path()
}

/// A run of the server, with these addresses in its environment, and this network.
fn run(addresses: Option<&str>, network: Option<Value>) -> Value {
    let mut document = json!({
        "name": "serve",
        "functions": { "serve": { "image": folder().join("serve.so") } },
        "steps": [{ "name": "serve", "function": "serve" }],
    });
    if let Some(network) = network {
        document["network"] = network;
    }
    if let Some(addresses) = addresses {
        document["steps"][0]["env"] = json!({ "MONOHULL_LISTEN": addresses });
    }
    let own = TempDir::new().expect("a folder");
    run_with(own.path(), &document, &[])
}

/// Addresses at which nothing listens.
fn free() -> [SocketAddr; 2] {
    let listeners = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    listeners.map(|listener| listener.local_addr().expect("its address"))
}

/// A connection to what will listen there soon.
fn connected(address: SocketAddr) -> TcpStream {
    let begin = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(connection) => return connection,
            Err(error) if begin.elapsed() > PATIENCE => panic!("{address}: {error}"),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Sends a text, in two parts, and gives the answer.
fn asked(address: SocketAddr, text: &str) -> String {
    let mut connection = connected(address);
    let message = format!("{:08}{text}", text.len());
    let (first, rest) = message.as_bytes().split_at(5);
    connection.write_all(first).expect("sent");
    thread::sleep(Duration::from_millis(20));
    connection.write_all(rest).expect("sent");
    connection.shutdown(Shutdown::Write).expect("ended");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_server_accepts_at_each_address_that_it_finds_open() {
    let [first, second] = free();
    let long = "long ".repeat(50_000);
    let report = thread::scope(|scope| {
        let (addresses, allowed) = (format!("{first}, {second}"), json!([first.to_string(), second.to_string()]));
        let run = scope.spawn(move || run(Some(&addresses), Some(json!({ "mode": "host", "listen": allowed }))));
        assert_eq!(asked(second, "hello"), "HELLO");
        assert_eq!(asked(first, &long), long.to_uppercase());
        assert_eq!(asked(first, "again"), "AGAIN");
        assert_eq!(asked(second, "end"), "END");
        run.join().expect("it has run")
    });
    assert_eq!(report["status"], "done", "{report:#}");
    let lines = [
        "listening: 2",
        "ready at first: 0",
        "accept at first: EAGAIN",
        "read of a listener: refused",
        "served at 0: 2",
        "served at 1: 2",
    ];
    assert_eq!(printed(&report), lines);
}

#[test]
fn without_addresses_there_is_no_socket_and_others_than_those_allowed_are_refused() {
    let [first, second] = free();
    let allowed = || Some(json!({ "mode": "host", "listen": [first.to_string()] }));
    let report = run(None, allowed());
    assert_eq!(report["status"], "done", "{report:#}");
    assert_eq!(printed(&report), ["listening: 0", "accept: Bad file descriptor", "of a file: Not a socket"]);

    for (addresses, network, says) in [
        (second.to_string(), allowed(), second.to_string()),
        (format!("{first},{second}"), allowed(), second.to_string()),
        (first.to_string(), None, first.to_string()),
        ("localhost".to_owned(), allowed(), "`localhost` is no address with a port".to_owned()),
    ] {
        let report = run(Some(&addresses), network);
        assert_eq!(report["status"], "failed", "{report:#}");
        let error = report["error"].to_string();
        assert!(error.contains("MONOHULL_LISTEN") && error.contains(&says), "{addresses}: {error}");
    }
    // What was refused has left nothing that listens.
    TcpListener::bind(first).expect("it is free");
}

#[test]
fn calls_on_sockets_with_wrong_arguments_are_refused_and_lose_no_connection() {
    const FAULT: u32 = 21;
    const INVAL: u32 = 28;
    const MFILE: u32 = 33;
    const NOTDIR: u32 = 54;
    const NOTCONN: u32 = 53;
    const NOTSOCK: u32 = 57;
    const SPIPE: u32 = 70;
    let [address, _] = free();
    // A connection waits from the beginning; the accepts that have no number for it, or nowhere to write that, leave it to the next one.
    let calls = [
        "(call $sock_accept (i32.const 4) (i32.const 0) (i32.const 512))",
        "(call $fd_close (i32.const 100))",
        "(call $sock_accept (i32.const 4) (i32.const 0) (i32.const 65533))",
        "(call $sock_accept (i32.const 4) (i32.const 0x100) (i32.const 512))",
        "(call $sock_accept (i32.const 4) (i32.const 0) (i32.const 512))",
        "(call $sock_recv (i32.load (i32.const 512)) (i32.const 256) (i32.const 1) (i32.const 8) (i32.const 516) (i32.const 520))",
        "(call $sock_recv (i32.load (i32.const 512)) (i32.const 256) (i32.const 1) (i32.const 0) (i32.const 65533) (i32.const 520))",
        "(call $sock_recv (i32.load (i32.const 512)) (i32.const 65532) (i32.const 1) (i32.const 0) (i32.const 516) (i32.const 520))",
        "(call $sock_send (i32.load (i32.const 512)) (i32.const 256) (i32.const 1) (i32.const 1) (i32.const 516))",
        "(call $sock_shutdown (i32.load (i32.const 512)) (i32.const 4))",
        "(call $fd_seek (i32.load (i32.const 512)) (i64.const 0) (i32.const 0) (i32.const 520))",
        "(call $path_create_directory (i32.const 4) (i32.const 256) (i32.const 1))",
        "(call $sock_recv (i32.const 4) (i32.const 256) (i32.const 1) (i32.const 0) (i32.const 516) (i32.const 520))",
        // All that was sent is still there.
        "(call $sock_recv (i32.load (i32.const 512)) (i32.const 256) (i32.const 1) (i32.const 2) (i32.const 516) (i32.const 520))",
        "(i32.load (i32.const 516))",
        // Addresses: of a file, of what is not connected, of no end, with no room for one; a socket's own, and that of the other side.
        "(call $socket_address (i32.const 1) (i32.const 0) (i32.const 528))",
        "(call $socket_address (i32.const 4) (i32.const 1) (i32.const 528))",
        "(call $socket_address (i32.const 4) (i32.const 2) (i32.const 528))",
        "(call $socket_address (i32.const 4) (i32.const 0) (i32.const 65505))",
        "(i32.load (i32.const 528))",
        "(call $socket_address (i32.const 4) (i32.const 0) (i32.const 528))",
        "(i32.load (i32.const 528))",
        "(i32.load (i32.const 532))",
        "(i32.load (i32.const 536))",
        "(call $socket_address (i32.load (i32.const 512)) (i32.const 1) (i32.const 528))",
        "(i32.load (i32.const 532))",
    ];
    let body: String = calls.iter().enumerate().map(|(index, call)| kept(index, call)).collect();
    let body = format!(
        "(i32.store (i32.const 256) (i32.const 600)) (i32.store (i32.const 260) (i32.const 5))
        (i64.store (i32.const 300) (i64.const 0x6c6c756e2f766564)) ;; dev/null, until no descriptor is free
        (loop $more (br_if $more (i32.eqz (call $path_open (i32.const 3) (i32.const 0) (i32.const 300) (i32.const 8)
            (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 512)))))
        {body}"
    );
    let function = Function::new(&program("", &body, calls.len()));
    let (report, from) = thread::scope(|scope| {
        let run = scope.spawn(|| {
            let step = json!({ "env": { "MONOHULL_LISTEN": address.to_string() } });
            let network = json!({ "mode": "host", "listen": [address.to_string()] });
            function.run(step, json!({ "outputs": ["out"], "network": network }))
        });
        let mut connection = connected(address);
        connection.write_all(b"bytes").expect("sent");
        let from = connection.local_addr().expect("its address");
        (run.join().expect("it has run"), u32::from(from.port()))
    });
    let results = words_of(&report);
    let expected = [MFILE, 0, FAULT, INVAL, 0, INVAL, FAULT, FAULT, INVAL, INVAL, SPIPE, NOTDIR, NOTCONN, 0, 5];
    assert_eq!(results[..expected.len()], expected);
    let loopback = u32::from_le_bytes([127, 0, 0, 1]);
    let expected = [NOTSOCK, NOTCONN, INVAL, FAULT, 0, 0, 4, address.port().into(), loopback, 0, from];
    assert_eq!(results[results.len() - expected.len()..], expected);
}
