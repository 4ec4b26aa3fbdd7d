// Words that can follow what was typed, asked for anew with each letter.

const END = "the end";
let listed = [];  // what the list shows: { word, text, probability }, a text of null for the end
let chosen = 0;
let waiting = false;  // for an answer
let changed = false;  // what was typed, since the question

// Of small numbers as many digits as tell them from zero: no word here has none.
const share = (p) => (p >= 0.001 ? percent(p) : p >= 1e-6 ? (100 * p).toPrecision(1) + "%" : "< 0.0001%");

// One question at a time: who types faster than the network answers is answered to the last letter.
async function ask() {
  changed = true;
  at("words").setAttribute("aria-busy", "true");
  if (waiting) return;
  waiting = true;
  let found;
  while (changed) {
    changed = false;
    found = await put();
  }
  waiting = false;
  show(found);
}

async function put() {
  const body = JSON.stringify({ source: at("source").value, prefix: at("prefix").value });
  try {
    const answer = await fetch("/next", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    return await answer.json();
  } catch {
    return { error: "The network does not answer; is omegamax translate type still running?" };
  }
}

function show(found) {
  at("words").removeAttribute("aria-busy");
  at("wrong").textContent = found.error ?? "";
  listed = found.words ?? [];
  if (found.end > 0) listed = [...listed, { word: END, text: null, probability: found.end }];
  listed.sort((a, b) => b.probability - a.probability);
  chosen = 0;
  at("said").textContent = found.words ? say(found) : "";
  if (found.impossible != null) at("wrong").textContent = `The network would never say \u201c${found.impossible}\u201d here.`;
  const most = Math.max(...listed.map(({ probability }) => probability), 0);
  at("words").replaceChildren(...listed.map((each, place) => line(each, place, most)));
  mark();
}

function say({ complete, rest, letters }) {
  const count = `${listed.length} ${listed.length === 1 ? "word" : "words"}`;
  const with_ = letters ? ` that ${listed.length > 1 ? "begin" : "begins"} with \u201c${letters}\u201d` : "";
  if (complete) return listed.length ? `${count}${with_} can follow, and no other.` : `No word${with_} can follow.`;
  return `The ${count}${with_} that are likeliest; others have ${share(rest)} together.`;
}

function line({ word, text, probability }, place, most) {
  const bar = element("span", { class: "bar" }, element("span"));
  bar.firstChild.style.width = `${(100 * probability) / most}%`;
  const attributes = { role: "option", id: `word-${place}`, class: text == null ? "end" : null, click: () => take(place) };
  const shown = element("span", { class: "share" }, share(probability));
  return element("li", attributes, element("span", { class: "word" }, word), bar, shown);
}

function mark() {
  for (const [place, each] of [...at("words").children].entries()) {
    each.setAttribute("aria-selected", String(place === chosen));
    if (place === chosen) each.scrollIntoView({ block: "nearest" });
  }
  if (listed.length) at("prefix").setAttribute("aria-activedescendant", `word-${chosen}`);
  else at("prefix").removeAttribute("aria-activedescendant");
}

function take(place) {
  const { text } = listed[place] ?? {};
  if (text == null) {
    if (listed[place]) at("said").textContent = "The translation ends here.";
    return;
  }
  at("prefix").value = `${text} `;
  at("prefix").focus();
  listed = [];  // another Enter waits for the answer
  ask();
}

at("prefix").addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && listed.length) {
    chosen = (chosen + step + listed.length) % listed.length;
    mark();
  } else if (event.key === "Enter") take(chosen);
  else return;
  event.preventDefault();
});
at("prefix").addEventListener("input", ask);
at("source").addEventListener("input", ask);
document.querySelector(".lead").append(` The network is ${data.network}.`);
if (!data.sparse) at("said").textContent = "With this output every word has some probability.";
at("source").value = data.source;
if (data.source) ask();
at(data.source ? "prefix" : "source").focus();
