//! The programs of `libc/programs`, made images of: what the tests of the libc run. A guest without a compiler runs them too.

use super::{compile, folder};
use crate::workspace::root;
use crate::{Result, apt, shell};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles and links each as `target/images/libc-NAME.so`.
pub(super) fn make() -> Result {
    let sources = root().join("libc/programs");
    let (images, work) = (root().join("target/images"), folder().join("work"));
    apt::make(&images)?;
    for source in compile::list(&sources)? {
        let name = compile::stem(&source);
        let object = match source.extension().and_then(|extension| extension.to_str()) {
            Some("c") => c(&source, &work.join(format!("{name}.o")))?,
            Some("rs") => rust(&source, &work.join(format!("lib{name}.a")))?,
            _ => continue,
        };
        link(&object, &images.join(format!("libc-{name}.so")))?;
    }
    Ok(())
}

/// The arguments in one of the files that `archive.rs` writes.
fn flags(file: &str) -> Result<Vec<String>> {
    let path = folder().join("lib").join(file);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.lines().map(|line| line.replace("@FOLDER@", &folder().to_string_lossy())).collect())
}

fn c(source: &Path, object: &Path) -> Result<PathBuf> {
    let own = shell::output(Command::new("gcc").arg("-print-file-name=include"))?;
    let mut gcc = Command::new("gcc");
    gcc.args(flags("cc-flags")?).arg("-isystem").arg(String::from_utf8_lossy(&own).trim());
    // With a guarded stack, as distributions compile, and as `monohull cc` has it guarded.
    gcc.args(["-fstack-protector-strong", "-mstack-protector-guard=global"]);
    gcc.args(["-O2", "-w", "-fno-builtin", "-c", "-o"]).arg(object).arg(source);
    shell::run(&mut gcc)?;
    Ok(object.to_owned())
}

/// As an archive with the prebuilt std in it.
fn rust(source: &Path, archive: &Path) -> Result<PathBuf> {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut rustc = Command::new(compiler);
    rustc.args(["--edition=2024", "--crate-type=staticlib", "-O", "-C", "force-frame-pointers=yes", "-o"]);
    shell::run(rustc.arg(archive).arg(source))?;
    Ok(archive.to_owned())
}

fn link(object: &Path, image: &Path) -> Result {
    let new = image.with_extension("new");
    let mut gcc = Command::new("gcc");
    gcc.args(flags("ld-flags")?).arg("-Wl,-u,main,-S").arg("-o").arg(&new).arg(object);
    gcc.args(["-Wl,--start-group", "-lmonohull_c", "-lgcc_eh", "-lgcc", "-Wl,--end-group"]);
    shell::run(&mut gcc)?;
    apt::rename(&new, image)
}
