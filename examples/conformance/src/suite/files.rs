//! `std::fs`, in the folder that the environment variable `FOLDER` names, which is empty.

use super::check;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::prelude::*;
use std::io::{BufReader, BufWriter, ErrorKind, SeekFrom};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use std::{env, io};

fn kind<T>(result: io::Result<T>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind())
}

/// The names in a folder, sorted; folders end with a slash.
fn names(folder: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let end = if entry.file_type()?.is_dir() { "/" } else { "" };
        names.push(format!("{}{end}", entry.file_name().to_string_lossy()));
    }
    names.sort();
    Ok(names)
}

pub(super) fn all() {
    let folder = env::var("FOLDER").unwrap_or_default();
    check!(
        "set_current_dir",
        (
            kind(env::set_current_dir(&folder)),
            env::current_dir().is_ok_and(|here| here == Path::new(&folder)),
            kind(names("."))
        )
    );
    whole();
    opening();
    positions();
    folders();
    moving();
    failing();
}

fn whole() {
    check!(
        "write_and_read",
        (kind(fs::write("note", "grüße\n")), kind(fs::read_to_string("note")), kind(fs::read("note")).map(|b| b.len()))
    );
    check!("write_replaces", (kind(fs::write("note", "x")), kind(fs::read("note"))));
    check!("copy", (kind(fs::copy("note", "copy")), kind(fs::read("copy"))));
    check!(
        "copy_replaces",
        (kind(fs::write("note", "longer")), kind(fs::copy("note", "copy")), kind(fs::read_to_string("copy")))
    );
    check!(
        "metadata",
        kind(fs::metadata("copy")).map(|m| (m.len(), m.is_file(), m.is_dir(), m.is_symlink(), m.modified().is_ok()))
    );
    check!(
        "exists",
        (fs::exists("copy").ok(), fs::exists("nothing").ok(), Path::new("copy").exists(), Path::new(".").is_dir())
    );
    check!("not_text", {
        let _ = fs::write("raw", b"\xff\xfe");
        (kind(fs::read_to_string("raw")), kind(fs::remove_file("raw")))
    });
    check!("set_times", {
        let time = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let file = OpenOptions::new().write(true).open("copy");
        let times = FileTimes::new().set_accessed(time(1_000_000_000)).set_modified(time(1_000_000_002));
        let set = file.and_then(|file| file.set_times(times));
        let known = fs::metadata("copy");
        let found =
            known.and_then(|m| Ok((m.accessed()? == time(1_000_000_000), m.modified()? == time(1_000_000_002))));
        (kind(set), kind(found))
    });
    check!("set_modified_leaves_the_rest", {
        let time = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let set = File::open("copy").and_then(|file| file.set_modified(time(1_100_000_000)));
        let known = fs::metadata("copy");
        let found =
            known.and_then(|m| Ok((m.accessed()? == time(1_000_000_000), m.modified()? == time(1_100_000_000))));
        (kind(set), kind(found))
    });
    check!("written_after_it_was_set", {
        let written = OpenOptions::new().write(true).open("copy").and_then(|mut file| file.write(b"x"));
        let known =
            fs::metadata("copy").and_then(|m| Ok(m.modified()? > UNIX_EPOCH + Duration::from_secs(1_700_000_000)));
        (kind(written), kind(known))
    });
    check!("remove_file", (kind(fs::remove_file("copy")), kind(fs::remove_file("copy")), kind(names("."))));
}

fn opening() {
    let options = OpenOptions::new;
    check!("create_new", (kind(File::create_new("fresh").map(drop)), kind(File::create_new("fresh").map(drop))));
    check!("append", {
        let file = options().append(true).open("note");
        let written = file.and_then(|mut f| f.write(b"!").map(drop));
        (kind(written), kind(fs::read_to_string("note")))
    });
    check!("create_truncates", {
        let _ = File::create("note");
        kind(fs::metadata("note")).map(|m| m.len())
    });
    check!("without_any_right", kind(options().open("note").map(drop)));
    check!("truncate_without_write", kind(options().read(true).truncate(true).open("note").map(drop)));
    check!(
        "reading_what_was_opened_to_write",
        options().write(true).open("note").map(|mut f| f.read(&mut [0; 4]).is_err()).ok()
    );
    check!("writing_what_was_opened_to_read", File::open("note").map(|mut f| f.write(b"x").is_err()).ok());
    check!(
        "opening_nothing",
        (kind(File::open("nothing").map(drop)), kind(options().write(true).open("nothing").map(drop)))
    );
}

