//! The field `network`: none, the host's sockets by list, or a device of the workflow's own.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use crate::document as doc;
use crate::reader::Reader;
use crate::server::Wanted;
use monohull_network::rule::Host;
use monohull_network::{self as network, Rule};
use monohull_report::text::quoted;

pub(super) const NETWORK: &[&str] = &["mode", "connect", "listen", "https", "outside"];
pub(super) const REFERENCE: &[&str] = &["grant"];

impl Reader<'_> {
    pub(crate) fn network(&mut self, value: &Value<'_>) -> network::Plan {
        const MODES: &[&str] = &["host", "tap"];
        // An object with this field has no other.
        let is_reference = value.as_object().is_some_and(|object| object.get("grant").is_some());
        if is_reference {
            let fields = self.fields(value, "`network`", REFERENCE, 1);
            let grant = fields.and_then(|fields| self.name(fields.get("grant")?, "`grant`"));
            return grant.map_or(network::Plan::None, |grant| {
                self.check_grant(grant, Wanted::Network(grant.value));
                network::Plan::Granted(grant.value.to_owned())
            });
        }
        let object = match value {
            Value::StringLit(_) => None,
            Value::Object(_) => match self.fields(value, "`network`", NETWORK, 1) {
                Some(fields) => Some(fields),
                None => return network::Plan::None,
            },
            _ => {
                self.wrong_type(value, "`network`", "a mode, or an object with a `mode`");
                return network::Plan::None;
            }
        };
        let mode = object.as_ref().map_or(Some(value), |fields| fields.get("mode"));
        let mode = mode
            .and_then(|mode| self.word::<doc::NetworkMode>(mode, "the mode of `network`", "`host` or `tap`", MODES));
        let outside = object.as_ref().and_then(|fields| fields.get("outside"));
        let outside = outside.and_then(|value| match value {
            Value::BooleanLit(lit) => Some((value.range(), lit.value)),
            _ => {
                self.wrong_type(value, "`outside`", "`true` or `false`");
                None
            }
        });
        let mut rules =
            |field| object.as_ref().and_then(|fields| fields.get(field)).map(|list| self.rules(list, field));
        let lists = network::Rules {
            connect: rules("connect").unwrap_or_default(),
            listen: rules("listen").unwrap_or_default(),
            https: Vec::new(),
        };
        let https = object.as_ref().and_then(|fields| fields.get("https"));
        let https = https.map(|list| self.origins(list)).unwrap_or_default();
        let lists = network::Rules { https, ..lists };
        match mode {
            Some(doc::NetworkMode::Host) => {
                if let Some((at, _)) = outside {
                    let message = "`outside` says nothing about the mode `host`".to_owned();
                    self.error(at, message, "lists of addresses".to_owned());
                }
                if let Some(list) = object.as_ref().and_then(|fields| fields.get("connect")) {
                    self.keep_virtual_addresses(list, &lists);
                }
                if lists == network::Rules::default() && !self.has_errors() {
                    self.warning(value.range(), "`network` lists no address, so nothing can be reached".to_owned());
                }
                network::Plan::Host(lists)
            }
            Some(doc::NetworkMode::Tap) => {
                for field in ["connect", "listen", "https"] {
                    if let Some(list) = object.as_ref().and_then(|fields| fields.get(field)) {
                        let message = format!("`{field}` says nothing about the mode `tap`");
                        self.error(
                            list.range(),
                            message,
                            "no lists: the host filters what its devices carry".to_owned(),
                        );
                    }
                }
                network::Plan::Tap { outside: outside.is_some_and(|(_, outside)| outside) }
            }
            None => network::Plan::None,
        }
    }

    fn rules(&mut self, value: &Value<'_>, field: &str) -> Vec<Rule> {
        const EXPECTED: &str = "an entry such as \"192.0.2.7:443\", \"10.0.0.0/8:5432\", \"[fd00::/8]:8000-8100\"";
        let what = format!("`{field}`");
        let Some(array) = self.array(value, &what, "an array of addresses with ports") else { return Vec::new() };
        let entry = format!("an entry of {what}");
        let texts = array.elements.iter().filter_map(|element| self.text(element, &entry, EXPECTED));
        let texts: Vec<_> = texts.collect();
        let mut rules = Vec::new();
        for text in self.each_once(texts, &what) {
            match Rule::parse(text.value) {
                Ok(Rule { host: Host::Name(_), .. }) if field == "listen" => {
                    let message = format!("{entry} is {}: a name", quoted(text.value));
                    self.error(text.at, message, "an address of this host".to_owned());
                }
                Ok(rule) => rules.push(rule),
                Err(why) => {
                    self.error(text.at, format!("{entry} is {}: {why}", quoted(text.value)), EXPECTED.to_owned());
                }
            }
        }
        rules
    }
}
