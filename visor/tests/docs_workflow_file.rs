//! `docs/workflow-file.md` has the fields of the JSON Schema, and every JSON example of the pages is what it claims to be.
//!
//! The tables of fields stand between two comments, `<!-- fields: Step -->` and `<!-- end -->`. They are made from the schema, as the
//! doc comments of `workflow::document` have it: `UPDATE_DOCS=1 cargo test -p monohull-visor --test docs_workflow_file` writes them anew.

mod docs_support;

use docs_support::{Block, Page, pages, root};
use monohull_visor::workflow;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

const PAGE: &str = "docs/workflow-file.md";
const UPDATE: &str = "UPDATE_DOCS=1 cargo test -p monohull-visor --test docs_workflow_file";

/// What a type of the schema is called in tables, and the heading it is described under.
const NAMES: [(&str, &str, &str); 26] = [
    ("Function", "function", "functions"),
    ("Step", "step", "steps"),
    ("EachObject", "object", "an-instance-for-each-slot"),
    ("Retry", "object", "attempts"),
    ("InputObject", "object", "inputs-and-outputs"),
    ("OutputObject", "object", "inputs-and-outputs"),
    ("HttpObject", "object", "http-requests"),
    ("UnreadObject", "object", "unread-slots"),
    ("Mount", "file system", "files"),
    ("Limits", "object", "limits"),
    ("NetworkObject", "object", "network"),
    ("NetworkReference", "grant", "network"),
    ("HttpsOriginObject", "object", "hosts-over-https"),
    ("HttpsHeaderObject", "object", "hosts-over-https"),
    ("HostName", "host name", "values"),
    ("StepName", "step", "values"),
    ("FailureKind", "kind of failure", "kinds-of-failures"),
    ("SlotName", "slot", "values"),
    ("EffectName", "effect", "values"),
    ("MountPoint", "mount point", "values"),
    ("SecretName", "secret", "values"),
    ("DurationText", "duration", "values"),
    ("Size", "size", "values"),
    ("NetworkRule", "rule", "values"),
    ("Input", "input", "inputs-and-outputs"),
    ("Output", "output", "inputs-and-outputs"),
];

/// Text as a cell of a table.
fn cell(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_else(|| panic!("no description: {schema}"));
    text.replace('\n', " ").replace('|', r"\|")
}

/// The definition that a schema refers to.
fn definition<'s>(schema: &'s Value, part: &Value) -> Option<(String, &'s Value)> {
    let name = part["$ref"].as_str()?.strip_prefix("#/$defs/")?;
    Some((name.to_owned(), &schema["$defs"][name]))
}

/// A description of a value.
fn value(schema: &Value, part: &Value) -> String {
    if let Some((name, definition)) = definition(schema, part) {
        return match NAMES.iter().find(|(known, ..)| *known == name) {
            Some((_, words, heading)) => format!("[{words}](#{heading})"),
            None => value(schema, definition),
        };
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(parts) = part[choice].as_array() {
            let parts: Vec<String> = parts.iter().map(|part| value(schema, part)).collect();
            let (last, others) = parts.split_last().expect("a choice has parts");
            return if others.is_empty() { last.clone() } else { format!("{} or {last}", others.join(", ")) };
        }
    }
    if let Some(constant) = part.get("const") {
        return format!("`{constant}`");
    }
    let bounds = || match (part["minimum"].as_f64(), part["maximum"].as_f64()) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        _ => String::new(),
    };
    match part["type"].as_str() {
        Some("string") => "text".to_owned(),
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("integer") => format!("whole number{}", bounds()),
        Some("number") => format!("number{}", bounds()),
        Some("array") => format!("list: {}", value(schema, &part["items"])),
        Some("object") if part["additionalProperties"].is_object() => {
            format!("object: name → {}", value(schema, &part["additionalProperties"]))
        }
        Some("object") => "object".to_owned(),
        _ => panic!("a value of an unknown kind: {part}"),
    }
}

