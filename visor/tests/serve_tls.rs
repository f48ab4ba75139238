//! TLS: a server with a certificate is asked by way of it and by no other, and clients ask only a server that they know.

#[path = "support/certificates.rs"]
mod certificates;
mod serve_support;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use certificates::{Authority, TlsClient, agree, parsed};
use nix::sys::signal::Signal;
use rustls::version::{TLS12, TLS13};
use serde_json::{Value, json};
use serve_support::verbs::{Done, run_verb};
use serve_support::{Answer, PATIENCE, Server, StateFolder, eventually, image_bytes, request, single};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Both versions.
const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&TLS13, &TLS12];
const HTTP_1: &[&[u8]] = &[b"http/1.1"];

/// A server with a certificate of this authority.
fn start(authority: &Authority, options: &[&str]) -> Server {
    let tls = authority.install(&authority.local());
    let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
    Server::start_with(&[&tls, options].concat())
}

/// A connection with keys.
#[track_caller]
fn connect(server: &Server, authority: &Authority) -> TlsClient {
    agree(server.connect(), &authority.trusted(VERSIONS, HTTP_1)).expect("keys")
}

/// Asks by way of TLS, on a connection of its own.
#[track_caller]
fn ask(server: &Server, authority: &Authority, method: &str, path: &str, body: &[u8]) -> Answer {
    let mut client = connect(server, authority);
    client.write_all(&request(method, path, &[], body)).expect("sent");
    Answer::read(&mut client).unwrap_or_else(|| panic!("no answer to {method} {path}"))
}

/// Registers `echo`.
fn set_up(server: &Server, authority: &Authority) {
    ask(server, authority, "PUT", "/functions/echo", &image_bytes("echo")).expect(201);
    let echo = single("echo", "echo", &json!({ "inputs": ["in"], "outputs": ["out"] }));
    ask(server, authority, "PUT", "/workflows/echo", echo.to_string().as_bytes()).expect(201);
}

/// How many connections have not come to use TLS, for this reason.
fn failures(server: &Server, authority: &Authority, reason: &str) -> u64 {
    let text = ask(server, authority, "GET", "/metrics", &[]).expect(200).text();
    let name = format!("monohull_tls_handshake_failures_total{{reason=\"{reason}\"}} ");
    let count = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or("0");
    count.parse().expect("a number")
}

/// Waits until the server closes a connection; what it said.
fn closed(mut stream: TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    // A connection that is reset is closed, too.
    let _ = stream.read_to_end(&mut said);
    said
}

#[test]
fn every_verb_asks_by_way_of_tls() {
    let authority = Authority::new();
    let server = start(&authority, &[]);
    let ca = authority.file();
    let run = |address: &str, arguments: &[&str], input: &str| {
        let Done { code, out, err } = run_verb(address, &[arguments, &["--ca", &ca]].concat(), &[], input);
        assert_eq!(code, 0, "{arguments:?}: {out}{err}");
        out
    };
    let address = format!("https://{}", server.address);
    assert_eq!(run(&address, &["deploy", "workflows/word-count.json"], ""), "word-count: deployed (functions: 4)\n");
    assert!(run(&address, &["validate", "--server", &address, "workflows/word-count.json"], "").contains("is valid"));
    for invoke in [&["invoke", "word-count", "--input", "-"][..], &["invoke", "word-count", "--input", "-", "--follow"]]
    {
        assert_eq!(run(&address, invoke, "a b a"), "2 a\n1 b\n");
    }
    // By name, and with the authority from the environment.
    let by_name = format!("https://localhost:{}/", server.address.port());
    let Done { code, out: listed, err } = run_verb(&by_name, &["list"], &[("MONOHULL_CA", &ca)], "");
    assert!(code == 0 && listed.contains("word-count"), "{listed}{err}");
    let id = run(&address, &["invoke", "word-count", "--input", "-", "--async"], "a");
    run(&address, &["logs", id.trim(), "--follow"], "");
    run(&address, &["undeploy", "word-count"], "");

    let health = ask(&server, &authority, "GET", "/healthz", &[]).expect(200).json();
    assert_eq!(health["tls"], true);
    // The page of this server is of this origin, and one that came without TLS is not.
    for (scheme, status) in [("https", 200), ("http", 403)] {
        let origin = format!("{scheme}://127.0.0.1");
        let mut client = connect(&server, &authority);
        client.write_all(&request("GET", "/functions", &[("Origin", &origin)], &[])).expect("sent");
        Answer::read(&mut client).expect("an answer").expect(status);
    }
    let (code, log) = server.stop();
    assert_eq!(code, Some(0));
    assert!(log.contains("\"tls\":true"), "{log}");
}

