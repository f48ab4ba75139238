//! Gadgets are removed from the code of a living process, which goes on as before.
//!
//! Removal concerns the whole process and cannot be undone, so each test is run again in a process of its own. The objects
//! with gadgets in them are made here from `planted.S`.

use monohull_checker::{Kind, Severity, instruction::scan};
use monohull_trampoline::system::gates_own_wrpkru;
use monohull_visor::domain::gadgets::{self, Gadget, GadgetsError, Obstacle, Way};
use std::collections::BTreeSet;
use std::ffi::{CString, c_void};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Set in the process of its own.
const ALONE: &str = "MONOHULL_TEST_ALONE";

/// Runs the test of this name in a process of its own.
#[track_caller]
fn alone(name: &str, test: fn()) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let (status, words) = process_of(name);
    assert!(status.success() && words.contains("1 passed"), "{status}: {words}");
}

/// How a process that runs this test alone ends, and what it says.
fn process_of(name: &str) -> (ExitStatus, String) {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .expect("this program starts again");
    (output.status, [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat())
}

/// The signal that ends a copy of this process which calls `code`.
fn ends_by(code: u64) -> Option<i32> {
    // SAFETY: the child calls `code` and ends at once, with any outcome.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the test's promise: code that takes no arguments.
        unsafe {
            core::mem::transmute::<u64, extern "C" fn()>(code)();
            libc::_exit(0);
        }
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    ExitStatus::from_raw(status).signal()
}

/// The object, assembled with this definition.
fn planted(way: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gadgets");
    std::fs::create_dir_all(&folder).expect("cargo's folder for tests takes folders");
    // Each process has its own: tests run at the same time.
    let path = folder.join(format!("{way}-{}.so", std::process::id()));
    let output = Command::new("cc")
        .args(["-shared", "-nostdlib", "-D", way, "-o"])
        .arg(&path)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gadgets/planted.S"))
        .output()
        .expect("the compiler driver, which also links Rust programs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

/// A loaded object.
struct Object(*mut c_void);

impl Object {
    fn open(path: &Path) -> Object {
        let name = CString::new(path.to_str().expect("UTF-8")).expect("no zero byte");
        // SAFETY: an object that the test made.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{} can be loaded", path.display());
        std::fs::remove_file(path).expect("its file is not needed any more");
        Object(handle)
    }

    fn address(&self, name: &str) -> u64 {
        let symbol = CString::new(name).expect("no zero byte");
        // SAFETY: the object is open.
        let address = unsafe { libc::dlsym(self.0, symbol.as_ptr()) } as u64;
        assert_ne!(address, 0, "{name}");
        address
    }

    /// Calls a function with two words.
    fn call(&self, name: &str, first: u64, second: u64) -> u64 {
        // SAFETY: the functions of `planted.S` take at most two words, and give one.
        let function: extern "C-unwind" fn(u64, u64) -> u64 = unsafe { core::mem::transmute(self.address(name)) };
        function(first, second)
    }
}

/// What the functions of the object compute.
fn computed(object: &Object) -> Vec<u64> {
    extern "C-unwind" fn forty() -> u64 {
        40
    }
    vec![
        object.call("planted_wrpkru", 0, 0),
        object.call("planted_xrstor", 0, 0),
        object.call("planted_wrfsbase", 0, 0),
        object.call("planted_address", 0, 0),
        object.call("planted_branch", 0, 0),
        object.call("planted_branch", 1, 0),
        object.call("planted_call", 1, forty as *const () as u64),
        object.call("planted_pair", 2, 0) & 0xffff_ffff,
        object.call("planted_loop", 2, 0) & 0xffff_ffff,
    ]
}

/// Forbidden sequences in all code of this process that are not the gates' own.
fn left() -> Vec<u64> {
    let own: BTreeSet<u64> = gates_own_wrpkru().collect();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
    let mut left = Vec::new();
    for line in maps.lines().filter(|line| line.contains("r-xp")) {
        let (start, end) = line.split_once(' ').and_then(|(range, _)| range.split_once('-')).expect("a range");
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).expect("an address"));
        // SAFETY: mapped and readable; nothing is unloaded meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, (end - start) as usize) };
        let refused = scan(bytes).filter(|found| found.kind.severity() == Severity::Refuse);
        left.extend(refused.map(|found| start + found.start as u64).filter(|address| !own.contains(address)));
    }
    assert!(!maps.lines().any(|line| line.contains("wx")), "{maps}");
    left
}

fn in_object<'g>(gadgets: &'g [Gadget], name: &str) -> Vec<&'g Gadget> {
    gadgets.iter().filter(|gadget| gadget.object.to_string_lossy().contains(name)).collect()
}

