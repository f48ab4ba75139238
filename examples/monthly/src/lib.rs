//! A report of each month: the function sleeps until the month is over, sums up the sales that were sent to it, and sleeps again.
//!
//! The months are those of the wall clock (UTC), so what it sleeps until is a time, and not a duration. While it sleeps it may be a file
//! (`monohull run --state`), without a process. A test does not wait: `monohull run --skip-time`.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::durable;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Fills the slot `reports` with a line for each of so many months. A sale is an event `sale`, with its amount as text.
#[monohull::main]
fn main(months: u32) -> Result<(), Box<dyn Error>> {
    let mut reports = SlotString::with_slot("reports");
    for _ in 0..months {
        let month = Month::of(SystemTime::now().duration_since(UNIX_EPOCH)?);
        durable::sleep_until(month.next().begin());
        let (mut count, mut total) = (0, 0.0);
        while let Some(sale) = durable::event("sale").try_recv()? {
            count += 1;
            total += String::from_utf8(sale)?.trim().parse::<f64>()?;
        }
        println!("{}-{:02} is over", month.year, month.month);
        reports.push_str(&format!("{}-{:02}: {count} sales, {total:.2}\n", month.year, month.month));
    }
    reports.publish()?;
    Ok(())
}

#[derive(Clone, Copy)]
struct Month {
    year: u64,
    /// From 1.
    month: u64,
}

impl Month {
    /// The month of a time since 1970.
    fn of(time: Duration) -> Month {
        let mut month = Month { year: 1970, month: 1 };
        while month.next().begin() <= time {
            month = month.next();
        }
        month
    }

    fn next(self) -> Month {
        match self {
            Month { year, month: 12 } => Month { year: year + 1, month: 1 },
            Month { year, month } => Month { year, month: month + 1 },
        }
    }

    /// Its first moment, since 1970.
    fn begin(self) -> Duration {
        let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let years: u64 = (1970..self.year).map(|year| if leap(year) { 366 } else { 365 }).sum();
        let days = [31, if leap(self.year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let months: u64 = days.iter().take(self.month as usize - 1).sum();
        Duration::from_secs((years + months) * 24 * 60 * 60)
    }
}
