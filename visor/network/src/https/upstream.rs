//! The connection to a host: its address, TCP, TLS, HTTP.

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Origin;
use super::exchange::BUFFER;
use crate::rule::{Rule, is_nowhere, special};

/// How long an address may take to accept a connection, and then the host to agree on keys.
const PATIENCE: Duration = Duration::from_secs(10);

/// Look-ups of one run at the same time: each takes a thread, and cannot be interrupted.
const LOOKUPS_MAX: usize = 8;

/// Why a host cannot be reached. None of it is the function's fault.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    #[error("the name cannot be resolved: {0}")]
    Resolve(io::Error),
    #[error("the name leads only to addresses that are not public, and no entry of `connect` covers one of them")]
    Inside,
    #[error("{0} cannot be connected to: {1}")]
    Connect(SocketAddr, io::Error),
    #[error("{0} has not answered in time")]
    Late(SocketAddr),
    #[error("this computer's root certificates cannot be read: {0}")]
    Roots(String),
    #[error("it is no name of a TLS server")]
    Name,
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("HTTP: {0}")]
    Http(hyper::Error),
    #[error("it answered with another protocol")]
    Switched,
}

/// How hosts are reached: the same for all connections of a run.
pub(super) struct Ways {
    tls: Arc<ClientConfig>,
    /// The addresses that the workflow may connect to itself.
    connect: Vec<Rule>,
    /// For look-ups at the same time.
    lookups: Arc<Semaphore>,
}

impl Ways {
    /// Verification is by the host's root certificates; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
    pub(super) fn new(connect: Vec<Rule>) -> Result<Ways, UpstreamError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| UpstreamError::Tls(io::Error::other(error)))?;
        let mut config = config.with_root_certificates(roots()?).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Ways { tls: Arc::new(config), connect, lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)) })
    }

    /// Connects to a host. What drives the connection is put into `drivers`.
    pub(super) async fn connect(
        &self,
        origin: &Origin,
        drivers: &mut JoinSet<()>,
    ) -> Result<SendRequest<Incoming>, UpstreamError> {
        let (stream, address) = self.open(origin).await?;
        // A final dot is DNS's, and in no certificate.
        let name = origin.host.trim_end_matches('.').to_owned();
        let name = ServerName::try_from(name).map_err(|_| UpstreamError::Name)?;
        let agreed = timeout(PATIENCE, TlsConnector::from(self.tls.clone()).connect(name, stream)).await;
        let stream = agreed.map_err(|_| UpstreamError::Late(address))?.map_err(UpstreamError::Tls)?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(BUFFER);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(UpstreamError::Http)?;
        drivers.spawn(async move {
            // The request that waits for an answer gets the error.
            let _ = connection.await;
        });
        Ok(sender)
    }

    /// Connects to the first address that answers.
    async fn open(&self, origin: &Origin) -> Result<(TcpStream, SocketAddr), UpstreamError> {
        let mut last = UpstreamError::Inside;
        for address in self.look_up(origin).await.map_err(UpstreamError::Resolve)? {
            let address = SocketAddr::new(address.ip().to_canonical(), address.port());
            if !may_reach(&self.connect, address) {
                continue;
            }
            match timeout(PATIENCE, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Requests and answers are whole; it costs only time if the kernel refuses.
                    let _ = stream.set_nodelay(true);
                    return Ok((stream, address));
                }
                Ok(Err(error)) => last = UpstreamError::Connect(address, error),
                Err(_) => last = UpstreamError::Late(address),
            }
        }
        Err(last)
    }

    /// The addresses of a host. A look-up goes on although its connection has been closed, so their number has a limit.
    async fn look_up(&self, origin: &Origin) -> io::Result<Vec<SocketAddr>> {
        let place = self.lookups.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (host, port) = (origin.host.clone(), origin.port);
        let looking = spawn_blocking(move || {
            let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            drop(place);
            found
        });
        looking.await.map_err(io::Error::other)?
    }
}

/// Whether a name may lead to this address: it is public, or the list has an entry for it. The address is in canonical form.
fn may_reach(connect: &[Rule], to: SocketAddr) -> bool {
    !is_nowhere(to) && (special(to.ip()).is_none() || connect.iter().any(|rule| rule.covers(to)))
}

/// The host's root certificates, read once.
fn roots() -> Result<Arc<RootCertStore>, UpstreamError> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(roots.clone());
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(|| "no certificate was found".to_owned(), ToString::to_string);
        return Err(UpstreamError::Roots(why));
    }
    Ok(ROOTS.get_or_init(|| Arc::new(roots)).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_does_not_lead_inside_unless_an_entry_covers_the_address() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let rules = |texts: &[&str]| texts.iter().map(|text| Rule::parse(text).expect("a rule")).collect::<Vec<_>>();
        assert!(may_reach(&[], at("192.0.2.1:443")));
        for inside in ["127.0.0.1:443", "10.1.2.3:443", "169.254.169.254:443", "[fd00::1]:443", "0.0.0.0:443"] {
            assert!(!may_reach(&[], at(inside)), "{inside}");
            assert!(!may_reach(&rules(&["0.0.0.0/0:*", "[::/0]:*", "localhost:*"]), at(inside)), "{inside}");
        }
        assert!(may_reach(&rules(&["10.0.0.0/8:443"]), at("10.1.2.3:443")));
        assert!(!may_reach(&rules(&["10.0.0.0/8:8443"]), at("10.1.2.3:443")));
    }
}
