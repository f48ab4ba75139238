//! The visor's services for sockets as safe methods.

use monohull_abi::Errno;
use monohull_abi::module::{Call, Host};
use monohull_abi::network::{
    Found, NetworkKind, Readiness, SocketAddress, SocketEnd, SocketHandle, SocketOption, SocketShutdown, TapConfig,
};
use monohull_abi::user::CheckedSlice;

/// The network of one domain. Every method may be called from any carrier; none waits.
#[derive(Clone, Copy)]
pub struct NetworkRef(pub(crate) &'static Host);

impl NetworkRef {
    /// Which network the workflow has.
    pub fn kind(&self) -> NetworkKind {
        // SAFETY: no conditions.
        unsafe { self.0.network.kind() }
    }

    /// A TCP socket that listens.
    pub fn listen(&self, at: &SocketAddress, backlog: u32) -> Result<SocketHandle, Errno> {
        // SAFETY: the address is readable.
        handle(unsafe { self.0.network.listen(at, backlog) })
    }

    /// A TCP socket that begins to connect.
    pub fn connect(&self, to: &SocketAddress) -> Result<SocketHandle, Errno> {
        // SAFETY: the address is readable.
        handle(unsafe { self.0.network.connect(to) })
    }

    /// A connection that waits to be accepted, and the peer's address.
    pub fn accept(&self, socket: SocketHandle) -> Result<(SocketHandle, SocketAddress), Errno> {
        let mut peer = SocketAddress::default();
        // SAFETY: room for an address.
        let accepted = handle(unsafe { self.0.network.accept(socket, &mut peer) })?;
        Ok((accepted, peer))
    }

    /// A UDP socket.
    pub fn bind(&self, at: &SocketAddress) -> Result<SocketHandle, Errno> {
        // SAFETY: the address is readable.
        handle(unsafe { self.0.network.bind(at) })
    }

    /// A UDP socket's only peer from here on.
    pub fn associate(&self, socket: SocketHandle, to: &SocketAddress) -> Result<(), Errno> {
        // SAFETY: the address is readable.
        Errno::from_value(unsafe { self.0.network.associate(socket, to) }).map(drop)
    }

    /// Bytes into a function's memory, and the sender if `from` is given.
    pub fn receive(
        &self,
        socket: SocketHandle,
        to: &CheckedSlice<'_, u8>,
        peek: bool,
        from: Option<&mut SocketAddress>,
    ) -> Result<u64, Errno> {
        let from = from.map_or(core::ptr::null_mut(), core::ptr::from_mut);
        // SAFETY: the range is the caller's, and the kernel survives holes; there is room for an address, or null.
        Errno::from_value(unsafe { self.0.network.receive(socket, to.address(), to.len(), peek.into(), from) })
    }

    /// Bytes from a function's memory, as a datagram to `to` if that is given.
    pub fn send(
        &self,
        socket: SocketHandle,
        from: &CheckedSlice<'_, u8>,
        to: Option<&SocketAddress>,
    ) -> Result<u64, Errno> {
        let to = to.map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: the range is the caller's, and the kernel survives holes; the address is readable, or null.
        Errno::from_value(unsafe { self.0.network.send(socket, from.address(), from.len(), to) })
    }

    /// Ends a direction.
    pub fn shutdown(&self, socket: SocketHandle, how: SocketShutdown) -> Result<(), Errno> {
        // SAFETY: no conditions.
        Errno::from_value(unsafe { self.0.network.shutdown(socket, how) }).map(drop)
    }

    /// Closes a socket.
    pub fn close(&self, socket: SocketHandle) {
        // SAFETY: no conditions; a handle is the module's own and closed once.
        unsafe { self.0.network.close(socket) }
    }

    /// An option's value.
    pub fn get(&self, socket: SocketHandle, option: SocketOption) -> Result<u64, Errno> {
        // SAFETY: no conditions.
        Errno::from_value(unsafe { self.0.network.get(socket, option) })
    }

    /// Sets an option.
    pub fn set(&self, socket: SocketHandle, option: SocketOption, value: u64) -> Result<(), Errno> {
        // SAFETY: no conditions.
        Errno::from_value(unsafe { self.0.network.set(socket, option, value) }).map(drop)
    }

    /// The address at an end.
    pub fn name(&self, socket: SocketHandle, end: SocketEnd) -> Result<SocketAddress, Errno> {
        let mut name = SocketAddress::default();
        // SAFETY: room for an address.
        Errno::from_value(unsafe { self.0.network.name(socket, end, &mut name) })?;
        Ok(name)
    }

    /// The addresses of a name; as many as there is room for.
    pub fn lookup<'a>(&self, name: &str, room: &'a mut [SocketAddress]) -> Result<&'a [SocketAddress], Errno> {
        // SAFETY: the name is readable, and there is room for `room.len()` addresses.
        let count = unsafe { self.0.network.lookup(name.as_ptr(), name.len(), room.as_mut_ptr(), room.len()) };
        let count = Errno::from_value(count)? as usize;
        Ok(&room[..count])
    }

    /// Registers the call's thread until the socket is ready; then return
    /// [`Outcome::park`](monohull_abi::Outcome::park).
    pub fn wait(&self, call: &mut Call, socket: SocketHandle, readiness: Readiness, deadline: u64) {
        // SAFETY: the call is the handler's.
        unsafe { self.0.network.wait(call, socket, readiness, deadline) }
    }
}

