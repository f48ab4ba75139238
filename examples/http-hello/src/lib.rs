//! Answers HTTP requests: the slot `request` holds one, and the slot `response` gets the answer. The head is read by the published
//! crate `httparse`.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotError, SlotVec};

/// Fields of a request that are looked at.
const FIELDS: usize = 128;

#[monohull::main]
fn main() -> Result<(), SlotError> {
    let message = SlotBuffer::<[u8]>::from_slot("request")?;
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let mut answer = SlotVec::<u8>::with_slot("response");
    match head.parse(&message) {
        Ok(httparse::Status::Complete(length)) => reply(&head, &message[length..], &mut answer),
        _ => text("400 Bad Request", "that is no request\n", &mut answer),
    }
    answer.publish()
}

/// Answers a request with this content.
fn reply(head: &httparse::Request<'_, '_>, content: &[u8], answer: &mut SlotVec<u8>) {
    let target = head.path.unwrap_or_default();
    match (head.method.unwrap_or_default(), target.split('?').next().unwrap_or_default()) {
        ("GET" | "HEAD", "/") => text("200 OK", "hello\n", answer),
        ("GET", "/request") => {
            let mut seen = format!("{target}\n");
            for field in head.headers.iter() {
                seen += &format!("{}: {}\n", field.name, String::from_utf8_lossy(field.value));
            }
            text("200 OK", &seen, answer);
        }
        ("POST", "/echo") => {
            answer.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n\r\n");
            answer.extend_from_slice(content);
        }
        // The content is the answer, whatever it is.
        ("POST", "/answer") => answer.extend_from_slice(content),
        (_, "/" | "/request" | "/echo" | "/answer") => text("405 Method Not Allowed", "not so\n", answer),
        _ => text("404 Not Found", "there is nothing\n", answer),
    }
}

/// Answers with a text.
fn text(status: &str, text: &str, answer: &mut SlotVec<u8>) {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n\r\n");
    answer.extend_from_slice(head.as_bytes());
    answer.extend_from_slice(text.as_bytes());
}
