// core.js -- the data, numbers as text, colours, the theme, and which layer is chosen.
// SPDX-License-Identifier: Apache-2.0
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const layers = data.layers;
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// An element with attributes; text goes in as text, never as markup.
function make(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {}))
    if (k === "class") e.className = v; else if (k.startsWith("on")) e[k] = v; else e.setAttribute(k, v);
  e.append(...children);
  return e;
}
function draw(parent, name, attributes, text) {
  const e = document.createElementNS(SVG, name);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  parent.append(e);
  return e;
}

// ---- Numbers ----
function digits(v, n) {
  if (!isFinite(v)) return "";
  const a = Math.abs(v);
  return a >= 100 ? v.toFixed(0) : a >= 10 ? v.toFixed(1) : a === 0 ? "0" : v.toFixed(n === undefined ? 2 : n);
}
function ms(v) {
  return v >= 1 ? digits(v) + " ms" : v >= 1e-3 ? digits(v * 1e3) + " µs" : digits(v * 1e6, 0) + " ns";
}
function bytes(v) {
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (v < 1000) return (unit === "B" ? v.toFixed(0) : digits(v)) + " " + unit;
    v /= 1000;
  }
  return digits(v) + " TB";
}
const percent = v => digits(100 * v, 1) + "\u00a0%";
const moved = l => l.inBytes + l.weightBytes + l.outBytes;
const is_copy = l => l.kind === "move" || l.kind === "copy";

// ---- Colours: [light, dark] ----
const kindColours = {};
const PALETTE = ["#4e79a7", "#e58606", "#5d9e4a", "#c44e52", "#8a6bbf", "#3ba6a6", "#b8860b", "#d46a9f", "#7a8793", "#9c6b4e", "#5f9ed1", "#a3b82f"];
data.totals.forEach((t, i) => { kindColours[t.kind] = PALETTE[i % PALETTE.length]; });
kindColours.view = "#9aa3ad";
kindColours.control = "#7a8793";
const boundColours = { compute: "#3f8f4f", memory: "#3b7dc4", overhead: "#c98a00", copies: "#c4557a", reference: "#c0392b", host: "#a0522d", nothing: "#9aa3ad", control: "#7a8793" };
const isDark = () => document.documentElement.dataset.theme === "dark";
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function mix(a, b, t) {
  const part = (c, i) => parseInt(c.slice(1 + 2 * i, 3 + 2 * i), 16);
  return "#" + [0, 1, 2].map(i => Math.round(part(a, i) + (part(b, i) - part(a, i)) * t).toString(16).padStart(2, "0")).join("");
}
function ramp(t) { // cold to hot
  const stops = isDark() ? ["#2a313a", "#5b4a1e", "#b4590f", "#ff5c3d"] : ["#eef2f6", "#ffe2a3", "#ff9f4a", "#d9301f"];
  const x = Math.max(0, Math.min(1, t)) * 3, i = Math.min(2, Math.floor(x));
  return mix(stops[i], stops[i + 1], x - i);
}
function inkOn(colour) { // black or white, whichever reads better
  const [r, g, b] = [0, 1, 2].map(i => {
    const v = parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16) / 255;
    return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4);
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.19 ? "#101418" : "#ffffff";
}
const slowest = Math.max(1e-9, ...layers.filter(l => l.depth === 0).map(l => l.ms));
function colourOf(l, by) {
  if (by === "kind") return kindColours[l.kind] || "#7a8793";
  if (by === "bound") return boundColours[l.bound] || "#7a8793";
  if (by === "limit") return l.fraction > 0 ? ramp(1 - Math.min(1, l.fraction)) : ramp(0);
  return ramp(Math.sqrt(l.ms / slowest)); // the root tells short layers apart
}
function legend(host, entries) {
  host.replaceChildren(...entries.map(([name, colour]) => {
    const i = make("i");
    i.style.background = colour;
    return make("span", {}, i, name);
  }));
}
function rampLegend(host, from, to) {
  const i = make("i", { class: "ramp" });
  i.style.background = `linear-gradient(to right, ${[0, 1 / 3, 2 / 3, 1].map(ramp).join(", ")})`;
  host.replaceChildren(make("span", {}, from), i, make("span", {}, to));
}

// ---- The chosen layer, and who wants to know ----
const watchers = [], painters = [];
let chosen = -1;
function choose(i, from) {
  if (i < 0 || i >= layers.length) return;
  chosen = i;
  watchers.forEach(f => f(i, from));
}
function repaint() { painters.forEach(f => f()); }

// ---- Tooltip ----
function tip(event, text) {
  const t = $("tip");
  t.hidden = !text;
  if (!text) return;
  t.textContent = text;
  const r = t.getBoundingClientRect();
  t.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - r.width - 8)) + "px";
  t.style.top = Math.max(4, Math.min(event.clientY + 16, innerHeight - r.height - 8)) + "px";
}
function tipText(l) {
  return `${l.operator} ${l.name}\n${ms(l.ms)}, ${percent(l.share)}` + (l.fraction > 0 ? `, ${percent(l.fraction)} of the limit` : "") +
    `\nbound by ${l.bound}` + (l.tactic ? `\n${l.tactic}` : "");
}

