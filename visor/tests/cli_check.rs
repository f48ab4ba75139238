//! `monohull check` as a user meets it, what `monohull build` does about accidents, and that both refuse what the loader refuses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const MONOHULL: &str = env!("CARGO_BIN_EXE_monohull");
const PAGE: usize = 4096;
const WRPKRU: [u8; 3] = [0x0f, 0x01, 0xef];

fn monohull(args: &[&Path]) -> (i32, String, String) {
    let output: Output =
        Command::new(MONOHULL).env_remove("CARGO_TARGET_DIR").args(args).output().expect("monohull starts");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("an exit code"), text(&output.stdout), text(&output.stderr))
}

/// Most files here are no function images.
fn check(args: &[&str], files: &[&Path]) -> (i32, String, String) {
    let args: Vec<&Path> = ["check", "--instructions"].into_iter().chain(args.iter().copied()).map(Path::new).collect();
    monohull(&[&args, files].concat())
}

/// A shared object whose only segment is `code`, in the file's second page and at the same address.
fn write(folder: &TempDir, name: &str, code: &[u8]) -> PathBuf {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([3u16, 62].into_iter().flat_map(u16::to_le_bytes));
    file.extend(1u32.to_le_bytes());
    file.extend([0u64, 64, 0].into_iter().flat_map(u64::to_le_bytes));
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 56, 1, 64, 0, 0].into_iter().flat_map(u16::to_le_bytes));
    file.extend([1u32, 5].into_iter().flat_map(u32::to_le_bytes));
    let (page, size) = (PAGE as u64, code.len() as u64);
    file.extend([page, page, page, size, size, page].into_iter().flat_map(u64::to_le_bytes));
    file.resize(PAGE, 0);
    file.extend(code);
    let path = folder.path().join(name);
    fs::write(&path, file).expect("written");
    path
}

/// No-operations with `bytes` among them.
fn among_nops(bytes: &[u8]) -> Vec<u8> {
    [&[0x90; 200], bytes, &[0x90; 56]].concat()
}

#[test]
fn help_has_an_example_and_the_exit_codes() {
    let (code, help, _) = check(&["--help"], &[]);
    assert_eq!(code, 0);
    assert!(help.contains("Example:\n  monohull check ") && help.contains("Exit codes:\n  0  every file"), "{help}");
}

#[test]
fn the_exit_code_is_that_of_the_worst_file() {
    let folder = TempDir::new().expect("a folder");
    let clean = write(&folder, "clean.so", &among_nops(&[]));
    let warned = write(&folder, "warned.so", &among_nops(&[0x0f, 0x05]));
    let refused = write(&folder, "refused.so", &among_nops(&WRPKRU));
    let text = folder.path().join("text");
    fs::write(&text, "no ELF file").expect("written");
    let code = |files: &[&Path]| check(&[], files).0;
    assert_eq!(code(&[&clean]), 0);
    assert_eq!(code(&[&warned, &clean]), 0);
    assert_eq!(code(&[&refused, &clean]), 1);
    assert_eq!(code(&[&refused, &text, &clean]), 2);
    assert_eq!(code(&[&folder.path().join("none")]), 2);
    assert_eq!(code(&[]), 2);
    let (_, _, message) = check(&[], &[&text]);
    assert!(message.contains("text: the file is not a 64-bit little-endian ELF file for x86-64"), "{message}");
}

/// See `checker/tests/compiled`.
#[test]
fn what_a_compiler_has_made_of_wasm_is_judged_like_anything_else() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../checker/tests/compiled");
    let [sum, constant] = ["sum.cwasm", "constant.cwasm"].map(|name| folder.join(name));
    let (code, json, _) = check(&["--json"], &[&sum, &constant]);
    let said: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, &said["status"]), (1, &"refused".into()), "{said:#}");
    let [sum, constant] = [&said["files"][0], &said["files"][1]];
    assert_eq!((&sum["status"], &sum["form"], &sum["scanned_bytes"]), (&"clean".into(), &"wasm".into(), &4096.into()));
    assert_eq!((&constant["status"], &constant["form"]), (&"refused".into(), &"wasm".into()));
    let finding = &constant["findings"][0];
    assert_eq!((&finding["kind"], &finding["context"]["class"]), (&"wrpkru".into(), &"accident".into()), "{finding:#}");
    assert_eq!(check(&[], &[&folder.join("sum.cwasm")]).0, 0);
}

