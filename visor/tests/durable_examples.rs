//! What functions do with events, times and effects on the outside: the shipped examples, in which months pass without a wait.

#[path = "support/program.rs"]
mod program;

use program::{document, monohull, write_workflow};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// The workflow file of a shipped example.
fn shipped(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path: PathBuf = root.join("workflows/durable").join(name).with_extension("json");
    path.to_str().expect("a path").to_owned()
}

/// A folder with an order, and what the customer may send.
fn shop() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for (name, text) in [("order", "17 hulls\n"), ("receipt", "r-4711"), ("why", "too dear")] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

#[track_caller]
fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).expect("the output")
}

#[track_caller]
fn done(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// Runs an order to its end, without waiting: the decision, and what the function has printed, without keys and with them.
#[track_caller]
fn order(folder: &Path, more: &[&str]) -> (String, Vec<String>, Vec<String>) {
    let args = ["run", &shipped("order"), "--input", "order=order", "--output", "decision=decision", "--skip-time"];
    let printed = done(&monohull(folder, &[&args, more].concat()));
    let said = printed.lines().filter_map(|line| line.strip_prefix("order[0] | "));
    let (mut lines, mut keys) = (Vec::new(), Vec::new());
    for line in said {
        match line.split_once(" (") {
            Some((line, key)) => {
                lines.push(line.to_owned());
                keys.push(key.trim_end_matches(')').to_owned());
            }
            None => lines.push(line.to_owned()),
        }
    }
    (read(folder, "decision"), lines, keys)
}

const RESERVE: &str = "reserve 17 hulls";
const RELEASE: &str = "release 17 hulls";

#[test]
fn the_first_of_several_events_decides_and_what_was_done_is_undone() {
    let folder = shop();
    let path = folder.path();
    let (paid, cancelled) = (["--event", "paid=receipt"], ["--event", "cancelled=why"]);
    let (decision, lines, keys) = order(path, &paid);
    assert_eq!(decision, "17 hulls: delivered, paid with r-4711\n");
    assert_eq!(lines, [RESERVE, "deliver 17 hulls"]);
    assert!(keys[0].ends_with("/order/0/reserve/0") && keys[1].ends_with("/order/0/deliver/0"), "{keys:?}");
    // The customer changes his mind: what was sent first counts.
    let (decision, lines, _) = order(path, &[cancelled, paid].concat());
    assert_eq!((decision.as_str(), lines), ("17 hulls: cancelled: too dear\n", vec![RESERVE.into(), RELEASE.into()]));
    let (decision, ..) = order(path, &[paid, cancelled].concat());
    assert_eq!(decision, "17 hulls: delivered, paid with r-4711\n");
    // Three days pass.
    let (decision, lines, _) = order(path, &[]);
    let reminders = ["reminder 1 of 2: 17 hulls is not paid", "reminder 2 of 2: 17 hulls is not paid"];
    assert_eq!(
        (decision.as_str(), lines),
        (
            "17 hulls: not paid\n",
            [&[RESERVE], &reminders[..], &[RELEASE]].concat().iter().map(|line| (*line).to_owned()).collect()
        )
    );
}

#[test]
fn a_step_is_tried_again_with_its_key() {
    let folder = shop();
    let busy =
        |times: &str| order(folder.path(), &["--event", "paid=receipt", "--set", &format!("order.busy={times}")]);
    let (decision, lines, keys) = busy("3");
    assert_eq!(decision, "17 hulls: delivered, paid with r-4711\n");
    let yard = "the yard is busy";
    assert_eq!(lines, [RESERVE, yard, yard, yard, "deliver 17 hulls"]);
    assert!(keys[1..].iter().all(|key| *key == keys[1]), "{keys:?}");
    let (decision, lines, keys) = busy("4");
    assert_eq!(decision, "17 hulls: not delivered: the yard is busy\n");
    assert_eq!(lines, [RESERVE, yard, yard, yard, yard, "refund 17 hulls", RELEASE], "the last thing is undone first");
    assert!(keys[5].ends_with("/refund/0") && keys[6].ends_with("/release/0"), "{keys:?}");
}

/// A process that is killed, a rewind and a new attempt do again what they did, with the same key. A copy has others.
#[test]
fn keys_are_those_of_the_invocation() {
    let folder = shop();
    let path = folder.path();
    let state = ["--state", "state"];
    let args = [
        "run",
        &shipped("order"),
        "--id",
        "one",
        "--detach",
        "--input",
        "order=order",
        "--output",
        "decision=decision",
        "--set",
        "order.busy=2",
    ];
    let run = monohull(path, &[&args[..], &state].concat());
    assert_eq!(run.status.code(), Some(4), "{run:?}");
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(printed.contains("reserve 17 hulls (one/order/0/reserve/0)"), "{printed}");
    let row = document(&monohull(path, &["show", "one", "--state", "state", "--json"]));
    let events: Vec<_> =
        row["waiting_for"].as_array().expect("a list").iter().map(|wait| wait["event"].clone()).collect();
    assert_eq!(events, ["paid", "cancelled", "cancel:"], "each takes it further");
    let to = |args: &[&str]| done(&monohull(path, &[args, &state].concat()));
    to(&["fork", "one", "--id", "two"]);
    to(&["send", "two", "cancelled", "--file", "why"]);
    let printed = to(&["wake"]);
    assert!(printed.contains("release 17 hulls (two/order/0/release/0)"), "{printed}");
    assert_eq!(read(path, "decision.two"), "17 hulls: cancelled: too dear\n");
    // What was done after the checkpoint is done again, with the key that it had.
    for _ in 0..2 {
        to(&["send", "one", "paid", "--file", "receipt"]);
        let printed = to(&["wake"]);
        assert!(printed.contains("the yard is busy (one/order/0/deliver/0)"), "{printed}");
        to(&["rewind", "one", "--to", "1"]);
    }
    to(&["send", "one", "paid", "--file", "receipt"]);
    let printed = to(&["wake", "--skip-time"]);
    assert!(printed.contains("deliver 17 hulls (one/order/0/deliver/0)"), "{printed}");
    assert_eq!(read(path, "decision"), "17 hulls: delivered, paid with r-4711\n");
}

/// An order that is cancelled undoes what it has done. One that is killed does not.
#[test]
fn an_order_that_is_cancelled_is_undone() {
    let folder = shop();
    let path = folder.path();
    let started = |id| {
        let args = ["run", &shipped("order"), "--id", id, "--detach", "--input", "order=order", "--state", "state"];
        let run = monohull(path, &[&args[..], &["--output", "decision=decision"]].concat());
        assert_eq!(run.status.code(), Some(4), "{run:?}");
    };
    let to = |args: &[&str]| done(&monohull(path, &[args, &["--state", "state"]].concat()));
    started("cancelled");
    for _ in 0..2 {
        assert_eq!(to(&["cancel", "cancelled"]), "cancelled: suspended, then cancelled\n");
    }
    let printed = to(&["wake"]);
    assert!(printed.contains("release 17 hulls (cancelled/order/0/release/0)"), "{printed}");
    let row = document(&monohull(path, &["show", "cancelled", "--state", "state", "--json"]));
    assert_eq!((row["status"].as_str(), row["reason"].as_str()), (Some("cancelled"), Some("it was told to end")));
    assert_eq!(to(&["cancel", "cancelled"]), "cancelled: cancelled\n");
    started("killed");
    assert_eq!(to(&["kill", "killed"]), "killed: cancelled\n");
    assert_eq!(to(&["wake"]), "");
}

/// An agent knows what it was told, and so do its copies; taken back, it has forgotten what came later.
#[test]
fn an_agent_is_forked_three_ways_and_taken_back() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let to = |args: &[&str]| monohull(path, &[args, &["--state", "state"]].concat());
    let run = to(&["run", &shipped("agent"), "--id", "a", "--detach", "--output", "diary=diary"]);
    assert_eq!(run.status.code(), Some(4), "{run:?}");
    let tell = |id: &str, instructions: &[&str]| {
        for instruction in instructions {
            done(&to(&["send", id, "instruction", "--data", instruction]));
        }
        done(&to(&["wake"]))
    };
    let answer = |id: &str| document(&to(&["show", id, "--json"]))["published"]["answer"].clone();
    tell("a", &["learn ship=Argo"]);
    assert_eq!(answer("a"), "1 things known");
    done(&to(&["fork", "a", "--count", "3"]));
    for (copy, port) in [("a-1", "Iolkos"), ("a-2", "Lemnos"), ("a-3", "Kolchis")] {
        tell(copy, &[&format!("learn port={port}"), "tell ship", "tell port"]);
        assert_eq!(answer(copy), port);
        let said = tell(copy, &["which"]);
        assert!(said.contains(&format!("copy {} of 3", &copy[2..])), "{said}");
    }
    tell("a", &["learn ship=Pegasos", "tell port"]);
    assert_eq!(answer("a"), "unknown", "its copies were told");
    let row = document(&to(&["show", "a", "--json"]));
    let (now, before) = (row["generation"].as_u64().expect("a number"), 2);
    assert!(now > before, "{row:#}");
    done(&to(&["rewind", "a", "--to", "2"]));
    tell("a", &["tell ship"]);
    assert_eq!(answer("a"), "Argo");
    tell("a", &["end"]);
    let diary = read(path, "diary");
    assert_eq!(diary.lines().take(2).collect::<Vec<_>>(), ["learn ship=Argo: 1 things known", "tell ship: Argo"]);
}

