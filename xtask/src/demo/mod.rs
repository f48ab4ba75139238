//! What workflows are good for, shown: words counted, photos on a disk image made into a contact sheet, logs in many files analysed,
//! and one workflow that serves HTTP while another fetches from it.

mod http;
mod words;

use crate::workspace::{Workspace, root};
use crate::{Result, build, shell};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of text counted unless the caller says otherwise.
pub(crate) const DEFAULT_BYTES: u64 = 10 << 20;
/// The workflows that are shown, of `workflows/`.
const WORKFLOWS: [&str; 5] = ["word-count", "disk/photos", "log-analytics", "network/http-serve", "network/http-fetch"];
/// Lines shown of a report.
const SHOWN: usize = 12;

/// All of it, one after the other; what comes out is kept in `target/demo`.
pub(crate) fn run(files: &[PathBuf], bytes: u64) -> Result {
    build::for_workflows(&WORKFLOWS)?;
    let folder = Workspace::load()?.target().join("demo");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    words::run(files, bytes, &folder)?;
    photos(&folder)?;
    logs(&folder)?;
    http::run(&folder)
}

fn photos(folder: &Path) -> Result {
    let (sheet, metadata) = (folder.join("contact-sheet.png"), folder.join("photos.json"));
    shell::heading("A contact sheet of the photos on workflows/disk/album.img");
    let mut photos = monohull("disk/photos")?;
    photos.arg("--output").arg(slot("sheet", &sheet)).arg("--output").arg(slot("metadata", &metadata));
    shell::run(&mut photos)?;
    println!("the sheet is {}, what the photos are {}", sheet.display(), metadata.display());
    Ok(())
}

fn logs(folder: &Path) -> Result {
    let report = folder.join("log-report");
    shell::heading("What web logs in 24 files say");
    shell::run(monohull("log-analytics")?.arg("--output").arg(slot("report", &report)))?;
    let text = fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
    text.lines().take(SHOWN).for_each(|line| println!("{line}"));
    Ok(())
}

/// `monohull run workflows/NAME.json`
fn monohull(name: &str) -> Result<Command> {
    let mut monohull = Command::new(Workspace::load()?.target().join("release/monohull"));
    monohull.current_dir(root()).arg("run").arg(format!("workflows/{name}.json"));
    Ok(monohull)
}

/// `SLOT=PATH`.
fn slot(name: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(format!("{name}="));
    argument.push(path);
    argument
}
