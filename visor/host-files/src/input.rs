//! Reads files of the host whose paths a caller gives.
//!
//! Not every path leads to a file that ends: `/dev/zero` is endless, and a pipe may be silent for ever. Regular files are
//! read up to a limit. Pipes and standard input (`-`) are read up to a limit and, where there is one, a deadline.
//! Everything else is refused: a device, a socket, a directory.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
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
            InputError::Kind(_) | InputError::TooLong(_) => io::Error::new(io::ErrorKind::InvalidInput, error),
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

fn refuse_endless(metadata: &Metadata) -> Result<(), InputError> {
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() || kind.is_fifo() => Ok(()),
        () if kind.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory).into()),
        () if kind.is_socket() => Err(InputError::Kind("a socket")),
        () => Err(InputError::Kind("a device")),
    }
}

/// The content of a file, if it has at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::new();
    match open(path)? {
        Opened::Regular(file) => {
            // A file may grow while it is read.
            file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > limit { Err(InputError::TooLong(limit)) } else { Ok(bytes) }
        }
        Opened::Stream(stream) => {
            read_stream(stream, limit, None, |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            Ok(bytes)
        }
    }
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
        wait(&stream, deadline)?;
        let len = match stream.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => continue,
            Err(error) => return Err(error.into()),
        };
        left = left.checked_sub(len as u64).ok_or(InputError::TooLong(limit))?;
        take(&piece[..len])?;
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
    fn files_are_read_up_to_a_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, b"0123456789").expect("written");
        assert_eq!(read(&path, 10).expect("it fits"), b"0123456789");
        assert_eq!(read(&path, 9).expect_err("too long").to_string(), "it has more than 9 bytes, the limit");
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
    fn a_silent_pipe_is_given_up_at_the_deadline() {
        let (_folder, path) = pipe();
        let Ok(Opened::Stream(stream)) = open(&path) else { panic!("a pipe") };
        let begin = Instant::now();
        let deadline = begin + Duration::from_millis(50);
        let late = read_stream(stream, 10, Some(deadline), |_| Ok(()));
        assert!(matches!(late, Err(InputError::Late)) && begin.elapsed() >= Duration::from_millis(50), "{late:?}");
    }
}
