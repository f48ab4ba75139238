//! Another process as the kernel shows it to root: its pages, files, timers and signals.

use goblin::elf::program_header::PT_LOAD;
use goblin::elf::{Elf, ProgramHeader, Sym};
use monohull_abi::layout::{
    ARENA_BASE, ARENA_END, CARRIER_BASE, CARRIER_BLOCKS, CARRIER_SIZE, CELLS_BASE, CELLS_END, FRAMES_BASE, FRAMES_SIZE,
    INFO_BASE, INFO_SIZE, PAGE, USER_END,
};
use monohull_abi::module::NEVER;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Pages that are read at once.
const BATCH: u64 = 256;

/// A mapping with memory behind it.
struct Mapping {
    start: u64,
    end: u64,
    access: String,
    name: String,
}

/// The mappings of a process that have any page.
fn mappings(pid: i32) -> Vec<Mapping> {
    let smaps = File::open(format!("/proc/{pid}/smaps")).expect("root may look");
    let mut all = Vec::new();
    let mut current = None;
    for line in BufReader::new(smaps).lines() {
        let line = line.expect("text");
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-').filter(|_| !first.ends_with(':')) {
            let number = |text| u64::from_str_radix(text, 16).expect("an address");
            let access = words.next().unwrap_or_default().to_owned();
            let name = words.nth(3).unwrap_or_default().to_owned();
            current = Some(Mapping { start: number(start), end: number(end), access, name });
        } else if first == "Rss:" || first == "Swap:" {
            // The other of the two finds nothing there any more.
            if words.next() != Some("0") {
                all.extend(current.take());
            }
        }
    }
    all.retain(|mapping: &Mapping| !mapping.name.starts_with("[v"));
    all
}

/// The memory of a process.
pub(crate) struct Search {
    memory: File,
    pages: File,
    mappings: Vec<Mapping>,
}

impl Search {
    pub(crate) fn of(pid: i32) -> Search {
        let open = |name: &str| File::open(format!("/proc/{pid}/{name}")).expect("root may look");
        Search { memory: open("mem"), pages: open("pagemap"), mappings: mappings(pid) }
    }

    /// Where this text is, and how often.
    pub(crate) fn find(&self, text: &[u8]) -> Vec<(String, usize)> {
        let mut found: Vec<(String, usize)> = Vec::new();
        let mut read = 0;
        for mapping in &self.mappings {
            let count: usize = self
                .runs(mapping)
                .into_iter()
                .map(|(start, end)| {
                    read += end - start;
                    self.count(start, end, text)
                })
                .sum();
            match found.last_mut() {
                Some((name, total)) if *name == mapping.name && count > 0 => *total += count,
                _ if count > 0 => found.push((mapping.name.clone(), count)),
                _ => {}
            }
        }
        assert!(read > 100 * PAGE, "a process has more memory than {read} bytes");
        found
    }

    /// Pages of a mapping that are there.
    fn runs(&self, mapping: &Mapping) -> Vec<(u64, u64)> {
        const THERE: u64 = 3 << 62;
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut entries = vec![0; (8 * BATCH * 16) as usize];
        let mut page = mapping.start / PAGE;
        while page < mapping.end / PAGE {
            let wanted = entries.len().min((8 * (mapping.end / PAGE - page)) as usize);
            let count = self.pages.read_at(&mut entries[..wanted], 8 * page).expect("a page map") / 8;
            assert!(count > 0, "the page map ends");
            for entry in entries[..8 * count].chunks_exact(8) {
                if u64::from_ne_bytes(entry.try_into().expect("8 bytes")) & THERE != 0 {
                    match runs.last_mut() {
                        Some((_, end)) if *end == page * PAGE => *end += PAGE,
                        _ => runs.push((page * PAGE, (page + 1) * PAGE)),
                    }
                }
                page += 1;
            }
        }
        runs
    }

    fn count(&self, start: u64, end: u64, text: &[u8]) -> usize {
        let mut bytes = vec![0; (end - start) as usize];
        // Pages that may not be read by anybody are shown all the same, but for devices.
        if self.memory.read_exact_at(&mut bytes, start).is_err() {
            return 0;
        }
        occurrences(&bytes, text)
    }
}

