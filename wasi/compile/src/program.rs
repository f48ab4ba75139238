//! What a module must have to be a program, beside being valid: what it starts with, and no imports that no function here has.
//!
//! The runtime would find out when an instance starts. A file that can never run is refused when it is compiled.

use wasmparser::{BinaryReaderError, ExternalKind, Parser, Payload};

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
    let mut starts = false;
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import?;
                    if !PROVIDED.contains(&import.module) {
                        let (module, name) = (import.module.to_owned(), import.name.to_owned());
                        return Ok(Some(NoProgram::Import { module, name }));
                    }
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export?;
                    starts |= export.kind == ExternalKind::Func && export.name == START;
                }
            }
            _ => {}
        }
    }
    Ok(if starts { None } else { Some(NoProgram::NoStart) })
}
