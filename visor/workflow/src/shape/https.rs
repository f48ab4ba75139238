//! The field `https` of a network: hosts by name, headers for them, and the steps that may use them.

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::{Range, Ranged};

use super::Step;
use super::words::narrow;
use crate::reader::{At, Fields, Reader};
use monohull_network::https::{
    HeaderSource, HiddenText, MOST_ORIGINS, Origin, OriginHeader, VIRTUAL_RANGE, is_configurable,
};
use monohull_network::rule::{Host, is_name};
use monohull_network::{self as network, Rule};
use monohull_report::text::{quoted, suggestion};

pub(super) const ORIGIN: &[&str] = &["host", "port", "headers", "steps"];
pub(super) const HEADER: &[&str] = &["prefix", "environment", "file", "secret"];

/// The port of HTTPS.
const HTTPS_PORT: u16 = 443;

impl Reader<'_> {
    /// Reads the list.
    pub(super) fn origins(&mut self, value: &Value<'_>) -> Vec<Origin> {
        const EXPECTED: &str = "an array of names of hosts, or objects with a `host`";
        let Some(array) = self.array(value, "`https`", EXPECTED) else { return Vec::new() };
        if array.elements.len() > MOST_ORIGINS {
            let message = format!("`https` has {} entries", array.elements.len());
            self.error(array.range, message, format!("at most {MOST_ORIGINS}"));
        }
        let mut origins: Vec<Origin> = Vec::new();
        for element in &array.elements {
            let Some((at, origin)) = self.origin(element) else { continue };
            let bare = |host: &str| host.trim_end_matches('.').to_owned();
            if origins.iter().any(|known| bare(&known.host) == bare(&origin.host)) {
                let message = format!("the host {} is in `https` twice", quoted(&origin.host));
                self.error(at, message, "each host once".to_owned());
                continue;
            }
            origins.push(origin);
        }
        origins
    }

    fn origin(&mut self, value: &Value<'_>) -> Option<(Range, Origin)> {
        let fields = match value {
            Value::Object(_) => Some(self.fields(value, "an entry of `https`", ORIGIN, 1)?),
            _ => None,
        };
        let host = fields.as_ref().map_or(Some(value), |fields| fields.get("host"))?;
        let host = self.host(host)?;
        let get = |field| fields.as_ref().and_then(|fields| fields.get(field));
        let port = get("port").and_then(|value| self.integer(value, "`port`", 1, u16::MAX.into()));
        let headers = get("headers").map(|value| self.origin_headers(value)).unwrap_or_default();
        let steps = get("steps").map(|value| self.step_names(value));
        let origin = Origin {
            host: host.value.to_ascii_lowercase(),
            port: port.map_or(HTTPS_PORT, |port| narrow(port) as u16),
            headers,
            steps: steps.map(|steps| steps.iter().map(|step| step.value.to_owned()).collect()),
        };
        Some((host.at, origin))
    }

    fn host<'a>(&mut self, value: &'a Value<'a>) -> Option<At<&'a str>> {
        const EXPECTED: &str = "the name of a host, such as \"api.example.com\"";
        let host = self.text(value, "a host of `https`", EXPECTED)?;
        if !is_name(host.value) {
            let message = format!("a host of `https` is {}", quoted(host.value));
            self.error(host.at, message, format!("{EXPECTED}; the port stands in `port`"));
            return None;
        }
        Some(host)
    }

    fn origin_headers(&mut self, value: &Value<'_>) -> Vec<OriginHeader> {
        let Some(object) = self.map(value, "`headers`") else { return Vec::new() };
        let mut headers: Vec<OriginHeader> = Vec::new();
        for property in &object.properties {
            let name = At { value: property.name.as_str(), at: property.name.range() };
            if !is_configurable(name.value) {
                let expected = "a header that does not say where a message goes or ends".to_owned();
                self.error(name.at, format!("the header {} cannot be added", quoted(name.value)), expected);
                continue;
            }
            let lower = name.value.to_ascii_lowercase();
            if headers.iter().any(|known| known.name == lower) {
                let message = format!("the header {} is there twice", quoted(name.value));
                self.error(name.at, message, "each header once".to_owned());
                continue;
            }
            if let Some((prefix, source)) = self.header_value(name.value, &property.value) {
                headers.push(OriginHeader { name: lower, prefix, source });
            }
        }
        headers
    }

    fn header_value(&mut self, name: &str, value: &Value<'_>) -> Option<(String, HeaderSource)> {
        let what = format!("the header {}", quoted(name));
        if let Value::StringLit(_) = value {
            let text = self.header_text(value, &what)?;
            if is_credential(name) {
                let message = format!(
                    "{what} looks like a secret, and every user with read access to the workflow can read it; `environment`, `file` or \
                     `secret` keep it elsewhere"
                );
                self.warning(text.at, message);
            }
            return Some((String::new(), HeaderSource::Value(HiddenText(text.value.to_owned()))));
        }
        let Value::Object(_) = value else {
            self.wrong_type(value, &what, "text, or an object that says where it comes from");
            return None;
        };
        let fields = self.fields(value, &what, HEADER, 0)?;
        let prefix = fields.get("prefix").and_then(|value| self.header_text(value, "`prefix`"));
        let prefix = prefix.map_or_else(String::new, |prefix| prefix.value.to_owned());
        Some((prefix, self.header_source(&what, &fields)?))
    }

    fn header_source(&mut self, what: &str, fields: &Fields<'_>) -> Option<HeaderSource> {
        match ["environment", "file", "secret"].map(|field| fields.get(field)) {
            [Some(value), None, None] => {
                const EXPECTED: &str = "the name of an environment variable";
                let variable = self.text(value, "`environment`", EXPECTED)?;
                if variable.value.is_empty() || variable.value.contains(['=', '\0']) {
                    let message = format!("`environment` is {}", quoted(variable.value));
                    self.error(variable.at, message, EXPECTED.to_owned());
                }
                Some(HeaderSource::Environment(variable.value.to_owned()))
            }
            [None, Some(value), None] => self.path(value, "`file`").map(HeaderSource::File),
            [None, None, Some(value)] => {
                self.name(value, "`secret`").map(|name| HeaderSource::Secret(name.value.to_owned()))
            }
            _ => {
                let expected = "one of `environment`, `file`, `secret`".to_owned();
                self.error(fields.at(), format!("{what} has not one source"), expected);
                None
            }
        }
    }

    fn header_text<'a>(&mut self, value: &'a Value<'a>, what: &str) -> Option<At<&'a str>> {
        const EXPECTED: &str = "visible ASCII characters and spaces";
        let text = self.text(value, what, EXPECTED)?;
        if !text.value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
            self.error(text.at, format!("{what} holds other characters"), EXPECTED.to_owned());
            return None;
        }
        Some(text)
    }

    fn step_names<'a>(&mut self, value: &'a Value<'a>) -> Vec<At<&'a str>> {
        let Some(array) = self.array(value, "`steps`", "an array of the names of steps") else { return Vec::new() };
        if array.elements.is_empty() {
            let expected = "the names of steps; without `steps` every step may use the host".to_owned();
            self.error(array.range, "`steps` is empty, so no step may use the host".to_owned(), expected);
        }
        let names: Vec<_> =
            array.elements.iter().filter_map(|element| self.name(element, "an entry of `steps`")).collect();
        self.each_once(names, "`steps`")
    }

    /// Notes entries of a workflow's list that name what the workflow does not have: steps, and secrets, which only an
    /// operator's grants have.
    pub(super) fn check_origins(&mut self, network: &Value<'_>, steps: &[Step<'_>]) {
        let known: Vec<&str> = steps.iter().filter_map(|step| Some(step.name?.value)).collect();
        for origin in origin_objects(network) {
            let names = origin.get_array("steps").into_iter().flat_map(|array| &array.elements);
            for name in names.filter_map(literal).filter(|name| !known.contains(&name.value)) {
                let hint = suggestion(name.value, known.iter().copied());
                let message = format!("there is no step {}{hint}", quoted(name.value));
                self.error(name.at, message, "the name of a step".to_owned());
            }
        }
        for name in header_secrets(network) {
            let message = format!("the secret {} would be of a server's operator", quoted(name.value));
            let expected = "`environment` or `file`; on a server `\"network\": { \"grant\": NAME }`".to_owned();
            self.error(name.at, message, expected);
        }
    }

    /// Notes entries of `connect` that cover virtual addresses.
    pub(super) fn keep_virtual_addresses(&mut self, connect: &Value<'_>, lists: &network::Rules) {
        if lists.https.is_empty() {
            return;
        }
        for text in connect.as_array().into_iter().flat_map(|array| &array.elements).filter_map(literal) {
            if let Ok(Rule { host: Host::Addresses(ipnet::IpNet::V4(range)), .. }) = Rule::parse(text.value)
                && (range.contains(&VIRTUAL_RANGE) || VIRTUAL_RANGE.contains(&range))
                && range.prefix_len() >= BENCHMARK_PREFIX
            {
                let message = format!("{} covers addresses that stand for hosts of `https`", quoted(text.value));
                self.error(text.at, message, format!("addresses outside of {VIRTUAL_RANGE}"));
            }
        }
    }
}

