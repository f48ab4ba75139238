//! The same traffic by the kernel's sockets, and the server that both sides talk to.

use crate::harness::Result;
use example_kernels::traffic::{Connection, Traffic};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Instant;

struct Connected(TcpStream);

impl Connection for Connected {
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        self.0.read(buffer).expect("bytes to read")
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the reader is connected");
    }

    fn end(&mut self) {
        self.0.shutdown(Shutdown::Write).expect("a connection");
    }
}

impl Connected {
    fn new(stream: TcpStream) -> Connected {
        stream.set_nodelay(true).expect("a connection");
        Connected(stream)
    }
}

/// Nanoseconds per unit of some traffic with a server.
pub(super) fn run(server: &str, which: usize, count: usize) -> Result<f64> {
    let traffic = *Traffic::ALL.get(which).ok_or("there is no such traffic")?;
    let start = Instant::now();
    traffic.run(count as u64, || Connected::new(TcpStream::connect(server).expect("a server")));
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

/// Serves one connection after the other, for ever.
pub(crate) fn serve(listener: &TcpListener) {
    for stream in listener.incoming().map_while(std::io::Result::ok) {
        Traffic::serve(&mut Connected::new(stream));
    }
}
