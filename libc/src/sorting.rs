//! `qsort`: a merge sort, which keeps the order of what is equal, as glibc's does. musl's sort needs no memory and takes four times as long; it is
//! there for what is too large for a copy of its half.
//!
//! ```text
//!   sort both halves     | 2 5 9 | 1 3 7 |
//!   copy the left one    | 2 5 9 |                     and merge the copy and the right half into the place of both:
//!                        | 1 2 3 5 7 9 |               what is written is never ahead of what is still to be read
//! ```

use alloc::alloc::{Layout, alloc, dealloc};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{copy, copy_nonoverlapping};
use monohull_trampoline::memory;

/// Compares two elements. The word is the caller's.
type Compare = unsafe extern "C" fn(*const u8, *const u8, *mut c_void) -> i32;

/// Up to so many elements are sorted by insertion.
const FEW: usize = 8;
/// Copies up to this size lie on the stack.
const ON_STACK: usize = 1024;

unsafe extern "C" {
    /// musl's `qsort_r`.
    fn __monohull_smoothsort(base: *mut u8, count: usize, width: usize, compare: Compare, argument: *mut c_void);
}

/// GNU's `qsort_r`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsort_r(base: *mut u8, count: usize, width: usize, compare: Compare, argument: *mut c_void) {
    if count < 2 || width == 0 {
        return;
    }
    let size = count / 2 * width;
    let mut on_stack = [MaybeUninit::<u8>::uninit(); ON_STACK];
    if size <= ON_STACK {
        let copy = on_stack.as_mut_ptr().cast();
        // SAFETY: C's condition is the same, and the copy has room for half of the elements.
        unsafe { Sort { width, copy, compare, argument }.by_width(base, count) };
        return;
    }
    let layout = Layout::from_size_align(size, 16);
    // SAFETY: the size is not zero.
    let copy = layout.as_ref().map_or(core::ptr::null_mut(), |layout| unsafe { alloc(*layout) });
    match layout {
        // SAFETY: as above; the copy is freed as it was made.
        Ok(layout) if !copy.is_null() => unsafe {
            Sort { width, copy, compare, argument }.by_width(base, count);
            dealloc(copy, layout);
        },
        // SAFETY: C's condition is the same.
        _ => unsafe { __monohull_smoothsort(base, count, width, compare, argument) },
    }
}

/// What musl's `qsort` calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __qsort_r(base: *mut u8, count: usize, width: usize, compare: Compare, argument: *mut c_void) {
    // SAFETY: the condition is the same.
    unsafe { qsort_r(base, count, width, compare, argument) }
}

/// One sort.
struct Sort {
    /// Bytes of an element.
    width: usize,
    /// Room for half of the elements, and for one.
    copy: *mut u8,
    compare: Compare,
    argument: *mut c_void,
}

impl Sort {
    /// Sorts elements of the usual widths by code for these.
    ///
    /// # Safety
    /// There are so many elements, all of which may be written, and the copy has room for half of them.
    unsafe fn by_width(&self, base: *mut u8, count: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.width {
                4 => self.sort::<4>(base, count),
                8 => self.sort::<8>(base, count),
                16 => self.sort::<16>(base, count),
                _ => self.sort::<0>(base, count),
            }
        }
    }

    /// Sorts elements of `WIDTH` bytes, or of `width` if that is 0.
    ///
    /// # Safety
    /// As for [`Self::by_width`].
    unsafe fn sort<const WIDTH: usize>(&self, base: *mut u8, count: usize) {
        let at = |index: usize| base.wrapping_add(index * self.width_of::<WIDTH>());
        // SAFETY: all places are those of elements, and the copy has room for what is copied there.
        unsafe {
            if count <= FEW {
                return self.insert::<WIDTH>(base, count);
            }
            let half = count / 2;
            self.sort::<WIDTH>(base, half);
            self.sort::<WIDTH>(at(half), count - half);
            if !self.is_after(at(half - 1), at(half)) {
                return;
            }
            copy_nonoverlapping(base, self.copy, half * self.width_of::<WIDTH>());
            let (mut left, end_of_left) = (self.copy, self.copy.wrapping_add(half * self.width_of::<WIDTH>()));
            let (mut right, end) = (at(half), at(count));
            let mut to = base;
            while left < end_of_left && right < end {
                let next = if self.is_after(left, right) { &mut right } else { &mut left };
                self.put::<WIDTH>(to, *next);
                *next = next.wrapping_add(self.width_of::<WIDTH>());
                to = to.wrapping_add(self.width_of::<WIDTH>());
            }
            // What is left of the right half is in its place.
            copy_nonoverlapping(left, to, end_of_left.addr() - left.addr());
        }
    }

    /// Sorts a few elements.
    ///
    /// # Safety
    /// As for [`Self::by_width`].
    #[inline(always)]
    unsafe fn insert<const WIDTH: usize>(&self, base: *mut u8, count: usize) {
        let width = self.width_of::<WIDTH>();
        for index in 1..count {
            let element = base.wrapping_add(index * width);
            let mut place = element;
            // SAFETY: places from the first element up to this one; the copy has room for one.
            unsafe {
                while place > base && self.is_after(place.wrapping_sub(width), element) {
                    place = place.wrapping_sub(width);
                }
                if place < element {
                    self.put::<WIDTH>(self.copy, element);
                    copy(place, place.wrapping_add(width), element.addr() - place.addr());
                    self.put::<WIDTH>(place, self.copy);
                }
            }
        }
    }

    #[inline(always)]
    fn width_of<const WIDTH: usize>(&self) -> usize {
        if WIDTH == 0 { self.width } else { WIDTH }
    }

    /// Whether the first of two elements comes after the second.
    ///
    /// # Safety
    /// Both are elements, or copies of some.
    #[inline(always)]
    unsafe fn is_after(&self, one: *const u8, other: *const u8) -> bool {
        // SAFETY: C's condition is that the function compares elements.
        unsafe { (self.compare)(one, other, self.argument) > 0 }
    }

    /// Copies an element to where there is room for one.
    ///
    /// # Safety
    /// Both places have an element's size, and do not overlap.
    #[inline(always)]
    unsafe fn put<const WIDTH: usize>(&self, to: *mut u8, from: *const u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match WIDTH {
                0 => drop(memory::copy(to, from, self.width)),
                _ => to.cast::<[u8; WIDTH]>().write_unaligned(from.cast::<[u8; WIDTH]>().read_unaligned()),
            }
        }
    }
}
