//! `io::stdin()`: what the test passes in is read to its end, in many ways.

use super::check;
use std::io::prelude::*;
use std::io::{self, Read};
use std::thread;

pub(super) fn all() {
    let mut line = String::from(">");
    check!("read_line", (io::stdin().read_line(&mut line).ok(), &line));
    check!("read_line_through_the_lock", {
        let mut line = String::new();
        (io::stdin().lock().read_line(&mut line).ok(), line)
    });
    check!("fill_and_consume", {
        let mut input = io::stdin().lock();
        let first = input.fill_buf().ok().and_then(|bytes| bytes.first().copied());
        input.consume(1);
        first
    });
    check!("read_exact", {
        let mut four = [0; 4];
        (io::stdin().read_exact(&mut four).ok(), four)
    });
    check!("read_by_reference", {
        let mut two = [0; 2];
        ((&io::stdin()).read(&mut two).ok(), two)
    });
    check!("rest_of_the_line", {
        let mut bytes = Vec::new();
        (io::stdin().lock().read_until(b'\n', &mut bytes).ok(), bytes)
    });
    check!("take", {
        let mut text = String::new();
        (io::stdin().lock().take(6).read_to_string(&mut text).ok(), text)
    });
    check!(
        "of_another_thread",
        thread::spawn(|| {
            let mut line = String::new();
            io::stdin().read_line(&mut line).map(|count| (count, line)).ok()
        })
        .join()
        .ok()
    );
    check!("lines", io::stdin().lines().take(2).map_while(Result::ok).collect::<Vec<_>>());
    check!(
        "bytes_and_chain",
        io::stdin().lock().chain(&b"!"[..]).bytes().take(3).map_while(Result::ok).collect::<Vec<_>>()
    );
    check!("read_to_string", io::read_to_string(io::stdin()).ok());
    check!("at_the_end", {
        let mut text = String::new();
        (io::stdin().read_line(&mut text).ok(), text, io::stdin().lines().count(), io::stdin().read(&mut [0; 3]).ok())
    });
    check!("read_exact_at_the_end", io::stdin().read_exact(&mut [0; 3]).map_err(|e| e.kind()));
    check!("debug", format!("{:?} {:?} {:?} {:?}", io::stdin(), io::stdin().lock(), io::stdout(), io::stderr().lock()));
}
