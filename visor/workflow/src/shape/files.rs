//! The fields of a mount: which files a workflow sees, and where.

use std::path::PathBuf;

use jsonc_parser::ast::Value;
use jsonc_parser::common::{Range, Ranged};
use monohull_abi::layout;

use crate::bounds;
use crate::plan::{Access, Mount, MountSource};
use crate::reader::{self, At, Fields, Reader};
use crate::server::Wanted;
use monohull_report::text::quoted;

pub(super) const MOUNT: &[&str] = &["at", "memory", "image", "directory", "grant", "access"];
/// The fields of a mount that say what is there; it has one of them.
const SOURCES: &[&str] = &["memory", "image", "directory", "grant"];

impl Reader<'_> {
    pub(super) fn files(&mut self, value: &Value<'_>) -> Vec<Mount> {
        let Some(array) = self.array(value, "`files`", "an array of file systems") else { return Vec::new() };
        if array.elements.len() > bounds::MOUNTS_MAX {
            let message = format!("`files` has {} entries", array.elements.len());
            self.error(array.range, message, format!("at most {}", bounds::MOUNTS_MAX));
        }
        let (mut points, mut mounts) = (Vec::new(), Vec::new());
        for element in &array.elements {
            let Some(fields) = self.fields(element, "an entry of `files`", MOUNT, 1) else { continue };
            let at = fields.get("at").and_then(|value| self.mount_point(value));
            let source = self.source(element.range(), &fields);
            if let (Some(at), Some(source)) = (at, source) {
                points.push(at);
                mounts.push(Mount { point: at.value.to_owned(), source });
            }
        }
        self.each_once(points, "`files`");
        mounts
    }

    /// Reads what is at a mount point.
    fn source(&mut self, entry: Range, fields: &Fields<'_>) -> Option<MountSource> {
        let given: Vec<_> = SOURCES.iter().filter_map(|name| Some((*name, fields.get(name)?))).collect();
        let [(name, value)] = given[..] else {
            let has = if given.is_empty() { "no source" } else { "more than one source" };
            let expected = format!("one of {}", reader::list(SOURCES));
            self.error(entry, format!("an entry of `files` has {has}"), expected);
            return None;
        };
        let access = fields.get("access");
        match name {
            "memory" => {
                if let Some(access) = access {
                    let message = "`access` says nothing about files in memory".to_owned();
                    self.error(access.range(), message, "`access` with an `image` or a `directory`".to_owned());
                }
                let size = self.size(value, "`memory`", bounds::FILES_MIN, layout::ARENA_SIZE)?;
                Some(MountSource::Memory { size })
            }
            "image" => {
                const WORDS: &[&str] = &["read", "copy", "write"];
                let access = match access {
                    Some(value) => self.word(value, "`access`", "`read`, `copy` or `write`", WORDS)?,
                    None => Access::Copy,
                };
                Some(MountSource::Image { path: self.host_path(value, "`image`")?, access })
            }
            "grant" => {
                const WORDS: &[&str] = &["read", "copy", "write"];
                let access = match access {
                    Some(value) => Some(self.word(value, "`access`", "`read`, `copy` or `write`", WORDS)?),
                    None => None,
                };
                let grant = self.name(value, "`grant`")?;
                self.check_grant(grant, Wanted::Files(grant.value, access));
                Some(MountSource::Granted { grant: grant.value.to_owned(), access })
            }
            _ => {
                let access = match access {
                    Some(value) => self.word(value, "`access`", "`read` or `write`", &["read", "write"])?,
                    None => Access::Read,
                };
                if let (Access::Copy, Some(value)) = (access, fields.get("access")) {
                    self.error(value.range(), "`access` is `copy`".to_owned(), "`read` or `write`".to_owned());
                }
                let path = self.host_path(value, "`directory`")?;
                Some(MountSource::Directory { path, writable: access == Access::Write })
            }
        }
    }

    /// Reads a path on the host, which a server does not go to for a workflow.
    fn host_path(&mut self, value: &Value<'_>, what: &str) -> Option<PathBuf> {
        if self.registered.is_some() {
            let message = format!("{what} is on the host, and a server opens no files of it for a workflow");
            self.error(value.range(), message, "files in `memory`, or a `grant` of the server's operator".to_owned());
        }
        self.path(value, what)
    }

    /// Notes that a server does not grant what the file asks for.
    pub(super) fn check_grant(&mut self, name: At<&str>, wanted: Wanted<'_>) {
        if let Some(Err(why)) = self.registered.map(|server| (server.grants)(wanted)) {
            self.error(name.at, why, "what the server's operator grants to this workflow".to_owned());
        }
    }

    fn mount_point<'a>(&mut self, value: &'a Value<'a>) -> Option<At<&'a str>> {
        let expected = "an absolute path such as \"/data\", without `.`, `..` and doubled `/`";
        let point = self.text(value, "`at`", expected)?;
        if !is_mount_point(point.value) {
            self.error(point.at, format!("`at` is {}", quoted(point.value)), expected.to_owned());
        }
        Some(point)
    }
}

/// Whether a text is an absolute path in clean form.
fn is_mount_point(text: &str) -> bool {
    let Some(names) = text.strip_prefix('/') else { return false };
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    text.len() <= bounds::MOUNT_POINT_MAX && (names.is_empty() || names.split('/').all(is_name))
}
