//! How a workflow reaches the network, as it is written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{HEADER_NAME_PATTERN, HOST_NAME_PATTERN, NAME_PATTERN, NETWORK_RULE_PATTERN};
use monohull_abi::network::HOST_NAME_MAX;
use monohull_network::https::MOST_ORIGINS;

/// A network: its mode, alone or in an object, or the name of a grant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Network {
    /// The mode.
    Mode(NetworkMode),
    /// The mode with its settings.
    Object(NetworkObject),
    /// The name of a grant.
    Granted(NetworkReference),
}

/// How functions reach the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMode {
    /// Through the host's sockets. The lists name the addresses; all others are refused.
    Host,
    /// Through a device with addresses of its own, which `monohull network` makes. The host's routes and filters decide
    /// what it reaches.
    Tap,
}

/// A network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkObject {
    /// How functions reach the network.
    pub mode: NetworkMode,
    /// Where connections and datagrams may go. Default: nowhere. A name is resolved when the run starts, and gives public
    /// addresses only. An address that is not of the public network (loopback, private, link-local, …) counts only where
    /// an entry lies within that range, so `0.0.0.0/0:443` does not open the host's own ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("uniqueItems" = true))]
    pub connect: Vec<NetworkRule>,
    /// Where sockets may be bound to listen. Default: nowhere. Port 0 lets the host choose one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("uniqueItems" = true))]
    pub listen: Vec<NetworkRule>,
    /// Of the mode `host`: hosts that functions reach over HTTPS. A function sends plain HTTP/1.1 to `http://HOST/`. Outside
    /// the workflow's process it is carried over TLS to this host and no other, whose certificate must be valid for the name.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_ORIGINS))]
    pub https: Vec<HttpsOrigin>,
    /// Of the mode `tap`: whether connections leave the host under the host's address. Default: no. The helper must
    /// allow it (`monohull network --outside`); otherwise the workflow does not start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
}

/// A host that is reached over HTTPS: its name, or an object that says more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum HttpsOrigin {
    /// The name.
    Host(HostName),
    /// The name, and what there is to say about it.
    Object(HttpsOriginObject),
}

/// The name of a host, not an address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostName(#[schemars(length(max = HOST_NAME_MAX), regex(pattern = HOST_NAME_PATTERN))] pub String);

/// A host that is reached over HTTPS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpsOriginObject {
    /// Its name. One that leads to a private address is reached only where an entry of `connect` covers that address and port.
    pub host: HostName,
    /// Its port. Default: 443. Functions connect to this port or to 80.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16", range(min = 1))]
    pub port: Option<u16>,
    /// Headers that every request gets on its way, by name. Functions do not see their values, and cannot replace them.
    /// Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = { "pattern": HEADER_NAME_PATTERN }))]
    pub headers: BTreeMap<String, HttpsHeader>,
    /// The steps whose instances may use it. Default: every step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<StepName>", length(min = 1), extend("uniqueItems" = true))]
    pub steps: Option<Vec<StepName>>,
}

/// The name of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepName(#[schemars(regex(pattern = NAME_PATTERN))] pub String);

/// The value of a header: text, or an object that says where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum HttpsHeader {
    /// The value. Every user with read access to the workflow can read it.
    Text(String),
    /// Where it comes from.
    Object(HttpsHeaderObject),
}

/// Where the value of a header comes from. It has one of `environment`, `file` and `secret`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["environment"] }, { "required": ["file"] }, { "required": ["secret"] }]))]
pub struct HttpsHeaderObject {
    /// What stands before it, such as `Bearer ` with its space. Default: nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// For `monohull run`: an environment variable of that program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub environment: Option<String>,
    /// For `monohull run`: a file that holds it, without the end of its last line. A relative path counts from the workflow
    /// file's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub file: Option<String>,
    /// In a grants file: the name of one of its secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = NAME_PATTERN))]
    pub secret: Option<String>,
}

/// The name of a secret that a server's operator grants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretName(#[schemars(regex(pattern = NAME_PATTERN))] pub String);

/// On a server: a network that its operator grants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkReference {
    /// The name of the grant.
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub grant: String,
}

/// A host and ports: `192.0.2.7:443`, `10.0.0.0/8:5432`, `[fd00::/8]:8000-8100`, `example.com:443`, `127.0.0.1:*`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkRule(#[schemars(regex(pattern = NETWORK_RULE_PATTERN))] pub String);
