//! Installs the program: without debug information, which lies in a file of its own.
//!
//! ```text
//! PREFIX/bin/monohull                 symbols stay: reports and the instruction checker read them
//! PREFIX/bin/.debug/monohull.debug    files and lines for backtraces; the program names it (.gnu_debuglink)
//! PREFIX/modules/NAME.so              libos modules, where the program looks for them
//! PREFIX/libc/{include,lib}           what `monohull build` and `monohull cc` link, likewise, and a toolchain file of CMake
//! PREFIX/libc/kernel/                 links to the host's headers of the kernel
//! PREFIX/libc/c++/                    the C++ standard library, if `cargo xtask build --cxx` has made one
//! PREFIX/python/               the interpreters of Python programs, if `cargo xtask build --python` or `--python-wasi` has made one
//! PREFIX/share/…                      manual pages, completions of bash, zsh and fish
//! ```

use crate::workspace::{Workspace, root};
use crate::{Result, build, libc, shell};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Builds everything, and installs what a user needs.
pub(crate) fn run(prefix: &Path) -> Result {
    build::everything()?;
    let workspace = Workspace::load()?;
    fs::create_dir_all(prefix).map_err(|error| format!("{}: {error}", prefix.display()))?;
    let prefix = prefix.canonicalize().map_err(|error| format!("{}: {error}", prefix.display()))?;
    let program = prefix.join("bin/monohull");
    strip(&workspace.target().join("release/monohull"), &program)?;
    let modules = root().join("target/modules");
    for module in fs::read_dir(&modules).map_err(|error| format!("{}: {error}", modules.display()))? {
        let module = module.map_err(|error| format!("{}: {error}", modules.display()))?.path();
        copy(&module, &prefix.join("modules").join(module.file_name().unwrap_or_default()))?;
    }
    for part in ["include", "lib", "LICENSE-musl", "monohull.cmake"] {
        copy_all(&root().join("target/libc").join(part), &prefix.join("libc").join(part))?;
    }
    libc::kernel::link(&prefix.join("libc"))?;
    let cxx = root().join("target/libc/c++");
    if cxx.exists() {
        copy_all(&cxx, &prefix.join("libc/c++"))?;
    }
    let python = root().join("target/python");
    if python.exists() {
        copy_all(&python, &prefix.join("python"))?;
    }
    let wasi = root().join("target/wasi");
    for file in ["runtime.so", "quickjs.wasm", "LICENSE-quickjs"] {
        copy(&wasi.join(file), &prefix.join("wasi").join(file))?;
    }
    strip(&wasi.join("compile"), &prefix.join("wasi/compile"))?;
    shell::run(Command::new(&program).arg("man").arg("--out").arg(prefix.join("share/man/man1")))?;
    for (name, file) in [
        ("bash", "share/bash-completion/completions/monohull"),
        ("zsh", "share/zsh/site-functions/_monohull"),
        ("fish", "share/fish/vendor_completions.d/monohull.fish"),
    ] {
        let script = shell::output(Command::new(&program).args(["completions", name]))?;
        write(&prefix.join(file), |to| fs::write(to, &script))?;
    }
    eprintln!("{:>12} {}", "Installed", program.display());
    Ok(())
}

/// Copies a program without its debug information, and that beside it.
fn strip(from: &Path, to: &Path) -> Result {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let debug = to.with_file_name(".debug").join(format!("{name}.debug"));
    write(&debug, |debug| objcopy(&["--only-keep-debug"], from, debug))?;
    // The link holds the file's name and a checksum of it.
    let link = format!("--add-gnu-debuglink={}", debug.display());
    write(to, |to| objcopy(&["--strip-debug", &link], from, to))
}

fn objcopy(options: &[&str], from: &Path, to: &Path) -> std::io::Result<()> {
    let done = Command::new("objcopy").args(options).arg(from).arg(to).status();
    let done =
        done.map_err(|error| std::io::Error::new(error.kind(), format!("objcopy (package binutils): {error}")))?;
    if done.success() { Ok(()) } else { Err(std::io::Error::other(format!("objcopy ended with {done}"))) }
}

/// Copies a file, or a folder with all that is in it.
fn copy_all(from: &Path, to: &Path) -> Result {
    if !from.is_dir() {
        return copy(from, to);
    }
    let unreadable = |error: std::io::Error| format!("{}: {error}", from.display());
    for entry in fs::read_dir(from).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        copy_all(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result {
    write(to, |to| fs::copy(from, to).map(drop))
}

/// Has a file written beside its place and renames it, so that a program that runs keeps the one it has mapped.
fn write(to: &Path, write: impl FnOnce(&Path) -> std::io::Result<()>) -> Result {
    let aside = to.with_extension("new");
    let done = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| write(&aside));
    done.and_then(|()| fs::rename(&aside, to)).map_err(|error| format!("cannot install {}: {error}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program is this test itself: without debug information it is smaller, and a backtrace still names file and line, from the
    /// file beside it.
    #[test]
    fn a_stripped_program_still_has_lines_in_its_backtraces() {
        const PANIC: &str = "XTASK_TEST_PANIC";
        const SELF: &str = "install::tests::a_stripped_program_still_has_lines_in_its_backtraces";
        if std::env::var_os(PANIC).is_some() {
            panic!("for its backtrace");
        }
        let folder = tempfile::TempDir::new().expect("a folder");
        let (own, stripped) = (std::env::current_exe().expect("a path"), folder.path().join("bin/program"));
        strip(&own, &stripped).expect("objcopy is there");
        let size = |path: &Path| fs::metadata(path).expect("a file").len();
        assert!(size(&stripped) < size(&own) / 2, "{} of {}", size(&stripped), size(&own));

        let trace = || {
            let mut program = Command::new(&stripped);
            program.args(["--exact", SELF]).env("RUST_BACKTRACE", "1").env(PANIC, "1");
            let output = program.output().expect("it runs");
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        };
        // Of the frame: the message of the panic has a line in any case.
        let frame = format!("at ./{}:", file!().trim_start_matches("xtask/"));
        let named = |trace: &str| trace.contains(&frame) || trace.contains(&format!("/{}:", file!()));
        let with = trace();
        assert!(with.contains("tests::a_stripped_program") && named(&with), "{frame}: {with}");
        fs::remove_dir_all(folder.path().join("bin/.debug")).expect("removed");
        let without = trace();
        assert!(without.contains("tests::a_stripped_program") && !named(&without), "{without}");
    }
}
