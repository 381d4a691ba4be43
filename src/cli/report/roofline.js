// roofline.js -- rate over operations per byte, under the roofs that were measured.
// SPDX-License-Identifier: Apache-2.0

function startRoofline() {
  const svg = $("roof"), m = data.machine;
  const points = layers.filter(l => l.ops > 0 && moved(l) > 0 && l.ms > 0 && !l.reference);
  const roofs = [["memory", m.memoryGbps], ["shared cache", m.sharedCacheGbps], ["own cache", m.ownCacheGbps]].filter(r => r[1] > 0);
  for (let i = roofs.length - 1; i > 0; i--) // lines that lie on each other have one name
    if (roofs[i][1] < 2 * roofs[i - 1][1]) roofs.splice(i - 1, 2, [`${roofs[i - 1][0]}, ${roofs[i][0]}`, roofs[i][1]]);
  const tops = [["f32", m.f32Gflops]];
  if (layers.some(l => l.tactic && l.tactic.includes("bf16")) && m.bf16Gflops) tops.push(["bf16", m.bf16Gflops]);
  if (layers.some(l => l.kind === "qmatmul" || l.kind === "qconv") && m.int8Gflops) tops.push(["int8", m.int8Gflops]);
  const top = Math.max(...tops.map(t => t[1]));
  const log = Math.log10, pow = Math.pow;

  function paint() {
    svg.replaceChildren();
    const r = svg.getBoundingClientRect(), pad = { left: 58, right: 20, top: 14, bottom: 40 };
    const w = r.width - pad.left - pad.right, h = r.height - pad.top - pad.bottom;
    const xs = points.map(l => l.ops / moved(l)), ys = points.map(l => l.gflops);
    const x0 = Math.floor(log(Math.min(0.1, ...xs))), x1 = Math.ceil(log(Math.max(100, ...xs)));
    const y0 = Math.max(log(top) - 6, Math.floor(log(Math.min(top / 100, ...ys)))), y1 = Math.ceil(log(Math.max(top * 1.3, ...ys)));
    const X = v => pad.left + (log(v) - x0) / (x1 - x0) * w, Y = v => pad.top + (1 - (log(v) - y0) / (y1 - y0)) * h;
    for (let k = x0; k <= x1; k++) {
      draw(svg, "line", { class: "gridline", x1: X(pow(10, k)), x2: X(pow(10, k)), y1: pad.top, y2: pad.top + h });
      draw(svg, "text", { class: "axis", x: X(pow(10, k)), y: pad.top + h + 15, "text-anchor": "middle" }, String(+pow(10, k).toPrecision(1)));
    }
    for (let k = Math.ceil(y0); k <= y1; k++) {
      draw(svg, "line", { class: "gridline", x1: pad.left, x2: pad.left + w, y1: Y(pow(10, k)), y2: Y(pow(10, k)) });
      draw(svg, "text", { class: "axis", x: pad.left - 6, y: Y(pow(10, k)) + 4, "text-anchor": "end" }, String(+pow(10, k).toPrecision(1)));
    }
    draw(svg, "text", { class: "axis", x: pad.left + w / 2, y: r.height - 6, "text-anchor": "middle" }, "operations per byte");
    draw(svg, "text", { class: "axis", x: 12, y: pad.top + h / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${pad.top + h / 2})` }, "GFLOP/s");

    const labels = [];
    for (const [name, rate] of roofs) { // slanted, up to the highest top
      const from = Math.max(pow(10, x0), pow(10, y0) / rate), to = Math.min(pow(10, x1), top / rate);
      if (from >= to) continue;
      draw(svg, "line", { class: "roofline", x1: X(from), y1: Y(from * rate), x2: X(to), y2: Y(to * rate) });
      labels.push([name, rate, from, to]);
    }
    for (const [name, rate] of tops) {
      const from = rate / Math.max(...roofs.map(x => x[1]));
      draw(svg, "line", { class: "roofline", x1: X(Math.max(pow(10, x0), from)), y1: Y(rate), x2: pad.left + w, y2: Y(rate) });
      draw(svg, "text", { class: "rooflabel", x: pad.left + w - 4, y: Y(rate) - 5, "text-anchor": "end" }, `${name} ${digits(rate)} GFLOP/s`);
    }
    for (const l of [...points].sort((a, b) => b.ms - a.ms)) {
      const dot = draw(svg, "circle", { class: "dot" + (l.index === chosen ? " chosen" : ""), cx: X(l.ops / moved(l)), cy: Y(Math.max(l.gflops, pow(10, y0))),
        r: 3.5 + 14 * Math.sqrt(Math.min(1, l.share)), fill: boundColours[l.bound] });
      dot.dataset.layer = l.index;
      dot.addEventListener("mousemove", e => tip(e, tipText(l) + `\n${digits(l.gflops)} GFLOP/s at ${digits(l.ops / moved(l))} operations a byte`));
      dot.addEventListener("mouseleave", e => tip(e, ""));
      dot.addEventListener("click", () => choose(l.index, "roof"));
    }
    labels.forEach(([name, rate, from, to], i) => { // along their line, each at another height
      const at = pow(10, log(from) + (log(to) - log(from)) * (0.12 + 0.26 * i));
      const slope = Math.atan2(Y(at * 10 * rate) - Y(at * rate), X(at * 10) - X(at)) * 180 / Math.PI;
      draw(svg, "text", { class: "rooflabel", x: X(at), y: Y(at * rate) - 6, transform: `rotate(${slope} ${X(at)} ${Y(at * rate)})` }, `${name} ${digits(rate)} GB/s`);
    });
    legend($("roof-legend"), Object.entries(boundColours).filter(([b]) => points.some(l => l.bound === b)));
  }
  painters.push(paint);
  addEventListener("resize", paint);
  watchers.push(i => svg.querySelectorAll(".dot").forEach(d => d.classList.toggle("chosen", +d.dataset.layer === i)));
}
