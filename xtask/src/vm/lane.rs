//! `cargo xtask test --keys`: the suite on processors with protection keys, in every kernel of the virtual machine.
//!
//! The guest runs one script, in which each program and each workflow is an item that is announced and whose exit
//! status is told. An item that is not told of has failed.

use super::machine::Machine;
use super::suite::{IGNORED, INPUTS, ISOLATION, LEFT_OUT, LeftOut, PROGRAMS, STARTED, TOOLS};
use super::{Cache, Kernel, REPOSITORY, guest};
use crate::test::Count;
use crate::workspace::{Workspace, root};
use crate::{Result, build, lint, shell};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The guest's memory in MiB; its files take a part.
const MEMORY: u32 = 2048;
/// How long all items may take in one kernel, and one of them.
const LIMIT: Duration = Duration::from_secs(2700);
const ITEM_SECONDS: u32 = 1500;
/// What the host listens for.
const ITEM: &str = "@item ";
const TOLD: &str = "@told ";

/// One line of what cargo says when it builds tests: what else it says lacks these fields.
#[derive(Deserialize)]
pub(super) struct Artifact {
    package_id: String,
    manifest_path: PathBuf,
    pub(super) target: Target,
    pub(super) executable: PathBuf,
    pub(super) profile: Profile,
}

#[derive(Deserialize)]
pub(super) struct Target {
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct Profile {
    pub(super) test: bool,
}

/// Something the guest runs.
pub(super) struct Item {
    /// For people.
    pub(super) name: String,
    /// A line for the shell.
    pub(super) command: String,
    /// Whether it is a test program, which counts its tests; else it counts as one.
    pub(super) counts: bool,
}

/// Builds everything and runs the suite in each kernel.
pub(crate) fn run() -> Result<Count> {
    build::everything()?;
    build::weakened_visor()?;
    let workspace = Workspace::load()?;
    let (programs, used) = programs(&workspace)?;
    let cache = Cache::ready()?;

    let mut files = guest(&workspace, &cache)?;
    files.program(&workspace.target().join("release/monohull-weakened"))?;
    for program in &used {
        // The one that ships lies where tests look for theirs: searching all code for gadgets takes a while here, and that has
        // a fifth of it.
        files.program_as(&workspace.target().join("release").join(&program.target.name), &program.executable)?;
    }
    for program in &programs {
        files.program(&program.executable)?;
    }
    for (workflow, slot, bytes) in INPUTS {
        files.script(input(workflow, slot), bytes)?;
    }
    for tool in TOOLS {
        files.program(Path::new(tool))?;
    }
    // What tests read of the sources.
    files.tree(&root().join("visor/fuzz/corpus"))?;
    // Each kernel has a job of its own.
    files.script("/job", b"exec sh /job-$(uname -r | cut -d. -f1,2)\n")?;
    let mut jobs = Vec::new();
    for kernel in Kernel::ALL {
        let left_out = || LEFT_OUT.iter().filter(|out| out.kernel.is_none_or(|only| only == kernel));
        let whole = |name: &str| left_out().any(|out| out.program == name && out.test.is_none());
        let here = programs.iter().filter(|program| !whole(&program.target.name));
        let mut items: Vec<Item> = here.map(|program| test_item(program, left_out())).collect();
        items.extend(workflow_items(&workspace)?);
        files.script(format!("/job-{}", kernel.version()), script(&items).as_bytes())?;
        jobs.push((kernel, items));
    }
    let files = files.finish()?;

    let mut total = Count::default();
    for (kernel, items) in jobs {
        shell::heading(&format!("protection keys, Linux {}", kernel.version()));
        for left_out in LEFT_OUT.iter().filter(|out| out.kernel.is_none_or(|only| only == kernel)) {
            let test = left_out.test.map(|test| format!(" {test}")).unwrap_or_default();
            println!("not here: {}{test}: {}", left_out.program, left_out.why);
        }
        let machine = Machine { cache: &cache, kernel, memory: MEMORY, limit: LIMIT };
        total.add(in_guest(&machine, &files, &items)?);
    }
    Ok(total)
}

/// Runs the items in one guest and counts.
pub(super) fn in_guest(machine: &Machine<'_>, files: &std::fs::File, items: &[Item]) -> Result<Count> {
    let mut tally = Tally { items, next: 0, inside: Count::default(), total: Count::default() };
    let ended = machine.run(files, &mut |line| {
        if let Some(line) = tally.hears(line) {
            println!("{line}");
        }
    });
    let missing = items.len() - tally.next;
    match ended {
        Ok(0) if missing == 0 => {}
        Ok(status) => println!("the job ended with {status} and told nothing of {missing} items"),
        Err(why) => println!("{why}\nNothing was told of {missing} items."),
    }
    tally.total.failed += missing as u64;
    Ok(tally.total)
}

/// Counts while the guest speaks.
struct Tally<'i> {
    items: &'i [Item],
    /// How many were told of.
    next: usize,
    /// What the item that runs has counted.
    inside: Count,
    total: Count,
}

