//! Processes for workflows, as asynchronous code sees them.
//!
//! ```text
//! spawner ─▶ thread `prefork` ─▶ [ idle worker | idle worker | … ] ─▶ invocation ─▶ Run
//!            waits while the         never more than
//!            row is full             `Settings::prefork`
//! ```
//!
//! Idle workers are made by a thread of their own, because that takes longer than a small workflow runs, and a thread that
//! serves clients must not wait for it. It makes several at once, as soon as half of the row has been used up, or when no more is
//! used for a moment: then the row is full before many are asked for at once, and few are made while others work.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, mpsc, watch};
use tokio::time::timeout;

use crate::http::error::ApiError;
use monohull_domain::checkpoint::GoOn;
use monohull_sys::watched::Watched;
use monohull_worker::{CleanWorker, Data, Gauge, IdleWorker, Job, Message, Post, ProcessError, Running, Spawner};

/// The pause after an idle worker could not be made; it doubles up to the second one.
const PAUSE: [Duration; 2] = [Duration::from_millis(2), Duration::from_secs(1)];
/// So long after an idle worker was used others may be made with the one that takes its place.
const GATHERING: Duration = Duration::from_millis(5);
/// So many failures in a row mean that the cause is not one process, which may have been killed, but the host.
const TROUBLE: u32 = 4;

/// Long messages are read one after the other, the next when the last has been counted: many short texts take ten times as much
/// memory as the message that brings them.
static LONG_MESSAGES: Semaphore = Semaphore::const_new(1);

/// The pool of idle workers.
pub(crate) struct WorkerPool {
    /// Readable when the spawner has ended.
    spawner: Watched,
    idle_workers: Mutex<mpsc::Receiver<IdleWorker>>,
    ready: Arc<AtomicUsize>,
    state: watch::Receiver<State>,
    /// Since when an answer of the spawner is outstanding.
    asked: Arc<StdMutex<Option<Instant>>>,
}

/// How the making of idle workers goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// As it should.
    Well,
    /// The last few could not be made; it is tried again.
    Trouble(String),
    /// There will be none any more.
    Over(String),
}

impl State {
    /// What is wrong.
    pub(crate) fn trouble(&self) -> Option<&str> {
        match self {
            State::Well => None,
            State::Trouble(why) | State::Over(why) => Some(why),
        }
    }
}

/// How long the spawner may take before that is reported as trouble; normally it takes a millisecond.
const SLOW: Duration = Duration::from_secs(2);

/// The report in that case.
const SILENT: &str = "the process that makes those of workflows does not answer";

/// Why there are no idle workers any more, if nothing else is known.
const OVER: &str = "no process for a workflow can be made any more";

impl WorkerPool {
    /// Begins to make idle workers, and keeps this many ready.
    pub(crate) fn start(spawner: Spawner, count: usize) -> std::io::Result<WorkerPool> {
        let count = count.max(1);
        let (sender, receiver) = mpsc::channel(count);
        let (status, state) = watch::channel(State::Well);
        let ready = Arc::new(AtomicUsize::new(0));
        let asked = Arc::default();
        let descriptor = spawner.as_fd().try_clone_to_owned()?;
        let watched = Watched::new(descriptor)?;
        let runtime = tokio::runtime::Handle::current();
        let refiller =
            Refiller { spawner, sender, count, status, ready: ready.clone(), asked: Arc::clone(&asked), runtime };
        std::thread::Builder::new().name("prefork".to_owned()).spawn(move || refiller.run())?;
        Ok(WorkerPool { spawner: watched, idle_workers: Mutex::new(receiver), ready, state, asked })
    }

    /// An idle worker; waits for one if none is ready. The order is that of asking.
    pub(crate) async fn idle_worker(&self) -> Result<IdleWorker, ApiError> {
        let mut idle_workers = self.idle_workers.lock().await;
        loop {
            let mut state = self.state.clone();
            let worker = tokio::select! {
                biased;
                worker = idle_workers.recv() => worker.ok_or_else(|| ApiError::unavailable(OVER))?,
                trouble = state.wait_for(|state| *state != State::Well) => {
                    let trouble = trouble.as_deref().map_or(OVER, |state| state.trouble().unwrap_or(OVER));
                    return Err(ApiError::unavailable(trouble));
                }
            };
            self.ready.fetch_sub(1, Ordering::Relaxed);
            // One that was killed while it waited must not fail an invocation.
            if worker.is_waiting() {
                return Ok(worker);
            }
            tracing::warn!(pid = worker.pid(), "a process that waited for a workflow is gone");
        }
    }

