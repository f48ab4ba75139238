//! Request bodies as they arrive: limits of size and speed, and the memory budget of all of them.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::http::client_limits::ClientLimits;
use crate::http::content::{Content, IN_MEMORY, Large, SMALL, memory_file};
use crate::http::error::ApiError;

/// The memory that things of one kind may take together, such as all large bodies: of requests that arrive, wait, or run.
pub(crate) struct Budget {
    room: Arc<Semaphore>,
    /// All of it.
    bytes: u64,
}

impl Budget {
    /// So many bytes.
    pub(crate) fn new(bytes: u64) -> Budget {
        let permits = (bytes / SMALL).min(Semaphore::MAX_PERMITS as u64);
        Budget { room: Arc::new(Semaphore::new(permits as usize)), bytes: permits * SMALL }
    }

    /// The same with room for something at least.
    pub(crate) fn at_least_one(bytes: u64) -> Budget {
        Budget::new(bytes.max(SMALL))
    }
}

/// A body that has arrived.
pub(crate) struct Received {
    pub(crate) content: Content,
    /// Its part of the budget, to be kept as long as the content is somewhere.
    pub(crate) hold: Hold,
}

/// A part of the budget.
#[derive(Default)]
pub(crate) struct Hold(Option<OwnedSemaphorePermit>);

impl Hold {
    /// Makes it cover so many bytes, or all there are if there are fewer.
    pub(crate) fn cover_alone(&mut self, bytes: u64, budget: &Budget) -> Result<(), ApiError> {
        self.cover(bytes.min(budget.bytes), budget)
    }

    /// Makes it cover so many bytes.
    pub(crate) fn cover(&mut self, bytes: u64, budget: &Budget) -> Result<(), ApiError> {
        let has = self.0.as_ref().map_or(0, |hold| hold.num_permits() as u64);
        let lacks = u32::try_from(bytes.div_ceil(SMALL).saturating_sub(has)).unwrap_or(u32::MAX);
        if lacks == 0 {
            return Ok(());
        }
        let Ok(more) = budget.room.clone().try_acquire_many_owned(lacks) else {
            return Err(ApiError::full("bodies of other requests take all the memory there is for them", 1));
        };
        match &mut self.0 {
            Some(hold) => hold.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }
}

/// What stands before a body, in the same content.
#[derive(Default)]
pub(crate) struct Preface {
    pub(crate) bytes: Vec<u8>,
    /// Where the length of the body belongs, which is not known before it has arrived: right-aligned, in decimal digits.
    pub(crate) length_at: Option<Range<usize>>,
}

/// Takes in a request's body: no more than `limit` bytes of it, no slower than `pace`, and only as much as `budget` has
/// room for.
pub(crate) async fn receive(
    headers: &HeaderMap,
    body: Incoming,
    limit: u64,
    pace: &ClientLimits,
    budget: &Budget,
) -> Result<Received, ApiError> {
    if let Some(coding) = headers.get_all(CONTENT_ENCODING).iter().find(|coding| *coding != "identity") {
        return Err(ApiError::unsupported(format!("Content-Encoding {coding:?} is not understood")));
    }
    let is_chunked = |coding: &&HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if let Some(coding) = headers.get_all(TRANSFER_ENCODING).iter().find(|coding| !is_chunked(coding)) {
        return Err(ApiError::unsupported(format!("Transfer-Encoding {coding:?} is not understood")));
    }
    receive_behind(Preface::default(), body, limit, pace, budget).await
}

/// The same, with something before the body, and whatever the body is said to be.
pub(crate) async fn receive_behind(
    preface: Preface,
    mut body: Incoming,
    limit: u64,
    pace: &ClientLimits,
    budget: &Budget,
) -> Result<Received, ApiError> {
    // One that the budget never has room for need not be tried again later. Small ones do not need any.
    let limit = limit.min(budget.bytes.max(SMALL));
    let announced = body.size_hint().lower();
    if announced > limit {
        return Err(ApiError::too_large("the body", limit));
    }
    let before = preface.bytes.len() as u64;
    let mut intake = Intake::new(announced + before).map_err(no_room)?;
    intake.take(preface.bytes.into()).map_err(no_room)?;
    let mut hold = Hold::default();
    let mut credit = Credit::new(pace, Instant::now());
    loop {
        let Ok(frame) = timeout_at(credit.until, body.frame()).await else {
            return Err(ApiError::too_slow("the body comes too slowly"));
        };
        let Some(frame) = frame else {
            if let Some(at) = preface.length_at {
                let length = format!("{:>width$}", intake.len - before, width = at.len());
                intake.write_at(at.start, length.as_bytes()).map_err(no_room)?;
            }
            return Ok(Received { content: intake.into_content(), hold });
        };
        let frame = frame.map_err(|error| ApiError::bad_request(format!("the body cannot be read: {error}")))?;
        // Trailers carry nothing we know.
        let Ok(data) = frame.into_data() else { continue };
        credit.add(data.len() as u64, pace, Instant::now());
        if intake.len - before + data.len() as u64 > limit {
            return Err(ApiError::too_large("the body", limit));
        }
        if intake.len + data.len() as u64 > SMALL {
            hold.cover(intake.len - before + data.len() as u64, budget)?;
        }
        intake.take(data).map_err(no_room)?;
    }
}

/// How long the rest of a body may still be waited for. What has come gives time at the slowest pace, never more than a pause: a client that was quick
/// at first cannot take its time with the rest, and with it the memory that it holds.
struct Credit {
    until: Instant,
}

impl Credit {
    fn new(pace: &ClientLimits, now: Instant) -> Credit {
        Credit { until: now + pace.pause }
    }

