//! Why an image is refused. The image is always at fault: each message says what its author has to change.

use super::MAX_SPAN;
use super::file::{MAX_DYNAMIC, MAX_NAME, MAX_PROGRAM_HEADERS, MAX_RELOCATIONS, MAX_SYMBOLS};
use monohull_abi::{ABI_VERSION, layout::PAGE, types::IMAGE_SYMBOL};
use monohull_checker::{CheckError, Finding};

/// What the loader does not accept. Numbers are as the file has them; addresses are relative to the load base.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message explains its variant and its numbers")]
pub enum ImageError {
    // The file and its headers.
    #[error("this is not an ELF file")]
    NotElf,
    #[error("the file ends at byte {size:#x}, but its {what} needs bytes {start:#x} to {end:#x}")]
    Truncated { what: &'static str, start: u64, end: u64, size: u64 },
    #[error("the {what} at {start:#x} with {size:#x} bytes wraps around the end of memory")]
    Overflow { what: &'static str, start: u64, size: u64 },
    #[error("the image is built for a 32-bit (or unknown) class of machine: ELF class {class}, not 2")]
    Not64Bit { class: u8 },
    #[error("the image is not little-endian: ELF data encoding {encoding}, not 1")]
    NotLittleEndian { encoding: u8 },
    #[error("ELF version {version} is unknown; only 1 exists")]
    UnknownElfVersion { version: u32 },
    #[error("the image is built for another operating system: ELF OS ABI {os}, not 0 (System V) or 3 (GNU)")]
    OtherSystem { os: u8 },
    #[error("the image is built for another machine: ELF machine {machine}, not 62 (x86-64)")]
    OtherMachine { machine: u16 },
    #[error("the image is not a shared object: ELF type {elf_type}, not 3 (build it as a cdylib)")]
    NotSharedObject { elf_type: u16 },
    #[error("the {what} has entries of {size} bytes instead of {expected}")]
    WrongEntrySize { what: &'static str, size: u64, expected: u64 },
    #[error("the file has {count} program headers; at most {MAX_PROGRAM_HEADERS} are accepted")]
    TooManyProgramHeaders { count: u16 },

    // Program headers.
    #[error("program header {index} asks for a program interpreter (PT_INTERP); a function image has none")]
    Interpreter { index: usize },
    #[error("program header {index} has the unknown type {segment_type:#x}")]
    UnknownSegment { index: usize, segment_type: u32 },
    #[error("there is more than one {what}")]
    Duplicate { what: &'static str },
    #[error("the image asks for an executable stack")]
    ExecutableStack,

    // Segments.
    #[error("segment {index} (flags {flags:#x}) is both writable and executable")]
    WritableCode { index: usize, flags: u32 },
    #[error("segment {index} has the flags {flags:#x}; accepted are r--, rw- and r-x")]
    StrangeAccess { index: usize, flags: u32 },
    #[error("segment {index} is empty")]
    EmptySegment { index: usize },
    #[error("segment {index} has {file_size:#x} bytes in the file, but only {memory_size:#x} in memory")]
    LargerInFile { index: usize, file_size: u64, memory_size: u64 },
    #[error(
        "segment {index} is not writable, but {memory_size:#x} bytes in memory come from {file_size:#x} in the file"
    )]
    ReadOnlyZeros { index: usize, file_size: u64, memory_size: u64 },
    #[error(
        "segment {index} cannot be mapped: file offset {offset:#x} and address {address:#x} differ modulo the page size"
    )]
    Incongruent { index: usize, offset: u64, address: u64 },
    #[error("segment {index} requires an alignment of {align:#x}; at most {PAGE:#x} and powers of two are possible")]
    Alignment { index: usize, align: u64 },
    #[error("segment {index} at {address:#x} lies before the one in front of it; segments must ascend")]
    NotAscending { index: usize, address: u64 },
    #[error("segment {index} at {address:#x} shares memory or a page with the one before it, which ends at {end:#x}")]
    Overlap { index: usize, address: u64, end: u64 },
    #[error("the image spans {span:#x} bytes; at most {MAX_SPAN:#x} are accepted")]
    TooLarge { span: u64 },
    #[error("the image has no executable segment")]
    NothingExecutable,
    #[error(
        "the part to protect after relocation (PT_GNU_RELRO), {start:#x} to {end:#x}, is not inside what one writable segment has in the file"
    )]
    MisplacedRelro { start: u64, end: u64 },
    #[error(
        "the thread-local segment (PT_TLS) has {file_size:#x} bytes in the file and {memory_size:#x} in memory; those in memory must \
         include those in the file and be at most {MAX_SPAN:#x}"
    )]
    ThreadLocalSize { file_size: u64, memory_size: u64 },
    #[error(
        "the thread-local segment (PT_TLS) requires an alignment of {align:#x}; at most {PAGE:#x} and powers of two are possible"
    )]
    ThreadLocalAlignment { align: u64 },

    // The dynamic section.
    #[error("the image has no dynamic section (PT_DYNAMIC)")]
    NoDynamicSection,
    #[error("the dynamic section is at file offset {offset:#x}, which does not match its address {address:#x}")]
    MisplacedDynamic { offset: u64, address: u64 },
    #[error("the dynamic section has no end within its {count} entries (at most {MAX_DYNAMIC} are accepted)")]
    EndlessDynamic { count: usize },
    #[error("the {what} at {address:#x} with {size:#x} bytes is not inside the file part of one segment")]
    OutsideSegments { what: &'static str, address: u64, size: u64 },
    #[error("the image needs the library {library:?}; a function image is complete by itself")]
    NeedsLibrary { library: String },
    #[error("the image has relocations in its code (DT_TEXTREL); build it position-independent")]
    TextRelocations,
    #[error(
        "the image uses static thread-local storage (DF_STATIC_TLS), which is found by `fs`, and `fs` is the system's"
    )]
    StaticThreadLocal,
    #[error("the image has relocations of the form {tag}; only DT_RELA is accepted")]
    RelocationForm { tag: &'static str },
    #[error(
        "the image has {tag}, code to run at its start or end outside of .init_array and .fini_array; link it with -nostartfiles"
    )]
    StartFiles { tag: &'static str },
    #[error("dynamic entry {tag:#x} is not accepted")]
    UnknownDynamic { tag: u64 },
    #[error("the dynamic section has no {tag}")]
    MissingDynamic { tag: &'static str },
    #[error("the table of functions at {address:#x} with {size:#x} bytes is not a sequence of words in one segment")]
    BadInitArray { address: u64, size: u64 },

    // Symbols.
    #[error("the {what} of the image is damaged")]
    DamagedHash { what: &'static str },
    #[error("the image has {count} dynamic symbols; at most {MAX_SYMBOLS} are accepted")]
    TooManySymbols { count: u64 },
    #[error(
        "the name of dynamic symbol {index} at {offset:#x} is not in the string table or has no end in {MAX_NAME} bytes"
    )]
    BadName { index: u32, offset: u64 },
    #[error("symbol {name:?} is not defined in the image")]
    Undefined { name: String },
    #[error("symbol {name:?} is an indirect function (STT_GNU_IFUNC)")]
    IndirectFunction { name: String },
    #[error(
        "symbol {name:?} is thread-local (STT_TLS), but the image has no thread-local segment (PT_TLS) that holds it"
    )]
    ThreadLocalSymbol { name: String },
    #[error("symbol {name:?} is thread-local (STT_TLS): it has no address that all threads share")]
    ThreadLocalAddress { name: String },
    #[error("symbol {name:?} has the value {value:#x}, which is in no segment")]
    SymbolOutside { name: String, value: u64 },
    #[error("symbol {name:?} is not an address in the image (section number {section:#x})")]
    NoPlace { name: String, section: u16 },
    #[error("the image does not export {name}; link it against monohull-std and use #[monohull::main]")]
    MissingSymbol { name: &'static str },
    #[error("the start address {address:#x} is not in an executable segment")]
    StartNotCode { address: u64 },
    #[error("{IMAGE_SYMBOL} begins with {magic:#x}: this is not a function image")]
    WrongMagic { magic: u64 },
    #[error(
        "the image is built for version {version} of the interface, this visor has version {ABI_VERSION}: rebuild it"
    )]
    WrongVersion { version: u64 },

    // Relocations.
    #[error("the image has {count} relocations; at most {MAX_RELOCATIONS} are accepted")]
    TooManyRelocations { count: u64 },
    #[error("the {what} has {size:#x} bytes, which is not a whole number of entries")]
    RaggedTable { what: &'static str, size: u64 },
    #[error("the relocation at {offset:#x} has the type {name} ({kind}), which is not accepted")]
    RelocationType { offset: u64, kind: u32, name: &'static str },
    #[error(
        "the relocation at {offset:#x} ({name}) is for a model of thread-local storage other than general dynamic; compile for a \
         shared object (-fPIC, -ftls-model=global-dynamic)"
    )]
    ThreadLocalModel { offset: u64, name: &'static str },
    #[error("the relocation at {offset:#x} ({name}) names no thread-local variable of the image")]
    NotThreadLocal { offset: u64, name: &'static str },
    #[error(
        "the relocation at {offset:#x} computes the offset {value:#x}, which is outside of the thread-local segment"
    )]
    ThreadLocalOutside { offset: u64, value: u64 },
    #[error("the relocation at {offset:#x} is computed by code (R_X86_64_IRELATIVE)")]
    IndirectRelocation { offset: u64 },
    #[error("the relocation at {offset:#x} names symbol {index}, but there are only {count}")]
    BadSymbolIndex { offset: u64, index: u32, count: u32 },
    #[error("the relocation at {offset:#x} is not at a multiple of 8")]
    MisalignedRelocation { offset: u64 },
    #[error("the relocation at {offset:#x} is not inside the file part of one writable segment")]
    RelocationOutside { offset: u64 },
    #[error("two relocations write the word at {offset:#x}")]
    DuplicateRelocation { offset: u64 },
    #[error("the relocation at {offset:#x} computes the address {value:#x}, which is outside of the image")]
    ValueOutside { offset: u64, value: u64 },

    // Instructions.
    #[error("the code contains {finding}: {}. To do: {}", finding.why, finding.remedy)]
    Forbidden { finding: Box<Finding> },
    #[error("the code cannot be checked: {0}")]
    Unchecked(#[from] CheckError),
}
