// The page's own script: theme, charts, and the table of all ops. Texts enter the page as text, never as markup.
"use strict";
// The data of a large page is compressed: then it is there a moment after the page.
const holder = document.getElementById("data");
if (holder.dataset.packed) {
  const bytes = Uint8Array.from(atob(holder.textContent.trim()), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(holder.dataset.packed));
  new Response(unpacked).text().then((text) => start(JSON.parse(text)));
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
];

function badge(row) {
  const mark = make("span", { class: `badge ${row.status}`, title: page.statuses[row.status]?.meaning || "" }, row.status.replaceAll("_", " "));
  return row.expected ? make("span", { title: row.expected }, mark, make("small", {}, " known")) : mark;
}

for (const row of page.ops) {
  row.text = [row.id, row.name, row.kind, row.types, row.status, row.furthest, row.error, row.hypothesis, row.expected, row.cluster,
    ...row.models, ...row.locations].join("\n").toLowerCase();
}

const LIMIT = 300;
const state = { column: null, down: false, words: [], status: null, all: false };
const body = document.querySelector("#ops tbody");
const heads = columns.map((column, index) => {
  const head = make("th", column.numeric ? { class: "n", tabindex: "0" } : { tabindex: "0" }, column.title);
  const sort = () => {
    state.down = state.column === index ? !state.down : Boolean(column.numeric);
    state.column = index;
    fill();
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  return head;
});
document.querySelector("#ops thead tr").append(...heads);

function selected() {
  const rows = page.ops.filter((row) => (!state.status || row.status === state.status) &&
    state.words.every((word) => row.text.includes(word)));
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
  body.replaceChildren(...shown.map((row) => {
    const line = make("tr", { class: "op", tabindex: "0" }, ...columns.map((column) =>
      make("td", { class: column.numeric ? "n" : column.class || "" }, ...column.cell(row))));
    const toggle = () => {
      if (getSelection().toString()) return;
      if (line.nextSibling && line.nextSibling.className === "details") line.nextSibling.remove();
      else line.after(details(row));
    };
    line.addEventListener("click", toggle);
    line.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
    return line;
  }));
  heads.forEach((head, index) => {
    if (index === state.column) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
  document.getElementById("shown").textContent =
    rows.length === page.ops.length ? `${rows.length}` : `${rows.length} of ${page.ops.length}`;
  const more = document.getElementById("more");
  more.hidden = shown.length === rows.length;
  more.textContent = `show all ${rows.length}`;
}

function details(row) {
  const list = make("dl");
  const add = (name, ...value) => {
    if (value.some((part) => part !== "" && part !== null)) list.append(make("dt", {}, name), make("dd", {}, ...value));
  };
  add("op id", row.id);
  add("models", row.models.join(", "));
  add("locations", row.locations.slice(0, 12).join("\n") + (row.locations.length > 12 ? `\nand ${row.locations.length - 12} more` : ""));
  add("attributes", Object.entries(row.params).map(([name, value]) => `${name} = ${value}`).join("\n"));
  add("chosen layouts", row.layouts.filter(Boolean).join("\n"));
  add("stages", row.stages.map(([stage, seconds]) => `${stage}  ${number(1000 * seconds, 1)} ms`).join("\n"));
  add("results", row.results.map((result, index) => `${index}: ${result.passed ? "right" : "wrong"}` +
    (result.z === null ? "" : `, z ${result.z.toPrecision(3)} of at most ${result.z_limit.toPrecision(3)} (${result.place})`) +
    (result.pcc === null ? "" : `, PCC ${result.pcc.toFixed(8)}`) +
    (result.l2 === null ? "" : `, relative L2 ${result.l2.toExponential(2)}`) +
    (result.max === null ? "" : `, largest difference ${result.max.toExponential(2)}`) +
    `, row ${result.tolerance}` + (result.reason ? `, ${result.reason}` : "") +
    (result.flags.length ? ` [${result.flags.join(", ")}]` : "")).join("\n"));
  add("ran on", row.ran_on === "none" ? "" : `${row.ran_on} (${row.card}) ${row.format}`);
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
  add("error cluster", row.cluster);
  add("diagnostic", row.artifact ? make("a", { href: row.artifact }, decodeURIComponent(row.artifact)) : "");
  add("pipeline", row.pipeline);
  add("again", row.repro ? make("code", {}, row.repro) : "");
  return make("tr", { class: "details" }, make("td", { colspan: String(columns.length) }, list));
}

function find(id) {
  const search = document.getElementById("search");
  search.value = id;
  state.status = null;
  press();
  search.dispatchEvent(new Event("input"));
  document.getElementById("ops").scrollIntoView({ behavior: "smooth", block: "center" });
  const first = body.querySelector("tr.op");
  if (first) first.click();
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
  });
  filters.append(button);
}

function press() {
  for (const button of filters.children) button.setAttribute("aria-pressed", String(button.dataset.status === state.status));
}

document.getElementById("search").addEventListener("input", (event) => {
  state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  fill();
});
document.getElementById("more").addEventListener("click", () => { state.all = true; fill(); });

const palette = make("style");
palette.textContent = Object.entries(page.statuses).map(([status, word]) => `.badge.${status}{background:${word.colour}}`).join("");
document.head.append(palette);

fill();
draw();
}
