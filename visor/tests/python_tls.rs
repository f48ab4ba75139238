//! TLS of Python programs: the module `ssl` in the function, and a server of the host with a certificate authority of the test's own.
//!
//! As in `python_programs`, these tests are ignored where the interpreter is not asked for.

#[path = "support/https_host.rs"]
mod https_host;

use https_host::{Authority, Event, Host};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";

fn monohull(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.current_dir(folder).args(arguments).output().expect("monohull starts")
}

/// Runs a program that may connect to a host, with the authority's certificate in the slot `roots` and in the folder `/etc/ssl/certs`: what it
/// has printed. `{port}` in the program is the host's port.
#[track_caller]
fn printed(authority: &Authority, host: &Host, program: &str, env: &Value) -> Vec<String> {
    let folder = authority.folder();
    let port = host.address.port();
    fs::write(folder.join("app.py"), program.replace("{port}", &port.to_string())).expect("written");
    fs::create_dir_all(folder.join("certs")).expect("made");
    fs::copy(authority.roots(), folder.join("certs/roots.pem")).expect("copied");
    let workflow = json!({
        "name": "app",
        "functions": { "app": { "image": "app.so" } },
        "files": [{ "at": "/etc/ssl/certs", "directory": "certs", "access": "read" }, { "at": "/tmp", "memory": "1MiB" }],
        "network": { "mode": "host", "connect": ["127.0.0.1:*", "localhost:*"], "listen": ["127.0.0.1:*"] },
        "limits": { "timeout": "120s" },
        "inputs": [{ "slot": "roots", "path": "certs/roots.pem" }],
        "steps": [{ "name": "app", "function": "app", "env": env }],
    });
    fs::write(folder.join("workflow.json"), workflow.to_string()).expect("written");
    let output = monohull(folder, &["build", "app.py"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = monohull(folder, &["run", "workflow.json", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(report["status"], "done", "{report:#}");
    let lines = report["steps"][0]["instances"][0]["lines"].as_array().into_iter().flatten();
    lines
        .filter(|line| line["stream"] == "stdout")
        .map(|line| line["text"].as_str().expect("a text").to_owned())
        .collect()
}

/// `urllib` and `http.client` with an authority from a slot; a context has the version and the certificate of the connection.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn https_by_the_librarys_clients() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", ANSWER);
    let program = "import http.client, ssl, urllib.request\n\
                   from monohull import slots\n\
                   roots = str(slots.get('roots'), 'ascii')\n\
                   context = ssl.create_default_context(cadata=roots)\n\
                   print(urllib.request.urlopen('https://localhost:{port}/a', timeout=60, context=context).read())\n\
                   client = http.client.HTTPSConnection('localhost', {port}, timeout=60, context=context)\n\
                   client.request('POST', '/b', b'x' * 100_000)\n\
                   print(client.getresponse().status, client.sock is None)\n\
                   client.connect()\n\
                   print(client.sock.version(), client.sock.cipher()[0].startswith('TLS_'), client.sock.getpeercert()['subjectAltName'])\n";
    let lines = printed(&authority, &host, program, &json!({}));
    assert_eq!(lines, ["b'hello\\n'", "200 True", "TLSv1.3 True (('DNS', 'localhost'),)"]);
    assert_eq!(host.next(), Event::Name("localhost".to_owned()));
    assert!(host.request().starts_with("GET /a HTTP/1.1\r\n"));
    assert!(host.request().starts_with("POST /b HTTP/1.1\r\n"));
}

/// The same connection is made by the name in the certificate, and refused by another; by an authority that is known, and refused without.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn certificates_of_other_names_and_authorities_are_refused() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", ANSWER);
    let program = "import socket, ssl\n\
                   from monohull import slots\n\
                   roots = str(slots.get('roots'), 'ascii')\n\
                   def attempt(name, **options):\n\
                   \x20   context = ssl.create_default_context(**options)\n\
                   \x20   try:\n\
                   \x20       with socket.create_connection(('127.0.0.1', {port}), 60) as plain:\n\
                   \x20           with context.wrap_socket(plain, server_hostname=name):\n\
                   \x20               print('connected')\n\
                   \x20   except ssl.SSLCertVerificationError as error:\n\
                   \x20       print(error.verify_message)\n\
                   attempt('localhost', cadata=roots)\n\
                   attempt('other.example', cadata=roots)\n\
                   attempt('127.0.0.1', cadata=roots)\n\
                   attempt('localhost', cafile='/etc/ssl/certs/roots.pem')\n\
                   attempt('localhost')\n";
    let lines = printed(&authority, &host, program, &json!({}));
    assert_eq!(
        lines,
        [
            "connected",
            "Hostname mismatch, certificate is not valid for 'other.example'.",
            "IP address mismatch, certificate is not valid for '127.0.0.1'.",
            "connected",
            "unable to get local issuer certificate",
        ]
    );
}

/// What is believed without a word of the program: nothing, unless the step's environment names a file.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn the_environment_names_authorities() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", ANSWER);
    let program = "import ssl, urllib.error, urllib.request\n\
                   from monohull import slots\n\
                   slots.get('roots')\n\
                   print(ssl.get_default_verify_paths().openssl_cafile, ssl.get_default_verify_paths().openssl_capath)\n\
                   try:\n\
                   \x20   print(urllib.request.urlopen('https://localhost:{port}/', timeout=60).status)\n\
                   except urllib.error.URLError as error:\n\
                   \x20   print(error.reason.verify_message)\n";
    let paths = "/etc/ssl/cert.pem /etc/ssl/certs";
    let lines = printed(&authority, &host, program, &json!({}));
    assert_eq!(lines, [paths, "unable to get local issuer certificate"]);
    let lines = printed(&authority, &host, program, &json!({ "SSL_CERT_FILE": "/etc/ssl/certs/roots.pem" }));
    assert_eq!(lines, [paths, "200"]);
}

/// A server with a certificate of its own and a client, both in the function, with TLS 1.2 and 1.3, over `asyncio` too.
#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_server_in_the_function() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", ANSWER);
    let identity = authority.sign("server.example");
    let program = format!("IDENTITY = {identity:?}\n{}", include_str!("python/tls.py"));
    assert_eq!(printed(&authority, &host, &program, &json!({})), ["all right"]);
}
