//! The workflow's file systems: opened where the rights to do so are, built where the domain is.
//!
//! ```text
//!   plan ── open ──▶ Opened ── hand_over ──▶ one descriptor each ── with the job ──▶ build ──▶ Mount, … ──▶ Domain
//!           all mistakes reported         image: its own; directory: a broker's
//! ```

use monohull_domain::files::{ImageAccess, Mount, Source, claim_image};
use monohull_fat::{Error, Geometry, Image};
use monohull_host_files::input::{self, InputError};
use monohull_host_files::{self as host_files, Client, Directory};
use monohull_report::Failure;
use monohull_report::escape::shown;
use monohull_report::failure::{Blame, FailureKind};
use monohull_workflow::plan::{Access, MountSource};
use monohull_workflow::{self as workflow, Plan};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// What a mount of a plan leads to, open.
#[derive(Debug)]
pub enum Opened {
    /// A disk image, claimed.
    Image(File),
    /// A directory.
    Directory(Directory),
}

impl Opened {
    /// What the domain's process gets of it. For a directory a broker is started, so this comes after the last fork.
    pub fn hand_over(&self) -> io::Result<OwnedFd> {
        match self {
            Opened::Image(file) => Ok(file.try_clone()?.into()),
            Opened::Directory(directory) => host_files::start(directory.try_clone()?),
        }
    }
}

/// What a mount of a plan leads to cannot be opened.
#[derive(Debug)]
pub struct Unopened {
    /// As it is reported; the workflow is blamed.
    pub failure: Box<Failure>,
    /// What may become of it.
    pub prospect: Prospect,
}

/// What may become of a mount that cannot be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prospect {
    /// Nothing: the plan asks for what there is not here.
    None,
    /// It is not as it should be, until a person mends it.
    Wrong,
    /// It is away or in use, or the host lacks something: that may pass by itself.
    Passing,
}

/// Opens what a plan's mounts lead to, in their order; memory leads nowhere.
pub fn open(plan: &Plan) -> Result<Vec<Opened>, Unopened> {
    let unopened = |text: String, prospect| Unopened {
        failure: Box::new(Failure::blamed(FailureKind::Input, Blame::Workflow, text)),
        prospect,
    };
    let mut opened = Vec::new();
    if let Some(step) = plan.steps.iter().find(|step| !step.secrets.is_empty()) {
        let text = format!(
            "the step `{}` has secrets, which a server's operator grants (`monohull serve --grants`); here there are none",
            step.name
        );
        return Err(unopened(text, Prospect::None));
    }
    for mount in &plan.files {
        let failed = |text: String, prospect| unopened(format!("the files at {}: {text}", mount.point), prospect);
        match &mount.source {
            MountSource::Memory { .. } => {}
            MountSource::Granted { grant, .. } => {
                let text = format!(
                    "`{grant}` is a grant of a server's operator (`monohull serve --grants`), and this is no server"
                );
                return Err(failed(text, Prospect::None));
            }
            MountSource::Image { path, access } => {
                let image = open_image(path, *access);
                opened.push(Opened::Image(image.map_err(|(text, prospect)| failed(text, prospect))?));
            }
            MountSource::Directory { path, writable } => {
                let directory = Directory::open(path, *writable);
                let directory =
                    directory.map_err(|error| failed(format!("{}: {error}", shown(&path)), prospect_of(&error)))?;
                opened.push(Opened::Directory(directory));
            }
        }
    }
    Ok(opened)
}

/// Whether what a mount leads to is there and can be used. Nothing is claimed: a workflow that has it may be running.
pub fn inspect(mount: &workflow::plan::Mount) -> Result<(), String> {
    match &mount.source {
        // What is granted is known to a server alone.
        MountSource::Memory { .. } | MountSource::Granted { .. } => Ok(()),
        MountSource::Image { path, access } => disk_image(path, *access).map(drop).map_err(|(text, _)| text),
        MountSource::Directory { path, writable } => {
            Directory::open(path, *writable).map(drop).map_err(|error| format!("{}: {error}", shown(path)))
        }
    }
}

