//! `monohull run --watch`: runs a workflow again whenever its file or one of its images changes.
//!
//! Files are looked at several times a second; that works on every file system, and for a file that is replaced by another. Each run is a
//! process of its own, the same program with the same arguments.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::exit::Exit;
use super::output;
use super::programs::files_of;
use monohull_report::escape::shown;
use monohull_workflow as workflow;

/// From one look at the files to the next.
const PERIOD: Duration = Duration::from_millis(200);

/// Which file it is, how long, and when it was last written; nothing for a file that is not there.
type State = Option<(u64, u64, i64, i64)>;

/// Runs this program again and again, without the option `--watch`; only a signal ends it.
pub(super) fn run(workflow: &Path) -> Exit {
    loop {
        // Before the run: what changes meanwhile is a reason for another.
        let before = look(workflow);
        if let Err(error) = run_once() {
            return super::fail(Exit::Host, &format!("cannot start the run: {error}"));
        }
        output::note(format_args!("watching {} and its images", shown(workflow)));
        let changed = wait(workflow, &before);
        output::note(format_args!("\n{} has changed", shown(&changed)));
    }
}

fn run_once() -> io::Result<()> {
    // What is being changed has no template.
    const ALONE: [&str; 2] = ["--watch", "--no-template"];
    let arguments = std::env::args_os().skip(1).filter(|argument| !ALONE.iter().any(|alone| argument == alone));
    // What came of it has been said.
    Command::new("/proc/self/exe").args(arguments).arg("--no-template").status().map(drop)
}

/// Waits until a file has changed and nothing more changes: a linker may be writing an image.
fn wait(workflow: &Path, before: &BTreeMap<PathBuf, State>) -> PathBuf {
    let mut last = before.clone();
    loop {
        thread::sleep(PERIOD);
        let now = look(workflow);
        let changed = now.iter().find(|(path, state)| before.get(*path).is_some_and(|before| before != *state));
        match changed {
            Some((path, Some(_))) if now == last => return path.clone(),
            _ => last = now,
        }
    }
}

/// The workflow file, and the images and programs that it names. While it is wrong, the file alone.
fn look(workflow: &Path) -> BTreeMap<PathBuf, State> {
    let plan = workflow::check_file(workflow).ok().and_then(|checked| checked.plan);
    let images = plan.into_iter().flat_map(|plan| plan.functions).flat_map(|function| files_of(&function.image));
    [workflow.to_owned()].into_iter().chain(images).map(|path| (path.clone(), state(&path))).collect()
}

fn state(path: &Path) -> State {
    let known = fs::metadata(path).ok()?;
    Some((known.ino(), known.len(), known.mtime(), known.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_once_it_is_complete() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (file, image) = (folder.path().join("w.json"), folder.path().join("f.so"));
        let text = r#"{"name":"w","functions":{"f":{"image":"f.so"}},"steps":[{"name":"s","function":"f"}]}"#;
        fs::write(&file, text).expect("written");
        fs::write(&image, "one").expect("written");
        let before = look(&file);
        assert_eq!(before.len(), 2, "the file and its image: {before:?}");
        assert_eq!(look(&file), before);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| wait(&file, &before));
            fs::remove_file(&image).expect("removed");
            thread::sleep(2 * PERIOD);
            assert!(!waiting.is_finished(), "an image that is not there cannot run");
            fs::write(&image, "two").expect("written");
            assert_eq!(waiting.join().expect("no panic"), image);
        });
    }
}
