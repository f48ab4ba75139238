//! Tries the operations of its arguments on files and prints each outcome as a line: for tests of what must not work.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::durable;
use monohull_std::error::Error;
use monohull_std::fs::{self, File, FileTimes};
use monohull_std::io;
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_std::time::{Duration, SystemTime};

#[monohull::main]
fn main(tries: Vec<Vec<String>>) -> Result<(), Box<dyn Error>> {
    let mut held = Vec::new();
    for attempt in &tries {
        let words: Vec<&str> = attempt.iter().map(String::as_str).collect();
        let said = match words[..] {
            ["read", path] => shown(fs::read_to_string(path)),
            ["write", path, text] => shown(fs::write(path, text).map(|()| "written")),
            ["fill", path, bytes] => shown(fs::write(path, vec![b'x'; bytes.parse()?]).map(|()| "filled")),
            ["list", path] => shown(list(path)),
            ["size", path] => shown(fs::metadata(path).map(|known| format!("{} bytes", known.len()))),
            ["make", path] => shown(fs::create_dir(path).map(|()| "made")),
            ["remove", path] => shown(fs::remove_file(path).map(|()| "removed")),
            ["rename", from, to] => shown(fs::rename(from, to).map(|()| "renamed")),
            ["grow", path, bytes] => shown(grow(path, bytes.parse()?)),
            ["sync", path] => counted(File::open(path).and_then(|file| file.sync_all()).map(|()| 0)),
            // Reads one file until there is another: how often.
            ["until", there, path] => {
                let mut reads = 0u32;
                while !fs::exists(there)? {
                    fs::read(path)?;
                    reads += 1;
                }
                format!("{reads} times")
            }
            // Both by a descriptor that is open for reading, which is no right to change anything.
            ["age", path, seconds] => shown(age(path, seconds.parse()?)),
            ["link", from, to] => shown(fs::hard_link(from, to).map(|()| "linked")),
            // Changes below a folder again and again while another process changes what its path leads to: how often each was made.
            ["storm", beside, folder, times] => storm(beside, folder, times.parse()?),
            // A file that stays open, and what is done with it then: by its number.
            ["hold", path] => shown(File::options().read(true).write(true).open(path).map(|file| {
                held.push(file);
                "held"
            })),
            ["nap", milliseconds] => {
                thread::sleep(Duration::from_millis(milliseconds.parse()?));
                "napped".to_string()
            }
            ["let-go"] => {
                held.clear();
                "let go".to_string()
            }
            ["event", name] => shown_event(durable::event(name).wait()),
            ["event-within", name, milliseconds] => {
                shown_event(durable::event(name).timeout(Duration::from_millis(milliseconds.parse()?)).wait())
            }
            ["read-held", which] => counted(held_at(&held, which)?.read_at(&mut [0; 64], 0)),
            ["write-held", which, text] => counted(held_at(&held, which)?.write_at(text.as_bytes(), 0)),
            // Reads again and again while another process changes what the path leads to: all that was ever seen.
            ["watch", path, times] => {
                let mut seen: Vec<String> =
                    (0..times.parse::<u32>()?).map(|_| shown(fs::read_to_string(path))).collect();
                seen.sort();
                seen.dedup();
                seen.join(", ")
            }
            _ => return Err(format!("{words:?} cannot be tried").into()),
        };
        println!("{}: {said}", words.join(" "));
    }
    Ok(())
}

fn shown(result: io::Result<impl AsRef<str>>) -> String {
    match result {
        Ok(text) => text.as_ref().to_string(),
        Err(error) => format!("{:?}", error.kind()),
    }
}

fn shown_event(taken: Result<Option<Vec<u8>>, durable::EventError>) -> String {
    match taken {
        Ok(Some(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Ok(None) => "late".to_string(),
        Err(error) => error.to_string(),
    }
}

fn grow(path: &str, bytes: u64) -> io::Result<&'static str> {
    File::options().write(true).create(true).open(path)?.set_len(bytes).map(|()| "grown")
}

/// The file was read and written so many seconds after 1970.
fn age(path: &str, seconds: u64) -> io::Result<String> {
    let file = File::open(path)?;
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    file.set_times(FileTimes::new().set_accessed(time).set_modified(time))?;
    let known = fs::metadata(path)?;
    let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(format!("{} {}", seconds(known.accessed()?), seconds(known.modified()?)))
}

fn storm(beside: &str, folder: &str, times: u32) -> String {
    let mut made = [0u32; 5];
    let in_folder = |name: &str| format!("{folder}/{name}");
    for n in 0..times {
        let (new, file, outer) = (in_folder(&format!("new-{n}")), in_folder("file"), format!("{beside}/moved-{n}"));
        let results = [
            fs::write(&new, "x"),
            fs::rename(&new, in_folder(&format!("renamed-{n}"))),
            fs::create_dir(in_folder(&format!("folder-{n}"))),
            fs::write(&outer, "x").and_then(|()| fs::rename(&outer, &file)),
            fs::remove_file(&file),
        ];
        for (made, result) in made.iter_mut().zip(results) {
            *made += u32::from(result.is_ok());
        }
    }
    made.map(|count| count.to_string()).join(" ")
}

fn held_at<'f>(held: &'f [File], which: &str) -> Result<&'f File, Box<dyn Error>> {
    held.get(which.parse::<usize>()?).ok_or_else(|| format!("no file {which} is held").into())
}

/// How many bytes, or the number of the error: different ones may be of one kind.
fn counted(result: io::Result<usize>) -> String {
    match result {
        Ok(bytes) => format!("{bytes} bytes"),
        Err(error) => format!("error {}", error.raw_os_error().unwrap_or(0)),
    }
}

fn list(path: &str) -> io::Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names.join(" "))
}
