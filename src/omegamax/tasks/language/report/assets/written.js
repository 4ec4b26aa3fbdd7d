// Prompts, and the texts that every model wrote after them; the shade of a piece tells how many tokens were possible.

function writtenExplorer() {
  const { examples } = data;
  const begin = (text, room) => (text.length > room ? text.slice(0, room).replace(/\s+\S*$/, "") + " \u2026" : text);
  const name = (example, room) => begin(example.prompt, room) || "(no prompt)";
  // From none, a single token, to half a coat, all of them.
  const share = (size, all) => (all > 1 ? (55 * Math.log(Math.max(1, size))) / Math.log(all) : 0);
  const ended = (example) => example.looks.filter(Boolean).every((look) => look.texts.every((text) => text.finished));

  function piece(text, size, all) {
    const made = element("span", { class: "piece", title: `${size.toLocaleString("en")} of ${all.toLocaleString("en")} possible` }, text);
    made.style.setProperty("--share", share(size, all).toFixed(1));
    return made;
  }

  function panel(example, i) {
    const model = data.models[i], look = example.looks[i];
    const heading = element("h3", {}, dot(model.colour), model.name);
    const made = element("article", { class: "panel", "data-model": model.name }, heading);
    made.style.setProperty("--colour", model.colour);
    if (!look) return filled(made, {}, [element("p", { class: "muted" }, "No text after this prompt.")]);
    const sizes = look.texts.flatMap((text) => text.sizes);
    const mean = sizes.length ? sizes.reduce((a, b) => a + b, 0) / sizes.length : null;
    const numbers = element("dl", { class: "numbers" },
      ...fact("possible", mean == null ? DASH : mean.toFixed(1), "Tokens at a step, in the mean"),
      ...fact("log p", look.texts[0]?.log_probability == null ? DASH : look.texts[0].log_probability.toFixed(1), "Of the first text"));
    const texts = look.texts.map((text) => element("p", { class: "written" },
      ...text.pieces.map((each, k) => piece(each, text.sizes[k], example.vocabulary)), text.finished ? null : " \u2026"));
    return filled(made, {}, [numbers, ...texts]);
  }

  function show(example, { on }) {
    at("asked").replaceChildren(
      element("p", { id: "prompt" }, example.prompt || element("span", { class: "muted" }, "(no prompt: a text from its beginning)")),
      ...(example.truth ? [element("p", { id: "truth", class: "muted" }, `It went on: ${begin(example.truth, 400)}`)] : []));
    const steps = [1, 10, 100, 1000].filter((size) => size < example.vocabulary).concat(example.vocabulary);
    const swatches = steps.map((size) => piece(size.toLocaleString("en"), size, example.vocabulary));
    at("key").replaceChildren(element("span", { class: "swatches" }, "tokens that could have come:", ...swatches));
    showLooks(on.map((i) => panel(example, i)));
  }

  explorer({
    filters: {
      ending: {
        all: "all",
        choices: [["ended", "that all end by themselves"], ["cut", "of which some were cut"]],
        passes: (example, which) => ended(example) === (which === "ended"),
      },
    },
    describe: (example) => name(example, 160),
    thumbnail: (example) => element("span", { class: "beginning" }, name(example, 60)),
    show,
  });
  for (const part of [at("strip"), at("place").closest(".controls")]) part.hidden = examples.length < 2;
}

if (at("explorer")) writtenExplorer();
