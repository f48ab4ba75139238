//! A template as sealed memory: pages first, so that instances can map them, then the record.
//!
//! ```text
//!   | pages of the first run | of the second | … | record, where each run belongs | length of that, 8 bytes |
//!   0, and each at a multiple of the page size
//! ```
//!
//! Nothing of it is trusted by its reader: each run is checked where it is used.

use monohull_domain::checkpoint::record::{InstanceRecord, PageRun};
use monohull_domain::checkpoint::{CapturedPages, TemplateMemory};
use monohull_ipc::sealed::seal_written;
use monohull_sys::sealed_bytes::SealedBytes;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Bytes of the length at the end.
const LENGTH: usize = 8;

/// Where runs belong: their addresses, and how many bytes they have.
type Places = Vec<(u64, u64)>;

/// Lays a template out: the instances of a continuation, and its pages.
pub(super) fn seal_template(instances: &[InstanceRecord], runs: &[PageRun]) -> io::Result<OwnedFd> {
    let places: Places = runs.iter().map(|run| (run.address, run.bytes.len() as u64)).collect();
    let mut record = postcard::to_extend(&(instances, places), Vec::new()).map_err(io::Error::other)?;
    let length = record.len() as u64;
    record.extend(length.to_le_bytes());
    seal_written(|memory| {
        let mut at = 0;
        for run in runs {
            memory.write_all_at(&run.bytes, at)?;
            at += run.bytes.len() as u64;
        }
        memory.write_all_at(&record, at)
    })
}

/// Decodes a template, whose pages stay where they are.
pub(super) fn read_template(file: OwnedFd) -> Result<TemplateMemory, String> {
    let bytes = SealedBytes::map(&file).map_err(|error| format!("the template: {error}"))?;
    let short = || "the template is too short".to_owned();
    let (rest, length) = bytes.split_last_chunk::<LENGTH>().ok_or_else(short)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok();
    let end = length.and_then(|length| rest.len().checked_sub(length)).ok_or_else(short)?;
    let decoded = postcard::take_from_bytes::<(Vec<InstanceRecord>, Places)>(&rest[end..]);
    let ((instances, places), []) = decoded.map_err(|error| format!("the template cannot be read: {error}"))? else {
        return Err("the template's record has more bytes than it should".to_owned());
    };
    let runs = lie_in(places, end).ok_or("the template has other pages than its record says")?;
    Ok(TemplateMemory::new(instances, CapturedPages::in_file(file, bytes, runs)))
}

/// Where the contents of each run are in the file; `None` if they are not what is in front of `end`.
fn lie_in(places: Places, end: usize) -> Option<Vec<(u64, Range<usize>)>> {
    let mut at = 0_usize;
    let run = |(address, length): (u64, u64)| {
        let start = at;
        at = at.checked_add(usize::try_from(length).ok()?).filter(|at| *at <= end)?;
        Some((address, start..at))
    };
    let runs = places.into_iter().map(run).collect::<Option<Vec<_>>>()?;
    (at == end).then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_abi::layout::PAGE;
    use monohull_ipc::sealed::{read_sealed, seal};
    use nix::sys::memfd::{MFdFlags, memfd_create};

    /// One without instances, with runs at these addresses of so many pages.
    fn sealed(runs: &[(u64, u64)]) -> OwnedFd {
        let run =
            |(address, pages): &(u64, u64)| PageRun { address: *address, bytes: vec![7; (pages * PAGE) as usize] };
        let runs: Vec<_> = runs.iter().map(run).collect();
        seal_template(&[], &runs).expect("sealed")
    }

    #[test]
    fn pages_lie_at_multiples_of_their_size_and_are_found_again() {
        for runs in [&[][..], &[(0x1000, 1)], &[(0x1000, 3), (0x8000, 1), (0x10_0000, 20)]] {
            let file = sealed(runs);
            let bytes = read_sealed(&file, u64::MAX).expect("its bytes");
            let all: u64 = runs.iter().map(|(_, pages)| pages * PAGE).sum();
            assert!(bytes[..all as usize].iter().all(|byte| *byte == 7), "the pages come first");
            read_template(file).expect("a template");
        }
    }

    #[test]
    fn what_is_no_template_is_refused() {
        let file = sealed(&[(0x1000, 2)]);
        let good = read_sealed(&file, u64::MAX).expect("its bytes");
        let refused = |bytes: &[u8]| read_template(seal(bytes, 0).expect("sealed")).err();
        assert_eq!(refused(&good), None);
        for cut in [0, 7, 8, 100, 4096, 8192, good.len() - 1] {
            assert!(refused(&good[..cut]).is_some(), "the first {cut} bytes");
        }
        for cut in [1, 4096, 8192] {
            assert_eq!(refused(&good[cut..]).as_deref(), Some("the template has other pages than its record says"));
        }
        assert!(refused(&[&[0; 4096], &good[..]].concat()).is_some(), "a page too many");
        let mut long = good.clone();
        let at = long.len() - LENGTH;
        long[at..].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(refused(&long).as_deref(), Some("the template is too short"));
    }

    #[test]
    fn memory_that_may_change_is_refused() {
        let file = memfd_create(c"test", MFdFlags::MFD_CLOEXEC).expect("a file");
        read_template(file).expect_err("it is not sealed");
    }
}
