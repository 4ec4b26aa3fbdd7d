// Pick an example, see every model's look at it. What is chosen is kept in the fragment of the address.

function explorer() {
  const { examples, models } = data;
  const FILTERS = { kind: "all kinds", region: "all regions", theme: "anything", answers: "all" };
  const REGIONS = { one: "one thing", several: "several, far apart", odd: "odd shape", none: "none in particular" };
  const ANSWERS = { right: "all right", wrong: "some wrong", none: "all wrong" };
  const state = { example: 0, on: new Set(models.keys()), large: null, kind: "", region: "", theme: "", answers: "" };

  const region = (example) => example.region ?? "none";
  const verdicts = (example) => example.looks.filter((look) => look && look.right != null).map((look) => look.right);

  const theme = (example) => example.theme ?? "first";

  // What is chosen of the answers: all right, some wrong, all wrong, or the model at this index wrong.
  function answered(example, choice) {
    const right = verdicts(example);
    if (choice === "right") return right.length > 0 && right.every(Boolean);
    if (choice === "wrong") return right.length > 0 && !right.every(Boolean);
    if (choice === "none") return right.length > 0 && !right.some(Boolean);
    return example.looks[Number(choice)]?.right === false;
  }

  function passes(example, { kind, region: where, theme: what, answers } = state) {
    return (!kind || example.kind === kind)
      && (!where || region(example) === where)
      && (!what || theme(example) === what)
      && (!answers || answered(example, answers));
  }

  const passing = () => [...examples.keys()].filter((i) => passes(examples[i]));

  // Each choice of a filter with how many examples it leaves, given the other filters; none: it cannot be chosen.
  function countChoices() {
    for (const name of Object.keys(FILTERS)) {
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
    for (const name of Object.keys(FILTERS)) {
      const known = [...at(name).options].some((option) => option.value === asked.get(name));
      state[name] = known ? asked.get(name) : "";
    }
    const names = asked.getAll("model");
    state.on = new Set([...models.keys()].filter((i) => !names.length || names.includes(models[i].name)));
    const large = find(models, "name", asked.get("large"));
    state.large = state.on.has(large) ? large : null;
    state.example = Math.max(0, find(examples, "id", asked.get("example")));
  }

  function write() {
    const kept = new URLSearchParams();
    if (passing().length) kept.set("example", examples[state.example].id);
    for (const name of Object.keys(FILTERS)) if (state[name]) kept.set(name, state[name]);
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
    for (const name of Object.keys(FILTERS)) at(name).value = state[name];
    at("none").hidden = left.length > 0;
    at("shown").hidden = !left.length;
    at("place").textContent = left.length ? `${left.indexOf(state.example) + 1} of ${left.length}` : "0 of 0";
    at("previous").disabled = at("next").disabled = left.length < 2;
    showModels();
    showStrip(left);
    if (left.length) showExample(examples[state.example]);
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

  function showExample(example) {
    const picked = example.theme == null ? null : `picked for: ${example.theme}`;
    const about = [example.kind, REGIONS[example.region] ?? example.region, example.id, picked];
    const answer = element("span", {}, "answer: ", element("b", { id: "answer" }, example.answer ?? DASH));
    at("asked").replaceChildren(
      element("p", { id: "question" }, example.question),
      element("p", { class: "muted" }, answer, ...about.filter(Boolean).map((word) => element("span", {}, word))),
    );
    const alt = `The picture asked about: ${example.question}`;
    const plain = [picturePanel("picture", example.picture, alt, fileName(example.id, "picture"), example.note)];
    if (example.relevance != null) {
      const file = fileName(example.id, "relevance");
      plain.push(picturePanel("what matters", example.relevance, "What matters for the answer", file));
    }
    const looks = [...state.on].map((i) =>
      lookPanel(example, i, i === state.large, () => change({ large: i === state.large ? null : i })));
    at("plain").replaceChildren(...plain);
    at("key").replaceChildren(...keyList(example, [...state.on].map((i) => example.looks[i])));
    if (!looks.length) looks.push(element("p", { class: "muted" }, "Every model is switched off."));
    keepingFocus(at("looks"), looks);
    at("fits").replaceChildren(...[...state.on].filter((i) => example.looks[i]?.fits.length)
      .map((i) => fitsPanel(example, i)));
  }

  function build() {
    const option = (value, text) => element("option", { value, "data-text": text }, text);
    const present = (of) => [...new Set(examples.map(of))];
    const choices = {
      kind: present((e) => e.kind).map((kind) => [kind, kind]),
      region: present(region).map((name) => [name, REGIONS[name] ?? name]),
      theme: present(theme).map((name) => [name, name === "first" ? "nothing: first of its kind" : name]),
      answers: [...Object.entries(ANSWERS), ...models.map((model, i) => [String(i), `${model.name} wrong`])],
    };
    for (const [name, first] of Object.entries(FILTERS)) {
      at(name).append(option("", first), ...choices[name].map(([value, text]) => option(value, text)));
      at(name).closest("label").hidden = choices[name].length < 2;
      at(name).addEventListener("change", () => change({ [name]: at(name).value }));
    }
    at("strip").append(...examples.map((example, i) => {
      const right = verdicts(example), count = right.filter(Boolean).length;
      const score = right.length ? `${count} of ${right.length} right` : "";
      const label = [example.question, score].filter(Boolean).join(" \u2014 ");
      const press = () => change({ example: i });
      const attributes = { type: "button", "data-index": i, "aria-label": label, title: label, click: press };
      const kind = count < right.length ? "score some" : "score";
      const mark = right.length ? element("span", { class: kind }, `${count}/${right.length}`) : null;
      const image = element("img", { src: data.pictures[example.picture], alt: "" });
      return element("button", attributes, frame(image), mark);
    }));
    at("previous").addEventListener("click", () => step(-1));
    at("next").addEventListener("click", () => step(1));
    at("reset").addEventListener("click", () => change({ kind: "", region: "", theme: "", answers: "" }));
    at("sheet").addEventListener("click", () => saveSheet(examples[state.example], [...state.on]));
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
}

if (at("explorer")) explorer();
