//! The grants file: what a server's operator gives to workflows that come over HTTP.
//!
//! A document that a client sent cannot name resources of the host: its networks, directories and disk images. It refers to a
//! grant by name, and the operator defines in this file what the grant is, and for which workflows.
//!
//! ```text
//! document   "network": { "grant": "billing" }        "files": [{ "at": "/data", "grant": "reports" }]
//!                              │                                               │
//! grants     "networks": { "billing": { … } }         "files": { "reports": { "directory": "/srv/reports", … } }
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::NAME_PATTERN;
use super::document as doc;
use super::plan::{Access, MountSource, Plan};
use super::reader::Reader;
use super::server::Wanted;
use super::shape::{header_place, header_secrets};
use super::source::Source;
use super::{Lines, Mistake, is_name};
use monohull_host_files::input;
use monohull_network as network;
use monohull_network::https::{HeaderSource, HiddenText};
use monohull_report::escape::shown;
use monohull_report::text::{quoted, suggestion};

/// What stands for every workflow in a list of names.
const ALL: &str = "*";

/// The grants file as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Monohull grants")]
pub struct GrantsDocument {
    /// Where the JSON Schema of this file lies, for editors. Monohull itself does not read it.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub schema: Option<String>,
    /// What is granted, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub description: Option<String>,
    /// Networks, by the names that documents have for them: `"network": { "grant": NAME }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = { "pattern": NAME_PATTERN }))]
    pub networks: BTreeMap<String, NetworkGrant>,
    /// Directories and disk images, by the names that documents have for them: `"files": [{ "at": PATH, "grant": NAME }]`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = { "pattern": NAME_PATTERN }))]
    pub files: BTreeMap<String, FilesGrant>,
    /// Secrets, by the names that steps have for them: `"secrets": { VARIABLE: NAME }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = { "pattern": NAME_PATTERN }))]
    pub secrets: BTreeMap<String, SecretGrant>,
}

/// A network, and the workflows that may use it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkGrant {
    /// The network, as a workflow file has it.
    pub network: GrantedNetwork,
    /// The workflows that may use it: names, or `*` for every workflow.
    #[schemars(length(min = 1), extend("uniqueItems" = true))]
    pub workflows: Vec<WorkflowName>,
}

/// A network as a workflow file has it: a mode, alone or in an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum GrantedNetwork {
    /// The mode.
    Mode(doc::NetworkMode),
    /// The mode, and what there is to say about it.
    Object(doc::NetworkObject),
}

/// A directory or a disk image, and the workflows that may use it. It has one of `directory` and `image`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["directory"] }, { "required": ["image"] }]))]
pub struct FilesGrant {
    /// A directory of the host, granted with everything below it on the same file system. A relative path counts from the
    /// folder of this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub directory: Option<String>,
    /// A FAT disk image. A relative path counts from the folder of this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub image: Option<String>,
    /// The most that a document may ask for. Default: `read`; of an image that includes `copy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Right")]
    pub access: Option<Right>,
    /// The workflows that may use it: names, or `*` for every workflow.
    #[schemars(length(min = 1), extend("uniqueItems" = true))]
    pub workflows: Vec<WorkflowName>,
}

/// A secret, and the workflows that may use it. It has one of `file` and `environment`. Its value is text of at least 8 characters, because
/// equal text is replaced in logs, reports and errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["file"] }, { "required": ["environment"] }]))]
pub struct SecretGrant {
    /// The file that holds the value, without the end of its last line. A relative path counts from the folder of this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub file: Option<String>,
    /// The environment variable of the server that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub environment: Option<String>,
    /// The workflows that may use it: names, or `*` for every workflow. Default: none gets the value itself; headers of granted
    /// networks may still have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1), extend("uniqueItems" = true))]
    pub workflows: Vec<WorkflowName>,
}

/// A right to files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// To read them.
    #[default]
    Read,
    /// To read and to change them.
    Write,
}

/// The name of a workflow, or `*` for every workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowName(#[schemars(regex(pattern = WORKFLOW_PATTERN))] pub String);

/// What an entry of `workflows` looks like, as a regular expression.
const WORKFLOW_PATTERN: &str = r"^(\*|[A-Za-z0-9][A-Za-z0-9_-]{0,62})$";

/// The JSON Schema of the grants file, as published in `workflows/grants.schema.json`.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(GrantsDocument).to_value()
}

const DOCUMENT: &[&str] = &["networks", "files", "secrets", "description", "$schema"];
const NETWORK: &[&str] = &["network", "workflows"];
const FILES: &[&str] = &["workflows", "directory", "image", "access"];
const SECRET: &[&str] = &["file", "environment", "workflows"];

/// The fewest characters of a secret: a shorter text is likely to occur by chance in logs and reports.
pub const SECRET_MIN: usize = 8;
/// The most bytes of a secret: it is an environment variable of functions.
const SECRET_MAX: u64 = 64 << 10;

