// The operator's page. Whatever comes from a function is put in place as text, never as markup.
"use strict";

const REFRESH_MS = 2000;
const GANTT_ROWS = 400;
// Invocations that are asked for at a time.
const PAGE = 100;
// Of what an invocation has published: names, and characters of each text.
const PUBLISHED_NAMES = 100;
const PUBLISHED_TEXT = 500;

const main = document.getElementById("main");
const health = document.getElementById("health");
const login = document.getElementById("login");
const filter = document.getElementById("filter");
const words = document.getElementById("words");
const workflowField = document.getElementById("workflow");
const statusField = document.getElementById("status");

// An element with attributes and children; strings become text.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.flat().map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

function table(heads, rows) {
  const cell = (tag, value) => make(tag, typeof value === "number" ? { class: "number" } : {}, value);
  return make("table", {},
    make("thead", {}, make("tr", {}, heads.map((head) => make("th", {}, head)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((value) => cell("td", value))))));
}

function time(us) {
  if (us === undefined) return "";
  if (us < 10e3) return `${us} µs`;
  if (us < 10e6) return `${(us / 1e3).toFixed(1)} ms`;
  const seconds = us / 1e6;
  if (seconds < 600) return `${seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(1)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86400).toFixed(1)} d`;
}

// Date and time, in the order of their size, so that they sort as text.
function moment(ms) {
  const two = (number) => String(number).padStart(2, "0");
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
    `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

async function send(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  return fetch(path, { ...options, headers });
}

async function ask(path) {
  const answer = await send(path);
  login.hidden = answer.status !== 401;
  const type = answer.headers.get("content-type") || "";
  const body = type.startsWith("application/json") ? await answer.json() : await answer.text();
  if (!answer.ok && path !== "/healthz") throw new Error(body.error ? body.error.message : answer.statusText);
  return body;
}

async function showHealth() {
  const state = await ask("/healthz");
  const parts = [`version ${state.version}`, `isolation ${state.isolation}`, state.status,
    `${state.running} running`, `${state.queued} queued`, `${state.idle_workers} ready`];
  if (state.trouble) parts.push(state.trouble);
  if (state.damaged.length) parts.push(`${state.damaged.length} damaged entries set aside`);
  health.textContent = parts.join(" · ");
}

// What of an invocation the words of the filter are looked for in.
function matches(i, wanted) {
  const text = [i.workflow, i.call_id, i.id, i.mode, i.status, i.error_kind || ""].join(" ").toLowerCase();
  return wanted.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

// What a durable invocation waits for, and until when.
function waits(i) {
  return i.waiting_for.map((wait) => `${wait.step}[${wait.instance}] ${wait.what}` +
    (wait.until ? ` until ${wait.until}` : "")).join(", ");
}

function goesOn(i) {
  if (i.status === "paused") return i.reason || "by hand";
  return i.due || (i.waiting_for.some((wait) => wait.event) ? "with an event" : "");
}

// A button that asks the server to do something, and shows the invocation as it is then, or why that cannot be done.
function order(text, path, said, body) {
  const button = make("button", { type: "button" }, text);
  button.addEventListener("click", () => command(path, said, body));
  return button;
}

async function command(path, said, body) {
  said.textContent = "";
  try {
    const answer = await send(path, { method: "POST", ...(body ? { body: JSON.stringify(body) } : {}) });
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    document.activeElement.blur();
    await show();
  } catch (error) {
    said.textContent = error.message;
  }
}

const LIVING = ["pending", "running", "suspended", "paused"];

// How many pages of the list were asked for, and by which filter.
let pages = 1;
let pagesOf = "";

// The newest invocations that the server finds: so many pages of them, and whether there are more.
async function list(query, count) {
  const invocations = [];
  let cursor = "";
  for (let page = 0; page < count && cursor !== null; page++) {
    const answer = await ask(`/invocations?limit=${PAGE}${query}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    invocations.push(...answer.invocations);
    cursor = answer.next_cursor;
  }
  return { invocations, more: cursor !== null };
}

