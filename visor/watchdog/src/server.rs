//! Listening, connections, and the end.
//!
//! ```text
//! start: spawner forked ─ state read ─ listening ─ "ready" ─▶ … ─┬ SIGTERM ─▶ nothing new; what runs may end ─▶ exit
//!        (one thread)                                             │            (at most `drain`)
//!                                                                 └ idle ─▶ exit; what is due next is in the state folder
//! ```

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderName, HeaderValue};
use hyper::http::{Method, Request, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal as NixSignal;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{interval, sleep, timeout};

use crate::clock::Moment;
use crate::endpoints::invoke::INVOCATION_ID;
use crate::http::answer::Answer;
use crate::http::connection::{Stream, TimedStream, Transport};
use crate::http::error::ApiError;
use crate::http::request_body::Budget;
use crate::http::routes::{Call, Route, Routes};
use crate::http::tls::{HandshakeError, Tls};
use crate::http::trace::{CALL_ID, TRACEPARENT, call_id};
use crate::http::transit::{NoRoom, Transit};
use crate::http::{auth, head};
use crate::idle::NextDue;
use crate::invocations::admission::Admission;
use crate::invocations::history::History;
use crate::invocations::kept::KeptWorkers;
use crate::invocations::ledger::Ledger;
use crate::invocations::redact::Secrets;
use crate::invocations::residents::Residents;
use crate::invocations::templates::Templates;
use crate::invocations::workers::WorkerPool;
use crate::listener::{self, Listener};
use crate::log;
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::serve_error::ServeError;
use crate::service::Watchdog;
use crate::settings::{Listen, Settings, usual_reused_memory};
use crate::store::state_folder::StateFolder;
use crate::store::state_watch::StateWatch;
use crate::sweep::SWEEP;
use crate::task_tracker::TaskTracker;
use monohull_domain::keys;
use monohull_durable::StoreError;
use monohull_report::escape::shown;
use monohull_sys::{arenas, signals};
use monohull_worker::cgroup::Membership;
use monohull_worker::{self as worker, Spawner};
use monohull_workflow::grants::Grants;
use monohull_workflow::plan::ProcessUse;

/// Seconds from the request's acceptance to the answer's first byte.
const DURATION: HeaderName = HeaderName::from_static("x-duration-seconds");
/// Most bytes of a request's head, about: what one read brings more is still looked at.
const HEAD_MAX: usize = 32 << 10;
/// Most lines of a request's head.
const HEADERS_MAX: usize = 100;
/// The pause after a connection could not be accepted, for want of descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long answers may take to leave once everything has been cancelled.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves until a signal ends it, or until it is idle if that is asked for. To be called on the main thread before the program starts any other thread. `announce` is
/// called with the address once the service listens.
pub fn serve(settings: Settings, announce: impl FnOnce(&str)) -> Result<(), ServeError> {
    raise_file_limit()?;
    let passed = listener::passed(&settings.listen);
    let mut processes = worker::Settings::usual(settings.isolation)?;
    processes.groups = Membership::set_up(settings.cgroup)?;
    let isolation = keys::isolation(processes.keys);
    // Before there are threads, and before there is anything in memory that workflows should not inherit.
    let spawner = Spawner::start(&processes)?;
    // The spawner has one thread, so this one comes later.
    let _log = log::by_thread();
    let runtime = runtime(settings.threads)?;
    let done = runtime.block_on(async {
        // Handled, because the default action ends the process: a write beyond the limit then fails with an error instead.
        let _ = signal(SignalKind::from_raw(nix::libc::SIGXFSZ))?;
        // What can be refused without the state folder is looked at before that is made.
        let grants = settings.grants.as_deref().map(Grants::load).transpose()?.unwrap_or_default();
        // The spawner, and so every process that runs a workflow, is a copy of this one without the key.
        let may_be_tcp = !matches!(settings.listen, Listen::Unix(_));
        let tls = settings.tls.clone().filter(|_| may_be_tcp).map(Tls::open).transpose()?;
        let listener = Listener::open(&settings.listen, passed, tls.is_some());
        let (listener, folder) = if may_be_tcp {
            let listener = listener.await?;
            (listener, StateFolder::take(&settings.state)?)
        } else {
            // A socket may lie in the state folder.
            let folder = StateFolder::take(&settings.state)?;
            (listener.await?, folder)
        };
        // What the last server has said of its end holds no more.
        NextDue::forget(&folder)?;
        let secrets = Secrets::new(&grants);
        let registry = Registry::open(&folder, grants, settings.timeout)?;
        let ledger = Ledger::open(&folder, settings.state_key.as_deref())?;
        let owed = ledger.owed()?;
        let metrics = Metrics::new();
        metrics.isolation_is(isolation);
        let cgroup = processes.groups.describe();
        let kept_memory = settings.reused_memory.unwrap_or_else(usual_reused_memory);
        metrics.cgroup_is(&cgroup);
        let watchdog = Arc::new(Watchdog {
            routes: Routes::new(),
            history: History::new(settings.keep.clone()),
            admission: Admission::new(settings.concurrency, settings.queue),
            budget: Budget::new(settings.bodies),
            // One that is larger than all waits alone.
            waiting_reports: Budget::at_least_one(settings.keep.bytes),
            transit: Transit::new(settings.answers, settings.clients.pause),
            workers: WorkerPool::start(spawner, settings.prefork)?,
            kept: KeptWorkers::new(settings.prefork, kept_memory),
            residents: Residents::new(settings.residence),
            templates: Templates::new(settings.template_bytes, settings.concurrency),
            read_once: Default::default(),
            reuse: settings.process.map_or(processes.keys, |process| process == ProcessUse::Reused),
            callbacks: Semaphore::new(settings.callbacks_max),
            registry,
            ledger,
            state_watch: StateWatch::new(folder.clone()),
            secrets,
            metrics,
            work: Arc::default(),
            ending: AtomicBool::new(false),
            isolation,
            cgroup,
            tls,
            settings,
        });
        // Signals are handled before the address is announced, so that a caller that knows the address can end the server cleanly.
        // Without a file to read again the signal means what it means to other programs: the end.
        let reloads = watchdog.settings.grants.is_some() || watchdog.tls.is_some();
        let ends = Ends::new(!reloads && !signals::is_ignored(NixSignal::SIGHUP)?)?;
        let hangups = reloads.then(|| signal(SignalKind::hangup())).transpose()?;
        let address = listener.address(watchdog.tls.is_some());
        let (tls, cgroup) = (watchdog.tls.is_some(), &watchdog.cgroup);
        tracing::info!(address, tls, isolation, cgroup, state = %shown(&watchdog.settings.state), "listening");
        if watchdog.settings.token.is_none() && listener.is_open_to_others() {
            tracing::warn!(address, "there is no token: every client that reaches this address has all rights");
        }
        if !tls && listener.is_open_to_others() {
            tracing::warn!(address, "there is no TLS: the network can read and change all requests and answers");
        }
        if watchdog.settings.idle.is_some() && !matches!(watchdog.settings.listen, Listen::Passed) {
            tracing::warn!(
                "it ends when it is idle, and no connection starts it again: no service manager has passed its socket"
            );
        }
        announce(&address);
        tokio::spawn(watchdog.work.track().around(watchdog.clone().call_back_late(owed)));
        watchdog.serve(listener, ends, hangups, &folder).await
    });
    // Threads that wait for a disk, or for an idle worker, do not hold up the end.
    runtime.shutdown_timeout(Duration::from_millis(100));
    processes.groups.end();
    done
}

/// What runs the tasks. With one thread, the caller's runs them all. With more, it accepts connections, and the others run the tasks.
fn runtime(threads: usize) -> std::io::Result<Runtime> {
    let mut builder = match threads {
        ..=1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    // One for each of them, and one for all that wait for the kernel.
    arenas::limit(threads.max(1) + 1);
    builder.worker_threads(threads.max(1)).enable_all().build()
}

/// Every connection, every process and every large body takes a descriptor.
fn raise_file_limit() -> std::io::Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, most, most)?)
}

