//! The kernel's sockets for the module `socket`, see [`NetworkServices`].
//!
//! Sockets are made, bound and connected by the broker (`monohull_network`), which compares the addresses with the workflow's
//! list; from then on they are this process's own. All system calls that a workflow's network makes here are `sendto
//! recvmsg recvfrom accept4 shutdown close getsockopt setsockopt getsockname getpeername`, for frames `read writev`, and in
//! [`crate::poller`] `epoll_create1 eventfd2 epoll_ctl epoll_pwait2`. A destination is never among their
//! arguments.

use super::datagrams::Datagram;
use super::host::Services;
use super::https;
use super::state::shared;
use crate::sched::wait_key;
use crate::shared::Shared;
use crate::this_thread;
use monohull_abi::Errno;
use monohull_abi::module::Call;
use monohull_abi::network::{
    DATAGRAM_MAX, Found, NetworkKind, NetworkServices, Readiness, SocketAddress, SocketEnd, SocketHandle, SocketOption,
    SocketShutdown, TapConfig,
};
use monohull_network::{Client, Network, Tap, errno_of};
use monohull_trampoline::system::copy;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};

/// Datagrams from addresses that are not allowed, dropped by one call at most: no deadline interrupts it meanwhile.
const DROPPED_AT_ONCE: usize = 16;
/// # Safety
/// As for [`shared`].
unsafe fn host<'d>(domain: *mut c_void) -> Result<(&'d Shared, &'d Client), Errno> {
    // SAFETY: the caller's promise.
    let domain = unsafe { shared(domain) };
    match &domain.options.network {
        Network::Host(broker) => Ok((domain, broker)),
        Network::None | Network::Tap(_) => Err(Errno::NotPermitted),
    }
}

/// # Safety
/// As for [`shared`].
unsafe fn device<'d>(domain: *mut c_void) -> Result<(&'d Shared, &'d Tap), Errno> {
    // SAFETY: the caller's promise.
    let domain = unsafe { shared(domain) };
    match &domain.options.network {
        Network::Tap(tap) => Ok((domain, tap)),
        Network::None | Network::Host(_) => Err(Errno::NotPermitted),
    }
}

/// An answer as services give it.
fn answer(result: Result<u64, Errno>) -> i64 {
    result.map_or_else(Errno::to_value, |value| value as i64)
}

/// What the kernel answered.
fn checked(status: i64) -> Result<u64, Errno> {
    if status >= 0 {
        return Ok(status as u64);
    }
    Err(errno_of(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)))
}

/// Registers that a call's thread waits for an external event. False for trusted callers, which have no thread.
fn wait_outside(domain: &Shared, call: &Call, key: u64, deadline: u64) -> bool {
    let mut scheduler = domain.lock();
    let Some(thread) = domain.thread_of(&scheduler, call) else { return false };
    let armed = scheduler.wait_external(thread, key, domain.clock.on_host(deadline));
    domain.sched.announce(&mut scheduler, armed);
    true
}

/// A kernel socket of this process, closed on drop.
struct Socket(RawFd);

impl Socket {
    /// Calls `work` with a socket that is closed elsewhere.
    fn borrowed<R>(handle: SocketHandle, work: impl FnOnce(&Socket) -> R) -> R {
        work(&std::mem::ManuallyDrop::new(Socket(handle as RawFd)))
    }

    fn get(&self, level: i32, option: i32) -> Result<u64, Errno> {
        let (mut value, mut len) = (0i32, size_of::<i32>() as u32);
        // SAFETY: room for an integer, and its length.
        let status = unsafe { libc::getsockopt(self.0, level, option, (&raw mut value).cast(), &mut len) };
        checked(status.into())?;
        Ok(value as u32 as u64)
    }

    fn set(&self, level: i32, option: i32, value: i32) -> Result<u64, Errno> {
        // SAFETY: an integer, and its length.
        let status =
            unsafe { libc::setsockopt(self.0, level, option, (&raw const value).cast(), size_of::<i32>() as u32) };
        checked(status.into())
    }

    /// From here on the module owns it, and closes it.
    fn keep(self, domain: &Shared) -> Result<u64, Errno> {
        domain
            .sched
            .open_poller(domain.options.epoll_set.as_deref())
            .and_then(|poller| poller.add(self.0))
            .map_err(|_| Errno::TooMany)?;
        Ok(std::mem::ManuallyDrop::new(self).0 as u64)
    }
}

impl From<OwnedFd> for Socket {
    fn from(socket: OwnedFd) -> Socket {
        Socket(socket.into_raw_fd())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this value's own.
        unsafe { libc::close(self.0) };
    }
}

