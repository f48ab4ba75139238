//! Passes over a large file, request by request: the loop that the function and the plain program share.

use alloc::vec::Vec;

/// A file to go over. Errors panic: there is nothing to measure then.
pub trait Storage {
    /// Fills the buffer from the position on.
    fn read(&mut self, buffer: &mut [u8]);
    /// Fills the buffer from an offset on.
    fn read_at(&mut self, buffer: &mut [u8], offset: u64);
    /// Writes the buffer at the position.
    fn write(&mut self, buffer: &[u8]);
    /// Writes the buffer at an offset.
    fn write_at(&mut self, buffer: &[u8], offset: u64);
    /// Moves the position.
    fn seek(&mut self, offset: u64);
}

/// A way to go over a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pass {
    /// Writing, not reading.
    pub writes: bool,
    /// At offsets in no order, not one behind the other.
    pub random: bool,
    /// Bytes of each request.
    pub request: usize,
    /// Threads that share the requests.
    pub threads: u64,
}

impl Pass {
    /// All that are measured.
    pub fn all() -> Vec<Pass> {
        let mut all = Vec::new();
        for threads in [1, 2] {
            for request in [4 << 10, 1 << 20] {
                for random in [false, true] {
                    for writes in [false, true] {
                        all.push(Pass { writes, random, request, threads });
                    }
                }
            }
        }
        all
    }

    /// What it is called.
    pub fn name(&self) -> alloc::string::String {
        let way = if self.writes { "write" } else { "read" };
        let order = if self.random { "random" } else { "sequential" };
        alloc::format!("{way} {order} {}K {}t", self.request >> 10, self.threads)
    }

    /// Makes thread `index`'s share of the requests on a file of `bytes` bytes.
    pub fn run(&self, file: &mut impl Storage, bytes: u64, index: u64, buffer: &mut [u8]) {
        let count = bytes / self.request as u64 / self.threads;
        let first = index * count;
        let buffer = &mut buffer[..self.request];
        file.seek(first * self.request as u64);
        for step in 0..count {
            // An odd factor modulo a power of two: every request once, far from the one before.
            let at =
                (first + step.wrapping_mul(0x9e37_79b1) % count.next_power_of_two().min(count)) * self.request as u64;
            match (self.writes, self.random) {
                (false, false) => file.read(buffer),
                (false, true) => file.read_at(buffer, at),
                (true, false) => file.write(buffer),
                (true, true) => file.write_at(buffer, at),
            }
        }
    }
}
