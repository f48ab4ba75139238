//! `monohull cc` and `monohull c++` on C and C++ that know nothing of Monohull: what they make runs as a function.

#[path = "support/builds.rs"]
mod builds;

use builds::{done, lines, monohull, workflow};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

#[test]
fn c_compiles_and_runs() {
    const SOURCE: &str = r#"
        #include <pthread.h>
        #include <stdio.h>
        static __thread int number = 3;
        static void *run(void *argument) { number += *(int *)argument; printf("thread %d\n", number); return NULL; }
        __attribute__((destructor)) static void end(void) { puts("the end"); }
        int main(int argc, char **argv) {
            int more = 4;
            pthread_t thread;
            pthread_create(&thread, NULL, run, &more);
            pthread_join(thread, NULL);
            printf("%s %d %d %.2f\n", argv[0], argc, number, 1.5);
            return 0;
        }
    "#;
    let folder = TempDir::new().expect("a folder");
    let here = folder.path();
    fs::write(here.join("program.c"), SOURCE).expect("written");
    // As a build system calls it: a question, an object, and the link.
    assert!(done(monohull(here, here, &["cc", "--version"])).contains("Free Software Foundation"));
    done(monohull(here, here, &["cc", "-O2", "-Wall", "-Werror", "-c", "program.c", "-o", "program.o"]));
    done(monohull(here, here, &["cc", "-static", "program.o", "-lpthread", "-lm", "-o", "program.so"]));
    done(monohull(here, here, &["check", "program.so"]));
    workflow(here, "program", "program.so");
    let output = monohull(here, here, &["run", "workflow.json"]);
    assert_eq!(lines(&output), ["thread 7", "program 2 3 1.50", "the end"]);

    // A question links nothing, and another program that lies where it would be stays.
    fs::copy("/bin/true", here.join("a.out")).expect("a program of the host");
    for question in ["-###", "--version", "-dumpmachine"] {
        done(monohull(here, here, &["cc", question, "program.c"]));
    }
    let other = monohull(here, here, &["cc", "--output", "true", "program.c"]);
    assert!(other.status.success() && here.join("a.out").exists(), "{other:?}");

    // What will be refused is a warning, as `monohull build` gives it.
    const ASKS: &str = r#"
        #include <stdlib.h>
        #include <wordexp.h>
        __attribute__((noinline)) int converts(void) { return system("true"); }
        __attribute__((noinline)) int expands(char *text) { wordexp_t words; return wordexp(text, &words, 0); }
        __attribute__((noinline)) static int begins(int count) { return count > 9 ? converts() : 1; }
        int main(int argc, char **argv) { return begins(argc) + expands(argv[0]) + !aligned_alloc(16, 16); }
    "#;
    fs::write(here.join("asks.c"), ASKS).expect("written");
    let linked = monohull(here, here, &["cc", "asks.c", "-o", "asks.so"]);
    let said = String::from_utf8_lossy(&linked.stderr).into_owned();
    done(linked);
    assert!(
        said.contains("warning: code in the image starts processes (") && said.contains("used by: converts, expands\n"),
        "the functions of the libc in between are not named: {said}"
    );
    // So is code that the loader refuses, and a system call that stands in the source. A cancelled thread is a signal.
    const FORBIDS: &str = r#"
        #include <pthread.h>
        int main(int argc, char **argv) {
            if (argc > 9) __asm__ volatile("syscall" ::: "rcx", "r11", "memory");
            if (argc > 8) __asm__ volatile("wrpkru");
            return pthread_cancel(pthread_self());
        }
    "#;
    fs::write(here.join("forbids.c"), FORBIDS).expect("written");
    let linked = monohull(here, here, &["cc", "forbids.c", "-o", "forbids.so"]);
    let said = String::from_utf8_lossy(&linked.stderr).into_owned();
    done(linked);
    for words in ["WRPKRU", "SYSCALL", "code in the image cancels threads (pthread_cancel)"] {
        let mut warnings = said.split("warning: ").skip(1);
        assert!(warnings.any(|warning| warning.contains(words)), "{words}: {said}");
    }
    // What a program has found when it is loaded is an error with the functions that need it, and what to do.
    for (text, words) in [
        (
            "static __thread int number __attribute__((tls_model(\"initial-exec\")));\n\
             int *volatile at;\n__attribute__((noinline)) void counts(void) { at = &number; }\nint main(void) { counts(); return 0; }\n",
            ["used by counts", "Leave out the attribute tls_model"],
        ),
        (
            "static int plain(void) { return 1; }\nstatic void *choose(void) { return plain; }\n\
             int chosen(void) __attribute__((ifunc(\"choose\")));\n__attribute__((noinline)) int calls(void) { return chosen() + 1; }\n\
             int main(void) { return calls(); }\n",
            ["used by calls", "the attributes ifunc, target_clones"],
        ),
    ] {
        fs::write(here.join("found.c"), text).expect("written");
        let refused = monohull(here, here, &["cc", "-O1", "found.c", "-o", "found.so"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && words.iter().all(|part| said.contains(part)), "{said}");
    }
    // Names that others chose do not reach the terminal as they are.
    let missing = monohull(here, here, &["cc", "no\u{1b}]0;title\u{7}.o", "-o", "no.so"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(!said.contains('\u{1b}') && said.contains(r"no\u{1b}]0;title\u{7}.o"), "{said}");

    // What the loader refuses is not linked: a library of the host.
    for (name, text) in [
        ("host.c", "int host(void) { return 1; }\n"),
        ("asks_host.c", "int host(void);\nint main(void) { return host(); }\n"),
    ] {
        fs::write(here.join(name), text).expect("written");
    }
    let mut made = Command::new("cc");
    made.current_dir(here).args(["-shared", "-nostdlib", "-Wl,-soname,libhost.so.1", "host.c", "-o", "libhost.so"]);
    assert!(made.status().is_ok_and(|status| status.success()));
    let refused = monohull(here, here, &["cc", "asks_host.c", "-L.", "-lhost", "-o", "refused.so"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let words = [
        "needs the library \"libhost.so.1\"; a function image is complete by itself\n  host, used by main\n",
        "is for the host's libc, and is not linked",
    ];
    assert!(refused.status.code() == Some(2) && words.iter().all(|part| said.contains(part)), "{said}");
    assert!(!here.join("refused.so").exists(), "nothing is left that a build system would take for a program");

    let library = monohull(here, here, &["cc", "-shared", "program.o", "-o", "library.so"]);
    assert_eq!(library.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&library.stderr).contains("loads no libraries"));
    let wrong = monohull(here, here, &["cc", "-c", "missing.c"]);
    assert_eq!(wrong.status.code(), Some(2));
}

/// The kernel's headers come from the host, beside those of the libc, and nothing else of the host's comes with them.
#[test]
fn headers_of_the_kernel_are_found() {
    const SOURCE: &str = r#"
        #include <sys/socket.h>
        #include <netinet/in.h>
        #include <stdio.h>
        #include <sys/stat.h>
        #include <asm/unistd.h>
        #include <linux/futex.h>
        #include <linux/if_packet.h>
        #include <linux/in6.h>
        #include <linux/limits.h>
        #include <linux/random.h>
        #include <linux/types.h>
        #if defined __GLIBC__ || __has_include(<gnu/libc-version.h>)
        #error "a header of glibc"
        #endif
        int main(void) {
            __u32 wide = FUTEX_WAIT_BITSET;
            struct sockaddr_ll link = {.sll_protocol = 3};
            printf("%u %d %d %d\n", wide, __NR_futex, PATH_MAX, link.sll_protocol);
            return 0;
        }
    "#;
    let folder = TempDir::new().expect("a folder");
    let here = folder.path();
    fs::write(here.join("program.c"), SOURCE).expect("written");
    fs::copy(here.join("program.c"), here.join("program.cc")).expect("copied");
    done(monohull(here, here, &["cc", "-Wall", "-Werror", "program.c", "-o", "program.so"]));
    workflow(here, "program", "program.so");
    assert_eq!(lines(&monohull(here, here, &["run", "workflow.json"])), ["9 202 4096 3"]);
    done(monohull(here, here, &["c++", "-fsyntax-only", "-Wall", "-Werror", "program.cc"]));
}

/// A program that refers to functions of threads by weak references alone, to see whether there are any, finds them as in a libc that is a shared library.
#[test]
fn weak_references_to_the_libc_are_found() {
    const SOURCE: &str = r#"
        #include <pthread.h>
        #include <stdio.h>
        #pragma weak pthread_create
        #pragma weak pthread_join
        extern int nothing(void) __attribute__((weak));
        static void *run(void *argument) { return argument; }
        int main(void) {
            pthread_t thread;
            void *result = NULL;
            int one = 1;
            if (pthread_create && pthread_join && pthread_create(&thread, NULL, run, &one) == 0) pthread_join(thread, &result);
            printf("%d %d\n", result == &one, nothing == NULL);
            return 0;
        }
    "#;
    let folder = TempDir::new().expect("a folder");
    let here = folder.path();
    fs::write(here.join("program.c"), SOURCE).expect("written");
    done(monohull(here, here, &["cc", "-s", "-Wall", "-Werror", "program.c", "-o", "program.so"]));
    workflow(here, "program", "program.so");
    assert_eq!(lines(&monohull(here, here, &["run", "workflow.json"])), ["1 1"]);
}

/// Where Debian and Ubuntu have the host's libraries, and one of glibc's that has no place in an image.
const HOSTS: &str = "/usr/lib/x86_64-linux-gnu";
const HOSTS_LIBRARY: &str = "BrokenLocale";

/// A static library of the host could be linked, and the image would fail when it runs: it is refused by name, wherever it is asked for.
#[test]
fn static_libraries_of_the_host_are_refused() {
    let folder = TempDir::new().expect("a folder");
    let here = folder.path();
    let library = format!("{HOSTS}/lib{HOSTS_LIBRARY}.a");
    assert!(Path::new(&library).is_file(), "the package libc6-dev has {library}");
    let refused = |output: Output, words: &str| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let words =
            format!("monohull: {words}{library} is a static library of the host: it is compiled for the host's libc");
        assert!(output.status.code() == Some(2) && said.contains(&words) && said.contains("\n  To do: "), "{said}");
    };
    fs::write(here.join("program.c"), "int main(void) { return 0; }\n").expect("written");
    for asks in [&library, &format!("-l:lib{HOSTS_LIBRARY}.a")] {
        refused(monohull(here, here, &["cc", "program.c", asks, "-o", "program.so"]), "");
        assert!(!here.join("program.so").exists(), "nothing is left that a build system would take for a program");
    }
    // CMake asks for the linker's list itself, and folders may have names that `-Wl,` and make would split.
    let lists = ["cc", "program.c", &library, "-Wl,--dependency-file,program.d", "-o", "program.so"];
    refused(monohull(here, here, &lists), "");
    assert!(fs::read_to_string(here.join("program.d")).is_ok_and(|list| list.contains(&library)));
    fs::create_dir(here.join("a, b")).expect("made");
    fs::copy(here.join("program.c"), here.join("a, b/program.c")).expect("copied");
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.current_dir(here).args(["cc", "a, b/program.c", &library, "-o", "program.so"]);
    refused(command.env("TMPDIR", here.join("a, b")).output().expect("it starts"), "");
    // The same library is a program's own where it lies elsewhere: that is for its author to know.
    fs::copy(&library, here.join("libown.a")).expect("copied");
    done(monohull(here, here, &["cc", "program.c", "-L.", "-lown", "-o", "program.so"]));

    let asks = format!(
        "fn main() {{\n    println!(\"cargo:rustc-link-search=native={HOSTS}\");\n    \
         println!(\"cargo:rustc-link-lib=static={HOSTS_LIBRARY}\");\n}}\n"
    );
    let manifest = |name: &str, more: &str| format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n\n{more}");
    for (path, text) in [
        ("app/Cargo.toml", manifest("app", "[dependencies]\nlinks = { path = \"../links\" }\n\n[workspace]\n")),
        ("app/src/main.rs", "use links as _;\n\nfn main() {}\n".to_owned()),
        ("links/Cargo.toml", manifest("links", "")),
        ("links/build.rs", asks),
        ("links/src/lib.rs", String::new()),
    ] {
        let path = here.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    refused(monohull(here, here, &["build", "app"]), "the crate `links` asks for a library that it cannot have: ");
    // The second time cargo has nothing to do.
    refused(monohull(here, here, &["build", "app"]), "the crate `links` asks for a library that it cannot have: ");
    assert!(!here.join("app/target/images/app.so").exists());
    // What runs on the host links what is the host's.
    let manifest = fs::read_to_string(here.join("app/Cargo.toml")).expect("a manifest");
    fs::write(here.join("app/Cargo.toml"), manifest.replace("[dependencies]", "[build-dependencies]"))
        .expect("written");
    fs::write(here.join("app/build.rs"), "use links as _;\n\nfn main() {}\n").expect("written");
    fs::write(here.join("app/src/main.rs"), "fn main() {}\n").expect("written");
    done(monohull(here, here, &["build", "app"]));
    // The root's own build script: the linker is asked.
    fs::copy(here.join("links/build.rs"), here.join("app/build.rs")).expect("copied");
    let output = monohull(here, here, &["build", "app"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains(&format!("{library} is a static library of the host")),
        "{said}"
    );
}

/// What build systems add for an ordinary program, and what would place its thread-local variables, changes nothing.
#[test]
fn flags_for_another_kind_of_program_are_overruled() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        #include <string.h>
        #include <unistd.h>
        __thread int number = 41;
        static const char *const words[] = { "it", "runs" };
        __attribute__((noinline)) static void print(const char *word) {
            char text[64];
            strcpy(text, word);
        #ifdef WAITS
            sleep(2);
        #endif
            printf("%s %s %d\n", text, words[1], number);
        }
        int main(void) { number++; print(words[0]); return 0; }
    "#;
    let folder = TempDir::new().expect("a folder");
    let here = folder.path();
    fs::write(here.join("program.c"), SOURCE).expect("written");
    workflow(here, "fleet", "program.so");
    let flags = [
        "-fPIE -pie",
        "-fpie",
        "-fno-pie -no-pie",
        "-fno-pic",
        "-ftls-model=initial-exec",
        "-mtls-dialect=gnu2",
        "-fstack-protector-all -DWAITS",
        "-fstack-protector-strong -mstack-protector-guard=tls -DWAITS",
    ];
    for flags in flags {
        let flags: Vec<&str> = flags.split(' ').collect();
        done(monohull(here, here, &[&["cc", "-O2"], &flags[..], &["program.c", "-o", "program.so"]].concat()));
        assert_eq!(lines(&monohull(here, here, &["run", "workflow.json"])), ["it runs 42"], "{flags:?}");
        done(monohull(here, here, &[&["cc"], &flags[..], &["-c", "program.c", "-o", "program.o"]].concat()));
        done(monohull(here, here, &[&["cc"], &flags[..], &["program.o", "-o", "program.so"]].concat()));
        assert_eq!(lines(&monohull(here, here, &["run", "workflow.json"])), ["it runs 42"], "{flags:?}");
        if flags.contains(&"-DWAITS") {
            // What guards the stack is the function's own word, in another process as well.
            let suspended = monohull(here, here, &["run", "workflow.json", "--suspend", "waiting", "--json"]);
            assert_eq!(suspended.status.code(), Some(4), "{suspended:?}");
            let document: serde_json::Value = serde_json::from_slice(&suspended.stdout).expect("JSON");
            let checkpoint = document["checkpoint"].as_str().expect("a path");
            assert_eq!(lines(&monohull(here, here, &["resume", checkpoint])), ["it runs 42"], "{flags:?}");
        }
    }
}

/// A project with a library, a check of the system, a generated header and threads.
const CMAKE: &[(&str, &str)] = &[
    (
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.20)\nproject(fleet C)\nset(CMAKE_POSITION_INDEPENDENT_CODE ON)\ninclude(CheckFunctionExists)\ninclude(CheckIncludeFile)\n\
         check_function_exists(strlcpy HAVE_STRLCPY)\ncheck_function_exists(getrandom_of_another_system HAVE_OTHER)\n\
         check_include_file(pthread.h HAVE_PTHREAD_H)\nfind_package(Threads REQUIRED)\nfind_package(ZLIB)\n\
         configure_file(config.h.in config.h)\nadd_library(ships ships.c)\nadd_executable(fleet fleet.c)\n\
         target_include_directories(fleet PRIVATE ${PROJECT_BINARY_DIR})\n\
         target_link_libraries(fleet PRIVATE ships m Threads::Threads)\n",
    ),
    (
        "config.h.in",
        "#cmakedefine01 HAVE_STRLCPY\n#cmakedefine01 HAVE_OTHER\n#cmakedefine01 HAVE_PTHREAD_H\n#cmakedefine01 ZLIB_FOUND\n",
    ),
    ("ships.c", "#include <math.h>\n\ndouble mass(int ships) { return sqrt(ships) * 2; }\n"),
    (
        "fleet.c",
        "#include <pthread.h>\n#include <stdio.h>\n#include \"config.h\"\n\ndouble mass(int ships);\n\n\
         static _Thread_local int ships = 16;\n\nstatic void *weigh(void *of) { *(double *)of = mass(ships); return 0; }\n\n\
         int main(void) {\n    double sum = 0;\n    pthread_t thread;\n    pthread_create(&thread, 0, weigh, &sum);\n    \
         pthread_join(thread, 0);\n    \
         printf(\"%g %d%d%d%d\\n\", sum, HAVE_STRLCPY, HAVE_OTHER, HAVE_PTHREAD_H, ZLIB_FOUND);\n    return 0;\n}\n",
    ),
];

#[test]
fn a_project_of_cmake_configures_and_builds() {
    let folder = TempDir::new().expect("a folder");
    let here = folder.path();
    for (path, text) in CMAKE {
        fs::write(here.join(path), text).expect("written");
    }
    let toolchain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/libc/monohull.cmake");
    let cmake = |arguments: &[&str]| {
        let output = Command::new("cmake").current_dir(here).args(arguments).output();
        done(output.expect("cmake starts (packages cmake and make)"))
    };
    let toolchain = format!("-DCMAKE_TOOLCHAIN_FILE={}", toolchain.display());
    cmake(&["-B", "build", &toolchain, concat!("-DMONOHULL=", env!("CARGO_BIN_EXE_monohull"))]);
    cmake(&["--build", "build"]);
    workflow(here, "fleet", "build/fleet");
    // The function that only glibc and others have is not there, and neither is the host's zlib.
    assert_eq!(lines(&monohull(here, here, &["run", "workflow.json"])), ["8 1010"]);
}

#[test]
fn without_a_libc_the_message_says_where_it_is_expected() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("a.c"), "int main(void) { return 0; }\n").expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.current_dir(folder.path()).args(["cc", "a.c"]).env("MONOHULL_LIBC", folder.path());
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the libc for functions is not there"));
}
