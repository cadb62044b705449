// The page's own script: theme, charts, and the table of all ops. Texts enter the page as text, never as markup.
"use strict";
function unpacked(element) {
  const bytes = Uint8Array.from(atob(element.textContent.trim()), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream(element.dataset.packed))).text();
}

// The data of a large page is compressed: then it is there a moment after the page.
const holder = document.getElementById("data");
if (holder.dataset.packed) {
  unpacked(holder).then((text) => start(JSON.parse(text)));
} else {
  start(JSON.parse(holder.textContent));
}

function start(page) {
const root = document.documentElement;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// How long ago that was, when the page is looked at.
const age = document.getElementById("age");
const hours = Math.floor((Date.now() - Date.parse(age.dataset.started)) / 3600000);
const [count, unit] = hours >= 48 ? [Math.floor(hours / 24), "day"] : [hours, "hour"];
age.textContent = count >= 1 ? `(${count} ${unit}${count === 1 ? "" : "s"} ago)` : "";

// --- theme and charts

const darkSystem = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
const theme = () => chosen || (darkSystem.matches ? "dark" : "light");
const charts = {};

function chartConfig() {
  const style = getComputedStyle(root);
  const colour = (name) => style.getPropertyValue(name).trim();
  const font = getComputedStyle(document.body).fontFamily;
  const axis = { labelColor: colour("--soft"), titleColor: colour("--soft"), gridColor: colour("--line"),
    domainColor: colour("--line"), tickColor: colour("--line"), labelFont: font, titleFont: font, labelFontSize: 12,
    titleFontSize: 12, titleFontWeight: "normal", labelLimit: 220, labelSeparation: 8 };
  return { background: "transparent", view: { stroke: null }, axis,
    legend: { labelColor: colour("--text"), titleColor: colour("--soft"), labelFont: font, titleFont: font,
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", orient: "top", direction: "horizontal",
      columns: 3, labelLimit: 200, symbolType: "square" } };
}

let drawn = Promise.resolve();

function draw() {
  root.dataset.theme = theme();
  drawn = drawn.then(drawAll);  // one after another: a second click while charts are drawn must not mix with the first
}

async function drawAll() {
  const vega = document.getElementById("vega");
  if (vega && !window.vegaEmbed) document.head.append(make("script", {}, await unpacked(vega)));
  for (const [id, spec] of Object.entries(page.charts)) {
    const place = document.getElementById(id);
    if (!place) continue;
    if (charts[id]) charts[id].finalize();
    charts[id] = await vegaEmbed(place, { ...spec, config: chartConfig() }, {
      renderer: "svg", tooltip: { theme: theme() },
      ast: true,  // expressions are interpreted: the page lets no text become code
      actions: { export: true, source: false, compiled: false, editor: false } });
    charts[id].view.addEventListener("click", (_, item) => {
      if (item && item.datum && item.datum.id) find(item.datum.id);
    });
  }
}

document.getElementById("theme").addEventListener("click", () => {
  chosen = theme() === "dark" ? "light" : "dark";
  draw();
});
darkSystem.addEventListener("change", draw);

for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const code = button.previousElementSibling;
    getSelection().selectAllChildren(code);
    try { await navigator.clipboard.writeText(code.textContent); } catch { document.execCommand("copy"); }
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
}

for (const button of document.querySelectorAll("[data-copy]")) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(button.dataset.copy); } catch {
      const field = document.createElement("textarea");
      field.value = button.dataset.copy;
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  });
}

// --- the table of all ops

const number = (value, digits = 0) => value === null ? "" :
  value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
