//! Clients: those that ask the same again and again, on connections that stay, each waiting for its answer before it asks
//! anew; and those that come at their own pace.

use crate::harness::Result;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a load was answered; times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// The whole time divided by the number of answers.
    pub per_request: f64,
    /// Half of the answers took at most this.
    pub p50: f64,
    /// 99 of 100 took at most this.
    pub p99: f64,
}

/// A connection.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
        set.map_err(|error| error.to_string())?;
        Ok(Connection(BufReader::new(stream)))
    }

    /// Sends bytes; the answer may never be read.
    pub(crate) fn send(&mut self, request: &[u8]) -> Result<()> {
        self.0.get_mut().write_all(request).map_err(|error| format!("sending: {error}"))
    }

    /// The next answer: its status and body. Both servers of these measurements say how long their bodies are, or send
    /// them in chunks.
    pub(crate) fn answer(&mut self) -> Result<(u16, Vec<u8>)> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| format!("no answer, but {line:?}"))?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':') {
                None => break,
                Some(("content-length", value)) => {
                    length = value.trim().parse().map_err(|_| format!("no length: {value}"))?;
                }
                Some(("transfer-encoding", _)) => chunked = true,
                Some(_) => {}
            }
        }
        let mut body = Vec::new();
        loop {
            let part = if chunked {
                usize::from_str_radix(&self.line()?, 16).map_err(|error| error.to_string())?
            } else {
                length
            };
            let from = body.len();
            body.resize(from + part, 0);
            self.0.read_exact(&mut body[from..]).map_err(|error| format!("reading: {error}"))?;
            if !chunked {
                return Ok((status, body));
            }
            self.line()?;
            if part == 0 {
                return Ok((status, body));
            }
        }
    }

    /// Sends a request and reads its answer, which must be 200.
    fn ask(&mut self, request: &[u8]) -> Result<()> {
        self.send(request)?;
        match self.answer()? {
            (200, _) => Ok(()),
            (status, body) => Err(format!("{status}: {}", String::from_utf8_lossy(&body[..body.len().min(300)]))),
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => Err("the connection was closed".into()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(format!("reading: {error}")),
        }
    }
}

/// A request as bytes.
pub(crate) fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Sends one request, on a connection of its own.
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> Result<(u16, Vec<u8>)> {
    let mut connection = Connection::open(address)?;
    connection.send(&request(method, path, body))?;
    connection.answer()
}

/// So many clients ask so often each. An answer that is not 200 is an error.
pub(crate) fn load(address: SocketAddr, request: &[u8], clients: usize, each: usize) -> Result<Load> {
    let client = |_: usize| -> Result<Vec<f64>> {
        let mut connection = Connection::open(address)?;
        let mut times = Vec::with_capacity(each);
        for _ in 0..each {
            let begin = Instant::now();
            connection.ask(request)?;
            times.push(begin.elapsed().as_nanos() as f64);
        }
        Ok(times)
    };
    at_once(clients, client)
}

/// So many requests per second, each on a connection of its own and sent when it is due, whether others have been
/// answered or not. Times count from then.
pub(crate) fn open_loop(address: SocketAddr, request: &[u8], rate: usize, count: usize) -> Result<Load> {
    // When all clients are there.
    let begin = Instant::now() + Duration::from_millis(200);
    let client = |number: usize| -> Result<Vec<f64>> {
        let due = begin + Duration::from_secs(number as u64) / rate as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        Connection::open(address)?.ask(request)?;
        Ok(vec![due.elapsed().as_nanos() as f64])
    };
    at_once(count, client)
}

/// Runs clients, each on a thread of its own; their times together.
fn at_once(clients: usize, client: impl Fn(usize) -> Result<Vec<f64>> + Sync) -> Result<Load> {
    let client = &client;
    let begin = Instant::now();
    let mut times = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|number| scope.spawn(move || client(number))).collect();
        let times = clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Err("a client panicked".into())));
        times.collect::<Result<Vec<_>>>().map(|times| times.concat())
    })?;
    let whole = begin.elapsed().as_nanos() as f64;
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    Ok(Load { per_request: whole / times.len() as f64, p50: at(0.5), p99: at(0.99) })
}
