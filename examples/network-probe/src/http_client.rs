//! A client that sends the bytes it is given, whether or not they are HTTP.

use monohull_std::io::{self, Read, Write};
use monohull_std::net::TcpStream;
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_std::time::Duration;

/// Sends these bytes, and reads what comes until the other side closes the connection, or as much as there is.
pub(crate) fn exchange(at: &str, text: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(at)?;
    stream.write_all(text.as_bytes())?;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    match read {
        Err(error) if answer.is_empty() => Err(error),
        // One line for any outcome.
        _ => Ok(format!("{:?}", String::from_utf8_lossy(&answer))),
    }
}

/// Sends these bytes, reads the beginning of what comes within so many milliseconds, and closes the connection.
pub(crate) fn close(at: &str, text: &str, patience: u64) -> io::Result<String> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(Duration::from_millis(patience)))?;
    stream.write_all(text.as_bytes())?;
    let mut room = [0; 64];
    let read = stream.read(&mut room)?;
    Ok(format!("closed after {:?}", String::from_utf8_lossy(&room[..read])))
}

/// Sends this head, then this many kilobytes of a body, and reads the answer.
pub(crate) fn upload(at: &str, head: &str, kilobytes: usize) -> io::Result<String> {
    let mut stream = TcpStream::connect(at)?;
    stream.write_all(head.as_bytes())?;
    for _ in 0..kilobytes {
        stream.write_all(&[b'x'; 1024])?;
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(format!("{:?}", String::from_utf8_lossy(&answer)))
}

/// What a connection says of itself.
pub(crate) fn ends(at: &str) -> io::Result<String> {
    let stream = TcpStream::connect(at)?;
    let before = (stream.nodelay()?, stream.ttl()?);
    stream.set_nodelay(true)?;
    stream.set_ttl(9)?;
    let after = (stream.nodelay()?, stream.ttl()?);
    let error = stream.take_error()?.map(|error| error.kind());
    Ok(format!("{} {} {before:?} {after:?} {error:?}", stream.local_addr()?, stream.peer_addr()?))
}

/// Connects until that is refused, closes all connections, and tries until one can be had again.
pub(crate) fn many(at: &str) -> io::Result<String> {
    let mut open = Vec::new();
    let error = loop {
        match TcpStream::connect(at) {
            Ok(stream) => open.push(stream),
            Err(error) => break error.kind(),
        }
    };
    let count = open.len();
    drop(open);
    while let Err(again) = TcpStream::connect(at) {
        if again.kind() != error {
            return Err(again);
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(format!("{count} connections, then {error:?}, then another"))
}
