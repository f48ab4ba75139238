//! Mapped memory: arguments, limits and words. Where it lies and what the kernel does with it is tested in the domain.

use super::*;
use monohull_abi::types::MapAccess;
use monohull_module_testing::IMAGE;

const NONE: u64 = MapAccess::None as u64;
const READ: u64 = MapAccess::Read as u64;
const WRITE: u64 = MapAccess::ReadWrite as u64;

impl Mm {
    fn map(&self, instance: u32, bytes: u64, align: u64, access: u64) -> Result<u64, Errno> {
        Errno::from_value(self.call(instance, number::MAP, [bytes, align, access, 0, 0, 0]))
    }

    fn on_pages(&self, instance: u32, number: u32, address: u64, bytes: u64, access: u64) -> Result<u64, Errno> {
        Errno::from_value(self.call(instance, number, [address, bytes, access, 0, 0, 0]))
    }
}

#[test]
fn what_is_accessible_is_charged_and_what_is_reserved_is_not() {
    let mm = Mm::start();
    mm.set_limit(A, 10 * PAGE);
    let reserved = mm.map(A, 1 << 30, 0, NONE).expect("a reservation needs no memory");
    assert_eq!(mm.charged(A), 0);
    assert_eq!(mm.on_pages(A, number::PROTECT, reserved, 4 * PAGE, WRITE), Ok(0));
    assert_eq!(mm.charged(A), 4 * PAGE);
    let other = mm.map(A, 6 * PAGE - 1, 0, READ).expect("the rest");
    assert_eq!(mm.charged(A), 10 * PAGE);
    assert_eq!(mm.on_pages(A, number::PROTECT, reserved, 5 * PAGE, WRITE), Err(Errno::OutOfMemory));
    assert!(mm.explained().starts_with("memory limit of 40960 bytes reached"), "{}", mm.explained());
    assert_eq!(mm.map(A, 1, 0, WRITE), Err(Errno::OutOfMemory));
    assert_eq!(mm.charged(A), 10 * PAGE);
    assert_eq!(mm.on_pages(A, number::UNMAP, other, 6 * PAGE, 0), Ok(0));
    assert_eq!((mm.charged(A), mm.mapped_page(other)), (4 * PAGE, None));
    // Hidden, it holds what it held; discarded, it does not.
    assert_eq!(mm.on_pages(A, number::PROTECT, reserved, 4 * PAGE, NONE), Ok(0));
    assert_eq!(mm.charged(A), 4 * PAGE);
    assert_eq!(mm.on_pages(A, number::DISCARD, reserved, 4 * PAGE, 0), Ok(0));
    assert_eq!(mm.charged(A), 0);
}

#[test]
fn buffers_that_are_kept_for_later_make_room() {
    let mm = Mm::start();
    mm.set_limit(A, 10 * PAGE);
    let buffer = mm.alloc(A, 8 * PAGE);
    assert_eq!(mm.free(A, buffer), 0);
    assert!(mm.map(A, 10 * PAGE, 0, WRITE).is_ok(), "{}", mm.explained());
}

#[test]
fn alignments_are_kept() {
    let mm = Mm::start();
    for align in [0, 1, PAGE, 1 << 21, 1 << 30] {
        let address = mm.map(A, 3 * PAGE, align, NONE).expect("a place");
        assert!(address.is_multiple_of(align.max(PAGE)), "{address:#x} {align}");
    }
}

#[test]
fn wrong_arguments_are_refused_in_words() {
    let mm = Mm::start();
    let own = mm.map(A, 4 * PAGE, 0, WRITE).expect("memory");
    let refused = |answer: Result<u64, Errno>, errno: Errno, why: &str| {
        assert_eq!(answer, Err(errno));
        assert!(mm.explained().contains(why), "{}", mm.explained());
    };
    refused(mm.map(A, 0, 0, WRITE), Errno::Invalid, "0 bytes");
    for align in [3, PAGE + 1, 1 << 31, u64::MAX] {
        refused(mm.map(A, 1, align, WRITE), Errno::Invalid, "neither 0 nor a power of two up to 1073741824");
    }
    for access in [3, 4, 7, u64::MAX] {
        refused(mm.map(A, 1, 0, access), Errno::Invalid, "never executable");
        refused(mm.on_pages(A, number::PROTECT, own, PAGE, access), Errno::Invalid, "never executable");
    }
    for bytes in [1 << 40, u64::MAX] {
        refused(mm.map(A, bytes, 0, NONE), Errno::OutOfMemory, "no room");
    }
    refused(mm.on_pages(A, number::MAP_IMAGE, own, PAGE, own), Errno::NotPermitted, "not whole pages of constants");
    for call in [number::UNMAP, number::DISCARD, number::PROTECT] {
        refused(mm.on_pages(A, call, own, 0, READ), Errno::Invalid, "0 bytes");
        refused(mm.on_pages(A, call, own + 1, PAGE, READ), Errno::Fault, "not the start of a page");
        for (address, bytes) in [(own, 5 * PAGE), (own - PAGE, PAGE), (own, u64::MAX), (0, PAGE)] {
            refused(mm.on_pages(A, call, address, bytes, READ), Errno::Fault, "not memory that the caller has mapped");
        }
        refused(mm.on_pages(B, call, own, PAGE, READ), Errno::Fault, "not memory that the caller has mapped");
    }
    let page = mm.mapped_page(own).expect("it is still there");
    assert_eq!(page.access, MapAccess::ReadWrite);
}

#[test]
fn pages_of_the_image_are_charged() {
    let mm = Mm::start();
    mm.set_limit(A, 10 * PAGE);
    let reserved = mm.map(A, 1 << 30, 0, NONE).expect("a reservation needs no memory");
    assert_eq!(mm.on_pages(A, number::MAP_IMAGE, reserved, 4 * PAGE, IMAGE), Ok(0));
    assert_eq!(mm.charged(A), 4 * PAGE);
    assert_eq!(mm.on_pages(A, number::MAP_IMAGE, reserved, 11 * PAGE, IMAGE), Err(Errno::OutOfMemory));
    assert!(mm.explained().starts_with("memory limit of 40960 bytes reached"), "{}", mm.explained());
    assert_eq!(mm.on_pages(B, number::MAP_IMAGE, reserved, PAGE, IMAGE), Err(Errno::Fault));
    assert!(mm.explained().contains("not memory that the caller has mapped"), "{}", mm.explained());
}
