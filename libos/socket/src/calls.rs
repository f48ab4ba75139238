//! The hostcalls: arguments in, answers and explanations out.
//!
//! ```text
//!   attempt ─ the socket answers ──────────────▶ done
//!      ▲  └── Again ─────────▶ wait ─▶ park ─┐
//!      └──── woken: the handler runs again ──┘      until the deadline of the first attempt, kept in the scratch area
//! ```

use crate::Sockets;
use crate::network::{DEADLINE, Network};
use crate::table::{Kind, Socket};
use alloc::sync::Arc;
use core::mem::MaybeUninit;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::module::{Call, NEVER, Wake};
use monohull_abi::network::{
    BACKLOG_MAX, CONNECT_LATER, DONT_WAIT, HOST_NAME_MAX, LOOKUP_MAX, PEEK, Readiness, SOCKETS_MAX, SocketAddress,
    SocketEnd, SocketOption, SocketShutdown,
};
use monohull_abi::user::{AccessError, CheckedSlice, UserSlice, read_one, write_one};
use monohull_abi::{Errno, Outcome};

/// Where `TCP_CONNECT` keeps the number of its socket, plus one.
const CONNECTING: usize = 1;

/// Checks before the network is called.
const NAME_RULE: &str = "a name of a host is letters, digits, `-` and `_`, in parts of at most 63 bytes between dots";

/// Whether an option can be set to this value. The networks rely on it: smoltcp panics at a time to live of 0.
pub(crate) fn takes(option: SocketOption, value: u64) -> bool {
    match option {
        SocketOption::NonBlocking | SocketOption::NoDelay | SocketOption::Broadcast => value <= 1,
        SocketOption::Ttl => (1..=255).contains(&value),
        SocketOption::ReadTimeout | SocketOption::WriteTimeout | SocketOption::KeepAlive => true,
        SocketOption::Error => false,
    }
}

impl Sockets {
    pub(crate) fn listen(&self, call: &mut Call) -> Result<u64, Errno> {
        let [address, backlog, ..] = call.args;
        let network = self.network(call)?;
        let at = self.address(call, address)?;
        self.need_room(call)?;
        let backlog = backlog.clamp(1, BACKLOG_MAX) as u32;
        let socket = network.listen(call.instance, &at, backlog);
        let socket = socket.map_err(|errno| self.refused(call, errno, "listen on", &at))?;
        self.insert(call, network, socket, Kind::Listener { backlog })
    }

    pub(crate) fn connect(&self, call: &mut Call) -> Outcome {
        self.try_connect(call).unwrap_or_else(Outcome::error)
    }

    fn try_connect(&self, call: &mut Call) -> Result<Outcome, Errno> {
        let [address, timeout, flags, ..] = call.args;
        let network = self.network(call)?;
        let to = self.address(call, address)?;
        if flags & !CONNECT_LATER != 0 {
            return Err(self.explain(call, Errno::Invalid, "connecting knows no such flag"));
        }
        if call.wake == Wake::First {
            self.need_room(call)?;
            let socket =
                network.connect(call.instance, &to).map_err(|errno| self.refused(call, errno, "connect to", &to))?;
            call.scratch[CONNECTING] = self.insert(call, network, socket, Kind::Stream)? + 1;
            call.scratch[DEADLINE] = self.host.now().saturating_add(timeout);
        }
        if flags & CONNECT_LATER != 0 {
            let number = call.scratch[CONNECTING] - 1;
            self.find(call, number)?.nonblocking.store(true, Ordering::Relaxed);
            return Ok(Outcome::ready(number as i64));
        }
        let number = call.scratch[CONNECTING] - 1;
        let socket = self.find(call, number)?;
        let connected = match network.connected(socket.handle) {
            Err(Errno::Again) if call.wake == Wake::TimedOut => Err(Errno::TimedOut),
            Err(Errno::Again) if call.wake == Wake::Deadlock => Err(Errno::Deadlock),
            Err(Errno::Again) => {
                let deadline = call.scratch[DEADLINE];
                network.wait(call, socket.handle, Readiness::Write, deadline);
                return Ok(Outcome::park());
            }
            other => other,
        };
        match connected {
            Ok(()) => Ok(Outcome::ready(number as i64)),
            Err(errno) => {
                let taken = self.tables.lock().take(call.instance, number);
                drop(taken);
                Err(self.refused(call, errno, "connect to", &to))
            }
        }
    }

