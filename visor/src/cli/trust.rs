//! How the client's verbs verify an `https://` server: by the certificate authorities of the host, and by those of `--ca`.
//!
//! A certificate is always verified: nothing switches that off. A server with a certificate of its own making is trusted by
//! giving that certificate, or its authority's, to `--ca`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use monohull_host_files::input::{self, InputError};
use monohull_report::escape::shown;

/// The most bytes of a file with certificates.
const FILE_MAX: u64 = 16 << 20;

/// No server can be trusted. The invocation or the host is at fault.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub(super) enum TrustError {
    #[error("the file of certificate authorities {} cannot be read: {source}", shown(path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: InputError,
    },
    /// The file of `--ca` is damaged.
    #[error("the file of certificate authorities {} is not PEM: {source}", shown(path))]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: pem::Error,
    },
    /// The file of `--ca` has no certificate.
    #[error("the file of certificate authorities {} has no certificate (`-----BEGIN CERTIFICATE-----`)", shown(.0))]
    Empty(PathBuf),
    #[error("a certificate in the file of certificate authorities {} cannot be used: {source}", shown(path))]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
    /// There is nothing to verify a certificate with.
    #[error("this host has no certificate authorities{why}; --ca FILE names one")]
    Nothing {
        /// What kept them from being read, if anything did.
        why: String,
    },
    /// The address of a server cannot stand in a certificate.
    #[error("no certificate can be for {0}")]
    Name(String),
    /// The library refuses its own defaults.
    #[error("TLS cannot be prepared: {0}")]
    Library(#[from] rustls::Error),
}

impl TrustError {
    /// Whether it is the host that lacks something.
    pub(super) fn is_hosts(&self) -> bool {
        matches!(self, TrustError::Nothing { .. } | TrustError::Library(_))
    }
}

/// The authorities by which a server's certificate is verified.
pub(super) struct Trust(TlsConnector);

impl Trust {
    /// Those of the host, and those in a file.
    pub(super) fn new(file: Option<&Path>) -> Result<Trust, TrustError> {
        let mut roots = RootCertStore::empty();
        let hosts = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(hosts.certs);
        if let Some(path) = file {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|source| TrustError::Unusable { path: path.to_owned(), source })?;
            }
        }
        if roots.is_empty() {
            let why = hosts.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
            return Err(TrustError::Nothing { why });
        }
        let provider = Arc::new(ring::default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = versions.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Trust(Arc::new(config).into()))
    }

    /// Agrees on keys with the server of a name or an address, and verifies that it is that one.
    pub(super) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> Result<std::io::Result<TlsStream<S>>, TrustError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TrustError::Name(host.to_owned()))?;
        Ok(self.0.connect(name, stream).await)
    }
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let unreadable = |source| TrustError::Unreadable { path: path.to_owned(), source };
    let bytes = input::read(path, FILE_MAX).map_err(unreadable)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found.map_err(|source| TrustError::Pem { path: path.to_owned(), source })? {
        none if none.is_empty() => Err(TrustError::Empty(path.to_owned())),
        certificates => Ok(certificates),
    }
}
