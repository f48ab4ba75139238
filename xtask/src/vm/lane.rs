//! `cargo xtask test --keys`: the suite on processors with protection keys, in every kernel of the virtual machine, all
//! kernels side by side.
//!
//! The guest runs one script, in which each program and each workflow is an item that is announced and whose exit
//! status is printed.

use super::machine::Machine;
use super::sample::{is_chosen, runs_under};
use super::suite::{
    ALONE, DAILY, IGNORED, INPUTS, ISOLATION, LEFT_OUT, LeftOut, MADE, PROGRAMS, SAMPLED, STARTED, Sampled, TOOLS,
    WITH_FULL,
};
use super::swap::{SWAPPED, WITH_SWAP, is_swapped};
use super::tally::{Item, in_guest, script};
use super::{Cache, Kernel, REPOSITORY, guest};
use crate::count::Count;
use crate::extent::Extent;
use crate::workspace::{Workspace, root};
use crate::{Result, build, flaky, lint, shell};
use serde::Deserialize;
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The guest's memory in MiB; its files may take half of it.
const MEMORY: u32 = 5120;
/// What its files leave of that half at least, in MiB: some tests write into the target folder.
const ROOM: u32 = 256;
/// How long all items may take in one kernel, and one of them.
const LIMIT: Duration = Duration::from_secs(3600);
const ITEM_SECONDS: u32 = 1500;

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

/// Builds everything and runs the suite in each kernel, in a guest for each at the same time.
pub(crate) fn run(extent: Extent) -> Result<Count> {
    build::everything_for_keys()?;
    build::unhardened_visor()?;
    let workspace = Workspace::load()?;
    let (programs, used) = programs(&workspace, extent)?;
    let cache = Cache::ready()?;

    let mut files = guest(&workspace, &cache)?;
    files.program(&workspace.target().join("release/monohull-unhardened"))?;
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
    for made in MADE {
        files.tree_as_it_is(&workspace.target().join("tmp").join(made))?;
    }
    // Tests of names ask for this one.
    files.script("/etc/hosts", b"127.0.0.1 localhost\n")?;
    // What tests read of the sources.
    files.tree(&root().join("visor/fuzz/corpus"))?;
    // Each kernel has a job of its own.
    files.script("/job", b"exec sh /job-$(uname -r | cut -d. -f1,2) \"$@\"\n")?;
    let mut jobs = Vec::new();
    let (mut elsewhere, mut others) = (0, HashSet::new());
    for kernel in Kernel::ALL {
        let mut items = Vec::new();
        for program in &programs {
            let name = &program.target.name;
            let mut tests = program.tests()?;
            tests.retain(|test| !is_left_out(kernel, extent, name, test));
            tests.retain(|test| {
                let chosen = is_chosen(extent, name, test);
                if !chosen {
                    others.insert(format!("{name}/{test}"));
                }
                chosen
            });
            let all = tests.len();
            let only_here = |test: &str| is_left_out(kernel.other(), extent, name, test);
            tests.retain(|test| only_here(test) || runs_under(kernel, extent, name, test));
            elsewhere += all - tests.len();
            items.extend(test_items(program, tests)?);
        }
        let mut workflows = workflow_items(&workspace)?;
        let all = workflows.len();
        workflows.retain(|item| runs_under(kernel, extent, "workflows", &item.name));
        elsewhere += all - workflows.len();
        items.extend(workflows);
        files.script(format!("/job-{}", kernel.version()), script(&items).as_bytes())?;
        jobs.push((kernel, items));
    }
    let files = files.finish()?;
    enough_room(&files)?;

    for (kernel, _) in &jobs {
        shell::heading(&format!("protection keys, Linux {}", kernel.version()));
        for out in left_out(extent).filter(|out| out.kernel.is_none_or(|only| only == *kernel)) {
            println!("not here: {}: {}", [&[out.program], out.tests].concat().join(" "), out.why);
        }
        for Sampled { program, tests, why } in sampled(extent) {
            println!("not here: {program} but for {}: {why}", tests.join(" "));
        }
    }
    let run = |(kernel, items): &(Kernel, Vec<Item>)| {
        let random_addresses = extent == Extent::Full;
        let machine = Machine { cache: &cache, kernel: *kernel, memory: MEMORY, limit: LIMIT, random_addresses };
        in_guest(&machine, &files, items)
    };
    let counts: Vec<Count> = thread::scope(|scope| {
        let guests: Vec<_> = jobs.iter().map(|job| scope.spawn(|| run(job))).collect();
        // What went wrong there has been shown.
        let failed = |_| Count::failure("a guest");
        guests.into_iter().map(|guest| guest.join().unwrap_or_else(failed)).collect()
    });
    let mut total = Count::default();
    counts.into_iter().for_each(|count| total.add(count));
    if !others.is_empty() {
        total.notes.push(format!(
            "{} tests did not run with keys, of programs of which a part does each time: they run natively, or `keys_attacks` has the same without a restore; `cargo xtask test --full` runs all with keys",
            others.len()
        ));
    }
    if elsewhere > 0 {
        total.notes.push(format!(
            "with keys, tests that both kernels can run were divided between them: {elsewhere} ran under the other one alone; `cargo xtask test --full` runs each under both, and with random addresses"
        ));
    }
    if extent == Extent::Sampled {
        let natively = WITH_FULL.iter().filter(|out| !IGNORED.iter().any(|prefix| out.program.starts_with(prefix)));
        let names: Vec<&str> = natively.map(|out| out.program).collect();
        total.notes.push(format!(
            "keys have no part in {}, so they ran natively alone, all or some of their tests; `cargo xtask test --full` runs them with keys too",
            names.join(", ")
        ));
        total.notes.push(
            "of the attacks after a restore and in used processes some ran, and all of them run with `cargo xtask test --full`"
                .to_owned(),
        );
    }
    Ok(total)
}

