//! From a hostcall's number to the handler that serves it.

use super::Hostcalls;
use super::core;
use super::table::Binding;
use crate::shared::Shared;
use monohull_abi::module::{Call, Outcome};
use monohull_abi::number::SYSTEM_ONLY;
use monohull_abi::{Errno, number};
use std::ffi::c_void;

impl Shared {
    /// Serves the call that a function has just made. Its number is not yet trusted.
    #[inline]
    pub fn serve(&self, call: &mut Call) -> Outcome {
        let outcome = match call.number < u64::from(SYSTEM_ONLY) {
            true => self.dispatch(call),
            false => Outcome::error(Errno::NoSuchCall),
        };
        if outcome.tag == Outcome::READY
            && let Err(errno) = Errno::from_value(outcome.value)
            && let Some(instance) = self.caller(call)
        {
            instance.explanations.complete(call.thread, call.number, errno);
        }
        outcome
    }

    /// Serves a call by trusted code: the visor or a module. Arguments may be addresses, which are not checked for trusted
    /// callers, so no other crate can make calls.
    pub(crate) fn call(&self, number: u32, args: [u64; 6]) -> Result<u64, Errno> {
        let mut call = Call::system(number, args);
        let outcome = self.dispatch(&mut call);
        if outcome.tag != Outcome::READY {
            return Err(Errno::Deadlock);
        }
        Errno::from_value(outcome.value)
    }

    #[inline]
    pub(crate) fn dispatch(&self, call: &mut Call) -> Outcome {
        let binding = match self.hostcalls.table.get(call.number as usize) {
            Some(Some(binding)) => binding,
            Some(None) => return self.bind_on_demand(call),
            None => return Outcome::error(Errno::NoSuchCall),
        };
        // SAFETY: the handler was published with this state for such calls.
        unsafe { (binding.handler)(binding.state, call) }
    }

    /// The slow path: the first call of a module.
    #[cold]
    fn bind_on_demand(&self, call: &mut Call) -> Outcome {
        let Some(module) = number::module_of(call.number as u32) else {
            return Outcome::error(Errno::NoSuchCall);
        };
        if module == core::NAME {
            core::bind(self);
        } else {
            self.load_module(module);
        }
        self.dispatch(call)
    }

    /// Loads a module, and binds its numbers.
    pub(crate) fn load_module(&self, name: &'static str) {
        let Hostcalls { host, table, modules, .. } = &self.hostcalls;
        modules.load(
            name,
            self.space.keys().in_force(),
            host,
            table,
            Binding { handler: refuse, state: self.as_state() },
        );
        self.bind_not_ready(Some(name));
    }
}

/// Serves the numbers of a module that does not work.
unsafe extern "C" fn refuse(state: *mut c_void, call: *mut Call) -> Outcome {
    // SAFETY: bound with the domain as its state; the call is the caller's.
    let (domain, call) = unsafe { (&*state.cast::<Shared>(), &*call) };
    let name = number::module_of(call.number as u32).unwrap_or("?");
    let Some(reason) = domain.hostcalls.modules.failure(name) else {
        return Outcome::error(Errno::NoSuchCall);
    };
    domain.explain(call, format!("libos module `{name}`: {reason}"));
    Outcome::error(Errno::ModuleFailed)
}