#[test]
fn nothing_is_left_and_code_computes_what_it_did() {
    alone("nothing_is_left_and_code_computes_what_it_did", || {
        let object = Object::open(&planted("plain"));
        let before = computed(&object);
        assert_eq!(&before[..3], [1, 2, 3]);
        assert_eq!(&before[4..], [7, 8, 42, 22, 32]);
        let seen = gadgets::survey().expect("a survey");
        assert!(!left().is_empty(), "a survey changes nothing");
        gadgets::remove().expect("everything can be removed");
        assert_eq!(gadgets::removed(), seen, "what was seen is what is removed");
        assert_eq!(left(), [] as [u64; 0]);
        assert_eq!(computed(&object), before);

        let planted = in_object(gadgets::removed(), "plain");
        let way = |name: &str| {
            let address = object.address(name);
            planted.iter().find(|gadget| gadget.address == address).map(|gadget| (gadget.kind, gadget.fate))
        };
        assert_eq!(way("at_wrpkru"), Some((Kind::Wrpkru, Ok(Way::Overwritten))));
        assert_eq!(way("at_xrstor"), Some((Kind::Xrstor, Ok(Way::Overwritten))));
        assert_eq!(way("at_wrfsbase"), Some((Kind::Wrfsbase, Ok(Way::Overwritten))));
        assert_eq!(planted.iter().filter(|gadget| gadget.fate == Ok(Way::Displaced)).count(), 5, "{planted:#?}");
        for gadget in planted.iter().filter(|gadget| gadget.fate == Ok(Way::Overwritten)) {
            assert_eq!(ends_by(gadget.address), Some(libc::SIGILL), "{gadget}");
        }
    });
}

#[test]
fn a_panic_passes_a_call_that_was_moved() {
    alone("a_panic_passes_a_call_that_was_moved", || {
        extern "C-unwind" fn panics() -> u64 {
            panic!("through the call")
        }
        let object = Object::open(&planted("plain"));
        gadgets::remove().expect("everything can be removed");
        let caught = std::panic::catch_unwind(|| object.call("planted_call", 1, panics as *const () as u64));
        assert_eq!(caught.expect_err("it panics").downcast_ref(), Some(&"through the call"));
    });
}

#[test]
fn the_system_libraries_lose_theirs_and_the_process_goes_on() {
    alone("the_system_libraries_lose_theirs_and_the_process_goes_on", || {
        gadgets::remove().expect("everything can be removed");
        gadgets::remove().expect("a second time there is nothing to do");
        assert_eq!(left(), [] as [u64; 0]);
        let libc = in_object(gadgets::removed(), "libc.so");
        let name = c"pkey_set".as_ptr();
        // SAFETY: a symbol of libc's, whose bytes are read.
        let pkey_set = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name) } as u64;
        let in_pkey_set = libc.iter().find(|gadget| (pkey_set..pkey_set + 64).contains(&gadget.address));
        let gadget = in_pkey_set.expect("glibc's WRPKRU was found");
        assert_eq!((gadget.kind, gadget.fate), (Kind::Wrpkru, Ok(Way::Overwritten)));
        assert!(gadget.symbol().expect("it has a name").starts_with("pkey_set"), "{gadget}");
        assert_eq!(gadgets::patched_gadget_at(gadget.address), Some(*gadget));
        assert_eq!(ends_by(gadget.address), Some(libc::SIGILL));
        for gadget in in_object(gadgets::removed(), "ld-linux") {
            assert_eq!((gadget.kind, ends_by(gadget.address)), (Kind::Xrstor, Some(libc::SIGILL)), "{gadget}");
        }
        everything_works();
        // In a copy of the process, too, which knows what has been done.
        // SAFETY: the copy does what the process does, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let ok = std::panic::catch_unwind(|| {
                gadgets::remove().expect("nothing to do");
                everything_works();
            });
            // SAFETY: ends the copy without what the test harness does at the end.
            unsafe { libc::_exit(i32::from(ok.is_err())) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    });
}

