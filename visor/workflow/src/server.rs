//! What a check asks a server: a document that came over HTTP names functions and grants, and only the server knows them.

use super::plan::Access;

/// What a server has for a workflow.
#[derive(Clone, Copy)]
pub struct Server<'a> {
    /// Whether a function is registered.
    pub functions: &'a dyn Fn(&str) -> bool,
    /// Whether its operator grants something to the workflow; if not, why.
    pub grants: &'a dyn Fn(Wanted<'_>) -> Result<(), String>,
    /// The file is still to be deployed: functions may have images that are files, which are registered then, and inputs
    /// paths, which are left out.
    pub deploying: bool,
}

/// What a document asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted<'a> {
    /// A network by this name.
    Network(&'a str),
    /// Files by this name, for this, if it says.
    Files(&'a str, Option<Access>),
    /// A secret by this name.
    Secret(&'a str),
}
