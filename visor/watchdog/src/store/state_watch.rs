//! Periodic checks that the state folder is still in its place.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::interval;

use crate::store::state_folder::StateFolder;

/// How often the state folder is looked at.
const WATCH: Duration = Duration::from_secs(1);

/// Looks at intervals whether the state folder is in its place. The answer may take as long as a disk does, so requests
/// get the last one.
pub(crate) struct StateWatch {
    folder: Arc<StateFolder>,
    trouble: Mutex<Option<String>>,
}

impl StateWatch {
    pub(crate) fn new(folder: Arc<StateFolder>) -> StateWatch {
        StateWatch { folder, trouble: Mutex::default() }
    }

    /// What is wrong with the folder, if anything is.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks again and again.
    pub(crate) async fn run(&self) -> Infallible {
        let mut ticks = interval(WATCH);
        loop {
            ticks.tick().await;
            let folder = self.folder.clone();
            let found = spawn_blocking(move || folder.check()).await;
            let trouble = found.map_or_else(|error| Some(error.to_string()), |found| Some(found.err()?.to_string()));
            let known =
                std::mem::replace(&mut *self.trouble.lock().unwrap_or_else(PoisonError::into_inner), trouble.clone());
            match trouble {
                Some(trouble) if known.as_ref() != Some(&trouble) => tracing::error!("{trouble}"),
                None if known.is_some() => tracing::info!("the state folder is in its place again"),
                _ => {}
            }
        }
    }
}