    pub(crate) fn accept(&self, call: &mut Call) -> Outcome {
        self.attempt(call, Readiness::Read, 0, |this, call, socket| {
            let out = call.args[1];
            // Before anything changes hands: is there room for the answer, of both kinds?
            this.put(call, out, SocketAddress::default())?;
            this.need_room(call)?;
            let (accepted, peer) = socket.network.accept(call.instance, socket.handle)?;
            let number = this.insert(call, &socket.network, accepted, Kind::Stream)?;
            this.put(call, out, peer)?;
            Ok(number)
        })
    }

    pub(crate) fn bind(&self, call: &mut Call) -> Result<u64, Errno> {
        let network = self.network(call)?;
        let at = self.address(call, call.args[0])?;
        self.need_room(call)?;
        let socket = network.bind(call.instance, &at).map_err(|errno| self.refused(call, errno, "bind to", &at))?;
        self.insert(call, network, socket, Kind::Datagram)
    }

    pub(crate) fn associate(&self, call: &mut Call) -> Result<u64, Errno> {
        let socket = self.find(call, call.args[0])?;
        let to = self.address(call, call.args[1])?;
        if socket.kind != Kind::Datagram {
            return Err(self.explain(call, Errno::NotSupported, "a TCP socket is connected when it is made"));
        }
        let associated = socket.network.associate(socket.handle, &to);
        associated.map_err(|errno| self.refused(call, errno, "send to", &to)).map(|()| 0)
    }

    pub(crate) fn read(&self, call: &mut Call) -> Outcome {
        let flags = call.args[3];
        self.attempt(call, Readiness::Read, flags, |this, call, socket| {
            let [_, buffer, len, ..] = call.args;
            let buffer = this.range(call, buffer, len, "the room for what is read")?;
            let peek = this.peeks(call, flags)?;
            match socket.kind {
                Kind::Stream | Kind::Listener { .. } if buffer.is_empty() => Ok(0),
                Kind::Stream | Kind::Listener { .. } => socket.network.receive(socket.handle, &buffer, peek, None),
                // The network checks the sender even if the caller does not need the address.
                Kind::Datagram => {
                    socket.network.receive(socket.handle, &buffer, peek, Some(&mut SocketAddress::default()))
                }
            }
        })
    }

    pub(crate) fn read_from(&self, call: &mut Call) -> Outcome {
        let flags = call.args[3];
        self.attempt(call, Readiness::Read, flags, |this, call, socket| {
            let [_, buffer, len, _, out, _] = call.args;
            let buffer = this.range(call, buffer, len, "the room for what is read")?;
            let peek = this.peeks(call, flags)?;
            this.need_datagrams(call, socket)?;
            this.put(call, out, SocketAddress::default())?;
            let mut from = SocketAddress::default();
            let bytes = socket.network.receive(socket.handle, &buffer, peek, Some(&mut from))?;
            this.put(call, out, from)?;
            Ok(bytes)
        })
    }

    pub(crate) fn write(&self, call: &mut Call) -> Outcome {
        let flags = call.args[3];
        self.attempt(call, Readiness::Write, flags, |this, call, socket| {
            let [_, bytes, len, ..] = call.args;
            let bytes = this.range(call, bytes, len, "the bytes to write")?;
            this.need_flags(call, flags, DONT_WAIT, "writing knows no such flag")?;
            socket.network.send(socket.handle, &bytes, None)
        })
    }

    pub(crate) fn write_to(&self, call: &mut Call) -> Outcome {
        let flags = call.args[4];
        self.attempt(call, Readiness::Write, flags, |this, call, socket| {
            let [_, bytes, len, to, ..] = call.args;
            let bytes = this.range(call, bytes, len, "the bytes to write")?;
            this.need_flags(call, flags, DONT_WAIT, "writing knows no such flag")?;
            let to = this.address(call, to)?;
            this.need_datagrams(call, socket)?;
            let sent = socket.network.send(socket.handle, &bytes, Some(&to));
            sent.map_err(|errno| match errno {
                Errno::Again => errno,
                _ => this.refused(call, errno, "send to", &to),
            })
        })
    }

