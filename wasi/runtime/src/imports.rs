//! What a module imports, and the functions that it gets.
//!
//! The runtime has some 130 functions, and a program imports a few of them. To link one takes part of the time in which an instance starts, so only
//! those that the module names are linked. What it names and nothing provides is an error of [`Imports::instantiate`].

use alloc::vec::Vec;
use wasmtime::{AsContextMut, Engine, Instance, IntoFunc, Linker, Module, Result};

/// The imports of a module, with the functions that are there for them.
pub(crate) struct Imports<'m, T: 'static> {
    module: &'m Module,
    /// Names of modules and of their functions, sorted.
    names: Vec<(&'m str, &'m str)>,
    linker: Linker<T>,
}

impl<'m, T: 'static> Imports<'m, T> {
    /// Those of the module, with no functions yet.
    pub(crate) fn of(engine: &Engine, module: &'m Module) -> Imports<'m, T> {
        let mut names: Vec<_> = module.imports().map(|import| (import.module(), import.name())).collect();
        names.sort_unstable();
        Imports { module, names, linker: Linker::new(engine) }
    }

    /// Provides a function by the names of its module and its own.
    pub(crate) fn provide<P, R>(&mut self, module: &str, name: &str, function: impl IntoFunc<T, P, R>) -> Result<()> {
        if self.has(module, name) {
            self.linker.func_wrap(module, name, function)?;
        }
        Ok(())
    }

    /// Whether the module imports this function.
    pub(crate) fn has(&self, module: &str, name: &str) -> bool {
        self.names.binary_search(&(module, name)).is_ok()
    }

    /// An instance of the module.
    pub(crate) fn instantiate(&self, store: impl AsContextMut<Data = T>) -> Result<Instance> {
        self.linker.instantiate(store, self.module)
    }
}
