// How elements are made. Text only ever enters as text, never as markup.

const at = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function drawn(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value != null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child != null));
  return made;
}

// An SVG of so many pixels, described in words.
function chart(width, height, label, ...children) {
  const box = { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart" };
  return drawn("svg", label ? { ...box, role: "img", "aria-label": label } : box, ...children);
}

const text = (x, y, words, more = {}) => drawn("text", { x, y, ...more }, words);
const line = (x1, y1, x2, y2, more = {}) => drawn("line", { x1, y1, x2, y2, ...more });
const polyline = (points, more = {}) =>
  drawn("polyline", { points: points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "), fill: "none", ...more });

// Numbers as they are read: no more digits than tell something, a true minus, an exact 0 as "0".
function digits(x, count = 2) {
  if (x == null || Number.isNaN(x)) return "\u2013";
  if (!Number.isFinite(x)) return x > 0 ? "\u221e" : "\u2212\u221e";
  if (x === 0) return "0";
  const shown = Math.abs(x) < 0.5 * 10 ** -count ? x.toExponential(0) : x.toFixed(count);
  return shown.replace("-", "\u2212");
}

// For code and links: rounded to what the controls can set.
const plain = (x) => String(Number(x.toFixed(6)));

function copy(words, button) {
  const told = (said) => {
    const before = button.textContent;
    button.textContent = said;
    announce(said, "copy");
    setTimeout(() => { button.textContent = before; }, 1400);
  };
  if (button.dataset.busy) return;
  button.dataset.busy = "1";
  setTimeout(() => { delete button.dataset.busy; }, 1500);
  const byHand = () => {
    const area = element("textarea", { "aria-hidden": "true", class: "unseen" });
    area.value = words;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    told(done ? "Copied" : "Copy it by hand");
  };
  if (navigator.clipboard) navigator.clipboard.writeText(words).then(() => told("Copied"), byHand);
  else byHand();
}

// What a screen reader is told, once things have come to rest: the last word on each topic.
const untold = new Map();
let saying = 0;
function announce(words, topic = "cards") {
  untold.set(topic, words);
  clearTimeout(saying);
  saying = setTimeout(() => {
    at("said").textContent = [...untold.values()].join(". ");
    untold.clear();
  }, 350);
}
