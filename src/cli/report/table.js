// table.js -- the layers in a table: sorted by any column, filtered; then everything starts.
// SPDX-License-Identifier: Apache-2.0

function startTable() {
  const columns = [
    ["#", l => l.index, l => String(l.index), "n"],
    ["layer", l => l.name, null, "name"],
    ["operator", l => l.operator, null, "short"],
    ["kind", l => l.kind],
    ["time", l => l.ms, l => ms(l.ms), "n"],
    ["share", l => l.share, null],
    ["GFLOP", l => l.ops, l => l.ops ? digits(l.ops * 1e-9, 3) : "", "n"],
    ["MB", l => moved(l), l => moved(l) ? digits(moved(l) * 1e-6) : "", "n"],
    ["GFLOP/s", l => l.gflops, l => l.gflops ? digits(l.gflops) : "", "n"],
    ["GB/s", l => l.gbps, l => l.gbps ? digits(l.gbps) : "", "n"],
    ["of limit", l => l.fraction, l => l.fraction ? digits(100 * l.fraction, 0) + " %" : "", "n"],
    ["bound by", l => l.bound, null],
    ["tactic", l => l.tactic || ""],
    ["output", l => l.outputs.length && l.outputs[0].type || ""],
  ];
  const MOST = 1500, head = $("table").tHead, body = $("table").tBodies[0];
  let sort = { column: 4, down: true };
  const row = make("tr");
  columns.forEach(([name, , , kind], i) => {
    const button = make("button", { type: "button", onclick: () => {
      sort = { column: i, down: sort.column === i ? !sort.down : kind === "n" || name === "share" };
      fill();
    } }, name);
    row.append(make("th", { scope: "col", class: kind === "n" ? "n" : "" }, button));
  });
  head.append(row);
  for (const k of new Set(layers.map(l => l.kind))) $("only-kind").append(make("option", { value: k }, k));
  for (const b of new Set(layers.map(l => l.bound))) $("only-bound").append(make("option", { value: b }, b));
  const words = layers.map(l => [l.name, l.operator, l.kind, l.tactic || "", l.epilogue || "", ...l.nodes].join(" ").toLowerCase());

  function cell(l, [name, value, text, kind]) {
    const td = make("td", { class: kind || "" });
    if (name === "share") {
      const bar = make("span", { class: "bar" });
      bar.style.width = Math.max(1, 70 * Math.min(1, l.share * slowestShare)) + "px";
      td.append(bar, percent(l.share));
    } else if (name === "bound by") {
      const badge = make("span", { class: "badge" }, l.bound);
      badge.style.background = boundColours[l.bound];
      badge.style.color = inkOn(boundColours[l.bound]);
      td.append(badge);
    } else if (name === "layer") {
      td.append("\u2003".repeat(l.depth), make("button", { type: "button", title: l.name, onclick: () => choose(l.index, "table") }, l.name));
    } else {
      td.append(text ? text(l) : value(l));
      if (kind === "short") td.title = value(l);
    }
    return td;
  }
  const slowestShare = 1 / Math.max(1e-9, ...layers.map(l => l.share));
  function fill() {
    const find = $("find").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const kind = $("only-kind").value, bound = $("only-bound").value, value = columns[sort.column][1];
    const shown = layers.filter(l => (!kind || l.kind === kind) && (!bound || l.bound === bound) && find.every(w => words[l.index].includes(w)));
    shown.sort((a, b) => {
      const x = value(a), y = value(b), d = x < y ? -1 : x > y ? 1 : 0;
      return (sort.down ? -d : d) || a.index - b.index;
    });
    [...head.rows[0].cells].forEach((th, i) => {
      const on = i === sort.column;
      th.setAttribute("aria-sort", on ? (sort.down ? "descending" : "ascending") : "none");
      th.firstChild.textContent = columns[i][0] + (on ? (sort.down ? " ▾" : " ▴") : "");
    });
    body.replaceChildren(...shown.slice(0, MOST).map(l => {
      const tr = make("tr", { class: l.index === chosen ? "chosen" : "", onclick: () => choose(l.index, "table") }, ...columns.map(c => cell(l, c)));
      tr.dataset.layer = l.index;
      return tr;
    }));
    const time = shown.filter(l => !l.depth).reduce((s, l) => s + l.ms, 0);
    $("count").textContent = `${shown.length} of ${layers.length} layers, ${ms(time)}` + (shown.length > MOST ? `; the first ${MOST} are shown` : "");
  }
  $("find").oninput = $("only-kind").onchange = $("only-bound").onchange = fill;
  watchers.push((i, from) => {
    for (const tr of body.rows) {
      const on = +tr.dataset.layer === i;
      tr.classList.toggle("chosen", on);
      if (on && from !== "table") { // inside its own box: the page stays where it is
        const box = tr.closest(".scroll"), top = tr.offsetTop - box.clientHeight / 2;
        box.scrollTop = Math.max(0, top);
      }
    }
  });
  fill();
}

// The head is painted first; what takes longer comes after that.
startTheme();
startHead();
requestAnimationFrame(() => setTimeout(() => {
  startDetail();
  startGraph();
  startRoofline();
  startTimeline();
  startMemory();
  startCopies();
  startTable();
  repaint();
  choose(layers.reduce((best, l) => l.depth === 0 && (best < 0 || l.ms > layers[best].ms) ? l.index : best, -1), "start");
}));
