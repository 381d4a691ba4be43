// timeline.js -- one run, layer by layer, and the arena while it runs.
// SPDX-License-Identifier: Apache-2.0

// A canvas as sharp as the screen; gives its context and its size in CSS pixels.
function canvasOf(canvas, height) {
  if (height) canvas.style.height = height + "px";
  const r = canvas.getBoundingClientRect(), k = devicePixelRatio || 1, w = r.width - 2, h = r.height - 2;
  canvas.width = Math.max(1, Math.round(w * k));
  canvas.height = Math.max(1, Math.round(h * k));
  const c = canvas.getContext("2d");
  c.setTransform(k, 0, 0, k, 0, 0);
  c.clearRect(0, 0, w, h);
  c.font = "11px system-ui, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";
  c.textBaseline = "middle";
  return { c, w, h };
}
function ticks(from, to, n) {
  const raw = (to - from) / n, base = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map(f => f * base).find(s => s >= raw), out = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) out.push(t);
  return out;
}

function startTimeline() {
  const canvas = $("time"), whole = data.timeline.us, events = data.timeline.events;
  const depth = Math.max(0, ...events.map(e => layers[e[0]].depth)), ROW = 34, LEFT = 84, TOP = 24;
  const converts = layers.some(l => l.conversionMs > 0);
  const nested = Math.min(4, depth + 1), threads = (data.timeline.threads || []).slice(0, 32);
  const rows = nested + (converts ? 1 : 0) + threads.length;
  const busy = []; // conversions come first in their layer
  for (const [i, start, length] of events) {
    const l = layers[i];
    if (l.conversionMs > 0) busy.push([i, start, Math.min(length, l.conversionMs * 1e3 / Math.max(1, l.calls))]);
  }
  let view = [0, whole], hits = [];

  function bars(c, w, list, row, colour) {
    const k = (w - LEFT) / (view[1] - view[0]), y = TOP + row * ROW;
    for (const [i, start, length] of list) {
      const x = LEFT + (start - view[0]) * k, wide = length * k;
      if (x + wide < LEFT || x > w) continue;
      const a = Math.max(LEFT, x), b = Math.min(w, x + Math.max(wide, 0.5));
      c.fillStyle = colour(layers[i]);
      c.fillRect(a, y, Math.max(0.5, b - a - (wide > 3 ? 1 : 0)), ROW - 8);
      if (i === chosen) {
        c.strokeStyle = style("--accent");
        c.lineWidth = 3;
        c.strokeRect(a, y, Math.max(1, b - a), ROW - 8);
      }
      hits.push([a, b, y, y + ROW - 8, i, length]);
      const text = layers[i].operator.replace(/^cameo\./, "");
      if (b - a > 44) {
        c.save();
        c.beginPath();
        c.rect(a, y, b - a - 4, ROW);
        c.clip();
        c.fillStyle = inkOn(colour(layers[i]));
        c.fillText(b - a > 190 ? `${text}  ${layers[i].name}` : text, a + 5, y + (ROW - 8) / 2);
        c.restore();
      }
    }
  }
  function paint() {
    const { c, w, h } = canvasOf(canvas, TOP + rows * ROW + 4);
    hits = [];
    c.fillStyle = style("--dim");
    c.strokeStyle = style("--grid");
    c.lineWidth = 1;
    for (const t of ticks(view[0], view[1], Math.max(2, (w - LEFT) / 110))) {
      const x = LEFT + (t - view[0]) / (view[1] - view[0]) * (w - LEFT);
      c.beginPath();
      c.moveTo(x, TOP - 6);
      c.lineTo(x, h);
      c.stroke();
      c.textAlign = x > w - 40 ? "right" : "left";
      c.fillText(ms(t / 1e3), x + (x > w - 40 ? -3 : 3), 10);
    }
    c.textAlign = "left";
    for (let d = 0; d < nested; d++) {
      bars(c, w, events.filter(e => Math.min(3, layers[e[0]].depth) === d), d, l => kindColours[l.kind] || "#7a8793");
      c.fillStyle = style("--dim");
      c.fillText(d ? `nested ${d}` : "layers", 8, TOP + d * ROW + (ROW - 8) / 2);
    }
    if (converts) {
      bars(c, w, busy, nested, () => boundColours.copies);
      c.fillStyle = style("--dim");
      c.fillText("conversions", 8, TOP + nested * ROW + (ROW - 8) / 2);
    }
    threads.forEach((list, t) => {
      const row = rows - threads.length + t;
      bars(c, w, list, row, l => kindColours[l.kind] || "#7a8793");
      c.fillStyle = style("--dim");
      c.fillText(t ? `worker ${t}` : "caller", 8, TOP + row * ROW + (ROW - 8) / 2);
    });
    legend($("time-legend"), data.totals.map(t => [t.kind, kindColours[t.kind]]));
  }
  function zoom(f, at) {
    const span = Math.min(whole, Math.max(whole / 5000, (view[1] - view[0]) * f)), mid = at === undefined ? (view[0] + view[1]) / 2 : at;
    let from = mid - (mid - view[0]) * span / (view[1] - view[0]);
    from = Math.max(0, Math.min(whole - span, from));
    view = [from, from + span];
    paint();
  }
  function shift(by) {
    const span = view[1] - view[0], from = Math.max(0, Math.min(whole - span, view[0] + by));
    view = [from, from + span];
    paint();
  }
  const timeAt = x => view[0] + (x - LEFT) / (canvas.clientWidth - LEFT) * (view[1] - view[0]);
  const hit = e => {
    const r = canvas.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    return hits.find(b => x >= b[0] - 1 && x <= b[1] + 1 && y >= b[2] && y <= b[3]);
  };
  $("time-in").onclick = () => zoom(0.6);
  $("time-out").onclick = () => zoom(1 / 0.6);
  $("time-fit").onclick = () => { view = [0, whole]; paint(); };
  canvas.addEventListener("wheel", e => {
    if (document.activeElement !== canvas && !e.ctrlKey) return;
    e.preventDefault();
    zoom(Math.exp(e.deltaY * 0.0015), timeAt(e.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
  canvas.addEventListener("keydown", e => {
    if (e.key === "ArrowLeft") shift(-(view[1] - view[0]) / 8);
    else if (e.key === "ArrowRight") shift((view[1] - view[0]) / 8);
    else if (e.key === "+" || e.key === "=") zoom(0.7);
    else if (e.key === "-") zoom(1 / 0.7);
    else if (e.key === "0") { view = [0, whole]; paint(); }
    else return;
    e.preventDefault();
  });
  let grabbed = null, dragged = false;
  canvas.addEventListener("pointerdown", e => { grabbed = e.clientX; dragged = false; });
  addEventListener("pointermove", e => {
    if (grabbed === null) return;
    dragged = dragged || Math.abs(e.clientX - grabbed) > 3;
    if (!dragged) return;
    shift(-(e.clientX - grabbed) / (canvas.clientWidth - LEFT) * (view[1] - view[0]));
    grabbed = e.clientX;
  });
  addEventListener("pointerup", () => { grabbed = null; });
  canvas.addEventListener("click", e => { const b = hit(e); if (b && !dragged) choose(b[4], "time"); });
  canvas.addEventListener("mousemove", e => { const b = hit(e); tip(e, b ? tipText(layers[b[4]]) + `\nhere ${ms(b[5] / 1e3)}` : ""); });
  canvas.addEventListener("mouseleave", e => tip(e, ""));
  painters.push(paint);
  addEventListener("resize", paint);
  watchers.push(paint);
}

function startMemory() {
  const canvas = $("mem"), m = data.memory, LEFT = 62, TOP = 10, BOTTOM = 20;
  const n = Math.max(1, m.live.length), high = Math.max(1, m.arenaBytes);
  const nameOf = b => b.value === null ? "workspace" : b.value;
  const ownerOf = b => b.layer >= 0 ? layers[b.layer] : null;
  let hits = [];
  function paint() {
    const { c, w, h } = canvasOf(canvas);
    const X = p => LEFT + p / n * (w - LEFT - 8), Y = v => TOP + (1 - v / high) * (h - TOP - BOTTOM);
    hits = [];
    c.strokeStyle = style("--grid");
    c.fillStyle = style("--dim");
    c.textAlign = "right";
    for (const t of ticks(0, high, 5)) {
      c.beginPath();
      c.moveTo(LEFT, Y(t));
      c.lineTo(w - 8, Y(t));
      c.stroke();
      c.fillText(bytes(t), LEFT - 6, Y(t));
    }
    for (const b of m.blocks) {
      if (!b.bytes) continue;
      const l = ownerOf(b), x = X(b.first), wide = Math.max(1, X(Math.min(n, b.last + 1)) - x), y = Y(b.offset + b.bytes), tall = Math.max(1, Y(b.offset) - y);
      c.globalAlpha = b.value === null ? 0.45 : 0.85;
      c.fillStyle = (l && kindColours[l.kind]) || "#7a8793";
      c.fillRect(x, y, wide, tall);
      c.globalAlpha = 1;
      c.strokeStyle = style("--card");
      c.lineWidth = 1;
      c.strokeRect(x, y, wide, tall);
      if (l && l.index === chosen) {
        c.strokeStyle = style("--accent");
        c.lineWidth = 3;
        c.strokeRect(x, y, wide, tall);
      }
      hits.push([x, x + wide, y, y + tall, b]);
    }
    c.strokeStyle = style("--text");
    c.lineWidth = 1.5;
    c.beginPath();
    m.live.forEach((v, i) => { c.lineTo(X(i), Y(v)); c.lineTo(X(i + 1), Y(v)); });
    c.stroke();
    c.setLineDash([4, 3]);
    c.beginPath();
    c.moveTo(X(m.peakPosition + 0.5), TOP);
    c.lineTo(X(m.peakPosition + 0.5), h - BOTTOM);
    c.stroke();
    c.setLineDash([]);
    c.fillStyle = style("--dim");
    c.textAlign = "center";
    const at = X(m.peakPosition + 0.5);
    c.fillText("peak", Math.max(LEFT + 16, Math.min(w - 24, at)), h - BOTTOM / 2);
  }
  const hit = e => {
    const r = canvas.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    return hits.findLast(b => x >= b[0] && x <= b[1] && y >= b[2] && y <= b[3]);
  };
  canvas.addEventListener("mousemove", e => {
    const b = hit(e), l = b && ownerOf(b[4]);
    tip(e, b ? `${nameOf(b[4])}\n${bytes(b[4].bytes)}` + (l ? `\nof ${l.operator} ${l.name}` : "") : "");
  });
  canvas.addEventListener("mouseleave", e => tip(e, ""));
  canvas.addEventListener("click", e => { const b = hit(e); if (b && b[4].layer >= 0) choose(b[4].layer, "memory"); });
  const alive = m.blocks.filter(b => b.bytes && b.first <= m.peakPosition && m.peakPosition <= b.last).sort((a, b) => b.bytes - a.bytes);
  const list = make("ol", {}, ...alive.slice(0, 20).map(b => {
    const l = ownerOf(b), item = make("li", {}, `${bytes(b.bytes)} ${nameOf(b)}`);
    if (l) item.append(" of ", link(l));
    return item;
  }));
  $("owners").append(make("h3", {}, `At the peak: ${bytes(m.live.length ? m.live[m.peakPosition] : 0)}`), list);
  $("memory-about").textContent = `arena ${bytes(m.arenaBytes)}, context ${bytes(m.contextBytes)}, weights ${bytes(m.weightBytes)}`;
  painters.push(paint);
  addEventListener("resize", paint);
  watchers.push(paint);
}
