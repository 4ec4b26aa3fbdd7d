// A table of two lists of words, darker where a network paired them more, blank where exactly not.

function heatMap(words, others, weights, caption, colour) {
  const head = element("tr", {}, element("td"), ...others.map((word) =>
    element("th", { scope: "col" }, element("span", {}, word))));
  const rows = words.map((word, i) => element("tr", {}, element("th", { scope: "row" }, word),
    ...weights[i].map((weight, j) => {
      const cell = element("td", { class: weight ? "cell" : "cell none",
        title: `${word} \u2013 ${others[j]}: ${weight ? weight.toPrecision(3) : "exactly 0"}` });
      cell.style.setProperty("--part", weight ? `${8 + 92 * Math.min(1, weight)}%` : "0%");
      return cell;
    })));
  const table = element("table", { class: "alignment" }, element("caption", {}, caption),
    element("thead", {}, head), element("tbody", {}, ...rows));
  table.style.setProperty("--colour", colour);
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, table);
}