/// Why a grants file is not used. The operator is at fault.
#[derive(Debug, thiserror::Error)]
pub enum GrantsError {
    /// The file cannot be read, or is not text.
    #[error("cannot read the grants file {}: {source}", shown(path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// The file is wrong.
    #[error("{}", Lines(mistakes))]
    Mistakes {
        /// All that is wrong, in the order of the file.
        mistakes: Vec<Mistake>,
    },
}

/// What an operator grants.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    networks: BTreeMap<String, Granted<network::Plan>>,
    files: BTreeMap<String, Granted<Files>>,
    secrets: BTreeMap<String, Granted<Secret>>,
}

/// The value of a secret. It is shown nowhere.
#[derive(Clone)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// A grant.
#[derive(Clone, Debug)]
struct Granted<T> {
    what: T,
    workflows: Workflows,
}

/// The workflows that may use a grant.
#[derive(Clone, Debug)]
enum Workflows {
    All,
    Named(BTreeSet<String>),
}

impl Workflows {
    /// Whether a workflow is among them; one without a name is if all are.
    fn contain(&self, workflow: Option<&str>) -> bool {
        match self {
            Workflows::All => true,
            Workflows::Named(names) => workflow.is_some_and(|name| names.contains(name)),
        }
    }
}

/// Granted files.
#[derive(Clone, Debug)]
struct Files {
    path: PathBuf,
    is_image: bool,
    right: Right,
}

impl Grants {
    /// Reads a grants file, and finds all that is wrong with it.
    pub fn load(path: &Path) -> Result<Grants, GrantsError> {
        let text = input::read_regular(path, input::WORKFLOW_MAX).map_err(io::Error::from).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
        });
        let text = text.map_err(|source| GrantsError::Unreadable { path: path.to_path_buf(), source })?;
        Grants::parse(path, text.strip_prefix('\u{feff}').unwrap_or(&text))
    }

    fn parse(path: &Path, text: &str) -> Result<Grants, GrantsError> {
        let source = Source::new(path, text);
        let mut reader = Reader::new(&source, None);
        let value = reader.parse();
        let folder = path.parent().unwrap_or(Path::new(""));
        let grants = value.and_then(|value| reader.grants(&value, folder));
        match grants {
            Some(grants) if !reader.has_errors() => Ok(grants),
            _ => Err(GrantsError::Mistakes { mistakes: reader.into_mistakes() }),
        }
    }

    /// Whether a workflow gets what its document asks for; if not, why. A workflow that is not registered has no name.
    pub fn check(&self, workflow: Option<&str>, wanted: Wanted<'_>) -> Result<(), String> {
        match wanted {
            Wanted::Network(name) => find(&self.networks, workflow, "network", name).map(drop),
            Wanted::Files(name, access) => self.source(workflow, name, access).map(drop),
            Wanted::Secret(name) => find(&self.secrets, workflow, "secret", name).map(drop),
        }
    }

    /// The plan with what is granted in the place of every name, or what is missing.
    pub fn resolve(&self, workflow: Option<&str>, plan: &Arc<Plan>) -> Result<Arc<Plan>, Vec<String>> {
        let mut resolved = Plan::clone(plan);
        let mut missing = Vec::new();
        if let network::Plan::Granted(name) = &plan.network {
            match find(&self.networks, workflow, "network", name) {
                Ok(granted) => resolved.network = granted.clone(),
                Err(why) => missing.push(why),
            }
        }
        for mount in &mut resolved.files {
            if let MountSource::Granted { grant, access } = &mount.source {
                match self.source(workflow, grant, *access) {
                    Ok(source) => mount.source = source,
                    Err(why) => missing.push(why),
                }
            }
        }
        for step in &mut resolved.steps {
            for (variable, name) in std::mem::take(&mut step.secrets) {
                match find(&self.secrets, workflow, "secret", &name) {
                    Ok(Secret(value)) => drop(step.env.insert(variable, value.clone())),
                    Err(why) => missing.push(why),
                }
            }
        }
        if missing.is_empty() { Ok(Arc::new(resolved)) } else { Err(missing) }
    }

    /// All secrets, by name and value.
    pub fn secrets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.secrets.iter().map(|(name, grant)| (name.as_str(), grant.what.0.as_str()))
    }

    /// The files of a grant, with no more rights than it gives.
    fn source(&self, workflow: Option<&str>, name: &str, access: Option<Access>) -> Result<MountSource, String> {
        let files = find(&self.files, workflow, "files", name)?;
        if access == Some(Access::Write) && files.right == Right::Read {
            return Err(format!("the files {} are granted for reading only", quoted(name)));
        }
        let path = files.path.clone();
        match (files.is_image, access) {
            (true, access) => Ok(MountSource::Image { path, access: access.unwrap_or(Access::Copy) }),
            (false, Some(Access::Copy)) => {
                Err(format!("the files {} are a directory, which is not copied; `read` or `write`", quoted(name)))
            }
            (false, access) => Ok(MountSource::Directory { path, writable: access == Some(Access::Write) }),
        }
    }
}

