//! TLS of the service: certificate and key, and the handshake that comes before a connection's first request.
//!
//! ```text
//! connection ─▶ first byte ─┬─ a handshake ─▶ keys agreed ─▶ requests, as on a plain connection
//!                           ├─ a letter ────▶ HTTP without TLS: every request is answered 400
//!                           └─ else, or too late ─▶ closed
//! ```
//!
//! The key is read by the supervisor after the spawner has been forked, so it is in no process that runs workflows.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, InconsistentKeys, RootCertStore, ServerConfig};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::http::connection::{Stream, TimedStream};
use monohull_host_files::input::{self, InputError};
use monohull_report::escape::shown;

/// The most bytes of a file with certificates or a key.
const FILE_MAX: u64 = 1 << 20;
/// The first byte of a TLS connection: the type of the record with the client's greeting.
const HANDSHAKE: u8 = 22;
/// The only protocol that is served, as ALPN calls it.
const HTTP_1: &[u8] = b"http/1.1";

/// What the library calls a server's certificate that is an authority's own. It has no type for that.
pub const AUTHORITY: &str = "CaUsedAsEndEntity";

/// The files of a certificate and its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The server's certificate in PEM, and behind it those that lead to a root that clients know.
    pub certificate: PathBuf,
    /// Its private key in PEM: PKCS#8, PKCS#1 or SEC1, not encrypted.
    pub key: PathBuf,
}

/// A certificate and its key cannot be used. The operator is at fault.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum TlsError {
    #[error("the TLS {what} file {} cannot be read: {source}", shown(path))]
    Unreadable {
        /// `certificate` or `key`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's answer.
        source: InputError,
    },
    /// The file is damaged.
    #[error("the TLS {what} file {} is not PEM: {source}", shown(path))]
    Pem {
        /// `certificate` or `key`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: pem::Error,
    },
    /// The file has no certificate.
    #[error("the TLS certificate file {} has no certificate (`-----BEGIN CERTIFICATE-----`)", shown(.0))]
    NoCertificate(PathBuf),
    /// The file has no key.
    #[error("the TLS key file {} has no private key (`-----BEGIN PRIVATE KEY-----`)", shown(.0))]
    NoKey(PathBuf),
    /// The key needs a passphrase.
    #[error("the key in the TLS key file {} is encrypted, and only keys without a passphrase are read", shown(.0))]
    Encrypted(PathBuf),
    #[error("the first certificate in the TLS certificate file {} cannot be used: {source}", shown(path))]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
    /// The key cannot be used.
    #[error("the key in the TLS key file {} cannot be used: {source}", shown(path))]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
    /// The two do not belong together.
    #[error(
        "the key in {} does not match the first certificate in {}, which is to be the server's own",
        shown(&files.key),
        shown(&files.certificate)
    )]
    Mismatch {
        /// The two files.
        files: TlsFiles,
    },
}

/// Why a connection has no keys.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub(crate) enum HandshakeError {
    #[error("it was closed before its first byte")]
    Unused,
    #[error("it took more than {0:?}")]
    Late(Duration),
    #[error("what came is HTTP without TLS")]
    Http,
    #[error("what came is not TLS: it begins with the byte {0:#04x}")]
    Foreign(u8),
    #[error("{0}")]
    Failed(#[from] io::Error),
}

impl HandshakeError {
    /// What it is called in metrics and in the log; nothing if no client has tried anything.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        match self {
            HandshakeError::Unused => None,
            HandshakeError::Late(_) => Some("timeout"),
            HandshakeError::Http => Some("http"),
            HandshakeError::Foreign(_) => Some("not-tls"),
            HandshakeError::Failed(error) if error.get_ref().is_some_and(|error| error.is::<rustls::Error>()) => {
                Some("refused")
            }
            HandshakeError::Failed(_) => Some("closed"),
        }
    }
}

/// The TLS of a server: its files, and what was read from them last.
pub(crate) struct Tls {
    files: TlsFiles,
    acceptor: RwLock<TlsAcceptor>,
}

impl Tls {
    /// Reads the files. What is questionable about them is logged.
    pub(crate) fn open(files: TlsFiles) -> Result<Tls, TlsError> {
        let acceptor = RwLock::new(read(&files)?);
        Ok(Tls { files, acceptor })
    }

    /// Reads the files again, for connections that come from now on. If they are wrong, nothing changes.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let acceptor = read(&self.files)?;
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }

    /// Agrees on keys with a client, within a time.
    pub(crate) async fn accept(
        &self,
        stream: &Stream,
        wire: TimedStream,
        limit: Duration,
    ) -> Result<TlsStream<TimedStream>, HandshakeError> {
        let agreed = timeout(limit, async {
            match stream.first_byte().await? {
                None => return Err(HandshakeError::Unused),
                Some(HANDSHAKE) => {}
                Some(letter) if letter.is_ascii_uppercase() => return Err(HandshakeError::Http),
                Some(byte) => return Err(HandshakeError::Foreign(byte)),
            }
            let acceptor = self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone();
            Ok(acceptor.accept(wire).await?)
        });
        agreed.await.unwrap_or(Err(HandshakeError::Late(limit)))
    }
}

