// A walk through std::net over the loopback network, printing the same lines wherever it runs.
//
// `lib.rs` includes it as a function over monohull-std, `examples/network_with_std.rs` as a program over Rust's std. `visor/tests/e2e_network/tour.rs`
// compares what the two print: a program runs as a function without a change. A file that is included cannot have `//!`.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener, TcpStream,
    ToSocketAddrs, UdpSocket,
};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const HERE: &str = "127.0.0.1:0";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    echo()?;
    lines()?;
    half_close()?;
    bulk()?;
    peek()?;
    clones()?;
    options()?;
    nonblocking()?;
    timeouts()?;
    refusals()?;
    resets()?;
    shutdowns()?;
    incoming()?;
    many()?;
    datagrams()?;
    six()?;
    addresses()?;
    println!("end of the tour");
    Ok(())
}

/// The two ends of a connection: the one that connected, the one that was accepted.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(HERE)?;
    let address = listener.local_addr()?;
    let client = thread::spawn(move || TcpStream::connect(address));
    let (served, peer) = listener.accept()?;
    let client = client.join().unwrap()?;
    assert_eq!(client.local_addr()?, peer);
    assert_eq!(client.peer_addr()?, address);
    Ok((client, served))
}

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

fn echo() -> io::Result<()> {
    let (mut client, mut served) = pair()?;
    println!("local {} peer {}", client.local_addr()?.ip(), client.peer_addr()?.ip());
    let server = thread::spawn(move || -> io::Result<u64> { io::copy(&mut served.try_clone()?, &mut served) });
    for round in 0..3 {
        let said = format!("round {round}");
        client.write_all(said.as_bytes())?;
        let mut received = vec![0; said.len()];
        client.read_exact(&mut received)?;
        println!("echo: {}", String::from_utf8_lossy(&received));
    }
    client.shutdown(Shutdown::Write)?;
    println!("end: {}", client.read(&mut [0; 8])?);
    println!("echoed {} bytes", server.join().unwrap()?);
    Ok(())
}

fn lines() -> io::Result<()> {
    let (client, served) = pair()?;
    let server = thread::spawn(move || -> io::Result<()> {
        let mut out = &served;
        for line in BufReader::new(&served).lines() {
            writeln!(out, "{}", line?.to_uppercase())?;
        }
        Ok(())
    });
    let mut out = &client;
    out.write_all(b"one\ntwo\nthree")?;
    client.shutdown(Shutdown::Write)?;
    for line in BufReader::new(&client).lines() {
        println!("line: {}", line?);
    }
    server.join().unwrap()
}

fn half_close() -> io::Result<()> {
    let (mut client, mut served) = pair()?;
    client.write_all(b"question")?;
    client.shutdown(Shutdown::Write)?;
    let mut question = String::new();
    served.read_to_string(&mut question)?;
    served.write_all(b"answer after the end")?;
    drop(served);
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    println!("half-close: {question} / {answer}");
    Ok(())
}

fn bulk() -> io::Result<()> {
    const BYTES: usize = 8 << 20;
    let (mut client, mut served) = pair()?;
    let writer = thread::spawn(move || -> io::Result<()> {
        let block: Vec<u8> = (0..65_537u32).map(|n| (n % 251) as u8).collect();
        let mut left = BYTES;
        while left > 0 {
            let now = left.min(block.len());
            client.write_all(&block[..now])?;
            left -= now;
        }
        Ok(())
    });
    let (mut sum, mut count, mut place) = (0u64, 0, 0u64);
    let mut buffer = vec![0; 100_000];
    loop {
        let read = served.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        count += read;
        for byte in &buffer[..read] {
            place += 1;
            sum = sum.wrapping_mul(31).wrapping_add(u64::from(*byte) ^ place);
        }
    }
    writer.join().unwrap()?;
    println!("bulk: {count} bytes, sum {sum:x}");
    Ok(())
}

