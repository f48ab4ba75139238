//! Memory for large bytes that two processes use again for one message after the other: its pages are there already, where a sealed file
//! takes new ones each time.
//!
//! ```text
//!   sender    write, write, …  ──▶ | first bytes | second bytes | …            |   the sizes go in the message
//!   receiver  take, take, …    ◀──                                                 in the same order
//!   either    clear                | 0 0 0 0 0 0 0 0 0 0 0 0 0  | …
//! ```
//!
//! Unlike a sealed file it can change at any time, by the hand of a process that is under an attacker's control. So it is never read in
//! place: bytes are copied once, and what was copied is what is used. Its size is fixed, so that nothing is ever missing at the end.

use monohull_sys::shared_memory::SharedMemory;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// How much there is room for: more than most messages have, little enough to be kept by a process that waits, and to be copied between
/// two events of a loop that serves others.
pub const RECYCLED_MAX: u64 = 2 << 20;

/// Neither end can change its size, or keep the other from writing.
const SEALS: SealFlag = SealFlag::F_SEAL_SHRINK.union(SealFlag::F_SEAL_GROW).union(SealFlag::F_SEAL_SEAL);

/// Bytes in which the kernel counts what a file takes (`stat(2)`).
const BLOCK: u64 = 512;

/// One end's hold on such memory, which keeps to the order of what is written or taken.
#[derive(Debug)]
pub struct Recycled {
    file: File,
    /// The same, mapped when it is used for the first time: most are for jobs that have only small slots.
    memory: Option<Arc<SharedMemory>>,
    /// Where the next bytes of this message are.
    at: u64,
}

impl Recycled {
    /// New memory, all zero.
    pub fn new() -> io::Result<Recycled> {
        let file = memfd_create(c"monohull-recycled", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let file = File::from(file);
        file.set_len(RECYCLED_MAX)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS))?;
        Ok(Recycled { file, memory: None, at: 0 })
    }

    /// The other end's, which has come over a channel.
    pub fn of_file(file: OwnedFd) -> Recycled {
        Recycled { file: file.into(), memory: None, at: 0 }
    }

    /// The memory itself. An error if it is not such memory.
    pub fn memory(&mut self) -> io::Result<&Arc<SharedMemory>> {
        match &mut self.memory {
            Some(memory) => Ok(memory),
            none => Ok(none.insert(Arc::new(SharedMemory::map(&self.file, RECYCLED_MAX)?))),
        }
    }

    /// Writes these bytes behind those of the message so far; false if there is no room for them.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let Some(range) = self.next(bytes.len() as u64) else { return Ok(false) };
        self.memory()?.write(range.start, bytes);
        Ok(true)
    }

    /// Where the next so many bytes of a message are; `None` if there is no room for so many.
    pub fn next(&mut self, len: u64) -> Option<Range<u64>> {
        let end = self.at.checked_add(len).filter(|end| *end <= RECYCLED_MAX)?;
        Some(std::mem::replace(&mut self.at, end)..end)
    }

    /// A copy of these bytes.
    pub fn read(&mut self, range: Range<u64>) -> io::Result<Vec<u8>> {
        Ok(self.memory()?.to_vec(range))
    }

    /// How many bytes of memory it takes: pages that one of the ends has used.
    pub fn bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.blocks() * BLOCK)
    }

    /// Writes zeros over the message. The next one begins where it began.
    pub fn clear(&mut self) -> io::Result<()> {
        match self.forget() {
            0 => Ok(()),
            end => self.memory().map(|memory| memory.clear(0..end)),
        }
    }

    /// The message is the other end's to clear: how long it was. The next one begins where it began.
    pub fn forget(&mut self) -> u64 {
        std::mem::take(&mut self.at)
    }
}

impl AsFd for Recycled {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn other_end(one: &Recycled) -> Recycled {
        Recycled::of_file(one.as_fd().try_clone_to_owned().expect("a descriptor"))
    }

    fn whole(memory: &mut Recycled) -> Vec<u8> {
        memory.read(0..RECYCLED_MAX).expect("all of it")
    }

    #[test]
    fn what_one_end_writes_the_other_takes_in_order() {
        let mut ours = Recycled::new().expect("memory");
        let mut theirs = other_end(&ours);
        for round in 1..4u8 {
            let parts = [vec![round; 100_000], Vec::new(), vec![round + 10; 7]];
            for part in &parts {
                assert!(ours.write(part).expect("written"));
            }
            for part in &parts {
                let range = theirs.next(part.len() as u64).expect("it fits");
                assert_eq!(theirs.read(range).expect("it is there"), *part);
            }
            assert_eq!(ours.forget(), 100_007);
            theirs.clear().expect("zeros");
            assert!(whole(&mut ours).iter().all(|byte| *byte == 0), "{round}");
        }
    }

    #[test]
    fn there_is_room_for_so_much_and_no_more() {
        let mut memory = Recycled::new().expect("memory");
        assert_eq!(memory.bytes(), 0, "no page is there before it is used");
        let all = vec![7; RECYCLED_MAX as usize];
        assert!(!memory.write(&[&all[..], &[7]].concat()).expect("refused"));
        assert!(memory.write(&all).expect("written"));
        assert!(!memory.write(&[7]).expect("refused"));
        assert_eq!(memory.next(0), Some(RECYCLED_MAX..RECYCLED_MAX));
        assert_eq!((memory.next(1), memory.next(u64::MAX)), (None, None));
        assert_eq!(whole(&mut memory), all);
        memory.clear().expect("zeros");
        assert!(whole(&mut memory).iter().all(|byte| *byte == 0));
        assert_eq!(memory.bytes(), RECYCLED_MAX);
        assert!(memory.write(&[1]).expect("written"));
    }

    /// A hostile end can write, and nothing else.
    #[test]
    fn neither_end_changes_its_size_or_keeps_the_other_from_writing() {
        let mut ours = Recycled::new().expect("memory");
        let theirs = other_end(&ours);
        for size in [0, 1, RECYCLED_MAX - 1, RECYCLED_MAX + 1, 1 << 40] {
            theirs.file.set_len(size).expect_err("another size");
        }
        theirs.file.write_all_at(&[7], RECYCLED_MAX).expect_err("behind the end");
        fcntl(&theirs.file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE)).expect_err("another seal");
        assert!(ours.write(&[1, 2, 3]).expect("written"));
        assert_eq!(theirs.file.metadata().expect("its size").len(), RECYCLED_MAX);
    }

    #[test]
    fn a_file_that_is_too_short_is_none() {
        let file = seal_of(&[7; 10]);
        let mut memory = Recycled::of_file(file);
        memory.read(0..10).expect_err("it is none");
        memory.write(&[7]).expect_err("it is none");
    }

    fn seal_of(bytes: &[u8]) -> OwnedFd {
        crate::sealed::seal(bytes, 0).expect("memory")
    }
}