/// Reads an address that a module passes.
///
/// # Safety
/// It is readable.
unsafe fn read(address: *const SocketAddress) -> Result<SocketAddr, Errno> {
    // SAFETY: the caller's promise.
    unsafe { (*address).decode() }.ok_or(Errno::Invalid)
}

fn room() -> (MaybeUninit<libc::sockaddr_storage>, u32) {
    (MaybeUninit::zeroed(), size_of::<libc::sockaddr_storage>() as u32)
}

/// An address that the kernel has written.
fn decode(room: &MaybeUninit<libc::sockaddr_storage>) -> Result<SocketAddr, Errno> {
    // SAFETY: it was zeroed at first, and any bytes are a valid storage. The family says what it holds.
    unsafe {
        match i32::from(room.assume_init_ref().ss_family) {
            libc::AF_INET => {
                let v4 = &*room.as_ptr().cast::<libc::sockaddr_in>();
                Ok(SocketAddr::from((v4.sin_addr.s_addr.to_ne_bytes(), u16::from_be(v4.sin_port))))
            }
            libc::AF_INET6 => {
                let v6 = &*room.as_ptr().cast::<libc::sockaddr_in6>();
                let (port, flow) = (u16::from_be(v6.sin6_port), v6.sin6_flowinfo);
                Ok(std::net::SocketAddrV6::new(v6.sin6_addr.s6_addr.into(), port, flow, v6.sin6_scope_id).into())
            }
            _ => Err(Errno::Io),
        }
    }
}

impl NetworkServices for Services {
    unsafe extern "C" fn kind(domain: *mut c_void) -> NetworkKind {
        // SAFETY: see `shared`.
        match unsafe { shared(domain) }.options.network {
            Network::None => NetworkKind::None,
            Network::Host(_) => NetworkKind::Host,
            Network::Tap(_) => NetworkKind::Tap,
        }
    }

    unsafe extern "C" fn listen(domain: *mut c_void, at: *const SocketAddress, backlog: u32) -> i64 {
        answer((|| {
            // SAFETY: see `shared`; the address is the module's.
            let ((domain, broker), at) = unsafe { (host(domain)?, read(at)?) };
            Socket::from(domain.hostcalls.addresses.ask(|| broker.listen(at, backlog))?).keep(domain)
        })())
    }

    unsafe extern "C" fn connect(domain: *mut c_void, to: *const SocketAddress) -> i64 {
        answer((|| {
            // SAFETY: see `shared`; the address is the module's.
            let ((domain, broker), to) = unsafe { (host(domain)?, read(to)?) };
            let is_virtual = https::is_virtual(broker, to)?;
            let kept = Socket::from(broker.begin_to_connect(to)?).keep(domain)?;
            if is_virtual {
                domain.relayed.insert(kept as RawFd, to);
            }
            Ok(kept)
        })())
    }

    unsafe extern "C" fn accept(domain: *mut c_void, socket: SocketHandle, peer: *mut SocketAddress) -> i64 {
        answer((|| {
            // SAFETY: see `shared`.
            let (domain, _) = unsafe { host(domain)? };
            let (mut room, mut len) = room();
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            // SAFETY: room for any address, and its length.
            let accepted = unsafe { libc::accept4(socket as RawFd, room.as_mut_ptr().cast(), &mut len, flags) };
            let accepted = Socket(checked(accepted.into())? as RawFd);
            // SAFETY: the module's room for an address.
            unsafe { peer.write(decode(&room)?.into()) };
            accepted.keep(domain)
        })())
    }

    unsafe extern "C" fn bind(domain: *mut c_void, at: *const SocketAddress) -> i64 {
        answer((|| {
            // SAFETY: see `shared`; the address is the module's.
            let ((domain, broker), at) = unsafe { (host(domain)?, read(at)?) };
            let (socket, number, listed) = domain.hostcalls.addresses.ask(|| broker.bind(at))?;
            let kept = Socket::from(socket).keep(domain);
            match kept {
                Ok(handle) => {
                    let datagram = Datagram { number, listed, peers: VecDeque::new() };
                    domain.datagrams.lock().insert(handle as RawFd, datagram);
                }
                Err(_) => broker.close(number),
            }
            kept
        })())
    }

    unsafe extern "C" fn associate(domain: *mut c_void, socket: SocketHandle, to: *const SocketAddress) -> i64 {
        answer((|| {
            // SAFETY: see `shared`; the address is the module's.
            let ((domain, broker), to) = unsafe { (host(domain)?, read(to)?) };
            let number = domain.datagrams.sender(socket as RawFd, broker, to)?;
            broker.associate(number, to)?;
            Ok(0)
        })())
    }