// The choice of workflows, unless it is being made.
function offer(names) {
  const current = [...workflowField.options].slice(1).map((option) => option.value);
  if (document.activeElement === workflowField || String(current) === String(names)) return;
  const chosen = workflowField.value;
  workflowField.replaceChildren(make("option", { value: "" }, "all"), ...names.map((name) => make("option", {}, name)));
  workflowField.value = chosen;
}

async function overview(filtered) {
  const { workflow, status, words: wanted } = filtered;
  const of = workflow ? `&workflow=${encodeURIComponent(workflow)}` : "";
  const by = status ? `&status=${encodeURIComponent(status)}` : "";
  if (pagesOf !== of + by) [pages, pagesOf] = [1, of + by];
  const awake = LIVING.filter((name) => !status || status.split(",").includes(name));
  const [{ workflows }, { functions }, { invocations, more }, { schedules }, { invocations: living, more: moreLiving }] =
    await Promise.all([ask("/workflows"), ask("/functions"), list(of + by, pages), ask("/schedules"),
      awake.length ? list(`${of}&status=${awake}`, 1) : { invocations: [], more: false }]);
  offer([...new Set([...workflows.map((w) => w.name), ...(workflow ? [workflow] : [])])].sort());
  if (document.activeElement !== workflowField) workflowField.value = workflow;
  const shown = invocations.filter((i) => matches(i, wanted));
  const durable = living.filter((i) => i.durable && matches(i, wanted));
  const all = more ? `the newest ${invocations.length}` : invocations.length;
  const further = make("button", { type: "button", id: "more" }, "More");
  further.addEventListener("click", () => {
    pages++;
    show();
  });
  return [
    make("h2", {}, "Workflows"),
    table(["name", "steps", "functions", "inputs", "outputs", "missing", ""], workflows.map((w) =>
      [make("a", { href: `/workflows/${w.name}` }, w.name), w.steps.join(", "), w.functions.join(", "),
        w.inputs.join(", "), w.outputs.join(", "),
        make("span", { class: "failed" }, [...w.missing, ...w.missing_grants].join(", ")),
        make("span", {}, make("a", { href: `#invoke=${w.name}` }, "invoke"), " ",
          make("a", { href: `#versions=${w.name}` }, "versions"))])),
    make("h2", {}, "Functions"),
    table(["name", "bytes", "image", "used by"], functions.map((f) =>
      [f.name, f.bytes, f.image.slice(0, 19) + "…", f.workflows.join(", ")])),
    schedules.length ? make("h2", {}, "Schedules") : "",
    schedules.length ? table(["name", "workflow", "cron", "zone", "missed times", "next", "last"], schedules.map((s) =>
      [s.name, s.workflow, s.cron, s.zone, s.missed,
        make("span", s.reason ? { class: "failed" } : {}, s.paused ? "paused" : s.reason || s.next || "never"),
        s.last ? make("a", { href: `#${s.last.id}` }, s.last.at) : ""])) : "",
    durable.length ? make("h2", {}, "Durable invocations that have not ended") : "",
    durable.length ? table(["id", "workflow", "status", "waits for", "goes on"], durable.map((i) =>
      [make("a", { href: `#${i.id}` }, i.id), i.workflow, make("span", { class: i.status }, i.status), waits(i), goesOn(i)])) : "",
    durable.length && moreLiving ? make("p", { class: "dim" }, `These are among the newest ${PAGE}; the list below goes on with “More”.`) : "",
    make("h2", {}, wanted ? `Invocations, ${shown.length} of ${all}` : more ? `Invocations, ${all}` : "Invocations"),
    table(["accepted", "workflow", "call", "", "status", "waits for", "took"], shown.map((i) =>
      [make("a", { href: `#${i.id}` }, moment(i.accepted_ms)), i.workflow, i.call_id, i.mode,
        make("span", { class: i.status }, i.status + (i.error_kind || i.status === "damaged" ? `: ${i.error_kind || i.reason}` : "")),
        LIVING.includes(i.status) && i.waiting_for ? waits(i) : "", make("span", {}, time(i.duration_us))])),
    more ? further : "",
  ];
}

