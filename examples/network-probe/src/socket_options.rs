//! Options of sockets, as they are set and as they are read again, and what some of them do.

use monohull_std::io::{self, ErrorKind, Read, Write};
use monohull_std::net::{TcpListener, TcpStream, UdpSocket};
use monohull_std::prelude::*;
use monohull_std::time::Duration;
use monohull_std::{println, thread};

/// One line with all of them.
pub(crate) fn options(at: &str) -> io::Result<String> {
    let (mut stream, datagrams) = (TcpStream::connect(at)?, UdpSocket::bind("0.0.0.0:0")?);
    let first = (stream.nodelay()?, stream.keepalive()?, datagrams.broadcast()?);
    stream.set_nodelay(true)?;
    stream.set_ttl(9)?;
    stream.set_keepalive(Some(Duration::from_secs(7)))?;
    datagrams.set_broadcast(true)?;
    let then = (stream.nodelay()?, stream.ttl()?, stream.keepalive()?, datagrams.broadcast()?);
    stream.set_nodelay(false)?;
    stream.set_keepalive(None)?;
    let last = (stream.nodelay()?, stream.keepalive()?);
    stream.read_to_end(&mut Vec::new())?;
    Ok(format!("{first:?} {then:?} {last:?}"))
}

/// The ports of both connections, of the one that is kept alive first, and then how each ended.
pub(crate) fn keep_alive(at: &str, seconds: u64) -> io::Result<String> {
    let (mut kept, mut other) = (TcpStream::connect(at)?, TcpStream::connect(at)?);
    kept.set_keepalive(Some(Duration::from_secs(seconds)))?;
    println!("{} {}", kept.local_addr()?.port(), other.local_addr()?.port());
    println!("kept alive: {:?}", kept.read(&mut [0]).map_err(|error| error.kind()));
    Ok(format!("the other: {:?}", other.read(&mut [0]).map_err(|error| error.kind())))
}

/// Nothing waits: neither a listener, nor a reader, nor a writer whose peer does not read.
pub(crate) fn non_blocking(at: &str) -> io::Result<String> {
    let (listener, datagrams) = (TcpListener::bind("0.0.0.0:0")?, UdpSocket::bind("0.0.0.0:0")?);
    let mut stream = TcpStream::connect(at)?;
    listener.set_nonblocking(true)?;
    datagrams.set_nonblocking(true)?;
    stream.set_nonblocking(true)?;
    let kinds = [
        listener.accept().map(drop).map_err(|error| error.kind()),
        datagrams.recv(&mut [0]).map(drop).map_err(|error| error.kind()),
        stream.read(&mut [0]).map(drop).map_err(|error| error.kind()),
    ];
    let piece = vec![7; 1 << 16];
    let mut written = 0;
    while let Some(bytes) = unless_it_would_wait(stream.write(&piece))? {
        written += bytes;
    }
    // From here on the peer reads, and answers as much.
    println!("{kinds:?}, written {written}");
    let (mut room, mut read) = (vec![0; 1 << 16], 0);
    while read < written {
        match unless_it_would_wait(stream.read(&mut room))? {
            Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Some(bytes) => read += bytes,
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
    Ok(format!("read {read}"))
}

fn unless_it_would_wait(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        other => other.map(Some),
    }
}
