//! What a network can do for sockets. None of it waits: what is not possible now is answered with `Again`.

use monohull_abi::Errno;
use monohull_abi::module::Call;
use monohull_abi::network::{Found, Readiness, SocketAddress, SocketEnd, SocketHandle, SocketOption, SocketShutdown};
use monohull_abi::user::CheckedSlice;

/// Where a call that waits keeps its deadline.
pub(crate) const DEADLINE: usize = 0;
/// A bit of what [`Network::watch`] returns.
pub(crate) const ARMED: u32 = monohull_abi::network::WATCHED_NOW;

/// A way to the outside. Handles are the network's own numbers for its sockets; each is closed once. What a socket costs is its
/// owner's, an instance.
pub(crate) trait Network: Send + Sync {
    /// A TCP socket that listens.
    fn listen(&self, owner: u32, at: &SocketAddress, backlog: u32) -> Result<SocketHandle, Errno>;
    /// A TCP socket that begins to connect.
    fn connect(&self, owner: u32, to: &SocketAddress) -> Result<SocketHandle, Errno>;
    /// Whether that has come about; `Again` while it is open, else why not.
    fn connected(&self, socket: SocketHandle) -> Result<(), Errno>;
    /// A connection that waits to be accepted, and the peer's address.
    fn accept(&self, owner: u32, socket: SocketHandle) -> Result<(SocketHandle, SocketAddress), Errno>;
    /// A UDP socket.
    fn bind(&self, owner: u32, at: &SocketAddress) -> Result<SocketHandle, Errno>;
    /// A UDP socket's only peer from here on.
    fn associate(&self, socket: SocketHandle, to: &SocketAddress) -> Result<(), Errno>;
    /// Bytes into a function's memory, and the sender if `from` is given (UDP only).
    fn receive(
        &self,
        socket: SocketHandle,
        to: &CheckedSlice<'_, u8>,
        peek: bool,
        from: Option<&mut SocketAddress>,
    ) -> Result<u64, Errno>;
    /// Bytes from a function's memory, as a datagram to `to` if that is given (UDP only).
    fn send(&self, socket: SocketHandle, from: &CheckedSlice<'_, u8>, to: Option<&SocketAddress>)
    -> Result<u64, Errno>;
    /// Ends a direction of a connection.
    fn shutdown(&self, socket: SocketHandle, how: SocketShutdown) -> Result<(), Errno>;
    /// Closes a socket, and wakes the threads that wait for it.
    fn close(&self, socket: SocketHandle);
    /// An option's value.
    fn get(&self, socket: SocketHandle, option: SocketOption) -> Result<u64, Errno>;
    /// Sets an option.
    fn set(&self, socket: SocketHandle, option: SocketOption, value: u64) -> Result<(), Errno>;
    /// The address at an end.
    fn name(&self, socket: SocketHandle, end: SocketEnd) -> Result<SocketAddress, Errno>;
    /// The addresses of a name: as many as there is room for. `Again` while they are being asked for.
    fn lookup(&self, call: &Call, name: &str, room: &mut [SocketAddress]) -> Result<usize, Errno>;
    /// Registers the call's thread until this name has been resolved, or was already.
    fn wait_for_name(&self, call: &mut Call, name: &str, deadline: u64);
    /// Registers the call's thread until the socket is ready, or was already.
    fn wait(&self, call: &mut Call, socket: SocketHandle, readiness: Readiness, deadline: u64);
    /// Which of `wanted` ([`monohull_abi::network::ready`]) a socket is; what it is not yet wakes the queue's key when it comes. With
    /// [`ARMED`] if that is watched only from here on, and may have come before.
    fn watch(&self, socket: SocketHandle, wanted: u32, queue: u64) -> Found;
    /// Takes in what has happened, before a queue looks at its sockets.
    fn settle(&self, queue: u64);
    /// Registers the call's thread on a queue's key. It is woken at once if a watched socket has become ready since `settle`.
    fn wait_in_queue(&self, call: &mut Call, queue: u64, deadline: u64);
    /// The queue watches nothing any more.
    fn forget_queue(&self, queue: u64);
    /// Something has happened outside.
    fn poll(&self) {}
    /// An instance has ended; its sockets are closed one by one.
    fn ended(&self, _instance: u32) {}
    /// Whether something that functions have written has not been sent.
    fn is_busy(&self) -> bool {
        false
    }
}
