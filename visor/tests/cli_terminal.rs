//! What reaches the terminal: nothing that it would act on, wherever the text comes from, unless the user asked for it as it is.
//!
//! `examples/misbehave` prints one of each class (see `terminal` there); names come from files, disk images and a server.

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use tempfile::TempDir;

/// What `misbehave` prints, and how it is shown.
const TEXT: &str = "\x1b]52;c;cHduZWQ=\x07\x1b[2J\u{9b}31m\u{85}bill\x08\x08ok\x7f\0\u{202e}fdp.exe\u{2066}\u{2028}";
const SHOWN: &str = "\\u{1b}]52;c;cHduZWQ=\\u{7}\\u{1b}[2J\\u{9b}31m\\u{85}bill\\u{8}\\u{8}ok\\u{7f}\\u{0}\\u{202e}fdp.exe\\u{2066}\\u{2028}";

fn monohull() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.stdin(Stdio::null()).env_remove("RUST_LOG");
    command
}

/// Runs a shipped workflow.
fn run(name: &str, options: &[&str]) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows/failures");
    monohull().arg("run").arg(folder.join(name)).args(options).output().expect("monohull starts")
}

/// Text in which nothing acts on a terminal.
#[track_caller]
fn harmless(bytes: &[u8]) -> String {
    let text = String::from_utf8(bytes.to_vec()).expect("all output is UTF-8");
    let acts = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(acts), "{text:?}");
    text
}

/// Both streams of a program, in which nothing acts on a terminal.
#[track_caller]
fn all_harmless(output: &Output) -> String {
    harmless(&output.stdout) + &harmless(&output.stderr)
}