fn positions() {
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(true).open("places");
    let Ok(mut file) = open() else { return check!("open", "refused") };
    check!(
        "write_and_seek",
        (
            file.write(b"0123456789").ok(),
            file.seek(SeekFrom::Start(3)).ok(),
            file.seek(SeekFrom::Current(-1)).ok(),
            file.seek(SeekFrom::End(-4)).ok(),
            file.stream_position().ok()
        )
    );
    check!("read_on", {
        let mut three = [0; 3];
        (file.read(&mut three).ok(), three, file.read(&mut three).ok(), file.read(&mut three).ok())
    });
    check!("seek_before_the_start", (kind(file.seek(SeekFrom::Current(-20))), file.stream_position().ok()));
    check!(
        "write_past_the_end",
        (file.seek(SeekFrom::Start(12)).ok(), file.write(b"x").ok(), kind(fs::read("places")))
    );
    check!(
        "set_len",
        (kind(file.set_len(4)), kind(fs::read_to_string("places")), kind(file.set_len(6)), kind(fs::read("places")))
    );
    check!("try_clone_shares_the_position", {
        let _ = file.rewind();
        let second = file.try_clone();
        let mut one = [0];
        (second.and_then(|mut s| s.seek(SeekFrom::Start(2))).ok(), file.read(&mut one).ok(), one)
    });
    check!("by_reference", {
        let shared = &file;
        let mut reader = shared;
        let _ = reader.rewind();
        let mut text = String::new();
        (reader.take(3).read_to_string(&mut text).ok(), text)
    });
    check!("sync", (kind(file.sync_all()), kind(file.sync_data()), kind(file.metadata()).map(|m| m.len())));
    check!("buffers", {
        let writer = File::create("lines").map(BufWriter::new);
        let written = writer.and_then(|mut w| {
            (0..1000).try_for_each(|n| writeln!(w, "line {n}"))?;
            w.flush()
        });
        let lines = File::open("lines")
            .map(|f| BufReader::new(f).lines().map_while(Result::ok).filter(|l| l.ends_with('7')).count());
        (kind(written), kind(lines))
    });
    check!("io_copy", {
        let read = File::open("lines");
        let write = File::create("again");
        match (read, write) {
            (Ok(mut r), Ok(mut w)) => kind(io::copy(&mut r, &mut w)),
            _ => Ok(0),
        }
    });
    check!("cleaned_up", ["places", "lines", "again", "fresh", "note"].map(|name| kind(fs::remove_file(name))));
}

fn folders() {
    check!("create_dir", (kind(fs::create_dir("a")), kind(fs::create_dir("a")), kind(fs::create_dir("b/c"))));
    check!("create_dir_all", (kind(fs::create_dir_all("b/c/d")), kind(fs::create_dir_all("b/c/d")), kind(names("b"))));
    check!(
        "files_in_folders",
        (kind(fs::write("b/c/file", "1")), kind(names("b/c")), kind(fs::read_to_string("./b/../b/c/file")))
    );
    check!("remove_dir", (kind(fs::remove_dir("b")), kind(fs::remove_dir("a")), kind(fs::remove_dir("a"))));
    check!(
        "folder_as_file",
        (
            kind(fs::read("b")),
            kind(fs::write("b", "")),
            fs::remove_file("b").is_err(),
            kind(File::create("b").map(drop))
        )
    );
    check!(
        "file_as_folder",
        (
            kind(fs::read("b/c/file/x")),
            kind(names("b/c/file")),
            kind(fs::create_dir("b/c/file/x")),
            kind(fs::remove_dir("b/c/file"))
        )
    );
    check!(
        "entries",
        fs::read_dir("b/c")
            .map(|entries| {
                let mut all: Vec<_> = entries
                    .flatten()
                    .map(|e| (e.path(), e.metadata().map(|m| m.len() * u64::from(m.is_file())).ok()))
                    .collect();
                all.sort();
                all
            })
            .ok()
    );
    check!("remove_dir_all", (kind(fs::remove_dir_all("b")), kind(fs::remove_dir_all("b")), kind(names("."))));
}

fn moving() {
    let _ = (fs::write("one", "1"), fs::write("two", "2"), fs::create_dir("folder"));
    check!("rename", (kind(fs::rename("one", "three")), kind(fs::rename("one", "four")), kind(fs::read("three"))));
    check!("rename_replaces", (kind(fs::rename("three", "two")), kind(fs::read("two")), kind(names("."))));
    check!("rename_into_a_folder", (kind(fs::rename("two", "folder/two")), kind(names("folder"))));
    check!("rename_a_folder", (kind(fs::rename("folder", "moved")), kind(names("moved"))));
    check!("rename_into_itself", kind(fs::rename("moved", "moved/inside")));
    check!(
        "rename_onto_a_full_folder",
        (
            kind(fs::create_dir("empty")),
            kind(fs::rename("empty", "moved")),
            kind(fs::rename("moved", "empty")),
            kind(names("empty"))
        )
    );
    check!("what_is_open_outlives_its_name", {
        let file = File::open("empty/two");
        let removed = fs::remove_dir_all("empty");
        (kind(removed), kind(file.and_then(io::read_to_string)), kind(names(".")))
    });
}

fn failing() {
    check!("names_that_cannot_be", (kind(fs::read("")), kind(fs::read("a\0b")), kind(fs::write("x".repeat(300), ""))));
    check!("ends_of_paths", (kind(fs::read("no/such/folder")), kind(fs::create_dir(".")), kind(fs::remove_file("."))));
    check!("canonicalize", (kind(fs::canonicalize("nothing")), fs::canonicalize(".").ok() == env::current_dir().ok()));
}
