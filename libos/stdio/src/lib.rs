//! Libos module: standard output and error, as whole lines that carry the name of their writer.
//!
//! Bytes collect per instance and stream until a newline completes them, so that lines of different instances never
//! mix. A call takes at most [`LINE_MAX`] bytes, as POSIX's `write` may: whatever length a caller claims, nothing
//! here grows with it.
//!
//! ```text
//!  STDIO_WRITE "ab\ncd" ─▶ line "ab"      [cd          ]
//!  STDIO_WRITE "ef\n"   ─▶ line "cdef"    [            ]
//!  STDIO_FLUSH, end     ─▶ what is there, as a line
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use monohull_abi::module::{Call, Ending, Released};
pub use monohull_abi::types::LINE_MAX;
use monohull_abi::user::UserSlice;
use monohull_abi::{Errno, number};
use monohull_module::record::{RecordsRef, Refused, fields, rise};
use monohull_module::{FutexMutex, HostRef, Module, module};
use serde::{Deserialize, Serialize};

/// Standard output and standard error.
const STREAMS: core::ops::RangeInclusive<u64> = 1..=2;

/// The unfinished lines of one domain.
pub struct Stdio {
    host: HostRef,
    unfinished: FutexMutex<BTreeMap<Stream, Arc<FutexMutex<Vec<u8>>>>>,
}

/// One output stream of one instance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Stream {
    instance: u32,
    number: u32,
}

module! {
    Stdio {
        number::STDIO_WRITE => Stdio::write,
        number::STDIO_FLUSH => Stdio::flush,
    }
}

impl Module for Stdio {
    const NAME: &'static str = "stdio";

    fn start(host: HostRef) -> Option<Stdio> {
        Some(Stdio { host, unfinished: FutexMutex::new(BTreeMap::new()) })
    }

    fn ended(&self, instance: u32, _: Ending) -> Released {
        for number in STREAMS {
            let stream = Stream { instance, number: number as u32 };
            self.finish(stream);
            self.unfinished.lock().remove(&stream);
        }
        Released::InputsIntact
    }

    fn save(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        let lines = self.unfinished.lock();
        let lines = lines.iter().map(|(stream, line)| (*stream, line.lock().clone()));
        let lines: Vec<(Stream, Vec<u8>)> = lines.filter(|(_, line)| !line.is_empty()).collect();
        records.write(&lines)
    }

    fn restore(&self, _version: u32, record: &[u8], records: RecordsRef<'_>) -> Result<(), Refused> {
        let lines: Vec<(Stream, &[u8])> = fields(record)?;
        rise(lines.iter().map(|(stream, _)| *stream), "the streams")?;
        let live = records.instances();
        let mut unfinished = self.unfinished.lock();
        for (stream, line) in lines {
            let Stream { instance, number } = stream;
            if !live.contains(&instance) || !STREAMS.contains(&number.into()) {
                return Err(Refused::new(format_args!("there is no stream {number} of instance {instance}")));
            }
            if line.len() > LINE_MAX || line.contains(&b'\n') {
                let why = format_args!("{} bytes are no unfinished line of stream {number}", line.len());
                return Err(Refused::of(instance, why));
            }
            unfinished.insert(stream, Arc::new(FutexMutex::new(line.to_vec())));
        }
        Ok(())
    }
}

impl Stdio {
    fn write(&self, call: &mut Call) -> Result<u64, Errno> {
        let [_, address, len, ..] = call.args;
        let stream = self.stream(call)?;
        let mut copy = [MaybeUninit::uninit(); LINE_MAX];
        let copy = UserSlice::<u8>::new(address, len)
            .check(self.host.raw(), call)
            .and_then(|bytes| bytes.read_at(0, &mut copy[..bytes.len().min(LINE_MAX)]))
            .map_err(|refusal| self.host.explain(call, refusal.into(), format_args!("the text to write: {refusal}")))?;
        self.append(stream, copy);
        Ok(copy.len() as u64)
    }

    fn flush(&self, call: &mut Call) -> Result<u64, Errno> {
        let stream = self.stream(call)?;
        self.finish(stream);
        Ok(0)
    }

