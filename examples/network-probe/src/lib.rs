//! Asks for the network, and prints the outcome of each request as a line: for tests, and to find out what a
//! workflow may reach.
#![no_std]
#![deny(unsafe_code)]

mod http_client;
mod iperf3;
mod name_server;
mod socket_options;

use monohull_std::io::{self, ErrorKind, Read, Write};
use monohull_std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use monohull_std::prelude::*;
use monohull_std::time::{Duration, Instant};
use monohull_std::{println, thread};
use serde::Deserialize;

/// One question.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Question {
    /// Connect, and read everything.
    Read(String),
    /// Listen, and be gone.
    Listen(String),
    /// Bind a UDP socket, and be gone.
    Bind(String),
    /// Send a datagram from an address to another.
    Send(String, String),
    /// Send a datagram, and wait this many milliseconds for one.
    Ask(String, u64),
    /// The same, again and again until one comes.
    AskAgain(String, u64),
    /// Send a datagram, and acknowledge each that comes, in so many threads on one socket. A thread ends with the datagram `end`.
    AskMany(String, usize),
    /// Answer one datagram that arrives at this address.
    Answer(String),
    /// Send every datagram back that arrives at this address, until one says that it is the end.
    Echo(String),
    /// The addresses of a name.
    Resolve(String),
    /// Listen at an address until the listener may have no more connections.
    Flood(String),
    /// Listen, say where, and hold as many connections at once; then answer each with its number.
    Serve(String, usize),
    /// Connect, send this many bytes, wait for the end; says how long it took.
    Push(String, u64),
    /// Connect, read to the end; says how long it took.
    Pull(String),
    /// Connect, send this text, read to the end.
    Exchange(String, String),
    /// Connect, send this text, read the beginning of what comes within so many milliseconds, and close the connection.
    Close(String, String, u64),
    /// Connect, send this text and so many kilobytes, read to the end.
    Upload(String, String, usize),
    /// Connect, and ask for addresses and options of the connection.
    Ends(String),
    /// Connect until that is refused.
    Many(String),
    /// Measure with an iperf3 server, this many bytes: sent, or received if that is wanted.
    Iperf3(String, u64, bool),
    /// Connect and wait for an answer that never comes.
    Wait(String),
    /// Answer questions for names at this address, over UDP and TCP, until it is ended.
    NameServer(String),
    /// Connect, set options and say what they are then; wait for the end.
    Options(String),
    /// Connect twice, once to be kept alive after so many seconds of silence; wait for the end of both.
    KeepAlive(String, u64),
    /// Connect, and never wait in a call: write what fits, then read until the end, and say how much each was.
    NonBlocking(String),
    /// Connect, and say how everything fails once the network is gone.
    Outlive(String),
}

#[monohull::main]
fn main(questions: Vec<Question>) {
    for question in questions {
        let answer = match &question {
            Question::Read(at) => read(at),
            Question::Listen(at) => TcpListener::bind(&**at).map(|_| "listened".into()),
            Question::Bind(at) => UdpSocket::bind(&**at).map(|_| "bound".into()),
            Question::Send(from, to) => send(from, to),
            Question::Ask(to, patience) => ask(to, *patience),
            Question::AskAgain(to, patience) => ask_again(to, *patience),
            Question::AskMany(to, threads) => ask_many(to, *threads),
            Question::Answer(at) => answer(at),
            Question::Echo(at) => echo(at),
            Question::Resolve(name) => resolve(name),
            Question::Flood(at) => flood(at),
            Question::Serve(at, count) => serve(at, *count),
            Question::Push(at, bytes) => push(at, *bytes),
            Question::Pull(at) => pull(at),
            Question::Exchange(at, text) => http_client::exchange(at, text),
            Question::Close(at, text, patience) => http_client::close(at, text, *patience),
            Question::Upload(at, text, kilobytes) => http_client::upload(at, text, *kilobytes),
            Question::Ends(at) => http_client::ends(at),
            Question::Many(at) => http_client::many(at),
            Question::Iperf3(at, bytes, reverse) => iperf3::run(at, *bytes, *reverse),
            Question::NameServer(at) => name_server::run(at),
            Question::Options(at) => socket_options::options(at),
            Question::KeepAlive(at, seconds) => socket_options::keep_alive(at, *seconds),
            Question::NonBlocking(at) => socket_options::non_blocking(at),
            Question::Outlive(at) => outlive(at),
            Question::Wait(at) => TcpStream::connect(&**at).and_then(|mut stream| {
                println!("connected");
                stream.read(&mut [0]).map(|bytes| format!("{bytes} bytes"))
            }),
        };
        match answer {
            Ok(answer) => println!("{answer}"),
            Err(error) => println!("{:?}: {error}", error.kind()),
        }
    }
}

fn read(at: &str) -> io::Result<String> {
    let mut text = String::new();
    TcpStream::connect(at)?.read_to_string(&mut text)?;
    Ok(text)
}

fn send(from: &str, to: &str) -> io::Result<String> {
    let bytes = UdpSocket::bind(from)?.send_to(b"question", to)?;
    Ok(format!("sent {bytes}"))
}

fn ask(to: &str, patience: u64) -> io::Result<String> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(Duration::from_millis(patience)))?;
    socket.send_to(b"question", to)?;
    let mut room = [0; 64];
    match socket.recv_from(&mut room) {
        Ok((bytes, from)) => Ok(format!("{} from {from}", String::from_utf8_lossy(&room[..bytes]))),
        Err(error) if room == [0; 64] => Err(error),
        Err(error) => Ok(format!("{error}, but the bytes are here: {}", String::from_utf8_lossy(&room))),
    }
}

