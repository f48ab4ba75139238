//! Which interpreter: the one that users have, or a smaller one for tests that run each time.

use super::settings::{CONFIGURE, EDITS, FLAGS, FUNCTION_FLAGS, HOST_CONFIGURE, SITE, SMALL_FLAGS, SMALL_SITE, SOURCE};
use super::{LIBRARIES, openssl};
use crate::workspace::root;
use crate::{Result, libc, shell};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

/// What the names of its builds begin with.
const SMALL: &str = "small-";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// What `cargo xtask install` installs, from `target/python`.
    Whole,
    /// Without OpenSSL, and optimized less, which takes half the time: from `target/python-small`.
    Small,
}

impl Kind {
    /// That of a build with this name.
    pub(super) fn of(name: &str) -> Kind {
        if name.starts_with(SMALL) { Kind::Small } else { Kind::Whole }
    }

    /// What everything in the build's folder depends on, as a name.
    pub(super) fn name(self) -> Result<String> {
        let compiler = shell::output(Command::new("gcc").arg("--version"))?;
        let mut hasher = DefaultHasher::new();
        (SOURCE.sha256, EDITS, self.site(), HOST_CONFIGURE, CONFIGURE, self.flags(), FUNCTION_FLAGS, compiler)
            .hash(&mut hasher);
        LIBRARIES.hash(&mut hasher);
        if self.has_openssl() {
            (openssl::SOURCE.sha256, openssl::CONFIGURE).hash(&mut hasher);
        }
        for file in ["cc-flags", "ld-flags"] {
            let path = libc::folder().join("lib").join(file);
            fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?.hash(&mut hasher);
        }
        let small = if self == Kind::Small { SMALL } else { "" };
        Ok(format!("{small}{:016x}", hasher.finish()))
    }

    /// Where its image goes.
    pub(super) fn folder(self) -> PathBuf {
        root().join(match self {
            Kind::Whole => "target/python",
            Kind::Small => "target/python-small",
        })
    }

    /// How long it takes to compile, in words.
    pub(super) fn minutes(self) -> &'static str {
        match self {
            Kind::Whole => "eight",
            Kind::Small => "four",
        }
    }

    pub(super) fn has_openssl(self) -> bool {
        self == Kind::Whole
    }

    /// The interpreter's own optimisation.
    pub(super) fn flags(self) -> &'static str {
        match self {
            Kind::Whole => FLAGS,
            Kind::Small => SMALL_FLAGS,
        }
    }

    /// What `configure` is told.
    pub(super) fn site(self) -> String {
        match self {
            Kind::Whole => SITE.to_owned(),
            Kind::Small => format!("{SITE}{SMALL_SITE}"),
        }
    }
}