    fn stream(&self, call: &Call) -> Result<Stream, Errno> {
        let number = call.args[0];
        if STREAMS.contains(&number) {
            return Ok(Stream { instance: call.instance, number: number as u32 });
        }
        let why = format_args!("{number} is no output stream; 1 is standard output, 2 standard error");
        Err(self.host.explain(call, Errno::Invalid, why))
    }

    /// Sends the lines that `bytes` completes and keeps the rest.
    fn append(&self, stream: Stream, bytes: &[u8]) {
        let line = self.unfinished.lock().entry(stream).or_default().clone();
        // The stream's own lock is held while its lines are sent, so that they are sent in the order in which they were
        // written. Their reader may be slow; only this stream's writers wait for it.
        let start = &mut *line.lock();
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let rest = lines.next_back().unwrap_or_default();
        for line in lines {
            self.extend(stream, start, line);
            self.host.line(stream.instance, stream.number, start);
            start.clear();
        }
        self.extend(stream, start, rest);
    }

    /// Adds to a line, which is sent in pieces if it gets too long.
    fn extend(&self, stream: Stream, line: &mut Vec<u8>, mut more: &[u8]) {
        loop {
            let fits = more.len().min(LINE_MAX - line.len());
            line.extend_from_slice(&more[..fits]);
            more = &more[fits..];
            if more.is_empty() {
                return;
            }
            // A character that is cut is the next piece's.
            let rest = line.split_off(line.len() - cut_character(line));
            self.host.line(stream.instance, stream.number, line);
            *line = rest;
        }
    }

    /// Sends an unfinished line. The stream stays: another thread may be about to write to it.
    fn finish(&self, stream: Stream) {
        let line = self.unfinished.lock().get(&stream).cloned();
        let Some(line) = line else { return };
        let rest = &mut *line.lock();
        if !rest.is_empty() {
            self.host.line(stream.instance, stream.number, rest);
            rest.clear();
        }
    }
}

