//! `std::panic`, as far as a program gets that ends when it panics.

use super::check;
use std::panic::{self, AssertUnwindSafe, Location};

#[track_caller]
fn caller() -> &'static Location<'static> {
    Location::caller()
}

pub(super) fn all() {
    check!("catch_unwind_without_panic", panic::catch_unwind(|| 5).ok());
    check!("assert_unwind_safe", {
        let mut n = 1;
        (panic::catch_unwind(AssertUnwindSafe(|| n += 1)).is_ok(), n)
    });
    check!("track_caller", {
        let place = caller();
        (place.file().ends_with("panics.rs"), place.line() == line!(), place.column() > 1)
    });
    check!("track_caller_of_unwrap", std::thread::panicking());
    fn is_unwind_safe<T: panic::UnwindSafe + panic::RefUnwindSafe>() -> bool {
        true
    }
    check!(
        "unwind_safe_types",
        (
            is_unwind_safe::<String>(),
            is_unwind_safe::<std::sync::Mutex<u8>>(),
            is_unwind_safe::<std::sync::Arc<u8>>(),
            is_unwind_safe::<std::collections::HashMap<u8, u8>>()
        )
    );
    check!("hooks", {
        panic::set_hook(Box::new(|_| ()));
        let taken = panic::take_hook();
        drop(taken);
        "set and taken"
    });
    check!("assertions_hold", {
        assert!(true, "no");
        assert_eq!(1, 1);
        assert_ne!(1, 2);
        debug_assert!(1 < 2);
        assert!(matches!(Some(1), Some(n) if n > 0))
    });
}
