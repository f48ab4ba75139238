//! The functions and workflows this server knows: in memory for invocations, on disk for the next start.
//!
//! ```text
//! PUT ─▶ checked ─▶ written and synced (one change at a time) ─▶ in the tables ─▶ acknowledged
//! POST ──────────────────────────────────────────────────────▶ looks up, never waits for a disk
//! ```
//!
//! A workflow names functions, not images: it runs whatever is registered under the name when an invocation begins.

pub(crate) mod documents;
pub(crate) mod entries;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::clock::now;
use crate::http::error::{ApiError, Blame};
use crate::ids::hex;
use crate::registry::documents::{check_document, check_host, mistaken};
use crate::registry::entries::{FunctionEntry, Kind, State};
use crate::store::atomic_file::{CorruptFile, ReadError};
use crate::store::error::StateError;
use crate::store::state_folder::StateFolder;
use monohull_domain::image::ImageError;
use monohull_domain::image::map::{LoadError, LoadedImage};
use monohull_engine::{Ready, cores};
use monohull_report::escape::shown;
use monohull_report::text::{quoted, suggestion};
use monohull_workflow::grants::Grants;
use monohull_workflow::plan::registered_name;
use monohull_workflow::{self as workflow, Mistake, Plan, Server};

/// A registered function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Bytes of its image.
    size: u64,
    entry: FunctionEntry,
    /// Checked and sealed: the bytes that were looked at are the bytes that run.
    image: Arc<LoadedImage>,
}

/// A registered workflow.
#[derive(Debug)]
pub(crate) struct Workflow {
    pub(crate) plan: Arc<Plan>,
    /// As it was sent.
    pub(crate) document: Bytes,
    /// With the images of its functions and what is granted to it; or what is missing.
    ready: Result<Arc<Ready>, Missing>,
}

/// What keeps a workflow from being run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missing {
    /// Names of functions.
    functions: Vec<String>,
    /// Grants, in sentences.
    grants: Vec<String>,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let functions =
            (!self.functions.is_empty()).then(|| format!("functions are not there: {}", self.functions.join(", ")));
        let missing: Vec<String> = functions.into_iter().chain(self.grants.iter().cloned()).collect();
        f.write_str(&missing.join("; "))
    }
}

impl Workflow {
    /// What can be run.
    pub(crate) fn ready(&self) -> Result<Arc<Ready>, ApiError> {
        self.ready.as_ref().cloned().map_err(|missing| {
            ApiError::invalid(Blame::Host, format!("the workflow `{}` cannot be run: {missing}", self.plan.name))
        })
    }
}

/// What a `PUT` did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    Created,
    Replaced,
}

/// All functions and workflows.
pub(crate) struct Registry {
    tables: RwLock<Tables>,
    /// Locked by each change, from its check to the change of the tables.
    state: Mutex<State>,
    corrupt_files: Vec<CorruptFile>,
    /// The longest a workflow may take.
    timeout: Duration,
}

#[derive(Default)]
struct Tables {
    grants: Arc<Grants>,
    functions: BTreeMap<String, Arc<Function>>,
    workflows: BTreeMap<String, Arc<Workflow>>,
}

