//! Output files: what is replaced, what is written in place, and what is refused.

use super::*;
use nix::unistd::{Gid, Uid};
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_made_and_replaced_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    // One that was killed before it could rename has left this.
    fs::write(folder.path().join(".out.monohull-part"), "half").expect("written");
    for text in ["first", "second"] {
        write_whole(&path, |file| file.write_all(text.as_bytes())).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), text);
    }
    assert_eq!(names(folder.path()), ["out"]);
    // As other programs make theirs.
    let other = folder.path().join("other");
    File::create(&other).expect("made");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode();
    assert_eq!(mode(&path), mode(&other));
}

#[test]
fn a_staged_file_has_its_name_when_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    let staged = |text: &'static str| stage(&path, move |file| file.write_all(text.as_bytes())).expect("written");
    drop(staged("nothing is left of it"));
    assert!(names(folder.path()).is_empty());
    let (first, second) = (staged("first"), staged("second"));
    assert!(names(folder.path()).is_empty());
    first.publish().expect("named");
    assert_eq!(fs::read_to_string(&path).expect("read"), "first");
    second.publish().expect("named");
    assert_eq!(
        (fs::read_to_string(&path).expect("read"), names(folder.path())),
        ("second".to_owned(), vec!["out".to_owned()])
    );
    // What has become of the name since then.
    let late = staged("late");
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("made");
    assert!(late.publish().expect_err("it is a folder").contains("out cannot be written"));
    stage(&folder.path().join("missing/out"), |_| Ok(())).expect_err("no folder");
}

#[test]
fn what_cannot_be_written_leaves_the_old_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    fs::write(&path, "old").expect("written");
    let error = write_whole(&path, |file| {
        file.write_all(b"ne")?;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert!(error.expect_err("an error").contains("out cannot be written: no storage space"), "the path and why");
    assert_eq!(fs::read_to_string(&path).expect("read"), "old");
    assert_eq!(names(folder.path()), ["out"]);
    let missing = write_whole(&folder.path().join("missing/out"), |_| Ok(()));
    assert!(missing.expect_err("an error").contains("missing/out cannot be written: No such file"));
    let of_a_folder = write_whole(folder.path(), |_| Ok(()));
    assert!(of_a_folder.expect_err("an error").contains("cannot be written"));
}

/// Does something as a user without rights to others' files. The rights of other threads stay what they are.
fn unprivileged(act: impl FnOnce() + Send) {
    let other = |number| if nix::unistd::geteuid().is_root() { 65_534 } else { number };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            nix::unistd::setfsgid(Gid::from_raw(other(nix::unistd::getegid().as_raw())));
            nix::unistd::setfsuid(Uid::from_raw(other(nix::unistd::geteuid().as_raw())));
            act();
        });
    });
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").mode() & 0o7777
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("real")).expect("a folder");
    fs::write(at("real/out"), "old").expect("written");
    symlink("real/out", at("link")).expect("a link");
    symlink(at("link"), at("second")).expect("a link");
    symlink("real/new", at("dangling")).expect("a link");
    symlink("loop", at("loop")).expect("a link");
    for (name, real) in [("link", "real/out"), ("second", "real/out"), ("dangling", "real/new")] {
        check(&at(name)).expect("it can be written");
        write_whole(&at(name), |file| file.write_all(name.as_bytes())).expect("written");
        assert!(fs::symlink_metadata(at(name)).expect("there").is_symlink(), "{name}");
        assert_eq!(fs::read_to_string(at(real)).expect("read"), name);
    }
    assert_eq!(names(folder.path()), ["dangling", "link", "loop", "real", "second"]);
    assert_eq!(names(&at("real")), ["new", "out"]);
    for act in [check(&at("loop")), write_whole(&at("loop"), |_| Ok(()))] {
        assert!(act.expect_err("a loop").contains("Too many levels of symbolic links"));
    }
}

