//! The operator's page, in a real browser. `cargo xtask test` fetches one.

mod serve_support;

use serde_json::json;
use serve_support::{Server, StateFolder, root, single};
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

fn furnished() -> Server {
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
    let server = furnished();
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
    let server = furnished();
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
fn a_failure_shows_its_report() {
    let server = furnished();
    let answer = server.post("/invoke/panic", b"").expect(502);
    let (page, _) = browse(&format!("http://{}/#{}", server.address, answer.headers["x-invocation-id"]));
    assert!(page.contains("panic in main[0], blame: function"), "{page}");
    assert!(element(&page, "error").contains("as it was told to"));
    assert!(element(&page, "report").contains("\"backtrace\""));
}

#[test]
fn what_functions_say_is_text_on_it() {
    let server = furnished();
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
    let server = furnished();
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
