// Pick an example, see every model's look at it. What is chosen is kept in the fragment of the address.

const verdicts = (example) => example.looks.filter((look) => look && look.right != null).map((look) => look.right);

// Each value that occurs, as a choice of a filter.
const present = (examples, of) => [...new Set(examples.map(of))].map((value) => [value, value]);

// A filter by the answers: all right, some wrong, all wrong, or the model at this index wrong; with `both`, also those
// that it has right, whose choices end in a plus.
function answersFilter(both = false) {
  const ANSWERS = { right: "all right", wrong: "some wrong", none: "all wrong" };
  return {
    all: "all",
    choices: [
      ...Object.entries(ANSWERS),
      ...data.models.map((model, i) => [String(i), `${model.name} wrong`]),
      ...(both ? data.models.map((model, i) => [`${i}+`, `${model.name} right`]) : []),
    ],
    passes(example, choice) {
      const right = verdicts(example);
      if (choice === "right") return right.length > 0 && right.every(Boolean);
      if (choice === "wrong") return right.length > 0 && !right.every(Boolean);
      if (choice === "none") return right.length > 0 && !right.some(Boolean);
      return example.looks[Number.parseInt(choice)]?.right === choice.endsWith("+");
    },
  };
}

// What was asked, the right answer unless it has no name, and words about the example, those that are known.
function showAsked(question, right, about, name = "answer") {
  const answer = name && element("span", {}, `${name}: `, element("b", { id: "answer" }, right ?? DASH));
  at("asked").replaceChildren(
    element("p", { id: "question" }, question),
    element("p", { class: "muted" }, answer, ...about.filter(Boolean).map((word) => element("span", {}, word))),
  );
}

function showLooks(looks) {
  if (!looks.length) looks = [element("p", { class: "muted" }, "Every model is switched off.")];
  keepingFocus(at("looks"), looks);
}

// Filters, by the id of their choices: { all: text of no choice, choices: [[value, text]], passes(example, value) }.
// describe(example) is what its button is called, thumbnail(example) what stands on it, and
// show(example, { on, large, enlarge }) fills the page with it: indices of the models, that of the large one, and what
// makes one large. Returns a function that tells which example is shown, and the indices of the models.
function explorer({ filters, describe, thumbnail, show: showExample }) {
  const { examples, models } = data, names = Object.keys(filters);
  const state = { example: 0, on: new Set(models.keys()), large: null };
  const none = () => Object.fromEntries(names.map((name) => [name, ""]));
  Object.assign(state, none());

  const passes = (example, chosen = state) =>
    names.every((name) => !chosen[name] || filters[name].passes(example, chosen[name]));

  const passing = () => [...examples.keys()].filter((i) => passes(examples[i]));

  // Each choice of a filter with how many examples it leaves, given the other filters; none: it cannot be chosen.
  function countChoices() {
    for (const name of names) {
      for (const option of at(name).options) {
        const count = examples.filter((example) => passes(example, { ...state, [name]: option.value })).length;
        option.textContent = `${option.dataset.text} (${count})`;
        option.disabled = count === 0 && option.value !== "" && option.value !== state[name];
      }
    }
  }

  function read() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const find = (list, key, name) => list.findIndex((item) => item[key] === name);
    for (const name of names) {
      const known = [...at(name).options].some((option) => option.value === asked.get(name));
      state[name] = known ? asked.get(name) : "";
    }
    const shown = asked.getAll("model");
    state.on = new Set([...models.keys()].filter((i) => !shown.length || shown.includes(models[i].name)));
    const large = find(models, "name", asked.get("large"));
    state.large = state.on.has(large) ? large : null;
    state.example = Math.max(0, find(examples, "id", asked.get("example")));
  }

  function write() {
    const kept = new URLSearchParams();
    if (passing().length) kept.set("example", examples[state.example].id);
    for (const name of names) if (state[name]) kept.set(name, state[name]);
    if (state.on.size < models.length) for (const i of state.on) kept.append("model", models[i].name);
    if (!state.on.size) kept.set("model", "");
    if (state.large != null) kept.set("large", models[state.large].name);
    history.replaceState(null, "", "#" + kept);
  }

  function change(news) {
    Object.assign(state, news);
    const left = passing();
    if (left.length && !left.includes(state.example)) state.example = left[0];
    if (!state.on.has(state.large)) state.large = null;
    write();
    show();
  }

  function step(by) {
    const left = passing();
    if (left.length) change({ example: left[(left.indexOf(state.example) + by + left.length) % left.length] });
  }

  function show() {
    const left = passing();
    countChoices();
    for (const name of names) at(name).value = state[name];
    at("none").hidden = left.length > 0;
    at("shown").hidden = !left.length;
    at("place").textContent = left.length ? `${left.indexOf(state.example) + 1} of ${left.length}` : "0 of 0";
    at("previous").disabled = at("next").disabled = left.length < 2;
    showModels();
    showStrip(left);
    const enlarge = (i) => change({ large: i === state.large ? null : i });
    if (left.length) showExample(examples[state.example], { on: [...state.on], large: state.large, enlarge });
  }

  function showModels() {
    keepingFocus(at("models"), models.map((model, i) => {
      const flip = () => {
        const on = new Set(state.on);
        on.delete(i) || on.add(i);
        change({ on: new Set([...models.keys()].filter((k) => on.has(k))) });
      };
      return toggle(model.name, state.on.has(i), flip, model.colour);
    }));
  }

  function showStrip(left) {
    for (const button of at("strip").children) {
      const i = Number(button.dataset.index), chosen = i === state.example;
      button.hidden = !left.includes(i);
      button.setAttribute("aria-pressed", String(chosen));
      // Within the strip only: the page itself stays where it is.
      if (chosen) at("strip").scrollLeft = button.offsetLeft - (at("strip").clientWidth - button.offsetWidth) / 2;
    }
  }

  function build() {
    const option = (value, text) => element("option", { value, "data-text": text }, text);
    for (const [name, { all, choices }] of Object.entries(filters)) {
      at(name).append(option("", all), ...choices.map(([value, text]) => option(value, text)));
      at(name).closest("label").hidden = choices.length < 2;
      at(name).addEventListener("change", () => change({ [name]: at(name).value }));
    }
    at("strip").append(...examples.map((example, i) => {
      const right = verdicts(example), count = right.filter(Boolean).length;
      const score = right.length ? `${count} of ${right.length} right` : "";
      const label = [describe(example), score].filter(Boolean).join(" \u2014 ");
      const press = () => change({ example: i });
      const attributes = { type: "button", "data-index": i, "aria-label": label, title: label, click: press };
      const kind = count < right.length ? "score some" : "score";
      const mark = right.length ? element("span", { class: kind }, `${count}/${right.length}`) : null;
      return element("button", attributes, thumbnail(example), mark);
    }));
    at("previous").addEventListener("click", () => step(-1));
    at("next").addEventListener("click", () => step(1));
    at("reset").addEventListener("click", () => change(none()));
    addEventListener("hashchange", () => { read(); change({}); });
    addEventListener("keydown", key);
  }

  function key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest?.("select, input, textarea, [role=region]")) return;  // these have a use for the keys
    if (event.key === "Escape" && state.large != null) change({ large: null });
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    step(move);
  }

  build();
  const linked = location.hash.length > 1;
  read();
  linked ? change({}) : show();
  if (linked) at("explorer").scrollIntoView();
  return () => [examples[state.example], [...state.on]];
}
