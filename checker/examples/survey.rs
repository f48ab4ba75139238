//! Checks many files and prints one table: `survey [--total] PATHS…`, where a folder stands for the shared objects and
//! programs directly in it. With `--total`, only the last line. Files that two names lead to are counted once.

use monohull_checker::{Class, Finding, Kind, Report, Rules, Severity, check_by};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The columns: kinds that need a closer check, apart, and the rest in sum.
const COLUMNS: [Kind; 8] = [
    Kind::Wrpkru,
    Kind::Xrstor,
    Kind::Wrfsbase,
    Kind::Wrgsbase,
    Kind::Xrstors,
    Kind::Syscall,
    Kind::Sysenter,
    Kind::Int,
];

#[derive(Default)]
struct Total {
    files: u64,
    bytes: u64,
    counts: [u64; COLUMNS.len()],
    /// Files that are refused, and those among them that hold no refused instruction on purpose.
    refused: u64,
    accidents_only: u64,
    /// Files without code, or that are no ELF files.
    unjudged: u64,
}

fn main() {
    let (options, paths): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|arg| arg == "--total");
    println!(
        "| file | code, KiB | WRPKRU | XRSTOR | WRFSBASE | WRGSBASE | XRSTORS | SYSCALL | SYSENTER | INT n | verdict |"
    );
    println!("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --- |");
    let mut total = Total::default();
    for file in files(&paths) {
        let Some(report) = fs::read(&file).ok().and_then(|bytes| judge(&bytes)) else {
            total.unjudged += 1;
            continue;
        };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let counts = COLUMNS.map(|kind| report.count(kind));
        if options.is_empty() {
            row(&name, report.scanned_bytes, counts, &verdict(&report));
        }
        total.add(&report, counts);
    }
    let verdict = format!("{} refused, {} of them by accidents alone", total.refused, total.accidents_only);
    row(&format!("all {}", total.files), total.bytes, total.counts, &verdict);
    eprintln!("{} files without code or not in this format are left out", total.unjudged);
}

impl Total {
    fn add(&mut self, report: &Report, counts: [u64; COLUMNS.len()]) {
        self.files += 1;
        self.bytes += report.scanned_bytes;
        self.counts = std::array::from_fn(|column| self.counts[column] + counts[column]);
        self.refused += u64::from(report.is_refused());
        self.accidents_only += u64::from(report.is_refused() && report.refusals().all(is_accident));
    }
}

fn judge(bytes: &[u8]) -> Option<Report> {
    check_by(Rules { explain: true, ..Rules::IMAGE }, bytes).ok()
}

fn is_accident(finding: &Finding) -> bool {
    finding.context.as_ref().is_some_and(|context| context.class == Class::Accident)
}

/// What stands in the last column: which classes of refused findings there are.
fn verdict(report: &Report) -> String {
    let of = |class: Class| {
        let is = |finding: &&Finding| finding.context.as_ref().is_some_and(|context| context.class == class);
        report.findings.iter().filter(|finding| finding.severity == Severity::Refuse).filter(is).count()
    };
    let parts = [(Class::Instruction, "instructions"), (Class::Accident, "accidents"), (Class::Unclear, "unclear")];
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(class, name)| (of(class), name))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{name}: {count}"))
        .collect();
    if parts.is_empty() { "may be loaded".to_owned() } else { format!("refused ({})", parts.join(", ")) }
}

fn row(name: &str, bytes: u64, counts: [u64; COLUMNS.len()], verdict: &str) {
    let counts = counts.map(|count| count.to_string()).join(" | ");
    println!("| {name} | {} | {counts} | {verdict} |", bytes / 1024);
}

/// The files that the paths stand for, each once, by name.
fn files(paths: &[String]) -> BTreeSet<PathBuf> {
    let in_folder = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
    };
    paths
        .iter()
        .flat_map(|path| if Path::new(path).is_dir() { in_folder(Path::new(path)) } else { vec![path.into()] })
        .filter_map(|path| path.canonicalize().ok())
        .collect()
}
