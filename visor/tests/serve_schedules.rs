//! Schedules of a server: a workflow is started at times of a cron expression, once for each, whatever becomes of the server.
//!
//! No test waits for a minute to begin: due times are put into the past, as if no server had run. What the clock does is a matter of
//! `monohull-durable`'s own tests, whose clock is the test's.

#[path = "support/database.rs"]
mod database;
#[path = "serve_support/interface.rs"]
mod interface;
mod serve_support;

use interface::keeps_to;
use monohull_durable::{Defined, Definition, Missed, Sqlite, Store, Times};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use serve_support::verbs::run_verb;
use serve_support::{Server, StateFolder, eventually, single};
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

const MINUTE: u64 = 60_000_000_000;
const OPTIONS: [&str; 2] = ["--suspend", "1s"];

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
    since.as_nanos().try_into().expect("before 2554")
}

fn start() -> Server {
    let server = Server::start_with(&OPTIONS);
    server.put_example("echo");
    // It may be run again, so that a kill ends none of its invocations.
    let more = json!({ "inputs": ["in"], "outputs": ["out"], "retry": { "max_attempts": 5 } });
    server.put_workflow(&single("echo", "echo", &more));
    server
}

fn ledger(state: &StateFolder) -> Sqlite {
    Store::open_served(&state.path().join("durable"), None).and_then(|store| store.meta()).expect("a store")
}

/// Defines a schedule of each minute in the ledger of a server, which is told nothing of it, as it was so many minutes ago.
fn define_before(state: &StateFolder, name: &str, workflow: &str, missed: Missed, minutes: u64) {
    let definition = Definition {
        workflow: workflow.to_owned(),
        cron: "* * * * *".to_owned(),
        zone: "UTC".to_owned(),
        missed,
        inputs: br#"{"in": "tick"}"#.to_vec(),
        paused: false,
    };
    let (times, then) = (Times::new("* * * * *", "UTC").expect("times"), now() - minutes * MINUTE);
    let name = name.parse().expect("a name");
    let defined = ledger(state).define_schedule(&name, &definition, |after| times.next(after, false), then);
    assert_eq!(defined.expect("defined"), Defined::New);
}

#[test]
fn they_are_defined_shown_and_removed() {
    let server = start();
    let put =
        |name: &str, order: &Value| server.ask("PUT", &format!("/schedules/{name}"), order.to_string().as_bytes());
    let order = json!({ "workflow": "echo", "cron": "0 6 1 * *", "missed": "once", "inputs": { "in": "x" } });
    for status in [201, 200] {
        let answer = put("monthly", &order).expect(status);
        assert_eq!(answer.headers["location"], "/schedules/monthly");
        keeps_to("Schedule", &answer.json());
    }
    let shown = server.get("/schedules/monthly").expect(200).json();
    let next = shown["next"].as_str().expect("a time");
    assert!(next.ends_with("-01T06:00:00.000Z"), "{next}");
    assert_eq!((&shown["zone"], &shown["inputs"], &shown["last"]), (&json!("UTC"), &json!(["in"]), &Value::Null));
    let mut paused = order.clone();
    paused["paused"] = true.into();
    assert_eq!(put("monthly", &paused).expect(200).json()["next"], Value::Null);
    let listed = server.get("/schedules").expect(200).json();
    keeps_to("Schedules", &listed);
    assert_eq!(listed["schedules"].as_array().map(Vec::len), Some(1));
    for (field, wrong, said) in [
        ("cron", json!("0 6 1 *"), "five fields"),
        ("cron", json!("61 * * * *"), "cron expression"),
        ("cron", json!("0 0 30 2 *"), "no such time"),
        ("zone", json!("Mars/Base"), "no time zone"),
        ("missed", json!("maybe"), "`skip`, `once` or `all`"),
        ("workflow", json!("ecco"), "echo"),
        ("inputs", json!({}), "in"),
        ("inputs", json!({ "in": "x", "more": "y" }), "more"),
    ] {
        let mut order = order.clone();
        order[field] = wrong;
        let error = put("other", &order).error(422, "invalid", "client");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(said)), "{said}: {error:#}");
    }
    put("a.b", &order).error(400, "bad-request", "client");
    put("other", &json!({ "cron": "* * * * *" })).error(400, "bad-request", "client");
    put("other", &json!(["echo", "* * * * *", "UTC", "skip", { "in": "x" }])).error(400, "bad-request", "client");
    server.get("/schedules/other").error(404, "not-found", "client");
    let error = server.ask("DELETE", "/workflows/echo", b"").error(409, "conflict", "client");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("monthly")), "{error:#}");
    server.ask("DELETE", "/schedules/monthly", b"").expect(204);
    server.ask("DELETE", "/schedules/monthly", b"").error(404, "not-found", "client");
    server.ask("DELETE", "/workflows/echo", b"").expect(204);
}

