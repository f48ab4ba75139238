//! The helper: the only program here that needs `CAP_NET_ADMIN`. It makes devices and leases them.
//!
//! ```text
//!   connect, Lease ──▶ first free place ─▶ TAP device named after it ─▶ addresses, up ──▶ device + addresses
//!   … the connection stays open as long as the workflow …
//!   closed         ──▶ forgotten; the kernel has taken the device down with its last descriptor, and its way out goes
//! ```
//!
//! The socket's permissions decide which users may connect. A client gets a device with addresses from the pool, up to the
//! allowed number of devices.

use super::device;
use super::lease::{Addresses, Granted, Lease, LeaseRequest};
use super::pool::Pool;
use super::way_out::{Outside, WayOut};
use monohull_ipc::Responder;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, setsockopt, socket, sockopt,
};
use nix::sys::stat::Mode;
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::{Gid, chown};
use rustix::io::Errno as Accept;
use rustix::net::{SocketFlags, accept_with};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long a client may take to send its request.
const PATIENCE_SECONDS: i64 = 5;
/// The number of connections beyond the limit that get an error as their answer; further ones are closed.
const SPARE: u32 = 64;
/// How long the helper waits when it has too many files open.
const PAUSE: Duration = Duration::from_millis(100);

/// The helper's socket.
pub struct Helper {
    socket: OwnedFd,
    shared: Arc<Shared>,
}

struct Shared {
    pool: Pool,
    outside: Option<Outside>,
    most: u32,
    /// Connections that are open.
    open: AtomicU32,
    /// Where the search for a free place begins: the longest unused come first.
    next: AtomicU32,
}

impl Helper {
    /// Listens at `path` for its owner, and for the members of a group if one is given. A socket without a
    /// listener is replaced.
    pub fn new(path: &Path, group: Option<Gid>, pool: Pool, outside: Option<Outside>, most: u32) -> io::Result<Helper> {
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
        let address = UnixAddr::new(path)?;
        if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
            && connect(socket.as_raw_fd(), &address) == Err(Errno::ECONNREFUSED)
        {
            std::fs::remove_file(path)?;
        }
        // Only the owner may connect until the group has been set.
        let before = nix::sys::stat::umask(Mode::from_bits_truncate(0o177));
        let bound = bind(socket.as_raw_fd(), &address);
        nix::sys::stat::umask(before);
        bound?;
        if let Some(group) = group {
            chown(path, None, Some(group))?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
        }
        listen(&socket, Backlog::MAXCONN)?;
        let shared = Shared { pool, outside, most, open: AtomicU32::new(0), next: AtomicU32::new(0) };
        Ok(Helper { socket, shared: Arc::new(shared) })
    }

    /// Serves for ever, a thread for each lease.
    pub fn serve(&self) -> io::Result<()> {
        loop {
            let connection = match accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(connection) => connection,
                Err(Accept::INTR | Accept::CONNABORTED) => continue,
                Err(errno @ (Accept::MFILE | Accept::NFILE | Accept::NOBUFS | Accept::NOMEM)) => {
                    // Until resources are released.
                    tracing::warn!("a workflow has to wait for its device: {errno}");
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(errno) => return Err(errno.into()),
            };
            let shared = self.shared.clone();
            let before = shared.open.fetch_add(1, Ordering::Relaxed);
            if before >= shared.most.saturating_add(SPARE) {
                shared.open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let lease = move || {
                shared.lease(connection, before < shared.most);
                shared.open.fetch_sub(1, Ordering::Relaxed);
            };
            if let Err(error) = std::thread::Builder::new().name("lease".to_owned()).spawn(lease) {
                // The client's connection ends; existing leases continue.
                self.shared.open.fetch_sub(1, Ordering::Relaxed);
                tracing::warn!("a workflow gets no device: {error}");
            }
        }
    }
}

impl Shared {
    /// One lease, until it ends; beyond the limit, only an error as the answer.
    fn lease(&self, connection: OwnedFd, room_left: bool) {
        let mut connection = Responder::<Lease>::new(connection);
        let patience =
            |connection: &Responder<Lease>, time| setsockopt(connection, sockopt::ReceiveTimeout, &time).is_ok();
        if !patience(&connection, TimeVal::seconds(PATIENCE_SECONDS)) {
            return;
        }
        let Ok(Some(LeaseRequest::Lease { outside })) = connection.receive() else { return };
        if !patience(&connection, TimeVal::zero()) {
            return;
        }
        if !room_left {
            // The client may have disconnected.
            let _ = connection.reply(&Granted::Refused("as many as are allowed are in use".to_owned()), None);
            return;
        }
        let refused = |why: String| connection.reply(&Granted::Refused(why), None);
        if outside && self.outside.is_none() {
            let _ = refused("it opens no way out; `monohull network --outside DEVICE` does".to_owned());
            return;
        }
        // It stays open until this returns.
        let mut way = None;
        let said = match self.device(outside) {
            Ok(Some((device, addresses, opened))) => {
                way = opened;
                connection.reply(&Granted::Device(addresses), Some(device.as_fd()))
            }
            Ok(None) => refused("all addresses of the pool are in use".to_owned()),
            Err(error) => {
                tracing::error!("a device cannot be made: {error}");
                refused(error.to_string())
            }
        };
        if said.is_ok() {
            // Nothing more is said; this waits for the end.
            while let Ok(Some(_)) = connection.receive() {}
        }
        drop(way);
    }

    /// A new device at the first place that is free, with a way out if there is to be one.
    fn device(&self, outside: bool) -> io::Result<Option<(OwnedFd, Addresses, Option<WayOut<'_>>)>> {
        let places = self.pool.places();
        for _ in 0..places {
            let place = self.next.fetch_add(1, Ordering::Relaxed) % places;
            if let Some(device) = device::make(place)? {
                let addresses = self.pool.addresses(place);
                device::configure(place, &addresses)?;
                let way = match (&self.outside, &addresses.v4) {
                    (Some(way), Some(link)) if outside => Some(way.open(&device::name_of(place), link.own)?),
                    _ => None,
                };
                return Ok(Some((device, addresses, way)));
            }
        }
        Ok(None)
    }
}
