//! Sending and receiving.
//!
//! A list of buffers is sent as one: a socket would make a datagram of each, and a stream that has sent a short part keeps the next one
//! back until the first is acknowledged, which takes 40 ms (Nagle's algorithm).

use super::address::{read_address, write_address};
use super::numbers::{MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, MSG_WAITFORONE};
use super::{Socket, get, of, pair};
use crate::clocks::{self, Timespec};
use crate::errno::{Answer, EAGAIN, EINVAL, EMSGSIZE, ENOMEM, EOPNOTSUPP};
use crate::host;
use crate::refuse::{Missing, refuse};
use alloc::vec::Vec;
use monohull_abi::file::IoVec;
use monohull_abi::network::{DONT_WAIT, PEEK, SocketAddress};
use monohull_abi::number;

/// The flags of a hostcall that reads or writes.
fn hostcall_flags(flags: u64) -> u64 {
    (if flags & MSG_PEEK != 0 { PEEK } else { 0 }) | if flags & MSG_DONTWAIT != 0 { DONT_WAIT } else { 0 }
}

/// Calls with what is left of a buffer until all of it is done, it is the end, or an error; of an error after a first part the count is
/// the answer.
pub(super) fn whole(at: u64, len: u64, mut act: impl FnMut(u64, u64) -> Answer) -> Answer {
    let mut done = 0;
    loop {
        match act(at + done, len - done) {
            error @ ..0 if done == 0 => return error,
            ..=0 => return done as Answer,
            part => done += part as u64,
        }
        if done >= len {
            return done as Answer;
        }
    }
}

/// What `read` does.
pub(crate) fn receive(at: usize, buffer: u64, len: u64, flags: u64) -> Answer {
    get(at).map_or_else(|error| error, |socket| receive_of(&socket, buffer, len, flags))
}

fn receive_of(socket: &Socket, buffer: u64, len: u64, flags: u64) -> Answer {
    socket.with(|open| {
        let receive = |buffer, len| host::call(number::SOCKET_RECV, [open, buffer, len, hostcall_flags(flags)]);
        let wait_for_all = flags & (MSG_WAITALL | MSG_PEEK | MSG_DONTWAIT) == MSG_WAITALL;
        if wait_for_all && socket.stream && !socket.now().non_blocking {
            whole(buffer, len, receive)
        } else {
            receive(buffer, len)
        }
    })
}

/// What `write` does.
pub(crate) fn send(at: usize, bytes: u64, len: u64) -> Answer {
    get(at).map_or_else(|error| error, |socket| send_of(&socket, bytes, len, 0))
}

/// A hostcall writes what there is room for. A stream that waits writes all, as on Linux.
fn send_of(socket: &Socket, bytes: u64, len: u64, flags: u64) -> Answer {
    socket.with(|open| {
        let send = |bytes, len| host::call(number::SOCKET_SEND, [open, bytes, len, hostcall_flags(flags & !MSG_PEEK)]);
        if socket.stream && flags & MSG_DONTWAIT == 0 && !socket.now().non_blocking {
            whole(bytes, len, send)
        } else {
            send(bytes, len)
        }
    })
}

/// The buffers of a call.
///
/// # Safety
///
/// There are so many in the list, which stays as it is meanwhile.
pub(crate) unsafe fn buffers<'l>(list: u64, count: u64) -> &'l [IoVec] {
    match count {
        0 => &[],
        // SAFETY: by the caller's promise.
        _ => unsafe { core::slice::from_raw_parts(list as *const IoVec, count as usize) },
    }
}

/// What `writev` does: nothing without bytes, unlike `write`.
pub(crate) fn send_list(at: usize, list: &[IoVec]) -> Answer {
    let socket = match get(at) {
        Ok(socket) => socket,
        Err(error) => return error,
    };
    if list.iter().all(|part| part.len == 0) {
        return 0;
    }
    send_parts(list, socket.stream, |bytes, len| send_of(&socket, bytes, len, 0))
}

/// What `readv` does: nothing without room, unlike `read`. Of a stream the first part is enough.
pub(crate) fn receive_list(at: usize, list: &[IoVec], flags: u64) -> Answer {
    let socket = match get(at) {
        Ok(socket) => socket,
        Err(error) => return error,
    };
    if list.iter().all(|part| part.len == 0) {
        return 0;
    }
    let receive = |buffer, len| receive_of(&socket, buffer, len, flags);
    if socket.stream { receive_stream(list, flags, receive) } else { receive_datagram(list, 0, receive) }
}

/// A stream copies and sends as one what is at most as long.
const TOGETHER: u64 = 256 << 10;
/// No datagram is longer.
const DATAGRAM_MAX: u64 = 64 << 10;

