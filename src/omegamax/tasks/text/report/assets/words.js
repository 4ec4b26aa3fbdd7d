// A text, its words in the colours of their attention; above them weights as bars, and a density as a curve.

function wordsPanel(example, index) {
  const model = data.models[index], look = example.looks[index];
  const top = Math.max(...look.weights, 1e-30), highest = Math.max(...(look.bars ?? []), 1e-30);
  const words = example.words.map((word, i) => {
    const kinds = ["word", look.empty[i] ? "none" : "", example.marks?.[i] ? "marked" : ""].filter(Boolean);
    const hint = look.empty[i] ? `${word}: exactly no attention` : `${word}: ${look.weights[i].toPrecision(3)}`;
    const said = element("span", { class: "said" }, word);
    said.style.setProperty("--part", look.empty[i] ? "0%" : `${(40 * look.weights[i]) / top}%`);
    return element("span", { class: kinds.join(" "), title: hint }, above(look, i, highest), said);
  });
  const dir = leftwards(example.words) ? "rtl" : "ltr";
  const body = element("p", { class: look.density ? "words dense" : "words", dir }, ...words);
  body.style.setProperty("--colour", model.colour);
  return panelOf(example, index, body);
}

// Whether the first letter of a text is of a script that is written from right to left.
function leftwards(words) {
  const letter = words.join(" ").match(/\p{L}/u)?.[0] ?? "";
  return /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u.test(letter);
}

// The piece of the picture above a word, as wide as the word.
function above(look, i, highest) {
  const parts = [];
  if (look.bars && look.bars[i] > 0) {
    const height = look.bars[i] / highest;
    parts.push(drawn("rect", { class: "weight", x: 0.04, width: 0.92, y: 1 - height, height }));
  }
  if (look.density) {
    const p = look.density.slice(i * look.points, (i + 1) * look.points + 1);
    const place = (value, k) => `${(k / look.points).toFixed(3)},${(1 - value).toFixed(3)}`;
    parts.push(drawn("polygon", { class: "under", points: `0,1 ${p.map(place).join(" ")} 1,1` }));
    // The curve itself only where there is any density.
    for (let k = 0; k < look.points; k++) {
      if (p[k] > 0 || p[k + 1] > 0) {
        parts.push(drawn("polyline", { class: "over", points: `${place(p[k], k)} ${place(p[k + 1], k + 1)}` }));
      }
    }
  }
  const box = { class: "above", viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" };
  return drawn("svg", box, ...parts);
}

// Heading, what is shown, the classes, and numbers of a look.
function panelOf(example, index, ...body) {
  const model = data.models[index], look = example.looks[index];
  const numbers = [];
  if (look.empty) {
    const zero = look.empty.filter(Boolean).length;
    numbers.push(...fact("words with exactly none", `${zero} of ${look.empty.length}`, "No attention at all"));
    if (example.marks?.some(Boolean)) numbers.push(...fact("token F1", percent(overlap(example, look), 0), "Against marks"));
  }
  return element("article", { class: "panel", "data-model": model.name },
    element("h3", {}, dot(model.colour), model.name),
    ...body,
    element("div", { class: "facts" },
      verdict(look),
      element("ol", { class: "answers" }, ...look.answers.map((answer) => answerLine(answer, model.colour))),
      numbers.length ? element("dl", { class: "numbers" }, ...numbers) : null));
}

// The F1 score of the words with any attention against those marked.
function overlap(example, look) {
  const chosen = look.empty.map((none) => !none);
  const both = chosen.filter((on, i) => on && example.marks[i]).length;
  return (2 * both) / (chosen.filter(Boolean).length + example.marks.filter(Boolean).length);
}

function wordsKey(looks, marked) {
  const sample = (kind, text) => element("li", { "data-mark": kind }, element("span", { class: `sample ${kind}` }, "word"), text);
  const items = [sample("most", "most attention of the text"), sample("none", "exactly no attention")];
  if (marked) items.push(sample("marked", "marked as telling the class"));
  if (looks.some((look) => look?.bars)) items.push(element("li", { "data-mark": "bars" }, "bars: weights of the words"));
  if (looks.some((look) => look?.density)) {
    items.push(element("li", { "data-mark": "density" }, "curve: density over the text"));
  }
  return element("ul", {}, ...items);
}
