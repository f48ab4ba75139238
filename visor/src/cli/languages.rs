//! What `monohull new` writes for programs that are no crates of native code: a program that prints, a workflow that runs it, and how it is built.

use std::path::Path;

use clap::ValueEnum;
use monohull_workflow::plan::Target;

/// A language of a new function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(super) enum Lang {
    /// A crate, over Rust's std or on monohull-std
    #[default]
    Rust,
    /// Native code by `monohull cc`, or a WebAssembly program by clang
    C,
    /// A WebAssembly program, by Go's own compiler
    Go,
    /// A program that QuickJS runs, which is a WebAssembly program
    Js,
    /// A program that CPython runs
    Python,
}

/// A program that is no crate of native code.
pub(super) struct Template {
    /// Names and texts of its files.
    pub(super) files: Vec<(&'static str, String)>,
    /// What the workflow runs.
    pub(super) image: String,
    /// What that is compiled for, where it leaves the choice.
    pub(super) target: Target,
    /// The command that makes it, if one is needed.
    pub(super) build: Option<&'static str>,
}

impl Lang {
    /// The language of the program in a folder that is no crate, by the file that it begins in.
    pub(super) fn of_folder(folder: &Path) -> Option<Lang> {
        const FILES: [(&str, Lang); 5] = [
            ("Cargo.toml", Lang::Rust),
            ("go.mod", Lang::Go),
            ("app.js", Lang::Js),
            ("app.py", Lang::Python),
            ("main.c", Lang::C),
        ];
        FILES.into_iter().find(|(file, _)| folder.join(file).is_file()).map(|(_, lang)| lang)
    }

    /// As `--lang` has it.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// What is written for a function of this name, a WebAssembly program if the language leaves the choice; nothing for a crate of native
    /// code, which has more to it.
    pub(super) fn template(self, name: &str, wasi: bool) -> Option<Template> {
        let ignored = |text: &str| (IGNORED, text.to_owned());
        match (self, wasi) {
            (Lang::Rust, false) => None,
            (Lang::Rust, true) => Some(Template {
                files: vec![("src/main.rs", RUST.to_owned()), ("Cargo.toml", manifest(name, "")), ignored("/target\n")],
                image: format!("target/wasm32-wasip1/release/{name}.wasm"),
                target: Target::Native,
                build: Some("cargo build --release --target wasm32-wasip1"),
            }),
            (Lang::C, false) => Some(Template {
                files: vec![("main.c", C.to_owned()), ignored("/app.so\n")],
                image: "app.so".to_owned(),
                target: Target::Native,
                build: Some("monohull cc -O2 main.c -o app.so"),
            }),
            (Lang::C, true) => Some(Template {
                files: vec![("main.c", C.to_owned()), ignored("/app.wasm\n")],
                image: "app.wasm".to_owned(),
                target: Target::Native,
                build: Some("clang --target=wasm32-wasi -O2 main.c -o app.wasm"),
            }),
            (Lang::Go, _) => Some(Template {
                files: [("main.go", GO.to_owned()), ("go.mod", go_module(name)), ignored("/app.wasm\n")]
                    .into_iter()
                    .chain(GO_PACKAGE.map(|(file, text)| (file, text.to_owned())))
                    .collect(),
                image: "app.wasm".to_owned(),
                target: Target::Native,
                build: Some("GOOS=wasip1 GOARCH=wasm go build -o app.wasm"),
            }),
            (Lang::Js, _) => Some(Template {
                files: vec![("app.js", JS.to_owned())],
                image: "app.js".to_owned(),
                target: Target::Native,
                build: None,
            }),
            (Lang::Python, wasi) => Some(Template {
                files: vec![("app.py", PYTHON.to_owned())],
                image: "app.py".to_owned(),
                target: if wasi { Target::Wasi } else { Target::Native },
                build: None,
            }),
        }
    }
}

/// The manifest of a crate.
pub(super) fn manifest(name: &str, dependencies: &str) -> String {
    format!(
        r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"

[dependencies]
{dependencies}
# A workspace of its own, wherever the folder lies.
[workspace]
"#
    )
}

/// A program over Rust's std.
pub(super) const RUST: &str = r#"fn main() {
    println!("Hello from Monohull!");
}
"#;

/// What git is not to take.
const IGNORED: &str = ".gitignore";

const C: &str = r#"#include <stdio.h>

int main(void) {
    puts("Hello from Monohull!");
    return 0;
}
"#;

/// The package for Go, which belongs to each program: it is in no registry.
const GO_PACKAGE: [(&str, &str); 9] = [
    ("monohull/go.mod", include_str!("../../../wasi/lib/go/go.mod")),
    ("monohull/slots.go", include_str!("../../../wasi/lib/go/slots.go")),
    ("monohull/instance.go", include_str!("../../../wasi/lib/go/instance.go")),
    ("monohull/durable.go", include_str!("../../../wasi/lib/go/durable.go")),
    ("monohull/children.go", include_str!("../../../wasi/lib/go/children.go")),
    ("monohull/callback.go", include_str!("../../../wasi/lib/go/callback.go")),
    ("monohull/continuation.go", include_str!("../../../wasi/lib/go/continuation.go")),
    ("monohull/effects.go", include_str!("../../../wasi/lib/go/effects.go")),
    ("monohull/network/network.go", include_str!("../../../wasi/lib/go/network/network.go")),
];

/// A program's module.
fn go_module(name: &str) -> String {
    format!("module example.com/{name}\n\ngo 1.21\n\nrequire monohull v0.0.0\n\nreplace monohull => ./monohull\n")
}

const GO: &str = r#"package main

// Slots, the instance and durable calls are in the package monohull: import "monohull"
import "fmt"

func main() {
	fmt.Println("Hello from Monohull!")
}
"#;

const JS: &str = r#"// Slots, files and arguments are in the module "monohull": import { takeText, publish } from "monohull";
console.log("Hello from Monohull!");
"#;

const PYTHON: &str = r#"# Slots, arguments and durable calls are in the module `monohull`: import monohull
print("Hello from Monohull!")
"#;
