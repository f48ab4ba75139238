//! Our side of processes that go on from a captured sleeper, from a supervisor in a process of its own: copies, and one from a file.
//!
//! ```text
//! a process: fills its memory, sleeps ─▶ continuation (sealed memory, once)
//!                                              ├─▶ idle worker │ job … restored, goes on … answer │ gone
//!                                              └─▶ idle worker │ job … restored, goes on … answer │ gone
//!
//!                             its file ────────── file read ───▶ idle worker │ job … restored, goes on … answer │ gone
//! ```

use crate::cold::{listen, wrong};
use crate::harness::Result;
use crate::ours::image;
use crate::page_cache;
use monohull_checkpoint::Key;
use monohull_saved::{Base, Saved};
use monohull_visor::engine::{IsolationWish, Ready};
use monohull_visor::report::Status;
use monohull_visor::worker::{Bounds, IdleWorker, Job, Message, Rest, Settings, Spawner, copy_continuation};
use monohull_visor::workflow;
use serde_json::json;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the sleeper sleeps, so that all copies find that it is over.
pub(crate) const NAP: Duration = Duration::from_millis(100);

/// A workflow of a function that sleeps with so many bytes, and writes to 40 pages of them afterwards, so often.
pub(crate) fn sleeper(bytes: usize, nap: Duration, times: u32) -> serde_json::Value {
    let nap = nap.as_millis() as u64;
    let args = json!({ "what": "wake", "count": nap, "bytes": bytes, "pages": 40, "times": times });
    json!({
        "name": "bench-wakes",
        "functions": { "probe": { "image": image("bench-probe") } },
        "steps": [{ "name": "wakes", "function": "probe", "args": args, "memory": "1GiB" }],
        "limits": { "carriers": 1 },
    })
}

/// Forks a sleeper with so many bytes so often. `each`: the median from the job to the answer, one after the other, each in a process that was ready for
/// it. `all`: from the first process that is made until the last answer, on all cores.
pub(crate) fn measure(bytes: usize, count: usize, what: &str) -> Result<f64> {
    let settings = Settings::usual(IsolationWish::Auto).map_err(|error| wrong(&error))?;
    let spawner = Spawner::start(&settings).map_err(|error| wrong(&error))?;
    let document = sleeper(bytes, NAP, 1).to_string();
    let plan = workflow::load_str(Path::new("bench.json"), &document).map_err(|error| wrong(&error))?;
    let ready = Arc::new(Ready::new(plan).map_err(|error| wrong(&error))?);
    let rest = suspend(&spawner, &ready, None)?;
    std::thread::sleep(NAP);
    let fork = || fork(&spawner, &ready, &rest);
    match what {
        "each" => {
            let mut samples = (0..count).map(|_| fork()).collect::<Result<Vec<_>>>()?;
            samples.sort_by(f64::total_cmp);
            Ok(samples[samples.len() / 2])
        }
        "all" => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let start = Instant::now();
            let share = |core: usize| count / cores + usize::from(core < count % cores);
            let forks = &|core| (0..share(core)).try_for_each(|_| fork().map(drop));
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..cores).map(|core| scope.spawn(move || forks(core))).collect();
                threads.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err("a thread panicked".into())))
            })?;
            Ok(start.elapsed().as_nanos() as f64)
        }
        _ => Err(format!("unknown measurement {what}")),
    }
}

/// Has processes go on so often from the file of a [`sleeper`] with so many bytes, which is read each time: the median from there to the answer. The
/// page cache has the file, or else it comes from the disk.
pub(crate) fn restored(file: &Asleep<'_>, count: usize, is_cached: bool) -> Result<f64> {
    let (spawner, ready, key) = file.begin()?;
    let restore = || {
        if !is_cached {
            page_cache::evict(file.path)?;
        }
        let worker = spawner.idle_worker().map_err(|error| wrong(&error))?;
        let start = Instant::now();
        let (_, rest, _) = file.read(&ready, &key)?;
        go_on(worker, Job { continuation: Some(rest), ..Job::new(ready.clone(), Vec::new()) }, start)
    };
    let mut samples = (0..count).map(|_| restore()).collect::<Result<Vec<_>>>()?;
    samples.sort_by(f64::total_cmp);
    Ok(samples[samples.len() / 2])
}