/// A server refuses a body that is too large before all of it has come, and closes the connection.
#[test]
fn a_refusal_is_shown_even_if_the_request_was_not_taken_whole() {
    let authority = Authority::new();
    let server = start(&authority, &["--max-body", "1MiB"]);
    set_up(&server, &authority);
    let (address, ca) = (format!("https://{}", server.address), authority.file());
    let body = "x".repeat(16 << 20);
    for _ in 0..5 {
        let Done { code, err, .. } = run_verb(&address, &["invoke", "echo", "--input", "-", "--ca", &ca], &[], &body);
        assert!(code == 2 && err.contains("too-large"), "{code}: {err}");
    }
}

#[test]
fn a_server_that_is_not_known_is_not_asked() {
    let authority = Authority::new();
    let server = start(&authority, &[]);
    let address = format!("https://{}", server.address);
    let token = [("MONOHULL_TOKEN", "s3cret")];
    let other = Authority::new();
    for arguments in [&["list"][..], &["list", "--ca", &other.file()]] {
        // The host's own authorities may be none.
        let Done { code, out, err } = run_verb(&address, arguments, &token, "");
        assert!(code == 3 && out.is_empty(), "{out}{err}");
        assert!(err.contains("UnknownIssuer") || err.contains("no certificate authorities"), "{err}");
        assert!(err.contains("--ca FILE"), "{err}");
    }
    assert!(failures(&server, &authority, "refused") >= 1, "a client has refused it");

    // A certificate for another name is as little this server's.
    let elsewhere = authority.install(&authority.sign(&["else.where"], [2000, 4000]));
    let elsewhere: Vec<&str> = elsewhere.iter().map(String::as_str).collect();
    let stranger = Server::start_with(&elsewhere);
    let ca = authority.file();
    let address = format!("https://{}", stranger.address);
    let Done { code, err, .. } = run_verb(&address, &["list", "--ca", &ca], &[], "");
    assert!(code == 3 && err.contains("no TLS connection to") && err.contains("not valid for name"), "{err}");

    // One with a certificate that is an authority's own, as OpenSSL makes them, says so at the start.
    let own = authority.install(&authority.itself());
    let own = Server::start_with(&own.iter().map(String::as_str).collect::<Vec<_>>());
    let Done { code, err, .. } = run_verb(&format!("https://{}", own.address), &["list", "--ca", &ca], &[], "");
    assert!(code == 3 && err.contains("one of an authority"), "{err}");
    assert!(own.stop().1.contains("one of an authority"));

    // A server without TLS.
    let plain = Server::start();
    let address = format!("https://{}", plain.address);
    let Done { code, err, .. } = run_verb(&address, &["list", "--ca", &ca], &[], "");
    assert!(code == 3 && err.contains("may expect http://"), "{err}");

    let nothing = authority.write("nothing.pem", "no certificate\n");
    for (file, why) in [(&*nothing, "has no certificate"), ("/nowhere", "cannot be read"), ("/dev/zero", "a device")] {
        let Done { code, err, .. } = run_verb(&address, &["list", "--ca", file], &[], "");
        assert!(code == 2 && err.contains(why) && err.contains(file), "{err}");
    }
}