/// Sends buffers by as few calls as there can be: a datagram by one, and a stream by one for buffers that are short together.
fn send_parts(list: &[IoVec], stream: bool, mut send: impl FnMut(u64, u64) -> Answer) -> Answer {
    let mut parts = list.iter().filter(|part| part.len > 0).peekable();
    let most = if stream { TOGETHER } else { DATAGRAM_MAX };
    if !stream && list.iter().fold(0, |sum: u64, part| sum.saturating_add(part.len)) > most {
        return EMSGSIZE;
    }
    let (mut done, mut together) = (0, Vec::new());
    loop {
        let Some(first) = parts.next() else {
            // A datagram may have no bytes, and errors come without bytes too.
            return if done == 0 { send(1, 0) } else { done };
        };
        let (mut bytes, mut len) = (first.address, first.len);
        together.clear();
        while let Some(next) = parts.next_if(|next| len.saturating_add(next.len) <= most) {
            if together.is_empty() {
                // SAFETY: the caller's buffer.
                together.extend_from_slice(unsafe { bytes_of(first) });
            }
            // SAFETY: likewise.
            together.extend_from_slice(unsafe { bytes_of(next) });
            (bytes, len) = (together.as_ptr() as u64, together.len() as u64);
        }
        match send(bytes, len) {
            error @ ..0 if done == 0 => return error,
            ..0 => return done,
            part if (part as u64) < len => return done + part,
            part => done += part,
        }
    }
}

/// Receives from a stream into buffers: into the first that has room, or into all of them if `flags` ask for that.
fn receive_stream(list: &[IoVec], flags: u64, mut receive: impl FnMut(u64, u64) -> Answer) -> Answer {
    let mut parts = list.iter().filter(|part| part.len > 0);
    let Some(first) = parts.next() else { return receive(1, 0) };
    let mut room = first.len;
    let mut done = receive(first.address, first.len);
    while flags & (MSG_WAITALL | MSG_PEEK) == MSG_WAITALL
        && done == room as Answer
        && let Some(next) = parts.next()
    {
        done += receive(next.address, next.len).max(0);
        room += next.len;
    }
    done
}

/// Receives a datagram by one call into all buffers: how long it was, as far as that is at most `beyond` more than there is room for.
fn receive_datagram(list: &[IoVec], beyond: u64, receive: impl FnOnce(u64, u64) -> Answer) -> Answer {
    let room = room_of(list);
    if let [only] = list
        && (beyond == 0 || room == DATAGRAM_MAX)
    {
        return receive(only.address, only.len);
    }
    let mut bytes = alloc::vec![0_u8; (room + beyond).min(DATAGRAM_MAX) as usize];
    let answer = receive(bytes.as_mut_ptr() as u64, bytes.len() as u64);
    let mut rest = &bytes[..usize::try_from(answer).unwrap_or(0)];
    for part in list {
        let (here, after) = rest.split_at(rest.len().min(part.len as usize));
        // SAFETY: the caller's buffer, which has room for as many.
        unsafe { (part.address as *mut u8).copy_from(here.as_ptr(), here.len()) };
        rest = after;
    }
    answer
}

/// How much of a datagram some buffers have room for.
fn room_of(list: &[IoVec]) -> u64 {
    list.iter().fold(0, |sum: u64, part| sum.saturating_add(part.len)).min(DATAGRAM_MAX)
}

/// # Safety
///
/// The buffer can be read.
unsafe fn bytes_of(buffer: &IoVec) -> &[u8] {
    // SAFETY: by the caller's promise.
    unsafe { core::slice::from_raw_parts(buffer.address as *const u8, buffer.len as usize) }
}

/// `recvfrom(socket, buffer, length, flags, address out, length)`.
pub(crate) fn recvfrom([descriptor, buffer, len, flags, out, out_len]: [u64; 6]) -> Answer {
    if let Some(pair) = pair::of(descriptor) {
        let answer = pair::receive(&pair, buffer, len, flags);
        write_no_address(answer, out, out_len);
        return answer;
    }
    of(descriptor).map_or_else(|error| error, |socket| receive_from(&socket, buffer, len, flags, out, out_len))
}

/// A stream has no sender for each part.
fn write_no_address(answer: Answer, out: u64, out_len: u64) {
    if answer >= 0 && out != 0 && out_len != 0 {
        // SAFETY: the caller's `socklen_t`.
        unsafe { (out_len as *mut u32).write_unaligned(0) };
    }
}

