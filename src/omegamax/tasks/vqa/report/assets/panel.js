// One look: heading, picture, answers with probabilities, numbers, and the picture to keep.

function picturePanel(title, picture, alt, file, note) {
  const source = data.pictures[picture];
  return element("article", { class: "panel plain", "data-panel": title },
    element("h3", {}, title),
    frame(element("img", { src: source, alt })),
    note == null ? null : element("p", { class: "note" }, note),
    download(source, file));
}

function lookPanel(example, index, large, enlarge) {
  const model = data.models[index], look = example.looks[index];
  const heading = element("h3", {}, dot(model.colour), model.name);
  const attributes = { class: large ? "panel large" : "panel", "data-model": model.name };
  const none = element("p", { class: "muted" }, "No look at this example.");
  if (!look) return element("article", attributes, heading, none);
  const source = data.pictures[look.picture];
  const alt = `Where ${model.name} looked to answer: ${example.question}`;
  const press = {
    type: "button", class: "picture", click: enlarge, "aria-expanded": String(large),
    "aria-label": large ? `Make the look of ${model.name} small` : `Enlarge the look of ${model.name}`,
  };
  return element("article", attributes,
    heading,
    element("button", press, frame(element("img", { src: source, alt }))),
    element("div", { class: "facts" },
      verdict(look),
      element("ol", { class: "answers" }, ...look.answers.map((answer) => answerLine(answer, model.colour))),
      element("dl", { class: "numbers" },
        ...(look.divergence == null ? [] : fact("JSD", decimal(look.divergence), "Divergence from what matters, in bits")),
        ...(look.inside == null ? [] : fact("inside", percent(look.inside, 0), "Share of the attention on what matters")),
        ...(look.components == null ? [] : fact("K*", String(look.components), "Components of the mixture"))),
      element("button", { type: "button", class: "keyed", click: () => saveLook(example, index) }, "PNG with key"),
      " ",
      download(source, fileName(example.id, model.name), "bare PNG")));
}

// A mixture with 1, 2, ... components side by side, the number that was selected marked.
function fitsPanel(example, index) {
  const model = data.models[index], look = example.looks[index];
  const panels = look.fits.map((fit) => {
    const chosen = fit.components === look.components, source = data.pictures[fit.picture];
    const title = `K = ${fit.components}${chosen ? " = K*" : ""}`;
    const alt = `${model.name} with ${fit.components} component${fit.components > 1 ? "s" : ""}: ${fit.answer}`;
    return element("figure", { class: chosen ? "fit chosen" : "fit", "data-components": fit.components },
      element("figcaption", {}, title),
      frame(element("img", { src: source, alt })),
      element("p", { class: "verdict" }, element("b", {}, fit.answer), " ", mark(fit.right)),
      download(source, fileName(example.id, model.name, `K-${fit.components}`)));
  });
  const chosen = look.fits.some((fit) => fit.components === look.components);
  const heading = element("h3", {}, dot(model.colour), `${model.name}: numbers of components side by side`);
  const hint = chosen ? `K* = ${look.components} is the number that was selected.` : "";
  const keep = element("button", { type: "button", class: "keyed", click: () => saveFits(example, index) },
    "Download these side by side, with the key (PNG)");
  return element("article", { class: "panel fits", "data-model": model.name },
    heading, element("p", { class: "note" }, hint), element("div", { class: "fitted" }, ...panels), keep);
}

// A picture of few pixels is shown as such, not blurred.
function frame(image) {
  const sharpen = () => image.classList.toggle("pixels", image.naturalWidth < 160);
  image.complete ? sharpen() : image.addEventListener("load", sharpen);
  return image;
}
