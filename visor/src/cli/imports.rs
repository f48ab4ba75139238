//! What an image wants from outside of itself, and which of its functions do.
//!
//! The loader refuses an image that imports anything. The usual reason is a crate that calls C, deep in the graph of
//! dependencies. The linker has left a trace of it: each import has a word in the image that the dynamic linker would fill (its
//! slot), and the instructions that read this word lie in functions with names.
//!
//! ```text
//!   getpid ◀── slot ◀── call [rip + …] in libc_user::pid      the crate is `libc_user`
//!              slot ◀── jmp [rip + …] in a stub without a name ◀── call in libc_user::pid
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};

use goblin::elf::Elf;
use goblin::elf::program_header::{PF_X, PT_LOAD};
use goblin::elf::reloc::{R_X86_64_IRELATIVE, R_X86_64_TPOFF64};
use goblin::elf::sym::STB_WEAK;
use iced_x86::{Decoder, DecoderOptions, OpKind};
use monohull_checker::symbols::SymbolTable;

use monohull_domain::image::ImageError;

/// The most imports that a message lists.
const LISTED: usize = 10;
/// Stubs of a linker begin at multiples of this.
const STUB: u64 = 16;

/// What the loader's refusal means for the author of the function; nothing where the refusal says it all.
pub(super) fn explain(error: &ImageError, image: &[u8]) -> Option<String> {
    match error {
        ImageError::NeedsLibrary { .. } | ImageError::Undefined { .. } => {}
        ImageError::StaticThreadLocal | ImageError::ThreadLocalModel { .. } => {
            return Some(format!(
                "{}  To do: have such a variable found by a call. Leave out the attribute tls_model(\"initial-exec\") or \"local-exec\"; compile with \
                 -fPIC, without -ftls-model=…. `monohull cc` overrules these options for what it compiles, and nothing overrules the attribute.",
                readers(image, R_X86_64_TPOFF64)
            ));
        }
        ImageError::IndirectRelocation { .. } => {
            return Some(format!(
                "{}  To do: leave out functions that are chosen when a program starts: the attributes ifunc, target_clones and target_version. Choose \
                 in an ordinary function, by __builtin_cpu_supports.",
                readers(image, R_X86_64_IRELATIVE)
            ));
        }
        _ => return None,
    }
    let imports = imports(image);
    let mut text = String::new();
    for (name, users) in imports.iter().take(LISTED) {
        text += &format!("  {name}");
        if let Some(user) = users.first() {
            let more = if users.len() > 1 { format!(" and {} more", users.len() - 1) } else { String::new() };
            text += &format!(", used by {user}{more}");
        }
        let crates: BTreeSet<&str> = users.iter().filter_map(|user| crate_of(user)).collect();
        if !crates.is_empty() {
            let crates: Vec<String> = crates.into_iter().map(|name| format!("`{name}`")).collect();
            text += &format!(" (crate {})", crates.join(", "));
        }
        text.push('\n');
    }
    if let Some(more) = imports.len().checked_sub(LISTED).filter(|&more| more > 0) {
        text += &format!("  and {more} more\n");
    }
    text += "  To do: a library of the host is for the host's libc, and is not linked. On monohull-std, use the crate without that part (often \
             `default-features = false`), another crate, or what monohull-std has for it. Over the real std, let the crate build its \
             own copy from source (often a feature `bundled`, `vendored` or `static`), or link what `monohull cc` has compiled.";
    Some(text)
}

/// A line with the functions that read words which relocations of this kind fill, as far as that is known.
fn readers(image: &[u8], kind: u32) -> String {
    const WORD: &str = "";
    let Ok(elf) = Elf::parse(image) else { return String::new() };
    let relocations = elf.dynrelas.iter().chain(elf.pltrelocs.iter());
    let slots = relocations.filter(|relocation| relocation.r_type == kind).map(|slot| (slot.r_offset, WORD)).collect();
    let symbols = SymbolTable::read(image);
    let users = Uses::find(image, &elf, &symbols, &slots).users(WORD, &symbols);
    let named: Vec<&str> = users.iter().take(LISTED).map(String::as_str).collect();
    let more = users.len().checked_sub(LISTED).filter(|&more| more > 0);
    let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
    if named.is_empty() { String::new() } else { format!("  used by {}{more}\n", named.join(", ")) }
}