/// The connections there are.
struct Connections {
    /// One for each there may be.
    places: Arc<Semaphore>,
    /// Those that are open.
    open: Arc<TaskTracker>,
    /// Becomes true when they are to end.
    closing: watch::Receiver<bool>,
}

/// The signals that end the service.
struct Ends {
    term: Signal,
    int: Signal,
    /// Where it has nothing read again.
    hangup: Option<Signal>,
}

impl Ends {
    fn new(with_hangups: bool) -> std::io::Result<Ends> {
        let hangup = with_hangups.then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Ends { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())?, hangup })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
            Some(()) = async { self.hangup.as_mut()?.recv().await } => {}
        }
    }
}

impl Watchdog {
    /// Serves until a signal, until it is idle, or until no workflow can be run any more.
    async fn serve(
        self: Arc<Self>,
        listener: Listener,
        mut ends: Ends,
        hangups: Option<Signal>,
        folder: &StateFolder,
    ) -> Result<(), ServeError> {
        let (close, closing) = watch::channel(false);
        let most = self.settings.clients.connections;
        let connections = Connections { places: Arc::new(Semaphore::new(most)), open: Arc::default(), closing };
        // Goes on to the end: health checks are answered, and clients that ask about the past.
        let mut serving = pin!(async {
            tokio::select! {
                never = self.clone().accept(&listener, &connections) => match never {},
                never = self.sweep() => match never {},
                never = self.weigh_kept() => match never {},
                never = self.wake() => match never {},
                never = self.keep_schedules() => match never {},
                never = self.sync_files() => match never {},
                never = self.state_watch.run() => match never {},
                never = self.watch_files(hangups) => match never {},
            }
        });
        let over = tokio::select! {
            never = &mut serving => match never {},
            // No connection is accepted from here on: those that come wait in the socket for the next server.
            () = self.idle(&connections.open, folder) => {
                // What they stay with is in the state folder.
                self.residents.clear();
                self.sync_files_once().await;
                return Ok(());
            }
            () = ends.next() => Ok(()),
            why = self.workers.over() => Err(ServeError::NoProcesses(why)),
        };
        self.ending.store(true, Ordering::SeqCst);
        // Those who wait for an end are answered now.
        self.ledger.wake_all();
        self.kept.clear();
        self.residents.clear();
        tracing::info!(limit = ?self.settings.drain, "ending: no new work is taken");
        tokio::select! {
            never = &mut serving => match never {},
            _ = timeout(self.settings.drain, self.work.wait_idle()) => {}
            // A second signal ends the wait.
            () = ends.next() => {}
        }
        self.history.cancel_all();
        let _ = timeout(LAST_ANSWERS, self.work.wait_idle()).await;
        close.send_replace(true);
        let _ = timeout(LAST_ANSWERS, connections.open.wait_idle()).await;
        self.sync_files_once().await;
        tracing::info!("ended");
        over
    }

