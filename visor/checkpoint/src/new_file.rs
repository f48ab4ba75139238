//! A file that gets its name when it is complete.
//!
//! ```text
//!   beside        a file without a name on the same file system (O_TMPFILE); where there is no such thing, one with a name of its own
//!   (write)
//!   publish       1 fdatasync
//!                 2 link: to the name, if none is to be replaced      otherwise to NAME.part, and rename to NAME
//!                 3 fsync of the folder
//! ```
//!
//! If the writer ends before, between or after these steps, the name is that of the old file or of the new one; after the
//! last step it stays the new one's even if the machine stops. A caller that keeps the content elsewhere until then need not wait for the disk
//! ([`NewFile::name_unsynced`]). `NAME.part` may stay behind if the writer is killed between link
//! and rename; the next one that replaces NAME removes it. Writers of one folder take turns there by a lock on the folder.
//!
//! Where file systems have no files without names (NFS, FAT), the file is `.NAME.NUMBER.part` until it is renamed. It stays behind if the writer is
//! killed, and until then it is locked, so that others can tell ([`remove_abandoned`]).

use rustix::fs::{self, AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Where there are no locks, a file whose writer has not gone on for so long has none.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replace {
    /// It is replaced.
    Yes,
    /// It stays, and publishing fails.
    No,
}

/// A file that has no name yet. Without one it vanishes with its last descriptor.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    folder: OwnedFd,
    name: OsString,
    /// Its name until it has that, where a file has to have one.
    before: Option<OsString>,
}

/// A step of publishing that has been made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Written,
    Synced,
    Linked,
    Named,
    FolderSynced,
}

impl NewFile {
    /// A file that can take the name `path`, readable and writable for its owner alone. The folder must be there.
    pub fn beside(path: &Path) -> io::Result<NewFile> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = fs::open(parent, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match fs::openat(&folder, ".", flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(NewFile { file: file.into(), folder, name, before: None }),
            // Kernels and file systems that do not know the flag see a folder that is to be written to, or one without O_DIRECTORY.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => NewFile::with_name(folder, name),
            Err(error) => Err(error.into()),
        }
    }

    /// The same where it has to have a name from the beginning.
    fn with_name(folder: OwnedFd, name: OsString) -> io::Result<NewFile> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        loop {
            let mut before = OsString::from(".");
            before.push(&name);
            before.push(format!(".{:016x}.part", RandomState::new().hash_one(0)));
            match fs::openat(&folder, &before, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => {
                    let file = File::from(file);
                    show_alive(&file);
                    return Ok(NewFile { file, folder, name, before: Some(before) });
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Chooses another name in the same folder.
    pub fn set_name(&mut self, name: &OsStr) {
        self.name = name.to_owned();
    }

    /// The file, to be written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives it its name, durably. The name is taken or not when this fails before the last step; then a file with the
    /// name is complete as well.
    pub fn publish(self, replace: Replace) -> io::Result<File> {
        self.publish_watched(replace, |_| {})
    }

    /// Gives it its name, durably, unless a file has that: then this one is given back. Writers of other names are not waited for.
    pub fn publish_first(mut self) -> io::Result<Option<NewFile>> {
        fs::fdatasync(&self.file)?;
        match self.take_name() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Some(self)),
            Err(error) => return Err(error),
        }
        fs::fsync(&self.folder)?;
        Ok(None)
    }

    /// Gives it its name without waiting for the disk: if the machine stops, the name may be missing, or be that of a file that is not whole. Nothing
    /// is replaced.
    pub fn name_unsynced(mut self) -> io::Result<File> {
        self.take_name()?;
        self.into_file()
    }

    /// The same as [`NewFile::publish`]; calls `done` after each step.
    pub(crate) fn publish_watched(mut self, replace: Replace, mut done: impl FnMut(Step)) -> io::Result<File> {
        done(Step::Written);
        fs::fdatasync(&self.file)?;
        done(Step::Synced);
        match replace {
            Replace::No => self.take_name()?,
            Replace::Yes if self.before.is_some() => {
                if let Some(before) = &self.before {
                    fs::renameat(&self.folder, before, &self.folder, &self.name)?;
                }
                self.before = None;
            }
            Replace::Yes => {
                let mut part = self.name.clone();
                part.push(".part");
                fs::flock(&self.folder, FlockOperation::LockExclusive)?;
                match fs::unlinkat(&self.folder, &part, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(error) => return Err(error.into()),
                }
                show_alive(&self.file);
                self.link(&part)?;
                done(Step::Linked);
                fs::renameat(&self.folder, &part, &self.folder, &self.name)?;
            }
        }
        done(Step::Named);
        if let Err(error) = fs::fsync(&self.folder) {
            // It is not there for others if it may be gone after a restart.
            if let Replace::No = replace {
                let _ = fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
            }
            return Err(error.into());
        }
        done(Step::FolderSynced);
        self.into_file()
    }

    /// Gives it its name, which no other file may have.
    fn take_name(&mut self) -> io::Result<()> {
        let Some(before) = &self.before else { return self.link(&self.name) };
        match fs::renameat_with(&self.folder, before, &self.folder, &self.name, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            // NFS has links, and FAT has this.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                fs::linkat(&self.folder, before, &self.folder, &self.name, AtFlags::empty())?;
                let _ = fs::unlinkat(&self.folder, before, AtFlags::empty());
            }
            Err(error) => return Err(error.into()),
        }
        self.before = None;
        Ok(())
    }

