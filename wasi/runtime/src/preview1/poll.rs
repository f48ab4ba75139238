//! `poll_oneoff`: waits until one of several things has happened.
//!
//! Files and streams are always ready, so what is ever waited for is a clock or a socket. A subscription is 48 bytes and an event 32:
//!
//! ```text
//!   subscription  | user data 8 | tag 1 … | clock: id 4 … | timeout 8 | precision 8 | flags 2 …  |
//!                                         | or descriptor 4                                      |
//!   event         | user data 8 | errno 2 | tag 1 … | bytes 8 | flags 2 …                        |
//! ```

use super::Call;
use super::clock::clock;
use crate::descriptors::Target;
use crate::errno::WasiError;
use crate::files;
use crate::host::{call, now};
use crate::rights::Rights;
use crate::sockets::{self, READ as READABLE, WRITE as WRITABLE};
use alloc::vec::Vec;
use monohull_abi::file::Whence;
use monohull_abi::number;
use monohull_abi::types::Clock;

const SUBSCRIPTION_SIZE: u32 = 48;
const EVENT_SIZE: u32 = 32;
/// The timeout is a time of the clock, and not a time from now on.
const ABSOLUTE: u16 = 1;

/// A subscription's tag.
const CLOCK: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;

/// What has happened, or will have.
struct Event {
    user_data: [u8; 8],
    result: Result<u64, WasiError>,
    tag: u8,
    /// When, in ns of the monotonic clock.
    at: u64,
    /// The descriptor of a socket whose turn comes earlier if it is ready for this.
    socket: Option<(u32, u32)>,
    /// It is a file that has no more to read.
    is_at_end: bool,
}

/// The flag of an event that there is no more to come.
const HANGUP: u8 = 1;

/// Whether the position in a file is at its end, or behind it.
fn is_at_end(file: u64) -> Result<bool, WasiError> {
    let position = call(number::FILE_SEEK, [file, 0, Whence::Current as u64])?;
    Ok(position >= files::stat(file)?.size)
}

/// It does not happen by itself.
const NEVER: u64 = u64::MAX;

impl Call<'_> {
    pub(super) fn poll_oneoff(
        &mut self,
        subscriptions: u32,
        events: u32,
        count: u32,
        out: u32,
    ) -> Result<(), WasiError> {
        if count == 0 {
            return Err(WasiError::INVAL);
        }
        // Looked at as a whole first: a count that does not fit takes no memory here.
        self.guest.bytes(subscriptions, count.checked_mul(SUBSCRIPTION_SIZE).ok_or(WasiError::FAULT)?)?;
        self.guest.bytes(events, count.checked_mul(EVENT_SIZE).ok_or(WasiError::FAULT)?)?;
        let start = now(Clock::Monotonic)?;
        let mut waited = (0..count)
            .map(|index| self.subscription(subscriptions + index * SUBSCRIPTION_SIZE, start))
            .collect::<Result<Vec<_>, _>>()?;
        let first = waited.iter().map(|event| event.at).min().unwrap_or(start);
        let left = if first == NEVER { u64::MAX } else { first - start };
        let has_come = self.wait_for_sockets(&mut waited, start, left)?;
        let end = now(Clock::Monotonic)?;
        // A clock's time has come if no socket is why it was not waited for.
        let end = if has_come { end } else { end.max(first) };
        let mut stored = 0;
        for event in waited.iter().filter(|event| event.at <= end && event.at != NEVER) {
            self.store_event(events + stored * EVENT_SIZE, event)?;
            stored += 1;
        }
        self.guest.store_u32(out, stored)
    }

    /// Waits, at most so many ns, and gives those their turn at `start` whose socket is ready then. Whether there are any.
    fn wait_for_sockets(&self, waited: &mut [Event], start: u64, most: u64) -> Result<bool, WasiError> {
        let of_sockets = || waited.iter().enumerate().filter_map(|(index, event)| event.socket.map(|of| (index, of)));
        let indexes: Vec<usize> = of_sockets().map(|(index, _)| index).collect();
        let sockets = of_sockets()
            .map(|(_, (fd, wanted))| Ok((self.state.descriptors.get(fd)?.socket()?, wanted)))
            .collect::<Result<Vec<_>, WasiError>>()?;
        if most == 0 && sockets.is_empty() {
            return Ok(false);
        }
        let found = sockets::wait(&sockets, most)?;
        let ready = indexes.iter().zip(&found).filter(|(_, found)| **found != 0);
        ready.for_each(|(index, _)| waited[*index].at = start);
        Ok(found.iter().any(|found| *found != 0))
    }

    /// What will happen, and when.
    fn subscription(&self, at: u32, start: u64) -> Result<Event, WasiError> {
        let user_data = self.guest.load(at)?;
        let [tag] = self.guest.load(at + 8)?;
        let event = |result, at| Event { user_data, result, tag, at, socket: None, is_at_end: false };
        match tag {
            CLOCK => {
                let timeout = self.guest.load_u64(at + 24)?;
                let flags = u16::from_le_bytes(self.guest.load(at + 40)?);
                if flags & !ABSOLUTE != 0 {
                    return Err(WasiError::INVAL);
                }
                match clock(self.guest.load_u32(at + 16)?) {
                    Err(error) => Ok(event(Err(error), start)),
                    Ok(clock) => {
                        let delay = match flags & ABSOLUTE {
                            0 => timeout,
                            _ => timeout.saturating_sub(now(clock)?),
                        };
                        Ok(event(Ok(0), start.saturating_add(delay)))
                    }
                }
            }
            READ | WRITE => {
                let fd = self.guest.load_u32(at + 16)?;
                let right = if tag == READ { Rights::FD_READ } else { Rights::FD_WRITE };
                let descriptor = self.state.descriptors.allowed(fd, right | Rights::POLL_FD_READWRITE);
                let ready = match descriptor.map(|descriptor| &descriptor.target) {
                    Err(error) => Err(error),
                    Ok(Target::Socket(_)) => {
                        let wanted = if tag == READ { READABLE } else { WRITABLE };
                        return Ok(Event { socket: Some((fd, wanted)), ..event(Ok(1), NEVER) });
                    }
                    Ok(Target::File(handle)) if tag == READ => match is_at_end(handle.0) {
                        Ok(is_at_end) => return Ok(Event { is_at_end, ..event(Ok(1), start) }),
                        Err(error) => Err(error),
                    },
                    Ok(Target::File(_) | Target::Device(_)) => Ok(1),
                    Ok(Target::Stdin) if tag == READ => Ok(1),
                    Ok(Target::Output(_)) if tag == WRITE => Ok(1),
                    _ => Err(WasiError::BADF),
                };
                Ok(event(ready, start))
            }
            _ => Err(WasiError::INVAL),
        }
    }

    fn store_event(&mut self, at: u32, event: &Event) -> Result<(), WasiError> {
        let mut bytes = [0; EVENT_SIZE as usize];
        bytes[..8].copy_from_slice(&event.user_data);
        let (number, ready) = match event.result {
            Ok(ready) => (0, ready),
            Err(error) => (error.0, 0),
        };
        bytes[8..10].copy_from_slice(&number.to_le_bytes());
        bytes[10] = event.tag;
        bytes[16..24].copy_from_slice(&ready.to_le_bytes());
        bytes[24] = if event.is_at_end { HANGUP } else { 0 };
        self.guest.store(at, &bytes)
    }
}
