//! Sockets and queues as records.
//!
//! A socket that listens and one for datagrams are addresses: they are made again there, if the workflow's network list of that time
//! permits it. What waits in them, connections that no function has accepted and datagrams that none has read, is lost
//! as a network loses it. A connection has a peer that knows its state, so it refuses, with its number and the peer's address.
//!
//! A queue is what has been posted to it and not reported. One that watches a socket is a place where a network is waited for, and refuses
//! with the socket's number and address. Threads that wait in a queue find it by its number when their handlers run again.

use crate::Sockets;
use crate::calls::takes;
use crate::network::Network;
use crate::queue::Queue;
use crate::table::{Kind, Socket, Table, Tables};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::sync::atomic::Ordering;
use monohull_abi::Errno;
use monohull_abi::network::{
    BACKLOG_MAX, QUEUE_POSTS_MAX, QUEUES_MAX, SOCKETS_MAX, SocketAddress, SocketEnd, SocketOption,
};
use monohull_module::record::{RecordsRef, Refused, fields, rise};
use serde::{Deserialize, Serialize};

/// Options that the network keeps.
const OPTIONS: [SocketOption; 2] = [SocketOption::Ttl, SocketOption::Broadcast];

/// The sockets of one instance.
#[derive(Serialize, Deserialize)]
struct TableRecord {
    instance: u32,
    sockets: Vec<SocketRecord>,
    /// The socket of each number, by index.
    numbers: Vec<Option<u32>>,
    /// Numbers that are not in use, the next to be used last.
    free: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct SocketRecord {
    kind: KindRecord,
    at: SocketAddr,
    nonblocking: bool,
    read_timeout: u64,
    write_timeout: u64,
    /// The values of [`OPTIONS`] that the socket has.
    options: [Option<u64>; OPTIONS.len()],
}

#[derive(Serialize, Deserialize)]
enum KindRecord {
    Listener { backlog: u32 },
    Datagram { peer: Option<SocketAddr> },
}

/// A queue, by its instance's number for it.
#[derive(Serialize, Deserialize)]
struct QueueRecord {
    instance: u32,
    number: u64,
    /// What has been posted and not reported, upwards.
    posted: Vec<u64>,
}

impl Sockets {
    pub(crate) fn save_sockets(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        let tables = self.tables.lock();
        let described = tables.all().map(|(instance, table)| describe_table(instance, table));
        let described = described.collect::<Result<Vec<_>, _>>();
        let queues = self.queues.lock();
        // What it watches says more than that there is a connection.
        let queues = queues.all().map(|(instance, number, queue)| describe_queue(&tables, instance, number, queue));
        let queues = queues.collect::<Result<Vec<_>, _>>()?;
        records.write(&(described?, queues))
    }

    pub(crate) fn restore_sockets(&self, version: u32, record: &[u8], records: RecordsRef<'_>) -> Result<(), Refused> {
        let (tables, queues): (Vec<TableRecord>, Vec<QueueRecord>) = match version {
            1 => (fields(record)?, Vec::new()),
            _ => fields(record)?,
        };
        rise(tables.iter().map(|table| table.instance), "the instances")?;
        let live = records.instances();
        self.restore_queues(queues, &live)?;
        for table in tables {
            let instance = table.instance;
            if !live.contains(&instance) {
                return Err(Refused::new(format_args!("there is no instance {instance}")));
            }
            let Some(network) = &self.network else {
                return Err(Refused::of(instance, format_args!("it has sockets, and the workflow has no network")));
            };
            let restored = restore_table(network, table)?;
            self.tables.lock().set(instance, restored);
        }
        Ok(())
    }

