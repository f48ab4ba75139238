//! An entry of a network's list `https`: a host, what is added to requests for it, and the steps that may use it.

use hyper::header::{HeaderName, HeaderValue};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::head;
use monohull_host_files::input;

/// Virtual addresses, one for each entry. They are of the range for benchmarks of devices (RFC 2544), which leads nowhere on
/// the public network; no entry of a list of addresses may cover them where there are entries of `https`.
pub const VIRTUAL_RANGE: Ipv4Net = match Ipv4Net::new(Ipv4Addr::new(198, 19, 255, 0), 24) {
    Ok(range) => range,
    Err(_) => panic!("a prefix of 24 bits"),
};
/// The address of the function's own end of such a connection.
pub const LOCAL_END: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 19, 255, 254)), 0);
/// The most entries of one network.
pub const MOST_ORIGINS: usize = 128;
/// The port of plain HTTP, which functions may connect to whatever the port of the host is.
const HTTP_PORT: u16 = 80;
/// The longest value that is read from a file.
const VALUE_MAX: u64 = 16 << 10;

/// A host that functions may reach over HTTPS.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// Its name, in lower case.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Headers that requests get on their way. A worker has none of them: they are not serialized.
    #[serde(skip)]
    pub headers: Vec<OriginHeader>,
    /// The steps that may use it; all if there is no list.
    pub steps: Option<Vec<String>>,
}

/// A header that is added to requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OriginHeader {
    /// Its name, in lower case.
    pub name: String,
    /// What its value begins with.
    pub prefix: String,
    /// Where the rest of its value comes from.
    pub source: HeaderSource,
}

/// Where the value of a header comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeaderSource {
    /// The value itself.
    Value(HiddenText),
    /// An environment variable of the process above the worker, read when the run starts.
    Environment(String),
    /// A file, read when the run starts, without the end of its last line.
    File(PathBuf),
    /// A secret of a grants file, by name. No run has any: reading the grants puts the value in its place.
    Secret(String),
}

/// Text that is not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct HiddenText(pub String);

impl fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HiddenText")
    }
}

/// A configured header whose value cannot be had. No message shows a value.
#[derive(Debug, thiserror::Error)]
#[error("the header `{header}` for {host}: {why}")]
pub struct HeaderError {
    host: String,
    header: String,
    why: ValueError,
}

/// Why a value cannot be had.
#[derive(Debug, thiserror::Error)]
enum ValueError {
    #[error("there is no environment variable `{0}`")]
    NoVariable(String),
    #[error("the environment variable `{0}` is not UTF-8")]
    NotText(String),
    #[error("the file {path} cannot be read: {source}")]
    File { path: String, source: std::io::Error },
    #[error("its value is a secret `{0}` of a server's operator, and this run is not a server's")]
    Secret(String),
    #[error("its value holds characters that no header may have")]
    Characters,
}

impl Origin {
    /// Whether instances of a step may use it.
    pub fn admits(&self, step: &str) -> bool {
        self.steps.as_ref().is_none_or(|steps| steps.iter().any(|name| name == step))
    }

    /// The virtual address of the entry at this place of the list.
    pub fn address(place: usize) -> IpAddr {
        Ipv4Addr::from_bits(VIRTUAL_RANGE.network().to_bits() + 1 + place as u32).into()
    }

    /// The place of the entry with a virtual address.
    pub fn place(address: IpAddr) -> Option<usize> {
        match address {
            IpAddr::V4(address) if VIRTUAL_RANGE.contains(&address) => {
                (address.to_bits() - VIRTUAL_RANGE.network().to_bits()).checked_sub(1).map(|place| place as usize)
            }
            _ => None,
        }
    }

    /// Relative paths count from a folder from here on.
    pub(crate) fn in_folder(&mut self, folder: &Path) {
        for header in &mut self.headers {
            if let HeaderSource::File(path) = &mut header.source {
                *path = folder.join(&*path);
            }
        }
    }

    /// Whether functions may connect to this port of its virtual address.
    pub(super) fn answers_at(&self, port: u16) -> bool {
        port == HTTP_PORT || port == self.port
    }

    /// What stands in the `Host` of requests.
    pub(super) fn authority(&self) -> String {
        match self.port {
            443 => self.host.clone(),
            port => format!("{}:{port}", self.host),
        }
    }

    /// Reads the values of its headers.
    pub(super) fn header_values(&self) -> Result<Vec<(HeaderName, HeaderValue)>, HeaderError> {
        let read = |header: &OriginHeader| {
            header.read().map_err(|why| HeaderError { host: self.host.clone(), header: header.name.clone(), why })
        };
        self.headers.iter().map(read).collect()
    }
}

impl OriginHeader {
    /// Whether its value, if it is known, is one that a header can have.
    pub fn is_valid(&self) -> bool {
        !matches!(self.source, HeaderSource::Value(_)) || self.read().is_ok()
    }

