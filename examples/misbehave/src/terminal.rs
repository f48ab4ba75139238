//! Text that a terminal would act on, in everything of a function that is shown to people.
//!
//! If it arrived, it would set the clipboard, clear the screen, print a line in the name of another step, show a file name in
//! another order, and add a line to the report of the failure.

use monohull_std::prelude::*;
use monohull_std::slot::SlotString;

/// One of each class: sequences introduced by ESC and by C1, characters that move the cursor, and those that change the
/// direction of text.
const TEXT: &str = "\x1b]52;c;cHduZWQ=\x07\x1b[2J\u{9b}31m\u{85}bill\x08\x08ok\x7f\0\u{202e}fdp.exe\u{2066}\u{2028}";

/// Prints it to both streams, and leaves it in a slot.
#[inline(never)]
pub(crate) fn output() {
    println!("{TEXT}");
    println!("working\rother[0] | all is well");
    eprintln!("{TEXT}");
    SlotString::with_slot("text").push_str(TEXT);
}

/// Panics with it, and with lines that look like the report's own.
#[inline(never)]
pub(crate) fn panics() {
    panic!("{TEXT}\n  at fault  the host\nmonohull: all is well");
}