impl Registry {
    /// Reads what an earlier server has kept. Corrupt files are moved away and reported, without effect on others; a
    /// file that could not be read is an error, and nothing is moved.
    pub(crate) fn open(folder: &Arc<StateFolder>, grants: Grants, timeout: Duration) -> Result<Registry, StateError> {
        let state = State::open(folder)?;
        let mut tables = Tables { grants: Arc::new(grants), ..Tables::default() };
        let (entries, mut corrupt_files) = state.entries(Kind::Function)?;
        for entry in entries {
            match restore(&state, &entry.name, &entry.content) {
                Ok(function) => {
                    tables.functions.insert(entry.name, Arc::new(function));
                }
                Err(ReadError::Corrupt(reason)) => corrupt_files.push(state.corrupt_file(&entry, reason)),
                Err(ReadError::Host(error)) => return Err(error),
            }
        }
        let (entries, more) = state.entries(Kind::Workflow)?;
        corrupt_files.extend(more);
        for entry in entries {
            // A function that was lost may come back, and a grant that was taken back be given again; its workflows wait.
            let server = Server { functions: &|_| true, grants: &|_| Ok(()), deploying: false };
            match check_document(&entry.name, &entry.content, &server, timeout) {
                Ok(plan) => tables.put_workflow(Arc::new(plan), entry.content.into()),
                Err(refusal) => corrupt_files.push(state.corrupt_file(&entry, refusal.error.message)),
            }
        }
        let images = tables.images();
        state.quarantine(&mut corrupt_files, &images)?;
        for file in &corrupt_files {
            tracing::error!(path = %shown(&file.path), reason = file.reason, "set aside");
        }
        state.sweep(&images)?;
        Ok(Registry { tables: RwLock::new(tables), state: Mutex::new(state), corrupt_files, timeout })
    }

    /// What was set aside at the start.
    pub(crate) fn corrupt_files(&self) -> &[CorruptFile] {
        &self.corrupt_files
    }

    /// Checks an image and registers it. Blocks: it reads every instruction and waits for the disk.
    pub(crate) fn put_function(&self, name: &str, bytes: &[u8]) -> Result<Put, ApiError> {
        check_name(Kind::Function, name)?;
        let image = Arc::new(LoadedImage::new(name, bytes).map_err(|error| refused(&error))?);
        let hash = image.hash().map_err(|error| ApiError::host(error.to_string()))?;
        let entry = FunctionEntry { image: hex(&hash), registered: now() };
        let content = serde_json::to_vec(&entry).map_err(|error| ApiError::monohull(error.to_string()))?;

        let mut state = self.change();
        state.put_image(&entry.image, bytes).map_err(ApiError::not_kept)?;
        if let Err(error) = state.put(Kind::Function, name, &content) {
            state.keep_image(&entry.image);
            return Err(ApiError::not_kept(error));
        }
        let function = Function { name: name.to_owned(), size: bytes.len() as u64, entry, image };
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let old = tables.functions.insert(name.to_owned(), Arc::new(function));
        tables.renew_users(name);
        let images = tables.images();
        drop(tables);
        sweep(&state, &images);
        Ok(if old.is_some() { Put::Replaced } else { Put::Created })
    }

    /// Checks a workflow and registers it. Blocks: it waits for the disk.
    pub(crate) fn put_workflow(&self, name: &str, document: Bytes) -> Result<Put, ApiError> {
        check_name(Kind::Workflow, name)?;
        let state = self.change();
        let plan = self.check_workflow(name, Some(name), &document)?;
        if plan.name != name {
            let message = format!("the document is called `{}`, the path says `{name}`", plan.name);
            return Err(ApiError::invalid(Blame::Client, message));
        }
        state.put(Kind::Workflow, name, &document).map_err(ApiError::not_kept)?;
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let known = tables.workflows.contains_key(name);
        tables.put_workflow(Arc::new(plan), document);
        Ok(if known { Put::Replaced } else { Put::Created })
    }

    /// The names of the functions, and the grants, as they are now. A document is checked against copies: checking takes as long
    /// as its sender likes, and a lock that was held meanwhile would stop every other request as soon as one waits to write.
    fn known(&self) -> (HashSet<String>, Arc<Grants>) {
        let tables = self.tables();
        (tables.functions.keys().cloned().collect(), tables.grants.clone())
    }

    /// Checks a workflow document against the functions there are, and what is granted to a workflow of this name.
    fn check_workflow(&self, file: &str, workflow: Option<&str>, document: &[u8]) -> Result<Plan, ApiError> {
        let (functions, grants) = self.known();
        let server = Server {
            functions: &|function| functions.contains(function),
            grants: &|wanted| grants.check(workflow, wanted),
            deploying: false,
        };
        check_document(file, document, &server, self.timeout)
    }

