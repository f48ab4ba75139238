//! Tries what it is told on files and says what came of each try, a line each: for tests of what must not work.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::error::Error;
use monohull_std::fs;
use monohull_std::io;
use monohull_std::prelude::*;

#[monohull::main]
fn main(tries: Vec<Vec<String>>) -> Result<(), Box<dyn Error>> {
    for attempt in &tries {
        let words: Vec<&str> = attempt.iter().map(String::as_str).collect();
        let said = match words[..] {
            ["read", path] => told(fs::read_to_string(path)),
            ["write", path, text] => told(fs::write(path, text).map(|()| "written")),
            ["fill", path, bytes] => told(fs::write(path, vec![b'x'; bytes.parse()?]).map(|()| "filled")),
            ["list", path] => told(list(path)),
            ["size", path] => told(fs::metadata(path).map(|known| format!("{} bytes", known.len()))),
            ["make", path] => told(fs::create_dir(path).map(|()| "made")),
            ["remove", path] => told(fs::remove_file(path).map(|()| "removed")),
            ["rename", from, to] => told(fs::rename(from, to).map(|()| "renamed")),
            // Reads again and again while somebody changes what the path leads to: all that was ever seen.
            ["watch", path, times] => {
                let mut seen: Vec<String> =
                    (0..times.parse::<u32>()?).map(|_| told(fs::read_to_string(path))).collect();
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

fn told(result: io::Result<impl AsRef<str>>) -> String {
    match result {
        Ok(text) => text.as_ref().to_string(),
        Err(error) => format!("{:?}", error.kind()),
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
