//! The operator's page, in a real browser. `cargo xtask test` fetches one.

mod serve_support;

use serde_json::json;
use serve_support::{Server, StateFolder, eventually, root, single};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

/// What a page consists of once its scripts have run, and what the browser said meanwhile.
#[track_caller]
fn browse(address: &str) -> (String, String) {
    let browser = root().join("target/browser/bookworm/browser");
    assert!(browser.exists(), "{}: it is fetched first: run `cargo xtask fetch`", browser.display());
    let profile = tempfile::TempDir::new().expect("a folder");
    let output = Command::new(browser)
        .arg(format!("--user-data-dir={}", profile.path().display()))
        // Time passes as fast as there is nothing to wait for, up to this much of it.
        .args(["--virtual-time-budget=5000", "--enable-logging=stderr", "--dump-dom", address])
        .output()
        .expect("the browser starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (page, said) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success() && page.contains("<title>"), "{said}");
    assert!(!said.contains("Uncaught") && !said.contains("Refused to"), "{said}");
    (page, said)
}

/// The text of the element with this id.
#[track_caller]
fn element<'p>(page: &'p str, id: &str) -> &'p str {
    let from = page.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {page}")).1;
    let inside = from.split_once('>').expect("a tag").1;
    inside.split("</pre>").next().unwrap_or(inside)
}

fn server_with_examples() -> Server {
    let server = Server::start();
    server.put_shipped("word-count.json");
    server.put_example("misbehave");
    server.put_example("echo");
    let mut panic = single("panic", "misbehave", &json!({}));
    panic["steps"][0]["args"] = json!({ "how": "panic" });
    server.put_workflow(&panic);
    server
}

