//! What of an image's code will be refused when it runs, because a function has no processes, signals and the like.
//!
//! The libc answers such calls with an error and one line that names them. Its functions for them are in an image only if some code
//! leads there, so they are looked up by name, and their callers through the image's instructions, up to the first function that
//! belongs neither to the libc nor to Rust's std:
//!
//! ```text
//!   posix_spawnp ◀── std::sys::process::…::spawn ◀── std::process::Command::status ◀── app::convert     the crate is `app`
//!   posix_spawn ◀── system ◀── run_editor                                                              a function in C
//! ```

use std::collections::{BTreeSet, HashMap, HashSet};

use goblin::elf::Elf;
use goblin::elf::program_header::{PF_X, PT_LOAD};
use goblin::elf::reloc::R_X86_64_RELATIVE;
use iced_x86::{Code, Decoder, DecoderOptions, OpKind};
use monohull_checker::symbols::SymbolTable;

use super::c_toolchain::Toolchain;
use super::imports::crate_of;

/// Something that is refused.
struct Kind {
    /// What code does that asks for it.
    does: &'static str,
    /// The libc's functions.
    functions: &'static [&'static str],
    /// Whether std offers it. What std calls for its own purposes is no reason to warn.
    is_in_std: bool,
    /// What to do.
    instead: &'static str,
}

/// All that can be told from names. `docs/programs.md` has the whole list.
const KINDS: [Kind; 8] = [
    Kind {
        does: "starts processes",
        functions: &[
            "fork",
            "vfork",
            "_Fork",
            "posix_spawn",
            "posix_spawnp",
            "system",
            "popen",
            "execve",
            "execv",
            "execvp",
            "execvpe",
            "execl",
            "execle",
            "execlp",
            "fexecve",
            "daemon",
            "forkpty",
        ],
        is_in_std: true,
        instead: "a function is one process; other programs are steps of the workflow",
    },
    Kind {
        does: "loads libraries",
        functions: &["dlopen"],
        is_in_std: false,
        instead: "an image is complete when it is checked; link the code into it",
    },
    Kind {
        does: "handles signals or sends them",
        functions: &[
            "sigaction",
            "signal",
            "signalfd",
            "sigwait",
            "sigwaitinfo",
            "sigtimedwait",
            "sigsuspend",
            "killpg",
        ],
        is_in_std: false,
        instead: "there are no signals: handlers are accepted and never called",
    },
    Kind {
        does: "makes links of files",
        functions: &["symlink", "symlinkat", "link", "linkat"],
        is_in_std: true,
        instead: "there are no symbolic or hard links; copy the file",
    },
    Kind {
        does: "opens terminals",
        functions: &["openpty", "posix_openpt", "login_tty"],
        is_in_std: false,
        instead: "there are no terminals; a pipe or a socket pair connects threads",
    },
    Kind {
        does: "watches files",
        functions: &["inotify_init", "inotify_init1", "fanotify_init"],
        is_in_std: false,
        instead: "look at the files again after a while",
    },
    Kind {
        does: "sets timers that signal",
        functions: &["timer_create", "setitimer", "alarm", "ualarm"],
        is_in_std: false,
        instead: "sleep in a thread",
    },
    Kind {
        does: "cancels threads",
        functions: &["pthread_cancel"],
        is_in_std: false,
        instead: "have the thread look at a variable, or wait with a time limit; other threads cannot end it",
    },
];

/// The crates of Rust's std.
const STD: [&str; 5] = ["std", "core", "alloc", "panic_unwind", "std_detect"];
/// The most users that are named.
const NAMED: usize = 3;

/// One line of explanation for each kind of call that will be refused.
pub(super) fn warnings(image: &[u8]) -> Vec<String> {
    let Ok(elf) = Elf::parse(image) else { return Vec::new() };
    let symbols = SymbolTable::read(image);
    let mut addresses: HashMap<&str, u64> = HashMap::new();
    for symbol in elf.syms.iter().filter(|symbol| symbol.st_value != 0) {
        if let Some(name) = elf.strtab.get_at(symbol.st_name) {
            addresses.insert(name, symbol.st_value);
        }
    }
    let found = KINDS.iter().map(|kind| {
        let found = kind.functions.iter().filter_map(|name| Some((*name, *addresses.get(name)?)));
        (kind, found.collect::<Vec<_>>())
    });
    let found: Vec<_> = found.filter(|(_, functions)| !functions.is_empty()).collect();
    if found.is_empty() {
        return Vec::new();
    }
    let refused = found.iter().flat_map(|(_, functions)| functions.iter().map(|(_, at)| *at)).collect();
    let libc = Toolchain::find().map(|toolchain| toolchain.functions()).unwrap_or_default();
    let callers = Callers::find(image, &elf, &symbols, refused, libc);
    found.into_iter().filter_map(|(kind, functions)| kind.warning(&functions, &callers, &symbols)).collect()
}

