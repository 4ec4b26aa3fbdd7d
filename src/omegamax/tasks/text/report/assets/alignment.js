// Two sentences: a table of their words, darker where the network compared them more, blank where exactly not.

function pairPanel(example, index) {
  const look = example.looks[index];
  const maps = look.mutual ? [["one-to-one", look.onward]]
    : [["each row sums to one", look.onward], ["each column sums to one", look.back]];
  const shown = maps.map(([text, weights]) => heatMap(example, weights, text, data.models[index].colour));
  return panelOf(example, index, element("div", { class: "maps" }, ...shown));
}

function heatMap(example, weights, caption, colour) {
  const head = element("tr", {}, element("td"), ...example.second.map((word) =>
    element("th", { scope: "col" }, element("span", {}, word))));
  const rows = example.words.map((word, i) => element("tr", {}, element("th", { scope: "row" }, word),
    ...weights[i].map((weight, j) => {
      const cell = element("td", { class: weight ? "cell" : "cell none",
        title: `${word} \u2013 ${example.second[j]}: ${weight ? weight.toPrecision(3) : "exactly 0"}` });
      cell.style.setProperty("--part", weight ? `${8 + 92 * Math.min(1, weight)}%` : "0%");
      return cell;
    })));
  const table = element("table", { class: "alignment" }, element("caption", {}, caption),
    element("thead", {}, head), element("tbody", {}, ...rows));
  table.style.setProperty("--colour", colour);
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, table);
}

function pairKey() {
  const sample = (kind, text) =>
    element("li", { "data-mark": kind }, element("span", { class: `sample ${kind}` }, "\u00a0"), text);
  return element("ul", {}, sample("whole", "compared with this word alone"), sample("blank", "exactly not compared"));
}
