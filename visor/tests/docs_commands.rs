//! Every shell command in README.md and docs/ works: it is run as a reader would run it, or stands in [`NOT_RUN`] with the reason.
//!
//! A page is one session of bash, in a folder that looks like the repository after `cargo xtask build`. Commands are
//! the lines of blocks with `sh`, those of blocks without a language that begin with a program, and what stands behind
//! `$ ` in blocks with `console`. What follows there is compared with what the command prints:
//!
//! * a line `…` stands for any lines, `…` in a line for any text;
//! * durations, ids, dates, hexadecimal numbers, runs of spaces and lengths of lines in tables are all the same.
//!
//! A block with `file=PATH` is a file that the reader writes. A command has to succeed, unless `echo $?` comes next.

mod docs_support;

use docs_support::{Block, Page, cache, pages, root};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest that a page's commands may take: some compile a function and what it rests on.
const PATIENCE: Duration = Duration::from_secs(600);

/// What is not run: the page, how the command begins, and why.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "cargo xtask demo", "builds the workspace"),
    ("README.md", "cargo xtask test", "builds the workspace and runs this test"),
    ("docs/checker.md", "monohull check --json FILE…", "FILE stands for any file"),
    ("docs/checker.md", "monohull check --instructions FILE…", "FILE stands for any file"),
    ("docs/checker.md", "cargo ", "builds the workspace"),
    ("docs/continuations.md", "monohull checkpoint", "FILE stands for any checkpoint; `cli_checkpoint` has some"),
    ("docs/network.md", "monohull network", "needs a privilege (CAP_NET_ADMIN)"),
    ("docs/wasi.md", "monohull build app.wasm", "app.wasm stands for any program; `e2e_wasi` builds many"),
    ("docs/workflow-file.md", "monohull run app.wasm", "app.wasm stands for any program; `cli_single` runs one"),
    ("docs/wasi.md", "monohull build app.js", "app.js stands for any program; `e2e_wasi` builds some"),
    (
        "docs/wasi.md",
        "monohull build --wasi app.py",
        "the interpreter takes minutes to compile; `python_wasi` builds many",
    ),
    ("docs/wasi.md", "rustup ", "installs a target"),
    ("docs/wasi.md", "cargo ", "builds a crate of the reader's"),
    (
        "docs/programs.md",
        "monohull build app.py",
        "the interpreter takes minutes to compile; `python_programs` builds many",
    ),
    (
        "docs/programs.md",
        "monohull c++",
        "the C++ standard library takes minutes to compile; `cxx_programs` builds many",
    ),
    ("docs/programs.md", "cargo xtask build --python", "the interpreter and numpy take minutes to compile"),
    ("docs/programs.md", "cmake ", "the project is the reader's; `cli_cc` has one"),
    ("docs/service.md", "cargo xtask build", "builds the workspace"),
    (
        "docs/service.md",
        "monohull serve --listen 0.0.0.0:7070",
        "needs a certificate of the reader's host; `serve_tls` has one",
    ),
    (
        "docs/service.md",
        "monohull list --server https://",
        "needs a certificate of the reader's host; `serve_tls` has one",
    ),
    ("docs/service.md", "useradd ", "changes the reader's host"),
    ("docs/service.md", "install ", "changes the reader's host"),
    ("docs/service.md", "cp ", "changes the reader's host"),
    ("docs/service.md", "systemctl ", "changes the reader's host"),
    ("docs/service.md", "openssl ", "needs a program that the project does not need otherwise"),
    ("docs/tutorial.md", "cargo xtask ", "builds the workspace"),
    ("docs/tutorial.md", "export PATH=", "the program under test is on the path already"),
    ("docs/vm.md", "cargo xtask ", "builds the workspace and needs a network the first time"),
];

/// Files that a page supposes the reader to have.
const GIVEN: &[(&str, &str)] = &[
    ("docs/files.md", "photos/2026/beach.jpg"),
    ("docs/files.md", "photos/index.html"),
    ("docs/files.md", "notes.txt"),
    ("docs/checker.md", "target/images/hello.so"),
];

