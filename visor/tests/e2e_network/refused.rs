//! What a workflow's list does not allow is refused before a packet leaves, and the victim receives nothing.

use crate::{ask, beside, probe};
use monohull_visor::report::FailureKind;
use serde_json::{Value, json};
use std::io::Write;
use std::net::{TcpListener, UdpSocket};

/// A server that must not be reached: a connection is found when it is asked.
fn victim() -> (TcpListener, String) {
    let victim = TcpListener::bind("0.0.0.0:0").expect("a victim");
    victim.set_nonblocking(true).expect("it does not wait");
    let port = victim.local_addr().expect("its address").port();
    (victim, port.to_string())
}

#[track_caller]
fn assert_untouched(victim: &TcpListener) {
    let why = victim.accept().expect_err("no connection").kind();
    assert_eq!(why, std::io::ErrorKind::WouldBlock);
}

#[track_caller]
fn assert_refused(answers: &[String], count: usize) {
    assert_eq!(answers.len(), count, "{answers:#?}");
    assert!(answers.iter().all(|answer| answer.starts_with("PermissionDenied: ")), "{answers:#?}");
}

#[test]
fn without_a_network_everything_is_refused() {
    let questions = json!([
        { "read": "127.0.0.1:1" }, { "listen": "127.0.0.1:0" }, { "bind": "127.0.0.1:0" }, { "resolve": "localhost" },
    ]);
    let mut document = probe(Value::Null, questions);
    document.as_object_mut().expect("an object").remove("network");
    let answers = crate::lines(&crate::support::run(&document));
    assert_refused(&answers, 4);
    assert!(answers.iter().all(|answer| answer.contains("the workflow has no network")), "{answers:#?}");
}

#[test]
fn an_address_off_the_list_is_refused_however_it_is_spelt() {
    let (victim, port) = victim();
    let open = TcpListener::bind("127.0.0.2:0").expect("a server");
    let listed = open.local_addr().expect("its address").to_string();
    let serving = std::thread::spawn(move || open.accept().expect("a client").0.write_all(b"control"));
    let spellings = [
        "127.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        // The kernel takes these for itself.
        "0.0.0.0",
        "[::]",
        "[::ffff:0.0.0.0]",
        "[::1]",
        "[::127.0.0.1]",
        "127.1.2.3",
        "169.254.169.254",
        "255.255.255.255",
        "224.0.0.1",
        "[64:ff9b::7f00:1]",
    ];
    let mut questions: Vec<Value> = vec![json!({ "read": listed })];
    questions.extend(spellings.iter().map(|host| json!({ "read": format!("{host}:{port}") })));
    questions.extend(spellings.iter().map(|host| {
        let from = if host.starts_with('[') && !host.contains("ffff") { "[::]:0" } else { "0.0.0.0:0" };
        json!({ "send": [from, format!("{host}:{port}")] })
    }));
    // The public network is on the list; what is special is not meant by that.
    let network = json!({ "mode": "host", "connect": [listed, "0.0.0.0/0:*", "[::/0]:*"] });
    let answers = ask(network, questions.into());
    serving.join().expect("no panic").expect("written");
    assert_eq!(answers[0], "control");
    assert_refused(&answers[1..], 2 * spellings.len());
    assert!(answers[1].contains(&format!("does not let it connect to 127.0.0.1:{port}")), "{answers:#?}");
    assert_untouched(&victim);
}

#[test]
fn another_port_is_another_address() {
    let (victim, port) = victim();
    let below = port.parse::<u16>().expect("a port") - 1;
    let network = json!({ "mode": "host", "connect": [format!("127.0.0.1:{below}")] });
    assert_refused(&ask(network, json!([{ "read": format!("127.0.0.1:{port}") }])), 1);
    assert_untouched(&victim);
}

#[test]
fn listening_needs_an_entry_of_its_own() {
    let network = json!({ "mode": "host", "connect": ["127.0.0.1:*"], "listen": ["127.0.0.1:0"] });
    let answers = ask(
        network,
        json!([
            { "listen": "127.0.0.1:0" }, { "bind": "127.0.0.1:0" }, { "bind": "0.0.0.0:0" },
            { "listen": "0.0.0.0:0" }, { "listen": "127.0.0.1:8080" }, { "listen": "[::1]:0" }, { "bind": "0.0.0.0:53" },
        ]),
    );
    assert_eq!(answers[..3], ["listened", "bound", "bound"]);
    assert_refused(&answers[3..], 4);
}

#[test]
fn a_name_off_the_list_is_not_resolved() {
    let network = json!({ "mode": "host", "connect": ["127.0.0.1:*"] });
    let questions = json!([{ "resolve": "example.com" }, { "resolve": "127.1" }, { "resolve": "0x7f000001" }]);
    let answers = ask(network, questions);
    assert_refused(&answers, 3);
    assert!(answers[0].contains("has no name \"example.com\""), "{answers:#?}");
}

#[test]
fn a_name_that_has_no_address_stops_the_run_at_once() {
    let network = json!({ "mode": "host", "connect": ["name.invalid:80"] });
    let ready = crate::support::ready(&probe(network, json!([])));
    let _one = crate::support::one_at_a_time();
    let silent = std::sync::Arc::new(monohull_visor::report::Silent);
    let error = ready.run(&Default::default(), silent).expect_err("the name does not exist");
    assert!(error.to_string().contains("name.invalid"), "{error}");
}

#[test]
fn datagrams_of_strangers_are_not_delivered() {
    let listed = UdpSocket::bind("127.0.0.1:0").expect("a server that is silent");
    let address = listed.local_addr().expect("its address").to_string();
    let stranger = std::thread::spawn(move || {
        let mut room = [0; 64];
        let (_, asker) = listed.recv_from(&mut room).expect("a question");
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a stranger");
        for _ in 0..10 {
            stranger.send_to(b"lie", ("127.0.0.1", asker.port())).expect("sent");
        }
    });
    let network = json!({ "mode": "host", "connect": [address] });
    let answers = ask(network, json!([{ "ask": [address, 200] }]));
    stranger.join().expect("no panic");
    assert!(answers[0].starts_with("WouldBlock: "), "{answers:?}");
}

#[test]
fn a_flood_of_sockets_ends_at_the_limit_and_is_harmless() {
    let network = json!({ "mode": "host", "connect": ["127.0.0.1:*"], "listen": ["127.0.0.1:0"] });
    let questions = json!([{ "flood": "127.0.0.1:0" }, { "listen": "127.0.0.1:0" }]);
    let answers = ask(network, questions);
    assert!(answers[0].contains("then QuotaExceeded: "), "{answers:?}");
    // All were closed; the next one is as good as the first.
    assert_eq!(answers[1], "listened");
}

#[test]
fn a_wait_for_the_network_ends_at_the_deadline() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a silent server");
    let address = silent.local_addr().expect("its address").to_string();
    let mut document = probe(json!({ "mode": "host", "connect": [address] }), json!([{ "wait": address }]));
    document["steps"][0]["timeout"] = "5s".into();
    let (report, _) = beside(&document, |printed| assert_eq!(printed.recv().as_deref(), Ok("connected")));
    assert_eq!(report.error.expect("its time was up").kind, FailureKind::Timeout);
}
