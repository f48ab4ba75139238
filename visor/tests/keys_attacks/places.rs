//! Gives an attacker the place of everything: an attack must not fail because an address was not found.
//!
//! A function knows one trusted address, that of its gate; the rest of the visor follows from that and the program file. What
//! is elsewhere (libraries, heap, stacks) an attacker would have to find out. Here the test looks it up, once, in a workflow
//! that rests; as addresses are not randomized in its children, they are the same in all of them.

use crate::harness;
use goblin::elf::Elf;
use goblin::elf::program_header::PT_LOAD;
use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use monohull_abi::module::{ModuleEntry, ModuleTable};
use serde_json::json;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::mem::offset_of;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Distance of a spare word from the end of a mapping.
const SPARE: u64 = 64;
/// Larger mappings are not looked through.
const SEARCHED: u64 = 16 << 20;
const WRPKRU: [u8; 3] = [0x0f, 0x01, 0xef];
/// `xrstor [rsp + 0x40]`: how the dynamic linker restores registers after lazy binding.
const XRSTOR: [u8; 5] = [0x0f, 0xae, 0x6c, 0x24, 0x40];
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `mov rax, 15; syscall`: how handlers return.
const RESTORE_RT: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05];

/// A name and an address.
type Place = (&'static str, u64);

/// A visor, to be started with the same addresses every time.
pub(crate) fn at_fixed_addresses(visor: &Path) -> Command {
    let mut command = Command::new(visor);
    // SAFETY: one system call, between fork and exec, which takes an integer.
    unsafe {
        command.pre_exec(|| match libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        })
    };
    command
}

/// All places in the processes of a visor, as an attacker reads them: lines of a name and a hexadecimal number.
pub(crate) fn places(visor: &Path) -> String {
    static KNOWN: Mutex<Option<HashMap<PathBuf, String>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let lines = || rehearse(visor).iter().map(|(name, address)| format!("{name} {address:x}\n")).collect();
    known.get_or_insert_default().entry(visor.to_owned()).or_insert_with(lines).clone()
}

/// Looks at a workflow that rests.
fn rehearse(visor: &Path) -> Vec<Place> {
    let folder = tempfile::tempdir().expect("a folder for the workflow");
    let file = folder.path().join("workflow.json");
    let document = json!({
        "name": "rehearsal",
        "functions": { "attacks": { "image": harness::image("attacks") } },
        "steps": [{ "name": "rest", "function": "attacks", "args": { "role": "rest" } }],
        "inputs": ["places"],
        "unread": "ignore",
        "limits": { "timeout": "600s" }
    });
    std::fs::write(&file, document.to_string()).expect("the workflow");
    let mut command = at_fixed_addresses(visor);
    command.args(["run", "--load", "all", "--isolation", "process", "--input", "places="]).arg(&file);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the visor starts");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("resting")), "the function rests");
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).expect("its children");
    let found = in_process(visor, children.trim().parse().expect("one worker"));
    child.kill().expect("it is alive");
    child.wait().expect("it ends");
    found
}

/// All places of a process.
fn in_process(visor: &Path, process: u32) -> Vec<Place> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("its mappings");
    let maps: Vec<Mapping<'_>> = maps.lines().filter_map(Mapping::read).collect();
    let mapping = |file: &str| maps.iter().find(|map| map.path.ends_with(file)).unwrap_or_else(|| panic!("no {file}"));
    let mut places = Vec::new();

    let program = Program::read(visor);
    let base = mapping(visor.to_str().expect("a path in UTF-8")).range.start;
    places.extend(program.places().map(|(name, address)| (name, address + base)));
    places.extend(program.distances());
    let libc = mapping("/libc.so.6");
    places.extend(Program::read(Path::new(libc.path)).places_of_libc().map(|(name, at)| (name, at + libc.range.start)));
    let linker = mapping("/ld-linux-x86-64.so.2");
    places.push(("ld-xrstor", Program::read(Path::new(linker.path)).find_code(&XRSTOR) + linker.range.start));
    let vdso = mapping("[vdso]");
    places.push(("vdso", vdso.range.start));
    let clock = Program::of(vdso.bytes(process).expect("the vDSO can be read")).symbol("__vdso_clock_gettime");
    places.push(("vdso-clock", clock + vdso.range.start));
    places.push(("module-handler", handler_of(process, mapping("/mm.so"))));
    let writable = [("trusted-stack", "[stack]"), ("module-data", "/mm.so"), ("libc-data", "/libc.so.6")];
    for (name, file) in writable {
        let last = maps.iter().rfind(|map| map.path.ends_with(file) && map.writable);
        places.push((name, last.unwrap_or_else(|| panic!("no {file}")).range.end - SPARE));
    }
    // Its end is elsewhere in another process, and the word before its first block is unused.
    places.push(("visor-heap", mapping("[heap]").range.start));
    let handlers: Vec<u64> = program.handlers().map(|handler| handler + base).collect();
    places.push(("dispatch-table", dispatch_table(process, &maps, &handlers).expect("hostcalls are served")));
    places
}

