//! `monohull check`: what the instruction checker has to say about files, for people and for programs.
//!
//! The loader obeys the same verdict, and refuses more than instructions: a linked file may be loaded only if its other half,
//! [`Image::parse`], accepts it too. `--instructions` leaves that out, for files that are no function images. This verb has exit
//! codes of its own, because it is also of use to scripts that run no workflow.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use monohull_checker::context::{Context, Evidence};
use monohull_checker::{Class, Finding, Form, Kind, Report, Rules, Severity};
use serde::Serialize;

use super::imports;
use monohull_domain::image::Image;
use monohull_host_files::input;
use monohull_report::escape::{Line, json_path, shown};

/// Examples, and exit codes that never change their meaning.
const HELP: &str = "\
Example:
  monohull check target/images/hello.so
  monohull check --instructions --explain /lib/x86_64-linux-gnu/libc.so.6

Exit codes:
  0  every file may be loaded (there may be warnings)
  1  a file is refused: it holds what user code must not contain, or the loader cannot load it
  2  the invocation is wrong, a file cannot be read or judged, or the output cannot be written";

/// The exit code for what gives no verdict.
pub(super) const UNREADABLE: u8 = Status::Unreadable as u8;

/// Look for instructions that user code must not contain
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct Check {
    /// Executables, shared objects, object files or WASM compiled ahead of time
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long, conflicts_with = "explain")]
    json: bool,
    /// Explain each kind and what to do about it, and show warnings one by one
    #[arg(long)]
    explain: bool,
    /// Look at instructions alone, in files that are no function images
    #[arg(long)]
    instructions: bool,
}

/// How a file was judged, in ascending order of exit codes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Clean,
    Refused,
    Unreadable,
}

/// What is printed about one file.
#[derive(Serialize)]
struct Verdict<'a> {
    #[serde(serialize_with = "json_path")]
    file: &'a Path,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Why the loader refuses a file whose instructions are in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    loader: Option<String>,
    #[serde(flatten)]
    report: Option<Report>,
}

#[derive(Serialize)]
struct Document<'a> {
    status: Status,
    files: Vec<Verdict<'a>>,
}

impl Check {
    pub(super) fn run(&self) -> u8 {
        let files: Vec<Verdict> = self.files.iter().map(|file| judge(file, !self.instructions)).collect();
        let status = files.iter().map(|verdict| verdict.status).max().unwrap_or(Status::Clean);
        if self.json {
            super::output::json(&Document { status, files });
        } else {
            files.iter().for_each(|verdict| self.show(verdict));
        }
        status as u8
    }

    fn show(&self, verdict: &Verdict) {
        let file = shown(verdict.file);
        match &verdict.report {
            Some(report) => {
                super::output::text(format_args!("{file}: {}", text(report, verdict.status, self.explain)));
                if let Some(reason) = &verdict.loader {
                    super::output::text(format_args!("  refused by the loader: {reason}\n"));
                }
            }
            None => {
                let error = Line(verdict.error.as_deref().unwrap_or_default());
                super::output::note(format_args!("monohull: {file}: {error}"));
            }
        }
    }
}

fn judge(file: &Path, load: bool) -> Verdict<'_> {
    let rules = Rules { explain: true, own_gates: is_this_program(file), ..Rules::IMAGE };
    let bytes = input::read(file, input::FILE_MAX).map_err(|error| error.to_string());
    let judged = bytes.and_then(|bytes| {
        let report = monohull_checker::check_by(rules, &bytes).map_err(|error| error.to_string())?;
        let linked = load && !report.is_refused() && report.form == Form::Linked;
        Ok((linked.then(|| refusal(&bytes)).flatten(), report))
    });
    match judged {
        Ok((loader, report)) => {
            let status = if report.is_refused() || loader.is_some() { Status::Refused } else { Status::Clean };
            Verdict { file, status, error: None, loader, report: Some(report) }
        }
        Err(error) => Verdict { file, status: Status::Unreadable, error: Some(error), loader: None, report: None },
    }
}

/// Why the loader does not accept a file.
fn refusal(bytes: &[u8]) -> Option<String> {
    let error = Image::parse("", bytes).err()?;
    let explanation = imports::explain(&error, bytes).map(|text| format!("\n{text}")).unwrap_or_default();
    Some(format!("{error}{explanation}"))
}

/// Only this very program may hold its gates; a copy or another build is judged like anything else.
fn is_this_program(file: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
    place(file).is_some_and(|place_of_file| place(Path::new("/proc/self/exe")) == Some(place_of_file))
}

/// The report for people: first the sum, then what refuses the file, then the rest.
fn text(report: &Report, status: Status, explain: bool) -> String {
    let mut text = String::new();
    let sum = if status == Status::Clean { "may be loaded" } else { "refused" };
    let form = match report.form {
        Form::Linked => "executable pages",
        Form::Relocatable => "executable sections of an object",
        Form::Wasm => "executable pages of compiled WASM",
    };
    let _ = writeln!(text, "{sum} ({} bytes in {form})", report.scanned_bytes);
    if report.filled_in_later > 0 {
        let _ = writeln!(
            text,
            "  not final: a linker still fills in {} places; check the linked file, too",
            report.filled_in_later
        );
    }
    if report.own_gates > 0 {
        let _ = writeln!(text, "  Monohull's own gates, recognised: {}", report.own_gates);
    }
    for kind in Kind::ALL.into_iter().filter(|&kind| report.count(kind) > 0) {
        show_kind(&mut text, report, kind, explain);
    }
    text
}

fn show_kind(text: &mut String, report: &Report, kind: Kind, explain: bool) {
    let findings: Vec<&Finding> = report.findings.iter().filter(|finding| finding.kind == kind).collect();
    let Some(first) = findings.first() else { return };
    let _ = writeln!(text, "  {}: {kind}, found {} ×", first.severity.name(), report.count(kind));
    if explain {
        let _ = writeln!(text, "    why:    {}\n    behind: {}", kind.why(), kind.backstop());
    }
    if explain || first.severity == Severity::Refuse {
        findings.iter().for_each(|finding| show_finding(text, finding));
        let unlisted = report.count(kind) - findings.len() as u64;
        if unlisted > 0 {
            let _ = writeln!(text, "    and {unlisted} more");
        }
    }
}

fn show_finding(text: &mut String, finding: &Finding) {
    let _ = writeln!(text, "    {}", Line(finding));
    if let Some(context) = &finding.context {
        show_context(text, context);
    }
    let _ = writeln!(text, "      remedy: {}", finding.remedy);
}

fn show_context(text: &mut String, context: &Context) {
    let class = match context.class {
        Class::Instruction => "an instruction of the program",
        Class::Accident => "an accident: bytes of other instructions",
        Class::Unclear => "unclear: there may be data around it",
    };
    let _ = match context.evidence {
        Evidence::Symbol => writeln!(text, "      {class}, decoded from the symbol's start"),
        Evidence::Starts { agree, of } => {
            writeln!(text, "      {class} ({agree} of {of} starting points before it agree)")
        }
    };
    for line in &context.neighbourhood {
        let mark = if line.here { '>' } else { ' ' };
        let bytes: String = line.bytes.iter().map(|byte| format!("{byte:02x} ")).collect();
        let _ = writeln!(text, "      {mark} {:#8x}: {bytes:<30} {}", line.address, Line(&line.text));
    }
    if let (Class::Accident | Class::Unclear, Some(jumped)) = (context.class, &context.when_jumped_to) {
        let _ = writeln!(text, "      when jumped to: {}", Line(jumped));
    }
}