const pcc = (value) => value === null ? "" : value === 1 ? "1" : value.toFixed(7);
const stageOrder = page.stages;
const columns = [
  { title: "op", key: (row) => row.name, cell: (row) => [make("code", {}, row.name), make("div", { class: "types" }, row.types)] },
  { title: "family", class: "kind", key: (row) => row.kind, cell: (row) => [row.kind] },
  { title: "status", key: (row) => row.status, cell: (row) => [badge(row)] },
  { title: "furthest stage", key: (row) => stageOrder.indexOf(row.furthest), cell: (row) => [row.furthest] },
  { title: "z", numeric: true, key: (row) => row.z, cell: (row) => [row.z === null ? "" : row.z >= 1e6 ? row.z.toExponential(1) : row.z.toPrecision(3)] },
  { title: "PCC", numeric: true, key: (row) => row.pcc, cell: (row) => [pcc(row.pcc)] },
  { title: "cycles", numeric: true, key: (row) => row.cycles, cell: (row) => [number(row.cycles)] },
  { title: "ms", numeric: true, key: (row) => row.seconds || null, cell: (row) => [row.seconds ? number(1000 * row.seconds, 1) : ""] },
  { title: "uses", numeric: true, key: (row) => row.uses, cell: (row) => [number(row.uses)] },
  { title: "where", class: "where", key: (row) => row.locations[0] || "", cell: (row) => [row.locations[0] || "",
    row.locations.length > 1 ? make("small", {}, ` and ${row.locations.length - 1} more`) : ""] },
  // A compiler alone has no numbers and no cycles: what nothing fills is no column.
].filter((column) => !column.numeric || page.ops.length === 0 || page.ops.some((row) => column.key(row) !== null));

function badge(row) {
  const mark = make("span", { class: `badge ${row.status}`, title: page.statuses[row.status]?.meaning || "" }, row.status.replaceAll("_", " "));
  return row.expected ? make("span", { title: row.expected }, mark, make("small", {}, " known")) : mark;
}