#[test]
fn people_see_the_finding_among_its_neighbours() {
    let folder = TempDir::new().expect("a folder");
    // mov eax, 0xef010f; syscall
    let file = write(&folder, "f.so", &among_nops(&[0xb8, 0x0f, 0x01, 0xef, 0x00, 0x0f, 0x05]));
    let (_, text, _) = check(&[], &[&file]);
    for part in [
        "f.so: refused (",
        "refused: WRPKRU, found 1 ×\n",
        "WRPKRU at file offset 0x10c9 (address 0x10c9), bytes 0f 01 ef",
        "an accident: bytes of other instructions (64 of 64 starting points before it agree)",
        ">   0x10c8: b8 0f 01 ef 00                 mov eax, 0xef010f",
        "when jumped to: wrpkru",
        "remedy: other instructions happen to hold these bytes",
        "warning: SYSCALL, found 1 ×\n",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    assert!(!text.contains("why:"), "{text}");
    let (_, text, _) = check(&["--explain"], &[&file]);
    for part in [
        "why:    it sets the protection-key rights",
        "behind: nothing: the instruction needs no privilege",
        "behind: syscall user dispatch",
        "SYSCALL at file offset 0x10cd",
        "remedy: call the operating system through monohull-std",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

/// Every field that `docs/checker.md` promises.
#[test]
fn programs_get_json() {
    let folder = TempDir::new().expect("a folder");
    let file = write(&folder, "f.so", &among_nops(&[0xb8, 0x0f, 0x01, 0xef, 0x00, 0x0f, 0x05]));
    let text = folder.path().join("text");
    fs::write(&text, "no ELF file").expect("written");
    let (code, json, _) = check(&["--json"], &[&file, &text]);
    let document: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, &document["status"]), (2, &"unreadable".into()));
    let [judged, unreadable] = &document["files"].as_array().expect("files")[..] else { panic!("{json}") };
    assert_eq!(unreadable["status"], "unreadable");
    assert_eq!(unreadable["error"], "the file is not a 64-bit little-endian ELF file for x86-64");
    assert_eq!((&judged["status"], &judged["form"]), (&"refused".into(), &"linked".into()));
    assert_eq!((&judged["own_gates"], &judged["filled_in_later"]), (&0.into(), &0.into()));
    assert_eq!(judged["file"], file.to_str().expect("a name"));
    assert_eq!(judged["scanned_bytes"], among_nops(&[0; 7]).len());
    assert_eq!(judged["counts"][0], serde_json::json!({"kind": "wrpkru", "count": 1}));
    let finding = &judged["findings"][0];
    assert_eq!((&finding["offset"], &finding["address"]), (&0x10c9.into(), &0x10c9.into()));
    assert_eq!((&finding["bytes"], &finding["symbol"]), (&"0f 01 ef".into(), &Value::Null));
    assert_eq!((&finding["kind"], &finding["severity"]), (&"wrpkru".into(), &"refuse".into()));
    assert!(finding["why"].is_string() && finding["remedy"].is_string());
    let context = &finding["context"];
    assert_eq!((&context["class"], &context["when_jumped_to"]), (&"accident".into(), &"wrpkru".into()));
    assert_eq!(context["evidence"], serde_json::json!({"starts": {"agree": 64, "of": 64}}));
    assert_eq!(
        context["neighbourhood"][3],
        serde_json::json!({"address": 0x10c8, "bytes": "b8 0f 01 ef 00", "text": "mov eax, 0xef010f", "here": true})
    );
    assert_eq!(judged["findings"][1]["context"]["class"], "instruction");
}

/// How often a kind was found.
fn count(file: &Value, kind: &str) -> u64 {
    let counts = file["counts"].as_array().expect("counts");
    counts.iter().find(|count| count["kind"] == kind).map_or(0, |count| count["count"].as_u64().expect("a number"))
}

/// Our gates are only ours in this very program: a copy of it is judged like any other file.
#[test]
fn own_gates_are_recognised_in_the_visor_alone() {
    let judge = |file: &Path| {
        let (code, json, _) = check(&["--json"], &[file]);
        let document: Value = serde_json::from_str(&json).expect("JSON");
        (code, document["files"][0].clone())
    };
    let (_, visor) = judge(Path::new(MONOHULL));
    let gates = visor["own_gates"].as_u64().expect("a number");
    assert!(gates > 0, "no gate was recognised");
    let findings = visor["findings"].as_array().expect("findings");
    let written = |finding: &&Value| finding["kind"] == "wrpkru" && finding["context"]["class"] == "instruction";
    assert_eq!(findings.iter().find(written), None);

    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("copy");
    fs::copy(MONOHULL, &path).expect("copied");
    let (code, copy) = judge(&path);
    assert_eq!((code, &copy["own_gates"]), (1, &0.into()));
    assert_eq!(count(&copy, "wrpkru"), gates + count(&visor, "wrpkru"));
}

/// A library crate without dependencies, with what the loader looks for; the source brings the start.
fn crate_with(source: &str) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let manifest = "[package]\nname = \"f\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).expect("written");
    fs::create_dir(folder.path().join("src")).expect("created");
    let version = monohull_abi::ABI_VERSION;
    let head = format!(
        r#"#![no_std]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {{ loop {{}} }}
#[unsafe(no_mangle)]
pub static MONOHULL_IMAGE: [u64; 2] = [u64::from_le_bytes(*b"MONOHULL"), {version}];
"#
    );
    fs::write(folder.path().join("src/lib.rs"), format!("{head}{source}")).expect("written");
    folder
}

