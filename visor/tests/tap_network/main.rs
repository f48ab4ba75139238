//! Workflows with a network of their own, against programs of other projects, between network namespaces.
//!
//! All of this needs root and `/dev/net/tun`, so it is a lane of its own: `cargo xtask test --network`. Elsewhere these
//! tests are ignored.

mod abuse;
mod grants;
mod hostile;
mod leases;
mod names;
mod net;
mod options;
mod outside;
mod peers;
#[path = "../serve_support/mod.rs"]
mod serve_support;
mod webassembly;
mod world;
