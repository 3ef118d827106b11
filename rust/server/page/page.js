// The page at /: sends `POST /highlights` at every change, and marks the passages in the page's own text. While the user types, a
// first request has `effort: "instant"`, and a later one gets the final answer. Only that one is announced.
//
// The user's input is only in the form's fields, so no failure can lose it. At most one request is in flight: a change aborts it,
// and its answer is never shown. A file that is not text in UTF-8 is sent with each request as it is. Texts become text nodes only; the
// server's Content-Security-Policy (trusted types) allows nothing else.

import { ACCEPT, FORMATS, READABLE, STARTS } from "./kinds.js";
import { layOut } from "./layout.js";
import { forgetPage, keepKey, keepPage, keptKey, keptPage } from "./session.js";
import { Sheets } from "./sheets.js";

const byId = (id) => document.getElementById(id);
const question = byId("question");
const source = byId("source");
const format = byId("format");
const reader = byId("reader");
const fold = byId("fold"); // the list of passages, folded away where none answers
const list = byId("passages");
const key = byId("key");
const password = byId("password"); // of the file
const wide = matchMedia("(min-width: 52.01rem)"); // page and question are side by side, as in page.css

const PAUSE = 150; // milliseconds without a change before a request; while the user types, with `effort: "instant"`
const LONG_PAUSE = 600; // milliseconds without a key, then for the answer that stays
const LONGEST_FILE = 64 * 1024 * 1024; // bytes; what a browser can hold, if the server names no limit
const LONGEST_TO_EDIT = 300_000; // characters; a browser lays out a field with megabytes for minutes
const NO_BUDGET = byId("budget").max; // the slider's end
const PLACEHOLDER = source.placeholder;

const SETTINGS = {
  length: (value) => `about ${plural(value, "sentence")}`,
  count: (value) => plural(value, "passage"),
  budget: (value) => (value === Number(NO_BUDGET) ? "no limit" : plural(value, "character")),
  least: (value) => (value === 0 ? "any" : `from ${value.toFixed(2)}`),
};

const FAILURES = {
  400: "The server cannot read this.",
  401: "This server requires a key.",
  408: "The page took too long to reach the server.",
  413: "This page is larger than the server's limit.",
  422: "The server rejects this request.",
  429: "The server is overloaded.",
  501: "The server cannot read such files.",
  503: "The server is not available.",
  504: "The answer took longer than the server allows.",
};

let request = new AbortController(); // what is in flight, or was
let timer = 0; // until the next one; 0 if it is in flight
let instantTimer = 0; // until the one with `effort: "instant"`
let marks = []; // the passages in the page, the best first: a mark for each block that one is in
let shown = null; // the source of what the page shows
let current = -1; // which of them was gone to last
let goesToBest = false; // whether Enter waits for the answer
let read = {}; // the page of the last answer, and its text: of HTML that is another
let name = "Sample page";
let before = null; // the page that another one took the place of
let longText = null; // a text that is too long for the field, and takes its place
let upload = null; // the file that takes the place of both
let kept = source.defaultValue; // the page that a reload shows
let lost = ""; // the name of the page that a reload could not show
let limits = null; // of the server, once they were asked for
let sheets = null; // the pages of a PDF

// Asking

function changed(pause = PAUSE) {
  request.abort();
  goesToBest = false;
  clearTimeout(timer);
  clearTimeout(instantTimer);
  timer = setTimeout(ask, pause);
  if (shown !== content()) show({ text: knownText() }, [], "");
  waits(question.value.trim() !== "" && !isEmpty());
}

/** A key was pressed, and more may come. A file and a long text are too large to be sent twice. */
function typed() {
  changed(LONG_PAUSE);
  if (!upload && longText === null) instantTimer = setTimeout(askInstantly, PAUSE);
}

