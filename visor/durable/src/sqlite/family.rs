//! What has started an invocation, what it has started, and what it could not send or start.

use super::Sqlite;
use crate::{Children, Family, InvocationId, MetaError};

impl Sqlite {
    /// What is known around an invocation.
    pub fn family(&self, id: &InvocationId) -> Result<Family, MetaError> {
        Children::family(self, id)
    }
}
