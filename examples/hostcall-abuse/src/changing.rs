//! Structures that change while the libos looks at them.
//!
//! ```text
//!   thread 1   content a │ content b │ a │ b │ …    as fast as it can, a word at a time
//!   thread 2   hostcall with the structure's address, until both have been met
//! ```
//!
//! What is copied once and then looked at is one content, the other, or a mixture, and the mixture is checked like any. So
//! every answer is one of those that unchanging contents get, and no memory is touched but the caller's own.

use crate::PATTERN;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use monohull_abi::Errno::{
    self, AddressNotAvailable, Fault, Invalid, NetworkUnreachable, NotFound, NotPermitted, WrongType,
};
use monohull_abi::file::{IoVec, WORKING_DIRECTORY, open};
use monohull_abi::network::{SocketAddress, SocketEnd, SocketOption};
use monohull_abi::number::*;
use monohull_abi::types::{BYTES_FINGERPRINT, SlotView, TAKE_NOW};
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_std::time::Duration;
use monohull_trampoline::user::hostcall;

/// At least so many calls; fewer of those that ask another process.
const CALLS: u32 = 1000;
const CALLS_ELSEWHERE: u32 = 30;
/// At most so many, until both contents have been met.
const CALLS_MAX: u32 = 1_000_000;
/// The other thread has had its turn so often before that is all: it may have no processor for a while.
const TURNS_LEAST: u64 = 10_000;