fn receive_from(socket: &Socket, buffer: u64, len: u64, flags: u64, out: u64, out_len: u64) -> Answer {
    if socket.stream {
        let answer = receive_of(socket, buffer, len, flags);
        write_no_address(answer, out, out_len);
        return answer;
    }
    let list = [IoVec { address: buffer, len }];
    let beyond = if flags & MSG_TRUNC != 0 { DATAGRAM_MAX } else { 0 };
    receive_datagram(&list, beyond, |buffer, len| receive_datagram_from(socket, buffer, len, flags, out, out_len))
}

fn receive_datagram_from(socket: &Socket, buffer: u64, len: u64, flags: u64, out: u64, out_len: u64) -> Answer {
    if out == 0 {
        return receive_of(socket, buffer, len, flags);
    }
    let mut from = SocketAddress::default();
    let answer = socket.with(|open| {
        let call = [open, buffer, len, hostcall_flags(flags), (&raw mut from) as u64];
        host::call(number::SOCKET_RECVFROM, call)
    });
    if answer >= 0 {
        write_address(&from, out, out_len);
    }
    answer
}

/// `sendto(socket, bytes, length, flags, address, length)`.
pub(crate) fn sendto([descriptor, bytes, len, flags, address, address_len]: [u64; 6]) -> Answer {
    if let Some(pair) = pair::of(descriptor) {
        return pair::send(&pair, bytes, len, flags, address);
    }
    of(descriptor).map_or_else(|error| error, |socket| send_to(&socket, bytes, len, flags, address, address_len))
}

fn send_to(socket: &Socket, bytes: u64, len: u64, flags: u64, address: u64, address_len: u64) -> Answer {
    if address == 0 || socket.stream {
        return send_of(socket, bytes, len, flags);
    }
    match read_address(address, address_len) {
        Ok(to) => socket.with(|open| {
            let call = [open, bytes, len, (&raw const to) as u64, hostcall_flags(flags & !MSG_PEEK)];
            host::call(number::SOCKET_SENDTO, call)
        }),
        Err(error) => error,
    }
}

/// `struct msghdr`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Message {
    name: u64,
    name_len: u32,
    list: u64,
    count: u64,
    control: u64,
    control_len: u64,
    flags: u32,
}

/// `recvmsg(socket, message, flags)`; there are no control messages.
pub(crate) fn recvmsg([descriptor, message, flags, ..]: [u64; 6]) -> Answer {
    // SAFETY: the caller's `struct msghdr`, and its list of buffers.
    unsafe {
        let message = message as *mut Message;
        let list = buffers((*message).list, (*message).count);
        let name_len = (&raw mut (*message).name_len) as u64;
        ((*message).control_len, (*message).flags) = (0, 0);
        let name = (*message).name;
        if let Some(pair) = pair::of(descriptor) {
            let answer = receive_stream(list, flags, |buffer, len| pair::receive(&pair, buffer, len, flags));
            write_no_address(answer, name, name_len);
            return answer;
        }
        let socket = match of(descriptor) {
            Ok(socket) => socket,
            Err(error) => return error,
        };
        if socket.stream {
            return receive_stream(list, flags, |buffer, len| {
                receive_from(&socket, buffer, len, flags, name, name_len)
            });
        }
        // One byte more shows that the datagram is cut.
        let beyond = if flags & MSG_TRUNC != 0 { DATAGRAM_MAX } else { 1 };
        let receive = |buffer, len| receive_datagram_from(&socket, buffer, len, flags, name, name_len);
        let (whole, room) = (receive_datagram(list, beyond, receive), room_of(list) as Answer);
        if whole > room {
            (*message).flags = MSG_TRUNC as u32;
        }
        if flags & MSG_TRUNC != 0 { whole } else { whole.min(room) }
    }
}

/// What a control message begins with; the next one is at a multiple of eight bytes.
#[repr(C)]
struct ControlHeader {
    len: u64,
    level: i32,
    kind: i32,
}

/// Whether a message may go without what it has besides bytes: the answer if not.
///
/// Where a datagram comes from, and its marks (`IP_PKTINFO`, `IP_TOS`), are the system's affair, and credentials are the same for all.
fn check_control(message: &Message) -> Result<(), Answer> {
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;
    const SOL_UDP: i32 = 17;
    let mut at = 0;
    while message.control != 0 && message.control_len - at >= size_of::<ControlHeader>() as u64 {
        // SAFETY: inside of the caller's control messages.
        let header = unsafe { ((message.control + at) as *const ControlHeader).read_unaligned() };
        if header.len < size_of::<ControlHeader>() as u64 || header.len > message.control_len - at {
            return Err(EINVAL);
        }
        match (header.level, header.kind) {
            (SOL_SOCKET, SCM_RIGHTS) => return Err(refuse(Missing::SendDescriptor, EOPNOTSUPP)),
            // `UDP_SEGMENT` would make several datagrams of one.
            (SOL_UDP, _) => return Err(EINVAL),
            _ => {}
        }
        at = (at + header.len.next_multiple_of(8)).min(message.control_len);
    }
    Ok(())
}

