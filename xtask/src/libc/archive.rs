//! Puts the libc together: the personality with its symbols made local, the aliases, musl's objects, and the files that
//! compilers and linkers are given.

use super::{compile, folder};
use crate::workspace::{Workspace, root};
use crate::{Result, apt, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only symbols that the image exports.
const VERSION_SCRIPT: &str = "{ global: MONOHULL_IMAGE; monohull_start; local: *; };\n";
/// What C is compiled with, one argument a line.
const CC_FLAGS: &str = "\
-nostdinc
-isystem
@FOLDER@/include
-fPIC
-mtls-dialect=gnu
-fno-stack-protector
-fcf-protection=none
-U_FORTIFY_SOURCE
-fno-omit-frame-pointer
";
/// What an image is linked with, before the objects and `-Wl,--start-group -lmonohull_c -lgcc_eh -lgcc -Wl,--end-group`.
const LD_FLAGS: &str = "\
-shared
-nostdlib
-nostartfiles
-L
@FOLDER@/lib
-Wl,-z,now,-z,relro,-z,noexecstack,-z,separate-code,-Bsymbolic,--hash-style=gnu,--no-undefined,--gc-sections
-Wl,--version-script=@FOLDER@/lib/image.map
-Wl,-u,monohull_start,-u,MONOHULL_IMAGE
";
/// What gcc's unwinder uses if a program has it, and does not ask for: they are linked together with the personality.
const UNWINDER: [&str; 4] = ["pthread_once", "pthread_mutex_lock", "pthread_mutex_unlock", "__pthread_key_create"];
/// Libraries of which nothing is left to link.
const EMPTY: [&str; 7] = ["m", "pthread", "dl", "rt", "util", "crypt", "resolv"];

/// Makes `lib`, `include`, `LICENSE-musl` and `monohull.cmake`.
pub(super) fn make(workspace: &Workspace, musl: &Path) -> Result {
    let (folder, lib) = (folder(), folder().join("lib"));
    let work = folder.join("work");
    apt::make(&lib)?;
    apt::make(&work)?;
    let mut objects = vec![personality(workspace, &work)?];
    objects.extend(aliases(&work)?);
    let archive = work.join("libmonohull_c.a");
    compile::copy(&musl.join("libmusl.a"), &archive)?;
    shell::run(Command::new("ar").arg("rsD").arg(&archive).args(&objects).stderr(std::process::Stdio::null()))?;
    apt::rename(&archive, &lib.join("libmonohull_c.a"))?;
    for name in EMPTY {
        compile::collect(&lib.join(format!("lib{name}.a")), &[])?;
    }
    apt::write(&lib.join("libc.a"), "INPUT ( -lmonohull_c )\n")?;
    for name in ["libgcc_s.a", "libgcc_s.so"] {
        apt::write(&lib.join(name), "GROUP ( -lgcc_eh -lgcc )\n")?;
    }
    apt::write(&lib.join("image.map"), VERSION_SCRIPT)?;
    apt::write(&lib.join("cc-flags"), CC_FLAGS)?;
    apt::write(&lib.join("ld-flags"), LD_FLAGS)?;
    compile::copy(&musl.join("COPYRIGHT"), &folder.join("LICENSE-musl"))?;
    compile::copy(&root().join("libc/monohull.cmake"), &folder.join("monohull.cmake"))?;
    let include = folder.join("include");
    apt::remove(&include)?;
    shell::run(Command::new("cp").arg("-r").arg(musl.join("include")).arg(&include))
}

/// The crate `monohull-libc` as one object in which only the names of `libc/musl/exports` are global, so that its copy of
/// core does not meet that of a program.
fn personality(workspace: &Workspace, work: &Path) -> Result<PathBuf> {
    let mut cargo = shell::cargo(["rustc", "--quiet", "-p", "monohull-libc", "--lib", "--crate-type=staticlib"]);
    cargo.args(["--profile=image", "--", "-C", "force-frame-pointers=yes", "-C", "relocation-model=pic"]);
    shell::run(&mut cargo)?;
    let whole = workspace.target().join("image/libmonohull_libc.a");
    let (joined, local) = (work.join("joined.o"), work.join("personality.o"));
    let exports = root().join("libc/musl/exports");
    let names = std::fs::read_to_string(&exports).map_err(|error| format!("{}: {error}", exports.display()))?;
    let mut ld = Command::new("ld");
    ld.args(["-r", "--gc-sections", "-o"]).arg(&joined);
    for name in names.lines().chain(UNWINDER) {
        ld.args(["-u", name]);
    }
    shell::run(ld.arg(&whole))?;
    let mut objcopy = Command::new("objcopy");
    objcopy.arg("--keep-global-symbols").arg(&exports).arg(&joined).arg(&local);
    shell::run(&mut objcopy)?;
    Ok(local)
}

/// One object for each line of `libc/musl/aliases`, so that a program links only those that it uses.
fn aliases(work: &Path) -> Result<Vec<PathBuf>> {
    let list = root().join("libc/musl/aliases");
    let list = std::fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let pairs = list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
    pairs
        .map(|(alias, name)| {
            let (source, object) = (work.join(format!("{alias}.s")), work.join(format!("alias-{alias}.o")));
            let text = format!(
                ".section .text.{alias},\"ax\",@progbits\n.globl {alias}\n.type {alias}, @function\n{alias}:\n\
                 \tjmp {name}@PLT\n.size {alias}, . - {alias}\n.section .note.GNU-stack,\"\",@progbits\n"
            );
            if std::fs::read_to_string(&source).is_ok_and(|old| old == text) && object.exists() {
                return Ok(object);
            }
            apt::write(&source, &text)?;
            shell::run(Command::new("as").arg("-o").arg(&object).arg(&source))?;
            Ok(object)
        })
        .collect()
}
