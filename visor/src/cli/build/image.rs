//! What an image goes through however it is made: the checker, and the way to its place.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::error::BuildError;
use monohull_checker::{Class, Finding, Report, Rules};

/// An image that was built.
#[derive(Debug)]
pub(in super::super) struct Built {
    /// The image.
    pub(in super::super) path: PathBuf,
    /// What the checker found in it; nothing for which it would be refused.
    pub(in super::super) report: Report,
    /// The code generation option that removed accidents, if there were any.
    pub(in super::super) layout: Option<&'static str>,
    /// What its code asks for and will not get, a text each.
    pub(in super::super) refused: Vec<String>,
}

/// What the checker finds in an image.
pub(in super::super) fn check(path: &Path, image: &[u8]) -> Result<Report, BuildError> {
    monohull_checker::check_by(Rules { explain: true, ..Rules::IMAGE }, image)
        .map_err(|source| BuildError::Unchecked { path: path.to_path_buf(), source })
}

/// Writes the image beside its place and renames it, so that a running workflow keeps the one it has mapped.
pub(in super::super) fn install(folder: &Path, path: &Path, image: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let aside = path.with_extension(format!("{}.new", std::process::id()));
    // A part of one, of which the disk had no room for the rest, would take the room that there is.
    fs::write(&aside, image).and_then(|()| fs::rename(&aside, path)).inspect_err(|_| _ = fs::remove_file(&aside))
}

/// Whether the forbidden bytes lie inside of another instruction. In another layout they may be gone.
pub(super) fn is_accident(finding: &Finding) -> bool {
    finding.context.as_ref().is_some_and(|context| context.class == Class::Accident)
}
