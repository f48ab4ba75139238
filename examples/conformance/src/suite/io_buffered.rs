//! `BufReader`, `BufWriter`, `LineWriter`: what reaches the other side, and when.

use super::check;
use std::cell::RefCell;
use std::io::prelude::*;
use std::io::{self, BufReader, BufWriter, Cursor, ErrorKind, IoSlice, LineWriter, SeekFrom};
use std::rc::Rc;

/// Writes down every call; fails while `broken`.
#[derive(Clone, Debug, Default)]
struct Recorder {
    calls: Rc<RefCell<Vec<String>>>,
    broken: Rc<RefCell<bool>>,
}

impl Recorder {
    fn note(&self, call: String) -> io::Result<()> {
        self.calls.borrow_mut().push(call);
        if *self.broken.borrow() { Err(io::Error::other("the pipe broke")) } else { Ok(()) }
    }

    fn calls(&self) -> Vec<String> {
        self.calls.take()
    }
}

impl Write for Recorder {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.note(String::from_utf8_lossy(buf).into_owned())?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.note("(flush)".into())
    }
}

impl Seek for Recorder {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.note(format!("({to:?})"))?;
        Ok(42)
    }
}

/// Counts reads.
struct Counted<'a>(Cursor<&'a [u8]>, &'a RefCell<Vec<usize>>);

impl Read for Counted<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.1.borrow_mut().push(buf.len());
        self.0.read(buf)
    }
}

impl Seek for Counted<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.1.borrow_mut().push(1000);
        self.0.seek(to)
    }
}

pub(super) fn all() {
    readers();
    writers();
    failing_writers();
    line_writers();
}

fn readers() {
    let reads = RefCell::default();
    let mut reader = BufReader::with_capacity(4, Counted(Cursor::new(b"abcdefghijkl"), &reads));
    let mut two = [0; 2];
    check!(
        "reader_fills_its_buffer",
        (reader.read(&mut two).ok(), reader.buffer().to_vec(), reader.capacity(), reads.take())
    );
    check!("reader_gives_what_it_has", {
        let mut five = [0; 5];
        (reader.read(&mut five).ok(), five, reads.take())
    });
    check!("reader_passes_large_reads_on", {
        let mut six = [0; 6];
        (reader.read(&mut six).ok(), six, reads.take())
    });
    check!(
        "reader_at_the_end",
        (
            io::read_to_string(&mut reader).ok(),
            reader.fill_buf().map(<[u8]>::len).ok(),
            reader.into_inner().0.position()
        )
    );
    let mut reader = BufReader::with_capacity(4, Counted(Cursor::new(b"abcdefghijkl"), &reads));
    reads.take();
    check!(
        "reader_seek",
        (reader.read(&mut two).ok(), reader.seek(SeekFrom::Current(1)).ok(), reader.read(&mut two).ok(), two)
    );
    reads.take();
    check!("reader_seek_relative_within", {
        reader.rewind().ok();
        reader.read_exact(&mut two).ok();
        reads.take();
        (reader.seek_relative(-1).ok(), reader.read_exact(&mut two).ok(), two, reads.take())
    });
    check!("reader_seek_relative_beyond", { (reader.seek_relative(5).ok(), reader.read_exact(&mut two).ok(), two) });
    check!("reader_stream_position", (reader.stream_position().ok(), reader.buffer().len()));
    check!(
        "reader_lines",
        BufReader::with_capacity(3, Cursor::new("first\nsecond\r\n\nlast"))
            .lines()
            .map_while(Result::ok)
            .collect::<Vec<_>>()
    );
    check!("reader_read_exact", {
        let mut r = BufReader::with_capacity(2, &b"abcdef"[..]);
        let mut five = [0; 5];
        (r.read_exact(&mut five).ok(), five, r.read_exact(&mut five).map_err(|e| e.kind()))
    });
    check!("reader_has_data_left", {
        let mut r = BufReader::new(&b"x"[..]);
        (r.get_ref().len(), r.get_mut().len(), r.fill_buf().is_ok_and(|b| !b.is_empty()), r.get_ref().len())
    });
    check!("reader_debug", format!("{:?}", BufReader::with_capacity(8, io::empty())));
    check!("reader_of_dyn", {
        let r: &mut dyn BufRead = &mut BufReader::new(&b"a\nb"[..]);
        let mut line = String::new();
        (r.read_line(&mut line).ok(), line)
    });
}

