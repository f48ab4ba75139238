//! Descriptors that another thread closes, or gives to something else, while calls use them.
//!
//! ```text
//!   thread 1   number ─▶ a │ number ─▶ b │ number ─▶ nothing │ …    as fast as it can
//!   thread 2   hostcall with the number, until all three have been met
//! ```
//!
//! A call is about what the number led to at one moment: the one, the other, or nothing; never about parts of two.

use crate::cases::Network;
use crate::changing::Verdict;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use monohull_abi::Errno::BadDescriptor;
use monohull_abi::file::{WORKING_DIRECTORY, open};
use monohull_abi::network::{SocketAddress, SocketEnd};
use monohull_abi::number::*;
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_std::time::Duration;
use monohull_trampoline::user::hostcall;

/// At least so many calls, until all that there is has been met.
const CALLS: u32 = 1000;
/// The most changes and calls until then. Both are counted: either thread may have no processor for a while.
const CHANGES_MAX: usize = 1_000_000;
const CALLS_MAX: u32 = 1_000_000;
/// Numbers of sockets that are free, at most.
const NUMBERS: usize = 8;
/// Bytes of each file.
const LEN: usize = 8192;
/// The number that changes; no other instance has one so high.
const NUMBER: u64 = 200;

/// All of them.
pub(crate) fn all(network: Network) -> Vec<Verdict> {
    vec![
        ("FILE_PREAD: a file that is closed during a call", files(read)),
        ("FILE_PWRITE: a file that is closed during a call", files(write)),
        ("FILE_DUP: a file that is closed during a call", files(duplicate)),
        ("FILE_CLOSE: a file that is closed during a call", files(close)),
        ("SOCKET_GETNAME: a socket that is closed during a call", sockets(SOCKET_GETNAME, network)),
        ("SOCKET_DUP: a socket that is closed during a call", sockets(SOCKET_DUP, network)),
        ("SOCKET_CLOSE: a socket that is closed during a call", sockets(SOCKET_CLOSE, network)),
        ("SOCKET_RECV: a socket that is closed while a call waits", closed_while_a_call_waits(network)),
    ]
}

/// What a call met.
enum Met {
    /// The first or the second, as far as the call's result shows.
    One(usize),
    Either,
    Nothing,
}

/// Makes calls while another thread makes changes, a step at a time.
fn meanwhile(mut step: impl FnMut(usize) + Send, mut call: impl FnMut() -> Result<Met, String>) -> Result<(), String> {
    let (stop, changes) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // Not a multiple of three, so that one carrier alone shows all of them.
                for _ in 0..4 {
                    step(changes.fetch_add(1, Ordering::Relaxed) % 3);
                }
                thread::yield_now();
            }
        });
        let (mut met, mut calls) = ([false; 3], 0);
        let result = loop {
            match call() {
                Ok(Met::One(which)) => met[which] = true,
                Ok(Met::Either) => (met[0], met[1]) = (true, true),
                Ok(Met::Nothing) => met[2] = true,
                Err(wrong) => break Err(wrong),
            }
            calls += 1;
            if calls >= CALLS && met == [true; 3] {
                break Ok(());
            }
            if changes.load(Ordering::Relaxed) > CHANGES_MAX && calls > CALLS_MAX {
                break Err(format!("not everything was met: {met:?}"));
            }
            thread::yield_now();
        };
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Two files, each full of a letter; both are so afterwards.
fn files(call: fn(&mut [u8; LEN]) -> Result<Met, String>) -> Result<(), String> {
    let mut room = Box::new([0; LEN]);
    let files = [("/work/in-use-a", b'a'), ("/work/in-use-b", b'b')].map(|(path, letter)| {
        let flags = open::READ | open::WRITE | open::CREATE;
        let file = hostcall(FILE_OPEN, [WORKING_DIRECTORY, path.as_ptr() as u64, path.len() as u64, flags, 0, 0]);
        room.fill(letter);
        hostcall(FILE_PWRITE, [file as u64, room.as_ptr() as u64, LEN as u64, 0, 0, 0]);
        file as u64
    });
    let step = |turn: usize| match files.get(turn) {
        Some(file) => drop(hostcall(FILE_DUP, [*file, NUMBER, 0, 0, 0, 0])),
        None => drop(hostcall(FILE_CLOSE, [NUMBER, 0, 0, 0, 0, 0])),
    };
    let result = meanwhile(step, || call(&mut room));
    hostcall(FILE_CLOSE, [NUMBER, 0, 0, 0, 0, 0]);
    result?;
    for (which, file) in files.into_iter().enumerate() {
        if !matches!(whose(file, &mut room)?, Met::One(found) if found == which) {
            return Err("a file is not what it was".into());
        }
        hostcall(FILE_CLOSE, [file, 0, 0, 0, 0, 0]);
    }
    Ok(())
}

/// Which file a number leads to, by all of its bytes.
fn whose(number: u64, room: &mut [u8; LEN]) -> Result<Met, String> {
    let answer = hostcall(FILE_PREAD, [number, room.as_mut_ptr() as u64, LEN as u64, 0, 0, 0]);
    if answer == BadDescriptor.to_value() {
        return Ok(Met::Nothing);
    }
    let all = |letter| answer == LEN as i64 && room.iter().all(|byte| *byte == letter);
    match [all(b'a'), all(b'b')] {
        [true, false] => Ok(Met::One(0)),
        [false, true] => Ok(Met::One(1)),
        _ => Err(format!("{answer}, and bytes of two files")),
    }
}