    fn into_file(self) -> io::Result<File> {
        self.file.try_clone()
    }

    fn link(&self, name: &OsStr) -> io::Result<()> {
        // Linking a descriptor itself needs a privilege; its name under /proc does not.
        let own = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
        Ok(fs::linkat(CWD, &own, &self.folder, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

/// Shows to others that this file has a writer. Where a file system has no locks they go by its age.
fn show_alive(file: &File) {
    let _ = fs::flock(file, FlockOperation::NonBlockingLockExclusive);
}

/// Removes a `.part` file that a writer has left behind that was killed; whether it has. One whose writer goes on stays.
pub fn remove_abandoned(part: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(fs::open(part, flags, Mode::empty())?);
    match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(false),
        // There are no locks here.
        Err(_) if file.metadata()?.modified()?.elapsed().is_ok_and(|age| age > ABANDONED) => {}
        Err(_) => return Ok(false),
    }
    // Another writer may have made its own under this name meanwhile.
    let (opened, named) = (file.metadata()?, std::fs::symlink_metadata(part)?);
    if (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
        return Ok(false);
    }
    std::fs::remove_file(part)?;
    Ok(true)
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = fs::unlinkat(&self.folder, before, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const STEPS: [Step; 5] = [Step::Written, Step::Synced, Step::Linked, Step::Named, Step::FolderSynced];
    /// The step after which a process of the test dies, and where it writes.
    const DIE: &str = "MONOHULL_TEST_DIE_AFTER";

    fn put(path: &Path, text: &str, replace: Replace, done: impl FnMut(Step)) -> io::Result<()> {
        let new = NewFile::beside(path)?;
        let mut file = new.file();
        file.write_all(text.as_bytes())?;
        new.publish_watched(replace, done).map(drop)
    }

    /// The test below starts this one anew, once for each step.
    #[test]
    fn a_writer_may_be_killed_at_any_step() {
        if let Ok(order) = std::env::var(DIE) {
            let [step, replace, path] = order.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("an order") };
            let last = STEPS[step.parse::<usize>().expect("a step")];
            let replace = if replace == "yes" { Replace::Yes } else { Replace::No };
            let died = put(Path::new(path), "new", replace, |step| {
                if step == last {
                    let _ = kill_process(getpid(), Signal::KILL);
                }
            });
            panic!("it goes on: {died:?}");
        }

        let this = "new_file::tests::a_writer_may_be_killed_at_any_step";
        let die = |step: usize, replace: &str, path: &Path| {
            let order = format!("{step} {replace} {}", path.to_str().expect("a folder of the test"));
            let mut child = Command::new(std::env::current_exe().expect("this program"));
            let ended = child.args(["--exact", this]).env(DIE, order).output().expect("it is started");
            assert_eq!(ended.status.signal(), Some(9), "{ended:?}");
        };
        for (step, named) in STEPS.into_iter().enumerate() {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("name");
            let names = || std::fs::read_dir(folder.path()).expect("the folder").count();
            std::fs::write(&path, "old").expect("written");
            die(step, "yes", &path);
            let found = std::fs::read_to_string(&path).expect("it is there");
            assert_eq!(found, if step < 3 { "old" } else { "new" }, "{named:?}");
            // The next writer is not held up, and cleans up.
            put(&path, "newer", Replace::Yes, |_| {}).expect("written");
            assert_eq!((std::fs::read_to_string(&path).expect("it is there").as_str(), names()), ("newer", 1));

            if named != Step::Linked {
                let path = folder.path().join("other");
                die(step, "no", &path);
                let found = std::fs::read_to_string(&path).ok();
                assert_eq!(found.as_deref(), if step < 3 { None } else { Some("new") }, "{named:?}");
                assert_eq!(names(), 1 + usize::from(step >= 3));
            }
        }
    }

    /// As on a file system that has no files without names.
    #[test]
    fn a_file_that_has_to_have_a_name_takes_its_own_when_it_is_complete() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = || {
            let entries = std::fs::read_dir(folder.path()).expect("the folder");
            entries.map(|entry| entry.expect("an entry").file_name()).collect::<Vec<_>>()
        };
        let new = || {
            let opened = fs::open(folder.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("a folder");
            NewFile::with_name(opened, "name".into()).expect("a file")
        };
        let put = |text: &str, replace| {
            let new = new();
            new.file().write_all(text.as_bytes())?;
            assert!(names().iter().any(|name| name != "name"), "it has another name so far");
            new.publish(replace)
        };
        put("first", Replace::No).expect("the name is free");
        let error = put("second", Replace::No).expect_err("the name is taken");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(folder.path().join("name")).expect("it is there"), "first");
        put("third", Replace::Yes).expect("it is replaced");
        assert_eq!(std::fs::read_to_string(folder.path().join("name")).expect("it is there"), "third");
        let error = new().name_unsynced().expect_err("the name is taken");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        drop(new());
        assert_eq!(names(), ["name"], "what did not get its name is gone");
    }

    #[test]
    fn a_file_that_is_first_is_not_waited_for_and_one_that_is_not_is_given_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("name");
        let new = |text: &str| {
            let new = NewFile::beside(&path).expect("a file");
            new.file().write_all(text.as_bytes()).expect("written");
            new
        };
        let taken = fs::open(folder.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("a folder");
        fs::flock(&taken, FlockOperation::LockExclusive).expect("another one replaces a file here");
        assert!(new("first").publish_first().expect("the name is free").is_none());
        let back = new("second").publish_first().expect("the name is taken").expect("it is given back");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "first");
        drop(taken);
        back.publish(Replace::Yes).expect("it is replaced");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "second");
    }

