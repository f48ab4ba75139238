//! A CGI program that answers with the lines of its request's body, sorted as numbers.
//!
//! Compiled by the benchmark itself, as a static program that links nothing but std.

#[path = "../../examples/kernels/src/sort.rs"]
#[allow(dead_code, reason = "one thread needs a part of it")]
mod sort;

extern crate alloc;

use std::error::Error;
use std::io::{Read, Write, stdin, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let length: u64 = std::env::var("CONTENT_LENGTH")?.parse()?;
    let mut text = Vec::with_capacity(length as usize);
    stdin().lock().take(length).read_to_end(&mut text)?;
    let mut numbers = Vec::with_capacity(sort::newlines(&text) as usize + 1);
    sort::parse(&text, 1, |value| numbers.push(value))?;
    numbers.sort_unstable();
    let size = sort::text_len(&numbers);
    let mut answer = Vec::with_capacity(size + 100);
    write!(answer, "Content-Type: text/plain\r\nContent-Length: {size}\r\n\r\n")?;
    numbers.iter().for_each(|value| answer.extend_from_slice(sort::line(*value, &mut [0; sort::DIGITS + 1])));
    Ok(stdout().lock().write_all(&answer)?)
}
