//! Which pages of this process have been written to: asynchronous write protection and `PAGEMAP_SCAN` (Linux 6.7).
//!
//! ```text
//!   watch(range)       pages are write-protected; the first store to each lifts that, and waits for no one
//!   unwritten(range)   those that are still protected: their bytes are what they were
//!   watch(range)       what has been written to since is protected again
//! ```
//!
//! The list is of pages that are *known* to be as they were. A page is not in it if it was written to, dropped, mapped anew, moved here
//! from another place, or is a file's: whatever the kernel has lost sight of counts as written to. Pages that the kernel has swapped out keep
//! their protection. Those that were never touched may be in the list.
//!
//! One thing the kernel does not lose sight of: a page of a file that is shown privately, was copied by a store, and is dropped. It is in the list, though
//! it shows the file again. So what drops such pages must not do it between two captures that compare: going back to a point in a run does, and there is
//! no capture while there are points.
//!
//! The list comes through `/proc/self/pagemap`, which a process can open while it is dumpable, and goes on to use when it is not any more. A
//! descriptor speaks of the process that has opened it, whatever process reads it.

use crate::syscall_cookie::call;
use crate::userfaultfd;
use linux_raw_sys::general::{
    PAGE_IS_FILE, PAGE_IS_PRESENT, PAGE_IS_SWAPPED, PAGE_IS_WPALLOWED, PAGE_IS_WRITTEN, PM_SCAN_WP_MATCHING,
    UFFD_FEATURE_WP_ASYNC, UFFD_FEATURE_WP_UNPOPULATED, UFFDIO_REGISTER_MODE_WP, page_region, pm_scan_arg,
};
use rustix::ioctl::{Opcode, opcode};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

/// `PAGEMAP_SCAN` of `linux/fs.h`.
pub const SCAN: Opcode = opcode::read_write::<pm_scan_arg>(b'f', 16);

/// Runs of pages that the kernel tells of at once.
const AT_ONCE: usize = 64;

/// The kernel's list of this process's pages.
#[derive(Debug)]
pub struct PageMap(OwnedFd);

/// That of this process, and its id: a process that was forked has its parent's here.
static OPENED: Mutex<Option<(u32, Arc<PageMap>)>> = Mutex::new(None);

impl PageMap {
    /// Opens that of this process.
    pub fn open() -> io::Result<PageMap> {
        Ok(PageMap(File::open("/proc/self/pagemap")?.into()))
    }

    /// Opens that of a process that is not dumpable: it is for that moment. To be called before the process has anything that others
    /// must not see. A process that cannot be made undumpable again is not fit for use.
    pub fn open_undumpable() -> io::Result<io::Result<PageMap>> {
        set_dumpable(true)?;
        let opened = PageMap::open();
        set_dumpable(false)?;
        Ok(opened)
    }

    /// Keeps it for [`PageMap::of_process`], under the lowest number that is free.
    pub fn keep(self) -> io::Result<()> {
        keep(&mut opened(), PageMap(self.0.try_clone()?));
        Ok(())
    }

    /// The one that was kept; otherwise it is opened now, which a process can that is dumpable and may read `/proc`.
    pub fn of_process() -> io::Result<Arc<PageMap>> {
        let mut opened = opened();
        match &*opened {
            Some((process, pages)) if *process == std::process::id() => Ok(pages.clone()),
            _ => Ok(keep(&mut opened, PageMap::open()?)),
        }
    }

    /// Whether this kernel has what a [`Watch`] takes.
    pub fn is_of_use() -> io::Result<()> {
        Watch::on(Arc::new(PageMap::open()?)).map(drop)
    }
}

/// What a range of memory consists of, as far as that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mappings {
    /// Of anonymous memory. The list takes a third of the time then, or less: the kernel need not find out of each page whether it is a file's.
    Anonymous,
    /// Parts of it may show files.
    Any,
}

