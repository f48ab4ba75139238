//! What came of a run.

use std::fs;
use std::path::Path;

/// What came of a run, or of one case of it.
#[derive(Clone, Default)]
pub(super) struct Outcome {
    /// Standard output.
    pub(super) output: Vec<String>,
    /// Standard error; of a run with several cases it belongs to none.
    pub(super) errors: Vec<String>,
    /// How it ended.
    pub(super) end: String,
    /// The files beneath its directory, as the host sees them.
    pub(super) files: Vec<String>,
}

impl Outcome {
    /// What one case is about: its lines, its files, and the end, which is the last case's if there was another than that of a program that returns.
    /// A case that the run has not come to is an error, and so is one that the program does not understand: both would be equal in any two runtimes.
    pub(super) fn of_case(&self, name: &str, folder: &Path, is_alone: bool) -> Result<Outcome, String> {
        let head = format!("== {name}");
        let is_head = |line: &&String| line.starts_with("== ");
        let Some(start) = self.output.iter().position(|line| *line == head) else {
            return Err(format!("not reached: the run has ended with {}", self.end));
        };
        let lines = self.output[start + 1..].iter();
        let is_last = !lines.clone().any(|line| is_head(&line));
        let outcome = Outcome {
            output: lines.take_while(|line| !is_head(line)).cloned().collect(),
            errors: if is_alone { self.errors.clone() } else { Vec::new() },
            end: if is_last { self.end.clone() } else { RETURNED.to_owned() },
            files: files_beneath(&folder.join("root").join(name)),
        };
        match outcome.output.iter().find(|line| line.starts_with(WRONG)) {
            Some(line) => Err(line.clone()),
            None => Ok(outcome),
        }
    }

    /// All of it as lines.
    pub(super) fn lines(&self, with_files: bool) -> Vec<String> {
        let mut lines = self.output.clone();
        // A line that was not finished.
        lines.truncate(lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1));
        lines.extend(self.errors.iter().map(|line| format!("standard error: {line}")));
        lines.push(format!("ended: {}", self.end));
        if with_files {
            lines.extend(self.files.iter().map(|file| format!("left on the host: {file}")));
        }
        lines
    }
}

/// What the program says of a line that it does not understand, before it ends.
const WRONG: &str = "wrong script: ";
/// The end of a program that returns.
pub(super) const RETURNED: &str = "status 0";

/// A trap by its name, without the place. What else a runtime ends a program for is `trap` alone: it has no name that both know.
pub(super) fn trap(message: &str) -> String {
    // A report has it as a text of Rust's, in one line.
    let name = message.split_once("wasm trap: ").and_then(|(_, rest)| rest.split(['\n', '\\', '"']).next());
    name.map_or("trap".to_owned(), |name| format!("trap: {}", name.trim()))
}

/// Files and directories with what is in them, in the order of their names.
fn files_beneath(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    walk(folder, "", &mut found);
    found
}

fn walk(folder: &Path, shown: &str, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return found.push(format!("{shown}: no directory")) };
    let mut entries: Vec<_> = entries.map(|entry| entry.expect("an entry")).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        let name = format!("{shown}{}", entry.file_name().display());
        if kind.is_dir() {
            found.push(format!("{name}/"));
            walk(&path, &format!("{name}/"), found);
        } else if kind.is_symlink() {
            found.push(format!("{name} -> {}", fs::read_link(&path).expect("a link").display()));
        } else {
            let bytes = fs::read(&path).expect("a file");
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
            let sum = bytes.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
            found.push(format!("{name} {start:?} {} bytes, {sum:016x}", bytes.len()));
        }
    }
}

/// The first lines that differ; of what has no more lines, an empty one.
pub(super) fn first_difference<'a>(ours: &'a [String], theirs: &'a [String]) -> Option<(&'a str, &'a str)> {
    let line = |lines: &'a [String], at: usize| lines.get(at).map_or("", String::as_str);
    let all = 0..ours.len().max(theirs.len());
    all.map(|at| (line(ours, at), line(theirs, at))).find(|(ours, theirs)| ours != theirs)
}