/** Shows the passages that the tokens predict, if they answer. It fails in silence: the answer that stays says why. */
async function askInstantly() {
  const body = wanted();
  if (!body.query.trim() || isEmpty()) return;
  const { signal } = (request = new AbortController());
  const { page } = await answer({ ...body, effort: "instant" }, signal);
  if (signal.aborted || !page?.answered) return;
  readAs(page);
  document.body.classList.remove("waiting"); // these marks are no older than the question
  show(page, page.highlights, "");
}

async function ask() {
  clearTimeout(timer);
  clearTimeout(instantTimer);
  timer = 0;
  request.abort();
  const { signal } = (request = new AbortController());
  const body = wanted();
  byId("request").textContent = described(body);
  remember();
  if (!body.query.trim() || isEmpty()) {
    waits(false);
    byId("failure").hidden = true;
    const missing = lost ? `${lost} did not survive the reload: open or paste it again.` : "Paste a page, or drop a file.";
    show({ text: knownText() }, [], isEmpty() ? missing : "Ask a question.");
    return;
  }
  waits(true);
  const outcome = await answer(body, signal);
  if (signal.aborted) return;
  waits(false);
  if (outcome.failure) return fail(outcome.failure);
  readAs(outcome.page);
  succeed(outcome, body);
}

function readAs({ text, blocks, format: written }) {
  read = { source: content(), format: format.value, text, blocks, written };
}

function wanted() {
  const budget = byId("budget").value;
  const least = Number(byId("least").value);
  return {
    query: question.value.toWellFormed(),
    ...(upload ? {} : { documents: [pageText().toWellFormed()] }),
    ...(upload && format.value === "auto" ? {} : { format: format.value }),
    highlight_length: Number(byId("length").value),
    top_k: Number(byId("count").value),
    ...(budget === NO_BUDGET ? {} : { max_chars: Number(budget) }),
    ...(least === 0 ? {} : { min_score: least }),
    offsets: "utf16",
    return_texts: true,
    return_blocks: true,
  };
}

/** What the server says, or why it says nothing; where the signal aborts, neither counts. */
async function answer(body, signal) {
  if (/[^ -~]/.test(key.value)) return { failure: { status: 401, words: FAILURES[401] } }; // no header can carry it
  try {
    const response = await post("highlights", body, signal);
    const said = await response.json().catch(() => ({}));
    if (response.ok) return { page: said.results[0], usage: said.usage, warnings: said.warnings ?? [], took: response.headers.get("x-total-time") };
    const { message = response.statusText, field, retryable = false } = said.error ?? {};
    if (upload && field?.startsWith("file[")) return { failure: { status: response.status, words: `${name} cannot be read.`, field, detail: sentence(message), retryable } };
    const words = FAILURES[response.status] ?? `The server failed, with status ${response.status}.`;
    return { failure: { status: response.status, words, field, detail: field ? `${field}: ${message}` : message, retryable } };
  } catch {
    const words = "The server does not answer.";
    return { failure: { status: 0, words, detail: "It may have been stopped. What you typed is still here.", retryable: true } };
  }
}

function authorization() {
  return key.value ? { authorization: `Bearer ${key.value.trim()}` } : {};
}

/** Sends a request as JSON, or with the file in a form. */
function post(path, body, signal) {
  const headers = authorization();
  if (!upload) return fetch(path, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body), signal });
  const form = new FormData();
  form.append("request", JSON.stringify(body));
  form.append("file", upload);
  if (password.value) form.append("password", password.value);
  return fetch(path, { method: "POST", headers, body: form, signal });
}

