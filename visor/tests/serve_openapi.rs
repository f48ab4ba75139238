//! The interface's description is well-formed, names what there is and nothing else, and answers keep to it.

mod serve_support;

use monohull_visor::watchdog::openapi::DOCUMENT;
use serde_json::{Value, json};
use serve_support::{Server, single};
use std::collections::BTreeSet;

fn document() -> Value {
    serde_json::from_str(DOCUMENT).expect("JSON")
}

/// A validator for one of the document's schemas.
fn schema(name: &str) -> jsonschema::Validator {
    let mut root = document();
    root["$ref"] = format!("#/components/schemas/{name}").into();
    jsonschema::validator_for(&root).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[track_caller]
fn keeps_to(name: &str, value: &Value) {
    let errors: Vec<_> = schema(name).iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}\n{value:#}");
}

/// Calls `visit` with every object in a document.
fn walk(value: &Value, visit: &mut dyn FnMut(&serde_json::Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            visit(object);
            object.values().for_each(|value| walk(value, visit));
        }
        Value::Array(array) => array.iter().for_each(|value| walk(value, visit)),
        _ => {}
    }
}

#[test]
fn the_document_is_openapi() {
    let parsed = oas3::from_json(DOCUMENT).expect("an OpenAPI document");
    assert_eq!(parsed.info.version, env!("CARGO_PKG_VERSION"));
    let document = document();
    let mut ids = BTreeSet::new();
    walk(&document, &mut |object| {
        if let Some(Value::String(reference)) = object.get("$ref") {
            let pointer = reference.strip_prefix('#').expect("a reference into the document");
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
        if let Some(Value::String(id)) = object.get("operationId") {
            assert!(ids.insert(id.clone()), "{id} is there twice");
        }
    });
    for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
        schema(name);
    }
}

/// The server says itself which methods a path has.
#[test]
fn it_names_what_there_is() {
    let server = Server::start();
    for (path, item) in document()["paths"].as_object().expect("paths") {
        let methods = item.as_object().expect("methods").keys().filter(|key| *key != "parameters");
        let documented: BTreeSet<String> = methods.map(|method| method.to_uppercase()).collect();
        let asked = path.replace("{name}", "unknown").replace("{slot}", "nothing").replace("{path}", "a/b");
        let allow = server.ask("TRACE", &asked, &[]).expect(405).headers["allow"].clone();
        let allowed: BTreeSet<String> =
            allow.split(", ").filter(|method| *method != "HEAD").map(str::to_owned).collect();
        assert_eq!(documented, allowed, "{path}");
    }
    assert_eq!(server.get("/openapi.json").expect(200).json(), document());
}

/// In builds for tests the server itself keeps to these codes: an error with another one ends its connection.
#[test]
fn every_error_of_every_route_is_in_it() {
    let document = document();
    let is_error = |code: &u16| *code >= 400;
    let mut asked = 0;
    for (path, method, codes) in monohull_visor::watchdog::openapi::errors() {
        let operation = &document["paths"][path][method.as_str().to_lowercase()];
        let responses = operation["responses"].as_object().unwrap_or_else(|| panic!("{method} {path} is not there"));
        let documented = responses.keys().map(|code| code.parse().expect("a status code")).filter(is_error);
        let documented: BTreeSet<u16> = documented.collect();
        assert_eq!(documented, codes.into_iter().collect(), "{method} {path}");
        asked += 1;
    }
    assert!(asked > 20, "{asked}");
}

#[test]
fn answers_keep_to_it() {
    let server = Server::start();
    server.put_shipped("word-count.json");
    server.put_shipped("std-tour.json");
    server.put_example("misbehave");
    server.put_workflow(&{
        let mut panic = single("panic", "misbehave", &json!({}));
        panic["steps"][0]["args"] = json!({ "how": "panic" });
        panic
    });
    let accepted = server.post("/async-invoke/word-count", b"a b").expect(202).json();
    keeps_to("Accepted", &accepted);
    let shown = server.ended(accepted["location"].as_str().expect("an address"));
    keeps_to("Invocation", &shown);
    assert!(schema("Invocation").validate(&json!({})).is_err(), "the schema lets anything through");
    let printed = server.post("/invoke/std-tour", b"").expect(200);
    let logs = format!("/invocations/{}/logs?format=json", printed.headers["x-invocation-id"]);
    for line in server.get(&logs).expect(200).text().lines() {
        keeps_to("LogLine", &serde_json::from_str(line).expect("JSON"));
    }
    for (path, body, status) in [
        ("/invoke/panic", "", 502),
        ("/invoke/unknown", "", 404),
        ("/invoke/panic", "a body", 400),
        ("/run", "{", 400),
        ("/run", r#"{"workflow":{}}"#, 422),
    ] {
        keeps_to("Error", &server.post(path, body.as_bytes()).expect(status).json());
    }
    keeps_to("Error", &server.ask("PUT", "/functions/f", &serve_support::image_bytes("forbidden-instruction")).json());
    keeps_to("Function", &server.get("/functions/misbehave").expect(200).json());
    for (path, name) in [
        ("/functions", "Functions"),
        ("/workflows", "Workflows"),
        ("/invocations", "Invocations"),
        ("/healthz", "Health"),
    ] {
        keeps_to(name, &server.get(path).expect(200).json());
    }
    let failed = server.get("/invocations").json()["invocations"][0]["id"].as_str().expect("an id").to_owned();
    keeps_to("Invocation", &server.get(&format!("/invocations/{failed}")).expect(200).json());
}
