//! `monohull build` on crates that know nothing of Monohull: what it makes runs as a function.

#[path = "support/builds.rs"]
mod builds;

use builds::{command, done, lines, monohull, workflow, write_all};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// How many bytes the image of a new crate may have, with the names of its functions for reports.
const HELLO: u64 = 500_000;

#[test]
fn a_new_crate_is_a_program_that_runs() {
    let folder = TempDir::new().expect("a folder");
    done(monohull(folder.path(), folder.path(), &["new", "hello"]));
    let hello = folder.path().join("hello");
    let built = monohull(folder.path(), &hello, &["build"]);
    assert!(!String::from_utf8_lossy(&built.stderr).contains("warning"), "{built:?}");
    done(built);
    let output = monohull(folder.path(), &hello, &["run", "workflow.json"]);
    assert_eq!(lines(&output), ["Hello from Monohull!"]);
    let size = fs::metadata(hello.join("target/images/hello.so")).expect("an image").len();
    assert!(size <= HELLO, "{size} bytes");
    // Nothing is left beside the source, and nothing is compiled again.
    let names: Vec<_> =
        fs::read_dir(hello.join("src")).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["main.rs"]);
    let again = monohull(folder.path(), &hello, &["build"]);
    assert!(!String::from_utf8_lossy(&again.stderr).contains("Compiling"), "{again:?}");
    // Neither by a build script that looks at the folder, in which the copy of the root has been.
    fs::write(hello.join("build.rs"), "fn main() {\n    println!(\"cargo::rerun-if-changed=src\");\n}\n")
        .expect("written");
    for is_compiled in [true, false] {
        let again = monohull(folder.path(), &hello, &["build"]);
        assert!(again.status.success(), "{again:?}");
        assert_eq!(String::from_utf8_lossy(&again.stderr).contains("Compiling"), is_compiled, "{again:?}");
    }
    // With another libc it is linked anew.
    let libc = folder.path().join("libc");
    fs::create_dir(&libc).expect("a folder");
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/libc/");
    let mut copied = Command::new("cp");
    copied.arg("-r").args(["lib", "include"].map(|part| format!("{ours}{part}"))).arg(&libc);
    assert!(copied.status().is_ok_and(|status| status.success()));
    let map = libc.join("lib/image.map");
    fs::write(&map, format!("/* another */ {}", fs::read_to_string(&map).expect("a script"))).expect("written");
    for is_linked in [true, false] {
        let again = command(folder.path(), &hello, &["build"]).env("MONOHULL_LIBC", &libc).output().expect("it starts");
        assert!(again.status.success(), "{again:?}");
        assert_eq!(String::from_utf8_lossy(&again.stderr).contains("Compiling"), is_linked, "{again:?}");
    }
}

/// A program with modules, inner attributes and an error in the end, in a workspace with a library, a feature and a build script that
/// compiles C with thread-local variables.
const PROGRAM: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "[workspace]\nmembers = [\"app\", \"lib\"]\nresolver = \"2\"\n[profile.release]\nlto = \"fat\"\nopt-level = 1\n",
    ),
    (
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[features]\nloud = []\n\
         [dependencies]\nlib = { path = \"../lib\" }\n[lints.rust]\nunsafe_code = \"forbid\"\n",
    ),
    (
        "app/src/main.rs",
        "//! A program.\n#![forbid(unsafe_code)]\n\nmod inner;\n\nfn main() -> Result<(), Box<dyn std::error::Error>> {\n    \
         println!(\"{} {} {}\", file!(), line!(), include_str!(\"text.txt\"));\n    \
         println!(\"{:?} {:?}\", std::thread::current().name(), std::env::args().collect::<Vec<_>>());\n    \
         println!(\"{} {}\", lib::count(), std::thread::spawn(lib::count).join().unwrap());\n    \
         println!(\"{} {}\", std::panic::catch_unwind(|| inner::fails()).is_err(), cfg!(feature = \"loud\"));\n    \
         Err(\"in the end\")?\n}\n",
    ),
    ("app/src/inner.rs", "pub fn fails() { panic!(\"caught\") }\n"),
    ("app/src/text.txt", "included"),
    ("lib/Cargo.toml", "[package]\nname = \"lib\"\nversion = \"0.1.0\"\nedition = \"2021\"\nbuild = \"build.rs\"\n"),
    (
        "lib/build.rs",
        "use std::process::Command;\n\nfn main() {\n    let out = std::env::var(\"OUT_DIR\").unwrap();\n    \
         let cc = std::env::var(\"CC_x86_64_unknown_linux_gnu\").unwrap();\n    \
         let object = format!(\"{out}/count.o\");\n    \
         assert!(Command::new(cc).args([\"-O1\", \"-c\", \"src/count.c\", \"-o\", &object]).status().unwrap().success());\n    \
         let archive = format!(\"{out}/libcount.a\");\n    \
         assert!(Command::new(\"ar\").args([\"crs\", &archive, &object]).status().unwrap().success());\n    \
         println!(\"cargo:rustc-link-search={out}\\ncargo:rustc-link-lib=static=count\");\n}\n",
    ),
    (
        "lib/src/count.c",
        "#include <stdlib.h>\nstatic __thread int calls = 40;\nint count(void) { free(malloc(100)); return ++calls; }\n",
    ),
    (
        "lib/src/lib.rs",
        "extern \"C\" {\n    #[link_name = \"count\"]\n    fn counted() -> i32;\n}\n\n\
         pub fn count() -> i32 {\n    unsafe { counted() + counted() }\n}\n",
    ),
];