#[test]
fn the_overview_shows_what_is_registered_and_what_ran() {
    let server = server_with_examples();
    server.post("/invoke/word-count", b"a b a").expect(200);
    server.ask_with("POST", "/invoke/panic", &[("X-Call-Id", "call-17")], &[]).expect(502);
    let (page, _) = browse(&format!("http://{}/", server.address));
    let health = server.get("/healthz").expect(200).json();
    let isolation = format!("isolation {}", health["isolation"].as_str().expect("a word"));
    for part in [&isolation, "split, map, reduce, merge", "word-count-split", "failed: panic", "call-17", "· ready ·"]
    {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[test]
fn an_invocation_shows_where_its_time_went() {
    let server = server_with_examples();
    let answer = server.post("/invoke/word-count", "one two two\n".repeat(20_000).as_bytes()).expect(200);
    let (page, _) = browse(&format!("http://{}/#{}", server.address, answer.headers["x-invocation-id"]));
    let gantt = element(&page, "gantt");
    for row in ["split[0]", "map[0]", "map[3]", "reduce[1]", "merge[0]"] {
        assert!(gantt.contains(row), "{row} in {gantt}");
    }
    for kind in ["load", "run", "park"] {
        assert!(gantt.contains(&format!("class=\"{kind}\"")), "{kind} in {gantt}");
    }
    assert!(gantt.contains("style=\"left: ") && gantt.contains("%; width: "), "{gantt}");
    for moment in ["accepted", "domain-ready", "first-instruction", "answered", "replied"] {
        assert!(page.contains(&format!("<td>{moment}</td>")), "{moment} in {page}");
    }
    assert!(page.contains("2 two") || page.contains("40000 two"), "the result in {page}");
}

#[test]
fn invocations_have_dates_and_can_be_filtered() {
    let server = server_with_examples();
    server.post("/invoke/word-count", b"a b a").expect(200);
    server.ask_with("POST", "/invoke/panic", &[("X-Call-Id", "call-17")], &[]).expect(502);
    let (page, _) = browse(&format!("http://{}/#filter=failed%20CALL-17", server.address));
    assert!(page.contains("Invocations, 1 of 2"), "{page}");
    let rows = page.split_once("Invocations, 1 of 2").expect("a table").1;
    assert!(rows.contains("failed: panic") && !rows.contains(">word-count<"), "{rows}");
    let accepted = rows.split_once("<a href=\"#").expect("a row").1.split_once('>').expect("a link").1;
    let accepted = accepted.split('<').next().expect("its text");
    let shape: String = accepted.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00 00:00:00", "{accepted}");
    // The field says what is filtered, and is there only where something can be.
    let form = |page: &str| {
        page.split_once("<form id=\"filter\"").expect("a form").1.split('>').next().expect("a tag").to_owned()
    };
    assert!(!form(&page).contains("hidden"), "{page}");
    let (page, _) = browse(&format!("http://{}/#invoke=panic", server.address));
    assert!(form(&page).contains("hidden"), "{page}");
}

/// Being stopped is no failure of the workflow's.
#[test]
fn what_was_cancelled_does_not_look_like_a_failure() {
    let server = server_with_examples();
    let mut sleeping = single("sleeping", "misbehave", &json!({}));
    sleeping["steps"][0]["args"] = json!({ "how": "sleep" });
    server.put_workflow(&sleeping);
    let accepted = server.post("/async-invoke/sleeping", b"").expect(202).json();
    let location = accepted["location"].as_str().expect("an address");
    server.ask("DELETE", location, b"").expect(204);
    assert_eq!(server.ended(location)["status"], "cancelled");
    let (page, _) = browse(&format!("http://{}/#{}", server.address, accepted["id"].as_str().expect("an id")));
    assert!(page.contains("<span class=\"cancelled\">cancelled</span>"), "{page}");
    assert!(page.contains("<h2 class=\"cancelled\">"), "{page}");
    assert!(!page.contains("<h2 class=\"failed\"") && !page.contains("<span class=\"failed\""), "{page}");
    let style = server.get("/").expect(200).text();
    assert!(style.contains(".failed { color: var(--bad); } .cancelled { color: var(--dim); }"), "{style}");
}

/// Passes on what a browser asks, with a script of the test's behind the page's own, which does what a person would.
fn with_a_hand(server: &Server, hand: &'static str) -> std::net::SocketAddr {
    let (listener, to) = (TcpListener::bind("127.0.0.1:0").expect("a port"), server.address);
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut browser in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if browser.read_exact(&mut byte).is_err() {
                        return;
                    }
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).expect("text");
                let len =
                    head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; len.unwrap_or(0)];
                browser.read_exact(&mut body).expect("a body");
                // For the server it is its own page that asks.
                let own = head.replace(&address.to_string(), &to.to_string());
                let own = own.replace("Connection: keep-alive", "Connection: close");
                let mut server = TcpStream::connect(to).expect("it listens");
                server.write_all(&[own.as_bytes(), &body].concat()).expect("sent");
                let mut answer = Vec::new();
                server.read_to_end(&mut answer).expect("an answer");
                if head.starts_with("GET /page.js ") {
                    let text = String::from_utf8(answer).expect("text");
                    let (old, script) = text.split_once("\r\n\r\n").expect("a head");
                    let script = format!("{script}\n{hand}");
                    let kept = old.lines().filter(|line| !line.to_lowercase().starts_with("content-length"));
                    let head = kept.collect::<Vec<_>>().join("\r\n");
                    answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{script}", script.len()).into_bytes();
                }
                let _ = browser.write_all(&answer);
            });
        }
    });
    address
}

#[test]
fn a_workflow_can_be_invoked_on_it() {
    const HAND: &str = "const waiting = setInterval(() => { const form = document.getElementById('invoke'); \
                        if (!form) return; clearInterval(waiting); form.querySelector('textarea').value = 'two two one'; \
                        form.requestSubmit(); }, 50);";
    let server = server_with_examples();
    let (page, _) = browse(&format!("http://{}/", server.address));
    assert!(page.contains("href=\"#invoke=word-count\""), "{page}");
    let hand = with_a_hand(&server, HAND);
    let (page, _) = browse(&format!("http://{hand}/#invoke=word-count"));
    let listed = server.get("/invocations").expect(200).json();
    assert_eq!(listed["invocations"].as_array().map(Vec::len), Some(1), "{listed:#}");
    assert_eq!(listed["invocations"][0]["status"], "completed", "{listed:#}");
    // It leads to what came of it.
    assert!(page.contains("2 two") && page.contains("domain-ready"), "{page}");
}