impl Tally<'_> {
    /// What of a line is to be shown.
    fn hears<'l>(&mut self, line: &'l str) -> Option<&'l str> {
        if let Some(name) = line.strip_prefix(ITEM) {
            shell::heading(name);
            return None;
        }
        // What an item prints last may lack its newline.
        let (shown, status) = line.split_once(TOLD).map_or((line, None), |(shown, status)| (shown, Some(status)));
        if let Some(count) = Count::of_line(shown) {
            self.inside.add(count);
        }
        if let (Some(status), Some(item)) = (status, self.items.get(self.next)) {
            self.total.add(item.result(std::mem::take(&mut self.inside), status));
            self.next += 1;
        }
        Some(shown).filter(|shown| status.is_none() || !shown.is_empty())
    }
}

impl Item {
    /// What it adds to the count, given its exit status and what it counted itself.
    fn result(&self, mut counted: Count, status: &str) -> Count {
        if !self.counts {
            counted = Count { passed: u64::from(status == "0"), failed: 0 };
        }
        // A program that fails without a failed test has failed, and so has one that runs none: those that have none
        // are no items.
        let wrong = status != "0" || counted.passed == 0;
        if wrong && counted.failed == 0 {
            println!("{} ended with {status}", self.name);
            counted.failed = 1;
        }
        counted
    }
}

/// Builds tests: their programs, and those that they start.
pub(super) fn tests_of<'a>(which: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr> + 'a>) -> Result<Vec<Artifact>> {
    let mut command = shell::cargo(["test", "--no-run", "--quiet", "--message-format=json-render-diagnostics"]);
    let said = shell::output(command.args(which))?;
    let lines = said.split(|&byte| byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// The test programs of the suite, built as the ordinary lane builds them, and the programs that tests start.
fn programs(workspace: &Workspace) -> Result<(Vec<Artifact>, Vec<Artifact>)> {
    let mut built = Vec::new();
    for packages in lint::groups(workspace) {
        built.extend(tests_of(packages)?);
    }
    let (mut built, mut used): (Vec<_>, Vec<_>) = built.into_iter().partition(|artifact| artifact.profile.test);
    used.retain(|program| STARTED.contains(&program.target.name.as_str()));
    for (package, prefix) in PROGRAMS {
        if !built.iter().any(|program| program.is(package, prefix)) {
            return Err(format!("{package} has no test program whose name begins with {prefix:?}"));
        }
    }
    built.retain(|program| PROGRAMS.iter().any(|(package, prefix)| program.is(package, prefix)));
    built.sort_by(|a, b| a.executable.cmp(&b.executable));
    let tests = built.iter().map(Artifact::tests).collect::<Result<Vec<_>>>()?;
    for out in LEFT_OUT {
        let mut known = built.iter().zip(&tests).filter(|(program, _)| program.target.name == out.program);
        if !known.any(|(_, tests)| out.test.is_none_or(|test| tests.iter().any(|known| known == test))) {
            return Err(format!("there is no {} {} to be left out", out.program, out.test.unwrap_or_default()));
        }
    }
    let everywhere = |out: &LeftOut| out.kernel.is_none() && out.test.is_none();
    let left_out = |name: &str| LEFT_OUT.iter().any(|out| out.program == name && everywhere(out));
    let mut tests = tests.iter();
    built.retain(|program| tests.next().is_some_and(|tests| !tests.is_empty()) && !left_out(&program.target.name));
    Ok((built, used))
}

impl Artifact {
    /// The names of its tests.
    fn tests(&self) -> Result<Vec<String>> {
        let said = shell::output(Command::new(&self.executable).args(["--list", "--format", "terse"]))?;
        let said = String::from_utf8_lossy(&said);
        Ok(said.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect())
    }

    /// Whether it is a program of this package whose name begins so.
    fn is(&self, package: &str, prefix: &str) -> bool {
        let id = &self.package_id;
        // `path+file:///…/FOLDER#VERSION`, or `…#NAME@VERSION` where the folder has another name.
        let (before, after) = id.rsplit_once('#').unwrap_or((id, ""));
        let name = match after.split_once('@') {
            Some((name, _)) => name,
            None => before.rsplit('/').next().unwrap_or_default(),
        };
        name == package && self.target.name.starts_with(prefix)
    }
}

/// Runs as cargo would run it: in the package's folder.
fn test_item(program: &Artifact, left_out: impl Iterator<Item = &'static LeftOut>) -> Item {
    let folder = program.manifest_path.parent().expect("a manifest lies in a folder");
    let skipped = left_out.filter(|out| out.program == program.target.name).filter_map(|out| out.test);
    let skipped: String = skipped.map(|test| format!(" --skip {test}")).collect();
    // Natively these are ignored.
    let needs_much = IGNORED.iter().any(|prefix| program.target.name.starts_with(prefix));
    let ignored = if needs_much { " --include-ignored" } else { "" };
    let command = format!(
        "mkdir -p {folder} && cd {folder} && timeout {ITEM_SECONDS} {program} --exact{skipped}{ignored}",
        folder = quoted(folder),
        program = quoted(&program.executable),
    );
    Item { name: program.target.name.clone(), command, counts: true }
}

/// Every workflow in `workflows/`.
fn workflow_items(workspace: &Workspace) -> Result<Vec<Item>> {
    let folder = root().join("workflows");
    let visor = quoted(&workspace.target().join("release/monohull"));
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned()))
        .collect();
    // A schema is called NAME.schema.json.
    names.retain(|name| !name.contains('.'));
    names.sort();
    let item = |name: String| {
        let inputs = INPUTS.iter().filter(|(workflow, ..)| *workflow == name);
        let inputs: String =
            inputs.map(|(workflow, slot, _)| format!(" --input {slot}={}", input(workflow, slot))).collect();
        let command = format!(
            "cd {REPOSITORY} && timeout {ITEM_SECONDS} {visor} run --isolation {ISOLATION} workflows/{name}.json{inputs}"
        );
        Item { name: format!("workflows/{name}.json"), command, counts: false }
    };
    Ok(names.into_iter().map(item).collect())
}

