//! Puts the libc together: the personality and the functions of `monohull.h` with their symbols made local, the aliases, musl's
//! objects, and the files that compilers and linkers are given.

use super::{compile, folder, kernel};
use crate::workspace::{Workspace, root};
use crate::{Result, apt, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only symbols that the image exports.
const VERSION_SCRIPT: &str = "{ global: MONOHULL_IMAGE; monohull_start; local: *; };\n";
/// What C is compiled with, one argument a line. The compiler's own `__builtin_thread_pointer` would read `fs:0`, which is the system's; the
/// thread pointer is the first word of the thread's header (`libc/src/header.rs`).
const CC_FLAGS: &str = "\
-D__builtin_thread_pointer()=__extension__({void*__monohull_own;__asm__(\"movq %%gs:16,%0;movq (%0),%0\":\"=r\"(__monohull_own));__monohull_own;})
-nostdinc
-isystem
@FOLDER@/include
-fPIC
-mtls-dialect=gnu
-fno-stack-protector
-fcf-protection=none
-U_FORTIFY_SOURCE
-fno-omit-frame-pointer
-fno-semantic-interposition
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
/// What a program may bring along in its place, as with any libc.
const WEAK: [&str; 25] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "malloc_usable_size",
    "memcmp",
    "bcmp",
    "memcpy",
    "memmove",
    "memset",
    "memchr",
    "memrchr",
    "strlen",
    "strchrnul",
    "strcmp",
    "strncmp",
    "strcasecmp",
    "strncasecmp",
    "strcasecmp_l",
    "strncasecmp_l",
    "stpcpy",
    "qsort_r",
];
/// Slots, events and the instance, for C.
const HEADER: &str = "function/include/monohull.h";
/// Libraries of which nothing is left to link.
const EMPTY: [&str; 7] = ["m", "pthread", "dl", "rt", "util", "crypt", "resolv"];

/// Makes `lib`, `include`, `kernel`, `LICENSE-musl` and `monohull.cmake`.
pub(super) fn make(workspace: &Workspace, musl: &Path) -> Result {
    let (folder, lib) = (folder(), folder().join("lib"));
    let work = folder.join("work");
    apt::make(&lib)?;
    apt::make(&work)?;
    let mut objects = rust(workspace, &work)?;
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
    kernel::link(&folder)?;
    let include = folder.join("include");
    apt::remove(&include)?;
    shell::run(Command::new("cp").arg("-r").arg(musl.join("include")).arg(&include))?;
    compile::copy(&root().join(HEADER), &include.join("monohull.h"))
}

/// The crate `monohull-libc` as two objects: the personality, in which only the names of `libc/musl/exports` are global, some of them
/// weak; and the functions of `monohull.h`, which a program links only if it calls them. So neither copy of core meets that of a program.
fn rust(workspace: &Workspace, work: &Path) -> Result<Vec<PathBuf>> {
    let mut cargo = shell::cargo(["rustc", "--quiet", "-p", "monohull-libc", "--lib", "--crate-type=staticlib"]);
    cargo.args(["--profile=image", "--", "-C", "force-frame-pointers=yes", "-C", "relocation-model=pic"]);
    shell::run(&mut cargo)?;
    let whole = workspace.target().join("image/libmonohull_libc.a");
    let exports = read(&root().join("libc/musl/exports"))?;
    let exports: Vec<&str> = exports.lines().collect();
    let header = read(&root().join(HEADER))?;
    Ok(vec![
        object(&whole, work, "personality", &exports, &UNWINDER)?,
        object(&whole, work, "functions", &declared(&header), &[])?,
    ])
}

/// The functions that the header declares.
fn declared(header: &str) -> Vec<&str> {
    let is_part = |part: char| part.is_ascii_alphanumeric() || part == '_';
    let lines = header.lines().filter(|line| line.ends_with(");"));
    let names = lines.filter_map(|line| line.split('(').next()?.rsplit(|part| !is_part(part)).next());
    names.filter(|name| name.starts_with("monohull_")).collect()
}

/// What of an archive these names need, as one object in which they alone are global.
fn object(whole: &Path, work: &Path, name: &str, exports: &[&str], kept: &[&str]) -> Result<PathBuf> {
    let (joined, local) = (work.join(format!("{name}-joined.o")), work.join(format!("{name}.o")));
    let list = work.join(format!("{name}.exports"));
    apt::write(&list, &exports.join("\n"))?;
    let mut ld = Command::new("ld");
    ld.args(["-r", "--gc-sections", "-o"]).arg(&joined);
    for name in exports.iter().chain(kept) {
        ld.args(["-u", name]);
    }
    shell::run(ld.arg(whole))?;
    let mut objcopy = Command::new("objcopy");
    objcopy.args(WEAK.map(|name| format!("--weaken-symbol={name}")));
    objcopy.arg("--keep-global-symbols").arg(&list).arg(&joined).arg(&local);
    shell::run(&mut objcopy)?;
    Ok(local)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_its_functions() {
        let header = "typedef struct monohull_buffer {\n} monohull_buffer;\n/* monohull_made_up(); */\n\
                      int monohull_take(const char *slot, monohull_buffer *buffer);\nuint64_t monohull_attempt(void);\n";
        assert_eq!(declared(header), ["monohull_take", "monohull_attempt"]);
    }
}