// The code that invocations of a workflow are in: a document, and the images of its functions.
async function versions(name) {
  const { versions, registered } = await ask(`/workflows/${encodeURIComponent(name)}/versions`);
  const living = (v) => Object.entries(v.invocations).filter(([, count]) => count).map(([status, count]) => `${count} ${status}`);
  return [
    make("p", {}, make("a", { href: "#" }, "overview")),
    make("h2", {}, `Versions of ${name}`),
    registered ? "" : make("p", { class: "failed" }, "It is registered no more."),
    table(["version", "", "deployed", "invocations that have not ended", "the first since", "next due", "images"], versions.map((v) =>
      [v.version, v.current ? "registered" : "", v.deployed || "", living(v).join(", "), v.oldest || "", v.due || "",
        v.functions.map((f) => `${f.name} ${f.image.slice(0, 19)}…`).join(", ")])),
  ];
}

// The bytes of a file in base64.
async function encoded(file) {
  const url = await new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
  return url.slice(url.indexOf(",") + 1);
}

// The body of a call: one input is sent as it is, several are a JSON object, and with none there is no body.
async function bodyOf(inputs) {
  const [only] = inputs;
  if (!only) return {};
  if (inputs.length === 1) return { body: only.file.files[0] || only.text.value };
  const slots = {};
  for (const { slot, text, file } of inputs) {
    slots[slot] = file.files[0] ? { base64: await encoded(file.files[0]) } : text.value;
  }
  return { body: JSON.stringify(slots), headers: { "Content-Type": "application/json" } };
}

// A form with a field for each input. It stays as it is while it is filled in.
async function invoking(name) {
  const { workflows } = await ask("/workflows");
  const workflow = workflows.find((w) => w.name === name);
  if (!workflow) throw new Error(`no workflow is called ${name}`);
  const inputs = workflow.inputs.map((slot) =>
    ({ slot, text: make("textarea", { name: slot }), file: make("input", { type: "file" }) }));
  const later = make("input", { type: "checkbox", id: "later" });
  const said = make("p", { class: "failed", id: "refused" });
  const form = make("form", { class: "fields", id: "invoke" },
    inputs.map(({ slot, text, file }) => make("label", {}, `Input ${slot} `, text, "or a file ", file)),
    make("label", {}, later, " do not wait for the result"), make("button", {}, "Invoke"), said);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    said.textContent = "";
    try {
      const path = `/${later.checked ? "async-invoke" : "invoke"}/${encodeURIComponent(name)}`;
      const answer = await send(path, { method: "POST", ...(await bodyOf(inputs)) });
      const id = answer.headers.get("x-invocation-id");
      // What failed has an id as well, and its page says why.
      if (id) location.hash = id;
      else said.textContent = (await answer.json()).error.message;
    } catch (error) {
      said.textContent = error.message;
    }
  });
  ended = true;
  return [make("p", {}, make("a", { href: "#" }, "all invocations")), make("h2", {}, `Invoke ${name}`), form];
}

// A bar on a track, in shares of the whole.
function bar(kind, from, length, whole) {
  const span = make("span", { class: kind, title: `${kind} ${time(length)}` });
  span.style.left = `${(100 * from) / whole}%`;
  span.style.width = `${(100 * length) / whole}%`;
  return span;
}

// Steps and instances over time. An instance's bar begins where it began, and its parts are as long as what they stand
// for took in all: a parked instance may have run in between.
function gantt(report) {
  const rows = report.steps.flatMap((step) => step.instances.map((instance) => ({ step, instance })));
  const ends = rows.map(({ instance: i }) => i.start_us + i.run_us + i.park_us);
  const whole = Math.max(1, report.duration_us, ...ends.slice(0, GANTT_ROWS));
  const chart = make("div", { class: "gantt", id: "gantt" });
  for (const { step, instance: i } of rows.slice(0, GANTT_ROWS)) {
    const parts = [["load", i.load_us], ["run", i.run_us], ["park", i.park_us]];
    // An instance starts when it has been loaded.
    let from = Math.max(0, i.start_us - i.load_us);
    const bars = parts.map(([kind, length]) => {
      from += length;
      return bar(kind, from - length, length, whole);
    });
    chart.append(make("span", { class: i.status }, `${step.name}[${i.index}]`), make("div", { class: "track" }, bars));
  }
  const legend = make("p", { class: "legend dim" }, make("span", { class: "load" }, "load"),
    make("span", { class: "run" }, "run"), make("span", { class: "park" }, "parked"), `0 to ${time(whole)}`);
  const more = rows.length - GANTT_ROWS;
  return [chart, legend, more > 0 ? make("p", { class: "dim" }, `and ${more} more instances`) : ""];
}