function succeed({ page, usage, warnings, took }, body) {
  keepKey(key.value);
  byId("failure").hidden = byId("key-form").hidden = byId("password-form").hidden = true;
  const isAnswered = page.answered || !page.highlights.length;
  const found = `${plural(page.highlights.length, "passage")} in ${duration(Number(took))}`;
  show(page, page.highlights, page.answered ? found : doubt(page, warnings, body), isAnswered);
  byId("work").textContent = [compared(usage), ...warnings.filter((warning) => warning.startsWith("file[")).map(sentence)].join(" ").trim();
  format.options[0].textContent = format.value === "auto" && page.format !== "text" ? `Auto: ${page.format}` : "Format: auto";
  if (goesToBest) go(0);
  else if (isAnswered && wide.matches && reader.checkVisibility() && marks.length) goNear(marks[0][0], "nearest");
  goesToBest = false;
}

function fail({ status, words, field, detail, retryable }) {
  show({ text: knownText() }, [], "");
  if (status === 401) keepKey("");
  const isProtected = field === "password";
  if (status === 401) detail = key.value ? "The server rejects the key below." : "";
  if (isProtected) detail = password.value ? "The password below does not open it." : "";
  byId("failure-words").textContent = isProtected ? "This file is protected by a password." : words;
  byId("failure-detail").textContent = detail;
  byId("again").hidden = !retryable;
  byId("failure").hidden = false;
  byId("key-form").hidden = status !== 401;
  byId("password-form").hidden = !isProtected;
  const missing = status === 401 ? key : isProtected ? password : null;
  if (document.activeElement === document.body) missing?.focus();
}

// Showing

/** The page to search: a text, or a file. */
function content() {
  return upload ?? pageText();
}

function pageText() {
  return longText ?? source.value;
}

function isEmpty() {
  return !upload && !pageText().trim();
}

function knownText() {
  return read.source === content() && read.format === format.value ? read.text : pageText();
}

/** Shows a page with its passages marked, and the list of them. Those that do not answer are marked in a weaker way. The focus
 *  stays on the passage of the same rank. */
function show(page, passages, status, isAnswered = true) {
  const held = document.activeElement;
  const inList = [...list.querySelectorAll("button")].indexOf(held);
  const inPage = marks.findIndex((pieces) => pieces.includes(held));
  const { text, blocks = read.text === page.text ? (read.blocks ?? []) : [], format: written = read.written } = page;
  shown = content();
  const makeMark = (rank, isFirst) => {
    const { score } = passages[rank];
    const mark = make("mark");
    mark.dataset.rank = rank;
    if (isFirst) {
      mark.tabIndex = -1;
      mark.dataset.score = `${rank + 1} · ${score.toFixed(2)}`;
    }
    mark.style.setProperty("--score", score);
    mark.addEventListener("click", () => fold.open && getSelection().isCollapsed && go(rank));
    return mark;
  };
  const laid = sheets ? sheets.layOut(passages, makeMark) : layOut(text, blocks, written, passages, makeMark);
  marks = laid.marks.filter((pieces) => pieces.length);
  reader.classList.toggle("laid-out", blocks.length > 0);
  reader.classList.toggle("unanswered", !isAnswered);
  fold.open = isAnswered;
  folded();
  reader.replaceChildren(laid.page);
  list.replaceChildren(...passages.map((passage, rank) => entry(passage, rank, sheets ? passage.text.trim() : asShown(laid.marks[rank]))));
  byId("status").textContent = status;
  byId("work").textContent = "";
  document.title = name === "Sample page" ? "pullquote" : `${name} · pullquote`;
  point(-1);
  (list.querySelectorAll("button")[inList] ?? marks[inPage]?.[0])?.focus({ preventScroll: true });
}

/** Nothing is marked while the nearest passages are folded away. */
function folded() {
  const isUnanswered = reader.classList.contains("unanswered");
  fold.classList.toggle("plain", !isUnanswered);
  reader.classList.toggle("folded", !fold.open);
  byId("steps").hidden = !marks.length || !fold.open;
}

/** A passage as the page shows it: without the marks of Markdown, and with a line for each block. */
function asShown(pieces) {
  const lines = pieces.map((piece) => {
    const copied = piece.cloneNode(true);
    copied.querySelectorAll(".unshown").forEach((each) => each.remove());
    const words = copied.textContent.replaceAll(/\s+/g, " ").trim();
    return words && piece.matches(".bullet > :first-child") ? `• ${words}` : words;
  });
  return lines.filter(Boolean).join("\n");
}