#[test]
fn a_program_of_a_workspace_builds_as_with_cargo() {
    let folder = TempDir::new().expect("a folder");
    for (path, text) in PROGRAM {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    let built = monohull(folder.path(), folder.path(), &["build", "app", "--features", "loud"]);
    // Link-time optimization makes nothing that std does for itself the program's.
    assert!(!String::from_utf8_lossy(&built.stderr).contains("warning"), "{built:?}");
    let image = done(built);
    assert!(image.ends_with("/target/images/app.so\n"), "{image}");
    workflow(folder.path(), "app", "target/images/app.so");
    let output = monohull(folder.path(), folder.path(), &["run", "workflow.json"]);
    assert_eq!(output.status.code(), Some(1), "it ends with an error: {output:?}");
    let lines = lines(&output);
    assert_eq!(lines[..3], ["app/src/main.rs 7 included", r#"Some("main") ["app", "--depth=2"]"#, "83 83"]);
    assert_eq!(lines[3..], ["true true"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    for line in ["thread 'main' (1) panicked at app/src/inner.rs:1:18:", "Error: \"in the end\""] {
        assert!(errors.contains(line), "{errors}");
    }
}

/// Crates that cargo builds, and that are made in unusual ways. The folder's name has a space.
const UNUSUAL: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "[workspace]\nmembers = [\"app\", \"both\", \"small\"]\nresolver = \"3\"\n[workspace.dependencies]\nitoa = \"1\"\n\
         [patch.crates-io]\nitoa = { path = \"itoa\" }\n[profile.release]\npanic = \"abort\"\nlto = \"thin\"\nstrip = true\n",
    ),
    (".cargo/config.toml", "[build]\ntarget-dir = \"out put\"\ntarget = \"x86_64-unknown-linux-musl\"\n"),
    ("itoa/Cargo.toml", "[package]\nname = \"itoa\"\nversion = \"1.99.0\"\nedition = \"2021\"\n[workspace]\n"),
    ("itoa/src/lib.rs", "pub const NAME: &str = \"patched\";\n"),
    (
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\ndefault-run = \"app\"\n[features]\nloud = []\n\
         [dependencies]\nboth = { path = \"../both\" }\nitoa.workspace = true\n\
         [lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n[[bin]]\nname = \"app\"\npath = \"src/the app.rs\"\n\
         [[bin]]\nname = \"c-main\"\n[[bin]]\nname = \"loud\"\nrequired-features = [\"loud\"]\n",
    ),
    ("app/src/lib.rs", "#[unsafe(no_mangle)]\npub extern \"C\" fn app_two() -> u8 {\n    2\n}\n"),
    (
        "app/src/the app.rs",
        "#![cfg_attr(not(test), forbid(unsafe_code))]\n\nfn main() {\n    \
         println!(\"{} {} {} {} {}\", file!(), app::app_two(), both::ANSWER, itoa::NAME, cfg!(panic = \"abort\"));\n}\n",
    ),
    (
        "app/src/bin/c-main.rs",
        "#![no_main]\n\n#[unsafe(no_mangle)]\npub extern \"C\" fn main(count: i32, _: *const *const u8) -> i32 {\n    \
         println!(\"{count} arguments\");\n    0\n}\n",
    ),
    ("app/src/bin/loud.rs", "fn main() {\n    println!(\"loud {}\", cfg!(feature = \"loud\"));\n}\n"),
    (
        "both/Cargo.toml",
        "[package]\nname = \"both\"\nversion = \"0.1.0\"\nedition = \"2024\"\nlinks = \"both\"\n[features]\nsmall = [\"dep:monohull-std\"]\n\
         [dependencies]\nmonohull-std = { path = \"@SHIM@\", optional = true }\n",
    ),
    ("both/build.rs", "fn main() {\n    println!(\"cargo::rustc-env=ANSWER=42\");\n}\n"),
    ("both/src/lib.rs", "#![no_std]\n\npub const ANSWER: &str = env!(\"ANSWER\");\n"),
    (
        "small/Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
         [dependencies]\nboth = { path = \"../both\", features = [\"small\"] }\n",
    ),
    ("small/src/lib.rs", "#![no_std]\n"),
    (
        "bare/Cargo.toml",
        "[package]\nname = \"bare\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[profile.release]\npanic = \"abort\"\n[workspace]\n",
    ),
    (
        "bare/src/main.rs",
        "#![no_std]\n#![no_main]\n\nuse core::ffi::{c_char, c_int};\n\nunsafe extern \"C\" {\n    fn puts(text: *const c_char) -> c_int;\n}\n\n\
         #[panic_handler]\nfn panic(_: &core::panic::PanicInfo<'_>) -> ! {\n    loop {}\n}\n\n\
         #[unsafe(no_mangle)]\nextern \"C\" fn main() -> c_int {\n    unsafe { puts(c\"without std\".as_ptr()) };\n    0\n}\n",
    ),
];

#[test]
fn unusual_crates_build_as_with_cargo() {
    let folder = TempDir::with_prefix("of crates ").expect("a folder");
    let here = folder.path();
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("../std-shim");
    for (path, text) in UNUSUAL {
        let path = here.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text.replace("@SHIM@", &shim.to_string_lossy())).expect("written");
    }
    for (arguments, printed) in [
        (&["app"][..], "app/src/the app.rs 2 42 patched true"),
        (&["app", "--bin", "c-main"], "2 arguments"),
        (&["app", "--bin", "loud", "--features", "loud"], "loud true"),
        (&["bare"], "without std"),
    ] {
        let built = done(monohull(here, here, &[&["build"], arguments].concat()));
        assert!(built.contains("/out put/images/"), "{built}");
        workflow(here, "unusual", built.trim());
        let output = monohull(here, here, &["run", "workflow.json"]);
        assert_eq!(lines(&output), [printed], "{arguments:?}: {output:?}");
    }
}

/// Each asks for something that a function has not, through std or not. The libraries that are in it as well ask for nothing.
const REFUSED: &str = r#"
use std::ffi::{c_char, c_int};

unsafe extern "C" {
    fn dlopen(name: *const c_char, how: c_int) -> *const u8;
    fn signal(number: c_int, handler: usize) -> usize;
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
}

#[inline(never)]
fn converts() -> bool {
    std::process::Command::new("convert").status().is_ok()
}

#[inline(never)]
fn links() -> bool {
    std::fs::hard_link("/a", "/b").is_ok()
}

#[inline(never)]
fn loads() -> bool {
    !unsafe { dlopen(c"libz.so".as_ptr(), 2) }.is_null()
}

#[inline(never)]
fn waits_for_signals() -> usize {
    unsafe { signal(15, 1) }
}

/// A loop of events does without, so it is no reason to warn.
#[inline(never)]
fn has_timers() -> bool {
    unsafe { timerfd_create(1, 0) >= 0 }
}

fn main() {
    println!("{} {} {} {} {}", converts(), links(), loads(), waits_for_signals(), has_timers());
}
"#;

#[test]
fn what_will_be_refused_is_a_warning_of_the_build() {
    let folder = TempDir::new().expect("a folder");
    done(monohull(folder.path(), folder.path(), &["new", "asks"]));
    let asks = folder.path().join("asks");
    fs::write(asks.join("src/main.rs"), REFUSED).expect("written");
    let built = monohull(folder.path(), &asks, &["build"]);
    let said = String::from_utf8_lossy(&built.stderr).into_owned();
    done(built);
    for (does, user) in [
        ("code in the image starts processes (", "asks::converts (crate `asks`)"),
        ("code in the image makes links of files (link", "asks::links (crate `asks`)"),
        ("code in the image loads libraries (dlopen)", "asks::loads (crate `asks`)"),
        ("code in the image handles signals or sends them (signal)", "asks::waits_for_signals (crate `asks`)"),
    ] {
        let warning = said.split("warning: ").find(|warning| warning.starts_with(does));
        assert!(warning.is_some_and(|warning| warning.contains(&format!("used by: {user}\n"))), "{does}: {said}");
    }
    assert_eq!(said.matches("which is refused when it runs").count(), 4, "{said}");
    // As the build has said.
    let output = monohull(folder.path(), &asks, &["run", "workflow.json"]);
    assert_eq!(lines(&output), ["false false false 0 false"], "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("timers"), "{output:?}");
}

#[test]
fn what_is_no_program_is_said_to_be_none() {
    let folder = TempDir::new().expect("a folder");
    let here = folder.path();
    for (path, text) in [
        ("t.c", ""),
        ("t.rs", ""),
        ("q.wat", ""),
        ("all/Cargo.toml", "[workspace]\nmembers = [\"one\", \"two\"]\nresolver = \"2\"\n"),
        ("all/one/Cargo.toml", "[package]\nname = \"one\"\nedition = \"2021\"\n"),
        ("all/one/src/lib.rs", "pub fn nothing() {}\n"),
        ("all/two/Cargo.toml", "[package]\nname = \"two\"\nedition = \"2021\"\n"),
        ("all/two/src/lib.rs", ""),
    ] {
        let path = here.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    for (path, words) in [
        ("t.c", "t.c is a source file and no crate: `monohull cc FILE"),
        ("t.rs", "`monohull build` takes the folder with its Cargo.toml"),
        ("q.wat", "q.wat is a source file and no crate: `wat2wasm FILE"),
        ("missing", "missing is no crate: it has no Cargo.toml"),
        ("nope.wasm", "nope.wasm: there is no such file"),
        ("nope.js", "nope.js: there is no such file"),
        ("all", "all is a workspace without a crate of its own: name the folder of one of one, two"),
        ("all/one", "the crate one has no program (src/main.rs) and no library with a function `main`"),
    ] {
        let refused = monohull(here, here, &["build", path]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && said.contains(words), "{path}: {said}");
    }
}

/// A workspace with an example and a setting of cargo in a file.
const FLEET: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "[workspace]\nmembers = [\"one\", \"two\"]\nresolver = \"2\"\n[profile.small]\ninherits = \"release\"\n",
    ),
    ("one/Cargo.toml", "[package]\nname = \"one\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    ("one/src/lib.rs", "#![allow(unexpected_cfgs)]\n\npub const TOLD: bool = cfg!(told);\n"),
    ("one/src/main.rs", "fn main() {\n    println!(\"program {}\", one::TOLD);\n}\n"),
    ("one/examples/shown.rs", "fn main() {\n    println!(\"example {}\", one::TOLD);\n}\n"),
    (
        "two/Cargo.toml",
        "[package]\nname = \"two\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\none = { path = \"../one\" }\n",
    ),
    ("two/src/main.rs", "fn main() {\n    println!(\"two {}\", one::TOLD);\n}\n"),
    ("told.toml", "[build]\nrustflags = [\"--cfg\", \"told\"]\n"),
];

#[test]
fn options_of_cargo_are_passed_on() {
    let folder = TempDir::new().expect("a folder");
    let here = folder.path();
    write_all(here, FLEET);
    let build = |arguments: &[&str]| monohull(here, here, &[&["build"], arguments].concat());
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    // There is no Cargo.lock yet.
    for lock in ["--locked", "--frozen"] {
        let refused = build(&["--package", "two", lock]);
        assert!(refused.status.code() == Some(2) && said(&refused).contains("Cargo.lock"), "{}", said(&refused));
    }
    assert!(!here.join("Cargo.lock").exists());
    for (arguments, in_target, printed, words) in [
        (&["-p", "two", "--offline", "--release", "-j", "1"][..], "target/images/two.so", "two false", "Compiling two"),
        (&["-p", "two@0.1.0", "--locked", "-q", "--config", "told.toml"], "target/images/two.so", "two true", ""),
        (
            &["--manifest-path", "one/Cargo.toml", "--frozen", "--target-dir", "other", "--example", "shown", "-v"],
            "other/images/shown.so",
            "example false",
            "Running `",
        ),
        (
            &[
                "one",
                "--profile",
                "small",
                "--config",
                "build.rustflags=['--cfg', 'told']",
                "--config",
                "build.target-dir='third'",
            ],
            "third/images/one.so",
            "program true",
            "profile [optimized",
        ),
    ] {
        let built = build(arguments);
        let told = said(&built);
        assert!(if words.is_empty() { told.is_empty() } else { told.contains(words) }, "{arguments:?}: {told}");
        let image = done(built);
        assert!(image.trim_end().ends_with(in_target), "{arguments:?}: {image}");
        workflow(here, "fleet", image.trim());
        assert_eq!(lines(&monohull(here, here, &["run", "workflow.json"])), [printed], "{arguments:?}");
    }
    for (arguments, words) in [
        (&["-p", "three"][..], "the workspace has no crate three; it has one, two"),
        (&["one", "--example", "none"], "the crate one has no example none; it has shown"),
        (&["two", "--example", "none"], "the crate two has no example none; it has none"),
        (&["--manifest-path", "none/Cargo.toml"], "none/Cargo.toml is no crate"),
        (&["one", "--manifest-path", "one/Cargo.toml"], "cannot be used with"),
        (&["one", "--release", "--profile", "small"], "cannot be used with"),
        (&["one", "-q", "-v"], "cannot be used with"),
    ] {
        let refused = build(arguments);
        assert!(refused.status.code() == Some(2) && said(&refused).contains(words), "{}", said(&refused));
    }
}

/// A crate whose C is for the function, and one that its build script uses, whose C runs on the host.
const BOTH_SIDES: &[(&str, &str)] = &[
    (
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[build-dependencies]\nmakes = { path = \"../makes\" }\n[workspace]\n",
    ),
    (
        "app/build.rs",
        "fn main() {\n    println!(\"cargo:rustc-env=MADE={}\", makes::answer());\n    makes::compile(\"src/answer.c\");\n}\n",
    ),
    (
        "app/src/answer.c",
        "#include <stdio.h>\n#ifdef __GLIBC__\n#error for the function\n#endif\nint answer(void) { return 7; }\n",
    ),
    (
        "app/src/main.rs",
        "extern \"C\" {\n    fn answer() -> i32;\n}\n\nfn main() {\n    println!(\"{} {}\", env!(\"MADE\"), unsafe { answer() });\n}\n",
    ),
    ("makes/Cargo.toml", "[package]\nname = \"makes\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    ("makes/build.rs", "include!(\"src/compile.rs\");\n\nfn main() {\n    compile(\"src/answer.c\");\n}\n"),
    (
        "makes/src/compile.rs",
        "pub fn compile(source: &str) {\n    use std::process::Command;\n    let out = std::env::var(\"OUT_DIR\").unwrap();\n    \
         let cc = std::env::var(\"CC_x86_64_unknown_linux_gnu\").unwrap();\n    let object = format!(\"{out}/answer.o\");\n    \
         assert!(Command::new(cc).args([\"-c\", source, \"-o\", &object]).status().unwrap().success());\n    \
         let archive = format!(\"{out}/libanswer.a\");\n    \
         assert!(Command::new(\"ar\").args([\"crs\", &archive, &object]).status().unwrap().success());\n    \
         println!(\"cargo:rustc-link-search={out}\\ncargo:rustc-link-lib=static=answer\");\n}\n",
    ),
    (
        "makes/src/answer.c",
        "#include <stdio.h>\n#ifndef __GLIBC__\n#error for the host\n#endif\nint answer(void) { return 42; }\n",
    ),
    (
        "makes/src/lib.rs",
        "include!(\"compile.rs\");\n\nmod c {\n    extern \"C\" {\n        pub fn answer() -> i32;\n    }\n}\n\n\
         pub fn answer() -> i32 {\n    unsafe { c::answer() }\n}\n",
    ),
];

#[test]
fn what_build_scripts_use_themselves_is_compiled_for_the_host() {
    let folder = TempDir::new().expect("a folder");
    let here = folder.path();
    write_all(here, BOTH_SIDES);
    let image = done(monohull(here, here, &["build", "app"]));
    workflow(here, "app", image.trim());
    assert_eq!(lines(&monohull(here, here, &["run", "workflow.json"])), ["42 7"]);
    // Another compiler of the host.
    let marked = here.join("marked");
    fs::write(&marked, "#!/bin/sh\necho called >> \"$(dirname \"$0\")/calls\"\nexec cc \"$@\"\n").expect("written");
    fs::set_permissions(&marked, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    let mut again = command(here, here, &["build", "app", "--target-dir", "again"]);
    done(again.env("HOST_CC", &marked).output().expect("it starts"));
    assert_eq!(fs::read_to_string(here.join("calls")).expect("it was called"), "called\n");
}

/// What Autoconf makes of a `configure.ac`, as far as it decides whether to start what has been compiled.
const CONFIGURE: &str = r#"prefix=NONE
ac_default_prefix=/usr/local
cross_compiling=no
test "x$host_alias" = "x$build_alias" || cross_compiling=yes
if test -n "$CONFIG_SITE"; then . "$CONFIG_SITE"; fi
echo 'int main(void) { return 0; }' > conftest.c
$CC conftest.c -o conftest || exit 77
if test "$cross_compiling" = no && ! ./conftest; then
    echo "configure: error: cannot run C compiled programs." >&2
    exit 77
fi
echo "$cross_compiling $of_the_user" > answer
"#;

/// Runs it as the crates of such libraries do: host and target have one name.
const CONFIGURES: &str = "fn main() {\n    use std::{env, fs, process::Command};\n    let out = env::var(\"OUT_DIR\").unwrap();\n    \
     let mut configure = Command::new(\"sh\");\n    configure.arg(fs::canonicalize(\"../configure\").unwrap()).current_dir(&out);\n    \
     configure.env(\"CC\", env::var(\"CC_x86_64_unknown_linux_gnu\").unwrap());\n    \
     configure.env(\"host_alias\", env::var(\"TARGET\").unwrap()).env(\"build_alias\", env::var(\"HOST\").unwrap());\n    \
     assert!(configure.status().unwrap().success());\n    \
     print!(\"cargo:rustc-env=CONFIGURED={}\", fs::read_to_string(format!(\"{out}/answer\")).unwrap());\n    also();\n}\n";

#[test]
fn a_configure_of_a_crate_does_not_start_what_is_for_the_function() {
    let folder = TempDir::new().expect("a folder");
    let here = folder.path();
    let package = |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    let app = package("app") + "[build-dependencies]\nmakes = { path = \"../makes\" }\n[workspace]\n";
    let tells =
        format!("{CONFIGURES}fn also() {{\n    println!(\"cargo:rustc-env=MADE={{}}\", makes::CONFIGURED);\n}}\n");
    write_all(
        here,
        &[
            ("configure", CONFIGURE),
            ("app/Cargo.toml", &app),
            ("app/build.rs", &tells),
            ("app/src/main.rs", "fn main() {\n    println!(\"{}, {}\", env!(\"CONFIGURED\"), env!(\"MADE\"));\n}\n"),
            ("makes/Cargo.toml", &package("makes")),
            ("makes/build.rs", &format!("{CONFIGURES}fn also() {{}}\n")),
            ("makes/src/lib.rs", "pub const CONFIGURED: &str = env!(\"CONFIGURED\");\n"),
            ("site/users", "of_the_user=sourced\n"),
        ],
    );
    let mut build = command(here, here, &["build", "app"]);
    let image = done(build.env("CONFIG_SITE", here.join("site/users")).output().expect("it starts"));
    workflow(here, "app", image.trim());
    assert_eq!(lines(&monohull(here, here, &["run", "workflow.json"])), ["yes sourced, no sourced"]);
}

/// Wherever the user has written flags of rustc down, they reach rustc, and so do Monohull's.
#[test]
fn flags_of_cargos_configuration_are_taken() {
    const TELLS: &str = "fn main() { println!(\"{} {}\", cfg!(theirs), cfg!(rustix_use_libc)) }\n";
    let folder = TempDir::new().expect("a folder");
    done(monohull(folder.path(), folder.path(), &["new", "tells"]));
    let tells = folder.path().join("tells");
    fs::write(tells.join("src/main.rs"), TELLS).expect("written");
    fs::create_dir(folder.path().join(".cargo")).expect("made");
    // It holds for the folders below it.
    for (settings, printed) in [
        ("[build]\nrustflags = [\"--cfg\", \"theirs\"]\n", "true true"),
        ("[target.x86_64-unknown-linux-gnu]\nrustflags = \"--cfg theirs\"\n", "true true"),
        ("[target.'cfg(unix)']\nrustflags = [\"--cfg=theirs\"]\n", "true true"),
        ("[target.'cfg(unix)']\nrustflags = \"--cfg=theirs\"\n", "true true"),
        // A linker of theirs makes no image.
        ("[target.'cfg(target_os = \"linux\")']\nrustflags = [\"--cfg=theirs\", \"-Clinker=cc\"]\n", "true true"),
        ("[target.wasm32-wasip1]\nrustflags = [\"--cfg=theirs\"]\n", "false true"),
    ] {
        fs::write(folder.path().join(".cargo/config.toml"), settings).expect("written");
        done(monohull(folder.path(), &tells, &["build"]));
        let output = monohull(folder.path(), &tells, &["run", "workflow.json"]);
        assert_eq!(lines(&output), [printed], "{settings}: {output:?}");
    }
}

#[test]
fn a_crate_with_several_programs_needs_a_choice() {
    let folder = TempDir::new().expect("a folder");
    done(monohull(folder.path(), folder.path(), &["new", "many"]));
    let many = folder.path().join("many");
    fs::create_dir(many.join("src/bin")).expect("made");
    fs::write(many.join("src/bin/other.rs"), "fn main() { println!(\"the other\") }\n").expect("written");
    let output = monohull(folder.path(), &many, &["build"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--bin NAME chooses one of many, other"), "{output:?}");
    done(monohull(folder.path(), &many, &["build", "--bin", "other"]));
    workflow(&many, "other", "target/images/other.so");
    assert_eq!(lines(&monohull(folder.path(), &many, &["run", "workflow.json"])), ["the other"]);
    assert_eq!(monohull(folder.path(), &many, &["build", "--bin", "none"]).status.code(), Some(2));
}

/// What a workflow file may not name in place of an image, and what must be there for what it may.
#[test]
fn only_programs_that_run_nothing_when_they_are_compiled_are_named_by_a_workflow() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for part in ["crate", "empty"] {
        fs::create_dir(path(part)).expect("made");
    }
    for (name, text) in [
        ("crate/Cargo.toml", ""),
        ("crate/main.py", ""),
        ("program.c", "int main(void) { return 0; }"),
        ("program.wat", "(module)"),
        ("program.go", "package main"),
        ("app.py", ""),
    ] {
        fs::write(path(name), text).expect("written");
    }
    // Beside this program there is no interpreter.
    for part in ["alone/bin", "alone/python"] {
        fs::create_dir_all(path(part)).expect("made");
    }
    let alone = path("alone/bin/monohull");
    fs::hard_link(env!("CARGO_BIN_EXE_monohull"), &alone).expect("linked");
    for (image, words, blame) in [
        ("crate", "is a crate and no image: `monohull build` makes one", "workflow"),
        ("empty", "is a folder without a program", "workflow"),
        ("program.c", "is source and no image: `monohull cc FILE", "workflow"),
        ("program.wat", "is source and no image: `wat2wasm FILE`", "workflow"),
        ("program.go", "is source and no image: `GOOS=wasip1 GOARCH=wasm go build", "workflow"),
        ("missing.py", "No such file or directory", "workflow"),
        ("app.py", "`cargo xtask build --python` makes one", "function"),
    ] {
        workflow(folder.path(), "test", image);
        let run = |args: &[&str]| {
            let output = Command::new(&alone).current_dir(folder.path()).args(args).output().expect("it starts");
            (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
        };
        let (code, said) = run(&["validate", "workflow.json"]);
        assert!(code == Some(2) && said.contains(words), "{image}: {code:?} {said}");
        let (_, said) = run(&["run", "--json", "workflow.json"]);
        assert!(said.contains(words) && said.contains(&format!("\"blame\": \"{blame}\"")), "{image}: {said}");
    }
}
