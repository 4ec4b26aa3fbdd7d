// One of the two cards: a map or a density, its controls, and what it makes of the scores.

const KIND_COLOURS = ["#2176ae", "#9a2a4c", "#1b6a7f", "#3d7068", "#2a8d80", "#4a5aa8", "#b5551d", "#8a5a2b", "#b8611c", "#7d5ba6", "#5f7c2b"];
const ARGMAX = { summary: "the largest score takes all; ties share", colour: "#45525f" };

function aboutOf(name) {
  const kind = KINDS.findIndex((k) => k.name === name);
  if (kind >= 0) return { summary: KINDS[kind].summary, colour: KIND_COLOURS[kind] };
  return data.maps[name] ?? ARGMAX;
}

const dark = matchMedia("(prefers-color-scheme: dark)");

// Red, green and blue as the page shows a colour: lighter on a dark one.
function shownColour(hex) {
  const parts = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return dark.matches ? parts.map((c) => Math.round(c + 0.38 * (255 - c))) : parts;
}

// A target for the loss: the marked entries share the mass. None where it would leave the domain.
function targetOf(map, side, marks, n) {
  const total = map.total ? map.total(side, n) : 1, share = total / marks.length;
  if (!marks.length) return { why: "mark a target below the scores" };
  if (map.omegaOfTarget && marks.length !== total) return { why: `mark ${total} targets` };
  if (share > 1) return { why: `mark ${Math.ceil(total)} targets` };
  const y = range(n).map((i) => (marks.includes(i) ? share : 0));
  if (map.upper && y.some((v) => v > map.upper(side))) return { why: "target above the bound" };
  if (map.lower && y.some((v) => v < map.lower(side))) return { why: "target below the bound" };
  return { y };
}

