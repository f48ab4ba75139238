//! What a guest runs, item by item, and what comes of it.
//!
//! Guests run side by side, so an item's output is shown as a whole when it ends. An item without a result has failed.
//!
//! A machine may be lost on the way, see `restarts`: the next one goes on where it was. A failed test stays one.
//!
//! A few tests that fail are run once more, each alone, by the rules of [`flaky`]: the guest's processor is emulated, and some twenty
//! times slower than one that tests usually run on.

use super::machine::{Ended, Machine};
use super::restarts::{Next, Restarts};
use crate::count::Count;
use crate::{Result, flaky, shell};
use std::fmt::Write;
use std::fs::File;
use std::time::{Duration, Instant};

/// Markers in the guest's output.
const ITEM: &str = "@item ";
const STATUS: &str = "@status ";
const AGAIN: &str = "@again ";
const AGAIN_STATUS: &str = "@again-status ";
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
    /// A line for the shell that runs one of its tests once more, but for the test's name at the end.
    pub(super) again: Option<String>,
}

/// The job. Its argument is the index of the item to begin with.
pub(super) fn script(items: &[Item]) -> String {
    // Each in a shell of its own: a command that ends the shell, or changes its folder, ends and changes that one.
    let lines = |(index, item): (usize, &Item)| {
        let Item { name, command, again, .. } = item;
        let run = match again {
            Some(again) => with_second_run(command, again),
            None => format!("( {command} )\nstatus=$?\n"),
        };
        format!("if [ {index} -ge \"$1\" ]; then\necho '{ITEM}{name}'\n{run}echo \"{STATUS}$status\"\nfi\n")
    };
    // The computer's own tools before busybox's.
    std::iter::once("PATH=/usr/bin:$PATH\n".to_owned()).chain(items.iter().enumerate().map(lines)).collect()
}

/// Runs a test program, and a few of its tests again if they failed.
fn with_second_run(command: &str, again: &str) -> String {
    format!(
        "{{ ( {command} ); echo $? >/tmp/status; }} 2>&1 | tee /tmp/said\n\
         status=$(cat /tmp/status)\n\
         failed=$(sed -n 's/^test \\([^ ]*\\) \\.\\.\\. FAILED.*$/\\1/p' /tmp/said)\n\
         if [ \"$(echo $failed | wc -w)\" -le {most} ] && ! grep -q '{counterexample}' /tmp/said; then\n\
         for test in $failed; do\necho \"{AGAIN}$test\"\n( {again} $test )\necho \"{AGAIN_STATUS}$?\"\ndone\nfi\n",
        most = flaky::AT_MOST,
        counterexample = flaky::COUNTEREXAMPLE
    )
}

/// Runs the items in one guest and counts.
pub(super) fn in_guest(machine: &Machine<'_>, files: &File, items: &[Item]) -> Count {
    let guest = format!("Linux {}", machine.kernel.version());
    count(&guest, items, &mut |from, on_line| machine.boot(files, from, on_line))
}

/// A machine that runs the items from one on and passes on what it says.
type Boot<'b> = &'b mut dyn FnMut(usize, &mut dyn FnMut(&str)) -> Result<Ended>;

