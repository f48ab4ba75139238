// A walk through std::fs and std::path, printing the same lines wherever it runs. It works in the directory that the
// environment variable TOUR names, which must exist and be empty.
//
// `lib.rs` includes it as a function over monohull-std, `examples/with_std.rs` as a program over Rust's std. `visor/tests/e2e_examples/files.rs`
// compares what the two print: a program runs as a function without a change. A file that is included cannot have `//!`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use std::{env, thread};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let tour = PathBuf::from(env::var("TOUR")?);
    env::set_current_dir(&tour)?;
    println!("at the start: {:?}", names(".")?);
    whole_files()?;
    opening()?;
    positions()?;
    sizes()?;
    vectors()?;
    shared()?;
    directories()?;
    renaming()?;
    removing_what_is_open()?;
    paths(&tour)?;
    metadata()?;
    errors(&tour)?;
    threads()?;
    lines()?;
    large()?;
    println!("at the end: {:?}", names(".")?);
    Ok(())
}

/// What a failure is, by kind.
fn kind<T>(result: io::Result<T>) -> String {
    match result {
        Ok(_) => "fine".to_string(),
        Err(error) => format!("{:?}", error.kind()),
    }
}

fn names(path: impl AsRef<Path>) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = if entry.file_type()?.is_dir() { "/" } else { "" };
        names.push(format!("{}{kind}", entry.file_name().to_string_lossy()));
    }
    names.sort();
    Ok(names)
}

fn whole_files() -> Result<()> {
    fs::write("greeting", "Guten Tag, Welt")?;
    println!("whole: {:?}, {} bytes", fs::read_to_string("greeting")?, fs::read("greeting")?.len());
    fs::write("greeting", b"Hi")?;
    println!("whole: {:?} replaces it", fs::read_to_string("greeting")?);
    fs::write("empty", [])?;
    println!("whole: {:?} is empty", fs::read("empty")?);
    fs::write("binary", [0xff, 0xfe, 0])?;
    println!("whole: text of a binary: {}", kind(fs::read_to_string("binary")));
    println!("whole: copied {}", fs::copy("greeting", "copy")?);
    println!("whole: {:?} {:?}", fs::read_to_string("copy")?, names(".")?);
    for name in ["greeting", "empty", "binary", "copy"] {
        fs::remove_file(name)?;
    }
    Ok(())
}

fn opening() -> Result<()> {
    println!("open: missing: {}", kind(File::open("f")));
    println!("open: write missing: {}", kind(OpenOptions::new().write(true).open("f")));
    println!("open: nothing asked: {}", kind(OpenOptions::new().open("f")));
    println!("open: create without write: {}", kind(OpenOptions::new().read(true).create(true).truncate(false).open("f")));
    File::create_new("f")?.write_all(b"first")?;
    println!("open: create new again: {}", kind(File::create_new("f")));
    println!("open: create keeps: {}", kind(OpenOptions::new().write(true).create(true).truncate(false).open("f")));
    println!("open: still {:?}", fs::read_to_string("f")?);
    let mut append = OpenOptions::new().append(true).open("f")?;
    append.seek(SeekFrom::Start(0))?;
    append.write_all(b" and")?;
    File::options().append(true).open("f")?.write_all(b" last")?;
    append.write_all(b" behind")?;
    println!("open: appended {:?}, now at {}", fs::read_to_string("f")?, append.stream_position()?);
    println!("open: read of a writer: {}", append.read(&mut [0]).is_err());
    println!("open: write of a reader: {}", File::open("f")?.write(b"x").is_err());
    println!("open: truncate and read {:?}", {
        let mut file = OpenOptions::new().read(true).write(true).truncate(true).open("f")?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        text
    });
    println!("open: through a file: {}", kind(File::open("f/g")));
    println!("open: with a slash: {}", kind(File::open("f/")));
    println!("open: a directory to write: {}", kind(File::create(".")));
    let debug = format!("{:?}", File::open("f")?);
    println!("open: {}", &debug[..9]);
    fs::remove_file("f")?;
    Ok(())
}

