//! Captures of a workflow that goes on, on their way to the supervisor.
//!
//! ```text
//!   carrier ── keep ─▶ one place ─▶ thread: encode, seal, send ─▶ supervisor: write, commit ─▶ Kept ─▶ thread ─▶ Answer ─▶ carrier
//! ```
//!
//! All of that takes as long as it takes to copy the workflow's memory and to write it to a disk. Functions run meanwhile.

use super::captured::seal_continuation;
use super::job::read_events;
use super::protocol::{FromWorker, SupervisorChannel, ToWorker};
use super::sent::seal_sent;
use monohull_domain::checkpoint::{Answer, Base, Keeper, Suspended};
use monohull_ipc::channel::is_shortage;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::Builder;

/// What passes captures on.
pub(super) struct Captures {
    channel: Arc<SupervisorChannel>,
    state: Mutex<State>,
    changed: Condvar,
    /// The state is [`State::Answered`]. Carriers look at this: the lock may be held while the socket has no room.
    answered: AtomicBool,
}

enum State {
    /// None is on its way.
    Idle,
    /// One waits to be sent.
    Captured(Box<Suspended>),
    /// The thread has one that is not answered.
    Sending,
    /// It has been answered.
    Answered(Answer),
    /// The run has ended, or the supervisor has: nothing is sent any more.
    Closed,
}

impl Captures {
    /// Starts the thread that passes them on. It ends with the process, or after [`Captures::close`].
    pub(super) fn start(channel: Arc<SupervisorChannel>) -> io::Result<Arc<Captures>> {
        let (state, changed, answered) = (Mutex::new(State::Idle), Condvar::new(), AtomicBool::new(false));
        let captures = Arc::new(Captures { channel, state, changed, answered });
        let own = captures.clone();
        Builder::new().name("captures".to_owned()).spawn(move || own.pass_on())?;
        Ok(captures)
    }

    /// The run has ended: a capture that was not sent is dropped, so that the answer to the job is the last that is sent.
    pub(super) fn close(&self) {
        self.set(State::Closed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("captures")
    }

    fn set(&self, state: State) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    /// Waits as long as `waits` says of the state.
    fn wait_while(&self, waits: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        self.changed.wait_while(self.lock(), |state| waits(state)).expect("captures")
    }

    /// Takes the answer, if there is one: then there may be another capture.
    fn take(&self, state: &mut State) -> Option<Answer> {
        match std::mem::replace(state, State::Idle) {
            State::Answered(answer) => {
                self.answered.store(false, Ordering::Relaxed);
                Some(answer)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// The thread.
    fn pass_on(&self) {
        loop {
            let captured = {
                let mut state = self.wait_while(|state| !matches!(state, State::Captured(_) | State::Closed));
                match std::mem::replace(&mut *state, State::Sending) {
                    State::Captured(captured) => captured,
                    _ => return *state = State::Closed,
                }
            };
            let answer = match self.send(*captured) {
                Ok(Some(answer)) => answer,
                // Nothing can be sent any more.
                Ok(None) => return self.set(State::Closed),
                Err(error) => {
                    tracing::warn!("a capture of the workflow cannot be passed on: {error}");
                    Answer::default()
                }
            };
            let mut state = self.lock();
            if !matches!(*state, State::Closed) {
                *state = State::Answered(answer);
                self.answered.store(true, Ordering::Relaxed);
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Sends a capture and waits for the answer; `None` if there will be none. An error is one of this process: it lacks memory or a
    /// descriptor.
    fn send(&self, captured: Suspended) -> io::Result<Option<Answer>> {
        let Suspended { continuation, waits, until, events_taken, published, sent, .. } = captured;
        let (sent, attached) = (sent.len(), seal_sent(&sent)?);
        let file = seal_continuation(continuation)?;
        {
            // Under the lock, so that none is sent after the run's end.
            let state = self.lock();
            let (events_taken, is_sent) = (events_taken.clone(), attached.is_some());
            let message = FromWorker::Captured { waits, until, events_taken, published, sent: is_sent };
            let files: Vec<_> = [&file].into_iter().chain(&attached).map(AsFd::as_fd).collect();
            if matches!(*state, State::Closed) {
                return Ok(None);
            }
            match self.channel.send(&message, &files) {
                // The next one may find what is missing now, such as descriptors in flight that other processes have.
                Err(error) if is_shortage(&error) => return Err(error),
                Err(_) => return Ok(None),
                Ok(()) => {}
            }
        }
        drop(file);
        let Ok(Some(mut packet)) = self.channel.receive() else { return Ok(None) };
        let mut files = std::mem::take(&mut packet.files).into_iter();
        let Ok(ToWorker::Kept { kept, whole, events }) = packet.read() else { return Ok(None) };
        let events = match (events, files.next()) {
            (true, Some(file)) => read_events(&file).map_err(io::Error::other)?,
            _ => Vec::new(),
        };
        let (next, taken, sent) = match (kept, whole) {
            (true, false) => (Base::This, events_taken, sent),
            (true, true) => (Base::None, events_taken, sent),
            (false, _) => (Base::Before, Vec::new(), 0),
        };
        Ok(Some(Answer { next, taken, sent, events }))
    }
}

impl Keeper for Captures {
    fn keep(&self, captured: Suspended) {
        let mut state = self.lock();
        // There is one at a time, so the place is free unless the run has ended.
        if matches!(*state, State::Idle) {
            *state = State::Captured(Box::new(captured));
        }
        drop(state);
        self.changed.notify_all();
    }

    fn has_answer(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    fn take_answer(&self) -> Option<Answer> {
        self.take(&mut self.lock())
    }

    fn wait_for_answer(&self) -> Option<Answer> {
        self.take(&mut self.wait_while(|state| matches!(state, State::Captured(_) | State::Sending)))
    }
}
