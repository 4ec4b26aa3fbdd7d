// Learning curves: one line for each model, the values under the pointer beside it.

function learningCurves() {
  const MEASURES = {
    val_accuracy: "accuracy, validation", val_bleu4: "BLEU-4, validation", val_loss: "loss, validation",
    train_loss: "loss, training",
  };
  const SHARES = ["val_accuracy", "val_bleu4"];
  const CLOCKS = { step: "steps", seconds: "seconds" };
  const HEIGHT = 320, MARGIN = { left: 52, right: 16, top: 14, bottom: 40 };
  const chart = at("chart"), hidden = new Set();
  const all = data.models.concat(data.baseline ? [{ ...data.baseline, blind: true }] : []);
  const known = (key) => data.models.some((model) => model.curve.some((point) => point[key] != null));
  const measures = Object.keys(MEASURES).filter(known), clocks = Object.keys(CLOCKS).filter(known);
  let measure = measures[0], clock = clocks[0], cursor = null, view = null;

  const value = (y) => (y == null ? DASH : SHARES.includes(measure) ? percent(y) : y.toPrecision(3));

  function lines() {
    const shown = all.filter((model) => !hidden.has(model.name + Boolean(model.blind)));
    const found = shown.map((model) => ({
      ...model,
      points: model.curve.filter((p) => p[clock] != null && p[measure] != null).map((p) => [p[clock], p[measure]]),
    }));
    // The model without a picture is a level to be beaten: one line across, at its final accuracy.
    for (const line of found) line.level = line.blind && measure === "val_accuracy" ? line.accuracy : null;
    return found.filter((line) => line.points.length || line.level != null);
  }

  function ticks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const first = Math.ceil(low / step - 1e-9);
    const last = Math.floor(high / step + 1e-9);
    return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  }

  function ends(values) {
    if (!values.length) return [0, 1];
    return values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [values[0], values[0]]);
  }

  function scales(shown, width) {
    const xs = shown.flatMap((line) => line.points.map((p) => p[0]));
    const ys = shown.flatMap((line) => (line.level != null ? [line.level] : line.points.map((p) => p[1])));
    const x0 = Math.min(0, ends(xs)[0]), x1 = Math.max(x0 + 1e-9, ends(xs)[1]);
    let [y0, y1] = ends(ys);
    const room = 0.06 * (y1 - y0) || 0.05 * Math.abs(y1) || 1;
    [y0, y1] = [y0 - room, y1 + room];
    const x = (v) => MARGIN.left + ((v - x0) / (x1 - x0)) * (width - MARGIN.left - MARGIN.right);
    const y = (v) => HEIGHT - MARGIN.bottom - ((v - y0) / (y1 - y0)) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    const places = [...new Set(xs)].sort((a, b) => a - b);
    return { x, y, xs: places, xTicks: ticks(x0, x1, width / 110), yTicks: ticks(y0, y1, 6) };
  }

  function draw() {
    const width = Math.max(280, chart.clientWidth), shown = lines();
    const { x, y, xs, xTicks, yTicks } = scales(shown, width);
    const label = `${MEASURES[measure]} against ${CLOCKS[clock]}: ` +
      shown.map((l) => `${l.name} ends at ${value(l.level ?? l.points.at(-1)[1])}`).join(", ");
    const svg = drawn("svg", { width, height: HEIGHT, role: "img", tabindex: 0, "aria-label": label });
    for (const tick of yTicks) {
      svg.append(drawn("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }));
      const text = SHARES.includes(measure) ? percent(tick, 0) : String(tick);
      svg.append(drawn("text", { x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }, text));
    }
    for (const tick of xTicks) {
      svg.append(drawn("text", { x: x(tick), y: HEIGHT - 20, "text-anchor": "middle" }, tick.toLocaleString("en")));
    }
    const end = { x: width - MARGIN.right, y: HEIGHT - 4, "text-anchor": "end" };
    svg.append(drawn("text", end, CLOCKS[clock]));
    for (const line of shown) svg.append(path(line, x, y, width));
    const marks = drawn("g", { id: "marks" });
    svg.append(marks);
    const tip = element("div", { id: "tip", hidden: "" });
    chart.replaceChildren(svg, tip);
    view = { shown, x, y, xs, marks, tip, width };
    svg.addEventListener("pointermove", (event) => {
      const from = event.clientX - svg.getBoundingClientRect().left;
      point(xs.reduce((best, v, i) => (Math.abs(x(v) - from) < Math.abs(x(xs[best]) - from) ? i : best), 0));
    });
    svg.addEventListener("pointerleave", () => point(null));
    svg.addEventListener("blur", () => point(null));
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!move || !xs.length) return;
      event.preventDefault();
      event.stopPropagation();  // the same keys choose an example elsewhere
      point(Math.min(xs.length - 1, Math.max(0, cursor == null ? 0 : cursor + move)));
    });
  }

  function path(line, x, y, width) {
    const kind = line.blind ? "blind curve" : "curve";
    const group = drawn("g", { class: kind, style: `--colour:${line.colour}`, "data-model": line.name });
    if (line.level != null) {
      const right = width - MARGIN.right, up = y(line.level);
      group.append(drawn("line", { x1: MARGIN.left, x2: right, y1: up, y2: up }));
      group.append(drawn("text", { x: right, y: up - 6, "text-anchor": "end" }, `${line.name} ${value(line.level)}`));
    } else {
      const places = line.points.map(([a, b]) => [x(a).toFixed(1), y(b).toFixed(1)]);
      group.append(drawn("polyline", { points: places.join(" ") }));
      if (places.length === 1) group.append(drawn("circle", { cx: places[0][0], cy: places[0][1], r: 3 }));
    }
    return group;
  }

  // Show the values at the given place of the horizontal axis, or none.
  function point(index) {
    cursor = index;
    const { shown, x, y, xs, marks, tip, width } = view;
    marks.replaceChildren();
    tip.hidden = index == null || !xs.length;
    if (tip.hidden) return;
    const here = x(xs[index]);
    marks.append(drawn("line", { class: "cursor", x1: here, x2: here, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }));
    const values = shown.map((line) => {
      if (line.level != null) return { line, y: line.level };
      const far = (p) => Math.abs(p[0] - xs[index]);
      const near = line.points.reduce((best, p) => (far(p) < far(best) ? p : best));
      marks.append(drawn("circle", { cx: x(near[0]), cy: y(near[1]), r: 4, class: "coloured", style: `--colour:${line.colour}` }));
      return { line, y: near[1] };
    });
    values.sort((a, b) => (SHARES.includes(measure) ? b.y - a.y : a.y - b.y));
    tip.replaceChildren(
      element("strong", {}, `${Number(xs[index].toPrecision(4)).toLocaleString("en")} ${CLOCKS[clock]}`),
      ...values.map(({ line, y }) => element("div", {},
        dot(line.colour, line.blind), element("span", {}, line.name), element("b", {}, value(y)))),
    );
    const side = here > width / 2 ? here - tip.offsetWidth - 14 : here + 14;
    tip.style.left = Math.max(0, Math.min(side, width - tip.offsetWidth)) + "px";
  }

  function controls() {
    const choose = (place, names, labels, now, set) =>
      keepingFocus(at(place), names.length < 2 ? [labels[names[0]]]
        : names.map((name) => toggle(labels[name], name === now, () => { set(name); controls(); })));
    choose("measures", measures, MEASURES, measure, (name) => (measure = name));
    choose("clocks", clocks, CLOCKS, clock, (name) => (clock = name));
    keepingFocus(at("legend"), all.map((model) => {
      const key = model.name + Boolean(model.blind);
      const flip = () => { hidden.delete(key) || hidden.add(key); controls(); };
      return toggle(model.name, !hidden.has(key), flip, model.colour, model.blind);
    }));
    cursor = null;
    draw();
  }

  if (!measures.length || !clocks.length) return chart.replaceChildren("No curve was recorded.");
  controls();
  new ResizeObserver(() => { if (view && Math.max(280, chart.clientWidth) !== view.width) draw(); }).observe(chart);
}

if (at("chart")) learningCurves();
