//! `fields`: the headers of requests and answers.
//!
//! Names are kept in lower case. Fields that belong to a message cannot be changed; what a program gets of them is a copy.

use super::super::{Caller, State, resource};
use super::syntax::{is_token, is_value};
use super::types::HeaderError;
use alloc::string::String;
use alloc::vec::Vec;
use core::result::Result as Answer;
use wasmtime::Result;
use wasmtime::component::{LinkerInstance, Resource};

/// Names of fields that are about a connection, or that are made of other parts of a message: programs neither get nor set them.
const NOT_THEIRS: [&str; 9] = [
    "connection",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// Names, each with a value.
#[derive(Clone, Default)]
pub(super) struct Fields {
    entries: Vec<(String, Vec<u8>)>,
    is_fixed: bool,
}

impl Fields {
    /// Those of a message that has come: all but the ones that programs do not get.
    pub(super) fn of_message<'m>(fields: impl Iterator<Item = (&'m str, &'m [u8])>) -> Fields {
        let lower = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()));
        Fields { entries: lower.filter(|(name, _)| !is_not_theirs(name)).collect(), is_fixed: true }
    }

    /// The same, not to be changed from here on.
    pub(super) fn fixed(self) -> Fields {
        Fields { is_fixed: true, ..self }
    }

    pub(super) fn entries(&self) -> &[(String, Vec<u8>)] {
        &self.entries
    }

    /// The values of a name, in their order.
    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = &Vec<u8>> {
        self.entries.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Whether fields of this name may be changed; the name as it is kept.
    fn changing(&self, name: &str) -> Answer<String, HeaderError> {
        if self.is_fixed {
            return Err(HeaderError::Immutable);
        }
        if !is_token(name.as_bytes()) {
            return Err(HeaderError::InvalidSyntax);
        }
        let name = name.to_ascii_lowercase();
        if is_not_theirs(&name) { Err(HeaderError::Forbidden) } else { Ok(name) }
    }

    fn append(&mut self, name: &str, value: Vec<u8>) -> Answer<(), HeaderError> {
        let name = self.changing(name)?;
        if !is_value(&value) {
            return Err(HeaderError::InvalidSyntax);
        }
        self.entries.push((name, value));
        Ok(())
    }

    fn delete(&mut self, name: &str) -> Answer<(), HeaderError> {
        let name = self.changing(name)?;
        self.entries.retain(|(other, _)| *other != name);
        Ok(())
    }

    fn set(&mut self, name: &str, values: Vec<Vec<u8>>) -> Answer<(), HeaderError> {
        if !values.iter().all(|value| is_value(value)) {
            return self.changing(name).and(Err(HeaderError::InvalidSyntax));
        }
        self.delete(name)?;
        values.into_iter().try_for_each(|value| self.append(name, value))
    }
}

fn is_not_theirs(name: &str) -> bool {
    NOT_THEIRS.contains(&name)
}

/// A list of fields as programs pass it.
type Entries = Vec<(String, Vec<u8>)>;

pub(super) fn link(types: &mut LinkerInstance<'_, State>) -> Result<()> {
    resource::<Fields>(types, "fields")?;
    types.func_wrap("[constructor]fields", |mut caller: Caller<'_>, (): ()| {
        Ok((caller.data_mut().table.push(Fields::default())?,))
    })?;
    types.func_wrap("[static]fields.from-list", |mut caller: Caller<'_>, (entries,): (Entries,)| {
        let mut fields = Fields::default();
        let made = entries.into_iter().try_for_each(|(name, value)| fields.append(&name, value));
        Ok((match made {
            Ok(()) => Ok(caller.data_mut().table.push(fields)?),
            Err(error) => Err(error),
        },))
    })?;
    types.func_wrap("[method]fields.get", |caller: Caller<'_>, (this, name): (Resource<Fields>, String)| {
        Ok((caller.data().table.get(&this)?.values(&name).cloned().collect::<Vec<_>>(),))
    })?;
    types.func_wrap("[method]fields.has", |caller: Caller<'_>, (this, name): (Resource<Fields>, String)| {
        Ok((caller.data().table.get(&this)?.values(&name).next().is_some(),))
    })?;
    types.func_wrap(
        "[method]fields.set",
        |mut caller: Caller<'_>, (this, name, values): (Resource<Fields>, String, Vec<Vec<u8>>)| {
            Ok((caller.data_mut().table.get_mut(&this)?.set(&name, values),))
        },
    )?;
    types.func_wrap("[method]fields.delete", |mut caller: Caller<'_>, (this, name): (Resource<Fields>, String)| {
        Ok((caller.data_mut().table.get_mut(&this)?.delete(&name),))
    })?;
    types.func_wrap(
        "[method]fields.append",
        |mut caller: Caller<'_>, (this, name, value): (Resource<Fields>, String, Vec<u8>)| {
            Ok((caller.data_mut().table.get_mut(&this)?.append(&name, value),))
        },
    )?;
    types.func_wrap("[method]fields.entries", |caller: Caller<'_>, (this,): (Resource<Fields>,)| {
        Ok((caller.data().table.get(&this)?.entries().to_vec(),))
    })?;
    types.func_wrap("[method]fields.clone", |mut caller: Caller<'_>, (this,): (Resource<Fields>,)| {
        let table = &mut caller.data_mut().table;
        let copy = Fields { is_fixed: false, ..table.get(&this)?.clone() };
        Ok((table.push(copy)?,))
    })
}