/** What names a passage's subject, without the marks of Markdown. */
function subject(breadcrumbs = []) {
  const names = breadcrumbs.map(({ text }) => text.replaceAll(/^[\s>#*_`•+-]+|[\s#*_`=-]+$/g, "").replaceAll(/\s+/g, " "));
  return names.filter(Boolean).join(" › ");
}

function entry({ text, score, twins = [], page_number: number, breadcrumbs }, rank, seen) {
  const button = make("button", "passage");
  button.type = "button";
  button.style.setProperty("--score", score);
  const words = make("span", "words", seen);
  words.dir = "auto";
  button.append(make("span", "rank", rank + 1), make("span", "bar"), make("span", "score", number ? `page ${number} · ${score.toFixed(2)}` : score.toFixed(2)));
  const names = subject(breadcrumbs);
  if (names) button.append(make("span", "names", names));
  button.append(words);
  if (twins.length) button.append(make("span", "twins detail", `${plural(twins.length, "passage")} like it left out`));
  button.addEventListener("click", () => go(rank));
  const copies = make("button", "copy", "Copy");
  copies.type = "button";
  copies.ariaLabel = `Copy passage ${rank + 1}`;
  copies.addEventListener("click", () => copy(copies, text));
  const item = make("li");
  item.append(button, copies);
  return item;
}

async function copy(button, text) {
  button.dataset.words ??= button.textContent;
  button.textContent = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Cannot copy");
  setTimeout(() => (button.textContent = button.dataset.words), 1500);
}

/** Scrolls to a passage; the first follows the last. */
function go(rank) {
  if (!marks.length) return;
  fold.open = true;
  folded();
  edits(false);
  point((rank + marks.length) % marks.length);
  marks[current][0].focus({ preventScroll: true });
  goNear(marks[current][0], "center");
}

/** The parts of a long page get their heights only when they come near, so the way there would end elsewhere. */
function goNear(mark, block) {
  mark.scrollIntoView({ block, behavior: reader.querySelector(".part") ? "instant" : "auto" });
}

function point(rank) {
  current = rank;
  const buttons = [...list.querySelectorAll(".passage")].map((button) => [button]);
  for (const all of [marks, buttons]) {
    all.flatMap((elements, index) => elements.map((element) => [element, index])).forEach(([element, index]) => {
      if (index === rank) element.setAttribute("aria-current", "true");
      else element.removeAttribute("aria-current");
    });
  }
  byId("place").textContent = rank < 0 ? plural(marks.length, "passage") : `${rank + 1} of ${marks.length}`;
}

function waits(yes) {
  document.body.classList.toggle("waiting", yes);
  reader.ariaBusy = String(yes);
}

// The searched page

/** Puts another page in the place of the one that is there, which can be had back. */
function open(page) {
  before = { text: pageText(), name, format: format.value, upload, isPdf: sheets !== null, password: password.value };
  takes(page.text);
  format.value = page.format;
  asksAbout(page.upload ?? null, page.isPdf, page.password);
  rename(page.name);
  edits(false);
  changed(0);
  scrollTo({ top: 0, behavior: "instant" });
}

/** Takes a text into the field, or in its place. */
function takes(text) {
  longText = text.length > LONGEST_TO_EDIT ? text : null;
  source.value = longText === null ? text : "";
  source.placeholder = longText === null ? PLACEHOLDER : "This page is too long to be edited here. Paste another one, or drop a file.";
  lost = "";
}

/** Opens a text if the server takes one of its size. */
async function openText(text, name) {
  if (!(await isTooLarge(name, text.length > LONGEST_TO_EDIT ? new Blob([text]).size : 0, "max_document_bytes"))) open({ text, name, format: "auto" });
}

/** Whether a page is beyond this limit of the server; then says so. */
async function isTooLarge(name, bytes, limit) {
  if (bytes <= LONGEST_TO_EDIT) return false;
  limits ??= await fetch("info", { headers: authorization() }).then((response) => (response.ok ? response.json() : null), () => null);
  const most = limits?.[limit] ?? LONGEST_FILE;
  if (bytes <= most) return false;
  refuse(`${name} has ${megabytes(bytes)}.`, `This server reads pages of up to ${megabytes(most)}. Open a part of it.`);
  return true;
}

/** The text of a file, or null: it is in another encoding, or no text. The server reads it, or says what it is. */
async function asText(file) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

/** Takes a file in place of the field's text, or without one the text again. */
function asksAbout(file, isPdf, itsPassword = "") {
  upload = file;
  password.value = itsPassword;
  byId("password-form").hidden = true;
  sheets?.close();
  sheets = isPdf ? new Sheets(post) : null;
  format.hidden = file !== null;
}

async function openFile(file) {
  if (!file) return;
  const start = await file.slice(0, 1024).text().catch(() => null);
  if (start === null) return refuse(`${file.name} cannot be read.`, `It may be gone, or a folder. ${READABLE} can be opened.`);
  const isParsed = STARTS.some((mark) => start.includes(mark));
  if (await isTooLarge(file.name, file.size, isParsed ? "max_body_bytes" : "max_document_bytes")) return;
  const written = isParsed ? "auto" : (FORMATS[file.name.split(".").pop().toLowerCase()] ?? "auto");
  const text = isParsed ? null : await asText(file);
  open({ text: text ?? "", name: file.name, format: written, ...(text === null && { upload: file, isPdf: start.includes("%PDF-") }) });
}

/** Says why nothing has changed. */
function refuse(words, detail) {
  byId("failure-words").textContent = words;
  byId("failure-detail").textContent = detail;
  byId("again").hidden = true;
  byId("failure").hidden = false;
}

function edits(yes) {
  if (byId("editor").hidden === !yes) return;
  byId("editor").hidden = !yes;
  reader.hidden = yes;
  byId("edit").textContent = yes ? "Show passages" : "Paste or edit";
  if (yes) selects(source);
}

function selects(field) {
  field.focus();
  field.select();
}

function isSample() {
  return content() === source.defaultValue;
}

function rename(to) {
  name = to;
  byId("name").textContent = to;
  byId("sample").hidden = byId("examples").hidden = false;
  if (isSample()) byId("sample").hidden = true;
  else byId("examples").hidden = true;
  byId("undo").hidden = !before;
}

// Words

function make(tag, kind = "", text = "") {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  element.textContent = text;
  return element;
}

function number(value) {
  return value.toLocaleString("en");
}

function plural(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function duration(milliseconds) {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
}

function megabytes(bytes) {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** An error or a warning about the file, for people. */
function sentence(message) {
  const words = message.replace(/^file\[0\]: /, "").trim();
  return `${words[0].toUpperCase()}${words.slice(1)}.`;
}

/** Why no passage answers: none says it, as far as words show, or the options left none. */
function doubt({ text, highlights }, warnings, { max_chars: budget, min_score: least }) {
  if (!text.trim()) return "This page has no text.";
  if (highlights.length && budget) return `No passage within ${plural(budget, "character")} says it in these words.`;
  if (highlights.length) return "No passage says it in these words.";
  const isTooSmall = warnings.some((warning) => warning.includes("max_chars"));
  if (least && !isTooSmall) return `No passage has a score from ${least.toFixed(2)}.`;
  return budget ? `No passage fits ${plural(budget, "character")}.` : "No passage.";
}

/** How much of the page was compared, for people. */
function compared({ windows, windows_scored: scored }) {
  if (!windows) return "";
  const share = Math.round((100 * scored) / windows);
  return scored >= windows ? "All of the page was compared with the question." : `${share || "Under 1"} % of the page was compared, the rest ranks lower.`;
}

/** The request as one would write it down: without all of the page. */
function described(body) {
  const address = new URL("highlights", location.href.split("#")[0]);
  if (upload) return `POST ${address} (multipart/form-data)\nfile: ${upload.name}\nrequest: ${JSON.stringify(body, null, 2)}`;
  const [text] = body.documents;
  const documents = [text.length > 80 ? `${text.slice(0, 80)}…` : text];
  return `POST ${address}\n${JSON.stringify({ ...body, documents }, null, 2)}`;
}

function asCurl(body) {
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  const authorization = key.value ? " -H 'authorization: Bearer YOUR_KEY'" : "";
  const secret = password.value ? " -F 'password=YOUR_PASSWORD'" : "";
  if (upload) return `curl -s '${new URL("highlights", location.href.split("#")[0])}'${authorization} -F 'request=${quoted}' -F 'file=@"${upload.name.replaceAll("'", "'\\''")}"'${secret}`;
  return `curl -s '${new URL("highlights", location.href.split("#")[0])}' -H 'content-type: application/json'${authorization} -d '${quoted}'`;
}

function asPython({ query, documents, offsets, return_texts, return_blocks, ...options }) {
  const values = Object.entries(options).map(([option, value]) => `, ${option}=${JSON.stringify(value)}`);
  const authorization = key.value ? ', api_key="YOUR_KEY"' : "";
  if (upload) {
    const secret = password.value ? ', password="YOUR_PASSWORD"' : "";
    return `import pullquote

with pullquote.Client(${JSON.stringify(location.origin)}${authorization}) as client:
    found = client.highlights(${JSON.stringify(query)}, files=[${JSON.stringify(upload.name)}]${secret}${values.join("")})
    for highlight in found[0]:
        print(f"{highlight.score:.2f}", highlight.page_number, highlight.text)
`;
  }
  return `import pullquote

page = ${JSON.stringify(documents[0])}
with pullquote.Client(${JSON.stringify(location.origin)}${authorization}) as client:
    found = client.highlights(${JSON.stringify(query)}, [page]${values.join("")})
    for highlight in found[0]:
        print(f"{highlight.score:.2f}", highlight.text)
`;
}

// What a reload keeps

/** Keeps the question and the options in the address, and the page for this tab. */
function remember() {
  const inAddress = new URLSearchParams();
  for (const field of [question, ...Object.keys(SETTINGS).map(byId)]) if (field.value !== field.defaultValue) inAddress.set(field.id, field.value);
  if (format.value !== "auto") inAddress.set("format", format.value);
  const address = location.href.split("#")[0] + (inAddress.size ? `#${inAddress}` : "");
  if (address !== location.href) history.replaceState(null, "", address);
  if (kept === content()) return;
  kept = content();
  if (isSample()) forgetPage();
  else if (isEmpty()) keepPage(name, "");
  else keepPage(name, upload ? undefined : pageText());
}

/** Takes what the address has. What it lacks keeps its value, or for another address gets its default. */
function recall(isOther) {
  const inAddress = new URLSearchParams(location.hash.slice(1));
  for (const field of [question, ...Object.keys(SETTINGS).map(byId)]) {
    if (inAddress.has(field.id) || isOther) field.value = inAddress.get(field.id) ?? field.defaultValue;
  }
  if ([...format.options].some((option) => option.value === inAddress.get("format"))) format.value = inAddress.get("format");
  else if (isOther) format.value = "auto";
}

/** Takes the page and the key that this tab had. */
function recallPage() {
  key.value = keptKey();
  const last = keptPage();
  if (!last) return "Sample page";
  takes(last.text ?? "");
  if (last.text === undefined) lost = last.name;
  kept = content();
  return last.name;
}

function say(id) {
  const field = byId(id);
  field.ariaValueText = byId(`${id}-says`).textContent = SETTINGS[id](Number(field.value));
}

// Input

question.addEventListener("input", typed);
question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (reader.ariaBusy !== "true") return go(0);
  if (timer) ask();
  goesToBest = true;
});
recall(false);
fold.addEventListener("toggle", folded);
for (const id of Object.keys(SETTINGS)) {
  say(id);
  byId(id).addEventListener("input", () => {
    say(id);
    changed(PAUSE / 3);
  });
}
for (const example of document.querySelectorAll(".example")) {
  example.addEventListener("click", () => {
    question.value = example.textContent;
    changed(0);
  });
}
byId("copy-curl").addEventListener("click", ({ currentTarget }) => copy(currentTarget, asCurl(wanted())));
byId("copy-python").addEventListener("click", ({ currentTarget }) => copy(currentTarget, asPython(wanted())));
addEventListener("hashchange", () => {
  recall(true);
  Object.keys(SETTINGS).forEach(say);
  changed(0);
});
format.addEventListener("change", () => changed(0));
byId("again").addEventListener("click", () => changed(0));
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  changed(0);
});
byId("password-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sheets?.close(); // what could not be shown
  changed(0);
});
byId("form").addEventListener("submit", (event) => event.preventDefault());

