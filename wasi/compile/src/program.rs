//! What a module or a component must have to be a program, beside being valid: what it starts with, and no imports that no function here has.
//!
//! The runtime would find out when an instance starts. A file that can never run is refused when it is compiled, and of what compilers can
//! also do otherwise it is said how.

use wasmparser::{BinaryReaderError, CompositeInnerType, ExternalKind, Parser, Payload, SubType, TypeRef};

/// What a program starts with.
const START: &str = "_start";
/// What a component exports that is a command, and one that answers HTTP requests: without the last number of the version.
const EXPORTS: [&str; 2] = ["wasi:cli/run@0.2.", "wasi:http/incoming-handler@0.2."];
/// The modules that a program may import functions from.
const WASI: &str = "wasi_snapshot_preview1";
const MONOHULL: &str = "monohull";
/// Functions of the first.
const PREVIEW1: &str = "args_get args_sizes_get clock_res_get clock_time_get environ_get environ_sizes_get fd_advise fd_allocate fd_close \
    fd_datasync fd_fdstat_get fd_fdstat_set_flags fd_fdstat_set_rights fd_filestat_get fd_filestat_set_size fd_filestat_set_times fd_pread \
    fd_prestat_dir_name fd_prestat_get fd_pwrite fd_read fd_readdir fd_renumber fd_seek fd_sync fd_tell fd_write path_create_directory \
    path_filestat_get path_filestat_set_times path_link path_open path_readlink path_remove_directory path_rename path_symlink \
    path_unlink_file poll_oneoff proc_exit proc_raise random_get sched_yield sock_accept sock_recv sock_send sock_shutdown";
/// All functions of the second are declared in it.
const HEADER: &str = include_str!("../../include/monohull-wasi.h");

/// Why this is no program.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoProgram {
    /// There is nothing to call.
    #[error(
        "it exports no function `{START}`, so it is a library and no program. clang makes a program of a file with `main`, without \
         `-mexec-model=reactor` and `--no-entry`; Rust of one that is no `cdylib`; Go without `-buildmode=c-shared`"
    )]
    NoStart,
    /// Nothing gives it what it wants, or takes what it gives.
    #[error("its function `{START}` has a parameter or a result, and that of a program has none")]
    OtherStart,
    /// The component has nothing to call.
    #[error(
        "the component exports neither `{run}` nor `{handler}`: it is no command, and answers no requests",
        run = EXPORTS[0].trim_end_matches('.'), handler = EXPORTS[1].trim_end_matches('.')
    )]
    NoExport,
    /// It needs what is not here.
    #[error(
        "it imports `{module}::{name}`, which is not there: a program may import functions of {WASI} and {MONOHULL}{}",
        remedy(module, name)
    )]
    Import {
        /// The module that it names.
        module: String,
        /// What of it.
        name: String,
    },
}

/// What can be done about an import that is not there, where that is known by what made it.
fn remedy(module: &str, name: &str) -> &'static str {
    match (module, name) {
        (_, "thread-spawn") | ("wasi", _) => THREADS,
        ("env", "memory" | "__indirect_function_table" | "__stack_pointer" | "__memory_base" | "__table_base") => {
            ". It is linked to be a part of another program: link it without `--import-memory`, `--import-table` and `-shared`"
        }
        ("env", "abort" | "seed" | "trace") => {
            ". AssemblyScript's own are those of a browser: compile it with `--config node_modules/@assemblyscript/wasi-shim/asconfig.json`"
        }
        ("env", name) if name.contains("emscripten") || name.starts_with("_emval") => {
            ". Emscripten makes it for a browser: compile it with `-sSTANDALONE_WASM`, or with wasi-sdk"
        }
        ("env", _) => {
            ". It is declared in the source and defined nowhere: link what has it, and without `--allow-undefined`"
        }
        ("gojs" | "go", _) => ". Go makes it for a browser: compile it with `GOOS=wasip1 GOARCH=wasm`",
        ("wasi_unstable", _) => ". That is WASI's draft of 2019: compile it with a later compiler",
        _ if module.contains("wbg") || module.contains("wbindgen") => {
            ". wasm-bindgen makes it for a browser: compile the crate for `wasm32-wasip1`, without what depends on `wasm-bindgen`"
        }
        (WASI | MONOHULL, _) => ", which docs/wasi.md lists",
        _ => "",
    }
}