    fn add(&mut self, bytes: u64, pace: &ClientLimits, now: Instant) {
        let time = Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / pace.rate.max(1));
        self.until = (self.until + time).min(now + pace.pause);
    }
}

fn no_room(error: io::Error) -> ApiError {
    ApiError::host(format!("there is no room for the body: {error}"))
}

/// A body on its way in.
struct Intake {
    len: u64,
    /// As many bytes as the client has announced, at least.
    announced: u64,
    memory: Vec<u8>,
    file: Option<File>,
}

impl Intake {
    fn new(announced: u64) -> io::Result<Intake> {
        let file = if announced > IN_MEMORY { Some(memory_file()?) } else { None };
        Ok(Intake { len: 0, announced, memory: Vec::with_capacity(announced.min(SMALL) as usize), file })
    }

    fn take(&mut self, data: Bytes) -> io::Result<()> {
        self.len += data.len() as u64;
        if self.file.is_none() && self.len > IN_MEMORY {
            let mut file = memory_file()?;
            file.write_all(&std::mem::take(&mut self.memory))?;
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write_all(&data),
            None => {
                if self.len > SMALL && self.len <= self.announced {
                    // What was only announced takes no memory.
                    self.memory.reserve_exact(self.announced as usize - self.memory.len());
                }
                self.memory.extend_from_slice(&data);
                Ok(())
            }
        }
    }

    /// Replaces bytes that have been taken.
    fn write_at(&mut self, start: usize, bytes: &[u8]) -> io::Result<()> {
        match &self.file {
            Some(file) => file.write_all_at(bytes, start as u64),
            None => {
                self.memory[start..start + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn into_content(self) -> Content {
        match self.file {
            Some(file) => Content::Large(Large { file: Arc::new(file), len: self.len }),
            None => Content::Small(self.memory.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How many seconds a body was waited for that comes like this: so many bytes in each second.
    fn waited(comes: impl Fn(u64) -> u64) -> u64 {
        let pace = ClientLimits { pause: 10 * SECOND, rate: 1000, ..ClientLimits::default() };
        let begin = Instant::now();
        let mut credit = Credit::new(&pace, begin);
        let mut second = 0;
        while second < 100_000 && begin + second as u32 * SECOND < credit.until {
            credit.add(comes(second), &pace, begin + second as u32 * SECOND);
            second += 1;
        }
        second
    }

    #[test]
    fn something_that_is_larger_than_a_budget_may_have_all_of_it_alone() {
        for bytes in [0, 3 * SMALL] {
            let budget = Budget::at_least_one(bytes);
            let (mut one, mut other) = (Hold::default(), Hold::default());
            assert!(one.cover(4 * SMALL, &budget).is_err());
            one.cover_alone(4 * SMALL, &budget).expect("nothing else has any");
            assert!(other.cover_alone(1, &budget).is_err());
            drop(one);
            other.cover_alone(1, &budget).expect("room");
        }
    }

    #[test]
    fn a_body_comes_at_the_slowest_pace_all_the_time() {
        assert_eq!(waited(|_| 0), 10, "nothing comes");
        assert_eq!(waited(|_| 1000), 100_000, "at the slowest pace");
        assert_eq!(waited(|second| if second % 9 == 0 { 9000 } else { 0 }), 100_000, "the same in pieces");
        assert_eq!(waited(|_| 500), 19, "at half of it");
        // Much at once is no credit for a trickle after it.
        assert!(waited(|second| if second == 5 { 1 << 30 } else { 1 }) <= 16);
    }
}
