//! A socket as a handle stands for it. What the program waits for looks at it as well.

use super::super::{Caller, State};
use super::Network;
use super::address::{ErrorCode, IpSocketAddress};
use alloc::sync::Arc;
use core::result::Result as Answer;
use monohull_std::sync::{Mutex, MutexGuard, PoisonError};
use wasmtime::Result;
use wasmtime::component::{ComponentType, Lift, LinkerInstance, Lower, Resource};

pub(super) struct Shared<S>(Arc<Mutex<S>>);

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Shared<S> {
        Shared(Arc::clone(&self.0))
    }
}

impl<S> Shared<S> {
    pub(super) fn new(socket: S) -> Shared<S> {
        Shared(Arc::new(Mutex::new(socket)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A function that takes the socket alone.
pub(super) fn asked<S: Send + 'static, R: ComponentType + Lower + 'static>(
    interface: &mut LinkerInstance<'_, State>,
    name: &str,
    ask: impl Fn(&mut S) -> R + Send + Sync + 'static,
) -> Result<()> {
    interface.func_wrap(name, move |caller: Caller<'_>, (this,): (Resource<Shared<S>>,)| {
        let socket = caller.data().table.get(&this)?.clone();
        let answer = ask(&mut socket.lock());
        Ok((answer,))
    })
}

/// One that takes a value as well.
pub(super) fn told<S: Send + 'static, V: ComponentType + Lift + 'static>(
    interface: &mut LinkerInstance<'_, State>,
    name: &str,
    tell: impl Fn(&mut S, V) -> Answer<(), ErrorCode> + Send + Sync + 'static,
) -> Result<()> {
    interface.func_wrap(name, move |caller: Caller<'_>, (this, value): (Resource<Shared<S>>, V)| {
        let socket = caller.data().table.get(&this)?.clone();
        let answer = tell(&mut socket.lock(), value);
        Ok((answer,))
    })
}

/// One that takes a network and an address. There is one network.
pub(super) fn directed<S: Send + 'static>(
    interface: &mut LinkerInstance<'_, State>,
    name: &str,
    direct: impl Fn(&mut S, IpSocketAddress) -> Answer<(), ErrorCode> + Send + Sync + 'static,
) -> Result<()> {
    type Arguments<S> = (Resource<Shared<S>>, Resource<Network>, IpSocketAddress);
    interface.func_wrap(name, move |caller: Caller<'_>, (this, network, address): Arguments<S>| {
        let table = &caller.data().table;
        table.get(&network)?;
        let socket = table.get(&this)?.clone();
        let answer = direct(&mut socket.lock(), address);
        Ok((answer,))
    })
}
