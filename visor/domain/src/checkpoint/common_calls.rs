//! The calls that a function may make before it is ready, in a domain that makes a template of it.
//!
//! ```text
//!   main ─▶ tables, imports ─┬─ a common call ─▶ its handler          the answer is the same for every instance
//!                            ├─ FILE_OPEN ─────▶ fdtab ─▶ not found   common too; a file that is opened is an instance's own
//!                            └─ any other ─────▶ the run ends without a template, and says which call it was; or this is where the
//!                                                template is, and a later domain serves the call
//! ```
//!
//! **Questions about files** have the same answer for each instance only where there are none, whatever has been before it: the instance sees no
//! file system; or all are memory, which is empty at first, and it is the one with which the workflow begins. The calls that would change them are
//! not common. Programs ask before their first line: for a description of the time zone, for settings beside them.

use super::template_use::TemplateUse;
use crate::files::Source;
use crate::shared::Shared;
use monohull_abi::Errno;
use monohull_abi::module::{Call, Outcome};
use monohull_abi::number::{self, SYSTEM_ONLY};
use monohull_abi::types::{Info, InfoString, RANDOM_SHARED};
use std::ffi::c_void;
use std::sync::atomic::Ordering;

/// They are common in every domain. The handlers of `GET_STRING`, `GET_STRING_LEN`, `GET_INFO` and `GETRANDOM` refuse a part of theirs.
const COMMON: [u32; 24] = [
    number::NULL,
    number::EXIT,
    number::ABORT,
    number::THREAD_EXIT,
    number::THREAD_YIELD,
    number::FUTEX_WAIT,
    number::FUTEX_WAKE,
    number::GET_STRING_LEN,
    number::GET_STRING,
    number::GET_INFO,
    number::GETRANDOM,
    number::LAST_ERROR_MESSAGE,
    number::FAULT_HANDLER,
    number::READY,
    number::HEAP_GROW,
    number::MEMORY_STATS,
    number::MAP,
    number::UNMAP,
    number::DISCARD,
    number::PROTECT,
    number::MAP_IMAGE,
    number::STDIO_FLUSH,
    number::CLOCK_GETTIME,
    number::NANOSLEEP,
];

/// They are common where there are no files.
const OF_EMPTY_FILES: [u32; 3] = [number::FILE_STAT, number::FILE_GETCWD, number::FILE_REALPATH];

/// Whether a number is one of how often the workflow has gone on, and of which copy it is.
fn is_lineage(info: u64) -> bool {
    matches!(Info::from_raw(info), Some(Info::Generation | Info::ForkIndex | Info::ForkCount))
}

/// Serves the calls that are not common.
unsafe extern "C" fn not_ready(state: *mut c_void, call: *mut Call) -> Outcome {
    // SAFETY: bound with the domain as its state; the call is the carrier's while its handler runs.
    let (domain, call) = unsafe { (&*state.cast::<Shared>(), &*call) };
    domain.not_common(call)
}

/// Serves `FILE_OPEN` where there are no files.
unsafe extern "C" fn open_nothing(state: *mut c_void, call: *mut Call) -> Outcome {
    // SAFETY: as above.
    let (domain, call) = unsafe { (&*state.cast::<Shared>(), &mut *call) };
    domain.open_nothing(call)
}

impl Shared {
    /// Whether the run ends with a template.
    pub(crate) fn makes_template(&self) -> bool {
        matches!(self.options.template, TemplateUse::Make(_))
    }

    /// In a domain that makes a template: binds the calls that are not common to their refusal. Once more after each module that is loaded,
    /// which has bound its own.
    pub(crate) fn bind_not_ready(&self, loaded: Option<&str>) {
        if !self.makes_template() {
            return;
        }
        let table = &self.hostcalls.table;
        let is_memory = self.options.mounts.iter().all(|mount| matches!(mount.source, Source::Memory { .. }));
        let are_none = self.options.template_finds_no_files && is_memory;
        let common = COMMON.iter().chain(OF_EMPTY_FILES.iter().filter(|_| are_none));
        let common: Vec<u32> = common.copied().chain(are_none.then_some(number::FILE_OPEN)).collect();
        if are_none {
            if loaded.is_some() && loaded == number::module_of(number::FILE_OPEN) {
                let opens = table.get(number::FILE_OPEN as usize).flatten();
                self.template
                    .opens
                    .store(std::ptr::from_ref(opens.expect("it was bound")).cast_mut(), Ordering::Release);
            }
            table.bind([number::FILE_OPEN], open_nothing, self.as_state());
        }
        table.bind((0..SYSTEM_ONLY).filter(|number| !common.contains(number)), not_ready, self.as_state());
    }

    /// Passes on to its module what opens a file, and takes no other answer than that there is none.
    fn open_nothing(&self, call: &mut Call) -> Outcome {
        let opens = || self.template.opens.load(Ordering::Acquire);
        if opens().is_null() {
            self.load_module(number::module_of(number::FILE_OPEN).expect("a module has it"));
        }
        // SAFETY: bindings stay until the domain ends.
        let Some(binding) = (unsafe { opens().as_ref() }) else { return self.not_common(call) };
        // SAFETY: the handler was published with this state for such calls.
        let outcome = unsafe { (binding.handler)(binding.state, call) };
        match outcome.tag == Outcome::READY && outcome.value < 0 {
            true => outcome,
            false => self.not_common(call),
        }
    }

    /// Ends a run that makes a template because of a call that is an instance's own: without one, unless this is where the template is.
    fn not_common(&self, call: &Call) -> Outcome {
        let name = u32::try_from(call.number).ok().and_then(number::name_of).unwrap_or("an unknown call");
        self.ends_at(call, name)
    }

    fn ends_at(&self, call: &Call, name: &str) -> Outcome {
        let Some(instance) = self.caller(call) else { return Outcome::error(Errno::NoSuchCall) };
        if let Some(rests) = self.rest_before(call) {
            return rests;
        }
        self.no_template(format!("{} has called {name} before it was ready", instance.described()));
        Outcome { tag: Outcome::ENDED, value: 0 }
    }

    /// Whether a template is made of the instance with which the workflow begins. Until that is ready the workflow has not gone on from anywhere.
    fn is_first_alone(&self) -> bool {
        self.options.first_begins_alone && matches!(self.options.template, TemplateUse::Make(0))
    }

    /// Ends a run that makes a template, without one.
    pub(crate) fn no_template(&self, why: String) {
        self.suspension.refuse(why);
        self.abort();
    }

    /// Refuses those texts, numbers and random numbers before READY that instances do not have in common.
    pub(crate) fn refuse_own(&self, call: &Call) -> Option<Outcome> {
        let name = match u32::try_from(call.number).ok()? {
            number::GETRANDOM if call.args[2] & RANDOM_SHARED == 0 => "GETRANDOM",
            number::GET_STRING | number::GET_STRING_LEN if call.args[0] == InfoString::Invocation as u64 => {
                "GET_STRING for the id of the invocation"
            }
            number::GET_STRING | number::GET_STRING_LEN if call.args[0] == InfoString::HandedOver as u64 => {
                "GET_STRING for what was handed over to the invocation"
            }
            number::GET_INFO if is_lineage(call.args[0]) && !self.is_first_alone() => {
                "GET_INFO for how often the workflow has gone on or was copied"
            }
            _ => return None,
        };
        self.makes_template().then(|| self.ends_at(call, name))
    }
}
