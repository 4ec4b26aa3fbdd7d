// Photographs, the captions of every model, and a map for each word.

function stripExplorer() {
  const { examples } = data, MOST = 40;
  const theme = (example) => example.theme ?? "drawn";
  const text = (look) => look.words.join(" ");
  const alike = (example) => new Set(example.looks.filter(Boolean).map(text)).size < 2;
  const ZEROS = { white: "zero is white", photograph: "zero shows the photograph" };
  let zeros = "white", again = () => {};

  // Words that several captions have, the most frequent first.
  const counts = new Map();
  for (const word of examples.flatMap((example) => example.said)) counts.set(word, (counts.get(word) ?? 0) + 1);
  const frequent = [...counts].filter(([, n]) => n > 1).sort((a, b) => b[1] - a[1]).slice(0, MOST).map(([word]) => word).sort();

  function show(example, view) {
    again = () => show(example, view);
    const { on, large, enlarge } = view;
    const photograph = element("img", { src: example.picture, alt: "The photograph" });
    at("photograph").replaceChildren(photograph);
    const about = [example.id, example.theme == null ? null : `picked for: ${example.theme}`,
      example.objects.length ? `with ${example.objects.join(", ")}` : null];
    at("asked").replaceChildren(
      element("h3", {}, example.references.length ? "What people wrote" : "Nobody wrote a caption of it"),
      element("ul", { id: "references" }, ...example.references.map((each) => element("li", {}, each))),
      element("p", { class: "muted" }, ...about.filter(Boolean).map((word) => element("span", {}, word))));
    keepingFocus(at("zeros"), Object.entries(ZEROS).map(([name, label]) =>
      toggle(label, zeros === name, () => { zeros = name; again(); })));
    at("key").replaceChildren(scale(example.ticks));
    showLooks(on.map((i) => panel(example, i, photograph, i === large, () => enlarge(i))));
    photograph.decode().then(() => photograph.classList.toggle("pixels", photograph.naturalWidth < 160));
  }

  function scale(ticks) {
    const numbers = ticks.map(([place, label]) => {
      const made = element("span", {}, label);
      made.style.left = 100 * place + "%";
      return made;
    });
    const bar = element("div", { class: "scale" }, element("img", { src: data.scale, alt: "Colours from none to the most" }),
      element("div", { class: "ticks" }, ...numbers));
    return element("ul", {}, element("li", { "data-mark": "colours" }, bar, data.label));
  }

  function panel(example, i, photograph, large, enlarge) {
    const model = data.models[i], look = example.looks[i];
    const heading = element("h3", {}, dot(model.colour), model.name);
    const attributes = { class: large ? "panel large" : "panel", "data-model": model.name };
    if (!look) return element("article", attributes, heading, element("p", { class: "muted" }, "No caption of this photograph."));
    const numbers = element("dl", { class: "numbers" },
      ...fact("words", String(look.words.length), "In the caption"),
      ...(look.rep == null ? [] : fact("REP", look.rep.toFixed(1) + "%", "Repetitions, in percent of reference words")),
      ...fact("zero", percent(look.zero, 0), "Cells with exactly no attention"),
      ...fact("JS", decimal(look.divergence), "Between the maps of successive words, in bits"),
      ...fact("log p", look.log_probability == null ? DASH : look.log_probability.toFixed(2), "Of the caption"));
    return element("article", attributes, heading,
      element("p", { class: "said" }, look.words.length ? text(look) : element("span", { class: "muted" }, "(nothing)")),
      numbers, strip(look, photograph, model, large, enlarge));
  }

  function strip(look, photograph, model, large, enlarge) {
    if (!look.maps.length) return element("p", { class: "muted" }, look.words.length ? "Its maps were not kept." : "");
    const maps = look.words.map((word, w) => {
      const label = `Where ${model.name} looked for \u201c${word}\u201d`;
      const press = { type: "button", class: "map", click: enlarge, "aria-expanded": String(large), "aria-label": label };
      const frame = element("button", press);
      photograph.decode().then(() => {
        const colour = zeros === "white" ? "#fff" : null;
        const canvas = drawMap(photograph, levelsOf(look.maps[w]), look.size, data.shades, { zeros: colour, pale: 0.45 });
        canvas.classList.toggle("pixels", photograph.naturalWidth < 160);
        frame.append(canvas);
      });
      return element("figure", {}, frame, element("figcaption", {}, word));
    });
    return element("div", { class: "maps scroll", role: "group", "aria-label": `Maps of ${model.name}` }, ...maps);
  }

  explorer({
    filters: {
      word: { all: "any word", choices: frequent.map((word) => [word, word]), passes: (e, word) => e.said.includes(word) },
      theme: {
        all: "anything",
        choices: present(examples, theme).map(([name]) => [name, name === "drawn" ? "nothing: drawn at random" : name]),
        passes: (e, what) => theme(e) === what,
      },
      same: {
        all: "all",
        choices: [["same", "all the same"], ["differ", "that differ"]],
        passes: (e, which) => alike(e) === (which === "same"),
      },
    },
    describe: (example) => example.looks.filter(Boolean).map(text)[0] ?? example.id,
    thumbnail: (example) => element("img", { src: example.picture, alt: "" }),
    show,
  });
}

if (at("explorer")) stripExplorer();
