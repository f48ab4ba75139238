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
    holds: HashMap<Key, Hold>,
    /// What they hold. Several clients may hold the same.
    memory: HashMap<Memory, Charged>,
}

/// What an answer has in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
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
    holds: usize,
}

/// A client, and what it is sent.
type Key = (Peer, Memory);

/// What a client is sent of something in memory, by as many answers as it asks for. If it asks for the same again it has no more time, and
/// its bytes are free when all of them have ended.
struct Hold {
    bytes: u64,
    /// When the first of the answers was ready; `None` before.
    begun: Option<Instant>,
    /// Bytes that were given to their connections, or all if that is not known.
    taken: Arc<AtomicU64>,
    answers: BTreeMap<u64, Arc<Stream>>,
}

/// A client, as far as it can be told from others: clients of a Unix socket are one.
type Peer = Option<IpAddr>;

/// The room of an answer, until all of it has been sent.
pub(crate) struct Room {
    of: Arc<Transit>,
    key: Key,
    number: u64,
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
    /// Whether it can be sent.
    is_ready: bool,
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
        let wanted = Wanted { memory, bytes, in_parts, is_ready: true, peer: peer_of(stream) };
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
        let wanted = Wanted { memory: None, bytes, in_parts: false, is_ready: true, peer: peer_of(stream) };
        (bytes > SMALL).then(|| self.room(wanted, stream, Instant::now())).transpose()
    }

    /// The room of an answer that is made once there is room for it, and [then](Room::begins) sent in parts.
    pub(crate) fn room_for_parts(
        self: &Arc<Transit>,
        bytes: u64,
        stream: &Arc<Stream>,
    ) -> Result<Option<Room>, NoRoom> {
        let wanted = Wanted { memory: None, bytes, in_parts: true, is_ready: false, peer: peer_of(stream) };
        (bytes > SMALL).then(|| self.room(wanted, stream, Instant::now())).transpose()
    }

    /// How many bytes they have.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn room(self: &Arc<Transit>, wanted: Wanted, stream: &Arc<Stream>, now: Instant) -> Result<Room, NoRoom> {
        let Wanted { memory, bytes, in_parts, is_ready, peer } = wanted;
        let mut all = self.lock();
        let is_there = memory.is_some_and(|memory| all.memory.contains_key(&memory));
        let cut = if is_there { Vec::new() } else { self.in_the_way(&all, wanted, now).ok_or(NoRoom)? };
        let cut: Vec<Hold> = cut.into_iter().filter_map(|key| all.remove(key)).collect();
        all.begun += 1;
        let number = all.begun;
        let key = (peer, memory.unwrap_or(Memory::Own(number)));
        let taken = all.add(key, bytes, is_ready.then_some(now));
        if !in_parts {
            taken.fetch_max(bytes, Ordering::Relaxed);
        }
        all.holds.get_mut(&key).and_then(|hold| hold.answers.insert(number, stream.clone()));
        drop(all);
        for Hold { bytes, answers, .. } in cut {
            for stream in answers.values() {
                tracing::info!(
                    peer = stream.peer().map(tracing::field::display),
                    bytes,
                    "cut off: a client that takes an answer slowly, as there is no room for another one"
                );
                stream.cut();
            }
        }
        Ok(Room { of: self.clone(), key, number, taken })
    }

    /// Those that have to go for what is wanted: none, if there is room. Nothing, if that would not be enough.
    fn in_the_way(&self, all: &All, wanted: Wanted, now: Instant) -> Option<Vec<Key>> {
        // One that is larger than all may be is sent alone.
        let before = self.most.saturating_sub(wanted.bytes);
        let mut going = Going { all, cut: HashSet::new(), left: HashMap::new(), bytes: all.bytes };
        if going.bytes <= before {
            return Some(Vec::new());
        }
        for key in all.behind(PACE, self.pause, now) {
            if going.bytes > before {
                going.take(key);
            }
        }
        if going.bytes > before {
            let mut held: HashMap<Peer, u64> = HashMap::new();
            for (key, hold) in all.holds.iter().filter(|(key, _)| !going.cut.contains(*key)) {
                *held.entry(key.0).or_default() += hold.bytes;
            }
            let share = self.most / (held.len() as u64 + u64::from(!held.contains_key(&wanted.peer)));
            if held.get(&wanted.peer).copied().unwrap_or(0) + wanted.bytes > share {
                return None;
            }
            let mut slow = all.behind(QUICK, QUICK_PAUSE, now);
            // Of those that have most.
            slow.sort_by_key(|key| Reverse(held.get(&key.0).copied()));
            for key in slow {
                let has = held.entry(key.0).or_default();
                if going.bytes > before && *has > share && !going.cut.contains(&key) {
                    *has -= all.holds[&key].bytes;
                    going.take(key);
                }
            }
        }
        (going.bytes <= before).then(|| going.needed())
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be cut off, and what that comes to.
struct Going<'a> {
    all: &'a All,
    cut: HashSet<Key>,
    /// How many others hold what is held by those that are to go.
    left: HashMap<Memory, usize>,
    /// Bytes that stay.
    bytes: u64,
}

