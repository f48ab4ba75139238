//! What code there is in this process: executable mappings, and the objects they come from.
//!
//! At first everything counts that the kernel lists. Later on new code comes from the dynamic linker alone, whose own
//! list is a hundred times cheaper to read than the kernel's when a domain holds thousands of mappings.

use super::GadgetsError;
use monohull_abi::layout::{CARRIER_BASE, PAGE, USER_END, page_down, page_up};
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::path::PathBuf;

/// Executable pages that follow each other without a gap. They are looked at as one piece, because a sequence may begin
/// in one mapping and end in the next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) range: Range<u64>,
}

/// A shared object, or the program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Object {
    /// Path of its file, or what the linker calls it; nothing for the program.
    name: String,
    /// What is added to its addresses.
    pub(super) base: u64,
    /// Executable pages.
    pub(super) code: Vec<Range<u64>>,
    /// Some of them are writable too.
    pub(super) writable_code: bool,
    /// The linker makes the stacks of all threads executable for its sake.
    pub(super) executable_stacks: bool,
    /// All of it, from the first page to the last.
    pub(super) span: Range<u64>,
    /// Where `.eh_frame_hdr` lies.
    pub(super) unwind_table: Option<Range<u64>>,
    /// Where the dynamic section lies.
    pub(super) dynamic: Option<Range<u64>>,
}

/// What the dynamic linker has loaded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Objects {
    pub(super) list: Vec<Object>,
    /// How many have ever been loaded, and unloaded.
    pub(super) counts: (u64, u64),
}

impl Objects {
    /// Lists them by the dynamic linker.
    pub(super) fn now() -> Objects {
        let mut objects = Objects::default();
        // SAFETY: the callback gets what is passed here, and the linker's lock keeps the objects while it runs.
        unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut objects).cast()) };
        objects
    }

    /// How many have been loaded and unloaded until now.
    pub(super) fn counts() -> (u64, u64) {
        let mut counts = (0, 0);
        // SAFETY: the callback gets what is passed here.
        unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut counts).cast()) };
        counts
    }

    /// The object an address lies in.
    pub(super) fn of(&self, address: u64) -> Option<&Object> {
        self.list.iter().find(|object| object.span.contains(&address))
    }

    /// Their code, and that of pages of our own.
    pub(super) fn runs(&self, own: &[Range<u64>]) -> Result<Vec<Run>, GadgetsError> {
        if let Some(object) = self.list.iter().find(|object| object.writable_code) {
            return Err(GadgetsError::Writable {
                what: object.path().display().to_string(),
                address: object.span.start,
            });
        }
        if let Some(object) = self.list.iter().find(|object| object.executable_stacks) {
            return Err(GadgetsError::Stacks { object: object.path() });
        }
        let ranges = self.list.iter().flat_map(|object| &object.code).chain(own);
        Ok(joined(ranges.cloned().collect()))
    }
}

/// Notes the counts, which come with every object, and stops.
///
/// # Safety
/// Called by `dl_iterate_phdr` with a valid `info` and the pair passed to it.
unsafe extern "C" fn count(info: *mut libc::dl_phdr_info, _size: usize, counts: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { *counts.cast() = ((*info).dlpi_adds, (*info).dlpi_subs) };
    1
}

/// Notes one object.
///
/// # Safety
/// Called by `dl_iterate_phdr` with a valid `info`, whose size is `size`, and the [`Objects`] passed to it.
unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: usize, objects: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let (info, objects) = unsafe { (&*info, &mut *objects.cast::<Objects>()) };
    objects.counts = (info.dlpi_adds, info.dlpi_subs);
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the linker keeps this many headers there.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let mut object = Object { name: name(info), base: info.dlpi_addr, ..Object::default() };
    // The kernel's own object has no header for stacks, and the linker does not look for one.
    object.executable_stacks = !object.name.starts_with("linux-vdso");
    for header in headers {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        let range = start..start.wrapping_add(header.p_memsz);
        let pages = page_down(range.start)..page_up(range.end);
        match header.p_type {
            libc::PT_LOAD => {
                if header.p_flags & libc::PF_X != 0 {
                    object.code.push(pages.clone());
                    object.writable_code |= header.p_flags & libc::PF_W != 0;
                }
                let first = object.span.is_empty();
                object.span.start = if first { pages.start } else { object.span.start.min(pages.start) };
                object.span.end = object.span.end.max(pages.end);
            }
            libc::PT_GNU_EH_FRAME => object.unwind_table = Some(range),
            libc::PT_GNU_STACK => object.executable_stacks = header.p_flags & libc::PF_X != 0,
            libc::PT_DYNAMIC => object.dynamic = Some(range),
            _ => {}
        }
    }
    objects.list.push(object);
    0
}