/// The table of an object's fields.
fn fields(schema: &Value, name: &str) -> String {
    let object = if name == "Document" { schema } else { &schema["$defs"][name] };
    let required = object["required"].as_array().cloned().unwrap_or_default();
    let mut table = "| field | value | meaning |\n| --- | --- | --- |\n".to_owned();
    let fields = object["properties"].as_object().unwrap_or_else(|| panic!("{name} is no object of the schema"));
    for (field, part) in fields {
        let needed = if required.contains(&json!(field)) { ", required" } else { "" };
        let _ = writeln!(table, "| `{field}` | {}{needed} | {} |", value(schema, part), cell(part));
    }
    table
}

/// The table of the values that a field can have.
fn choices(schema: &Value, name: &str) -> String {
    let words = schema["$defs"][name]["oneOf"].as_array().unwrap_or_else(|| panic!("{name} is no choice of words"));
    let mut table = "| value | meaning |\n| --- | --- |\n".to_owned();
    for word in words {
        let _ = writeln!(table, "| `{}` | {} |", word["const"].as_str().expect("a word"), cell(word));
    }
    table
}

/// The table of what values look like that several fields have.
fn values(schema: &Value, names: &str) -> String {
    let mut table = "| value | meaning |\n| --- | --- |\n".to_owned();
    for name in names.split(' ') {
        let words = NAMES.iter().find(|(known, ..)| *known == name).unwrap_or_else(|| panic!("{name} has no name")).1;
        let _ = writeln!(table, "| {words} | {} |", cell(&schema["$defs"][name]));
    }
    table
}

/// The page with all its tables as the schema has them, and what these describe.
fn generated(schema: &Value, page: &str) -> (String, BTreeSet<String>) {
    let (mut text, mut described) = (String::new(), BTreeSet::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text.extend([line, "\n"]);
        let marker = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")?.split_once(": "));
        let Some((kind, names)) = marker else { continue };
        text += "\n";
        text += &match kind {
            "fields" => fields(schema, names),
            "choices" => choices(schema, names),
            "values" => values(schema, names),
            _ => panic!("{PAGE} has tables of `{kind}`"),
        };
        described.extend(names.split(' ').map(str::to_owned));
        let end = lines.find(|line| *line == "<!-- end -->").unwrap_or_else(|| panic!("{line} has no end"));
        text.extend(["\n", end, "\n"]);
    }
    (text, described)
}

#[test]
fn tables_of_fields_are_the_schemas() {
    let page = Page::named(PAGE);
    let (text, _) = generated(&workflow::schema(), &page.text);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(root().join(PAGE), &text).expect("the page is written");
        return;
    }
    for (line, (written, made)) in page.text.lines().zip(text.lines()).enumerate() {
        assert_eq!(written, made, "{PAGE}:{}: the schema differs. To write the tables anew: {UPDATE}", line + 1);
    }
    assert_eq!(page.text.len(), text.len(), "the schema differs. To write the tables anew: {UPDATE}");
}

#[test]
fn everything_in_the_schema_is_described() {
    let schema = workflow::schema();
    let (_, described) = generated(&schema, &Page::named(PAGE).text);
    assert!(described.contains("Document"));
    for (name, definition) in schema["$defs"].as_object().expect("definitions") {
        // A choice between kinds of values is described by the fields that have it.
        let is_choice = definition.get("anyOf").is_some() && name != "Size";
        assert!(is_choice || described.contains(name), "{PAGE} has no table of {name}");
    }
}

#[test]
fn headings_that_tables_link_to_exist() {
    let anchors = Page::named(PAGE).anchors();
    for (name, _, heading) in NAMES {
        assert!(anchors.contains(heading), "{name}: {PAGE} has no heading {heading}");
    }
}

