//! Large answers that are being sent: how many bytes all of them have, and which go if there is no room for another one.
//!
//! ```text
//!   answer ─▶ room? ─┬─▶ sent ─▶ taken by its client: its bytes are free
//!                    ├─ others have had their time: the latest of them are cut off, and this one is sent
//!                    └─ none has: refused
//! ```
//!
//! The process that has made an answer ends before its client has taken the answer, and another one may run. So clients that read slowly could
//! have any number of answers. One that does not fit is not sent later: it would be in memory meanwhile.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Body;
use hyper::http::Response;

use crate::http::answer::Answer;
use crate::http::connection::Stream;
use crate::http::content::SMALL;

/// Bytes per second for which an answer has its time.
const PACE: u64 = 1 << 20;

/// The large answers that are being sent.
pub(crate) struct Transit {
    most: u64,
    pause: Duration,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    bytes: u64,
    begun: u64,
    /// By the end of their time.
    sent: BTreeMap<(Instant, u64), Sending>,
}

struct Sending {
    bytes: u64,
    stream: Arc<Stream>,
}

/// The room of an answer, until all of it has been sent.
pub(crate) struct Room {
    of: Arc<Transit>,
    key: (Instant, u64),
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Room")
    }
}

/// There is no room for an answer.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct NoRoom;

