// Texts, and which words of them every model looked at.

function textExplorer() {
  const { examples } = data, pairs = examples[0].second != null, alone = examples.length < 2;
  const BOUNDS = [10, 20, 50, 100, 200, 400, 1000];
  const theme = (example) => example.theme ?? "first";
  const size = (example) => Math.max(example.words.length, example.second?.length ?? 0);
  const bucket = (example) => String(BOUNDS.find((most) => size(example) <= most) ?? "more");
  const text = (most) => (most === "more" ? `more than ${BOUNDS.at(-1)} words` : `up to ${most} words`);
  const lengths = [...BOUNDS.map(String), "more"].filter((most) => examples.some((e) => bucket(e) === most));
  const begin = (words, room) => {
    const all = words.join(" ");
    return all.length > room ? all.slice(0, room).replace(/\s+\S*$/, "") + " \u2026" : all;
  };
  const name = (example, room) => [example.words, example.second].filter(Boolean).map((w) => begin(w, room)).join(" \u2192 ");

  function show(example, { on }) {
    const picked = example.theme == null ? null : `picked for: ${example.theme}`;
    const words = pairs ? null : `${size(example)} words`;
    const known = alone && example.label == null ? null : "class";
    showAsked(name(example, 110), example.label, [words, alone ? null : example.id, picked], known);
    const looks = on.map((i) => example.looks[i]);
    at("key").replaceChildren(pairs ? pairKey() : wordsKey(looks, example.marks?.some(Boolean)));
    showLooks(on.map((i) => panel(example, i)));
  }

  function panel(example, i) {
    if (example.looks[i]) return pairs ? pairPanel(example, i) : wordsPanel(example, i);
    const heading = element("h3", {}, dot(data.models[i].colour), data.models[i].name);
    return element("article", { class: "panel", "data-model": data.models[i].name }, heading,
      element("p", { class: "muted" }, "No look at this text."));
  }

  explorer({
    filters: {
      label: {
        all: "all classes",
        choices: present(examples.filter((e) => e.label != null), (e) => e.label),
        passes: (e, label) => e.label === label,
      },
      length: {
        all: "any",
        choices: lengths.map((most) => [most, text(most)]),
        passes: (e, most) => bucket(e) === most,
      },
      theme: {
        all: "anything",
        choices: present(examples, theme).map(([name]) => [name, name === "first" ? "nothing: first of its class" : name]),
        passes: (e, what) => theme(e) === what,
      },
      answers: answersFilter(true),
    },
    describe: (example) => name(example, 160),
    thumbnail: (example) => element("span", { class: "beginning" }, name(example, 44)),
    show,
  });
  // One text alone: there is nothing to pick.
  const about = [at("strip"), at("place").closest(".controls"), document.querySelector(".hint")];
  for (const part of about) part.hidden = alone;
}

if (at("explorer")) textExplorer();