/// What a structure that changes came to: what it was, and what is wrong with it.
pub(crate) type Verdict = (&'static str, Result<(), String>);

/// All of them. `victim` is a buffer of another instance's.
pub(crate) fn all(victim: u64) -> Vec<Verdict> {
    vec![
        ("FILE_READV: a list of buffers that changes", vector(FILE_READV, victim)),
        ("FILE_WRITEV: a list of buffers that changes", vector(FILE_WRITEV, victim)),
        ("FILE_OPEN: a path that changes", path(FILE_OPEN, [open::READ, 0])),
        ("FILE_STAT: a path that changes", path(FILE_STAT, [room(), 0])),
        ("FILE_REALPATH: a path that changes", path(FILE_REALPATH, [room(), ROOM as u64])),
        ("FILE_MKDIR: a path that changes", made()),
        ("FILE_UNLINK: a path that changes", removed()),
        ("FILE_RENAME: a path that changes", renamed(false)),
        ("FILE_RENAME: a new path that changes", renamed(true)),
        ("FILE_CHDIR: a path that changes", chosen()),
        ("SLOT_PUBLISH: a description of a type that changes", description(victim)),
        ("SLOT_TAKE: a description of a type that changes", other_description(victim)),
        ("SLOT_TAKE: a name that changes", name()),
        ("EVENT_WAIT: a name that changes", event()),
        ("PERFORM: a name that changes", effect()),
    ]
}

/// Those of sockets. The workflow may listen at 127.0.0.1 and reach this port there. Nothing listens there, but a server
/// listens at 127.0.0.2.
pub(crate) fn addresses(port: u32) -> Result<(), String> {
    local_address()?;
    // One that every function may look up, and one that is not on the list.
    host_name(CALLS_ELSEWHERE, [*b"localhost\0\0\0\0\0\0\0", *b"elsewhere\0\0\0\0\0\0\0"], NotPermitted)?;
    let contents = [at([127, 0, 0, 1], port), at([127, 0, 0, 2], port)];
    change(CALLS_ELSEWHERE, contents, |address| {
        let connected = hostcall(TCP_CONNECT, [address, u64::MAX, 0, 0, 0, 0]);
        match connected == Errno::ConnectionRefused.to_value() {
            true => Ok(false),
            false => refused(connected, NotPermitted),
        }
    })?;
    let here = at([127, 0, 0, 1], 0);
    let socket = || hostcall(UDP_BIND, [here.as_ptr() as u64, 0, 0, 0, 0, 0]) as u64;
    let (sender, connected, bytes) = (socket(), socket(), Box::new([0u8; 8]));
    change(CALLS_ELSEWHERE, contents, |address| {
        refused(hostcall(SOCKET_SENDTO, [sender, bytes.as_ptr() as u64, 8, address, 0, 0]), NotPermitted)
    })?;
    change(CALLS_ELSEWHERE, contents, |address| {
        let answer = hostcall(UDP_CONNECT, [connected, address, 0, 0, 0, 0]);
        if answer == 0 {
            leads_to(connected, SocketEnd::Peer, [127, 0, 0, 1])?;
        }
        refused(answer, NotPermitted)
    })
}

/// Those of sockets on a network of the workflow's own, where the host has the address 10.99.0.1: an address that it may have
/// or send to, and one of its own or of another host.
pub(crate) fn addresses_on_tap() -> Result<(), String> {
    let host = [10, 99, 0, 1];
    host_name(CALLS, [*b"nowhere-x\0\0\0\0\0\0\0", *b"../../../\0\0\0\0\0\0\0"], Invalid)?;
    change(CALLS, [at([0; 4], 0), at(host, 0)], |address| {
        let socket = hostcall(TCP_LISTEN, [address, 16, 0, 0, 0, 0]);
        if socket >= 0 {
            leads_to(socket as u64, SocketEnd::Local, [0; 4])?;
            hostcall(SOCKET_CLOSE, [socket as u64, 0, 0, 0, 0, 0]);
        }
        refused(socket, AddressNotAvailable)
    })?;
    let contents = [at(host, 9), at([127, 0, 0, 1], 9)];
    let here = at([0; 4], 0);
    let socket = || hostcall(UDP_BIND, [here.as_ptr() as u64, 0, 0, 0, 0, 0]) as u64;
    let (sender, connected, bytes) = (socket(), socket(), Box::new([0u8; 8]));
    change(CALLS, contents, |address| {
        refused(hostcall(SOCKET_SENDTO, [sender, bytes.as_ptr() as u64, 8, address, 0, 0]), NetworkUnreachable)
    })?;
    change(CALLS, contents, |address| {
        let answer = hostcall(UDP_CONNECT, [connected, address, 0, 0, 0, 0]);
        if answer == 0 {
            leads_to(connected, SocketEnd::Peer, host)?;
        }
        refused(answer, NetworkUnreachable)
    })
}

/// Two names of hosts, each of nine letters in two words; a mixture of the two is refused like the second. An answer is an
/// address of this host, or that the first name does not exist.
fn host_name(least: u32, names: [[u8; 16]; 2], errno: Errno) -> Result<(), String> {
    let words = |name: [u8; 16]| {
        let [a, b] = [0, 8].map(|at| u64::from_ne_bytes(core::array::from_fn(|byte| name[at + byte])));
        [a, b]
    };
    let mut found = Box::new(SocketAddress::default());
    change(least, names.map(words), |name| {
        let answer = hostcall(HOST_LOOKUP, [name, 9, &raw mut *found as u64, 1, 0, 0]);
        match answer {
            1 if found.address[..4] != [127, 0, 0, 1] => Err(format!("the name means {:?}", found.address)),
            _ if answer == NotFound.to_value() => Ok(false),
            _ => refused(answer, errno),
        }
    })
}

/// Bytes of [`room`].
const ROOM: usize = 512;

/// Room for an answer that is not read; leaked, because it must stay in place.
fn room() -> u64 {
    Box::leak(Box::new([0u64; ROOM / 8])).as_ptr() as u64
}

/// Makes calls with the address of a structure that changes from the first content to the second and back. A call says
/// whether it met the second one, or what is wrong.
fn change<const N: usize>(
    least: u32,
    contents: [[u64; N]; 2],
    mut call: impl FnMut(u64) -> Result<bool, String>,
) -> Result<(), String> {
    let words = contents[0].map(AtomicU64::new);
    let (stop, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0;
            while !stop.load(Ordering::Relaxed) {
                // An odd number of times before others run, so that one carrier alone shows both contents too.
                for _ in 0..99 {
                    turn ^= 1;
                    words.iter().zip(contents[turn]).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
                }
                turns.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            }
        });
        let mut met = [false; 2];
        let mut calls = 0;
        let result = loop {
            match call(words.as_ptr() as u64) {
                Ok(second) => met[usize::from(second)] = true,
                Err(wrong) => break Err(wrong),
            }
            calls += 1;
            if calls >= least && met == [true, true] {
                break Ok(());
            }
            if calls >= CALLS_MAX && turns.load(Ordering::Relaxed) >= TURNS_LEAST {
                break Err("only one of the contents was met".into());
            }
            thread::yield_now();
        };
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// The answer is a success, or this refusal; true if it is refused.
fn refused(answer: i64, errno: Errno) -> Result<bool, String> {
    match answer {
        0.. => Ok(false),
        _ if answer == errno.to_value() => Ok(true),
        _ => Err(format!("{answer} is no answer to any of the contents")),
    }
}

fn open_file(path: u64, len: u64) -> i64 {
    let flags = open::READ | open::WRITE | open::CREATE;
    hostcall(FILE_OPEN, [WORKING_DIRECTORY, path, len, flags, 0, 0])
}

/// A buffer of the caller's, and one that is another's.
fn vector(number: u32, victim: u64) -> Result<(), String> {
    let name = "/work/vector";
    let file = open_file(name.as_ptr() as u64, name.len() as u64) as u64;
    let own = Box::new([!PATTERN; 4]);
    let len = size_of_val(&*own) as u64;
    hostcall(FILE_PWRITE, [file, own.as_ptr() as u64, len, 0, 0, 0]);
    let list = |address, len| {
        let IoVec { address, len } = IoVec { address, len };
        [address, len]
    };
    let result = change(CALLS, [list(own.as_ptr() as u64, len), list(victim, len - 8)], |list| {
        refused(hostcall(number, [file, list, 1, 0, 0, 0]), Fault)
    });
    let mut now = [0u64; 4];
    hostcall(FILE_PREAD, [file, now.as_mut_ptr() as u64, len, 0, 0, 0]);
    hostcall(FILE_CLOSE, [file, 0, 0, 0, 0, 0]);
    result.and(match now == [!PATTERN; 4] && *own == now {
        true => Ok(()),
        false => Err("bytes of another instance are in the file".into()),
    })
}

/// One that leads into the mount, and one that leads out of it.
fn path(number: u32, [a, b]: [u64; 2]) -> Result<(), String> {
    let contents = [*b"/work/a/", *b"/../a/b/"].map(|path| [u64::from_ne_bytes(path)]);
    let directory = "/work/a";
    hostcall(FILE_MKDIR, [WORKING_DIRECTORY, directory.as_ptr() as u64, directory.len() as u64, 0, 0, 0]);
    change(CALLS, contents, |path| {
        let answer = hostcall(number, [WORKING_DIRECTORY, path, 8, a, b, 0]);
        if number == FILE_OPEN && answer >= 0 {
            hostcall(FILE_CLOSE, [answer as u64, 0, 0, 0, 0, 0]);
        }
        refused(answer, NotFound)
    })
}

/// A path in the mount, and one that leads out of it, in a word each.
const PATHS: [[u64; 1]; 2] = [[u64::from_ne_bytes(*b"/work/cd")], [u64::from_ne_bytes(*b"/../cd/e")]];

/// A call on a path that stays.
fn on_path(number: u32, path: &str, more: [u64; 3]) -> i64 {
    let [a, b, c] = more;
    hostcall(number, [WORKING_DIRECTORY, path.as_ptr() as u64, path.len() as u64, a, b, c])
}

fn make_file(path: &str) {
    let file = on_path(FILE_OPEN, path, [open::WRITE | open::CREATE, 0, 0]);
    hostcall(FILE_CLOSE, [file as u64, 0, 0, 0, 0, 0]);
}

/// A directory is made, again and again, and nothing elsewhere.
fn made() -> Result<(), String> {
    change(CALLS, PATHS, |path| {
        let answer = hostcall(FILE_MKDIR, [WORKING_DIRECTORY, path, 8, 0, 0, 0]);
        if answer == 0 {
            on_path(FILE_RMDIR, "/work/cd", [0; 3]);
        }
        refused(answer, NotFound)
    })
}

/// A file is removed, again and again.
fn removed() -> Result<(), String> {
    make_file("/work/cd");
    let result = change(CALLS, PATHS, |path| {
        let answer = hostcall(FILE_UNLINK, [WORKING_DIRECTORY, path, 8, 0, 0, 0]);
        if answer == 0 {
            make_file("/work/cd");
        }
        refused(answer, NotFound)
    });
    on_path(FILE_UNLINK, "/work/cd", [0; 3]);
    result
}

/// A file gets another name, and its own again; the first or the second name changes.
fn renamed(second: bool) -> Result<(), String> {
    let (changes, stays) = ("/work/cd", "/work/ef");
    let (from, to) = if second { (stays, changes) } else { (changes, stays) };
    make_file(from);
    let fixed = [WORKING_DIRECTORY, stays.as_ptr() as u64, stays.len() as u64];
    let result = change(CALLS, PATHS, |path| {
        let ([a, b, c], [d, e, f]) = match second {
            true => (fixed, [WORKING_DIRECTORY, path, 8]),
            false => ([WORKING_DIRECTORY, path, 8], fixed),
        };
        let answer = hostcall(FILE_RENAME, [a, b, c, d, e, f]);
        if answer == 0 && on_path(FILE_RENAME, to, [WORKING_DIRECTORY, from.as_ptr() as u64, from.len() as u64]) != 0 {
            return Err("it has not got the name that it was given".into());
        }
        refused(answer, NotFound)
    });
    on_path(FILE_UNLINK, from, [0; 3]);
    result
}

/// The working directory is one in the mount, or it stays.
fn chosen() -> Result<(), String> {
    on_path(FILE_MKDIR, "/work/cd", [0; 3]);
    let result = change(CALLS, PATHS, |path| {
        let answer = hostcall(FILE_CHDIR, [WORKING_DIRECTORY, path, 8, 0, 0, 0]);
        let mut now = [0u8; 64];
        let len = hostcall(FILE_GETCWD, [now.as_mut_ptr() as u64, now.len() as u64, 0, 0, 0, 0]);
        let wanted: &[u8] = if answer == 0 { b"/work/cd" } else { b"/" };
        if now.get(..len.max(0) as usize) != Some(wanted) {
            return Err(format!("{answer}, and it works in {:?}", String::from_utf8_lossy(&now)));
        }
        on_path(FILE_CHDIR, "/", [0; 3]);
        refused(answer, NotFound)
    });
    on_path(FILE_RMDIR, "/work/cd", [0; 3]);
    result
}
/// Elements that fit into the buffer under a name of the caller's, and larger ones under a name in the victim's memory.
fn description(victim: u64) -> Result<(), String> {
    let (slot, type_name) = ("changing", "[u8]");
    let view = Box::new(SlotView::default());
    let (slot, len) = (slot.as_ptr() as u64, slot.len() as u64);
    let good = [BYTES_FINGERPRINT, type_name.as_ptr() as u64, type_name.len() as u64, 1];
    let bad = [BYTES_FINGERPRINT, victim, type_name.len() as u64, 1 << 40];
    let (described, out) = (good.as_ptr() as u64, &raw const *view as u64);
    let buffer = hostcall(SLOT_ALLOC, [64, 8, 0, 0, 0, 0]) as u64;
    let result = change(CALLS, [good, bad], |desc| {
        let published = hostcall(SLOT_PUBLISH, [slot, len, buffer, 64, desc, 0]);
        if published == 0 && hostcall(SLOT_TAKE, [slot, len, described, out, TAKE_NOW, 0]) != 0 {
            return Err("what was published cannot be taken".into());
        }
        // Elements that are too large, under a name of the caller's own, are a mixture.
        refused(published, Fault).or_else(|_| refused(published, Invalid))
    });
    hostcall(SLOT_FREE, [buffer, 0, 0, 0, 0, 0]);
    result
}

/// The type that lies in the slot, and another with a name in the victim's memory: that is read when the types differ.
fn other_description(victim: u64) -> Result<(), String> {
    let (slot, type_name) = ("described", "[u8]");
    let view = Box::new(SlotView::default());
    let (slot, len) = (slot.as_ptr() as u64, slot.len() as u64);
    let right = [BYTES_FINGERPRINT, type_name.as_ptr() as u64, type_name.len() as u64, 1];
    let other = [!BYTES_FINGERPRINT, victim, type_name.len() as u64, 1];
    let (described, out) = (right.as_ptr() as u64, &raw const *view as u64);
    let buffer = hostcall(SLOT_ALLOC, [64, 8, 0, 0, 0, 0]) as u64;
    let publish = || hostcall(SLOT_PUBLISH, [slot, len, buffer, 64, described, 0]);
    publish();
    let result = change(CALLS, [right, other], |desc| {
        let taken = hostcall(SLOT_TAKE, [slot, len, desc, out, TAKE_NOW, 0]);
        if taken == 0 && publish() != 0 {
            return Err("what was taken cannot be published".into());
        }
        // Another type, under a name of the caller's own, is a mixture.
        refused(taken, Fault).or_else(|_| refused(taken, WrongType))
    });
    hostcall(SLOT_TAKE, [slot, len, described, out, TAKE_NOW, 0]);
    hostcall(SLOT_FREE, [buffer, 0, 0, 0, 0, 0]);
    result
}

/// A name that is not in use, and bytes that are no name.
fn name() -> Result<(), String> {
    let type_name = "[u8]";
    let view = Box::new(SlotView::default());
    let desc = [BYTES_FINGERPRINT, type_name.as_ptr() as u64, type_name.len() as u64, 1];
    change(CALLS, [[u64::from_ne_bytes(*b"unowned!")], [u64::MAX]], |name| {
        let taken = hostcall(SLOT_TAKE, [name, 8, desc.as_ptr() as u64, &raw const *view as u64, TAKE_NOW, 0]);
        match refused(taken, Invalid) {
            Ok(true) => Ok(true),
            _ => refused(taken, NotFound).map(|_| false),
        }
    })
}

/// A name of an event, which cannot arrive, and bytes that are no name.
fn event() -> Result<(), String> {
    let view = Box::new(SlotView::default());
    change(CALLS, [[u64::from_ne_bytes(*b"nobody's")], [u64::MAX]], |name| {
        let taken = hostcall(EVENT_WAIT, [name, 8, &raw const *view as u64, u64::MAX, 0, 0]);
        match refused(taken, Invalid) {
            Ok(true) => Ok(true),
            _ => refused(taken, NotPermitted).map(|_| false),
        }
    })
}

/// A name of an effect that no step handles, and bytes that are no name.
fn effect() -> Result<(), String> {
    let out = Box::new([0u8; 24]);
    let buffer = hostcall(SLOT_ALLOC, [8, 8, 0, 0, 0, 0]) as u64;
    let done = change(CALLS, [[u64::from_ne_bytes(*b"nobody-s")], [u64::MAX]], |name| {
        let asked = hostcall(PERFORM, [name, 8, buffer, 1, &raw const *out as u64, 0]);
        match refused(asked, Invalid) {
            Ok(true) => Ok(true),
            _ => refused(asked, NotFound).map(|_| false),
        }
    });
    hostcall(SLOT_FREE, [buffer, 0, 0, 0, 0, 0]);
    done
}

/// A socket's address in words: family and port, the address in network order, flow and scope.
fn at(address: [u8; 4], port: u32) -> [u64; 4] {
    let [a, b, c, d] = address;
    [4 | u64::from(port) << 32, u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]), 0, 0]
}

