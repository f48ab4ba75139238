//! Which files a process can open: those that are named, for reading. Everything else is closed by Landlock, as far as the kernel
//! knows how.
//!
//! Each file is named by itself and not by its folder, so that a link in there leads where it should. Newer kernels also
//! close the network, and signals and sockets that lead out of the family.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// All that is known to be restrictable; an older kernel restricts what it can.
const NEWEST: ABI = ABI::V6;

/// Restrictions of files that have not been put in force.
pub struct Restriction(RulesetCreated);

impl Restriction {
    /// Prepares the restriction to these files and, in these folders, to all.
    pub fn prepare(
        readable: impl IntoIterator<Item = PathBuf>,
        folders: &[&Path],
    ) -> Result<Restriction, RulesetError> {
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        let read: BitFlags<AccessFs> = AccessFs::ReadFile.into();
        for path in readable.into_iter().chain(folders.iter().map(|folder| folder.to_path_buf())) {
            // A file that is not there cannot be opened either way.
            if let Ok(file) = PathFd::new(path) {
                rules = rules.add_rule(PathBeneath::new(file, read))?;
            }
        }
        Ok(Restriction(rules))
    }

    /// Puts it in force for this process and all it forks; how much of it is.
    pub fn restrict(self) -> Result<&'static str, RulesetError> {
        let RestrictionStatus { ruleset, .. } = self.0.restrict_self()?;
        Ok(match ruleset {
            RulesetStatus::FullyEnforced => "full",
            RulesetStatus::PartiallyEnforced => {
                "partial: this kernel cannot restrict all of files, network and signals"
            }
            RulesetStatus::NotEnforced => "none: this kernel has no Landlock, or it is switched off",
        })
    }

    /// As a descriptor, to be put in force by another process ([`monohull_sys::landlock::restrict`]). `None` if the kernel has no Landlock.
    pub fn into_file(self) -> Option<OwnedFd> {
        self.0.into()
    }
}

/// Puts the restriction to these files in force for this process and all it forks; how much of it is.
pub fn restrict(readable: impl IntoIterator<Item = PathBuf>) -> Result<&'static str, RulesetError> {
    Restriction::prepare(readable, &[])?.restrict()
}