/// What is granted under a name. A hint names only what this workflow may use.
fn find<'g, T>(
    grants: &'g BTreeMap<String, Granted<T>>,
    workflow: Option<&str>,
    kind: &str,
    name: &str,
) -> Result<&'g T, String> {
    match grants.get(name) {
        Some(grant) if grant.workflows.contain(workflow) => Ok(&grant.what),
        Some(_) => {
            let recipient = workflow.map_or("workflows that are not registered".to_owned(), |name| {
                format!("the workflow {}", quoted(name))
            });
            Err(format!("the server grants the {kind} {}, but not to {recipient}", quoted(name)))
        }
        None => {
            let known = grants.iter().filter(|(_, grant)| grant.workflows.contain(workflow));
            let hint = suggestion(name, known.map(|(name, _)| name.as_str()));
            Err(format!("the server grants no {kind} called {}{hint}", quoted(name)))
        }
    }
}

/// The content of a secret's file, without the end of its last line.
fn read_secret(path: &Path) -> Result<String, String> {
    let said = |error: io::Error| format!("{}: {error}", shown(path));
    let file = input::open_regular(path, false).map_err(|error| said(error.into()))?;
    let mut text = String::new();
    io::Read::take(file, SECRET_MAX + 1).read_to_string(&mut text).map_err(said)?;
    let end = text.trim_end_matches(['\n', '\r']).len();
    text.truncate(end);
    Ok(text)
}

/// Why an environment variable has no text. The error's own message would show the value.
fn unset(error: &std::env::VarError) -> &'static str {
    match error {
        std::env::VarError::NotPresent => "the server has no such environment variable",
        std::env::VarError::NotUnicode(_) => "the environment variable is not UTF-8",
    }
}

/// A secret that can be an environment variable, and be replaced in logs and reports.
fn usable(text: String) -> Result<String, String> {
    match &text {
        text if text.len() as u64 > SECRET_MAX => Err(format!("it has more than {SECRET_MAX} bytes")),
        text if text.contains('\0') => Err("it holds a NUL".to_owned()),
        text if text.chars().count() < SECRET_MIN => Err(format!(
            "it has fewer than {SECRET_MIN} characters, so that it could not be taken out of what is printed"
        )),
        _ => Ok(text),
    }
}

