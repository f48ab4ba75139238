//! std's macros, and the one that turns a library crate into a function image.

/// Prints to the standard output.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::io::_print($crate::format_args!($($arg)*)) };
}

/// Prints to the standard output, with a newline.
#[macro_export]
macro_rules! println {
    () => { $crate::io::_print($crate::format_args!("\n")) };
    ($($arg:tt)*) => { $crate::io::_print_line($crate::format_args!($($arg)*)) };
}

/// Prints to the standard error output.
#[macro_export]
macro_rules! eprint {
    ($($arg:tt)*) => { $crate::io::_eprint($crate::format_args!($($arg)*)) };
}

/// Prints to the standard error output, with a newline.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::io::_eprint($crate::format_args!("\n")) };
    ($($arg:tt)*) => { $crate::io::_eprint_line($crate::format_args!($($arg)*)) };
}

/// Prints an expression with its place and value to the standard error output, and returns it.
#[macro_export]
macro_rules! dbg {
    () => { $crate::eprintln!("[{}:{}:{}]", $crate::file!(), $crate::line!(), $crate::column!()) };
    ($value:expr $(,)?) => {
        // A match keeps temporaries of the expression alive to the end of the statement.
        match $value {
            value => {
                $crate::eprintln!(
                    "[{}:{}:{}] {} = {:#?}",
                    $crate::file!(), $crate::line!(), $crate::column!(), $crate::stringify!($value), &value
                );
                value
            }
        }
    };
    ($($value:expr),+ $(,)?) => { ($($crate::dbg!($value)),+,) };
}

/// Declares thread-local variables; see [`thread::LocalKey`](crate::thread::LocalKey).
#[macro_export]
macro_rules! thread_local {
    () => {};
    ($(#[$meta:meta])* $vis:vis static $name:ident : $type:ty = const $init:block $(; $($rest:tt)*)?) => {
        $(#[$meta])*
        $vis static $name: $crate::thread::LocalKey<$type> = $crate::thread::LocalKey::new({
            fn init() -> $type { const { $init } }
            init
        });
        $($crate::thread_local!($($rest)*);)?
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident : $type:ty = $init:expr $(; $($rest:tt)*)?) => {
        $(#[$meta])*
        $vis static $name: $crate::thread::LocalKey<$type> = $crate::thread::LocalKey::new({
            fn init() -> $type { $init }
            init
        });
        $($crate::thread_local!($($rest)*);)?
    };
}

/// What exists once in an image: where it starts, its panic handler, its heap, its mark, and the symbols the compiler
/// takes for granted.
///
/// Images are linked with `panic = "abort"`; every other build (checks, tests) sees a plain library, which may link std.
#[doc(hidden)]
#[macro_export]
macro_rules! image {
    ($main:path) => {
        #[allow(unsafe_code, dead_code, reason = "the fixed symbols of an image; dead in a build that is not one")]
        const _: () = {
            extern "C" fn start(_word: u64) -> ! {
                $crate::rt::start($main)
            }

            #[cfg(all(panic = "abort", not(test)))]
            const _: () = {
                use $crate::rt::{Heap, IMAGE, ImageHeader, c_void, memory, search};

                #[unsafe(no_mangle)]
                #[used]
                pub static MONOHULL_IMAGE: ImageHeader = IMAGE;

                #[global_allocator]
                static HEAP: Heap = Heap;

                #[panic_handler]
                fn panic(info: &::core::panic::PanicInfo<'_>) -> ! {
                    $crate::rt::panicked(info)
                }

                $crate::rt::thread_entry!(
                    /// The main thread begins here.
                    pub fn monohull_start => start
                );

                $crate::rt::c_memory!();

                // The precompiled core and alloc name these two for unwinding, which an image never does.
                #[unsafe(no_mangle)]
                extern "C" fn rust_eh_personality() {}
                #[unsafe(no_mangle)]
                extern "C" fn _Unwind_Resume(_: *mut c_void) -> ! {
                    $crate::process::abort()
                }
            };
        };
    };
}

/// The C names of the memory routines, for [`image!`].
#[doc(hidden)]
#[macro_export]
macro_rules! c_memory {
    () => {
        // SAFETY (of the six): the compiler, which calls them, keeps to C's rules, and those are the routines' rules.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
            unsafe { memory::copy(to, from, len) }
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
            unsafe { memory::copy_overlapping(to, from, len) }
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn memset(to: *mut u8, value: i32, len: usize) -> *mut u8 {
            unsafe { memory::fill(to, value as u8, len) }
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
            unsafe { memory::compare(a, b, len) }
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
            unsafe { memory::compare(a, b, len) }
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn strlen(text: *const u8) -> usize {
            unsafe { search::text_len(text) }
        }
    };
}
