//! One running copy of a function: what it was started with, what it may use, what it has used.

use super::cell::{self, Cell};
use super::effects::Handled;
use super::explanation::Explanations;
use super::fault::FaultHandler;
use super::image::map::LoadedImage;
use super::keys::Key;
use super::slot_access::SlotAccess;
use monohull_abi::module::UserBounds;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What to start.
#[derive(Clone)]
pub struct InstanceConfig {
    /// The driver's name for this instance; comes back in [`super::Event::Ended`].
    pub token: u64,
    /// The code.
    pub image: Arc<LoadedImage>,
    /// Names for reports and for the function itself.
    pub labels: Arc<Labels>,
    /// Which of the step's instances, and of how many.
    pub index: u32,
    /// How many instances the step has.
    pub count: u32,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// The step's arguments and environment, as JSON.
    pub args: Arc<str>,
    /// See `args`.
    pub env: Arc<str>,
    /// The slot that is its standard input; empty if it has none.
    pub stdin: Arc<str>,
    /// The slots it may use; all if there is no list.
    pub slots: Option<SlotAccess>,
    /// The mount points of the file systems it may use; all if there is no list.
    pub files: Option<Arc<[String]>>,
    /// The effects it may ask for; all that are handled if there is no list.
    pub performs: Option<Arc<[String]>>,
    /// The request that it handles, if it was started for one.
    pub handles: Option<Handled>,
    /// Bytes of each stack, a power of two.
    pub stack_size: u64,
    /// Most bytes of heap and owned slot buffers.
    pub memory_limit: u64,
    /// Most threads alive at once.
    pub max_threads: u32,
    /// Most bytes of output lines kept and printed; each takes some besides its text.
    pub output_limit: u64,
    /// The longest it may take.
    pub timeout: Option<Duration>,
}

impl InstanceConfig {
    /// How many handlers there are above one another, with this one; 0 if it is none.
    pub fn depth(&self) -> u32 {
        self.handles.map_or(0, |handled| handled.depth)
    }
}

/// Gets lines of output as they are written.
pub trait Sink: Send + Sync {
    /// One whole line of an instance's stream 1 or 2.
    fn line(&self, config: &InstanceConfig, stream: u32, text: &str);
}

/// What things are called.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// The workflow.
    pub workflow: String,
    /// The step.
    pub step: String,
    /// The function.
    pub function: String,
}

/// A line of output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Line {
    /// 1 for standard output, 2 for standard error.
    pub stream: u32,
    /// The text without its newline; bytes that are not UTF-8 are replaced.
    pub text: String,
}

impl Line {
    /// Bytes that the line occupies; an empty one occupies some too.
    fn cost(&self) -> u64 {
        (self.text.len() + size_of::<Line>()) as u64
    }
}

/// What is noted of an instance outside of the scheduler's lock. Times are ticks of the time-stamp counter.
#[derive(Default, Debug)]
pub struct Counters {
    /// When its first instruction ran.
    pub started: AtomicU64,
    /// Spent mapping and relocating.
    pub load: AtomicU64,
}

/// What an instance has used. Times are ticks of the time-stamp counter.
#[derive(Clone, Copy, Default, Debug)]
pub struct Usage {
    /// When its first instruction ran; 0 if none did.
    pub started: u64,
    /// Spent mapping and relocating.
    pub load: u64,
    /// On carriers, all threads together.
    pub run: u64,
    /// The main thread parked.
    pub park: u64,
    /// Bytes taken over by reference.
    pub bytes_in: u64,
    /// Bytes given to others by reference.
    pub bytes_out: u64,
}

/// A running instance.
pub struct Instance {
    /// Unique in the domain; the low byte is the cell.
    pub id: u32,
    /// What it was started with.
    pub config: InstanceConfig,
    /// Its memory, until it is reclaimed.
    pub cell: Mutex<Option<Box<Cell>>>,
    /// Its memory's protection key.
    pub key: Key,
    /// Where its image is.
    pub image_base: u64,
    /// Set when it must not run any more.
    pub stop: AtomicBool,
    /// Monotonic deadline in ns, or [`monohull_abi::module::NEVER`].
    pub deadline: u64,
    /// What it has used.
    pub counters: Counters,
    /// Its output.
    pub lines: Mutex<Output>,
    /// Why hostcalls of its threads were refused.
    pub explanations: Explanations,
    /// Where its faults go on, if it has said so.
    pub fault_handler: Mutex<Option<FaultHandler>>,
    /// It has checkpoints, which are told of numbers that it opens and closes.
    pub watched: AtomicBool,
}

/// Output of an instance, bounded.
#[derive(Default)]
pub struct Output {
    /// What it wrote, in order.
    pub lines: Vec<Line>,
    /// What they cost, and those that were dropped.
    bytes: u64,
    /// Whether something was dropped.
    pub full: bool,
}

impl Output {
    /// Output that was kept in another process, and what it cost.
    pub(super) fn restored(lines: Vec<Line>, bytes: u64, full: bool) -> Output {
        Output { lines, bytes, full }
    }

    /// What the output cost, with what was dropped.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps a line, if there is room for it within this limit.
    pub(super) fn keep(&mut self, line: Line, limit: u64) -> Option<&Line> {
        self.bytes += line.cost();
        self.full |= self.bytes > limit;
        if self.full {
            return None;
        }
        self.lines.push(line);
        self.lines.last()
    }
}

/// Cells are the low bits of an instance's id.
pub const CELL_BITS: u32 = 8;

/// The cell of the instance with this id.
pub fn cell_of(id: u32) -> usize {
    (id & ((1 << CELL_BITS) - 1)) as usize
}

impl Instance {
    /// The addresses it may name.
    pub fn bounds(&self) -> UserBounds {
        cell::bounds(cell_of(self.id))
    }

    /// Address of the header of its thread that was started on this stack; `None` for the main thread.
    pub fn thread_header(&self, stack: Option<u32>) -> u64 {
        cell::thread_header(cell_of(self.id), self.config.stack_size, stack)
    }

    /// Calls `look` with its memory; `None` if that has been reclaimed.
    pub fn with_cell<R>(&self, look: impl FnOnce(&mut Cell) -> R) -> Option<R> {
        self.cell.lock().expect("cell").as_deref_mut().map(look)
    }

    /// Keeps a line of its output, and passes it on.
    pub(crate) fn print(&self, stream: u32, text: String, sink: Option<&dyn Sink>) {
        let mut output = self.lines.lock().expect("lines");
        let kept = output.keep(Line { stream, text }, self.config.output_limit);
        if let (Some(line), Some(sink)) = (kept, sink) {
            sink.line(&self.config, stream, &line.text);
        }
    }

    /// Its name and its function's in messages.
    pub fn described(&self) -> String {
        format!("{} (function {})", self.name(), self.config.labels.function)
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        format!("{}[{}]", self.config.labels.step, self.config.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_charged_what_they_occupy() {
        let line = |text: &str| Line { stream: 1, text: text.to_owned() };
        let limit = 10 * 32;
        let mut output = Output::default();
        assert!((0..10).all(|_| output.keep(line(""), limit).is_some()));
        assert!(output.keep(line(""), limit).is_none() && output.full);
        assert_eq!(output.lines.len() * size_of::<Line>(), limit as usize);

        let mut output = Output::default();
        assert_eq!(output.keep(line(&"x".repeat(200)), limit).map(|line| line.text.len()), Some(200));
        assert!(output.keep(line(&"x".repeat(100)), limit).is_none());
        assert!(output.keep(line(""), limit).is_none(), "what comes later is not kept either");
        assert_eq!((output.lines.len(), output.full), (1, true));
    }
}