#[test]
fn the_command_line_has_them_too() {
    let server = start();
    let address = format!("http://{}", server.address);
    let run = |arguments: &[&str], input: &str| run_verb(&address, arguments, &[], input);
    let cron = ["--cron", "30 2 * * MON", "--input", "in=-"];
    let done = run(&[&["schedule", "weekly", "echo"], cron.as_slice()].concat(), "given").expect(0);
    assert!(done.out.starts_with("weekly: next 20") && done.out.ends_with("T02:30:00.000Z\n"), "{}", done.out);
    let alone = run(&["schedule", "alone", "echo", "--cron", "30 2 * * MON", "--input", "Cargo.toml"], "").expect(0);
    assert!(alone.out.starts_with("alone: next 20"), "{}", alone.out);
    run(&["unschedule", "alone"], "").expect(0);
    let listed = run(&["list", "schedules"], "").expect(0).out;
    assert!(listed.contains("weekly") && listed.contains("30 2 * * MON"), "{listed}");
    let listed = run(&["list", "schedules", "--json"], "").expect(0).json();
    assert_eq!(listed["schedules"][0]["missed"], "skip");
    let refused = run(&["schedule", "weekly", "echo", "--cron", "never"], "").expect(2);
    assert!(refused.err.contains("five fields"), "{}", refused.err);
    assert_eq!(run(&["unschedule", "weekly"], "").expect(0).out, "weekly: removed\n");
    run(&["unschedule", "weekly"], "").expect(2);
}

/// No server ran for half an hour, and the next ones are killed while they make up for it.
#[test]
fn each_due_time_has_one_invocation_also_if_servers_are_killed() {
    let server = start();
    let state = server.state();
    let location = |id: &str| format!("/invocations/{id}");
    assert_eq!(server.stop().0, Some(0));
    define_before(&state, "each", "echo", Missed::All, 30);
    define_before(&state, "last", "echo", Missed::Once, 30);
    define_before(&state, "gone", "unknown", Missed::Once, 30);
    let living = |server: &Server| server.get("/invocations?workflow=echo&limit=1000").expect(200).json();
    for started in [5, 15] {
        let server = Server::start_on(&state, &OPTIONS, &[]);
        eventually("some were started", || living(&server)["invocations"].as_array().expect("a list").len() > started);
        server.signal(Signal::SIGKILL);
        server.wait();
    }
    let server = Server::start_on(&state, &OPTIONS, &[]);
    let is_later = |name: &str| {
        let next = server.get(&format!("/schedules/{name}")).expect(200).json()["next"].take();
        humantime_ns(next.as_str().expect("a time")) > now()
    };
    eventually("all was made up for", || is_later("each") && is_later("last"));
    let listed = living(&server);
    let ids = listed["invocations"].as_array().expect("a list").iter().map(|one| one["id"].as_str().expect("an id"));
    let ids: BTreeSet<String> = ids.map(str::to_owned).collect();
    let each: Vec<_> = ids.iter().filter(|id| id.starts_with("each-")).collect();
    assert!((30..=33).contains(&each.len()), "one a minute: {each:?}");
    let minutes: Vec<u64> = each.iter().map(|id| minute_of(id)).collect();
    assert!(minutes.windows(2).all(|pair| pair[1] - pair[0] == 1), "none is left out: {each:?}");
    let once = ids.iter().filter(|id| id.starts_with("last-")).count();
    assert!((1..=3).contains(&once), "one for half an hour, and one for each minute since: {ids:?}");
    for id in &ids {
        let shown = server.ended(&location(id));
        assert_eq!(
            (&shown["status"], &shown["result"]["out"]["text"]),
            (&json!("completed"), &json!("tick")),
            "{shown:#}"
        );
    }
    let shown = server.get("/schedules/gone").expect(200).json();
    keeps_to("Schedule", &shown);
    assert!(shown["reason"].as_str().is_some_and(|why| why.contains("unknown")), "{shown:#}");
    server.put_workflow(&single("unknown", "echo", &json!({ "inputs": ["in"] })));
    eventually("it is started once its workflow is there", || is_later("gone"));
    assert_eq!(server.get("/schedules/gone").json()["reason"], Value::Null);
    let metrics = server.get("/metrics").expect(200).text();
    assert!(metrics.contains("\nmonohull_durable_schedules 3\n"), "{metrics}");
}