/// What it waits for is shown as text, whatever its name, and the event that is sent is what was typed.
#[test]
fn a_durable_invocation_is_shown_and_sent_an_event() {
    const HAND: &str = "const waiting = setInterval(() => { const form = document.getElementById('event'); \
                        if (!form) return; clearInterval(waiting); form.querySelector('[name=content]').value = '<b>yes</b>'; \
                        form.requestSubmit(); }, 50);";
    let server = Server::start_with(&["--suspend", "1s"]);
    server.put_example("inbox");
    let args = json!({ "events": ["<img src=x>", "b"], "fills": "result" });
    server.put_workflow(&single("inbox", "inbox", &json!({ "args": args, "outputs": ["result"] })));
    server.post("/async-invoke/inbox?id=one", b"").expect(202);
    let shown = || server.get("/invocations/one").json();
    eventually("it waits", || shown()["status"] == "suspended");
    let schedule = json!({ "workflow": "inbox", "cron": "0 6 1 * *" });
    server.ask("PUT", "/schedules/monthly", schedule.to_string().as_bytes()).expect(201);
    let (page, _) = browse(&format!("http://{}/", server.address));
    assert!(page.contains("Durable invocations") && page.contains("href=\"#one\""), "{page}");
    assert!(page.contains("Schedules") && page.contains("<td>0 6 1 * *</td>"), "{page}");
    assert!(page.contains("for event `&lt;img src=x&gt;`") && !page.contains("<img"), "{page}");
    let (versions, _) = browse(&format!("http://{}/#versions=inbox", server.address));
    assert!(versions.contains("Versions of inbox") && versions.contains("<td>1 suspended</td>"), "{versions}");
    let (page, _) = browse(&format!("http://{}/#one", server.address));
    for button in ["Pause", "Cancel", "Fork", "Go back", "Send"] {
        assert!(page.contains(&format!(">{button}</button>")), "{button}: {page}");
    }
    let hand = with_a_hand(&server, HAND);
    let _ = browse(&format!("http://{hand}/#one"));
    eventually("the event has arrived", || shown()["waiting_for"][0]["event"] == "b");
    server.post("/invocations/one/events/b", b"").expect(202);
    let result = server.get("/invocations/one/outputs/result?wait=120s").expect(200).text();
    assert_eq!(result, "<img src=x>: <b>yes</b>\nb: \n");
}