/// The months of a report, and what it says of each.
fn months(text: &str) -> Vec<(u64, String)> {
    let months = text.lines().map(|line| {
        let (month, sales) = line.split_once(": ").expect("a line of a report");
        let (year, month) = month.split_once('-').expect("a month");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        (number(year) * 12 + number(month), sales.to_owned())
    });
    months.collect()
}

#[track_caller]
fn follow_each_other(months: &[(u64, String)], count: usize) {
    assert_eq!(months.len(), count);
    assert!(months.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1), "{months:?}");
}

#[test]
fn months_pass_without_a_wait() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    for (name, sale) in [("one", "12.25"), ("two", "5.25")] {
        fs::write(path.join(name), sale).expect("written");
    }
    let run = |more: &[&str]| {
        let args = ["run", &shipped("monthly"), "--output", "reports=reports", "--skip-time"];
        done(&monohull(path, &[&args, more].concat()));
        months(&read(path, "reports"))
    };
    let year = run(&["--event", "sale=one", "--event", "sale=two", "--set", "monthly.months=14"]);
    follow_each_other(&year, 14);
    assert_eq!(year[0].1, "2 sales, 17.50");
    assert!(year[1..].iter().all(|(_, sales)| sales == "0 sales, 0.00"), "{year:?}");
    // In a state folder as well, and nothing is due there any more.
    let durable = run(&["--state", "state", "--id", "year"]);
    follow_each_other(&durable, 12);
    assert_eq!(durable[0].0, year[0].0);
    let row = document(&monohull(path, &["show", "year", "--state", "state", "--json"]));
    assert_eq!((&row["status"], &row["generation"]), (&json!("completed"), &json!(0)), "it was never suspended");
}

