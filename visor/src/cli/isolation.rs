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
        granted(match self {
            Isolation::Auto => IsolationWish::Auto,
            Isolation::Process => IsolationWish::Process,
            Isolation::Mpk => IsolationWish::Mpk,
        })
    }
}

/// A wish, if this host can grant it; otherwise why not.
pub(super) fn granted(wish: IsolationWish) -> Result<IsolationWish, String> {
    match (wish, keys::support()) {
        (IsolationWish::Mpk, Support::Missing(why)) => Err(format!("{why}; --isolation auto or process runs without")),
        _ => Ok(wish),
    }
}