/// A workflow document with these fields of its step or of its own. Functions and steps that the fields only refer to are added.
fn document(mut fields: Map<String, Value>, of_step: bool) -> Value {
    let mut document = Map::from_iter([("name".to_owned(), json!("w"))]);
    if of_step {
        let mut step = Map::from_iter([("name".to_owned(), json!("s")), ("function".to_owned(), json!("f"))]);
        step.append(&mut fields);
        document.insert("steps".to_owned(), json!([step]));
    } else {
        document.append(&mut fields);
        let functions = document.get("functions").and_then(Value::as_object);
        let names = functions.map_or_else(|| vec!["f"], |functions| functions.keys().map(String::as_str).collect());
        let steps: Value = names.iter().map(|name| json!({ "name": name, "function": name })).collect();
        document.entry("steps").or_insert(steps);
    }
    // Hosts that are reached over HTTPS name steps as well.
    let hosts = document.get("network").and_then(|network| network["https"].as_array()).into_iter().flatten();
    let of_hosts: Vec<Value> = hosts.filter_map(|host| host["steps"].as_array()).flatten().cloned().collect();
    let steps = document["steps"].as_array_mut().expect("a list of steps");
    let named: Vec<Value> = steps.iter().map(|step| step["name"].clone()).collect();
    let mut before: Vec<Value> = steps.iter().filter_map(|step| step["after"].as_array()).flatten().cloned().collect();
    before.extend(of_hosts);
    let missing = before.into_iter().filter(|name| !named.contains(name));
    steps.extend(missing.map(|name| json!({ "name": name, "function": "f" })));
    let functions: Map<String, Value> = steps
        .iter()
        .map(|step| (step["function"].as_str().expect("a name").to_owned(), json!({ "image": "f.so" })))
        .collect();
    document.entry("functions").or_insert_with(|| functions.into());
    document.into()
}

/// Checks an example: a whole workflow file, fields of one or of a step (`step` behind the fence), a file of grants, or something else that
/// is JSON (`other`).
fn check(block: &Block<'_>, workflows: &jsonschema::Validator, grants: &jsonschema::Validator) -> Result<(), String> {
    let whole: Result<Value, _> = serde_json::from_str(&block.text);
    if block.is("other") {
        return whole.map(drop).map_err(|error| error.to_string());
    }
    let value = match whole {
        Ok(value) if value.get("steps").is_some() => value,
        Ok(value) => return grants.validate(&value).map_err(|error| error.to_string()),
        Err(_) => {
            let text = format!("{{{}}}", block.text);
            document(serde_json::from_str(&text).map_err(|error| error.to_string())?, block.is("step"))
        }
    };
    workflows.validate(&value).map_err(|error| error.to_string())?;
    let plan = workflow::load_str(Path::new("example.json"), &value.to_string());
    plan.map(drop).map_err(|error| error.to_string())
}

#[test]
fn every_example_is_valid() {
    let workflows = jsonschema::validator_for(&workflow::schema()).expect("a schema");
    let grants = jsonschema::validator_for(&workflow::grants::schema()).expect("a schema");
    let (mut checked, mut wrong) = (0, Vec::new());
    for page in pages() {
        for block in page.blocks().iter().filter(|block| block.language == "json") {
            checked += 1;
            wrong.extend(check(block, &workflows, &grants).err().map(|error| format!("{}: {error}", block.place)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked >= 10, "only {checked} examples were found");
}

#[test]
fn examples_that_are_wrong_are_found() {
    let workflows = jsonschema::validator_for(&workflow::schema()).expect("a schema");
    let grants = jsonschema::validator_for(&workflow::grants::schema()).expect("a schema");
    for (text, attribute, valid) in [
        (r#""unread": "warn""#, "", true),
        (r#""unread": "perhaps""#, "", false),
        (r#""stdin": "text""#, "", false),
        (r#""stdin": "text""#, "step", true),
        (r#""after": ["split"], "takes": ["part.*"]"#, "step", true),
        (r#"{ "networks": {} }"#, "", true),
        (r#"{ "network": {} }"#, "", false),
        (r#"{ "name": "w", "functions": {}, "steps": [] }"#, "", false),
        (r#"{ "anything": 1 }"#, "other", true),
        (r#"{ "anything": 1"#, "other", false),
    ] {
        let page = Page { name: "page".to_owned(), text: format!("```json {attribute}\n{text}\n```\n") };
        let outcome = check(&page.blocks()[0], &workflows, &grants);
        assert_eq!(outcome.is_ok(), valid, "{text}: {outcome:?}");
    }
}