impl Reader<'_> {
    fn grants(&mut self, value: &Value<'_>, folder: &Path) -> Option<Grants> {
        let fields = self.fields(value, "the grants file", DOCUMENT, 0)?;
        for field in ["description", "$schema"] {
            if let Some(value) = fields.get(field) {
                self.text(value, &format!("`{field}`"), "a string");
            }
        }
        let secrets = self.granted(fields.get("secrets"), "secrets", SECRET, 0, |reader, entry| {
            let named = ["file", "environment"].map(|name| entry.get(name));
            let (value, read) = match named {
                [Some(value), None] => {
                    (value, reader.path(value, "`file`").map(|path| read_secret(&folder.join(path)))?)
                }
                [None, Some(value)] => {
                    let name = reader.text(value, "`environment`", "the name of an environment variable")?;
                    (value, std::env::var(name.value).map_err(|error| unset(&error).to_owned()))
                }
                _ => {
                    let message = "a grant of a secret has not one source".to_owned();
                    reader.error(entry.at(), message, "one of `file`, `environment`".to_owned());
                    return None;
                }
            };
            // No message shows the value.
            match read.and_then(usable) {
                Ok(text) => Some(Secret(text)),
                Err(why) => {
                    reader.error(value.range(), format!("the secret cannot be had: {why}"), None);
                    None
                }
            }
        });
        let networks = self.granted(fields.get("networks"), "network", NETWORK, 2, |reader, entry| {
            let value = entry.get("network")?;
            match reader.network(value) {
                network::Plan::Granted(_) => {
                    let message = "a grant refers to another grant".to_owned();
                    reader.error(value.range(), message, "a network, as a workflow file has it".to_owned());
                    None
                }
                network => Some(reader.with_secrets(network, value, &secrets)),
            }
        });
        let files = self.granted(fields.get("files"), "files", FILES, 1, |reader, entry| {
            let right = match entry.get("access") {
                Some(value) => reader.word(value, "`access`", "`read` or `write`", &["read", "write"])?,
                None => Right::Read,
            };
            let named = ["directory", "image"].map(|name| entry.get(name));
            let (value, is_image) = match named {
                [Some(value), None] => (value, false),
                [None, Some(value)] => (value, true),
                _ => {
                    reader.error(
                        entry.at(),
                        "a grant of files has not one source".to_owned(),
                        "one of `directory`, `image`".to_owned(),
                    );
                    return None;
                }
            };
            let path = folder.join(reader.path(value, if is_image { "`image`" } else { "`directory`" })?);
            // Nothing says later where the mistake was made.
            let there = std::fs::metadata(&path).map_err(|error| error.to_string());
            let why = match there {
                Ok(metadata) if metadata.is_dir() == is_image => {
                    Some(if is_image { "it is a directory" } else { "it is not a directory" }.to_owned())
                }
                Ok(_) => None,
                Err(why) => Some(why),
            };
            if let Some(why) = why {
                let message = format!("{} cannot be granted: {why}", quoted(&path.to_string_lossy()));
                reader.error(value.range(), message, None);
            }
            Some(Files { path, is_image, right })
        });
        Some(Grants { networks, files, secrets })
    }

    /// A network whose headers have the values of secrets in the place of their names.
    fn with_secrets(
        &mut self,
        mut network: network::Plan,
        value: &Value<'_>,
        secrets: &BTreeMap<String, Granted<Secret>>,
    ) -> network::Plan {
        for name in header_secrets(value).into_iter().filter(|name| !secrets.contains_key(name.value)) {
            let hint = suggestion(name.value, secrets.keys().map(String::as_str));
            let message = format!("there is no secret {}{hint}", quoted(name.value));
            self.error(name.at, message, "the name of a secret of this file".to_owned());
        }
        let network::Plan::Host(rules) = &mut network else { return network };
        for origin in &mut rules.https {
            for header in &mut origin.headers {
                let at = header_place(value, &origin.host, &header.name).unwrap_or(value.range());
                match &header.source {
                    HeaderSource::Secret(name) => {
                        if let Some(Granted { what: Secret(text), .. }) = secrets.get(name) {
                            header.source = HeaderSource::Value(HiddenText(text.clone()));
                        }
                    }
                    HeaderSource::Value(_) => {}
                    HeaderSource::Environment(_) | HeaderSource::File(_) => {
                        // What is not among the secrets would not be redacted.
                        let message = format!("the header {} has a source that is no secret", quoted(&header.name));
                        self.error(at, message, "`secret`, the name of a secret of this file".to_owned());
                    }
                }
                if !header.is_valid() {
                    let message = format!("the header {} cannot have the value of its secret", quoted(&header.name));
                    self.error(at, message, "a secret of one line".to_owned());
                }
            }
        }
        network
    }

    /// Reads grants of one kind, by name.
    fn granted<T>(
        &mut self,
        value: Option<&Value<'_>>,
        kind: &str,
        known: &'static [&'static str],
        required: usize,
        read: impl Fn(&mut Self, &super::reader::Fields<'_>) -> Option<T>,
    ) -> BTreeMap<String, Granted<T>> {
        let mut grants = BTreeMap::new();
        let Some(object) = value.and_then(|value| self.map(value, &format!("the grants of {kind}"))) else {
            return grants;
        };
        for property in &object.properties {
            let name = super::reader::At { value: property.name.as_str(), at: property.name.range() };
            self.check_name(name, "the name of a grant");
            let what = format!("the grant {}", quoted(name.value));
            let Some(fields) = self.fields(&property.value, &what, known, required) else { continue };
            // Where the field is not required, what lacks it is for no workflow.
            let none = (required == 0).then(|| Workflows::Named(BTreeSet::new()));
            let workflows = fields.get("workflows").map(|value| self.workflows(value)).or(none);
            let read = read(self, &fields);
            if let (Some(workflows), Some(what)) = (workflows, read) {
                grants.insert(name.value.to_owned(), Granted { what, workflows });
            }
        }
        grants
    }

    fn workflows(&mut self, value: &Value<'_>) -> Workflows {
        const EXPECTED: &str = "the names of workflows, or \"*\" for every workflow";
        let none = Workflows::Named(BTreeSet::new());
        let Some(array) = self.array(value, "`workflows`", EXPECTED) else { return none };
        let names: Vec<_> = array
            .elements
            .iter()
            .filter_map(|element| self.text(element, "an entry of `workflows`", EXPECTED))
            .collect();
        if array.elements.is_empty() {
            self.error(array.range, "`workflows` is empty".to_owned(), EXPECTED.to_owned());
        }
        for name in names.iter().filter(|name| name.value != ALL && !is_name(name.value)) {
            let message = format!("an entry of `workflows` is {}", quoted(name.value));
            self.error(name.at, message, EXPECTED.to_owned());
        }
        let names: BTreeSet<String> =
            self.each_once(names, "`workflows`").into_iter().map(|name| name.value.to_owned()).collect();
        if names.contains(ALL) { Workflows::All } else { Workflows::Named(names) }
    }
}
