//! `monohull image`: makes disk images and looks into them.

use super::output::{self, Data};
use super::{Exit, concat_help, refuse};
use crate::disk::{Disk, DiskError, needed};
use clap::{Args, Subcommand};
use monohull_fat::check::Report;
use monohull_fat::{Entry, Kind};
use monohull_report::escape::{Line, json_path, shown};
use monohull_workflow::units;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Make and read disk images
#[derive(Debug, Args)]
#[command(after_help = concat_help!(
    "monohull image create photos.img --from photos/",
    "monohull image cp photos.img:/index.html .",
    "monohull image check photos.img"
))]
pub(super) struct Image {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make an image, empty or with a directory's files
    #[command(
        override_usage = "monohull image create [--from <DIRECTORY>] [--size <SIZE>] [--force] <IMAGE>, with --from, --size or both",
        after_help = concat_help!("monohull image create photos.img --from photos/ --size 256MiB")
    )]
    Create {
        /// The image to make
        #[arg(value_name = "IMAGE")]
        image: PathBuf,
        /// Copy everything in this directory
        #[arg(long, value_name = "DIRECTORY")]
        from: Option<PathBuf>,
        /// Size of the image, such as 64MiB; without it, what the directory needs
        #[arg(long, value_parser = parse_size, required_unless_present = "from")]
        size: Option<u64>,
        /// Replace a file that is there
        #[arg(long)]
        force: bool,
    },
    /// List a directory of an image
    #[command(after_help = concat_help!("monohull image ls photos.img /2026"))]
    Ls {
        /// The image
        image: PathBuf,
        /// The directory
        #[arg(default_value = "/")]
        path: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Print a file of an image
    #[command(after_help = concat_help!("monohull image cat photos.img /index.html"))]
    Cat {
        /// The image
        image: PathBuf,
        /// The file
        path: String,
        /// Print to a terminal as it is; without it control characters are escaped there, and only there
        #[arg(long)]
        raw: bool,
    },
    /// Copy a file or a whole directory into an image or out of it
    #[command(after_help = concat_help!("monohull image cp notes.txt photos.img:/notes.txt"))]
    Cp {
        /// A path, or IMAGE:/PATH
        from: String,
        /// A path, or IMAGE:/PATH
        to: String,
    },
    /// Check an image for damage
    #[command(after_help = CHECK_HELP)]
    Check {
        /// The image
        image: PathBuf,
        /// Repair what is found; every file keeps what can be read of it
        #[arg(long)]
        repair: bool,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

/// An example, and exit codes that never change their meaning.
const CHECK_HELP: &str = "\
Example:
  monohull image check photos.img

Exit codes:
  0  the image is as it should be, or has been put right
  1  something is not as it should be
  2  the invocation is wrong, the file is no image, or the output cannot be written";

impl Image {
    pub(super) fn run(&self) -> u8 {
        let done = match &self.verb {
            Verb::Create { image, from, size, force } => create(image, from.as_deref(), *size, *force),
            Verb::Ls { image, path, json } => list(image, path, *json),
            Verb::Cat { image, path, raw } => cat(image, path, *raw),
            Verb::Cp { from, to } => copy(from, to),
            Verb::Check { image, repair, json } => return check(image, *repair, *json),
        };
        match done {
            Ok(()) => Exit::Done as u8,
            Err(error) => refuse(self.json(), Exit::Usage, "invocation", &*error) as u8,
        }
    }

    fn json(&self) -> bool {
        matches!(self.verb, Verb::Ls { json: true, .. } | Verb::Check { json: true, .. })
    }

    /// Whether the verb is `check`, which has exit codes of its own.
    pub(super) fn is_check(&self) -> bool {
        matches!(self.verb, Verb::Check { .. })
    }
}

/// A size as in a workflow file.
fn parse_size(text: &str) -> std::result::Result<u64, String> {
    let bytes = units::size(text).or_else(|| text.parse().ok());
    bytes.ok_or_else(|| "a size is a number of bytes, or one with a unit: 64MiB".to_owned())
}

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

fn create(image: &Path, from: Option<&Path>, size: Option<u64>, force: bool) -> Result {
    let size = match (size, from) {
        (Some(size), _) => size,
        (None, Some(from)) => needed(from, image)?,
        (None, None) => return Err("the size is missing".into()),
    };
    let made = Disk::create(image, size, force).and_then(|mut disk| match from {
        Some(from) => disk.copy_in(from, "").map(|files| (disk, files)),
        None => Ok((disk, 0)),
    });
    if let Err(DiskError::File { .. } | DiskError::Host { .. } | DiskError::Kind { .. } | DiskError::Image { .. }) =
        &made
        && !matches!(&made, Err(DiskError::Host { path, .. }) if path == image)
    {
        // Half an image is none. One that was there before `--force` is gone either way.
        let _ = std::fs::remove_file(image);
    }
    let (disk, files) = made?;
    let kind = match disk.geometry().kind {
        Kind::Fat12 => "FAT12",
        Kind::Fat16 => "FAT16",
        Kind::Fat32 => "FAT32",
    };
    output::note(format_args!("{}: {kind}, {size} bytes, {files} files", shown(image)));
    Ok(())
}

/// An entry as it is printed.
#[derive(Serialize)]
struct Listed<'e> {
    name: &'e str,
    kind: &'static str,
    bytes: u64,
    /// RFC 3339, in UTC.
    modified: String,
}

fn listed(entry: &Entry) -> Listed<'_> {
    let kind = if entry.directory { "directory" } else { "file" };
    let time = UNIX_EPOCH + Duration::from_nanos(entry.modified.max(0) as u64);
    let modified = humantime::format_rfc3339_seconds(time).to_string();
    Listed { name: &entry.name, kind, bytes: entry.size, modified }
}