fn peek() -> io::Result<()> {
    let (mut client, mut served) = pair()?;
    client.write_all(b"look")?;
    let mut seen = [0; 4];
    while served.peek(&mut seen)? < 4 {}
    let mut taken = [0; 4];
    served.read_exact(&mut taken)?;
    println!("peek: {seen:?} {taken:?}");
    Ok(())
}

fn clones() -> io::Result<()> {
    let (client, mut served) = pair()?;
    let mut other = client.try_clone()?;
    drop(client);
    other.write_all(b"still open")?;
    drop(other);
    let mut text = String::new();
    served.read_to_string(&mut text)?;
    println!("clones: {text}");
    let listener = TcpListener::bind(HERE)?;
    let address = listener.local_addr()?;
    let clone = listener.try_clone()?;
    drop(listener);
    let client = thread::spawn(move || kind(TcpStream::connect(address)));
    clone.accept()?;
    println!("a clone accepts: {:?}", client.join().unwrap());
    Ok(())
}

fn options() -> io::Result<()> {
    let (client, _served) = pair()?;
    client.set_nodelay(true)?;
    print!("nodelay {}", client.nodelay()?);
    client.set_nodelay(false)?;
    println!(" {}", client.nodelay()?);
    client.set_ttl(42)?;
    println!("ttl {}", client.ttl()?);
    println!("timeouts {:?} {:?}", client.read_timeout()?, client.write_timeout()?);
    client.set_read_timeout(Some(Duration::from_secs(7)))?;
    client.set_write_timeout(Some(Duration::from_millis(1500)))?;
    println!("timeouts {:?} {:?}", client.read_timeout()?, client.write_timeout()?);
    client.set_read_timeout(None)?;
    println!("timeouts {:?} {:?}", client.read_timeout()?, client.write_timeout()?);
    println!("no time: {:?}", kind(client.set_read_timeout(Some(Duration::ZERO))));
    println!("no error: {:?}", client.take_error()?.map(|error| error.kind()));
    let socket = UdpSocket::bind(HERE)?;
    println!("broadcast {}", socket.broadcast()?);
    socket.set_broadcast(true)?;
    println!("broadcast {}", socket.broadcast()?);
    Ok(())
}

fn nonblocking() -> io::Result<()> {
    let (mut client, mut served) = pair()?;
    served.set_nonblocking(true)?;
    println!("nothing to read: {:?}", kind(served.read(&mut [0; 8])));
    client.write_all(b"x")?;
    served.set_nonblocking(false)?;
    println!("read {}", served.read(&mut [0; 8])?);
    client.set_nonblocking(true)?;
    let block = vec![7; 1 << 16];
    let mut taken = 0u64;
    let full = loop {
        match client.write(&block) {
            Ok(bytes) => taken += bytes as u64,
            Err(error) => break error.kind(),
        }
    };
    println!("full: {full:?} {}", taken > 0);
    drop(client);
    println!("all of it arrives: {}", io::copy(&mut served, &mut io::sink())? == taken);
    let listener = TcpListener::bind(HERE)?;
    listener.set_nonblocking(true)?;
    println!("no connection: {:?}", kind(listener.accept()));
    Ok(())
}

fn timeouts() -> io::Result<()> {
    let (client, _served) = pair()?;
    client.set_read_timeout(Some(Duration::from_millis(30)))?;
    let start = Instant::now();
    let why = kind((&client).read(&mut [0; 8]));
    println!("read: {why:?} {}", start.elapsed() >= Duration::from_millis(30));
    let socket = UdpSocket::bind(HERE)?;
    socket.set_read_timeout(Some(Duration::from_millis(30)))?;
    let start = Instant::now();
    let why = kind(socket.recv_from(&mut [0; 8]));
    println!("receive: {why:?} {}", start.elapsed() >= Duration::from_millis(30));
    Ok(())
}

