//! The broker of a granted directory.

use super::beneath::Directory;
use super::wire::{Known, MESSAGE_MAX, Reply, Request, Room, give, pair, say};
use monohull_abi::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Starts a broker. It ends when the socket that this gives is closed, by whoever has it then.
pub fn start(directory: Directory) -> io::Result<OwnedFd> {
    let (ours, theirs) = pair()?;
    std::thread::Builder::new().name("file-broker".to_owned()).spawn(move || serve(&ours, &directory))?;
    Ok(theirs)
}

/// Serves until the other end is closed, or says something that makes no sense.
fn serve(link: &OwnedFd, directory: &Directory) {
    let mut room = Room::new(MESSAGE_MAX);
    while let Ok(Some((bytes, _))) = room.hear(link) {
        let Ok(request) = postcard::from_bytes::<Request<'_>>(bytes) else { return };
        let said = match answer(directory, request) {
            Ok((reply, Some(file))) => give(link, &reply, file.as_fd()),
            Ok((reply, None)) => say(link, &reply),
            Err(errno) => say(link, &Reply::Refused(errno as i32)),
        };
        if said.is_err() {
            return;
        }
    }
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
        Request::SyncDirectory(path) => directory.sync(path).map(done),
    }
}
