//! An ordinary Rust program for `wasm32-wasip2` that uses sockets. Its argument `--questions=` has words, each with an address or a name.
//!
//! It knows nothing of Monohull. Each line says what was asked and what came of it, so that a test can compare.
#![forbid(unsafe_code)]

mod states;

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let questions = arguments.iter().find_map(|argument| argument.strip_prefix("--questions=")).expect("questions");
    for question in questions.split(' ') {
        let (what, at) = question.split_once('=').expect("WHAT=WHERE");
        let answer = match what {
            "server" => server(at),
            "serve" => serve(at),
            "echo" => echo(at),
            "client" => client(at),
            "much" => much(at),
            "timeout" => timeout(at),
            "connect" => TcpStream::connect(at).map(|_| "connected".to_owned()),
            "listen" => TcpListener::bind(at).map(|_| "listening".to_owned()),
            "udp" => udp(at),
            "datagram" => datagram(at),
            "name" => name(at),
            "addresses" => addresses(at),
            "states" if at == "tcp" => states::tcp().map_err(Error::other),
            "states" if at == "six" => states::six().map_err(Error::other),
            "states" => states::others().map_err(Error::other),
            _ => panic!("no such question: {what}"),
        };
        match answer {
            Ok(answer) => println!("{what}: {answer}"),
            Err(error) => println!("{what}: {:?}", error.kind()),
        }
    }
}

/// A server and its two clients: what each client receives, and what a server without one does.
fn server(at: &str) -> Result<String> {
    let listener = TcpListener::bind(at)?;
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let without = listener.accept().map(drop).map_err(|error| error.kind());
    listener.set_nonblocking(false)?;
    let mut clients = [TcpStream::connect(address)?, TcpStream::connect(address)?];
    let mut heard = Vec::new();
    for (client, word) in clients.iter_mut().zip(["one", "two"]) {
        let (mut accepted, from) = listener.accept()?;
        assert_eq!(from, accepted.peer_addr()?);
        assert_eq!(from, client.local_addr()?);
        assert_eq!(client.peer_addr()?, address);
        client.write_all(word.as_bytes())?;
        client.shutdown(Shutdown::Write)?;
        let mut text = String::new();
        accepted.read_to_string(&mut text)?;
        accepted.write_all(text.to_uppercase().as_bytes())?;
        drop(accepted);
        let mut text = String::new();
        client.read_to_string(&mut text)?;
        heard.push(text);
    }
    Ok(format!("{without:?}, then {heard:?}"))
}

/// A server for one client of others: who that is, as the client is told too, and what it says.
fn serve(at: &str) -> Result<String> {
    let listener = TcpListener::bind(at)?;
    println!("serve: listening at {}", listener.local_addr()?);
    let (mut accepted, from) = listener.accept()?;
    assert_eq!(from, accepted.peer_addr()?);
    let mut text = String::new();
    accepted.read_to_string(&mut text)?;
    accepted.write_all(format!("{} from {from}", text.to_uppercase()).as_bytes())?;
    Ok(text)
}

/// Sends a datagram of others back.
fn echo(at: &str) -> Result<String> {
    let socket = UdpSocket::bind(at)?;
    println!("echo: bound to {}", socket.local_addr()?);
    let mut buffer = [0; 2000];
    let (length, from) = socket.recv_from(&mut buffer)?;
    socket.send_to(&buffer[..length], from)?;
    Ok(format!("{length} bytes"))
}

/// Says something to an echo, and ends.
fn client(at: &str) -> Result<String> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_nonblocking(true)?;
    let early = stream.read(&mut [0; 8]).map_err(|error| error.kind());
    stream.set_nonblocking(false)?;
    stream.write_all(b"hello")?;
    let mut text = [0; 5];
    stream.read_exact(&mut text)?;
    stream.shutdown(Shutdown::Write)?;
    let end = stream.read(&mut [0; 8])?;
    Ok(format!("{early:?}, then {:?}, then {end}", String::from_utf8_lossy(&text)))
}

/// Sends more than a connection holds to what reads late, and is told how much that was.
fn much(at: &str) -> Result<String> {
    let mut stream = TcpStream::connect(at)?;
    stream.write_all(&vec![7; 8 << 20])?;
    stream.shutdown(Shutdown::Write)?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Connects, or not, within a time.
fn timeout(at: &str) -> Result<String> {
    let address: SocketAddr = at.parse().expect("an address");
    TcpStream::connect_timeout(&address, Duration::from_secs(60)).map(|_| "in time".to_owned())
}

/// Two sockets for datagrams.
fn udp(at: &str) -> Result<String> {
    let (one, two) = (UdpSocket::bind(at)?, UdpSocket::bind(at)?);
    two.set_nonblocking(true)?;
    let early = two.recv(&mut [0; 8]).map_err(|error| error.kind());
    two.set_nonblocking(false)?;
    one.send_to(b"ping", two.local_addr()?)?;
    let mut buffer = [0; 8];
    let (length, from) = two.recv_from(&mut buffer)?;
    assert_eq!((from, &buffer[..length]), (one.local_addr()?, &b"ping"[..]));
    one.connect(two.local_addr()?)?;
    two.send_to(b"pong", from)?;
    let length = one.recv(&mut buffer)?;
    Ok(format!("{early:?}, then {}", String::from_utf8_lossy(&buffer[..length])))
}

/// A datagram to an echo.
fn datagram(to: &str) -> Result<String> {
    let socket = UdpSocket::bind(if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.send_to(b"ping", to)?;
    let mut buffer = [0; 8];
    let (length, _) = socket.recv_from(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// The addresses of a name, if there are any.
fn name(name: &str) -> Result<String> {
    let found: Vec<SocketAddr> = (name, 80).to_socket_addrs()?.collect();
    let is_loopback = !found.is_empty() && found.iter().all(|address| address.ip().is_loopback());
    if is_loopback { Ok("loopback".to_owned()) } else { Err(ErrorKind::NotFound.into()) }
}

/// All addresses of a name, in order.
fn addresses(name: &str) -> Result<String> {
    let mut found: Vec<String> = (name, 80).to_socket_addrs()?.map(|address| address.ip().to_string()).collect();
    found.sort_unstable();
    Ok(found.join(" "))
}