/// Each button is pressed, as a person would, and does what it says.
#[test]
fn each_button_of_a_durable_invocation_does_what_it_says() {
    /// Presses the button that the address names behind the id, once it is there: `#one` with `?Fork`.
    const HAND: &str = "const wanted = decodeURIComponent(location.search.slice(1)); const waiting = setInterval(() => { \
                        const found = [...document.querySelectorAll('#controls button')].find((b) => b.textContent === wanted); \
                        if (!found) return; clearInterval(waiting); found.click(); }, 50);";
    let server = Server::start_with(&["--suspend", "1s"]);
    server.put_example("inbox");
    let args = json!({ "events": ["a", "b"], "fills": "result" });
    server.put_workflow(&single("inbox", "inbox", &json!({ "args": args, "outputs": ["result"] })));
    for id in ["one", "two"] {
        server.post(&format!("/async-invoke/inbox?id={id}"), b"").expect(202);
        let at = format!("/invocations/{id}");
        eventually("it waits", || server.get(&at).json()["status"] == "suspended");
    }
    let shown = |id: &str| server.get(&format!("/invocations/{id}")).json();
    let hand = with_a_hand(&server, HAND);
    let press = |id: &str, button: &str| browse(&format!("http://{hand}/?{}#{id}", button.replace(' ', "%20"))).0;
    press("one", "Pause");
    assert_eq!(shown("one")["status"], "paused");
    press("one", "Resume");
    assert_eq!(shown("one")["status"], "suspended");
    // The event that it waits for is in the field already.
    press("one", "Send");
    eventually("it has taken `a`", || shown("one")["generation"] == 2 && shown("one")["status"] == "suspended");
    press("one", "Fork");
    assert_eq!(shown("one-1")["parent"]["generation"], 2);
    // The first of these buttons is that of the first checkpoint.
    let page = press("one", "Go back");
    assert_eq!((&shown("one")["generation"], &shown("one")["waiting_for"][0]["event"]), (&json!(3), &json!("a")));
    // The trees of its checkpoints and of its copies.
    for part in [
        "class=\"now\">generation 3</a> (taken back to 1)",
        "generation 2",
        "href=\"#one-1\">one-1</a> suspended, from generation 2",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let page = browse(&format!("http://{}/#one-1", server.address)).0;
    assert!(page.contains("href=\"#one\">one</a> suspended") && page.contains("class=\"now\">one-1</span>"), "{page}");
    let page = browse(&format!("http://{}/#checkpoint=one/2", server.address)).0;
    let contents = element(&page, "contents");
    for part in ["<td>main[0]</td>", "event b", "<td>stacks</td>", "<td>pages</td>"] {
        assert!(contents.contains(part), "{part}: {page}");
    }
    press("one", "Cancel");
    assert_eq!(shown("one")["status"], "cancelled");
    press("two", "Kill");
    assert_eq!(shown("two")["status"], "cancelled");
}

/// Across suspensions: bars for legs and waits, and what woke it and was done to it. What it has published and waits for is text, whatever it is.
#[test]
fn a_durable_invocation_shows_its_timeline_and_what_it_has_published() {
    let server = Server::start_with(&["--suspend", "1s"]);
    server.put_example("inbox");
    server.put_example("misbehave");
    let args = json!({ "events": ["<img src=x>", "b"], "fills": "result" });
    server.put_workflow(&single("inbox", "inbox", &json!({ "args": args, "outputs": ["result"] })));
    let mut told = single("told", "misbehave", &json!({}));
    told["steps"][0]["args"] = json!({ "how": "publish-variable" });
    told["steps"][0]["env"] = json!({ "PRINTED": "<img src=y>" });
    server.put_workflow(&told);
    let waits = |id: &str, generation: u64| {
        eventually("it waits", || {
            let shown = server.get(&format!("/invocations/{id}")).json();
            shown["status"] == "suspended" && shown["generation"] == generation
        });
    };
    server.post("/async-invoke/inbox?id=one", b"").expect(202);
    waits("one", 1);
    server.post("/invocations/one/events/%3Cimg%20src=x%3E", b"x").expect(202);
    waits("one", 2);
    server.post("/invocations/one/pause", b"").expect(200);
    std::thread::sleep(std::time::Duration::from_millis(20));
    server.post("/invocations/one/resume", b"").expect(200);
    let (page, _) = browse(&format!("http://{}/#one", server.address));
    let legs = element(&page, "legs");
    for part in [
        "class=\"suspended\">suspended",
        "<td>start</td>",
        "event &lt;img src=x&gt;",
        "for event `b`",
        ">paused<",
        ">resumed<",
        "class=\"run\"",
        "class=\"wait\"",
        "class=\"rest\"",
        &format!("process {}", server.pid()),
    ] {
        assert!(legs.contains(part), "{part} in {legs}");
    }
    assert!(!page.contains("<img"), "{page}");
    server.post("/invocations/one/events/b", b"x").expect(202);
    server.get("/invocations/one/outputs/result?wait=120s").expect(200);
    let (page, _) = browse(&format!("http://{}/#one", server.address));
    assert!(element(&page, "legs").contains(">completed<"), "{page}");

    server.post("/async-invoke/told?id=two", b"").expect(202);
    waits("two", 1);
    let (page, _) = browse(&format!("http://{}/#two", server.address));
    let published = element(&page, "published");
    assert!(published.contains("<td>it is &lt;img src=y&gt;</td>"), "{page}");
    assert!(published.contains("href=\"/invocations/two/state/name%20%3Cimg%20src%3Dy%3E"), "{page}");
    assert!(page.contains("for event `event &lt;img src=y&gt;") && !page.contains("<img"), "{page}");
}

/// The server looks for what is wanted, however long ago it was, and a button asks for more.
#[test]
fn the_list_is_filtered_by_the_server_and_goes_on() {
    const HAND: &str = "const waiting = setInterval(() => { const more = document.getElementById('more'); \
                        if (!more) return; clearInterval(waiting); more.click(); }, 50);";
    let server = server_with_examples();
    server.put_workflow(&single("echo", "echo", &json!({ "inputs": ["in"], "outputs": ["out"] })));
    server.ask_with("POST", "/invoke/panic", &[("X-Call-Id", "call-17")], &[]).expect(502);
    for _ in 0..101 {
        server.post("/invoke/echo", b"x").expect(200);
    }
    let (page, _) = browse(&format!("http://{}/", server.address));
    assert!(page.contains("Invocations, the newest 100<") && !page.contains("call-17"), "{page}");
    assert!(page.contains("<option>panic</option>"), "{page}");
    for wanted in ["workflow=panic", "status=failed", "workflow=panic&status=failed,cancelled&words=CALL"] {
        let (page, _) = browse(&format!("http://{}/#list?{wanted}", server.address));
        assert!(page.contains("call-17") && !page.contains("id=\"more\""), "{wanted}: {page}");
        let rows = page.split_once("<h2>Invocations").expect("a list").1;
        assert!(!rows.contains("<td>echo</td>"), "{wanted}: {page}");
    }
    let (page, _) = browse(&format!("http://{}/#list?workflow=panic&status=completed", server.address));
    assert!(!page.contains("call-17"), "{page}");
    let hand = with_a_hand(&server, HAND);
    let (page, _) = browse(&format!("http://{hand}/"));
    assert!(page.contains("call-17") && !page.contains("id=\"more\""), "{page}");
}

#[test]
fn a_failure_shows_its_report() {
    let server = server_with_examples();
    let answer = server.post("/invoke/panic", b"").expect(502);
    let (page, _) = browse(&format!("http://{}/#{}", server.address, answer.headers["x-invocation-id"]));
    assert!(page.contains("panic in main[0], blame: function"), "{page}");
    assert!(element(&page, "error").contains("as requested"));
    assert!(element(&page, "report").contains("\"backtrace\""));
}

/// What a native function shows, and of a trap the frames of its own language, a line each, with the lines of their source.
#[test]
fn a_webassembly_program_shows_what_a_native_one_shows() {
    let server = Server::start();
    server.put_shipped("wasi-tour.json");
    let answer = server.post("/invoke/wasi-tour", b"a word").expect(200);
    let (page, _) = browse(&format!("http://{}/#{}", server.address, answer.headers["x-invocation-id"]));
    let (gantt, lines) = (element(&page, "gantt"), element(&page, "lines"));
    for kind in ["load", "run"] {
        assert!(gantt.contains("tour[0]") && gantt.contains(&format!("class=\"{kind}\"")), "{kind} in {gantt}");
    }
    assert!(lines.contains("standard input: \"a word\"") && lines.contains("standard error"), "{lines}");
    for moment in ["accepted", "domain-ready", "first-instruction", "replied"] {
        assert!(page.contains(&format!("<td>{moment}</td>")), "{moment} in {page}");
    }

    let args = json!({ "end": "panic" });
    let files = json!([{ "at": "/work", "memory": "1MiB" }]);
    server.put_workflow(&single("trap", "wasi-tour", &json!({ "args": args, "files": files })));
    let answer = server.post("/invoke/trap", b"").expect(502);
    let (page, _) = browse(&format!("http://{}/#{}", server.address, answer.headers["x-invocation-id"]));
    assert!(page.contains("error in main[0], blame: function"), "{page}");
    let error: Vec<&str> = element(&page, "error").lines().map(str::trim).collect();
    let backtrace = error.iter().position(|line| *line == "error while executing at wasm backtrace:");
    assert!(error[0].starts_with("wasm trap: ") && backtrace.is_some(), "{error:#?}");
    let frame = error.iter().position(|line| line.ends_with("!wasi_tour::main"));
    let frame = frame.unwrap_or_else(|| panic!("no frame of `main`: {error:#?}"));
    assert!(Some(frame) > backtrace && error[frame + 1].starts_with("at guests/tour/src/main.rs:"), "{error:#?}");
    assert!(element(&page, "lines").contains("as asked"), "{page}");
}

#[test]
fn output_of_functions_is_text_on_it() {
    let server = server_with_examples();
    let evil = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";
    let more = json!({ "inputs": ["in"], "outputs": ["out"], "args": { "say": evil } });
    server.put_workflow(&single("evil", "echo", &more));
    let answer = server.ask("POST", "/invoke/evil", evil.as_bytes()).expect(200);
    let (page, _) = browse(&format!("http://{}/#{}", server.address, answer.headers["x-invocation-id"]));
    assert!(page.contains("<title>Monohull</title>"), "{page}");
    assert!(element(&page, "lines").contains("&lt;img src=x"), "{page}");
    assert!(!page.contains("<img"), "{page}");
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let server = server_with_examples();
    for path in ["/", "/page.js"] {
        let answer = server.get(path).expect(200);
        assert!(!answer.text().contains("://"), "{path}");
        let policy = &answer.headers["content-security-policy"];
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
    }
}

#[test]
fn with_a_token_it_asks_for_it() {
    let server = Server::start_on(&StateFolder::new(), &[], &[("MONOHULL_TOKEN", "s3cret")]);
    let (page, _) = browse(&format!("http://{}/", server.address));
    let form = page.split_once("<form id=\"login\"").expect("a form").1;
    assert!(!form.split('>').next().expect("a tag").contains("hidden"), "{page}");
    assert!(page.contains("a bearer token is required"), "{page}");
}
