//! `Cursor`, and readers and writers that are slices, vectors and queues.

use super::check;
use std::collections::VecDeque;
use std::io::prelude::*;
use std::io::{Cursor, ErrorKind, IoSlice, SeekFrom};

fn kind<T>(result: std::io::Result<T>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind())
}

pub(super) fn all() {
    let mut cursor = Cursor::new(Vec::new());
    check!("cursor_grows", (write!(cursor, "hull-{}", 7).ok(), cursor.position(), cursor.get_ref().len()));
    cursor.set_position(2);
    check!(
        "cursor_overwrites",
        (cursor.write(b"LLLLLLLL").ok(), String::from_utf8_lossy(cursor.get_ref()).into_owned())
    );
    cursor.set_position(12);
    check!("cursor_fills_a_gap", (cursor.write(b"z").ok(), cursor.get_ref()));
    check!("cursor_of_nothing_written_past_the_end", {
        let mut c = Cursor::new(vec![1]);
        c.set_position(5);
        (c.write(b"").ok(), c.into_inner())
    });
    check!("cursor_of_borrowed_vec", {
        let mut v = vec![1, 2];
        let mut c = Cursor::new(&mut v);
        c.seek(SeekFrom::End(0)).ok();
        c.write_all(&[3]).ok();
        v
    });
    check!("cursor_of_slice", {
        let mut bytes = [0; 4];
        let mut c = Cursor::new(&mut bytes[..]);
        (kind(c.write_all(b"abc")), kind(c.write_all(b"de")), c.position(), bytes)
    });
    check!("cursor_of_array_and_box", {
        let mut a = Cursor::new([0; 2]);
        let mut b = Cursor::new(vec![0; 2].into_boxed_slice());
        (a.write(b"xyz").ok(), b.write(b"q").ok(), a.into_inner(), b.into_inner())
    });
    check!("cursor_past_the_end", {
        let mut c = Cursor::new("abc");
        c.set_position(9);
        (c.read(&mut [0; 2]).ok(), c.fill_buf().map(<[u8]>::len).ok(), kind(c.read_exact(&mut [0])), c.position())
    });
    check!("cursor_reads", {
        let mut c = Cursor::new("abcdef");
        let mut four = [0; 4];
        (c.read(&mut four).ok(), c.read(&mut four).ok(), c.read(&mut four).ok(), four)
    });
    check!("cursor_read_exact_too_little", {
        let mut c = Cursor::new("abc");
        (kind(c.read_exact(&mut [0; 5])), c.position())
    });
    check!("cursor_read_to_string", {
        let mut c = Cursor::new("grüße");
        c.set_position(2);
        let mut text = String::new();
        (c.read_to_string(&mut text).ok(), text, c.position())
    });
    check!("cursor_read_to_string_within_a_character", {
        let mut c = Cursor::new("grüße");
        c.set_position(3);
        let mut text = String::from("k");
        (kind(c.read_to_string(&mut text)), text)
    });
    check!("cursor_vectored", {
        let mut c = Cursor::new(Vec::new());
        (c.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"c")]).ok(), c.into_inner())
    });
    check!("cursor_traits", {
        let c = Cursor::new(vec![1]);
        (c.clone() == c, Cursor::<Vec<u8>>::default(), format!("{c:?}"))
    });
    check!("cursor_split", Cursor::new("abcd").take(2).bytes().count());
    check!("slice_reader", {
        let mut s = &b"abc"[..];
        let mut two = [0; 2];
        (s.read(&mut two).ok(), s, s.read(&mut two).ok(), s.read(&mut two).ok())
    });
    check!("slice_writer", {
        let mut bytes = [0; 4];
        let mut s = &mut bytes[..];
        (s.write(b"abc").ok(), kind(s.write_all(b"de")), s.len(), bytes)
    });
    check!("slice_read_to_string", {
        let mut text = String::new();
        let mut s = &b"\xff"[..];
        (kind(s.read_to_string(&mut text)), text, s.len())
    });
    check!("vec_writer", {
        let mut v = vec![1];
        (v.write(&[2, 3]).ok(), v.flush().is_ok(), v)
    });
    let mut queue: VecDeque<u8> = b"abc".iter().copied().collect();
    queue.rotate_left(1);
    check!("queue", {
        let mut two = [0; 2];
        queue.write_all(b"d").ok();
        (queue.read(&mut two).ok(), queue.len())
    });
    check!("queue_to_end", {
        let mut all = Vec::new();
        (queue.write(b"ef").ok(), queue.read_to_end(&mut all).ok(), all.len(), queue.is_empty())
    });
    check!("queue_as_buffer", {
        let mut q = VecDeque::from(*b"x\ny");
        let mut line = String::new();
        (q.read_line(&mut line).ok(), line, q.len(), kind(q.read_exact(&mut [0; 3])), q.len())
    });
}