/// A command, and what the page says that it prints.
struct Step {
    place: String,
    command: String,
    output: Option<String>,
}

/// What a page has for its reader to do.
enum Task {
    Write { path: String, text: String },
    Run(Step),
}

/// Commands one to a line, unless a line goes on in the next.
fn script(block: &Block<'_>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for line in block.text.lines() {
        if goes_on {
            let step = steps.last_mut().expect("a command has begun");
            step.command = format!("{}\n{line}", step.command);
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            steps.push(Step { place: block.place.clone(), command: line.to_owned(), output: None });
        }
        goes_on = line.ends_with('\\');
    }
    steps
}

/// Commands behind `$ `, the lines they go on in behind `> `, and what they print.
fn session(block: &Block<'_>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block.text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            let step = Step { place: block.place.clone(), command: command.to_owned(), output: Some(String::new()) };
            steps.push(step);
            continue;
        }
        let step = steps.last_mut().unwrap_or_else(|| panic!("{}: no command comes first", block.place));
        let output = step.output.as_mut().expect("a session's command");
        match line.strip_prefix("> ") {
            Some(more) if output.is_empty() => step.command = format!("{}\n{more}", step.command),
            _ => output.extend([line, "\n"]),
        }
    }
    steps
}

/// Whether a text is commands and not a drawing.
fn begins_with_a_program(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_found = || !word.contains('/') && std::env::split_paths(&path).any(|folder| folder.join(word).is_file());
    // Lines of a drawing.
    let is_drawn = text.contains(['─', '▶']);
    !is_drawn && (word == "monohull" || word.ends_with("/monohull") || is_found())
}

fn tasks(page: &Page) -> Vec<Task> {
    let mut tasks = Vec::new();
    for block in page.blocks() {
        if let Some(path) = block.attribute("file") {
            let paragraph = block.before.trim_end().rsplit("\n\n").next().unwrap_or_default();
            assert!(paragraph.contains(&format!("`{path}`")), "{}: no text before names {path}", block.place);
            tasks.push(Task::Write { path: path.to_owned(), text: block.text.clone() });
            continue;
        }
        tasks.extend(
            match &*block.language {
                "sh" => script(&block),
                "" if begins_with_a_program(&block.text) => script(&block),
                "console" => session(&block),
                _ => Vec::new(),
            }
            .into_iter()
            .map(Task::Run),
        );
    }
    tasks
}

/// Why a command of a page is not run.
fn reason(page: &Page, step: &Step) -> Option<usize> {
    NOT_RUN.iter().position(|(name, start, _)| *name == page.name && step.command.starts_with(start))
}

/// A folder that looks like the repository after `cargo xtask build`.
fn repository(page: &Page, swaps: &Swaps) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let at = |path: &str| folder.path().join(path);
    let link = |from: PathBuf, to: &str| symlink(&from, at(to)).unwrap_or_else(|error| panic!("{to}: {error}"));
    for made in ["target/release", "target/images", "bin"] {
        fs::create_dir_all(at(made)).expect("made");
    }
    link(env!("CARGO_BIN_EXE_monohull").into(), "target/release/monohull");
    link(env!("CARGO_BIN_EXE_monohull").into(), "bin/monohull");
    link(root().join("target/modules"), "target/modules");
    for shared in ["README.md", "docs", "examples"] {
        link(root().join(shared), shared);
    }
    let images = fs::read_dir(root().join("target/images")).expect("images are built first: run `cargo xtask test`");
    for image in images.map(|image| image.expect("an image")) {
        let name = image.file_name().into_string().expect("UTF-8");
        link(image.path(), &format!("target/images/{name}"));
    }
    copy(&root().join("workflows"), &at("workflows"), swaps);
    for (_, given) in GIVEN.iter().filter(|(name, _)| *name == page.name) {
        let path = at(given);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        match path.extension() {
            Some(end) if end == "so" => fs::copy(root().join("target/images/echo.so"), &path).map(drop),
            _ => fs::write(&path, "a file of the reader's\n"),
        }
        .expect("written");
    }
    folder
}

