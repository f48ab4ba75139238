//! A network of the workflow's own: TCP/IP by smoltcp, over the frames of a TAP device.
//!
//! ```text
//!   handlers ── lock ──▶ Stack ─ turn ─▶ smoltcp ⇄ frames ⇄ device ⇄ the host's kernel
//!                          ▲
//!   poll: frames, alarm ───┘      the lock's holder moves frames both ways; there is no thread for it
//! ```

mod ends;
mod frames;
mod lookup;
mod names;
mod stack;
mod tcp;
mod udp;

use crate::network::Network;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering, fence};
use core::task::Waker;
use ends::End;
use monohull_abi::Errno;
use monohull_abi::module::Call;
use monohull_abi::network::{
    Found, Readiness, SocketAddress, SocketEnd, SocketHandle, SocketOption, SocketShutdown, ready,
};
use monohull_abi::user::CheckedSlice;
use monohull_module::{FutexMutex, FutexMutexGuard, HostRef};
use names::Asker;
use stack::Stack;

/// Distinguishes the keys of this network's sockets from other keys of modules.
const KEY_TAG: u64 = 0b101 << 61;
/// The wait key of name look-ups; no socket has it.
const NAMES: u64 = KEY_TAG | 1 << 60;

/// The wait key of a socket.
fn key_of(socket: SocketHandle, readiness: Readiness) -> u64 {
    KEY_TAG | u64::from(socket) << 1 | readiness as u64
}

/// The socket that has this key.
fn socket_of(key: u64) -> SocketHandle {
    ((key & !KEY_TAG) >> 1) as SocketHandle
}

/// Keys to wake. They are woken after the stack has been unlocked: the threads would only wait for its lock, on another carrier.
#[derive(Default)]
struct Rung(FutexMutex<Vec<u64>>);

impl Rung {
    /// Adds a key to wake.
    fn ring(&self, key: u64) {
        self.0.lock().push(key);
    }
}

/// Wakes the threads that wait for a key.
struct Bell {
    rung: Arc<Rung>,
    key: u64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.ring(self.key);
    }
}

fn waker(rung: &Arc<Rung>, key: u64) -> Waker {
    Waker::from(Arc::new(Bell { rung: rung.clone(), key }))
}

/// The queues that watch sockets.
#[derive(Default)]
struct Watchers {
    by_socket: BTreeMap<SocketHandle, Vec<u64>>,
    /// Queues one of whose sockets has become ready since they were settled.
    due: BTreeSet<u64>,
}

/// The network of one domain.
pub(crate) struct Tap {
    host: HostRef,
    rung: Arc<Rung>,
    stack: FutexMutex<Stack>,
    /// Locked after the stack.
    watchers: FutexMutex<Watchers>,
    /// Requests that frames are moved. The holder of the stack's lock does it before it unlocks; no thread waits for the lock only to do that.
    due: AtomicBool,
}

/// The stack, for as long as this lives.
struct Entered<'t> {
    tap: &'t Tap,
    stack: Option<FutexMutexGuard<'t, Stack>>,
}

impl Deref for Entered<'_> {
    type Target = Stack;

    fn deref(&self) -> &Stack {
        self.stack.as_ref().expect("it is given back by drop alone")
    }
}

impl DerefMut for Entered<'_> {
    fn deref_mut(&mut self) -> &mut Stack {
        self.stack.as_mut().expect("it is given back by drop alone")
    }
}

impl Entered<'_> {
    /// Gives the stack up, first of all to a thread that waits for it.
    fn leave_fairly(mut self) {
        if let Some(stack) = self.stack.take() {
            FutexMutexGuard::unlock_fair(stack);
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        drop(self.stack.take());
        self.tap.wake_rung();
        // Either this sees that frames are due, or the thread that has just requested it sees that the stack is unlocked.
        fence(Ordering::SeqCst);
        self.tap.move_what_is_due();
    }
}

