//! The sockets that connections come from: one that this process opens, or one that a service manager has opened and passes.

use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use nix::sys::stat::{Mode, umask};
use tokio::net::{TcpListener, UnixListener};

use crate::http::connection::Stream;
use crate::serve_error::ServeError;
use crate::settings::Listen;
use monohull_report::escape::shown;

/// Where connections come from.
pub(crate) enum Listener {
    Tcp(TcpListener),
    /// The file is that of a socket which this process has opened.
    Unix(UnixListener, Option<SocketFile>),
}

/// The file of a Unix socket, which is removed in the end, unless there is another by then.
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The sockets that a service manager has passed to this process. To be taken before there are threads: the variables that name them are
/// removed from the environment.
pub(crate) fn passed(listen: &Listen) -> ListenFd {
    match listen {
        Listen::Passed => ListenFd::from_env(),
        Listen::Tcp(_) | Listen::Unix(_) => ListenFd::empty(),
    }
}

impl Listener {
    pub(crate) async fn open(listen: &Listen, passed: ListenFd, tls: bool) -> Result<Listener, ServeError> {
        match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await;
                let failed = |source| ServeError::Listen { address: named(tls, &address.to_string()), source };
                Ok(Listener::Tcp(listener.map_err(failed)?))
            }
            Listen::Unix(path) => {
                clear(path).await?;
                let failed = |source| ServeError::Listen { address: format!("unix:{}", shown(&path)), source };
                // Only the owner may connect, from the first moment on, as every client is served. No other thread creates files
                // during the change of the umask.
                let usual = umask(Mode::from_bits_truncate(0o177));
                let listener = UnixListener::bind(path);
                umask(usual);
                let listener = listener.map_err(failed)?;
                let inode = std::fs::symlink_metadata(path).map_err(failed)?.ino();
                Ok(Listener::Unix(listener, Some(SocketFile { path: path.clone(), inode })))
            }
            Listen::Passed => match Listener::of(passed)? {
                Listener::Unix(..) if tls => Err(ServeError::UnixTls),
                listener => Ok(listener),
            },
        }
    }

    /// The one socket that was passed.
    fn of(mut passed: ListenFd) -> Result<Listener, ServeError> {
        match passed.len() {
            0 => {
                let message =
                    "no socket was passed to this process (LISTEN_FDS, LISTEN_PID); a .socket unit passes one";
                return Err(ServeError::Passed(message.to_owned()));
            }
            1 => {}
            several => {
                return Err(ServeError::Passed(format!("{several} sockets were passed, and one is served")));
            }
        }
        if let Ok(Some(listener)) = passed.take_tcp_listener(0) {
            listener.set_nonblocking(true)?;
            return Ok(Listener::Tcp(TcpListener::from_std(listener)?));
        }
        match passed.take_unix_listener(0) {
            Ok(Some(listener)) => {
                listener.set_nonblocking(true)?;
                Ok(Listener::Unix(UnixListener::from_std(listener)?, None))
            }
            Ok(None) => Err(ServeError::Passed("the socket was taken already".to_owned())),
            Err(_) => Err(ServeError::Passed("what was passed is no TCP socket and no Unix stream socket".to_owned())),
        }
    }

    pub(crate) async fn accept(&self) -> std::io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // An answer is written at once; waiting for more only delays it.
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener, _) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }

    /// Its address for clients.
    pub(crate) fn address(&self, tls: bool) -> String {
        match self {
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => named(tls, &address.to_string()),
                Err(error) => named(tls, &format!("? ({error})")),
            },
            Listener::Unix(_, Some(file)) => format!("unix:{}", shown(&file.path)),
            Listener::Unix(listener, None) => match listener.local_addr() {
                Ok(address) => match address.as_pathname() {
                    Some(path) => format!("unix:{}", shown(&path)),
                    None => "unix: a socket without a path".to_owned(),
                },
                Err(error) => format!("unix: ? ({error})"),
            },
        }
    }

    /// Whether others than users of this machine can reach it.
    pub(crate) fn is_open_to_others(&self) -> bool {
        let outside = |address: SocketAddr| !address.ip().is_loopback();
        matches!(self, Listener::Tcp(listener) if listener.local_addr().is_ok_and(outside))
    }
}

fn named(tls: bool, address: &str) -> String {
    format!("{}://{address}", if tls { "https" } else { "http" })
}

/// Takes away the socket of a server that was killed; one that answers is left alone, and so is any other file.
async fn clear(path: &Path) -> Result<(), ServeError> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    match tokio::net::UnixStream::connect(path).await {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(std::fs::remove_file(path)?),
        // It answers, or has no time to.
        _ => Err(ServeError::Taken(path.to_owned())),
    }
}