fn refusals() -> io::Result<()> {
    let free = TcpListener::bind(HERE)?.local_addr()?;
    println!("connect: {:?}", kind(TcpStream::connect(free)));
    println!("connect in time: {:?}", kind(TcpStream::connect_timeout(&free, Duration::from_secs(5))));
    println!("in no time: {:?}", kind(TcpStream::connect_timeout(&free, Duration::ZERO)));
    let taken = TcpListener::bind(HERE)?;
    println!("bind: {:?}", kind(TcpListener::bind(taken.local_addr()?)));
    let taken = UdpSocket::bind(HERE)?;
    println!("bind: {:?}", kind(UdpSocket::bind(taken.local_addr()?)));
    println!("peer of a listener's: {:?}", kind(taken.peer_addr()));
    let none: &[SocketAddr] = &[];
    println!("no address: {:?}", kind(TcpStream::connect(none)));
    println!("no port: {:?}", kind(TcpStream::connect("127.0.0.1")));
    let both = [free, taken.local_addr()?];
    println!("none of two: {:?}", kind(TcpStream::connect(&both[..])));
    Ok(())
}

fn resets() -> io::Result<()> {
    let (mut client, served) = pair()?;
    // Closing with unread bytes resets the connection.
    client.write_all(b"unread")?;
    served.peek(&mut [0; 1])?;
    drop(served);
    println!("reset: {:?}", kind(client.read(&mut [0; 8])));
    let (mut client, served) = pair()?;
    drop(served);
    println!("end: {}", client.read(&mut [0; 8])?);
    let late = loop {
        match client.write_all(b"too late") {
            Ok(()) => thread::sleep(Duration::from_millis(1)),
            Err(error) => break error.kind(),
        }
    };
    println!("written without a reader: {late:?}");
    Ok(())
}

fn shutdowns() -> io::Result<()> {
    let (mut client, mut served) = pair()?;
    client.shutdown(Shutdown::Write)?;
    println!("write after the end: {:?}", kind(client.write(b"x")));
    println!("the peer reads {}", served.read(&mut [0; 8])?);
    client.shutdown(Shutdown::Read)?;
    println!("read after the end: {}", client.read(&mut [0; 8])?);
    let (client, mut served) = pair()?;
    let waiting = client.try_clone()?;
    let reader = thread::spawn(move || (&waiting).read(&mut [0; 8]));
    thread::sleep(Duration::from_millis(10));
    client.shutdown(Shutdown::Both)?;
    println!("who waited reads {}", reader.join().unwrap()?);
    println!("the peer reads {}", served.read(&mut [0; 8])?);
    Ok(())
}

fn incoming() -> io::Result<()> {
    let listener = TcpListener::bind(HERE)?;
    let address = listener.local_addr()?;
    let clients: Vec<_> = (0..3u8).map(|n| thread::spawn(move || TcpStream::connect(address)?.write_all(&[n]))).collect();
    let mut received = BTreeSet::new();
    for stream in listener.incoming().take(3) {
        let mut byte = [0];
        stream?.read_exact(&mut byte)?;
        received.insert(byte[0]);
    }
    for client in clients {
        client.join().unwrap()?;
    }
    println!("incoming: {received:?}");
    Ok(())
}

fn many() -> io::Result<()> {
    const CLIENTS: usize = 200;
    let listener = TcpListener::bind(HERE)?;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || -> io::Result<usize> {
        let mut open = Vec::new();
        for _ in 0..CLIENTS {
            open.push(listener.accept()?.0);
        }
        // All of them are open now.
        let handlers: Vec<_> = open
            .into_iter()
            .map(|mut stream| {
                thread::spawn(move || -> io::Result<()> {
                    let mut number = [0; 4];
                    stream.read_exact(&mut number)?;
                    stream.write_all(&(u32::from_le_bytes(number) * 2).to_le_bytes())
                })
            })
            .collect();
        let count = handlers.len();
        for handler in handlers {
            handler.join().unwrap()?;
        }
        Ok(count)
    });
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(TcpStream::connect(address)?);
    }
    let mut sum = 0;
    for (number, client) in clients.iter_mut().enumerate() {
        client.write_all(&(number as u32).to_le_bytes())?;
    }
    for client in &mut clients {
        let mut answer = [0; 4];
        client.read_exact(&mut answer)?;
        sum += u32::from_le_bytes(answer);
    }
    println!("many: {} served, sum {sum}", server.join().unwrap()?);
    Ok(())
}