impl Tap {
    /// `None` if the device is not there.
    pub(crate) fn new(host: HostRef) -> Option<Tap> {
        let config = host.network().tap().ok()?;
        let rung = Arc::<Rung>::default();
        let stack = FutexMutex::new(Stack::new(host, &config, rung.clone()));
        Some(Tap { host, rung, stack, watchers: FutexMutex::default(), due: AtomicBool::new(false) })
    }

    fn enter(&self) -> Entered<'_> {
        Entered { tap: self, stack: Some(self.stack.lock()) }
    }

    fn wake_rung(&self) {
        let rung = core::mem::take(&mut *self.rung.0.lock());
        for key in rung {
            self.host.wake(key, u64::MAX);
            self.wake_queues(key);
        }
    }

    /// Wakes the queues that watch the socket with this key.
    fn wake_queues(&self, key: u64) {
        if key == NAMES {
            return;
        }
        let queues = {
            let mut watchers = self.watchers.lock();
            let queues = watchers.by_socket.get(&socket_of(key)).cloned().unwrap_or_default();
            watchers.due.extend(&queues);
            queues
        };
        for queue in queues {
            self.host.wake(queue, u64::MAX);
        }
    }

    fn move_what_is_due(&self) {
        while self.due.load(Ordering::Relaxed) {
            let Some(mut stack) = self.stack.try_lock() else { return };
            self.due.store(false, Ordering::Relaxed);
            stack.turn();
            drop(stack);
            self.wake_rung();
            fence(Ordering::SeqCst);
        }
    }
}

impl Network for Tap {
    fn listen(&self, owner: u32, at: &SocketAddress, backlog: u32) -> Result<SocketHandle, Errno> {
        self.enter().listen(owner, at, backlog as usize)
    }

    fn connect(&self, owner: u32, to: &SocketAddress) -> Result<SocketHandle, Errno> {
        let mut stack = self.enter();
        let socket = stack.connect(owner, to)?;
        stack.turn();
        Ok(socket)
    }

    fn connected(&self, socket: SocketHandle) -> Result<(), Errno> {
        self.enter().connected(socket)
    }

    fn accept(&self, owner: u32, socket: SocketHandle) -> Result<(SocketHandle, SocketAddress), Errno> {
        let mut stack = self.enter();
        match stack.accept(owner, socket) {
            Err(Errno::Again) => {
                stack.turn();
                stack.accept(owner, socket)
            }
            done => done,
        }
    }

    fn bind(&self, owner: u32, at: &SocketAddress) -> Result<SocketHandle, Errno> {
        self.enter().bind(owner, at)
    }

    fn associate(&self, socket: SocketHandle, to: &SocketAddress) -> Result<(), Errno> {
        self.enter().associate(socket, to)
    }

    fn receive(
        &self,
        socket: SocketHandle,
        to: &CheckedSlice<'_, u8>,
        peek: bool,
        mut from: Option<&mut SocketAddress>,
    ) -> Result<u64, Errno> {
        let mut stack = self.enter();
        for again in [false, true] {
            let received = match stack.end(socket)? {
                End::Datagrams(_) => stack.receive_datagram(socket, to, peek, from.as_deref_mut()),
                _ => stack.receive(socket, to, peek),
            };
            match received {
                // There may be unprocessed frames.
                Err(Errno::Again) if !again => stack.take_in(),
                done => {
                    // What has arrived is acknowledged, and there is room again, which the peer should know: sent at once.
                    if again || done.is_ok() && !peek {
                        stack.send_off();
                    }
                    return done;
                }
            }
        }
        Err(Errno::Again)
    }

    fn send(
        &self,
        socket: SocketHandle,
        from: &CheckedSlice<'_, u8>,
        to: Option<&SocketAddress>,
    ) -> Result<u64, Errno> {
        let mut stack = self.enter();
        for again in [false, true] {
            let sent = match stack.end(socket)? {
                End::Datagrams(_) => stack.send_datagram(socket, from, to),
                _ => stack.send(socket, from),
            };
            match sent {
                // What has been acknowledged since makes room.
                Err(Errno::Again) if !again => stack.turn(),
                done => {
                    if done.is_ok() {
                        stack.send_off();
                    }
                    return done;
                }
            }
        }
        Err(Errno::Again)
    }