fn read(room: &mut [u8; LEN]) -> Result<Met, String> {
    whose(NUMBER, room)
}

/// Behind what is looked at.
fn write(room: &mut [u8; LEN]) -> Result<Met, String> {
    let args = [NUMBER, room.as_ptr() as u64, LEN as u64, LEN as u64, 0, 0];
    either(hostcall(FILE_PWRITE, args), LEN as i64)
}

/// The copy leads to one file, whatever becomes of the number.
fn duplicate(room: &mut [u8; LEN]) -> Result<Met, String> {
    let copy = hostcall(FILE_DUP, [NUMBER, u64::MAX, 0, 0, 0, 0]);
    if copy < 0 {
        return either(copy, 0);
    }
    let met = whose(copy as u64, room)?;
    match (&met, hostcall(FILE_CLOSE, [copy as u64, 0, 0, 0, 0, 0])) {
        (Met::One(_), 0) => Ok(met),
        (_, closed) => Err(format!("the copy was gone: {closed}")),
    }
}

fn close(_: &mut [u8; LEN]) -> Result<Met, String> {
    either(hostcall(FILE_CLOSE, [NUMBER, 0, 0, 0, 0, 0]), 0)
}

fn either(answer: i64, good: i64) -> Result<Met, String> {
    match answer {
        _ if answer == good => Ok(Met::Either),
        _ if answer == BadDescriptor.to_value() => Ok(Met::Nothing),
        _ => Err(format!("{answer} is no answer to this")),
    }
}

/// Two sockets, distinguished by their ports.
fn sockets(number: u32, network: Network) -> Result<(), String> {
    let sockets = [0; 2].map(|_| datagrams(network));
    let ports = [port_of(sockets[0])?, port_of(sockets[1])?];
    // The number that the next copy gets is the last one that was closed; the other thread closes some, too.
    let changing = hostcall(SOCKET_DUP, [sockets[0], 0, 0, 0, 0, 0]) as u64;
    let step = |turn: usize| {
        hostcall(SOCKET_CLOSE, [changing, 0, 0, 0, 0, 0]);
        let Some(socket) = sockets.get(turn) else { return };
        let mut others = [None; NUMBERS];
        for other in &mut others {
            let copy = hostcall(SOCKET_DUP, [*socket, 0, 0, 0, 0, 0]) as u64;
            if copy == changing {
                break;
            }
            *other = Some(copy);
        }
        for other in others.into_iter().flatten() {
            hostcall(SOCKET_CLOSE, [other, 0, 0, 0, 0, 0]);
        }
    };
    let met = |port: Result<u32, String>| match port {
        Ok(0) => Ok(Met::Nothing),
        Ok(port) => {
            ports.iter().position(|own| *own == port).map(Met::One).ok_or_else(|| format!("port {port} has no owner"))
        }
        Err(wrong) => Err(wrong),
    };
    let result = meanwhile(step, || match number {
        SOCKET_CLOSE => either(hostcall(SOCKET_CLOSE, [changing, 0, 0, 0, 0, 0]), 0),
        SOCKET_DUP => {
            let copy = hostcall(SOCKET_DUP, [changing, 0, 0, 0, 0, 0]);
            if copy < 0 {
                return either(copy, 0);
            }
            let found = met(port_of(copy as u64));
            hostcall(SOCKET_CLOSE, [copy as u64, 0, 0, 0, 0, 0]);
            found
        }
        _ => met(port_of(changing)),
    });
    hostcall(SOCKET_CLOSE, [changing, 0, 0, 0, 0, 0]);
    result?;
    for (socket, port) in sockets.into_iter().zip(ports) {
        if port_of(socket) != Ok(port) {
            return Err("a socket is not what it was".into());
        }
        hostcall(SOCKET_CLOSE, [socket, 0, 0, 0, 0, 0]);
    }
    Ok(())
}

/// A socket for datagrams, at any port.
fn datagrams(network: Network) -> u64 {
    let address = if network == Network::Tap { [0; 4] } else { [127, 0, 0, 1] };
    let mut here = Box::new(SocketAddress { family: 4, ..SocketAddress::default() });
    here.address[..4].copy_from_slice(&address);
    hostcall(UDP_BIND, [&raw const *here as u64, 0, 0, 0, 0, 0]) as u64
}

/// Nothing is sent to it: the call would wait for ever.
fn closed_while_a_call_waits(network: Network) -> Result<(), String> {
    let socket = datagrams(network);
    let mut room = Box::new([0u8; 8]);
    let room = room.as_mut_ptr() as u64;
    let waiter = thread::spawn(move || hostcall(SOCKET_RECV, [socket, room, 8, 0, 0, 0]));
    thread::sleep(Duration::from_millis(10));
    let closed = hostcall(SOCKET_CLOSE, [socket, 0, 0, 0, 0, 0]);
    match waiter.join() {
        Ok(answer) if answer == BadDescriptor.to_value() && closed == 0 => Ok(()),
        answer => Err(format!("closing it came to {closed}, who waited got {answer:?}")),
    }
}

/// A socket's own port; 0 if there is no such socket.
fn port_of(socket: u64) -> Result<u32, String> {
    let mut name = Box::new(SocketAddress::default());
    let answer = hostcall(SOCKET_GETNAME, [socket, SocketEnd::Local as u64, &raw mut *name as u64, 0, 0, 0]);
    match answer {
        0 => Ok(name.port),
        _ if answer == BadDescriptor.to_value() => Ok(0),
        _ => Err(format!("{answer} is no answer to this")),
    }
}
