//! SQLite in a file: the argument `--path=…` names it. With `--nap=…` it waits for so many milliseconds within a transaction.
//!
//! Each part prints one line, with results that do not change from run to run.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, thread};

use rusqlite::{Connection, ErrorCode, params};

type Outcome = Result<String, Box<dyn Error>>;
/// What a part is called, and what it does.
type Part = (&'static str, fn(&Path) -> Outcome);

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |name: &str| env::args().find_map(|argument| argument.strip_prefix(name).map(str::to_owned));
    let path = argument("--path=").map_or_else(|| env::temp_dir().join("database.db"), PathBuf::from);
    if let Some(nap) = argument("--nap=") {
        println!("nap: {}", naps(&path, Duration::from_millis(nap.parse()?))?);
        return Ok(());
    }
    let parts: [Part; 5] = [("rows", rows), ("journal", journal), ("locks", locks), ("log", log), ("whole", whole)];
    for (name, run) in parts {
        println!("{name}: {}", run(&path)?);
    }
    Ok(())
}

/// Ten thousand rows in one transaction, and questions about them.
fn rows(path: &Path) -> Outcome {
    let mut connection = Connection::open(path)?;
    connection.execute_batch("CREATE TABLE ships (id INTEGER PRIMARY KEY, name TEXT NOT NULL, mass REAL)")?;
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare("INSERT INTO ships (name, mass) VALUES (?1, ?2)")?;
        for number in 0..10_000 {
            insert.execute(params![format!("ship {number}"), f64::from(number) / 4.0])?;
        }
    }
    transaction.commit()?;
    connection.execute_batch("CREATE INDEX by_name ON ships (name)")?;
    let (count, mass): (i64, f64) =
        connection.query_row("SELECT count(*), sum(mass) FROM ships", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let id: i64 = connection.query_row("SELECT id FROM ships WHERE name = ?1", ["ship 4321"], |row| row.get(0))?;
    Ok(format!("{count}, mass {mass}, ship 4321 is {id}"))
}

/// A transaction keeps what was there in a journal beside the file, and takes it back from there.
fn journal(path: &Path) -> Outcome {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    let mut connection = Connection::open(path)?;
    // So that pages are written before the end.
    connection.execute_batch("PRAGMA cache_size = 5")?;
    let transaction = connection.transaction()?;
    transaction.execute("DELETE FROM ships WHERE id > 10", [])?;
    let during = fs::exists(&journal)?;
    let left: i64 = transaction.query_row("SELECT count(*) FROM ships", [], |row| row.get(0))?;
    transaction.rollback()?;
    let back: i64 = connection.query_row("SELECT count(*) FROM ships", [], |row| row.get(0))?;
    Ok(format!("{during}, {left} and again {back}, {}", fs::exists(&journal)?))
}

/// Within a transaction whose pages are partly written, with its journal open and a question half answered.
fn naps(path: &Path, nap: Duration) -> Outcome {
    rows(path)?;
    let connection = Connection::open(path)?;
    connection.execute_batch("PRAGMA cache_size = 5; BEGIN IMMEDIATE; DELETE FROM ships WHERE id > 9000")?;
    let mut question = connection.prepare("SELECT id FROM ships ORDER BY id")?;
    let mut answers = question.query([])?;
    let first: i64 = answers.next()?.ok_or("there are rows")?.get(0)?;
    println!("waits");
    thread::sleep(nap);
    let mut count = 1;
    let mut last = first;
    while let Some(row) = answers.next()? {
        (count, last) = (count + 1, row.get(0)?);
    }
    connection
        .execute_batch("UPDATE ships SET mass = 1 WHERE id <= 10; ROLLBACK; BEGIN; DELETE FROM ships WHERE id = 1")?;
    thread::sleep(nap);
    connection.execute_batch("COMMIT")?;
    Ok(format!("{first} to {last}, {count} rows; {}", whole(path)?))
}

/// Connections of one program exclude each other.
fn locks(path: &Path) -> Outcome {
    let (mut one, other) = (Connection::open(path)?, Connection::open(path)?);
    other.busy_timeout(Duration::ZERO)?;
    let transaction = one.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let busy = other.execute("DELETE FROM ships", []).map_err(|error| error.sqlite_error_code());
    transaction.execute("UPDATE ships SET mass = 0 WHERE id = 1", [])?;
    transaction.commit()?;
    let changed = other.execute("UPDATE ships SET mass = 1 WHERE id <= 2", [])?;
    Ok(format!("{}, then {changed} rows", busy == Err(Some(ErrorCode::DatabaseBusy))))
}

/// A write-ahead log, of which two connections share the index.
fn log(path: &Path) -> Outcome {
    let connection = Connection::open(path)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    for number in 0..100 {
        connection.execute("INSERT INTO ships (name) VALUES (?1)", [format!("late {number}")])?;
    }
    let other = Connection::open(path)?;
    let late: i64 = other.query_row("SELECT count(*) FROM ships WHERE name LIKE 'late%'", [], |row| row.get(0))?;
    assert_eq!(late, 100);
    drop(other);
    let back: String = connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))?;
    Ok(format!("{mode}, and {back}"))
}

/// What another connection finds in the end.
fn whole(path: &Path) -> Outcome {
    let connection = Connection::open(path)?;
    let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    let count: i64 = connection.query_row("SELECT count(*) FROM ships", [], |row| row.get(0))?;
    Ok(format!("{check}, {count} rows"))
}
