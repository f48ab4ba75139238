//! Which function of a WebAssembly program a place in its compiled code belongs to.
//!
//! The compiled program lies in the image as Wasmtime has written it: a file of its own, with a table of symbols. Its code is a segment of the
//! image, and the segment before that begins with the file's head.

use goblin::elf64::header::ELFMAG;
use goblin::elf64::program_header::PT_LOAD;
use monohull_checker::Report;
use monohull_checker::symbols::SymbolTable;

use super::MODULE;

/// Gives each finding in a program's code the name of the function of the program, instead of one that the image has for the place.
pub(super) fn name(image: &[u8], program: &[u8], report: &mut Report) {
    let Some(start) = compiled_program(image) else { return };
    let symbols = SymbolTable::read(&image[start..]);
    for finding in &mut report.findings {
        let symbol = finding.offset.checked_sub(start as u64).and_then(|offset| symbols.find(offset));
        if let Some(symbol) = symbol {
            finding.symbol = Some(in_program(symbol.mangled, program.starts_with(&MODULE)));
        }
    }
}

/// Where the compiled program begins in the image. The image itself begins in the same way.
pub(super) fn compiled_program(image: &[u8]) -> Option<usize> {
    let elf = goblin::elf::Elf::parse(image).ok()?;
    let segments = elf.program_headers.iter().filter(|header| header.p_type == PT_LOAD && header.p_offset > 0);
    let mut starts = segments.filter_map(|header| usize::try_from(header.p_offset).ok());
    starts.find(|start| image.get(*start..).is_some_and(|bytes| bytes.starts_with(ELFMAG)))
}

/// Wasmtime's name for a function, `wasm[MODULE]::function[INDEX]::NAME`, in words, or for what gives globals and tables their initial values,
/// `module_start[MODULE]`. Other code has names that say what it is for.
fn in_program(symbol: &str, is_module: bool) -> String {
    let parts = || {
        let of = |module: &str| if is_module { String::new() } else { format!(" of the component's module {module}") };
        if let Some(rest) = symbol.strip_prefix("module_start[") {
            let (module, _) = rest.split_once(']')?;
            return Some(format!("the initial values of globals and tables{}", of(module)));
        }
        let (module, rest) = symbol.strip_prefix("wasm[")?.split_once("]::function[")?;
        let (index, rest) = rest.split_once(']')?;
        let name = rest.strip_prefix("::").map(|name| format!(" `{name}`")).unwrap_or_default();
        Some(format!("function {index}{name}{}", of(module)))
    };
    parts().unwrap_or_else(|| symbol.to_owned())
}

#[cfg(test)]
mod tests {
    use super::in_program;

    #[test]
    fn functions_have_an_index_and_a_name() {
        for (symbol, is_module, expected) in [
            ("wasm[0]::function[7]::inner", true, "function 7 `inner`"),
            ("wasm[0]::function[7]", true, "function 7"),
            ("wasm[2]::function[7]::a::b", false, "function 7 `a::b` of the component's module 2"),
            ("module_start[0]::Wasm", true, "the initial values of globals and tables"),
            ("module_start[1]", false, "the initial values of globals and tables of the component's module 1"),
            ("array_to_wasm_trampoline[3]", true, "array_to_wasm_trampoline[3]"),
        ] {
            assert_eq!(in_program(symbol, is_module), expected);
        }
    }
}