fn positions() -> Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open("p")?;
    file.write_all(b"0123456789")?;
    println!("seek: {:?}", [file.seek(SeekFrom::Start(2))?, file.seek(SeekFrom::Current(3))?, file.seek(SeekFrom::End(-1))?]);
    let mut byte = [0];
    let count = file.read(&mut byte)?;
    println!("seek: {count} {byte:?}, then {}", file.read(&mut byte)?);
    println!("seek: before the start: {} {}", kind(file.seek(SeekFrom::Current(-11))), kind(file.seek(SeekFrom::End(-11))));
    println!("seek: stays at {}", file.stream_position()?);
    println!("seek: behind the end {}", file.seek(SeekFrom::Start(15))?);
    println!("seek: reads {}", file.read(&mut byte)?);
    file.write_all(b"!")?;
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    println!("seek: a hole {:?}", String::from_utf8_lossy(&bytes));
    println!("seek: exact {}", kind(file.read_exact(&mut byte)));
    fs::remove_file("p")?;
    Ok(())
}

fn sizes() -> Result<()> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open("s")?;
    (&file).write_all(b"abcdef")?;
    file.set_len(3)?;
    println!("size: {} {:?}", file.metadata()?.len(), fs::read("s")?);
    file.set_len(5)?;
    println!("size: {} {:?}", file.metadata()?.len(), fs::read("s")?);
    println!("size: position stays {}", (&file).stream_position()?);
    println!("size: of a reader: {}", File::open("s")?.set_len(0).is_err());
    file.sync_all()?;
    file.sync_data()?;
    fs::remove_file("s")?;
    Ok(())
}

fn vectors() -> Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open("v")?;
    let parts = [IoSlice::new(b"one "), IoSlice::new(b""), IoSlice::new(b"two "), IoSlice::new(b"three")];
    println!("vector: wrote {}", file.write_vectored(&parts)?);
    file.rewind()?;
    let (mut first, mut second) = ([0; 5], [0; 50]);
    let count = file.read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)])?;
    println!("vector: read {count}: {:?} {:?}", str::from_utf8(&first)?, str::from_utf8(&second[..count - 5])?);
    fs::remove_file("v")?;
    Ok(())
}

fn shared() -> Result<()> {
    fs::write("c", "abcdef")?;
    let mut file = File::open("c")?;
    let mut clone = file.try_clone()?;
    let mut two = [0; 2];
    file.read_exact(&mut two)?;
    clone.read_exact(&mut two)?;
    println!("clone: they share a position: {:?}", str::from_utf8(&two)?);
    drop(file);
    clone.read_exact(&mut two)?;
    println!("clone: and the file: {:?}", str::from_utf8(&two)?);
    let shared = Arc::new(File::open("c")?);
    let mut text = String::new();
    shared.clone().read_to_string(&mut text)?;
    println!("clone: counted {text:?}");
    fs::remove_file("c")?;
    Ok(())
}

