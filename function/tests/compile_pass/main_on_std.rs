//! `main` of a function on Rust's own std is an ordinary one. With parameters it asks for the step's arguments, which only an
//! instance has; so that one is not run here.
use std::error::Error;

#[allow(dead_code)]
mod with_arguments {
    #[monohull::main]
    pub fn main(count: u32, pattern: Option<String>) -> Result<(), String> {
        if count == 0 { Err(pattern.unwrap_or_default()) } else { Ok(()) }
    }
}

#[monohull::main]
fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let _: fn() -> std::process::ExitCode = with_arguments::main;
    Ok(())
}
