//! The state folder, and how files in it are written so that a crash loses nothing that was acknowledged.

pub(crate) mod atomic_file;
pub(crate) mod backup;
pub(crate) mod error;
pub(crate) mod state_folder;
pub(crate) mod state_watch;