#[test]
fn a_link_of_another_user_is_not_followed_in_a_shared_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, "old").expect("written");
    symlink(&file, &link).expect("a link");
    set_mode(folder.path(), 0o1777);
    check(&link).expect("it is this user's own");
    // Only root can give a link away.
    if geteuid().is_root() {
        std::os::unix::fs::lchown(&link, Some(65_534), None).expect("another owner");
        for act in [check(&link), write_whole(&link, |file| file.write_all(b"new"))] {
            assert!(act.expect_err("refused").contains("link cannot be written: Permission denied"));
        }
        assert_eq!(fs::read_to_string(&file).expect("read"), "old");
        set_mode(folder.path(), 0o755);
        check(&link).expect("others could not have put it there");
    }
}

#[test]
fn a_link_of_another_user_is_not_followed_as_a_part_of_a_path_either() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("real")).expect("a folder");
    fs::create_dir(at("shared")).expect("a folder");
    symlink("../real", at("shared/link")).expect("a link");
    symlink(at("shared/link/../real"), at("way")).expect("a link");
    set_mode(&at("shared"), 0o1777);
    for way in ["shared/link/out", "way/out", "shared/../way/./out"] {
        check(&at(way)).expect(way);
        write_whole(&at(way), |file| file.write_all(way.as_bytes())).expect(way);
        assert_eq!(fs::read_to_string(at("real/out")).expect("read"), way);
    }
    if geteuid().is_root() {
        std::os::unix::fs::lchown(at("shared/link"), Some(65_534), None).expect("another owner");
        for way in ["shared/link/out", "way/out"] {
            for act in [check(&at(way)), write_whole(&at(way), |file| file.write_all(b"new"))] {
                assert!(act.expect_err("refused").contains("out cannot be written: Permission denied"));
            }
        }
    }
    symlink("loop", at("loop")).expect("a link");
    let error = check(&at("loop/out")).expect_err("a loop");
    assert!(error.contains("Too many levels of symbolic links"), "{error}");
}

/// Their owner would read what is written there.
#[test]
fn a_file_or_pipe_of_another_user_is_not_written_in_a_shared_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
    fs::write(&file, "old").expect("written");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o666)).expect("a pipe");
    set_mode(&file, 0o666);
    set_mode(folder.path(), 0o1777);
    check(&file).expect("it is this user's own");
    check(&pipe).expect("it is this user's own");
    // Only root can give a file away.
    if geteuid().is_root() {
        for path in [&file, &pipe] {
            std::os::unix::fs::chown(path, Some(65_534), None).expect("another owner");
            for act in [check(path), write_whole(path, |file| file.write_all(b"new"))] {
                assert!(act.expect_err("refused").contains("cannot be written: Permission denied"));
            }
        }
        open_in_place(&file).expect_err("it is looked at again");
        assert_eq!(fs::read_to_string(&file).expect("read"), "old");
        set_mode(folder.path(), 0o755);
        write_whole(&file, |file| file.write_all(b"new")).expect("others could not have put it there");
        assert_eq!(fs::read_to_string(&file).expect("read"), "new");
    }
}

#[test]
fn a_file_with_an_access_control_list_keeps_it() {
    use rustix::fs::{XattrFlags, lgetxattr, setxattr};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    fs::write(&path, "the old content").expect("written");
    // Version 2: the owner, user 65534, the group, the mask and the others.
    let mut list = vec![2, 0, 0, 0];
    for (kind, rights, id) in [(1, 6, u32::MAX), (2, 6, 65_534), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend([kind, 0, rights, 0]);
        list.extend(id.to_le_bytes());
    }
    if setxattr(&path, ACCESS_LIST, &list, XattrFlags::empty()).is_err() {
        // This file system has none.
        return;
    }
    write_whole(&path, |file| file.write_all(b"new")).expect("written");
    let mut kept = [0; 64];
    let len = lgetxattr(&path, ACCESS_LIST, &mut kept).expect("it is there");
    assert_eq!((fs::read_to_string(&path).expect("read"), &kept[..len]), ("new".to_owned(), &list[..]));
    assert_eq!(names(folder.path()), ["out"]);
}

