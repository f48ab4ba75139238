//! A network of the kind that an operator grants to served workflows by name.

use crate::net::{FAR4, Net};
use crate::serve_support::{Server, StateFolder, image, single, verbs::run_verb};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::net::TcpListener;

#[test]
#[ignore = "needs root and /dev/net/tun: cargo xtask test --network"]
fn a_granted_device_is_for_the_workflows_that_are_named() {
    let net = Net::new();
    let host = net.inside(|| TcpListener::bind((FAR4, 0)).expect("a server"));
    let address = host.local_addr().expect("its address").to_string();
    let answering =
        std::thread::spawn(move || host.accept().expect("a client").0.write_all(b"over the device").expect("sent"));
    let path = |name: &str| net.folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let grants = json!({ "networks": { "lan": { "network": "tap", "workflows": ["client"] } } });
    fs::write(path("grants.json"), grants.to_string()).expect("written");
    let socket = net.socket();
    let env = [("MONOHULL_NETWORK", socket.to_str().expect("UTF-8"))];
    let server = Server::start_on(&StateFolder::new(), &["--grants", &path("grants.json")], &env);
    let at = format!("http://{}", server.address);
    let write = |name: &str| {
        let args = json!({ "questions": [{ "read": address }] });
        let mut document = single(name, "network-probe", &json!({ "network": { "grant": "lan" }, "args": args }));
        document["functions"]["f"]["image"] = image("network-probe").to_str().expect("UTF-8").into();
        fs::write(path(&format!("{name}.json")), document.to_string()).expect("written");
        path(&format!("{name}.json"))
    };
    let (client, other) = (write("client"), write("other"));

    // A workflow that is not named: nothing of it is registered, and it gets no device.
    for verb in ["validate", "deploy"] {
        let done = run_verb(&at, &[verb, "--server", &at, &other], &[], "").expect(2);
        let said = done.out + &done.err;
        assert!(said.contains("grants the network `lan`, but not to the workflow `other`"), "{verb}: {said}");
    }
    server.get("/workflows/other").expect(404);
    assert_eq!(net.devices(), []);

    // One that is named reaches the host over a device, which goes with its run.
    for verb in ["validate", "deploy"] {
        run_verb(&at, &[verb, "--server", &at, &client], &[], "").expect(0);
    }
    let answer = server.post("/invoke/client", b"").expect(200);
    let logs = format!("/invocations/{}/logs", answer.headers["x-invocation-id"]);
    let said = server.get(&logs).expect(200).text();
    assert!(said.contains("over the device"), "{said}");
    answering.join().expect("it has answered");
    net.wait_for_devices(0);
}
