//! The broker of a granted directory.

use super::beneath::Directory;
use super::wire::{Files, Known, Reply, Request};
use monohull_abi::Errno;
use monohull_ipc::Responder;
use monohull_ipc::request::pair;
use std::io;
use std::os::fd::OwnedFd;

/// Starts a broker. It ends when the socket that this returns is closed in every process that has it.
pub fn start(directory: Directory) -> io::Result<OwnedFd> {
    let (ours, theirs) = pair()?;
    let serve = move || {
        Responder::<Files>::new(ours).serve(|request| {
            Some(answer(&directory, request).unwrap_or_else(|errno| (Reply::Refused(errno as i32), None)))
        });
    };
    std::thread::Builder::new().name("file-broker".to_owned()).spawn(serve)?;
    Ok(theirs)
}

fn answer(directory: &Directory, request: Request<'_>) -> Result<(Reply, Option<OwnedFd>), Errno> {
    let done = |()| (Reply::Done(Known::default()), None);
    match request {
        Request::Open(path, flags) => {
            let (known, file) = directory.open_file(path, flags)?;
            Ok((Reply::Done(known), file))
        }
        Request::Stat(path) => directory.known(path).map(|known| (Reply::Done(known), None)),
        Request::List(path, start) => directory.list(path, start).map(|names| (Reply::Entries(names), None)),
        Request::MakeDirectory(path) => directory.make_directory(path).map(done),
        Request::RemoveDirectory(path) => directory.remove_directory(path).map(done),
        Request::RemoveFile(path) => directory.remove_file(path).map(done),
        Request::Rename(from, to) => directory.rename(from, to).map(done),
        Request::SetTimes { path, read, written, node } => directory.set_times(path, (read, written), node).map(done),
        Request::SyncDirectory(path) => directory.sync(path).map(done),
    }
}