/// A name in `/proc` leads to an open file. If that were replaced, what has it open would write to a file without a name.
#[test]
fn an_open_file_is_written_and_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("open"), "before ").expect("written");
    let mut open = File::options().append(true).open(at("open")).expect("a file");
    let inode = open.metadata().expect("there").ino();
    let descriptor = PathBuf::from(format!("{DESCRIPTORS}/{}", open.as_raw_fd()));
    // As /dev/stdout is one.
    symlink(&descriptor, at("link")).expect("a link");
    for path in [descriptor, at("link")] {
        assert!(is_direct(&path));
        check(&path).expect("it can be written");
        write_whole(&path, |file| file.write_all(b"output ")).expect("written");
    }
    open.write_all(b"after").expect("written");
    assert_eq!(fs::metadata(at("open")).expect("there").ino(), inode);
    assert_eq!(fs::read_to_string(at("open")).expect("read"), "before output output after");
    assert_eq!(names(folder.path()), ["link", "open"]);
}

#[test]
fn the_new_file_has_the_rights_of_the_old_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    fs::write(&path, "old").expect("written");
    let root = nix::unistd::geteuid().is_root();
    if root {
        std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).expect("another owner");
    }
    let owner = |path: &Path| fs::metadata(path).map(|file| (file.uid(), file.gid())).expect("there");
    let before = owner(&path);
    for rights in [0o600, 0o666, 0o755] {
        set_mode(&path, rights);
        write_whole(&path, |file| file.write_all(b"new")).expect("written");
        assert_eq!((mode(&path), owner(&path)), (rights, before));
    }
}

#[test]
fn a_file_that_may_not_be_written_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    set_mode(folder.path(), 0o777);
    let path = folder.path().join("out");
    fs::write(&path, "old").expect("written");
    if geteuid().is_root() {
        // Its owner could replace it.
        std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).expect("another owner");
    }
    set_mode(&path, 0o444);
    unprivileged(|| {
        for act in [check(&path), write_whole(&path, |file| file.write_all(b"new"))] {
            assert!(act.expect_err("refused").contains("out cannot be written: Permission denied"));
        }
    });
    assert_eq!((fs::read_to_string(&path).expect("read"), mode(&path)), ("old".to_owned(), 0o444));
}

#[test]
fn where_a_file_cannot_be_replaced_it_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    // A folder that may not be written, and one where the files of others may not be removed.
    for folder_mode in [0o555, 0o1777] {
        fs::write(&path, "the old content").expect("written");
        set_mode(&path, 0o666);
        set_mode(folder.path(), folder_mode);
        let inode = fs::metadata(&path).expect("there").ino();
        unprivileged(|| {
            check(&path).expect("it can be written");
            write_whole(&path, |file| file.write_all(b"new")).expect("written");
            if folder_mode == 0o555 {
                let beside = check(&folder.path().join("other"));
                assert!(beside.expect_err("refused").contains("other cannot be written: Permission denied"));
            }
        });
        set_mode(folder.path(), 0o755);
        assert_eq!(fs::read_to_string(&path).expect("read"), "new");
        if folder_mode == 0o555 || nix::unistd::geteuid().is_root() {
            assert_eq!(fs::metadata(&path).expect("there").ino(), inode);
        }
        assert_eq!(names(folder.path()), ["out"]);
    }
}

#[test]
fn what_cannot_be_a_file_is_told_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "").expect("written");
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
    for (name, why) in [
        ("missing/out", "No such file"),
        ("file/out", "Not a directory"),
        ("new/", "not a directory"),
        (".", "is a directory"),
        ("..", "is a directory"),
        ("socket", "it is a socket"),
    ] {
        let error = check(&at(name)).expect_err(name);
        assert!(error.to_lowercase().contains(&why.to_lowercase()), "{error}");
    }
    for name in ["new", "file"] {
        check(&at(name)).expect(name);
    }
    check(Path::new("/dev/null")).expect("a device");
    assert_eq!(names(folder.path()), ["file", "socket"]);
}

#[test]
fn writers_of_one_file_take_turns() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    std::thread::scope(|scope| {
        for letter in ["a", "b", "c", "d"] {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..50 {
                    let text = letter.repeat(9_000);
                    write_whole(path, |file| file.write_all(text.as_bytes())).expect("written");
                }
            });
        }
    });
    let text = fs::read_to_string(&path).expect("read");
    assert!(text.len() == 9_000 && text.bytes().all(|byte| byte == text.as_bytes()[0]), "one of them, whole");
    assert_eq!(names(folder.path()), ["out"]);
}