fn ask_many(to: &str, threads: usize) -> io::Result<String> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    socket.send_to(b"question", to)?;
    let receive = |socket: &UdpSocket| -> io::Result<usize> {
        let mut room = [0; 64];
        for taken in 0.. {
            let (bytes, from) = socket.recv_from(&mut room)?;
            socket.send_to(b"ack", from)?;
            if &room[..bytes] == b"end" {
                return Ok(taken);
            }
        }
        unreachable!("fewer are ever sent")
    };
    let taken: io::Result<Vec<usize>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| receive(&socket))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    Ok(format!("took {}", taken?.iter().sum::<usize>()))
}

fn answer(at: &str) -> io::Result<String> {
    let socket = UdpSocket::bind(at)?;
    println!("{}", socket.local_addr()?);
    let mut room = [0; 64];
    let (bytes, from) = socket.recv_from(&mut room)?;
    socket.send_to(b"answer", from)?;
    Ok(String::from_utf8_lossy(&room[..bytes]).into_owned())
}

fn echo(at: &str) -> io::Result<String> {
    let socket = UdpSocket::bind(at)?;
    println!("{}", socket.local_addr()?);
    let mut room = [0; 64];
    for echoed in 0.. {
        let (bytes, from) = socket.recv_from(&mut room)?;
        if &room[..bytes] == b"end" {
            return Ok(format!("echoed {echoed}"));
        }
        socket.send_to(&room[..bytes], from)?;
    }
    unreachable!("fewer are ever sent")
}

/// Sends a datagram again and again until one comes back: somewhere on the way they are lost.
fn ask_again(to: &str, patience: u64) -> io::Result<String> {
    let unspecified = if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(unspecified)?;
    socket.set_read_timeout(Some(Duration::from_millis(patience)))?;
    let mut room = [0; 64];
    for asked in 1.. {
        socket.send_to(b"question", to)?;
        match socket.recv_from(&mut room) {
            Ok((bytes, from)) => {
                return Ok(format!("{} from {from} after {asked}", String::from_utf8_lossy(&room[..bytes])));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("fewer are ever asked")
}

fn outlive(at: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(at)?;
    let listener = TcpListener::bind("0.0.0.0:0")?;
    let datagrams = UdpSocket::bind("0.0.0.0:0")?;
    println!("ready");
    let mut room = [0; 64];
    let results: [(&str, io::Result<()>); 9] = [
        // This one waits for it to go.
        ("recv_from", datagrams.recv_from(&mut room).map(drop)),
        ("recv", datagrams.recv(&mut room).map(drop)),
        ("send_to", datagrams.send_to(b"question", at).map(drop)),
        ("write", stream.write(b"question").map(drop)),
        ("read", stream.read(&mut room).map(drop)),
        ("accept", listener.accept().map(drop)),
        ("connect", TcpStream::connect(at).map(drop)),
        ("bind", UdpSocket::bind("0.0.0.0:0").map(drop)),
        ("lookup", resolve("www.test").map(drop)),
    ];
    for (what, came) in results {
        println!("{what}: {:?}", came.map_err(|error| error.kind()));
    }
    Ok("it goes on".into())
}

fn resolve(name: &str) -> io::Result<String> {
    let addresses: Vec<_> = (name, 0).to_socket_addrs()?.map(|address| address.ip().to_string()).collect();
    Ok(addresses.join(" "))
}

fn flood(at: &str) -> io::Result<String> {
    let listener = TcpListener::bind(at)?;
    let address = listener.local_addr()?;
    let mut open = Vec::new();
    loop {
        match TcpStream::connect(address).and_then(|client| Ok((client, listener.accept()?))) {
            Ok(pair) => open.push(pair),
            Err(error) => return Ok(format!("{} pairs, then {:?}: {error}", open.len(), error.kind())),
        }
    }
}

/// Bytes in one piece.
const PIECE: usize = 256 << 10;

fn push(at: &str, mut left: u64) -> io::Result<String> {
    let piece = vec![7; PIECE];
    let mut stream = TcpStream::connect(at)?;
    let (start, bytes) = (Instant::now(), left);
    while left > 0 {
        left -= stream.write(&piece[..left.min(PIECE as u64) as usize])? as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    // The other side closes when it has read everything.
    stream.read(&mut [0])?;
    Ok(format!("pushed {bytes} bytes in {} ns", start.elapsed().as_nanos()))
}

fn pull(at: &str) -> io::Result<String> {
    let mut piece = vec![0; PIECE];
    let mut stream = TcpStream::connect(at)?;
    let (start, mut bytes) = (Instant::now(), 0);
    loop {
        match stream.read(&mut piece)? as u64 {
            0 => break,
            read => bytes += read,
        }
    }
    Ok(format!("pulled {bytes} bytes in {} ns", start.elapsed().as_nanos()))
}

fn serve(at: &str, count: usize) -> io::Result<String> {
    let listener = TcpListener::bind(at)?;
    println!("{}", listener.local_addr()?);
    let open = listener.incoming().take(count).collect::<io::Result<Vec<_>>>()?;
    let threads: Vec<_> = (0..)
        .zip(open)
        .map(|(number, mut stream): (u32, TcpStream)| thread::spawn(move || write!(stream, "{number}")))
        .collect();
    for thread in threads {
        thread.join().expect("it does not panic")?;
    }
    Ok(format!("served {count}"))
}