/// The same with any machines.
fn count(guest: &str, items: &[Item], boot: Boot<'_>) -> Count {
    let mut tally = Tally::new(items);
    let mut restarts = Restarts::default();
    let show = |name: &str, took: Duration, said: &str| {
        // Held, so that no other guest's words come between.
        let _held = std::io::stdout().lock();
        shell::heading(&format!("{guest}, {:.0} s: {name}", took.as_secs_f64()));
        print!("{said}");
    };
    let wrong = loop {
        let ended = boot(tally.took.len(), &mut |line| {
            if let Some((item, took, said)) = tally.add_line(line) {
                show(&item.name, took, &said);
            }
        });
        let why = match ended {
            Ok(Ended::Job(0)) if tally.took.len() == items.len() => break None,
            Ok(Ended::Job(status)) => break Some(format!("the job ended with {status}")),
            Ok(Ended::Early(why)) | Err(why) => break Some(why),
            Ok(Ended::Silent(why) | Ended::Panicked(why)) => why,
        };
        let running = tally.running();
        let next = restarts.after(running);
        if next == Next::Nothing {
            break Some(format!("{why}\nIt is not the first time, so the machine is not started anew."));
        }
        let took = tally.begun.elapsed();
        let said = tally.loses_machine();
        if next == Next::Behind {
            tally.passes_over("the kernel panicked each of the two times it ran");
        }
        let during = running.map_or("no item", |index| &items[index].name);
        let on = items.get(tally.took.len()).map_or("the end", |item| &item.name);
        show(during, took, &format!("{said}{why}\nTHE MACHINE IS STARTED ANEW and goes on with {on}.\n"));
        let first = why.lines().next().unwrap_or_default();
        tally.total.notes.push(format!("{first}, and was started anew; {during} ran"));
    };
    let missing = items.len() - tally.took.len();
    let mut last = std::mem::take(&mut tally.said);
    if let Some(why) = wrong {
        _ = writeln!(last, "{why}\n{missing} items have no result.");
    }
    let next = items.get(tally.took.len()).map_or("the end", |item| &item.name);
    if !last.is_empty() {
        show(next, tally.begun.elapsed(), &last);
    }
    println!("{guest}: {}", tally.times());
    while tally.took.len() < items.len() {
        tally.passes_over("not run to its end");
    }
    let took = tally.took.iter().zip(items).map(|(took, item)| (*took, format!("{guest}, {}", item.name)));
    let took: Vec<_> = took.collect();
    let mut total = tally.total;
    total.took.extend(took);
    total.names.iter_mut().chain(&mut total.flaky).for_each(|name| *name = format!("{guest}, {name}"));
    total
}

/// Counts as the guest's output arrives.
struct Tally<'i> {
    items: &'i [Item],
    /// The times of the items that have ended, in their order.
    took: Vec<Duration>,
    /// When the item that runs was begun.
    begun: Instant,
    /// Whether one runs.
    runs: bool,
    /// What it has said.
    said: String,
    /// What it has counted.
    inside: Count,
    /// The test of it that runs once more.
    again: Option<String>,
    /// Those that passed then.
    flaky: Vec<String>,
    total: Count,
}

