//! Certificates for one test, and blocking TLS clients that believe them.
#![allow(dead_code, reason = "each test program uses a part")]

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// A TLS connection to a server.
pub(crate) type TlsClient = StreamOwned<ClientConnection, TcpStream>;

/// An authority, and a folder for what it signs.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// A certificate and its key.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The number that the key is.
    pub(crate) secret: Vec<u8>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Two of one name could be taken for each other, until a signature is looked at.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("authority {} for a test", COUNT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
        Authority { issuer, folder: TempDir::new().expect("a folder") }
    }

    /// A certificate for these names and addresses, valid for these years.
    pub(crate) fn sign(&self, names: &[&str], years: [i32; 2]) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        [params.not_before, params.not_after] = years.map(|year| date_time_ymd(year, 1, 1));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        // PKCS#8 of this kind of key: 36 bytes of what it is, 32 of the number, the public key.
        let secret = key.serialized_der()[36..68].to_vec();
        Identity { certificate: certificate.pem(), key: key.serialize_pem(), secret }
    }

    /// The authority's own certificate.
    pub(crate) fn itself(&self) -> Identity {
        let key = self.issuer.key();
        Identity {
            certificate: self.issuer.pem(),
            key: key.serialize_pem(),
            secret: key.serialized_der()[36..68].to_vec(),
        }
    }

    /// A certificate for this machine.
    pub(crate) fn local(&self) -> Identity {
        self.sign(&["localhost", "127.0.0.1"], [2000, 4000])
    }

    /// Where a file of this name is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file that only its owner can read.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("its owner's");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// The file for `--ca`.
    pub(crate) fn file(&self) -> String {
        self.write("ca.pem", &self.issuer.pem())
    }

    /// Writes a certificate and its key, and gives the options with which a server takes them.
    pub(crate) fn install(&self, identity: &Identity) -> [String; 4] {
        let certificate = self.write("certificate.pem", &identity.certificate);
        ["--tls-cert".to_owned(), certificate, "--tls-key".to_owned(), self.write("key.pem", &identity.key)]
    }

    /// What a client of these versions and protocols believes.
    pub(crate) fn trusted(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&[u8]],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).expect("versions");
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }
}

/// The certificate in a text.
pub(crate) fn parsed(text: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(text.as_bytes()).expect("a certificate")
}

/// Agrees on keys with a server on this machine.
pub(crate) fn agree(stream: TcpStream, config: &Arc<ClientConfig>) -> std::io::Result<TlsClient> {
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(config.clone(), name).expect("a session");
    let mut client = StreamOwned::new(session, stream);
    while client.conn.is_handshaking() {
        client.conn.complete_io(&mut client.sock)?;
    }
    Ok(client)
}
