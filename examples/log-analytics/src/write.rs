//! Makes logs to work on: the same ones each time.

use core::fmt::Write as _;
use monohull_std::error::Error;
use monohull_std::fs::File;
use monohull_std::io::{BufWriter, Write};
use monohull_std::prelude::*;

const PATHS: [&str; 7] =
    ["/", "/index.html", "/about", "/images/ship.png", "/api/orders", "/api/orders/17", "/robots.txt"];
const STATUSES: [u32; 6] = [200, 200, 200, 304, 404, 500];

pub(crate) fn run(files: u32, lines: u32) -> Result<(), Box<dyn Error>> {
    let mut random = 1u64;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    for day in 1..=files {
        let mut file = BufWriter::new(File::create(format!("/logs/2026-11-{day:02}.log"))?);
        for number in 0..lines {
            let mut line = String::new();
            let hour = u64::from(number) * 24 / u64::from(lines.max(1));
            write!(line, "10.0.{}.{} - - ", below(4), below(256))?;
            write!(line, "[{day:02}/Nov/2026:{hour:02}:{:02}:{:02} +0000] ", below(60), below(60))?;
            write!(line, "\"GET {} HTTP/1.1\" ", PATHS[below(PATHS.len() as u64) as usize])?;
            write!(line, "{} {}", STATUSES[below(STATUSES.len() as u64) as usize], below(20_000))?;
            // Now and then a malformed line.
            if below(200) == 0 {
                line.truncate(30);
            }
            writeln!(file, "{line}")?;
        }
        file.flush()?;
    }
    Ok(())
}