/// How often a text is there.
fn occurrences(mut bytes: &[u8], text: &[u8]) -> usize {
    let mut count = 0;
    while let Some(at) = bytes.iter().position(|byte| *byte == text[0]) {
        bytes = &bytes[at..];
        let is_there = bytes.starts_with(text);
        count += usize::from(is_there);
        bytes = &bytes[if is_there { text.len() } else { 1 }..];
    }
    count
}

/// How often this text is in the memory in which large inputs come, and in that in which large outputs go.
pub(crate) fn in_slot_memory(pid: i32, text: &[u8]) -> Vec<usize> {
    let folder = format!("/proc/{pid}/fd");
    let is_memory = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|leads| leads.to_string_lossy().contains("memfd:monohull-recycled"))
    };
    let numbers = fs::read_dir(&folder).expect("root may look").flatten();
    let mut numbers: Vec<u32> = numbers
        .filter_map(|file| file.file_name().to_str()?.parse().ok())
        .filter(|number: &u32| is_memory(&PathBuf::from(format!("{folder}/{number}"))))
        .collect();
    numbers.sort_unstable();
    let read = |number: u32| fs::read(format!("{folder}/{number}")).expect("root may look");
    numbers.into_iter().map(|number| occurrences(&read(number), text)).collect()
}

/// What the descriptors of a process lead to.
pub(crate) fn open_files(pid: i32) -> Vec<String> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| Some(fs::read_link(file.path()).ok()?.to_string_lossy().into_owned())).collect()
}

/// How many timers a process has.
pub(crate) fn timers(pid: i32) -> usize {
    let timers = fs::read_to_string(format!("/proc/{pid}/timers")).expect("root may look");
    timers.lines().filter(|line| line.starts_with("ID:")).count()
}

/// The static data of its libos modules.
pub(crate) fn statics(pid: i32) -> Vec<(String, Vec<u8>)> {
    let memory = File::open(format!("/proc/{pid}/mem")).expect("root may look");
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("root may look");
    let writable = maps.lines().filter(|line| line.contains(" rw-p ") && line.contains("/modules/"));
    let mut found: Vec<(String, Vec<u8>)> = writable
        .map(|line| {
            let (range, name) = (line.split(' ').next().expect("a range"), line.rsplit('/').next().expect("a name"));
            let (start, end) = range.split_once('-').expect("a range");
            let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).expect("an address"));
            let mut bytes = vec![0; (end - start) as usize];
            memory.read_exact_at(&mut bytes, start).expect("it is mapped");
            (name.to_owned(), bytes)
        })
        .collect();
    found.sort();
    // Others are loaded on demand.
    found.retain(|(name, _)| ["mm.so", "stdio.so"].contains(&name.as_str()));
    assert!(!found.is_empty(), "modules have static data: {maps}");
    found
}

/// The page that functions read and trusted code writes to.
pub(crate) fn info_page(pid: i32) -> Vec<u8> {
    let mut bytes = vec![0; INFO_SIZE as usize];
    let memory = File::open(format!("/proc/{pid}/mem")).expect("root may look");
    memory.read_exact_at(&mut bytes, INFO_BASE).expect("it is mapped");
    bytes
}

/// The context of its first carrier: what trusted code has saved while functions run.
pub(crate) fn first_context(pid: i32) -> Vec<u8> {
    let mut bytes = vec![0; PAGE as usize];
    let memory = File::open(format!("/proc/{pid}/mem")).expect("root may look");
    memory.read_exact_at(&mut bytes, CARRIER_BASE + CARRIER_SIZE - PAGE).expect("it is mapped");
    bytes
}

/// Whether the stack on which its first carrier handles signals is zero: the kernel writes registers of what is interrupted there.
pub(crate) fn is_signal_stack_empty(pid: i32) -> bool {
    let mut bytes = vec![0; (CARRIER_SIZE - 2 * PAGE) as usize];
    let memory = File::open(format!("/proc/{pid}/mem")).expect("root may look");
    memory.read_exact_at(&mut bytes, CARRIER_BASE + PAGE).expect("it is mapped");
    bytes.iter().all(|byte| *byte == 0)
}