#[test]
fn both_versions_are_served_and_only_http_1() {
    let authority = Authority::new();
    let server = start(&authority, &[]);
    set_up(&server, &authority);
    // More than any buffer on the way has room for.
    let body: Vec<u8> = (0..8u32 << 20).map(|at| (at / 251) as u8).collect();
    for version in VERSIONS {
        let mut client = agree(server.connect(), &authority.trusted(&[version], HTTP_1)).expect("keys");
        assert_eq!(client.conn.protocol_version(), Some(version.version));
        assert_eq!(client.conn.alpn_protocol(), Some(HTTP_1[0]));
        for body in [b"small".as_slice(), &body] {
            let keep = [("Connection", "keep-alive")];
            client.write_all(&request("POST", "/invoke/echo", &keep, body)).expect("sent");
            let answer = Answer::read(&mut client).expect("an answer").expect(200);
            assert!(answer.body == body, "{} bytes", answer.body.len());
        }
    }
    let other = agree(server.connect(), &authority.trusted(VERSIONS, &[b"h2"]));
    assert!(other.is_err_and(|error| error.to_string().contains("NoApplicationProtocol")));
    // A client need not say which protocol it means.
    let mut silent = agree(server.connect(), &authority.trusted(VERSIONS, &[])).expect("keys");
    silent.write_all(&request("GET", "/livez", &[], &[])).expect("sent");
    Answer::read(&mut silent).expect("an answer").expect(200);
}

/// Clients that never finish what a connection begins with hold its place until their time is up, and no longer.
#[test]
fn a_handshake_that_does_not_end_is_cut_off() {
    let authority = Authority::new();
    let server = start(&authority, &["--connections", "3", "--client-pause", "2s"]);
    let begin = Instant::now();
    // One that says nothing, one in the middle of its greeting, one that says nothing after it.
    let silent = server.connect();
    let mut cut = server.connect();
    cut.write_all(&[22, 3, 1, 2, 0, 1]).expect("sent");
    let mut hello = Vec::new();
    let name = rustls::pki_types::ServerName::try_from("localhost").expect("a name");
    let config = authority.trusted(VERSIONS, HTTP_1);
    let mut session = rustls::ClientConnection::new(config, name).expect("a session");
    session.write_tls(&mut hello).expect("a greeting");
    let mut greeted = server.connect();
    greeted.write_all(&hello).expect("sent");
    // All places are taken: this one waits in the kernel until the others have been cut off.
    let answer = ask(&server, &authority, "GET", "/healthz", &[]).expect(200);
    assert!(begin.elapsed() >= Duration::from_secs(2), "there was a place after {:?}", begin.elapsed());
    assert_eq!(answer.json()["ready"], true);
    assert!(closed(silent).is_empty() && closed(cut).is_empty());
    assert!(!closed(greeted).is_empty(), "the server's greeting");
    assert_eq!(failures(&server, &authority, "timeout"), 3);
    // A connection that is opened and closed is no failure: monitors do that.
    drop(server.connect());
    drop(server.connect().write_all(&hello[..20]));
    eventually("the second is counted", || failures(&server, &authority, "closed") == 1);
    let (_, log) = server.stop();
    assert_eq!(log.matches("\"reason\":\"timeout\"").count(), 3, "{log}");
}

/// With keys the bounds are those of a plain connection.
#[test]
fn a_client_that_is_slow_is_cut_off_in_tls_too() {
    let authority = Authority::new();
    let server = start(&authority, &["--client-pause", "3s"]);
    set_up(&server, &authority);
    let body = vec![b'x'; 16 << 20];
    let mut unread = connect(&server, &authority);
    unread.write_all(&request("POST", "/invoke/echo", &[], &body)).expect("sent");
    let mut half = connect(&server, &authority);
    half.write_all(b"GET /livez HTTP/1.1\r\nHost:").expect("sent");
    eventually("they are cut off", || {
        // The one that asks.
        ask(&server, &authority, "GET", "/metrics", &[]).text().contains("monohull_connections 1\n")
    });
    let mut rest = Vec::new();
    let read = unread.read_to_end(&mut rest);
    assert!(read.is_err() || rest.len() < body.len(), "{} bytes", rest.len());
}

