//! `ip-name-lookup`. A look-up waits until the addresses are known, so each has a thread.

use super::super::changes::{self, Change};
use super::super::poll::Pollable;
use super::super::{Caller, State, resource};
use super::Network;
use super::address::{ErrorCode, IpAddress};
use crate::errno::WasiError;
use crate::sockets;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::{IntoIter, Vec};
use core::net::IpAddr;
use core::result::Result as Answer;
use monohull_abi::network::HOST_NAME_MAX;
use monohull_std::sync::{Mutex, MutexGuard, PoisonError};
use monohull_std::thread::Builder;
use wasmtime::Result;
use wasmtime::component::{Linker, Resource};

/// Bytes of a thread's stack.
const STACK: usize = 64 << 10;

/// Addresses of a name, as far as the program has not had them.
struct Lookup(Mutex<Option<Answer<IntoIter<IpAddr>, ErrorCode>>>);

/// What a handle stands for.
struct Addresses(Arc<Lookup>);

impl Change for Lookup {
    fn has_come(&self) -> bool {
        self.lock().is_some()
    }

    fn can_come(&self) -> bool {
        true
    }
}

impl Lookup {
    fn lock(&self) -> MutexGuard<'_, Option<Answer<IntoIter<IpAddr>, ErrorCode>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, found: Answer<Vec<IpAddr>, ErrorCode>) {
        *self.lock() = Some(found.map(Vec::into_iter));
        changes::tell();
    }

    /// The next address; nothing after the last.
    fn next(&self) -> Answer<Option<IpAddress>, ErrorCode> {
        match &mut *self.lock() {
            None => Err(ErrorCode::WouldBlock),
            Some(Ok(found)) => Ok(found.next().map(IpAddress::from)),
            Some(Err(error)) => Err(*error),
        }
    }
}

/// Begins to look a name up.
fn resolve(name: String) -> Answer<Arc<Lookup>, ErrorCode> {
    if !sockets::are_granted() {
        return Err(ErrorCode::AccessDenied);
    }
    let lookup = Arc::new(Lookup(Mutex::new(None)));
    if let Ok(address) = name.parse::<IpAddr>() {
        lookup.fill(Ok(vec![address.to_canonical()]));
        return Ok(lookup);
    }
    if !is_name(&name) {
        return Err(ErrorCode::InvalidArgument);
    }
    let (theirs, asked) = (Arc::clone(&lookup), name.clone());
    let begun = Builder::new().stack_size(STACK).spawn(move || theirs.fill(look_up(&asked)));
    if begun.is_err() {
        // Without a thread the program waits here.
        lookup.fill(look_up(&name));
    }
    Ok(lookup)
}

/// Whether it can be the name of a host. Names in other letters are written with `xn--`.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(fits)
    };
    name.len() <= HOST_NAME_MAX && name.strip_suffix('.').unwrap_or(name).split('.').all(is_label)
}

/// Waits for the addresses of a name.
fn look_up(name: &str) -> Answer<Vec<IpAddr>, ErrorCode> {
    match sockets::lookup(name) {
        Ok(found) if found.is_empty() => Err(ErrorCode::NameUnresolvable),
        Ok(found) => Ok(found),
        Err(error) => Err(match error {
            WasiError::PERM => ErrorCode::AccessDenied,
            WasiError::NOENT => ErrorCode::NameUnresolvable,
            WasiError::TIMEDOUT => ErrorCode::TemporaryResolverFailure,
            WasiError::INVAL => ErrorCode::InvalidArgument,
            _ => ErrorCode::PermanentResolverFailure,
        }),
    }
}

pub(super) fn link(linker: &mut Linker<State>) -> Result<()> {
    let mut names = linker.instance("wasi:sockets/ip-name-lookup@0.2.0")?;
    resource::<Addresses>(&mut names, "resolve-address-stream")?;
    type Asked = (Resource<Network>, String);
    names.func_wrap("resolve-addresses", |mut caller: Caller<'_>, (network, name): Asked| {
        let table = &mut caller.data_mut().table;
        table.get(&network)?;
        Ok((match resolve(name) {
            Ok(lookup) => Ok(table.push(Addresses(lookup))?),
            Err(error) => Err(error),
        },))
    })?;
    type This = (Resource<Addresses>,);
    names.func_wrap("[method]resolve-address-stream.resolve-next-address", |caller: Caller<'_>, (this,): This| {
        Ok((caller.data().table.get(&this)?.0.next(),))
    })?;
    names.func_wrap("[method]resolve-address-stream.subscribe", |mut caller: Caller<'_>, (this,): This| {
        let table = &mut caller.data_mut().table;
        let lookup = Arc::clone(&table.get(&this)?.0);
        Ok((table.push(Pollable::Change(lookup))?,))
    })
}
