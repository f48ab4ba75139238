//! The provided methods of `Read`, `BufRead`, `Write` and `Seek`, over readers and writers with whims.

use super::check;
use std::io::prelude::*;
use std::io::{self, Cursor, Error, ErrorKind, IoSlice, IoSliceMut, SeekFrom};

/// Gives its text in pieces of one to three bytes, and is interrupted before every second piece.
struct Hesitant<'a> {
    text: &'a [u8],
    calls: usize,
}

impl<'a> Hesitant<'a> {
    fn new(text: &'a str) -> Hesitant<'a> {
        Hesitant { text: text.as_bytes(), calls: 0 }
    }
}

impl Read for Hesitant<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls % 2 == 0 {
            return Err(ErrorKind::Interrupted.into());
        }
        let most = (self.calls % 3 + 1).min(buf.len());
        self.text.read(&mut buf[..most])
    }
}

/// Takes three bytes at a time, `room` in all.
#[derive(Default)]
struct Narrow {
    taken: Vec<u8>,
    room: usize,
    flushed: usize,
}

impl Write for Narrow {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let count = buf.len().min(3).min(self.room - self.taken.len());
        self.taken.extend_from_slice(&buf[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed += 1;
        Ok(())
    }
}

/// Breaks after its text.
struct Broken<'a>(&'a [u8]);

impl Read for Broken<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() { Err(Error::other("broken")) } else { self.0.read(buf) }
    }
}

fn kind<T>(result: io::Result<T>) -> Result<T, (ErrorKind, String)> {
    result.map_err(|error| (error.kind(), error.to_string()))
}

pub(super) fn all() {
    reading();
    adapters();
    lines();
    writing();
    copying();
    seeking();
}

fn reading() {
    let mut all = vec![b'>'];
    check!("read_to_end", (Hesitant::new("a few words").read_to_end(&mut all).ok(), String::from_utf8(all)));
    let mut text = String::from(">");
    check!("read_to_string", (Hesitant::new("grüße").read_to_string(&mut text).ok(), &text));
    check!("read_to_string_of_other_bytes", (kind((&b"ok\xff"[..]).read_to_string(&mut text)), &text));
    check!("read_to_end_keeps_what_came_before_an_error", {
        let mut all = Vec::new();
        (kind(Broken(b"half").read_to_end(&mut all)), all)
    });
    check!("read_to_string_before_an_error", {
        let mut text = String::new();
        (kind(Broken(b"half").read_to_string(&mut text)), text)
    });
    let mut five = [0; 5];
    check!("read_exact", (kind(Hesitant::new("seven!!").read_exact(&mut five)), five));
    check!("read_exact_too_little", (kind(Hesitant::new("four").read_exact(&mut five)), five));
    check!("read_exact_of_a_slice", {
        let mut slice = &b"abc"[..];
        (kind(slice.read_exact(&mut five)), slice)
    });
    check!("read_exact_of_nothing", kind(Broken(b"").read_exact(&mut [])));
    check!(
        "io_read_to_string",
        (io::read_to_string(Hesitant::new("all")).ok(), kind(io::read_to_string(&b"\xff"[..])))
    );
    check!("read_vectored", {
        let (mut a, mut b) = ([0; 2], [0; 4]);
        let n = (&b"abcdefgh"[..]).read_vectored(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)]);
        (n.ok(), a, b)
    });
    check!("read_vectored_by_default", {
        let (mut a, mut b) = ([0; 0], [0; 4]);
        let n = Hesitant::new("abc").read_vectored(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)]);
        (n.ok(), b)
    });
    check!("slices_of_vectors", {
        let mut bytes = *b"abcd";
        let mut slice = IoSliceMut::new(&mut bytes);
        slice.advance(1);
        slice[0] = b'X';
        (slice.len(), bytes, IoSlice::new(b"xy").to_vec())
    });
}

