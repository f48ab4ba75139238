//! `--isolation`, for every verb that runs functions.

use clap::ValueEnum;

use monohull_domain::keys::{self, Support};
use monohull_engine::IsolationWish;

/// What keeps functions from the system.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum Isolation {
    /// The strongest the host has
    #[default]
    Auto,
    /// The process wall and the system-call defence alone
    Process,
    /// Protection keys; refuse without them
    Mpk,
}

impl Isolation {
    /// The wish, if this host can grant it; otherwise why not.
    pub(super) fn wish(self) -> Result<IsolationWish, String> {
        match (self, keys::support()) {
            (Isolation::Mpk, Support::Missing(why)) => Err(format!("{why}; --isolation auto or process runs without")),
            (Isolation::Auto, _) => Ok(IsolationWish::Auto),
            (Isolation::Process, _) => Ok(IsolationWish::Process),
            (Isolation::Mpk, _) => Ok(IsolationWish::Mpk),
        }
    }
}