/// Reads certificate and key, and checks that they belong together.
fn read(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let chain = certificates(&files.certificate)?;
    let key = private_key(&files.key)?;
    let unusable = |source| TlsError::Key { path: files.key.clone(), source };
    let key = provider.key_provider.load_private_key(key).map_err(unusable)?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(rustls::Error::InconsistentKeys(_)) => return Err(TlsError::Mismatch { files: files.clone() }),
        Err(source) => return Err(TlsError::Certificate { path: files.certificate.clone(), source }),
    }
    warn(files, &certified, &provider);
    let unusable = |source| TlsError::Certificate { path: files.certificate.clone(), source };
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.map_err(unusable)?.with_no_client_auth();
    let mut config = config.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    Ok(Arc::new(config).into())
}

/// The content of a file.
fn content(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |source| TlsError::Unreadable { what, path: path.to_owned(), source };
    input::read(path, FILE_MAX).map_err(unreadable)
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let damaged = |source| TlsError::Pem { what: "certificate", path: path.to_owned(), source };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content("certificate", path)?).collect();
    match found.map_err(damaged)? {
        none if none.is_empty() => Err(TlsError::NoCertificate(path.to_owned())),
        certificates => Ok(certificates),
    }
}

/// The first key of a file.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = content("key", path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|source| match source {
        pem::Error::NoItemsFound if has(&bytes, b"BEGIN ENCRYPTED PRIVATE KEY") => TlsError::Encrypted(path.to_owned()),
        pem::Error::NoItemsFound => TlsError::NoKey(path.to_owned()),
        // The older way to encrypt a key has lines for it between the head and the key.
        _ if has(&bytes, b"Proc-Type: 4,ENCRYPTED") => TlsError::Encrypted(path.to_owned()),
        source => TlsError::Pem { what: "key", path: path.to_owned(), source },
    })
}

/// Whether bytes have others in them.
fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Logs what an operator should look at, although it works.
fn warn(files: &TlsFiles, certified: &CertifiedKey, provider: &CryptoProvider) {
    let path = shown(&files.key);
    match std::fs::metadata(&files.key) {
        Ok(metadata) if metadata.mode() & 0o077 != 0 => {
            let mode = format!("{:o}", metadata.mode() & 0o7777);
            tracing::warn!(%path, mode, "the TLS key file can be used by others than its owner");
        }
        _ => {}
    }
    let path = shown(&files.certificate);
    match validity(certified, provider) {
        Some(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            tracing::warn!(%path, "the TLS certificate has expired: clients will refuse it");
        }
        // OpenSSL makes such ones by default, and takes them; other libraries do not.
        Some(CertificateError::Other(error)) if error.to_string().contains(AUTHORITY) => {
            tracing::warn!(%path, "the TLS certificate is one of an authority (`CA:TRUE`): many clients will refuse it");
        }
        Some(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            tracing::warn!(%path, "the TLS certificate is not valid yet: clients will refuse it");
        }
        _ => {}
    }
}

/// What verification without any root says of a certificate: its dates are looked at before its issuer is.
fn validity(certified: &CertifiedKey, provider: &CryptoProvider) -> Option<CertificateError> {
    let certificate = ParsedCertificate::try_from(certified.end_entity_cert().ok()?).ok()?;
    let algorithms = provider.signature_verification_algorithms.all;
    let no_roots = RootCertStore::empty();
    match verify_server_cert_signed_by_trust_anchor(&certificate, &no_roots, &[], UnixTime::now(), algorithms) {
        Err(rustls::Error::InvalidCertificate(error)) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    /// What is said of a certificate for these years.
    fn judged(from: i32, to: i32, is_ca: IsCa) -> Option<CertificateError> {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        params.is_ca = is_ca;
        let certificate = params.self_signed(&key).expect("a certificate");
        let provider = ring::default_provider();
        let der = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let signing = provider.key_provider.load_private_key(der).expect("a key");
        validity(&CertifiedKey::new(vec![certificate.der().clone()], signing), &provider)
    }

    #[test]
    fn what_clients_will_refuse_is_known() {
        assert!(matches!(judged(2000, 2001, IsCa::NoCa), Some(CertificateError::ExpiredContext { .. })));
        assert!(matches!(judged(4000, 4001, IsCa::NoCa), Some(CertificateError::NotValidYetContext { .. })));
        assert!(matches!(judged(2000, 4000, IsCa::NoCa), Some(CertificateError::UnknownIssuer)));
        let authority = judged(2000, 4000, IsCa::Ca(BasicConstraints::Unconstrained));
        assert!(matches!(authority, Some(CertificateError::Other(error)) if error.to_string().contains(AUTHORITY)));
    }

    #[test]
    fn every_form_of_a_key_is_read() {
        let form = |label: &str| {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(&file, format!("-----BEGIN {label}-----\nMAA=\n-----END {label}-----\n")).expect("written");
            private_key(file.path())
        };
        assert!(matches!(form("PRIVATE KEY"), Ok(PrivateKeyDer::Pkcs8(_))));
        assert!(matches!(form("RSA PRIVATE KEY"), Ok(PrivateKeyDer::Pkcs1(_))));
        assert!(matches!(form("EC PRIVATE KEY"), Ok(PrivateKeyDer::Sec1(_))));
        assert!(matches!(form("ENCRYPTED PRIVATE KEY"), Err(TlsError::Encrypted(_))));
        assert!(matches!(form("PUBLIC KEY"), Err(TlsError::NoKey(_))));
    }
}
