//! What is changed in musl's source before it is compiled. Each change names its file and its reason; one that does not
//! fit the source any more is an error, so that another version of musl cannot be built half changed.

use crate::workspace::root;
use crate::{Result, apt};
use std::fs;
use std::path::Path;

/// Files whose place is taken by one of `libc/musl/`.
const REPLACED: [(&str, &str); 2] = [
    // `syscall` becomes a call of `__monohull_syscall`.
    ("arch/x86_64/syscall_arch.h", "syscall_arch.h"),
    // The thread pointer comes from the thread's header instead of `fs`.
    ("arch/x86_64/pthread_arch.h", "pthread_arch.h"),
];

/// Files that are not compiled. What they define comes from the personality, or from the portable C file beside them.
const SET_ASIDE: [&str; 38] = [
    // System calls in assembly.
    "src/thread/x86_64/__set_thread_area.s",
    "src/thread/__set_thread_area.c",
    "src/thread/x86_64/__unmapself.s",
    "src/thread/__unmapself.c",
    "src/thread/x86_64/clone.s",
    "src/thread/clone.c",
    "src/thread/x86_64/syscall_cp.s",
    "src/process/x86_64/vfork.s",
    "src/signal/x86_64/restore.s",
    // Thread-local storage by `fs`.
    "src/ldso/x86_64/tlsdesc.s",
    // Cancellation is a signal.
    "src/thread/pthread_cancel.c",
    // The personality's are faster.
    "src/string/memcmp.c",
    "src/string/bcmp.c",
    "src/string/x86_64/memcpy.s",
    "src/string/memcpy.c",
    "src/string/x86_64/memmove.s",
    "src/string/memmove.c",
    "src/string/x86_64/memset.s",
    "src/string/memset.c",
    "src/string/memchr.c",
    "src/string/memrchr.c",
    "src/string/strlen.c",
    "src/string/strchrnul.c",
    "src/string/strcmp.c",
    "src/string/strncmp.c",
    "src/string/strcasecmp.c",
    "src/string/strncasecmp.c",
    "src/string/stpcpy.c",
    // The heap is the personality's.
    "src/malloc/calloc.c",
    "src/malloc/free.c",
    "src/malloc/libc_calloc.c",
    "src/malloc/lite_malloc.c",
    "src/malloc/memalign.c",
    "src/malloc/posix_memalign.c",
    "src/malloc/realloc.c",
    "src/malloc/replaced.c",
    // Looks for the end of the main stack among the kernel's mappings.
    "src/thread/pthread_getattr_np.c",
    // Would signal the other threads.
    "src/linux/membarrier.c",
];

/// Lines that become others: the file, the text, what takes its place.
const EDITS: [(&str, &str, &str); 12] = [
    // A thread runs on a stack of Monohull's, and musl's own mapping holds what it passes to the thread, and its variables. One that asks for
    // more than Monohull's has runs on musl's.
    (
        "src/thread/pthread_create.c",
        "guard = ROUND(attr._a_guardsize);\n\t\tsize = guard + ROUND(attr._a_stacksize\n",
        "guard = large ? ROUND(attr._a_guardsize) : 0;\n\t\tsize = guard + ROUND((large ? attr._a_stacksize + PAGE_SIZE : PAGE_SIZE / 4)\n",
    ),
    (
        "src/thread/pthread_create.c",
        "\tif (attr._a_stackaddr) {\n",
        "\thidden int __monohull_large_stack(size_t);\n\
         \tint large = __monohull_large_stack(attr._a_stackaddr ? 0 : attr._a_stacksize);\n\
         \tif (attr._a_stackaddr) {\n",
    ),
    // The stack's protection counts, so it has to be memory that has one.
    (
        "src/thread/pthread_create.c",
        "map = __mmap(0, size, PROT_NONE, MAP_PRIVATE|MAP_ANON, -1, 0);",
        "map = __mmap(0, size, PROT_NONE, MAP_PRIVATE|MAP_ANON|MAP_STACK, -1, 0);",
    ),
    // Destructors of thread-local variables run before all else that runs at the end of a thread, and of the program, as glibc has it.
    (
        "src/thread/pthread_create.c",
        "\t__pthread_tsd_run_dtors();\n",
        "\thidden void __monohull_thread_locals(void);\n\t__monohull_thread_locals();\n\t__pthread_tsd_run_dtors();\n",
    ),
    (
        "src/exit/exit.c",
        "\tstatic volatile int exit_lock[1];\n",
        "\tstatic volatile int exit_lock[1];\n\thidden void __monohull_thread_locals(void);\n\t__monohull_thread_locals();\n",
    ),
    // `_init` and `_fini` would become DT_INIT and DT_FINI of the image.
    ("src/env/__libc_start_main.c", "weak_alias(dummy, _init);", "#define _init dummy"),
    ("src/exit/exit.c", "weak_alias(dummy, _fini);", "#define _fini dummy"),
    // The personality's sort is faster, and calls this one if it has no memory.
    ("src/stdlib/qsort.c", "void __qsort_r(", "void __monohull_smoothsort("),
    ("src/stdlib/qsort.c", "weak_alias(__qsort_r, qsort_r);", ""),
    // The first thing that is refused is the process, not the pipe by which it would say that it has started.
    (
        "src/process/posix_spawn.c",
        "LOCK(__abort_lock);\n\n\tif (pipe2(",
        "ec = -__syscall(SYS_vfork);\n\tif (ec) goto fail;\n\tLOCK(__abort_lock);\n\n\tif (pipe2(",
    ),
    // Names are looked up by the workflow's rules.
    (
        "src/network/lookup_name.c",
        "cnt = name_from_dns_search(buf, canon, name, family);",
        "cnt = __monohull_lookup(buf, canon, name, family);",
    ),
    (
        "src/network/lookup_name.c",
        "static int name_from_dns_search(",
        "hidden int __monohull_lookup(struct address *, char *, const char *, int);\n\
         __attribute__((__unused__)) static int name_from_dns_search(",
    ),
];

/// Everything in this file that the objects depend on.
pub(super) fn inputs() -> Result<Vec<u8>> {
    let mut inputs = format!("{SET_ASIDE:?}{EDITS:?}").into_bytes();
    for (_, ours) in REPLACED {
        inputs.extend(read(&root().join("libc/musl").join(ours))?);
    }
    Ok(inputs)
}

/// Changes an unpacked source.
pub(super) fn apply(source: &Path) -> Result {
    for (theirs, ours) in REPLACED {
        let text = read(&root().join("libc/musl").join(ours))?;
        fs::write(existing(source, theirs)?, text).map_err(|error| format!("{theirs}: {error}"))?;
    }
    for name in SET_ASIDE {
        let path = existing(source, name)?;
        fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for (name, from, to) in EDITS {
        let path = existing(source, name)?;
        let text = String::from_utf8_lossy(&read(&path)?).into_owned();
        if text.matches(from).count() != 1 {
            return Err(format!("{} does not contain {from:?} exactly once", path.display()));
        }
        apt::write(&path, &text.replace(from, to))?;
    }
    Ok(())
}

fn existing(source: &Path, name: &str) -> Result<std::path::PathBuf> {
    let path = source.join(name);
    if path.is_file() { Ok(path) } else { Err(format!("musl's source has no {name}")) }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
