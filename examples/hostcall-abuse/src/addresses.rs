//! Addresses that are not the caller's to use, each with a name.

use monohull_abi::layout::{ARENA_BASE, CARRIER_BASE, CELL_SIZE, CELLS_BASE, INFO_BASE};
use monohull_std::prelude::*;

/// What a hostcall wants from an address.
#[derive(Clone, Copy)]
pub(crate) struct Want {
    /// Bytes it will read or write.
    pub(crate) bytes: u64,
    /// Alignment it insists on.
    pub(crate) align: u64,
    /// It writes.
    pub(crate) writes: bool,
    /// It touches the memory; otherwise the range alone counts.
    pub(crate) touches: bool,
}

/// What the victim has open: the numbers of its connection and of its file.
#[derive(Clone, Copy)]
pub(crate) struct Holdings {
    pub(crate) socket: u64,
    pub(crate) file: u64,
}

/// What the attacker knows.
pub(crate) struct Addresses {
    /// Heap, stack and slot buffer of another instance.
    victim: [u64; 3],
    /// What the victim has open.
    pub(crate) holdings: Holdings,
    /// First address of the attacker's own cell.
    cell: u64,
}

/// Something in the image that can only be read.
static CONSTANT: [u64; 16] = [1; 16];

impl Addresses {
    pub(crate) fn new(victim: [u64; 3], holdings: Holdings) -> Addresses {
        let own = (&raw const CONSTANT) as u64;
        Addresses { victim, holdings, cell: CELLS_BASE + (own - CELLS_BASE) / CELL_SIZE * CELL_SIZE }
    }

    /// Every address that must be refused where `want` is wanted.
    pub(crate) fn bad(&self, want: Want) -> Vec<(&'static str, u64)> {
        let down = |address: u64| address & !(want.align - 1);
        let end = self.cell + CELL_SIZE;
        let [heap, stack, buffer] = self.victim;
        let mut bad = vec![
            ("null", 0),
            ("past the end of its cell", end),
            ("before its cell", self.cell - want.bytes.next_multiple_of(want.align)),
            ("wrapping", down(u64::MAX)),
            ("in the upper half", 0xffff_8000_0000_0000),
            ("in the system partition", 0x6666_0000_0000),
            ("of the gates", CARRIER_BASE),
            ("of the info page", INFO_BASE),
            ("straddling gates and info page", INFO_BASE - want.align),
            ("of another instance's heap", heap),
            ("of another instance's stack", down(stack)),
            ("of another instance's slot buffer", buffer),
            ("of the arena, in no buffer", ARENA_BASE + (1 << 39)),
        ];
        if want.bytes > want.align {
            bad.push(("straddling the end of its cell", end - want.align));
        }
        if want.align > 1 {
            bad.push(("misaligned", (&raw const CONSTANT) as u64 + 1));
        }
        if want.touches {
            bad.push(("in a hole of its cell", self.cell + CELL_SIZE / 4));
            bad.push(("in its guard page", self.cell));
        }
        if want.writes {
            bad.push(("of its constants", (&raw const CONSTANT) as u64));
            bad.push(("of its code", down(Addresses::new as fn(_, _) -> _ as usize as u64)));
        }
        bad
    }
}