#[test]
fn http_without_tls_is_refused_with_the_reason() {
    let authority = Authority::new();
    let server = start(&authority, &["--client-pause", "3s"]);
    let begin = Instant::now();
    for path in ["/livez", "/functions", "/nowhere"] {
        let refused = server.raw(&request("POST", path, &[("Connection", "keep-alive")], b"text")).expect("an answer");
        assert_eq!(refused.headers["connection"], "close");
        let error = refused.error(400, "bad-request", "client");
        assert!(error["message"].as_str().is_some_and(|message| message.contains("https://")), "{error}");
    }
    assert!(begin.elapsed() < PATIENCE / 2, "it waits for nothing");
    // What is neither of the two, and HTTP that is not finished.
    for bytes in [&b"\x00\x01\x02\x03"[..], b"SSH-2.0-x", b"GET /livez HT"] {
        let mut stream = server.connect();
        stream.write_all(bytes).expect("sent");
        closed(stream);
    }
    let Done { code, err, .. } = run_verb(&format!("http://{}", server.address), &["list"], &[], "");
    assert!(code == 2 && err.contains("expects TLS"), "{err}");
    assert_eq!(failures(&server, &authority, "not-tls"), 1);
    assert_eq!(failures(&server, &authority, "http"), 6);
    let (_, log) = server.stop();
    assert!(log.contains("HTTP without TLS") && log.contains("expects TLS"), "{log}");
}

#[test]
fn a_new_certificate_is_used_after_a_signal_and_a_wrong_one_is_not() {
    let authority = Authority::new();
    let server = start(&authority, &[]);
    set_up(&server, &authority);
    let shown = || connect(&server, &authority).conn.peer_certificates().expect("a certificate")[0].clone();
    let first = shown();
    let keep = [("Connection", "keep-alive")];
    let mut open = connect(&server, &authority);
    let mut goes_on = || {
        open.write_all(&request("POST", "/invoke/echo", &keep, b"still")).expect("sent");
        assert_eq!(Answer::read(&mut open).expect("an answer").expect(200).text(), "still");
    };
    goes_on();

    let new = authority.local();
    authority.install(&new);
    assert_eq!(shown(), first, "nothing has said that there is a new one");
    server.signal(Signal::SIGHUP);
    eventually("it is used", || shown() == parsed(&new.certificate));
    goes_on();

    // A pair that does not fit, and files that are none.
    for (certificate, key, why) in [
        (&*authority.local().certificate, &*new.key, "does not match the first certificate"),
        ("nothing", &new.key, "has no certificate"),
        (&new.certificate, "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n", "is not PEM"),
    ] {
        authority.write("certificate.pem", certificate);
        authority.write("key.pem", key);
        server.signal(Signal::SIGHUP);
        eventually("the reason is logged", || server.log().contains(why));
        assert_eq!(shown(), parsed(&new.certificate));
        goes_on();
    }
    // The end of the server is one of the session, too.
    server.signal(Signal::SIGTERM);
    let mut rest = Vec::new();
    open.read_to_end(&mut rest).expect("an end that TLS confirms");
    assert!(rest.is_empty());
    let (code, log) = server.wait();
    assert_eq!(code, Some(0));
    assert_eq!(log.matches("the TLS certificate and key were read again").count(), 1, "{log}");
    assert_eq!(log.matches("the TLS certificate and key stay as they were").count(), 3, "{log}");
}

/// A request that has come is answered, and the answer has its end.
#[test]
fn what_runs_at_the_end_is_answered() {
    let authority = Authority::new();
    let server = start(&authority, &[]);
    set_up(&server, &authority);
    let args = json!({ "inputs": ["in"], "outputs": ["out"], "args": { "wait_ms": 700 } });
    let slow = single("slow", "echo", &args).to_string();
    ask(&server, &authority, "PUT", "/workflows/slow", slow.as_bytes()).expect(201);
    let mut client = connect(&server, &authority);
    let keep = [("Connection", "keep-alive")];
    client.write_all(&request("POST", "/invoke/slow", &keep, b"late")).expect("sent");
    let running =
        |all: &Value| all["invocations"].as_array().is_some_and(|all| all.iter().any(|i| i["status"] == "running"));
    eventually("it runs", || running(&ask(&server, &authority, "GET", "/invocations", &[]).json()));
    server.signal(Signal::SIGTERM);
    assert_eq!(Answer::read(&mut client).expect("an answer").expect(200).text(), "late");
    assert_eq!(client.read(&mut [0]).expect("an end that TLS confirms"), 0);
    assert_eq!(server.wait().0, Some(0));
}