/// The image that a crate becomes without a check.
fn build_unchecked(folder: &TempDir) -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder.path()).env_remove("CARGO_TARGET_DIR");
    cargo.args([
        "rustc",
        "--quiet",
        "--lib",
        "--crate-type=cdylib",
        "--release",
        "--config",
        "profile.release.panic='abort'",
    ]);
    let built = cargo.args(["--", "-C", "link-arg=-nostartfiles"]).output().expect("cargo starts");
    assert!(built.status.success(), "{built:?}");
    folder.path().join("target/release/libf.so")
}

/// A crate that calls C, as many do on which others rest.
fn crate_that_calls_c() -> TempDir {
    crate_with(
        r#"
pub mod deep {
    #[link(name = "c")]
    unsafe extern "C" { fn getpid() -> i32; }
    #[inline(never)]
    pub fn id() -> i32 { unsafe { getpid() } }
}
#[unsafe(export_name = "monohull_start")]
pub extern "C" fn id() -> i32 { deep::id() + 1 }
"#,
    )
}

#[track_caller]
fn names_the_culprit(text: &str) {
    for part in [
        "the image needs the library \"libc.so.6\"; a function image is complete by itself",
        "  getpid, used by f::deep::id (crate `f`)\n",
        "  To do: a library of the host is for the host's libc, and is not linked.",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

#[test]
fn build_refuses_what_the_loader_refuses() {
    let folder = crate_that_calls_c();
    let (code, out, message) = build(&folder);
    assert_eq!((code, out.as_str()), (2, ""), "{message}");
    names_the_culprit(&message);
    assert!(!folder.path().join("target/images/f.so").exists(), "a refused image was installed");
}

#[test]
fn check_and_validate_refuse_what_the_loader_refuses() {
    let folder = crate_that_calls_c();
    let image = build_unchecked(&folder);
    let (code, text, _) = monohull(&[Path::new("check"), &image]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("libf.so: refused (") && text.contains("  refused by the loader: "), "{text}");
    names_the_culprit(&text);
    let (code, json, _) = monohull(&[Path::new("check"), Path::new("--json"), &image]);
    let document: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, &document["files"][0]["status"]), (1, &"refused".into()), "{document:#}");
    names_the_culprit(document["files"][0]["loader"].as_str().expect("a reason"));
    // Its instructions are in order.
    assert_eq!(check(&[], &[&image]).0, 0);

    let workflow = folder.path().join("w.json");
    let document = serde_json::json!({
        "name": "w", "functions": { "f": { "image": image } }, "steps": [{ "name": "s", "function": "f" }]
    });
    fs::write(&workflow, document.to_string()).expect("written");
    let (code, _, message) = monohull(&[Path::new("validate"), &workflow]);
    assert_eq!(code, 2, "{message}");
    names_the_culprit(&message);
    // The positive control: a run says the same.
    let (code, _, message) = monohull(&[Path::new("run"), &workflow]);
    assert_ne!(code, 0);
    assert!(message.contains("needs the library \"libc.so.6\""), "{message}");
}

