//! Channels: many senders, one receiver, as in `std::sync::mpsc`. A queue behind a mutex, and two condition variables.

use super::{Arc, Condvar, Mutex, MutexGuard};
use crate::collections::VecDeque;
use crate::time::{Duration, Instant};
use crate::{error, fmt};

/// What both ends share.
struct Channel<T> {
    state: Mutex<State<T>>,
    /// The queue is not empty, or the last sender has been dropped.
    filled: Condvar,
    /// There is room, a message has been taken, or the receiver has been dropped.
    taken: Condvar,
}

struct State<T> {
    queue: VecDeque<T>,
    /// How many messages may wait; `None` if any number may, 0 if each send waits for its receive.
    bound: Option<usize>,
    senders: usize,
    receiver: bool,
    /// Receivers that wait: 0 or 1.
    hungry: usize,
    /// Messages taken since the beginning, for sends that wait for theirs.
    received: u64,
    /// Messages sent since the beginning.
    sent: u64,
}

/// The end of an unbounded channel that sends.
pub struct Sender<T>(Arc<Channel<T>>);

/// The end of a bounded channel that sends.
pub struct SyncSender<T>(Arc<Channel<T>>);

/// The end that receives.
pub struct Receiver<T>(Arc<Channel<T>>);

/// A channel that holds any number of messages.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let channel = new(None);
    (Sender(channel.clone()), Receiver(channel))
}

/// A channel that holds `bound` messages; with 0 every send waits until its message is received.
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let channel = new(Some(bound));
    (SyncSender(channel.clone()), Receiver(channel))
}

fn new<T>(bound: Option<usize>) -> Arc<Channel<T>> {
    let queue = VecDeque::new();
    let state = State { queue, bound, senders: 1, receiver: true, hungry: 0, received: 0, sent: 0 };
    Arc::new(Channel { state: Mutex::new(state), filled: Condvar::new(), taken: Condvar::new() })
}

impl<T> State<T> {
    /// Whether a message may be put into the queue without waiting.
    fn has_room(&self) -> bool {
        match self.bound {
            None => true,
            Some(0) => self.queue.len() < self.hungry,
            Some(bound) => self.queue.len() < bound,
        }
    }

    /// Whether a sender that may wait can put its message down. In a channel without room it does so as soon as no other
    /// message lies there, and then waits for it to be taken.
    fn may_put_down(&self) -> bool {
        !self.receiver || self.has_room() || (self.bound == Some(0) && self.queue.is_empty())
    }
}

impl<T> Channel<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(super::PoisonError::into_inner)
    }

    fn wait<'a>(&self, what: &Condvar, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        what.wait(state).unwrap_or_else(super::PoisonError::into_inner)
    }

    fn put(&self, state: &mut State<T>, message: T) {
        state.queue.push_back(message);
        state.sent += 1;
        self.filled.notify_one();
    }

    fn send(&self, message: T) -> Result<(), SendError<T>> {
        let mut state = self.lock();
        while !state.may_put_down() {
            state = self.wait(&self.taken, state);
        }
        if !state.receiver {
            return Err(SendError(message));
        }
        self.put(&mut state, message);
        if state.bound == Some(0) {
            let mine = state.sent;
            while state.receiver && state.received < mine {
                state = self.wait(&self.taken, state);
            }
            if state.received < mine {
                // The receiver has been dropped: the message, the only one there, goes back.
                return state.queue.pop_back().map_or(Ok(()), |message| Err(SendError(message)));
            }
        }
        Ok(())
    }

    fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut state = self.lock();
        if !state.receiver {
            return Err(TrySendError::Disconnected(message));
        }
        if !state.has_room() {
            return Err(TrySendError::Full(message));
        }
        self.put(&mut state, message);
        Ok(())
    }

    fn take(&self, state: &mut State<T>) -> Result<T, TryRecvError> {
        let Some(message) = state.queue.pop_front() else {
            return Err(if state.senders == 0 { TryRecvError::Disconnected } else { TryRecvError::Empty });
        };
        state.received += 1;
        if state.bound.is_some() {
            // Different senders wait for different things here, so all look.
            self.taken.notify_all();
        }
        Ok(message)
    }

    /// Waits for a message until `deadline`.
    fn receive(&self, deadline: Option<Instant>) -> Result<T, RecvTimeoutError> {
        let mut state = self.lock();
        loop {
            match self.take(&mut state) {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {}
            }
            state.hungry += 1;
            state = match deadline {
                None => self.wait(&self.filled, state),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        state.hungry -= 1;
                        return Err(RecvTimeoutError::Timeout);
                    }
                    self.filled.wait_timeout(state, left).unwrap_or_else(super::PoisonError::into_inner).0
                }
            };
            state.hungry -= 1;
        }
    }

    fn add_sender(&self) {
        self.lock().senders += 1;
    }

    fn drop_sender(&self) {
        let mut state = self.lock();
        state.senders -= 1;
        if state.senders == 0 {
            drop(state);
            self.filled.notify_one();
        }
    }
}