    /// Finds what is wrong with a workflow document that is to be deployed; nothing is registered. The first warnings if nothing is.
    pub(crate) fn validate(&self, document: &[u8]) -> Result<Vec<Mistake>, ApiError> {
        // Grants are for workflows by name, so that comes first. Without one the check says what is wrong.
        let named =
            serde_json::from_slice::<Value>(document).ok().and_then(|value| Some(value["name"].as_str()?.to_owned()));
        let name = named.filter(|name| workflow::is_name(name));
        let (functions, grants) = self.known();
        let server = Server {
            functions: &|function| functions.contains(function),
            grants: &|wanted| grants.check(name.as_deref(), wanted),
            deploying: true,
        };
        let file = format!("{}.json", name.as_deref().unwrap_or("workflow"));
        let checked = workflow::check_registered(Path::new(&file), document, &server);
        let warnings = workflow::first_mistakes(&checked.mistakes).0.into_iter().cloned().collect();
        check_host(&checked.into_plan().map_err(|error| mistaken(&error))?)?;
        Ok(warnings)
    }

    /// Grants something else from now on. What runs goes on with what it has.
    pub(crate) fn grant(&self, grants: Grants) {
        let _one_change = self.change();
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.grants = Arc::new(grants);
        let all: Vec<Arc<Workflow>> = tables.workflows.values().cloned().collect();
        for workflow in all {
            tables.put_workflow(workflow.plan.clone(), workflow.document.clone());
        }
    }

    /// Makes a workflow ready that is not registered. `name` is what its document is called in messages.
    pub(crate) fn prepare(&self, name: &str, document: &[u8]) -> Result<Arc<Ready>, ApiError> {
        let plan = Arc::new(self.check_workflow(name, None, document)?);
        let ready = self.tables().ready(None, &plan);
        ready.map_err(|missing| ApiError::conflict(format!("it was removed meanwhile: {missing}")))
    }

    /// Makes a workflow ready that was registered once, with the images that its functions had then, and what is granted to it now. `load`
    /// gives an image that is no registered function's any more.
    pub(crate) fn prepare_again(
        &self,
        name: &str,
        plan: &Arc<Plan>,
        images: &[(String, [u8; 32])],
        load: impl Fn(&str, &[u8; 32]) -> Result<LoadedImage, LoadError>,
    ) -> Result<Ready, String> {
        let (plan, known) = {
            let tables = self.tables();
            let plan = tables.grants.resolve(Some(name), plan).map_err(|missing| missing.join("; "))?;
            let known: Vec<_> = tables.functions.values().map(|function| function.image.clone()).collect();
            (plan, known)
        };
        let of = |function: &str| {
            let named = images.iter().find(|(name, _)| name == function);
            let (_, hash) = named.ok_or_else(|| format!("there is no image of its function {}", quoted(function)))?;
            match known.iter().find(|image| image.hash().is_ok_and(|known| known == *hash)) {
                Some(image) => Ok(image.clone()),
                None => {
                    let image = load(function, hash).map_err(|error| error.to_string())?;
                    match image.hash() {
                        Ok(read) if read != *hash => {
                            Err(format!("the image of its function {} was changed", quoted(function)))
                        }
                        _ => Ok(Arc::new(image)),
                    }
                }
            }
        };
        let images = plan.functions.iter().map(|function| of(&function.name)).collect::<Result<_, _>>()?;
        let carriers = plan.limits.carriers.unwrap_or_else(cores);
        Ok(Ready::of_parts(plan, images, carriers))
    }

    /// Removes a function that no workflow names. Blocks: it waits for the disk.
    pub(crate) fn remove_function(&self, name: &str) -> Result<(), ApiError> {
        let state = self.change();
        self.function(name)?;
        let users = self.tables().users(name);
        if !users.is_empty() {
            return Err(ApiError::conflict(format!("workflows use the function `{name}`: {}", users.join(", "))));
        }
        state.remove(Kind::Function, name).map_err(ApiError::not_kept)?;
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.functions.remove(name);
        let images = tables.images();
        drop(tables);
        sweep(&state, &images);
        Ok(())
    }