/// One that has been suspended goes on at once, and its wall clock does not go back.
#[test]
fn a_sleeper_is_woken_without_a_wait() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let args =
        ["run", &shipped("monthly"), "--output", "reports=reports", "--state", "state", "--id", "year", "--detach"];
    assert_eq!(monohull(path, &args).status.code(), Some(4));
    assert_eq!(done(&monohull(path, &["wake", "--state", "state"])).lines().count(), 1, "nothing but when it is due");
    let woken = done(&monohull(path, &["wake", "--state", "state", "--skip-time"]));
    assert!(woken.contains("year  monthly completed"), "{woken}");
    follow_each_other(&months(&read(path, "reports")), 12);
}

/// Threads, locks and timeouts see the time that is skipped as time that has passed.
#[test]
fn skipped_time_has_passed_for_all_clocks() {
    const MONTH: u64 = 30 * 24 * 3600 * 1000;
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let steps = |timeout: Value| {
        let args = json!({ "naps": 3, "milliseconds": MONTH, "takes": "", "fills": "result" });
        let mut step = json!({ "name": "naps", "function": "sleeper", "args": args });
        if !timeout.is_null() {
            step["timeout"] = timeout;
        }
        write_workflow(path, "sleeper", &json!([step]));
    };
    let run = || monohull(path, &["run", "w.json", "--skip-time", "--json", "--output", "result=result"]);
    steps(Value::Null);
    done(&run());
    assert_eq!(read(path, "result"), "3 naps, 5 letters, map true, thread true, time true\n");
    steps(json!("1h"));
    let late = run();
    assert_eq!(late.status.code(), Some(1), "{late:?}");
    assert_eq!(document(&late)["error"]["kind"], "timeout");
    // What nothing ends is said, and not skipped.
    write_workflow_of_events(path);
    let stuck = monohull(path, &["run", "w.json", "--skip-time", "--json", "--output", "result=result"]);
    done(&stuck);
    assert!(read(path, "result").starts_with("event `never` cannot arrive"), "{}", read(path, "result"));
}

