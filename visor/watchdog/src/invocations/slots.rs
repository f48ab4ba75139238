//! How a request's body becomes input slots, and output slots become an answer.
//!
//! A workflow with one input takes the body as it is, of whatever type. A request without a body, as `curl -X POST` sends
//! it, gives no input: an empty one is an empty body with a `Content-Type`. A workflow with several inputs takes a JSON object that
//! has each slot's content, and one with none takes no body. In the other direction likewise: one output is the answer's body,
//! several are a JSON object, unless `?output=SLOT` chooses one.
//!
//! ```json
//! { "text": "characters", "picture": { "base64": "iVBORw0KGgo=" } }
//! ```

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use crate::http::content::Content;
use crate::http::error::ApiError;
use monohull_report::text::{quoted, suggestion};
use monohull_worker::Data;
use monohull_workflow::Plan;

/// The media type of a JSON object with the content of slots; it makes one of a body for a single input, too.
pub const SLOTS_TYPE: &str = "application/vnd.monohull.slots+json";

/// Most bytes of several outputs that are put into one answer: it is made in memory as a whole.
const TOGETHER_MAX: u64 = 16 << 20;

/// The most slots that one JSON object may fill. A workflow has fewer; a body may have room for a hundred million.
const SLOTS_MAX: usize = 10_000;

/// A slot's content inside of JSON.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Inline {
    Text(String),
    Base64(String),
}

/// The content of slots, by their names. While a body is taken apart nothing takes more memory than the bytes it came as, but
/// for so much per slot: what is none is refused where it stands.
#[derive(PartialEq, Eq, Default, Debug)]
pub(crate) struct Given(BTreeMap<String, Inline>);

impl<'d> Deserialize<'d> for Inline {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Inline, D::Error> {
        struct Slot;

        impl<'d> Visitor<'d> for Slot {
            type Value = Inline;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or {\"base64\": \"…\"}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Inline, E> {
                Ok(Inline::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Inline, E> {
                Ok(Inline::Text(text))
            }

            fn visit_map<A: MapAccess<'d>>(self, mut map: A) -> Result<Inline, A::Error> {
                match map.next_key::<String>()?.as_deref() {
                    Some("base64") => {}
                    _ => return Err(de::Error::custom("an object here has `base64` and nothing else")),
                }
                let content = Inline::Base64(map.next_value()?);
                match map.next_key::<de::IgnoredAny>()? {
                    None => Ok(content),
                    Some(_) => Err(de::Error::custom("an object here has `base64` and nothing else")),
                }
            }
        }

        from.deserialize_any(Slot)
    }
}

impl<'d> Deserialize<'d> for Given {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Given, D::Error> {
        struct Slots;

        impl<'d> Visitor<'d> for Slots {
            type Value = Given;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with the content of slots")
            }

            fn visit_map<A: MapAccess<'d>>(self, mut map: A) -> Result<Given, A::Error> {
                let mut given = BTreeMap::new();
                while let Some((slot, content)) = map.next_entry::<String, Inline>()? {
                    if given.len() == SLOTS_MAX {
                        return Err(de::Error::custom(format!("there are more than {SLOTS_MAX} slots")));
                    }
                    if let Some(_twice) = given.insert(slot, content) {
                        return Err(de::Error::custom("a slot is given twice"));
                    }
                }
                Ok(Given(given))
            }
        }

        from.deserialize_map(Slots)
    }
}

