//! Published crates with their default features, as a function. Nothing here is Monohull's: `cargo run -p real-std` prints the same.
//!
//! Each crate prints one line, with results that do not change from run to run.

use std::collections::HashMap;
use std::error::Error;
use std::sync::mpsc;
use std::{env, fs, panic, thread};

use itertools::Itertools;
use rand::Rng;
use serde::{Deserialize, Serialize};

type Outcome = Result<String, Box<dyn Error>>;
/// A crate's name, and what it does.
type Tour = (&'static str, fn() -> Outcome);

fn main() -> Result<(), Box<dyn Error>> {
    let crates: [Tour; 11] = [
        ("std", std_alone),
        ("csv", tables),
        ("regex", patterns),
        ("serde_json", documents),
        ("toml", settings),
        ("semver", versions),
        ("itertools", iterators),
        ("url", addresses),
        ("uuid", identifiers),
        ("rand", numbers),
        ("time", calendar),
    ];
    for (name, run) in crates {
        println!("{name}: {}", run()?);
    }
    Ok(())
}

/// What monohull-std does not have, or has in part: unwinding, thread-locals with destructors, hash maps with random keys, files.
fn std_alone() -> Outcome {
    thread_local!(static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(1) });
    panic::set_hook(Box::new(|_| {}));
    let caught = panic::catch_unwind(|| panic!("caught")).is_err();
    let joined = thread::spawn(|| panic!("in a thread")).join().is_err();
    drop(panic::take_hook());
    let (sender, receiver) = mpsc::channel();
    for number in 0..4u32 {
        let sender = sender.clone();
        thread::spawn(move || {
            DEPTH.set(DEPTH.get() + number);
            sender.send(DEPTH.get())
        });
    }
    drop(sender);
    let sum: u32 = receiver.iter().sum();
    let counts: HashMap<char, usize> = "monohull".chars().counts();
    let path = env::temp_dir().join("real-std.txt");
    fs::create_dir_all(env::temp_dir())?;
    fs::write(&path, "a file")?;
    let read = fs::read_to_string(&path)?;
    fs::remove_file(&path)?;
    Ok(format!("{caught} {joined} {sum} {} {} {read}", DEPTH.get(), counts[&'l']))
}

fn tables() -> Outcome {
    let mut reader = csv::Reader::from_reader("name,mass\nearth,5.97\nmars,0.64\n".as_bytes());
    let masses: Vec<f64> = reader.deserialize::<(String, f64)>().map_ok(|(_, mass)| mass).try_collect()?;
    Ok(format!("{} rows, {:.2}", masses.len(), masses.iter().sum::<f64>()))
}

fn patterns() -> Outcome {
    let date = regex::Regex::new(r"(?<year>\d{4})-(?<month>\d{2})")?;
    Ok(date.replace_all("from 1999-12 to 2026-11", "$month/$year").into_owned())
}

#[derive(Serialize, Deserialize)]
struct Ship {
    name: String,
    hulls: u8,
}

fn documents() -> Outcome {
    let ship: Ship = serde_json::from_str(r#"{ "name": "Ἀργώ", "hulls": 1 }"#)?;
    Ok(serde_json::to_string(&ship)?)
}

fn settings() -> Outcome {
    let ship: Ship = toml::from_str("name = 'Argo'\nhulls = 1")?;
    Ok(toml::to_string(&ship)?.replace('\n', "; "))
}

fn versions() -> Outcome {
    let wanted = semver::VersionReq::parse(">=1.91, <2")?;
    Ok(["1.90.0", "1.95.0", "2.0.0"]
        .iter()
        .filter(|version| version.parse().is_ok_and(|v| wanted.matches(&v)))
        .join(" "))
}

fn iterators() -> Outcome {
    Ok((1..=4).tuple_windows().map(|(a, b)| a * b).sorted().rev().join(" > "))
}

fn addresses() -> Outcome {
    let url = url::Url::parse("http://[::1]:8000/a/../bücher?q=1#top")?;
    Ok(format!("{} {:?} {}", url, url.port(), url.path()))
}

fn identifiers() -> Outcome {
    let (one, two) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    Ok(format!("version {}, different: {}", one.get_version_num(), one != two))
}

fn numbers() -> Outcome {
    let mut numbers = rand::rng();
    let rolls: Vec<u8> = (0..100).map(|_| numbers.random_range(1..=6)).collect();
    Ok(format!("{} rolls from 1 to 6: {}", rolls.len(), rolls.iter().all(|roll| (1..=6).contains(roll))))
}

fn calendar() -> Outcome {
    let day = time::Date::from_calendar_date(2026, time::Month::November, 23)?;
    let later = day + time::Duration::days(100);
    let now = time::OffsetDateTime::now_utc();
    Ok(format!("{later} is a {}, after 2020: {}", later.weekday(), now.year() > 2020))
}
