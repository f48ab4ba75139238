//! The loader on what it is for: a shared object made by `rustc` and the machine's linker.

use monohull_visor::domain::image::{Access, ImageError, SymbolTable, Value, verify};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = r#"
#![no_std]
#![allow(non_upper_case_globals)]

#[repr(C)]
pub struct Header(u64, u64);

#[unsafe(no_mangle)]
pub static MONOHULL_IMAGE: Header = Header(u64::from_le_bytes(*b"MONOHULL"), ABI_VERSION);

static TEXT: &str = "a pointer that needs a relocation";
static mut COUNTERS: [&u32; 2] = [&SEVEN, &SEVEN];
static SEVEN: u32 = 7;
static mut ZEROS: [u8; 20000] = [0; 20000];

#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = initialise;

extern "C" fn initialise() {
    unsafe { ZEROS[0] = 1 };
}

#[unsafe(no_mangle)]
pub extern "C" fn monohull_start(n: usize) -> u64 {
    unsafe { ZEROS[n] += 1; COUNTERS[n & 1] = &SEVEN; }
    counted(TEXT, unsafe { COUNTERS[n & 1] }) + u64::from(unsafe { ZEROS[n ^ 5] })
}

#[inline(never)]
fn counted(text: &str, number: &u32) -> u64 {
    text.bytes().map(u64::from).sum::<u64>() + u64::from(*number)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

// The precompiled core mentions it, though nothing unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
"#;

/// Where one test keeps its files; removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("monohull-loader-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that stays behind in the temporary folder is harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn compile(folder: &Path, source: &str, more: &[&str]) -> Vec<u8> {
    let (input, output) = (folder.join("image.rs"), folder.join("image.so"));
    let source = source.replace("ABI_VERSION", &monohull_abi::ABI_VERSION.to_string());
    std::fs::write(&input, source).expect("the source can be written");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=cdylib", "-Cpanic=abort", "-Copt-level=2"]).args(more);
    let status = rustc.arg("-o").arg(&output).arg(&input).status().expect("rustc can be started");
    assert!(status.success(), "rustc: {status}");
    std::fs::read(output).expect("rustc has written the image")
}

#[test]
fn an_image_made_by_rustc_is_accepted() {
    let folder = Scratch::new("accepted");
    let file = compile(&folder.0, SOURCE, &["-Clink-args=-nostartfiles -nostdlib"]);
    let image = verify("made", &file).unwrap_or_else(|error| panic!("{error}"));

    let access = |wanted| image.segments.iter().filter(move |segment| segment.access == wanted);
    assert_eq!(access(Access::ReadExecute).count(), 1);
    assert!(
        access(Access::ReadWrite).any(|segment| segment.memory_size >= segment.file_size + 19000),
        "bss is missing"
    );
    assert!(image.relro.is_some());
    assert_eq!(image.init_array.map(|(_, count)| count), Some(1));
    let (init, _) = image.init_array.expect("asserted above");

    // The initialiser's word is relocated to the function's address, which has a name.
    let word = image.relocations.iter().find(|relocation| relocation.offset == init).expect("it is relocated");
    let Value::Base(function) = word.value else { panic!("an address is expected, not {:?}", word.value) };
    let symbols = SymbolTable::read(&file);
    let named = symbols.find(function).expect("functions have names");
    assert!(named.name().ends_with("initialise"), "{}", named.name());
    assert_eq!(symbols.find(image.start).map(|symbol| symbol.to_string()).as_deref(), Some("monohull_start + 0x0"));
    let inside = symbols.find(image.start + 1).expect("functions have sizes");
    assert_eq!((inside.mangled, inside.offset), ("monohull_start", 1));
}

#[test]
fn an_image_with_the_c_library_is_refused() {
    let folder = Scratch::new("libc");
    let source = SOURCE.replace("loop {}", "unsafe { abort() }")
        + "#[link(name = \"c\")] unsafe extern \"C\" { fn abort() -> !; }";
    let source = source.replace("ZEROS[n] += 1;", "if n > 9 { abort() }");
    let file = compile(&folder.0, &source, &["-Clink-args=-nostartfiles"]);
    assert_eq!(verify("libc", &file), Err(ImageError::NeedsLibrary { library: "libc.so.6".into() }));
}

/// Thread-local variables as C compilers make them for shared objects; those for programs expect the system's own `fs`.
#[test]
fn thread_local_variables_of_c_are_accepted_in_one_model() {
    const SOURCE: &str = r#"
        const unsigned long MONOHULL_IMAGE[2] = { 0x4c4c55484f4e4f4d, ABI_VERSION };
        static __thread long first[2] = { 5, 6 };
        LINKAGE __thread char zeros[100] __attribute__((aligned(32)));
        void *__tls_get_addr(unsigned long *which) { return (void *)(which[0] + which[1]); }
        long monohull_start(void) { return ++first[1] + ++zeros[first[0]]; }
    "#;
    let folder = Scratch::new("thread-locals");
    let (input, output) = (folder.0.join("image.c"), folder.0.join("image.so"));
    std::fs::write(&input, SOURCE.replace("ABI_VERSION", &monohull_abi::ABI_VERSION.to_string())).expect("written");
    let compile = |options: &[&str]| {
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-nostdlib", "-Wl,-z,now,-z,relro,-z,separate-code,--hash-style=gnu"]);
        let status = cc.args(options).arg("-o").arg(&output).arg(&input).status().expect("cc can be started");
        assert!(status.success(), "cc: {status}");
        verify("made", &std::fs::read(&output).expect("cc has written the image"))
    };
    let accepted = |options: &[&str]| {
        let image = compile(options).unwrap_or_else(|error| panic!("{options:?}: {error}"));
        let tls = image.tls.expect("it has thread-local variables");
        assert_eq!((tls.file_size, tls.memory_size, tls.align), (16, 132, 32));
        let modules = image.relocations.iter().filter(|word| word.value == Value::Absolute(1)).count();
        assert!(modules >= 1, "no word names the module");
        image.relocations.iter().filter(|word| word.value == Value::Absolute(32)).count()
    };
    assert_eq!(accepted(&["-DLINKAGE="]), 1, "the exported variable's offset is a relocation");
    assert_eq!(accepted(&["-DLINKAGE=static"]), 0, "the linker knows the offset");
    let refused = compile(&["-DLINKAGE=static", "-ftls-model=initial-exec"]);
    assert_eq!(refused, Err(ImageError::StaticThreadLocal));
}

#[test]
fn a_system_call_instruction_alone_is_no_reason_to_refuse() {
    let folder = Scratch::new("syscall");
    let source = SOURCE.replace(
        "unsafe { ZEROS[0] = 1 };",
        "unsafe { core::arch::asm!(\"syscall\", out(\"rax\") _, out(\"rcx\") _, out(\"r11\") _) };",
    );
    let file = compile(&folder.0, &source, &["-Clink-args=-nostartfiles -nostdlib"]);
    assert!(verify("syscall", &file).is_ok());
    let source = source.replace("syscall", "wrpkru");
    let file = compile(&folder.0, &source, &["-Clink-args=-nostartfiles -nostdlib"]);
    assert!(matches!(verify("wrpkru", &file), Err(ImageError::Forbidden { .. })));
}
