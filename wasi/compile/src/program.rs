//! What a module must have to be a program, beside being valid: what it starts with, and no imports that no function here has.
//!
//! The runtime would find out when an instance starts. A file that can never run is refused when it is compiled, and of what compilers can
//! also do otherwise it is said how.

use wasmparser::{BinaryReaderError, CompositeInnerType, ExternalKind, Parser, Payload, SubType, TypeRef};

/// What a program starts with.
const START: &str = "_start";
/// The modules that a program may import functions from.
const PROVIDED: [&str; 2] = ["wasi_snapshot_preview1", "monohull"];

/// Why a module is no program.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoProgram {
    /// There is nothing to call.
    #[error("it exports no function `{START}`, so it is a library and no program")]
    NoStart,
    /// Nothing gives it what it wants, or takes what it gives.
    #[error("its function `{START}` has a parameter or a result, and that of a program has none")]
    OtherStart,
    /// It needs what is not here.
    #[error("it imports `{module}::{name}`, which is not there: a program may import functions of {}", PROVIDED.join(" and "))]
    Import {
        /// The module that it names.
        module: String,
        /// What of it.
        name: String,
    },
}

/// Why this module, which is valid, is no program; `None` if it is one.
pub(crate) fn no_program(module: &[u8]) -> Result<Option<NoProgram>, BinaryReaderError> {
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
                    if let TypeRef::Func(kind) | TypeRef::FuncExact(kind) = import.ty {
                        functions.push(kind);
                    }
                    if !PROVIDED.contains(&import.module) {
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

fn takes_and_gives_nothing(kind: &SubType) -> bool {
    match &kind.composite_type.inner {
        CompositeInnerType::Func(function) => function.params().is_empty() && function.results().is_empty(),
        _ => false,
    }
}

/// What an error of validation is with what can be done about it.
pub(crate) fn with_remedy(error: wasmtime::Error) -> wasmtime::Error {
    let said = format!("{error:#}");
    if ["legacy_exceptions", "legacy exceptions"].iter().any(|name| said.contains(name)) {
        return wasmtime::Error::msg(format!("{LEGACY_EXCEPTIONS} ({said})"));
    }
    error
}

/// Before the standard of 2025, exceptions had other instructions.
const LEGACY_EXCEPTIONS: &str = "it uses the first version of WebAssembly's exceptions (`try`, `catch`), which is not there: the second one is (`try_table`). \
     Compile it with clang's options `-fwasm-exceptions -mllvm -wasm-use-legacy-eh=false`, or translate it: \
     `wasm-opt --all-features --translate-to-exnref app.wasm -o app.wasm`";
