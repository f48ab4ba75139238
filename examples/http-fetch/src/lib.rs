//! Fetches a page over HTTP and hands its body on as the slot `body`. The head is read by the published crate `httparse`.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::error::Error;
use monohull_std::io::{Read, Write};
use monohull_std::net::TcpStream;
use monohull_std::prelude::*;
use monohull_std::println;
use monohull_std::slot::SlotBuffer;
use monohull_std::time::Duration;

/// The longest the server may keep silent.
const PATIENCE: Duration = Duration::from_secs(30);
/// Fields of an answer that are looked at.
const FIELDS: usize = 64;

#[monohull::main]
fn main(url: String) -> Result<(), Box<dyn Error>> {
    let (host, path) = parts(&url).ok_or("the URL is not of the form http://HOST[:PORT]/PATH")?;
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: monohull\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let (status, body) = split(&answer)?;
    println!("{url}: {status}, {} bytes", body.len());
    SlotBuffer::<[u8]>::with_slot_from("body", body).publish()?;
    Ok(())
}

/// Host with its port, and path.
fn parts(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("http://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let clean = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    (!host.is_empty() && clean(url)).then_some((host, if path.is_empty() { "/" } else { path }))
}

/// An answer's status and body.
fn split(answer: &[u8]) -> Result<(u16, &[u8]), Box<dyn Error>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(start) =
        head.parse(answer).map_err(|error| format!("the answer's head: {error}"))?
    else {
        return Err("the answer ends in its head".into());
    };
    let length = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|field| core::str::from_utf8(field.value).ok()?.trim().parse::<usize>().ok());
    let body = &answer[start..];
    match length {
        Some(length) if body.len() < length => Err(format!("{} of {length} bytes arrived", body.len()).into()),
        Some(length) => Ok((head.code.unwrap_or(0), &body[..length])),
        None => Ok((head.code.unwrap_or(0), body)),
    }
}