/// Refuses files that would leave the guest too little: it would end in tests that fail for another reason.
fn enough_room(files: &File) -> Result {
    let bytes =
        files.metadata().map_err(|error| format!("cannot ask for the size of the guest's files: {error}"))?.len();
    let (took, most) = (bytes >> 20, u64::from(MEMORY / 2 - ROOM));
    println!("the guest's files: {took} MiB of the {most} that they may take");
    if took > most {
        return Err(format!("the guest's files take {took} MiB and may take {most}: give it more memory"));
    }
    Ok(())
}

/// What does not run in the guest.
fn left_out(extent: Extent) -> impl Iterator<Item = &'static LeftOut> {
    let besides: &[LeftOut] = if extent == Extent::Full { &[] } else { WITH_FULL };
    LEFT_OUT.iter().chain(besides)
}

/// Of which programs a part runs.
fn sampled(extent: Extent) -> &'static [Sampled] {
    if extent == Extent::Full { &[] } else { SAMPLED }
}

/// Whether the suite leaves out this test of this program under this kernel.
fn is_left_out(kernel: Kernel, extent: Extent, program: &str, test: &str) -> bool {
    let here = |out: &&LeftOut| out.program == program && out.kernel.is_none_or(|only| only == kernel);
    left_out(extent).filter(here).any(|out| out.tests.is_empty() || out.tests.contains(&test))
        || sampled(extent).iter().any(|part| part.program == program && !part.tests.contains(&test))
}