impl Kind {
    fn warning(&self, functions: &[(&str, u64)], callers: &Callers, symbols: &SymbolTable) -> Option<String> {
        let mut users = BTreeSet::new();
        let mut names = Vec::new();
        for (name, at) in functions {
            let theirs = callers.users(*at, self.is_in_std, symbols);
            if !theirs.is_empty() {
                names.push(*name);
            }
            users.extend(theirs);
        }
        let listed: Vec<_> = users
            .iter()
            .take(NAMED)
            .map(|user| crate_of(user).map_or_else(|| user.clone(), |name| format!("{user} (crate `{name}`)")))
            .collect();
        let more = users.len().checked_sub(NAMED).filter(|&more| more > 0);
        let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
        (!users.is_empty()).then(|| {
            format!(
                "code in the image {} ({}), which is refused when it runs\n  used by: {}{more}\n  instead: {}",
                self.does,
                names.join(", "),
                listed.join(", "),
                self.instead
            )
        })
    }
}

/// Which functions lead to which, by where they begin.
struct Callers {
    of: HashMap<u64, Vec<u64>>,
    /// The libc's functions that are refused.
    refused: HashSet<u64>,
    /// The names of all its functions.
    libc: HashSet<String>,
}

impl Callers {
    fn find(
        image: &[u8],
        elf: &Elf<'_>,
        symbols: &SymbolTable,
        refused: HashSet<u64>,
        libc: HashSet<String>,
    ) -> Callers {
        let relative = elf.dynrelas.iter().filter(|relocation| relocation.r_type == R_X86_64_RELATIVE);
        let slots: HashMap<u64, u64> =
            relative.filter_map(|slot| Some((slot.r_offset, slot.r_addend? as u64))).collect();
        let start = |at: u64| Some(at - symbols.find(at)?.offset);
        let mut callers: HashMap<u64, Vec<u64>> = HashMap::new();
        let executable = |header: &&goblin::elf::ProgramHeader| header.p_type == PT_LOAD && header.p_flags & PF_X != 0;
        for header in elf.program_headers.iter().filter(executable) {
            let Some(code) = image.get(header.file_range()) else { continue };
            for instruction in &mut Decoder::with_ip(64, code, header.p_vaddr, DecoderOptions::NONE) {
                let to = if instruction.op0_kind() == OpKind::NearBranch64 {
                    Some(instruction.near_branch_target())
                } else if instruction.is_ip_rel_memory_operand() {
                    let address = instruction.ip_rel_memory_address();
                    // The address of a function, or a word of the image that holds one.
                    if instruction.code() == Code::Lea_r64_m { Some(address) } else { slots.get(&address).copied() }
                } else {
                    None
                };
                let within = |to: &u64| header.vm_range().contains(&(*to as usize));
                let ends = to.filter(within).and_then(|to| Some((start(to)?, start(instruction.ip())?)));
                if let Some((callee, caller)) = ends.filter(|(callee, caller)| callee != caller) {
                    callers.entry(callee).or_default().push(caller);
                }
            }
        }
        Callers { of: callers, refused, libc }
    }

    /// The first functions that lead to `function` and are neither the libc's nor, unless std is a reason to warn, std's.
    fn users(&self, function: u64, through_std: bool, symbols: &SymbolTable) -> BTreeSet<String> {
        let mut users = BTreeSet::new();
        let (mut seen, mut next) = (HashSet::from([function]), vec![function]);
        while let Some(callee) = next.pop() {
            for caller in self.of.get(&callee).into_iter().flatten().copied() {
                // Another refused function is looked up by itself.
                if self.refused.contains(&caller) || !seen.insert(caller) {
                    continue;
                }
                let name = symbols.find(caller).map(|symbol| symbol.name()).unwrap_or_default();
                // A compiler names the parts and copies that it makes of a function in C after a dot.
                let name = if crate_of(&name).is_none() { name.split('.').next().unwrap_or_default() } else { &name };
                match crate_of(name) {
                    Some(of) if STD.contains(&of) => next.extend(through_std.then_some(caller)),
                    None if self.libc.contains(name) => next.push(caller),
                    _ => drop(users.insert(name.to_owned())),
                }
            }
        }
        users
    }
}
