//! Large answers that are being sent: how many bytes all of them have, and which go if there is no room for another one.
//!
//! ```text
//!   answer ─▶ room? ─┬─▶ sent ─▶ taken by its client: its bytes are free
//!                    ├─ others are behind: those longest behind are cut off, and this one is sent
//!                    ├─ other clients have more than their share, and take it slowly: they are cut off
//!                    └─ neither: refused
//! ```
//!
//! The process that has made an answer ends before its client has taken the answer, and another one may run. So clients that read slowly could
//! have any number of answers. One that does not fit is not sent later: it would be in memory meanwhile.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Body;
use hyper::http::Response;

use crate::http::answer::Answer;
use crate::http::connection::Stream;
use crate::http::content::SMALL;

/// Bytes per second that a client has to take.
const PACE: u64 = 1 << 20;
/// The same of a client that has more than its share, while another one lacks its own.
const QUICK: u64 = 16 << 20;
/// How far such a client may be behind.
const QUICK_PAUSE: Duration = Duration::from_secs(1);

/// The large answers that are being sent.
pub(crate) struct Transit {
    most: u64,
    pause: Duration,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    /// Bytes in memory.
    bytes: u64,
    begun: u64,
    sent: BTreeMap<u64, Sending>,
    /// What they are of. Several may be of the same.
    memory: HashMap<Memory, Charged>,
}

/// What an answer has in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Memory {
    /// The file with this number on this device.
    File(u64, u64),
    /// Bytes at this address.
    Bytes(usize, usize),
    /// Another one for each answer.
    Own(u64),
}

struct Charged {
    bytes: u64,
    answers: usize,
}

struct Sending {
    memory: Memory,
    bytes: u64,
    begun: Instant,
    /// Bytes that were given to the connection, or all if that is not known.
    taken: Arc<AtomicU64>,
    peer: Peer,
    stream: Arc<Stream>,
}

/// A client, as far as it can be told from others: clients of a Unix socket are one.
type Peer = Option<IpAddr>;

/// The room of an answer, until all of it has been sent.
pub(crate) struct Room {
    of: Arc<Transit>,
    key: u64,
    taken: Arc<AtomicU64>,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Room")
    }
}

/// There is no room for an answer.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct NoRoom;

/// Bytes with their room, which is another's before they are.
struct Kept {
    _room: Room,
    bytes: Bytes,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What is to be sent.
#[derive(Clone, Copy)]
struct Wanted {
    /// `None` if nothing else is of it.
    memory: Option<Memory>,
    bytes: u64,
    /// Whether it is known what its client has taken of it.
    in_parts: bool,
    peer: Peer,
}

impl Transit {
    /// All together have at most so many bytes, or one has more. Clients take them at a pace, and this pause.
    pub(crate) fn new(most: u64, pause: Duration) -> Arc<Transit> {
        Arc::new(Transit { most, pause, all: Mutex::default() })
    }

    /// Gives an answer its room, if it is large and has none.
    pub(crate) fn begin(
        self: &Arc<Transit>,
        response: &mut Response<Answer>,
        stream: &Arc<Stream>,
    ) -> Result<(), NoRoom> {
        let Some(bytes) = response.body().size_hint().exact().filter(|bytes| *bytes > SMALL) else { return Ok(()) };
        let memory = match response.body() {
            Answer::Whole(bytes) => Some(Memory::Bytes(bytes.as_ptr() as usize, bytes.len())),
            Answer::File { file, .. } => Memory::of_file(file),
            Answer::Stream(_) => None,
            Answer::Large { .. } => return Ok(()),
        };
        let in_parts = !matches!(response.body(), Answer::Whole(_));
        let wanted = Wanted { memory, bytes, in_parts, peer: peer_of(stream) };
        let room = self.room(wanted, stream, Instant::now())?;
        let answer = std::mem::replace(response.body_mut(), Answer::Whole(Bytes::new()));
        *response.body_mut() = match answer {
            // They are in memory as long as something has a part of them.
            Answer::Whole(bytes) => Answer::Whole(Bytes::from_owner(Kept { bytes, _room: room })),
            parts => Answer::Large { parts: Box::new(parts), room },
        };
        Ok(())
    }

    /// The room of something of so many bytes that is sent bit by bit, if that is large.
    pub(crate) fn room_of(self: &Arc<Transit>, bytes: u64, stream: &Arc<Stream>) -> Result<Option<Room>, NoRoom> {
        let wanted = Wanted { memory: None, bytes, in_parts: false, peer: peer_of(stream) };
        (bytes > SMALL).then(|| self.room(wanted, stream, Instant::now())).transpose()
    }

    /// The room of an answer that is made once there is room for it, and sent in parts.
    pub(crate) fn room_for_parts(
        self: &Arc<Transit>,
        bytes: u64,
        stream: &Arc<Stream>,
    ) -> Result<Option<Room>, NoRoom> {
        let wanted = Wanted { memory: None, bytes, in_parts: true, peer: peer_of(stream) };
        (bytes > SMALL).then(|| self.room(wanted, stream, Instant::now())).transpose()
    }

