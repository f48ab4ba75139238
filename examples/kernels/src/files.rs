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

/// Bytes of the requests with which files are made longer, and then read.
pub const REQUESTS: [usize; 2] = [4 << 10, 1 << 20];

/// Writes an empty file up to `bytes` bytes.
pub fn append(file: &mut impl Storage, bytes: u64, request: &[u8]) {
    (0..bytes / request.len() as u64).for_each(|_| file.write(request));
}

/// Writes two empty files by turns, up to `bytes` bytes together: each lies in pieces between those of the other.
pub fn alternate(files: [&mut impl Storage; 2], bytes: u64, request: &[u8]) {
    let [one, other] = files;
    for _ in 0..bytes / 2 / request.len() as u64 {
        one.write(request);
        other.write(request);
    }
}

/// Reads a file of `bytes` bytes from its start.
pub fn read_all(file: &mut impl Storage, bytes: u64, request: &mut [u8]) {
    file.seek(0);
    (0..bytes / request.len() as u64).for_each(|_| file.read(request));
}

/// What is measured of files that are made: figures by their names. `make` makes an empty one with a name, `remove` removes it, and
/// `time` returns nanoseconds since a fixed moment.
pub fn growth<F: Storage>(
    bytes: u64,
    mut make: impl FnMut(&str) -> F,
    mut remove: impl FnMut(&str),
    time: impl Fn() -> f64,
    mut report: impl FnMut(&str, f64),
) {
    for request in REQUESTS {
        let buffer = alloc::vec![1; request];
        for again in ["", " again"] {
            let mut file = make("grows");
            let start = time();
            append(&mut file, bytes, &buffer);
            drop(file);
            report(
                &alloc::format!("append {}K{again}", request >> 10),
                (time() - start) / (bytes / request as u64) as f64,
            );
            remove("grows");
        }
    }
    let (mut one, mut other) = (make("one"), make("other"));
    alternate([&mut one, &mut other], bytes, &[1; 4 << 10]);
    for request in REQUESTS {
        let mut buffer = alloc::vec![0; request];
        // Once to have everything in place, then in earnest.
        read_all(&mut one, bytes / 2, &mut buffer);
        let start = time();
        read_all(&mut one, bytes / 2, &mut buffer);
        let per = (bytes / 2 / request as u64) as f64;
        report(&alloc::format!("read in pieces {}K", request >> 10), (time() - start) / per);
    }
    drop((one, other));
    remove("one");
    remove("other");
}

/// The names of the figures of [`growth`], and bytes of a request of each.
pub fn growth_names() -> Vec<(alloc::string::String, usize)> {
    let name = |what: &str, request: usize, again: &str| (alloc::format!("{what} {}K{again}", request >> 10), request);
    let appended = REQUESTS.iter().flat_map(|request| ["", " again"].map(|again| name("append", *request, again)));
    appended.chain(REQUESTS.iter().map(|request| name("read in pieces", *request, ""))).collect()
}
