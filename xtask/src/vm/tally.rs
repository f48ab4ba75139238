//! What a guest runs, item by item, and what comes of it.
//!
//! Guests run side by side, so what an item says is shown as a whole when it ends. An item that is not told of has failed.

use super::machine::Machine;
use crate::shell;
use crate::test::Count;
use std::fmt::Write;
use std::fs::File;
use std::time::{Duration, Instant};

/// What the host listens for.
const ITEM: &str = "@item ";
const TOLD: &str = "@told ";
/// How many items are named at the end for the time they took.
const SLOWEST: usize = 5;

/// Something the guest runs.
pub(super) struct Item {
    /// For people.
    pub(super) name: String,
    /// A line for the shell.
    pub(super) command: String,
    /// Whether it is a test program, which counts its tests; else it counts as one.
    pub(super) counts: bool,
}

/// The job.
pub(super) fn script(items: &[Item]) -> String {
    // Each in a shell of its own: a command that ends the shell, or changes its folder, ends and changes that one.
    let line = |item: &Item| format!("echo '{ITEM}{}'\n( {} )\necho \"{TOLD}$?\"\n", item.name, item.command);
    // The computer's own tools before busybox's.
    std::iter::once("PATH=/usr/bin:$PATH\n".to_owned()).chain(items.iter().map(line)).collect()
}

/// Runs the items in one guest and counts.
pub(super) fn in_guest(machine: &Machine<'_>, files: &File, items: &[Item]) -> Count {
    let mut tally = Tally::new(items);
    let guest = format!("Linux {}", machine.kernel.version());
    let show = |name: &str, took: Duration, said: &str| {
        // Held, so that no other guest's words come between.
        let _held = std::io::stdout().lock();
        shell::heading(&format!("{guest}, {:.0} s: {name}", took.as_secs_f64()));
        print!("{said}");
    };
    let ended = machine.run(files, &mut |line| {
        if let Some((item, took, said)) = tally.hears(line) {
            show(&item.name, took, &said);
        }
    });
    let missing = items.len() - tally.took.len();
    let mut last = std::mem::take(&mut tally.said);
    match ended {
        Ok(0) if missing == 0 => {}
        Ok(status) => _ = writeln!(last, "the job ended with {status} and told nothing of {missing} items"),
        Err(why) => _ = writeln!(last, "{why}\nNothing was told of {missing} items."),
    }
    let next = items.get(tally.took.len()).map_or("the end", |item| &item.name);
    if !last.is_empty() {
        show(next, tally.begun.elapsed(), &last);
    }
    println!("{guest}: {}", tally.times());
    let mut total = tally.total;
    for item in &items[tally.took.len()..] {
        total.add(Count::failure(&format!("{} (not run to its end)", item.name)));
    }
    total.names.iter_mut().for_each(|name| *name = format!("{guest}, {name}"));
    total
}

/// Counts while the guest speaks.
struct Tally<'i> {
    items: &'i [Item],
    /// How long those took that were told of, in the items' order.
    took: Vec<Duration>,
    /// When the item that runs was begun.
    begun: Instant,
    /// What it has said.
    said: String,
    /// What it has counted.
    inside: Count,
    total: Count,
}

impl<'i> Tally<'i> {
    fn new(items: &'i [Item]) -> Tally<'i> {
        Tally {
            items,
            took: Vec::new(),
            begun: Instant::now(),
            said: String::new(),
            inside: Count::default(),
            total: Count::default(),
        }
    }

    /// With an item's last line comes what is to be shown of it: how long it took, and all it said.
    fn hears(&mut self, line: &str) -> Option<(&'i Item, Duration, String)> {
        if line.starts_with(ITEM) {
            self.begun = Instant::now();
            return None;
        }
        // What an item prints last may lack its newline.
        let (said, status) = line.split_once(TOLD).map_or((line, None), |(said, status)| (said, Some(status)));
        self.inside.hear(said);
        if status.is_none() || !said.is_empty() {
            self.said += said;
            self.said.push('\n');
        }
        let (item, status) = (self.items.get(self.took.len())?, status?);
        let count = item.result(std::mem::take(&mut self.inside), status, &mut self.said);
        self.total.add(count);
        let took = self.begun.elapsed();
        self.took.push(took);
        Some((item, took, std::mem::take(&mut self.said)))
    }

    /// Where the time went.
    fn times(&self) -> String {
        let mut slowest: Vec<_> = self.took.iter().zip(self.items).collect();
        slowest.sort_by_key(|(took, _)| std::cmp::Reverse(**took));
        slowest.truncate(SLOWEST);
        let each = |(took, item): &(&Duration, &Item)| format!("{} {:.0} s", item.name, took.as_secs_f64());
        let all: Duration = self.took.iter().sum();
        let slowest: Vec<String> = slowest.iter().map(each).collect();
        format!("{} items took {:.0} s, of which {}", self.took.len(), all.as_secs_f64(), slowest.join(", "))
    }
}

impl Item {
    /// What it adds to the count, given its exit status and what it counted itself.
    fn result(&self, mut counted: Count, status: &str, said: &mut String) -> Count {
        if !self.counts {
            counted = if status == "0" { Count::success() } else { Count::default() };
        }
        // A program that fails without a failed test has failed, and so has one that runs none: those that have none
        // are no items.
        let wrong = status != "0" || counted.passed == 0;
        if wrong && counted.failed == 0 {
            *said += &format!("{} ended with {status}\n", self.name);
            counted.add(Count::failure(""));
        }
        counted.names.iter_mut().for_each(|name| *name = format!("{} {name}", self.name).trim_end().to_owned());
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(counts: bool) -> [Item; 1] {
        [Item { name: "it".into(), command: String::new(), counts }]
    }

    fn told(counts: bool, lines: &[&str]) -> (u64, u64) {
        let items = item(counts);
        let mut tally = Tally::new(&items);
        lines.iter().for_each(|line| _ = tally.hears(line));
        (tally.total.passed, tally.total.failed)
    }

    #[test]
    fn programs_count_their_tests() {
        assert_eq!(told(true, &["test result: ok. 7 passed; 0 failed; 1 ignored", "@told 0"]), (7, 0));
        assert_eq!(told(true, &["test result: FAILED. 7 passed; 2 failed; 1 ignored", "@told 101"]), (7, 2));
    }

    #[test]
    fn a_program_that_dies_or_runs_nothing_has_failed() {
        assert_eq!(told(true, &["running 7 tests", "@told 139"]), (0, 1));
        assert_eq!(told(true, &["test result: ok. 0 passed; 0 failed", "@told 0"]), (0, 1));
    }

    #[test]
    fn a_workflow_counts_as_one() {
        assert_eq!(told(false, &["@told 0"]), (1, 0));
        assert_eq!(told(false, &["no newline@told 0"]), (1, 0));
        assert_eq!(told(false, &["@told 1"]), (0, 1));
    }

    #[test]
    fn what_an_item_says_is_shown_when_it_ends() {
        let items = item(false);
        let mut tally = Tally::new(&items);
        assert!(["@item it", "one", ""].iter().all(|line| tally.hears(line).is_none()));
        let (shown, _, said) = tally.hears("two@told 1").expect("it has ended");
        assert_eq!((&*shown.name, &*said), ("it", "one\n\ntwo\nit ended with 1\n"));
        assert!(tally.hears("after all").is_none() && tally.said == "after all\n");
        assert!(tally.times().starts_with("1 items took 0 s, of which it 0 s"));
    }
}