/// Why this module or component, which is valid, is no program; `None` if it is one.
pub(crate) fn no_program(program: &[u8], is_component: bool) -> Result<Option<NoProgram>, BinaryReaderError> {
    if is_component { no_component(program) } else { no_module(program) }
}

fn no_component(component: &[u8]) -> Result<Option<NoProgram>, BinaryReaderError> {
    // How many modules and components the reader is within.
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentExportSection(exports) if depth == 1 => {
                for export in exports {
                    let name = export?.name.name;
                    if EXPORTS.iter().any(|known| name.starts_with(known)) {
                        return Ok(None);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(Some(NoProgram::NoExport))
}

fn no_module(module: &[u8]) -> Result<Option<NoProgram>, BinaryReaderError> {
    // Whether a type is that of a function without parameters and results, by number; the types of functions; and which one it starts with.
    let (mut types, mut functions, mut start) = (Vec::new(), Vec::new(), None);
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::TypeSection(groups) => {
                for group in groups {
                    types.extend(group?.into_types().map(|kind| takes_and_gives_nothing(&kind)));
                }
            }
            Payload::FunctionSection(defined) => {
                for kind in defined {
                    functions.push(kind?);
                }
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import?;
                    let kind = match import.ty {
                        TypeRef::Func(kind) | TypeRef::FuncExact(kind) => Some(kind),
                        _ => None,
                    };
                    functions.extend(kind);
                    if kind.is_none() || !is_provided(import.module, import.name) {
                        let (module, name) = (import.module.to_owned(), import.name.to_owned());
                        return Ok(Some(NoProgram::Import { module, name }));
                    }
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export?;
                    if export.kind == ExternalKind::Func && export.name == START {
                        start = Some(export.index);
                    }
                }
            }
            _ => {}
        }
    }
    let Some(start) = start else { return Ok(Some(NoProgram::NoStart)) };
    let kind = functions.get(start as usize).and_then(|kind| types.get(*kind as usize));
    Ok(if kind == Some(&true) { None } else { Some(NoProgram::OtherStart) })
}

/// Whether the runtime has this function.
fn is_provided(module: &str, name: &str) -> bool {
    match module {
        WASI => PREVIEW1.split(' ').any(|known| known == name),
        MONOHULL => HEADER.contains(&format!("MONOHULL_IMPORT(\"{name}\")")),
        _ => false,
    }
}

fn takes_and_gives_nothing(kind: &SubType) -> bool {
    match &kind.composite_type.inner {
        CompositeInnerType::Func(function) => function.params().is_empty() && function.results().is_empty(),
        _ => false,
    }
}

/// What an error of validation is with what can be done about it.
pub(crate) fn with_remedy(error: wasmtime::Error) -> wasmtime::Error {
    let said = format!("{error:#}");
    let has = |parts: &[&str]| parts.iter().any(|part| said.contains(part));
    let what = if has(&["legacy_exceptions", "legacy exceptions"]) {
        LEGACY_EXCEPTIONS
    } else if has(&["threads must be enabled", "threads support is not enabled"]) {
        ATOMICS
    } else if has(&["must be enabled", "support is not enabled", "feature is not enabled"]) {
        PROPOSAL
    } else {
        return error;
    };
    wasmtime::Error::msg(format!("{what} ({said})"))
}

/// Before the standard of 2025, exceptions had other instructions.
const LEGACY_EXCEPTIONS: &str = "it uses the first version of WebAssembly's exceptions (`try`, `catch`), which is not there: the second one is (`try_table`). \
     Compile it with clang's options `-fwasm-exceptions -mllvm -wasm-use-legacy-eh=false`, or translate it: \
     `wasm-opt --all-features --translate-to-exnref app.wasm -o app.wasm`";

const ATOMICS: &str = "it uses threads (a shared memory, atomic instructions), which are not there. Compile it without them: Rust for `wasm32-wasip1` and \
     not `wasm32-wasip1-threads`, clang for `wasm32-wasi` and without `-pthread`";
const THREADS: &str =
    ". There are no threads: compile it for `wasm32-wasip1` or `wasm32-wasi`, and not for a target with threads";

/// What no version of the standard has yet.
const PROPOSAL: &str = "it uses a part of WebAssembly that its third version does not have. Compile it without that";