fn datagrams() -> io::Result<()> {
    let (one, two) = (UdpSocket::bind(HERE)?, UdpSocket::bind(HERE)?);
    println!("sent {}", one.send_to(b"hello", two.local_addr()?)?);
    let mut room = [0; 16];
    let (bytes, from) = two.peek_from(&mut room)?;
    println!("peeked {bytes} from the right one: {}", from == one.local_addr()?);
    let (bytes, from) = two.recv_from(&mut room)?;
    println!("received {:?} {}", &room[..bytes], from == one.local_addr()?);
    two.send_to(b"back", from)?;
    println!("cut to {}", one.recv(&mut room[..2])?);
    one.connect(two.local_addr()?)?;
    println!("connected: {}", one.peer_addr()? == two.local_addr()?);
    one.send(b"")?;
    println!("empty: {}", two.recv(&mut room)?);
    one.send(&[1; 9000])?;
    println!("large: {}", two.recv(&mut vec![0; 10_000])?);
    println!("too large: {}", one.send(&[1; 70_000]).is_err());
    one.set_nonblocking(true)?;
    println!("none: {:?}", kind(one.recv(&mut room)));
    let (sender, receiver) = mpsc::channel();
    let clone = two.try_clone()?;
    let waiting = thread::spawn(move || {
        let mut room = [0; 16];
        sender.send(()).unwrap();
        clone.recv(&mut room)
    });
    receiver.recv().unwrap();
    one.send(b"wake")?;
    println!("woken: {}", waiting.join().unwrap()?);
    Ok(())
}

fn six() -> io::Result<()> {
    let listener = TcpListener::bind("[::1]:0")?;
    let address = listener.local_addr()?;
    let client = thread::spawn(move || -> io::Result<String> {
        let mut text = String::new();
        TcpStream::connect(address)?.read_to_string(&mut text)?;
        Ok(text)
    });
    let (mut stream, peer) = listener.accept()?;
    stream.write_all(b"over IPv6")?;
    drop(stream);
    println!("{} from {}", client.join().unwrap()?, peer.ip());
    let socket = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0))?;
    socket.send_to(b"x", socket.local_addr()?)?;
    println!("to itself: {}", socket.recv(&mut [0; 4])?);
    Ok(())
}

fn addresses() -> io::Result<()> {
    let shown = |what: &str, addresses: io::Result<Vec<SocketAddr>>| match addresses {
        Ok(addresses) => println!("{what}: {addresses:?}"),
        Err(error) => println!("{what}: {:?}", error.kind()),
    };
    let all = |text: &str| text.to_socket_addrs().map(Iterator::collect);
    shown("text", all("192.0.2.1:80"));
    shown("text", all("[2001:db8::1]:80"));
    shown("no port", all("192.0.2.1"));
    shown("no number", all("192.0.2.1:http"));
    shown("tuple", ("192.0.2.1", 8080).to_socket_addrs().map(Iterator::collect));
    shown("tuple", (IpAddr::from([1, 2, 3, 4]), 5).to_socket_addrs().map(Iterator::collect));
    shown("v4", SocketAddrV4::new(Ipv4Addr::new(1, 2, 3, 4), 5).to_socket_addrs().map(Iterator::collect));
    shown("v6", SocketAddrV6::new(Ipv6Addr::LOCALHOST, 5, 0, 0).to_socket_addrs().map(Iterator::collect));
    let local = ("localhost", 80).to_socket_addrs()?.any(|address| address.ip() == Ipv4Addr::LOCALHOST);
    println!("localhost: {local}");
    Ok(())
}