/// Bits of the special range that virtual addresses are of: a larger range does not reach into it.
const BENCHMARK_PREFIX: u8 = 15;

/// The names of secrets that headers of a network refer to.
pub(crate) fn header_secrets<'a>(network: &'a Value<'a>) -> Vec<At<&'a str>> {
    let headers = origin_objects(network).filter_map(|origin| origin.get_object("headers"));
    let values = headers.flat_map(|headers| &headers.properties).filter_map(|header| header.value.as_object());
    values.filter_map(|value| literal(&value.get("secret")?.value)).collect()
}

/// Where a header of a network's host has its value.
pub(crate) fn header_place(network: &Value<'_>, host: &str, header: &str) -> Option<Range> {
    let is_host =
        |origin: &&Object<'_>| origin.get_string("host").is_some_and(|name| name.value.eq_ignore_ascii_case(host));
    let headers = origin_objects(network).find(is_host)?.get_object("headers")?;
    let found = headers.properties.iter().find(|property| property.name.as_str().eq_ignore_ascii_case(header))?;
    Some(found.value.range())
}

/// The entries of a network's list that are objects.
fn origin_objects<'a>(network: &'a Value<'a>) -> impl Iterator<Item = &'a Object<'a>> {
    let list = network.as_object().and_then(|network| network.get_array("https"));
    list.into_iter().flat_map(|list| &list.elements).filter_map(|entry| entry.as_object())
}

fn literal<'a>(value: &'a Value<'a>) -> Option<At<&'a str>> {
    match value {
        Value::StringLit(literal) => Some(At { value: literal.value.as_ref(), at: literal.range }),
        _ => None,
    }
}

/// Whether the name of a header is one that credentials usually have.
fn is_credential(name: &str) -> bool {
    const PARTS: [&str; 7] = ["authorization", "cookie", "token", "secret", "password", "api-key", "apikey"];
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
}