    /// How many are ready.
    pub(crate) fn ready(&self) -> usize {
        self.ready.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> State {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        match &*self.state.borrow() {
            State::Well if asked.is_some_and(|asked| asked.elapsed() > SLOW) => State::Trouble(SILENT.to_owned()),
            state => state.clone(),
        }
    }

    /// Comes back when no idle worker can be made any more.
    pub(crate) async fn over(&self) -> String {
        let mut state = self.state.clone();
        tokio::select! {
            _ = self.spawner.readable() => ProcessError::SpawnerEnded.to_string(),
            over = state.wait_for(|state| matches!(state, State::Over(_))) => match over.as_deref() {
                Ok(State::Over(why)) => why.clone(),
                _ => OVER.to_owned(),
            }
        }
    }
}

/// The thread that makes idle workers.
struct Refiller {
    spawner: Spawner,
    sender: mpsc::Sender<IdleWorker>,
    /// How many are kept ready.
    count: usize,
    /// What serves clients.
    runtime: tokio::runtime::Handle,
    status: watch::Sender<State>,
    ready: Arc<AtomicUsize>,
    asked: Arc<StdMutex<Option<Instant>>>,
}

impl Refiller {
    fn run(self) {
        let [mut pause, longest] = PAUSE;
        let (mut failures, mut batch) = (0, self.count);
        // Until the receiver is dropped.
        let usual = (self.count / 2).clamp(1, Spawner::FORKS_MAX);
        while let Some(places) = self.runtime.block_on(self.places(batch)) {
            match self.fill(places) {
                Ok(()) => {
                    (pause, failures) = (PAUSE[0], 0);
                    batch = (2 * batch).min(usual);
                    self.status.send_if_modified(|state| std::mem::replace(state, State::Well) != State::Well);
                }
                Err(error @ ProcessError::SpawnerEnded) => {
                    tracing::error!(%error);
                    self.status.send_replace(State::Over(error.to_string()));
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "a process for a workflow could not be made");
                    failures += 1;
                    // What is too little for several at once may be enough for one.
                    batch = 1;
                    if failures >= TROUBLE {
                        self.status.send_replace(State::Trouble(error.to_string()));
                    }
                    std::thread::sleep(pause);
                    pause = (2 * pause).min(longest);
                }
            }
        }
    }

    /// Waits for a free place, and a moment for others, up to so many; `None` if the receiver has been dropped.
    async fn places(&self, most: usize) -> Option<Vec<mpsc::Permit<'_, IdleWorker>>> {
        let mut places = vec![self.sender.reserve().await.ok()?];
        match timeout(GATHERING, self.sender.reserve_many(most - 1)).await {
            Ok(others) => places.extend(others.ok()?),
            Err(_) => places.extend(std::iter::from_fn(|| self.sender.try_reserve().ok()).take(most - 1)),
        }
        Some(places)
    }

    /// Makes idle workers for these places, or for some of them. An error if there is none.
    fn fill(&self, places: Vec<mpsc::Permit<'_, IdleWorker>>) -> Result<(), ProcessError> {
        let (mut made, mut failed) = (0, None);
        let note = |asked| *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = asked;
        note(Some(Instant::now()));
        let forked = self.spawner.fork(places.len());
        note(None);
        let mut places = places.into_iter();
        for unready in forked? {
            match (unready.wait(), places.next()) {
                (Ok(worker), Some(place)) => {
                    self.ready.fetch_add(1, Ordering::Relaxed);
                    place.send(worker);
                    made += 1;
                }
                (Err(error), _) => failed = Some(error),
                (Ok(_), None) => break,
            }
        }
        failed.filter(|_| made == 0).map_or(Ok(()), Err)
    }
}

/// The right to hold a long message.
pub(crate) type LargeMessagePermit = SemaphorePermit<'static>;

/// What a process has said.
pub(crate) enum Arrived {
    /// A message.
    Message(Message),
    /// A long one, which [`Run::next_long`] reads.
    Long,
}

/// A workflow that runs in its process. The process ends when this is dropped.
pub(crate) struct Run {
    /// Away while another thread reads a long message; its process ends there if this is dropped meanwhile.
    running: Option<Running>,
    /// Its socket, a duplicate.
    watched: Watched,
    pid: i32,
    /// The last message was a long one, and this is what others wait for that come with one.
    permit: Option<LargeMessagePermit>,
    /// When its memory was looked at last, and what it was.
    pub(crate) seen: Option<(Instant, u64)>,
    /// What it was when it last waited for an invocation.
    bytes: u64,
}

impl Run {
    /// Gives an idle worker its job.
    ///
    /// After an error nothing of the job has been run.
    pub(crate) fn start(worker: IdleWorker, job: &Job) -> Result<Run, ProcessError> {
        let unwatched = |source| ProcessError::Host { what: "watching a workflow's process", source };
        let watched = worker.as_fd().try_clone_to_owned().and_then(Watched::new).map_err(unwatched)?;
        let running = worker.assign(job)?;
        let pid = running.pid();
        Ok(Run { running: Some(running), watched, pid, permit: None, seen: None, bytes: 0 })
    }

    /// Whether it may have another job after an answer with these outputs.
    pub(crate) fn may_stay_after(&self, outputs: &[(String, Data)]) -> bool {
        self.running.as_ref().is_some_and(|running| running.may_stay_after(outputs))
    }

    /// Whether it has answered and has been reset.
    pub(crate) fn is_clean(&self) -> bool {
        self.running.as_ref().is_some_and(Running::is_clean)
    }

