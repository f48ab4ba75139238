//! Outgoing HTTPS: a function sends plain HTTP/1.1, and the broker carries it over TLS to one host by name.
//!
//! ```text
//!   worker                                      process above
//!   look-up of the host ──────────────────────▶ its virtual address            (origin)
//!   connect(virtual address) ─────────────────▶ one end of a socket pair       (relay)
//!   "GET / HTTP/1.1 …"  ── plain HTTP ────────▶ request read, checked, rewritten (head)
//!                                               │ configured headers added      (origin)
//!                                               ▼
//!                                               TCP, TLS, HTTP to the host      (upstream)
//!   the answer          ◀── plain HTTP ──────── status, headers, body           (exchange)
//! ```
//!
//! The name on the list, the name that TLS asks for (SNI), the name that the certificate must be valid for, and the `Host`
//! of the request are one and the same. An address list cannot give that: behind one address there are many names.
//!
//! Headers can have values that functions must not see, such as credentials. The broker adds them, so they are never in a
//! worker's memory: [`Origin`] is sent to workers without its headers.

mod exchange;
mod head;
mod origin;
mod relay;
mod upstream;

pub use head::HOP_BY_HOP;
pub use origin::{
    HeaderError, HeaderSource, HiddenText, LOCAL_END, MOST_ORIGINS, Origin, OriginHeader, VIRTUAL_RANGE,
    is_configurable,
};
pub(super) use relay::Relay;
