//! The program's descriptors.
//!
//! ```text
//!   program's fd  0 stdin   1 stdout   2 stderr   3 the root directory   4… sockets that it finds open, then what it opens
//!                   │          └─ STDIO_WRITE ┘     │                       └ a socket or a descriptor of the libos
//!                   slot of the step's stdin        no descriptor until something is opened beneath it
//! ```
//!
//! The root is the one directory that a program finds open: it holds the workflow's mounts. A program that opens nothing never loads
//! the file system.

use crate::errno::WasiError;
use crate::host::call;
use crate::path::{Ending, beneath};
use crate::rights::Rights;
use crate::sockets::Socket;
use alloc::string::String;
use alloc::vec::Vec;
use monohull_abi::file::{FileStat, WORKING_DIRECTORY};
use monohull_abi::number;

/// What a descriptor of the program stands for.
pub(crate) enum Target {
    /// The slot that the step has as its standard input.
    Stdin,
    /// Standard output (1) or error (2).
    Output(u64),
    /// The directory that all mounts lie beneath.
    Root,
    /// A directory.
    Directory(Handle),
    /// A file.
    File(Handle),
    /// A device.
    Device(Device),
    /// A socket: one that listens, or a connection.
    Socket(Socket),
}

/// What programs expect to find in `/dev`, besides their streams.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    /// `/dev/null`: it is empty, and takes everything.
    Null,
    /// `/dev/zero`: zeros without end.
    Zero,
    /// `/dev/random` and `/dev/urandom`: random bytes without end.
    Random,
}

impl Device {
    /// Reads from it: how many bytes.
    pub(crate) fn read(self, buffer: &mut [u8]) -> usize {
        match self {
            Device::Null => return 0,
            Device::Zero => buffer.fill(0),
            Device::Random => monohull_std::random::fill(buffer),
        }
        buffer.len()
    }
}

/// A descriptor of the libos, closed when it is dropped.
pub(crate) struct Handle(pub(crate) u64);

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = call(number::FILE_CLOSE, [self.0]);
    }
}

/// The flags of WASI (`fdflags`) with which every write reaches the host's storage before it returns: `DSYNC`, `RSYNC` and `SYNC`. They do the
/// same here.
pub(crate) const WRITE_THROUGH: u16 = 1 << 1 | 1 << 3 | 1 << 4;

/// One descriptor of the program.
pub(crate) struct Descriptor {
    /// What it stands for.
    pub(crate) target: Target,
    /// Flags of WASI (`fdflags`), as last set.
    pub(crate) flags: u16,
    /// What may be done with it.
    pub(crate) rights: Rights,
    /// The entries of a directory, as they were when it was last read from its start, once it was read.
    pub(crate) listing: Option<Vec<Entry>>,
}

/// An entry of a directory.
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: String,
    /// `filetype` of WASI.
    pub(crate) kind: u8,
    /// Number of the file; 0 if the file system has none.
    pub(crate) node: u64,
}

/// Kinds of files (`filetype`).
pub(crate) mod filetype {
    /// A stream. Wasmtime says this of what is no terminal, pipes and files alike; a character device that cannot seek is a terminal to C libraries.
    pub(crate) const UNKNOWN: u8 = 0;
    /// A device, which is at the position that was sought.
    pub(crate) const CHARACTER_DEVICE: u8 = 2;
    /// A directory.
    pub(crate) const DIRECTORY: u8 = 3;
    /// A file.
    pub(crate) const REGULAR: u8 = 4;
    /// A socket of connections.
    pub(crate) const SOCKET_STREAM: u8 = 6;
}

impl Descriptor {
    /// A new one, with these flags and rights.
    pub(crate) fn new(target: Target, flags: u16, rights: Rights) -> Descriptor {
        Descriptor { target, flags, rights, listing: None }
    }

    /// Refuses to read or write (`right`) it if that was taken away, or if it was not opened for it.
    pub(crate) fn allow_transfer(&self, right: u64) -> Result<(), WasiError> {
        self.rights.allow(right)?;
        match self.target {
            Target::File(_) | Target::Device(_) => self.rights.opened_for(right),
            _ => Ok(()),
        }
    }

    /// The libos's descriptor of a file.
    pub(crate) fn file(&self) -> Result<u64, WasiError> {
        if let Target::File(handle) = &self.target { Ok(handle.0) } else { Err(WasiError::BADF) }
    }

    /// The same of what has a position.
    pub(crate) fn positioned(&self) -> Result<u64, WasiError> {
        match &self.target {
            Target::Stdin | Target::Output(_) | Target::Device(_) | Target::Socket(_) => Err(WasiError::SPIPE),
            _ => self.file(),
        }
    }

    /// The socket.
    pub(crate) fn socket(&self) -> Result<&Socket, WasiError> {
        if let Target::Socket(socket) = &self.target { Ok(socket) } else { Err(WasiError::NOTSOCK) }
    }

    /// The libos's descriptor of a file or directory.
    pub(crate) fn handle(&self) -> Result<Option<u64>, WasiError> {
        match &self.target {
            Target::File(handle) | Target::Directory(handle) => Ok(Some(handle.0)),
            Target::Root => Ok(None),
            Target::Stdin | Target::Output(_) | Target::Device(_) | Target::Socket(_) => Err(WasiError::BADF),
        }
    }

