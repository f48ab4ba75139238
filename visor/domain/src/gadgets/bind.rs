//! Binds what is bound lazily: the dynamic linker's resolver saves registers with XSAVE and loads them with XRSTOR,
//! and that instruction is going to be removed.
//!
//! The program is linked with `-z now`, which does not apply to its libraries: glibc binds each object as the object
//! itself requests, and libgcc, libm and libc do not request it. A slot that is not bound yet leads back into its own object's
//! procedure linkage table, to the instruction that pushes the slot's number for the resolver:
//!
//! ```text
//!   call f ──▶ plt: jmp [slot] ──┐        slot, not bound: the push behind that very jump
//!                push 7  ◀───────┘        slot, bound:     f
//!                jmp resolver
//! ```

use super::GadgetsError;
use super::code::{self, Object, Objects};
use goblin::elf64::{
    dynamic::{DT_JMPREL, DT_NULL, DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_VERNEED, DT_VERSYM, Dyn},
    reloc::{R_X86_64_JUMP_SLOT, Rela, r_sym, r_type},
    sym::{STB_WEAK, Sym, st_bind},
};
use plain::Plain;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, Ordering};

/// The tables of an object that binding needs. Their addresses are absolute.
struct Tables {
    slots: u64,
    slot_count: u64,
    symbols: u64,
    names: u64,
    versions: Option<u64>,
    needed: Option<u64>,
}

/// `Elf64_Verneed` and `Elf64_Vernaux`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Needed {
    version: u16,
    count: u16,
    file: u32,
    first: u32,
    next: u32,
}
#[derive(Clone, Copy)]
#[repr(C)]
struct NeededVersion {
    hash: u32,
    flags: u16,
    index: u16,
    name: u32,
    next: u32,
}
// SAFETY: plain integers without padding.
unsafe impl Plain for Needed {}
// SAFETY: as above.
unsafe impl Plain for NeededVersion {}

/// Binds every slot of the objects; an error if one stays lazy.
pub(super) fn bind(objects: &Objects) -> Result<(), GadgetsError> {
    for object in &objects.list {
        let Some(tables) = Tables::of(object) else { continue };
        for index in 0..tables.slot_count {
            let rela: Rela = tables.read(tables.slots + index * size_of::<Rela>() as u64);
            let slot = object.base.wrapping_add(rela.r_offset);
            if r_type(rela.r_info) != R_X86_64_JUMP_SLOT || !is_lazy(object, slot, index) {
                continue;
            }
            let symbol: Sym = tables.read(tables.symbols + u64::from(r_sym(rela.r_info)) * size_of::<Sym>() as u64);
            let name = tables.text(u64::from(symbol.st_name));
            let target = tables.resolve(name, r_sym(rela.r_info));
            if target == 0 && st_bind(symbol.st_info) != STB_WEAK {
                let symbol = name.to_string_lossy().into_owned();
                return Err(GadgetsError::Lazy { object: object.path(), symbol });
            }
            // SAFETY: the slot is a word of the object's data that the linker, too, writes to when it binds: to write
            // the same value at the same time does no harm. It is writable, as it was left to be bound later.
            unsafe { &*(slot as *const AtomicU64) }.store(target, Ordering::Release);
        }
    }
    Ok(())
}

/// Whether the slot leads to the push of its own index, in its own object's code.
fn is_lazy(object: &Object, slot: u64, index: u64) -> bool {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    const PUSH: u8 = 0x68;
    /// ENDBR64 and a push.
    const LENGTH: u64 = 9;
    if !object.span.contains(&slot) {
        return false;
    }
    // SAFETY: a word of the object's data; see `bind`.
    let target = unsafe { &*(slot as *const AtomicU64) }.load(Ordering::Acquire);
    let Some(code) = object.code.iter().find(|code| code.start <= target && target + LENGTH <= code.end) else {
        return false;
    };
    debug_assert!(code.contains(&target));
    // SAFETY: these bytes are executable pages of the object.
    let bytes = unsafe { code::bytes(&(target..target + LENGTH)) };
    let push = bytes.strip_prefix(&ENDBR64).unwrap_or(bytes);
    push[0] == PUSH && push[1..5] == (index as u32).to_le_bytes()
}

impl Tables {
    /// `None` if the object has nothing to bind.
    fn of(object: &Object) -> Option<Tables> {
        let dynamic = object.dynamic.clone()?;
        let entries = (dynamic.end - dynamic.start) / size_of::<Dyn>() as u64;
        // SAFETY: the section lies in the object, and its values are the linker's, which has used them itself.
        let entry = |index: u64| unsafe { read::<Dyn>(dynamic.start + index * size_of::<Dyn>() as u64) };
        let entries: Vec<Dyn> = (0..entries).map(entry).take_while(|entry| entry.d_tag != DT_NULL).collect();
        let value = |tag: u64| entries.iter().find(|entry| entry.d_tag == tag).map(|entry| entry.d_val);
        // The linker makes addresses absolute, but in objects whose dynamic section is read-only it keeps them as
        // they are.
        let absolute = |address: u64| if address < object.base { object.base + address } else { address };
        let address = |tag: u64| value(tag).map(absolute);
        Some(Tables {
            slots: address(DT_JMPREL)?,
            slot_count: value(DT_PLTRELSZ)? / size_of::<Rela>() as u64,
            symbols: address(DT_SYMTAB)?,
            names: address(DT_STRTAB)?,
            versions: address(DT_VERSYM),
            needed: address(DT_VERNEED),
        })
    }

    /// What the linker would bind to a symbol: the first definition among the objects it has loaded at start.
    fn resolve(&self, name: &CStr, symbol: u32) -> u64 {
        let version = self.version(symbol);
        // SAFETY: both names end with a zero byte.
        let found = unsafe {
            match version {
                Some(version) => libc::dlvsym(libc::RTLD_DEFAULT, name.as_ptr(), version.as_ptr()),
                None => libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()),
            }
        };
        found as u64
    }

    /// The version of a symbol that the object asks for.
    fn version(&self, symbol: u32) -> Option<&CStr> {
        const HIDDEN: u16 = 0x8000;
        const NAMED: u16 = 2;
        let index = self.read::<u16>(self.versions? + u64::from(symbol) * 2) & !HIDDEN;
        let mut file = self.needed.filter(|_| index >= NAMED)?;
        loop {
            let needed: Needed = self.read(file);
            let mut at = file + u64::from(needed.first);
            for _ in 0..needed.count {
                let version: NeededVersion = self.read(at);
                if version.index == index {
                    return Some(self.text(u64::from(version.name)));
                }
                at += u64::from(version.next);
            }
            if needed.next == 0 {
                return None;
            }
            file += u64::from(needed.next);
        }
    }

    fn text(&self, offset: u64) -> &CStr {
        // SAFETY: an offset into the string table of a loaded object, which ends with a zero byte.
        unsafe { CStr::from_ptr((self.names + offset) as *const c_char) }
    }

    fn read<T: Plain + Copy>(&self, address: u64) -> T {
        // SAFETY: addresses come from the tables of an object that the linker has loaded and used itself.
        unsafe { read(address) }
    }
}

/// # Safety
/// There is a `T` at `address`, aligned or not.
unsafe fn read<T: Plain + Copy>(address: u64) -> T {
    // SAFETY: the caller's promise.
    unsafe { (address as *const T).read_unaligned() }
}