fn write_workflow_of_events(folder: &Path) {
    let args = json!({ "events": ["never"], "fills": "result" });
    program::write_workflow_of(
        folder,
        "inbox",
        "inbox",
        &json!([{ "name": "inbox", "function": "inbox", "args": args }]),
    );
}

/// What a counter has published is read while it has no process, and belongs to the checkpoint that it waits in.
#[test]
fn what_is_published_is_read_without_waking_it() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let to = |args: &[&str]| monohull(path, &[args, &["--state", "state"]].concat());
    let show = |id: &str| document(&to(&["show", id, "--json"]));
    let args = ["run", &shipped("counter"), "--id", "visits", "--detach", "--output", "total=total"];
    assert_eq!(to(&args).status.code(), Some(4));
    let published = |id: &str| show(id)["published"]["count"].as_str().expect("a text").to_owned();
    assert_eq!(published("visits"), "0");
    for (number, sum) in [("5", "5"), ("x", "5"), ("12", "17")] {
        done(&to(&["send", "visits", "add", "--data", number]));
        let before = published("visits");
        assert_ne!((before.as_str(), number), (sum, "12"), "nothing runs before it is woken");
        done(&to(&["wake"]));
        assert_eq!(published("visits"), sum);
    }
    let text = done(&to(&["show", "visits"]));
    assert!(text.contains("published   count = 17\n"), "{text}");
    // A copy and a rewind have what was published then.
    done(&to(&["fork", "visits", "--id", "early", "--at", "2"]));
    done(&to(&["rewind", "visits", "--to", "1"]));
    assert_eq!((published("early"), published("visits")), ("5".to_owned(), "0".to_owned()));
    done(&to(&["send", "early", "add", "--data", "100"]));
    done(&to(&["send", "early", "close"]));
    done(&to(&["wake"]));
    assert_eq!((read(path, "total.early"), published("early")), ("105\n".to_owned(), "105".to_owned()));
    assert_eq!(show("early")["report"]["published"], json!({ "count": "105" }));
    let plain =
        ["run", &shipped("counter"), "--skip-time", "--event", "close=/dev/null", "--json", "--output", "total=total"];
    assert_eq!(document(&monohull(path, &plain))["published"], json!({ "count": "0" }));
}

/// A wait for a secret name is completed by a client that knows it, once.
#[test]
fn a_callback_is_completed_by_its_token() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let to = |args: &[&str]| monohull(path, &[args, &["--state", "state"]].concat());
    let args = [
        "run",
        &shipped("counter"),
        "--id",
        "c",
        "--detach",
        "--output",
        "total=total",
        "--set",
        "counter.confirm=true",
    ];
    assert_eq!(to(&args).status.code(), Some(4));
    done(&to(&["send", "c", "close"]));
    let printed = done(&to(&["wake"]));
    let token = printed.split("to end: c ").nth(1).and_then(|rest| rest.lines().next()).expect("a token").to_owned();
    assert_eq!(token.len(), 41, "{token}");
    done(&to(&["send", "c", "callback-00000000000000000000000000000000"]));
    assert!(!done(&to(&["wake"])).contains("completed"), "that is another one");
    done(&to(&["send", "c", &token]));
    assert!(done(&to(&["wake"])).contains("c  counter completed"));
    assert_eq!(read(path, "total"), "0\n");
}

/// Ordinary code waits: it suspends the workflow all the same.
#[test]
fn a_sleep_and_a_receive_suspend_by_themselves() {
    let folder = TempDir::new().expect("a folder");
    let steps = json!([{ "name": "waits", "function": "family", "args": { "does": ["doze 1300", "recv 1300"] } }]);
    program::write_workflow_of(folder.path(), "waits", "family", &steps);
    let args = ["run", "w.json", "--state", "state", "--id", "one", "--detach", "--output", "result=result.txt"];
    let output = monohull(folder.path(), &args);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    done(&monohull(folder.path(), &["wake", "--state", "state", "--wait"]));
    let shown = document(&monohull(folder.path(), &["show", "one", "--state", "state", "--json"]));
    assert_eq!((&shown["status"], &shown["generation"]), (&json!("completed"), &json!(2)), "{shown}");
    assert_eq!(read(folder.path(), "result.txt"), "nothing was received: true\n");
}