#[test]
fn files_that_cannot_be_used_are_named_at_the_start() {
    let authority = Authority::new();
    let (one, other) = (authority.local(), authority.local());
    let certificate = authority.write("one.pem", &one.certificate);
    let key = authority.write("one.key", &one.key);
    let other_key = authority.write("other.key", &other.key);
    let encrypted = authority.write("encrypted.key", &one.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"));
    let damaged = authority.write("damaged.pem", &one.certificate.replace("END", "FIN"));
    let no_key = authority.write("no.key", "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n");
    let no_certificate =
        one.certificate.lines().next().expect("a line").to_owned() + "\nMAA=\n-----END CERTIFICATE-----\n";
    let no_certificate = authority.write("no.pem", &no_certificate);
    let missing = authority.path("missing").to_str().expect("UTF-8").to_owned();
    let run = |arguments: &[&str]| {
        let state = StateFolder::new();
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--state"]).arg(state.path()).args(arguments);
        let output = command.output().expect("monohull starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (certificate, key, file, why) in [
        (&certificate, &missing, &missing, "cannot be read: No such file"),
        (&missing, &key, &missing, "cannot be read: No such file"),
        (&key, &key, &key, "has no certificate"),
        (&certificate, &certificate, &certificate, "has no private key"),
        (&certificate, &encrypted, &encrypted, "is encrypted"),
        (&damaged, &key, &damaged, "is not PEM"),
        (&certificate, &no_key, &no_key, "cannot be used"),
        (&no_certificate, &key, &no_certificate, "cannot be used"),
        (&certificate, &other_key, &other_key, "does not match the first certificate in"),
    ] {
        let (code, err) = run(&["--tls-cert", certificate, "--tls-key", key]);
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(why) && err.contains(file.as_str()), "{why}: {err}");
        assert!(!err.contains(&one.key[40..80]), "the key is not shown: {err}");
    }
    for (alone, lacks) in [(["--tls-cert", &certificate], "--tls-key"), (["--tls-key", &key], "--tls-cert")] {
        let (code, err) = run(&alone);
        assert!(code == Some(2) && err.contains(lacks), "{err}");
    }
    let socket = authority.path("socket").to_str().expect("UTF-8").to_owned();
    let state = StateFolder::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.args(["serve", "--listen", &format!("unix:{socket}"), "--tls-cert", &certificate, "--tls-key", &key]);
    let output = command.arg("--state").arg(state.path()).output().expect("monohull starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("a Unix socket has no TLS"));
}

#[test]
fn what_is_questionable_is_in_the_log() {
    let authority = Authority::new();
    for (years, words) in [([2000, 2001], "has expired"), ([3000, 3001], "is not valid yet")] {
        let options = authority.install(&authority.sign(&["localhost"], years));
        std::fs::set_permissions(&options[3], PermissionsExt::from_mode(0o640)).expect("changed");
        let server = Server::start_with(&options.iter().map(String::as_str).collect::<Vec<_>>());
        let (code, log) = server.stop();
        assert_eq!(code, Some(0));
        assert!(log.contains(words) && log.contains(&options[1]), "{log}");
        assert!(log.contains("can be used by others") && log.contains("\"mode\":\"640\""), "{log}");
    }
    let server = start(&authority, &[]);
    let (_, log) = server.stop();
    assert!(!log.contains("\"WARN\""), "{log}");
}

/// The older form of such a key, as `openssl ecparam -genkey` writes it.
#[test]
fn a_key_may_be_in_its_older_form() {
    let authority = Authority::new();
    let identity = authority.local();
    let body: String = identity.key.lines().filter(|line| !line.starts_with('-')).collect();
    let der = BASE64.decode(body).expect("base64");
    // The newer form is 29 bytes that say what it is, and the older one.
    let older = BASE64.encode(&der[29..]);
    let older = format!("-----BEGIN EC PRIVATE KEY-----\n{older}\n-----END EC PRIVATE KEY-----\n");
    let mut options = authority.install(&identity);
    options[3] = authority.write("older.key", &older);
    let server = Server::start_with(&options.iter().map(String::as_str).collect::<Vec<_>>());
    ask(&server, &authority, "GET", "/livez", &[]).expect(200);
}
