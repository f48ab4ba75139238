//! What a request costs at least in a server of our shape whatever it is written with: system calls on one thread, and next to nothing
//! between them. With processes there is one message to one of them for each request and one back; with none it answers by itself.
//!
//! ```text
//!   client ──HTTP── epoll ──message── one of some processes, which sends it back
//! ```
//!
//! Its HTTP is that of the clients of this benchmark: a request comes whole, by itself, and has no body.

use super::relay::{MESSAGE, process};
use crate::harness::Result;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// The answer, as long as ours.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\n\
    x-invocation-id: 00000000000000000000000000000000\r\n\
    x-call-id: 00000000000000000000000000000000\r\n\
    traceparent: 00-00000000000000000000000000000000-0000000000000000-00\r\n\
    x-cold-start: 0.000000\r\n\
    x-duration-seconds: 0.000000\r\n\
    content-length: 0\r\n\
    date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n";

/// As many events as are taken at once.
const EVENTS: usize = 64;

/// What may be ready to be read.
enum Source {
    Listener(TcpListener),
    Client(TcpStream),
    /// A process, and the client whose message it has.
    Process(UnixStream, usize),
}

/// Serves until it is killed, with so many processes; says first where it listens.
pub(super) fn serve(processes: usize) -> Result<f64> {
    let serve = || -> io::Result<()> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let (mut sources, mut waiting) = (Vec::new(), Vec::new());
        for number in 0..processes {
            let process = process()?;
            add(&epoll, &process, number)?;
            waiting.push(number);
            sources.push(Source::Process(process, 0));
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        println!("{}", listener.local_addr()?);
        add(&epoll, &listener, processes)?;
        sources.push(Source::Listener(listener));
        let mut events = [EpollEvent::empty(); EVENTS];
        loop {
            let ready = epoll.wait(&mut events, EpollTimeout::NONE)?;
            for event in &events[..ready] {
                let number = event.data() as usize;
                match &mut sources[number] {
                    Source::Listener(listener) => {
                        let (client, _) = listener.accept()?;
                        client.set_nodelay(true)?;
                        let number = sources.len();
                        add(&epoll, &client, number)?;
                        sources.push(Source::Client(client));
                    }
                    Source::Client(client) => {
                        // One that has gone away is no failure of the server's.
                        if client.read(&mut [0; 4096]).unwrap_or(0) == 0 {
                            epoll.delete(&*client)?;
                        } else if let Some(process) = waiting.pop() {
                            ask(&mut sources[process], number)?;
                        } else if processes == 0 {
                            let _ = client.write_all(ANSWER);
                        } else {
                            return Err(io::Error::other("there are more requests than processes"));
                        }
                    }
                    Source::Process(process, client) => {
                        process.read_exact(&mut [0; MESSAGE])?;
                        waiting.push(number);
                        let client = *client;
                        if let Source::Client(client) = &mut sources[client] {
                            let _ = client.write_all(ANSWER);
                        }
                    }
                }
            }
        }
    };
    serve().map(|()| 0.0).map_err(|error| format!("the bare relay: {error}"))
}

fn add(epoll: &Epoll, source: &impl AsFd, number: usize) -> io::Result<()> {
    Ok(epoll.add(source, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?)
}

/// Sends a process the message of this client.
fn ask(process: &mut Source, client: usize) -> io::Result<()> {
    if let Source::Process(process, asker) = process {
        *asker = client;
        process.write_all(&[7; MESSAGE])?;
    }
    Ok(())
}