/// `sendmsg(socket, message, flags)`.
pub(crate) fn sendmsg([descriptor, message, flags, ..]: [u64; 6]) -> Answer {
    // SAFETY: the caller's `struct msghdr`, and its list of buffers.
    let (message, list) = unsafe {
        let message = (message as *const Message).read();
        (message, buffers(message.list, message.count))
    };
    let name_len = u64::from(message.name_len);
    if let Err(error) = check_control(&message) {
        return error;
    }
    if let Some(pair) = pair::of(descriptor) {
        return send_parts(list, true, |bytes, len| pair::send(&pair, bytes, len, flags, message.name));
    }
    let socket = match of(descriptor) {
        Ok(socket) => socket,
        Err(error) => return error,
    };
    send_parts(list, socket.stream, |bytes, len| send_to(&socket, bytes, len, flags, message.name, name_len))
}

/// `struct mmsghdr`.
#[repr(C)]
struct Counted {
    message: Message,
    bytes: u32,
}

const _: () = assert!(size_of::<Counted>() == 64);

/// Sends or receives one message after the other until one fails or `is_over`: how many. Of an error after the first the count is the answer.
fn each(list: u64, count: u64, mut act: impl FnMut(u64) -> Answer, is_over: impl Fn() -> bool) -> Answer {
    /// More are left out, as on Linux.
    const MOST: u32 = 1024;
    let list = list as *mut Counted;
    let mut done = 0;
    while done < (count as u32).min(MOST) as usize {
        // SAFETY: the caller's list, which has so many.
        let at = unsafe { list.add(done) };
        match act(at as u64) {
            error @ ..0 if done == 0 => return error,
            ..0 => break,
            // SAFETY: as above.
            bytes => unsafe { (*at).bytes = bytes as u32 },
        }
        done += 1;
        if is_over() {
            break;
        }
    }
    done as Answer
}

/// `recvmmsg(socket, messages, count, flags, time)`: whether the time is over is known when a message has come, as on Linux.
pub(crate) fn recvmmsg([descriptor, list, count, flags, time, ..]: [u64; 6]) -> Answer {
    let deadline = match clocks::read(time as *const Timespec) {
        None => u64::MAX,
        Some(Ok(nanoseconds)) => clocks::deadline(nanoseconds),
        Some(Err(error)) => return error,
    };
    let mut of_next = flags & !MSG_WAITFORONE;
    let receive = |message| {
        let answer = recvmsg([descriptor, message, of_next, 0, 0, 0]);
        if flags & MSG_WAITFORONE != 0 {
            of_next |= MSG_DONTWAIT;
        }
        answer
    };
    each(list, count, receive, || clocks::has_passed(deadline))
}

/// `sendmmsg(socket, messages, count, flags)`.
pub(crate) fn sendmmsg([descriptor, list, count, flags, ..]: [u64; 6]) -> Answer {
    each(list, count, |message| sendmsg([descriptor, message, flags, 0, 0, 0]), || false)
}

/// `FIONREAD`: how many bytes of a stream wait, or how long the first datagram is.
pub(crate) fn how_much(at: usize, out: u64) -> Answer {
    /// No more is looked at.
    const MOST: u64 = 16 << 20;
    let socket = match get(at) {
        Ok(socket) if socket.now().listening => return EINVAL,
        Ok(socket) => socket,
        Err(error) => return error,
    };
    let mut room = DATAGRAM_MAX;
    let count = loop {
        let mut bytes = Vec::<u8>::new();
        if bytes.try_reserve_exact(room as usize).is_err() {
            return ENOMEM;
        }
        let look = |open| host::call(number::SOCKET_RECV, [open, bytes.as_mut_ptr() as u64, room, PEEK | DONT_WAIT]);
        let count = socket.number().map_or(0, look).max(0) as u64;
        if count < room || room == MOST {
            break count;
        }
        room *= 2;
    };
    // SAFETY: the caller's pointer to an `int`.
    unsafe { (out as *mut i32).write_unaligned(count as i32) };
    0
}

/// Whether a stream or datagram socket has something to read now, without taking it; `None` of one that listens.
pub(crate) fn readable(socket: &Socket) -> Option<bool> {
    if socket.now().listening {
        return None;
    }
    let mut byte = 0_u8;
    let answer = receive_of(socket, (&raw mut byte) as u64, 1, MSG_PEEK | MSG_DONTWAIT);
    Some(answer != EAGAIN)
}