    /// A path beneath this directory, as hostcalls take it.
    pub(crate) fn at(&self, path: &str) -> Result<Place, WasiError> {
        let (directory, path, ending) = match &self.target {
            Target::Root => (WORKING_DIRECTORY, alloc::format!("/{path}"), beneath(path)?),
            Target::Directory(handle) => (handle.0, path.into(), beneath(path)?),
            Target::Stdin | Target::Output(_) => return Err(WasiError::BADF),
            Target::File(_) | Target::Device(_) | Target::Socket(_) => return Err(WasiError::NOTDIR),
        };
        Ok(Place { directory, path, ending })
    }

    /// `filetype` of what it stands for.
    pub(crate) fn kind(&self) -> u8 {
        self.target.kind()
    }
}

impl Target {
    /// Its `filetype`.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Target::Stdin | Target::Output(_) => filetype::UNKNOWN,
            Target::Device(_) => filetype::CHARACTER_DEVICE,
            Target::Root | Target::Directory(_) => filetype::DIRECTORY,
            Target::File(_) => filetype::REGULAR,
            Target::Socket(_) => filetype::SOCKET_STREAM,
        }
    }
}

/// A directory of the libos, and a path beneath it.
pub(crate) struct Place {
    directory: u64,
    path: String,
    /// What the path ends with.
    pub(crate) ending: Ending,
}

impl Place {
    /// The three arguments that hostcalls take for it.
    pub(crate) fn args(&self) -> [u64; 3] {
        [self.directory, self.path.as_ptr() as u64, self.path.len() as u64]
    }

    /// The stream or the device of this name. As for programs in C, a mount at `/dev` is not needed, and changes nothing about these names. No mount
    /// has links, so a `..` takes the name before it away, whether that is there or not.
    pub(crate) fn device(&self) -> Option<Target> {
        if self.directory != WORKING_DIRECTORY {
            return None;
        }
        let mut names: Vec<&str> = Vec::new();
        for name in self.path.split('/') {
            match name {
                "" | "." => {}
                ".." => drop(names.pop()),
                name => names.push(name),
            }
        }
        let (["dev", name], Ending::Name) = (&names[..], self.ending) else { return None };
        Some(match *name {
            "null" => Target::Device(Device::Null),
            "zero" => Target::Device(Device::Zero),
            "random" | "urandom" => Target::Device(Device::Random),
            "stdin" => Target::Stdin,
            "stdout" => Target::Output(1),
            "stderr" => Target::Output(2),
            _ => return None,
        })
    }

    /// Opens it, with the libos's flags.
    pub(crate) fn open(&self, flags: u64) -> Result<Handle, WasiError> {
        let [directory, path, len] = self.args();
        call(number::FILE_OPEN, [directory, path, len, flags]).map(Handle)
    }

    /// The directory that its last name is in.
    pub(crate) fn parent(&self) -> Place {
        let path = self.path.trim_end_matches('/');
        let path = path.rfind('/').map_or(".", |end| &path[..=end]);
        Place { directory: self.directory, path: path.into(), ending: Ending::Slash }
    }

    /// What is known of it.
    pub(crate) fn stat(&self) -> Result<FileStat, WasiError> {
        let mut stat = FileStat::default();
        let [directory, path, len] = self.args();
        call(number::FILE_STAT, [directory, path, len, &raw mut stat as u64])?;
        Ok(stat)
    }
}

/// All descriptors of the program.
pub(crate) struct Descriptors(Vec<Option<Descriptor>>);

/// Most descriptors; the libos has a limit of its own for files.
const MOST: usize = monohull_abi::file::DESCRIPTORS_MAX;

impl Descriptors {
    /// The streams and the root.
    pub(crate) fn new() -> Descriptors {
        let all = [
            (Target::Stdin, Rights::INPUT),
            (Target::Output(1), Rights::OUTPUT),
            (Target::Output(2), Rights::OUTPUT),
            (Target::Root, Rights::ALL),
        ];
        Descriptors(all.into_iter().map(|(target, rights)| Some(Descriptor::new(target, 0, rights))).collect())
    }

    /// One of them.
    pub(crate) fn get(&self, fd: u32) -> Result<&Descriptor, WasiError> {
        self.0.get(fd as usize).and_then(Option::as_ref).ok_or(WasiError::BADF)
    }

    /// One of them, for what needs all of these rights.
    pub(crate) fn allowed(&self, fd: u32, rights: u64) -> Result<&Descriptor, WasiError> {
        let descriptor = self.get(fd)?;
        descriptor.rights.allow(rights)?;
        Ok(descriptor)
    }

    /// One of them, to be changed.
    pub(crate) fn get_mut(&mut self, fd: u32) -> Result<&mut Descriptor, WasiError> {
        self.0.get_mut(fd as usize).and_then(Option::as_mut).ok_or(WasiError::BADF)
    }

    /// Whether another one can be added.
    pub(crate) fn has_room(&self) -> bool {
        self.0.len() < MOST || self.0.iter().any(Option::is_none)
    }

    /// Adds one under the lowest free number.
    pub(crate) fn insert(&mut self, descriptor: Descriptor) -> Result<u32, WasiError> {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        if free >= MOST {
            return Err(WasiError::MFILE);
        }
        if free == self.0.len() {
            self.0.push(None);
        }
        self.0[free] = Some(descriptor);
        Ok(free as u32)
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, fd: u32) -> Result<Descriptor, WasiError> {
        self.0.get_mut(fd as usize).and_then(Option::take).ok_or(WasiError::BADF)
    }

    /// Moves one to the number of another, which is closed.
    pub(crate) fn renumber(&mut self, from: u32, to: u32) -> Result<(), WasiError> {
        self.get(to)?;
        if from == to {
            return Ok(());
        }
        let moved = self.remove(from)?;
        self.0[to as usize] = Some(moved);
        Ok(())
    }
}