fn directories() -> Result<()> {
    fs::create_dir("d")?;
    println!("dir: again: {}", kind(fs::create_dir("d")));
    println!("dir: parent missing: {}", kind(fs::create_dir("x/y")));
    fs::create_dir_all("d/e/f/g")?;
    println!("dir: all again: {}", kind(fs::create_dir_all("d/e/f/g")));
    println!("dir: builder: {}", kind(DirBuilder::new().recursive(true).create("d/e/h")));
    fs::write("d/file", "")?;
    println!("dir: over a file: {} {}", kind(fs::create_dir("d/file")), kind(fs::create_dir_all("d/file")));
    println!("dir: below a file: {}", kind(fs::create_dir("d/file/x")));
    println!("dir: {:?} {:?}", names("d")?, names("d/e")?);
    println!("dir: not empty: {}", kind(fs::remove_dir("d/e")));
    println!("dir: a file as one: {} {}", kind(fs::remove_dir("d/file")), kind(fs::read_dir("d/file").map(|_| ())));
    println!("dir: missing: {} {}", kind(fs::remove_dir("no")), kind(fs::read_dir("no").map(|_| ())));
    println!("dir: removing one as a file fails: {}", fs::remove_file("d/e").is_err());
    println!("dir: reading one: {}", kind(fs::read("d")));
    for index in 0..500 {
        fs::write(format!("d/e/{index:03} and a name that is not the shortest"), [index as u8])?;
    }
    let listed = names("d/e")?;
    println!("dir: {} entries, {:?} to {:?}", listed.len(), listed[0], listed[listed.len() - 1]);
    // Removing while listing hides nothing.
    let mut removed = 0;
    for entry in fs::read_dir("d/e")? {
        let entry = entry?;
        if entry.metadata()?.is_file() {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    println!("dir: {removed} removed, left {:?}", names("d/e")?);
    let entry = fs::read_dir("d/e/f")?.next().ok_or("an entry")??;
    println!("dir: {:?} {:?} {:?}", entry, entry.path(), entry.file_name());
    fs::remove_dir_all("d")?;
    println!("dir: {}", kind(fs::metadata("d")));
    println!("dir: remove all of nothing: {}", kind(fs::remove_dir_all("d")));
    Ok(())
}

fn renaming() -> Result<()> {
    fs::create_dir_all("r/full/inner")?;
    fs::create_dir("r/empty")?;
    fs::write("r/a", "a")?;
    fs::write("r/b", "b")?;
    fs::rename("r/a", "r/b")?;
    println!("rename: {:?} {:?}", fs::read_to_string("r/b")?, names("r")?);
    println!("rename: to itself: {}", kind(fs::rename("r/b", "r/b")));
    println!("rename: missing: {}", kind(fs::rename("r/a", "r/c")));
    println!("rename: into nowhere: {}", kind(fs::rename("r/b", "r/no/c")));
    println!("rename: file over directory: {}", kind(fs::rename("r/b", "r/empty")));
    println!("rename: directory over file: {}", kind(fs::rename("r/empty", "r/b")));
    println!("rename: over a full directory: {}", kind(fs::rename("r/empty", "r/full")));
    println!("rename: into itself: {}", kind(fs::rename("r/full", "r/full/inner/x")));
    println!("rename: over an empty directory: {}", kind(fs::rename("r/full", "r/empty")));
    println!("rename: {:?} {:?}", names("r")?, names("r/empty")?);
    fs::rename("r/b", "r/empty/inner/B")?;
    println!("rename: moved {:?}", fs::read_to_string("r/empty/inner/B")?);
    let open = File::open("r/empty/inner/B")?;
    fs::rename("r/empty", "r/other")?;
    println!("rename: open stays {:?} {:?}", io::read_to_string(open)?, fs::read_to_string("r/other/inner/B")?);
    fs::remove_dir_all("r")?;
    Ok(())
}

fn removing_what_is_open() -> Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open("gone")?;
    file.write_all(b"still here")?;
    fs::remove_file("gone")?;
    println!("removed: {}", kind(File::open("gone")));
    fs::write("gone", "another")?;
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    println!("removed: {text:?}, and {:?}", fs::read_to_string("gone")?);
    drop(file);
    println!("removed: {:?}", fs::read_to_string("gone")?);
    fs::remove_file("gone")?;
    Ok(())
}

fn paths(tour: &Path) -> Result<()> {
    let tour = fs::canonicalize(tour)?;
    let relative = |path: PathBuf| path.strip_prefix(&tour).map(|path| path.display().to_string());
    fs::create_dir_all("q/r")?;
    fs::write("q/f", "")?;
    println!("path: {:?}", relative(fs::canonicalize("q/./r/../f")?)?);
    println!("path: {:?}", relative(env::current_dir()?)?);
    env::set_current_dir("q")?;
    println!("path: in q {:?}, above {:?}", names(".")?, names("..")?);
    println!("path: {:?}", relative(fs::canonicalize("r")?)?);
    println!("path: absolute {:?}", relative(std::path::absolute("x/./y")?)?);
    println!("path: into a file: {}", kind(env::set_current_dir("f")));
    env::set_current_dir("..")?;
    println!("path: dots leave what is there: {} {}", kind(fs::metadata("no/..")), kind(fs::metadata("q/f/..")));
    println!("path: above the root {}", Path::new("/../../..").is_dir());
    println!("path: the shortest: {}", kind(fs::metadata("")));
    println!("path: the longest: {} {}", kind(fs::metadata("x".repeat(255))), kind(fs::metadata("x".repeat(256))));
    println!("path: longer: {}", kind(fs::metadata("./".repeat(2100))));
    println!("path: with a NUL: {}", kind(fs::metadata("a\0b")));
    println!("path: exists {} {}", Path::new("q/f").exists(), fs::exists("q/g")?);
    let parts: Vec<_> = Path::new("/a/./b/../c.d").components().collect();
    println!("path: {parts:?} {}", parts.contains(&Component::ParentDir));
    let name: &OsStr = Path::new("q/f.tar.gz").file_stem().ok_or("a stem")?;
    println!("path: {name:?} {:?}", OsString::from("q/").into_string());
    fs::remove_dir_all("q")?;
    Ok(())
}

fn metadata() -> Result<()> {
    let before = SystemTime::now();
    fs::write("m", "12345")?;
    let known = fs::metadata("m")?;
    println!("known: {} {} {} {}", known.is_file(), known.is_dir(), known.is_symlink(), known.len());
    println!("known: {:?} {}", known.file_type() == fs::metadata(".")?.file_type(), known.permissions().readonly());
    // Some file systems keep times in steps of two seconds.
    let age = known.modified()?.duration_since(before).unwrap_or_else(|error| error.duration());
    println!("known: young {}", age.as_secs() < 60);
    println!("known: {}", File::open("m")?.metadata()?.len());
    println!("known: unlinked {}", fs::symlink_metadata("m")?.len());
    println!("known: no link: {}", kind(fs::read_link("m")));
    println!("known: same rights {}", kind(fs::set_permissions("m", known.permissions())));
    fs::remove_file("m")?;
    Ok(())
}

fn errors(tour: &Path) -> Result<()> {
    let error = File::open(tour.join("missing")).err().ok_or("an error")?;
    println!("error: {:?} {:?}", error.kind(), error.raw_os_error());
    println!("error: {}", io::Error::from(io::ErrorKind::NotADirectory));
    Ok(())
}

fn threads() -> Result<()> {
    File::create("t")?.set_len(64 * 1024)?;
    thread::scope(|scope| {
        for index in 0..8u8 {
            scope.spawn(move || {
                let mut file = OpenOptions::new().write(true).open("t").expect("it is there");
                for piece in 0..8u64 {
                    file.seek(SeekFrom::Start((piece * 8 + u64::from(index)) * 1024)).expect("a position");
                    file.write_all(&[index + 1; 1024]).expect("room");
                }
            });
        }
    });
    let bytes = fs::read("t")?;
    let right = bytes.chunks(1024).enumerate().all(|(index, piece)| piece.iter().all(|byte| *byte == index as u8 % 8 + 1));
    println!("threads: each wrote its own: {right}");
    let log = OpenOptions::new().append(true).create(true).open("log")?;
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| (&log).write_all(b"a whole line\n").expect("room")));
        }
    });
    let text = fs::read_to_string("log")?;
    println!("threads: {} lines, whole {}", text.lines().count(), text.lines().all(|line| line == "a whole line"));
    fs::remove_file("t")?;
    fs::remove_file("log")?;
    Ok(())
}