fn name(info: &libc::dl_phdr_info) -> String {
    // SAFETY: the linker's names end with a zero byte.
    let name = (!info.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(info.dlpi_name) });
    name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

impl Object {
    /// Path of its file, or what the linker calls it. That of the program takes a system call, which not every process may
    /// make: it is not asked for without need.
    pub(super) fn path(&self) -> PathBuf {
        if self.name.is_empty() {
            return std::env::current_exe().unwrap_or_else(|_| "the program".into());
        }
        PathBuf::from(&self.name)
    }
}

/// Every executable page of the process, except function images in the user partition: these have been checked before
/// they were mapped, and a gadget there would have been refused.
pub(super) fn everything() -> Result<Vec<Run>, GadgetsError> {
    let text = std::fs::read_to_string("/proc/self/maps").map_err(GadgetsError::Maps)?;
    let mut ranges = Vec::new();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (range, rights) = (fields.next().and_then(range), fields.next());
        let (Some(range), Some(rights)) = (range, rights) else {
            return Err(GadgetsError::Maps(std::io::Error::other(format!("a line that makes no sense: {line}"))));
        };
        let what = || fields.clone().nth(3).unwrap_or("memory without a name").to_owned();
        let images = range.start >= CARRIER_BASE && range.end <= USER_END;
        if !rights.contains('x') || images {
            continue;
        }
        if rights.contains('w') {
            return Err(GadgetsError::Writable { what: what(), address: range.start });
        }
        if !rights.contains('r') {
            // The kernel runs calls to this page itself, nothing on it is executed.
            if what() == "[vsyscall]" {
                continue;
            }
            return Err(GadgetsError::Unreadable { what: what(), address: range.start });
        }
        ranges.push(range);
    }
    Ok(joined(ranges))
}

/// Every gap between mappings, in ascending order, up to the end of what a process can map.
pub(super) fn gaps() -> Result<Vec<Range<u64>>, GadgetsError> {
    const FIRST: u64 = 1 << 20;
    const LAST: u64 = (1 << 47) - PAGE;
    let text = std::fs::read_to_string("/proc/self/maps").map_err(GadgetsError::Maps)?;
    let mut gaps = Vec::new();
    let mut end = FIRST;
    for used in text.lines().filter_map(|line| range(line.split_ascii_whitespace().next()?)) {
        if used.start > LAST {
            break;
        }
        gaps.push(end..used.start.max(end));
        end = end.max(used.end);
    }
    gaps.push(end..LAST.max(end));
    gaps.retain(|gap| !gap.is_empty());
    Ok(gaps)
}

fn range(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// Puts ranges that touch together.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Run> {
    ranges.sort_by_key(|range| range.start);
    let mut runs: Vec<Run> = Vec::new();
    for range in ranges {
        match runs.last_mut() {
            Some(last) if range.start <= last.range.end => last.range.end = last.range.end.max(range.end),
            _ => runs.push(Run { range }),
        }
    }
    runs
}

impl Run {
    /// Its bytes.
    ///
    /// # Safety
    /// The pages are mapped and readable, and stay so, unchanged, while the slice is used.
    pub(super) unsafe fn bytes<'m>(&self) -> &'m [u8] {
        // SAFETY: the caller's promise.
        unsafe { bytes(&self.range) }
    }
}

/// The bytes of a range.
///
/// # Safety
/// As for [`Run::bytes`].
pub(super) unsafe fn bytes<'m>(range: &Range<u64>) -> &'m [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(range.start as *const u8, (range.end - range.start) as usize) }
}
