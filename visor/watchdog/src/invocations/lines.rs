//! The printed lines of an invocation that are kept.
//!
//! ```text
//!   |←──────── ROOM: for all instances, first come ────────→|← RESERVED: for those that have less than SHARE →|
//! ```
//!
//! Each instance's output is limited by its workflow, and this bounds all of them together. An instance that prints without end takes the
//! first part, and the others still have some lines.

use std::collections::HashMap;

use crate::invocations::record::LogLine;

/// Bytes that are kept of all instances.
const ROOM: usize = 1 << 20;
/// More, for instances of which less is kept than a [`SHARE`].
const RESERVED: usize = 128 << 10;
const SHARE: usize = 2 << 10;

/// The lines that are kept of one invocation.
#[derive(Debug, Default)]
pub(super) struct Lines {
    kept: Vec<LogLine>,
    bytes: usize,
    /// Bytes of each instance, by the name of its step.
    of_instances: HashMap<String, HashMap<u32, usize>>,
    dropped: u64,
}

impl Lines {
    /// Those of an earlier run.
    pub(super) fn restored(lines: Vec<LogLine>, dropped: u64) -> Lines {
        let mut restored = Lines { dropped, ..Lines::default() };
        for line in lines {
            restored.keep(line);
        }
        restored
    }

    /// Keeps a line if there is room, and says whether it did.
    pub(super) fn add(&mut self, line: LogLine) -> bool {
        let of_instance = self.of_instances.get(&line.step).and_then(|step| step.get(&line.instance)).unwrap_or(&0);
        let room = if *of_instance < SHARE { ROOM + RESERVED } else { ROOM };
        if self.bytes + line.size() > room {
            self.dropped += 1;
            return false;
        }
        self.keep(line);
        true
    }

    fn keep(&mut self, line: LogLine) {
        let bytes = line.size();
        self.bytes += bytes;
        match self.of_instances.get_mut(&line.step) {
            Some(step) => *step.entry(line.instance).or_default() += bytes,
            None => _ = self.of_instances.insert(line.step.clone(), HashMap::from([(line.instance, bytes)])),
        }
        self.kept.push(line);
    }

    /// There will be no more: which instance has how much is forgotten.
    pub(super) fn end(&mut self) {
        self.of_instances = HashMap::new();
    }

    /// All of them.
    pub(super) fn kept(&self) -> &[LogLine] {
        &self.kept
    }

    /// How many there was no room for.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Bytes that they take, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_report::Stream;

    fn line(step: &str, instance: u32) -> LogLine {
        LogLine { at_us: 0, step: step.into(), instance, stream: Stream::Stdout, text: "x".repeat(100) }
    }

    #[test]
    fn an_instance_without_end_leaves_room_for_the_others() {
        let mut lines = Lines::default();
        while lines.add(line("noisy", 0)) {}
        assert!(lines.bytes() <= ROOM && lines.bytes() + line("noisy", 0).size() > ROOM);
        let mut lines = Lines::restored(lines.kept().to_vec(), lines.dropped());
        assert!(!lines.add(line("noisy", 0)), "after it has gone on");
        assert_eq!(lines.dropped(), 2);
        for instance in 1..10 {
            assert!(lines.add(line("noisy", instance)), "another instance of the same step");
        }
        assert!(lines.add(line("quiet", 0)));
        let mut more = 0;
        while lines.add(line("quiet", 0)) {
            more += 1;
        }
        assert_eq!(more, (SHARE - 1) / line("quiet", 0).size());
        let long = LogLine { text: "x".repeat(3 * SHARE), ..line("quiet", 1) };
        assert!(lines.add(long), "the first line of an instance, however long");
        for instance in 2..100_000 {
            lines.add(line("quiet", instance));
        }
        assert!(lines.bytes() <= ROOM + RESERVED, "they have a limit together");
    }
}