/// Where the bytes for an input slot lie in the guest.
fn input(workflow: &str, slot: &str) -> String {
    format!("/tmp/{workflow}-{slot}")
}

/// The job.
pub(super) fn script(items: &[Item]) -> String {
    // Each in a shell of its own: a command that ends the shell, or changes its folder, ends and changes that one.
    let line = |item: &Item| format!("echo '{ITEM}{}'\n( {} )\necho \"{TOLD}$?\"\n", item.name, item.command);
    // The computer's own tools before busybox's.
    std::iter::once("PATH=/usr/bin:$PATH\n".to_owned()).chain(items.iter().map(line)).collect()
}

/// A path for the shell.
pub(super) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(counts: bool, lines: &[&str]) -> (u64, u64) {
        let items = [Item { name: "it".into(), command: String::new(), counts }];
        let mut tally = Tally { items: &items, next: 0, inside: Count::default(), total: Count::default() };
        lines.iter().for_each(|line| _ = tally.hears(line));
        (tally.total.passed, tally.total.failed)
    }

    #[test]
    fn programs_count_their_tests() {
        assert_eq!(told(true, &["test result: ok. 7 passed; 0 failed; 1 ignored", "@told 0"]), (7, 0));
        assert_eq!(told(true, &["test result: FAILED. 7 passed; 2 failed; 1 ignored", "@told 101"]), (7, 2));
    }

    #[test]
    fn a_program_that_dies_or_runs_nothing_has_failed() {
        assert_eq!(told(true, &["running 7 tests", "@told 139"]), (0, 1));
        assert_eq!(told(true, &["test result: ok. 0 passed; 0 failed", "@told 0"]), (0, 1));
    }

    #[test]
    fn a_workflow_counts_as_one() {
        assert_eq!(told(false, &["@told 0"]), (1, 0));
        assert_eq!(told(false, &["no newline@told 0"]), (1, 0));
        assert_eq!(told(false, &["@told 1"]), (0, 1));
    }
}