    fn read(&self) -> Result<(HeaderName, HeaderValue), ValueError> {
        let name = HeaderName::from_bytes(self.name.as_bytes()).map_err(|_| ValueError::Characters)?;
        let value = match &self.source {
            HeaderSource::Value(HiddenText(value)) => value.clone(),
            HeaderSource::Environment(variable) => std::env::var(variable).map_err(|error| match error {
                std::env::VarError::NotPresent => ValueError::NoVariable(variable.clone()),
                std::env::VarError::NotUnicode(_) => ValueError::NotText(variable.clone()),
            })?,
            HeaderSource::File(path) => read_line(path)?,
            HeaderSource::Secret(name) => return Err(ValueError::Secret(name.clone())),
        };
        let whole = format!("{}{value}", self.prefix);
        let mut value = HeaderValue::from_str(&whole).map_err(|_| ValueError::Characters)?;
        value.set_sensitive(true);
        Ok((name, value))
    }
}

/// The content of a file, without the end of its last line.
fn read_line(path: &Path) -> Result<String, ValueError> {
    let failed = |source| ValueError::File { path: monohull_report::escape::shown(path).to_string(), source };
    let bytes = input::read(path, VALUE_MAX).map_err(|error| failed(error.into()))?;
    let text = String::from_utf8(bytes).map_err(|_| ValueError::Characters)?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// Whether a workflow may have a header of this name added: it is a name, and the relay does not set it itself.
pub fn is_configurable(name: &str) -> bool {
    HeaderName::from_bytes(name.as_bytes()).is_ok_and(|name| !head::is_own(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(headers: Vec<OriginHeader>) -> Origin {
        Origin { host: "api.example".to_owned(), port: 443, headers, steps: Some(vec!["charge".to_owned()]) }
    }

    fn header(source: HeaderSource) -> OriginHeader {
        OriginHeader { name: "authorization".to_owned(), prefix: "Bearer ".to_owned(), source }
    }

    fn value(text: &str) -> HeaderSource {
        HeaderSource::Value(HiddenText(text.to_owned()))
    }

    #[test]
    fn each_entry_has_an_address_of_its_own() {
        for place in [0, 1, MOST_ORIGINS - 1] {
            assert_eq!(Origin::place(Origin::address(place)), Some(place));
            assert_ne!(Origin::address(place), LOCAL_END.ip());
        }
        for other in ["198.19.255.0", "198.19.254.255", "198.20.0.0", "::1"] {
            assert_eq!(Origin::place(other.parse().expect("an address")), None, "{other}");
        }
    }

    #[test]
    fn a_worker_is_sent_no_headers_and_their_values_are_not_shown() {
        let origin = origin(vec![header(value("hunter2hunter2"))]);
        let sent: Origin =
            postcard::from_bytes(&postcard::to_extend(&origin, Vec::new()).expect("packed")).expect("unpacked");
        assert_eq!(sent, Origin { headers: Vec::new(), ..origin.clone() });
        let packed = postcard::to_extend(&origin, Vec::new()).expect("packed");
        assert!(!packed.windows(7).any(|bytes| bytes == b"hunter2"));
        assert!(!format!("{origin:?}").contains("hunter2"));
        assert!(!format!("{:?}", origin.header_values().expect("a value")).contains("hunter2"));
    }

    #[test]
    fn values_come_from_the_source_of_the_entry_or_the_error_names_it() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "hunter2\n").expect("written");
        let read = |source| origin(vec![header(source)]).header_values();
        let values = read(HeaderSource::File(file.path().to_owned())).expect("a value");
        assert_eq!(values[0].1, "Bearer hunter2");
        assert_eq!(read(value("x")).expect("a value")[0].0, "authorization");
        for (source, words) in [
            (HeaderSource::Environment("NO_SUCH_VARIABLE".to_owned()), "NO_SUCH_VARIABLE"),
            (HeaderSource::File("/no/such/file".into()), "/no/such/file"),
            (HeaderSource::Secret("pay".to_owned()), "`pay`"),
            (value("a\r\nx: b"), "characters"),
        ] {
            let error = read(source).expect_err("no value").to_string();
            assert!(error.starts_with("the header `authorization` for api.example: "), "{error}");
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn steps_off_the_list_are_not_admitted() {
        let listed = origin(Vec::new());
        assert!(listed.admits("charge"));
        assert!(!listed.admits("charge2"));
        assert!(Origin { steps: None, ..listed }.admits("any"));
    }

    #[test]
    fn headers_for_framing_and_routing_cannot_be_configured() {
        for name in ["authorization", "X-Api-Key", "cookie", "accept"] {
            assert!(is_configurable(name), "{name}");
        }
        for name in ["host", "Content-Length", "transfer-encoding", "connection", "upgrade", "te", "a b", "", "x:"] {
            assert!(!is_configurable(name), "{name}");
        }
    }
}
