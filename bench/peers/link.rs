//! One link of a chain of processes: reads a payload, checks it, changes it, writes it on.
//!
//! Compiled by the benchmark itself, as a static program that links nothing but std.

#[path = "../../examples/kernels/src/chain.rs"]
#[allow(dead_code, reason = "one role uses a part of it")]
mod chain;

extern crate alloc;

use std::error::Error;
use std::io::{Read, Write, stdin, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().ok_or("link create SIZE | forward | verify")?;
    let mut payload = Vec::new();
    if role == "create" {
        payload.resize(arguments.next().ok_or("link create SIZE")?.parse()?, 0);
        chain::create(&mut payload)?;
    } else {
        stdin().lock().read_to_end(&mut payload)?;
    }
    match role.as_str() {
        "create" | "forward" => {
            chain::forward(&mut payload)?;
            stdout().lock().write_all(&payload)?;
        }
        _ => println!("{}", chain::verify(&payload)?),
    }
    Ok(())
}
