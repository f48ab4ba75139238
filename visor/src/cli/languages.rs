//! What `monohull new --lang` writes for programs that are no crates: a program that prints, a workflow that runs it, and how it is built.

use clap::ValueEnum;

/// A language of a new function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(super) enum Lang {
    /// A crate, over Rust's std or on monohull-std
    #[default]
    Rust,
    /// Native code, by `monohull cc`
    C,
    /// A program for WASI, by Go's own compiler
    Go,
    /// A program that QuickJS runs
    Js,
}

/// A program that is no crate.
pub(super) struct Template {
    /// Names and texts of its files.
    pub(super) files: Vec<(&'static str, String)>,
    /// What the workflow runs.
    pub(super) image: &'static str,
    /// The command that makes it, if one is needed.
    pub(super) build: Option<&'static str>,
}

impl Lang {
    /// What is written for a function of this name; nothing for a crate, which has more to it.
    pub(super) fn template(self, name: &str) -> Option<Template> {
        match self {
            Lang::Rust => None,
            Lang::C => Some(Template {
                files: vec![("main.c", C.to_owned()), (IGNORED, "/app.so\n".to_owned())],
                image: "app.so",
                build: Some("monohull cc -O2 main.c -o app.so"),
            }),
            Lang::Go => Some(Template {
                files: vec![
                    ("main.go", GO.to_owned()),
                    ("go.mod", format!("module example.com/{name}\n\ngo 1.21\n")),
                    (IGNORED, "/app.wasm\n".to_owned()),
                ],
                image: "app.wasm",
                build: Some("GOOS=wasip1 GOARCH=wasm go build -o app.wasm"),
            }),
            Lang::Js => Some(Template { files: vec![("app.js", JS.to_owned())], image: "app.js", build: None }),
        }
    }
}

/// What git is not to take.
const IGNORED: &str = ".gitignore";

const C: &str = r#"#include <stdio.h>

int main(void) {
    puts("Hello from Monohull!");
    return 0;
}
"#;

const GO: &str = r#"package main

import "fmt"

func main() {
	fmt.Println("Hello from Monohull!")
}
"#;

const JS: &str = r#"// Slots, files and arguments are in the module "monohull": import { takeText, publish } from "monohull";
console.log("Hello from Monohull!");
"#;