/// Copies a folder of texts, changed as the commands are.
fn copy(from: &Path, to: &Path, swaps: &Swaps) {
    fs::create_dir(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match fs::read_to_string(&from) {
            Ok(text) => fs::write(&to, swaps.apply(&text)).expect("written"),
            Err(_) if from.is_dir() => copy(&from, &to, swaps),
            Err(_) => fs::copy(&from, &to).map(drop).expect("copied"),
        }
    }
}

/// What is this machine's own business: ports and folders, which others may use at the same time.
struct Swaps(Vec<(&'static str, String)>);

impl Swaps {
    fn new() -> Swaps {
        // Held until both are known, so that they differ.
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let [server, function] =
            listeners.each_ref().map(|listener| listener.local_addr().expect("an address").to_string());
        Swaps(vec![("127.0.0.1:7070", server), ("127.0.0.1:8000", function)])
    }

    fn with_folder(mut self, folder: &Path) -> Swaps {
        let state = folder.join("state-of-the-server").to_str().expect("UTF-8").to_owned();
        self.0.push(("/tmp/monohull", state));
        self.0.push(("/home/you/letters", folder.to_str().expect("UTF-8").to_owned()));
        self
    }

    fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }
}

/// A script that does a page's tasks in one shell. Each command's output and exit status go to files.
fn driver(tasks: &[Task], swaps: &Swaps, work: &Path) -> String {
    let mut driver = "last=0\n".to_owned();
    for (number, task) in tasks.iter().enumerate() {
        let file = |end: &str| work.join(format!("{number}.{end}")).to_str().expect("UTF-8").to_owned();
        match task {
            Task::Write { path, text } => {
                fs::write(file("text"), text).expect("written");
                let _ = writeln!(driver, "mkdir -p \"$(dirname '{path}')\"; cp '{}' '{path}'; last=$?", file("text"));
            }
            Task::Run(step) => {
                fs::write(file("sh"), swaps.apply(&step.command)).expect("written");
                let (script, output) = (file("sh"), file("out"));
                let _ = writeln!(driver, "(exit $last); . '{script}' > '{output}' 2>&1 < /dev/null; last=$?");
                let _ = writeln!(driver, "echo $last > '{}'", file("status"));
                let is_silent = step.command.contains(">/dev/null");
                if step.command.trim_end().ends_with('&') && !is_silent {
                    // It says when it is ready. The commands that follow a silent one wait for it themselves.
                    let _ = writeln!(driver, "for _ in $(seq 1200); do [ -s '{output}' ] && break; sleep 0.05; done");
                }
            }
        }
    }
    driver
}

/// Does all that a page has its reader do; what went wrong.
fn run(page: &Page) -> Vec<String> {
    let tasks: Vec<Task> = tasks(page)
        .into_iter()
        .filter(|task| !matches!(task, Task::Run(step) if reason(page, step).is_some()))
        .collect();
    let swaps = Swaps::new();
    let folder = repository(page, &swaps);
    let swaps = swaps.with_folder(folder.path());
    let work = TempDir::new().expect("a folder");
    // Where this machine has no curl, one that `cargo xtask fetch` brings.
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let path = [folder.path().join("bin")].into_iter().chain(std::env::split_paths(&usual));
    let path = path.chain([root().join("target/peers/bookworm/bin")]);
    let path = std::env::join_paths(path).expect("no folder has a colon in its name");
    let mut shell = Command::new("bash")
        .args(["-c", &driver(&tasks, &swaps, work.path())])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("XDG_CACHE_HOME", cache())
        .env("MONOHULL_SERVER", swaps.apply("http://127.0.0.1:7070"))
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_BUILD_TARGET_DIR")
        .env_remove("CARGO_BUILD_BUILD_DIR")
        .env_remove("MONOHULL_TOKEN")
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("bash starts");
    let begun = Instant::now();
    let ended = loop {
        match shell.try_wait().expect("it is this process's child") {
            Some(_) => break true,
            None if begun.elapsed() > PATIENCE => break false,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    // What it has left in the background, too. It may have left nothing.
    let group = nix::unistd::Pid::from_raw(shell.id().cast_signed());
    let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
    let _ = shell.wait();
    let mut wrong = Vec::new();
    if !ended {
        wrong.push(format!("{}: its commands take longer than {PATIENCE:?}", page.name));
    }
    for (number, task) in tasks.iter().enumerate() {
        let Task::Run(step) = task else { continue };
        let read = |end: &str| fs::read_to_string(work.path().join(format!("{number}.{end}"))).unwrap_or_default();
        let (status, output) = (read("status"), read("out"));
        let shown = format!("{}: $ {}", step.place, step.command);
        let asks = matches!(tasks.get(number + 1), Some(Task::Run(next)) if next.command == "echo $?");
        if status.trim() != "0" && !asks {
            wrong.push(format!("{shown}\nended with {}:\n{output}", status.trim()));
        } else if let Some(expected) = &step.output
            && !is_like(&swaps.apply(expected), &output)
        {
            wrong.push(format!("{shown}\nis said to print\n{expected}but prints\n{output}"));
        }
    }
    wrong
}

/// Whether a command has printed what the page says.
fn is_like(expected: &str, output: &str) -> bool {
    static SAME: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let same = [
            (r"\b([0-9]+m )?[0-9]+(\.[0-9]+)? ?(ns|µs|ms|s)\b", "TIME"),
            (r"\b[0-9]+\.[0-9]+(e-[0-9]+)?\b", "FRACTION"),
            (r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z\b", "DATE"),
            (r"\b[0-9a-f]{32}\b", "ID"),
            (r"\b0x[0-9a-f]+\b", "NUMBER"),
            (r"[─═╌]+", "─"),
            (r" +", " "),
        ];
        same.map(|(pattern, word)| (Regex::new(pattern).expect("a pattern"), word)).into()
    });
    let alike = |text: &str| {
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        SAME.iter().fold(lines.join("\n"), |text, (pattern, word)| pattern.replace_all(&text, *word).into_owned())
    };
    let pattern = regex::escape(&alike(expected));
    let pattern =
        pattern.lines().map(|line| if line == "…" { "(.*\n)*?".to_owned() } else { line.replace('…', ".*") + "\n" });
    let pattern = Regex::new(&format!("^{}$", pattern.collect::<String>())).expect("a pattern");
    let output = alike(output);
    pattern.is_match(&(if output.is_empty() { output } else { output + "\n" }))
}

#[track_caller]
fn works(page: &Page) {
    let wrong = run(page);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn commands_of_the_readme() {
    works(&Page::named("README.md"));
}

#[test]
fn commands_of_the_tutorial() {
    works(&Page::named("docs/tutorial.md"));
}

#[test]
fn commands_of_the_other_pages() {
    for page in pages().iter().filter(|page| !["README.md", "docs/tutorial.md"].contains(&&*page.name)) {
        works(page);
    }
}

#[test]
fn what_is_not_run_is_on_a_page() {
    let pages = pages();
    let used: BTreeSet<usize> = pages
        .iter()
        .flat_map(|page| tasks(page).into_iter().map(move |task| (page, task)))
        .filter_map(|(page, task)| match task {
            Task::Run(step) => reason(page, &step),
            Task::Write { .. } => None,
        })
        .collect();
    for (number, (page, start, _)) in NOT_RUN.iter().enumerate() {
        assert!(used.contains(&number), "{page} has no command `{start}`");
    }
}

/// What a command in a text begins with: the program, a verb, and for `image` another.
fn verb(command: &str) -> Option<Vec<&str>> {
    let mut words = command.split_whitespace();
    let program = words.next()?;
    (program == "monohull" || program.ends_with("/monohull")).then_some(())?;
    // What the program says, and not a command.
    let verb = words.next().filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()) && *word != "listens")?;
    let below = words.next().filter(|word| verb == "image" && word.chars().all(|c| c.is_ascii_lowercase()));
    Some([verb].into_iter().chain(below).collect())
}

/// Options that a command names, without their values.
fn options(command: &str) -> impl Iterator<Item = &str> {
    let words = command.split([' ', '\n', '[', ']', '|']).filter(|word| word.starts_with("--") && word.len() > 2);
    words.map(|word| word.split(['=', ')', ',', ';', '…']).next().unwrap_or(word))
}

#[test]
fn verbs_and_options_in_texts_exist() {
    let mut helps: BTreeMap<Vec<String>, Option<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for page in pages() {
        let not_run = tasks(&page).into_iter().filter_map(|task| match task {
            Task::Run(step) if reason(&page, &step).is_some() => Some((step.place, step.command)),
            _ => None,
        });
        for (place, command) in page.spans().into_iter().chain(not_run) {
            let Some(verb) = verb(&command) else { continue };
            let verb: Vec<String> = verb.into_iter().map(str::to_owned).collect();
            let help = helps.entry(verb.clone()).or_insert_with(|| {
                let output = Command::new(env!("CARGO_BIN_EXE_monohull")).args(&verb).arg("--help").output();
                let output = output.expect("monohull starts");
                output.status.success().then(|| String::from_utf8(output.stdout).expect("UTF-8"))
            });
            let Some(help) = help else {
                wrong.push(format!("{place}: there is no `monohull {}`", verb.join(" ")));
                continue;
            };
            let known: BTreeSet<&str> = help.split([' ', ',', '\n', '[', ']', '.', ';', ')']).collect();
            for option in options(&command).filter(|option| !known.contains(option)) {
                wrong.push(format!("{place}: `monohull {}` has no option {option}", verb.join(" ")));
            }
        }
    }
    assert!(helps.len() > 10, "too few commands were found: {:?}", helps.keys());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn outputs_are_compared_but_for_what_differs_each_time() {
    for (expected, output, same) in [
        ("", "", true),
        ("", "words\n", false),
        ("one\ntwo\n", "one\ntwo\n", true),
        ("one\n", "one\ntwo\n", false),
        ("one\n…\n", "one\n", true),
        ("one\n…\nfour\n", "one\ntwo\nthree\nfour\n", true),
        ("one\n…\nfour\n", "two\nfour\n", false),
        ("…\n", "", true),
        ("in 12 ms, … bytes\n", "in 1.5 µs, 17 bytes\n", true),
        ("in 12 ms\n", "in 12 apples\n", false),
        ("│ a │    3 s │\n", "│ a │ 14.25 ms │\n", true),
        ("id 0123456789abcdef0123456789abcdef\n", "id f123456789abcdef0123456789abcdef\n", true),
        ("a (b) [c]\n", "a (b) [c]\n", true),
    ] {
        assert_eq!(is_like(expected, output), same, "{expected:?} {output:?}");
    }
}

#[test]
fn commands_are_found_in_blocks() {
    let text = "```\nbash a \\\n  b\n# a comment\nsecond\n```\n```text\nno command\n```\n```\nbash ─▶ drawing\n```\n```\nno-program\n```\n\
        ```console\n$ third <<END\n> text\n> END\nprinted\n$ fourth\n```\nInto `a/b`:\n\n```rust file=a/b\nfn main() {}\n```\n";
    let page = Page { name: "page".to_owned(), text: text.to_owned() };
    let found: Vec<(String, Option<String>)> = tasks(&page)
        .into_iter()
        .map(|task| match task {
            Task::Run(step) => (step.command, step.output),
            Task::Write { path, text } => (path, Some(text)),
        })
        .collect();
    let expected = [
        ("bash a \\\n  b", None),
        ("second", None),
        ("third <<END\ntext\nEND", Some("printed\n")),
        ("fourth", Some("")),
        ("a/b", Some("fn main() {}\n")),
    ];
    assert_eq!(found, expected.map(|(command, output)| (command.to_owned(), output.map(str::to_owned))));
}