    /// Removes a workflow. What runs of it runs on. Blocks: it waits for the disk.
    pub(crate) fn remove_workflow(&self, name: &str) -> Result<(), ApiError> {
        let state = self.change();
        self.workflow(name)?;
        state.remove(Kind::Workflow, name).map_err(ApiError::not_kept)?;
        self.tables.write().unwrap_or_else(PoisonError::into_inner).workflows.remove(name);
        Ok(())
    }

    pub(crate) fn function(&self, name: &str) -> Result<Arc<Function>, ApiError> {
        let function = self.tables().functions.get(name).cloned();
        function.ok_or_else(|| unknown(Kind::Function, name, self.tables().functions.keys()))
    }

    pub(crate) fn workflow(&self, name: &str) -> Result<Arc<Workflow>, ApiError> {
        let workflow = self.tables().workflows.get(name).cloned();
        workflow.ok_or_else(|| unknown(Kind::Workflow, name, self.tables().workflows.keys()))
    }

    /// Whether this is the present version of a registered workflow.
    pub(crate) fn is_current(&self, workflow: &Arc<Ready>) -> bool {
        let tables = self.tables();
        let registered = tables.workflows.get(&workflow.plan().name).and_then(|known| known.ready.as_ref().ok());
        registered.is_some_and(|ready| Arc::ptr_eq(ready, workflow))
    }

    /// The workflows that name a function.
    pub(crate) fn users_of(&self, function: &str) -> Vec<String> {
        self.tables().users(function)
    }

    pub(crate) fn knows_workflow(&self, name: &str) -> bool {
        self.tables().workflows.contains_key(name)
    }

    /// How a function is shown.
    pub(crate) fn show_function(&self, function: &Function) -> Value {
        function.shown(&self.tables().users(&function.name))
    }

    /// How a workflow is shown in a list.
    fn show_workflow(workflow: &Workflow) -> Value {
        let plan = &workflow.plan;
        let missing = workflow.ready.as_ref().err().cloned().unwrap_or_default();
        json!({
            "name": plan.name,
            "functions": functions_named(plan).collect::<Vec<_>>(),
            "missing": missing.functions,
            "missing_grants": missing.grants,
            "steps": plan.steps.iter().map(|step| &step.name).collect::<Vec<_>>(),
            "inputs": plan.inputs.iter().map(|input| &input.slot).collect::<Vec<_>>(),
            "outputs": plan.outputs.iter().map(|output| &output.slot).collect::<Vec<_>>(),
        })
    }

    pub(crate) fn list_functions(&self) -> Value {
        let tables = self.tables();
        let mut users: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for workflow in tables.workflows.values() {
            // One document may name the same function twice.
            for function in functions_named(&workflow.plan).collect::<HashSet<_>>() {
                users.entry(function).or_default().push(workflow.plan.name.clone());
            }
        }
        let shown = |function: &Arc<Function>| function.shown(users.get(&*function.name).map_or(&[], Vec::as_slice));
        json!({ "functions": tables.functions.values().map(shown).collect::<Vec<_>>() })
    }

    pub(crate) fn list_workflows(&self) -> Value {
        let tables = self.tables();
        json!({ "workflows": tables.workflows.values().map(|w| Self::show_workflow(w)).collect::<Vec<_>>() })
    }

    fn tables(&self) -> RwLockReadGuard<'_, Tables> {
        // The tables are whole between any two statements.
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Function {
    /// As clients see it, with the workflows that name it.
    fn shown(&self, workflows: &[String]) -> Value {
        json!({
            "name": self.name,
            "image": format!("sha256:{}", self.entry.image),
            "bytes": self.size,
            "registered": self.entry.registered,
            "workflows": workflows,
        })
    }
}

impl Tables {
    fn put_workflow(&mut self, plan: Arc<Plan>, document: Bytes) {
        let ready = self.ready(Some(&plan.name), &plan);
        self.workflows.insert(plan.name.clone(), Arc::new(Workflow { plan, document, ready }));
    }

