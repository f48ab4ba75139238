//! `wasi:random`: random bytes of the kernel. Those that need not be good are as good as the others.

use super::{Caller, State};
use alloc::vec::Vec;
use wasmtime::component::Linker;
use wasmtime::{Result, format_err};

pub(super) fn link(linker: &mut Linker<State>) -> Result<()> {
    for (interface, some, one) in [
        ("wasi:random/random@0.2.0", "get-random-bytes", "get-random-u64"),
        ("wasi:random/insecure@0.2.0", "get-insecure-random-bytes", "get-insecure-random-u64"),
    ] {
        let mut random = linker.instance(interface)?;
        random.func_wrap(some, |_: Caller<'_>, (len,): (u64,)| Ok((bytes(len)?,)))?;
        random.func_wrap(one, |_: Caller<'_>, (): ()| Ok((number(),)))?;
    }
    let mut seed = linker.instance("wasi:random/insecure-seed@0.2.0")?;
    seed.func_wrap("insecure-seed", |_: Caller<'_>, (): ()| Ok(((number(), number()),)))
}

fn bytes(len: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(len).map_err(|_| format_err!("there is no memory for {len} random bytes"))?;
    bytes.resize(len, 0);
    monohull_std::random::fill(&mut bytes);
    Ok(bytes)
}

fn number() -> u64 {
    let mut bytes = [0; 8];
    monohull_std::random::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
