//! Talks to a server in every way and leaves nanoseconds per unit in slot `figures`, a line for each way.
#![no_std]
#![deny(unsafe_code)]

use example_kernels::traffic::{Connection, Traffic};
use monohull_std::error::Error;
use monohull_std::io::{Read, Write};
use monohull_std::net::{Shutdown, TcpStream};
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::time::Instant;

struct Connected(TcpStream);

impl Connection for Connected {
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        self.0.read(buffer).expect("bytes to read")
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("a server that reads");
    }

    fn end(&mut self) {
        self.0.shutdown(Shutdown::Write).expect("a connection");
    }
}

/// `counts` is how many units each traffic has, in the order of [`Traffic::ALL`].
#[monohull::main]
fn main(server: String, counts: Vec<u64>) -> Result<(), Box<dyn Error>> {
    let connect = || {
        let stream = TcpStream::connect(&*server).expect("a server");
        stream.set_nodelay(true).expect("a connection");
        Connected(stream)
    };
    let mut slot = SlotString::with_slot("figures");
    for (traffic, count) in Traffic::ALL.into_iter().zip(counts) {
        let start = Instant::now();
        traffic.run(count, connect);
        let each = start.elapsed().as_nanos() as f64 / count as f64;
        slot.push_str(&format!("{}: {each}\n", traffic.name()));
    }
    Ok(())
}
