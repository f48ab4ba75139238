//! What has started an invocation, what it has started, and what it could not send or start.

use super::{Lost, Sqlite};
use crate::{Child, InvocationId, MetaError};

/// The invocations around another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Family {
    /// What has started it, and its name there.
    pub started_by: Option<(InvocationId, String)>,
    /// What it has started.
    pub children: Vec<Child>,
    /// What it could not send, start or cancel.
    pub undelivered: Vec<Lost>,
}

impl Sqlite {
    /// What is known around an invocation.
    pub fn family(&self, id: &InvocationId) -> Result<Family, MetaError> {
        let (started_by, children) = (self.started_by(id)?, self.children(id)?);
        Ok(Family { started_by, children, undelivered: self.undelivered(id)? })
    }
}