#[test]
fn what_a_function_prints_is_escaped() {
    let output = run("terminal-output.json", &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (out, err) = (harmless(&output.stdout), harmless(&output.stderr));
    assert!(out.lines().any(|line| line == format!("fail[0] | {SHOWN}")), "{out}");
    assert!(out.lines().any(|line| line == "fail[0] | working\\rother[0] | all is well"), "{out}");
    assert!(err.lines().any(|line| line == format!("fail[0] | {SHOWN}")), "{err}");
    // The output slot.
    assert!(out.lines().any(|line| line == format!("  {SHOWN}")), "{out}");
}

#[test]
fn a_panic_adds_no_line_to_the_report() {
    let output = run("terminal-panic.json", &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = all_harmless(&output);
    assert!(text.contains(SHOWN), "{text}");
    assert!(text.lines().any(|line| line == "  |   at fault  the host"), "{text}");
    assert!(text.lines().any(|line| line == "  | monohull: all is well"), "{text}");
    assert!(text.lines().any(|line| line == "  at fault  the function"), "{text}");
    let forged = |line: &str| line.starts_with("monohull: all") || line == "  at fault  the host";
    assert!(!text.lines().any(forged), "{text}");
}

#[test]
fn json_has_the_same_text_and_no_character_that_acts() {
    let output = run("terminal-output.json", &["--json"]);
    let report: Value = serde_json::from_str(&harmless(&output.stdout)).expect("JSON");
    let lines = &report["steps"][0]["instances"][0]["lines"];
    assert_eq!(lines[0]["text"], TEXT, "{report:#}");
    assert_eq!(report["output"]["text"]["text"], TEXT, "{report:#}");
    let output = run("terminal-panic.json", &["--json"]);
    let report: Value = serde_json::from_str(&harmless(&output.stdout)).expect("JSON");
    assert!(report["error"]["message"].as_str().expect("a message").contains(TEXT), "{report:#}");
}

/// The positive control: these are the characters that would have arrived.
#[test]
fn raw_shows_what_a_function_prints_as_it_is() {
    let output = run("terminal-output.json", &["--raw"]);
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(lines.starts_with(&format!("fail[0] | {TEXT}\n")), "{lines:?}");
}

/// A name that acts on a terminal and ends in a line of its own.
const NAME: &[u8] = b"x\x1b[2J\x9b31m\nmonohull: all is well.json";

#[test]
fn names_of_files_are_escaped() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join(OsStr::from_bytes(NAME));
    fs::write(&path, "{}").expect("a file with that name");
    let missing = folder.path().join(OsStr::from_bytes(b"no\x1b[2J\nmonohull: all is well"));
    for arguments in [
        &["validate".as_ref(), path.as_os_str()][..],
        &["run".as_ref(), path.as_os_str()],
        &["run".as_ref(), missing.as_os_str()],
        &["check".as_ref(), path.as_os_str(), missing.as_os_str()],
        &["deploy".as_ref(), missing.as_os_str()],
        &["build".as_ref(), missing.as_os_str()],
        &["image".as_ref(), "ls".as_ref(), path.as_os_str()],
        &["image".as_ref(), "create".as_ref(), path.as_os_str(), "--size".as_ref(), "1MiB".as_ref()],
    ] {
        let output = monohull().args(arguments).output().expect("monohull starts");
        let text = all_harmless(&output);
        assert_ne!(output.status.code(), Some(0), "{arguments:?}: {text}");
        assert!(text.contains("\\u{1b}"), "{arguments:?}: {text}");
        assert!(!text.lines().any(|line| line.starts_with("monohull: all")), "{arguments:?}: {text}");
    }
    // As the shell may find it for a pattern.
    let output = monohull().args(["check", "--\x1b]0;title\x07\u{202e}"]).output().expect("monohull starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(all_harmless(&output).contains("unexpected argument"), "{output:?}");
    // A verb that succeeds says a name, too.
    fs::remove_file(&path).expect("removed");
    let made = monohull().args(["image", "create"]).arg(&path).args(["--size", "1MiB"]).output().expect("it starts");
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    assert!(all_harmless(&made).contains("\\nmonohull: all is well"), "{made:?}");
}

/// A disk image with a file whose name turns text around, and whose content acts on a terminal.
fn disk_image(folder: &Path) -> PathBuf {
    let files = folder.join("files");
    fs::create_dir(&files).expect("a folder");
    fs::write(files.join("\u{202e}gpj.exe"), TEXT).expect("a file");
    let image = folder.join("disk.img");
    let made = monohull().args(["image", "create"]).arg(&image).arg("--from").arg(&files).output().expect("it starts");
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    image
}

#[test]
fn names_in_a_disk_image_are_escaped() {
    let folder = TempDir::new().expect("a folder");
    let image = disk_image(folder.path());
    for option in [None, Some("--json")] {
        let listed = monohull().args(["image", "ls"]).arg(&image).args(option).output().expect("monohull starts");
        let text = all_harmless(&listed);
        assert!(text.contains("202e") && text.contains("gpj.exe"), "{text}");
    }
    let missing = monohull().args(["image", "cat"]).arg(&image).arg("/\u{202e}gpj").output().expect("monohull starts");
    assert_eq!(missing.status.code(), Some(2));
    assert!(all_harmless(&missing).contains("\\u{202e}gpj"), "{missing:?}");
}

/// Runs a program whose standard output is a terminal, and gives what the terminal received.
fn in_a_terminal(command: Command) -> Vec<u8> {
    in_a_terminal_of(None, command)
}

/// The same with a terminal that knows how many columns it has.
fn in_a_terminal_of(columns: Option<u16>, mut command: Command) -> Vec<u8> {
    use nix::pty::{OpenptyResult, Winsize, openpty};
    use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
    let OpenptyResult { master: terminal, slave: end } = {
        let size = columns.map(|ws_col| Winsize { ws_row: 24, ws_col, ws_xpixel: 0, ws_ypixel: 0 });
        openpty(size.as_ref(), None).expect("a terminal")
    };
    let mut settings = tcgetattr(&end).expect("settings");
    cfmakeraw(&mut settings);
    tcsetattr(&end, SetArg::TCSANOW, &settings).expect("settings");
    let mut child = command.stdout(Stdio::from(end)).spawn().expect("it starts");
    // It holds the other end too, and would never see the end of the output.
    drop(command);
    let mut received = Vec::new();
    let mut terminal = File::from(terminal);
    let mut piece = [0; 4096];
    // The end of a terminal's output is an error.
    while let Ok(length @ 1..) = terminal.read(&mut piece) {
        received.extend_from_slice(&piece[..length]);
    }
    assert!(child.wait().expect("an end").success());
    received
}

#[test]
fn data_is_escaped_on_a_terminal_only() {
    let folder = TempDir::new().expect("a folder");
    let image = disk_image(folder.path());
    let cat = |options: &[&str]| {
        let mut command = monohull();
        command.args(["image", "cat"]).arg(&image).arg("/\u{202e}gpj.exe").args(options);
        command
    };
    assert_eq!(cat(&[]).output().expect("monohull starts").stdout, TEXT.as_bytes());
    assert_eq!(harmless(&in_a_terminal(cat(&[]))), SHOWN);
    assert_eq!(in_a_terminal(cat(&["--raw"])), TEXT.as_bytes());
}

/// In a pipe each row is a line. On a terminal no line is longer than that, and the name is still in one piece.
#[test]
fn tables_fit_the_terminal() {
    let long = "fifty-words-of-which-none-is-short-".repeat(3);
    let invocation = json!({ "id": "an-id-of-some-thirty-characters", "workflow": long, "call_id": "c", "mode": "synchronous",
        "status": "done", "duration_us": 1_234_567 });
    let server = server("200 OK", &json!({ "invocations": [invocation] }).to_string());
    let list = || {
        let mut command = monohull();
        command.args(["list", "invocations", "--server", &server]);
        command
    };
    let piped = list().output().expect("monohull starts").stdout;
    assert!(String::from_utf8(piped).expect("UTF-8").lines().any(|line| line.contains(&long)), "one line");
    for columns in [80, 120] {
        let shown = String::from_utf8(in_a_terminal_of(Some(columns), list())).expect("UTF-8");
        let widest = shown.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= columns.into()), "{widest:?} of {columns}:\n{shown}");
        assert!(shown.contains("an-id-of-some-thirty-characters"), "{shown}");
    }
}