impl<'i> Tally<'i> {
    fn new(items: &'i [Item]) -> Tally<'i> {
        Tally {
            items,
            took: Vec::new(),
            begun: Instant::now(),
            runs: false,
            said: String::new(),
            inside: Count::default(),
            again: None,
            flaky: Vec::new(),
            total: Count::default(),
        }
    }

    /// With an item's last line comes what is to be shown of it: how long it took, and all it said.
    fn add_line(&mut self, line: &str) -> Option<(&'i Item, Duration, String)> {
        if line.starts_with(ITEM) {
            (self.begun, self.runs) = (Instant::now(), true);
            return None;
        }
        if let Some(test) = line.strip_prefix(AGAIN) {
            self.again = Some(test.trim_end().to_owned());
            self.said += &format!("{test} IS RUN AGAIN.\n");
            return None;
        }
        if let Some((said, status)) = line.split_once(AGAIN_STATUS) {
            self.said += &format!("{said}\n");
            self.flaky.extend(self.again.take().filter(|_| status.trim_end() == "0"));
            return None;
        }
        // What an item prints last may lack its newline.
        let (said, status) = line.split_once(STATUS).map_or((line, None), |(said, status)| (said, Some(status)));
        if self.again.is_none() {
            self.inside.add_line(said);
        }
        if status.is_none() || !said.is_empty() {
            self.said += said;
            self.said.push('\n');
        }
        let (item, status) = (self.items.get(self.took.len())?, status?);
        let mut count = item.result(std::mem::take(&mut self.inside), status, &mut self.said);
        for test in self.flaky.drain(..) {
            count.passes_after_all(&format!("{} {test}", item.name));
        }
        self.total.add(count);
        let took = self.begun.elapsed();
        self.took.push(took);
        self.runs = false;
        Some((item, took, std::mem::take(&mut self.said)))
    }

    /// The index of the item that runs.
    fn running(&self) -> Option<usize> {
        self.runs.then_some(self.took.len())
    }

    /// The machine is gone: gives what the item that ran has said. It will be counted when it runs again, but what failed in it has
    /// failed.
    fn loses_machine(&mut self) -> String {
        self.inside = Count::default();
        (self.again, self.flaky) = (None, Vec::new());
        self.runs = false;
        let said = std::mem::take(&mut self.said);
        let name = self.items.get(self.took.len()).map_or("", |item| &item.name);
        for line in said.lines().filter(|line| line.trim_end().ends_with("FAILED")) {
            self.total.add(Count::failure(&format!("{name} (before the kernel panicked): {}", line.trim_end())));
        }
        said
    }

    /// The next item has failed, for this reason.
    fn passes_over(&mut self, why: &str) {
        self.total.add(Count::failure(&format!("{} ({why})", self.items[self.took.len()].name)));
        self.took.push(Duration::ZERO);
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
        [Item { name: "it".into(), command: String::new(), counts, again: None }]
    }

    fn counted(counts: bool, lines: &[&str]) -> (u64, u64) {
        let items = item(counts);
        let mut tally = Tally::new(&items);
        lines.iter().for_each(|line| _ = tally.add_line(line));
        (tally.total.passed, tally.total.failed)
    }

    #[test]
    fn programs_count_their_tests() {
        assert_eq!(counted(true, &["test result: ok. 7 passed; 0 failed; 1 ignored", "@status 0"]), (7, 0));
        assert_eq!(counted(true, &["test result: FAILED. 7 passed; 2 failed; 1 ignored", "@status 101"]), (7, 2));
    }

    /// What a program says in which two tests failed, of which the first passes when it is run again.
    const AGAIN: [&str; 14] = [
        "test a ... FAILED",
        "test m::b ... FAILED",
        "failures:",
        "    a",
        "    m::b",
        "test result: FAILED. 7 passed; 2 failed; 0 ignored",
        "@again a",
        "test result: ok. 1 passed; 0 failed; 0 ignored",
        "@again-status 0",
        "@again m::b",
        "test result: FAILED. 0 passed; 1 failed; 0 ignored",
        "no newline@again-status 101",
        "@status 101",
        "after all",
    ];

    #[test]
    fn a_test_that_passes_when_it_is_run_again_is_flaky() {
        let items = item(true);
        let mut tally = Tally::new(&items);
        let shown: Vec<_> = AGAIN.iter().filter_map(|line| tally.add_line(line)).collect();
        assert!(shown[0].2.contains("a IS RUN AGAIN.\n"), "{}", shown[0].2);
        assert_eq!((tally.total.passed, tally.total.failed), (8, 1));
        assert_eq!((tally.total.names, tally.total.flaky), (vec!["it m::b".to_owned()], vec!["it a".to_owned()]));
    }

    /// The script itself, with a shell of this machine and a program whose test `a` passes from the second time on.
    #[test]
    fn a_few_failed_tests_are_run_again() {
        let folder = std::env::temp_dir().join(format!("again-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let program = |failed: &str| format!("for t in {failed}; do echo \"test $t ... FAILED\"; done; exit 101");
        let run = |failed: &str| {
            let run = with_second_run(&program(failed), "echo again; test a =");
            let run = run.replace("/tmp/", &format!("{}/", folder.display()));
            let output = std::process::Command::new("sh").args(["-c", &format!("{run}echo $status")]).output();
            String::from_utf8(output.expect("a shell").stdout).expect("text")
        };
        let few = run("a m::b");
        assert!(few.contains("@again a\nagain\n@again-status 0\n@again m::b\nagain\n@again-status 1\n101\n"), "{few}");
        let many = run("a b c d");
        assert!(many.ends_with("test d ... FAILED\n101\n"), "{many}");
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
    }

    #[test]
    fn a_program_that_dies_or_runs_nothing_has_failed() {
        assert_eq!(counted(true, &["running 7 tests", "@status 139"]), (0, 1));
        assert_eq!(counted(true, &["test result: ok. 0 passed; 0 failed", "@status 0"]), (0, 1));
    }

    #[test]
    fn a_workflow_counts_as_one() {
        assert_eq!(counted(false, &["@status 0"]), (1, 0));
        assert_eq!(counted(false, &["no newline@status 0"]), (1, 0));
        assert_eq!(counted(false, &["@status 1"]), (0, 1));
    }

    #[test]
    fn the_output_of_an_item_is_shown_when_it_ends() {
        let items = item(false);
        let mut tally = Tally::new(&items);
        assert!(["@item it", "one", ""].iter().all(|line| tally.add_line(line).is_none()));
        let (shown, _, said) = tally.add_line("two@status 1").expect("it has ended");
        assert_eq!((&*shown.name, &*said), ("it", "one\n\ntwo\nit ended with 1\n"));
        assert!(tally.add_line("after all").is_none() && tally.said == "after all\n");
        assert!(tally.times().starts_with("1 items took 0 s, of which it 0 s"));
    }

    /// A guest with the items a, b and c, in which each machine says this and ends so: where each began, and the count.
    fn guest(machines: Vec<(&str, Ended)>) -> (Vec<usize>, Count) {
        let items =
            ["a", "b", "c"].map(|name| Item { name: name.into(), command: String::new(), counts: false, again: None });
        let mut machines = machines.into_iter();
        let mut begun = Vec::new();
        let count = count("Linux", &items, &mut |from, on_line| {
            begun.push(from);
            let (said, ended) = machines.next().expect("no more machines than these");
            said.lines().for_each(on_line);
            Ok(ended)
        });
        assert!(machines.next().is_none(), "all machines were started");
        (begun, count)
    }

    const A: &str = "@item a\n@status 0\n";
    const AB: &str = "@item a\n@status 0\n@item b\n";
    const B: &str = "@item b\n";
    const BC: &str = "@item b\n@status 0\n@item c\n@status 0\n";
    const C: &str = "@item c\n@status 0\n";

    fn panicked() -> Ended {
        Ended::Panicked("its kernel panicked: int3\nIts console:\n".into())
    }

    #[test]
    fn without_a_panic_one_machine_runs_all() {
        let (begun, count) = guest(vec![(&[A, BC].concat(), Ended::Job(0))]);
        assert_eq!((begun, count.passed, count.failed, count.notes.len()), (vec![0], 3, 0, 0));
    }

    #[test]
    fn after_a_panic_the_rest_is_run_and_the_panic_is_noted() {
        for (said, from, during) in [("", 0, "no item"), (A, 1, "no item"), (AB, 1, "b")] {
            let rest = if from == 0 { [A, BC].concat() } else { BC.to_owned() };
            let (begun, count) = guest(vec![(said, panicked()), (&rest, Ended::Job(0))]);
            assert_eq!((begun, count.passed, count.failed), (vec![0, from], 3, 0), "{said}");
            assert_eq!(count.notes, [format!("its kernel panicked: int3, and was started anew; {during} ran")]);
        }
    }

    #[test]
    fn a_silent_machine_is_started_anew_once() {
        let silent = || Ended::Silent("no output".into());
        let (begun, count) = guest(vec![("", silent()), (&[A, BC].concat(), Ended::Job(0))]);
        assert_eq!((begun, count.passed, count.failed), (vec![0, 0], 3, 0));
        assert_eq!(guest(vec![("", silent()), ("", silent())]).1.failed, 3);
    }

    #[test]
    fn an_item_that_brings_the_kernel_down_twice_fails_alone() {
        let (begun, count) = guest(vec![(AB, panicked()), (B, panicked()), (C, Ended::Job(0))]);
        assert_eq!((begun, count.passed, count.failed), (vec![0, 1, 2], 2, 1));
        assert_eq!(count.names, ["Linux, b (the kernel panicked each of the two times it ran)"]);
    }

    #[test]
    fn what_is_left_after_a_second_panic_has_failed() {
        let (begun, count) = guest(vec![(AB, panicked()), (&[B, "@status 0\n@item c\n"].concat(), panicked())]);
        assert_eq!((begun, count.passed, count.failed), (vec![0, 1], 2, 1));
        let (begun, count) = guest(vec![("", panicked()), ("", panicked())]);
        assert_eq!((begun, count.passed, count.failed), (vec![0, 0], 0, 3));
    }

    #[test]
    fn a_test_that_failed_before_a_panic_has_failed() {
        let said = [AB, "test x ... ok\ntest y ... FAILED\n"].concat();
        let (_, count) = guest(vec![(&said, panicked()), (BC, Ended::Job(0))]);
        assert_eq!((count.passed, count.failed), (3, 1));
        assert_eq!(count.names, ["Linux, b (before the kernel panicked): test y ... FAILED"]);
    }

    #[test]
    fn any_other_end_is_final() {
        for ended in [Ended::Early("out of time".into()), Ended::Job(1), Ended::Job(0)] {
            let (begun, count) = guest(vec![(AB, ended)]);
            assert_eq!((begun, count.passed, count.failed), (vec![0], 1, 2));
        }
    }
}
