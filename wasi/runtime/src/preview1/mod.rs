//! WASI preview 1: its functions on top of hostcalls.
//!
//! Each function is a method of [`Call`], which has the program's memory and its state; [`link`] gives them their names. What cannot be
//! had (links, times of the processor) is answered with an error number that says so, and the table in
//! `docs/wasi.md` names it.

mod clock;
mod directory;
mod environment;
mod file;
mod poll;
mod socket;

use crate::descriptors::Descriptors;
use crate::errno::WasiError;
use crate::exit::Exit;
use crate::guest::Guest;
use crate::host::call;
use crate::imports::Imports;
use crate::owned_continuations::Continuations;
use crate::slots::{self, Slots};
use alloc::string::String;
use alloc::vec::Vec;
use monohull_abi::number;
use wasmtime::{Caller, Extern, Memory, Result, bail};

/// The name that programs import from.
const MODULE: &str = "wasi_snapshot_preview1";

/// What the functions keep between calls.
pub(crate) struct State {
    /// The program's memory, once a call has looked for it.
    memory: Option<Memory>,
    descriptors: Descriptors,
    /// Arguments and variables (`NAME=value`), each with a zero at its end.
    arguments: Vec<String>,
    environment: Vec<String>,
    /// Slots that the program has taken over, and what it was told otherwise.
    pub(crate) slots: Slots,
    /// Continuations that it has: its own, and those that it has taken over.
    pub(crate) continuations: Continuations,
    /// Why the last call was refused, of those that say more than a number.
    pub(crate) explanation: String,
}

impl State {
    /// The state at the program's start.
    pub(crate) fn new() -> Result<State> {
        let (mut descriptors, mut environment) = (Descriptors::new(), environment::variables());
        socket::open(&mut descriptors, &mut environment)?;
        Ok(State {
            memory: None,
            descriptors,
            arguments: environment::arguments(),
            environment,
            slots: Slots::default(),
            continuations: Continuations::default(),
            explanation: String::new(),
        })
    }
}

/// One call of a function.
struct Call<'a> {
    guest: Guest<'a>,
    state: &'a mut State,
}

/// The program's memory, and its state.
pub(crate) fn memory_of<'a>(caller: &'a mut Caller<'_, State>) -> Result<(&'a mut [u8], &'a mut State)> {
    let memory = match caller.data().memory {
        Some(memory) => memory,
        None => {
            let Some(Extern::Memory(memory)) = caller.get_export("memory") else {
                bail!("the program exports no memory named `memory`");
            };
            caller.data_mut().memory = Some(memory);
            memory
        }
    };
    Ok(memory.data_and_store_mut(caller))
}

/// The number that a program gets: 0, or an error's.
fn number_of(result: core::result::Result<(), WasiError>) -> u32 {
    result.map_or_else(|error| error.0.into(), |()| 0)
}

/// Gives functions of a module their names. `name(argument: type, …)` is the method of [`Call`] of that name.
macro_rules! functions {
    ($imports:ident, $module:expr; $($name:ident($($argument:ident: $type:ty),*);)*) => {
        $($imports.provide(
            $module,
            stringify!($name),
            |mut caller: Caller<'_, State>, $($argument: $type),*| -> Result<u32> {
                let (memory, state) = memory_of(&mut caller)?;
                let mut call = Call { guest: Guest(memory), state };
                Ok(number_of(call.$name($($argument),*)))
            },
        )?;)*
    };
}

/// Gives all functions their names.
pub(crate) fn link(imports: &mut Imports<'_, State>) -> Result<()> {
    functions! { imports, MODULE;
        args_get(pointers: u32, bytes: u32);
        args_sizes_get(count: u32, bytes: u32);
        environ_get(pointers: u32, bytes: u32);
        environ_sizes_get(count: u32, bytes: u32);
        random_get(pointer: u32, len: u32);

        clock_res_get(clock: u32, out: u32);
        clock_time_get(clock: u32, precision: u64, out: u32);
        poll_oneoff(subscriptions: u32, events: u32, count: u32, out: u32);
        sched_yield();

        fd_advise(fd: u32, offset: u64, len: u64, advice: u32);
        fd_allocate(fd: u32, offset: u64, len: u64);
        fd_close(fd: u32);
        fd_datasync(fd: u32);
        fd_fdstat_get(fd: u32, out: u32);
        fd_fdstat_set_flags(fd: u32, flags: u32);
        fd_fdstat_set_rights(fd: u32, base: u64, inheriting: u64);
        fd_filestat_get(fd: u32, out: u32);
        fd_filestat_set_size(fd: u32, size: u64);
        fd_filestat_set_times(fd: u32, accessed: u64, modified: u64, which: u32);
        fd_pread(fd: u32, buffers: u32, count: u32, offset: u64, out: u32);
        fd_pwrite(fd: u32, buffers: u32, count: u32, offset: u64, out: u32);
        fd_read(fd: u32, buffers: u32, count: u32, out: u32);
        fd_renumber(from: u32, to: u32);
        fd_seek(fd: u32, offset: i64, whence: u32, out: u32);
        fd_sync(fd: u32);
        fd_tell(fd: u32, out: u32);
        fd_write(fd: u32, buffers: u32, count: u32, out: u32);

        fd_prestat_get(fd: u32, out: u32);
        fd_prestat_dir_name(fd: u32, pointer: u32, len: u32);
        fd_readdir(fd: u32, pointer: u32, len: u32, cookie: u64, out: u32);
        path_create_directory(fd: u32, path: u32, len: u32);
        path_filestat_get(fd: u32, follow: u32, path: u32, len: u32, out: u32);
        path_filestat_set_times(fd: u32, follow: u32, path: u32, len: u32, accessed: u64, modified: u64, which: u32);
        path_link(fd: u32, follow: u32, path: u32, len: u32, to: u32, to_path: u32, to_len: u32);
        path_open(
            fd: u32, follow: u32, path: u32, len: u32, how: u32, base: u64, inheriting: u64, flags: u32, out: u32
        );
        path_readlink(fd: u32, path: u32, len: u32, pointer: u32, most: u32, out: u32);
        path_remove_directory(fd: u32, path: u32, len: u32);
        path_rename(fd: u32, path: u32, len: u32, to: u32, to_path: u32, to_len: u32);
        path_symlink(target: u32, target_len: u32, fd: u32, path: u32, len: u32);
        path_unlink_file(fd: u32, path: u32, len: u32);

        proc_raise(signal: u32);
        sock_accept(fd: u32, flags: u32, out: u32);
        sock_recv(fd: u32, buffers: u32, count: u32, flags: u32, out: u32, out_flags: u32);
        sock_send(fd: u32, buffers: u32, count: u32, flags: u32, out: u32);
        sock_shutdown(fd: u32, how: u32);
    }
    // What preview 1 lacks.
    functions! { imports, slots::MODULE;
        lookup(name: u32, name_len: u32, addresses: u32, most: u32, count: u32);
        socket_address(fd: u32, end: u32, out: u32);
        socket_connect(address: u32, out: u32);
        socket_failure(fd: u32);
    }
    imports
        .provide(MODULE, "proc_exit", |_: Caller<'_, State>, status: u32| -> Result<()> { Err(Exit(status).into()) })?;
    Ok(())
}

impl Call<'_> {
    /// Lets other threads run first.
    fn sched_yield(&mut self) -> core::result::Result<(), WasiError> {
        call(number::THREAD_YIELD, [])?;
        Ok(())
    }

    /// There are no signals.
    fn proc_raise(&mut self, _signal: u32) -> core::result::Result<(), WasiError> {
        Err(WasiError::NOTSUP)
    }
}