    fn restore_queues(&self, queues: Vec<QueueRecord>, live: &BTreeSet<u32>) -> Result<(), Refused> {
        rise(queues.iter().map(|queue| (queue.instance, queue.number)), "the queues")?;
        let mut all = self.queues.lock();
        for QueueRecord { instance, number, posted } in queues {
            if !live.contains(&instance) {
                return Err(Refused::new(format_args!("there is no instance {instance}")));
            }
            if number >= QUEUES_MAX as u64 || posted.len() > QUEUE_POSTS_MAX {
                return Err(Refused::of(instance, format_args!("its record is damaged: queue {number}")));
            }
            rise(posted.iter(), "the posts of a queue")?;
            let queue = all.add(self.host, self.network.as_ref(), (instance, number));
            for data in posted {
                queue.post(data);
            }
        }
        Ok(())
    }
}

fn describe_queue(tables: &Tables, instance: u32, number: u64, queue: &Queue) -> Result<QueueRecord, Refused> {
    let Some(watched) = queue.a_watched_socket() else {
        return Ok(QueueRecord { instance, number, posted: queue.posts() });
    };
    let known = tables.all().find(|(other, _)| *other == instance).and_then(|(_, table)| table.number_of(&watched));
    let known = known.map_or_else(|| "a socket".to_owned(), |number| format!("socket {number}"));
    let what = |what: &str, end| match address(&watched, end) {
        Some(at) => format!("{what} {at}"),
        None => "is not connected".to_owned(),
    };
    let what = match watched.kind {
        Kind::Listener { .. } => what("listens at", SocketEnd::Local),
        Kind::Stream => what("is connected to", SocketEnd::Peer),
        Kind::Datagram => what("receives at", SocketEnd::Local),
    };
    Err(Refused::of(instance, format_args!("its queue {number} watches {known}, which {what}")))
}

fn address(socket: &Socket, end: SocketEnd) -> Option<SocketAddr> {
    let name = socket.network.name(socket.handle, end).ok();
    name.as_ref().and_then(SocketAddress::decode)
}

fn describe_table(instance: u32, table: &Table) -> Result<TableRecord, Refused> {
    let mut known: Vec<&Arc<Socket>> = Vec::new();
    let mut sockets = Vec::new();
    let mut numbers = Vec::new();
    for (number, socket) in (0..).zip(table.sockets()) {
        let Some(socket) = socket else {
            numbers.push(None);
            continue;
        };
        let index = known.iter().position(|other| Arc::ptr_eq(other, socket)).unwrap_or(known.len());
        if index == known.len() {
            known.push(socket);
            sockets.push(describe(instance, number, socket)?);
        }
        numbers.push(Some(index as u32));
    }
    Ok(TableRecord { instance, sockets, numbers, free: table.free().to_vec() })
}

fn describe(instance: u32, number: u32, socket: &Socket) -> Result<SocketRecord, Refused> {
    let peer = address(socket, SocketEnd::Peer);
    let kind = match (socket.kind, peer) {
        (Kind::Listener { backlog }, _) => KindRecord::Listener { backlog },
        (Kind::Datagram, peer) => KindRecord::Datagram { peer },
        (Kind::Stream, Some(peer)) => {
            return Err(Refused::of(instance, format_args!("its socket {number} is connected to {peer}")));
        }
        (Kind::Stream, None) => {
            return Err(Refused::of(instance, format_args!("its socket {number} is a connection that begins or ends")));
        }
    };
    let at = address(socket, SocketEnd::Local);
    Ok(SocketRecord {
        kind,
        at: at.ok_or_else(|| Refused::of(instance, format_args!("its socket {number} has no address")))?,
        nonblocking: socket.is_nonblocking(),
        read_timeout: socket.read_timeout.load(Ordering::Relaxed),
        write_timeout: socket.write_timeout.load(Ordering::Relaxed),
        options: OPTIONS.map(|option| socket.network.get(socket.handle, option).ok()),
    })
}

fn restore_table(network: &Arc<dyn Network>, record: TableRecord) -> Result<Table, Refused> {
    let TableRecord { instance, sockets, numbers, free } = record;
    let damaged = |what: &str| Refused::of(instance, format_args!("its record is damaged: {what}"));
    let mut is_free = vec![false; numbers.len()];
    for number in &free {
        let once = is_free.get_mut(*number as usize).filter(|is_free| !**is_free);
        *once.ok_or_else(|| damaged("the numbers that are free"))? = true;
    }
    if numbers.len() - free.len() > SOCKETS_MAX || numbers.iter().zip(&is_free).any(|(at, free)| at.is_none() != *free)
    {
        return Err(damaged("the numbers of its sockets"));
    }
    let mut leads = vec![false; sockets.len()];
    for index in numbers.iter().flatten() {
        *leads.get_mut(*index as usize).ok_or_else(|| damaged("the numbers of its sockets"))? = true;
    }
    if leads.contains(&false) {
        return Err(damaged("a socket without a number"));
    }
    let mut made = Vec::new();
    for socket in sockets {
        made.push(restore(network, instance, socket)?);
    }
    let numbers = numbers.into_iter().map(|index| index.map(|index| made[index as usize].clone()));
    Ok(Table::of(numbers.collect(), free))
}

fn restore(network: &Arc<dyn Network>, instance: u32, record: SocketRecord) -> Result<Arc<Socket>, Refused> {
    let at = record.at;
    let refuse = |errno: Errno| match errno {
        Errno::NotPermitted => Refused::of(instance, format_args!("the workflow's network list has no {at}")),
        errno => Refused::of(instance, format_args!("its socket at {at}: {errno}")),
    };
    let address = SocketAddress::from(at);
    let (handle, kind) = match record.kind {
        KindRecord::Listener { backlog } => {
            let backlog = u64::from(backlog).clamp(1, BACKLOG_MAX) as u32;
            (network.listen(instance, &address, backlog).map_err(refuse)?, Kind::Listener { backlog })
        }
        KindRecord::Datagram { .. } => (network.bind(instance, &address).map_err(refuse)?, Kind::Datagram),
    };
    // It closes if what follows fails.
    let socket = Socket::new(network, handle, kind);
    if let KindRecord::Datagram { peer: Some(peer) } = record.kind {
        network.associate(handle, &peer.into()).map_err(refuse)?;
    }
    for (option, value) in OPTIONS.into_iter().zip(record.options) {
        if let Some(value) = value {
            if !takes(option, value) {
                let what = format_args!("its record is damaged: {option:?} of its socket at {at} is {value}");
                return Err(Refused::of(instance, what));
            }
            network.set(handle, option, value).map_err(refuse)?;
        }
    }
    socket.nonblocking.store(record.nonblocking, Ordering::Relaxed);
    socket.read_timeout.store(record.read_timeout, Ordering::Relaxed);
    socket.write_timeout.store(record.write_timeout, Ordering::Relaxed);
    Ok(socket)
}
