//! A server for names, after RFC 1035: it knows one host, and a text that is too long for a datagram.
//!
//! ```text
//!   question  | number (2) flags (2) counts (4 × 2) | name: labels, 0 | kind (2) class (2) | … what it adds is passed over
//!   answer    | the same                                              | the name again, kind, class, time, length, data
//! ```

use monohull_std::io::{self, ErrorKind, Read, Write};
use monohull_std::net::{TcpListener, TcpStream, UdpSocket};
use monohull_std::prelude::*;
use monohull_std::{println, thread};

/// The one host that there is.
const HOST: &[u8] = b"\x03www\x04test\0";
const ADDRESS4: [u8; 4] = [192, 0, 2, 4];
const ADDRESS6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4];
/// Strings of its text, and letters of each.
const TEXTS: usize = 20;
const LETTERS: u8 = 200;
const HEADER: usize = 12;
const KIND_A: u16 = 1;
const KIND_TXT: u16 = 16;
const KIND_AAAA: u16 = 28;

/// Over TCP each message has its length in front.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Udp,
    Tcp,
}

/// Serves until it is ended; says where, and which kinds it was asked for.
pub(crate) fn run(at: &str) -> io::Result<String> {
    let (datagrams, listener) = (UdpSocket::bind(at)?, TcpListener::bind(at)?);
    println!("{}", listener.local_addr()?);
    thread::spawn(move || serve_datagrams(&datagrams));
    for stream in listener.incoming() {
        // A client that leaves early, or speaks another protocol, does not affect the others.
        let _ = serve_stream(stream?);
    }
    Ok("no more questions come".into())
}

fn serve_datagrams(socket: &UdpSocket) -> io::Result<()> {
    let mut room = [0; 512];
    loop {
        let (bytes, from) = socket.recv_from(&mut room)?;
        if let Some(answer) = answer(&room[..bytes], Over::Udp) {
            socket.send_to(&answer, from)?;
        }
    }
}

fn serve_stream(mut stream: TcpStream) -> io::Result<()> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut question = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut question)?;
    let answer = answer(&question, Over::Tcp).ok_or(ErrorKind::InvalidData)?;
    stream.write_all(&(answer.len() as u16).to_be_bytes())?;
    stream.write_all(&answer)
}

/// `None` for what is no question.
fn answer(message: &[u8], over: Over) -> Option<Vec<u8>> {
    let mut end = HEADER;
    while *message.get(end)? != 0 {
        end += 1 + usize::from(message[end]);
    }
    let (name, kind) = (message.get(HEADER..=end)?, message.get(end + 1..end + 5)?);
    let data = match u16::from_be_bytes([kind[0], kind[1]]) {
        _ if name != HOST => Vec::new(),
        KIND_A => ADDRESS4.to_vec(),
        KIND_AAAA => ADDRESS6.to_vec(),
        KIND_TXT => [&[LETTERS][..], &[b'x'; LETTERS as usize]].concat().repeat(TEXTS),
        _ => Vec::new(),
    };
    println!("{} over {}", u16::from_be_bytes([kind[0], kind[1]]), if over == Over::Udp { "UDP" } else { "TCP" });
    let cut = over == Over::Udp && data.len() > 400;
    // An authoritative answer; it may be truncated, and it may say that there is no such host.
    let flags = [0x84 | u8::from(cut) << 1 | message[2] & 1, if name == HOST { 0 } else { 3 }];
    let mut answer = [&message[..2], &flags, &[0, 1, 0, 0, 0, 0, 0, 0], &message[HEADER..end + 5]].concat();
    if !data.is_empty() && !cut {
        answer[7] = 1;
        answer.extend([0xc0, HEADER as u8]);
        answer.extend(kind);
        answer.extend([0, 0, 0, 60]);
        answer.extend((data.len() as u16).to_be_bytes());
        answer.extend(data);
    }
    Some(answer)
}