fn adapters() {
    check!("bytes", Hesitant::new("abc").bytes().map(|byte| byte.ok()).collect::<Vec<_>>());
    check!("bytes_with_an_error", Broken(b"a").bytes().take(3).map(kind).collect::<Vec<_>>());
    check!("chain", {
        let mut chain = (&b"ab"[..]).chain(&b"cd"[..]);
        let text = io::read_to_string(&mut chain);
        (text.ok(), chain.get_ref().0.len(), chain.into_inner().1.len())
    });
    check!("chain_as_buffer", {
        let mut chain = (&b"a\nb"[..]).chain(&b"c\n"[..]);
        let mut lines = Vec::new();
        while chain.read_until(b'\n', &mut lines).is_ok_and(|n| n > 0) {
            lines.push(b'|');
        }
        String::from_utf8(lines)
    });
    let mut take = (&b"abcdef"[..]).take(4);
    check!("take", {
        let mut two = [0; 2];
        (take.read(&mut two).ok(), take.limit(), two)
    });
    take.set_limit(3);
    check!(
        "take_set_limit",
        (io::read_to_string(&mut take).ok(), take.limit(), take.get_mut().len(), take.into_inner())
    );
    check!("take_as_buffer", {
        let mut take = (&b"abcdef"[..]).take(3);
        take.consume(1);
        let seen = take.fill_buf().map(<[u8]>::to_vec).ok();
        take.consume(9);
        (seen, take.limit())
    });
    check!("take_nothing_of_broken", kind(Broken(b"").take(0).read(&mut [0; 4])));
    check!("by_ref", {
        let mut reader = &b"abcdef"[..];
        let mut two = Vec::new();
        reader.by_ref().take(2).read_to_end(&mut two).ok();
        (two, reader)
    });
    check!("dyn_and_boxed", {
        let mut reader: Box<dyn Read> = Box::new(Cursor::new("box"));
        let mut text = String::new();
        (reader.read_to_string(&mut text).ok(), text)
    });
    check!("mut_reference", {
        let mut reader = Cursor::new("xyz");
        let mut one = [0];
        Read::read(&mut &mut reader, &mut one).ok();
        (one, reader.position())
    });
}

fn lines() {
    check!("lines", Cursor::new("a\r\nb\n\nc\rd").lines().map_while(Result::ok).collect::<Vec<_>>());
    check!("lines_of_other_bytes", Cursor::new(b"ok\n\xff\nend").lines().map(kind).collect::<Vec<_>>());
    let mut reader = Cursor::new("one\ntwo");
    let mut line = String::from("<");
    check!(
        "read_line",
        (reader.read_line(&mut line).ok(), reader.read_line(&mut line).ok(), reader.read_line(&mut line).ok(), line)
    );
    check!("read_line_of_other_bytes", {
        let mut text = String::from("kept");
        (kind(Cursor::new(b"\xff\n").read_line(&mut text)), text)
    });
    check!(
        "split",
        Cursor::new("a,b,,c").split(b',').map_while(Result::ok).map(|piece| piece.len()).collect::<Vec<_>>()
    );
    check!("read_until", {
        let mut reader = Cursor::new("ab;cd");
        let mut bytes = Vec::new();
        (
            reader.read_until(b';', &mut bytes).ok(),
            reader.read_until(b';', &mut bytes).ok(),
            reader.read_until(b';', &mut bytes).ok(),
            bytes,
        )
    });
    check!("skip_until", {
        let mut reader = Cursor::new("ab;cd");
        (reader.skip_until(b';').ok(), io::read_to_string(reader).ok())
    });
    check!("fill_and_consume", {
        let mut reader = &b"abc"[..];
        let seen = reader.fill_buf().map(<[u8]>::len).ok();
        reader.consume(2);
        (seen, reader)
    });
}