function onPress(element, act) {
  element.addEventListener("click", act);
  element.addEventListener("keydown", (event) => {
    if (event.target !== element || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    act();
  });
}

for (const row of page.ops) {
  row.text = [row.id, row.name, row.kind, row.types, row.status, row.furthest, row.error, row.hypothesis, row.expected, row.cluster,
    ...row.models, ...row.locations].join("\n").toLowerCase();
}

const LIMIT = 300;
const state = { column: null, down: false, search: "", status: null, all: false, op: null };
const several = new Set(page.ops.map((row) => row.backend)).size > 1;
const anchor = (row) => several ? `${row.id}.${row.backend}` : row.id;
const named = (row) => Boolean(state.op) && anchor(row).startsWith(state.op);
const body = document.querySelector("#ops tbody");
const heads = columns.map((column, index) => {
  const head = make("th", column.numeric ? { class: "n", tabindex: "0" } : { tabindex: "0" }, column.title);
  const sort = () => {
    state.down = state.column === index ? !state.down : Boolean(column.numeric);
    state.column = index;
    fill();
    remember();
  };
  onPress(head, sort);
  return head;
});
document.querySelector("#ops thead tr").append(...heads);

function selected() {
  const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = page.ops.filter((row) => (!state.status || row.status === state.status) &&
    words.every((word) => row.text.includes(word)));
  if (state.column === null) return rows;
  const key = columns[state.column].key;
  const sign = state.down ? -1 : 1;
  return rows.sort((one, two) => {
    const a = key(one), b = key(two);
    if (a === null || b === null) return (a === null) - (b === null);  // what has no value stands last either way
    return sign * (typeof a === "string" ? a.localeCompare(b) : a - b);
  });
}

function fill() {
  const rows = selected();
  const shown = state.all ? rows : rows.slice(0, LIMIT);
  // The op of the address is there whatever else is searched for.
  if (state.op) shown.unshift(...page.ops.filter((row) => named(row) && !shown.includes(row)));
  body.replaceChildren(...shown.map((row) => {
    const line = make("tr", { class: "op", tabindex: "0", "data-op": anchor(row) }, ...columns.map((column) =>
      make("td", { class: column.numeric ? "n" : column.class || "" }, ...column.cell(row))));
    onPress(line, () => {
      if (getSelection().toString()) return;
      state.op = line.nextSibling?.className === "details" ? null : anchor(row);
      toggle(line, row);
      remember();
    });
    return line;
  }));
  shown.forEach((row, index) => { if (named(row)) toggle(body.querySelectorAll("tr.op")[index], row); });
  heads.forEach((head, index) => {
    if (index === state.column) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
  document.getElementById("shown").textContent =
    rows.length === page.ops.length ? `${rows.length}` : `${rows.length} of ${page.ops.length}`;
  const more = document.getElementById("more");
  more.hidden = state.all || rows.length <= LIMIT;
  more.textContent = `show all ${rows.length}`;
}

function toggle(line, row) {
  if (line.nextSibling?.className === "details") line.nextSibling.remove();
  else line.after(details(row));
}

function details(row) {
  const list = make("dl");
  const add = (name, ...value) => {
    if (value.some((part) => part !== "" && part !== null)) list.append(make("dt", {}, name), make("dd", {}, ...value));
  };
  add("op id", row.id, " ", make("a", { href: `#op=${anchor(row)}`, title: "a link to this op" }, "link"));
  add("models", row.models.join(", "));
  add("locations", row.locations.slice(0, 12).join("\n") + (row.locations.length > 12 ? `\nand ${row.locations.length - 12} more` : ""));
  add("attributes", Object.entries(row.params).map(([name, value]) => `${name} = ${value}`).join("\n"));
  add("chosen layouts", row.layouts.filter(Boolean).join("\n"));
  add("stages", row.stages.map(([stage, seconds]) => `${stage}  ${number(1000 * seconds, 1)} ms`).join("\n"));
  add("results", row.results.map((result, index) =>
    `${result.device === null ? index : `device ${result.device}`}: ${result.passed ? "right" : "wrong"}` +
    (result.z === null ? "" : `, z ${result.z.toPrecision(3)} of at most ${result.z_limit.toPrecision(3)} (${result.place})`) +
    (result.pcc === null ? "" : `, PCC ${result.pcc.toFixed(8)}`) +
    (result.l2 === null ? "" : `, relative L2 ${result.l2.toExponential(2)}`) +
    (result.max === null ? "" : `, largest difference ${result.max.toExponential(2)}`) +
    `, row ${result.tolerance}` + (result.reason ? `, ${result.reason}` : "") +
    (result.flags.length ? ` [${result.flags.join(", ")}]` : "")).join("\n"));
  add("ran on", row.ran_on === "none" ? "" : `${row.ran_on} (${row.card}) ${row.format}`);
  add("compiled by", row.compiled_by);
  add("narrowed", row.narrowed.join("\n"));
  add("device", row.cycles === null ? "" : `${number(row.cycles)} cycles` +
    (row.device_us === null ? "" : `, ${number(row.device_us, 1)} µs`));
  add("memory", [row.l1 === null ? "" : `L1 ${number(row.l1)} bytes per core`,
    row.dram === null ? "" : `DRAM ${number(row.dram)} bytes`].filter(Boolean).join(", "));
  add("inputs", row.provenance + (row.overwritten.length ? `; overwritten by the backend: ${row.overwritten.join(", ")}` : ""));
  add("limitation", row.expected);
  add("failed at", row.failed);
  add("message", row.error);
  add("hypothesis", row.hypothesis);
  add("crash", row.crash);
  add("cause", row.cluster);
  add("diagnostic", row.artifact ? make("a", { href: row.artifact }, decodeURIComponent(row.artifact)) : "");
  add("pipeline", row.pipeline);
  add("again", row.repro ? make("code", {}, row.repro) : "");
  for (const why of row.why || []) add(`expected and got, result ${why.number}`, ...worst(why));
  if (row.ir?.length) add("IR by stage", ...stages(row));
  else if (row.tone === "bad" || row.tone === "known") add("IR by stage", row.repro ? make("code", {}, `${row.repro} --keep-ir`) : "");
  return make("tr", { class: "details" }, make("td", { colspan: String(columns.length) }, list));
}

function worst(why) {
  const parts = [why.share, why.hypothesis].filter(Boolean).map((text) => make("div", {}, text));
  if (!why.worst.length) return [...parts, why.reason];
  const head = ["element", "expected", "got", "z"].map((word, index) => make("th", index ? { class: "n" } : {}, word));
  const rows = why.worst.map((each) => make("tr", {}, make("td", {}, make("code", {}, each.index), " ", make("small", {}, each.place)),
    ...["expected", "got", "z"].map((name) => make("td", { class: "n", "data-label": name }, each[name]))));
  return [...parts, make("table", { class: "worst" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))];
}

// The IR of an op after each stage; the stage with a marked line is open.
function stages(row) {
  const failing = row.ir.some((stage) => stage.marked.length) ? row.ir.findIndex((stage) => stage.marked.length) : row.ir.length - 1;
  return row.ir.map((stage, index) => {
    const lines = stage.lines.map((text, place) => {
      const number = stage.first + place, marked = stage.marked.includes(number);
      const line = make("div", marked ? { class: "marked" } : {}, make("span", { class: "at" }, String(number)), text);
      if (marked) line.title = "the failing op";
      return line;
    });
    const title = make("summary", {}, stage.name, " ", make("a", { href: stage.file }, "file"));
    if (stage.cut) title.append(make("small", {}, ` lines ${stage.first} to ${stage.first + stage.lines.length - 1}`));
    return make("details", index === failing ? { open: "" } : {}, title, make("pre", { class: "ir", tabindex: "0" }, ...lines));
  });
}

for (const place of document.querySelectorAll("details.stages")) {
  place.addEventListener("toggle", () => {
    const row = page.ops.find((one) => one.id === place.dataset.op && one.backend === place.dataset.backend);
    place.append(...stages(row));
  }, { once: true });
}

// --- the address: search, filter, order and opened op, so that what one sees can be sent to somebody

function remember() {
  const words = new URLSearchParams();
  if (state.search) words.set("search", state.search);
  if (state.status) words.set("status", state.status);
  if (state.column !== null) words.set("sort", (state.down ? "-" : "") + columns[state.column].title);
  if (state.op) words.set("op", state.op);
  const text = words.toString();
  history.replaceState(null, "", location.href.split("#")[0] + (text && `#${text}`));
}

// `#op=ID&search=dot&status=success&sort=-cycles` opens the op in the table; `#op-ID` leads to its failure, if it has one.
function restore() {
  const text = location.hash.slice(1);
  const direct = text.startsWith("op-") ? decodeURIComponent(text.slice(3)) : null;
  const words = new URLSearchParams(direct === null ? text : "");
  const order = words.get("sort") || "";
  const column = columns.findIndex((one) => one.title === order.replace(/^-/, ""));
  state.search = words.get("search") || "";
  state.status = words.get("status") in counts ? words.get("status") : null;
  state.column = column < 0 ? null : column;
  state.down = order.startsWith("-");
  const op = words.get("op") || direct;
  state.op = op && page.ops.some((row) => anchor(row).startsWith(op)) ? op : null;
  document.getElementById("search").value = state.search;
  press();
  fill();
  const failure = direct && document.getElementById(`op-${direct}`);
  const line = state.op && [...body.querySelectorAll("tr.op")].find((one) => one.dataset.op.startsWith(state.op));
  document.getElementById("unknown").textContent = op && !state.op ? `This page has no op ${op}.` : "";
  if (failure) for (let box = failure.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  if (failure || line) (failure || line).scrollIntoView();
  else if (text) document.getElementById("search").scrollIntoView({ block: "nearest" });
}

addEventListener("hashchange", restore);

function find(id) {
  const row = page.ops.find((one) => one.id === id);
  if (!row) return;  // another team's
  state.op = anchor(row);
  remember();
  restore();
}

const filters = document.getElementById("filters");
const counts = {};
for (const row of page.ops) counts[row.status] = (counts[row.status] || 0) + 1;
for (const [status, count] of Object.entries(counts)) {
  const button = make("button", { type: "button", "data-status": status, "aria-pressed": "false" },
    `${status.replaceAll("_", " ")} ${count}`);
  button.addEventListener("click", () => {
    state.status = state.status === status ? null : status;
    press();
    fill();
    remember();
  });
  filters.append(button);
}

function press() {
  for (const button of filters.children) button.setAttribute("aria-pressed", String(button.dataset.status === state.status));
}

document.getElementById("search").addEventListener("input", (event) => {
  state.search = event.target.value.trim();
  fill();
  remember();
});
document.getElementById("more").addEventListener("click", () => { state.all = true; fill(); });

const palette = make("style");
palette.textContent = Object.entries(page.statuses).map(([status, word]) => `.badge.${status}{background:${word.colour};color:${word.text}}`).join("");
document.head.append(palette);

// The other tables are in an order that says something; a click on a head sorts them by that column too.
for (const table of document.querySelectorAll("table.plain:not(#ops)")) {
  const rows = table.tBodies[0];
  [...(table.tHead?.rows[0].cells || [])].forEach((head, index) => {
    head.tabIndex = 0;
    onPress(head, () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const text = (line) => line.cells[index]?.textContent.trim() || "";
      const compare = new Intl.Collator("en", { numeric: true }).compare;
      const number = (line) => Number(text(line).replace(/[, %]/g, "") || NaN);
      const order = (one, two) => Number.isNaN(number(one) + number(two)) ? compare(text(one), text(two)) : number(one) - number(two);
      rows.append(...[...rows.rows].sort((one, two) => (down ? -1 : 1) * order(one, two)));
    });
  });
}

restore();
draw();
}