    /// A plan with its images and what is granted to a workflow of this name, or what is missing.
    fn ready(&self, workflow: Option<&str>, plan: &Arc<Plan>) -> Result<Arc<Ready>, Missing> {
        let named = || functions_named(plan).map(|name| (name, self.functions.get(name)));
        let functions: Vec<String> =
            named().filter(|(_, found)| found.is_none()).map(|(name, _)| name.to_owned()).collect();
        let plan = match (self.grants.resolve(workflow, plan), functions.is_empty()) {
            (Ok(plan), true) => plan,
            (resolved, _) => return Err(Missing { functions, grants: resolved.err().unwrap_or_default() }),
        };
        let images = named().filter_map(|(_, found)| Some(found?.image.clone())).collect();
        let carriers = plan.limits.carriers.unwrap_or_else(cores);
        Ok(Arc::new(Ready::of_parts(plan, images, carriers)))
    }

    /// Gives the workflows that name a function its new image.
    fn renew_users(&mut self, function: &str) {
        for name in self.users(function) {
            if let Some(workflow) = self.workflows.get(&name).cloned() {
                self.put_workflow(workflow.plan.clone(), workflow.document.clone());
            }
        }
    }

    /// The images that functions are.
    fn images(&self) -> HashSet<String> {
        self.functions.values().map(|function| function.entry.image.clone()).collect()
    }

    /// The workflows that name a function.
    fn users(&self, function: &str) -> Vec<String> {
        let users = self.workflows.values().filter(|workflow| functions_named(&workflow.plan).any(|f| f == function));
        users.map(|workflow| workflow.plan.name.clone()).collect()
    }
}

fn functions_named(plan: &Plan) -> impl Iterator<Item = &str> {
    plan.functions.iter().filter_map(|function| registered_name(&function.image))
}

/// A function as an entry has it. An image is checked again, because this server may know more than the one that kept it.
fn restore(state: &State, name: &str, content: &[u8]) -> Result<Function, ReadError> {
    let entry: FunctionEntry = serde_json::from_slice(content).map_err(ReadError::corrupt)?;
    if entry.image.len() != 64 || !entry.image.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(ReadError::corrupt("it does not name an image"));
    }
    let bytes = state.image(&entry.image).map_err(|trouble| match trouble {
        ReadError::Corrupt(reason) => ReadError::Corrupt(format!("its image: {reason}")),
        host @ ReadError::Host(_) => host,
    })?;
    let image = LoadedImage::new(name, &bytes).map_err(|error| match error {
        LoadError::Refused { .. } => ReadError::corrupt(error),
        LoadError::Read { .. } | LoadError::Seal { .. } => ReadError::Host(error.into()),
    })?;
    Ok(Function { name: name.to_owned(), size: bytes.len() as u64, entry, image: Arc::new(image) })
}

/// Unused images only take room; the next change tries again.
fn sweep(state: &State, images: &HashSet<String>) {
    if let Err(error) = state.sweep(images) {
        tracing::warn!(%error, "an image that is not needed any more could not be removed");
    }
}

fn check_name(kind: Kind, name: &str) -> Result<(), ApiError> {
    if workflow::is_name(name) {
        return Ok(());
    }
    let message =
        format!("the name of a {} is 1 to 63 letters, digits, `-` and `_`, not `-` or `_` first", kind.name());
    Err(ApiError::bad_request(message))
}

fn unknown<'n>(kind: Kind, name: &str, known: impl Iterator<Item = &'n String>) -> ApiError {
    let kind = kind.name();
    let hint = suggestion(name, known.map(String::as_str));
    ApiError::not_found(format!("no {kind} is called {}{hint}", quoted(name)))
}

/// An image that is not taken: the function's author has to act, unless the host has no room.
fn refused(error: &LoadError) -> ApiError {
    let message = error.to_string();
    match error {
        LoadError::Refused { source: ImageError::Forbidden { finding }, .. } => {
            ApiError::invalid(Blame::Function, message).with_finding(json!(finding))
        }
        LoadError::Refused { .. } => ApiError::invalid(Blame::Function, message),
        LoadError::Read { .. } | LoadError::Seal { .. } => ApiError::host(message),
    }
}