/// Watches ranges of this process's memory until it is dropped.
#[derive(Debug)]
pub struct Watch {
    pages: Arc<PageMap>,
    protection: OwnedFd,
}

impl Watch {
    /// Nothing is watched yet. An error if the kernel has no such thing.
    pub fn on(pages: Arc<PageMap>) -> io::Result<Watch> {
        let protection = userfaultfd::open(UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED)?;
        let watch = Watch { pages, protection };
        watch.scan(&mut scan(0..0, 0, &mut []))?;
        Ok(watch)
    }

    /// Protects the pages of a range that are not protected yet. Memory that cannot be protected, as that of another
    /// descriptor's, is an error, and is in no list.
    pub fn watch(&self, range: Range<u64>) -> io::Result<()> {
        userfaultfd::register(&self.protection, range.clone(), UFFDIO_REGISTER_MODE_WP)?;
        let end = range.end;
        let mut scan = scan(range, PAGE_IS_WPALLOWED | PAGE_IS_WRITTEN, &mut []);
        scan.flags = u64::from(PM_SCAN_WP_MATCHING);
        loop {
            self.scan(&mut scan)?;
            if scan.walk_end >= end {
                return Ok(());
            }
            scan.start = scan.walk_end;
        }
    }

    /// The pages of a range that have not been written to since they were protected, in order.
    pub fn unwritten(&self, range: Range<u64>, mappings: Mappings) -> io::Result<Vec<Range<u64>>> {
        let mut found: Vec<Range<u64>> = Vec::new();
        let mut room = [page_region { start: 0, end: 0, categories: 0 }; AT_ONCE];
        let mut at = range.start;
        while at < range.end {
            let mut scan = scan(at..range.end, PAGE_IS_WPALLOWED | PAGE_IS_WRITTEN, &mut room);
            scan.category_inverted |= u64::from(PAGE_IS_WRITTEN);
            if mappings == Mappings::Anonymous {
                scan.category_mask &= !u64::from(PAGE_IS_FILE);
                scan.category_inverted &= !u64::from(PAGE_IS_FILE);
            }
            let count = self.scan(&mut scan)?;
            // It stops where the room is full.
            at = scan.walk_end.max(at + 1);
            for region in &room[..count] {
                match found.last_mut() {
                    Some(last) if last.end == region.start => last.end = region.end,
                    _ => found.push(region.start..region.end),
                }
            }
        }
        Ok(found)
    }

    /// How many runs the kernel has told.
    fn scan(&self, scan: &mut pm_scan_arg) -> io::Result<usize> {
        // SAFETY: PAGEMAP_SCAN (Documentation/admin-guide/mm/pagemap.rst): the kernel reads and writes this structure, and writes runs to
        // room of the length that is in it. It protects pages, which a store undoes, and changes no byte of them.
        let told = unsafe { libc::ioctl(self.pages.0.as_raw_fd(), SCAN.into(), std::ptr::from_mut(scan)) };
        usize::try_from(told).map_err(|_| io::Error::last_os_error())
    }
}

/// A request of the pages of a range that are not a file's and have these categories.
fn scan(range: Range<u64>, categories: u32, room: &mut [page_region]) -> pm_scan_arg {
    pm_scan_arg {
        size: size_of::<pm_scan_arg>() as u64,
        flags: 0,
        start: range.start,
        end: range.end,
        walk_end: range.start,
        vec: if room.is_empty() { 0 } else { room.as_mut_ptr() as u64 },
        vec_len: room.len() as u64,
        max_pages: 0,
        category_inverted: u64::from(PAGE_IS_FILE),
        category_mask: u64::from(categories | PAGE_IS_FILE),
        category_anyof_mask: u64::from(PAGE_IS_PRESENT | PAGE_IS_SWAPPED),
        return_mask: u64::from(PAGE_IS_PRESENT | PAGE_IS_SWAPPED),
    }
}