/// Opens a disk image and claims it: alone to write, together with other readers otherwise. The claim lasts until the
/// last descriptor is closed, also after a kill.
fn open_image(path: &Path, access: Access) -> Result<File, (String, Prospect)> {
    let writes = access == Access::Write;
    let file = disk_image(path, access)?;
    claim_image(&file, writes).map_err(|_| {
        let by = if writes { "another process has it open" } else { "a workflow that writes to it runs" };
        (format!("{} is in use: {by}", shown(&path)), Prospect::Passing)
    })?;
    Ok(file)
}

/// Opens a file and sees whether it is a disk image. One that is damaged later gives errors from its files.
fn disk_image(path: &Path, access: Access) -> Result<File, (String, Prospect)> {
    let said = |error: &dyn std::fmt::Display, prospect| (format!("{}: {error}", shown(path)), prospect);
    let file = input::open_regular(path, access == Access::Write).map_err(|error| match &error {
        InputError::Host(host) => said(&error, prospect_of(host)),
        _ => said(&error, Prospect::Wrong),
    })?;
    let bytes = Bytes::of(&file).map_err(|error| said(&error, prospect_of(&error)))?;
    Geometry::read(&bytes).map_err(|error| said(&error, prospect_of_image(&error)))?;
    Ok(file)
}

/// That of an error of the host's.
fn prospect_of(error: &io::Error) -> Prospect {
    use io::ErrorKind::{IsADirectory, NotADirectory, PermissionDenied};
    match error.kind() {
        PermissionDenied | NotADirectory | IsADirectory => Prospect::Wrong,
        // A disk that the kernel has made read-only after an error is mended, as one that is away comes back.
        _ => Prospect::Passing,
    }
}

/// That of an image in which there is something wrong.
fn prospect_of_image(error: &Error) -> Prospect {
    match error {
        // It could not be read: what is in it is not known.
        Error::Bytes => Prospect::Passing,
        _ => Prospect::Wrong,
    }
}

/// What a plan's mounts are, with what was handed over for them. `None` if something is missing.
pub fn build(plan: &Plan, handed_over: Vec<OwnedFd>) -> Option<Arc<[Mount]>> {
    let mut files = handed_over.into_iter();
    let mut mounts = Vec::new();
    for mount in &plan.files {
        let source = match &mount.source {
            MountSource::Memory { size } => Source::Memory { size: *size },
            // Nothing was opened for it.
            MountSource::Granted { .. } => return None,
            MountSource::Image { access, .. } => {
                let access = match access {
                    Access::Read => ImageAccess::Read,
                    Access::Copy => ImageAccess::Copy,
                    Access::Write => ImageAccess::Write,
                };
                Source::Image { file: files.next()?, access }
            }
            MountSource::Directory { writable, .. } => {
                Source::Directory { client: Arc::new(Client::new(files.next()?)), writable: *writable }
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
    fn of(file: &File) -> io::Result<Bytes<'_>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    #[test]
    fn what_the_host_may_mend_is_waited_for() {
        for (errno, prospect) in [
            (Errno::ENOENT, Prospect::Passing),
            (Errno::EIO, Prospect::Passing),
            (Errno::ESTALE, Prospect::Passing),
            (Errno::EROFS, Prospect::Passing),
            (Errno::EACCES, Prospect::Wrong),
            (Errno::ENOTDIR, Prospect::Wrong),
        ] {
            assert_eq!(prospect_of(&errno.into()), prospect, "{errno}");
        }
        assert_eq!(prospect_of_image(&Error::Bytes), Prospect::Passing);
        assert_eq!(prospect_of_image(&Error::NotFat("no boot sector")), Prospect::Wrong);
    }
}