/// Builds tests: their programs, and those that they start.
pub(super) fn tests_of<'a>(which: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr> + 'a>) -> Result<Vec<Artifact>> {
    let mut command = shell::cargo(["test", "--no-run", "--quiet", "--message-format=json-render-diagnostics"]);
    let said = shell::output(command.args(which))?;
    let lines = said.split(|&byte| byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// The test programs of the suite, built as the ordinary lane builds them, and the programs that tests start.
fn programs(workspace: &Workspace, extent: Extent) -> Result<(Vec<Artifact>, Vec<Artifact>)> {
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
    let left_out_ones = LEFT_OUT.iter().chain(WITH_FULL).map(|out| (out.program, out.tests));
    let sampled_ones = SAMPLED.iter().map(|part| (part.program, part.tests));
    for (name, named) in left_out_ones.chain(sampled_ones).chain(SWAPPED.iter().chain(DAILY).copied()) {
        let mut known = built.iter().zip(&tests).filter(|(program, _)| program.target.name == name);
        let is_known = |tests: &[String]| named.iter().all(|test| tests.iter().any(|known| known == test));
        if !known.any(|(_, tests)| is_known(tests)) {
            return Err(format!("there is no {name} {}, which the suite names", named.join(" ")));
        }
    }
    let everywhere = |out: &LeftOut| out.kernel.is_none() && out.tests.is_empty();
    let is_out = |name: &str| left_out(extent).any(|out| out.program == name && everywhere(out));
    let mut tests = tests.iter();
    built.retain(|program| tests.next().is_some_and(|tests| !tests.is_empty()) && !is_out(&program.target.name));
    Ok((built, used))
}

impl Artifact {
    /// The names of its tests.
    fn tests(&self) -> Result<Vec<String>> {
        self.list(&[])
    }

    /// The names of those that are ignored.
    fn ignored_tests(&self) -> Result<Vec<String>> {
        self.list(&["--ignored"])
    }

    fn list(&self, which: &[&str]) -> Result<Vec<String>> {
        let said = shell::output(Command::new(&self.executable).args(["--list", "--format", "terse"]).args(which))?;
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

/// Runs these tests of a program as cargo would run them: in the package's folder. Those that need to be alone come after the others, and then those
/// that have memory swapped out.
fn test_items(program: &Artifact, tests: Vec<String>) -> Result<Vec<Item>> {
    let name = &program.target.name;
    let folder = program.manifest_path.parent().expect("a manifest lies in a folder");
    // Natively the tests of these are ignored.
    let needs_much = IGNORED.iter().any(|prefix| name.starts_with(prefix));
    let skipped = if needs_much { Vec::new() } else { program.ignored_tests()? };
    let prefixes = || ALONE.iter().filter(|(alone, _)| alone == name).map(|(_, prefix)| *prefix);
    let tests = tests.into_iter().filter(|test| !skipped.contains(test));
    let (swapped, others): (Vec<_>, Vec<_>) = tests.partition(|test| is_swapped(name, test));
    let (alone, together): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|test| prefixes().any(|prefix| test.starts_with(prefix)));
    let all = program.tests()?;
    // By the names of the others: not every program takes more than one name of a test to run.
    let item = |name: String, before: &str, threads: &str, tests: Vec<String>| {
        let start = format!(
            "mkdir -p {folder} && cd {folder} && {before}timeout {ITEM_SECONDS} {program} --exact{ignored}",
            folder = quoted(folder),
            program = quoted(&program.executable),
            ignored = if needs_much { " --include-ignored" } else { "" },
        );
        let others = all.iter().filter(|test| !tests.contains(test)).map(|test| format!(" --skip {test}"));
        Item {
            name,
            command: format!("{start}{threads}{}", others.collect::<String>()),
            counts: true,
            again: flaky::may_run_again(&program.target.name).then_some(start),
        }
    };
    let mut items = Vec::new();
    if !together.is_empty() {
        items.push(item(name.clone(), "", "", together));
    }
    if !alone.is_empty() {
        items.push(item(format!("{name}, one after the other"), "", " --test-threads=1", alone));
    }
    if !swapped.is_empty() {
        items.push(item(format!("{name}, with swapping"), WITH_SWAP, " --test-threads=1", swapped));
    }
    Ok(items)
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
        Item { name: format!("workflows/{name}.json"), command, counts: false, again: None }
    };
    Ok(names.into_iter().map(item).collect())
}

/// Where the bytes for an input slot lie in the guest.
fn input(workflow: &str, slot: &str) -> String {
    format!("/tmp/{workflow}-{slot}")
}

/// A path for the shell.
pub(super) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