    /// Reads certificate, key and grants again at each SIGHUP.
    async fn watch_files(self: &Arc<Self>, signals: Option<Signal>) -> Infallible {
        let Some(mut signals) = signals else {
            return std::future::pending().await;
        };
        loop {
            if signals.recv().await.is_none() {
                return std::future::pending().await;
            }
            if self.tls.is_some() {
                self.renew_tls().await;
            }
            if let Some(path) = self.settings.grants.clone() {
                self.renew_grants(path).await;
            }
        }
    }

    /// Reads certificate and key again. If they are wrong, those from before stay.
    async fn renew_tls(self: &Arc<Self>) {
        let watchdog = self.clone();
        match self.blocking(move |_| Ok(watchdog.tls.as_ref().map_or(Ok(()), Tls::reload))).await {
            Ok(Ok(())) => tracing::info!("the TLS certificate and key were read again"),
            Ok(Err(error)) => tracing::error!(%error, "the TLS certificate and key stay as they were"),
            Err(refusal) => {
                tracing::error!(error = refusal.error.message, "the TLS certificate and key stay as they were");
            }
        }
    }

    /// Reads the grants file again. If it is wrong, what was granted before stays.
    async fn renew_grants(self: &Arc<Self>, path: PathBuf) {
        let watchdog = self.clone();
        let read = self.blocking(move |registry| {
            let grants = Grants::load(&path).inspect(|grants| watchdog.secrets.add(grants));
            Ok(grants.map(|grants| registry.grant(grants)))
        });
        match read.await {
            Ok(Ok(())) => {
                // What goes on from here on does so with the new grants and secrets.
                self.count_ended(self.residents.clear());
                tracing::info!("the grants file was read again");
            }
            Ok(Err(error)) => tracing::error!(%error, "the grants stay as they were"),
            Err(refusal) => tracing::error!(error = refusal.error.message, "the grants stay as they were"),
        }
    }

