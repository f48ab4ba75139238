//! Which number of which instance is which socket.

use crate::network::Network;
use crate::queue::Queue;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use monohull_abi::network::{Readiness, SOCKETS_MAX, SocketHandle};
use monohull_module::FutexMutex;

/// What a socket is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// It listens.
    Listener {
        /// The most connections that wait in it.
        backlog: u32,
    },
    /// It is one end of a connection.
    Stream,
    /// It sends and receives datagrams.
    Datagram,
}

/// A socket, which may have several numbers. It closes when the last of them is released and no call uses it.
pub(crate) struct Socket {
    pub(crate) network: Arc<dyn Network>,
    pub(crate) handle: SocketHandle,
    pub(crate) kind: Kind,
    /// Calls that would wait answer `Again`.
    pub(crate) nonblocking: AtomicBool,
    /// The longest that reads and writes wait, in ns; 0 is for ever.
    pub(crate) read_timeout: AtomicU64,
    /// See `read_timeout`.
    pub(crate) write_timeout: AtomicU64,
    /// The queues that watch it for edges.
    edges: FutexMutex<Vec<Weak<Queue>>>,
    has_edges: AtomicBool,
}

impl Socket {
    pub(crate) fn new(network: &Arc<dyn Network>, handle: SocketHandle, kind: Kind) -> Arc<Socket> {
        Arc::new(Socket {
            network: network.clone(),
            handle,
            kind,
            nonblocking: AtomicBool::new(false),
            read_timeout: AtomicU64::new(0),
            write_timeout: AtomicU64::new(0),
            edges: FutexMutex::default(),
            has_edges: AtomicBool::new(false),
        })
    }

    /// From here on a queue is notified of [`note_lack`](Socket::note_lack).
    pub(crate) fn notify_also(&self, queue: Weak<Queue>) {
        let mut edges = self.edges.lock();
        edges.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&queue));
        edges.push(queue);
        self.has_edges.store(true, Ordering::Release);
    }

    /// A call has read or accepted something, or had less to do than it could.
    pub(crate) fn note_lack(&self, readiness: Readiness) {
        if !self.has_edges.load(Ordering::Acquire) {
            return;
        }
        let queues: Vec<_> = self.edges.lock().iter().filter_map(Weak::upgrade).collect();
        for queue in queues {
            queue.lacked(self, readiness);
        }
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.network.close(self.handle);
    }
}

/// The sockets of all instances.
#[derive(Default)]
pub(crate) struct Tables(BTreeMap<u32, Table>);

/// The sockets of one instance, by number.
#[derive(Default)]
pub(crate) struct Table {
    sockets: Vec<Option<Arc<Socket>>>,
    /// Numbers that are not in use.
    free: Vec<u32>,
}

impl Tables {
    /// The socket with this number.
    pub(crate) fn find(&self, instance: u32, number: u64) -> Option<Arc<Socket>> {
        self.0.get(&instance)?.sockets.get(usize::try_from(number).ok()?)?.clone()
    }

    /// Whether an instance may have one more.
    pub(crate) fn has_room(&self, instance: u32) -> bool {
        self.0.get(&instance).is_none_or(|table| table.sockets.len() - table.free.len() < SOCKETS_MAX)
    }

    /// A number for a socket; gives it back if the instance has too many.
    pub(crate) fn insert(&mut self, instance: u32, socket: Arc<Socket>) -> Result<u64, Arc<Socket>> {
        if !self.has_room(instance) {
            return Err(socket);
        }
        let table = self.0.entry(instance).or_default();
        let number = table.free.pop().unwrap_or_else(|| {
            table.sockets.push(None);
            table.sockets.len() as u32 - 1
        });
        table.sockets[number as usize] = Some(socket);
        Ok(number.into())
    }

    /// Takes a number out of use. The socket is the caller's to drop, without the lock.
    pub(crate) fn take(&mut self, instance: u32, number: u64) -> Option<Arc<Socket>> {
        let table = self.0.get_mut(&instance)?;
        let socket = table.sockets.get_mut(usize::try_from(number).ok()?)?.take()?;
        table.free.push(number as u32);
        Some(socket)
    }

    /// The sockets of each instance.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Table)> {
        self.0.iter().map(|(instance, table)| (*instance, table))
    }

    /// Gives an instance that has none its sockets.
    pub(crate) fn set(&mut self, instance: u32, table: Table) {
        self.0.insert(instance, table);
    }

    /// Takes some sockets of an instance that has ended out of use, those with the highest numbers. None once none is left.
    pub(crate) fn take_some(&mut self, instance: u32, most: usize) -> Vec<Option<Arc<Socket>>> {
        let Some(table) = self.0.get_mut(&instance) else { return Vec::new() };
        let rest = table.sockets.len().saturating_sub(most);
        let some = table.sockets.split_off(rest);
        if rest == 0 {
            self.0.remove(&instance);
        }
        some
    }
}

impl Table {
    /// A table with these sockets, by number, and the numbers that are not in use.
    pub(crate) fn of(sockets: Vec<Option<Arc<Socket>>>, free: Vec<u32>) -> Table {
        Table { sockets, free }
    }

    /// The sockets, by number.
    pub(crate) fn sockets(&self) -> &[Option<Arc<Socket>>] {
        &self.sockets
    }

    /// A number of a socket.
    pub(crate) fn number_of(&self, socket: &Arc<Socket>) -> Option<usize> {
        self.sockets.iter().position(|other| other.as_ref().is_some_and(|other| Arc::ptr_eq(other, socket)))
    }

    /// Numbers that are not in use.
    pub(crate) fn free(&self) -> &[u32] {
        &self.free
    }
}
