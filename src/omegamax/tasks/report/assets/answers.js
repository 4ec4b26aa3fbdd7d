// What a model answered: a verdict, the likeliest answers with probabilities, numbers, and a file to keep.

function verdict(look) {
  const [first] = look.answers;
  return element("p", { class: "verdict" }, element("b", {}, first ? first[0] : DASH), " ", mark(look.right));
}

function mark(right) {
  if (right == null) return null;
  return element("span", { class: right ? "right" : "wrong" }, right ? "\u2713 right" : "\u2717 wrong");
}

function answerLine([answer, probability], colour) {
  const bar = element("span", { class: "probability" });
  bar.style.setProperty("--colour", colour);
  bar.style.width = 100 * Math.min(1, Math.max(0, probability ?? 0)) + "%";
  return element("li", {}, element("span", {}, answer), element("span", { class: "value" }, percent(probability)),
    element("span", { class: "track", "aria-hidden": "true" }, bar));
}

function fact(name, value, hint) {
  return [element("dt", { title: hint }, name), element("dd", {}, value)];
}

function download(source, file, label = "Download PNG") {
  return element("a", { class: "download", href: source, download: file }, label);
}