    /// A process that [has been reset](Self::is_clean) and waits; `None` otherwise, and the process ends.
    pub(crate) fn into_kept(self) -> Option<KeptRun> {
        let worker = self.running?.into_clean()?;
        Some(KeptRun { worker, watched: self.watched, bytes: self.bytes })
    }

    /// The next thing it says. The last is [`Message::Died`].
    pub(crate) async fn next(&mut self) -> Result<Message, ApiError> {
        match self.arrived().await? {
            Arrived::Message(message) => Ok(message),
            Arrived::Long => self.next_long().await,
        }
    }

    /// Waits for the next thing it says. A long message has come, and is still to be read.
    pub(crate) async fn arrived(&mut self) -> Result<Arrived, ApiError> {
        while let Some(running) = &mut self.running {
            let mut ready = self.watched.readable().await.map_err(|error| lost(&error))?;
            self.permit = None;
            if running.next_is_long() {
                return Ok(Arrived::Long);
            }
            let message = running.next_message().map_err(|error| failed(&error))?;
            // One that has been reset says nothing more: should it do so it is found out before it gets another job.
            if message.is_none() || running.is_clean() {
                ready.clear_ready();
            }
            if let Some(message) = message {
                return Ok(Arrived::Message(message));
            }
        }
        Err(given_up())
    }

    /// Reads a long message that has [come](Arrived::Long), after those that came before it. A report may have many megabytes, and takes as
    /// long to read: others are served meanwhile. How long that takes is not up to the process, so no deadline of its invocation is about it.
    pub(crate) async fn next_long(&mut self) -> Result<Message, ApiError> {
        // The semaphore is never closed.
        self.permit = LONG_MESSAGES.acquire().await.ok();
        let mut running = self.running.take().ok_or_else(given_up)?;
        let read = tokio::task::spawn_blocking(move || (running.next_message(), running));
        let (message, running) = read.await.map_err(|error| ApiError::monohull(error.to_string()))?;
        self.running = Some(running);
        let message = message.map_err(|error| failed(&error))?.ok_or_else(given_up)?;
        // What a workflow waits for is read, and of the rest little is kept. Its process may say nothing more for days.
        if matches!(message, Message::Suspended(_) | Message::Captured(_)) {
            self.permit = None;
        }
        Ok(message)
    }

    /// If the last message was a long one, so is whatever is made of it: the next is read when this is dropped.
    pub(crate) fn take_permit(&mut self) -> Option<LargeMessagePermit> {
        self.permit.take()
    }

    /// What sends it events while it runs, if it listens.
    pub(crate) fn post(&self) -> Option<Post> {
        let post = self.running.as_ref()?.post();
        post.unwrap_or_else(|error| {
            tracing::warn!(%error, "events that come wait for the next leg");
            None
        })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it stays with a workflow that waits, and is there, and has said nothing since.
    pub(crate) fn is_resident(&self) -> bool {
        self.running.as_ref().is_some_and(Running::is_resident)
    }

    /// Lets such a workflow go on; false if the process is not there any more.
    pub(crate) fn go_on(&mut self, order: &GoOn) -> Result<bool, ApiError> {
        let Some(running) = &mut self.running else { return Ok(false) };
        running.go_on(order).map_err(|error| failed(&error))
    }

    /// The processor time of the process so far, in ticks of 10 ms; 0 if it has ended.
    pub(crate) fn processor_ticks(&self) -> u64 {
        self.running.as_ref().map_or(0, Running::processor_ticks)
    }

    /// What tells how much of both it has, also later; none if it has ended.
    pub(crate) fn gauge(&self) -> Option<Gauge> {
        self.running.as_ref().map(Running::gauge)
    }

    /// Bytes of memory that the process has for itself; 0 if it has ended.
    pub(crate) fn private_memory(&self) -> u64 {
        self.running.as_ref().map_or(0, Running::private_memory)
    }
}

/// A process that waits for another invocation of its workflow. It ends when this is dropped.
pub(crate) struct KeptRun {
    worker: CleanWorker,
    /// Its socket, which stays watched.
    watched: Watched,
    /// Its memory when it was looked at last; 0 if it was not.
    pub(crate) bytes: u64,
}

impl KeptRun {
    /// The process.
    pub(crate) fn worker(&self) -> &CleanWorker {
        &self.worker
    }

    /// Gives it another job. After an error nothing of that has been run.
    pub(crate) fn start(self, job: &Job) -> Result<Run, ProcessError> {
        let KeptRun { worker, watched, bytes } = self;
        let pid = worker.pid();
        let running = worker.assign(job)?;
        Ok(Run { running: Some(running), watched, pid, permit: None, seen: None, bytes })
    }
}

/// What the failure of a process is for a client.
pub(crate) fn failed(error: &ProcessError) -> ApiError {
    ApiError::host(error.to_string())
}

fn given_up() -> ApiError {
    ApiError::monohull("its process was given up while it was read")
}

fn lost(error: &io::Error) -> ApiError {
    ApiError::host(format!("a workflow's process cannot be watched: {error}"))
}