// How long a run was away from any process, or stood still in one.
function away(report) {
  if (!report.suspended) return "";
  const { times, away_us } = report.suspended;
  return make("p", { class: "dim", id: "suspended" }, `suspended ${times === 1 ? "once" : `${times} times`}, away for ${time(away_us)}`);
}

function timeline(points) {
  const whole = Math.max(1, ...points.map((point) => point.at_us));
  const marks = points.map((point) => bar("point", point.at_us, 0, whole));
  return [make("div", { class: "track", id: "timeline" }, marks),
    table(["moment", "after"], points.map((point) => [point.name, make("span", {}, time(point.at_us))]))];
}

// What an invocation was in when a leg or another entry of its timeline had ended.
function afterwards(what) {
  return what === "paused" ? "rest" : "wait";
}

// Why a leg began, in words.
function wokenBy(woken) {
  return woken ? [woken.by, woken.name].filter(Boolean).join(" ") : "";
}

// What has happened to a durable invocation: a bar for each time in which a process ran it, and for the waits between; then each entry.
function legs(told) {
  const now = Math.max(Date.now(), ...told.entries.map((entry) => Date.parse(entry.at)));
  const moments = told.entries.flatMap((entry) => [Date.parse(entry.began || entry.at), Date.parse(entry.at)]);
  const from = told.older || told.next_cursor ? moments[0] : Math.min(Date.parse(told.started), ...moments);
  const to = LIVING.includes(told.status) ? now : Math.max(from, ...moments);
  const whole = Math.max(1, to - from) * 1000;
  const waiting = [], running = [];
  const span = (list, kind, begin, end, us) => list.push(bar(kind, (begin - from) * 1000, us ?? Math.max(0, end - begin) * 1000, whole));
  let since = from;
  let state = "wait";
  for (const entry of told.entries) {
    const [begin, end] = [Date.parse(entry.began || entry.at), Date.parse(entry.at)];
    span(waiting, state, since, begin);
    if (entry.began) span(running, "run", begin, end, entry.duration_us);
    else span(running, "point", end, end, 0);
    since = end;
    state = afterwards(entry.what);
  }
  if (told.running) {
    const begin = Date.parse(told.running.began);
    span(waiting, state, since, begin);
    span(running, "run", begin, to);
  } else if (LIVING.includes(told.status)) {
    span(waiting, state, since, to);
  }
  const rows = told.entries.map((entry) => [entry.at, make("span", { class: entry.what }, entry.what), entry.generation,
    wokenBy(entry.woken), make("span", {}, entry.began ? time(entry.duration_us) : ""), entry.about,
    entry.process ? `process ${entry.process}` : ""]);
  if (told.running) rows.push(["", "running", "", wokenBy(told.running.woken), "", `since ${told.running.began}`, ""]);
  return make("div", { id: "legs" }, make("div", { class: "track" }, waiting, running),
    make("p", { class: "legend dim" }, make("span", { class: "run" }, "runs"), make("span", { class: "wait" }, "waits"),
      make("span", { class: "rest" }, "paused"), `${new Date(from).toISOString()} and ${time(whole)} from then`),
    told.older ? make("p", { class: "dim" }, `${told.older} earlier entries are not kept any more`) : "",
    table(["at", "", "generation", "woken by", "ran", "about", ""], rows));
}

// What an invocation has published, as far as it fits; each text as a whole is at its own address.
function published(texts, path) {
  const names = Object.keys(texts);
  const cut = (text) => (text.length > PUBLISHED_TEXT ? `${text.slice(0, PUBLISHED_TEXT)}…` : text);
  const more = names.length - PUBLISHED_NAMES;
  return make("div", { id: "published" },
    table(["name", "text"], names.slice(0, PUBLISHED_NAMES).map((name) =>
      [make("a", { href: `${path}/state/${encodeURIComponent(name)}` }, name), cut(texts[name])])),
    more > 0 ? make("p", { class: "dim" }, `and ${more} more names`) : "");
}