fn writing() {
    let mut narrow = Narrow { room: 8, ..Narrow::default() };
    check!("write_all", (kind(narrow.write_all(b"abcdefg")), kind(narrow.write_all(b"hi")), &narrow.taken));
    let mut narrow = Narrow { room: 5, ..Narrow::default() };
    check!("write_fmt", (kind(write!(narrow, "{}-{}", 1, 2)), kind(write!(narrow, "{:>5}", 3)), &narrow.taken));
    check!("write_vectored_by_default", {
        let mut narrow = Narrow { room: 9, ..Narrow::default() };
        (narrow.write_vectored(&[IoSlice::new(b""), IoSlice::new(b"ab"), IoSlice::new(b"cd")]).ok(), narrow.taken)
    });
    check!("write_vectored_to_vec", {
        let mut all = Vec::new();
        (all.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]).ok(), all)
    });
    check!("by_ref_and_flush", {
        let mut narrow = Narrow { room: 9, ..Narrow::default() };
        writeln!(narrow.by_ref(), "x").ok();
        narrow.by_ref().flush().ok();
        (narrow.taken, narrow.flushed)
    });
    check!("dyn", {
        let mut all: Vec<u8> = Vec::new();
        let writer: &mut dyn Write = &mut all;
        writer.write_all(b"dyn").ok();
        write!(writer, "{}", 1).ok();
        all
    });
    check!("advance_slices", {
        let (a, b) = (*b"abc", *b"def");
        let mut slices = [IoSlice::new(&a), IoSlice::new(&b)];
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, 4);
        (rest.len(), rest[0].to_vec())
    });
}

fn copying() {
    let mut all = Vec::new();
    check!("copy", (io::copy(&mut Hesitant::new("copied in pieces"), &mut all).ok(), String::from_utf8(all)));
    check!("copy_of_much", {
        let mut sink = io::sink();
        io::copy(&mut io::repeat(7).take(100_000), &mut sink).ok()
    });
    check!("copy_to_a_narrow_writer", {
        let mut narrow = Narrow { room: 4, ..Narrow::default() };
        (kind(io::copy(&mut &b"abcdef"[..], &mut narrow)), narrow.taken)
    });
    check!("copy_from_broken", {
        let mut all = Vec::new();
        (kind(io::copy(&mut Broken(b"half"), &mut all)), all)
    });
    check!(
        "empty",
        (
            io::empty().read(&mut [0; 3]).ok(),
            io::read_to_string(io::empty()).ok(),
            io::empty().lines().count(),
            io::empty().write(b"gone").ok(),
            io::empty().seek(SeekFrom::End(-3)).ok()
        )
    );
    check!("repeat", {
        let mut three = [0; 3];
        (io::repeat(b'r').read(&mut three).ok(), three, io::repeat(1).read_exact(&mut three).is_ok())
    });
    check!(
        "sink",
        (io::sink().write(b"abc").ok(), write!(io::sink(), "{}", 1).is_ok(), (&io::sink()).write(b"x").ok())
    );
    check!("debug", format!("{:?} {:?} {:?}", io::empty(), io::sink(), io::repeat(1)));
}

fn seeking() {
    let mut cursor = Cursor::new([0u8; 10]);
    check!(
        "seek",
        [SeekFrom::Start(4), SeekFrom::Current(-2), SeekFrom::End(-1), SeekFrom::End(5), SeekFrom::Current(0)]
            .map(|to| cursor.seek(to).ok())
    );
    check!(
        "seek_before_the_start",
        (kind(cursor.seek(SeekFrom::Current(-16))), kind(cursor.seek(SeekFrom::End(-11))), cursor.position())
    );
    check!(
        "seek_too_far",
        kind(cursor.seek(SeekFrom::Start(u64::MAX)).and_then(|_| cursor.seek(SeekFrom::Current(1))))
    );
    cursor.set_position(3);
    check!(
        "rewind",
        (
            cursor.stream_position().ok(),
            cursor.seek_relative(4).ok(),
            cursor.stream_position().ok(),
            cursor.rewind().ok(),
            cursor.position()
        )
    );
    check!("seek_of_take", {
        let mut take = Cursor::new("abcdefgh").take(5);
        let mut two = [0; 2];
        (take.read(&mut two).ok(), take.seek(SeekFrom::Start(1)).ok(), io::read_to_string(&mut take).ok())
    });
    check!("seek_from", (SeekFrom::End(-2), SeekFrom::Start(1) == SeekFrom::Start(1)));
}