/// A server that gives every request the same answer, and the address it has.
fn server(status: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let head = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            head.for_each(drop);
            // A client may go away.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn the_text_of_a_server_is_escaped() {
    let text = serde_json::json!(format!("{TEXT}\nmonohull: all is well"));
    let refusal = server(
        "404 Not Found",
        &format!("{{\"error\":{{\"kind\":{text},\"message\":{text},\"blame\":{text},\"step\":{text}}}}}"),
    );
    let workflows = server("200 OK", &format!("{{\"workflows\":[{{\"name\":{text},\"steps\":1}}]}}"));
    let lines = server("200 OK", &format!("step[0] | {TEXT}\n"));
    for (address, arguments) in [
        (&refusal, &["list"][..]),
        (&refusal, &["list", "--json"]),
        (&refusal, &["invoke", "w"]),
        (&refusal, &["logs", "0"]),
        (&workflows, &["list"]),
        (&workflows, &["list", "--json"]),
        (&lines, &["logs", "0"]),
        (&lines, &["logs", "0", "--json"]),
    ] {
        let output = monohull().args(arguments).args(["--server", address]).output().expect("monohull starts");
        let text = all_harmless(&output);
        assert!(text.contains("52;c;cHduZWQ="), "{arguments:?}: {text}");
        assert!(!text.lines().any(|line| line.starts_with("monohull: all")), "{arguments:?}: {text}");
    }
    let raw = monohull().args(["logs", "0", "--raw", "--server", &lines]).output().expect("monohull starts");
    assert_eq!(raw.stdout, format!("step[0] | {TEXT}\n").as_bytes());
}

/// Texts of a crate that arrive by way of cargo and the compiler: messages, warnings of a build script, names.
#[test]
fn what_cargo_and_the_compiler_print_is_escaped() {
    let folder = TempDir::new().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("src")).expect("a folder");
    let manifest = "[package]\nname = \"loud\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
    fs::write(at("Cargo.toml"), manifest).expect("written");
    // In a terminal a line is broken at a width; the text is shorter.
    fs::write(at("build.rs"), format!("fn main() {{ println!(\"cargo::warning={{}}\", {TEXT:?}); }}"))
        .expect("written");
    fs::write(at("src/main.rs"), format!("compile_error!({TEXT:?});\nfn main() {{}}\n")).expect("written");
    let build = |colours: Option<&str>| {
        let mut command = monohull();
        command.arg("build").arg(folder.path()).env("XDG_CACHE_HOME", at("cache")).env_remove("CARGO_TERM_COLOR");
        command.env_remove("CARGO_TARGET_DIR");
        colours.map(|colours| command.env("CARGO_TERM_COLOR", colours));
        command
    };
    for colours in [None, Some("never")] {
        let output = build(colours).output().expect("monohull starts");
        let text = all_harmless(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        // Cargo drops sequences where it has no colours.
        let is_shown =
            |line: &str| line.starts_with("warning: loud@0.1.0: ") && line.contains("\\u{202e}fdp.exe\\u{2066}");
        assert!(text.lines().any(is_shown), "{text}");
        // The compiler has signs of its own for some of them.
        assert!(text.lines().any(|line| line.starts_with("error: ") && line.contains("fdp.exe")), "{text}");
    }
    // Colours are the compiler's own, and nothing else is left as it was.
    let output = build(Some("always")).output().expect("monohull starts");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().expect("a part").to_owned();
    for part in parts {
        let (colour, rest) = part.split_once('m').expect("a colour");
        assert!(colour.chars().all(|c| c.is_ascii_digit() || c == ';'), "{part:?}");
        plain += rest;
    }
    assert!(plain.len() < text.len(), "there are colours: {text:?}");
    assert!(harmless(plain.as_bytes()).contains(SHOWN.trim_end_matches("\\u{2028}")), "{plain}");
}
