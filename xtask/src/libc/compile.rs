//! Compiles musl with the host's gcc into one archive, beside its headers.

use super::{changes, folder, source};
use crate::{Result, apt, shell};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What musl's own configuration passes for this processor, with frame pointers, for a shared object.
const FLAGS: &[&str] = &[
    "-std=c99",
    "-nostdinc",
    "-ffreestanding",
    "-fexcess-precision=standard",
    "-frounding-math",
    "-fno-strict-aliasing",
    "-D_XOPEN_SOURCE=700",
    "-O2",
    "-fPIC",
    "-mtls-dialect=gnu",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-U_FORTIFY_SOURCE",
    "-fno-omit-frame-pointer",
    "-fno-tree-loop-distribute-patterns",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wa,--noexecstack",
    "-w",
];

/// The folder with `libmusl.a`, `include` and `COPYRIGHT`, built if its inputs have changed.
pub(super) fn built() -> Result<PathBuf> {
    let name = format!("musl-{:016x}", inputs()?);
    let whole = folder().join(&name);
    if whole.exists() {
        return Ok(whole);
    }
    let new = folder().join("new");
    apt::remove(&new)?;
    let (tree, objects, done) = (new.join("source"), new.join("objects"), new.join(&name));
    source::MUSL.unpack(&tree)?;
    shell::heading("compile musl: about a minute, once");
    changes::apply(&tree)?;
    generate(&tree)?;
    apt::make(&objects)?;
    let objects = compile(&tree, &objects)?;
    apt::make(&done)?;
    collect(&done.join("libmusl.a"), &objects)?;
    install_headers(&tree, &done.join("include"))?;
    copy(&tree.join("COPYRIGHT"), &done.join("COPYRIGHT"))?;
    apt::rename(&done, &whole)?;
    apt::remove(&new)?;
    Ok(whole)
}

/// A hash of everything that decides what the objects are.
fn inputs() -> Result<u64> {
    let compiler = shell::output(Command::new("gcc").arg("--version"))?;
    let mut hasher = DefaultHasher::new();
    (source::MUSL.sha256, FLAGS, compiler, changes::inputs()?).hash(&mut hasher);
    Ok(hasher.finish())
}

/// The headers that musl's makefile generates.
fn generate(tree: &Path) -> Result {
    let bits = tree.join("obj/include/bits");
    apt::make(&bits)?;
    apt::make(&tree.join("obj/src/internal"))?;
    let arch = tree.join("arch/x86_64/bits");
    let mut sed = Command::new("sed");
    sed.arg("-f").arg(tree.join("tools/mkalltypes.sed"));
    sed.arg(arch.join("alltypes.h.in")).arg(tree.join("include/alltypes.h.in"));
    let types = shell::output(&mut sed)?;
    fs::write(bits.join("alltypes.h"), types).map_err(|error| format!("alltypes.h: {error}"))?;
    let numbers = fs::read_to_string(arch.join("syscall.h.in")).map_err(|error| format!("syscall.h.in: {error}"))?;
    let renamed = numbers.lines().filter(|line| line.contains("__NR_"));
    let renamed: String = renamed.map(|line| line.replacen("__NR_", "SYS_", 1) + "\n").collect();
    apt::write(&bits.join("syscall.h"), &(numbers.clone() + &renamed))?;
    let version = fs::read_to_string(tree.join("VERSION")).map_err(|error| format!("VERSION: {error}"))?;
    apt::write(&tree.join("obj/src/internal/version.h"), &format!("#define VERSION \"{}\"\n", version.trim()))
}

/// Compiles everything on all processors: the objects.
fn compile(tree: &Path, objects: &Path) -> Result<Vec<PathBuf>> {
    let sources: Vec<PathBuf> = sources(&tree.join("src"))?;
    let to = |at: usize| objects.join(format!("{at:04}-{}.o", stem(&sources[at])));
    let command = |(at, source): (usize, &PathBuf)| {
        let mut gcc = Command::new("gcc");
        gcc.current_dir(tree).args(FLAGS);
        for folder in ["arch/x86_64", "arch/generic", "obj/src/internal", "src/include", "src/internal"] {
            gcc.arg("-I").arg(folder);
        }
        gcc.args(["-I", "obj/include", "-I", "include", "-c", "-o"]).arg(to(at)).arg(source);
        gcc
    };
    shell::run_all(sources.iter().enumerate().map(command).collect())?;
    Ok((0..sources.len()).map(to).collect())
}

/// The files to compile: a C or assembly file for this processor takes the place of the portable one of its name.
fn sources(src: &Path) -> Result<Vec<PathBuf>> {
    let mut chosen = BTreeMap::new();
    for folder in list(src)?.into_iter().filter(|path| path.is_dir()) {
        for part in [folder.clone(), folder.join("x86_64")].into_iter().filter(|part| part.is_dir()) {
            for file in list(&part)? {
                let extension = file.extension().and_then(|extension| extension.to_str());
                if matches!(extension, Some("c" | "s" | "S")) {
                    chosen.insert(folder.join(stem(&file)), file);
                }
            }
        }
    }
    Ok(chosen.into_values().collect())
}

/// Makes an archive of object files, anew.
pub(super) fn collect(archive: &Path, objects: &[PathBuf]) -> Result {
    let _ = fs::remove_file(archive);
    shell::run(Command::new("ar").arg("rcsD").arg(archive).args(objects).stdout(Stdio::null()))
}

/// musl's public headers, those for this processor, and the generated ones.
fn install_headers(tree: &Path, to: &Path) -> Result {
    for from in ["include", "arch/generic/bits", "arch/x86_64/bits", "obj/include/bits"] {
        let from = tree.join(from);
        let to = if from.ends_with("bits") { to.join("bits") } else { to.to_owned() };
        install_folder(&from, &to)?;
    }
    Ok(())
}

fn install_folder(from: &Path, to: &Path) -> Result {
    apt::make(to)?;
    for path in list(from)? {
        let name = path.file_name().expect("has a name");
        if path.is_dir() {
            install_folder(&path, &to.join(name))?;
        } else if path.extension().is_some_and(|extension| extension == "h") {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

pub(super) fn copy(from: &Path, to: &Path) -> Result {
    fs::copy(from, to).map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))?;
    Ok(())
}

pub(super) fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let fail = |error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(fail)?.collect::<std::io::Result<Vec<_>>>().map_err(fail)?;
    Ok(entries.into_iter().map(|entry| entry.path()).collect())
}