fn lines() -> Result<()> {
    let mut writer = BufWriter::new(File::create("lines")?);
    for index in 0..1000 {
        writeln!(writer, "{} {}", index % 7, index * index)?;
    }
    writer.flush()?;
    let mut counts = BTreeMap::new();
    for line in BufReader::new(File::open("lines")?).lines() {
        let line = line?;
        *counts.entry(line.split(' ').next().map(str::to_string)).or_insert(0) += 1;
    }
    println!("lines: {:?}", counts.values().collect::<Vec<_>>());
    let mut reader = BufReader::with_capacity(16, File::open("lines")?);
    reader.seek(SeekFrom::Start(100))?;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    println!("lines: {line:?}");
    fs::remove_file("lines")?;
    Ok(())
}

/// Five megabytes, written in odd pieces and read in others.
fn large() -> Result<()> {
    let byte = |at: usize| (at / 251 * 7 + at % 251) as u8;
    let whole: Vec<u8> = (0..5_000_000).map(byte).collect();
    let mut file = File::create("large")?;
    for piece in whole.chunks(77_777) {
        file.write_all(piece)?;
    }
    let mut file = File::open("large")?;
    let (mut piece, mut at, mut right) = (vec![0; 65_539], 0, true);
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            break;
        }
        right &= piece[..count] == whole[at..at + count];
        at += count;
    }
    println!("large: {at} bytes, right {right}, again {}", fs::read("large")? == whole);
    OpenOptions::new().write(true).open("large")?.set_len(2_500_000)?;
    OpenOptions::new().write(true).open("large")?.set_len(4_500_000)?;
    let bytes = fs::read("large")?;
    println!("large: cut {} {}", bytes[..2_500_000] == whole[..2_500_000], bytes[2_500_000..].iter().all(|byte| *byte == 0));
    fs::remove_file("large")?;
    Ok(())
}
