//! The scheduler's state as plain data, and back: what the capture of a domain keeps of threads, waits and timers.
//!
//! Nothing is kept that follows from something else: lists are linked anew, counts are counted anew. The records were checked
//! before they come back here (`checkpoint::check`).

use super::thread::{Resumption, State, ThreadIndex, Threads};
use super::timers::TimerKind;
use super::{Scheduler, wait_key};
use crate::checkpoint::record::{RegistersRecord, SchedulerRecord, ThreadRecord, ThreadState};
use monohull_abi::module::{NO_KEY, Wake};
use monohull_abi::number;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The calls in which a thread can be captured: they need nothing but their arguments to be taken up again.
pub(crate) const WAITS: [u32; 6] = [
    number::FUTEX_WAIT,
    number::THREAD_JOIN,
    number::NANOSLEEP,
    number::SLOT_TAKE,
    number::EVENT_WAIT,
    number::QUEUE_WAIT,
];

/// A thread that cannot be captured as it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unfit {
    /// Its instance.
    pub(crate) instance: u32,
    /// The call in which it is; `None` if it is on a carrier.
    pub(crate) call: Option<u64>,
}

/// The threads of each instance, by the instance's id.
pub(crate) type ThreadsOf = Vec<(u32, Vec<ThreadRecord>)>;

impl<I> Scheduler<I> {
    /// All threads, none of which may be on a carrier, and their order. `in_domain_time` converts the host's times.
    pub(crate) fn record(&self, in_domain_time: impl Fn(u64) -> u64) -> Result<(ThreadsOf, SchedulerRecord), Unfit> {
        let mut ends = HashMap::new();
        let mut timers = Vec::new();
        for (at, what) in self.live_timers() {
            match what {
                TimerKind::Thread(number, _) => _ = ends.insert(number, in_domain_time(at)),
                TimerKind::Driver(token) => timers.push((in_domain_time(at), token)),
                TimerKind::Instance(_) | TimerKind::Run => {}
            }
        }
        timers.sort_unstable();
        let mut threads = Vec::new();
        let mut queues: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        let number = |index: ThreadIndex| self.threads[index].number;
        for instance in self.instances.iter() {
            let of_instance = instance.threads.iter().map(|index| self.record_thread(*index, &ends));
            threads.push((instance.id(), of_instance.collect::<Result<Vec<_>, _>>()?));
            for key in instance.threads.iter().map(|index| self.threads[*index].key).filter(|key| *key != NO_KEY) {
                queues.entry(key).or_insert_with(|| self.waiting.queue(&self.threads, key).map(number).collect());
            }
        }
        // A stale entry of the queue may name a thread that is ready once more, and is in it twice.
        let mut seen = HashSet::new();
        let is_ready = |index: &ThreadIndex| self.threads[*index].state == State::Ready;
        let ready = self.run_queue.iter().filter(is_ready).map(number).filter(|number| seen.insert(*number)).collect();
        let free = self.threads.free().map(number).collect();
        Ok((threads, SchedulerRecord { ready, queues: queues.into_values().collect(), free, timers }))
    }

    fn record_thread(&self, index: ThreadIndex, ends: &HashMap<u32, u64>) -> Result<ThreadRecord, Unfit> {
        let thread = &self.threads[index];
        let unfit = |call| Unfit { instance: thread.instance, call };
        let frame = thread.frame.as_deref().ok_or(unfit(None))?;
        let state = match (thread.state, thread.resumption) {
            (State::Parked, _) => ThreadState::Waits { until: ends.get(&thread.number).copied() },
            (State::Ready, Resumption::Value(_)) if thread.registers.is_some() => ThreadState::Returns(0),
            (State::Ready, Resumption::Value(value)) => ThreadState::Returns(value),
            (State::Ready, Resumption::Handler(Wake::TimedOut)) => ThreadState::TimedOut,
            // A deadlock is found again if it is still one.
            (State::Ready, Resumption::Handler(_)) => ThreadState::Woken,
            _ => return Err(unfit(None)),
        };
        let done = matches!(state, ThreadState::Returns(_));
        let known = u32::try_from(frame.number).ok().filter(|call| WAITS.contains(call) && frame.scratch == [0; 4]);
        let (call, args) = match (done, known) {
            (true, _) => (0, [0; 6]),
            (false, Some(call)) if !thread.external => (call, frame.args),
            (false, _) => return Err(unfit(Some(frame.number))),
        };
        Ok(ThreadRecord {
            number: thread.number,
            stack: thread.stack,
            user_rsp: frame.user_rsp,
            call,
            args,
            state,
            registers: thread.registers.as_deref().map(|registers| Box::new(RegistersRecord::of(registers))),
            name: None,
        })
    }

