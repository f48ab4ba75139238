//! A folder of files for disk images.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Files of all sizes and names. Each has a modification time of its own, which FAT can represent.
pub(crate) fn fill(folder: &Path) {
    let byte = |name: &str, at: usize| (at * 31 + at / 253 + name.len()) as u8;
    let many = (0..60).map(|number| (format!("many/one of many files, number {number}"), 100 + number));
    let some = [
        ("empty", 0),
        ("ONE.TXT", 1),
        ("one sector", 512),
        ("one more.than that", 513),
        ("deep/er/and deeper/file", 5000),
        ("deep/large", 300_000),
        ("ä ö ü/名前.txt", 4096),
        ("with.many.dots.in it", 77),
        ("x/a", 10),
        ("x/a~1", 11),
    ];
    let some = some.into_iter().map(|(name, size)| (name.to_owned(), size));
    for (number, (name, size)) in some.chain(many).enumerate() {
        let path = folder.join(&name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, (0..size).map(|at| byte(&name, at)).collect::<Vec<u8>>()).expect("a file");
        // From a leap day on, in steps of some hours and an even number of seconds.
        let changed = UNIX_EPOCH + Duration::from_secs(1_582_980_896 + 50_002 * number as u64);
        File::options().write(true).open(&path).and_then(|file| file.set_modified(changed)).expect("a file");
    }
}