/// Goes on so often from the file of a [`sleeper`], each time in a new process, until it sleeps again, and writes that durably to another file, of this
/// name, beside it: the median. What was not touched is left where it is, or the other file is `whole`.
pub(crate) fn sleep_again(file: &Asleep<'_>, name: &str, count: usize, whole: bool) -> Result<f64> {
    let (spawner, ready, key) = file.begin()?;
    let folder = file.path.parent().ok_or("the file lies in no folder")?;
    let again = || {
        let _ = std::fs::remove_file(folder.join(format!("{name}.checkpoint")));
        let start = Instant::now();
        let (saved, rest, base) = file.read(&ready, &key)?;
        let base = base.filter(|_| !whole);
        let memory = suspend(&spawner, &ready, Some(Rest { may_leave: base.is_some(), ..rest }))?;
        let continuation = copy_continuation(memory, Bounds::NONE).map_err(|error| wrong(&error))?;
        let Saved { workflow, generation, document, functions, engine, .. } = saved;
        let saved = Saved { workflow, generation, document, functions, engine, continuation };
        saved.write(folder, name, &key, base.as_ref()).map_err(|error| wrong(&error))?;
        Ok(start.elapsed().as_nanos() as f64)
    };
    let mut samples = (0..count).map(|_| again()).collect::<Result<Vec<_>>>()?;
    samples.sort_by(f64::total_cmp);
    std::thread::sleep(NAP);
    Ok(samples[samples.len() / 2])
}

/// The file of a [`sleeper`].
pub(crate) struct Asleep<'f> {
    pub(crate) path: &'f Path,
    pub(crate) key: &'f Path,
    pub(crate) bytes: usize,
    /// How often it sleeps.
    pub(crate) times: u32,
}

impl Asleep<'_> {
    fn begin(&self) -> Result<(Spawner, Arc<Ready>, Key)> {
        let settings = Settings::usual(IsolationWish::Auto).map_err(|error| wrong(&error))?;
        let spawner = Spawner::start(&settings).map_err(|error| wrong(&error))?;
        let document = sleeper(self.bytes, NAP, self.times).to_string();
        let plan = workflow::load_str(Path::new("bench.json"), &document).map_err(|error| wrong(&error))?;
        let ready = Ready::new(plan).map_err(|error| wrong(&error))?;
        Ok((spawner, Arc::new(ready), Key::load(self.key).map_err(|error| wrong(&error))?))
    }

    fn read(&self, ready: &Ready, key: &Key) -> Result<(Saved<()>, Rest, Option<Base>)> {
        let read = Saved::read_for_one(self.path, key, |_, _| Ok(ready.plan().as_ref().clone()));
        let (Saved { workflow, generation, document, functions, engine, continuation }, later, base) =
            read.map_err(|error| wrong(&error))?;
        let rest = Rest { later, ..Rest::from(continuation) };
        Ok((Saved { workflow, generation, document, functions, engine, continuation: () }, rest, base))
    }
}

/// Runs the workflow until it only waits.
fn suspend(spawner: &Spawner, ready: &Arc<Ready>, continuation: Option<Rest>) -> Result<OwnedFd> {
    let worker = spawner.idle_worker().map_err(|error| wrong(&error))?;
    let suspend = Some(Duration::from_millis(1));
    let job = Job { suspend, continuation, ..Job::new(ready.clone(), Vec::new()) };
    let mut running = worker.assign(&job).map_err(|error| wrong(&error))?;
    listen(&mut running, |message| match message {
        Message::Suspended(suspended) => Some(suspended.continuation.try_clone().map_err(|error| error.to_string())),
        Message::Ended { report, .. } => Some(Err(format!("it was not suspended: {:?}", report.error))),
        Message::Done { .. } => Some(Err("it has ended".to_owned())),
        _ => None,
    })?
}

/// Has a process go on with the rest of it, until its end: nanoseconds from the job to the answer.
fn fork(spawner: &Spawner, ready: &Arc<Ready>, rest: &OwnedFd) -> Result<f64> {
    let worker = spawner.idle_worker().map_err(|error| wrong(&error))?;
    let continuation = Some(rest.try_clone().map_err(|error| wrong(&error))?.into());
    let job = Job { continuation, ..Job::new(ready.clone(), Vec::new()) };
    go_on(worker, job, Instant::now())
}

/// Runs a job to its end: nanoseconds to the answer.
fn go_on(worker: IdleWorker, job: Job, start: Instant) -> Result<f64> {
    let mut running = worker.assign(&job).map_err(|error| wrong(&error))?;
    listen(&mut running, |message| match message {
        Message::Done { .. } => Some(Ok(())),
        Message::Ended { report, .. } if report.status == Status::Done => Some(Ok(())),
        Message::Ended { report, .. } => Some(Err(format!("a fork has failed: {:?}", report.error))),
        _ => None,
    })??;
    let took = start.elapsed().as_nanos() as f64;
    listen(&mut running, |message| matches!(message, Message::Died(_)).then_some(()))?;
    Ok(took)
}