    fn shutdown(&self, socket: SocketHandle, how: SocketShutdown) -> Result<(), Errno> {
        let mut stack = self.enter();
        stack.shutdown(socket, how)?;
        stack.send_off();
        Ok(())
    }

    fn close(&self, socket: SocketHandle) {
        let mut stack = self.enter();
        stack.close(socket);
        stack.send_off();
        // An instance may have thousands of sockets when it ends, which are closed one after the other.
        stack.leave_fairly();
        self.watchers.lock().by_socket.remove(&socket);
        for readiness in [Readiness::Read, Readiness::Write] {
            self.host.wake(key_of(socket, readiness), u64::MAX);
        }
    }

    fn get(&self, socket: SocketHandle, option: SocketOption) -> Result<u64, Errno> {
        self.enter().get(socket, option)
    }

    fn set(&self, socket: SocketHandle, option: SocketOption, value: u64) -> Result<(), Errno> {
        self.enter().set(socket, option, value)
    }

    fn name(&self, socket: SocketHandle, end: SocketEnd) -> Result<SocketAddress, Errno> {
        self.enter().name(socket, end)
    }

    fn lookup(&self, call: &Call, name: &str, room: &mut [SocketAddress]) -> Result<usize, Errno> {
        self.enter().lookup(Asker { instance: call.instance, thread: call.thread }, name, room)
    }

    fn wait_for_name(&self, call: &mut Call, name: &str, deadline: u64) {
        let stack = self.enter();
        self.host.network().wait_for_key(call, NAMES, deadline);
        if stack.is_answered(name) {
            self.host.wake(NAMES, u64::MAX);
        }
    }

    fn wait(&self, call: &mut Call, socket: SocketHandle, readiness: Readiness, deadline: u64) {
        let mut stack = self.enter();
        let key = key_of(socket, readiness);
        self.host.network().wait_for_key(call, key, deadline);
        // It may have become ready since the handler began to wait.
        if stack.watch(socket, readiness) {
            self.host.wake(key, u64::MAX);
        }
    }

    fn watch(&self, socket: SocketHandle, wanted: u32, queue: u64) -> Found {
        let mut stack = self.enter();
        {
            let mut watchers = self.watchers.lock();
            let queues = watchers.by_socket.entry(socket).or_default();
            if !queues.contains(&queue) {
                queues.push(queue);
            }
        }
        // The stack does not say which came first.
        let mut found = Found::default();
        for (bit, readiness) in [(ready::READ, Readiness::Read), (ready::WRITE, Readiness::Write)] {
            if wanted & bit != 0 && stack.watch(socket, readiness) {
                found.ready |= bit;
            }
        }
        found
    }

    fn settle(&self, queue: u64) {
        self.enter().turn();
        self.watchers.lock().due.remove(&queue);
    }

    fn wait_in_queue(&self, call: &mut Call, queue: u64, deadline: u64) {
        self.host.network().wait_for_key(call, queue, deadline);
        if self.watchers.lock().due.contains(&queue) {
            self.host.wake(queue, u64::MAX);
        }
    }

    fn forget_queue(&self, queue: u64) {
        let mut watchers = self.watchers.lock();
        watchers.due.remove(&queue);
        watchers.by_socket.retain(|_, queues| {
            queues.retain(|other| *other != queue);
            !queues.is_empty()
        });
    }

    fn poll(&self) {
        self.due.swap(true, Ordering::SeqCst);
        self.move_what_is_due();
    }

    fn ended(&self, instance: u32) {
        self.enter().forget_asker(instance);
    }

    fn is_busy(&self) -> bool {
        let mut stack = self.enter();
        stack.turn();
        stack.is_busy()
    }
}