/// What a program does with its libraries.
fn everything_works() {
    let threads: Vec<_> =
        (0..8).map(|index| std::thread::spawn(move || format!("{index:>3} {:.3}", 0.5f64.sin()))).collect();
    let words: Vec<String> = threads.into_iter().map(|thread| thread.join().expect("it ends")).collect();
    assert_eq!(words[7], "  7 0.479");
    println!("{words:?}");
    let trace = std::backtrace::Backtrace::force_capture().to_string();
    assert!(trace.contains("everything_works"), "{trace}");
    let caught = std::panic::catch_unwind(|| {
        let numbers = std::hint::black_box(Vec::<u32>::new());
        numbers[std::hint::black_box(1)]
    });
    assert!(caught.is_err());
    let output = Command::new("/bin/sh").args(["-c", "echo hello"]).output().expect("a shell");
    assert_eq!(output.stdout, b"hello\n");
    // Modules of libc's that are loaded by libc itself, and with them its resolver.
    let local = std::net::ToSocketAddrs::to_socket_addrs(&("localhost", 80)).expect("localhost has an address");
    assert_ne!(local.count(), 0);
    // SAFETY: a library of libc's own.
    let library = unsafe { libc::dlopen(c"libresolv.so.2".as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    gadgets::remove().expect("what was loaded can be looked at");
    assert_eq!(left(), [] as [u64; 0]);
}

#[test]
fn what_is_loaded_later_is_looked_at_then() {
    alone("what_is_loaded_later_is_looked_at_then", || {
        gadgets::remove().expect("everything can be removed");
        let first = gadgets::removed().len();
        let object = Object::open(&planted("later"));
        let before = computed(&object);
        gadgets::remove().expect("everything can be removed");
        assert_eq!(computed(&object), before);
        assert_eq!(in_object(gadgets::removed(), "later").len(), gadgets::removed().len() - first);
        assert_eq!(left(), [] as [u64; 0]);
        // Loaded, looked at, unloaded, and another at the same place.
        let again = planted("again");
        // SAFETY: nothing of the object is used any more.
        assert_eq!(unsafe { libc::dlclose(object.0) }, 0);
        let object = Object::open(&again);
        assert!(!left().is_empty(), "fresh code has its gadgets");
        gadgets::remove().expect("everything can be removed");
        assert_eq!(left(), [] as [u64; 0]);
        assert_eq!(object.call("planted_wrpkru", 0, 0), 1);
    });
}

/// Removal fails for this reason, and changes nothing.
#[track_caller]
fn stuck(way: &str, expected: Obstacle) {
    let object = Object::open(&planted(way));
    let before = left();
    match gadgets::remove() {
        Err(GadgetsError::Stays { gadget, obstacle }) => {
            assert_eq!(obstacle, expected, "{gadget}");
            assert!(gadget.object.to_string_lossy().contains(way), "{gadget}");
            let at = gadget.address.wrapping_sub(object.address("stuck"));
            assert!(at < 64, "{gadget}");
        }
        other => panic!("{way}: {other:?}"),
    }
    assert_eq!(left(), before);
    assert_eq!(gadgets::removed(), []);
}

#[test]
fn a_constant_cannot_be_removed() {
    alone("a_constant_cannot_be_removed", || stuck("constant", Obstacle::Constant));
}

#[test]
fn code_that_is_jumped_into_cannot_be_moved() {
    alone("code_that_is_jumped_into_cannot_be_moved", || stuck("short", Obstacle::TooShort));
}

#[test]
fn what_may_be_data_is_left_alone() {
    alone("what_may_be_data_is_left_alone", || stuck("data", Obstacle::NoFunction));
}

#[test]
fn trusted_code_that_needs_a_removed_gadget_reports_it() {
    const NAME: &str = "trusted_code_that_needs_a_removed_gadget_reports_it";
    if std::env::var_os(ALONE).is_none() {
        let (status, words) = process_of(NAME);
        assert_eq!(status.signal(), Some(libc::SIGILL), "{words}");
        assert!(words.contains("monohull: trusted code needs the WRPKRU in"), "{words}");
        assert!(words.contains("which was removed for protection keys"), "{words}");
        return;
    }
    // The handlers that a domain has.
    let _ground = monohull_visor::domain::ReservedDomain::reserve(false).expect("the host can hold a domain");
    gadgets::remove().expect("everything can be removed");
    let wrpkru = gadgets::removed().iter().find(|gadget| gadget.kind == Kind::Wrpkru).expect("libc has one");
    // SAFETY: it ends the process.
    unsafe { core::mem::transmute::<u64, extern "C" fn()>(wrpkru.address)() };
}

#[test]
fn a_process_that_has_closed_itself_in_refuses_new_ones() {
    alone("a_process_that_has_closed_itself_in_refuses_new_ones", || {
        gadgets::remove().expect("everything can be removed");
        gadgets::close();
        gadgets::remove().expect("nothing is new");
        // An object without gadgets is welcome still.
        // SAFETY: a library of libc's own.
        assert!(!unsafe { libc::dlopen(c"libresolv.so.2".as_ptr(), libc::RTLD_NOW) }.is_null());
        gadgets::remove().expect("nothing is to be removed");
        let _object = Object::open(&planted("closed"));
        match gadgets::remove() {
            Err(GadgetsError::Stays { obstacle, .. }) => assert_eq!(obstacle, Obstacle::Closed),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn monohulls_own_modules_bring_none() {
    let folder = monohull_visor::engine::modules_folder().expect("modules are built first: run `cargo xtask test`");
    for name in monohull_visor::domain::hostcall::NAMES {
        let bytes = std::fs::read(folder.join(name).with_extension("so")).expect("a module");
        let report = monohull_checker::check(&bytes).expect("it can be judged");
        assert_eq!(report.refusal(), None, "{name}");
    }
}

#[test]
fn writable_code_is_refused() {
    alone("writable_code_is_refused", || {
        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, which replaces nothing.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, kind, -1, 0) };
        match gadgets::remove() {
            Err(GadgetsError::Writable { address, .. }) => assert_eq!(address, page as u64),
            other => panic!("{other:?}"),
        }
    });
}