/// A line of `/proc/PID/maps`.
struct Mapping<'m> {
    range: Range<u64>,
    writable: bool,
    path: &'m str,
}

impl Mapping<'_> {
    fn read(line: &str) -> Option<Mapping<'_>> {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |hex| u64::from_str_radix(hex, 16).ok();
        let writable = words.next()?.contains('w');
        Some(Mapping { range: number(start)?..number(end)?, writable, path: words.nth(3).unwrap_or_default() })
    }

    /// What it holds.
    fn bytes(&self, process: u32) -> std::io::Result<Vec<u8>> {
        let memory = File::open(format!("/proc/{process}/mem"))?;
        let mut bytes = vec![0; (self.range.end - self.range.start) as usize];
        memory.read_exact_at(&mut bytes, self.range.start)?;
        Ok(bytes)
    }
}

/// An entry of the hostcall table, as it lies in trusted memory: what points to a binding, whose first word is one of these
/// handlers.
fn dispatch_table(process: u32, maps: &[Mapping<'_>], handlers: &[u64]) -> Option<u64> {
    let anonymous = |map: &&Mapping<'_>| map.writable && (map.path.is_empty() || map.path == "[heap]");
    let mut pieces = Vec::new();
    for map in maps.iter().filter(anonymous).filter(|map| map.range.end - map.range.start < SEARCHED) {
        // A guard page, say, cannot be read.
        pieces.extend(map.bytes(process).map(|bytes| (map.range.start, bytes)));
    }
    let find = |wanted: &dyn Fn(u64) -> bool| {
        pieces.iter().find_map(|(start, bytes)| {
            let words = bytes.as_chunks::<8>().0;
            let index = words.iter().position(|word| wanted(u64::from_ne_bytes(*word)))?;
            Some(start + index as u64 * 8)
        })
    };
    // Copies of a binding that nothing points to are left in freed memory.
    let words =
        |bytes: &[u8]| bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect::<Vec<_>>();
    pieces.iter().find_map(|(start, bytes)| {
        let candidates = words(bytes).into_iter().zip(0..).filter(|(word, _)| handlers.contains(word));
        candidates.map(|(_, index)| start + index * 8).find_map(|binding| find(&|word| word == binding))
    })
}

/// The bytes of a gate, counted from its beginning, from which few instructions lead to a far return, in any of those that there are of it.
pub(crate) fn far_returns(visor: &Path, symbol: &str, count: usize, distance: usize, bytes: usize) -> Vec<usize> {
    /// Instructions that are looked at.
    const LOOKED: usize = 4;
    use Mnemonic::{Iret, Iretd, Iretq, Retf};
    let program = Program::read(visor);
    let gates = program.code_from(program.symbol(symbol));
    let is_far = |at: usize| {
        let instructions = Decoder::new(64, &gates[at..], DecoderOptions::NONE).into_iter().take(LOOKED);
        instructions.into_iter().any(|instruction| matches!(instruction.mnemonic(), Iret | Iretd | Iretq | Retf))
    };
    (0..bytes).filter(|byte| (0..count).any(|gate| is_far(gate * distance + byte))).collect()
}

/// A handler of a libos module, as the module's table names it.
fn handler_of(process: u32, module: &Mapping<'_>) -> u64 {
    let memory = File::open(format!("/proc/{process}/mem")).expect("its memory");
    let word = |address: u64| {
        let mut word = [0; 8];
        memory.read_exact_at(&mut word, address).expect("it is mapped");
        u64::from_ne_bytes(word)
    };
    let table = Program::read(Path::new(module.path)).symbol("MONOHULL_MODULE") + module.range.start;
    let entries = word(table + offset_of!(ModuleTable, entries) as u64);
    word(entries + offset_of!(ModuleEntry, handler) as u64)
}

/// A program or library file.
struct Program {
    bytes: Vec<u8>,
    /// Addresses from its base, by mangled name.
    symbols: HashMap<String, u64>,
}

impl Program {
    fn read(path: &Path) -> Program {
        Program::of(std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    fn of(bytes: Vec<u8>) -> Program {
        let elf = Elf::parse(&bytes).expect("an ELF file");
        let local = elf.syms.iter().map(|symbol| (elf.strtab.get_at(symbol.st_name), symbol.st_value));
        let exported = elf.dynsyms.iter().map(|symbol| (elf.dynstrtab.get_at(symbol.st_name), symbol.st_value));
        let symbols = local.chain(exported).filter_map(|(name, at)| Some((name?.to_owned(), at))).collect();
        Program { symbols, bytes }
    }

    /// The symbol of this name, or the one that Rust has made of it.
    fn symbol(&self, name: &str) -> u64 {
        let mangled = || self.symbols.iter().find(|(symbol, _)| symbol.contains(name)).map(|(_, at)| at);
        *self.symbols.get(name).or_else(mangled).unwrap_or_else(|| panic!("there is no symbol {name}"))
    }

    /// The bytes from an address on.
    fn code_from(&self, from: u64) -> &[u8] {
        let elf = Elf::parse(&self.bytes).expect("an ELF file");
        let holds = |segment: &&goblin::elf::ProgramHeader| segment.vm_range().contains(&(from as usize));
        let segment = elf.program_headers.iter().filter(|s| s.p_type == PT_LOAD).find(holds).expect("its address");
        &self.bytes[(from - segment.p_vaddr + segment.p_offset) as usize..]
    }

    /// The first of these bytes at or behind an address.
    fn find(&self, from: u64, wanted: &[u8]) -> u64 {
        let code = self.code_from(from);
        from + code.windows(wanted.len()).position(|bytes| bytes == wanted).expect("such bytes") as u64
    }

    /// The first of these bytes in its code.
    fn find_code(&self, wanted: &[u8]) -> u64 {
        let elf = Elf::parse(&self.bytes).expect("an ELF file");
        let code = elf.program_headers.iter().find(|s| s.p_type == PT_LOAD && s.is_executable()).expect("its code");
        self.find(code.p_vaddr, wanted)
    }

    /// Places in the visor.
    fn places(&self) -> impl Iterator<Item = Place> {
        let names = [
            // Where the kernel's handlers go on.
            ("visor-data", "SIGNAL_TARGET"),
            ("visor-code", "monohull_enter"),
            ("enter", "monohull_enter"),
            ("entry", "monohull_entry_keys"),
            ("exit", "monohull_exit_keys"),
            ("exit-tail", "monohull_exit_tail"),
            ("signal-entry", "monohull_signal_entry_keys"),
            ("plain-signal-entry", "monohull_signal_entry"),
            ("exit_user_from_signal", "monohull_exit_user_from_signal"),
            ("copy", "monohull_copy"),
            // It serves the calls of a module that does not work, and reads its state for that.
            ("handler", "8hostcall8dispatch6refuse"),
        ];
        names.into_iter().map(|(place, symbol)| (place, self.symbol(symbol)))
    }

    /// How far behind its beginning each gate has its WRPKRU.
    fn distances(&self) -> impl Iterator<Item = Place> {
        let gates = [
            ("wrpkru-in-entry", "monohull_entry_keys"),
            ("wrpkru-in-exit", "monohull_exit_keys"),
            ("wrpkru-in-signal-entry", "monohull_signal_entry_keys"),
        ];
        gates.into_iter().map(|(name, gate)| (name, self.find(self.symbol(gate), &WRPKRU) - self.symbol(gate)))
    }

    /// The handlers of the visor's own hostcalls.
    fn handlers(&self) -> impl Iterator<Item = u64> {
        let own = self.symbols.iter().filter(|(name, _)| name.contains("8hostcall4core4bind7handler"));
        own.map(|(_, address)| *address)
    }

    /// Places in libc.
    fn places_of_libc(&self) -> impl Iterator<Item = Place> {
        let syscall = self.symbol("syscall");
        [
            ("libc-syscall", syscall),
            ("libc-syscall-instruction", self.find(syscall, &SYSCALL)),
            ("libc-wrpkru", self.find(self.symbol("pkey_set"), &WRPKRU)),
            ("libc-restore-rt", self.find_code(&RESTORE_RT)),
        ]
        .into_iter()
    }
}
