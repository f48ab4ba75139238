//! Counts the words of real texts: `workflows/word-count.json` on at least ten megabytes.

use super::{monohull, slot};
use crate::workspace::root;
use crate::{Result, shell};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Words shown.
const SHOWN: usize = 10;

/// Gathers the text, runs the workflow, shows the most frequent words. The run's own table goes through.
pub(super) fn run(files: &[PathBuf], bytes: u64, folder: &Path) -> Result {
    let (text, counts) = (folder.join("text"), folder.join("counts"));
    let sources = if files.is_empty() { common_texts() } else { files.to_vec() };
    let repeated = gather(&sources, bytes, &text)?;

    let size = fs::metadata(&text).map_err(|error| format!("{}: {error}", text.display()))?.len();
    let (files, times) = (sources.len(), if repeated == 1 { "once" } else { "repeatedly" });
    shell::heading(&format!("Counting the words of {files} files, {times}: {:.1} MB", size as f64 / 1e6));
    let mut count = monohull("word-count")?;
    shell::run(count.arg("--input").arg(slot("text", &text)).arg("--output").arg(slot("counts", &counts)))?;

    let counts = fs::read(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;
    let lines = || counts.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    shell::heading(&format!("The {SHOWN} most frequent of {} words", lines().count()));
    for line in lines().take(SHOWN) {
        let line = String::from_utf8_lossy(line);
        let (count, word) = line.split_once(' ').unwrap_or((&line, ""));
        println!("{count:>10}  {word}");
    }
    Ok(())
}

/// Writes all files one after the other, again and again until there are at least `bytes`; returns how many times.
fn gather(files: &[PathBuf], bytes: u64, to: &Path) -> Result<u64> {
    let mut once = Vec::new();
    for file in files {
        let text = fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        once.extend_from_slice(&text);
        once.push(b'\n');
    }
    if once.is_empty() {
        return Err("there is no text to count".into());
    }
    let times = bytes.div_ceil(once.len() as u64).max(1);
    let write = || {
        let mut out = fs::File::create(to)?;
        (0..times).try_for_each(|_| out.write_all(&once))
    };
    write().map_err(|error| format!("cannot write {}: {error}", to.display()))?;
    Ok(times)
}

/// Texts that every Debian or Ubuntu machine has, and this repository's own sources. Bounded, so that a machine with
/// much documentation does not make the demonstration slow.
fn common_texts() -> Vec<PathBuf> {
    const MOST_COPYRIGHTS: usize = 1000;
    let mut files = files_below(Path::new("/usr/share/common-licenses"), 1, &|_| true);
    let mut copyrights = files_below(Path::new("/usr/share/doc"), 2, &|path| path.ends_with("copyright"));
    copyrights.truncate(MOST_COPYRIGHTS);
    files.extend(copyrights);
    let source = |path: &Path| matches!(path.extension().and_then(|e| e.to_str()), Some("rs" | "md" | "toml" | "json"));
    files.extend(files_below(root(), 8, &source));
    files
}

/// Readable regular files (links followed to files, not to folders), sorted; folders that are hidden or build outputs
/// are passed over, and so is what cannot be read.
fn files_below(folder: &Path, depth: usize, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.') || name == "target");
        if hidden {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            if depth > 1 {
                files.extend(files_below(&path, depth - 1, wanted));
            }
        } else if wanted(&path) && fs::File::open(&path).and_then(|f| f.metadata()).is_ok_and(|m| m.is_file()) {
            files.push(path);
        }
    }
    files
}