/// Bytes at the end that are the beginning of a character of UTF-8 which is not complete.
fn cut_character(bytes: &[u8]) -> usize {
    let is_first = |byte: &u8| byte & 0b1100_0000 != 0b1000_0000;
    let Some(behind) = bytes.iter().rev().take(3).position(is_first) else { return 0 };
    let width = match bytes[bytes.len() - 1 - behind].leading_ones() {
        ones @ 2..=4 => ones as usize,
        _ => 1,
    };
    if behind + 1 < width { behind + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_abi::layout::{ARENA_BASE, CELL_SIZE, cell_base};
    use monohull_module_testing::Domain;
    use proptest::prelude::*;
    use std::string::{String, ToString};
    use std::vec;

    const OUT: u64 = 1;

    fn write(domain: &Domain, instance: u32, stream: u64, text: &str) -> i64 {
        let address = domain.place(instance, text.as_bytes());
        domain.call(instance, number::STDIO_WRITE, [stream, address, text.len() as u64, 0, 0, 0])
    }

    fn texts(domain: &Domain) -> Vec<String> {
        domain.take_lines().into_iter().map(|(_, _, text)| text).collect()
    }

    #[test]
    fn lines_leave_when_they_are_complete() {
        let domain = Domain::start(&MONOHULL_MODULE);
        assert_eq!(write(&domain, 1, OUT, "ab\n\ncd"), 6);
        assert_eq!(texts(&domain), ["ab", ""]);
        assert_eq!(write(&domain, 1, OUT, "ef\n"), 3);
        assert_eq!(texts(&domain), ["cdef"]);
    }

    #[test]
    fn instances_and_streams_do_not_mix() {
        let domain = Domain::start(&MONOHULL_MODULE);
        write(&domain, 1, OUT, "one ");
        write(&domain, 2, OUT, "two ");
        write(&domain, 1, 2, "error ");
        write(&domain, 1, OUT, "more\n");
        write(&domain, 2, OUT, "more\n");
        write(&domain, 1, 2, "more\n");
        let lines = domain.take_lines();
        let expected = [(1, 1, "one more"), (2, 1, "two more"), (1, 2, "error more")];
        assert_eq!(lines, expected.map(|(instance, stream, text)| (instance, stream, text.to_string())));
    }

    #[test]
    fn an_unfinished_line_leaves_by_flush_and_at_the_end() {
        let domain = Domain::start(&MONOHULL_MODULE);
        write(&domain, 1, OUT, "who? ");
        assert_eq!(domain.call(1, number::STDIO_FLUSH, [OUT, 0, 0, 0, 0, 0]), 0);
        assert_eq!(texts(&domain), ["who? "]);
        domain.call(1, number::STDIO_FLUSH, [OUT, 0, 0, 0, 0, 0]);
        write(&domain, 1, 2, "bye");
        assert!(domain.end(1, Ending::Failed));
        assert_eq!(domain.take_lines(), [(1, 2, "bye".to_string())]);
        assert!(domain.end(1, Ending::Done));
        assert_eq!(texts(&domain), [""; 0]);
    }

    #[test]
    fn a_long_line_leaves_in_pieces() {
        let domain = Domain::start(&MONOHULL_MODULE);
        let text = "x".repeat(20_000) + "\n";
        let mut rest = &text[..];
        while !rest.is_empty() {
            let taken = write(&domain, 1, OUT, rest);
            assert!(taken > 0 && taken <= LINE_MAX as i64);
            rest = &rest[taken as usize..];
        }
        let lengths: Vec<usize> = texts(&domain).iter().map(String::len).collect();
        assert_eq!(lengths, vec![LINE_MAX, LINE_MAX, 20_000 - 2 * LINE_MAX]);
    }

    /// Pieces end between characters, however many bytes those have, and what is no character is cut anywhere.
    #[test]
    fn no_character_is_divided() {
        for (character, width) in [("x", 1), ("\u{e4}", 2), ("\u{20ac}", 3), ("\u{1f6a2}", 4)] {
            for before in LINE_MAX - 5..=LINE_MAX + 1 {
                let domain = Domain::start(&MONOHULL_MODULE);
                let text = "x".repeat(before) + &character.repeat(4) + "\n";
                let (first, second) = text.split_at(before.min(LINE_MAX));
                assert_eq!(write(&domain, 1, OUT, first), first.len() as i64);
                assert_eq!(write(&domain, 1, OUT, second), second.len() as i64);
                let pieces = texts(&domain);
                assert_eq!(pieces.concat(), text.trim_end(), "{before} and {width}");
                assert!(pieces.iter().all(|piece| piece.len() <= LINE_MAX), "{before} and {width}");
            }
        }
        assert_eq!(
            [&b"\x80\x80\x80\x80"[..], b"\xff", b"", b"\xf0\x9f", b"a\xe2\x82", b"a\xe2\x82\xac"].map(cut_character),
            [0, 0, 0, 2, 2, 0]
        );
    }

    #[test]
    fn hostile_arguments_are_refused() {
        let domain = Domain::start(&MONOHULL_MODULE);
        let text = domain.place(1, b"text\n");
        let foreign = domain.place(2, b"text\n");
        let cases = [
            ("null", [OUT, 0, 5], Errno::Fault),
            ("wraps", [OUT, text, u64::MAX], Errno::Fault),
            ("past the cell's end", [OUT, text, CELL_SIZE], Errno::Fault),
            ("hole", [OUT, text + 4096, 5], Errno::Fault),
            ("other cell", [OUT, foreign, 5], Errno::Fault),
            ("empty cell", [OUT, cell_base(9), 5], Errno::Fault),
            ("trusted", [OUT, (&raw const MONOHULL_MODULE) as u64, 5], Errno::Fault),
            ("arena", [OUT, ARENA_BASE, 5], Errno::Fault),
            ("stream 0", [0, text, 5], Errno::Invalid),
            ("stream 3", [3, text, 5], Errno::Invalid),
            ("stream beyond u32", [(1 << 32) | 1, text, 5], Errno::Invalid),
        ];
        for (what, [stream, address, len], errno) in cases {
            let value = domain.call(1, number::STDIO_WRITE, [stream, address, len, 0, 0, 0]);
            assert_eq!(value, errno.to_value(), "{what}");
            assert_ne!(domain.explained(), "", "{what}");
        }
        assert_eq!(domain.call(1, number::STDIO_FLUSH, [7, 0, 0, 0, 0, 0]), Errno::Invalid.to_value());
        assert_eq!(domain.take_lines(), []);
        assert_eq!(domain.call(1, number::STDIO_WRITE, [OUT, 0, 0, 0, 0, 0]), 0, "nothing at all is fine");
    }

    #[test]
    fn a_huge_claim_takes_one_piece() {
        let domain = Domain::start(&MONOHULL_MODULE);
        let text = domain.place(1, &vec![b'x'; 3 * LINE_MAX]);
        let len = CELL_SIZE / 2;
        assert_eq!(domain.call(1, number::STDIO_WRITE, [OUT, text, len, 0, 0, 0]), LINE_MAX as i64);
    }

    #[test]
    fn unfinished_lines_go_on_in_another_domain() {
        let domain = Domain::start(&MONOHULL_MODULE);
        write(&domain, 1, OUT, "one\nhalf a ");
        write(&domain, 1, 2, "err");
        write(&domain, 2, OUT, "whole\n");
        assert_eq!(texts(&domain), ["one", "whole"]);
        let captured = domain.capture().unwrap();
        assert_eq!(texts(&domain), [""; 0], "nothing is sent, nothing is lost");
        drop(domain);
        let domain = Domain::resume(&[&MONOHULL_MODULE], &captured).unwrap();
        write(&domain, 1, OUT, "line\n");
        assert!(domain.end(1, Ending::Done));
        let lines = domain.take_lines();
        assert_eq!(lines, [(1, 1, "half a line".to_string()), (1, 2, "err".to_string())]);
    }

    /// Why a record with these lines is refused, of a domain in which instances 1 and 2 live.
    fn refusal(lines: &[(Stream, &[u8])]) -> Option<String> {
        let domain = Domain::start(&MONOHULL_MODULE);
        domain.enter(1);
        domain.enter(2);
        let mut captured = domain.capture().unwrap();
        drop(domain);
        captured.records[0].truncate(4);
        captured.records[0].extend(postcard::to_allocvec(lines).unwrap());
        Domain::resume(&[&MONOHULL_MODULE], &captured).err()
    }

    #[test]
    fn lines_that_no_module_has_written_are_refused() {
        let stream = |instance, number| Stream { instance, number };
        let long = vec![b'x'; LINE_MAX + 1];
        assert_eq!(refusal(&[(stream(1, 1), &long[1..]), (stream(2, 2), b"")]), None);
        for (lines, words) in [
            (&[(stream(3, 1), &b"x"[..])][..], "there is no stream 1 of instance 3"),
            (&[(stream(u32::MAX, 1), b"x")], "there is no stream 1 of instance 4294967295"),
            (&[(stream(1, 0), b"x")], "there is no stream 0 of instance 1"),
            (&[(stream(1, 3), b"x")], "there is no stream 3 of instance 1"),
            (&[(stream(1, 1), &long)], "instance 1: 8193 bytes are no unfinished line of stream 1"),
            (&[(stream(1, 1), b"x\ny")], "instance 1: 3 bytes are no unfinished line of stream 1"),
            (&[(stream(1, 1), b"x"), (stream(1, 1), b"y")], "its record is damaged: the streams are not in order"),
        ] {
            assert_eq!(refusal(lines).as_deref(), Some(words));
        }
    }

    proptest! {
        #[test]
        fn a_damaged_record_is_refused_or_harmless(at in 0..40usize, byte: u8, cut in 0..40usize) {
            let domain = Domain::start(&MONOHULL_MODULE);
            write(&domain, 1, OUT, "half a line");
            write(&domain, 2, 2, "another");
            let mut captured = domain.capture().unwrap();
            drop(domain);
            let record = &mut captured.records[0];
            let at = at % record.len();
            record[at] = byte;
            record.truncate(record.len().saturating_sub(cut % 4));
            if let Ok(domain) = Domain::resume(&[&MONOHULL_MODULE], &captured) {
                write(&domain, 1, OUT, "\n");
                domain.end(1, Ending::Done);
                domain.end(2, Ending::Done);
            }
        }
    }
}
