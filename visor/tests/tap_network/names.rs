//! Names: functions that ask, of dnsmasq, and functions that are asked, by dig.

use crate::net::{FAR4, FAR6, Guest, Net, PATIENCE};
use serde_json::json;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

/// A pool of both kinds of addresses, with these resolvers.
pub(crate) fn net(resolvers: &[IpAddr]) -> Net {
    let resolvers: Vec<String> = resolvers.iter().map(IpAddr::to_string).collect();
    let mut options = vec!["--pool", "10.99.0.0/24", "--pool", "fd99::/48"];
    options.extend(resolvers.iter().flat_map(|resolver| ["--resolver", resolver]));
    Net::with(&options)
}

/// dnsmasq beyond the wire, which knows `www.test` and `four.test`; it answers by now.
pub(crate) fn dnsmasq(net: &Net, at: IpAddr) -> Guest {
    let (listen, both) = (format!("--listen-address={at}"), format!("--host-record=www.test,{FAR4},{FAR6}"));
    let server = net.start(
        "dnsmasq",
        &[
            "--no-daemon",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            "--local=/test/",
            "--bind-interfaces",
            "--user=root",
            "--group=root",
            &listen,
            &both,
            "--host-record=four.test,192.0.2.4",
        ],
    );
    let dig = || net.command("dig").args([&format!("@{at}"), "+short", "+time=1", "www.test"]).output();
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if dig().expect("dig").stdout == format!("{FAR4}\n").as_bytes() {
            return server;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("dnsmasq does not answer at {at}");
}

/// Which of the two addresses comes first is the wire's affair.
#[track_caller]
pub(crate) fn assert_both(line: &str) {
    let mut known: Vec<&str> = line.split(' ').collect();
    known.sort_unstable();
    assert_eq!(known, [FAR4.to_string(), FAR6.to_string()]);
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn names_are_resolved_by_the_configured_resolver() {
    for resolver in [IpAddr::from(FAR4), FAR6.into()] {
        let net = net(&[resolver]);
        let _dnsmasq = dnsmasq(&net, resolver);
        let questions = ["www.test", "four.test", "unknown.test", "../www.test"].map(|name| json!({ "resolve": name }));
        let mut run = net.run("network-probe", json!({ "questions": questions }));
        assert_both(&run.line());
        assert_eq!(run.line(), "192.0.2.4");
        assert!(run.line().starts_with("NotFound: "));
        assert!(run.line().starts_with("InvalidInput: "));
        run.end();
    }
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_resolver_that_keeps_silent_is_a_timeout_unless_there_is_another() {
    let (alone, two) = (net(&[FAR4.into()]), net(&[FAR4.into(), FAR6.into()]));
    // It receives, and does not answer.
    let silent = [&alone, &two].map(|net| net.inside(|| UdpSocket::bind((FAR4, 53)).expect("a resolver")));
    let _dnsmasq = dnsmasq(&two, FAR6.into());
    let question = || json!({ "questions": [{ "resolve": "www.test" }] });
    let mut both = [&alone, &two].map(|net| net.run("network-probe", question()));
    let why = both[0].line();
    assert!(why.starts_with("TimedOut: ") && why.contains("no resolver answers"), "{why}");
    assert_both(&both[1].line());
    for run in both {
        run.end();
    }
    for resolver in silent {
        resolver.set_nonblocking(true).expect("what it has received is here");
        let received = std::iter::from_fn(|| resolver.recv(&mut [0; 512]).ok()).count();
        assert!(received > 2, "both questions were asked more than once, but {received} came");
    }
}

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn dig_is_answered_by_a_function() {
    for (listen, six) in [("0.0.0.0:53", false), ("[::]:53", true)] {
        let net = net(&[]);
        let mut run = net.run("network-probe", json!({ "questions": [{ "name-server": listen }] }));
        assert_eq!(run.line(), listen);
        let at = if six { "@fd99::2".to_owned() } else { format!("@{}", net.workflow4()) };
        // What the wire loses it asks for again, and says so. A connection takes longer to see that something was lost.
        let dig = |more: &[&str]| {
            let said = net.output("dig", &[&[at.as_str(), "+time=20", "+tries=5"], more].concat());
            let said = String::from_utf8(said).expect("text");
            let lost =
                |line: &&str| [";; communications error", ";; Connection to"].iter().any(|lost| line.starts_with(lost));
            said.split_inclusive('\n').filter(|line| !lost(line)).collect::<String>()
        };
        assert_eq!(dig(&["+short", "www.test", "A"]), "192.0.2.4\n");
        assert_eq!(dig(&["+short", "www.test", "AAAA"]), "2001:db8::4\n");
        assert_eq!(dig(&["+short", "+tcp", "www.test", "A"]), "192.0.2.4\n");
        let unknown = dig(&["unknown.test", "A"]);
        assert!(unknown.contains("status: NXDOMAIN"), "{unknown}");
        // Too long for a datagram: the answer is marked as truncated, and the client asks over TCP.
        let long = dig(&["+short", "www.test", "TXT"]);
        assert_eq!(long.matches('x').count(), 4000, "{long}");
        let asked: Vec<String> =
            std::iter::from_fn(|| Some(run.line())).take_while(|line| line != "16 over TCP").collect();
        for kind in ["1 over UDP", "28 over UDP", "1 over TCP", "16 over UDP"] {
            assert!(asked.iter().any(|line| line == kind), "{kind}: {asked:?}");
        }
    }
}
