// The pictures of an example, and every model's look at it.

function pictureExplorer() {
  const { examples } = data;
  const REGIONS = { one: "one thing", several: "several, far apart", odd: "odd shape", none: "none in particular" };
  const region = (example) => example.region ?? "none";
  const theme = (example) => example.theme ?? "first";

  function show(example, { on, large, enlarge }) {
    const picked = example.theme == null ? null : `picked for: ${example.theme}`;
    showAsked(example.question, example.answer, [example.kind, REGIONS[example.region] ?? example.region, example.id, picked]);
    const alt = `The picture asked about: ${example.question}`;
    const plain = [picturePanel("picture", example.picture, alt, fileName(example.id, "picture"), example.note)];
    if (example.relevance != null) {
      const file = fileName(example.id, "relevance");
      plain.push(picturePanel("what matters", example.relevance, "What matters for the answer", file));
    }
    at("plain").replaceChildren(...plain);
    at("key").replaceChildren(...keyList(example, on.map((i) => example.looks[i])));
    showLooks(on.map((i) => lookPanel(example, i, i === large, () => enlarge(i))));
    at("fits").replaceChildren(...on.filter((i) => example.looks[i]?.fits.length).map((i) => fitsPanel(example, i)));
  }

  const explored = explorer({
    filters: {
      kind: { all: "all kinds", choices: present(examples, (e) => e.kind), passes: (e, kind) => e.kind === kind },
      region: {
        all: "all regions",
        choices: present(examples, region).map(([name]) => [name, REGIONS[name] ?? name]),
        passes: (e, where) => region(e) === where,
      },
      theme: {
        all: "anything",
        choices: present(examples, theme).map(([name]) => [name, name === "first" ? "nothing: first of its kind" : name]),
        passes: (e, what) => theme(e) === what,
      },
      answers: answersFilter(),
    },
    describe: (example) => example.question,
    thumbnail: (example) => frame(element("img", { src: data.pictures[example.picture], alt: "" })),
    show,
  });
  at("sheet").addEventListener("click", () => saveSheet(...explored()));
}

if (at("explorer")) pictureExplorer();