/// The one address where the workflow may listen, and every address there is.
fn local_address() -> Result<(), String> {
    change(CALLS_ELSEWHERE, [at([127, 0, 0, 1], 0), at([0, 0, 0, 0], 0)], |address| {
        let socket = hostcall(TCP_LISTEN, [address, 16, 0, 0, 0, 0]);
        if socket >= 0 {
            leads_to(socket as u64, SocketEnd::Local, [127, 0, 0, 1])?;
            hostcall(SOCKET_CLOSE, [socket as u64, 0, 0, 0, 0, 0]);
        }
        refused(socket, NotPermitted)
    })
}

/// An end of a socket has this address.
fn leads_to(socket: u64, end: SocketEnd, address: [u8; 4]) -> Result<(), String> {
    let mut found = Box::new(SocketAddress::default());
    hostcall(SOCKET_GETNAME, [socket, end as u64, &raw mut *found as u64, 0, 0, 0]);
    match found.address[..4] == address {
        true => Ok(()),
        false => Err(format!("the socket has the address {:?}", &found.address[..4])),
    }
}

/// A buffer that is freed while a call waits to write into it: the call does not hold it, and does not find it again.
pub(crate) fn freed_while_a_call_waits() -> Result<(), String> {
    /// How long the call waits, in s: nothing is sent to it. On a busy host it may end before the buffer is freed.
    const WAITS: [u64; 4] = [1, 4, 16, 60];
    let here = at([127, 0, 0, 1], 0);
    let socket = hostcall(UDP_BIND, [here.as_ptr() as u64, 0, 0, 0, 0, 0]) as u64;
    for seconds in WAITS {
        hostcall(SOCKET_SET_OPTION, [socket, SocketOption::ReadTimeout as u64, seconds * 1_000_000_000, 0, 0, 0]);
        let buffer = hostcall(SLOT_ALLOC, [64, 8, 0, 0, 0, 0]) as u64;
        let waiter = thread::spawn(move || hostcall(SOCKET_RECV, [socket, buffer, 64, 0, 0, 0]));
        thread::sleep(Duration::from_millis(10));
        while hostcall(SLOT_FREE, [buffer, 0, 0, 0, 0, 0]) == Errno::Busy.to_value() {
            thread::yield_now();
        }
        match waiter.join() {
            Ok(answer) if answer == Fault.to_value() => return Ok(()),
            Ok(answer) if answer == Errno::Again.to_value() => {}
            answer => return Err(format!("it waited and got {answer:?}")),
        }
    }
    Err("its time was always over first".into())
}