impl<T> Sender<T> {
    /// Sends a message; fails if the receiver has been dropped.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.0.send(message)
    }
}

impl<T> SyncSender<T> {
    /// Sends a message, waiting for room; fails if the receiver has been dropped.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.0.send(message)
    }

    /// Sends a message if there is room.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.0.try_send(message)
    }
}

impl<T> Receiver<T> {
    /// Waits for a message; fails if none is there and all senders have been dropped.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.0.receive(None).map_err(|_| RecvError)
    }

    /// A message, if one is there.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.0.lock();
        self.0.take(&mut state)
    }

    /// Waits for a message, at most for `timeout`.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        // Too far away to be represented is as good as never.
        self.0.receive(Instant::now().checked_add(timeout))
    }

    /// Messages, until all senders have been dropped.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self)
    }

    /// The messages that are there now.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter(self)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.add_sender();
        Sender(self.0.clone())
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> SyncSender<T> {
        self.0.add_sender();
        SyncSender(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.drop_sender();
    }
}

impl<T> Drop for SyncSender<T> {
    fn drop(&mut self) {
        self.0.drop_sender();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.receiver = false;
        // A message that its sender still waits for goes back to it; the others are dropped, without the lock.
        let rest = if state.bound == Some(0) { VecDeque::new() } else { core::mem::take(&mut state.queue) };
        drop(state);
        self.0.taken.notify_all();
        drop(rest);
    }
}

/// What [`Receiver::iter`] returns.
#[derive(Debug)]
pub struct Iter<'a, T>(&'a Receiver<T>);

/// What [`Receiver::try_iter`] returns.
#[derive(Debug)]
pub struct TryIter<'a, T>(&'a Receiver<T>);

/// Messages of a receiver, until all senders have been dropped.
#[derive(Debug)]
pub struct IntoIter<T>(Receiver<T>);

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}

/// The receiver has been dropped; the message comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// Why `try_send` did not send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no room.
    Full(T),
    /// The receiver has been dropped.
    Disconnected(T),
}

/// All senders have been dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvError;

/// Why `try_recv` has no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// None is there now.
    Empty,
    /// All senders have been dropped.
    Disconnected,
}

/// Why `recv_timeout` has no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvTimeoutError {
    /// The time was over.
    Timeout,
    /// All senders have been dropped.
    Disconnected,
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "TrySendError::Full(..)",
            TrySendError::Disconnected(_) => "TrySendError::Disconnected(..)",
        })
    }
}

macro_rules! messages {
    ($($type:ty { $($pattern:pat => $text:literal),+ } $(<$param:ident>)?;)*) => { $(
        impl$(<$param>)? fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($pattern => $text),+ })
            }
        }

        impl$(<$param>)? error::Error for $type {}
    )* };
}

messages! {
    SendError<T> { _ => "sending on a closed channel" } <T>;
    TrySendError<T> { Self::Full(_) => "sending on a full channel", Self::Disconnected(_) => "sending on a closed channel" } <T>;
    RecvError { _ => "receiving on a closed channel" };
    TryRecvError { Self::Empty => "receiving on an empty channel", Self::Disconnected => "receiving on a closed channel" };
    RecvTimeoutError { Self::Timeout => "timed out waiting on channel", Self::Disconnected => "channel is empty and sending half is closed" };
}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(SendError(message): SendError<T>) -> TrySendError<T> {
        TrySendError::Disconnected(message)
    }
}

impl From<RecvError> for TryRecvError {
    fn from(_: RecvError) -> TryRecvError {
        TryRecvError::Disconnected
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(_: RecvError) -> RecvTimeoutError {
        RecvTimeoutError::Disconnected
    }
}

macro_rules! opaque {
    ($($type:ident)*) => { $(
        impl<T> fmt::Debug for $type<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($type)).finish_non_exhaustive()
            }
        }
    )* };
}

opaque! { Sender SyncSender Receiver }