/// The type of a body.
fn media_type(headers: &HeaderMap) -> String {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether a body is a document that has to be taken apart, and not the content of the one input.
pub(crate) fn is_document(plan: &Plan, headers: &HeaderMap) -> bool {
    plan.inputs.len() != 1 || media_type(headers) == SLOTS_TYPE
}

/// The input slots a body stands for.
pub(crate) fn inputs(plan: &Plan, headers: &HeaderMap, content: Content) -> Result<Vec<(String, Data)>, ApiError> {
    let is_missing = content.len() == 0 && !headers.contains_key(CONTENT_TYPE);
    let media = media_type(headers);
    match plan.inputs.as_slice() {
        [] if content.len() == 0 => Ok(Vec::new()),
        [] => Err(ApiError::bad_request(format!("the workflow `{}` takes no input, so no body", plan.name))),
        [input] if is_missing => Err(ApiError::missing_input(format!(
            "input slot {} is missing: the request has no body (an empty input is an empty body with a Content-Type)",
            quoted(&input.slot)
        ))),
        several if is_missing => {
            let slots: Vec<_> = several.iter().map(|input| quoted(&input.slot)).collect();
            Err(ApiError::missing_input(format!(
                "input slots {} are missing: the request has no body",
                slots.join(", ")
            )))
        }
        [input] if media != SLOTS_TYPE => {
            let data = content.into_input().map_err(|error| ApiError::host(error.to_string()))?;
            Ok(vec![(input.slot.clone(), data)])
        }
        _ if media == "application/json" || media == SLOTS_TYPE => {
            let bytes = content.read().map_err(|error| ApiError::host(error.to_string()))?;
            let given = serde_json::from_slice(&bytes).map_err(|error| {
                let form = "{\"SLOT\": \"text\", \"SLOT\": {\"base64\": \"…\"}}";
                ApiError::bad_request(format!("the body is not an object with slots, {form}: {error}"))
            })?;
            inline_inputs(plan, given)
        }
        several => {
            let slots: Vec<_> = several.iter().map(|input| quoted(&input.slot)).collect();
            let message = format!(
                "the workflow `{}` has {} inputs ({}), so its body is a JSON object of Content-Type application/json",
                plan.name,
                slots.len(),
                slots.join(", ")
            );
            Err(ApiError::unsupported(message))
        }
    }
}

/// The input slots of a JSON object, if they are the plan's.
pub(crate) fn inline_inputs(plan: &Plan, given: Given) -> Result<Vec<(String, Data)>, ApiError> {
    let Given(mut given) = given;
    let mut inputs = Vec::new();
    for input in &plan.inputs {
        let bytes = match given.remove(&input.slot) {
            Some(Inline::Text(text)) => text.into_bytes(),
            Some(Inline::Base64(base64)) => BASE64.decode(base64).map_err(|error| {
                ApiError::bad_request(format!("input slot {}: not base64: {error}", quoted(&input.slot)))
            })?,
            None => return Err(ApiError::missing_input(format!("input slot {} is missing", quoted(&input.slot)))),
        };
        inputs.push((input.slot.clone(), Data::Bytes(bytes)));
    }
    match given.keys().next() {
        None => Ok(inputs),
        Some(slot) => {
            let hint = suggestion(slot, plan.inputs.iter().map(|input| input.slot.as_str()));
            Err(ApiError::bad_request(format!("the workflow has no input slot {}{hint}", quoted(slot))))
        }
    }
}

/// Checks a choice of an output before anything runs.
pub(crate) fn check_output(plan: &Plan, chosen: Option<&str>) -> Result<(), ApiError> {
    let names = || plan.outputs.iter().map(|output| output.slot.as_str());
    match chosen {
        Some(slot) if !names().any(|name| name == slot) => {
            let hint = suggestion(slot, names());
            Err(ApiError::bad_request(format!("the workflow has no output slot {}{hint}", quoted(slot))))
        }
        _ => Ok(()),
    }
}

/// The answer's body: the chosen output, or the only one, or all as JSON. With it the slot it is, if it is one.
pub(crate) fn answer(
    outputs: &[(String, Content)],
    chosen: Option<&str>,
) -> Result<(Content, Option<String>), ApiError> {
    match (outputs, chosen) {
        (_, Some(slot)) => {
            let found = outputs.iter().find(|(name, _)| name == slot);
            let (name, content) = found.ok_or_else(|| ApiError::monohull("the output slot is missing"))?;
            Ok((content.clone(), Some(name.clone())))
        }
        ([], None) => Ok((Content::Small(Default::default()), None)),
        ([(name, content)], None) => Ok((content.clone(), Some(name.clone()))),
        (several, None) => {
            let bytes: u64 = several.iter().map(|(_, content)| content.len()).sum();
            if bytes > TOGETHER_MAX {
                let message = format!(
                    "the outputs have {bytes} bytes, and at most {TOGETHER_MAX} fit into one JSON document: ask for each with \
                     ?output=SLOT, or take those of this invocation from /invocations/ID/outputs/SLOT"
                );
                return Err(ApiError::too_large_to_keep(message));
            }
            let mut object = Map::new();
            for (name, content) in several {
                let bytes = content.read().map_err(|error| ApiError::host(error.to_string()))?;
                let value = match std::str::from_utf8(&bytes) {
                    Ok(text) => Value::from(text),
                    Err(_) => json!({ "base64": BASE64.encode(&bytes) }),
                };
                object.insert(name.clone(), value);
            }
            Ok((Content::Small(Value::Object(object).to_string().into()), None))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_in_json_are_what_they_are_called_or_refused() {
        let read = |text: &str| serde_json::from_str::<Given>(text).map_err(|error| error.to_string());
        let slots = [("a", Inline::Text("é\n".to_owned())), ("b", Inline::Base64("eA==".to_owned()))];
        let given = Given(slots.map(|(name, content)| (name.to_owned(), content)).into());
        assert_eq!(read(r#"{"a": "é\n", "b": {"base64": "eA=="}}"#), Ok(given));
        assert_eq!(read("{}"), Ok(Given::default()));
        for (text, why) in [
            ("[]", "an object with the content"),
            (r#"{"a": 1}"#, "a string, or"),
            (r#"{"a": null}"#, "a string, or"),
            (r#"{"a": ["x"]}"#, "a string, or"),
            (r#"{"a": {}}"#, "nothing else"),
            (r#"{"a": {"base46": ""}}"#, "nothing else"),
            (r#"{"a": {"base64": "", "base64": ""}}"#, "nothing else"),
            (r#"{"a": {"base64": [1]}}"#, "expected a string"),
            (r#"{"a": "", "a": ""}"#, "twice"),
        ] {
            assert!(read(text).is_err_and(|error| error.contains(why)), "{text}: {:?}", read(text));
        }
        let slots = |count: usize| {
            let slots: Vec<_> = (0..count).map(|number| format!("\"{number}\":\"\"")).collect();
            format!("{{{}}}", slots.join(","))
        };
        assert!(read(&slots(SLOTS_MAX)).is_ok());
        assert!(read(&slots(SLOTS_MAX + 1)).is_err_and(|error| error.contains("more than")));
    }

    #[test]
    fn several_outputs_are_one_document_only_up_to_a_size() {
        let outputs = |bytes: usize| {
            let half = Content::Small(vec![b'x'; bytes / 2].into());
            [("a".to_owned(), half.clone()), ("b".to_owned(), half)]
        };
        let (document, slot) = answer(&outputs(20), None).expect("small");
        assert_eq!((&*document.read().expect("bytes"), slot), (&br#"{"a":"xxxxxxxxxx","b":"xxxxxxxxxx"}"#[..], None));
        let large = outputs(TOGETHER_MAX as usize + 2);
        let refusal = answer(&large, None).expect_err("too large");
        assert!(refusal.error.message.contains("?output=SLOT"), "{}", refusal.error.message);
        assert_eq!(answer(&large, Some("a")).expect("one of them").0.len(), TOGETHER_MAX / 2 + 1);
    }
}
