// Two sentences: a table of their words, darker where the network compared them more, blank where exactly not.

function pairPanel(example, index) {
  const look = example.looks[index];
  const maps = look.mutual ? [["one-to-one", look.onward]]
    : [["each row sums to one", look.onward], ["each column sums to one", look.back]];
  const shown = maps.map(([text, weights]) => heatMap(example.words, example.second, weights, text, data.models[index].colour));
  return panelOf(example, index, element("div", { class: "maps" }, ...shown));
}

function pairKey() {
  const sample = (kind, text) =>
    element("li", { "data-mark": kind }, element("span", { class: `sample ${kind}` }, "\u00a0"), text);
  return element("ul", {}, sample("whole", "compared with this word alone"), sample("blank", "exactly not compared"));
}
