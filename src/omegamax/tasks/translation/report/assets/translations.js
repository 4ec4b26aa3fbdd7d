// Sentences, what every model made of them, and where it looked for each subword.

function translationExplorer() {
  const { examples } = data;
  const BOUNDS = [10, 20, 30, 50];
  const bucket = (example) => String(BOUNDS.find((most) => example.words.length <= most) ?? "more");
  const text = (most) => (most === "more" ? `more than ${BOUNDS.at(-1)} subwords` : `up to ${most} subwords`);
  const lengths = [...BOUNDS.map(String), "more"].filter((most) => examples.some((e) => bucket(e) === most));
  const looks = (example) => example.looks.filter(Boolean);
  const SEARCHES = { all: "all proven exact", some: "some proven exact", none: "none proven exact" };

  const chance = (p) => (p == null ? DASH : p >= 0.001 ? percent(p) : p.toExponential(1));

  function show(example, { on }) {
    showAsked(example.text, example.reference, [example.id], "reference");
    showLooks(on.map((i) => panel(example, i)));
  }

  function panel(example, i) {
    const { name, colour } = data.models[i], look = example.looks[i];
    const heading = element("h3", {}, dot(colour), name);
    const attributes = { class: "panel", "data-model": name };
    if (!look) return element("article", attributes, heading, element("p", { class: "muted" }, "No look at this one."));
    const proof = look.complete ? "the only one there is" : look.exact ? "proven the most probable" : "not proven the best";
    const follow = look.support.reduce((a, b) => a + b, 0) / look.support.length;
    const known = `probability ${chance(look.probability)}; ${proof}; ${follow.toFixed(1)} words could follow on average`;
    const rows = look.target.map((piece, t) => `${piece} (${look.support[t]})`);
    const caption = "where it looked; in brackets, how many words could follow";
    return element("article", attributes, heading, element("p", { class: "translation" }, look.text || DASH),
      element("p", { class: "known muted" }, known), heatMap(rows, example.words, look.weights, caption, colour));
  }

  explorer({
    filters: {
      length: { all: "any", choices: lengths.map((most) => [most, text(most)]), passes: (e, most) => bucket(e) === most },
      search: {
        all: "any",
        choices: Object.entries(SEARCHES),
        passes: (e, which) => ({
          all: looks(e).every((look) => look.exact),
          some: looks(e).some((look) => look.exact),
          none: !looks(e).some((look) => look.exact),
        })[which],
      },
    },
    describe: (example) => example.text,
    thumbnail: (example) => element("span", { class: "beginning" }, example.text),
    show,
  });
}

if (at("explorer")) translationExplorer();
