//! What stands for addresses.

use super::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use crate::io::{Error, ErrorKind, Result};
use crate::string::String;
use crate::sys::socket;
use crate::vec;
use crate::vec::Vec;
use core::iter::Cloned;
use core::{option, slice};

/// Something that can be turned into addresses.
pub trait ToSocketAddrs {
    /// The addresses, one after the other.
    type Iter: Iterator<Item = SocketAddr>;

    /// Turns it into addresses; a name is looked up.
    fn to_socket_addrs(&self) -> Result<Self::Iter>;
}

macro_rules! one_address {
    ($($type:ty: $this:ident => $address:expr,)*) => {
        $(impl ToSocketAddrs for $type {
            type Iter = option::IntoIter<SocketAddr>;
            fn to_socket_addrs(&self) -> Result<Self::Iter> {
                let $this = *self;
                Ok(Some($address).into_iter())
            }
        })*
    };
}

one_address! {
    SocketAddr: this => this,
    SocketAddrV4: this => SocketAddr::V4(this),
    SocketAddrV6: this => SocketAddr::V6(this),
    (IpAddr, u16): this => SocketAddr::from(this),
    (Ipv4Addr, u16): this => SocketAddr::from(this),
    (Ipv6Addr, u16): this => SocketAddr::from(this),
}

/// Looks a name up.
fn resolve(name: &str, port: u16) -> Result<vec::IntoIter<SocketAddr>> {
    let found = socket::lookup(name)?;
    Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect::<Vec<_>>().into_iter())
}

impl ToSocketAddrs for (&str, u16) {
    type Iter = vec::IntoIter<SocketAddr>;
    fn to_socket_addrs(&self) -> Result<Self::Iter> {
        let (host, port) = *self;
        match host.parse::<IpAddr>() {
            Ok(address) => Ok(vec![SocketAddr::new(address, port)].into_iter()),
            Err(_) => resolve(host, port),
        }
    }
}

impl ToSocketAddrs for (String, u16) {
    type Iter = vec::IntoIter<SocketAddr>;
    fn to_socket_addrs(&self) -> Result<Self::Iter> {
        (&*self.0, self.1).to_socket_addrs()
    }
}

impl ToSocketAddrs for str {
    type Iter = vec::IntoIter<SocketAddr>;
    fn to_socket_addrs(&self) -> Result<Self::Iter> {
        if let Ok(address) = self.parse() {
            return Ok(vec![address].into_iter());
        }
        let wrong = |what| Error::new(ErrorKind::InvalidInput, what);
        let (host, port) = self.rsplit_once(':').ok_or_else(|| wrong("invalid socket address"))?;
        let port = port.parse().map_err(|_| wrong("invalid port value"))?;
        resolve(host, port)
    }
}

impl ToSocketAddrs for String {
    type Iter = vec::IntoIter<SocketAddr>;
    fn to_socket_addrs(&self) -> Result<Self::Iter> {
        (**self).to_socket_addrs()
    }
}

impl<'a> ToSocketAddrs for &'a [SocketAddr] {
    type Iter = Cloned<slice::Iter<'a, SocketAddr>>;
    fn to_socket_addrs(&self) -> Result<Self::Iter> {
        Ok(self.iter().cloned())
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    type Iter = T::Iter;
    fn to_socket_addrs(&self) -> Result<Self::Iter> {
        (**self).to_socket_addrs()
    }
}