fn build(folder: &TempDir) -> (i32, String, String) {
    monohull(&[Path::new("build"), folder.path()])
}

/// A call over a distance of 0x28ae0f holds XRSTOR's bytes. The function called lies 16 bytes behind a multiple of 32:
/// with functions at such multiples, the distance is another.
#[test]
fn build_removes_an_accident_by_another_layout() {
    let folder = crate_with(
        r#"
core::arch::global_asm!(
    ".p2align 6", ".globl begin", ".hidden begin", "begin:", ".space 0x1c, 0x90",
    "call {target}", ".space 0x28ae0f, 0x90",
    target = sym target,
);
unsafe extern "C" { fn begin(); }
#[unsafe(export_name = "monohull_start")]
pub extern "C" fn target() { unsafe { begin() } }
"#,
    );
    let (code, image, message) = build(&folder);
    assert_eq!(code, 0, "{message}");
    assert!(message.contains("linked again with `-C llvm-args=-align-all-functions=5`"), "{message}");
    assert_eq!(monohull(&[Path::new("check"), Path::new(image.trim())]).0, 0);
}

#[test]
fn build_reports_an_accident_that_is_in_every_layout() {
    let folder = crate_with("#[unsafe(no_mangle)]\npub extern \"C\" fn constant() -> u32 { 0x00ef_010f }\n");
    let (cargo, calls) = (folder.path().join("cargo"), folder.path().join("calls"));
    let script = format!("#!/bin/sh\necho \"$*\" >>'{}'\nexec cargo \"$@\"\n", calls.display());
    fs::write(&cargo, script).expect("written");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("made a program");
    let output = Command::new(MONOHULL)
        .env_remove("CARGO_TARGET_DIR")
        .env("CARGO", &cargo)
        .arg("build")
        .arg(folder.path())
        .output();
    let output = output.expect("monohull starts");
    let (code, message) = (output.status.code().expect("an exit code"), String::from_utf8_lossy(&output.stderr));
    assert_eq!(code, 2);
    // What does not change from one layout to the next is asked once.
    let calls = fs::read_to_string(calls).expect("what cargo was called with");
    let count = |words: &str| calls.lines().filter(|call| call.starts_with(words)).count();
    assert_eq!([count("rustc "), count("-Zunstable-options config get")], [11, 1], "{calls}");
    assert!(message.contains("happen to hold the bytes of forbidden ones, also in 10 other layouts"), "{message}");
    assert!(message.contains("WRPKRU at file offset") && message.contains("in constant + 0x"), "{message}");
    assert!(!folder.path().join("target/images/f.so").exists(), "a refused image was installed");
}
