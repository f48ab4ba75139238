//! A small process that starts programs: posix_spawn, wait.
#![allow(unsafe_code, reason = "posix_spawn is what is measured")]

use crate::harness::Result;
use std::ffi::CString;
use std::io::Error;
use std::ptr;
use std::time::Instant;

/// Starts the program at `command[0]` with the other words so often, one after the other, and waits for the end of each.
pub(super) fn spawn_wait(count: usize, command: &[String]) -> Result<f64> {
    let words = command.iter().map(|word| CString::new(word.as_str())).collect::<std::result::Result<Vec<_>, _>>();
    let words = words.map_err(|error| error.to_string())?;
    let path = words.first().ok_or("peer spawn needs a program")?;
    let mut arguments: Vec<_> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    arguments.push(ptr::null_mut());
    let environment = [ptr::null_mut()];
    let start = Instant::now();
    for _ in 0..count {
        let mut child = 0;
        // SAFETY: the path and both arrays end with a null and live during the call; null means that nothing is asked for.
        let status = unsafe {
            libc::posix_spawn(
                &mut child,
                path.as_ptr(),
                ptr::null(),
                ptr::null(),
                arguments.as_ptr(),
                environment.as_ptr(),
            )
        };
        if status != 0 {
            return Err(format!("posix_spawn {path:?}: {}", Error::from_raw_os_error(status)));
        }
        let mut ended = 0;
        // SAFETY: writes one integer.
        if unsafe { libc::waitpid(child, &mut ended, 0) } != child || ended != 0 {
            return Err(format!("{path:?} ended with {ended:#x}"));
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}
