//! The workflow's file systems: opened where the rights to do so are, built where the domain is.
//!
//! ```text
//!   plan ── open ──▶ one descriptor for each image ── with the job ──▶ build ──▶ Mount, … ──▶ Domain
//! ```

use crate::domain::failure::{Blame, FailureKind};
use crate::domain::files::{ImageAccess, Mount, Source, claim_image};
use crate::report::Failure;
use crate::workflow::Plan;
use crate::workflow::plan::{Access, MountSource};
use monohull_fat::{Error, Geometry, Image};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Opens what a plan's mounts lead to, in their order.
pub fn open(plan: &Plan) -> Result<Vec<OwnedFd>, Box<Failure>> {
    let mut opened = Vec::new();
    for mount in &plan.files {
        let failed = |text: String| {
            let text = format!("the files at {}: {text}", mount.point);
            Box::new(Failure::of_workflow(FailureKind::Input, Blame::Workflow, text))
        };
        match &mount.source {
            MountSource::Memory { .. } => {}
            MountSource::Image { path, access } => opened.push(open_image(path, *access).map_err(failed)?),
        }
    }
    Ok(opened)
}

/// Opens a disk image and claims it: alone to write, together with other readers otherwise. The claim lasts until the
/// last descriptor is closed, also after a kill.
fn open_image(path: &Path, access: Access) -> Result<OwnedFd, String> {
    let writes = access == Access::Write;
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::options().read(true).write(writes).open(path).map_err(|error| said(&error))?;
    claim_image(&file, writes).map_err(|_| {
        let who = if writes { "somebody else has it open" } else { "a workflow that writes to it runs" };
        format!("{} is in use: {who}", path.display())
    })?;
    // Said now, in words; whoever changes the image later gets errors from its files.
    Geometry::read(&Bytes::of(&file).map_err(|error| said(&error))?).map_err(|error| said(&error))?;
    Ok(file.into())
}

/// What a plan's mounts are, with what was opened for them. `None` if something is missing.
pub fn build(plan: &Plan, opened: Vec<OwnedFd>) -> Option<Arc<[Mount]>> {
    let mut opened = opened.into_iter();
    let mut mounts = Vec::new();
    for mount in &plan.files {
        let source = match &mount.source {
            MountSource::Memory { size } => Source::Memory { size: *size },
            MountSource::Image { access, .. } => {
                let access = match access {
                    Access::Read => ImageAccess::Read,
                    Access::Copy => ImageAccess::Copy,
                    Access::Write => ImageAccess::Write,
                };
                Source::Image { file: opened.next()?, access }
            }
        };
        mounts.push(Mount { point: mount.point.clone(), source });
    }
    Some(mounts.into())
}

/// An image as a file.
struct Bytes<'f> {
    file: &'f File,
    len: u64,
}

impl Bytes<'_> {
    fn of(file: &File) -> std::io::Result<Bytes<'_>> {
        Ok(Bytes { file, len: file.metadata()?.len() })
    }
}

impl Image for Bytes<'_> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact_at(to, offset).map_err(|_| Error::Bytes)
    }
}