function makeCard(index, app) {
  const letter = "AB"[index], id = "ab"[index], node = element("article", { class: "card side", "aria-labelledby": `name-${id}` });
  let built = "", parts = {}, triangle = null;
  const side = () => app.state.sides[app.state.view][index];

  function change(name, value) {
    app.state.sides[app.state.view][index] = { ...side(), [name]: value };
    app.refresh();
  }

  // Anew for another view, map or number of scores; otherwise controls stay, and with them the focus.
  function build() {
    const { view } = app.state, n = sizeOf(view, app.state), thing = thingOf(side().name), names = choicesOf(view);
    const select = element("select", { id: `map-${id}`, "aria-label": `${view === "line" ? "Density" : "Map"} ${letter}`,
      change: () => { app.state.sides[view][index] = makeSide(select.value, n, side()); app.refresh(); } });
    const option = (name) => element("option", { value: name, selected: name === side().name }, name);
    const [maps, kinds] = [names.filter((name) => mapOf(name)), names.filter((name) => kindOf(name))];
    if (maps.length && kinds.length) select.append(element("optgroup", { label: "maps" }, maps.map(option)), element("optgroup", { label: "densities" }, kinds.map(option)));
    else select.append(...names.map(option));
    const focused = document.activeElement?.id === `map-${id}`;
    triangle = view === "simplex" ? makeTriangle((u) => app.setSimplex(u)) : null;
    parts = {
      figure: triangle?.node ?? element("div", { class: "figure" }),
      facts: element("dl", { class: "facts" }),
      more: element("div", { class: "more" }),
      code: element("code", {}),
    };
    const copyCode = element("button", { type: "button", class: "quiet", "aria-label": `Copy the Python of ${letter}`,
      click: () => copy(parts.code.textContent, copyCode) }, "Copy");
    node.replaceChildren(
      element("header", {}, element("h2", { id: `name-${id}`, class: "letter" }, letter), select),
      element("p", { class: "summary" }, aboutOf(side().name).summary),
      element("div", { class: "controls" }, thing.parameters.map((a) =>
        makeParameter(`${id}-${a.name}`, a, side()[a.name], n, (value) => change(a.name, value)))),
      parts.figure, parts.facts, parts.more,
      element("div", { class: "code" }, element("pre", { tabindex: 0, role: "region", "aria-label": `Python of ${letter}` }, parts.code), copyCode));
    if (view === "scores") buildMore(thing, n);
    node.style.setProperty("--colour", aboutOf(side().name).colour);
    if (focused) select.focus({ preventScroll: true });
  }

  function buildMore(map, n) {
    const axes = axesOf(map, n), put = (name, value) => {
      app.state[name] = app.state[name].map((old, i) => (i === index ? value : old));
      app.refresh();
    };
    const axis = () => axes.find((a) => a.name === app.state.axes[index]) ?? axes.at(map.parameters.some((a) => axes.includes(a)) ? 1 : 0);
    const select = element("select", { "aria-label": `Path of ${letter} along`, change: () => put("axes", select.value) },
      axes.map((a) => element("option", { value: a.name, selected: a === axis() }, a.label)));
    const search = () => app.state.searches[index];
    const method = element("select", { "aria-label": `Threshold of ${letter} by`, change: () => put("searches", { ...search(), method: method.value }) },
      METHODS.map((name) => element("option", { value: name, selected: name === search().method }, name)));
    const walk = (by) => put("searches", { ...search(), step: clamp(Math.min(search().step, parts.count) + by, 1, parts.count) });
    const step = (words, by, label) => element("button", { type: "button", class: "quiet small", "aria-label": `${label}, ${letter}`, click: () => walk(by) }, words);
    Object.assign(parts, { axis, method, back: step("\u2212", -1, "One step back"), on: step("+", 1, "One step on"),
      path: element("div", {}), jacobian: element("div", {}), threshold: element("div", {}),
      numbers: element("div", { class: "numbers", tabindex: 0, role: "region", "aria-label": `Numbers of ${letter}` }),
      details: element("details", { class: "wide", toggle: () => app.refresh() }, element("summary", {}, "Numbers")) });
    parts.details.append(parts.numbers);
    parts.more.replaceChildren(
      element("section", { class: "path-box" }, element("h3", {}, "Path along ", select), parts.path),
      element("section", { class: "jacobian-box" }, element("h3", {}, "Jacobian dp/dz"), parts.jacobian),
      element("section", { class: "wide" }, element("h3", {}, "Threshold by ", method, parts.back, parts.on), parts.threshold),
      parts.details);
  }

  // What the search had found after so many steps.
  function showThreshold(map, own, u) {
    const search = map.search(u, own), none = typeof search === "string", { method, step } = app.state.searches[index];
    for (const control of [parts.method, parts.back, parts.on]) control.hidden = none;
    if (none) return parts.threshold.replaceChildren(element("p", { class: "hint" }, search));
    const steps = searchSteps(search, method), shown = Math.min(step, steps.length), now = steps[shown - 1];
    parts.count = steps.length;
    parts.back.disabled = shown === 1, parts.on.disabled = shown === steps.length;
    const words = `Step ${shown} of ${steps.length}: \u03c4 = ${digits(now.tau, 4)}, ${search.what ?? "sum of p"} ${digits(now.sum, 4)}, wanted ${digits(search.total, Number.isInteger(search.total) ? 0 : 2)}`;
    parts.threshold.replaceChildren(
      thresholdChart(widthOf(parts.threshold), search, steps, shown, method, `${own.name}: threshold by ${method}. ${words}`),
      element("p", { class: "hint" }, words));
  }

  function showFacts(facts) {
    parts.facts.replaceChildren(...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  }

  const widthOf = (holder) => Math.max(Math.floor(holder.clientWidth), 120);

  function refresh(shared) {
    const { view } = app.state, own = side(), n = sizeOf(view, app.state), key = `${view} ${own.name} ${n}`;
    if (built !== key) build(), (built = key);
    const thing = thingOf(own.name);
    for (const a of thing.parameters) if (a.when) at(`${id}-${a.name}`).parentElement.hidden = !a.when(own);
    let said;
    if (view === "scores") said = showScores(thing, own, shared);
    else if (view === "simplex") said = showSimplex(thing, own);
    else if (view === "line") said = showLine(thing, own);
    else said = showImage(thing, own);
    parts.code.textContent = pythonOf(app.state, own);
    return `${letter}, ${own.name}: ${said}`;
  }

  function mapFacts(map, own, u, p, marks) {
    const support = p.filter((x) => x > 0).length, { y, why } = targetOf(map, own, marks, p.length), facts = [["support", `${support} of ${p.length}`]];
    facts.push(["entropy \u2212\u03a9(p)", digits(-map.omega(p, own), 3)]);
    facts.push([y ? `loss, target ${marks.map((i) => i + 1).join(", ")}` : "loss", y ? digits(Math.max(fenchelYoung(map, u, p, y, own), 0), 3) : why]);
    if (map.total) facts.push(["sum", digits(sum(p))]);
    return facts;
  }

  function showScores(map, own, { u, solved, top }) {
    const p = solved[index], { y } = targetOf(map, own, app.state.marks, p.length);
    parts.figure.replaceChildren(probabilityBars(widthOf(parts.figure), p, y, top, own.name));
    showFacts(mapFacts(map, own, u, p, app.state.marks));
    parts.path.replaceChildren(pathChart(widthOf(parts.path), map, own, app.state.z, app.state.temperature.scores, parts.axis()));
    const J = map.jacobian(u, p, own);
    parts.jacobian.replaceChildren(jacobianChart(Math.min(widthOf(parts.jacobian), 190), J, own.name));
    if (parts.details.open) parts.numbers.replaceChildren(numbersTable(u, p, J, own.name));
    showThreshold(map, own, u);
    return `support ${p.filter((x) => x > 0).length} of ${p.length}, largest ${maximum(p).toFixed(2)} at ${p.indexOf(maximum(p)) + 1}`;
  }

  function showSimplex(map, own) {
    const u = app.state.s.map((x) => x / app.state.temperature.simplex);
    const p = triangle.refresh(widthOf(parts.figure), map, own, u, shownColour(aboutOf(own.name).colour), app.state.shade);
    showFacts([["p", p.map((x) => digits(x, 3)).join(", ")], ...mapFacts(map, own, u, p, []).slice(0, 2)]);
    return `probabilities ${p.map((x) => x.toFixed(2)).join(", ")}`;
  }

  function fitDensity(kind, own, size, scores) {
    const w = mapOf(app.state.weights[app.state.view]).solve(scores);
    return { w, density: kind.fit(size, w, own, scores) };
  }

  function showCriterion(density) {
    parts.more.replaceChildren(...(density.scores
      ? [element("section", { class: "wide" }, element("h3", {}, "Criterion, the smaller the better"), criterionChart(widthOf(node) - 44, density.scores, density.chosen))]
      : []));
  }

  function showLine(kind, own) {
    const u = app.state.z.map((x) => x / app.state.temperature.line), { w, density } = fitDensity(kind, own, [u.length], u);
    const points = gridPoints([u.length]), facts = densityFacts(density, app.state.marks.map((i) => points[i])), label = `${own.name}: ${facts.map((f) => f.join(" ")).join("; ")}`;
    parts.figure.replaceChildren(curveChart(widthOf(parts.figure), density, w, label));
    showFacts(facts);
    showCriterion(density);
    return facts.slice(0, 2).map((f) => f.join(" ")).join(", ");
  }

  function showImage(thing, own) {
    const u = app.state.image.map((x) => x / LEVELS / app.state.temperature.image), colour = shownColour(aboutOf(own.name).colour);
    const canvas = element("canvas", { role: "img" }), cells = cellsOf(app.state), size = [cells, cells], width = Math.min(widthOf(node) - 44, 420);
    let facts, overlay = null;
    if (thing.fit) {
      const { density } = fitDensity(thing, own, size, u), fine = 60;
      paintCells(canvas, gridPoints([fine, fine]).map((t) => density.prob(t)), fine, colour, 0);
      overlay = chart(width, width, "", ...ellipses(width, density));
      facts = densityFacts(density);
      showCriterion(density);
    } else {
      const whole = { ...own, height: cells, width: cells }, p = thing.solve(u, whole);
      paintCells(canvas, p, cells, colour);
      facts = [["support", `${p.filter((x) => x > 0).length} of ${p.length}`], ["patches", String(countPatches(p))],
        ["distinct weights", String(new Set(p.filter((x) => x > 0).map((x) => x.toPrecision(9))).size)],
        ["entropy \u2212\u03a9(p)", digits(-thing.omega(p, whole), 3)]];
      parts.more.replaceChildren();
    }
    canvas.setAttribute("aria-label", `${own.name}: ${facts.map((f) => f.join(" ")).join("; ")}`);
    parts.figure.replaceChildren(element("div", { class: "plane cells" }, canvas, overlay));
    showFacts(facts);
    return facts.slice(0, 2).map((f) => f.join(" ")).join(", ");
  }

  // Another state altogether: controls are made anew, with its values.
  const reset = () => { built = ""; };

  return { node, refresh, reset };
}