/// A server without schedules looks for some all the same.
#[test]
fn what_another_process_adds_is_found_without_a_hint() {
    let server = start();
    assert_eq!(server.get("/schedules").expect(200).json()["schedules"], json!([]));
    define_before(&server.state(), "unannounced", "echo", Missed::Once, 5);
    eventually("it has started something", || {
        server.get("/schedules/unannounced").expect(200).json()["last"] != Value::Null
    });
    eventually("that has ended", || {
        let listed = server.get("/invocations?status=completed").expect(200).json();
        listed["invocations"][0]["id"].as_str().is_some_and(|id| id.starts_with("unannounced-"))
    });
}

/// The database was edited by hand, or the disk has changed it.
#[test]
fn a_schedule_whose_row_is_damaged_stops_no_other() {
    let server = start();
    let state = server.state();
    assert_eq!(server.stop().0, Some(0));
    define_before(&state, "damaged", "echo", Missed::All, 30);
    define_before(&state, "whole", "echo", Missed::Once, 20);
    // A policy that there is not.
    let database = state.path().join("durable/meta.sqlite");
    database::exchange(&database, b"damagedecho* * * * *UTC\x02{", b"damagedecho* * * * *UTC\x09{");
    let server = Server::start_on(&state, &OPTIONS, &[]);
    eventually("the other one starts what it has to", || {
        server.get("/schedules/whole").expect(200).json()["last"] != Value::Null
    });
    let listed = server.get("/schedules").expect(200).json();
    keeps_to("Schedules", &listed);
    let damaged = &listed["schedules"][0];
    assert_eq!((&damaged["name"], &damaged["missed"]), (&json!("damaged"), &Value::Null), "{listed:#}");
    assert!(damaged["reason"].as_str().is_some_and(|why| why.contains("wrong policy")), "{listed:#}");
    server.ask("DELETE", "/workflows/echo", b"").error(409, "conflict", "client");
    // It is mended by a definition.
    let order = json!({ "workflow": "echo", "cron": "0 6 1 * *", "inputs": { "in": "x" } });
    server.ask("PUT", "/schedules/damaged", order.to_string().as_bytes()).expect(201);
    assert_eq!(server.get("/schedules").expect(200).json()["schedules"][0]["missed"], "skip");
}

/// A name that no schedule can have: it can be removed, and keeps nothing else from being removed.
#[test]
fn a_schedule_whose_name_is_damaged_can_be_removed() {
    let server = start();
    let state = server.state();
    assert_eq!(server.stop().0, Some(0));
    define_before(&state, "damaged", "echo", Missed::All, 30);
    let database = state.path().join("durable/meta.sqlite");
    // In the index as well.
    database::exchange(&database, b"damaged", b"dam/ged");
    let server = Server::start_on(&state, &OPTIONS, &[]);
    let listed = || server.get("/schedules").expect(200).json()["schedules"].clone();
    assert_eq!(listed()[0]["name"], "dam/ged", "{:#}", listed());
    server.ask("DELETE", "/workflows/echo", b"").expect(204);
    server.ask("DELETE", "/schedules/damaged", b"").error(404, "not-found", "client");
    server.ask("DELETE", "/schedules/dam%2Fged", b"").expect(204);
    assert_eq!(listed(), json!([]));
}

/// A time as the server shows it, in ns since 1970.
fn humantime_ns(text: &str) -> u64 {
    let digits: Vec<u64> = text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
    let [year, month, day, hour, minute, ..] = digits[..] else { panic!("{text}") };
    (days(year, month, day) * 1440 + hour * 60 + minute) * MINUTE
}

/// The minute in an id, since 1970.
fn minute_of(id: &str) -> u64 {
    let time = id.rsplit_once('-').expect("a time").1;
    let part = |range: std::ops::Range<usize>| time[range].parse::<u64>().expect("digits");
    days(part(0..4), part(4..6), part(6..8)) * 1440 + part(9..11) * 60 + part(11..13)
}

/// Days since 1970.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let of_year = (1970..year).map(|year| 365 + u64::from(leap(year))).sum::<u64>();
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    of_year + lengths[..month as usize - 1].iter().sum::<u64>() + day - 1
}
