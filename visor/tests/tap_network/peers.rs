//! Real peers: curl, nginx, iperf3, and plain sockets by the thousand.

use crate::net::{FAR4, FAR6, Net, PATIENCE};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that do not repeat soon.
fn content(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn curl_is_served_by_a_function() {
    for six in [false, true] {
        let net = Net::new();
        let listen = if six { "[::]:80" } else { "0.0.0.0:80" };
        let mut run = net.run("http-serve", json!({ "listen": listen, "requests": 4 }));
        assert_eq!(run.line(), format!("listening at {listen}"));
        let host = if six { "[fd99::2]".to_owned() } else { net.workflow4().to_string() };
        // Two on one connection, then two on their own.
        let urls = [format!("http://{host}/one"), format!("http://{host}/two")];
        let both = net.output("curl", &["-sS", "--max-time", "120", &urls[0], &urls[1]]);
        assert_eq!(String::from_utf8_lossy(&both), "you asked for /one\nyou asked for /two\n");
        let body = content(if net.is_bad() { 200_000 } else { 700_000 });
        let file = net.folder.path().join("body");
        std::fs::write(&file, &body).expect("a file");
        let data = format!("@{}", file.display());
        let echo = ["-sS", "--max-time", "120", "--data-binary", &data, &format!("http://{host}/echo")];
        assert!(net.output("curl", &echo) == body, "what came back is not what was sent");
        let refused = net.output(
            "curl",
            &["-sS", "--max-time", "120", "-X", "PUT", "-o", "/dev/null", "-w", "%{http_code}", &urls[0]],
        );
        assert_eq!(refused, b"405");
        run.end();
    }
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn the_shipped_server_answers_ten_requests_and_loads_what_it_uses() {
    let net = Net::new();
    let server = net.start_shipped("http-serve-tap");
    net.wait_for_devices(1);
    let host = net.workflow4();
    wait_for(&net, SocketAddr::new(host, 80));
    let urls: Vec<String> = (0..10).map(|number| format!("http://{host}/{number}")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let answers = net.output("curl", &[&["-sS", "--max-time", "120"], &urls[..]].concat());
    let expected: String = (0..10).map(|number| format!("you asked for /{number}\n")).collect();
    assert_eq!(String::from_utf8_lossy(&answers), expected);
    let ended = server.wait_with_output().expect("a child");
    let report: Value = serde_json::from_slice(&ended.stdout).expect("a report");
    assert_eq!((ended.status.success(), &report["status"]), (true, &json!("done")), "{report:#}");
    let mut modules: Vec<&str> =
        report["modules"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    modules.sort_unstable();
    assert_eq!(modules, ["socket", "stdio"]);
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_function_fetches_from_nginx() {
    let net = Net::new();
    let folder = net.folder.path().join("nginx");
    std::fs::create_dir(&folder).expect("a folder");
    // nginx's workers are another user.
    for path in [net.folder.path(), &folder] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("changed");
    }
    let page = content(if net.is_bad() { 500_000 } else { 5_000_000 });
    std::fs::write(folder.join("page"), &page).expect("a file");
    let at = folder.display();
    let config = format!(
        "daemon off; pid {at}/pid; error_log {at}/errors; events {{}}
         http {{ access_log off; client_body_temp_path {at}/1; proxy_temp_path {at}/2; fastcgi_temp_path {at}/3;
                 uwsgi_temp_path {at}/4; scgi_temp_path {at}/5;
                 server {{ listen 0.0.0.0:8080; listen [::]:8080; root {at}; }} }}"
    );
    std::fs::write(folder.join("conf"), config).expect("a file");
    let _nginx = net.start("nginx", &["-c", &format!("{at}/conf"), "-e", &format!("{at}/errors")]);
    wait_for(&net, SocketAddr::new(FAR4.into(), 8080));
    for host in [FAR4.to_string(), format!("[{FAR6}]")] {
        let fetched = net.run("http-fetch", json!({ "url": format!("http://{host}:8080/page") })).end();
        assert!(fetched == page, "{} bytes from {host} are not the page", fetched.len());
    }
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_thousand_connections_at_once() {
    const CLIENTS: usize = 1000;
    let net = Net::new();
    let mut run = net.run("network-probe", json!({ "questions": [{ "serve": ["0.0.0.0:80", CLIENTS] }] }));
    assert_eq!(run.line(), "0.0.0.0:80");
    let server = SocketAddr::new(net.workflow4(), 80);
    let sum: usize = net.inside(move || {
        let clients: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(server).expect("a connection")).collect();
        let read = |mut client: TcpStream| {
            let mut text = String::new();
            client.read_to_string(&mut text).expect("an answer");
            text.parse::<usize>().expect("a number")
        };
        clients.into_iter().map(read).sum()
    });
    assert_eq!(sum, CLIENTS * (CLIENTS - 1) / 2);
    assert_eq!(run.line(), format!("served {CLIENTS}"));
    run.end();
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn what_is_sent_in_bulk_arrives_whole() {
    let net = Net::new();
    let bytes: u64 = if net.is_bad() { 2_000_000 } else { 50_000_000 };
    for push in [true, false] {
        let server = net.inside(|| TcpListener::bind((FAR4, 0)).expect("a server"));
        let at = server.local_addr().expect("its address").to_string();
        let question = if push { json!({ "push": [at, bytes] }) } else { json!({ "pull": at }) };
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().expect("a client");
            if push {
                return std::io::copy(&mut stream, &mut std::io::sink()).expect("read");
            }
            let piece = content(1 << 20);
            let mut left = bytes as usize;
            while left > 0 {
                let now = left.min(piece.len());
                stream.write_all(&piece[..now]).expect("written");
                left -= now;
            }
            bytes
        });
        let mut run = net.run("network-probe", json!({ "questions": [question] }));
        let said = run.line();
        assert!(said.contains(&format!("{bytes} bytes in ")), "{said}");
        assert_eq!(serving.join().expect("no panic"), bytes);
        run.end();
    }
    // The wire has done to some of it what it should, both ways.
    for way in net.wire() {
        let dropped = way.split("(dropped ").nth(1).and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
        assert!(way.contains("netem"), "{way}");
        assert!(!way.contains("loss") || dropped.is_some_and(|dropped| dropped > 0), "{way}");
    }
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn iperf3_measures_a_function() {
    let net = Net::new();
    let bytes: u64 = if net.is_bad() { 1_000_000 } else { 50_000_000 };
    let at = SocketAddr::new(FAR4.into(), 5201);
    for reverse in [false, true] {
        let mut server = net.command("iperf3");
        // A probing client would be the one client that it serves.
        let mut server =
            server.args(["--server", "--one-off", "--forceflush"]).stdout(Stdio::piped()).spawn().expect("iperf3");
        let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines();
        let listens =
            |line: &std::io::Result<String>| line.as_ref().is_ok_and(|line| line.contains("listening on 5201"));
        assert!(lines.any(|line| listens(&line)), "it listens");
        let mut run =
            net.run("network-probe", json!({ "questions": [{ "iperf3": [at.to_string(), bytes, reverse] }] }));
        let said = run.line();
        let (ours, theirs) = said.split_once(" bytes; the server says ").unwrap_or_else(|| panic!("{said}"));
        let theirs: Value = serde_json::from_str(theirs).expect("JSON");
        let (ours, theirs) = (ours.parse::<u64>().expect("a number"), theirs["streams"][0]["bytes"].as_u64());
        let theirs = theirs.expect("a number");
        assert!(ours >= bytes, "{said}");
        // The receiver has counted no more than was sent, and what is on its way at the end not at all.
        let (sent, received) = if reverse { (theirs, ours) } else { (ours, theirs) };
        assert!(0 < received && received <= sent, "{said}");
        run.end();
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        assert!(server.wait().expect("a child").success(), "{rest:#?}");
    }
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn datagrams_go_both_ways() {
    const QUESTIONS: usize = 50;
    let net = Net::new();
    for six in [false, true] {
        let far: IpAddr = if six { FAR6.into() } else { FAR4.into() };
        let server = net.inside(|| UdpSocket::bind((far, 0)).expect("a server"));
        let at = server.local_addr().expect("its address").to_string();
        let serving = Serving::start(server);
        // What the wire loses is asked for again.
        let questions = vec![json!({ "ask-again": [at, 1000] }); QUESTIONS];
        let mut run = net.run("network-probe", json!({ "questions": questions }));
        let mut asked = 0;
        for _ in 0..QUESTIONS {
            let said = run.line();
            let times = said.strip_prefix(&format!("answer from {at} after ")).unwrap_or_else(|| panic!("{said}"));
            asked += times.parse::<usize>().expect("a number");
        }
        run.end();
        let received = serving.end();
        assert!(asked >= QUESTIONS && received >= QUESTIONS, "{received} of {asked}");
    }
}

/// A peer that answers every datagram.
struct Serving {
    over: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Serving {
    fn start(server: UdpSocket) -> Serving {
        server.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        let over = Arc::<AtomicBool>::default();
        let (end, mut received, mut room) = (over.clone(), 0, [0; 64]);
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                if let Ok((bytes, from)) = server.recv_from(&mut room) {
                    assert_eq!(&room[..bytes], b"question");
                    // Who has asked again may have had an answer, and be gone.
                    let _ = server.send_to(b"answer", from);
                    received += 1;
                }
            }
            received
        });
        Serving { over, thread }
    }

    /// How many there were.
    fn end(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}

/// A thousand numbered datagrams to a function that sends each of them back. Where there is a wire, what it should do to them
/// is seen to have happened: a test beyond one that does nothing would show nothing.
#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_function_echoes_datagrams_whatever_the_wire_does_to_them() {
    const ROUNDS: u32 = 50;
    const AT_ONCE: u32 = 20;
    let net = Net::new();
    let mut run = net.run("network-probe", json!({ "questions": [{ "echo": "0.0.0.0:7" }] }));
    assert_eq!(run.line(), "0.0.0.0:7");
    let workflow = SocketAddr::new(net.workflow4(), 7);
    let client = net.inside(|| UdpSocket::bind("0.0.0.0:0").expect("a client"));
    client.connect(workflow).expect("an address");
    let (mut echoes, mut sent_at, mut times) = (Vec::new(), Vec::new(), BTreeMap::new());
    let receive = |patience: u64| {
        let mut room = [0; 4];
        client.set_read_timeout(Some(Duration::from_millis(patience))).expect("a timeout");
        client.recv(&mut room).is_ok_and(|bytes| bytes == 4).then(|| u32::from_be_bytes(room))
    };
    for round in 0..ROUNDS {
        for number in round * AT_ONCE..(round + 1) * AT_ONCE {
            sent_at.push(Instant::now());
            // What cannot be sent is lost.
            let _ = client.send(&number.to_be_bytes());
        }
        for _ in 0..AT_ONCE {
            let Some(number) = receive(if net.is_bad() { 200 } else { 20_000 }) else { break };
            // It may be one of an earlier round, or the second copy of one.
            if let Some(sent_at) = sent_at.get(number as usize) {
                times.entry(number).or_insert_with(|| sent_at.elapsed());
            }
            echoes.push(number);
        }
    }
    let sent = (ROUNDS * AT_ONCE) as usize;
    // Where nothing is lost, the last of them are waited for.
    while let Some(number) = receive(if net.is_bad() || echoes.len() >= sent { 1000 } else { 20_000 }) {
        echoes.push(number);
    }
    let different: BTreeSet<u32> = echoes.iter().copied().collect();
    assert!(different.last().is_some_and(|last| (*last as usize) < sent), "what was never sent does not come back");
    match net.is_bad() {
        // Nothing that holds more than these loses any.
        false => assert_eq!((different.len(), echoes.len()), (sent, sent)),
        true => {
            let lost = sent - different.len();
            let doubled = echoes.len() - different.len();
            let overtaken = echoes.windows(2).filter(|pair| pair[0] > pair[1]).count();
            let mut times: Vec<Duration> = times.into_values().collect();
            times.sort_unstable();
            let usual = times[times.len() / 2];
            assert!(0 < lost && lost < sent / 2, "{lost} of {sent} are lost");
            assert!(doubled > 0 && overtaken > 0, "{doubled} are doubled, {overtaken} overtaken");
            // Each way takes three milliseconds at least, but for the few that are let past the others.
            assert!(usual >= Duration::from_millis(6), "they take {usual:?}");
        }
    }
    for _ in 0..20 {
        // Once it has received this, its device goes.
        let _ = client.send(b"end");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(run.line().starts_with("echoed "));
    run.end();
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn what_goes_wrong_has_the_kind_that_std_gives_it() {
    let net = Net::new();
    let questions = json!([
        { "read": format!("{FAR4}:9") }, { "listen": "127.0.0.1:80" }, { "listen": "0.0.0.0:0" }, { "read": "127.0.0.1:80" },
    ]);
    let mut run = net.run("network-probe", json!({ "questions": questions }));
    assert!(run.line().starts_with("ConnectionRefused: "));
    assert!(run.line().starts_with("AddrNotAvailable: "));
    assert_eq!(run.line(), "listened");
    assert!(run.line().starts_with("NetworkUnreachable: "));
    run.end();
}

/// Waits for a listener.
#[track_caller]
fn wait_for(net: &Net, address: SocketAddr) {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if net.inside(|| TcpStream::connect(address)).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no listener at {address}");
}