// What can be done with a durable invocation that has not ended, or has failed.
function controls(shown, path, checkpoints) {
  const said = make("p", { class: "failed", id: "refused" });
  const parts = [];
  if (LIVING.includes(shown.status)) {
    const name = make("input", { name: "event", required: "", size: "20", autocomplete: "off" });
    const content = make("input", { name: "content", size: "40", autocomplete: "off" });
    const expected = shown.waiting_for.find((wait) => wait.kind === "event");
    if (expected) name.value = expected.event;
    const form = make("form", { id: "event" }, make("label", {}, "Event ", name), make("label", {}, " says ", content), " ",
      make("button", {}, "Send"));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      said.textContent = "";
      try {
        const answer = await send(`${path}/events/${encodeURIComponent(name.value)}`, { method: "POST", body: content.value });
        if (!answer.ok) throw new Error((await answer.json()).error.message);
        document.activeElement.blur();
        await show();
      } catch (error) {
        said.textContent = error.message;
      }
    });
    parts.push(form, shown.status === "paused" ? order("Resume", `${path}/resume`, said) : order("Pause", `${path}/pause`, said),
      " ", order("Cancel", `${path}/cancel`, said), " ", order("Kill", `${path}/kill`, said), " ");
  }
  if (checkpoints.length && ["suspended", "paused", "failed"].includes(shown.status)) {
    parts.push(order("Fork", `${path}/fork`, said), table(["generation", "since", "bytes", "waits for", ""], checkpoints.map((kept) =>
      [kept.label ? `${kept.generation} ${kept.label}` : kept.generation, kept.at, kept.bytes, waits(kept),
        order("Go back", `${path}/rewind`, said, { to: kept.generation, from: shown.generation })])));
  }
  return make("div", { id: "controls" }, said, parts);
}

// What is in a checkpoint: how much, of what, and what its threads wait for.
async function checkpoint(place) {
  const [id, generation] = place.split("/");
  const path = `/invocations/${encodeURIComponent(id)}/checkpoints/${encodeURIComponent(generation)}`;
  const shown = await ask(path);
  ended = true;
  const where = (thread) => `${thread.call ? `${thread.call}: ` : ""}${thread.state}${thread.on ? ` ${thread.on}` : ""}` +
    (thread.until ? ` until ${thread.until}` : "");
  return [
    make("p", {}, make("a", { href: `#${id}` }, id)),
    make("h2", {}, `Checkpoint ${shown.generation} of ${id}`),
    make("p", { class: "dim" }, `${shown.bytes} bytes · captured ${shown.captured} · by ${shown.program}` +
      (shown.depth ? ` · takes pages from ${shown.depth} other files` : "")),
    make("div", { id: "contents" },
      table(["instance", "attempt", "function", "heap", "threads"], shown.instances.map((i) =>
        [`${i.step}[${i.instance}]`, i.attempt, i.function || "", i.heap_bytes, i.threads.map(where).join("; ")])),
      table(["pages of", "stored", "zero", "as in the image", "as in the checkpoint before"], shown.pages.map((p) =>
        [p.of, p.stored, p.zero, p.as_in_image, p.as_in_parent])),
      table(["function", "image", "bytes"], shown.functions.map((f) => [f.name, f.image.slice(0, 19) + "…", f.bytes])),
      table(["part of the file", "bytes"], Object.entries(shown.sections))),
  ];
}

// How many invocations of a tree are asked for: above one, and of the copies of each.
const TREE_HEIGHT = 8;
const TREE_WIDTH = 20;

// The tree of checkpoints of one invocation: each goes on from the one before, or from that which it was taken back to.
function checkpointTree(checkpoints, shown) {
  const known = new Map(checkpoints.map((kept) => [kept.generation, []]));
  const roots = [];
  checkpoints.forEach((kept, index) => {
    const before = kept.rewound_to ?? (index ? checkpoints[index - 1].generation : undefined);
    (known.get(before) || roots).push(kept);
  });
  const branch = (all) => make("ul", {}, all.map((kept) => make("li", {},
    make("a", { href: `#checkpoint=${shown.id}/${kept.generation}`, ...(kept.generation === shown.generation ? { class: "now" } : {}) },
      `generation ${kept.generation}`),
    kept.rewound_to ? ` (taken back to ${kept.rewound_to})` : "", kept.label ? ` ${kept.label}` : "", ` · ${kept.bytes} bytes`,
    known.get(kept.generation).length ? branch(known.get(kept.generation)) : "")));
  return roots.length ? make("div", { id: "checkpoints" }, branch(roots)) : "";
}

