//! How `#[monohull::main]` reports what `main` has returned.

use crate::boxed::Box;
use crate::error::Error;

monohull::report_returned!(crate::process::Termination, crate::process::ExitCode);