    /// Timers that are still wanted, with the host's times, in no order.
    pub(crate) fn live_timers(&self) -> impl Iterator<Item = (u64, TimerKind)> {
        self.timers.iter().filter(|(_, what)| self.is_live(*what))
    }

    /// Whether no thread is on a carrier.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.instances.iter().all(|instance| instance.running == 0)
    }

    /// Ticks that an instance's threads have spent on carriers, and its main thread between them.
    pub(crate) fn ticks_of(&self, id: u32) -> (u64, u64) {
        let Some(instance) = self.instances.get(id) else { return (0, 0) };
        let threads = || instance.threads.iter().map(|index| &self.threads[*index]);
        let run = threads().map(|thread| thread.run).sum::<u64>() + instance.run;
        (run, threads().find(|thread| thread.stack.is_none()).map_or(0, |main| main.park))
    }

    /// Puts captured threads into an empty table. `on_host` converts domain times.
    pub(crate) fn adopt(&mut self, threads: &ThreadsOf, order: &SchedulerRecord, on_host: impl Fn(u64) -> u64) {
        let numbers = threads.iter().flat_map(|(_, threads)| threads).map(|thread| thread.number);
        self.threads = Threads::of_numbers(numbers, &order.free);
        for (id, records) in threads {
            for (position, record) in (0..).zip(records) {
                self.adopt_thread(*id, position, record, &on_host);
            }
        }
        for number in &order.ready {
            self.enqueue(ThreadIndex::of_number(*number));
        }
        for index in order.queues.iter().flatten().map(|number| ThreadIndex::of_number(*number)) {
            match self.threads[index].state {
                State::Parked => {
                    let key = self.threads[index].key;
                    self.waiting.link(&mut self.threads, index, key);
                }
                // Their module finds out again what they wait for.
                _ => self.enqueue(index),
            }
        }
        for (at, token) in &order.timers {
            let _ = self.set_timer(on_host(*at), TimerKind::Driver(*token));
        }
    }

    /// A new thread begins in this call, which has not been served.
    pub(crate) fn begin_in_call(&mut self, thread: ThreadIndex, (number, args): (u32, [u64; 6])) {
        let thread = &mut self.threads[thread];
        thread.resumption = Resumption::Handler(Wake::First);
        if let Some(frame) = thread.frame.as_deref_mut() {
            (frame.number, frame.args) = (number.into(), args);
        }
    }

    fn adopt_thread(&mut self, id: u32, position: u32, record: &ThreadRecord, on_host: &impl Fn(u64) -> u64) {
        let index = ThreadIndex::of_number(record.number);
        if let Some(instance) = self.instances.get_mut(id) {
            instance.threads.push(index);
        }
        let thread = &mut self.threads[index];
        thread.begin(id, record.stack, record.user_rsp, 0);
        thread.position = position;
        if let Some(frame) = thread.frame.as_deref_mut() {
            (frame.number, frame.args) = (record.call.into(), record.args);
        }
        // They were checked before.
        let registers = record.registers.as_deref().and_then(|registers| registers.registers().ok());
        thread.registers = registers.map(Box::new);
        thread.resumption = match record.state {
            ThreadState::Returns(value) => Resumption::Value(value),
            ThreadState::TimedOut => Resumption::Handler(Wake::TimedOut),
            ThreadState::Woken | ThreadState::Waits { .. } => Resumption::Handler(Wake::Woken),
            ThreadState::Unserved => Resumption::Handler(Wake::First),
        };
        let (ThreadState::Waits { until }, Some(key)) = (record.state, key_of(record)) else { return };
        thread.state = State::Parked;
        thread.key = key;
        if let Some(until) = until {
            thread.timed = true;
            let timer = TimerKind::Thread(record.number, thread.wait);
            self.expected += 1;
            let _ = self.set_timer(on_host(until), timer);
        }
    }
}

/// What a captured thread waits for; `None` if its handler is to find out.
fn key_of(record: &ThreadRecord) -> Option<u64> {
    match record.call {
        number::FUTEX_WAIT => Some(record.args[0]),
        number::THREAD_JOIN => Some(wait_key::join(record.args[0] as u32)),
        number::NANOSLEEP => Some(NO_KEY),
        _ => None,
    }
}