    #[test]
    fn only_what_a_dead_writer_has_left_is_abandoned() {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = fs::open(folder.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("a folder");
        let mut new = NewFile::with_name(opened, "name".into()).expect("a file");
        let part = folder.path().join(new.before.clone().expect("a name"));
        assert!(!remove_abandoned(&part).expect("it is there") && part.exists());
        // As after a kill.
        new.before = None;
        drop(new);
        assert!(part.exists());
        assert!(remove_abandoned(&part).expect("it is there") && !part.exists());
    }

    #[test]
    fn a_name_that_is_taken_stays_with_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("name");
        put(&path, "first", Replace::No, |_| {}).expect("the name is free");
        let error = put(&path, "second", Replace::No, |_| {}).expect_err("the name is taken");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "first");
        assert_eq!(std::fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);
        put(&folder.path().join("none/name"), "third", Replace::No, |_| {}).expect_err("there is no such folder");
        put(Path::new("/"), "third", Replace::No, |_| {}).expect_err("this is no name");
    }

    #[test]
    fn writers_of_one_name_take_turns() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("name");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..20 {
                        put(path, &writer.to_string().repeat(100), Replace::Yes, |_| {}).expect("written");
                    }
                });
            }
        });
        let found = std::fs::read_to_string(&path).expect("it is there");
        assert!(found.len() == 100 && found.bytes().all(|byte| byte == found.as_bytes()[0]), "{found}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1);
    }
}