/// How many words of the carriers' state say "never": deadlines and slices of time that are not set. The program of the process is this
/// one.
pub(crate) fn nevers(program: &Path, pid: i32) -> usize {
    /// As symbols have it.
    const STATE: &str = "10preemption8CARRIERS";
    let file = fs::read(program).expect("the program");
    let elf = Elf::parse(&file).expect("an ELF file");
    let is_state = |symbol: &Sym| elf.strtab.get_at(symbol.st_name).is_some_and(|name| name.contains(STATE));
    let state = elf.syms.iter().find(is_state).expect("the carriers' state has a symbol");
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("root may look");
    let is_data = |line: &&str| line.contains(" rw-p ") && line.ends_with(program.to_str().expect("UTF-8"));
    // Its writable segment, of which the file has the beginning.
    let line = maps.lines().find(is_data).expect("the program's data");
    let mut words = line.split_whitespace();
    let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    let start = number(words.next().and_then(|range| range.split('-').next()).expect("a range"));
    let offset = number(words.nth(1).expect("an offset"));
    let holds = |segment: &&ProgramHeader| segment.is_write() && segment.p_offset / PAGE == offset / PAGE;
    let segment =
        elf.program_headers.iter().filter(|header| header.p_type == PT_LOAD).find(holds).expect("its segment");
    let base = start - segment.p_vaddr / PAGE * PAGE;
    let mut bytes = vec![0; state.st_size as usize];
    let memory = File::open(format!("/proc/{pid}/mem")).expect("root may look");
    memory.read_exact_at(&mut bytes, base + state.st_value).expect("it is mapped");
    bytes.as_chunks::<8>().0.iter().filter(|word| u64::from_ne_bytes(**word) == NEVER).count()
}

/// Memory of a domain that is in no cell.
const AREAS: [(&str, Range<u64>); 3] = [
    ("blocks", CARRIER_BASE + CARRIER_SIZE..CARRIER_BASE + CARRIER_BLOCKS as u64 * CARRIER_SIZE),
    ("frames", FRAMES_BASE..FRAMES_BASE + FRAMES_SIZE),
    ("arena", ARENA_BASE..ARENA_END),
];

/// The accessible mappings of its domain, but for cells, the first carrier's block and the info page; each begins with the name of its area.
pub(crate) fn rights_outside_of_cells(pid: i32) -> Vec<String> {
    let own = [CARRIER_BASE..CARRIER_BASE + CARRIER_SIZE, INFO_BASE..INFO_BASE + INFO_SIZE, CELLS_BASE..CELLS_END];
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("root may look");
    let start_of =
        |line: &str| line.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok()).expect("an address");
    let area = |line: &str| {
        let area = AREAS.iter().find(|(_, range)| range.contains(&start_of(line)));
        format!("{}: {line}", area.map_or("other", |(name, _)| name))
    };
    let is_other = |line: &&str| {
        let start = start_of(line);
        (CARRIER_BASE..USER_END).contains(&start) && !own.iter().any(|own| own.contains(&start))
    };
    maps.lines().filter(|line| !line.contains(" ---p ")).filter(is_other).map(area).collect()
}

/// How many mappings a process has.
pub(crate) fn count_mappings(pid: i32) -> usize {
    fs::read_to_string(format!("/proc/{pid}/maps")).expect("root may look").lines().count()
}

/// A number of a process's status.
fn status(pid: i32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    line.split_whitespace().next().expect("a number").parse().expect("a number")
}

/// How many threads it has.
pub(crate) fn threads(pid: i32) -> usize {
    status(pid, "Threads:") as usize
}

/// How much memory it has, in bytes.
pub(crate) fn resident(pid: i32) -> u64 {
    status(pid, "VmRSS:") << 10
}

/// The sets of signals that wait or are blocked, of its first thread and of all.
pub(crate) fn signals(pid: i32) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
    let sets =
        status.lines().filter(|line| ["SigPnd:", "ShdPnd:", "SigBlk:"].iter().any(|name| line.starts_with(name)));
    sets.map(|line| line.split_whitespace().nth(1).expect("a set").to_owned()).collect()
}