    /// Brings files to the disk that no commit has waited for: every few seconds, and when there are many.
    async fn sync_files(self: &Arc<Self>) -> Infallible {
        let mut ticks = interval(SWEEP);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.sync_files_once().await,
                () = self.ledger.many_unsynced() => self.sync_files_by(Ledger::sync_files_if_many).await,
            }
        }
    }

    async fn sync_files_once(self: &Arc<Self>) {
        self.sync_files_by(Ledger::sync_files).await;
    }

    async fn sync_files_by(self: &Arc<Self>, sync: fn(&Ledger) -> Result<(), StoreError>) {
        let watchdog = self.clone();
        if let Ok(Err(error)) = spawn_blocking(move || sync(&watchdog.ledger)).await {
            tracing::warn!(%error, "files of checkpoints are not on the disk yet");
        }
    }

    /// Takes connections, as many at a time as there may be.
    async fn accept(self: Arc<Self>, listener: &Listener, connections: &Connections) -> Infallible {
        loop {
            let place = connections.places.clone().acquire_owned().await.expect("the semaphore is never closed");
            match listener.accept().await {
                Ok(stream) => {
                    let guards = (place, connections.open.track(), self.metrics.connected());
                    let (stream, closing) = (Arc::new(stream), connections.closing.clone());
                    let wire = TimedStream::new(stream.clone(), self.settings.clients.clone());
                    // Futures of their own: a plain connection takes no memory for what TLS needs.
                    match *stream {
                        Stream::Tcp(_) if self.tls.is_some() => {
                            tokio::spawn(self.clone().serve_tls(stream, wire, guards, closing));
                        }
                        Stream::Tcp(_) => {
                            tokio::spawn(self.clone().serve_connection(stream, wire, Transport::Http, guards, closing));
                        }
                        Stream::Unix(_) => {
                            tokio::spawn(self.clone().serve_connection(stream, wire, Transport::Unix, guards, closing));
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Agrees on keys with a client, in the time that it also has for the head of a request, and answers its requests. It has
    /// its place among the connections from the beginning.
    async fn serve_tls(
        self: Arc<Self>,
        stream: Arc<Stream>,
        wire: TimedStream,
        guards: impl Send + 'static,
        mut closing: watch::Receiver<bool>,
    ) {
        let Some(tls) = &self.tls else { return };
        let agreed = tokio::select! {
            agreed = tls.accept(&stream, wire, self.settings.clients.head) => agreed,
            () = async { drop(closing.wait_for(|closing| *closing).await) } => return,
        };
        let error = match agreed {
            Ok(wire) => return self.clone().serve_connection(stream, wire, Transport::Https, guards, closing).await,
            Err(error) => error,
        };
        let Some(reason) = error.reason() else { return };
        self.metrics.no_handshake(reason);
        tracing::info!(peer = stream.peer().map(tracing::field::display), reason, %error, "TLS handshake");
        if matches!(error, HandshakeError::Http) {
            let wire = TimedStream::new(stream.clone(), self.settings.clients.clone());
            self.clone().serve_connection(stream, wire, Transport::HttpForHttps, guards, closing).await;
        }
    }

    /// Answers all requests of one connection, in their order.
    async fn serve_connection<W: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        self: Arc<Self>,
        stream: Arc<Stream>,
        wire: W,
        way: Transport,
        _guards: impl Send + 'static,
        mut closing: watch::Receiver<bool>,
    ) {
        let service = service_fn(|request| {
            let (watchdog, stream) = (self.clone(), stream.clone());
            // What has begun is to be finished before the server ends: a body that arrives, an answer that is sent.
            let guard = self.work.track();
            async move {
                Ok::<_, Infallible>(watchdog.respond(request, stream, way).await.map(|answer| answer.sent_under(guard)))
            }
        });
        let mut connection = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(self.settings.clients.head)
                // Whether a client has gone away is decided by `Stream::gone`.
                .half_close(true)
                .max_buf_size(HEAD_MAX)
                .max_headers(HEADERS_MAX)
                .serve_connection(TokioIo::new(wire), service)
        );
        let served = tokio::select! {
            served = &mut connection => served,
            () = async { drop(closing.wait_for(|closing| *closing).await) } => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, peer = stream.peer().map(tracing::field::display), "connection");
        }
    }

    /// Answers one request of any kind.
    async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        stream: Arc<Stream>,
        way: Transport,
    ) -> Response<Answer> {
        let accepted = Moment::now();
        let call_id = call_id(request.headers());
        let method = request.method().clone();
        let found = self.routes.find(&method, request.uri().path());
        let route = found.as_ref().map(|(route, ..)| *route).ok();
        let readable = head::check(&request);
        let ambiguous = readable.is_err();
        let answered = async {
            readable?;
            if way == Transport::HttpForHttps {
                return Err(ApiError::bad_request("this port expects TLS: its addresses begin with https://"));
            }
            if !route.is_some_and(Route::is_open) {
                auth::check(self.settings.token.as_ref(), request.method(), request.headers(), way)?;
            }
            let (route, name, slot) = found?;
            let call = Call { accepted, route, name, slot, request, stream: stream.clone() };
            self.answer(call).await
        };
        let refused = |refusal: ApiError| {
            let (kind, error) = (&*refusal.error.kind, &*refusal.error.message);
            let (call_id, status) = (call_id.as_ref().ok().and_then(Option::as_ref), refusal.status.as_u16());
            tracing::info!(call_id, route = route.map(Route::pattern), status, kind, error, "refused");
            refusal.into_response()
        };
        let mut response = answered.await.unwrap_or_else(refused);
        let is_always_answered = route.is_some_and(Route::is_always_answered);
        // What is said of a change is short, and is said in any case: whether it was made must not be in doubt.
        let is_told = !method.is_safe() && !response.headers().contains_key(INVOCATION_ID);
        // To HEAD no byte of it is sent.
        if !is_always_answered
            && !is_told
            && method != Method::HEAD
            && let Err(NoRoom) = self.transit.begin(&mut response, &stream)
        {
            response = without_room(response, refused);
        }
        let seconds = format!("{:.6}", accepted.begin.elapsed().as_secs_f64());
        let headers = response.headers_mut();
        headers.extend(HeaderValue::try_from(seconds).ok().map(|value| (DURATION, value)));
        if let (Ok(Some(id)), false) = (call_id, headers.contains_key(CALL_ID)) {
            headers.extend(HeaderValue::try_from(id).ok().map(|value| (CALL_ID, value)));
        }
        if ambiguous || way == Transport::HttpForHttps || self.is_ending() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let status = response.status();
        debug_assert!(
            // A function answers with any status.
            status.is_success()
                || route.is_none_or(|route| route == Route::Http || route.refusals(&method).any(|code| status == code)),
            "{method} {route:?} is answered {status}, which is not among its codes"
        );
        self.metrics.answered(route.map_or("none", Route::pattern), status.as_u16());
        response
    }
}

/// What is answered instead of an answer that there is no room for: what has gone wrong, without the report, or that there is none. What its invocation is
/// called is answered all the same.
fn without_room(mut response: Response<Answer>, refused: impl Fn(ApiError) -> Response<Answer>) -> Response<Answer> {
    let own = response.extensions_mut().remove::<ApiError>();
    let headers = response.headers();
    let id = headers.get(INVOCATION_ID).and_then(|id| id.to_str().ok());
    let mut short = match own {
        Some(own) => own.into_response(),
        None => refused(id.map_or_else(ApiError::answers_full, ApiError::answers_full_after)),
    };
    let names = [INVOCATION_ID, CALL_ID, TRACEPARENT].into_iter();
    short.headers_mut().extend(names.filter_map(|name| headers.get(&name).cloned().map(|value| (name, value))));
    short
}