// The tree of copies that an invocation is in, from the first one on. What was removed is left out.
async function forkTree(shown) {
  const find = async (id) => ask(`/invocations/${encodeURIComponent(id)}`).catch(() => null);
  let root = shown;
  for (let height = 0; root.parent && height < TREE_HEIGHT; height++) {
    const above = await find(root.parent.id);
    if (!above) break;
    root = above;
  }
  const branch = async (i, height) => {
    const copies = height < TREE_HEIGHT ? (await Promise.all(i.forks.slice(0, TREE_WIDTH).map(find))).filter(Boolean) : [];
    const below = await Promise.all(copies.map((copy) => branch(copy, height + 1)));
    const more = i.fork_count - copies.length;
    return make("li", {}, i.id === shown.id ? make("span", { class: "now" }, i.id) : make("a", { href: `#${i.id}` }, i.id),
      ` ${i.status}`, i.parent ? `, from generation ${i.parent.generation}` : "",
      below.length || more ? make("ul", {}, below, more ? make("li", { class: "dim" }, `and ${more} more`) : "") : "");
  };
  return root.fork_count || root !== shown ? make("div", { id: "copies" }, make("ul", {}, await branch(root, 0))) : "";
}

// Of a durable invocation: what it waits for, where it comes from, and what can be done.
function durably(shown, path, checkpoints, copies, told) {
  const facts = [["goes on", goesOn(shown)], ["generation", shown.generation], ["attempts", shown.attempts],
    ["events in its mailbox", shown.mail], ["becomes", shown.becomes || ""]];
  const link = (id) => make("a", { href: `#${id}` }, id);
  if (shown.parent) {
    facts.push(["copy", make("span", {}, `${shown.parent.copy} of ${shown.parent.copies} of `, link(shown.parent.id),
      `, generation ${shown.parent.generation}`)]);
  }
  if (shown.forks.length) {
    const more = shown.fork_count - shown.forks.length;
    facts.push(["copies of it", make("span", {}, ...shown.forks.flatMap((id) => [link(id), " "]), more ? `and ${more} more` : "")]);
  }
  if (shown.started_by) {
    facts.push(["started by", make("span", {}, link(shown.started_by.id), `, as its child ${shown.started_by.child}`)]);
  }
  const parts = [make("h2", {}, "Durable"), table(["", ""], facts.filter(([, value]) => value !== ""))];
  if (shown.waiting_for.length) {
    parts.push(table(["step", "waits for", "until"], shown.waiting_for.map((wait) =>
      [`${wait.step}[${wait.instance}]`, wait.what, wait.until || ""])));
  }
  if (shown.children.length) {
    parts.push(make("div", { id: "children" }, table(["child", "workflow", "invocation", "status"], shown.children.map((child) =>
      [child.child, child.workflow, link(child.id), `${child.status || "removed"}${child.detached ? ", detached" : ""}`]))));
  }
  if (shown.undelivered.length) {
    parts.push(make("div", { id: "undelivered" }, table(["could not be", "to", "name", "at", "because"], shown.undelivered.map((lost) =>
      [{ event: "sent", start: "started", cancel: "cancelled" }[lost.what], lost.to, lost.name, lost.at, lost.why]))));
  }
  if (Object.keys(shown.published).length) parts.push(make("h2", {}, "Published"), published(shown.published, path));
  parts.push(make("h2", {}, "Timeline across suspensions"), legs(told));
  if (copies) parts.push(make("h2", {}, "Copies"), copies);
  const kept = checkpointTree(checkpoints, shown);
  if (kept) parts.push(make("h2", {}, "Checkpoints"), kept);
  return [...parts, controls(shown, path, checkpoints)];
}