    pub(crate) fn shutdown(&self, call: &mut Call) -> Result<u64, Errno> {
        let socket = self.find(call, call.args[0])?;
        let how = SocketShutdown::from_raw(call.args[1]).ok_or(Errno::Invalid);
        let how = how.map_err(|errno| self.explain(call, errno, "that is no direction to end"))?;
        socket.network.shutdown(socket.handle, how).map(|()| 0)
    }

    pub(crate) fn close(&self, call: &mut Call) -> Result<u64, Errno> {
        let taken = self.tables.lock().take(call.instance, call.args[0]);
        let socket = taken.ok_or(Errno::BadDescriptor).map_err(|_| self.no_socket(call, call.args[0]))?;
        // Closing wakes others: the lock is free again by now.
        drop(socket);
        Ok(0)
    }

    pub(crate) fn duplicate(&self, call: &mut Call) -> Result<u64, Errno> {
        let socket = self.find(call, call.args[0])?;
        let inserted = self.tables.lock().insert(call.instance, socket);
        inserted.map_err(|_| self.too_many(call))
    }

    pub(crate) fn get(&self, call: &mut Call) -> Result<u64, Errno> {
        let socket = self.find(call, call.args[0])?;
        match self.option(call)? {
            SocketOption::NonBlocking => Ok(socket.is_nonblocking().into()),
            SocketOption::ReadTimeout => Ok(socket.read_timeout.load(Ordering::Relaxed)),
            SocketOption::WriteTimeout => Ok(socket.write_timeout.load(Ordering::Relaxed)),
            option => socket.network.get(socket.handle, option),
        }
    }

    pub(crate) fn set(&self, call: &mut Call) -> Result<u64, Errno> {
        let socket = self.find(call, call.args[0])?;
        let (option, value) = (self.option(call)?, call.args[2]);
        if !takes(option, value) {
            return Err(self.explain(call, Errno::Invalid, "that is no value for this option"));
        }
        match option {
            SocketOption::NonBlocking => socket.nonblocking.store(value == 1, Ordering::Relaxed),
            SocketOption::ReadTimeout => socket.read_timeout.store(value, Ordering::Relaxed),
            SocketOption::WriteTimeout => socket.write_timeout.store(value, Ordering::Relaxed),
            option => socket.network.set(socket.handle, option, value)?,
        }
        Ok(0)
    }

    pub(crate) fn name(&self, call: &mut Call) -> Result<u64, Errno> {
        let [number, end, out, ..] = call.args;
        let socket = self.find(call, number)?;
        let end = SocketEnd::from_raw(end).ok_or(Errno::Invalid);
        let end = end.map_err(|errno| self.explain(call, errno, "a socket has two ends: 0 its own, 1 the peer's"))?;
        let name = socket.network.name(socket.handle, end)?;
        write_one(self.host.raw(), call, out, name).map_err(|refusal| self.bad_room(call, refusal))?;
        Ok(0)
    }

    pub(crate) fn lookup(&self, call: &mut Call) -> Outcome {
        self.try_lookup(call).unwrap_or_else(Outcome::error)
    }