// ---- Theme ----
function setTheme(dark, keep) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light theme" : "Dark theme";
  if (keep) try { localStorage.setItem("cameo-theme", dark ? "dark" : "light"); } catch (e) { /* files may have no storage */ }
  repaint();
}
function startTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let kept = null;
  try { kept = localStorage.getItem("cameo-theme"); } catch (e) { /* as above */ }
  setTheme(kept ? kept === "dark" : system.matches, false);
  system.addEventListener("change", e => { if (!kept) setTheme(e.matches, false); });
  $("theme").onclick = () => { kept = "chosen"; setTheme(!isDark(), true); };
}

// ---- Head ----
function startHead() {
  const name = data.model.split("/").pop(), m = data.machine;
  document.title = name + " – Cameo profile";
  $("title").textContent = name;
  $("about").textContent = `${data.target}, ${data.threads} thread${data.threads === 1 ? "" : "s"}, ${m.cpu} · ${layers.length} layers, median of ${data.runs} runs · cameo ${data.cameo}`;
  const ops = data.totals.reduce((s, t) => s + t.ops, 0), limit = layers.filter(l => !l.depth).reduce((s, l) => s + l.limitMs, 0);
  const copies = layers.reduce((s, l) => s + (is_copy(l) ? l.ms : l.conversionMs), 0);
  const tile = (value, what) => make("div", { class: "tile" }, make("b", {}, value), make("span", {}, what));
  $("tiles").append(
    tile(ms(data.plainMs), "a run"),
    tile(ms(data.watchedMs), `a watched run, ${data.watchedMs >= data.plainMs ? "+" : "−"}${percent(Math.abs(data.watchedMs / data.plainMs - 1))}`),
    tile(percent(data.covered), "of it in layers"),
    tile(digits(ops * 1e-6 / data.plainMs) + " GFLOP/s", `of ${digits(m.f32Gflops)} measured`),
    tile(percent(limit / data.plainMs), "of the machine's limit"),
    tile(ms(copies), "conversions and copies"),
    tile(bytes(data.memory.arenaBytes), "arena"),
    tile(bytes(data.memory.weightBytes), "weights"));
  const warn = text => { $("warning").hidden = false; $("warning").append(text + " "); };
  if (limit > 1.2 * data.watchedMs)
    warn("Layers are faster than the limit that was measured: other programs held the machine back meanwhile. Profile again when it is idle.");
  if (data.covered < 0.95) {
    warn(`${percent(1 - data.covered)} of the run are between layers: they are so short that looking at the clock counts. Take shares as a hint only.`);
  }
  const body = $("totals").tBodies[0];
  for (const t of data.totals) {
    const bar = make("span", { class: "bar" });
    bar.style.width = Math.max(1, 70 * Math.min(1, t.share)) + "px";
    bar.style.background = kindColours[t.kind];
    body.append(make("tr", {}, make("td", {}, t.kind), make("td", { class: "n" }, String(t.layers)), make("td", { class: "n" }, digits(t.ms, 3)),
      make("td", {}, bar, percent(t.share)), make("td", { class: "n" }, digits(t.ops * 1e-9)), make("td", { class: "n" }, digits(t.bytes * 1e-6))));
  }
}

function startCopies() {
  const found = layers.filter(l => l.conversions > 0 || is_copy(l));
  if (!found.length) {
    $("copies").append(make("p", { class: "hint" }, "None are left in the plan."));
    return;
  }
  const rows = found.map(l => [is_copy(l) ? l.ms : l.conversionMs, is_copy(l) ? moved(l) : l.conversionBytes, l]).sort((a, b) => b[0] - a[0]);
  const body = make("tbody");
  for (const [time, size, l] of rows.slice(0, 12))
    body.append(make("tr", {}, make("td", { class: "n" }, ms(time)), make("td", { class: "n" }, bytes(size)),
      make("td", {}, is_copy(l) ? l.operator : "layout of inputs"), make("td", {}, link(l))));
  $("copies").append(make("table", {}, make("thead", {}, make("tr", {}, make("th", { class: "n" }, "time"), make("th", { class: "n" }, "bytes"), make("th", {}, "what"), make("th", {}, "layer"))), body));
  if (rows.length > 12) $("copies").append(make("p", { class: "hint" }, `and ${rows.length - 12} more, see the table of layers`));
}
function link(l) {
  const name = l.name.length > 38 ? "…" + l.name.slice(-37) : l.name;
  return make("a", { href: "#plan", title: l.name, onclick: () => choose(l.index, "link") }, name);
}