/// The symbols that an image does not define, each with the functions that use it, as far as that is known.
fn imports(image: &[u8]) -> BTreeMap<String, Vec<String>> {
    let Ok(elf) = Elf::parse(image) else { return BTreeMap::new() };
    let mut imports: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut slots = HashMap::new();
    for relocation in elf.dynrelas.iter().chain(elf.pltrelocs.iter()) {
        let symbol =
            elf.dynsyms.get(relocation.r_sym).filter(|symbol| symbol.is_import() && symbol.st_bind() != STB_WEAK);
        if let Some(name) = symbol.and_then(|symbol| elf.dynstrtab.get_at(symbol.st_name)) {
            slots.insert(relocation.r_offset, name);
            imports.entry(name.to_owned()).or_default();
        }
    }
    let symbols = SymbolTable::read(image);
    let uses = Uses::find(image, &elf, &symbols, &slots);
    for (name, users) in &mut imports {
        users.extend(uses.users(name, &symbols));
    }
    imports
}

/// Instructions that have to do with imports.
#[derive(Default)]
struct Uses<'a> {
    /// In functions: the import, and the address.
    direct: Vec<(&'a str, u64)>,
    /// In code without a name: where it begins, and the import.
    stubs: HashMap<u64, &'a str>,
    /// Calls and jumps: where to, and from where.
    calls: Vec<(u64, u64)>,
}

impl<'a> Uses<'a> {
    fn find(image: &[u8], elf: &Elf<'_>, symbols: &SymbolTable, slots: &HashMap<u64, &'a str>) -> Uses<'a> {
        let mut uses = Uses::default();
        let executable = |header: &&goblin::elf::ProgramHeader| header.p_type == PT_LOAD && header.p_flags & PF_X != 0;
        for header in elf.program_headers.iter().filter(executable) {
            let Some(code) = image.get(header.file_range()) else { continue };
            for instruction in &mut Decoder::with_ip(64, code, header.p_vaddr, DecoderOptions::NONE) {
                let at = instruction.ip();
                let slot = instruction.is_ip_rel_memory_operand().then(|| instruction.ip_rel_memory_address());
                match slot.and_then(|slot| slots.get(&slot)) {
                    Some(import) if symbols.find(at).is_some() => uses.direct.push((import, at)),
                    Some(import) => drop(uses.stubs.insert(at / STUB * STUB, import)),
                    None if instruction.op0_kind() == OpKind::NearBranch64 => {
                        uses.calls.push((instruction.near_branch_target(), at));
                    }
                    None => {}
                }
            }
        }
        uses
    }

    /// The names of the functions that use an import.
    fn users(&self, import: &str, symbols: &SymbolTable) -> BTreeSet<String> {
        let direct = self.direct.iter().filter(|(name, _)| *name == import).map(|&(_, at)| at);
        let called = self.calls.iter().filter(|(to, _)| self.stubs.get(to).is_some_and(|name| *name == import));
        let places = direct.chain(called.map(|&(_, at)| at));
        places.filter_map(|at| symbols.find(at)).map(|symbol| symbol.name()).collect()
    }
}

/// The crate that a function comes from: the first name of its path. What C and assembly define has no path.
pub(super) fn crate_of(function: &str) -> Option<&str> {
    let path = function.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_');
    path.split_once("::").map(|(name, _)| name).filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_of_a_function_is_the_first_name_of_its_path() {
        assert_eq!(crate_of("libc_user::inner::pid"), Some("libc_user"));
        assert_eq!(crate_of("<uuid::Uuid as core::fmt::Debug>::fmt"), Some("uuid"));
        assert_eq!(crate_of("<&a_b::C as core::fmt::Write>::write_str"), Some("a_b"));
        assert_eq!(crate_of("memcpy"), None);
    }
}
