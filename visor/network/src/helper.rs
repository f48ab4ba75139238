//! The helper: the one program here that needs `CAP_NET_ADMIN`. It makes devices and gives them away.
//!
//! ```text
//!   connect, Lease ──▶ first free place ─▶ TAP device named after it ─▶ addresses, up ──▶ device + addresses
//!   … the connection stays open as long as the workflow …
//!   closed         ──▶ forgotten; the kernel has taken the device down with its last descriptor, and its way out goes
//! ```
//!
//! Who may connect is a matter of the socket's permissions. What a client can have is a device with addresses from the pool,
//! and no more of them than were allowed.

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

/// How long a client may take to say what it wants.
const PATIENCE_SECONDS: i64 = 5;
/// So many connections beyond those that are allowed are told so; more are closed.
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
    /// Listens at `path` for its owner, and for the members of a group if one is given. A socket that nobody listens at any
    /// more is replaced.
    pub fn new(path: &Path, group: Option<Gid>, pool: Pool, outside: Option<Outside>, most: u32) -> io::Result<Helper> {
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
        let address = UnixAddr::new(path)?;
        if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
            && connect(socket.as_raw_fd(), &address) == Err(Errno::ECONNREFUSED)
        {
            std::fs::remove_file(path)?;
        }
        // Nobody but the owner until the group has been set.
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
                    // Until somebody gives something back.
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
                // Whoever asked sees the connection end; those who have devices keep them.
                self.shared.open.fetch_sub(1, Ordering::Relaxed);
                tracing::warn!("a workflow gets no device: {error}");
            }
        }
    }
}

impl Shared {
    /// One lease, until it ends; without room for it, only the words that say so.
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
            // Whoever does not wait for the answer has none.
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
