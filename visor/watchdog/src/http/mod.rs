//! HTTP as such: connections, TLS, heads, bodies, errors and the table of routes. Nothing here knows what a workflow is.

pub(crate) mod answer;
pub(crate) mod auth;
pub(crate) mod authority;
pub(crate) mod client_limits;
pub(crate) mod connection;
pub(crate) mod content;
pub(crate) mod error;
pub(crate) mod head;
pub(crate) mod message;
pub(crate) mod request_body;
pub(crate) mod routes;
pub(crate) mod status_codes;
pub(crate) mod tls;
pub(crate) mod trace;
pub(crate) mod transit;