fn writers() {
    let recorder = Recorder::default();
    let mut writer = BufWriter::with_capacity(8, recorder.clone());
    check!(
        "writer_waits",
        (writer.write(b"abc").ok(), writer.write(b"def").ok(), recorder.calls(), writer.buffer().to_vec())
    );
    check!("writer_makes_room", (writer.write(b"ghi").ok(), recorder.calls(), writer.buffer().to_vec()));
    check!(
        "writer_passes_large_writes_on",
        (writer.write(b"0123456789").ok(), recorder.calls(), writer.buffer().len())
    );
    check!("writer_full_to_the_brim", (writer.write(b"12345678").ok(), recorder.calls(), writer.buffer().len()));
    check!("writer_flushes", (writer.write(b"end").ok(), writer.flush().ok(), recorder.calls()));
    check!("writer_seeks", (writer.write(b"s").ok(), writer.seek(SeekFrom::Start(3)).ok(), recorder.calls()));
    check!("writer_formats", (write!(writer, "{}{:03}", 'x', 7).ok(), recorder.calls(), writer.capacity()));
    check!("writer_into_inner", (writer.into_inner().is_ok(), recorder.calls()));
    check!("writer_drops", {
        let mut writer = BufWriter::new(recorder.clone());
        writer.write_all(b"late").ok();
        let before = recorder.calls();
        drop(writer);
        (before, recorder.calls())
    });
    check!("writer_into_parts", {
        let mut writer = BufWriter::new(recorder.clone());
        writer.write_all(b"kept").ok();
        let (inner, rest) = writer.into_parts();
        (inner.calls(), rest.ok())
    });
    check!("writer_vectored", {
        let mut writer = BufWriter::with_capacity(4, Vec::new());
        writer.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"c")]).ok();
        writer.into_inner().ok()
    });
    check!("writer_debug", format!("{:?}", BufWriter::with_capacity(8, io::sink())));
}

fn failing_writers() {
    let recorder = Recorder::default();
    *recorder.broken.borrow_mut() = true;
    let mut writer = BufWriter::with_capacity(8, recorder.clone());
    check!("broken_write_is_buffered", (writer.write(b"abc").ok(), recorder.calls()));
    check!(
        "broken_flush_keeps",
        (writer.flush().map_err(|e| e.to_string()), writer.buffer().to_vec(), recorder.calls())
    );
    let error = writer.into_inner().unwrap_err();
    check!("broken_into_inner", (error.to_string(), error.error().kind(), recorder.calls()));
    let writer = error.into_inner();
    check!("broken_and_restored", {
        *recorder.broken.borrow_mut() = false;
        (writer.into_inner().is_ok(), recorder.calls())
    });
    *recorder.broken.borrow_mut() = true;
    let mut writer = BufWriter::new(recorder.clone());
    writer.write_all(b"x").ok();
    let (error, writer) = writer.into_inner().unwrap_err().into_parts();
    check!("broken_parts", (error.to_string(), writer.buffer().to_vec()));
    recorder.calls();
    drop(writer);
    check!("broken_drop_is_silent", recorder.calls());
    /// Takes nothing.
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Ok(0)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    check!("full", {
        let mut writer = BufWriter::new(Full);
        writer.write_all(b"x").ok();
        writer.flush().map_err(|e| (e.kind() == ErrorKind::WriteZero, e.to_string()))
    });
}

fn line_writers() {
    let recorder = Recorder::default();
    let mut lines = LineWriter::with_capacity(16, recorder.clone());
    check!("lines_wait", (lines.write(b"half a").ok(), recorder.calls()));
    check!("lines_leave", (lines.write(b" line\nand").ok(), recorder.calls()));
    check!("lines_together", (lines.write_all(b" one\ntwo\nrest").ok(), recorder.calls()));
    check!("lines_flush", (lines.flush().ok(), recorder.calls()));
    check!("lines_formatted", (writeln!(lines, "{}-{}", 1, 2).ok(), recorder.calls().concat()));
    check!(
        "lines_too_long",
        (lines.write_all(b"a text without an end, longer than the buffer").ok(), recorder.calls().concat().len())
    );
    check!("lines_drop", {
        drop(lines);
        recorder.calls()
    });
    check!("lines_into_inner", {
        let mut lines = LineWriter::new(Vec::new());
        lines.write_all(b"x\ny").ok();
        (lines.get_ref().clone(), lines.get_mut().len(), lines.into_inner().ok())
    });
    check!("lines_debug", format!("{:?}", LineWriter::with_capacity(8, io::sink())));
}