/// Bytes with their room.
struct Kept {
    bytes: Bytes,
    _room: Room,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Transit {
    /// All together have at most so many bytes, or one has more. An answer has a second for each MiB, and this pause.
    pub(crate) fn new(most: u64, pause: Duration) -> Arc<Transit> {
        Arc::new(Transit { most, pause, all: Mutex::default() })
    }

    /// Gives an answer its room, if it is large.
    pub(crate) fn begin(
        self: &Arc<Transit>,
        response: &mut Response<Answer>,
        stream: &Arc<Stream>,
    ) -> Result<(), NoRoom> {
        let Some(bytes) = response.body().size_hint().exact() else { return Ok(()) };
        let Some(room) = self.room_of(bytes, stream)? else { return Ok(()) };
        let answer = std::mem::replace(response.body_mut(), Answer::Whole(Bytes::new()));
        *response.body_mut() = match answer {
            // They are in memory as long as something has a part of them.
            Answer::Whole(bytes) => Answer::Whole(Bytes::from_owner(Kept { bytes, _room: room })),
            parts => Answer::Large { parts: Box::new(parts), _room: room },
        };
        Ok(())
    }

    /// The room of something of so many bytes that is sent bit by bit, if that is large.
    pub(crate) fn room_of(self: &Arc<Transit>, bytes: u64, stream: &Arc<Stream>) -> Result<Option<Room>, NoRoom> {
        (bytes > SMALL).then(|| self.room(bytes, stream, Instant::now())).transpose()
    }

    /// How many bytes they have.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn room(self: &Arc<Transit>, bytes: u64, stream: &Arc<Stream>, now: Instant) -> Result<Room, NoRoom> {
        let mut all = self.lock();
        // One that is larger than all may be is sent alone.
        let before = self.most.saturating_sub(bytes);
        let late: u64 = all.sent.range(..=(now, u64::MAX)).map(|(_, sending)| sending.bytes).sum();
        if all.bytes - late > before {
            return Err(NoRoom);
        }
        let mut cut = Vec::new();
        while all.bytes > before {
            let Some((_, late)) = all.sent.pop_first() else { break };
            all.bytes -= late.bytes;
            cut.push(late);
        }
        all.begun += 1;
        let key = (now + self.pause + Duration::from_secs(bytes / PACE), all.begun);
        all.bytes += bytes;
        all.sent.insert(key, Sending { bytes, stream: stream.clone() });
        drop(all);
        for late in cut {
            tracing::info!(
                peer = late.stream.peer().map(tracing::field::display),
                bytes = late.bytes,
                "cut off: a client that takes an answer slowly, as there is no room for another one"
            );
            late.stream.cut();
        }
        Ok(Room { of: self.clone(), key })
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut all = self.of.lock();
        // Unless it was taken away before.
        if let Some(sending) = all.sent.remove(&self.key) {
            all.bytes -= sending.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    const SECOND: Duration = Duration::from_secs(1);
    const MIB: u64 = 1 << 20;

    /// A connection, and its client.
    fn connection() -> (Arc<Stream>, UnixStream) {
        let (server, client) = UnixStream::pair().expect("a pair");
        server.set_nonblocking(true).expect("set");
        client.set_nonblocking(true).expect("set");
        (Arc::new(Stream::Unix(tokio::net::UnixStream::from_std(server).expect("registered"))), client)
    }

    fn is_cut(client: &mut UnixStream) -> bool {
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[tokio::test]
    async fn what_has_had_its_time_goes_for_another_one_and_nothing_else_does() {
        let transit = Transit::new(10 * MIB, 2 * SECOND);
        let begin = Instant::now();
        let at = |seconds: u32| begin + seconds * SECOND;
        let (one, mut first) = connection();
        let (other, mut second) = connection();
        // They have six and five seconds.
        let slow = transit.room(4 * MIB, &one, at(0)).expect("room");
        let slower = transit.room(3 * MIB, &other, at(0)).expect("room");
        let third = transit.room(3 * MIB, &one, at(1)).expect("room");
        assert_eq!(transit.bytes(), 10 * MIB);
        assert_eq!(transit.room(1, &one, at(4)).err(), Some(NoRoom));
        assert_eq!(transit.room(4 * MIB, &one, at(5)).err(), Some(NoRoom), "what is late has less");
        assert!(!is_cut(&mut second), "it would not have been enough");
        let next = transit.room(3 * MIB, &one, at(5)).expect("the late one goes");
        assert!(is_cut(&mut second) && !is_cut(&mut first));
        assert_eq!(transit.bytes(), 10 * MIB);
        drop(slower);
        assert_eq!(transit.bytes(), 10 * MIB, "its room is another's");
        drop(third);
        let again = transit.room(3 * MIB, &one, at(100)).expect("room");
        assert!(!is_cut(&mut first), "none that is late goes without need");
        drop((slow, next, again));
        assert_eq!((transit.bytes(), transit.lock().sent.len()), (0, 0));
    }

    #[tokio::test]
    async fn one_that_is_larger_than_all_may_be_is_sent_alone() {
        let transit = Transit::new(10 * MIB, SECOND);
        let begin = Instant::now();
        let (stream, _client) = connection();
        let small = transit.room(1, &stream, begin).expect("room");
        assert_eq!(transit.room(11 * MIB, &stream, begin).err(), Some(NoRoom));
        drop(small);
        let large = transit.room(11 * MIB, &stream, begin).expect("it is alone");
        assert_eq!(transit.room(1, &stream, begin).err(), Some(NoRoom));
        drop(large);
        transit.room(1, &stream, begin).expect("room");
    }

    #[tokio::test]
    async fn bytes_in_memory_have_their_room_as_long_as_something_has_a_part_of_them() {
        let transit = Transit::new(MIB, SECOND);
        let (stream, _client) = connection();
        let whole = |len: usize| Response::new(Answer::from(vec![b'x'; len]));
        let mut small = whole(SMALL as usize);
        transit.begin(&mut small, &stream).expect("it needs none");
        assert_eq!(transit.bytes(), 0);
        let mut large = whole(MIB as usize);
        transit.begin(&mut large, &stream).expect("room");
        assert_eq!(transit.begin(&mut whole(MIB as usize), &stream), Err(NoRoom));
        let Answer::Whole(bytes) = large.into_body() else { panic!("in memory") };
        let part = bytes.slice(5..6);
        drop(bytes);
        assert_eq!(transit.bytes(), MIB);
        drop(part);
        assert_eq!(transit.bytes(), 0);
    }
}