source.addEventListener("input", () => {
  longText = null;
  lost = "";
  source.placeholder = PLACEHOLDER;
  asksAbout(null);
  rename("Your page");
  typed();
});
source.addEventListener("paste", (event) => {
  const isAll = source.selectionStart === 0 && source.selectionEnd === source.value.length;
  const text = event.clipboardData.getData("text/plain");
  if (!text || (!isAll && text.length <= LONGEST_TO_EDIT)) return;
  event.preventDefault();
  openText(text, "Pasted page");
  byId("edit").focus();
});
source.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  edits(false);
  byId("edit").focus();
});
byId("edit").addEventListener("click", () => edits(byId("editor").hidden));
byId("file").accept = ACCEPT;
byId("file").addEventListener("change", ({ target }) => {
  openFile(target.files[0]);
  target.value = ""; // so that the same file can be opened again
});
byId("sample").addEventListener("click", () => open({ text: source.defaultValue, name: "Sample page", format: "auto" }));
// The current page becomes the previous one.
byId("undo").addEventListener("click", () => open(before));

const next = () => go(current + 1);
const previous = () => go(Math.max(current, 0) - 1);
byId("next").addEventListener("click", next);
byId("previous").addEventListener("click", previous);

function isTyping(target) {
  return target.closest("textarea, select, input:not([type=range], [type=file])") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const does = { n: next, p: previous, "/": () => selects(question) }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
});
document.addEventListener("paste", (event) => {
  const text = event.clipboardData.getData("text/plain");
  if (!text || isTyping(event.target)) return;
  openText(text, "Pasted page");
});

// A file anywhere, or a text from outside that is not dropped into a field.
let isDraggedHere = false;
function isPage({ dataTransfer, target }) {
  return dataTransfer.types.includes("Files") || (dataTransfer.types.includes("text/plain") && !isDraggedHere && !isTyping(target));
}
document.addEventListener("dragstart", () => (isDraggedHere = true));
document.addEventListener("dragend", () => (isDraggedHere = false));
document.addEventListener("dragover", (event) => {
  if (!isPage(event)) return;
  event.preventDefault();
  document.body.classList.add("dropping");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("dropping");
});
document.addEventListener("drop", (event) => {
  document.body.classList.remove("dropping");
  if (!isPage(event)) return;
  event.preventDefault();
  const text = event.dataTransfer.getData("text/plain");
  if (event.dataTransfer.files.length) openFile(event.dataTransfer.files[0]);
  else if (text) openText(text, "Dropped page");
});

rename(recallPage());
show({ text: pageText() }, [], "");
ask();
