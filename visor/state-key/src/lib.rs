//! Encryption of what lies in a state folder.
//!
//! ```text
//!   key file (its owner's)  ── wraps ──▶  data key (of one state folder, random, kept there wrapped)
//!                                            │ HMAC-SHA-256
//!                                            ├─▶ encryption key ─▶ values and files     XChaCha20-Poly1305
//!                                            └─▶ naming key ────▶ names and digests     HMAC-SHA-256
//! ```
//!
//! So another key file can take the place of the first without a byte of the rest being written again. A name that is made of content is made with
//! the naming key: equal contents of a folder are one file, and who has not the key cannot find out whether a folder has a content.
//!
//! What is encrypted is bound to its *place*: a kind, and a name. Another value or file in its place is refused, as is one that was changed or cut
//! off. What this does not show is that an older state of the same place was put back, or that something was removed.
//!
//! ```
//! use monohull_state_key::{KeyFile, Place};
//!
//! # let folder = tempfile::tempdir()?;
//! let path = folder.path().join("state.key");
//! KeyFile::create(&path)?;
//! let (key, wrapped) = KeyFile::load(&path)?.new_state_key()?;
//! let place = Place { kind: "event", name: "order-17" };
//! let encrypted = key.encrypt(place, b"paid")?;
//!
//! let again = KeyFile::load(&path)?.open(&wrapped)?;
//! assert_eq!(again.decrypt(place, &encrypted)?, b"paid");
//! assert!(again.decrypt(Place { name: "order-18", ..place }, &encrypted).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod cipher;
mod key_file;
mod state_key;
mod stream;

pub use cipher::{Error, KEY_BYTES, MORE_BYTES, Place};
pub use key_file::{KeyFile, KeyFileError};
pub use state_key::{StateKey, StateKeyError};
pub use stream::{Encrypting, is_encrypted};
