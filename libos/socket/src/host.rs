//! The host's network: every socket is one of the kernel's, made and used by the visor.

use crate::network::Network;
use monohull_abi::Errno;
use monohull_abi::module::Call;
use monohull_abi::network::{Found, Readiness, SocketAddress, SocketEnd, SocketHandle, SocketOption, SocketShutdown};
use monohull_abi::user::CheckedSlice;
use monohull_module::NetworkRef;

/// The visor's services, as they are.
pub(crate) struct Host(pub(crate) NetworkRef);

impl Network for Host {
    fn listen(&self, _: u32, at: &SocketAddress, backlog: u32) -> Result<SocketHandle, Errno> {
        self.0.listen(at, backlog)
    }

    fn connect(&self, _: u32, to: &SocketAddress) -> Result<SocketHandle, Errno> {
        self.0.connect(to)
    }

    fn connected(&self, socket: SocketHandle) -> Result<(), Errno> {
        let Err(Errno::NotConnected) = self.0.name(socket, SocketEnd::Peer) else { return Ok(()) };
        match self.0.get(socket, SocketOption::Error)? {
            0 => Err(Errno::Again),
            error => Err(Errno::from_value(-(error as i64)).err().unwrap_or(Errno::Io)),
        }
    }

    fn accept(&self, _: u32, socket: SocketHandle) -> Result<(SocketHandle, SocketAddress), Errno> {
        self.0.accept(socket)
    }

    fn bind(&self, _: u32, at: &SocketAddress) -> Result<SocketHandle, Errno> {
        self.0.bind(at)
    }

    fn associate(&self, socket: SocketHandle, to: &SocketAddress) -> Result<(), Errno> {
        self.0.associate(socket, to)
    }

    fn receive(
        &self,
        socket: SocketHandle,
        to: &CheckedSlice<'_, u8>,
        peek: bool,
        from: Option<&mut SocketAddress>,
    ) -> Result<u64, Errno> {
        self.0.receive(socket, to, peek, from)
    }

    fn send(
        &self,
        socket: SocketHandle,
        from: &CheckedSlice<'_, u8>,
        to: Option<&SocketAddress>,
    ) -> Result<u64, Errno> {
        self.0.send(socket, from, to)
    }

    fn shutdown(&self, socket: SocketHandle, how: SocketShutdown) -> Result<(), Errno> {
        self.0.shutdown(socket, how)
    }

    fn close(&self, socket: SocketHandle) {
        self.0.close(socket);
    }

    fn get(&self, socket: SocketHandle, option: SocketOption) -> Result<u64, Errno> {
        self.0.get(socket, option)
    }

    fn set(&self, socket: SocketHandle, option: SocketOption, value: u64) -> Result<(), Errno> {
        self.0.set(socket, option, value)
    }

    fn name(&self, socket: SocketHandle, end: SocketEnd) -> Result<SocketAddress, Errno> {
        self.0.name(socket, end)
    }

    fn lookup(&self, _: &Call, name: &str, room: &mut [SocketAddress]) -> Result<usize, Errno> {
        self.0.lookup(name, room).map(|found| found.len())
    }

    // The broker knows all names that there are.
    fn wait_for_name(&self, _: &mut Call, _: &str, _: u64) {}

    fn wait(&self, call: &mut Call, socket: SocketHandle, readiness: Readiness, deadline: u64) {
        self.0.wait(call, socket, readiness, deadline);
    }

    fn watch(&self, socket: SocketHandle, wanted: u32, queue: u64) -> Found {
        self.0.watch(socket, wanted, queue)
    }

    fn settle(&self, queue: u64) {
        self.0.settle(queue);
    }

    fn wait_in_queue(&self, call: &mut Call, queue: u64, deadline: u64) {
        self.0.wait_in_queue(call, queue, deadline);
    }

    fn forget_queue(&self, queue: u64) {
        self.0.forget_queue(queue);
    }
}
