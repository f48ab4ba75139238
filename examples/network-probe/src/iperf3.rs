//! A client of iperf3's server: one stream, so many bytes, in either direction.
//!
//! ```text
//!   control   cookie ▶  ◀ 9: parameters?  JSON ▶  ◀ 10: streams!         ◀ 1, 2: go  4: done ▶  ◀ 13: JSON ▶ ◀ JSON  ◀ 14  16 ▶
//!   stream                                          connect, cookie ▶       bytes
//! ```
//!
//! A state is a byte, a JSON document has its length in front of it, in four bytes, the most significant first.

use monohull_std::io::{self, ErrorKind, Read, Write};
use monohull_std::net::TcpStream;
use monohull_std::prelude::*;
use monohull_std::time::Instant;

/// What a client calls itself: 36 characters and a zero.
const COOKIE: &[u8; 37] = b"monohull-monohull-monohull-monohull-\0";
const TEST_START: u8 = 1;
const TEST_RUNNING: u8 = 2;
const TEST_END: u8 = 4;
const PARAM_EXCHANGE: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const EXCHANGE_RESULTS: u8 = 13;
const DISPLAY_RESULTS: u8 = 14;
const IPERF_DONE: u8 = 16;
/// The longest answer that is read.
const ANSWER_MAX: usize = 1 << 20;

/// Sends bytes, or receives them; what the server says of it, as JSON. A server counts what it has read when the message of the
/// end arrives, so it may miss what was sent last: iperf3's own client is no different.
pub(crate) fn run(server: &str, bytes: u64, reverse: bool) -> io::Result<String> {
    let mut control = TcpStream::connect(server)?;
    control.write_all(COOKIE)?;
    expect(&mut control, PARAM_EXCHANGE)?;
    let way = if reverse { ",\"reverse\":true" } else { "" };
    let len = super::PIECE;
    say(&mut control, &format!("{{\"tcp\":true,\"omit\":0,\"num\":{bytes},\"parallel\":1,\"len\":{len}{way}}}"))?;
    expect(&mut control, CREATE_STREAMS)?;
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(COOKIE)?;
    expect(&mut control, TEST_START)?;
    expect(&mut control, TEST_RUNNING)?;
    let start = Instant::now();
    let mut piece = vec![7; len];
    let mut done = 0;
    while done < bytes {
        done += match reverse {
            true => match stream.read(&mut piece)? as u64 {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => read,
            },
            false => stream.write(&piece[..(bytes - done).min(len as u64) as usize])? as u64,
        };
    }
    let seconds = start.elapsed().as_secs_f64();
    control.write_all(&[TEST_END])?;
    expect(&mut control, EXCHANGE_RESULTS)?;
    let stream = format!(
        "{{\"id\":1,\"bytes\":{done},\"retransmits\":-1,\"jitter\":0,\"errors\":0,\"packets\":0,\
         \"start_time\":0,\"end_time\":{seconds}}}"
    );
    say(
        &mut control,
        &format!(
            "{{\"cpu_util_total\":0,\"cpu_util_user\":0,\"cpu_util_system\":0,\"sender_has_retransmits\":-1,\
             \"streams\":[{stream}]}}"
        ),
    )?;
    let answer = receive(&mut control)?;
    expect(&mut control, DISPLAY_RESULTS)?;
    control.write_all(&[IPERF_DONE])?;
    Ok(format!("{done} bytes; the server says {answer}"))
}

fn expect(control: &mut TcpStream, state: u8) -> io::Result<()> {
    let mut said = [0];
    control.read_exact(&mut said)?;
    match said == [state] {
        true => Ok(()),
        false => Err(io::Error::new(ErrorKind::InvalidData, format!("the server said {}, not {state}", said[0]))),
    }
}

fn say(control: &mut TcpStream, document: &str) -> io::Result<()> {
    control.write_all(&(document.len() as u32).to_be_bytes())?;
    control.write_all(document.as_bytes())
}

fn receive(control: &mut TcpStream) -> io::Result<String> {
    let mut len = [0; 4];
    control.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len) as usize;
    if len > ANSWER_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut document = vec![0; len];
    control.read_exact(&mut document)?;
    // One line for any outcome.
    Ok(String::from_utf8_lossy(&document).split_whitespace().collect())
}