fn opened() -> MutexGuard<'static, Option<(u32, Arc<PageMap>)>> {
    OPENED.lock().expect("the list of pages")
}

fn keep(opened: &mut Option<(u32, Arc<PageMap>)>, pages: PageMap) -> Arc<PageMap> {
    let pages = Arc::new(pages);
    if let Some((process, before)) = opened.replace((std::process::id(), pages.clone()))
        && process != std::process::id()
    {
        // The parent's. Under its number this process may have another file.
        std::mem::forget(before);
    }
    pages
}

/// Whether others of the same user may look into this process: `PR_SET_DUMPABLE`.
fn set_dumpable(dumpable: bool) -> io::Result<()> {
    // SAFETY: PR_SET_DUMPABLE(2const) takes a number.
    unsafe { call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, usize::from(dumpable), 0, 0]) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux_raw_sys::general::PAGE_IS_HUGE;
    use monohull_abi::layout::PAGE;
    use std::ptr;

    /// Pages of the test's own.
    struct Memory {
        start: u64,
        pages: u64,
    }

    impl Memory {
        fn map(at: *mut libc::c_void, pages: u64, fixed: i32) -> Memory {
            let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed);
            // SAFETY: mmap(2): a new mapping, or one in the place of pages that are the test's own.
            let start = unsafe { libc::mmap(at, (pages * PAGE) as usize, rights, flags, -1, 0) };
            assert_ne!(start, libc::MAP_FAILED);
            Memory { start: start as u64, pages }
        }

        fn new(pages: u64) -> Memory {
            Memory::map(ptr::null_mut(), pages, 0)
        }

        fn at(&self, page: u64) -> *mut libc::c_void {
            assert!(page < self.pages);
            (self.start + page * PAGE) as *mut libc::c_void
        }

        fn store(&self, page: u64, byte: u8) {
            // SAFETY: a byte of the test's own pages, to which there is no reference.
            unsafe { self.at(page).cast::<u8>().write_volatile(byte) };
        }

        fn advise(&self, page: u64, advice: i32) {
            // SAFETY: madvise(2): a page of the test's own.
            assert_eq!(unsafe { libc::madvise(self.at(page), PAGE as usize, advice) }, 0);
        }

        /// Has a page that is there swapped out: whether it is then. It stays where the host does not swap.
        fn swap_out(&self, page: u64) -> bool {
            self.advise(page, libc::MADV_PAGEOUT);
            let mut entry = [0; 8];
            let pages = File::open("/proc/self/pagemap").expect("a process that is dumpable");
            let at = (self.start / PAGE + page) * 8;
            std::os::unix::fs::FileExt::read_exact_at(&pages, &mut entry, at).expect("an entry for each page");
            u64::from_le_bytes(entry) & SWAPPED != 0
        }

        fn load(&self, page: u64) -> u8 {
            // SAFETY: a byte of the test's own pages, to which there is no reference.
            unsafe { self.at(page).cast::<u8>().read_volatile() }
        }

        fn range(&self) -> Range<u64> {
            self.start..self.start + self.pages * PAGE
        }

        /// The numbers of the pages that are known to be as they were: the same if it is known that no file is shown.
        fn unwritten(&self, watch: &Watch) -> Vec<u64> {
            let runs = |mappings| watch.unwritten(self.range(), mappings).expect("the kernel's list");
            let of_anonymous = runs(Mappings::Anonymous);
            let runs = runs(Mappings::Any);
            assert_eq!(runs, of_anonymous);
            runs.into_iter().flatten().step_by(PAGE as usize).map(|page| (page - self.start) / PAGE).collect()
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: munmap(2): the test's own pages.
            unsafe { libc::munmap(self.at(0), (self.pages * PAGE) as usize) };
        }
    }

    /// Runs a test where the kernel can do it; `doctor` says where it cannot, and captures are tested without it.
    fn with_page_map(test: impl FnOnce(&Arc<PageMap>)) {
        let pages = Arc::new(PageMap::open().expect("a process that is dumpable"));
        if Watch::on(pages.clone()).is_ok() {
            test(&pages);
        }
    }

    /// The bit of an entry of `/proc/self/pagemap`.
    const SWAPPED: u64 = 1 << 62;
    /// A page that another processor has just made is not swapped out at once. Then it is tried again.
    const ROUNDS: u32 = 100;

    /// Pages are swapped out where the host does that. The variable is set where it must.
    #[test]
    fn what_the_kernel_has_lost_sight_of_counts_as_written() {
        let mut swapped_out = false;
        with_page_map(|pages| swapped_out = (0..ROUNDS).any(|_| counts_what_is_lost_sight_of(pages)));
        assert!(swapped_out || std::env::var_os("MONOHULL_TEST_SWAP").is_none(), "no page was swapped out");
    }

    /// Whether all that should were swapped out.
    fn counts_what_is_lost_sight_of(pages: &Arc<PageMap>) -> bool {
        let (memory, watch) = (Memory::new(12), Watch::on(pages.clone()).expect("as before"));
        (0..12).for_each(|page| memory.store(page, 1));
        assert_eq!(memory.unwritten(&watch), [], "nothing is watched yet");
        watch.watch(memory.range()).expect("memory of its own");
        assert_eq!(memory.unwritten(&watch), Vec::from_iter(0..12));
        memory.store(1, 1);
        memory.store(11, 1);
        memory.advise(3, libc::MADV_DONTNEED);
        std::mem::forget(Memory::map(memory.at(5), 1, libc::MAP_FIXED));
        // A page that comes from another place, where it was protected.
        let other = Memory::new(1);
        other.store(0, 2);
        watch.watch(other.range()).expect("memory of its own");
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        // SAFETY: mremap(2): both are the test's own.
        let moved = unsafe { libc::mremap(other.at(0), PAGE as usize, PAGE as usize, flags, memory.at(7)) };
        assert_eq!(moved, memory.at(7));
        let mut swapped_out = memory.swap_out(9);
        assert_eq!(memory.unwritten(&watch), [0, 2, 4, 6, 8, 9, 10]);
        watch.watch(memory.range()).expect("memory of its own");
        memory.store(3, 3);
        memory.store(5, 3);
        assert_eq!(memory.unwritten(&watch), [0, 1, 2, 4, 6, 7, 8, 9, 10, 11]);
        memory.store(7, 3);
        assert_eq!(memory.unwritten(&watch), [0, 1, 2, 4, 6, 8, 9, 10, 11]);
        // Those that come back, by a read and by a store.
        swapped_out &= memory.swap_out(8) && memory.swap_out(10);
        assert_eq!((memory.load(8), memory.load(9)), (1, 1));
        memory.store(10, 3);
        assert_eq!(memory.unwritten(&watch), [0, 1, 2, 4, 6, 8, 9, 11]);
        memory.store(9, 3);
        assert_eq!(memory.unwritten(&watch), [0, 1, 2, 4, 6, 8, 11]);
        swapped_out
    }

    #[test]
    fn a_list_of_many_runs_is_whole() {
        with_page_map(|pages| {
            let (memory, watch) = (Memory::new(1000), Watch::on(pages.clone()).expect("as before"));
            (0..1000).for_each(|page| memory.store(page, 1));
            watch.watch(memory.range()).expect("memory of its own");
            (0..1000).step_by(2).for_each(|page| memory.store(page, 2));
            assert_eq!(memory.unwritten(&watch), Vec::from_iter((1..1000).step_by(2)));
            drop(watch);
            let watch = Watch::on(pages.clone()).expect("as before");
            assert_eq!(memory.unwritten(&watch), [], "another one has watched");
        });
    }

    /// Pages of a huge one.
    const HUGE: u64 = 512;
    /// `MADV_COLLAPSE` of `linux/mman.h`: puts pages on a huge page now.
    const COLLAPSE: i32 = 25;

    /// Whether a page lies on a huge one.
    fn is_huge(pages: &PageMap, memory: &Memory, page: u64) -> bool {
        let mut room = [page_region { start: 0, end: 0, categories: 0 }];
        let start = memory.start + page * PAGE;
        let mut scan = scan(start..start + PAGE, PAGE_IS_HUGE, &mut room);
        // SAFETY: as in `Watch::scan`.
        unsafe { libc::ioctl(pages.0.as_raw_fd(), SCAN.into(), std::ptr::from_mut(&mut scan)) == 1 }
    }

    /// A huge page is one for the processor. What is told of it is told of each page in it.
    #[test]
    fn a_store_into_the_midst_of_a_huge_page_counts() {
        with_page_map(|pages| {
            let (memory, watch) = (Memory::new(3 * HUGE), Watch::on(pages.clone()).expect("as before"));
            let first = (memory.start / PAGE).next_multiple_of(HUGE) - memory.start / PAGE;
            (0..3 * HUGE).for_each(|page| memory.store(page, 1));
            // SAFETY: madvise(2): pages of the test's own.
            let collapsed = unsafe { libc::madvise(memory.at(first), (HUGE * PAGE) as usize, COLLAPSE) } == 0;
            // A host that is short of memory may have none.
            assert_eq!(collapsed, is_huge(pages, &memory, first + 100));
            watch.watch(memory.range()).expect("memory of its own");
            assert_eq!(memory.unwritten(&watch).len() as u64, 3 * HUGE);
            memory.store(first + 100, 2);
            let told = memory.unwritten(&watch);
            assert!(!told.contains(&(first + 100)) && told.len() as u64 >= 2 * HUGE, "it was written to: {told:?}");
            memory.advise(first + 200, libc::MADV_DONTNEED);
            let told = memory.unwritten(&watch);
            assert!(!told.contains(&(first + 100)) && !told.contains(&(first + 200)), "and one was dropped: {told:?}");
            watch.watch(memory.range()).expect("memory of its own");
            memory.store(first + 300, 2);
            // By now it is one no more, and each page is told of alone.
            assert!(!is_huge(pages, &memory, first + 100));
            let others = Vec::from_iter((0..3 * HUGE).filter(|page| *page != first + 300));
            assert_eq!(memory.unwritten(&watch), others);
        });
    }

    /// A descriptor that a process inherits speaks of its parent's memory.
    #[test]
    fn a_forked_process_has_a_list_of_its_own() {
        use nix::sys::wait::{WaitStatus, waitpid};
        use nix::unistd::{ForkResult, fork};
        let parents = PageMap::of_process().expect("a process that is dumpable");
        let is_same = |pages: io::Result<Arc<PageMap>>| pages.is_ok_and(|pages| Arc::ptr_eq(&pages, &parents));
        assert!(is_same(PageMap::of_process()));
        // SAFETY: the child makes system calls and allocates; `fork` sees to the allocator's locks.
        match unsafe { fork() }.expect("a process") {
            ForkResult::Child => crate::fork::exit_now(i32::from(is_same(PageMap::of_process()))),
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None).expect("a child"), WaitStatus::Exited(child, 0));
            }
        }
    }

    #[test]
    fn stores_of_the_kernel_count() {
        use std::io::Read;
        with_page_map(|pages| {
            let (memory, watch) = (Memory::new(2), Watch::on(pages.clone()).expect("as before"));
            (0..2).for_each(|page| memory.store(page, 1));
            watch.watch(memory.range()).expect("memory of its own");
            // SAFETY: a page of the test's own, to which there is no other reference.
            let room = unsafe { std::slice::from_raw_parts_mut(memory.at(1).cast::<u8>(), PAGE as usize) };
            File::open("/dev/zero").expect("a device").read_exact(room).expect("zeros");
            assert_eq!(memory.unwritten(&watch), [0]);
        });
    }
}