/// Queues.
impl NetworkRef {
    /// Which of `wanted` a kernel socket has become; see [`monohull_abi::network::NetworkHost::watch`].
    pub fn watch(&self, socket: SocketHandle, wanted: u32, queue: u64) -> Found {
        // SAFETY: no conditions.
        unsafe { self.0.network.watch(socket, wanted, queue) }
    }

    /// Takes in what has happened, before a queue looks at its sockets.
    pub fn settle(&self, queue: u64) {
        // SAFETY: no conditions.
        unsafe { self.0.network.settle(queue) }
    }

    /// Registers the call's thread on a queue's key; then return [`Outcome::park`](monohull_abi::Outcome::park).
    pub fn wait_in_queue(&self, call: &mut Call, queue: u64, deadline: u64) {
        // SAFETY: the call is the handler's.
        unsafe { self.0.network.wait_in_queue(call, queue, deadline) }
    }

    /// The queue watches nothing any more.
    pub fn forget_queue(&self, queue: u64) {
        // SAFETY: no conditions.
        unsafe { self.0.network.forget_queue(queue) }
    }
}

impl NetworkRef {
    /// The workflow's own addresses. From here on [`Module::poll`](crate::Module::poll) is called when frames arrive.
    pub fn tap(&self) -> Result<TapConfig, Errno> {
        let mut config = TapConfig::default();
        // SAFETY: room for it.
        Errno::from_value(unsafe { self.0.network.tap(&mut config) })?;
        Ok(config)
    }

    /// A frame with its header: how many bytes of `room` it took.
    pub fn frame_in(&self, room: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the room is writable for its length.
        let value = unsafe { self.0.network.frame_in(room.as_mut_ptr(), room.len()) };
        Errno::from_value(value).map(|len| (len as usize).min(room.len()))
    }

    /// Sends a frame with its header.
    pub fn frame_out(&self, frame: &[u8]) -> Result<(), Errno> {
        // SAFETY: the frame is readable for its length.
        let value = unsafe { self.0.network.frame_out(frame.as_ptr(), frame.len()) };
        Errno::from_value(value).map(drop)
    }

    /// The module is polled at this time, in monotonic ns.
    pub fn alarm(&self, at: u64) {
        // SAFETY: no conditions.
        unsafe { self.0.network.alarm(at) }
    }

    /// Registers the call's thread on a key of the module's; then return
    /// [`Outcome::park`](monohull_abi::Outcome::park).
    pub fn wait_for_key(&self, call: &mut Call, key: u64, deadline: u64) {
        // SAFETY: the call is the handler's.
        unsafe { self.0.network.wait_for_key(call, key, deadline) }
    }
}

fn handle(value: i64) -> Result<SocketHandle, Errno> {
    Errno::from_value(value).map(|handle| handle as SocketHandle)
}