    fn try_lookup(&self, call: &mut Call) -> Result<Outcome, Errno> {
        let [name, name_len, out, most, ..] = call.args;
        let network = self.network(call)?;
        if name_len == 0 || name_len > HOST_NAME_MAX as u64 {
            return Err(self.explain(call, Errno::Invalid, "a name of a host has 1 to 253 bytes"));
        }
        let name = self.range(call, name, name_len, "the name")?;
        let mut room = [MaybeUninit::uninit(); HOST_NAME_MAX];
        let name = name
            .read_at(0, &mut room[..name_len as usize])
            .map_err(|refusal| self.host.explain(call, refusal.into(), format_args!("the name: {refusal}")))?;
        let name = core::str::from_utf8(name).ok().filter(|name| is_host_name(name));
        let name = name.ok_or(Errno::Invalid).map_err(|errno| self.explain(call, errno, NAME_RULE))?;
        let out = UserSlice::<SocketAddress>::new(out, most.min(LOOKUP_MAX as u64));
        let out = out.check(self.host.raw(), call).map_err(|refusal| self.bad_room(call, refusal))?;
        let mut found = [SocketAddress::default(); LOOKUP_MAX];
        let count = match network.lookup(call, name, &mut found[..out.len()]) {
            Ok(count) => count,
            Err(Errno::Again) if call.wake == Wake::Deadlock => return Err(Errno::Deadlock),
            Err(Errno::Again) => {
                network.wait_for_name(call, name, NEVER);
                return Ok(Outcome::park());
            }
            Err(errno) => {
                return Err(match errno {
                    Errno::NotPermitted => {
                        let why = format_args!("the workflow's network list has no name {name:?}");
                        self.host.explain(call, errno, why)
                    }
                    Errno::TimedOut => {
                        let why = format_args!("looking up {name:?}: no resolver answers");
                        self.host.explain(call, errno, why)
                    }
                    _ => self.host.explain(call, errno, format_args!("looking up {name:?}: {errno}")),
                });
            }
        };
        out.write(&found[..count]).map_err(|refusal| self.bad_room(call, refusal))?;
        Ok(Outcome::ready(count as i64))
    }

    /// For the visor, when the last function has ended.
    pub(crate) fn busy(&self, _: &mut Call) -> Result<u64, Errno> {
        Ok(self.network.as_ref().is_some_and(|network| network.is_busy()).into())
    }

    /// Lets the socket in the first argument do something; if it cannot do that now, waits for it to become ready, unless the call's
    /// flags say otherwise.
    fn attempt(
        &self,
        call: &mut Call,
        readiness: Readiness,
        flags: u64,
        work: impl FnOnce(&Sockets, &Call, &Arc<Socket>) -> Result<u64, Errno>,
    ) -> Outcome {
        let socket = match self.find(call, call.args[0]) {
            Ok(socket) => socket,
            Err(errno) => return Outcome::error(errno),
        };
        let done = work(self, call, &socket);
        // What arrives from here on is an edge, even if what there was has not been taken whole. What is written has the third argument as its
        // length: only less than that shows that there is no room.
        let lacks = match done {
            Ok(bytes) => readiness == Readiness::Read || bytes < call.args[2],
            Err(errno) => errno == Errno::Again,
        };
        if lacks {
            socket.note_lack(readiness);
        }
        match done {
            Err(Errno::Again) if flags & DONT_WAIT != 0 => Outcome::error(Errno::Again),
            Err(Errno::Again) => self.wait(call, &socket, readiness),
            done => done.into(),
        }
    }

    fn wait(&self, call: &mut Call, socket: &Socket, readiness: Readiness) -> Outcome {
        match call.wake {
            _ if socket.is_nonblocking() => return Outcome::error(Errno::Again),
            // As POSIX has it: a timeout is a wait that was not worth it, not a failure.
            Wake::TimedOut => return Outcome::error(Errno::Again),
            Wake::Deadlock => return Outcome::error(Errno::Deadlock),
            Wake::First => {
                let timeout = |timeout: &AtomicU64| timeout.load(Ordering::Relaxed);
                let timeout = match readiness {
                    Readiness::Read => timeout(&socket.read_timeout),
                    Readiness::Write => timeout(&socket.write_timeout),
                };
                call.scratch[DEADLINE] = if timeout == 0 { NEVER } else { self.host.now().saturating_add(timeout) };
            }
            Wake::Woken => {}
        }
        let deadline = call.scratch[DEADLINE];
        socket.network.wait(call, socket.handle, readiness, deadline);
        Outcome::park()
    }

    fn network(&self, call: &Call) -> Result<&Arc<dyn Network>, Errno> {
        let words = "the workflow has no network; its file gives one with `network`";
        self.network.as_ref().ok_or(Errno::NotPermitted).map_err(|errno| self.explain(call, errno, words))
    }

    pub(crate) fn find(&self, call: &Call, number: u64) -> Result<Arc<Socket>, Errno> {
        let found = self.tables.lock().find(call.instance, number);
        found.ok_or(Errno::BadDescriptor).map_err(|_| self.no_socket(call, number))
    }