fn list(image: &Path, path: &str, json: bool) -> Result {
    let entries = Disk::open(image, false)?.list(relative(path))?;
    let entries: Vec<_> = entries.iter().map(listed).collect();
    if json {
        output::json(&entries);
    } else {
        for entry in &entries {
            let end = if entry.kind == "directory" { "/" } else { "" };
            output::text(format_args!("{:>12}  {}  {}{end}\n", entry.bytes, entry.modified, Line(entry.name)));
        }
    }
    Ok(())
}

fn cat(image: &Path, path: &str, raw: bool) -> Result {
    let mut out = Printed { data: Data::for_programs(raw), done: false };
    let read = Disk::open(image, false)?.read(relative(path), &mut out);
    if out.done {
        // Either the reader has gone away, or the failure is reported when the program ends.
        return Ok(());
    }
    out.data.finish();
    Ok(read?)
}

/// Standard output, as something that a disk can be read into.
struct Printed {
    data: Data,
    /// Nothing more can be written.
    done: bool,
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.done = self.data.put(bytes).is_break();
        if self.done { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One side of a copy.
enum Side<'a> {
    Host(&'a Path),
    Image(&'a Path, &'a str),
}

fn side(text: &str) -> Side<'_> {
    match text.split_once(":/") {
        Some((image, path)) => Side::Image(Path::new(image), relative(path)),
        None => Side::Host(Path::new(text)),
    }
}

fn copy(from: &str, to: &str) -> Result {
    match (side(from), side(to)) {
        (Side::Host(from), Side::Image(image, to)) => {
            let mut disk = Disk::open(image, true)?;
            let to = into_directory(disk.find(to).is_ok_and(|found| found.is_directory()), to, from.file_name());
            disk.copy_in(from, &to)?;
        }
        (Side::Image(image, from), Side::Host(to)) => {
            let disk = Disk::open(image, false)?;
            let name = Path::new(from).file_name();
            let to = if to.is_dir() { name.map_or(to.to_owned(), |name| to.join(name)) } else { to.to_owned() };
            disk.copy_out(from, &to)?;
        }
        _ => return Err("one of the two must be a path in an image, IMAGE:/PATH, and one must not".into()),
    }
    Ok(())
}

/// Where something is copied to: into a directory that is there, or under the name given.
fn into_directory(is_directory: bool, to: &str, name: Option<&std::ffi::OsStr>) -> String {
    match name.and_then(|name| name.to_str()).filter(|_| is_directory) {
        Some(name) if to.is_empty() => name.to_owned(),
        Some(name) => format!("{to}/{name}"),
        None => to.to_owned(),
    }
}

/// A path in an image as the library takes it.
fn relative(path: &str) -> &str {
    path.trim_matches('/')
}

/// A check as it is printed.
#[derive(Serialize)]
struct Checked {
    #[serde(serialize_with = "json_path")]
    image: PathBuf,
    clean: bool,
    repaired: bool,
    files: u64,
    directories: u64,
    free_bytes: u64,
    findings: Vec<String>,
}

fn check(image: &Path, repair: bool, json: bool) -> u8 {
    let report = Disk::open(image, repair).and_then(|mut disk| disk.check(repair));
    let Report { geometry, findings, files, directories, free } = match report {
        Ok(report) => report,
        Err(error) => return refuse(json, Exit::Usage, "invocation", &error) as u8,
    };
    let clean = findings.is_empty();
    let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    let free_bytes = u64::from(free) * geometry.cluster_size;
    let exit = if clean || repair { 0 } else { 1 };
    if json {
        let (image, repaired) = (image.to_owned(), repair && !clean);
        output::json(&Checked { image, clean, repaired, files, directories, free_bytes, findings });
        return exit;
    }
    let end = match (clean, repair) {
        (true, _) => "as it should be",
        (false, true) => "put right",
        (false, false) => "`--repair` puts it right",
    };
    let image_shown = shown(image);
    for finding in &findings {
        output::text(format_args!("{image_shown}: {}\n", Line(finding)));
    }
    output::text(format_args!(
        "{image_shown}: {files} files, {directories} directories, {free_bytes} bytes free: {end}\n"
    ));
    exit
}