    unsafe extern "C" fn receive(
        domain: *mut c_void,
        socket: SocketHandle,
        to: u64,
        len: usize,
        peek: u32,
        from: *mut SocketAddress,
    ) -> i64 {
        answer((|| {
            // SAFETY: see `shared`.
            let (domain, broker) = unsafe { host(domain)? };
            let flags = libc::MSG_DONTWAIT | if peek == 0 { 0 } else { libc::MSG_PEEK };
            if from.is_null() {
                let len = domain.files.pager.populate_for_syscall(to, len as u64) as usize;
                // SAFETY: the module has checked that the range is its caller's; the kernel survives holes.
                return checked(unsafe { libc::recv(socket as RawFd, to as *mut c_void, len, flags) } as i64);
            }
            // A datagram from an address that is not allowed must not reach the function: the sender is checked here first.
            let mut bytes = vec![0; len.min(DATAGRAM_MAX)];
            let _receiving = domain.datagrams.receiving.lock().expect("receiving");
            for _ in 0..DROPPED_AT_ONCE {
                let (mut room, mut room_len) = room();
                // SAFETY: room for the bytes, and for any address.
                let received = unsafe {
                    let room = room.as_mut_ptr().cast();
                    libc::recvfrom(socket as RawFd, bytes.as_mut_ptr().cast(), bytes.len(), flags, room, &mut room_len)
                };
                let received = checked(received as i64)?;
                let sender = decode(&room)?;
                if domain.datagrams.accepts(socket as RawFd, broker, sender) {
                    // SAFETY: the module has checked that the range is its caller's; faults are survived.
                    if !unsafe { copy(to as *mut u8, bytes.as_ptr(), received as usize) } {
                        return Err(Errno::Fault);
                    }
                    // SAFETY: the module's room for an address.
                    unsafe { from.write(sender.into()) };
                    return Ok(received);
                }
                if peek != 0 {
                    // SAFETY: drops the datagram; a null buffer of no length.
                    unsafe { libc::recv(socket as RawFd, std::ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
                }
            }
            Err(Errno::Again)
        })())
    }

    unsafe extern "C" fn send(
        domain: *mut c_void,
        socket: SocketHandle,
        from: u64,
        len: usize,
        to: *const SocketAddress,
    ) -> i64 {
        answer((|| {
            // SAFETY: see `shared`.
            let (domain, broker) = unsafe { host(domain)? };
            if to.is_null() {
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                let len = domain.files.pager.populate_for_syscall(from, len as u64) as usize;
                // SAFETY: the module has checked that the range is its caller's; the kernel survives holes.
                return checked(unsafe { libc::send(socket as RawFd, from as *const c_void, len, flags) } as i64);
            }
            // SAFETY: the address is the module's.
            let to = unsafe { read(to)? };
            let number = domain.datagrams.sender(socket as RawFd, broker, to)?;
            if len > DATAGRAM_MAX {
                return Err(Errno::MessageTooLong);
            }
            let mut bytes = vec![0; len];
            // SAFETY: room for as many; the module has checked that the range is its caller's; faults are survived.
            if !unsafe { copy(bytes.as_mut_ptr(), from as *const u8, len) } {
                return Err(Errno::Fault);
            }
            broker.send(number, to, &bytes)?;
            Ok(len as u64)
        })())
    }

    unsafe extern "C" fn shutdown(_: *mut c_void, socket: SocketHandle, how: SocketShutdown) -> i64 {
        let how = match how {
            SocketShutdown::Read => libc::SHUT_RD,
            SocketShutdown::Write => libc::SHUT_WR,
            SocketShutdown::Both => libc::SHUT_RDWR,
        };
        // SAFETY: has no preconditions.
        answer(checked(unsafe { libc::shutdown(socket as RawFd, how) }.into()))
    }

    unsafe extern "C" fn close(domain: *mut c_void, socket: SocketHandle) {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        let descriptor = socket as RawFd;
        domain.relayed.remove(descriptor);
        let datagram = domain.datagrams.lock().remove(&descriptor);
        if let (Some(datagram), Network::Host(broker)) = (datagram, &domain.options.network) {
            broker.close(datagram.number);
        }
        if let Some(poller) = domain.sched.poller() {
            poller.remove(descriptor);
        }
        drop(Socket(descriptor));
        let mut scheduler = domain.lock();
        for readiness in [Readiness::Read, Readiness::Write] {
            let woken =
                scheduler.wake(wait_key::descriptor(descriptor, readiness), u64::MAX, None, this_thread::carrier());
            domain.sched.notify(&mut scheduler, woken);
        }
    }

    unsafe extern "C" fn get(domain: *mut c_void, socket: SocketHandle, option: SocketOption) -> i64 {
        // SAFETY: see `shared`.
        if let Some(value) = unsafe { shared(domain) }.relayed.get(socket as RawFd, option) {
            return answer(Ok(value));
        }
        answer(Socket::borrowed(socket, |socket| match option {
            SocketOption::NoDelay => socket.get(libc::IPPROTO_TCP, libc::TCP_NODELAY),
            SocketOption::Ttl => socket.get(libc::IPPROTO_IP, libc::IP_TTL),
            SocketOption::KeepAlive => match socket.get(libc::SOL_SOCKET, libc::SO_KEEPALIVE)? {
                0 => Ok(0),
                _ => Ok(socket.get(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE)? * 1_000_000_000),
            },
            SocketOption::Broadcast => socket.get(libc::SOL_SOCKET, libc::SO_BROADCAST),
            SocketOption::Error => {
                let error = socket.get(libc::SOL_SOCKET, libc::SO_ERROR)?;
                Ok(if error == 0 {
                    0
                } else {
                    Errno::from_value(-(error as i64)).err().map_or(0, |errno| errno as u64)
                })
            }
            SocketOption::NonBlocking | SocketOption::ReadTimeout | SocketOption::WriteTimeout => Err(Errno::Invalid),
        }))
    }

    unsafe extern "C" fn set(domain: *mut c_void, socket: SocketHandle, option: SocketOption, value: u64) -> i64 {
        // SAFETY: see `shared`.
        if unsafe { shared(domain) }.relayed.set(socket as RawFd, option, value) {
            return answer(Ok(0));
        }
        answer(Socket::borrowed(socket, |socket| match option {
            SocketOption::NoDelay => socket.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, value as i32),
            SocketOption::Ttl => socket.set(libc::IPPROTO_IP, libc::IP_TTL, value as i32),
            SocketOption::KeepAlive => {
                // From ns to whole seconds, at least one; the kernel's limit is 32767.
                let seconds = value.div_ceil(1_000_000_000).min(32_767) as i32;
                if seconds > 0 {
                    socket.set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds)?;
                    socket.set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds)?;
                }
                socket.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, (seconds > 0).into())
            }
            SocketOption::Broadcast => socket.set(libc::SOL_SOCKET, libc::SO_BROADCAST, value as i32),
            _ => Err(Errno::Invalid),
        }))
    }

    unsafe extern "C" fn name(
        domain: *mut c_void,
        socket: SocketHandle,
        end: SocketEnd,
        out: *mut SocketAddress,
    ) -> i64 {
        answer((|| {
            // SAFETY: see `shared`.
            if let Some(name) = unsafe { shared(domain) }.relayed.name(socket as RawFd, end) {
                // SAFETY: the module's room for an address.
                unsafe { out.write(name.into()) };
                return Ok(0);
            }
            let (mut room, mut len) = room();
            // SAFETY: room for any address, and its length.
            let status = unsafe {
                match end {
                    SocketEnd::Local => libc::getsockname(socket as RawFd, room.as_mut_ptr().cast(), &mut len),
                    SocketEnd::Peer => libc::getpeername(socket as RawFd, room.as_mut_ptr().cast(), &mut len),
                }
            };
            checked(status.into())?;
            // SAFETY: the module's room for an address.
            unsafe { out.write(decode(&room)?.into()) };
            Ok(0)
        })())
    }

    unsafe extern "C" fn lookup(
        domain: *mut c_void,
        name: *const u8,
        len: usize,
        out: *mut SocketAddress,
        most: usize,
    ) -> i64 {
        answer((|| {
            // SAFETY: see `shared`; the name is the module's.
            let ((_, broker), name) = unsafe { (host(domain)?, std::slice::from_raw_parts(name, len)) };
            let name = std::str::from_utf8(name).map_err(|_| Errno::Invalid)?;
            let addresses = https::usable(broker, broker.lookup(name)?)?;
            for (index, address) in addresses.iter().take(most).enumerate() {
                // SAFETY: there is room for `most`.
                unsafe { out.add(index).write(SocketAddr::new(*address, 0).into()) };
            }
            Ok(addresses.len().min(most) as u64)
        })())
    }

    unsafe extern "C" fn wait(
        domain: *mut c_void,
        call: *mut Call,
        socket: SocketHandle,
        readiness: Readiness,
        deadline: u64,
    ) {
        // SAFETY: see `shared`; the module passes the call it serves.
        let (domain, call) = unsafe { (shared(domain), &*call) };
        let key = wait_key::descriptor(socket as RawFd, readiness);
        if !wait_outside(domain, call, key, deadline) {
            return;
        }
        let armed = domain.sched.poller().is_some_and(|poller| poller.arm(socket as RawFd, readiness).is_ok());
        if !armed {
            // It has just been closed: the handler runs again.
            let mut scheduler = domain.lock();
            let woken = scheduler.wake(key, u64::MAX, None, this_thread::carrier());
            domain.sched.notify(&mut scheduler, woken);
        }
    }

    unsafe extern "C" fn watch(domain: *mut c_void, socket: SocketHandle, wanted: u32, queue: u64) -> Found {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        domain.sched.poller().map(|poller| poller.watch(socket as RawFd, wanted, queue)).unwrap_or_default()
    }

    unsafe extern "C" fn settle(domain: *mut c_void, queue: u64) {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        domain.sched.collect_events();
        if let Some(poller) = domain.sched.poller() {
            poller.settled(queue);
        }
    }

    unsafe extern "C" fn wait_in_queue(domain: *mut c_void, call: *mut Call, queue: u64, deadline: u64) {
        // SAFETY: see `shared`; the module passes the call it serves.
        let (domain, call) = unsafe { (shared(domain), &*call) };
        if wait_outside(domain, call, queue, deadline)
            && domain.sched.poller().is_some_and(|poller| poller.is_due(queue))
        {
            let mut scheduler = domain.lock();
            let woken = scheduler.wake(queue, u64::MAX, None, this_thread::carrier());
            domain.sched.notify(&mut scheduler, woken);
        }
    }

    unsafe extern "C" fn forget_queue(domain: *mut c_void, queue: u64) {
        // SAFETY: see `shared`.
        if let Some(poller) = unsafe { shared(domain) }.sched.poller() {
            poller.forget_queue(queue);
        }
    }

    unsafe extern "C" fn tap(domain: *mut c_void, out: *mut TapConfig) -> i64 {
        answer((|| {
            // SAFETY: see `shared`.
            let (domain, tap) = unsafe { device(domain)? };
            let entered = domain
                .sched
                .open_poller(domain.options.epoll_set.as_deref())
                .and_then(|poller| poller.add_device(tap.device()));
            entered.map_err(|_| Errno::TooMany)?;
            let mut config = tap.config();
            // SAFETY: room for two words; with these flags it fails for want of neither memory nor randomness.
            unsafe { libc::getrandom((&raw mut config.seed).cast(), size_of_val(&config.seed), 0) };
            // SAFETY: the module's room for it.
            unsafe { out.write(config) };
            Ok(0)
        })())
    }

    unsafe extern "C" fn frame_in(domain: *mut c_void, to: *mut u8, len: usize) -> i64 {
        answer((|| {
            // SAFETY: see `shared`.
            let (domain, tap) = unsafe { device(domain)? };
            // SAFETY: the module's room for a frame. The device does not block.
            let read = checked(unsafe { libc::read(tap.device(), to.cast(), len) } as i64);
            if read.is_err_and(|errno| errno != Errno::Again)
                && let Some(poller) = domain.sched.poller()
            {
                // The device has been removed from the host. It would raise events for ever.
                poller.remove(tap.device());
            }
            if let (Ok(_), Some(poller)) = (&read, domain.sched.poller()) {
                poller.frame_taken();
            }
            read
        })())
    }

    unsafe extern "C" fn frame_out(domain: *mut c_void, from: *const u8, len: usize) -> i64 {
        let frame = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: len };
        // SAFETY: see `shared`; the module's frame, which is only read. The device does not block.
        answer(unsafe { device(domain).and_then(|(_, tap)| checked(libc::writev(tap.device(), &frame, 1) as i64)) })
    }

    unsafe extern "C" fn alarm(domain: *mut c_void, at: u64) {
        // SAFETY: see `shared`.
        let domain = unsafe { shared(domain) };
        let mut scheduler = domain.lock();
        let armed = scheduler.set_net_deadline(domain.clock.on_host(at));
        domain.sched.announce(&mut scheduler, armed);
    }

    unsafe extern "C" fn wait_for_key(domain: *mut c_void, call: *mut Call, key: u64, deadline: u64) {
        // SAFETY: see `shared`; the module passes the call it serves.
        let (domain, call) = unsafe { (shared(domain), &*call) };
        if wait_outside(domain, call, key, deadline) && domain.lock().frame_waiter_came() {
            // It fails if the device does not exist any more, which the module knows.
            let _ = domain.sched.poller().map(|poller| poller.arm_device());
        }
    }
}
