//! Durable workflow engines, ours and the peers: started in folders of their own, asked over HTTP, killed and started again.
//!
//! ```text
//!            ┌─ monohull serve ─ worker processes
//! Client ────┼─ restate-server ─ node restate.mjs
//!   HTTP     ├─ python dbos_peer.py ─ postgres
//!            └─ duroxide-peer (with its database in it)
//! ```
//!
//! What they run is the same: `bench/peers/durable` has the peers' workflows, `examples/bench-probe/src/durable.rs` ours. A peer that is not there,
//! or does not start, is left out, and that is said. All processes end with the engine that has started them.

mod client;
mod engine;
mod files;
mod monohull;
mod peers;

pub(crate) use client::Client;
pub(crate) use engine::Engine;
pub(crate) use files::{fdatasync, stored};
pub(crate) use peers::{Peer, start};

use serde_json::{Value, json};

/// What a workflow does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    /// The name of the function's work, and of the peers'.
    pub(crate) what: &'static str,
    /// How often, how long (ms), or how deep.
    pub(crate) count: u64,
    /// Bytes of heap.
    pub(crate) bytes: u64,
}

impl Order {
    pub(crate) const fn new(what: &'static str, count: u64) -> Order {
        Order { what, count, bytes: 0 }
    }

    /// The name of our workflow: its file has the arguments.
    fn workflow(&self) -> String {
        format!("{}-{}-{}", self.what, self.count, self.bytes)
    }

    /// The arguments of our function.
    fn arguments(&self) -> Value {
        json!({ "what": self.what, "count": self.count, "bytes": self.bytes })
    }

    /// What a peer is sent.
    fn peers(&self) -> Value {
        let what = if self.what == "kept-steps" { "steps" } else { self.what };
        json!({ "what": what, "count": self.count, "milliseconds": self.count, "mebibytes": self.bytes >> 20, "name": self.workflow() })
    }
}