    /// How many bytes they have.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn room(self: &Arc<Transit>, wanted: Wanted, stream: &Arc<Stream>, now: Instant) -> Result<Room, NoRoom> {
        let Wanted { memory, bytes, in_parts, peer } = wanted;
        let mut all = self.lock();
        let is_there = memory.is_some_and(|memory| all.memory.contains_key(&memory));
        let cut = if is_there { Vec::new() } else { self.in_the_way(&all, wanted, now).ok_or(NoRoom)? };
        let cut: Vec<Sending> = cut.into_iter().filter_map(|key| all.remove(key)).collect();
        all.begun += 1;
        let key = all.begun;
        let memory = memory.unwrap_or(Memory::Own(key));
        let charged = all.memory.entry(memory).or_insert(Charged { bytes, answers: 0 });
        charged.answers += 1;
        if charged.answers == 1 {
            all.bytes += bytes;
        }
        let taken = Arc::new(AtomicU64::new(if in_parts { 0 } else { bytes }));
        all.sent.insert(key, Sending { memory, bytes, begun: now, taken: taken.clone(), peer, stream: stream.clone() });
        drop(all);
        for cut in cut {
            tracing::info!(
                peer = cut.stream.peer().map(tracing::field::display),
                bytes = cut.bytes,
                "cut off: a client that takes an answer slowly, as there is no room for another one"
            );
            cut.stream.cut();
        }
        Ok(Room { of: self.clone(), key, taken })
    }

    /// Those that have to go for what is wanted: none, if there is room. Nothing, if that would not be enough.
    fn in_the_way(&self, all: &All, wanted: Wanted, now: Instant) -> Option<Vec<u64>> {
        // One that is larger than all may be is sent alone.
        let before = self.most.saturating_sub(wanted.bytes);
        let mut going = Going { all, cut: Vec::new(), left: HashMap::new(), bytes: all.bytes };
        if going.bytes <= before {
            return Some(Vec::new());
        }
        let mut late: Vec<_> = all.sent.iter().map(|(key, sending)| (sending.due(PACE, self.pause), *key)).collect();
        late.retain(|(due, _)| *due <= now);
        late.sort_unstable();
        for (_, key) in late {
            if going.bytes > before {
                going.take(key);
            }
        }
        if going.bytes > before {
            let mut held = all.held();
            let share = self.most / (held.len() as u64 + u64::from(!held.contains_key(&wanted.peer)));
            if held.get(&wanted.peer).copied().unwrap_or(0) + wanted.bytes > share {
                return None;
            }
            let is_slow = |sending: &Sending| sending.due(QUICK, QUICK_PAUSE) <= now;
            let mut slow: Vec<_> = all.sent.iter().filter(|(_, sending)| is_slow(sending)).collect();
            // Of those that have most.
            slow.sort_by_key(|(key, sending)| (Reverse(held.get(&sending.peer).copied()), sending.begun, **key));
            for (key, sending) in slow {
                let has = held.entry(sending.peer).or_default();
                if going.bytes > before && *has > share && !going.cut.contains(key) {
                    *has = has.saturating_sub(sending.bytes);
                    going.take(*key);
                }
            }
        }
        (going.bytes <= before).then(|| going.needed())
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers that are to be cut off, and what that comes to.
struct Going<'a> {
    all: &'a All,
    cut: Vec<u64>,
    /// Answers that stay, of what others of are to go.
    left: HashMap<Memory, usize>,
    /// Bytes that stay.
    bytes: u64,
}

impl Going<'_> {
    fn take(&mut self, key: u64) {
        let memory = self.all.sent[&key].memory;
        let charged = &self.all.memory[&memory];
        let left = self.left.entry(memory).or_insert(charged.answers);
        *left -= 1;
        if *left == 0 {
            self.bytes -= charged.bytes;
        }
        self.cut.push(key);
    }

    /// Without those whose bytes another one needs all the same.
    fn needed(mut self) -> Vec<u64> {
        self.cut.retain(|key| self.left[&self.all.sent[key].memory] == 0);
        self.cut
    }
}

impl All {
    fn remove(&mut self, key: u64) -> Option<Sending> {
        let sending = self.sent.remove(&key)?;
        if let Some(charged) = self.memory.get_mut(&sending.memory) {
            charged.answers -= 1;
            if charged.answers == 0 {
                self.bytes -= charged.bytes;
                self.memory.remove(&sending.memory);
            }
        }
        Some(sending)
    }

    /// The bytes of each client, what it is sent several times once.
    fn held(&self) -> HashMap<Peer, u64> {
        let (mut held, mut seen) = (HashMap::new(), HashSet::new());
        for sending in self.sent.values() {
            if seen.insert((sending.peer, sending.memory)) {
                *held.entry(sending.peer).or_default() += sending.bytes;
            }
        }
        held
    }
}

impl Sending {
    /// When its client has to have taken more of it, at this pace.
    fn due(&self, pace: u64, pause: Duration) -> Instant {
        self.begun + pause + Duration::from_secs_f64(self.taken.load(Ordering::Relaxed) as f64 / pace as f64)
    }
}

impl Memory {
    fn of_file(file: &File) -> Option<Memory> {
        file.metadata().ok().map(|data| Memory::File(data.dev(), data.ino()))
    }
}

/// A client has as many addresses of IPv6 as it likes, with the same first half.
fn peer_of(stream: &Stream) -> Peer {
    stream.peer().map(|address| match address.ip().to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    })
}

impl Room {
    /// So many bytes more were given to the connection.
    pub(crate) fn took(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Unless it was taken away before.
        drop(self.of.lock().remove(self.key));
    }
}

#[cfg(test)]
mod tests;