async function invocation(id) {
  const path = `/invocations/${encodeURIComponent(id)}`;
  const [shown, lines] = await Promise.all([ask(path), ask(`${path}/logs`)]);
  const parts = [
    make("p", {}, make("a", { href: "#" }, "all invocations")),
    make("h2", {}, `${shown.workflow} `, make("span", { class: shown.status }, shown.status)),
    make("p", { class: "dim" }, `${moment(shown.accepted_ms)} · call ${shown.call_id} · id ${shown.id} · ${time(shown.duration_us)} · ${shown.traceparent}`),
  ];
  ended = !LIVING.includes(shown.status);
  if (shown.durable) {
    const [{ checkpoints }, told, copies] =
      await Promise.all([ask(`${path}/checkpoints`), ask(`${path}/timeline?limit=200`), forkTree(shown)]);
    parts.push(...durably(shown, path, checkpoints, copies, told));
  }
  if (shown.error) {
    const at = shown.error.step ? ` in ${shown.error.step}[${shown.error.instance ?? 0}]` : "";
    parts.push(make("h2", { class: shown.status }, `${shown.error.kind}${at}, blame: ${shown.error.blame}`),
      make("pre", { id: "error" }, shown.error.message));
  }
  if (shown.report) parts.push(make("h2", {}, "Steps and instances"), gantt(shown.report), away(shown.report));
  parts.push(make("h2", {}, "Timeline"), timeline(shown.points));
  if (lines) parts.push(make("h2", {}, "Printed"), make("pre", { id: "lines" }, lines));
  for (const [slot, output] of Object.entries(shown.result || {})) {
    parts.push(make("h2", {}, `Output ${slot}, ${output.bytes} bytes`),
      output.text === undefined ? make("a", { href: output.href }, "as it is") : make("pre", {}, output.text));
  }
  if (shown.report) {
    parts.push(make("h2", {}, "Report"), make("pre", { id: "report" }, JSON.stringify(shown.report, null, 2)));
  }
  return parts.flat();
}

let turn = 0;
let ended = false;
async function show() {
  const mine = ++turn;
  const hash = location.hash.slice(1);
  // `list?workflow=…&status=…&words=…`, `invoke=NAME`, `versions=NAME`, `filter=WORDS`, `checkpoint=ID/GENERATION`, or an invocation's id.
  const listed = hash.startsWith("list?") ? new URLSearchParams(hash.slice(5)) : new URLSearchParams();
  const place = hash.startsWith("list?") ? "" : decodeURIComponent(hash);
  const [, what, value] = place.match(/^(invoke|versions|filter|checkpoint)=(.*)$/s) || [];
  const isOverview = !place || what === "filter";
  const wanted = { workflow: listed.get("workflow") || "", status: listed.get("status") || "", words: listed.get("words") || value || "" };
  filter.hidden = !isOverview;
  if (isOverview && document.activeElement !== words) words.value = wanted.words;
  if (isOverview && document.activeElement !== statusField) statusField.value = wanted.status;
  try {
    await showHealth();
    ended = false;
    const views = { invoke: invoking, versions, checkpoint };
    const parts = await (isOverview ? overview(wanted) : what ? views[what](value) : invocation(place));
    // What is being typed stays.
    const typing = main.contains(document.activeElement) && ["INPUT", "TEXTAREA"].includes(document.activeElement.tagName);
    if (mine === turn && !typing) main.replaceChildren(...parts);
  } catch (error) {
    if (mine === turn) main.replaceChildren(make("p", { class: "failed" }, error.message));
  }
}

login.addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", document.getElementById("token").value);
  show();
});
// What is filtered is part of the address, so that it can be kept and passed on.
function refine() {
  const chosen = { workflow: workflowField.value, status: statusField.value, words: words.value };
  const parts = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value));
  location.replace(String(parts) ? `#list?${parts}` : "#");
}
words.addEventListener("input", refine);
workflowField.addEventListener("change", refine);
statusField.addEventListener("change", refine);
filter.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", show);
// An invocation that has ended stays as it is; all else follows what happens.
setInterval(() => { if (!ended && !document.hidden) show(); }, REFRESH_MS);
show();
