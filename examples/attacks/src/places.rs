//! Where everything lies in this process. A real attacker would have to find out; the test passes the addresses.

use monohull_abi::layout::{CARRIER_BASE, INFO_BASE, PAGE};
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotBuffer;

/// Names with addresses, from the input slot `places`: lines of `NAME HEX`.
pub(crate) struct Places(String);

impl Places {
    pub(crate) fn read() -> Result<Places, Box<dyn Error>> {
        let bytes = SlotBuffer::<[u8]>::from_slot("places")?;
        Ok(Places(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Whether none is to be attacked.
    pub(crate) fn are_none(&self) -> bool {
        self.0 == "none"
    }

    /// These lines.
    pub(crate) fn of(lines: &str) -> Places {
        Places(lines.to_string())
    }

    /// A place by name: one of the gates' own, which are constants, or one that the test has found.
    pub(crate) fn find(&self, name: &str) -> Result<u64, Box<dyn Error>> {
        let given = self.0.lines().filter_map(|line| line.split_once(' '));
        let given = given.filter(|(known, _)| *known == name).find_map(|(_, hex)| u64::from_str_radix(hex, 16).ok());
        let known = || match name {
            // The first carrier's line: its gate, then the selector of its system calls.
            "info-page" => Some(INFO_BASE),
            "selector" => Some(INFO_BASE + 8),
            // Stack of the signal handlers and context of the first carrier.
            "signal-stack" => Some(CARRIER_BASE + 0x8000),
            "signal-stack-low" => Some(CARRIER_BASE + PAGE + 0x100),
            "carrier" => Some(CARRIER_BASE + 0xf000),
            "carrier-guard" => Some(CARRIER_BASE + PAGE - 8),
            "vsyscall" => Some(0xffff_ffff_ff60_0000),
            _ => None,
        };
        given.or_else(known).ok_or_else(|| format!("the place `{name}` is unknown").into())
    }
}