    fn need_room(&self, call: &Call) -> Result<(), Errno> {
        let room = self.tables.lock().has_room(call.instance);
        if room { Ok(()) } else { Err(self.too_many(call)) }
    }

    fn need_datagrams(&self, call: &Call, socket: &Socket) -> Result<(), Errno> {
        match socket.kind {
            Kind::Datagram => Ok(()),
            Kind::Stream | Kind::Listener { .. } => {
                Err(self.explain(call, Errno::NotSupported, "a TCP socket has one peer only"))
            }
        }
    }

    fn insert(&self, call: &Call, network: &Arc<dyn Network>, handle: u32, kind: Kind) -> Result<u64, Errno> {
        let inserted = self.tables.lock().insert(call.instance, Socket::new(network, handle, kind));
        // If another thread was quicker, the socket that is given back closes here, without the lock.
        inserted.map_err(|_| self.too_many(call))
    }

    fn option(&self, call: &Call) -> Result<SocketOption, Errno> {
        let option = SocketOption::from_raw(call.args[1]).ok_or(Errno::Invalid);
        option.map_err(|errno| self.explain(call, errno, "sockets have no such option"))
    }

    fn peeks(&self, call: &Call, flags: u64) -> Result<bool, Errno> {
        self.need_flags(call, flags, PEEK | DONT_WAIT, "reading knows no such flag")?;
        Ok(flags & PEEK != 0)
    }

    fn need_flags(&self, call: &Call, flags: u64, known: u64, words: &str) -> Result<(), Errno> {
        if flags & !known == 0 { Ok(()) } else { Err(self.explain(call, Errno::Invalid, words)) }
    }

    /// The address that an argument leads to.
    fn address(&self, call: &Call, address: u64) -> Result<SocketAddress, Errno> {
        let read = read_one::<SocketAddress>(self.host.raw(), call, address);
        let address =
            read.map_err(|refusal| self.host.explain(call, refusal.into(), format_args!("the address: {refusal}")))?;
        match address.decode() {
            Some(address) => Ok(address.into()),
            None => Err(self.explain(call, Errno::Invalid, "that is no address of a socket")),
        }
    }

    fn range(&self, call: &Call, address: u64, len: u64, what: &str) -> Result<CheckedSlice<'static, u8>, Errno> {
        let checked = UserSlice::<u8>::new(address, len).check(self.host.raw(), call);
        checked.map_err(|refusal| self.host.explain(call, refusal.into(), format_args!("{what}: {refusal}")))
    }

    /// Writes an address where the caller asked for it, if it did.
    fn put(&self, call: &Call, out: u64, address: SocketAddress) -> Result<(), Errno> {
        if out == 0 {
            return Ok(());
        }
        write_one(self.host.raw(), call, out, address).map_err(|refusal| self.bad_room(call, refusal))
    }

    fn bad_room(&self, call: &Call, refusal: AccessError) -> Errno {
        self.host.explain(call, refusal.into(), format_args!("the room for addresses: {refusal}"))
    }

    fn no_socket(&self, call: &Call, number: u64) -> Errno {
        self.host.explain(call, Errno::BadDescriptor, format_args!("the caller has no socket {number}"))
    }

    fn too_many(&self, call: &Call) -> Errno {
        self.host.explain(call, Errno::TooMany, format_args!("an instance has at most {SOCKETS_MAX} sockets"))
    }

    /// What was to be done with an address is refused.
    fn refused(&self, call: &Call, errno: Errno, what: &str, address: &SocketAddress) -> Errno {
        let Some(address): Option<SocketAddr> = address.decode() else { return errno };
        match errno {
            Errno::NotPermitted => {
                let why = format_args!("the workflow's network list does not let it {what} {address}");
                self.host.explain(call, errno, why)
            }
            _ => self.host.explain(call, errno, format_args!("cannot {what} {address}: {errno}")),
        }
    }

    fn explain(&self, call: &Call, errno: Errno, why: &str) -> Errno {
        self.host.explain(call, errno, format_args!("{why}"))
    }
}

/// Whether this can be a name of a host. Resolvers, and what lies between, take other bytes for what they like.
fn is_host_name(name: &str) -> bool {
    let label = |label: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(fits)
    };
    name.strip_suffix('.').unwrap_or(name).split('.').all(label)
}