impl Going<'_> {
    fn take(&mut self, key: Key) {
        let charged = &self.all.memory[&key.1];
        let left = self.left.entry(key.1).or_insert(charged.holds);
        *left -= 1;
        if *left == 0 {
            self.bytes -= charged.bytes;
        }
        self.cut.insert(key);
    }

    /// Without those whose bytes another one needs all the same.
    fn needed(self) -> Vec<Key> {
        self.cut.into_iter().filter(|key| self.left[&key.1] == 0).collect()
    }
}

impl All {
    /// A client is sent this, from now on or in addition; when all of it is ready if it is. What counts the bytes that it has taken.
    fn add(&mut self, key: Key, bytes: u64, begun: Option<Instant>) -> Arc<AtomicU64> {
        let hold = self.holds.entry(key).or_insert_with(|| {
            let charged = self.memory.entry(key.1).or_insert(Charged { bytes, holds: 0 });
            charged.holds += 1;
            if charged.holds == 1 {
                self.bytes += bytes;
            }
            Hold { bytes: charged.bytes, begun, taken: Arc::default(), answers: BTreeMap::new() }
        });
        hold.taken.clone()
    }

    fn remove(&mut self, key: Key) -> Option<Hold> {
        let hold = self.holds.remove(&key)?;
        if let Some(charged) = self.memory.get_mut(&key.1) {
            charged.holds -= 1;
            if charged.holds == 0 {
                self.bytes -= charged.bytes;
                self.memory.remove(&key.1);
            }
        }
        Some(hold)
    }

    /// Those whose clients have taken less than they would have at this pace, the longest behind first.
    fn behind(&self, pace: u64, pause: Duration, now: Instant) -> Vec<Key> {
        let due = self.holds.iter().filter_map(|(key, hold)| Some((hold.due(pace, pause)?, *key)));
        let mut due: Vec<_> = due.filter(|(due, _)| *due <= now).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, key)| key).collect()
    }
}

impl Hold {
    /// When its client has to have taken more of it, at this pace.
    fn due(&self, pace: u64, pause: Duration) -> Option<Instant> {
        let taken = self.taken.load(Ordering::Relaxed) as f64;
        Some(self.begun? + pause + Duration::from_secs_f64(taken / pace as f64))
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
    /// The answer can be sent: its client has to take it.
    pub(crate) fn begins(&self) {
        if let Some(hold) = self.of.lock().holds.get_mut(&self.key) {
            hold.begun.get_or_insert_with(Instant::now);
        }
    }

    /// So many bytes more were given to the connection.
    pub(crate) fn took(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut all = self.of.lock();
        // Unless it was taken away before. Another one may be there for the same client and memory.
        let ended = all.holds.get_mut(&self.key).is_some_and(|hold| {
            hold.answers.remove(&self.number);
            hold.answers.is_empty()
        });
        let hold = if ended { all.remove(self.key) } else { None };
        drop(all);
        drop(hold);
    }
}

#[cfg(test)]
mod tests;
