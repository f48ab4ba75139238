//! A host that is reached over TLS, with a certificate authority of the test's own.
#![allow(dead_code, reason = "each test program uses a part")]

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tempfile::TempDir;

/// Long enough for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A certificate authority.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// What one of a host's clients has done.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// It has asked for this name (SNI).
    Name(String),
    /// A whole request, as it came.
    Request(String),
    /// It has closed the connection after these bytes, which are no whole request.
    Closed(String),
    /// TLS has failed.
    Failed,
}

/// A host on this computer.
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    events: Receiver<Event>,
}

/// A client's connection.
type Connection = StreamOwned<ServerConnection, TcpStream>;

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // What it signs has rcgen's own name, and who signs for himself would have the same.
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        // OpenSSL's strict verification, which is Python's, wants an authority to say what its key is for.
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate");
        let folder = TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("roots.pem"), issuer.pem()).expect("written");
        Authority { issuer, folder }
    }

    /// The file with its certificate, for `SSL_CERT_FILE`.
    pub(crate) fn roots(&self) -> PathBuf {
        self.folder.path().join("roots.pem")
    }

    /// A folder for the test's files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A certificate for this name, and its key.
    fn signed(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.use_authority_key_identifier_extension = true;
        (params.signed_by(&key, &self.issuer).expect("a certificate"), key)
    }

    /// The same, as a text.
    pub(crate) fn sign(&self, name: &str) -> String {
        let (certificate, key) = self.signed(name);
        certificate.pem() + &key.serialize_pem()
    }

    fn config(&self, name: &str) -> Arc<ServerConfig> {
        let (certificate, key) = self.signed(name);
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config =
            config.expect("versions").with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key);
        Arc::new(config.expect("a certificate and its key"))
    }
}

impl Host {
    /// One with a certificate for this name, which answers each request with these bytes. An answer with
    /// `Connection: close` is the last one of its connection.
    pub(crate) fn start(authority: &Authority, name: &str, answer: &'static str) -> Host {
        let config = authority.config(name);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (sender, events) = channel();
        let host = Host { address: listener.local_addr().expect("its address"), events };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (config, sender) = (config.clone(), sender.clone());
                std::thread::spawn(move || {
                    let connection = ServerConnection::new(config).expect("a configuration");
                    serve(StreamOwned::new(connection, client), answer, &sender);
                });
            }
        });
        host
    }

    /// The next event.
    pub(crate) fn next(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("something")
    }

    /// The next request; other events before it are dropped.
    pub(crate) fn request(&self) -> String {
        loop {
            match self.next() {
                Event::Name(_) | Event::Closed(_) => {}
                Event::Request(request) => return request,
                Event::Failed => panic!("TLS has failed"),
            }
        }
    }

    /// All events that have come by now.
    pub(crate) fn so_far(&self) -> Vec<Event> {
        self.events.try_iter().collect()
    }
}

/// Serves one client. The test may have ended meanwhile, so events may find no receiver.
fn serve(mut stream: Connection, answer: &str, events: &Sender<Event>) {
    while stream.conn.is_handshaking() {
        if stream.conn.complete_io(&mut stream.sock).is_err() {
            let _ = events.send(Event::Failed);
            return;
        }
    }
    let _ = events.send(Event::Name(stream.conn.server_name().unwrap_or_default().to_owned()));
    let mut bytes = Vec::new();
    let mut room = [0; 16384];
    loop {
        match read(&mut stream, &mut room) {
            0 => {
                let _ = events.send(Event::Closed(String::from_utf8_lossy(&bytes).into_owned()));
                return;
            }
            read => bytes.extend_from_slice(&room[..read]),
        }
        if is_whole(&bytes) {
            let text = String::from_utf8_lossy(&std::mem::take(&mut bytes)).into_owned();
            let _ = events.send(Event::Request(text));
        } else if !wants_early_answer(&bytes) {
            continue;
        }
        let sent = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
        if sent.is_err() || answer.contains("Connection: close") {
            return;
        }
    }
}

/// Bytes that have come; none at the end, however that comes.
fn read(stream: &mut Connection, room: &mut [u8]) -> usize {
    loop {
        match stream.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read.unwrap_or(0),
        }
    }
}

/// The head of a request, and where its body begins.
fn head(bytes: &[u8]) -> Option<(String, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&bytes[..end]).to_lowercase(), end + 4))
}

/// Whether this is all of a request.
fn is_whole(bytes: &[u8]) -> bool {
    let Some((head, body)) = head(bytes) else { return false };
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    if field("transfer-encoding:").is_some() {
        return bytes.ends_with(b"0\r\n\r\n");
    }
    field("content-length:").is_none_or(|length| bytes.len() - body >= length.trim().parse().expect("a number"))
}

/// Whether this is a request whose answer comes before its body has.
fn wants_early_answer(bytes: &[u8]) -> bool {
    head(bytes).is_some_and(|(head, _)| head.contains("x-early: yes"))
}
