//! Every kind of mistake in a workflow file is found, at its exact place, with what would have been right.

use std::path::Path;

use monohull_visor::workflow::{self, Level, Mistake, WorkflowError, check_bytes};

/// What is wrong with a text, as `line:column: message (expected …)`.
fn mistakes(text: &str) -> Vec<String> {
    shown(&check_bytes(Path::new("w.json"), text.as_bytes()).mistakes)
}

fn shown(mistakes: &[Mistake]) -> Vec<String> {
    mistakes.iter().map(|mistake| mistake.to_string().trim_start_matches("w.json:").to_owned()).collect()
}

/// A valid workflow with these fields added to its one step.
fn with_step(fields: &str) -> String {
    format!(r#"{{"name":"w","functions":{{"f":{{"image":"f.so"}}}},"steps":[{{"name":"s","function":"f",{fields}}}]}}"#)
}

/// Where the fields begin in [`with_step`], as a column.
fn step_column() -> usize {
    with_step("#").find('#').expect("the fields") + 1
}

/// A valid workflow with these fields added at the top.
fn with_top(fields: &str) -> String {
    format!(r#"{{{fields},"name":"w","functions":{{"f":{{"image":"f.so"}}}},"steps":[{{"name":"s","function":"f"}}]}}"#)
}

/// Exactly one mistake, `offset` characters after the start of the fields; its message and expectation begin so.
#[track_caller]
fn step_mistake(fields: &str, offset: usize, message: &str, expected: &str) {
    one_mistake(&with_step(fields), step_column() + offset, message, expected);
}

#[track_caller]
fn top_mistake(fields: &str, offset: usize, message: &str, expected: &str) {
    one_mistake(&with_top(fields), 2 + offset, message, expected);
}

#[track_caller]
fn one_mistake(text: &str, column: usize, message: &str, expected: &str) {
    let checked = check_bytes(Path::new("w.json"), text.as_bytes());
    assert_eq!(checked.mistakes.len(), 1, "{:#?}", checked.mistakes);
    let found = &checked.mistakes[0];
    assert_eq!((found.line, found.column), (1, column), "{found}");
    assert!(found.message.contains(message), "{found}");
    assert!(found.expected.as_deref().unwrap_or_default().contains(expected), "{found}");
    assert_eq!(found.level, Level::Error);
    assert!(checked.plan.is_none());
}

#[test]
fn a_list_of_children_that_is_wrong() {
    top_mistake(r#""starts":"thumbnail""#, 9, "`starts` is a string", "an array of the names of workflows");
    top_mistake(r#""starts":[1]"#, 10, "an entry of `starts` is a number", "a name");
    for name in ["*", "../w", ""] {
        top_mistake(&format!(r#""starts":["{name}"]"#), 10, "an entry of `starts`", "a letter or digit first");
    }
    let checked = check_bytes(Path::new("w.json"), with_top(r#""starts":["a","w"]"#).as_bytes());
    assert_eq!(checked.plan.expect("it is right").starts, ["a", "w"]);
}

#[test]
fn http_needs_an_input_and_an_output() {
    let with = |http: &str, slots: &str| format!(r#""http":{http},{slots}"#);
    let slots = r#""inputs":["request"],"outputs":["response","log"]"#;
    let right = r#"{"request":"request","response":"response"}"#;
    let plan = check_bytes(Path::new("w.json"), with_top(&with(right, slots)).as_bytes()).plan.expect("it is right");
    let http = plan.http.expect("it has one");
    assert_eq!((&*http.request, &*http.response), ("request", "response"));
    for (http, offset, message, expected) in [
        ("true", 7, "`http` is a boolean", "an object"),
        (r#"{"request":"request"}"#, 7, "lacks the field `response`", "required"),
        (r#"{"response":"response"}"#, 7, "lacks the field `request`", "required"),
        (r#"{"request":"request","response":"response","path":"/"}"#, 50, "no field `path`", "`request`, `response`"),
        (r#"{"request":"reqest","response":"response"}"#, 18, "no input slot `reqest`, did you mean", "`inputs`"),
        (r#"{"request":"response","response":"response"}"#, 18, "no input slot `response`", "`inputs`"),
        (r#"{"request":"request","response":"request"}"#, 39, "no output slot `request`", "`outputs`"),
    ] {
        top_mistake(&with(http, slots), offset, message, expected);
    }
    let two = r#""inputs":["request","b"],"outputs":["response"]"#;
    top_mistake(&with(right, two), 18, "has 2 inputs, and a request fills one slot", "the only slot of `inputs`");
}

/// A workflow with these steps, which begin at the column that is given back.
fn with_steps(steps: &str) -> (String, usize) {
    let before = r#"{"name":"w","functions":{"f":{"image":"f.so"}},"files":[{"at":"/a","memory":"1MiB"}],"steps":["#;
    (format!("{before}{steps}]}}"), before.len() + 1)
}

/// Exactly one mistake, `offset` characters after the start of the steps.
#[track_caller]
fn steps_mistake(steps: &str, at: &str, message: &str, expected: &str) {
    let (text, column) = with_steps(steps);
    one_mistake(&text, column + steps.rfind(at).expect("the place"), message, expected);
}

#[test]
fn effects_that_are_wrong() {
    step_mistake(r#""handles":1"#, 10, "`handles` is a number", "a name");
    step_mistake(r#""performs":"blob""#, 11, "`performs` is a string", "an array of the names of effects");
    step_mistake(r#""performs":[1]"#, 12, "an entry of `performs` is a number", "a name");
    step_mistake(r#""performs":["blob"]"#, 12, "no step handles effect `blob`", "an effect that a step `handles`");
    for name in ["", "a b", "_", "é"] {
        step_mistake(&format!(r#""performs":["{name}"]"#), 12, "an entry of `performs`", "a letter or digit first");
    }
    step_mistake(r#""handles":"blob""#, 10, "each step handles an effect", "a step without `handles`");
    let asks = r#"{"name":"asks","function":"f"}"#;
    let good = r#"{"name":"store","function":"f","handles":"blob"}"#;
    let (text, _) = with_steps(&format!("{asks},{good}"));
    let plan = check_bytes(Path::new("w.json"), text.as_bytes()).plan.expect("it is right");
    assert_eq!((plan.steps[1].handles.as_deref(), &plan.steps[1].performs), (Some("blob"), &None));
    for (handler, at, message, expected) in [
        (
            r#"{"name":"store","function":"f","handles":"blob","after":["asks"]}"#,
            r#""asks""#,
            "waits for no other",
            "`after`",
        ),
        (r#"{"name":"store","function":"f","handles":"blob","instances":1}"#, "1}", "for each request", "`instances`"),
        (
            r#"{"name":"store","function":"f","handles":"blob"},{"name":"b","function":"f","handles":"blob"}"#,
            r#""blob"}"#,
            "two steps handle effect `blob`, the first at 1:",
            "one step for each effect",
        ),
        (
            r#"{"name":"store","function":"f","handles":"blob"},{"name":"b","function":"f","after":["store"]}"#,
            r#""store"]"#,
            "step `store` handles an effect, and has no end to wait for",
            "a step without `handles`",
        ),
        (
            r#"{"name":"store","function":"f","handles":"blob","performs":["blub"]}"#,
            r#""blub""#,
            "no step handles effect `blub`, did you mean `blob`?",
            "an effect that a step `handles`",
        ),
    ] {
        steps_mistake(&format!("{asks},{handler}"), at, message, expected);
    }
    let (text, column) = with_steps(
        r#"{"name":"asks","function":"f","performs":[]},{"name":"store","function":"f","performs":[],"handles":"blob"}"#,
    );
    let checked = check_bytes(Path::new("w.json"), text.as_bytes());
    let [warning] = &checked.mistakes[..] else { panic!("{:#?}", checked.mistakes) };
    assert_eq!((warning.level, warning.line), (Level::Warning, 1));
    assert!(checked.plan.is_some() && warning.column > column, "{warning}");
    assert!(warning.message.contains("no step may ask for effect `blob`"), "{warning}");
}

#[test]
fn the_file_systems_of_a_step_that_are_wrong() {
    for (fields, at, message, expected) in [
        (r#""files":"/a""#, r#""/a""#, "`files` is a string", "an array of mount points"),
        (r#""files":[{"at":"/a"}]"#, r#"{"at""#, "an entry of `files` is an object", "a mount point"),
        (r#""files":["/b"]"#, r#""/b""#, "the workflow has no file system at `/b`", "a mount point from `files`"),
        (r#""files":["/a","/a"]"#, r#""/a"]"#, "`files` names `/a` twice", "each name once"),
    ] {
        steps_mistake(&format!(r#"{{"name":"s","function":"f",{fields}}}"#), at, message, expected);
    }
    let (text, _) = with_steps(r#"{"name":"s","function":"f","files":["/a"]},{"name":"t","function":"f","files":[]}"#);
    let plan = check_bytes(Path::new("w.json"), text.as_bytes()).plan.expect("it is right");
    assert_eq!(
        (plan.steps[0].files.as_deref(), plan.steps[1].files.as_deref()),
        (Some(&["/a".to_owned()][..]), Some(&[][..]))
    );
}

#[test]
fn a_network_that_is_wrong() {
    top_mistake(r#""network":1"#, 10, "`network` is a number", "a mode, or an object with a `mode`");
    top_mistake(r#""network":"hots""#, 10, "is `hots`, did you mean `host`?", "`host` or `tap`");
    top_mistake(
        r#""network":{"mode":"tap","listen":[]}"#,
        33,
        "`listen` says nothing about the mode `tap`",
        "no lists",
    );
    top_mistake(r#""network":{}"#, 10, "`network` lacks the field `mode`", "`mode`");
    top_mistake(r#""network":{"mode":"host","conect":[]}"#, 25, "`network` has no field `conect`", "`connect`");
    for (entry, why) in [
        ("example.com", "it names no port"),
        ("10.0.0.1/8:80", "bits beyond its prefix are set"),
        ("::1:80", "an IPv6 address stands in brackets"),
        ("127.1:80", "its host is no address, range of addresses, or name"),
        ("127.0.0.1:65536", "its port is no number"),
    ] {
        let fields = format!(r#""network":{{"mode":"host","connect":["{entry}"]}}"#);
        top_mistake(&fields, 36, &format!("an entry of `connect` is `{entry}`: {why}"), "\"[fd00::/8]:8000-8100\"");
    }
    let twice = r#""network":{"mode":"host","connect":["a:1","a:1"]}"#;
    top_mistake(twice, 42, "`connect` names `a:1` twice", "each name once");
    let named = r#""network":{"mode":"host","listen":["localhost:80"]}"#;
    top_mistake(named, 35, "an entry of `listen` is `localhost:80`: a name", "an address of this host");
    let empty = mistakes(&with_top(r#""network":"host""#));
    assert_eq!(empty, ["1:12: warning: `network` lists no address, so nothing can be reached"]);
}

#[test]
fn hosts_over_https_that_are_wrong() {
    // A mistake at `#`, which is not part of the list.
    let wrong = |list: &str, message: &str, expected: &str| {
        let fields = format!(r#""network":{{"mode":"host","https":{list}}}"#);
        let offset = fields.find('#').expect("its place");
        top_mistake(&fields.replacen('#', "", 1), offset, message, expected);
    };
    wrong(r#"#{}"#, "`https` is an object", "an array of names of hosts");
    wrong(r#"[#1]"#, "a host of `https` is a number", "the name of a host");
    for host in ["192.0.2.1", "api.example:443", "https://api.example", "*.example", "", "a b"] {
        wrong(&format!(r#"[#"{host}"]"#), &format!("a host of `https` is `{host}`"), "the port stands in `port`");
    }
    wrong(
        r#"["api.example",{"host":#"API.example."}]"#,
        "the host `api.example.` is in `https` twice",
        "each host once",
    );
    wrong(r#"[{"host":"a.example","port":#0}]"#, "`port` is 0", "from 1 to 65535");
    wrong(r#"[#{"port":443}]"#, "an entry of `https` lacks the field `host`", "`host`");
    wrong(r#"[{"host":"a.example",#"header":{}}]"#, "has no field `header`, did you mean `headers`?", "`headers`");
    wrong(r#"[{"host":"a.example","steps":[#"t"]}]"#, "there is no step `t`", "the name of a step");
    wrong(r#"[{"host":"a.example","steps":#[]}]"#, "`steps` is empty", "without `steps` every step");
    wrong(r#"[{"host":"a.example","steps":["s",#"s"]}]"#, "`steps` names `s` twice", "each name once");
    let header = |header: &str, message: &str, expected: &str| {
        wrong(&format!(r#"[{{"host":"a.example","headers":{{{header}}}}}]"#), message, expected);
    };
    header(r#"#"Host":"b""#, "the header `Host` cannot be added", "where a message goes or ends");
    header(r#"#"a b":"c""#, "the header `a b` cannot be added", "where a message goes or ends");
    header(r#""x-a":"1",#"X-A":"2""#, "the header `X-A` is there twice", "each header once");
    header(r#""x-a":#1"#, "the header `x-a` is a number", "text, or an object");
    header(r#""x-a":#"a\r\nb: c""#, "the header `x-a` holds other characters", "visible ASCII");
    header(r#""x-a":{"environment":"A","prefix":#"\n"}"#, "`prefix` holds other characters", "visible ASCII");
    header(r#""x-a":#{}"#, "the header `x-a` has not one source", "one of `environment`, `file`, `secret`");
    header(r#""x-a":#{"environment":"A","file":"b"}"#, "has not one source", "one of `environment`, `file`, `secret`");
    header(r#""x-a":{"environment":#"A=B"}"#, "`environment` is `A=B`", "the name of an environment variable");
    header(r#""x-a":{"secret":#"pay"}"#, "the secret `pay` would be of a server's operator", "`environment` or `file`");
    let tap = r#""network":{"mode":"tap","https":[]}"#;
    top_mistake(tap, 32, "`https` says nothing about the mode `tap`", "no lists");
    let covered = r#""network":{"mode":"host","connect":["198.18.0.0/15:80"],"https":["a.example"]}"#;
    top_mistake(covered, 36, "covers addresses that stand for hosts of `https`", "outside of 198.19.255.0/24");
    let open = r#""network":{"mode":"host","connect":["0.0.0.0/0:80","198.19.0.0/17:80"],"https":["a.example"]}"#;
    assert!(mistakes(&with_top(open)).is_empty());
    let warned = mistakes(&with_top(
        r#""network":{"mode":"host","https":[{"host":"a.example","headers":{"authorization":"Bearer x"}}]}"#,
    ));
    assert_eq!(warned.len(), 1);
    assert!(warned[0].contains("warning: the header `authorization` looks like a secret"), "{warned:?}");
}

/// A small file must not ask for much memory.
#[test]
fn instances_are_bounded_over_all_steps() {
    let step = |name: &str, instances: u32| format!(r#"{{"name":"{name}","function":"f","instances":{instances}}}"#);
    let workflow = |steps: &[String]| {
        format!("{{\"name\":\"w\",\"functions\":{{\"f\":{{\"image\":\"f.so\"}}}},\"steps\":[\n{}]}}", steps.join(",\n"))
    };
    let fits = workflow(&[step("a", 50_000), step("b", 50_000)]);
    assert!(mistakes(&fits).is_empty());
    let column = step("b", 0).find(":0").expect("the number") + 2;
    let found = mistakes(&workflow(&[step("a", 50_000), step("b", 50_001), step("c", 1)]));
    let expected = format!(
        "3:{column}: with this step there are 100001 instances (expected at most 100000 of all steps together)"
    );
    assert_eq!(found, [expected]);
    let many: Vec<_> = (0..5000).map(|number| step(&format!("s{number}"), 100_000)).collect();
    assert_eq!(mistakes(&workflow(&many)).len(), 1);
}

#[test]
fn instances_are_counted_from_numbered_slots() {
    let each = |fields: &str| format!(r#""instances":{fields}"#);
    step_mistake(&each(r#"{"each":"part.*"}"#), 12, "`instances` lacks the field `max`", "`max`");
    step_mistake(&each(r#"{"each":"part.","max":3}"#), 20, "`each` is `part.`", "such as \"part.*\"");
    step_mistake(&each(r#"{"each":"*","max":3}"#), 20, "`each` is `*`", "such as \"part.*\"");
    step_mistake(&each(r#"{"each":"part.*","max":0}"#), 35, "`max` is 0", "from 1 to 100000");
    step_mistake(&each(r#"{"each":"part.*","max":3}"#), 12, "and it waits for no step", "`after`");
}

#[test]
fn outcomes_of_unread_slots_have_names() {
    top_mistake(
        r#""unread":"ignroe""#,
        9,
        "`unread` is `ignroe`, did you mean `ignore`?",
        "`fail`, `warn` or `ignore`",
    );
    top_mistake(r#""unread":1"#, 9, "`unread` is a number", "`default` and `slots`");
    top_mistake(r#""unread":{"default":"never"}"#, 20, "`default` is `never`", "`fail`, `warn` or `ignore`");
    top_mistake(r#""unread":{"slot":{}}"#, 10, "`unread` has no field `slot`, did you mean `slots`?", "`slots`");
    top_mistake(r#""unread":{"slots":{"a*":1}}"#, 24, "the outcome of `a*` is a number", "`fail`, `warn` or `ignore`");
    top_mistake(r#""unread":{"slots":{"":"warn"}}"#, 19, "the name of a slot is empty", "1 to 255 bytes");
}

#[test]
fn unknown_fields_get_a_suggestion() {
    step_mistake(r#""aftr":[]"#, 0, "a step has no field `aftr`, did you mean `after`?", "`after`");
    step_mistake(r#""retry":{"max_attempts":1,"tries":2}"#, 26, "`retry` has no field `tries`", "`max_attempts`");
    top_mistake(r#""limit":{}"#, 0, "the workflow has no field `limit`, did you mean `limits`?", "`limits`");
    top_mistake(r#""limits":{"cores":1}"#, 10, "`limits` has no field `cores`", "`carriers`");
    top_mistake(r#""inputs":[{"slot":"a","file":"x"}]"#, 22, "no field `file`", "`path`");
    top_mistake(r#""outputs":[{"slot":"a","path":"x"}]"#, 23, "no field `path`", "`slot`");
}

#[test]
fn repeated_fields_are_found_at_any_depth() {
    step_mistake(r#""instances":1,"instances":2"#, 14, "`instances` is given twice", "once");
    step_mistake(r#""args":{"a":{"b":[{"c":1,"c":2}]}}"#, 25, "`c` is given twice", "once");
    step_mistake(r#""env":{"A":"1","A":"2"}"#, 15, "`A` is given twice", "once");
    let text =
        r#"{"name":"w","functions":{"f":{"image":"a"},"f":{"image":"b"}},"steps":[{"name":"s","function":"f"}]}"#;
    let found = mistakes(text);
    assert_eq!(found, ["1:44: the field `f` is given twice (expected each field once)"]);
}

#[test]
fn wrong_types_are_named() {
    step_mistake(r#""instances":"4""#, 12, "`instances` is a string", "a whole number from 1 to 100000");
    step_mistake(r#""args":[]"#, 7, "`args` is an array", "an object");
    step_mistake(r#""env":{"A":1}"#, 11, "environment variable `A` is a number", "a string");
    step_mistake(r#""timeout":30"#, 10, "`timeout` is a number", "30s");
    step_mistake(r#""after":"s""#, 8, "`after` is a string", "an array");
    step_mistake(r#""after":[1]"#, 9, "an entry of `after` is a number", "name");
    step_mistake(r#""retry":3"#, 8, "`retry` is a number", "an object");
    step_mistake(r#""memory":null"#, 9, "`memory` is null", "64MiB");
    top_mistake(r#""inputs":[1]"#, 10, "an entry of `inputs` is a number", "`slot`");
    top_mistake(r#""inputs":{}"#, 9, "`inputs` is an object", "an array");
    top_mistake(r#""isolation":true"#, 12, "`isolation` is a boolean", "`workflow` or `function`");
    top_mistake(r#""process":true"#, 10, "`process` is a boolean", "`per-invocation` or `reused`");
    top_mistake(r#""files":{}"#, 8, "`files` is an object", "an array of file systems");
    top_mistake(r#""files":[{"at":1,"memory":"1MiB"}]"#, 15, "`at` is a number", "an absolute path");
    top_mistake(r#""description":1"#, 14, "`description` is a number", "a string");
    one_mistake("[]", 1, "the workflow is an array", "an object");
}

#[test]
fn missing_fields_are_named() {
    assert_eq!(
        mistakes("{}"),
        [
            "1:1: the workflow lacks the field `name` (expected `name`, which is required)",
            "1:1: the workflow lacks the field `functions` (expected `functions`, which is required)",
            "1:1: the workflow lacks the field `steps` (expected `steps`, which is required)",
        ]
    );
    step_mistake(r#""retry":{}"#, 8, "`retry` lacks the field `max_attempts`", "required");
    top_mistake(r#""inputs":[{}]"#, 10, "lacks the field `slot`", "required");
}

#[test]
fn numbers_have_bounds() {
    step_mistake(r#""instances":0"#, 12, "`instances` is 0", "from 1 to 100000");
    step_mistake(r#""instances":100001"#, 12, "`instances` is 100001", "from 1 to 100000");
    step_mistake(r#""instances":-1"#, 12, "`instances` is -1", "from 1");
    step_mistake(r#""instances":1.5"#, 12, "`instances` is 1.5", "a whole number");
    step_mistake(r#""instances":99999999999999999999999"#, 12, "`instances` is 9999", "from 1 to 100000");
    step_mistake(r#""stdin":"a=b""#, 8, "`a=b` is no name for a slot", "without `=`");
    step_mistake(r#""retry":{"max_attempts":0}"#, 24, "`max_attempts` is 0", "from 1 to 1000");
    step_mistake(r#""retry":{"max_attempts":2,"backoff_rate":0.5}"#, 41, "`backoff_rate` is 0.5", "from 1 to 100");
    step_mistake(r#""retry":{"max_attempts":2,"interval":"x"}"#, 37, "`interval` is `x`", "units us, ms");
    top_mistake(r#""limits":{"carriers":33}"#, 21, "`carriers` is 33", "from 1 to 32");
    top_mistake(r#""limits":{"threads":0}"#, 20, "`threads` is 0", "from 1");
}

#[test]
fn durations_and_sizes_have_units() {
    step_mistake(r#""timeout":"5 minutes""#, 10, "`timeout` is `5 minutes`", "30s");
    step_mistake(r#""timeout":"0s""#, 10, "`timeout` is `0s`", "more than nothing");
    step_mistake(r#""memory":"64MB""#, 9, "`memory` is `64MB`", "64MiB");
    step_mistake(r#""memory":1"#, 9, "`memory` is 1", "from 64KiB to 1TiB");
    step_mistake(r#""stack":"3MiB""#, 8, "`stack` is 3145728 bytes", "a power of two");
    step_mistake(r#""stack":"4KiB""#, 8, "`stack` is `4KiB`", "from 16KiB to 1GiB");
    top_mistake(r#""limits":{"slots":"2TiB"}"#, 18, "`slots` is `2TiB`", "to 1TiB");
}

#[test]
fn file_systems_have_places() {
    let at = |at: &str| format!(r#""files":[{{"at":"{at}","memory":"1MiB"}}]"#);
    for wrong in ["tmp", "/tmp/", "//tmp", "/a/../b", "/a/.", ""] {
        top_mistake(&at(wrong), 15, &format!("`at` is `{wrong}`"), "an absolute path such as \"/data\"");
    }
    top_mistake(r#""files":[{"at":"/tmp","memory":"1KiB"}]"#, 31, "`memory` is `1KiB`", "from 64KiB to 1TiB");
    top_mistake(r#""files":[{"at":"/tmp"}]"#, 9, "an entry of `files` has no source", "one of `memory`, `image`");
    top_mistake(r#""files":[{"memory":"1MiB"}]"#, 9, "an entry of `files` lacks the field `at`", "required");
    let both = r#""files":[{"at":"/a","memory":"1MiB","image":"x"}]"#;
    top_mistake(both, 9, "an entry of `files` has more than one source", "one of `memory`, `image`");
    let access = r#""files":[{"at":"/a","image":"x","access":"copies"}]"#;
    top_mistake(access, 41, "`access` is `copies`, did you mean `copy`?", "`read`, `copy` or `write`");
    let access = r#""files":[{"at":"/a","memory":"1MiB","access":"read"}]"#;
    top_mistake(access, 45, "`access` says nothing about files in memory", "with an `image` or a `directory`");
    let access = r#""files":[{"at":"/a","directory":"x","access":"copy"}]"#;
    top_mistake(access, 45, "`access` is `copy`", "`read` or `write`");
    let twice = r#""files":[{"at":"/a","memory":"1MiB"},{"at":"/a","memory":"1MiB"}]"#;
    top_mistake(twice, 43, "`files` names `/a` twice", "once");
}

#[test]
fn names_must_exist() {
    step_mistake(r#""after":["t"]"#, 9, "there is no step `t`", "the name of a step");
    let text = r#"{"name":"w","functions":{"split":{"image":"f"}},"steps":[{"name":"s","function":"splt"}]}"#;
    let found = mistakes(text);
    assert_eq!(found[1], "1:81: there is no function `splt`, did you mean `split`? (expected a name from `functions`)");
    assert_eq!(found[0], "1:26: warning: no step runs the function `split`");
    step_mistake(r#""retry":{"max_attempts":2,"on":["panics"]}"#, 32, "`panics`, did you mean `panic`?", "`timeout`");
    top_mistake(r#""isolation":"functions""#, 12, "did you mean `function`?", "`workflow`");
    top_mistake(r#""process":"reuse""#, 10, "did you mean `reused`?", "`per-invocation`");
}

#[test]
fn lists_name_each_thing_once() {
    let text = r#"{"name":"w","functions":{"f":{"image":"f"}},"steps":[{"name":"a","function":"f"},
{"name":"b","function":"f","after":["a","a"]}]}"#;
    assert_eq!(mistakes(text), ["2:41: `after` names `a` twice, first at 2:37 (expected each name once)"]);
    step_mistake(r#""retry":{"max_attempts":2,"on":["exit","exit"]}"#, 39, "`on` names `exit` twice", "once");
    top_mistake(r#""inputs":["a",{"slot":"a"}]"#, 22, "`inputs` names `a` twice", "once");
    top_mistake(r#""outputs":["a","a"]"#, 15, "`outputs` names `a` twice", "once");
}

#[test]
fn step_names_are_unique() {
    let text = r#"{"name":"w","functions":{"f":{"image":"f"}},"steps":[
{"name":"a","function":"f"},
{"name":"a","function":"f"}]}"#;
    assert_eq!(
        mistakes(text),
        ["3:9: two steps are called `a`, the first at 2:9 (expected a name of its own for every step)"]
    );
}

#[test]
fn cycles_name_their_steps() {
    let text = r#"{"name":"w","functions":{"f":{"image":"f"}},"steps":[
{"name":"alone","function":"f","after":["alone"]},
{"name":"behind","function":"f","after":["b"]},
{"name":"a","function":"f","after":["c"]},
{"name":"b","function":"f","after":["a"]},
{"name":"c","function":"f","after":["b"]}]}"#;
    let order = "(expected an order in which the steps can run)";
    assert_eq!(
        mistakes(text),
        [
            format!("2:41: step `alone` waits for itself {order}"),
            format!("4:37: steps wait for each other in a cycle: `a` after `c` after `b` after `a` {order}"),
        ]
    );
}

#[test]
fn names_and_slots_have_a_form() {
    for name in ["", "a b", "-a", "a/b", "é", &"x".repeat(64)] {
        let text = format!(
            r#"{{"name":"{name}","functions":{{"f":{{"image":"f"}}}},"steps":[{{"name":"s","function":"f"}}]}}"#
        );
        one_mistake(&text, 9, "`name` is", "1 to 63 letters");
    }
    top_mistake(r#""inputs":[""]"#, 10, "the name of a slot is empty", "1 to 255 bytes");
    top_mistake(&format!(r#""inputs":["{}"]"#, "x".repeat(256)), 10, "has 256 bytes", "1 to 255 bytes");
    top_mistake(r#""outputs":["a=b"]"#, 11, "`a=b` is no name for a slot", "without `=`");
    top_mistake(r#""inputs":[{"slot":"a","path":""}]"#, 29, "`path` is ``", "a file");
    step_mistake(r#""env":{"A=B":"1"}"#, 7, "`A=B` is no name", "without `=`");
    step_mistake(r#""env":{"A":"\u0000"}"#, 11, "`A` holds a NUL", "without NUL");
}

#[test]
fn there_must_be_steps() {
    assert_eq!(
        mistakes(r#"{"name":"w","functions":{},"steps":[]}"#),
        ["1:36: `steps` is empty (expected at least one step)"]
    );
}

#[test]
fn broken_syntax_is_one_error_with_its_place() {
    assert_eq!(mistakes(""), ["1:1: not valid JSON: EOF while parsing a value"]);
    assert_eq!(mistakes("{\n  \"name\": \"w\",\n}"), ["3:1: not valid JSON: trailing comma"]);
    assert_eq!(mistakes("{\n \"é\": x}"), ["2:7: not valid JSON: expected value"]);
    assert_eq!(mistakes("{} {}"), ["1:4: not valid JSON: trailing characters"]);
    for text in
        ["{'name': 1}", "{// comment\n}", "{name: 1}", "{\"name\": 0x1}", "{\"name\": NaN}", "{\"a\" 1}", "{\"a\": 01}"]
    {
        let found = mistakes(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].contains("not valid JSON"), "{text}: {found:?}");
    }
}

#[test]
fn hostile_texts_are_errors() {
    let check = |bytes: &[u8]| shown(&check_bytes(Path::new("w.json"), bytes).mistakes);
    assert_eq!(check(b"{\n\xff}"), ["2:1: the byte 0xff is not UTF-8 (expected UTF-8 text)"]);
    for deep in [
        "[".repeat(1_000_000),
        "{\"a\":".repeat(200_000),
        with_step(&format!("\"args\":{{\"a\":{}", "[".repeat(500_000))),
    ] {
        let found = check(deep.as_bytes());
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("recursion limit exceeded"), "{}", found[0]);
    }
    step_mistake(r#""args":{"a":1e999}"#, 16, "number out of range", "");
    let long = "9".repeat(100_000);
    let found = mistakes(&with_step(&format!("\"instances\":{long}")));
    assert!(found.len() == 1 && found[0].len() < 200, "{found:?}");
    let escape = mistakes(&with_top("\"\\u001b[31m\":1"));
    assert!(escape[0].contains("`\\u{1b}[31m`"), "{escape:?}");
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let text = format!("\u{feff}{}", with_step("\"instances\":2"));
    assert_eq!(workflow::load_str(Path::new("w.json"), &text).expect("valid").steps[0].instances.most(), 2);
    let text = format!("\u{feff}{}", with_step("\"instances\":0"));
    assert!(mistakes(&text)[0].starts_with(&format!("1:{}: ", step_column() + 12)));
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = r#"{
  "name": "bad name",
  "functions": {
    "f": { "image": "f.so", "colour": "red" }
  },
  "steps": [
    { "name": "a", "function": "g", "aftr": [], "instances": 0 },
    { "name": "b", "function": "f", "after": ["c", "zz"], "timeout": "5 minutes" },
    { "name": "c", "function": "f", "after": ["b"], "retry": { "max_attempts": 0 } }
  ],
  "outputs": [""]
}"#;
    let error = workflow::load_str(Path::new("w.json"), text).expect_err("ten mistakes");
    let WorkflowError::Mistakes { mistakes } = &error else { panic!("{error}") };
    let places: Vec<_> = mistakes.iter().map(|mistake| (mistake.line, mistake.column)).collect();
    assert_eq!(
        places,
        [(2, 11), (4, 29), (7, 32), (7, 37), (7, 62), (8, 47), (8, 52), (8, 70), (9, 80), (11, 15)],
        "{error}"
    );
    assert_eq!(error.to_string().lines().count(), 10);
}

#[test]
fn unused_functions_are_only_warned_about() {
    let text =
        r#"{"name":"w","functions":{"f":{"image":"f"},"g":{"image":"g"}},"steps":[{"name":"s","function":"f"}]}"#;
    let checked = check_bytes(Path::new("w.json"), text.as_bytes());
    assert_eq!(shown(&checked.mistakes), ["1:44: warning: no step runs the function `g`"]);
    assert_eq!(checked.plan.expect("a plan").functions.len(), 1);
}

/// A server shows a document to all its clients.
#[test]
fn an_environment_variable_that_looks_like_a_secret_is_warned_about() {
    let with = |variable: &str, more: &str| {
        let text = format!(
            r#"{{"name":"w","functions":{{"f":{{"image":"f"}}}},"steps":[{{"name":"s","function":"f","env":{{"{variable}":"x"}}{more}}}]}}"#
        );
        workflow::check_bytes(Path::new("w.json"), text.as_bytes())
    };
    for variable in ["API_KEY", "db_password", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "GOOGLE_CREDENTIALS"] {
        let checked = with(variable, "");
        assert!(checked.plan.is_some(), "{variable}: it is a warning");
        let shown = shown(&checked.mistakes);
        assert!(shown[0].contains(&format!("warning: `{variable}` looks like a secret")), "{shown:?}");
    }
    for variable in ["HOME", "KEY_COUNT", "MONKEY", "LOG_LEVEL"] {
        assert!(with(variable, "").mistakes.is_empty(), "{variable}");
    }
    let both = with("KEY", r#","secrets":{"KEY":"key","":"key"}"#);
    let shown = shown(&both.mistakes);
    assert!(shown[0].contains("`KEY` is in `env` too") && shown[1].contains("no name for"), "{shown:?}");
}

/// A workflow of these steps, each of the one function, with these fields at its end.
fn of_steps(steps: &[&str], fields: &str) -> String {
    let steps: Vec<String> = steps.iter().map(|step| format!(r#"{{"function":"f",{step}}}"#)).collect();
    format!(r#"{{"name":"w","functions":{{"f":{{"image":"f.so"}}}},"steps":[{}]{fields}}}"#, steps.join(","))
}

/// What is found, without places and expectations, and whether there is a plan.
fn found(steps: &[&str], fields: &str) -> (Vec<String>, bool) {
    let checked = check_bytes(Path::new("w.json"), of_steps(steps, fields).as_bytes());
    (checked.mistakes.iter().map(|mistake| mistake.message.clone()).collect(), checked.plan.is_some())
}

#[test]
fn an_output_that_nothing_fills_fails_each_run() {
    let steps = [r#""name":"a","takes":["text"],"fills":["total"]"#];
    let text = of_steps(&steps, r#","inputs":["text"],"outputs":["totl"]"#);
    let column = text.find("\"totl\"").expect("it is there") + 1;
    one_mistake(
        &text,
        column,
        "no step may fill output `totl`: none has it in `fills`, did you mean `total`?",
        "a slot that a step fills",
    );
    // An input fills it, a beginning may, and so may a step without a list.
    let none = (Vec::new(), true);
    assert_eq!(found(&steps, r#","inputs":["text"],"outputs":["text","total"]"#), none);
    assert_eq!(found(&[r#""name":"a","fills":["t*"]"#], r#","outputs":["total"]"#), none);
    assert_eq!(found(&[r#""name":"a","fills":["t.{index}"]"#], r#","outputs":["t.0"]"#), none);
    assert_eq!(found(&[r#""name":"a","fills":[]"#, r#""name":"b""#], r#","outputs":["total"]"#), none);
}

#[test]
fn slots_that_nothing_fills_or_takes_are_noted() {
    let fills = r#""name":"a","takes":["text"],"fills":["part.*"]"#;
    let inputs = r#","inputs":["text"],"unread":"ignore""#;
    let noted = |step: &str, message: &str| {
        let message = format!("nothing fills slot {message}");
        assert_eq!(found(&[fills, step], inputs), (vec![message], true), "{step}");
    };
    let why = "it is no input, and no step has it in `fills`";
    noted(r#""name":"b","takes":["texts"],"fills":[]"#, &format!("`texts`: {why}, did you mean `text`?"));
    noted(r#""name":"b","takes":["other.*"],"fills":[]"#, &format!("`other.*`: {why}"));
    noted(r#""name":"b","takes":[],"stdin":"log","fills":[]"#, &format!("`log`: {why}"));
    noted(
        r#""name":"b","takes":[],"stdin":"text","instances":2,"fills":[]"#,
        &format!("`text`: {why}, did you mean `text`?"),
    );
    let each = r#""name":"b","after":["a"],"takes":[],"instances":{"each":"piece.*","max":3},"fills":[]"#;
    noted(each, &format!("`piece.*`: {why}"));
    for right in [
        r#""name":"b","takes":["part.7","p*","part.{index}"],"stdin":"part.1","fills":[]"#,
        r#""name":"b","takes":["other.*"]"#,
        r#""name":"b","takes":["request"],"fills":["reply"],"handles":"e""#,
        r#""name":"b","takes":["own"],"fills":["own"]"#,
    ] {
        assert_eq!(found(&[fills, right], inputs), (Vec::new(), true), "{right}");
    }

    let taken = [r#""name":"a","takes":["text"],"fills":[]"#];
    let message = "no step may take input `texts`: none has it in `takes`, did you mean `text`?";
    assert_eq!(found(&taken, r#","inputs":["texts","text"]"#), (vec![message.to_owned()], true));
    assert_eq!(found(&taken, r#","inputs":["texts","text"],"unread":"ignore""#), (Vec::new(), true));
    assert_eq!(found(&taken, r#","inputs":["texts","text"],"outputs":["texts"]"#), (Vec::new(), true));
    assert_eq!(found(&[r#""name":"a","takes":[],"stdin":"text""#], r#","inputs":["text"]"#), (Vec::new(), true));
    assert_eq!(found(&[r#""name":"a","takes":[]"#, r#""name":"b""#], r#","inputs":["text"]"#), (Vec::new(), true));
}

/// A step ends before those after it start, so what they alone fill comes too late for it.
#[test]
fn what_only_later_steps_fill_is_noted() {
    let first = r#""name":"a","takes":["back"],"fills":["on"]"#;
    let middle = r#""name":"b","after":["a"],"takes":["on"],"fills":["further"]"#;
    let last = r#""name":"c","after":["b"],"takes":["further"],"fills":["back"]"#;
    let message = "only steps after step `a` fill slot `back`".to_owned();
    assert_eq!(found(&[first, middle, last], ""), (vec![message], true));
    let beside = r#""name":"d","takes":[],"fills":["back"]"#;
    assert_eq!(found(&[first, middle, last, beside], ""), (Vec::new(), true));
    assert_eq!(found(&[first, middle, last], r#","inputs":["back"],"unread":"ignore""#), (Vec::new(), true));
    // Each of two steps at the same time may begin with its half.
    let other = r#""name":"b","takes":["on"],"fills":["back"]"#;
    assert_eq!(found(&[first, other], ""), (Vec::new(), true));
}
