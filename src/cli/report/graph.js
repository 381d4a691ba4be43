// graph.js -- the plan as a graph: ranks from top to bottom, folded into columns; pan, zoom, keys.
// SPDX-License-Identifier: Apache-2.0

const NODE_W = 172, NODE_H = 36, GAP_X = 26, GAP_Y = 20, GAP_COLUMN = 62;

// Places of the main list's layers: { index: {x, y, band, rank} }, the edges and the whole size.
function layOut(box) {
  const shown = layers.filter(l => l.depth === 0), place = {}, edges = [];
  const isShown = new Set(shown.map(l => l.index));
  const rank = {}, readers = {}, reads = {};
  for (const l of shown) {
    const before = [...new Set(l.inputs.map(i => i.from))].filter(f => f !== undefined && isShown.has(f) && f < l.index);
    rank[l.index] = before.reduce((r, f) => Math.max(r, rank[f] + 1), 0);
    reads[l.index] = before;
    for (const f of before) {
      edges.push([f, l.index]);
      (readers[f] = readers[f] || []).push(l.index);
    }
  }
  for (const l of [...shown].reverse()) { // what costs nothing stands beside its reader, not in a long first row
    const after = (readers[l.index] || []).map(i => rank[i]);
    if (after.length && (l.kind === "view" || rank[l.index] === 0)) rank[l.index] = Math.max(rank[l.index], Math.min(...after) - 1);
  }
  const rows = [];
  for (const l of shown) (rows[rank[l.index]] = rows[rank[l.index]] || []).push(l.index);
  // Fold into as many columns, of about equal height, as let the picture be largest.
  let per = rows.length, scale = 0;
  for (let columns = 1; columns <= Math.min(60, rows.length); columns++) {
    const tall = Math.ceil(rows.length / columns);
    let width = 0;
    for (let at = 0; at < rows.length; at += tall)
      width += Math.max(...rows.slice(at, at + tall).map(r => r.length)) * (NODE_W + GAP_X) + GAP_COLUMN;
    const k = Math.min(box.width / width, box.height / (tall * (NODE_H + GAP_Y)));
    if (k > scale) [per, scale] = [tall, k];
  }
  let left = 0;
  for (let at = 0; at < rows.length; at += per) {
    const band = rows.slice(at, at + per), wide = Math.max(...band.map(r => r.length));
    band.forEach((row, k) => {
      const wish = i => { // under the mean of what it reads in this column
        const xs = reads[i].filter(f => place[f] && place[f].band === at).map(f => place[f].x);
        return xs.length ? xs.reduce((a, b) => a + b) / xs.length : left;
      };
      const order = row.map(i => [wish(i), i]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      const start = left + (wide - row.length) * (NODE_W + GAP_X) / 2;
      order.forEach(([, i], n) => { place[i] = { x: start + n * (NODE_W + GAP_X), y: k * (NODE_H + GAP_Y), band: at, rank: at + k, n }; });
    });
    left += wide * (NODE_W + GAP_X) + GAP_COLUMN;
  }
  const size = { width: left - GAP_COLUMN - GAP_X, height: Math.min(per, rows.length) * (NODE_H + GAP_Y) - GAP_Y };
  return { shown, place, edges, size };
}

function edgePath(a, b) {
  const x0 = a.x + NODE_W / 2, y0 = a.y + NODE_H, x1 = b.x + NODE_W / 2, y1 = b.y;
  if (a.band === b.band && b.rank === a.rank + 1) {
    const m = (y0 + y1) / 2;
    return `M${x0},${y0}C${x0},${m} ${x1},${m} ${x1},${y1}`;
  }
  if (a.band === b.band) { // past the rows between, along the right side
    const r = Math.max(a.x, b.x) + NODE_W, d = 10 + Math.min(26, 4 * (b.rank - a.rank));
    return `M${a.x + NODE_W},${a.y + NODE_H / 2}C${r + d},${a.y + NODE_H / 2} ${r + d},${b.y + NODE_H / 2} ${b.x + NODE_W},${b.y + NODE_H / 2}`;
  }
  const sx = a.x + NODE_W, sy = a.y + NODE_H / 2, ex = b.x, ey = b.y + NODE_H / 2, d = GAP_COLUMN;
  return `M${sx},${sy}C${sx + d},${sy} ${ex - d},${ey} ${ex},${ey}`;
}

const tailOf = (text, n) => text.length > n ? "…" + text.slice(1 - n) : text;
const headOf = (text, n) => text.length > n ? text.slice(0, n - 1) + "…" : text;

function startGraph() {
  const svg = $("graph");
  const { shown, place, edges, size } = layOut(svg.getBoundingClientRect());
  const world = draw(svg, "g"), lines = draw(world, "g"), nodes = draw(world, "g");
  const nodeOf = {}, linesOf = {};
  for (const [a, b] of edges) {
    const p = draw(lines, "path", { class: "edge", d: edgePath(place[a], place[b]) });
    for (const i of [a, b]) (linesOf[i] = linesOf[i] || []).push(p);
  }
  for (const l of shown) {
    const at = place[l.index], g = draw(nodes, "g", { class: "node", transform: `translate(${at.x},${at.y})` });
    draw(g, "rect", { width: NODE_W, height: NODE_H, rx: 6 });
    const op = l.operator.replace(/^cameo\./, "");
    draw(g, "text", { x: 8, y: 15, "font-size": 12, "font-weight": 600 }, headOf(op, 14));
    draw(g, "text", { x: NODE_W - 8, y: 15, "font-size": 11, "text-anchor": "end" }, ms(l.ms));
    draw(g, "text", { x: 8, y: 29, "font-size": 10 }, tailOf(l.name, 25));
    g.addEventListener("click", () => choose(l.index, "graph"));
    g.addEventListener("mousemove", e => tip(e, tipText(l)));
    g.addEventListener("mouseleave", e => tip(e, ""));
    nodeOf[l.index] = g;
  }

  // ---- View ----
  let view = { x: 0, y: 0, k: 1 };
  const show = () => world.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.k})`);
  function fit() {
    const r = svg.getBoundingClientRect(), pad = 24;
    const k = Math.min((r.width - 2 * pad) / Math.max(1, size.width), (r.height - 2 * pad) / Math.max(1, size.height), 1.6);
    view = { k, x: (r.width - size.width * k) / 2, y: (r.height - size.height * k) / 2 };
    show();
  }
  function zoom(factor, cx, cy) {
    const r = svg.getBoundingClientRect();
    cx = cx === undefined ? r.width / 2 : cx;
    cy = cy === undefined ? r.height / 2 : cy;
    const k = Math.max(0.05, Math.min(6, view.k * factor)), f = k / view.k;
    view = { k, x: cx - (cx - view.x) * f, y: cy - (cy - view.y) * f };
    show();
  }
  function bringIn(i) { // move as little as makes the layer visible
    const at = place[i], r = svg.getBoundingClientRect(), pad = 30;
    if (!at) return;
    const x = at.x * view.k + view.x, y = at.y * view.k + view.y, w = NODE_W * view.k, h = NODE_H * view.k;
    if (x < pad) view.x += pad - x; else if (x + w > r.width - pad) view.x -= x + w - r.width + pad;
    if (y < pad) view.y += pad - y; else if (y + h > r.height - pad) view.y -= y + h - r.height + pad;
    show();
  }
  $("zoom-in").onclick = () => zoom(1.4);
  $("zoom-out").onclick = () => zoom(1 / 1.4);
  $("zoom-fit").onclick = fit;
  svg.addEventListener("wheel", e => {
    if (document.activeElement !== svg && !e.ctrlKey) return; // the page scrolls
    e.preventDefault();
    const r = svg.getBoundingClientRect();
    zoom(Math.exp(-e.deltaY * 0.0015), e.clientX - r.left, e.clientY - r.top);
  }, { passive: false });
  let grabbed = null;
  svg.addEventListener("pointerdown", e => { grabbed = { x: e.clientX - view.x, y: e.clientY - view.y }; });
  addEventListener("pointermove", e => {
    if (!grabbed) return;
    svg.classList.add("moving");
    view.x = e.clientX - grabbed.x;
    view.y = e.clientY - grabbed.y;
    show();
  });
  addEventListener("pointerup", () => { grabbed = null; svg.classList.remove("moving"); });
  svg.addEventListener("keydown", e => {
    const at = shown.findIndex(l => l.index === chosen), step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[e.key];
    if (e.shiftKey && step) {
      if (e.key === "ArrowDown" || e.key === "ArrowUp") view.y -= 60 * step; else view.x -= 60 * step;
      show();
    } else if (step) choose(shown[Math.max(0, Math.min(shown.length - 1, at + step))].index, "keys");
    else if (e.key === "+" || e.key === "=") zoom(1.25);
    else if (e.key === "-") zoom(0.8);
    else if (e.key === "0") fit();
    else return;
    e.preventDefault();
  });

  // ---- Colour and choice ----
  function paint() {
    const by = $("colour").value;
    for (const l of shown) {
      const colour = colourOf(l, by), g = nodeOf[l.index];
      g.firstChild.setAttribute("fill", colour);
      g.querySelectorAll("text").forEach(t => { t.style.fill = inkOn(colour); });
    }
    if (by === "time") rampLegend($("graph-legend"), "0", ms(slowest));
    else if (by === "limit") rampLegend($("graph-legend"), "at the limit", "far from it");
    else if (by === "kind") legend($("graph-legend"), data.totals.map(t => [t.kind, kindColours[t.kind]]));
    else legend($("graph-legend"), Object.entries(boundColours).filter(([b]) => layers.some(l => l.bound === b)));
  }
  $("colour").onchange = paint;
  painters.push(paint);
  watchers.push((i, from) => {
    nodes.querySelectorAll(".chosen").forEach(e => e.classList.remove("chosen"));
    lines.querySelectorAll(".chosen").forEach(e => e.classList.remove("chosen"));
    if (!nodeOf[i]) return;
    nodeOf[i].classList.add("chosen");
    (linesOf[i] || []).forEach(p => { p.classList.add("chosen"); lines.append(p); });
    if (from !== "graph") bringIn(i);
  });
  addEventListener("resize", fit);
  fit();
}

// ---- The chosen layer in words ----
function startDetail() {
  const host = $("detail");
  watchers.push(i => {
    const l = layers[i], list = make("dl");
    const add = (name, value) => { if (value !== "" && value !== undefined && value !== null) list.append(make("dt", {}, name), make("dd", {}, value)); };
    add("time", `${ms(l.ms)} (${ms(l.minMs)} to ${ms(l.maxMs)})`);
    add("share", percent(l.share));
    if (l.calls !== 1) add("calls", `${l.calls} in a run`);
    add("kind", l.kind);
    add("tactic", l.tactic ? make("code", {}, l.tactic) : "");
    if (l.reference) add("", "no kernel takes it: its reference runs");
    add("bound by", l.bound);
    if (l.fraction > 0) add("limit", `${ms(l.limitMs)}: ${percent(l.fraction)} of it`);
    if (l.expectedMs > 0) add("expected", ms(l.expectedMs));
    if (l.ops > 0) add("operations", `${digits(l.ops * 1e-9, 4)} GFLOP, ${digits(l.gflops)} GFLOP/s`);
    if (moved(l) > 0) add("bytes", `${bytes(moved(l))} (in ${bytes(l.inBytes)}, weights ${bytes(l.weightBytes)}, out ${bytes(l.outBytes)}), ${digits(l.gbps)} GB/s`);
    if (l.conversions) add("conversions", `${l.conversions} input${l.conversions > 1 ? "s" : ""} into another layout, ${ms(l.conversionMs)}, ${bytes(l.conversionBytes)}`);
    if (l.workspace) add("workspace", bytes(l.workspace));
    if (l.epilogue) add("then", make("code", {}, l.epilogue));
    const values = (title, v) => v.length ? [make("h3", {}, title), make("ul", {}, ...v.map(x => {
      const item = make("li", {}, make("code", {}, x.type || "?"), " ");
      item.append(x.from !== undefined ? link({ index: x.from, name: x.name }) : x.name + (x.weight ? ", a weight" : ""));
      return item;
    }))] : [];
    const nodes = l.nodes.length ? [make("h3", {}, `ONNX nodes (${l.nodes.length})`), make("ul", {}, ...l.nodes.map(n => make("li", {}, n)))] : [];
    host.replaceChildren(make("h3", {}, `${l.operator} ${l.name}`), list, ...values("Inputs", l.inputs), ...values("Outputs", l.outputs), ...nodes);
    host.scrollTop = 0;
  });
}
