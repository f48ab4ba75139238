//! Reads files of the host whose paths a caller gives.
//!
//! Not every path leads to a file that ends: `/dev/zero` is endless, and a pipe may be silent for ever. Regular files are
//! read up to a limit. Pipes and standard input (`-`) are read up to a limit and, where there is one, a deadline.
//! Everything else is refused: a device, a socket, a directory. Where a file is read at many places, as an image is, a
//! pipe is refused too ([`open_regular`]).

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The most bytes of a workflow file, here and of a server.
pub const WORKFLOW_MAX: u64 = 4 << 20;
/// The most bytes of any other file that is kept in memory as a whole.
pub const FILE_MAX: u64 = 4 << 30;
/// How much is read from a pipe at a time: what a pipe holds.
const PIECE: usize = 64 << 10;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum InputError {
    /// The host cannot open or read it.
    #[error(transparent)]
    Host(#[from] io::Error),
    /// It is of a kind that need not end.
    #[error("it is {0}, and only regular files, pipes and `-` (standard input) are read")]
    Kind(&'static str),
    /// It is no regular file, where one is needed.
    #[error("it is no regular file but {0}")]
    NotRegular(&'static str),
    /// It is longer than what is taken.
    #[error("it has more than {0} bytes, the limit")]
    TooLong(u64),
    #[error("its end has not come in time")]
    Late,
}

impl From<InputError> for io::Error {
    fn from(error: InputError) -> io::Error {
        match error {
            InputError::Host(error) => error,
            InputError::Kind(_) | InputError::NotRegular(_) | InputError::TooLong(_) => {
                io::Error::new(io::ErrorKind::InvalidInput, error)
            }
            InputError::Late => io::Error::new(io::ErrorKind::TimedOut, error),
        }
    }
}

/// A file that has been opened.
#[derive(Debug)]
pub enum Opened {
    /// A regular file.
    Regular(File),
    /// A pipe, or what standard input is.
    Stream(File),
}

impl Opened {
    /// Its bytes in turn, of which there may be so many; those of a stream come until the deadline.
    pub fn bounded(self, limit: u64, deadline: Option<Instant>) -> Bounded {
        Bounded { opened: self, limit, left: limit, deadline, error: None }
    }
}

/// Bytes of a file or a stream, for what copies from a reader.
#[derive(Debug)]
pub struct Bounded {
    opened: Opened,
    limit: u64,
    left: u64,
    deadline: Option<Instant>,
    error: Option<InputError>,
}

impl Bounded {
    /// Why the last call has failed. What copies may have failed for another reason.
    pub fn take_error(&mut self) -> Option<InputError> {
        self.error.take()
    }

    fn next(&mut self, piece: &mut [u8]) -> Result<usize, InputError> {
        let len = match &mut self.opened {
            Opened::Regular(file) => file.read(piece)?,
            Opened::Stream(stream) => next(stream, piece, self.deadline)?,
        };
        self.left = self.left.checked_sub(len as u64).ok_or(InputError::TooLong(self.limit))?;
        Ok(len)
    }
}

impl Read for Bounded {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        self.next(piece).map_err(|error| {
            let said = io::Error::other(error.to_string());
            self.error = Some(error);
            said
        })
    }
}

/// Opens a file for reading; `-` is standard input. Does not wait for a pipe's other end.
pub fn open(path: &Path) -> Result<Opened, InputError> {
    if path.as_os_str() == "-" {
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        return Ok(if input.metadata()?.is_file() { Opened::Regular(input) } else { Opened::Stream(input) });
    }
    // Opening a device may have effects, so it is looked at before.
    refuse_endless(&std::fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    refuse_endless(&metadata)?;
    Ok(if metadata.is_file() { Opened::Regular(file) } else { Opened::Stream(file) })
}

/// Opens a regular file for reading, and for writing if that is wanted.
pub fn open_regular(path: &Path, writable: bool) -> Result<File, InputError> {
    let refuse_others = |metadata: &Metadata| match kind(metadata) {
        None => Ok(()),
        Some(kind) => Err(InputError::NotRegular(kind)),
    };
    refuse_others(&std::fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).write(writable).custom_flags(libc::O_NONBLOCK).open(path)?;
    // Another may have taken its name meanwhile.
    refuse_others(&file.metadata()?)?;
    Ok(file)
}

/// The content of a regular file, if it has at most `limit` bytes.
pub fn read_regular(path: &Path, limit: u64) -> Result<Vec<u8>, InputError> {
    read_whole(open_regular(path, false)?, limit)
}

fn refuse_endless(metadata: &Metadata) -> Result<(), InputError> {
    match kind(metadata) {
        None | Some(PIPE) => Ok(()),
        Some(DIRECTORY) => Err(io::Error::from(io::ErrorKind::IsADirectory).into()),
        Some(kind) => Err(InputError::Kind(kind)),
    }
}

const PIPE: &str = "a pipe";
const DIRECTORY: &str = "a directory";

/// What it is, if it is no regular file.
fn kind(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_fifo() => Some(PIPE),
        () if kind.is_dir() => Some(DIRECTORY),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

/// The content of a file, if it has at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, InputError> {
    match open(path)? {
        Opened::Regular(file) => read_whole(file, limit),
        Opened::Stream(stream) => {
            let mut bytes = Vec::new();
            read_stream(stream, limit, None, |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            Ok(bytes)
        }
    }
}

fn read_whole(mut file: File, limit: u64) -> Result<Vec<u8>, InputError> {
    // Of standard input another may have read a part.
    if file.metadata()?.len().saturating_sub(file.stream_position()?) > limit {
        return Err(InputError::TooLong(limit));
    }
    let mut bytes = Vec::new();
    // A file may grow while it is read.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(InputError::TooLong(limit)) } else { Ok(bytes) }
}

/// Reads a stream to its end, and passes on each piece.
pub fn read_stream(
    mut stream: File,
    limit: u64,
    deadline: Option<Instant>,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), InputError> {
    let mut piece = vec![0; PIECE];
    let mut left = limit;
    loop {
        let len = next(&mut stream, &mut piece, deadline)?;
        if len == 0 {
            return Ok(());
        }
        left = left.checked_sub(len as u64).ok_or(InputError::TooLong(limit))?;
        take(&piece[..len])?;
    }
}

/// The next bytes of a stream; 0 at its end.
fn next(stream: &mut File, piece: &mut [u8], deadline: Option<Instant>) -> Result<usize, InputError> {
    loop {
        wait(stream, deadline)?;
        match stream.read(piece) {
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            read => return Ok(read?),
        }
    }
}

/// Waits until a stream has bytes or its end. A pipe without a writer so far has neither.
fn wait(stream: &File, deadline: Option<Instant>) -> Result<(), InputError> {
    loop {
        let timeout = match deadline {
            None => PollTimeout::NONE,
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(InputError::Late);
                }
                // Rounded up, so that the time is up afterwards.
                PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX)
            }
        };
        match poll(&mut [PollFd::new(stream.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::io::Write;
    use std::time::Duration;

    fn pipe() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        mkfifo(&path, Mode::S_IRWXU).expect("a pipe");
        (folder, path)
    }

    #[test]
    fn what_need_not_end_is_refused() {
        for device in ["/dev/zero", "/dev/null", "/dev/urandom"] {
            assert!(matches!(read(Path::new(device), 10), Err(InputError::Kind("a device"))), "{device}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(read(folder.path(), 10), Err(InputError::Host(_))));
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        assert!(matches!(read(&socket, 10), Err(InputError::Kind("a socket"))));
    }

    #[test]
    fn only_regular_files_are_opened_as_such() {
        let (folder, path) = pipe();
        for (path, kind) in [(&*path, "a pipe"), (folder.path(), "a directory"), (Path::new("/dev/zero"), "a device")] {
            for writable in [false, true] {
                let error = open_regular(path, writable).expect_err(kind);
                assert!(matches!(error, InputError::NotRegular(found) if found == kind), "{error}");
            }
        }
        let path = folder.path().join("file");
        std::fs::write(&path, b"0123456789").expect("written");
        open_regular(&path, true).expect("a regular file").write_all(b"x").expect("it is open for writing");
        assert_eq!(read_regular(&path, 10).expect("it fits"), b"x123456789");
        assert!(matches!(read_regular(&path, 9), Err(InputError::TooLong(9))));
    }

    #[test]
    fn files_are_read_up_to_a_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, b"0123456789").expect("written");
        assert_eq!(read(&path, 10).expect("it fits"), b"0123456789");
        assert_eq!(read(&path, 9).expect_err("too long").to_string(), "it has more than 9 bytes, the limit");
    }

    #[test]
    fn nothing_is_read_of_a_file_that_is_too_long() {
        let mut file = tempfile::tempfile().expect("a file");
        file.set_len(11).expect("it becomes longer");
        let error = read_whole(file.try_clone().expect("one position for both"), 10).expect_err("too long");
        assert!(matches!(error, InputError::TooLong(10)) && file.stream_position().is_ok_and(|at| at == 0), "{error}");
    }

    #[test]
    fn pipes_are_read_to_their_end_or_up_to_a_limit() {
        let (_folder, path) = pipe();
        let fill = |bytes: usize| {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut writer = OpenOptions::new().write(true).open(path).expect("a reader is there");
                // The reader may have had enough.
                let _ = writer.write_all(&vec![b'x'; bytes]);
            })
        };
        let writer = fill(200_000);
        assert_eq!(read(&path, 200_000).expect("it fits").len(), 200_000);
        writer.join().expect("it has written");
        let writer = fill(200_001);
        assert!(matches!(read(&path, 200_000), Err(InputError::TooLong(200_000))));
        writer.join().expect("it has ended");
    }

    #[test]
    fn what_is_copied_has_a_limit_too() {
        let (folder, path) = pipe();
        let file = folder.path().join("file");
        std::fs::write(&file, b"0123456789").expect("written");
        let mut whole = Vec::new();
        open(&file).expect("a file").bounded(10, None).read_to_end(&mut whole).expect("it fits");
        assert_eq!(whole, b"0123456789");
        let opened = open(&path).expect("a pipe");
        std::thread::spawn(move || std::fs::write(path, b"0123456789").expect("written"));
        for opened in [open(&file).expect("a file"), opened] {
            let mut from = opened.bounded(9, None);
            from.read_to_end(&mut Vec::new()).expect_err("it is longer");
            assert!(matches!(from.take_error(), Some(InputError::TooLong(9))));
        }
    }

    #[test]
    fn a_silent_pipe_is_given_up_at_the_deadline() {
        let (_folder, path) = pipe();
        let Ok(Opened::Stream(stream)) = open(&path) else { panic!("a pipe") };
        let begin = Instant::now();
        let deadline = begin + Duration::from_millis(50);
        let late = read_stream(stream, 10, Some(deadline), |_| Ok(()));
        assert!(matches!(late, Err(InputError::Late)) && begin.elapsed() >= Duration::from_millis(50), "{late:?}");
        let mut from = open(&path).expect("a pipe").bounded(10, Some(deadline));
        from.read_to_end(&mut Vec::new()).expect_err("it is silent");
        assert!(matches!(from.take_error(), Some(InputError::Late)));
    }
}
