//! Clocks: the time since 1970, and one that only moves forward.

use super::Call;
use crate::errno::WasiError;
use crate::host::now;
use monohull_abi::types::Clock;

/// The clock with a number of WASI. Those of the processor's time do not exist: a function does not know when it ran.
pub(super) fn clock(id: u32) -> Result<Clock, WasiError> {
    match id {
        0 => Ok(Clock::Realtime),
        1 => Ok(Clock::Monotonic),
        2 | 3 => Err(WasiError::NOTSUP),
        _ => Err(WasiError::INVAL),
    }
}

impl Call<'_> {
    pub(super) fn clock_res_get(&mut self, id: u32, out: u32) -> Result<(), WasiError> {
        clock(id)?;
        self.guest.store_u64(out, 1)
    }

    pub(super) fn clock_time_get(&mut self, id: u32, _precision: u64, out: u32) -> Result<(), WasiError> {
        let time = now(clock(id)?)?;
        self.guest.store_u64(out, time)
    }
}
